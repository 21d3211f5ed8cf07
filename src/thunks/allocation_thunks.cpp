// Allocations: create, destroy.
#include <bit>

#include "base/short_vector.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::Process;
using dxgk::Ref;

/// Flags this kernel honours; the others of the ABI are refused as not supported, undefined ones as
/// invalid.
constexpr UINT kCreateResource = 1U << 0;
constexpr UINT kCreateShared = 1U << 1;
constexpr UINT kNtSecuritySharing = 1U << 6;
constexpr UINT kExistingSysMem = 1U << 5;
constexpr UINT kCrossAdapter = 1U << 11;
constexpr UINT kZeroed = 1U << 14;
constexpr UINT kStandardAllocation = 1U << 16;
constexpr UINT kExistingSection = 1U << 17;
constexpr UINT kAllowNotZeroed = 1U << 18;
constexpr UINT kDefinedFlags = (1U << 23) - 1;
constexpr UINT kHonouredFlags = kCreateResource | kCreateShared | kNtSecuritySharing | kZeroed |
                                kAllowNotZeroed | kExistingSysMem | kCrossAdapter |
                                kStandardAllocation;

Status check_flags(UINT flags) {
  if ((flags & ~kDefinedFlags) != 0) return Status::kInvalidParameter;  // THUNK-03
  // ALLOC-22
  if ((flags & kCreateShared) != 0 && (flags & kCreateResource) == 0)
    return Status::kInvalidParameter;
  if ((flags & kNtSecuritySharing) != 0 && (flags & kCreateShared) == 0)
    return Status::kInvalidParameter;
  // ALLOC-21
  const bool sys_mem = (flags & kExistingSysMem) != 0;
  const bool section = (flags & kExistingSection) != 0;
  const bool standard = (flags & kStandardAllocation) != 0;
  if (sys_mem && section) return Status::kInvalidParameter;
  if ((sys_mem || section) != standard) return Status::kInvalidParameter;
  if ((flags & kCrossAdapter) != 0) {
    if (!standard) return Status::kNotSupported;
    if ((flags & kCreateShared) == 0) return Status::kInvalidParameter;
  }
  if ((flags & ~kHonouredFlags) != 0) return Status::kNotSupported;
  return Status::kSuccess;
}

/// A heap of the client as the only allocation of a call (ALLOC-21). Returns its size, once all
/// arguments are checked.
template <typename Info>
Status existing_heap(const D3DKMT_CREATEALLOCATION& args, std::span<const Info> infos,
                     uint64_t* size_bytes) {
  if (args.PrivateDriverDataSize != 0 || args.hResource != 0) return Status::kInvalidParameter;
  if (infos.size() != 1) return Status::kInvalidParameter;
  if (args.pStandardAllocation == nullptr) return Status::kInvalidParameter;
  D3DKMT_CREATESTANDARDALLOCATION standard;
  DXGKIT_RETURN_IF_FAILED(
      capture_one<&D3DKMT_CREATEALLOCATION::pStandardAllocation>(args, &standard));
  if (standard.Flags.Value != 0) return Status::kInvalidParameter;
  if (standard.Type == D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE)
    return Status::kNotSupported;
  if (standard.Type != D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP) return Status::kInvalidParameter;
  const uint64_t size = standard.ExistingHeapData.Size;
  if (size == 0 || size % kPageBytes != 0) return Status::kInvalidParameter;
  if (infos[0].pSystemMem == nullptr) return Status::kInvalidParameter;
  *size_bytes = size;
  return Status::kSuccess;
}

