#include "record/recorder.h"

#include <fcntl.h>
#include <ntstatus.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "bus/page_apart.h"
#include "dxgk/core/process.h"
#include "runtime/runtime.h"

namespace dxgkit::record {
namespace {

/// A program that makes calls faster than they are written waits from here on.
constexpr size_t kMostWaiting = size_t{64} << 20;

size_t bytes_of(const Call& call) {
  size_t bytes = sizeof call + call.request.size() + call.reply.size();
  for (const Bytes& one : call.memory) bytes += sizeof one + one.bytes.size();
  return bytes;
}

/// The memory that the call on this thread moves.
thread_local std::vector<Bytes>* t_memory = nullptr;

void note_moved(uint32_t allocation, bool to_kernel, uint64_t offset,
                std::span<const std::byte> bytes) {
  if (t_memory == nullptr) return;
  t_memory->push_back({.allocation = allocation,
                       .seen = to_kernel ? 0U : 1U,
                       .offset = offset,
                       .bytes = {bytes.begin(), bytes.end()}});
}

Descriptor describe(int file) {
  struct stat facts {};
  Descriptor one{.number = static_cast<uint64_t>(file)};
  if (fstat(file, &facts) == 0) one.inode = facts.st_ino;
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  one.is_event = length > 0 && std::string_view(target.data(), static_cast<size_t>(length)) ==
                                   "anon_inode:[eventfd]"
                     ? 1
                     : 0;
  return one;
}

}  // namespace

Recorder::Recorder(std::unique_ptr<FileWriter> file) : file_(std::move(file)) {
  bus::PageApart::allow();
  windows_->set_observer(note_moved);
  writer_ = std::make_unique<runtime::HostThread>("dxgkit record", [this] { write_calls(); });
}

Recorder::~Recorder() { end_writing(); }

std::expected<std::unique_ptr<Recorder>, std::string> Recorder::create(const std::string& path,
                                                                       std::string program) {
  auto file = FileWriter::create(path);
  if (!file.has_value()) return std::unexpected(std::move(file.error()));
  (*file)->put(Process{static_cast<uint64_t>(getpid()), std::move(program)});
  return std::unique_ptr<Recorder>(new Recorder(std::move(*file)));
}

int64_t Recorder::call(uint32_t function, void* arguments, const std::function<int64_t()>& direct) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  Call call;
  call.function = function;
  call.thread = static_cast<uint32_t>(gettid());
  call.begin = ++moments_;
  call.time_ns = runtime.now();
  call.fences = reached();
  wire::ClientCall made(function, arguments, memory_);
  if (made.answer().has_value()) {
    call.unrecorded = wire::functions()[function].local != nullptr
                          ? wire::functions()[function].local
                          : "its arguments do not go into a message";
    call.result = direct();
  } else {
    through_messages(made, direct, &call);
  }
  call.duration_ns = runtime.now() - call.time_ns;
  const int64_t result = call.result;
  put(std::move(call));
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
  t_memory = &call->memory;
  wire::Reply reply = session->handle(made.message(), std::move(descriptors));
  t_memory = nullptr;
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
  std::vector<Reached> news;
  const runtime::HostMutexLock lock(mutex_);
  memory_.visit_fences([&](uint32_t owner, uint64_t value) {
    const auto [known, added] = fences_.try_emplace(owner, 0);
    if (known->second == value) return;
    known->second = value;
    news.push_back({.owner = owner, .value = value});
  });
  return news;
}

void Recorder::put(Call call) {
  const size_t bytes = bytes_of(call);
  while (true) {
    const uint32_t news = news_.load();
    {
      const runtime::HostMutexLock lock(mutex_);
      if (waiting_bytes_ <= kMostWaiting) {
        waiting_bytes_ += bytes;
        call.end = ++moments_;
        waiting_.push_back(std::move(call));
        break;
      }
    }
    runtime::wait_while(news_, news);
  }
  ++news_;
  runtime::wake_host_waiters(news_);
}

void Recorder::write_calls() {
  while (true) {
    const uint32_t news = news_.load();
    std::vector<Call> calls;
    bool ending = false;
    {
      const runtime::HostMutexLock lock(mutex_);
      calls.swap(waiting_);
      ending = ending_;
    }
    if (calls.empty()) {
      if (ending) return;
      runtime::wait_while(news_, news);
      continue;
    }
    size_t bytes = 0;
    for (const Call& call : calls) {
      file_->put(call);
      bytes += bytes_of(call);
    }
    {
      const runtime::HostMutexLock lock(mutex_);
      waiting_bytes_ -= bytes;
    }
    ++news_;
    runtime::wake_host_waiters(news_);
  }
}

void Recorder::end_writing() {
  if (writer_ == nullptr) return;
  {
    const runtime::HostMutexLock lock(mutex_);
    ending_ = true;
  }
  ++news_;
  runtime::wake_host_waiters(news_);
  writer_->join();
  writer_.reset();
}

std::string Recorder::finish() {
  end_writing();
  const runtime::HostMutexLock lock(mutex_);
  sessions_.clear();
  file_->finish();
  return file_->error();
}

}  // namespace dxgkit::record
