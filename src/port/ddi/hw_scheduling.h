// Hardware scheduling (WDDM 2.4): the hardware chooses among contexts, by properties that the
// kernel sets. The kernel can suspend a context.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// DXGK_SCHEDULING_PRIORITY_BAND.
enum class PriorityBand : uint32_t { kIdle = 0, kNormal = 1, kFocus = 2, kRealtime = 3 };
inline constexpr size_t kPriorityBands = 4;

/// DXGKARG_SETUPPRIORITYBANDS. Times in units of 100 ns, by band.
struct PriorityBands {
  std::array<uint64_t, kPriorityBands> grace{};
  std::array<uint64_t, kPriorityBands> process_quantum{};
  std::array<uint64_t, kPriorityBands> process_grace{};
  uint32_t normal_percentage = 10;  // share of the normal band beside the focus band: 0 to 50
};

/// DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES. Times in units of 100 ns.
struct SchedulingProperties {
  PriorityBand band = PriorityBand::kNormal;
  int32_t realtime_level = 0;       // 0 to 31; of the realtime band
  int32_t in_process_priority = 0;  // -7 to +7
  uint64_t quantum = 0, grace_same_priority = 0, grace_lower_priority = 0;
};

/// The DDIs of hardware scheduling of one adapter. kNotSupported without the entry, kDeviceRemoved
/// from a dead driver; else the driver's own status. Scheduler class, PASSIVE_LEVEL: on the lane,
/// setup_priority_bands also during start.
class HwSchedulingPort {
 public:
  /// The core must outlive it.
  explicit HwSchedulingPort(PortCore& core) : core_(core) {}

  /// True if the driver has the entries: 2.4 or later, and none missing.
  bool supported() const;
  Status setup_priority_bands(const PriorityBands& bands);
  Status set_context_properties(void* context, const SchedulingProperties& properties);
  /// kSuccess: the context is suspended. kPending: an interrupt will name `fence` (SCHED-19).
  Status suspend(void* context, uint64_t fence);
  Status resume(void* context);
  /// Between its success and resume_engine, interrupts of the engine are unexpected (INT-21):
  /// InterruptReport::in_engine_reset.
  Status reset_engine(NodeOrdinal node);
  Status resume_engine(NodeOrdinal node);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
