// What the model of a device can say of itself beyond what its registers tell.
#pragma once

#include "bus/machine.h"

namespace dxgkit::bus {

/// Implemented, beside MmioHandler, by the object behind a register BAR.
class Activity {
 public:
  virtual ~Activity() = default;
  /// Something of the device works, or would begin to without another register access, and may read
  /// or write memory then. Scanning out a picture does not count. Any thread.
  virtual bool may_access_memory() const = 0;
};

/// Whether the device behind `function` says so; false where nothing behind it can say.
bool may_access_memory(const PciFunction& function);

}  // namespace dxgkit::bus
