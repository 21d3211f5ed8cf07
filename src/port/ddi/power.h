// Device power states, runtime power components, surprise removal.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// DEVICE_POWER_STATE.
enum class PowerState : uint32_t { kD0 = 1, kD1 = 2, kD2 = 3, kD3 = 4 };
/// POWER_ACTION: the values that DxgkDdiSetPowerState is documented to get.
enum class PowerAction : uint32_t { kSleep = 2, kHibernate = 3, kShutdown = 4 };

/// The DDIs of power. PASSIVE_LEVEL. kDeviceRemoved from a dead driver.
class PowerPort {
 public:
  /// The core must outlive it.
  explicit PowerPort(PortCore& core) : core_(core) {}

  /// DxgkDdiSetPowerState of a child or, without one, of the adapter, exclusively. For the adapter,
  /// engines are idle and video memory is evicted (PWR-01). PWR-02: a failure is a violation and
  /// treated as success. kNotSupported without the entry. `action` is not passed on the way to D0
  /// (PWR-04).
  Status set_power_state(std::optional<uint32_t> child, PowerState state,
                         PowerAction action = PowerAction::kSleep);
  /// DxgkDdiNotifySurpriseRemoval (LIFE-21): level zero, at any time, beside any other call.
  /// Returns the driver's own status. From now on every register access of the driver is a
  /// violation (LIFE-22), reported once per DDI. kNotSupported without the entry; then accesses are
  /// no violation.
  Status notify_surprise_removal(bool in_hibernation);
  /// Power components, if DXGK_DRIVERCAPS.SupportRuntimePowerManagement is set. A wrong description
  /// is a violation (PWR-12), and there are no components then.
  std::vector<PowerComponent> query_power_components();
  /// DxgkDdiSetPowerComponentFState, to or from F0. The caller makes at most one call per component
  /// at a time. kNotSupported without the entry.
  Status set_component_f_state(uint32_t component, uint32_t f_state);
  /// DxgkDdiPowerRuntimeControlRequest with one of the kernel's own codes (OPT-34). Level zero; the
  /// driver's answer passes through. kNotSupported without the entry.
  enum class RuntimePhase { kPrepareToStart, kStarted, kStopped };
  Status runtime_notice(RuntimePhase phase);

 private:
  PortCore& core_;
  // F-state calls in progress, one bit per component (PWR-12, PWR-13).
  std::atomic<uint64_t> f_state_calls_{0};
};

}  // namespace dxgkit::port
