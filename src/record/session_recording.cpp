#include "record/session_recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "record/message.h"
#include "record/moved_memory.h"
#include "runtime/runtime.h"
#include "wire/windows.h"

namespace dxgkit::record {

SessionRecording::SessionRecording(wire::UniqueFd file, const Process& process)
    : calls_(FileWriter::on(std::move(file)), process, kMostWaiting) {}

SessionRecording::~SessionRecording() = default;

void SessionRecording::watch(wire::Windows& windows) {
  windows.copy_all();
  windows.set_observer(MovedMemory::note);
}

wire::Reply SessionRecording::handle(wire::ServerSession& session,
                                     std::span<const std::byte> request,
                                     std::vector<wire::UniqueFd> descriptors) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  Call call;
  call.thread = static_cast<uint32_t>(gettid());
  call.begin = calls_.begin();
  call.time_ns = runtime.now();
  call.fences = reached();
  for (const wire::UniqueFd& one : descriptors) call.given.push_back(describe(one.get()));
  wire::Reply reply;
  {
    const MovedMemory moved(calls_, call.begin);
    reply = session.handle(request, std::move(descriptors));
  }
  if (!reply.refusal.empty()) return reply;  // it was no call
  call.duration_ns = runtime.now() - call.time_ns;
  call.request.assign(request.begin(), request.end());
  call.reply = reply.bytes;
  wire::Reader head(request);
  static_cast<void>(head.take(sizeof(uint32_t)));
  static_cast<void>(head.get(&call.function));
  wire::Reader answer(reply.bytes);
  static_cast<void>(answer.take(sizeof(uint32_t)));
  static_cast<void>(answer.get(&call.result));
  for (const wire::UniqueFd& one : reply.descriptors) call.made.push_back(describe(one.get()));
  if (!follow(request, reply)) {
    call.unrecorded = "pages of the program are exchanged for the kernel's";
    call.request.clear();
    call.reply.clear();
    call.given.clear();
    call.made.clear();
  }
  calls_.put(std::move(call));
  return reply;
}

std::vector<Reached> SessionRecording::reached() {
  const runtime::HostMutexLock lock(mutex_);
  return fences_.news_of(memory_);
}

bool SessionRecording::follow(std::span<const std::byte> request, const wire::Reply& reply) {
  const auto asked = read_request(request);
  if (!asked.has_value()) return true;
  const auto answered = read_reply(*asked, request, reply.bytes);
  if (!answered.has_value() || answered->result < 0) return true;
  const runtime::HostMutexLock lock(mutex_);
  size_t next = 0;
  bool is_whole = true;
  for (const wire::WindowNote& note : answered->windows) {
    if (note.has_descriptor == 0) continue;
    if (static_cast<arguments::Memory>(note.memory) == arguments::Memory::kPages) is_whole = false;
    const wire::UniqueFd* const given =
        next < reply.descriptors.size() ? &reply.descriptors[next++] : nullptr;
    if (static_cast<arguments::Memory>(note.memory) != arguments::Memory::kFence ||
        given == nullptr)
      continue;
    static_cast<void>(memory_.show(note, wire::UniqueFd(fcntl(given->get(), F_DUPFD_CLOEXEC, 0))));
  }
  if (!std::string_view(arguments::functions()[asked->function].name).starts_with("D3DKMTDestroy"))
    return is_whole;
  const Block& arguments = asked->blocks.front();
  // The structure may stand anywhere in the message.
  std::vector<std::byte> copy(
      request.begin() + static_cast<std::ptrdiff_t>(arguments.at),
      request.begin() + static_cast<std::ptrdiff_t>(arguments.at + arguments.bytes));
  memory_.after(asked->function, copy.data());
  return is_whole;
}

}  // namespace dxgkit::record
