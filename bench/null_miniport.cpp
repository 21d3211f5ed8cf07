// The null GPU's miniport: the smallest driver that starts, patches and submits.
#define DXGKDDI_INTERFACE_VERSION 0x4002  // WDDM 1.3, as softgpu's
#include <dispmprt.h>
#include <ntddk.h>

#include <atomic>
#include <cstring>

#include "bench/null_gpu.h"
#include "miniports/softgpu/commands.h"
#include "nt/kernel.h"

namespace dxgkit::bench {
namespace {

constexpr UINT64 kMemoryBase = 0x10'0000'0000;
constexpr UINT64 kMemoryBytes = UINT64{256} << 20;
constexpr UINT kDmaBufferBytes = 64 * 1024;
constexpr UINT kListSize = 512;

NullGpu* g_gpu = nullptr;

struct Adapter {
  NullGpu* gpu = nullptr;
  DXGKRNL_INTERFACE dxgk{};
  UINT reported = 0;  // device level
};
UINT64 g_object = 0;  // what device, context and allocation handles point at

Adapter& adapter_of(const void* context) {
  return *static_cast<Adapter*>(const_cast<void*>(context));
}

NTSTATUS NTAPI AddDevice(IN_CONST_PDEVICE_OBJECT, OUT_PPVOID context) {
  *context = new Adapter{.gpu = g_gpu};
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI StartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO, IN_PDXGKRNL_INTERFACE dxgk,
                           OUT_PULONG sources, OUT_PULONG children) {
  Adapter& adapter = adapter_of(context);
  adapter.dxgk = *dxgk;
  adapter.reported = 0;
  *sources = 0;
  *children = 0;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI StopDevice(IN_CONST_PVOID) { return STATUS_SUCCESS; }
NTSTATUS NTAPI RemoveDevice(IN_CONST_PVOID context) {
  delete &adapter_of(context);
  return STATUS_SUCCESS;
}
void NTAPI Unload() {}
NTSTATUS NTAPI SetPowerState(IN_CONST_PVOID, IN_ULONG, IN_DEVICE_POWER_STATE, IN_POWER_ACTION) {
  return STATUS_SUCCESS;
}

BOOLEAN NTAPI InterruptRoutine(IN_CONST_PVOID context, IN_ULONG) {
  Adapter& adapter = adapter_of(context);
  const UINT completed = adapter.gpu->completed();
  if (completed == adapter.reported) return FALSE;
  adapter.reported = completed;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = completed;
  adapter.dxgk.DxgkCbNotifyInterrupt(adapter.dxgk.DeviceHandle, &data);
  adapter.dxgk.DxgkCbQueueDpc(adapter.dxgk.DeviceHandle);
  return TRUE;
}
void NTAPI DpcRoutine(IN_CONST_PVOID context) {
  Adapter& adapter = adapter_of(context);
  adapter.dxgk.DxgkCbNotifyDpc(adapter.dxgk.DeviceHandle);
}

NTSTATUS NTAPI QueryAdapterInfo(IN_CONST_HANDLE, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  switch (args->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
      if (args->OutputDataSize < sizeof(DXGK_DRIVERCAPS)) return STATUS_BUFFER_TOO_SMALL;
      auto* caps = static_cast<DXGK_DRIVERCAPS*>(args->pOutputData);
      std::memset(caps, 0, sizeof(*caps));
      caps->HighestAcceptableAddress.QuadPart = -1;
      caps->MaxAllocationListSlotId = softgpu::kSlots;
      caps->SchedulingCaps.MultiEngineAware = 1;
      caps->PreemptionCaps.GraphicsPreemptionGranularity =
          D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
      caps->PreemptionCaps.ComputePreemptionGranularity =
          D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
      caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
      caps->WDDMVersion = DXGKDDI_WDDMv1_3;
      return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_QUERYSEGMENT3: {
      auto* query = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
      query->NbSegment = 1;
      if (query->pSegmentDescriptor == nullptr) return STATUS_SUCCESS;
      DXGK_SEGMENTDESCRIPTOR3& memory = query->pSegmentDescriptor[0];
      std::memset(&memory, 0, sizeof(memory));
      memory.BaseAddress.QuadPart = static_cast<LONGLONG>(kMemoryBase);
      memory.Size = kMemoryBytes;
      memory.CommitLimit = kMemoryBytes;
      query->PagingBufferSegmentId = 0;
      query->PagingBufferSize = kDmaBufferBytes;
      query->PagingBufferPrivateDataSize = 0;
      return STATUS_SUCCESS;
    }
    default:
      return STATUS_NOT_SUPPORTED;
  }
}
NTSTATUS NTAPI GetNodeMetadata(IN_CONST_HANDLE, UINT node, OUT_PDXGKARG_GETNODEMETADATA metadata) {
  if (node != 0) return STATUS_INVALID_PARAMETER;
  std::memset(metadata, 0, sizeof(*metadata));
  metadata->EngineType = DXGK_ENGINE_TYPE_3D;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI CreateDevice(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEDEVICE args) {
  args->hDevice = &g_object;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI DestroyDevice(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
NTSTATUS NTAPI CreateContext(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATECONTEXT args) {
  args->hContext = &g_object;
  args->ContextInfo.DmaBufferSize = kDmaBufferBytes;
  args->ContextInfo.DmaBufferSegmentSet = 0;
  args->ContextInfo.DmaBufferPrivateDataSize = 0;
  args->ContextInfo.AllocationListSize = kListSize;
  args->ContextInfo.PatchLocationListSize = kListSize;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI DestroyContext(IN_CONST_HANDLE) { return STATUS_SUCCESS; }

NTSTATUS NTAPI CreateAllocation(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_ALLOCATIONINFO& info = args->pAllocationInfo[i];
    info.Alignment = 4096;
    // A client may ask for another size.
    uint64_t bytes = 0;
    if (info.PrivateDriverDataSize == sizeof(bytes))
      std::memcpy(&bytes, info.pPrivateDriverData, sizeof(bytes));
    info.Size = bytes != 0 ? bytes : kNullAllocationBytes;
    info.PitchAlignedSize = 0;
    info.HintedBank.Value = 0;
    info.PreferredSegment.Value = 0;
    info.PreferredSegment.SegmentId0 = 1;
    info.SupportedReadSegmentSet = 1;
    info.SupportedWriteSegmentSet = 1;
    info.EvictionSegmentSet = 0;
    info.MaximumRenamingListLength = 0;
    info.pAllocationUsageHint = nullptr;
    info.Flags.Value = 0;
    info.AllocationPriority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    info.hAllocation = &g_object;
  }
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI DestroyAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_DESTROYALLOCATION) {
  return STATUS_SUCCESS;
}
softgpu::OpenAllocation g_open = {kNullAllocationBytes, &g_open};
NTSTATUS NTAPI OpenAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i)
    args->pOpenAllocation[i].hDeviceSpecificAllocation = &g_open;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI CloseAllocation(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CLOSEALLOCATION) {
  return STATUS_SUCCESS;
}

/// Nothing is translated: the client's buffer and its patch locations are taken as they are. The
/// kernel checks the locations, and Patch once more. (Memory of a benchmark does not vanish.)
NTSTATUS NTAPI Render(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER args) {
  if (args->CommandLength > args->DmaSize ||
      args->PatchLocationListInSize > args->PatchLocationListOutSize) {
    return STATUS_NO_MEMORY;
  }
  std::memcpy(args->pDmaBuffer, args->pCommand, args->CommandLength);
  std::memcpy(args->pPatchLocationListOut, args->pPatchLocationListIn,
              args->PatchLocationListInSize * sizeof(*args->pPatchLocationListIn));
  args->pDmaBuffer = static_cast<UCHAR*>(args->pDmaBuffer) + args->CommandLength;
  args->pPatchLocationListOut += args->PatchLocationListInSize;
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI Patch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH args) {
  if (args->Flags.Paging != 0) return STATUS_SUCCESS;
  softgpu::PatchJob job;
  job.dma = static_cast<UCHAR*>(args->pDmaBuffer);
  job.start = args->DmaBufferSubmissionStartOffset;
  job.end = args->DmaBufferSubmissionEndOffset;
  job.allocations = args->pAllocationList;
  job.allocation_count = args->AllocationListSize;
  job.patches = args->pPatchLocationList;
  job.patch_count = args->PatchLocationListSize;
  job.first = args->PatchLocationListSubmissionStart;
  job.length = args->PatchLocationListSubmissionLength;
  return softgpu::patch(job);
}
NTSTATUS NTAPI SubmitCommand(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  adapter_of(adapter).gpu->submit(args->SubmissionFenceId);
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI PreemptCommand(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PREEMPTCOMMAND) {
  return STATUS_SUCCESS;  // PreemptionAware is not set: never called
}
NTSTATUS NTAPI BuildPagingBuffer(IN_CONST_HANDLE, IN_PDXGKARG_BUILDPAGINGBUFFER) {
  return STATUS_SUCCESS;  // nothing for the hardware to do: there is no memory behind the segment
}
NTSTATUS NTAPI QueryCurrentFence(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_QUERYCURRENTFENCE args) {
  args->CurrentFence = adapter_of(adapter).gpu->completed();
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI ResetFromTimeout(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
NTSTATUS NTAPI RestartFromTimeout(IN_CONST_HANDLE) { return STATUS_SUCCESS; }

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path) {
  DRIVER_INITIALIZATION_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = AddDevice;
  data.DxgkDdiStartDevice = StartDevice;
  data.DxgkDdiStopDevice = StopDevice;
  data.DxgkDdiRemoveDevice = RemoveDevice;
  data.DxgkDdiUnload = Unload;
  data.DxgkDdiInterruptRoutine = InterruptRoutine;
  data.DxgkDdiDpcRoutine = DpcRoutine;
  data.DxgkDdiSetPowerState = SetPowerState;
  data.DxgkDdiQueryAdapterInfo = QueryAdapterInfo;
  data.DxgkDdiGetNodeMetadata = GetNodeMetadata;
  data.DxgkDdiCreateDevice = CreateDevice;
  data.DxgkDdiDestroyDevice = DestroyDevice;
  data.DxgkDdiCreateContext = CreateContext;
  data.DxgkDdiDestroyContext = DestroyContext;
  data.DxgkDdiCreateAllocation = CreateAllocation;
  data.DxgkDdiDestroyAllocation = DestroyAllocation;
  data.DxgkDdiOpenAllocation = OpenAllocation;
  data.DxgkDdiCloseAllocation = CloseAllocation;
  data.DxgkDdiRender = Render;
  data.DxgkDdiPatch = Patch;
  data.DxgkDdiSubmitCommand = SubmitCommand;
  data.DxgkDdiPreemptCommand = PreemptCommand;
  data.DxgkDdiBuildPagingBuffer = BuildPagingBuffer;
  data.DxgkDdiQueryCurrentFence = QueryCurrentFence;
  data.DxgkDdiResetFromTimeout = ResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = RestartFromTimeout;
  using Initialize = NTSTATUS(NTAPI*)(PDRIVER_OBJECT, PUNICODE_STRING, PDRIVER_INITIALIZATION_DATA);
  const nt::Export* const found = nt::find_export("DxgkInitialize");
  if (found == nullptr) return STATUS_PROCEDURE_NOT_FOUND;
  return reinterpret_cast<Initialize>(reinterpret_cast<ULONG_PTR>(found->address))(
      driver, registry_path, &data);
}

}  // namespace

void NullGpu::attach_driver(NullGpu* gpu) { g_gpu = gpu; }
void* NullGpu::driver_entry() { return reinterpret_cast<void*>(&DriverEntry); }

}  // namespace dxgkit::bench
