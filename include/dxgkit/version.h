// Which dxgkit this is.
#pragma once

#include <cstdint>

/// Of the headers. Before 1.0.0 the interface may change with the minor number.
#define DXGKIT_VERSION_MAJOR 0
#define DXGKIT_VERSION_MINOR 1
#define DXGKIT_VERSION_PATCH 0

namespace dxgkit {

/// Of the library that runs. Any thread.
struct Version {
  int major = 0, minor = 0, patch = 0;
  const char* text = "";          // "0.1.0"
  const char* commit = "";        // of the sources, abbreviated; "unknown" outside a checkout
  uint32_t oldest_interface = 0;  // DXGKDDI_INTERFACE_VERSION: the first one a driver may declare
  uint32_t newest_interface = 0;  // and the last
};
Version version();

}  // namespace dxgkit
