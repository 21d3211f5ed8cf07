// What power transitions ask of the display half of an adapter.
#pragma once

#include <span>

#include "base/status.h"
#include "port/adapter_port.h"

namespace dxgkit::dxgk {

/// The display half of an adapter, as Power knows it.
class PoweredDisplay {
 public:
  virtual ~PoweredDisplay() = default;
  /// Full drivers: nothing is shown and no primary is pinned any more. Not on the lane.
  virtual void suspend() = 0;
  /// Full drivers: sources show what they showed before suspend(). Not on the lane.
  virtual void wake() = 0;
  /// Display-only drivers: the whole transition. kNotSupported: a full driver. kDeviceRemoved: the
  /// display has stopped. Else the driver's failure. Not on the lane.
  virtual Status set_power(port::PowerState state, port::PowerAction action) = 0;
  /// The children as the driver described them. Each has a power state of its own.
  virtual std::span<const port::ChildInfo> children() const = 0;
};

}  // namespace dxgkit::dxgk
