#include "record/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "bus/page_apart.h"
#include "dxgk/core/process.h"
#include "record/moved_memory.h"
#include "runtime/runtime.h"

namespace dxgkit::record {
namespace {

/// A program that makes calls faster than they are written waits from here on.
constexpr size_t kMostWaiting = size_t{64} << 20;

}  // namespace

Recorder::Recorder(std::unique_ptr<FileWriter> file, const Process& process)
    : calls_(std::move(file), process, kMostWaiting) {
  bus::PageApart::allow();
  windows_->copy_all_here();
  windows_->set_observer(MovedMemory::note);
  memory_.set_locked_here([this](uint32_t allocation) { return windows_->address_of(allocation); });
}

Recorder::~Recorder() = default;

std::expected<std::unique_ptr<Recorder>, std::string> Recorder::create(const std::string& path,
                                                                       std::string program) {
  auto file = FileWriter::create(path);
  if (!file.has_value()) return std::unexpected(std::move(file.error()));
  const Process process{static_cast<uint64_t>(getpid()), std::move(program)};
  return std::unique_ptr<Recorder>(new Recorder(std::move(*file), process));
}

int64_t Recorder::call(uint32_t function, void* arguments, const std::function<int64_t()>& direct) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  Call call;
  call.function = function;
  call.thread = static_cast<uint32_t>(gettid());
  call.begin = calls_.begin();
  call.time_ns = runtime.now();
  call.fences = reached();
  wire::ClientCall made(function, arguments, memory_);
  if (made.answer().has_value()) {
    call.unrecorded = arguments::functions()[function].local != nullptr
                          ? arguments::functions()[function].local
                          : "its arguments do not go into a message";
    call.result = direct();
  } else {
    through_messages(made, direct, &call);
  }
  call.duration_ns = runtime.now() - call.time_ns;
  const int64_t result = call.result;
  calls_.put(std::move(call));
  return result;
}

void Recorder::through_messages(wire::ClientCall& made, const std::function<int64_t()>& direct,
                                Call* call) {
  std::vector<wire::UniqueFd> descriptors;
  for (const int file : made.descriptors()) {
    descriptors.emplace_back(fcntl(file, F_DUPFD_CLOEXEC, 0));
    call->given.push_back(describe(file));
  }
  auto session = take_session();
  wire::Reply reply;
  {
    const MovedMemory moved(calls_, call->begin);
    reply = session->handle(made.message(), std::move(descriptors));
  }
  give_back(std::move(session));
  if (!reply.refusal.empty()) {  // the system has no address space
    call->given.clear();
    call->unrecorded = reply.refusal;
    call->result = direct();
    return;
  }
  for (const wire::UniqueFd& one : reply.descriptors) call->made.push_back(describe(one.get()));
  wire::Reader reader(reply.bytes);
  static_cast<void>(reader.take(sizeof(uint32_t)));
  static_cast<void>(reader.get(&call->result));
  call->request.assign(made.message().begin(), made.message().end());
  call->reply = reply.bytes;
  // Differs where the caller's memory went away meanwhile: that is the program's matter.
  static_cast<void>(made.finish(reply.bytes, std::move(reply.descriptors)));
}

std::unique_ptr<wire::ServerSession> Recorder::take_session() {
  {
    const runtime::HostMutexLock lock(mutex_);
    if (!sessions_.empty()) {
      auto session = std::move(sessions_.back());
      sessions_.pop_back();
      return session;
    }
  }
  dxgk::Process& process = *dxgk::Process::current();
  return std::make_unique<wire::ServerSession>(process.system(), process, windows_);
}

void Recorder::give_back(std::unique_ptr<wire::ServerSession> session) {
  const runtime::HostMutexLock lock(mutex_);
  sessions_.push_back(std::move(session));
}

std::vector<Reached> Recorder::reached() {
  const runtime::HostMutexLock lock(mutex_);
  return fences_.news_of(memory_);
}

std::string Recorder::finish() {
  {
    const runtime::HostMutexLock lock(mutex_);
    sessions_.clear();
  }
  return calls_.finish();
}

}  // namespace dxgkit::record