/// Infos: the list of the call's form. D3DDDI_ALLOCATIONINFO and D3DDDI_ALLOCATIONINFO2 agree in
/// the members used here.
template <auto Infos>
Status create_allocations(Process& process, D3DKMT_CREATEALLOCATION& args) {
  using Info = ElementOf<Infos>;
  process.system().impl().reap_nt_handles();
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  const UINT flags = std::bit_cast<UINT>(args.Flags);
  DXGKIT_RETURN_IF_FAILED(check_flags(flags));
  const bool creates_resource = (flags & kCreateResource) != 0;
  if (args.hResource != 0) {  // ALLOC-56
    if (!process.handles().find<dxgk::Resource>(args.hResource).has_value())
      return Status::kInvalidHandle;
    if (creates_resource) return Status::kInvalidParameter;
  }
  if (args.NumAllocations == 0 && !creates_resource) return Status::kInvalidParameter;
  const bool standard = (flags & kStandardAllocation) != 0;
  std::vector<std::byte> private_data;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_CREATEALLOCATION::pPrivateDriverData>(args, &private_data));
  std::vector<std::byte> runtime_data;
  if ((flags & kCreateShared) != 0) {  // only the processes that open the resource read it
    DXGKIT_RETURN_IF_FAILED(
        capture<&D3DKMT_CREATEALLOCATION::pPrivateRuntimeData>(args, &runtime_data));
  }
  std::vector<Info> infos;
  DXGKIT_RETURN_IF_FAILED(capture<Infos>(args, &infos));
  if (!give<Infos>(args, infos)) return Status::kInvalidParameter;
  ShortVector<std::vector<std::byte>, 1> blocks(infos.size());
  ShortVector<dxgk::AllocationRequest, 1> requests(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    if ((infos[i].Flags.Value & ~3U) != 0) return Status::kInvalidParameter;
    if (infos[i].Flags.Stereo != 0) return Status::kNotSupported;
    if (infos[i].Flags.Primary != 0) {
      const dxgk::AdapterCore& core = device->core();
      if (core.facts().start.video_present_sources == 0) return Status::kNotSupported;
      if (infos[i].VidPnSourceId >= core.facts().start.video_present_sources)
        return Status::kInvalidParameter;
      requests[i].primary = true;
    }
    DXGKIT_RETURN_IF_FAILED(capture<&Info::pPrivateDriverData>(infos[i], &blocks[i]));
    requests[i].private_data = blocks[i];
    requests[i].vidpn_source = infos[i].VidPnSourceId;
    requests[i].user_memory = const_cast<void*>(infos[i].pSystemMem);
    if (reinterpret_cast<uintptr_t>(infos[i].pSystemMem) % kPageBytes != 0)
      return Status::kInvalidParameter;  // ALLOC-20
  }
  port::StandardAllocation described;
  if (standard) {
    uint64_t bytes = 0;  // the list may be empty until this has looked
    DXGKIT_RETURN_IF_FAILED(existing_heap(args, std::span<const Info>(infos), &bytes));
    requests[0].user_bytes = bytes;
    if (blocks[0].empty()) {  // else the client has said what its driver is to know
      DXGKIT_ASSIGN_OR_RETURN_STATUS(
          described, device->adapter().core().port().allocations().describe_existing_memory(bytes));
      requests[0].private_data = described.allocation_data;
      private_data = std::move(described.resource_data);
    }
  }
  dxgk::CreateOptions options;
  options.private_data = private_data;
  options.creates_resource = creates_resource;
  options.shared = (flags & kCreateShared) != 0;
  options.nt_security = (flags & kNtSecuritySharing) != 0;
  options.cross_adapter = (flags & kCrossAdapter) != 0;
  options.runtime_data = runtime_data;
  options.resource = args.hResource;
  DXGKIT_RETURN_IF_FAILED(device->memory().create_allocations(requests, options));
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].hAllocation = requests[i].handle;
    if constexpr (requires { infos[i].GpuVirtualAddress; })
      infos[i].GpuVirtualAddress = 0;  // THUNK-20
    // The driver may have changed the data at create. A caller whose buffer was unmapped loses only
    // that data.
    static_cast<void>(give<&Info::pPrivateDriverData>(infos[i], blocks[i]));
  }
  args.hResource = options.resource;
  args.hGlobalShare = options.global;
  static_cast<void>(give<Infos>(args, infos));
  return Status::kSuccess;
}

template <typename Args>
Status destroy_allocations(Process& process, const Args& args, UINT flags) {
  constexpr UINT kAssumeNotInUse = 1U << 0;
  constexpr UINT kSynchronousDestroy = 1U << 1;
  if ((flags & ~(kAssumeNotInUse | kSynchronousDestroy)) != 0) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  process.system().impl().reap_nt_handles();
  std::vector<D3DKMT_HANDLE> handles;
  if (args.hResource != 0) {
    if (args.phAllocationList != nullptr && args.AllocationCount != 0)
      return Status::kInvalidParameter;  // ALLOC-29
  } else {
    DXGKIT_RETURN_IF_FAILED(capture<&Args::phAllocationList>(args, &handles));
    if (handles.empty()) return Status::kSuccess;  // ALLOC-57
  }
  Status status = Status::kSuccess;
  device->adapter().core().while_stable([&] {
    status = device->memory().destroy_allocations(args.hResource, handles,
                                                  (flags & kSynchronousDestroy) != 0);
  });
  return status;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateAllocation(D3DKMT_CREATEALLOCATION* args) {
  return call<D3DKMTCreateAllocation>(args, [](auto& process, D3DKMT_CREATEALLOCATION& in) {
    return dxgkit::thunks::create_allocations<&D3DKMT_CREATEALLOCATION::pAllocationInfo>(process,
                                                                                         in);
  });
}
NTSTATUS APIENTRY D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION* args) {
  return call<D3DKMTCreateAllocation2>(args, [](auto& process, D3DKMT_CREATEALLOCATION& in) {
    return dxgkit::thunks::create_allocations<&D3DKMT_CREATEALLOCATION::pAllocationInfo2>(process,
                                                                                          in);
  });
}
NTSTATUS APIENTRY D3DKMTDestroyAllocation(const D3DKMT_DESTROYALLOCATION* args) {
  return call<D3DKMTDestroyAllocation>(args, [](auto& process, const D3DKMT_DESTROYALLOCATION& in) {
    return dxgkit::thunks::destroy_allocations(process, in, 0);
  });
}
NTSTATUS APIENTRY D3DKMTDestroyAllocation2(const D3DKMT_DESTROYALLOCATION2* args) {
  return call<D3DKMTDestroyAllocation2>(
      args, [](auto& process, const D3DKMT_DESTROYALLOCATION2& in) {
        return dxgkit::thunks::destroy_allocations(process, in, in.Flags.Value);
      });
}

}  // extern "C"
