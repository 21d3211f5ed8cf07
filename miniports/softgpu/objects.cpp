// Devices, contexts and allocations: what they are to the driver, and where they may live.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

template <typename Object>
Object* make() {
  auto* object =
      static_cast<Object*>(ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(Object), kPoolTag));
  if (object != nullptr) RtlZeroMemory(object, sizeof(Object));
  return object;
}
void unmake(void* object) { ExFreePoolWithTag(object, kPoolTag); }

/// What an allocation's private data asks for, checked. STATUS_SUCCESS: `request` is as user mode
/// will get it back, with size and pitch filled in.
NTSTATUS check_request(SgpuUmdAllocation* request) {
  if (request->magic != SGPU_UMD_ALLOCATION_MAGIC || request->version != SGPU_UMD_VERSION) {
    return STATUS_GRAPHICS_DRIVER_MISMATCH;
  }
  if (request->placement > SGPU_UMD_PLACE_ANY || request->reserved != 0) {
    return STATUS_INVALID_PARAMETER;
  }
  switch (request->kind) {
    case SGPU_UMD_KIND_BUFFER:
      if (request->width != 0 || request->height != 0 || request->pitch_bytes != 0) {
        return STATUS_INVALID_PARAMETER;
      }
      break;
    case SGPU_UMD_KIND_SURFACE: {
      const UINT width = request->width;
      if (width == 0 || width > SGPU_UMD_SURFACE_PIXELS_MAX) return STATUS_INVALID_PARAMETER;
      if (request->height == 0 || request->height > SGPU_UMD_SURFACE_PIXELS_MAX) {
        return STATUS_INVALID_PARAMETER;
      }
      if (request->size_bytes != 0) return STATUS_INVALID_PARAMETER;
      const UINT row = width * SGPU_PIXEL_BYTES;
      if (request->pitch_bytes == 0) {
        request->pitch_bytes =
            (row + SGPU_UMD_PITCH_ALIGNMENT - 1) & ~(SGPU_UMD_PITCH_ALIGNMENT - 1);
      }
      if (request->pitch_bytes < row || request->pitch_bytes % SGPU_PIXEL_BYTES != 0) {
        return STATUS_INVALID_PARAMETER;
      }
      request->size_bytes = UINT64{request->pitch_bytes} * request->height;
      break;
    }
    default:
      return STATUS_INVALID_PARAMETER;
  }
  if (request->size_bytes == 0 || request->size_bytes > SGPU_UMD_ALLOCATION_BYTES_MAX) {
    return STATUS_INVALID_PARAMETER;
  }
  return STATUS_SUCCESS;
}

void choose_segments(UINT placement, DXGK_ALLOCATIONINFO* info) {
  constexpr UINT kVram = segment_bit(kSegmentVram);
  constexpr UINT kAperture = segment_bit(kSegmentAperture);
  info->PreferredSegment.Value = 0;
  info->HintedBank.Value = 0;
  info->Flags.Value = 0;
  UINT set = kVram;
  info->PreferredSegment.SegmentId0 = kSegmentVram;
  switch (placement) {
    case SGPU_UMD_PLACE_STAGING:
      // Nothing but the aperture: what the CPU reads back should stay in cached memory.
      set = kAperture;
      info->PreferredSegment.SegmentId0 = kSegmentAperture;
      info->Flags.CpuVisible = 1;
      info->Flags.Cached = 1;
      break;
    case SGPU_UMD_PLACE_ANY:
      set = kVram | kAperture;
      info->PreferredSegment.SegmentId1 = kSegmentAperture;
      info->Flags.CpuVisible = 1;
      break;
    default:
      break;
  }
  info->SupportedReadSegmentSet = set;
  info->SupportedWriteSegmentSet = set;
  // Straight to locked system pages: COPY_PAGES takes page lists, so eviction needs no aperture.
  info->EvictionSegmentSet = 0;
}

