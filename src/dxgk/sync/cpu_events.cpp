#include "dxgk/sync/cpu_events.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "runtime/descriptors.h"

namespace dxgkit::dxgk {

CpuEvents::CpuEvents(AdapterCore& core) : port_(core.port().cpu_events()) {}

Result<uint64_t> CpuEvents::create(void* driver_device, int descriptor) {
  used_.store(true);
  uint64_t event = 0;
  {
    runtime::MutexLock lock(mutex_);
    event = ++last_;
    // The driver may signal it before its own call returns.
    events_[event].descriptor = descriptor;
  }
  const Result<void*> made = port_.create(driver_device, event);
  runtime::MutexLock lock(mutex_);
  if (!made.has_value()) {
    events_.erase(event);
    return Error(made.error());
  }
  events_[event].driver_event = *made;
  events_[event].in_driver = true;
  return event;
}

void CpuEvents::end(uint64_t event) {
  void* driver_event = nullptr;
  bool in_driver = false;
  {
    runtime::MutexLock lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end()) return;
    in_driver = std::exchange(found->second.in_driver, false);
    driver_event = found->second.driver_event;
  }
  if (in_driver) static_cast<void>(port_.destroy(driver_event));
  runtime::MutexLock lock(mutex_);
  events_.erase(event);
}

void* CpuEvents::driver_handle(uint64_t event) {
  runtime::MutexLock lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second.driver_event;
}

void CpuEvents::stop() {
  if (!used_.load()) return;
  std::vector<uint64_t> left;
  {
    runtime::MutexLock lock(mutex_);
    for (const auto& [event, state] : events_) left.push_back(event);
  }
  for (const uint64_t event : left) end(event);
}

Status CpuEvents::signal(uint64_t event) {
  runtime::MutexLock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end()) return Status::kInvalidParameter;
  runtime::set_event(found->second.descriptor);
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
