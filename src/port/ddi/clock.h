// The clock of an engine beside that of the processor.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// DXGKARG_CALIBRATEGPUCLOCK, as the driver answered.
struct GpuClock {
  uint64_t frequency_hz = 0;
  uint64_t gpu_counter = 0;
  uint64_t cpu_counter = 0;  // of the performance counter, at the same moment
  uint32_t flags = 0;        // DXGK_GPUCLOCKDATA_FLAGS.Value
};

/// DxgkDdiCalibrateGpuClock. Level zero at DISPATCH_LEVEL, any thread.
class ClockPort {
 public:
  /// The core must outlive it.
  explicit ClockPort(PortCore& core) : core_(core) {}

  /// kNotSupported: a driver for less than WDDM 1.3, or without the entry. kDeviceRemoved: a dead
  /// driver. Else the driver's failure.
  Result<GpuClock> calibrate(NodeOrdinal node);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