NTSTATUS create_one(DXGK_ALLOCATIONINFO* info) {
  if (info->pPrivateDriverData == nullptr ||
      info->PrivateDriverDataSize < sizeof(SgpuUmdAllocation)) {
    return STATUS_INVALID_PARAMETER;
  }
  SgpuUmdAllocation request;
  RtlCopyMemory(&request, info->pPrivateDriverData, sizeof(request));
  const NTSTATUS status = check_request(&request);
  if (!NT_SUCCESS(status)) return status;
  auto* allocation = make<Allocation>();
  if (allocation == nullptr) return STATUS_NO_MEMORY;
  allocation->size_bytes = request.size_bytes;
  allocation->width = request.width;
  allocation->height = request.height;
  allocation->pitch_bytes = request.pitch_bytes;
  RtlCopyMemory(info->pPrivateDriverData, &request, sizeof(request));

  choose_segments(request.placement, info);
  info->Alignment = PAGE_SIZE;
  info->Size = request.size_bytes;
  info->PitchAlignedSize = 0;
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
  // pInfo is for drivers without contexts.
  args->hDevice = device;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyDevice(IN_CONST_HANDLE device) {
  unmake(device);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateContext(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  if (args->NodeOrdinal >= SGPU_NODE_COUNT) return STATUS_INVALID_PARAMETER;
  if (args->PrivateDriverDataSize != 0 && args->Flags.SystemContext == 0) {
    SgpuUmdContext request;
    if (args->pPrivateDriverData == nullptr || args->PrivateDriverDataSize < sizeof(request)) {
      return STATUS_INVALID_PARAMETER;
    }
    RtlCopyMemory(&request, args->pPrivateDriverData, sizeof(request));
    if (request.magic != SGPU_UMD_CONTEXT_MAGIC || request.version != SGPU_UMD_VERSION ||
        request.flags != 0 || request.reserved != 0) {
      return STATUS_INVALID_PARAMETER;
    }
  }
  auto* context = make<Context>();
  if (context == nullptr) return STATUS_NO_MEMORY;
  context->device = static_cast<Device*>(device);
  context->node = args->NodeOrdinal;
  args->hContext = context;

  DXGK_CONTEXTINFO& info = args->ContextInfo;
  info.DmaBufferSize = kDmaBufferBytes;
  info.DmaBufferSegmentSet = 0;  // contiguous system memory, which the engines reach one to one
  info.DmaBufferPrivateDataSize = sizeof(SubmissionRecord);
  info.AllocationListSize = kAllocationListSize;
  info.PatchLocationListSize = kPatchListSize;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyContext(IN_CONST_HANDLE context) {
  unmake(context);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateAllocation(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  UNREFERENCED_PARAMETER(adapter);
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    const NTSTATUS status = create_one(&args->pAllocationInfo[i]);
    if (NT_SUCCESS(status)) continue;
    while (i-- > 0) {  // all or none
      unmake(args->pAllocationInfo[i].hAllocation);
      args->pAllocationInfo[i].hAllocation = nullptr;
    }
    return status;
  }
  // A resource is nothing to this driver; the kernel wants a handle to know it was seen.
  if (args->Flags.Resource != 0 && args->hResource == nullptr) {
    args->hResource = make<UINT64>();
    if (args->hResource == nullptr) {
      for (UINT i = 0; i < args->NumAllocations; ++i) {
        unmake(args->pAllocationInfo[i].hAllocation);
        args->pAllocationInfo[i].hAllocation = nullptr;
      }
      return STATUS_NO_MEMORY;
    }
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyAllocation(IN_CONST_HANDLE adapter,
                                    IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  UNREFERENCED_PARAMETER(adapter);
  for (UINT i = 0; i < args->NumAllocations; ++i) unmake(args->pAllocationList[i]);
  if (args->Flags.DestroyResource != 0 && args->hResource != nullptr) unmake(args->hResource);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDescribeAllocation(IN_CONST_HANDLE adapter,
                                     INOUT_PDXGKARG_DESCRIBEALLOCATION args) {
  UNREFERENCED_PARAMETER(adapter);
  const auto& allocation = *static_cast<const Allocation*>(args->hAllocation);
  if (allocation.width == 0) return STATUS_INVALID_PARAMETER;  // a buffer has no picture in it
  args->Width = allocation.width;
  args->Height = allocation.height;
  args->Format = D3DDDIFMT_A8B8G8R8;  // R, G, B, A in memory
  args->MultisampleMethod.NumSamples = 1;
  args->MultisampleMethod.NumQualityLevels = 0;
  args->RefreshRate.Numerator = 0;
  args->RefreshRate.Denominator = 0;
  args->PrivateDriverFormatAttribute = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiGetStandardAllocationDriverData(
    IN_CONST_HANDLE adapter, INOUT_PDXGKARG_GETSTANDARDALLOCATIONDRIVERDATA args) {
  UNREFERENCED_PARAMETER(adapter);
  SgpuUmdAllocation request;
  RtlZeroMemory(&request, sizeof(request));
  request.magic = SGPU_UMD_ALLOCATION_MAGIC;
  request.version = SGPU_UMD_VERSION;
  request.kind = SGPU_UMD_KIND_SURFACE;
  UINT* pitch;
  switch (args->StandardAllocationType) {
    case D3DKMDT_STANDARDALLOCATION_STAGINGSURFACE:
      request.placement = SGPU_UMD_PLACE_STAGING;
      request.width = args->pCreateStagingSurfaceData->Width;
      request.height = args->pCreateStagingSurfaceData->Height;
      pitch = &args->pCreateStagingSurfaceData->Pitch;
      break;
    case D3DKMDT_STANDARDALLOCATION_SHADOWSURFACE:
      request.placement = SGPU_UMD_PLACE_STAGING;
      request.width = args->pCreateShadowSurfaceData->Width;
      request.height = args->pCreateShadowSurfaceData->Height;
      pitch = &args->pCreateShadowSurfaceData->Pitch;
      break;
    default:  // primaries and GDI surfaces belong to displays
      return STATUS_NOT_SUPPORTED;
  }
  const SgpuUmdAllocation asked = request;
  if (!NT_SUCCESS(check_request(&request))) return STATUS_INVALID_PARAMETER;
  *pitch = request.pitch_bytes;
  // First pass: sizes. Second pass: the data for DxgkDdiCreateAllocation, as user mode would ask.
  if (args->pAllocationPrivateDriverData != nullptr) {
    if (args->AllocationPrivateDriverDataSize < sizeof(asked)) return STATUS_BUFFER_TOO_SMALL;
    RtlCopyMemory(args->pAllocationPrivateDriverData, &asked, sizeof(asked));
  }
  args->AllocationPrivateDriverDataSize = sizeof(asked);
  args->ResourcePrivateDriverDataSize = 0;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiOpenAllocation(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  const Adapter& adapter = *static_cast<const Device*>(handle)->adapter;
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_OPENALLOCATIONINFO& info = args->pOpenAllocation[i];
    // Whoever opens knows the allocation by the kernel's handle only.
    DXGKARGCB_GETHANDLEDATA query;
    RtlZeroMemory(&query, sizeof(query));
    query.hObject = info.hAllocation;
    query.Type = DXGK_HANDLE_ALLOCATION;
    const auto* allocation =
        static_cast<const Allocation*>(adapter.dxgk.DxgkCbGetHandleData(&query));
    auto* open = allocation != nullptr ? make<OpenAllocation>() : nullptr;
    if (open == nullptr) {
      while (i-- > 0) {
        unmake(args->pOpenAllocation[i].hDeviceSpecificAllocation);
        args->pOpenAllocation[i].hDeviceSpecificAllocation = nullptr;
      }
      return allocation == nullptr ? STATUS_INVALID_HANDLE : STATUS_NO_MEMORY;
    }
    open->size_bytes = allocation->size_bytes;
    open->memory = allocation;
    info.hDeviceSpecificAllocation = open;
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCloseAllocation(IN_CONST_HANDLE device, IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  UNREFERENCED_PARAMETER(device);
  for (UINT i = 0; i < args->NumAllocations; ++i) unmake(args->pOpenHandleList[i]);
  return STATUS_SUCCESS;
}

}  // namespace softgpu
