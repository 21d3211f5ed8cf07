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

/// How content is offered.
struct OfferTerms {
  vidmm::OfferPriority priority = vidmm::OfferPriority::kNormal;
  bool allow_decommit = false;  // backing pages may go with the content (ALLOC-59)
  bool immediately = false;     // the offer has taken effect when the call returns (ALLOC-60)
};

/// What became of one element that is reclaimed; the values of D3DDDI_RECLAIM_RESULT.
enum class ReclaimResult { kOk = 0, kDiscarded = 1, kNotCommitted = 2 };

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
  /// kDeviceRemoved: the adapter failed before an immediate offer took effect.
  Status offer(std::span<const Handle> handles, bool are_resources, const OfferTerms& terms);
  /// ALLOC-46. `results`, one per handle: whether its content, or some of the resource's, is gone.
  /// What was not offered is not lost. kNotCommitted: there is no memory for pages that were
  /// decommitted; the element stays offered (ALLOC-59). kNoMemory, with nothing reclaimed: the same
  /// where `all_or_nothing`.
  Status reclaim(std::span<const Handle> handles, bool are_resources, bool all_or_nothing,
                 std::vector<ReclaimResult>* results);

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
