// Devices, contexts and allocations.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

void free_memory(Allocation* allocation) {
  if (allocation->entries != nullptr) {
    MmFreeContiguousMemorySpecifyCache(allocation->entries, allocation->pages * sizeof(VgpuEntry),
                                       MmCached);
  }
  unmake(allocation);
}

void destroy_one(Allocation* allocation) {
  if (allocation->is_3d) end_resource_3d(allocation);
  free_memory(allocation);
}

/// The one copy of what user mode wrote. False if it is too short, or begins otherwise.
template <typename Request>
bool read_private(const DXGK_ALLOCATIONINFO& info, ULONG magic, Request* request) {
  if (info.PrivateDriverDataSize < sizeof(*request)) return false;
  RtlCopyMemory(request, info.pPrivateDriverData, sizeof(*request));
  return request->magic == magic;
}

/// STATUS_SUCCESS: `request` is as user mode will get it back.
NTSTATUS check_surface(VgpuUmdAllocation* request) {
  if (request->version != VGPU_UMD_VERSION) return STATUS_GRAPHICS_DRIVER_MISMATCH;
  if (request->width == 0 || request->width > VGPU_UMD_SIDE_MAX || request->height == 0 ||
      request->height > VGPU_UMD_SIDE_MAX || request->pitch_bytes != 0 || request->reserved != 0)
    return STATUS_INVALID_PARAMETER;
  request->pitch_bytes = request->width * kPixelBytes;
  return STATUS_SUCCESS;
}

/// What the device does not know of: the rest it refuses itself.
NTSTATUS check_resource(const Adapter& adapter, const VgpuUmdResource& request) {
  if (request.version != VGPU_UMD_VERSION) return STATUS_GRAPHICS_DRIVER_MISMATCH;
  if (!adapter.has_3d || request.resource != 0 || request.reserved != 0)
    return STATUS_INVALID_PARAMETER;
  if (request.width == 0 || request.height == 0 || request.depth == 0 || request.array_size == 0)
    return STATUS_INVALID_PARAMETER;
  if (request.size_bytes == 0 || request.size_bytes > resource_bytes_most())
    return STATUS_INVALID_PARAMETER;
  return STATUS_SUCCESS;
}

/// Memory for the list of pages.
NTSTATUS prepare_memory(Allocation* allocation, ULONG64 bytes) {
  if (bytes > aperture_bytes()) return STATUS_NO_MEMORY;
  allocation->bytes = bytes;
  allocation->pages = static_cast<UINT>((bytes + PAGE_SIZE - 1) / PAGE_SIZE);
  PHYSICAL_ADDRESS lowest = {}, highest = {}, boundary = {};
  highest.QuadPart = -1;
  allocation->entries = static_cast<VgpuEntry*>(MmAllocateContiguousMemorySpecifyCache(
      allocation->pages * sizeof(VgpuEntry), lowest, highest, boundary, MmCached));
  if (allocation->entries == nullptr) return STATUS_NO_MEMORY;
  allocation->entries_address = MmGetPhysicalAddress(allocation->entries);
  return STATUS_SUCCESS;
}

NTSTATUS make_surface(Allocation* allocation, VgpuUmdAllocation* request) {
  if (const NTSTATUS status = check_surface(request); !NT_SUCCESS(status)) return status;
  allocation->width = request->width;
  allocation->height = request->height;
  return prepare_memory(allocation, ULONG64{request->pitch_bytes} * request->height);
}

NTSTATUS make_resource(Allocation* allocation, VgpuUmdResource* request) {
  NTSTATUS status = check_resource(*allocation->adapter, *request);
  if (NT_SUCCESS(status)) status = prepare_memory(allocation, request->size_bytes);
  if (!NT_SUCCESS(status)) return status;
  allocation->is_3d = true;
  allocation->width = request->width;
  allocation->height = request->height;
  allocation->depth = request->depth > request->array_size ? request->depth : request->array_size;
  allocation->last_level = request->last_level;
  request->resource = allocation->resource;
  return begin_resource_3d(allocation, *request);
}

NTSTATUS create_one(Adapter* adapter, DXGK_ALLOCATIONINFO* info) {
  if (info->pPrivateDriverData == nullptr) return STATUS_INVALID_PARAMETER;
  VgpuUmdAllocation surface;
  VgpuUmdResource resource;
  const bool is_surface = read_private(*info, VGPU_UMD_ALLOCATION_MAGIC, &surface);
  const bool is_resource = !is_surface && read_private(*info, VGPU_UMD_RESOURCE_MAGIC, &resource);
  if (!is_surface && !is_resource) {
    const bool has_magic = info->PrivateDriverDataSize >= sizeof(surface);
    return has_magic ? STATUS_GRAPHICS_DRIVER_MISMATCH : STATUS_INVALID_PARAMETER;
  }
  auto* allocation = make<Allocation>();
  if (allocation == nullptr) return STATUS_NO_MEMORY;
  allocation->adapter = adapter;
  allocation->resource = static_cast<ULONG>(InterlockedIncrement(&adapter->next_resource));
  const NTSTATUS status =
      is_surface ? make_surface(allocation, &surface) : make_resource(allocation, &resource);
  if (!NT_SUCCESS(status)) {
    free_memory(allocation);
    return status;
  }
  if (is_surface) {
    RtlCopyMemory(info->pPrivateDriverData, &surface, sizeof(surface));
  } else {
    RtlCopyMemory(info->pPrivateDriverData, &resource, sizeof(resource));
  }

  info->Alignment = PAGE_SIZE;
  info->Size = static_cast<SIZE_T>(allocation->bytes);
  info->PitchAlignedSize = 0;
  info->PreferredSegment.Value = 0;
  info->PreferredSegment.SegmentId0 = kSegment;
  info->HintedBank.Value = 0;
  info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet = 1U << (kSegment - 1);
  info->EvictionSegmentSet = 0;
  info->Flags.Value = 0;
  info->Flags.CpuVisible = 1;
  info->MaximumRenamingListLength = 1;
  info->pAllocationUsageHint = nullptr;
  info->AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
  info->hAllocation = allocation;
  return STATUS_SUCCESS;
}

