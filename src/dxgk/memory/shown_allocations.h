// What clients' memory asks of the display.
#pragma once

#include <span>

#include "dxgk/memory/allocation.h"

namespace dxgkit::dxgk {

class DeviceMemory;

/// Allocations that are on a screen.
class ShownAllocations {
 public:
  virtual ~ShownAllocations() = default;
  /// A client of the device destroys `targets`, or all members of `resource` (null: only the
  /// targets): those that are shown give way to the kernel's own picture. Not on the lane.
  virtual void before_destroy(DeviceMemory& device, const Ref<Resource>& resource,
                              std::span<const Ref<OpenedAllocation>> targets) = 0;
  /// The same allocations are closing: overlays that show one of them are turned off, what another
  /// thread has shown since before_destroy() gives way, and nothing of them is shown any more. Not
  /// on the lane.
  virtual void after_closing(DeviceMemory& device, const Ref<Resource>& resource,
                             std::span<const Ref<OpenedAllocation>> targets) = 0;
};

}  // namespace dxgkit::dxgk
