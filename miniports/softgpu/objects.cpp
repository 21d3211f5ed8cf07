// Devices, contexts and allocations: what they are to the driver, and where they may live.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

void take_back(HANDLE* object) {
  unmake(*object);
  *object = nullptr;
}

/// The one copy of what user mode wrote. False if it is too short.
template <typename Request>
bool read_private(const void* data, UINT bytes, Request* request) {
  if (data == nullptr || bytes < sizeof(*request)) return false;
  RtlCopyMemory(request, data, sizeof(*request));
  return true;
}

/// What an allocation's private data asks for, checked. STATUS_SUCCESS: `request` is as user mode
/// will get it back, with size and pitch filled in.
NTSTATUS check_request(SgpuUmdAllocation* request) {
  if (request->magic != SGPU_UMD_ALLOCATION_MAGIC || request->version != SGPU_UMD_VERSION) {
    return STATUS_GRAPHICS_DRIVER_MISMATCH;
  }
  constexpr UINT kMax = SGPU_UMD_SURFACE_PIXELS_MAX;
  bool valid = request->placement <= SGPU_UMD_PLACE_ANY && request->reserved == 0;
  if (request->kind == SGPU_UMD_KIND_SURFACE) {
    valid = valid && request->size_bytes == 0 && request->width != 0 && request->width <= kMax &&
            request->height <= kMax;
    const UINT row = request->width * SGPU_PIXEL_BYTES;
    UINT& pitch = request->pitch_bytes;
    if (pitch == 0) pitch = (row + SGPU_UMD_PITCH_ALIGNMENT - 1) & ~(SGPU_UMD_PITCH_ALIGNMENT - 1);
    valid = valid && pitch >= row && pitch % SGPU_PIXEL_BYTES == 0;
    request->size_bytes = UINT64{pitch} * request->height;  // 0 is refused below
  } else {
    valid = valid && request->kind == SGPU_UMD_KIND_BUFFER && request->width == 0 &&
            request->height == 0 && request->pitch_bytes == 0;
  }
  valid = valid && request->size_bytes != 0 && request->size_bytes <= SGPU_UMD_ALLOCATION_BYTES_MAX;
  return valid ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

/// The flags and preferences in `info` are 0 so far.
void choose_segments(UINT placement, DXGK_ALLOCATIONINFO* info) {
  UINT set = segment_bit(kSegmentVram);
  info->PreferredSegment.SegmentId0 = kSegmentVram;
  if (placement == SGPU_UMD_PLACE_STAGING) {
    // Nothing but the aperture: what the CPU reads back should stay in cached memory.
    set = segment_bit(kSegmentAperture);
    info->PreferredSegment.SegmentId0 = kSegmentAperture;
    info->Flags.Cached = 1;
  } else if (placement == SGPU_UMD_PLACE_ANY) {
    set |= segment_bit(kSegmentAperture);
    info->PreferredSegment.SegmentId1 = kSegmentAperture;
  }
  info->Flags.CpuVisible = placement != SGPU_UMD_PLACE_VRAM;
  info->SupportedReadSegmentSet = set;
  info->SupportedWriteSegmentSet = set;
  // Straight to locked system pages: COPY_PAGES takes page lists, so eviction needs no aperture.
  info->EvictionSegmentSet = 0;
}

NTSTATUS create_one(DXGK_ALLOCATIONINFO* info) {
  SgpuUmdAllocation request;
  if (!read_private(info->pPrivateDriverData, info->PrivateDriverDataSize, &request)) {
    return STATUS_INVALID_PARAMETER;
  }
  if (const NTSTATUS status = check_request(&request); !NT_SUCCESS(status)) return status;
  auto* allocation = make<OpenAllocation>();
  if (allocation == nullptr) return STATUS_NO_MEMORY;
  allocation->size_bytes = request.size_bytes;
  allocation->memory = allocation;
#if SOFTGPU_HAS_SCREEN
  allocation->width = request.width;
  allocation->height = request.height;
  allocation->pitch_bytes = request.pitch_bytes;
#endif
  RtlCopyMemory(info->pPrivateDriverData, &request, sizeof(request));

  // Where pages are larger, allocations begin with one.
  const bool vram = request.placement != SGPU_UMD_PLACE_STAGING;
  info->Alignment = has_large_pages() && vram ? SGPU_LARGE_PAGE_BYTES : PAGE_SIZE;
  info->Size = request.size_bytes;
  info->PitchAlignedSize = 0;
  info->PreferredSegment.Value = 0;
  info->HintedBank.Value = 0;
  info->Flags.Value = 0;
  choose_segments(request.placement, info);
  // A few instances let a Lock with Discard go on while the engine still reads the last one.
  info->MaximumRenamingListLength = request.placement == SGPU_UMD_PLACE_STAGING ? 4 : 1;
  info->pAllocationUsageHint = nullptr;
  info->AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
  info->hAllocation = allocation;
  return STATUS_SUCCESS;
}

}  // namespace

