// A display miniport for mygpu: registers, a ring, interrupts.
#define DXGKDDI_INTERFACE_VERSION 0x4002  // WDDM 1.3: what follows speaks the patch model
#include <ntddk.h>

#include <dispmprt.h>

#include "mygpu.h"

#define MYGPU_TAG 0x7570474D  // "MGpu"

typedef struct _ADAPTER {
  DXGKRNL_INTERFACE Dxgk;
  PUCHAR Registers;
  PHYSICAL_ADDRESS MemoryAddress;  // where the CPU sees the GPU's memory
  RING_ENTRY* Ring;
  PHYSICAL_ADDRESS RingAddress;

  KSPIN_LOCK Lock;  // guards Tail
  ULONG Tail;       // entries that were put into the ring since the reset

  // At device level, or while nothing is in flight:
  UINT LastCompleted;
  UINT Preemption;  // fence of a preemption that was asked for; 0: none
} ADAPTER;

typedef struct _DEVICE {
  ADAPTER* Adapter;
} DEVICE;

typedef struct _ALLOCATION {
  ULONGLONG Bytes;
} ALLOCATION;

static PVOID Allocate(SIZE_T bytes) {
  PVOID memory = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, MYGPU_TAG);
  if (memory != NULL) RtlZeroMemory(memory, bytes);
  return memory;
}

static ULONG Read(const ADAPTER* adapter, ULONG offset) {
  return READ_REGISTER_ULONG((volatile ULONG*)(adapter->Registers + offset));
}
static VOID Write(const ADAPTER* adapter, ULONG offset, ULONG value) {
  WRITE_REGISTER_ULONG((volatile ULONG*)(adapter->Registers + offset), value);
}

