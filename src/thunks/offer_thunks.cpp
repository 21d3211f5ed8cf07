// Content its owner can do without: offer and reclaim.
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::Process;
using dxgk::Ref;

/// One of the two lists, never both (ALLOC-45).
Status capture_targets(const D3DKMT_HANDLE* resources, const D3DKMT_HANDLE* allocations, UINT count,
                       std::vector<D3DKMT_HANDLE>* out) {
  if ((resources != nullptr) == (allocations != nullptr)) return Status::kInvalidParameter;
  if (count == 0) return Status::kInvalidParameter;
  return capture_array(resources != nullptr ? resources : allocations, count, kMaxListElements,
                       out);
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
  if ((args.Flags.Value & kOfferImmediately) != 0) return Status::kNotSupported;
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(
      capture_targets(args.pResources, args.HandleList, args.NumAllocations, &handles));
  return device->offer(handles, args.pResources != nullptr, priority);
}

Status reclaim(Process& process, const D3DKMT_RECLAIMALLOCATIONS& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  DXGKIT_ENTER(device->adapter());
  std::vector<D3DKMT_HANDLE> handles;
  DXGKIT_RETURN_IF_FAILED(
      capture_targets(args.pResources, args.HandleList, args.NumAllocations, &handles));
  std::vector<BOOL> results(handles.size());
  const size_t bytes = results.size() * sizeof(BOOL);
  // The answer is given once: it must arrive.
  if (args.pDiscarded != nullptr && (!guarded_copy(results.data(), args.pDiscarded, bytes) ||
                                     !guarded_copy(args.pDiscarded, results.data(), bytes))) {
    return Status::kAccessViolation;
  }
  std::vector<bool> lost;
  DXGKIT_RETURN_IF_FAILED(device->reclaim(handles, args.pResources != nullptr, &lost));
  for (size_t i = 0; i < results.size(); ++i) results[i] = lost[i] ? 1 : 0;
  if (args.pDiscarded != nullptr)
    static_cast<void>(guarded_copy(args.pDiscarded, results.data(), bytes));
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::WriteBack;

extern "C" {

NTSTATUS APIENTRY D3DKMTOfferAllocations(const D3DKMT_OFFERALLOCATIONS* args) {
  return call("D3DKMTOfferAllocations", args, WriteBack::kNever, dxgkit::thunks::offer);
}
NTSTATUS APIENTRY D3DKMTReclaimAllocations(const D3DKMT_RECLAIMALLOCATIONS* args) {
  return call("D3DKMTReclaimAllocations", args, WriteBack::kNever, dxgkit::thunks::reclaim);
}

}  // extern "C"