NTSTATUS NTAPI DdiCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  auto* device = make<Device>();
  if (device == nullptr) return STATUS_NO_MEMORY;
  device->adapter = static_cast<Adapter*>(context);
#if SOFTGPU_HAS_GPU_VA
  device->process = static_cast<const Process*>(args->hKmdProcess);
#endif
  args->hDevice = device;  // pInfo is for drivers without contexts
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyDevice(IN_CONST_HANDLE device) {
  unmake(device);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateContext(IN_CONST_HANDLE handle, INOUT_PDXGKARG_CREATECONTEXT args) {
  if (args->NodeOrdinal >= SGPU_NODE_COUNT) return STATUS_INVALID_PARAMETER;
  const bool system = args->Flags.SystemContext != 0;
#if SOFTGPU_HAS_GPU_VA
  // One model at a time: what patches needs its memory in one piece, which nobody promises here.
  if (!system && (args->Flags.VirtualAddressing != 0) != has_gpu_va()) {
    return STATUS_INVALID_PARAMETER;
  }
#endif
  if (args->PrivateDriverDataSize != 0 && args->Flags.SystemContext == 0) {
    SgpuUmdContext request;
    if (!read_private(args->pPrivateDriverData, args->PrivateDriverDataSize, &request) ||
        request.magic != SGPU_UMD_CONTEXT_MAGIC || request.version != SGPU_UMD_VERSION ||
        request.flags != 0 || request.reserved != 0) {
      return STATUS_INVALID_PARAMETER;
    }
  }
  auto* context = make<Context>();
  if (context == nullptr) return STATUS_NO_MEMORY;
  context->node = args->NodeOrdinal;
  context->system = system;
  const auto* device = static_cast<const Device*>(handle);
  if (device != nullptr && device->process != nullptr) {
    context->process = device->process->handle;
    context->of_paging = system && device->process->system;
  } else {
    context->of_paging = system;
  }
  args->hContext = context;

  DXGK_CONTEXTINFO& info = args->ContextInfo;
  info.DmaBufferSize = kDmaBufferBytes;
  info.DmaBufferSegmentSet = 0;  // contiguous system memory, which the engines reach one to one
  info.DmaBufferPrivateDataSize = sizeof(SubmissionRecord);
  info.AllocationListSize = kAllocationListSize;
  info.PatchLocationListSize = kPatchListSize;
#if SOFTGPU_HAS_GPU_VA
  if (has_gpu_va()) {
    // User mode brings buffers of its own, and the kernel's come with their operations.
    info.DmaBufferSize = info.AllocationListSize = info.PatchLocationListSize = 0;
    if (!system) info.DmaBufferPrivateDataSize += sizeof(SgpuUmdSubmission);
    info.PagingCompanionNodeId = SGPU_NODE_COPY;
  }
#endif
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyContext(IN_CONST_HANDLE context) {
  unmake(context);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateAllocation(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    const NTSTATUS status = create_one(&args->pAllocationInfo[i]);
    if (NT_SUCCESS(status)) continue;
    while (i-- > 0) take_back(&args->pAllocationInfo[i].hAllocation);  // all or none
    return status;
  }
  // A resource is nothing to this driver, so one handle does for all.
  static UINT resource;
  if (args->Flags.Resource != 0 && args->hResource == nullptr) args->hResource = &resource;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) unmake(args->pAllocationList[i]);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiOpenAllocation(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  const Adapter& adapter = *static_cast<const Device*>(handle)->adapter;
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_OPENALLOCATIONINFO& info = args->pOpenAllocation[i];
    // Whoever opens knows the allocation by the kernel's handle only.
    DXGKARGCB_GETHANDLEDATA query = {};
    query.hObject = info.hAllocation;
    query.Type = DXGK_HANDLE_ALLOCATION;
    const auto* allocation =
        static_cast<const OpenAllocation*>(adapter.dxgk.DxgkCbGetHandleData(&query));
    auto* open = allocation != nullptr ? make<OpenAllocation>() : nullptr;
    if (open == nullptr) {
      while (i-- > 0) take_back(&args->pOpenAllocation[i].hDeviceSpecificAllocation);
      return allocation == nullptr ? STATUS_INVALID_HANDLE : STATUS_NO_MEMORY;
    }
    *open = *allocation;
    info.hDeviceSpecificAllocation = open;
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCloseAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) unmake(args->pOpenHandleList[i]);
  return STATUS_SUCCESS;
}

}  // namespace softgpu
