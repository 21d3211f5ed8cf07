// Activity that a device model can report although no register shows it.
#pragma once

#include "bus/machine.h"

namespace dxgkit::bus {

/// Implemented, beside MmioHandler, by the object behind a register BAR.
class Activity {
 public:
  virtual ~Activity() = default;
  /// True if a part of the device may read or write memory now, or would begin to without another
  /// register access. Scanning out a picture does not count. Any thread.
  virtual bool may_access_memory() const = 0;
};

/// The activity of the device behind `function`. False if no object behind it implements the
/// interface.
bool may_access_memory(const PciFunction& function);

}  // namespace dxgkit::bus
