// What sync objects ask of GPU virtual addresses.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "bus/machine.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Shows pages of sync objects to engines (SYNC-14..16). Lane: the adapter's.
class SyncAddresses {
 public:
  virtual ~SyncAddresses() = default;
  /// The address of the page in the space of the process with this number. `then` (may be empty)
  /// runs once engines reach it. kInvalidParameter: the process has no device here; kNoMemory.
  virtual Result<uint64_t> map_system_page(uint32_t process, bus::PageFrame page,
                                           std::function<void()> then) DXGKIT_REQUIRES(on_lane) = 0;
  /// `then` runs once no engine reaches the page there any more.
  virtual void unmap_system_page(uint32_t process, uint64_t address, std::function<void()> then)
      DXGKIT_REQUIRES(on_lane) = 0;
};

}  // namespace dxgkit::dxgk