static NTSTATUS NTAPI MyAddDevice(IN_CONST_PDEVICE_OBJECT device, OUT_PPVOID context) {
  UNREFERENCED_PARAMETER(device);
  ADAPTER* adapter = Allocate(sizeof(ADAPTER));
  if (adapter == NULL) return STATUS_NO_MEMORY;
  KeInitializeSpinLock(&adapter->Lock);
  *context = adapter;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyRemoveDevice(IN_CONST_PVOID context) {
  ExFreePoolWithTag(context, MYGPU_TAG);
  return STATUS_SUCCESS;
}

static VOID NTAPI MyUnload(void) {}

// From here on the engine takes entries from an empty ring.
static VOID StartEngine(ADAPTER* adapter) {
  Write(adapter, REG_RESET, 1);
  Write(adapter, REG_RING_LOW, adapter->RingAddress.LowPart);
  Write(adapter, REG_RING_HIGH, (ULONG)adapter->RingAddress.HighPart);
  adapter->Tail = 0;
  adapter->Preemption = 0;
}

static NTSTATUS NTAPI MyStopDevice(IN_CONST_PVOID context) {
  ADAPTER* adapter = context;
  if (adapter->Registers != NULL) {
    Write(adapter, REG_RESET, 1);  // it neither writes nor interrupts any more
    adapter->Dxgk.DxgkCbUnmapMemory(adapter->Dxgk.DeviceHandle, adapter->Registers);
  }
  adapter->Registers = NULL;
  if (adapter->Ring != NULL) MmFreeContiguousMemory(adapter->Ring);
  adapter->Ring = NULL;
  return STATUS_SUCCESS;
}

// The bus gives memory in the order of the BARs: registers, then the GPU's memory.
static NTSTATUS FindResources(ADAPTER* adapter, PCM_RESOURCE_LIST resources,
                              PHYSICAL_ADDRESS* registers) {
  UINT found = 0;
  if (resources == NULL || resources->Count == 0) return STATUS_DEVICE_CONFIGURATION_ERROR;
  const CM_PARTIAL_RESOURCE_LIST* list = &resources->List[0].PartialResourceList;
  for (ULONG i = 0; i < list->Count; ++i) {
    const CM_PARTIAL_RESOURCE_DESCRIPTOR* one = &list->PartialDescriptors[i];
    if (one->Type != CmResourceTypeMemory) continue;
    const ULONG needed = found == 0 ? GPU_BAR0_BYTES : GPU_MEMORY_BYTES;
    if (one->u.Memory.Length < needed) return STATUS_DEVICE_CONFIGURATION_ERROR;
    PHYSICAL_ADDRESS* start = found == 0 ? registers : &adapter->MemoryAddress;
    RtlCopyMemory(start, &one->u.Memory.Start, sizeof(*start));  // the list is not aligned
    if (++found == 2) return STATUS_SUCCESS;
  }
  return STATUS_DEVICE_CONFIGURATION_ERROR;
}

static NTSTATUS NTAPI MyStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                    IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                    OUT_PULONG children) {
  ADAPTER* adapter = context;
  UNREFERENCED_PARAMETER(info);
  adapter->Dxgk = *dxgk;     // the kernel's copy may go when this call returns
  *sources = *children = 0;  // no display: render only

  DXGK_DEVICE_INFO device;
  PHYSICAL_ADDRESS registers;
  NTSTATUS status = adapter->Dxgk.DxgkCbGetDeviceInformation(adapter->Dxgk.DeviceHandle, &device);
  if (NT_SUCCESS(status))
    status = FindResources(adapter, device.TranslatedResourceList, &registers);
  if (NT_SUCCESS(status))
    status = adapter->Dxgk.DxgkCbMapMemory(adapter->Dxgk.DeviceHandle, registers, GPU_BAR0_BYTES,
                                           FALSE, FALSE, MmNonCached, (PVOID*)&adapter->Registers);
  if (NT_SUCCESS(status) && Read(adapter, REG_ID) != GPU_ID)
    status = STATUS_DEVICE_CONFIGURATION_ERROR;  // another device, or none
  if (NT_SUCCESS(status)) {
    PHYSICAL_ADDRESS highest;
    highest.QuadPart = -1;
    adapter->Ring = MmAllocateContiguousMemory(RING_ENTRIES * sizeof(RING_ENTRY), highest);
    if (adapter->Ring == NULL) status = STATUS_NO_MEMORY;
  }
  if (!NT_SUCCESS(status)) {
    MyStopDevice(adapter);  // the kernel calls DxgkDdiRemoveDevice and nothing else
    return status;
  }
  adapter->RingAddress = MmGetPhysicalAddress(adapter->Ring);
  adapter->LastCompleted = 0;
  StartEngine(adapter);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MySetPowerState(IN_CONST_PVOID context, IN_ULONG uid,
                                      IN_DEVICE_POWER_STATE state, IN_POWER_ACTION action) {
  UNREFERENCED_PARAMETER(uid);
  UNREFERENCED_PARAMETER(action);
  ADAPTER* adapter = context;
  if (state == PowerDeviceD0)
    StartEngine(adapter);  // it has forgotten its registers
  else
    Write(adapter, REG_RESET, 1);
  return STATUS_SUCCESS;
}

static VOID ReportPreemption(ADAPTER* adapter) {  // at device level
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  data.DmaPreempted.PreemptionFenceId = adapter->Preemption;
  data.DmaPreempted.LastCompletedFenceId = adapter->LastCompleted;
  adapter->Preemption = 0;
  adapter->Dxgk.DxgkCbNotifyInterrupt(adapter->Dxgk.DeviceHandle, &data);
  adapter->Dxgk.DxgkCbQueueDpc(adapter->Dxgk.DeviceHandle);
}

// What the device has to say since it was last asked; at device level.
static BOOLEAN Listen(ADAPTER* adapter) {
  if (adapter->Registers == NULL) return FALSE;  // not started: it cannot be ours
  const ULONG what = Read(adapter, REG_INTERRUPT);
  if (what == 0 || what == 0xFFFFFFFF) return FALSE;  // not ours, or the device is gone
  Write(adapter, REG_INTERRUPT, what);
  if (what & (GPU_COMPLETED | GPU_FAULTED)) {
    const UINT fence = Read(adapter, REG_FENCE);
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    if (what & GPU_FAULTED) {
      data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
      data.DmaFaulted.FaultedFenceId = fence;
      data.DmaFaulted.Status = STATUS_UNSUCCESSFUL;
    } else {
      data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
      data.DmaCompleted.SubmissionFenceId = fence;
    }
    adapter->LastCompleted = fence;
    adapter->Dxgk.DxgkCbNotifyInterrupt(adapter->Dxgk.DeviceHandle, &data);
  }
  if (what & GPU_PREEMPTED)
    ReportPreemption(adapter);
  else
    adapter->Dxgk.DxgkCbQueueDpc(adapter->Dxgk.DeviceHandle);
  return TRUE;
}

static BOOLEAN NTAPI MyInterruptRoutine(IN_CONST_PVOID context, IN_ULONG message) {
  UNREFERENCED_PARAMETER(message);
  return Listen(context);
}

static VOID NTAPI MyDpcRoutine(IN_CONST_PVOID context) {
  ADAPTER* adapter = context;
  adapter->Dxgk.DxgkCbNotifyDpc(adapter->Dxgk.DeviceHandle);
}

static NTSTATUS QueryCaps(PVOID out, UINT bytes) {
  // The buffer is as large as the Version we declared says, not as our headers say.
  if (bytes < sizeof(DXGK_DRIVERCAPS)) return STATUS_BUFFER_TOO_SMALL;
  DXGK_DRIVERCAPS* caps = out;
  RtlZeroMemory(caps, sizeof(*caps));
  caps->WDDMVersion = DXGKDDI_WDDMv1_3;
  caps->HighestAcceptableAddress.QuadPart = -1;
  caps->FlipCaps.FlipOnVSyncMmIo = 1;  // every driver since WDDM 1.2, with or without a display
  caps->SchedulingCaps.MultiEngineAware = 1;
  caps->SchedulingCaps.PreemptionAware = 1;
  caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
  caps->PreemptionCaps.GraphicsPreemptionGranularity =
      D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
  caps->PreemptionCaps.ComputePreemptionGranularity =
      D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
  return STATUS_SUCCESS;
}

static NTSTATUS QuerySegments(const ADAPTER* adapter, PVOID out, UINT bytes) {
  if (bytes < sizeof(DXGK_QUERYSEGMENTOUT3)) return STATUS_BUFFER_TOO_SMALL;
  DXGK_QUERYSEGMENTOUT3* query = out;
  query->NbSegment = 1;
  if (query->pSegmentDescriptor == NULL) return STATUS_SUCCESS;  // first pass: only the count
  DXGK_SEGMENTDESCRIPTOR3* segment = query->pSegmentDescriptor;
  RtlZeroMemory(segment, sizeof(*segment));
  segment->Flags.CpuVisible = 1;
  segment->BaseAddress.QuadPart = GPU_MEMORY_BASE;
  segment->CpuTranslatedAddress = adapter->MemoryAddress;
  segment->Size = segment->CommitLimit = GPU_MEMORY_BYTES;
  query->PagingBufferSegmentId = 0;  // plain system memory
  query->PagingBufferSize = 4096;
  query->PagingBufferPrivateDataSize = 0;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyQueryAdapterInfo(IN_CONST_HANDLE context,
                                         IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  switch (args->Type) {
    case DXGKQAITYPE_DRIVERCAPS:
      return QueryCaps(args->pOutputData, args->OutputDataSize);
    case DXGKQAITYPE_QUERYSEGMENT3:
      return QuerySegments(context, args->pOutputData, args->OutputDataSize);
    default:
      return STATUS_NOT_SUPPORTED;
  }
}

static NTSTATUS NTAPI MyGetNodeMetadata(IN_CONST_HANDLE context, UINT node,
                                        OUT_PDXGKARG_GETNODEMETADATA metadata) {
  UNREFERENCED_PARAMETER(context);
  if (node != 0) return STATUS_INVALID_PARAMETER;
  RtlZeroMemory(metadata, sizeof(*metadata));
  metadata->EngineType = DXGK_ENGINE_TYPE_3D;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  DEVICE* device = Allocate(sizeof(DEVICE));
  if (device == NULL) return STATUS_NO_MEMORY;
  device->Adapter = context;
  args->hDevice = device;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyCreateContext(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  UNREFERENCED_PARAMETER(device);
  args->hContext = Allocate(sizeof(ULONG));  // nothing to remember, but a handle is not NULL
  if (args->hContext == NULL) return STATUS_NO_MEMORY;
  args->ContextInfo.DmaBufferSize = 4096;
  args->ContextInfo.DmaBufferSegmentSet = 0;
  args->ContextInfo.DmaBufferPrivateDataSize = 0;
  args->ContextInfo.AllocationListSize = 64;
  args->ContextInfo.PatchLocationListSize = 100;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyDestroy(IN_CONST_HANDLE object) {  // a device or a context
  ExFreePoolWithTag(object, MYGPU_TAG);
  return STATUS_SUCCESS;
}

// What a client says about an allocation: how large it is.
static NTSTATUS NTAPI MyCreateAllocation(IN_CONST_HANDLE context,
                                         INOUT_PDXGKARG_CREATEALLOCATION args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_ALLOCATIONINFO* info = &args->pAllocationInfo[i];
    ALLOCATION* allocation = NULL;
    NTSTATUS status = STATUS_INVALID_PARAMETER;
    ULONGLONG bytes = 0;
    if (info->PrivateDriverDataSize == sizeof(bytes)) {
      RtlCopyMemory(&bytes, info->pPrivateDriverData, sizeof(bytes));
      if (bytes != 0 && bytes <= GPU_MEMORY_BYTES) {
        allocation = Allocate(sizeof(ALLOCATION));
        status = STATUS_NO_MEMORY;
      }
    }
    if (allocation == NULL) {  // all or nothing
      while (i-- > 0) ExFreePoolWithTag(args->pAllocationInfo[i].hAllocation, MYGPU_TAG);
      return status;
    }
    allocation->Bytes = bytes;
    info->hAllocation = allocation;
    info->Size = bytes;
    info->Alignment = PAGE_SIZE;
    info->PitchAlignedSize = 0;
    info->HintedBank.Value = 0;
    info->PreferredSegment.Value = 0;
    info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet = 1;
    info->EvictionSegmentSet = 0;
    info->Flags.Value = 0;
    info->Flags.CpuVisible = 1;
    info->MaximumRenamingListLength = 0;
    info->pAllocationUsageHint = NULL;
    info->AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
  }
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyDestroyAllocation(IN_CONST_HANDLE context,
                                          IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->NumAllocations; ++i)
    ExFreePoolWithTag(args->pAllocationList[i], MYGPU_TAG);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyOpenAllocation(IN_CONST_HANDLE handle,
                                       IN_CONST_PDXGKARG_OPENALLOCATION args) {
  const DEVICE* device = handle;
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGKARGCB_GETHANDLEDATA query;
    RtlZeroMemory(&query, sizeof(query));
    query.hObject = args->pOpenAllocation[i].hAllocation;
    query.Type = DXGK_HANDLE_ALLOCATION;
    ALLOCATION* allocation = device->Adapter->Dxgk.DxgkCbGetHandleData(&query);
    if (allocation == NULL) return STATUS_INVALID_HANDLE;
    args->pOpenAllocation[i].hDeviceSpecificAllocation = allocation;
  }
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyCloseAllocation(IN_CONST_HANDLE device,
                                        IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  UNREFERENCED_PARAMETER(device);
  UNREFERENCED_PARAMETER(args);
  return STATUS_SUCCESS;  // opening made nothing
}

// What a client says in a command buffer: an array of these.
typedef struct _CLIENT_FILL {
  UINT Allocation;  // index in the allocation list
  UINT Value;
  UINT Offset, Bytes;
} CLIENT_FILL;

static NTSTATUS NTAPI MyRender(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  UNREFERENCED_PARAMETER(context);
  const UINT wanted = args->CommandLength / sizeof(CLIENT_FILL);
  if (args->CommandLength % sizeof(CLIENT_FILL) != 0) return STATUS_INVALID_PARAMETER;
  COMMAND* command = args->pDmaBuffer;
  D3DDDI_PATCHLOCATIONLIST* patch = args->pPatchLocationListOut;
  UINT room = args->DmaSize / sizeof(COMMAND);
  if (room > args->PatchLocationListOutSize) room = args->PatchLocationListOutSize;

  // MultipassOffset is ours: how many fills earlier passes have translated.
  UINT done = args->MultipassOffset;
  for (; done < wanted && room != 0; ++done, --room) {
    CLIENT_FILL fill;  // user memory may change or go at any time: copied once, then checked
#ifndef __ELF__        // the ELF form has no exception handling
    __try {
      RtlCopyMemory(&fill, (const CLIENT_FILL*)args->pCommand + done, sizeof(fill));
    } __except (EXCEPTION_EXECUTE_HANDLER) {
      return STATUS_INVALID_USER_BUFFER;
    }
#else
    RtlCopyMemory(&fill, (const CLIENT_FILL*)args->pCommand + done, sizeof(fill));
#endif
    if (fill.Allocation >= args->AllocationListSize) return STATUS_INVALID_PARAMETER;
    const DXGK_ALLOCATIONLIST* entry = &args->pAllocationList[fill.Allocation];
    const ALLOCATION* allocation = entry->hDeviceSpecificAllocation;
    if (allocation == NULL || entry->WriteOperation == 0) return STATUS_INVALID_PARAMETER;
    if (fill.Offset > allocation->Bytes || fill.Bytes > allocation->Bytes - fill.Offset)
      return STATUS_INVALID_PARAMETER;

    command->Operation = OPERATION_FILL;
    command->Value = fill.Value;
    command->Bytes = fill.Bytes;
    // What has a place already need not be patched: MyPatch comes only if it may have moved.
    command->Destination =
        entry->SegmentId == 0 ? 0 : (ULONGLONG)entry->PhysicalAddress.QuadPart + fill.Offset;
    RtlZeroMemory(patch, sizeof(*patch));
    patch->AllocationIndex = fill.Allocation;
    patch->AllocationOffset = fill.Offset;
    patch->PatchOffset = (UINT)((PUCHAR)&command->Destination - (PUCHAR)args->pDmaBuffer);
    patch->SplitOffset = (UINT)((PUCHAR)command - (PUCHAR)args->pDmaBuffer);
    ++command;
    ++patch;
  }
  args->pDmaBuffer = command;
  args->pPatchLocationListOut = patch;
  args->MultipassOffset = done;
  return done == wanted ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

static NTSTATUS NTAPI MyPatch(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->PatchLocationListSubmissionLength; ++i) {
    const D3DDDI_PATCHLOCATIONLIST* patch =
        &args->pPatchLocationList[args->PatchLocationListSubmissionStart + i];
    const ULONGLONG address =
        (ULONGLONG)args->pAllocationList[patch->AllocationIndex].PhysicalAddress.QuadPart +
        patch->AllocationOffset;
    RtlCopyMemory((PUCHAR)args->pDmaBuffer + patch->PatchOffset, &address, sizeof(address));
  }
  return STATUS_SUCCESS;
}

// Transfers go page by page, because pages of the system are not in a row. MultipassOffset is ours:
// the pages that earlier paging buffers hold.
static NTSTATUS BuildTransfer(DXGKARG_BUILDPAGINGBUFFER* args) {
  const UINT from = args->Transfer.Source.SegmentId, to = args->Transfer.Destination.SegmentId;
  const ULONGLONG bytes = args->Transfer.TransferSize;
  COMMAND* command = args->pDmaBuffer;
  UINT room = args->DmaSize / sizeof(COMMAND);
  // SegmentAddress and pMdl share their place. TransferOffset is of the segment's side, MdlOffset
  // of the list's.
  const ULONGLONG source =
      (ULONGLONG)args->Transfer.Source.SegmentAddress.QuadPart + args->Transfer.TransferOffset;
  const ULONGLONG destination =
      (ULONGLONG)args->Transfer.Destination.SegmentAddress.QuadPart + args->Transfer.TransferOffset;
  for (; (ULONGLONG)args->MultipassOffset * PAGE_SIZE < bytes; ++args->MultipassOffset) {
    if (room-- == 0) {
      args->pDmaBuffer = command;
      return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    const ULONGLONG done = (ULONGLONG)args->MultipassOffset * PAGE_SIZE;
    const ULONG page = args->Transfer.MdlOffset + args->MultipassOffset;
    command->Operation = OPERATION_COPY;
    command->Value = 0;
    command->Source =
        from != 0 ? source + done : MmGetMdlPfnArray(args->Transfer.Source.pMdl)[page] * PAGE_SIZE;
    command->Destination =
        to != 0 ? destination + done
                : MmGetMdlPfnArray(args->Transfer.Destination.pMdl)[page] * PAGE_SIZE;
    command->Bytes = bytes - done < PAGE_SIZE ? bytes - done : PAGE_SIZE;
    ++command;
  }
  args->pDmaBuffer = command;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyBuildPagingBuffer(IN_CONST_HANDLE context,
                                          IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  UNREFERENCED_PARAMETER(context);
  COMMAND* command = args->pDmaBuffer;
  switch (args->Operation) {
    case DXGK_OPERATION_DISCARD_CONTENT:
      return STATUS_SUCCESS;  // nothing is kept about contents
    case DXGK_OPERATION_TRANSFER:
      return BuildTransfer(args);
    case DXGK_OPERATION_FILL:
    case DXGK_OPERATION_READ_PHYSICAL:
    case DXGK_OPERATION_WRITE_PHYSICAL:
      break;
    default:
      return STATUS_NOT_SUPPORTED;  // not asked of a driver without an aperture
  }
  if (args->DmaSize < sizeof(COMMAND)) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  RtlZeroMemory(command, sizeof(*command));
  if (args->Operation == DXGK_OPERATION_FILL) {
    command->Operation = OPERATION_FILL;
    command->Value = args->Fill.FillPattern;
    command->Destination = (ULONGLONG)args->Fill.Destination.SegmentAddress.QuadPart;
    command->Bytes = args->Fill.FillSize;
  } else if (args->Operation == DXGK_OPERATION_READ_PHYSICAL) {
    command->Operation = OPERATION_COPY;  // a byte onto itself
    command->Source = command->Destination = (ULONGLONG)args->ReadPhysical.PhysicalAddress.QuadPart;
    command->Bytes = 1;
  } else {
    command->Operation = OPERATION_FILL;  // nobody needs what is there
    command->Destination = (ULONGLONG)args->WritePhysical.PhysicalAddress.QuadPart;
    command->Bytes = 1;
  }
  args->pDmaBuffer = command + 1;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MySubmitCommand(IN_CONST_HANDLE context,
                                      IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  ADAPTER* adapter = context;
  UINT bytes = args->DmaBufferSubmissionEndOffset - args->DmaBufferSubmissionStartOffset;
  if (args->Flags.NullRendering) bytes = 0;  // all but the execution: the fence is reported
  KeAcquireSpinLockAtDpcLevel(&adapter->Lock);
  RING_ENTRY* entry = &adapter->Ring[adapter->Tail % RING_ENTRIES];
  entry->Commands =
      (ULONGLONG)args->DmaBufferPhysicalAddress.QuadPart + args->DmaBufferSubmissionStartOffset;
  entry->Count = bytes / sizeof(COMMAND);
  entry->Fence = args->SubmissionFenceId;
  Write(adapter, REG_TAIL, ++adapter->Tail);  // behind the entry: the engine reads it now
  KeReleaseSpinLockFromDpcLevel(&adapter->Lock);
  return STATUS_SUCCESS;
}

typedef struct {
  ADAPTER* Adapter;
  UINT Fence;
} REQUEST;

static BOOLEAN NTAPI AskForPreemption(PVOID context) {  // at device level
  const REQUEST* request = context;
  ADAPTER* adapter = request->Adapter;
  adapter->Preemption = request->Fence;
  // If everything is done and reported, an idle engine is not asked.
  if (Read(adapter, REG_HEAD) == adapter->Tail && Read(adapter, REG_INTERRUPT) == 0)
    ReportPreemption(adapter);
  else
    Write(adapter, REG_PREEMPT, 1);
  return TRUE;
}

static NTSTATUS NTAPI MyPreemptCommand(IN_CONST_HANDLE context,
                                       IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  ADAPTER* adapter = context;
  REQUEST request = {adapter, args->PreemptionFenceId};
  BOOLEAN result = FALSE;
  adapter->Dxgk.DxgkCbSynchronizeExecution(adapter->Dxgk.DeviceHandle, AskForPreemption, &request,
                                           0, &result);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyQueryCurrentFence(IN_CONST_HANDLE context,
                                          INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  args->CurrentFence = Read(context, REG_FENCE);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyResetFromTimeout(IN_CONST_HANDLE context) {
  StartEngine(context);  // when the write is over, the engine has stopped
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI MyRestartFromTimeout(IN_CONST_HANDLE context) {
  UNREFERENCED_PARAMETER(context);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registryPath) {
  DRIVER_INITIALIZATION_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = MyAddDevice;
  data.DxgkDdiStartDevice = MyStartDevice;
  data.DxgkDdiStopDevice = MyStopDevice;
  data.DxgkDdiRemoveDevice = MyRemoveDevice;
  data.DxgkDdiUnload = MyUnload;
  data.DxgkDdiInterruptRoutine = MyInterruptRoutine;
  data.DxgkDdiDpcRoutine = MyDpcRoutine;
  data.DxgkDdiSetPowerState = MySetPowerState;
  data.DxgkDdiQueryAdapterInfo = MyQueryAdapterInfo;
  data.DxgkDdiGetNodeMetadata = MyGetNodeMetadata;
  data.DxgkDdiCreateDevice = MyCreateDevice;
  data.DxgkDdiDestroyDevice = MyDestroy;
  data.DxgkDdiCreateContext = MyCreateContext;
  data.DxgkDdiDestroyContext = MyDestroy;
  data.DxgkDdiCreateAllocation = MyCreateAllocation;
  data.DxgkDdiDestroyAllocation = MyDestroyAllocation;
  data.DxgkDdiOpenAllocation = MyOpenAllocation;
  data.DxgkDdiCloseAllocation = MyCloseAllocation;
  data.DxgkDdiRender = MyRender;
  data.DxgkDdiPatch = MyPatch;
  data.DxgkDdiBuildPagingBuffer = MyBuildPagingBuffer;
  data.DxgkDdiSubmitCommand = MySubmitCommand;
  data.DxgkDdiPreemptCommand = MyPreemptCommand;
  data.DxgkDdiQueryCurrentFence = MyQueryCurrentFence;
  data.DxgkDdiResetFromTimeout = MyResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = MyRestartFromTimeout;
  return DxgkInitialize(driver, registryPath, &data);
}
