// A client in another process, for contract tests: its calls are messages, and its memory is what
// it was given by descriptor. Client and kernel are one process here.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments/table.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/core/process.h"
#include "tests/contract/fixture.h"
#include "wire/client_call.h"
#include "wire/server_session.h"
#include "wire/windows.h"

namespace dxgkit::contract {

inline constexpr uint64_t kBytes = 16 * kKibibyte;
inline constexpr uint32_t kVideoMemory = 1U << 0;
inline constexpr UINT kCreateResource = 1U << 0, kCreateShared = 1U << 1,
                      kNtSecuritySharing = 1U << 6;

/// A client in another process.
class Elsewhere {
 public:
  /// `quota`: of the client's user; null: there is no limit.
  explicit Elsewhere(Client& client, std::shared_ptr<dxgk::ClientQuota> quota = nullptr)
      : client_(client),
        windows(wire::make_windows(*client.stack.system, *client.process, std::move(quota))),
        session_(*client.stack.system, *client.process, windows) {}
  ~Elsewhere() { forget_objects(); }

  template <typename Args>
  NTSTATUS call(std::string_view name, Args& args) {
    wire::ClientCall call(arguments::number_of(name), &args, memory);
    if (call.answer().has_value()) return static_cast<NTSTATUS>(*call.answer());
    std::vector<wire::UniqueFd> given;
    for (const int fd : call.descriptors()) given.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    wire::Reply reply = session_.handle(call.message(), std::move(given));
    EXPECT_EQ(reply.refusal, "");
    for (const wire::UniqueFd& one : reply.descriptors)
      objects.push_back(fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    const auto result = call.finish(reply.bytes, std::move(reply.descriptors));
    EXPECT_TRUE(result.has_value());
    undone = call.undo();
    return static_cast<NTSTATUS>(result.value_or(-1));
  }

  /// The server's half of a call.
  wire::Reply handle(std::span<const std::byte> message, std::vector<wire::UniqueFd> given = {}) {
    return session_.handle(message, std::move(given));
  }

  /// The client's side of `ServerSession::set_answers_early`.
  void let_answer_early() { session_.set_answers_early(true); }
  void answered() { session_.answered(); }

  D3DKMT_HANDLE make_allocation(uint32_t segments, UINT flags = 0,
                                D3DKMT_HANDLE* resource = nullptr,
                                D3DKMT_HANDLE* global = nullptr) {
    ScriptedAllocation description;
    description.size = kBytes;
    description.supported_read = description.supported_write = segments;
    description.flags = 1;  // CpuVisible
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &description;
    info.PrivateDriverDataSize = sizeof description;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client_.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    std::memcpy(&create.Flags, &flags, sizeof flags);
    EXPECT_EQ(call("D3DKMTCreateAllocation2", create), 0);
    if (resource != nullptr) *resource = create.hResource;
    if (global != nullptr) *global = create.hGlobalShare;
    return info.hAllocation;
  }
  char* lock(D3DKMT_HANDLE allocation) {
    D3DKMT_LOCK2 args{};
    args.hDevice = client_.device;
    args.hAllocation = allocation;
    EXPECT_EQ(call("D3DKMTLock2", args), 0);
    EXPECT_NE(args.pData, nullptr);
    return static_cast<char*>(args.pData);
  }
  void unlock(D3DKMT_HANDLE allocation) {
    D3DKMT_UNLOCK2 args{};
    args.hDevice = client_.device;
    args.hAllocation = allocation;
    EXPECT_EQ(call("D3DKMTUnlock2", args), 0);
  }
  NTSTATUS destroy(D3DKMT_HANDLE allocation, D3DKMT_HANDLE resource = 0) {
    D3DKMT_DESTROYALLOCATION2 args{};
    args.hDevice = client_.device;
    args.hResource = resource;
    args.phAllocationList = resource == 0 ? &allocation : nullptr;
    args.AllocationCount = resource == 0 ? 1 : 0;
    return call("D3DKMTDestroyAllocation2", args);
  }
  void forget_objects() {
    for (const int fd : objects) close(fd);
    objects.clear();
  }

  wire::KernelMemory memory{wire::KernelMemory::Pages::kExchange};
  std::optional<wire::Unwanted> undone;  // of the last call
  std::vector<int> objects;              // the client's, of all replies

 private:
  Client& client_;

 public:
  const std::shared_ptr<wire::Windows> windows;

 private:
  wire::ServerSession session_;
};

}  // namespace dxgkit::contract
