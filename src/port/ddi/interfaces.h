// Interfaces that a driver offers to other parts of the system (DxgkDdiQueryInterface).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// Asks a driver for its interfaces, as a start of Windows does. Nothing here uses one: what the
/// driver gives is dereferenced at once. Each function returns what the driver answered last:
/// kNotSupported for a driver without the entry, kDeviceRemoved for a dead one.
/// Level two, PASSIVE_LEVEL. Cost: one call of the driver for each interface.
class InterfacesPort {
 public:
  /// The core must outlive it.
  explicit InterfacesPort(PortCore& core) : core_(core) {}

  /// The driver has DxgkDdiQueryInterface.
  bool offered() const;
  /// Those of the adapter: I2C, output protection. LIFE-34.
  Status ask_adapter();
  /// Those of an integrated panel: brightness, from the newest that the driver's version knows.
  /// Ends with the first that the driver has. LIFE-34.
  /// @param uid  ChildUid of the panel
  Status ask_panel(uint32_t uid);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
