// Offer and reclaim: content of a device that its owner can do without.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/device_memory.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// What one device's client gives up and takes back; Offers knows when it takes effect. Any thread
/// but the lane.
class DeviceOffers {
 public:
  explicit DeviceOffers(DeviceMemory& memory)
      : floor_(memory.floor()),
        core_(memory.core()),
        device_(memory.device()),
        memory_(memory),
        process_(memory.device().process()) {}

  /// ALLOC-44, ALLOC-45. `handles` name resources or allocations. kInvalidParameter: one is no such
  /// handle of this device, is locked, a primary or shared; nothing offered then.
  Status offer(std::span<const Handle> handles, bool are_resources, vidmm::OfferPriority priority);
  /// ALLOC-46. `lost`, one per handle: whether its content, or some of the resource's, is gone.
  /// What was not offered is not lost.
  Status reclaim(std::span<const Handle> handles, bool are_resources, std::vector<bool>* lost);

 private:
  using Targets = std::vector<std::vector<Ref<OpenedAllocation>>>;  // one list per handle
  Status targets_of(std::span<const Handle> handles, bool are_resources, Targets* targets);

  MemoryFloor& floor_;
  AdapterCore& core_;
  DeviceCore& device_;
  const DeviceMemory& memory_;
  Process& process_;
};

}  // namespace dxgkit::dxgk
