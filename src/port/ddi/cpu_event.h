// CPU events that the driver signals (WDDM 3.0).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of CPU events of one adapter. kNotSupported unless the driver has both entries and
/// declares 3.0 or later.
///
/// Threads: any, not on the lane; PASSIVE_LEVEL, level zero.
class CpuEventPort {
 public:
  /// The core must outlive it.
  explicit CpuEventPort(PortCore& core) : core_(core) {}

  bool supported() const;
  /// DxgkDdiCreateCpuEvent. Returns the driver's handle; or the driver's own failure.
  /// @param device  the driver's handle of the device that the event belongs to
  /// @param event   what DxgkCbSignalEvent names, never 0
  Result<void*> create(void* device, uint64_t event);
  /// DxgkDdiDestroyCpuEvent.
  Status destroy(void* driver_event);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
