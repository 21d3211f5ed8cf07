// A display miniport for a GPU that is a thread.
#define DXGKDDI_INTERFACE_VERSION 0x4002  // WDDM 1.3: what follows speaks the patch model
#include <ntddk.h>

#include <dispmprt.h>

#define FIRST_TAG 0x74737246  // "Frst"
#define GPU_BASE 0x100000000  // where the GPU sees its memory; never 0, so that a zero shows
#define GPU_BYTES 0x400000
#define QUEUE_SLOTS 32  // more than the kernel ever has in flight on a node

// What the GPU can do. A command names memory by GPU address, or, in paging buffers, system memory
// by the kernel address it is mapped at.
typedef enum _OPERATION { OPERATION_FILL, OPERATION_COPY, OPERATION_PAGE_IN, OPERATION_PAGE_OUT } OPERATION;

typedef struct _COMMAND {
  ULONG Operation;
  ULONG Value;  // FILL: four bytes that are written again and again
  ULONGLONG Destination;
  ULONGLONG Source;
  ULONGLONG Bytes;
} COMMAND;

// A submission in the queue of the thread.
typedef struct _JOB {
  UINT Fence;
  UINT Count;
  const COMMAND* Commands;
} JOB;

typedef struct _ADAPTER {
  DXGKRNL_INTERFACE Dxgk;
  PUCHAR Memory;  // the GPU's memory, as the CPU sees it
  PHYSICAL_ADDRESS MemoryAddress;

  KSPIN_LOCK Lock;  // guards what follows
  JOB Jobs[QUEUE_SLOTS];
  UINT First, Next;  // jobs that wait: First up to, not including, Next; slots are these modulo QUEUE_SLOTS
  UINT LastCompleted;
  UINT Preemption;  // fence of a preemption that was asked for; 0: none
  BOOLEAN Stop;

  KEVENT Work;  // something above changed
  KEVENT Rest;  // set while the thread has neither a job nor a report in hand; cleared under Lock
  PKTHREAD Thread;
} ADAPTER;

typedef struct _DEVICE {
  ADAPTER* Adapter;
} DEVICE;

typedef struct _ALLOCATION {
  ULONGLONG Bytes;
} ALLOCATION;

static PVOID Allocate(SIZE_T bytes) {
  PVOID memory = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, FIRST_TAG);
  if (memory != NULL) RtlZeroMemory(memory, bytes);
  return memory;
}

static NTSTATUS NTAPI FirstAddDevice(IN_CONST_PDEVICE_OBJECT device, OUT_PPVOID context) {
  UNREFERENCED_PARAMETER(device);
  ADAPTER* adapter = Allocate(sizeof(ADAPTER));
  if (adapter == NULL) return STATUS_NO_MEMORY;
  KeInitializeSpinLock(&adapter->Lock);
  KeInitializeEvent(&adapter->Work, SynchronizationEvent, FALSE);
  KeInitializeEvent(&adapter->Rest, NotificationEvent, TRUE);
  *context = adapter;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstRemoveDevice(IN_CONST_PVOID context) {
  ExFreePoolWithTag(context, FIRST_TAG);
  return STATUS_SUCCESS;
}

static VOID NTAPI FirstUnload(void) {}

static KSTART_ROUTINE GpuThread;

static NTSTATUS NTAPI FirstStopDevice(IN_CONST_PVOID context) {
  ADAPTER* adapter = context;
  if (adapter->Thread != NULL) {
    adapter->Stop = TRUE;
    KeSetEvent(&adapter->Work, 0, FALSE);
    KeWaitForSingleObject(adapter->Thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(adapter->Thread);
    adapter->Thread = NULL;
  }
  if (adapter->Memory != NULL) MmFreeContiguousMemory(adapter->Memory);
  adapter->Memory = NULL;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                       IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                       OUT_PULONG children) {
  ADAPTER* adapter = context;
  UNREFERENCED_PARAMETER(info);
  adapter->Dxgk = *dxgk;  // the kernel's copy may go when this call returns
  *sources = *children = 0;  // no display: render only

  PHYSICAL_ADDRESS highest;
  highest.QuadPart = -1;
  adapter->Memory = MmAllocateContiguousMemory(GPU_BYTES, highest);
  if (adapter->Memory == NULL) return STATUS_NO_MEMORY;
  adapter->MemoryAddress = MmGetPhysicalAddress(adapter->Memory);

  adapter->Stop = FALSE;
  adapter->First = adapter->Next = adapter->LastCompleted = adapter->Preemption = 0;
  HANDLE handle = NULL;
  NTSTATUS status =
      PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, GpuThread, adapter);
  if (NT_SUCCESS(status)) {
    status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, *PsThreadType, KernelMode,
                                       (PVOID*)&adapter->Thread, NULL);
    ZwClose(handle);
  }
  // After a failure the kernel calls DxgkDdiRemoveDevice and nothing else: clean up here.
  if (!NT_SUCCESS(status)) FirstStopDevice(adapter);
  return status;
}

