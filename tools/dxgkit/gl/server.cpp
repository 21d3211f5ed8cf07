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

/// For the work of a program that is gone: longer than the recovery of a device that hangs.
constexpr runtime::DurationNs kWorkPatienceNs = 20 * runtime::kSecond;

void mark(const std::string& text) {
  if (trace::Recorder* const recorder = trace::current())
    recorder->record(trace::EventKind::kMarker, recorder->name_id(text));
}

}  // namespace

Server::Server(runtime::Runtime& runtime, vfiouser::Descriptor listener, Converse converse,
               std::function<void(const std::string&)> log)
    : runtime_(runtime),
      listener_(std::move(listener)),
      bell_(eventfd(0, EFD_CLOEXEC)),
      converse_(std::move(converse)),
      log_(std::move(log)) {
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
    auto& added = *connections_.emplace_back(std::make_unique<Connection>());
    added.conversation = converse_(std::move(socket));
    added.thread = runtime_.spawn("gl program", [this, &added] { serve(added); });
  }
  for (const auto& one : connections_) one->conversation->shut_down();
  const runtime::TimeNs deadline = runtime_.now() + kWorkPatienceNs;
  for (const auto& one : connections_) {
    if (one->over.wait(deadline) != runtime::WaitResult::kWoken) one->conversation->cancel();
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
  ProgramRecord record = connection.conversation->run();
  if (!record.wrong.empty()) {
    const std::string line = name_for_people(record.name) + " lost its connection: " + record.wrong;
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
