// A display miniport for edu, the teaching device of QEMU: render only, patch model.
//
// edu computes factorials and copies between memory and a buffer of its own. The driver makes a GPU
// of that. GPU memory is a piece of system memory that the device can reach. A thread executes the
// commands of a packet, copies through the device, and lets the device compute a factorial at the
// end, whose interrupt completes the packet.
#define DXGKDDI_INTERFACE_VERSION 0x4002  // WDDM 1.3: what follows speaks the patch model
#include <dispmprt.h>
#include <ntddk.h>

#include "miniports/edu/edu_hw.h"

#define EDU_TAG 0x20756445  // "Edu "
#define GPU_BYTES 0x100000
#define DEVICE_ADDRESS_LIMIT 0xFFFFFFFF  // the device sends addresses of 32 bits
#define TRANSFER_MS_MOST 1000            // ten times as long as a transfer takes
#define QUEUE_SLOTS 32                   // more than the kernel ever has in flight on a node

// What the GPU can do. A command names memory by bus address, or, in paging buffers, system memory
// by the kernel address it is mapped at, because the device does not reach all of it.
typedef enum _OPERATION {
  OPERATION_FILL,
  OPERATION_COPY,       // by DMA, through the device
  OPERATION_FACTORIAL,  // of Value, which the device computes; 4 bytes
  OPERATION_PAGE_IN,
  OPERATION_PAGE_OUT,
  OPERATION_MOVE  // by the CPU: places may overlap, and the device would take too long
} OPERATION;

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
  PUCHAR Registers;
  PUCHAR Memory;  // the GPU's memory, as the CPU sees it
  PHYSICAL_ADDRESS MemoryAddress;

  KSPIN_LOCK Lock;  // guards what follows
  JOB Jobs[QUEUE_SLOTS];
  UINT First,
      Next;  // jobs that wait: First up to, not including, Next; slots are these modulo QUEUE_SLOTS
  UINT Preemption;  // fence of a preemption that was asked for; 0: none
  UINT Current;     // fence of the job that the thread has in hand; 0: none
  BOOLEAN Abandon;  // the job in hand is not worth waiting for: a reset, or the end
  BOOLEAN Stop;

  // At device level:
  UINT LastCompleted;
  UINT Running;  // fence that the next factorial completes; 0: none
  ULONG Said;    // bits of EDU_REG_INTERRUPT that the thread has not seen

  KEVENT Work;      // something under the lock changed
  KEVENT Hardware;  // Said changed, or Abandon
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
  PVOID memory = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, EDU_TAG);
  if (memory != NULL) RtlZeroMemory(memory, bytes);
  return memory;
}

static ULONG Read(const ADAPTER* adapter, ULONG offset) {
  return READ_REGISTER_ULONG((volatile ULONG*)(adapter->Registers + offset));
}
static VOID Write(const ADAPTER* adapter, ULONG offset, ULONG value) {
  WRITE_REGISTER_ULONG((volatile ULONG*)(adapter->Registers + offset), value);
}

