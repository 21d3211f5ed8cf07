// A device of a driver: added, started, stopped, removed.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "port/display_types.h"

namespace dxgkit::port {

struct PortCore;

/// What DxgkDdiStartDevice answers.
struct StartInfo {
  uint32_t video_present_sources = 0, children = 0;
};

/// The DDIs of an adapter's life. Level three: exclusively, PASSIVE_LEVEL, in the order of LIFE-05
/// to LIFE-19; a call out of order is our bug and aborts. kDeviceRemoved from a dead driver; else
/// the driver's own status.
class LifePort {
 public:
  /// The core outlives it.
  explicit LifePort(PortCore& core) : core_(core) {}

  /// kNotSupported: the driver said "not mine" (success with a null context, LIFE-05).
  Status add_device();
  /// The interrupt is connected before the driver is called: it may expect interrupts from then on.
  /// What it does not write of its two numbers is a finding and a failed start (LIFE-09).
  Result<StartInfo> start_device();
  /// The interrupt is disconnected after the driver has returned (LIFE-08).
  Status stop_device();
  Status remove_device();
  /// DxgkDdiStopDeviceAndReleasePostDisplayOwnership (LIFE-19). Failure, kNotSupported included:
  /// the device runs on and stop_device() is owed.
  Status stop_device_and_release(uint32_t target, DisplayInformation* out);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
