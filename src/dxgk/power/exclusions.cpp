#include "dxgk/power/exclusions.h"

#include <utility>

#include "dxgk/power/power.h"

namespace dxgkit::dxgk {

Status Exclusions::add(bool evict, std::function<void(Status)> call) {
  {
    const runtime::MutexLock lock(mutex_);
    if (ended_) return Status::kDeviceRemoved;
    requests_.push_back({evict, std::move(call)});
    if (thread_ == nullptr) thread_ = core_.runtime().spawn("exclusions", [this] { serve(); });
  }
  bell_.fetch_add(1);
  core_.runtime().wake_all(bell_);
  return Status::kSuccess;
}

void Exclusions::serve() {
  for (;;) {
    const uint32_t seen = bell_.load();
    std::vector<Request> requests;
    bool ended = false;
    {
      const runtime::MutexLock lock(mutex_);
      requests.swap(requests_);
      ended = ended_;
    }
    for (const Request& request : requests) power_.exclude(request.evict, request.call);
    if (!requests.empty()) continue;
    if (ended) return;
    core_.runtime().wait(bell_, seen);
  }
}

void Exclusions::end() {
  std::unique_ptr<runtime::Thread> thread;
  {
    const runtime::MutexLock lock(mutex_);
    ended_ = true;
    thread = std::move(thread_);
  }
  if (thread == nullptr) return;
  bell_.fetch_add(1);
  core_.runtime().wake_all(bell_);
  thread->join();
}

}  // namespace dxgkit::dxgk
