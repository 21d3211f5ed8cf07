// The life of a driver's device: added, started, stopped, removed.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "port/display_types.h"

namespace dxgkit::port {

struct PortCore;

/// The answer of DxgkDdiStartDevice.
struct StartInfo {
  uint32_t video_present_sources = 0, children = 0;
};

/// DXGK_PRE_START_INFO.Output.
struct PreStartAnswer {
  bool preserves_boot_display = false, keeps_frame_buffer_mapped = false;
};

/// The DDIs of an adapter's life. Level three: exclusively, PASSIVE_LEVEL, in the order of LIFE-05
/// to LIFE-19; a call out of order is our bug and aborts. kDeviceRemoved from a dead driver; else
/// the driver's own status.
class LifePort {
 public:
  /// The core must outlive it.
  explicit LifePort(PortCore& core) : core_(core) {}

  /// kNotSupported: the driver refused the device (success with a null context, LIFE-05).
  Status add_device();
  /// DxgkDdiExchangePreStartInfo, from WDDM 2.2 on, between add_device() and start_device().
  /// kNotSupported without the entry. Bits without a name are a violation (OPT-31).
  Status exchange_pre_start(PreStartAnswer* out);
  /// Connects the interrupt before the driver is called, because the driver may expect interrupts
  /// from then on. If the driver leaves one of its two numbers unwritten, that is a finding and a
  /// failed start (LIFE-09).
  Result<StartInfo> start_device();
  /// Disconnects the interrupt after the driver has returned (LIFE-08).
  Status stop_device();
  Status remove_device();
  /// DxgkDdiStopDeviceAndReleasePostDisplayOwnership (LIFE-19). On failure, kNotSupported included,
  /// the device runs on, and the caller must call stop_device().
  Status stop_device_and_release(uint32_t target, DisplayInformation* out);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
