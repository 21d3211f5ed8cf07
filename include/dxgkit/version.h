// Versions of the headers and of the library.
#pragma once

#include <cstdint>

/// The version of these headers. Before 1.0.0 the interface may change with the minor number.
#define DXGKIT_VERSION_MAJOR 0
#define DXGKIT_VERSION_MINOR 1
#define DXGKIT_VERSION_PATCH 0

namespace dxgkit {

/// The version of the library that runs.
struct Version {
  int major = 0, minor = 0, patch = 0;
  const char* text = "";          // "0.1.0"
  const char* commit = "";        // abbreviated commit; "unknown" if not built from a checkout
  uint32_t oldest_interface = 0;  // lowest DXGKDDI_INTERFACE_VERSION that a driver may declare
  uint32_t newest_interface = 0;  // highest DXGKDDI_INTERFACE_VERSION that a driver may declare
};
/// Any thread.
Version version();

}  // namespace dxgkit