void close_one(Opened* opened) {
  if (opened->allocation->is_3d) detach_resource_3d(opened);
  unmake(opened);
}

NTSTATUS open_one(Device* device, DXGK_OPENALLOCATIONINFO* info) {
  // Whoever opens knows the allocation by the kernel's handle only.
  DXGKARGCB_GETHANDLEDATA query = {};
  query.hObject = info->hAllocation;
  query.Type = DXGK_HANDLE_ALLOCATION;
  auto* allocation = static_cast<Allocation*>(device->adapter->dxgk.DxgkCbGetHandleData(&query));
  if (allocation == nullptr) return STATUS_INVALID_HANDLE;
  auto* opened = make<Opened>();
  if (opened == nullptr) return STATUS_NO_MEMORY;
  opened->device = device;
  opened->allocation = allocation;
  const NTSTATUS status = allocation->is_3d ? attach_resource_3d(opened) : STATUS_SUCCESS;
  if (!NT_SUCCESS(status)) {
    unmake(opened);
    return status;
  }
  info->hDeviceSpecificAllocation = opened;
  return STATUS_SUCCESS;
}

}  // namespace

NTSTATUS NTAPI DdiCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  auto* device = make<Device>();
  if (device == nullptr) return STATUS_NO_MEMORY;
  device->adapter = static_cast<Adapter*>(context);
  InitializeListHead(&device->contexts);
  InitializeListHead(&device->opened);
  args->hDevice = device;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyDevice(IN_CONST_HANDLE device) {
  unmake(device);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateContext(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  if (args->NodeOrdinal != 0) return STATUS_INVALID_PARAMETER;
  const bool is_3d = args->PrivateDriverDataSize != 0;
  VgpuUmdContext request;
  if (is_3d) {
    if (args->PrivateDriverDataSize < sizeof(request)) return STATUS_INVALID_PARAMETER;
    RtlCopyMemory(&request, args->pPrivateDriverData, sizeof(request));
  }
  auto* context = make<Context>();
  if (context == nullptr) return STATUS_NO_MEMORY;
  context->device = static_cast<Device*>(device);
  const NTSTATUS status = is_3d ? begin_context_3d(context, request) : STATUS_SUCCESS;
  if (!NT_SUCCESS(status)) {
    unmake(context);
    return status;
  }
  args->hContext = context;
  DXGK_CONTEXTINFO& info = args->ContextInfo;
  info.DmaBufferSize = is_3d ? kDmaBuffer3dBytes : kDmaBufferBytes;
  info.DmaBufferSegmentSet = 0;  // contiguous system memory, where the device fetches requests
  info.DmaBufferPrivateDataSize = sizeof(Record);
  info.AllocationListSize = is_3d ? kList3dMost : kListMost;
  // Also for what single commands name.
  info.PatchLocationListSize = is_3d ? kList3dMost + kCommandsMost : kListMost;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyContext(IN_CONST_HANDLE handle) {
  auto* context = static_cast<Context*>(handle);
  end_context_3d(context);
  unmake(context);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateAllocation(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEALLOCATION args) {
  auto* adapter = static_cast<Adapter*>(context);
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    const NTSTATUS status = create_one(adapter, &args->pAllocationInfo[i]);
    if (NT_SUCCESS(status)) continue;
    while (i-- > 0) {  // all or none
      destroy_one(static_cast<Allocation*>(args->pAllocationInfo[i].hAllocation));
      args->pAllocationInfo[i].hAllocation = nullptr;
    }
    return status;
  }
  // A resource is nothing to this driver, so one handle does for all.
  static UINT resource;
  if (args->Flags.Resource != 0 && args->hResource == nullptr) args->hResource = &resource;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i)
    destroy_one(static_cast<Allocation*>(args->pAllocationList[i]));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiOpenAllocation(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  auto* device = static_cast<Device*>(handle);
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    const NTSTATUS status = open_one(device, &args->pOpenAllocation[i]);
    if (NT_SUCCESS(status)) continue;
    while (i-- > 0) {  // all or none
      close_one(static_cast<Opened*>(args->pOpenAllocation[i].hDeviceSpecificAllocation));
      args->pOpenAllocation[i].hDeviceSpecificAllocation = nullptr;
    }
    return status;
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCloseAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i)
    close_one(static_cast<Opened*>(args->pOpenHandleList[i]));
  return STATUS_SUCCESS;
}

}  // namespace virtiogpu
