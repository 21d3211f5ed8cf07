// Devices, contexts and allocations.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

void destroy_one(Allocation* allocation) {
  if (allocation->entries != nullptr) {
    MmFreeContiguousMemorySpecifyCache(allocation->entries, allocation->pages * sizeof(VgpuEntry),
                                       MmCached);
  }
  unmake(allocation);
}

NTSTATUS create_one(Adapter* adapter, DXGK_ALLOCATIONINFO* info) {
  VgpuUmdAllocation request;
  if (info->pPrivateDriverData == nullptr || info->PrivateDriverDataSize < sizeof(request))
    return STATUS_INVALID_PARAMETER;
  RtlCopyMemory(&request, info->pPrivateDriverData, sizeof(request));
  if (request.magic != VGPU_UMD_ALLOCATION_MAGIC || request.version != VGPU_UMD_VERSION)
    return STATUS_GRAPHICS_DRIVER_MISMATCH;
  if (request.width == 0 || request.width > VGPU_UMD_SIDE_MAX || request.height == 0 ||
      request.height > VGPU_UMD_SIDE_MAX || request.pitch_bytes != 0 || request.reserved != 0)
    return STATUS_INVALID_PARAMETER;
  auto* allocation = make<Allocation>();
  if (allocation == nullptr) return STATUS_NO_MEMORY;
  request.pitch_bytes = request.width * kPixelBytes;
  const SIZE_T bytes = SIZE_T{request.pitch_bytes} * request.height;
  allocation->adapter = adapter;
  allocation->width = request.width;
  allocation->height = request.height;
  allocation->pages = static_cast<UINT>((bytes + PAGE_SIZE - 1) / PAGE_SIZE);
  PHYSICAL_ADDRESS lowest = {}, highest = {}, boundary = {};
  highest.QuadPart = -1;
  allocation->entries = static_cast<VgpuEntry*>(MmAllocateContiguousMemorySpecifyCache(
      allocation->pages * sizeof(VgpuEntry), lowest, highest, boundary, MmCached));
  if (allocation->entries == nullptr) {
    destroy_one(allocation);
    return STATUS_NO_MEMORY;
  }
  allocation->entries_address = MmGetPhysicalAddress(allocation->entries);
  allocation->resource = static_cast<ULONG>(InterlockedIncrement(&adapter->next_resource));
  RtlCopyMemory(info->pPrivateDriverData, &request, sizeof(request));

  info->Alignment = PAGE_SIZE;
  info->Size = bytes;
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

}  // namespace

NTSTATUS NTAPI DdiCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  auto* device = make<Device>();
  if (device == nullptr) return STATUS_NO_MEMORY;
  device->adapter = static_cast<Adapter*>(context);
  args->hDevice = device;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyDevice(IN_CONST_HANDLE device) {
  unmake(device);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCreateContext(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATECONTEXT args) {
  if (args->NodeOrdinal != 0) return STATUS_INVALID_PARAMETER;
  auto* context = make<Context>();
  if (context == nullptr) return STATUS_NO_MEMORY;
  context->system = args->Flags.SystemContext != 0;
  args->hContext = context;
  DXGK_CONTEXTINFO& info = args->ContextInfo;
  info.DmaBufferSize = kDmaBufferBytes;
  info.DmaBufferSegmentSet = 0;  // contiguous system memory, where the device fetches requests
  info.DmaBufferPrivateDataSize = sizeof(Record);
  info.AllocationListSize = 64;
  info.PatchLocationListSize = 64;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiDestroyContext(IN_CONST_HANDLE context) {
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
  const Adapter& adapter = *static_cast<const Device*>(handle)->adapter;
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    // Whoever opens knows the allocation by the kernel's handle only.
    DXGK_OPENALLOCATIONINFO& info = args->pOpenAllocation[i];
    DXGKARGCB_GETHANDLEDATA query = {};
    query.hObject = info.hAllocation;
    query.Type = DXGK_HANDLE_ALLOCATION;
    info.hDeviceSpecificAllocation = adapter.dxgk.DxgkCbGetHandleData(&query);
    if (info.hDeviceSpecificAllocation == nullptr) return STATUS_INVALID_HANDLE;
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCloseAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CLOSEALLOCATION) {
  return STATUS_SUCCESS;  // opening made nothing
}

}  // namespace virtiogpu
