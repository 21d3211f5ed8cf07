// The driver's objects for client processes.
#pragma once

#include "base/status.h"
#include "dxgk/core/adapter_core.h"

namespace dxgkit::dxgk {

class AddressSpaces;
class Process;
class Timeout;

/// DxgkDdiCreateProcess before the first device of a process, DestroyProcess after its last
/// (LIFE-16). Any thread but the lane.
class DriverProcesses {
 public:
  /// `spaces` is null in the patch model.
  DriverProcesses(AdapterCore& core, Timeout& timeout, AddressSpaces* spaces)
      : core_(core), timeout_(timeout), spaces_(spaces) {}

  /// kDeviceRemoved: it hung the GPU too often (TDR-06). The driver's failure passes through.
  Status enter(Process& process);
  void leave(Process& process);
  /// The driver's handle of a process between the two; null below WDDM 2.0.
  void* handle_of(Process& process);

 private:
  AdapterCore& core_;
  Timeout& timeout_;
  AddressSpaces* const spaces_;
};

}  // namespace dxgkit::dxgk
