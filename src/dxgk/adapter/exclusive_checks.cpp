#include "dxgk/adapter/exclusive_checks.h"

#include <string_view>

#include "base/check.h"

namespace dxgkit::dxgk {

void ExclusiveChecks::before(const char* ddi, port::AdapterHost::SyncLevel level) {
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { check_idle(ddi, level); });
}

void ExclusiveChecks::check_idle(const char* ddi, port::AdapterHost::SyncLevel level) {
  // Before there is a scheduler nothing was submitted, and after a failure nobody waits for the
  // hardware (LIFE-18).
  if (!core_.has_scheduler() || core_.fatal()) return;
  // It is called because the hardware is not idle, and memory is emptied behind it (TDR-24).
  if (std::string_view(ddi) == "DxgkDdiResetFromTimeout") return;
  DXGKIT_CHECK(!core_.scheduler().anything_on_hardware());
  // Nothing on its way there either: who wants to submit finds holds_ or set_held in its way, and
  // in the middle of start and stop there is no work but paging.
  if (level == port::AdapterHost::SyncLevel::kTwo || !core_.has_memory()) return;
  // Page tables are there again by then, also in the middle of a change of power.
  if (std::string_view(ddi) == "DxgkDdiRestartFromTimeout") return;
  const bool leaves = owner_.leaves();  // StopDevice, RemoveDevice
  // Around a change of power what is left to page waits, and is not under way.
  if (leaves) DXGKIT_CHECK(owner_.paging_is_idle());
  for (const vidmm::SegmentDesc& segment : core_.memory().segments()) {
    if (segment.kind != vidmm::SegmentKind::kMemory) continue;
    // What the driver has declared to survive stays, on the way down and up (PWR-08).
    if (leaves || owner_.must_be_empty(segment.id))
      DXGKIT_CHECK(core_.memory().usage(segment.id).allocations == 0);
  }
}

}  // namespace dxgkit::dxgk