static NTSTATUS NTAPI FirstSetPowerState(IN_CONST_PVOID context, IN_ULONG uid,
                                         IN_DEVICE_POWER_STATE state, IN_POWER_ACTION action) {
  UNREFERENCED_PARAMETER(context);
  UNREFERENCED_PARAMETER(uid);
  UNREFERENCED_PARAMETER(state);
  UNREFERENCED_PARAMETER(action);
  return STATUS_SUCCESS;  // a thread needs no power
}

static BOOLEAN NTAPI FirstInterruptRoutine(IN_CONST_PVOID context, IN_ULONG message) {
  UNREFERENCED_PARAMETER(context);
  UNREFERENCED_PARAMETER(message);
  return FALSE;  // this GPU has no interrupt line
}

static VOID NTAPI FirstDpcRoutine(IN_CONST_PVOID context) {
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
  segment->BaseAddress.QuadPart = GPU_BASE;
  segment->CpuTranslatedAddress = adapter->MemoryAddress;
  segment->Size = segment->CommitLimit = GPU_BYTES;
  query->PagingBufferSegmentId = 0;  // plain system memory
  query->PagingBufferSize = 4096;
  query->PagingBufferPrivateDataSize = 64 * sizeof(PVOID);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstQueryAdapterInfo(IN_CONST_HANDLE context,
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

static NTSTATUS NTAPI FirstGetNodeMetadata(IN_CONST_HANDLE context, UINT node,
                                           OUT_PDXGKARG_GETNODEMETADATA metadata) {
  UNREFERENCED_PARAMETER(context);
  if (node != 0) return STATUS_INVALID_PARAMETER;
  RtlZeroMemory(metadata, sizeof(*metadata));
  metadata->EngineType = DXGK_ENGINE_TYPE_3D;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  DEVICE* device = Allocate(sizeof(DEVICE));
  if (device == NULL) return STATUS_NO_MEMORY;
  device->Adapter = context;
  args->hDevice = device;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstCreateContext(IN_CONST_HANDLE device,
                                         INOUT_PDXGKARG_CREATECONTEXT args) {
  UNREFERENCED_PARAMETER(device);
  args->hContext = Allocate(sizeof(ULONG));  // nothing to remember, but a handle is not NULL
  if (args->hContext == NULL) return STATUS_NO_MEMORY;
  args->ContextInfo.DmaBufferSize = 4096;
  args->ContextInfo.DmaBufferSegmentSet = 0;
  args->ContextInfo.DmaBufferPrivateDataSize = sizeof(PVOID);
  args->ContextInfo.AllocationListSize = 64;
  args->ContextInfo.PatchLocationListSize = 100;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstDestroy(IN_CONST_HANDLE object) {  // a device or a context
  ExFreePoolWithTag(object, FIRST_TAG);
  return STATUS_SUCCESS;
}

// What a client says about an allocation: how large it is.
static NTSTATUS NTAPI FirstCreateAllocation(IN_CONST_HANDLE context,
                                            INOUT_PDXGKARG_CREATEALLOCATION args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_ALLOCATIONINFO* info = &args->pAllocationInfo[i];
    ALLOCATION* allocation = NULL;
    NTSTATUS status = STATUS_INVALID_PARAMETER;
    ULONGLONG bytes = 0;
    if (info->PrivateDriverDataSize == sizeof(bytes)) {
      RtlCopyMemory(&bytes, info->pPrivateDriverData, sizeof(bytes));
      if (bytes != 0 && bytes <= GPU_BYTES) {
        allocation = Allocate(sizeof(ALLOCATION));
        status = STATUS_NO_MEMORY;
      }
    }
    if (allocation == NULL) {  // all or nothing
      while (i-- > 0) ExFreePoolWithTag(args->pAllocationInfo[i].hAllocation, FIRST_TAG);
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

static NTSTATUS NTAPI FirstDestroyAllocation(IN_CONST_HANDLE context,
                                             IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->NumAllocations; ++i)
    ExFreePoolWithTag(args->pAllocationList[i], FIRST_TAG);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstOpenAllocation(IN_CONST_HANDLE handle,
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

static NTSTATUS NTAPI FirstCloseAllocation(IN_CONST_HANDLE device,
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

static NTSTATUS NTAPI FirstRender(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
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
#ifndef __ELF__  // the ELF form has no exception handling
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
    // What has a place already need not be patched: FirstPatch comes only if it may have moved.
    command->Destination =
        entry->SegmentId == 0 ? 0 : (ULONGLONG)entry->PhysicalAddress.QuadPart + fill.Offset;
    RtlZeroMemory(patch, sizeof(*patch));
    patch->AllocationIndex = fill.Allocation;
    patch->AllocationOffset = fill.Offset;
    patch->PatchOffset =
        (UINT)((PUCHAR)&command->Destination - (PUCHAR)args->pDmaBuffer);
    patch->SplitOffset = (UINT)((PUCHAR)command - (PUCHAR)args->pDmaBuffer);
    ++command;
    ++patch;
  }
  // DxgkDdiSubmitCommand names the buffer by its physical address; our thread needs the other one.
  *(PVOID*)args->pDmaBufferPrivateData = args->pDmaBuffer;
  args->pDmaBuffer = command;
  args->pPatchLocationListOut = patch;
  args->MultipassOffset = done;
  return done == wanted ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

static NTSTATUS NTAPI FirstPatch(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
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

// One end of a transfer: memory of the GPU, or pages of the system, which the GPU reads through a
// mapping. The kernel keeps MDL and mapping until the paging buffer has run.
static BOOLEAN Resolve(UINT segment, PHYSICAL_ADDRESS address, PMDL mdl, ULONG mdlOffset,
                       ULONG transferOffset, ULONGLONG* out) {
  if (segment != 0) {
    *out = (ULONGLONG)address.QuadPart + transferOffset;
    return TRUE;
  }
  PUCHAR mapped = MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority);
  *out = (ULONGLONG)(mapped + (SIZE_T)mdlOffset * PAGE_SIZE);
  return mapped != NULL;
}

static NTSTATUS NTAPI FirstBuildPagingBuffer(IN_CONST_HANDLE context,
                                             IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  UNREFERENCED_PARAMETER(context);
  if (args->Operation == DXGK_OPERATION_DISCARD_CONTENT) return STATUS_SUCCESS;
  if (args->DmaSize < sizeof(COMMAND) || args->DmaBufferPrivateDataSize < sizeof(PVOID))
    return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  COMMAND* command = args->pDmaBuffer;
  switch (args->Operation) {
    case DXGK_OPERATION_FILL:
      command->Operation = OPERATION_FILL;
      command->Value = args->Fill.FillPattern;
      command->Destination = (ULONGLONG)args->Fill.Destination.SegmentAddress.QuadPart;
      command->Bytes = args->Fill.FillSize;
      break;
    case DXGK_OPERATION_TRANSFER: {
      const UINT from = args->Transfer.Source.SegmentId, to = args->Transfer.Destination.SegmentId;
      // SegmentAddress and pMdl share their place.
      const BOOLEAN found =
          Resolve(from, args->Transfer.Source.SegmentAddress, args->Transfer.Source.pMdl,
                  args->Transfer.MdlOffset, args->Transfer.TransferOffset, &command->Source) &&
          Resolve(to, args->Transfer.Destination.SegmentAddress, args->Transfer.Destination.pMdl,
                  args->Transfer.MdlOffset, args->Transfer.TransferOffset, &command->Destination);
      if (!found) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
      command->Operation = from == 0 ? OPERATION_PAGE_IN
                           : to == 0 ? OPERATION_PAGE_OUT
                                     : OPERATION_COPY;
      command->Bytes = args->Transfer.TransferSize;
      break;
    }
    default:
      return STATUS_NOT_SUPPORTED;  // not asked of a driver without an aperture
  }
  *(PVOID*)args->pDmaBufferPrivateData = command;
  args->pDmaBufferPrivateData = (PVOID*)args->pDmaBufferPrivateData + 1;
  args->pDmaBuffer = command + 1;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstSubmitCommand(IN_CONST_HANDLE context,
                                         IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  ADAPTER* adapter = context;
  // What Render or BuildPagingBuffer left in the private data of this submission: the address of
  // the buffer's start, or of the first paging command.
  UINT bytes = args->DmaBufferSubmissionEndOffset - args->DmaBufferSubmissionStartOffset;
  if (args->Flags.NullRendering) bytes = 0;  // all but the execution: the fence is reported
  const UCHAR* commands = NULL;
  if (bytes != 0) {
    commands = *(const UCHAR**)((PUCHAR)args->pDmaBufferPrivateData +
                                args->DmaBufferPrivateDataSubmissionStartOffset);
    if (!args->Flags.Paging) commands += args->DmaBufferSubmissionStartOffset;
  }
  KeAcquireSpinLockAtDpcLevel(&adapter->Lock);
  JOB* job = &adapter->Jobs[adapter->Next++ % QUEUE_SLOTS];
  job->Fence = args->SubmissionFenceId;
  job->Count = bytes / sizeof(COMMAND);
  job->Commands = (const COMMAND*)commands;
  KeReleaseSpinLockFromDpcLevel(&adapter->Lock);
  KeSetEvent(&adapter->Work, 0, FALSE);
  return STATUS_SUCCESS;
}

typedef struct {
  ADAPTER* Adapter;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA Data;
} REPORT;

static BOOLEAN NTAPI Report(PVOID context) {  // at device level, where reports belong
  REPORT* report = context;
  // First, for the kernel may ask as soon as it has heard of it.
  if (report->Data.InterruptType == DXGK_INTERRUPT_DMA_COMPLETED)
    report->Adapter->LastCompleted = report->Data.DmaCompleted.SubmissionFenceId;
  report->Adapter->Dxgk.DxgkCbNotifyInterrupt(report->Adapter->Dxgk.DeviceHandle, &report->Data);
  return report->Adapter->Dxgk.DxgkCbQueueDpc(report->Adapter->Dxgk.DeviceHandle);
}

static VOID SendReport(REPORT* report) {
  const ADAPTER* adapter = report->Adapter;
  BOOLEAN result = FALSE;
  adapter->Dxgk.DxgkCbSynchronizeExecution(adapter->Dxgk.DeviceHandle, Report, report, 0, &result);
}

static NTSTATUS NTAPI FirstPreemptCommand(IN_CONST_HANDLE context,
                                          IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  ADAPTER* adapter = context;
  KeAcquireSpinLockAtDpcLevel(&adapter->Lock);
  const BOOLEAN idle =
      adapter->First == adapter->Next && KeReadStateEvent(&adapter->Rest) != 0;
  const UINT lastCompleted = adapter->LastCompleted;
  if (!idle) adapter->Preemption = args->PreemptionFenceId;
  KeReleaseSpinLockFromDpcLevel(&adapter->Lock);
  if (!idle) return STATUS_SUCCESS;  // the thread is at work, and looks before its next job
  REPORT report;
  RtlZeroMemory(&report, sizeof(report));
  report.Adapter = adapter;
  report.Data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  report.Data.DmaPreempted.PreemptionFenceId = args->PreemptionFenceId;
  report.Data.DmaPreempted.LastCompletedFenceId = lastCompleted;
  SendReport(&report);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstQueryCurrentFence(IN_CONST_HANDLE context,
                                             INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  const ADAPTER* adapter = context;
  args->CurrentFence = adapter->LastCompleted;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstResetFromTimeout(IN_CONST_HANDLE context) {
  ADAPTER* adapter = context;
  KIRQL old = KeAcquireSpinLockRaiseToDpc(&adapter->Lock);
  adapter->First = adapter->Next;
  adapter->Preemption = 0;
  KeReleaseSpinLock(&adapter->Lock, old);
  // The thread may be at a job. It must not write or report any more once this call has returned.
  KeWaitForSingleObject(&adapter->Rest, Executive, KernelMode, FALSE, NULL);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI FirstRestartFromTimeout(IN_CONST_HANDLE context) {
  UNREFERENCED_PARAMETER(context);
  return STATUS_SUCCESS;
}

static VOID Execute(const ADAPTER* adapter, const COMMAND* command) {
  const ULONGLONG toMemory = (ULONGLONG)adapter->Memory - GPU_BASE;
  switch (command->Operation) {
    case OPERATION_FILL:
      for (ULONGLONG i = 0; i < command->Bytes; ++i)
        ((PUCHAR)(command->Destination + toMemory))[i] = ((const UCHAR*)&command->Value)[i % 4];
      break;
    case OPERATION_COPY:
      RtlMoveMemory((PVOID)(command->Destination + toMemory),
                    (PVOID)(command->Source + toMemory), command->Bytes);
      break;
    case OPERATION_PAGE_IN:
      RtlCopyMemory((PVOID)(command->Destination + toMemory), (PVOID)command->Source,
                    command->Bytes);
      break;
    case OPERATION_PAGE_OUT:
      RtlCopyMemory((PVOID)command->Destination, (PVOID)(command->Source + toMemory),
                    command->Bytes);
      break;
  }
}

static VOID NTAPI GpuThread(PVOID context) {
  ADAPTER* adapter = context;
  while (!adapter->Stop) {
    REPORT report;
    RtlZeroMemory(&report, sizeof(report));
    report.Adapter = adapter;
    JOB job = {0};
    BOOLEAN work = FALSE, preempt = FALSE;
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&adapter->Lock);
    if (adapter->Preemption != 0) {
      // Between two jobs, so nothing runs: what is still queued comes back with new fences.
      preempt = TRUE;
      report.Data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
      report.Data.DmaPreempted.PreemptionFenceId = adapter->Preemption;
      report.Data.DmaPreempted.LastCompletedFenceId = adapter->LastCompleted;
      adapter->Preemption = 0;
      adapter->First = adapter->Next;
    } else if (adapter->First != adapter->Next) {
      work = TRUE;
      job = adapter->Jobs[adapter->First++ % QUEUE_SLOTS];
    }
    if (work || preempt) KeClearEvent(&adapter->Rest);
    KeReleaseSpinLock(&adapter->Lock, old);
    if (!work && !preempt) {
      KeWaitForSingleObject(&adapter->Work, Executive, KernelMode, FALSE, NULL);
      continue;
    }
    if (work) {
      for (UINT i = 0; i < job.Count; ++i) Execute(adapter, &job.Commands[i]);
      report.Data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
      report.Data.DmaCompleted.SubmissionFenceId = job.Fence;
    }
    SendReport(&report);
    KeSetEvent(&adapter->Rest, 0, FALSE);  // only now: an engine is idle once it has said so
  }
  PsTerminateSystemThread(STATUS_SUCCESS);
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registryPath) {
  DRIVER_INITIALIZATION_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = FirstAddDevice;
  data.DxgkDdiStartDevice = FirstStartDevice;
  data.DxgkDdiStopDevice = FirstStopDevice;
  data.DxgkDdiRemoveDevice = FirstRemoveDevice;
  data.DxgkDdiUnload = FirstUnload;
  data.DxgkDdiInterruptRoutine = FirstInterruptRoutine;
  data.DxgkDdiDpcRoutine = FirstDpcRoutine;
  data.DxgkDdiSetPowerState = FirstSetPowerState;
  data.DxgkDdiQueryAdapterInfo = FirstQueryAdapterInfo;
  data.DxgkDdiGetNodeMetadata = FirstGetNodeMetadata;
  data.DxgkDdiCreateDevice = FirstCreateDevice;
  data.DxgkDdiDestroyDevice = FirstDestroy;
  data.DxgkDdiCreateContext = FirstCreateContext;
  data.DxgkDdiDestroyContext = FirstDestroy;
  data.DxgkDdiCreateAllocation = FirstCreateAllocation;
  data.DxgkDdiDestroyAllocation = FirstDestroyAllocation;
  data.DxgkDdiOpenAllocation = FirstOpenAllocation;
  data.DxgkDdiCloseAllocation = FirstCloseAllocation;
  data.DxgkDdiRender = FirstRender;
  data.DxgkDdiPatch = FirstPatch;
  data.DxgkDdiBuildPagingBuffer = FirstBuildPagingBuffer;
  data.DxgkDdiSubmitCommand = FirstSubmitCommand;
  data.DxgkDdiPreemptCommand = FirstPreemptCommand;
  data.DxgkDdiQueryCurrentFence = FirstQueryCurrentFence;
  data.DxgkDdiResetFromTimeout = FirstResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = FirstRestartFromTimeout;
  return DxgkInitialize(driver, registryPath, &data);
}
