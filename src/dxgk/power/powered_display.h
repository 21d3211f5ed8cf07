// What power transitions ask of a display.
#pragma once

#include <span>

#include "base/status.h"
#include "port/adapter_port.h"

namespace dxgkit::dxgk {

/// The display half of an adapter, as Power knows it.
class PoweredDisplay {
 public:
  virtual ~PoweredDisplay() = default;
  /// Of full drivers: nothing is shown and no primary is pinned; and as before. Not on the lane.
  virtual void suspend() = 0;
  virtual void wake() = 0;
  /// Of display-only drivers: the whole transition. kNotSupported: a full driver. kDeviceRemoved:
  /// it stopped. Else the driver's failure. Not on the lane.
  virtual Status set_power(port::PowerState state, port::PowerAction action) = 0;
  /// As the driver described them; each has a power state of its own.
  virtual std::span<const port::ChildInfo> children() const = 0;
};

}  // namespace dxgkit::dxgk
