// The table that a driver gave to DxgkInitialize.
#pragma once

#include <dispmprt.h>

#include <cstdint>
#include <vector>

#include "runtime/sync.h"

namespace dxgkit::port {

/// The entries of a loaded driver, and the adapters that it drives. A test may fill one by hand:
/// its users need no image.
struct DriverTable {
  /// Entries of the declared version; the others are null. A display-only driver's entries lie at
  /// their full-WDDM places.
  DRIVER_INITIALIZATION_DATA table{};
  /// The members that only KMDDOD_INITIALIZATION_DATA has; null for full drivers.
  struct DisplayOnlyTable {
    PDXGKDDI_PRESENTDISPLAYONLY DxgkDdiPresentDisplayOnly = nullptr;
  } display_only_ddi;
  uint32_t version = 0;
  bool is_image = false;  // its callbacks go through doors (nt::Kernel::door)

  runtime::Mutex adapters_lock;
  std::vector<void*> adapters DXGKIT_GUARDED_BY(adapters_lock);  // PortCore, to check handles
};

}  // namespace dxgkit::port