static NTSTATUS NTAPI EduAddDevice(IN_CONST_PDEVICE_OBJECT device, OUT_PPVOID context) {
  UNREFERENCED_PARAMETER(device);
  ADAPTER* adapter = Allocate(sizeof(ADAPTER));
  if (adapter == NULL) return STATUS_NO_MEMORY;
  KeInitializeSpinLock(&adapter->Lock);
  KeInitializeEvent(&adapter->Work, SynchronizationEvent, FALSE);
  KeInitializeEvent(&adapter->Hardware, SynchronizationEvent, FALSE);
  KeInitializeEvent(&adapter->Rest, NotificationEvent, TRUE);
  *context = adapter;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduRemoveDevice(IN_CONST_PVOID context) {
  ExFreePoolWithTag(context, EDU_TAG);
  return STATUS_SUCCESS;
}

static VOID NTAPI EduUnload(void) {}

static KSTART_ROUTINE GpuThread;

// The device completes nothing any more for the job in hand: its thread gives up.
static VOID AbandonJob(ADAPTER* adapter) {
  KIRQL old = KeAcquireSpinLockRaiseToDpc(&adapter->Lock);
  adapter->First = adapter->Next;
  adapter->Preemption = 0;
  adapter->Abandon = TRUE;
  KeReleaseSpinLock(&adapter->Lock, old);
  KeSetEvent(&adapter->Hardware, 0, FALSE);
  KeWaitForSingleObject(&adapter->Rest, Executive, KernelMode, FALSE, NULL);
}

static NTSTATUS NTAPI EduStopDevice(IN_CONST_PVOID context) {
  ADAPTER* adapter = context;
  if (adapter->Thread != NULL) {
    adapter->Stop = TRUE;
    AbandonJob(adapter);
    KeSetEvent(&adapter->Work, 0, FALSE);
    KeWaitForSingleObject(adapter->Thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(adapter->Thread);
    adapter->Thread = NULL;
  }
  if (adapter->Registers != NULL) {
    Write(adapter, EDU_REG_STATUS, 0);  // no interrupts
    adapter->Dxgk.DxgkCbUnmapMemory(adapter->Dxgk.DeviceHandle, adapter->Registers);
    adapter->Registers = NULL;
  }
  if (adapter->Memory != NULL) MmFreeContiguousMemory(adapter->Memory);
  adapter->Memory = NULL;
  return STATUS_SUCCESS;
}

static NTSTATUS FindRegisters(PCM_RESOURCE_LIST resources, PHYSICAL_ADDRESS* registers) {
  if (resources == NULL || resources->Count == 0) return STATUS_DEVICE_CONFIGURATION_ERROR;
  const CM_PARTIAL_RESOURCE_LIST* list = &resources->List[0].PartialResourceList;
  for (ULONG i = 0; i < list->Count; ++i) {
    const CM_PARTIAL_RESOURCE_DESCRIPTOR* one = &list->PartialDescriptors[i];
    if (one->Type != CmResourceTypeMemory || one->u.Memory.Length < EDU_BAR0_BYTES) continue;
    RtlCopyMemory(registers, &one->u.Memory.Start, sizeof(*registers));  // the list is not aligned
    return STATUS_SUCCESS;
  }
  return STATUS_DEVICE_CONFIGURATION_ERROR;
}

static NTSTATUS NTAPI EduStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO info,
                                     IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG sources,
                                     OUT_PULONG children) {
  ADAPTER* adapter = context;
  UNREFERENCED_PARAMETER(info);
  adapter->Dxgk = *dxgk;     // the kernel's copy may go when this call returns
  *sources = *children = 0;  // no display: render only
  adapter->Stop = adapter->Abandon = FALSE;
  adapter->First = adapter->Next = adapter->LastCompleted = adapter->Preemption = 0;
  adapter->Running = adapter->Current = 0;
  adapter->Said = 0;

  DXGK_DEVICE_INFO device;
  PHYSICAL_ADDRESS registers, highest;
  NTSTATUS status = adapter->Dxgk.DxgkCbGetDeviceInformation(adapter->Dxgk.DeviceHandle, &device);
  if (NT_SUCCESS(status)) status = FindRegisters(device.TranslatedResourceList, &registers);
  if (NT_SUCCESS(status))
    status = adapter->Dxgk.DxgkCbMapMemory(adapter->Dxgk.DeviceHandle, registers, EDU_BAR0_BYTES,
                                           FALSE, FALSE, MmNonCached, (PVOID*)&adapter->Registers);
  if (NT_SUCCESS(status) && (Read(adapter, EDU_REG_ID) & EDU_ID_MASK) != EDU_ID)
    status = STATUS_DEVICE_CONFIGURATION_ERROR;  // another device, or none
  if (NT_SUCCESS(status)) {
    highest.QuadPart = DEVICE_ADDRESS_LIMIT;
    adapter->Memory = MmAllocateContiguousMemory(GPU_BYTES, highest);
    if (adapter->Memory == NULL) status = STATUS_NO_MEMORY;
  }
  if (!NT_SUCCESS(status)) {
    EduStopDevice(adapter);  // the kernel calls DxgkDdiRemoveDevice and nothing else
    return status;
  }
  adapter->MemoryAddress = MmGetPhysicalAddress(adapter->Memory);
  Write(adapter, EDU_REG_ACKNOWLEDGE, EDU_FACTORIAL_DONE | EDU_DMA_DONE);
  Write(adapter, EDU_REG_STATUS, EDU_STATUS_INTERRUPT);
  HANDLE handle = NULL;
  status = PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, NULL, NULL, NULL, GpuThread, adapter);
  if (NT_SUCCESS(status)) {
    status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, *PsThreadType, KernelMode,
                                       (PVOID*)&adapter->Thread, NULL);
    ZwClose(handle);
  }
  if (!NT_SUCCESS(status)) EduStopDevice(adapter);
  return status;
}

