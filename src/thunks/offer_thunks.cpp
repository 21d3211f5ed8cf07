// Content its owner can do without: offer and reclaim.
#include "dxgk/memory/commitment.h"
#include "dxgk/memory/device_offer.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::OpenedAllocation;
using dxgk::PagingQueue;
using dxgk::Process;
using dxgk::Ref;
using dxgk::Resource;

/// One of the two lists, never both (ALLOC-45).
template <typename Args>
Status capture_targets(const Args& args, std::vector<D3DKMT_HANDLE>* out) {
  if ((args.pResources != nullptr) == (args.HandleList != nullptr))
    return Status::kInvalidParameter;
  if (args.NumAllocations == 0) return Status::kInvalidParameter;
  return args.pResources != nullptr ? capture<&Args::pResources>(args, out)
                                    : capture<&Args::HandleList>(args, out);
}

Status offer(Process& process, const D3DKMT_OFFERALLOCATIONS& args) {
  constexpr UINT kOfferImmediately = 1U << 0, kAllowDecommit = 1U << 1;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  if ((args.Flags.Value & ~(kOfferImmediately | kAllowDecommit)) != 0)
    return Status::kInvalidParameter;
  vidmm::OfferPriority priority = vidmm::OfferPriority::kNone;
  switch (args.Priority) {
    case D3DKMT_OFFER_PRIORITY_LOW:
      priority = vidmm::OfferPriority::kLow;
      break;
    case D3DKMT_OFFER_PRIORITY_NORMAL:
      priority = vidmm::OfferPriority::kNormal;
      break;
    case D3DKMT_OFFER_PRIORITY_HIGH:
      priority = vidmm::OfferPriority::kHigh;
      break;
    case D3DKMT_OFFER_PRIORITY_AUTO:
      priority = vidmm::OfferPriority::kAuto;
      break;
    default:
      return Status::kInvalidParameter;  // ALLOC-44
  }
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture_targets(args, &handles));
  return device->offers().offer(handles, args.pResources != nullptr,
                                {.priority = priority,
                                 .allow_decommit = (args.Flags.Value & kAllowDecommit) != 0,
                                 .immediately = (args.Flags.Value & kOfferImmediately) != 0});
}

/// The answer is given once: it must arrive. D3DDDI_RECLAIM_RESULT and BOOL agree on 0 and 1.
template <typename Args>
bool results_arrive(const Args& args) {
  return args.pDiscarded == nullptr || is_success(check_room<&Args::pDiscarded>(args));
}

template <typename Args>
Status reclaim(dxgk::DeviceOffers& offers, const std::vector<D3DKMT_HANDLE>& handles,
               const Args& args, bool all_or_nothing) {
  std::vector<dxgk::ReclaimResult> outcome;
  DXGKIT_RETURN_IF_FAILED(
      offers.reclaim(handles, args.pResources != nullptr, all_or_nothing, &outcome));
  if (args.pDiscarded == nullptr) return Status::kSuccess;
  std::vector<BOOL> results(handles.size());
  for (size_t i = 0; i < results.size(); ++i) results[i] = static_cast<BOOL>(outcome[i]);
  static_cast<void>(give<&Args::pDiscarded>(args, results));
  return Status::kSuccess;
}

Status reclaim1(Process& process, const D3DKMT_RECLAIMALLOCATIONS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture_targets(args, &handles));
  if (!results_arrive(args)) return Status::kInvalidParameter;
  // BOOL has no value for what found no pages: the call fails then (ALLOC-59).
  return reclaim(device->offers(), handles, args, /*all_or_nothing=*/true);
}

/// Lane. Those of the reclaimed that the device lists as resident. What was decommitted has pages
/// again first, and is left out if there are none. False: a handle is none of the device's.
bool listed_of(Process& process, dxgk::DeviceMemory& device,
               const std::vector<D3DKMT_HANDLE>& handles, bool are_resources,
               std::vector<Ref<OpenedAllocation>>* out) DXGKIT_REQUIRES(on_lane) {
  const auto add = [&](OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane) {
    if (opened.closing || opened.listing.count == 0) return;
    if (!is_success(dxgk::Commitment(device.floor()).recommit(*opened.allocation))) return;
    out->emplace_back(&opened);
  };
  for (const D3DKMT_HANDLE handle : handles) {
    if (are_resources) {
      const Result<Ref<Resource>> resource = process.handles().find<Resource>(handle);
      if (!resource.has_value() || (*resource)->device.get() != &device) return false;
      for (OpenedAllocation* member : (*resource)->members) add(*member);
    } else {
      const auto opened = process.handles().find<OpenedAllocation>(handle);
      if (!opened.has_value() || (*opened)->device.get() != &device) return false;
      add(**opened);
    }
  }
  return true;
}

Status reclaim2(Process& process, D3DKMT_RECLAIMALLOCATIONS2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<PagingQueue> queue,
                                 process.handles().find<PagingQueue>(args.hPagingQueue));
  dxgk::DeviceMemory& device = queue->device();
  dxgk::MemoryFloor& floor = device.floor();
  DXGKIT_ENTER_CORE(floor.core);
  if (device.device().lost()) return Status::kDeviceRemoved;
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(capture_targets(args, &handles));
  const bool are_resources = args.pResources != nullptr;
  if (!results_arrive(args)) return Status::kInvalidParameter;
  Status status = Status::kInvalidParameter;
  dxgk::MakeResidentOutcome outcome;
  const bool asked = floor.core.block_until_awake([&]() DXGKIT_REQUIRES(on_lane) {
    std::vector<Ref<OpenedAllocation>> listed;
    if (!listed_of(process, device, handles, are_resources, &listed)) return true;
    status = Status::kSuccess;
    if (listed.empty()) return true;
    // As if asked for once more, over budget or not: it was granted before the offer. Before the
    // offer ends: what does not fit beside the rest comes when there is room.
    status = floor.residency->make_resident(*queue, listed, {.cant_trim_further = true}, &outcome);
    if (!is_success(status)) return true;
    for (const Ref<OpenedAllocation>& opened : listed) --opened->listing.count;
    return true;
  });
  if (!asked) return Status::kDeviceRemoved;
  DXGKIT_RETURN_IF_FAILED(status);
  dxgk::DeviceOffers offers(device);
  DXGKIT_RETURN_IF_FAILED(reclaim(offers, handles, args, /*all_or_nothing=*/false));
  args.PagingFenceValue = outcome.fence;
  return status;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTOfferAllocations(const D3DKMT_OFFERALLOCATIONS* args) {
  return call<D3DKMTOfferAllocations>(args, dxgkit::thunks::offer);
}
NTSTATUS APIENTRY D3DKMTReclaimAllocations(const D3DKMT_RECLAIMALLOCATIONS* args) {
  return call<D3DKMTReclaimAllocations>(args, dxgkit::thunks::reclaim1);
}
NTSTATUS APIENTRY D3DKMTReclaimAllocations2(D3DKMT_RECLAIMALLOCATIONS2* args) {
  return call<D3DKMTReclaimAllocations2>(args, dxgkit::thunks::reclaim2);
}

}  // extern "C"
