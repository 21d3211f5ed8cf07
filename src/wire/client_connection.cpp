#include "wire/client_connection.h"

#include <d3dkmthk.h>
#include <ntstatus.h>

#include <string_view>
#include <utility>

#include "wire/client_call.h"

namespace dxgkit::wire {

std::expected<ClientConnection, std::string> ClientConnection::greet(UniqueFd socket,
                                                                     const Hello& hello) {
  Frame answer;
  if (!send_frame(socket.get(), encode(hello), std::span<const int>{}) ||
      receive_frame(socket.get(), &answer) != Received::kFrame)
    return std::unexpected("the server does not answer");
  const auto welcome = decode_welcome(answer.bytes);
  if (!welcome.has_value()) return std::unexpected(welcome.error());
  if (welcome->status < 0) return std::unexpected("the server refuses the connection");
  Mailbox mailbox;
  if (!answer.descriptors.empty()) mailbox = Mailbox::open(answer.descriptors.front());
  return ClientConnection(std::move(socket), std::move(mailbox), *welcome);
}

int64_t ClientConnection::call(KernelMemory& memory, uint32_t function, void* arguments) {
  constexpr size_t kKept = size_t{64} << 10;
  if (reply_.bytes.capacity() > kKept) reply_ = {};
  ClientCall call(function, arguments, memory);
  if (call.answer().has_value()) return *call.answer();
  std::optional<int64_t> result;
  if (socket_ && mailbox_.send(socket_.get(), call.message(), call.descriptors()) &&
      mailbox_.receive(socket_.get(), &reply_) == Received::kFrame)
    result = call.finish(reply_.bytes, std::exchange(reply_.descriptors, {}));
  if (result.has_value()) {
    if (call.undo().has_value()) take_back(memory, *call.undo());
    return *result;
  }
  socket_.reset();  // whatever comes next on it belongs to nothing
  return NTSTATUS{STATUS_DEVICE_REMOVED};
}

void ClientConnection::take_back(KernelMemory& memory, const Unwanted& done) {
  const auto call_it = [&](std::string_view name, auto args) {
    static_cast<void>(call(memory, arguments::number_of(name), &args));
  };
  switch (done.end) {
    case Unwanted::End::kDestroy: {
      D3DKMT_DESTROYALLOCATION2 args{};
      args.hDevice = done.device;
      args.hResource = done.resource;
      if (done.resource == 0) {
        args.phAllocationList = done.allocations.data();
        args.AllocationCount = static_cast<UINT>(done.allocations.size());
      }
      return call_it("D3DKMTDestroyAllocation2", args);
    }
    case Unwanted::End::kUnlock: {
      D3DKMT_UNLOCK args{};
      args.hDevice = done.device;
      args.NumAllocations = static_cast<UINT>(done.allocations.size());
      args.phAllocations = done.allocations.data();
      return call_it("D3DKMTUnlock", args);
    }
    case Unwanted::End::kUnlock2: {
      D3DKMT_UNLOCK2 args{};
      args.hDevice = done.device;
      args.hAllocation = done.allocations.front();
      return call_it("D3DKMTUnlock2", args);
    }
  }
}

}  // namespace dxgkit::wire
