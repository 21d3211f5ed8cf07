#include "tools/dxgkit/gl/server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "runtime/descriptors.h"
#include "trace/trace.h"

namespace dxgkit::gl {
namespace {

/// For the rest of a message that has begun, and for room for a reply: a program that is stopped in
/// a debugger right there loses its connection.
constexpr runtime::DurationNs kMessageTimeoutNs = 60 * runtime::kSecond;
/// For the work of a program that is gone: longer than the recovery of a device that hangs.
constexpr runtime::DurationNs kWorkPatienceNs = 20 * runtime::kSecond;

void mark(const std::string& text) {
  if (trace::Recorder* const recorder = trace::current())
    recorder->record(trace::EventKind::kMarker, recorder->name_id(text));
}

std::string name_of(const std::string& program) { return program.empty() ? "a program" : program; }

}  // namespace

Server::Server(runtime::Runtime& runtime, vfiouser::Descriptor listener,
               Session::MakeBackend make_backend, std::function<void(const std::string&)> log,
               KeepFrames keep)
    : runtime_(runtime),
      listener_(std::move(listener)),
      bell_(eventfd(0, EFD_CLOEXEC)),
      make_backend_(std::move(make_backend)),
      log_(std::move(log)),
      keep_(keep) {
  DXGKIT_CHECK(bell_.get() >= 0);
  thread_ = runtime_.spawn("gl listener", [this] { listen(); });
}

Server::~Server() { static_cast<void>(stop()); }

void Server::listen() {
  while (true) {
    runtime::DescriptorWait waits[] = {{.fd = listener_.get()}, {.fd = bell_.get()}};
    static_cast<void>(runtime::wait_for_descriptors(runtime_, waits));
    if (waits[1].ready) break;
    reap();
    vfiouser::Descriptor socket(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) continue;
    if (connections_.size() >= kConnectionsMost) {
      log_("a program was turned away: there are " + std::to_string(kConnectionsMost) + " already");
      continue;
    }
    auto& added = *connections_.emplace_back(
        std::make_unique<Connection>(runtime_, std::move(socket), kMessageTimeoutNs));
    added.thread = runtime_.spawn("gl program", [this, &added] { serve(added); });
  }
  for (const auto& one : connections_) one->channel.shut_down();
  const runtime::TimeNs deadline = runtime_.now() + kWorkPatienceNs;
  for (const auto& one : connections_) {
    if (one->over.wait(deadline) != runtime::WaitResult::kWoken) {
      const runtime::MutexLock lock(one->mutex);
      if (one->session != nullptr) one->session->cancel();
    }
    one->thread->join();
  }
  connections_.clear();
}

void Server::reap() {
  std::erase_if(connections_, [](const std::unique_ptr<Connection>& one) {
    if (!one->over.is_set()) return false;
    one->thread->join();
    return true;
  });
}

void Server::serve(Connection& connection) {
  ProgramRecord record;
  {
    Session session(connection.channel, make_backend_);
    FrameLog frames;
    if (keep_ == KeepFrames::kYes)
      session.on_frame([&](const Frame& frame, uint64_t number) {
        frames.add(frame, number, runtime_.now());
        mark(name_of(session.program_name()) + " has a frame");
      });
    {
      const runtime::MutexLock lock(connection.mutex);
      connection.session = &session;
    }
    record.wrong = session.run().value_or("");
    // The program sees the end before its process in the kernel has ended.
    connection.channel.shut_down();
    record.name = session.program_name();
    record.counts = session.counts();
    record.frame = session.frame();
    record.last_frames = frames.take();
    const runtime::MutexLock lock(connection.mutex);
    connection.session = nullptr;
  }
  if (!record.wrong.empty()) {
    const std::string line = name_of(record.name) + " lost its connection: " + record.wrong;
    mark(line);
    log_(line);
  }
  {
    const runtime::MutexLock lock(mutex_);
    records_.push_back(std::move(record));
  }
  connection.over.set();
}

std::vector<ProgramRecord> Server::stop() {
  if (thread_ == nullptr) return {};
  const uint64_t one = 1;
  DXGKIT_CHECK(::write(bell_.get(), &one, sizeof(one)) == sizeof(one));
  thread_->join();
  thread_.reset();
  const runtime::MutexLock lock(mutex_);
  return std::move(records_);
}

}  // namespace dxgkit::gl
