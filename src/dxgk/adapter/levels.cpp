// Alone with the driver: what levels two and three promise, and drivers that ask for it.
#include <string_view>
#include <utility>

#include "base/check.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/power/power.h"

namespace dxgkit::dxgk {

void Adapter::before_exclusive_ddi(const char* ddi, SyncLevel level) {
  if (lane_.is_current()) return check_idle(ddi, level);
  lane_.run([&] { check_idle(ddi, level); });
}

void Adapter::check_idle(const char* ddi, SyncLevel level) {
  // Before there is a scheduler nothing was submitted, and after a failure nobody waits for the
  // hardware (LIFE-18).
  if (!scheduler_ || failed_ || fatal_.load()) return;
  // It is called because the hardware is not idle, and memory is emptied behind it (TDR-24).
  if (std::string_view(ddi) == "DxgkDdiResetFromTimeout") return;
  DXGKIT_CHECK(!scheduler_->anything_on_hardware());
  // Nothing on its way there either: who wants to submit finds holds_ or set_held in its way, and
  // in the middle of start and stop there is no work but paging.
  if (level == SyncLevel::kTwo || !memory_) return;
  // Page tables are there again by then, also in the middle of a change of power.
  if (std::string_view(ddi) == "DxgkDdiRestartFromTimeout") return;
  const bool leaves = was_running_ && !device_started_;  // StopDevice, RemoveDevice
  // Around a change of power what is left to page waits, and is not under way.
  if (leaves) DXGKIT_CHECK(paging_ == nullptr || paging_->idle());
  for (const vidmm::SegmentDesc& segment : memory_->segments()) {
    if (segment.kind != vidmm::SegmentKind::kMemory) continue;
    // What the driver has declared to survive stays, on the way down and up (PWR-08).
    if (leaves || power_->empties(segment.id))
      DXGKIT_CHECK(memory_->usage(segment.id).allocations == 0);
  }
}

Status Adapter::exclude_access(bool evict, std::function<void(Status)> call) {
  {
    const runtime::MutexLock lock(exclusions_mutex_);
    if (exclusions_ended_) return Status::kDeviceRemoved;
    exclusions_.push_back({evict, std::move(call)});
    if (exclusion_thread_ == nullptr)
      exclusion_thread_ = runtime_.spawn("exclusions", [this] { serve_exclusions(); });
  }
  exclusion_bell_.fetch_add(1);
  runtime_.wake_all(exclusion_bell_);
  return Status::kSuccess;
}

void Adapter::serve_exclusions() {
  for (;;) {
    const uint32_t seen = exclusion_bell_.load();
    std::vector<Exclusion> requests;
    bool ended = false;
    {
      const runtime::MutexLock lock(exclusions_mutex_);
      requests.swap(exclusions_);
      ended = exclusions_ended_;
    }
    for (const Exclusion& request : requests) power_->exclude(request.evict, request.call);
    if (!requests.empty()) continue;
    if (ended) return;
    runtime_.wait(exclusion_bell_, seen);
  }
}

void Adapter::end_exclusions() {
  std::unique_ptr<runtime::Thread> thread;
  {
    const runtime::MutexLock lock(exclusions_mutex_);
    exclusions_ended_ = true;
    thread = std::move(exclusion_thread_);
  }
  if (thread == nullptr) return;
  exclusion_bell_.fetch_add(1);
  runtime_.wake_all(exclusion_bell_);
  thread->join();
}

}  // namespace dxgkit::dxgk