static NTSTATUS NTAPI EduSetPowerState(IN_CONST_PVOID context, IN_ULONG uid,
                                       IN_DEVICE_POWER_STATE state, IN_POWER_ACTION action) {
  ADAPTER* adapter = context;
  UNREFERENCED_PARAMETER(uid);
  UNREFERENCED_PARAMETER(action);
  // Asleep, it has forgotten that it shall interrupt.
  if (state == PowerDeviceD0 && adapter->Registers != NULL)
    Write(adapter, EDU_REG_STATUS, EDU_STATUS_INTERRUPT);
  return STATUS_SUCCESS;
}

static BOOLEAN NTAPI EduInterruptRoutine(IN_CONST_PVOID context, IN_ULONG message) {
  UNREFERENCED_PARAMETER(message);
  ADAPTER* adapter = context;
  if (adapter->Registers == NULL) return FALSE;  // not started: it cannot be ours
  const ULONG what = Read(adapter, EDU_REG_INTERRUPT);
  if (what == 0 || what == 0xFFFFFFFF) return FALSE;  // not ours, or the device is gone
  Write(adapter, EDU_REG_ACKNOWLEDGE, what);
  adapter->Said |= what;
  if ((what & EDU_FACTORIAL_DONE) && adapter->Running != 0) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    data.DmaCompleted.SubmissionFenceId = adapter->LastCompleted = adapter->Running;
    adapter->Running = 0;
    adapter->Dxgk.DxgkCbNotifyInterrupt(adapter->Dxgk.DeviceHandle, &data);
  }
  adapter->Dxgk.DxgkCbQueueDpc(adapter->Dxgk.DeviceHandle);
  return TRUE;
}

static VOID NTAPI EduDpcRoutine(IN_CONST_PVOID context) {
  ADAPTER* adapter = context;
  adapter->Dxgk.DxgkCbNotifyDpc(adapter->Dxgk.DeviceHandle);
  KeSetEvent(&adapter->Hardware, 0, FALSE);
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
  segment->BaseAddress = adapter->MemoryAddress;  // the device uses bus addresses
  segment->CpuTranslatedAddress = adapter->MemoryAddress;
  segment->Size = segment->CommitLimit = GPU_BYTES;
  query->PagingBufferSegmentId = 0;  // plain system memory
  query->PagingBufferSize = 4096;
  query->PagingBufferPrivateDataSize = 64 * sizeof(PVOID);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduQueryAdapterInfo(IN_CONST_HANDLE context,
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

static NTSTATUS NTAPI EduGetNodeMetadata(IN_CONST_HANDLE context, UINT node,
                                         OUT_PDXGKARG_GETNODEMETADATA metadata) {
  UNREFERENCED_PARAMETER(context);
  if (node != 0) return STATUS_INVALID_PARAMETER;
  RtlZeroMemory(metadata, sizeof(*metadata));
  metadata->EngineType = DXGK_ENGINE_TYPE_3D;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduCreateDevice(IN_CONST_HANDLE context, INOUT_PDXGKARG_CREATEDEVICE args) {
  DEVICE* device = Allocate(sizeof(DEVICE));
  if (device == NULL) return STATUS_NO_MEMORY;
  device->Adapter = context;
  args->hDevice = device;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduCreateContext(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
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

static NTSTATUS NTAPI EduDestroy(IN_CONST_HANDLE object) {  // a device or a context
  ExFreePoolWithTag(object, EDU_TAG);
  return STATUS_SUCCESS;
}

// What a client says about an allocation: how large it is.
static NTSTATUS NTAPI EduCreateAllocation(IN_CONST_HANDLE context,
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
      while (i-- > 0) ExFreePoolWithTag(args->pAllocationInfo[i].hAllocation, EDU_TAG);
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

static NTSTATUS NTAPI EduDestroyAllocation(IN_CONST_HANDLE context,
                                           IN_CONST_PDXGKARG_DESTROYALLOCATION args) {
  UNREFERENCED_PARAMETER(context);
  for (UINT i = 0; i < args->NumAllocations; ++i)
    ExFreePoolWithTag(args->pAllocationList[i], EDU_TAG);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduOpenAllocation(IN_CONST_HANDLE handle,
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

static NTSTATUS NTAPI EduCloseAllocation(IN_CONST_HANDLE device,
                                         IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  UNREFERENCED_PARAMETER(device);
  UNREFERENCED_PARAMETER(args);
  return STATUS_SUCCESS;  // opening made nothing
}

// What a client says in a command buffer: an array of these.
typedef struct _CLIENT_COMMAND {
  UINT Operation;            // OPERATION_FILL, OPERATION_COPY or OPERATION_FACTORIAL
  UINT Value;                // FILL, FACTORIAL
  UINT Destination, Source;  // indices in the allocation list; Source: COPY
  UINT Offset, SourceOffset;
  UINT Bytes;  // at most EDU_BUFFER_BYTES for COPY, 4 for FACTORIAL
} CLIENT_COMMAND;

// A place in an allocation, if all of it lies inside.
static const DXGK_ALLOCATIONLIST* Find(const DXGKARG_RENDER* args, UINT index, UINT offset,
                                       UINT bytes, BOOLEAN write) {
  if (index >= args->AllocationListSize) return NULL;
  const DXGK_ALLOCATIONLIST* entry = &args->pAllocationList[index];
  const ALLOCATION* allocation = entry->hDeviceSpecificAllocation;
  if (allocation == NULL || (write && entry->WriteOperation == 0)) return NULL;
  if (offset > allocation->Bytes || bytes > allocation->Bytes - offset) return NULL;
  return entry;
}

// The address, if there is one yet, and the element of the list that corrects it.
static ULONGLONG Place(const DXGKARG_RENDER* args, D3DDDI_PATCHLOCATIONLIST* patch,
                       const DXGK_ALLOCATIONLIST* entry, UINT offset, const COMMAND* command,
                       const ULONGLONG* field) {
  RtlZeroMemory(patch, sizeof(*patch));
  patch->AllocationIndex = (UINT)(entry - args->pAllocationList);
  patch->AllocationOffset = offset;
  patch->PatchOffset = (UINT)((const UCHAR*)field - (const UCHAR*)args->pDmaBuffer);
  patch->SplitOffset = (UINT)((const UCHAR*)command - (const UCHAR*)args->pDmaBuffer);
  return entry->SegmentId == 0 ? 0 : (ULONGLONG)entry->PhysicalAddress.QuadPart + offset;
}

static NTSTATUS NTAPI EduRender(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  UNREFERENCED_PARAMETER(context);
  const UINT wanted = args->CommandLength / sizeof(CLIENT_COMMAND);
  if (args->CommandLength % sizeof(CLIENT_COMMAND) != 0) return STATUS_INVALID_PARAMETER;
  COMMAND* command = args->pDmaBuffer;
  D3DDDI_PATCHLOCATIONLIST* patch = args->pPatchLocationListOut;
  UINT room = args->DmaSize / sizeof(COMMAND);
  if (room > args->PatchLocationListOutSize / 2) room = args->PatchLocationListOutSize / 2;

  // MultipassOffset is ours: how many commands earlier passes have translated.
  UINT done = args->MultipassOffset;
  for (; done < wanted && room != 0; ++done, --room) {
    CLIENT_COMMAND asked;  // user memory may change or go at any time: copied once, then checked
#ifndef __ELF__            // the ELF form has no exception handling
    __try {
      RtlCopyMemory(&asked, (const CLIENT_COMMAND*)args->pCommand + done, sizeof(asked));
    } __except (EXCEPTION_EXECUTE_HANDLER) {
      return STATUS_INVALID_USER_BUFFER;
    }
#else
    RtlCopyMemory(&asked, (const CLIENT_COMMAND*)args->pCommand + done, sizeof(asked));
#endif
    if (asked.Operation > OPERATION_FACTORIAL) return STATUS_INVALID_PARAMETER;
    if (asked.Operation == OPERATION_FACTORIAL && asked.Bytes != sizeof(ULONG))
      return STATUS_INVALID_PARAMETER;
    if (asked.Operation == OPERATION_COPY && (asked.Bytes == 0 || asked.Bytes > EDU_BUFFER_BYTES))
      return STATUS_INVALID_PARAMETER;
    const DXGK_ALLOCATIONLIST* to = Find(args, asked.Destination, asked.Offset, asked.Bytes, TRUE);
    if (to == NULL) return STATUS_INVALID_PARAMETER;
    command->Operation = asked.Operation;
    command->Value = asked.Value;
    command->Bytes = asked.Bytes;
    command->Source = 0;
    command->Destination = Place(args, patch++, to, asked.Offset, command, &command->Destination);
    if (asked.Operation == OPERATION_COPY) {
      const DXGK_ALLOCATIONLIST* from =
          Find(args, asked.Source, asked.SourceOffset, asked.Bytes, FALSE);
      if (from == NULL) return STATUS_INVALID_PARAMETER;
      command->Source = Place(args, patch++, from, asked.SourceOffset, command, &command->Source);
    }
    ++command;
  }
  // DxgkDdiSubmitCommand names the buffer by its physical address; our thread needs the other one.
  *(PVOID*)args->pDmaBufferPrivateData = args->pDmaBuffer;
  args->pDmaBuffer = command;
  args->pPatchLocationListOut = patch;
  args->MultipassOffset = done;
  return done == wanted ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

static NTSTATUS NTAPI EduPatch(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_PATCH args) {
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

static NTSTATUS NTAPI EduBuildPagingBuffer(IN_CONST_HANDLE context,
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
                                     : OPERATION_MOVE;
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

static NTSTATUS NTAPI EduSubmitCommand(IN_CONST_HANDLE context,
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
  UINT Fence;
} REQUEST;

static BOOLEAN NTAPI ReportPreemption(PVOID context) {  // at device level, where reports belong
  const REQUEST* request = context;
  ADAPTER* adapter = request->Adapter;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  data.DmaPreempted.PreemptionFenceId = request->Fence;
  data.DmaPreempted.LastCompletedFenceId = adapter->LastCompleted;
  adapter->Dxgk.DxgkCbNotifyInterrupt(adapter->Dxgk.DeviceHandle, &data);
  return adapter->Dxgk.DxgkCbQueueDpc(adapter->Dxgk.DeviceHandle);
}

// The interrupt of the factorial that begins here completes the packet; 0: none does.
static BOOLEAN NTAPI BeginFactorial(PVOID context) {  // at device level
  const REQUEST* request = context;
  ADAPTER* adapter = request->Adapter;
  // What an abandoned job left is not said of this one.
  if (Read(adapter, EDU_REG_INTERRUPT) & EDU_FACTORIAL_DONE)
    Write(adapter, EDU_REG_ACKNOWLEDGE, EDU_FACTORIAL_DONE);
  adapter->Said &= ~(ULONG)EDU_FACTORIAL_DONE;
  adapter->Running = request->Fence;
  return TRUE;
}

static BOOLEAN NTAPI Forget(PVOID context) {  // at device level
  const REQUEST* request = context;
  request->Adapter->Running = 0;
  return TRUE;
}

static BOOLEAN NTAPI TakeSaid(PVOID context) {  // at device level
  REQUEST* request = context;
  request->Fence = request->Adapter->Said;
  request->Adapter->Said = 0;
  return TRUE;
}

static UINT AtDeviceLevel(ADAPTER* adapter, PKSYNCHRONIZE_ROUTINE routine, UINT fence) {
  REQUEST request = {adapter, fence};
  BOOLEAN result = FALSE;
  adapter->Dxgk.DxgkCbSynchronizeExecution(adapter->Dxgk.DeviceHandle, routine, &request, 0,
                                           &result);
  return request.Fence;
}

// Reports the preemption if all work is reported, though the thread may not know of it yet. The
// caller holds the lock.
static BOOLEAN NTAPI PreemptIdle(PVOID context) {  // at device level
  REQUEST* request = context;
  const ADAPTER* adapter = request->Adapter;
  if (adapter->First != adapter->Next) return FALSE;
  if (adapter->Current != 0 && adapter->Current != adapter->LastCompleted) return FALSE;
  ReportPreemption(request);
  request->Fence = 0;
  return TRUE;
}

static NTSTATUS NTAPI EduPreemptCommand(IN_CONST_HANDLE context,
                                        IN_CONST_PDXGKARG_PREEMPTCOMMAND args) {
  ADAPTER* adapter = context;
  KeAcquireSpinLockAtDpcLevel(&adapter->Lock);
  // A thread at work looks before its next job.
  adapter->Preemption = AtDeviceLevel(adapter, PreemptIdle, args->PreemptionFenceId);
  KeReleaseSpinLockFromDpcLevel(&adapter->Lock);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduQueryCurrentFence(IN_CONST_HANDLE context,
                                           INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  const ADAPTER* adapter = context;
  args->CurrentFence = adapter->LastCompleted;
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduResetFromTimeout(IN_CONST_HANDLE context) {
  AbandonJob(context);  // the thread neither writes nor begins anything any more
  AtDeviceLevel(context, Forget, 0);
  return STATUS_SUCCESS;
}

static NTSTATUS NTAPI EduRestartFromTimeout(IN_CONST_HANDLE context) {
  Write(context, EDU_REG_STATUS, EDU_STATUS_INTERRUPT);
  return STATUS_SUCCESS;
}

// Waits until the device has said so. FALSE: the job is abandoned.
static BOOLEAN WaitFor(ADAPTER* adapter, ULONG what) {
  ULONG said = 0;
  while ((said & what) == 0) {
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&adapter->Lock);
    const BOOLEAN abandoned = adapter->Abandon;
    KeReleaseSpinLock(&adapter->Lock, old);
    if (abandoned) return FALSE;
    said |= AtDeviceLevel(adapter, TakeSaid, 0);
    if ((said & what) == 0)
      KeWaitForSingleObject(&adapter->Hardware, Executive, KernelMode, FALSE, NULL);
  }
  return TRUE;
}

static BOOLEAN Transfer(ADAPTER* adapter, ULONG from, ULONG to, ULONG bytes, ULONG direction) {
  Write(adapter, EDU_REG_DMA_SOURCE, from);
  Write(adapter, EDU_REG_DMA_DESTINATION, to);
  Write(adapter, EDU_REG_DMA_BYTES, bytes);
  Write(adapter, EDU_REG_DMA_COMMAND, EDU_DMA_RUN | EDU_DMA_INTERRUPT | direction);
  if (WaitFor(adapter, EDU_DMA_DONE)) return TRUE;
  // The device cannot be stopped: its transfer has to end before the memory is somebody else's.
  LARGE_INTEGER pause;
  pause.QuadPart = -10000;  // 1 ms, in units of 100 ns
  for (UINT i = 0; i < TRANSFER_MS_MOST; ++i) {
    const ULONG command = Read(adapter, EDU_REG_DMA_COMMAND);
    if ((command & EDU_DMA_RUN) == 0 || command == 0xFFFFFFFF) break;  // over, or no device
    KeDelayExecutionThread(KernelMode, FALSE, &pause);
  }
  return FALSE;
}

// FALSE: the job is abandoned.
static BOOLEAN Execute(ADAPTER* adapter, const COMMAND* command) {
  const ULONGLONG toMemory =
      (ULONGLONG)adapter->Memory - (ULONGLONG)adapter->MemoryAddress.QuadPart;
  switch (command->Operation) {
    case OPERATION_FILL:
      for (ULONGLONG i = 0; i < command->Bytes; ++i)
        ((PUCHAR)(command->Destination + toMemory))[i] = ((const UCHAR*)&command->Value)[i % 4];
      return TRUE;
    case OPERATION_COPY: {
      ULONG destination = (ULONG)command->Destination;
#ifdef EDU_ASTRAY
      destination ^= 0x20000000;  // the mistake: no memory is there
#endif
      return Transfer(adapter, (ULONG)command->Source, EDU_BUFFER_BASE, (ULONG)command->Bytes, 0) &&
             Transfer(adapter, EDU_BUFFER_BASE, destination, (ULONG)command->Bytes,
                      EDU_DMA_TO_MEMORY);
    }
    case OPERATION_FACTORIAL:
      AtDeviceLevel(adapter, BeginFactorial, 0);
      Write(adapter, EDU_REG_FACTORIAL, command->Value);
      if (!WaitFor(adapter, EDU_FACTORIAL_DONE)) return FALSE;
      *(ULONG*)(command->Destination + toMemory) = Read(adapter, EDU_REG_FACTORIAL);
      return TRUE;
    case OPERATION_PAGE_IN:
      RtlCopyMemory((PVOID)(command->Destination + toMemory), (PVOID)command->Source,
                    command->Bytes);
      return TRUE;
    case OPERATION_MOVE:
      RtlMoveMemory((PVOID)(command->Destination + toMemory), (PVOID)(command->Source + toMemory),
                    command->Bytes);
      return TRUE;
    default:  // OPERATION_PAGE_OUT; the buffers are our own
      RtlCopyMemory((PVOID)command->Destination, (PVOID)(command->Source + toMemory),
                    command->Bytes);
      return TRUE;
  }
}

// All of a packet. Its fence is reported by the interrupt routine.
static VOID Run(ADAPTER* adapter, const JOB* job) {
  for (UINT i = 0; i < job->Count; ++i) {
    if (!Execute(adapter, &job->Commands[i])) return;
  }
  AtDeviceLevel(adapter, BeginFactorial, job->Fence);
  Write(adapter, EDU_REG_FACTORIAL, 1);
  WaitFor(adapter, EDU_FACTORIAL_DONE);
}

static VOID NTAPI GpuThread(PVOID context) {
  ADAPTER* adapter = context;
  while (!adapter->Stop) {
    JOB job = {0};
    UINT preemption = 0;
    BOOLEAN work = FALSE;
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&adapter->Lock);
    adapter->Abandon = FALSE;
    adapter->Current = 0;
    if (adapter->Preemption != 0) {
      // Between two jobs, so nothing runs: what is still queued comes back with new fences.
      preemption = adapter->Preemption;
      adapter->Preemption = 0;
      adapter->First = adapter->Next;
    } else if (adapter->First != adapter->Next) {
      work = TRUE;
      job = adapter->Jobs[adapter->First++ % QUEUE_SLOTS];
      adapter->Current = job.Fence;
    }
    if (work || preemption != 0) KeClearEvent(&adapter->Rest);
    KeReleaseSpinLock(&adapter->Lock, old);
    if (preemption != 0) {
      AtDeviceLevel(adapter, ReportPreemption, preemption);
    } else if (work) {
      Run(adapter, &job);
    } else {
      KeWaitForSingleObject(&adapter->Work, Executive, KernelMode, FALSE, NULL);
      continue;
    }
    KeSetEvent(&adapter->Rest, 0, FALSE);  // only now: an engine is idle once it has said so
  }
  PsTerminateSystemThread(STATUS_SUCCESS);
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registryPath) {
  DRIVER_INITIALIZATION_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = EduAddDevice;
  data.DxgkDdiStartDevice = EduStartDevice;
  data.DxgkDdiStopDevice = EduStopDevice;
  data.DxgkDdiRemoveDevice = EduRemoveDevice;
  data.DxgkDdiUnload = EduUnload;
  data.DxgkDdiInterruptRoutine = EduInterruptRoutine;
  data.DxgkDdiDpcRoutine = EduDpcRoutine;
  data.DxgkDdiSetPowerState = EduSetPowerState;
  data.DxgkDdiQueryAdapterInfo = EduQueryAdapterInfo;
  data.DxgkDdiGetNodeMetadata = EduGetNodeMetadata;
  data.DxgkDdiCreateDevice = EduCreateDevice;
  data.DxgkDdiDestroyDevice = EduDestroy;
  data.DxgkDdiCreateContext = EduCreateContext;
  data.DxgkDdiDestroyContext = EduDestroy;
  data.DxgkDdiCreateAllocation = EduCreateAllocation;
  data.DxgkDdiDestroyAllocation = EduDestroyAllocation;
  data.DxgkDdiOpenAllocation = EduOpenAllocation;
  data.DxgkDdiCloseAllocation = EduCloseAllocation;
  data.DxgkDdiRender = EduRender;
  data.DxgkDdiPatch = EduPatch;
  data.DxgkDdiBuildPagingBuffer = EduBuildPagingBuffer;
  data.DxgkDdiSubmitCommand = EduSubmitCommand;
  data.DxgkDdiPreemptCommand = EduPreemptCommand;
  data.DxgkDdiQueryCurrentFence = EduQueryCurrentFence;
  data.DxgkDdiResetFromTimeout = EduResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = EduRestartFromTimeout;
  return DxgkInitialize(driver, registryPath, &data);
}
