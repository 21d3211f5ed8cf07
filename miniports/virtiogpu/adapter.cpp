// Birth and death of the driver and of its adapters, and what it says about itself in between.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {

ULONG g_aperture_mib = kApertureMiB;

namespace {

NTSTATUS NTAPI DdiAddDevice(IN_CONST_PDEVICE_OBJECT physical_device, OUT_PPVOID context) {
  auto* adapter = make<Adapter>();
  if (adapter == nullptr) return STATUS_NO_MEMORY;
  adapter->physical_device = physical_device;
  adapter->next_resource = kFirstResource;
  ExInitializeFastMutex(&adapter->mutex);
  KeInitializeTimer(&adapter->clock);
  KeInitializeDpc(&adapter->clock_dpc, clock_routine, adapter);
  *context = adapter;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiRemoveDevice(IN_CONST_PVOID context) {
  unmake(context);
  return STATUS_SUCCESS;
}

void NTAPI DdiUnload() {}

/// No interrupt is served, no clock runs, and the device touches no memory any more.
void halt(Adapter* adapter) {
  (void)at_device_level(adapter, [&] { adapter->running = false; });
  KeCancelTimer(&adapter->clock);
  KeFlushQueuedDpcs();
  // A device that does not stop must not be left with a ring; but whom to tell?
  (void)reset_device(adapter);
  adapter->screen.clock_runs = false;
  forget_work(adapter);
  forget_display(adapter);
}

/// Undoes whatever part of the start was done: also how a failed start cleans up, because the
/// kernel calls DxgkDdiRemoveDevice next and nothing else.
void stop(Adapter* adapter) {
  if (adapter->ready) halt(adapter);
  unmap_device(adapter);
  free_queue(&adapter->control);
  free_queue(&adapter->cursor_queue);
  free_cursor(adapter);
  free_capsets(adapter);
}

NTSTATUS start(Adapter* adapter) {
  NTSTATUS status = find_device(adapter);
  if (NT_SUCCESS(status)) status = allocate_queue(&adapter->control, VGPU_QUEUE_CONTROL);
  if (NT_SUCCESS(status)) status = allocate_queue(&adapter->cursor_queue, VGPU_QUEUE_CURSOR);
  if (NT_SUCCESS(status)) status = prepare_cursor(adapter);
  if (NT_SUCCESS(status)) status = start_device(adapter);
  if (!NT_SUCCESS(status)) return status;
  adapter->running = true;
  status = read_modes(adapter);
  return NT_SUCCESS(status) ? read_capsets(adapter) : status;
}

NTSTATUS NTAPI DdiStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO,
                              IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG source_count,
                              OUT_PULONG child_count) {
  auto* adapter = static_cast<Adapter*>(context);
  adapter->dxgk = *dxgk;  // the kernel's table may be gone after this call
  RtlZeroMemory(&adapter->engine, sizeof(adapter->engine));
  RtlZeroMemory(&adapter->screen, sizeof(adapter->screen));
  *source_count = *child_count = 0;
  const NTSTATUS status = start(adapter);
  if (!NT_SUCCESS(status)) {
    stop(adapter);
    return status;
  }
  *source_count = *child_count = 1;  // the first scanout
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiStopDevice(IN_CONST_PVOID context) {
  stop(static_cast<Adapter*>(context));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSetPowerState(IN_CONST_PVOID context, IN_ULONG device_uid,
                                IN_DEVICE_POWER_STATE state, IN_POWER_ACTION) {
  auto* adapter = static_cast<Adapter*>(context);
  if (device_uid != kAdapterUid) return STATUS_SUCCESS;  // of the output: nothing to do
  const bool on = state == PowerDeviceD0;
  if (on == adapter->running) return STATUS_SUCCESS;
  halt(adapter);
  if (!on) return STATUS_SUCCESS;
  // May not fail: a device that does not come up shows as a timeout.
  adapter->engine.completed_fence = adapter->engine.submitted_fence;
  const bool is_up = NT_SUCCESS(start_device(adapter));
  (void)at_device_level(adapter, [&] { adapter->running = is_up; });
  arm_clock(adapter);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiNotifySurpriseRemoval(PVOID context, DXGK_SURPRISE_REMOVAL_TYPE) {
  // Beside anything else that runs here: one flag, which every access looks at.
  static_cast<Adapter*>(context)->gone = true;
  return STATUS_SUCCESS;
}

void NTAPI DdiResetDevice(IN_CONST_PVOID context) {
  // The system is going down, at any IRQL and perhaps in the middle of anything.
  auto* adapter = static_cast<Adapter*>(context);
  if (adapter->ready && !adapter->gone)
    WRITE_REGISTER_UCHAR(adapter->registers.common + VIRTIO_COMMON_STATUS, 0);
}

NTSTATUS driver_caps(void* out, UINT bytes) {
  if (bytes < sizeof(DXGK_DRIVERCAPS)) return STATUS_BUFFER_TOO_SMALL;
  auto* caps = static_cast<DXGK_DRIVERCAPS*>(out);
  RtlZeroMemory(caps, sizeof(*caps));
  caps->WDDMVersion = kWddmVersion;
  caps->HighestAcceptableAddress.QuadPart = -1;
  caps->ApertureSegmentCommitLimit = aperture_bytes();
  caps->SchedulingCaps.MultiEngineAware = 1;
  caps->SchedulingCaps.PreemptionAware = 1;
  caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
  caps->PreemptionCaps.GraphicsPreemptionGranularity =
      D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
  caps->PreemptionCaps.ComputePreemptionGranularity =
      D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
  caps->SupportSurpriseRemovalInHibernation = TRUE;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
  caps->SupportSurpriseRemoval = TRUE;
#endif
  display_caps(caps);
  return STATUS_SUCCESS;
}

/// What all kinds of segment query have in common.
template <typename Query, typename Descriptor>
void describe_segment(Query* query, Descriptor* aperture) {
  RtlZeroMemory(aperture, sizeof(*aperture));
  aperture->Flags.Aperture = 1;
  aperture->Flags.CacheCoherent = 1;
  aperture->BaseAddress.QuadPart = static_cast<LONGLONG>(kApertureBase);
  aperture->Size = aperture->CommitLimit = aperture_bytes();
  query->NbSegment = 1;
  query->PagingBufferSegmentId = 0;  // contiguous system memory
  query->PagingBufferSize = kPagingBufferBytes;
  query->PagingBufferPrivateDataSize = kPagingPrivateBytes;
}

/// The kinds below 2.0.
template <typename Query>
NTSTATUS query_segments(void* out, UINT bytes) {
  if (bytes < sizeof(Query)) return STATUS_BUFFER_TOO_SMALL;
  auto* query = static_cast<Query*>(out);
  if (query->pSegmentDescriptor == nullptr) {  // first pass: how many? Nothing else is written.
    query->NbSegment = 1;
    return STATUS_SUCCESS;
  }
  if (query->NbSegment < 1) return STATUS_BUFFER_TOO_SMALL;
  describe_segment(query, query->pSegmentDescriptor);
  return STATUS_SUCCESS;
}

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
/// The array's element may be wider than ours.
NTSTATUS query_segments4(void* out, UINT bytes) {
  if (bytes < sizeof(DXGK_QUERYSEGMENTOUT4)) return STATUS_BUFFER_TOO_SMALL;
  auto* query = static_cast<DXGK_QUERYSEGMENTOUT4*>(out);
  if (query->NbSegment == 0) {  // first pass, as above
    query->NbSegment = 1;
    return STATUS_SUCCESS;
  }
  const SIZE_T stride = query->SegmentDescriptorStride;
  if (stride < sizeof(DXGK_SEGMENTDESCRIPTOR4)) return STATUS_BUFFER_TOO_SMALL;
  RtlZeroMemory(query->pSegmentDescriptor, stride);
  auto* aperture = reinterpret_cast<DXGK_SEGMENTDESCRIPTOR4*>(query->pSegmentDescriptor);
  describe_segment(query, aperture);
  aperture->Flags.ApplicationTarget = 1;  // budgets are shares of this
  aperture->Flags.NonLocalBudgetGroup = 1;
  return STATUS_SUCCESS;
}
#endif

NTSTATUS umd_info(const Adapter& adapter, void* out, UINT bytes) {
  VgpuUmdAdapterInfo info;
  if (bytes < sizeof(info)) return STATUS_BUFFER_TOO_SMALL;
  RtlZeroMemory(&info, sizeof(info));
  info.magic = VGPU_UMD_ADAPTER_MAGIC;
  info.version = VGPU_UMD_VERSION;
  info.side_max = VGPU_UMD_SIDE_MAX;
  info.preferred_width = adapter.sizes[0].width;
  info.preferred_height = adapter.sizes[0].height;
  info.list_max = kListMost;
  if (kExplicitResidency) info.flags = VGPU_UMD_EXPLICIT_RESIDENCY;
  if (adapter.has_3d) {
    info.flags |= VGPU_UMD_3D;
    if (adapter.has_context_init) info.flags |= VGPU_UMD_CONTEXT_INIT;
    info.submit_bytes_max = kSubmitBytesMost;
    info.list_max = kList3dMost;
    info.resource_bytes_max = resource_bytes_most();
    info.capset_count = adapter.capset_count;
    for (UINT i = 0; i < adapter.capset_count; ++i) info.capsets[i] = adapter.capsets[i].info;
  }
  RtlCopyMemory(out, &info, sizeof(info));
  return STATUS_SUCCESS;
}

/// Static data only, no register: it may be asked at any power state, any number of times.
NTSTATUS NTAPI DdiQueryAdapterInfo(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  void* out = args->pOutputData;
  const UINT bytes = args->OutputDataSize;
  if (out == nullptr) return STATUS_INVALID_PARAMETER;
  switch (args->Type) {
    case DXGKQAITYPE_UMDRIVERPRIVATE:
      return umd_info(*static_cast<const Adapter*>(context), out, bytes);
    case DXGKQAITYPE_DRIVERCAPS:
      return driver_caps(out, bytes);
    case DXGKQAITYPE_QUERYSEGMENT:
      return query_segments<DXGK_QUERYSEGMENTOUT>(out, bytes);
    case DXGKQAITYPE_QUERYSEGMENT3:
      return query_segments<DXGK_QUERYSEGMENTOUT3>(out, bytes);
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    case DXGKQAITYPE_QUERYSEGMENT4:
      return query_segments4(out, bytes);
#endif
    default:
      return STATUS_NOT_SUPPORTED;
  }
}

NTSTATUS NTAPI DdiGetNodeMetadata(IN_CONST_HANDLE, UINT node,
                                  OUT_PDXGKARG_GETNODEMETADATA metadata) {
  if (node != 0) return STATUS_INVALID_PARAMETER;
  RtlZeroMemory(metadata, sizeof(*metadata));
  // Not that it could: an adapter that renders has one node of this type, and runtimes look for it.
  metadata->EngineType = DXGK_ENGINE_TYPE_3D;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiCancelCommand(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CANCELCOMMAND) {
  return STATUS_SUCCESS;  // a submission owns nothing but its private data
}

NTSTATUS NTAPI DdiCollectDbgInfo(IN_CONST_HANDLE context, IN_CONST_PDXGKARG_COLLECTDBGINFO args) {
  const Engine& engine = static_cast<const Adapter*>(context)->engine;
  const UINT state[] = {engine.completed_fence, engine.submitted_fence, engine.errors,
                        engine.broken ? 1U : 0U};
  const SIZE_T bytes = args->BufferSize < sizeof(state) ? args->BufferSize : sizeof(state);
  if (args->pBuffer != nullptr) RtlCopyMemory(args->pBuffer, state, bytes);
  return STATUS_SUCCESS;
}

/// A REG_DWORD of the service key; *number stays without it.
NTSTATUS read_setting(PUNICODE_STRING registry_path, const WCHAR* name, ULONG* number) {
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE, nullptr, nullptr);
  HANDLE key = nullptr;
  if (!NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) return STATUS_SUCCESS;
  UNICODE_STRING wanted;
  RtlInitUnicodeString(&wanted, name);
  alignas(KEY_VALUE_PARTIAL_INFORMATION) UCHAR buffer[64];
  ULONG bytes = 0;
  const NTSTATUS status =
      ZwQueryValueKey(key, &wanted, KeyValuePartialInformation, buffer, sizeof(buffer), &bytes);
  ZwClose(key);
  if (status == STATUS_OBJECT_NAME_NOT_FOUND) return STATUS_SUCCESS;
  if (!NT_SUCCESS(status)) return STATUS_INVALID_PARAMETER;
  const auto* value = reinterpret_cast<const KEY_VALUE_PARTIAL_INFORMATION*>(buffer);
  if (value->Type != REG_DWORD || value->DataLength != sizeof(*number))
    return STATUS_INVALID_PARAMETER;
  RtlCopyMemory(number, value->Data, sizeof(*number));
  return STATUS_SUCCESS;
}

}  // namespace
}  // namespace virtiogpu

extern "C" NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path) {
  using namespace virtiogpu;
  g_aperture_mib = kApertureMiB;
  static const WCHAR kSize[] = {'A', 'p', 'e', 'r', 't', 'u', 'r', 'e', 'S', 'i', 'z', 'e', 0};
  if (const NTSTATUS status = read_setting(registry_path, kSize, &g_aperture_mib);
      !NT_SUCCESS(status))
    return status;
  if (g_aperture_mib == 0 || g_aperture_mib > kApertureMiB) return STATUS_INVALID_PARAMETER;
  DRIVER_INITIALIZATION_DATA data;
  RtlZeroMemory(&data, sizeof(data));
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = DdiAddDevice;
  data.DxgkDdiStartDevice = DdiStartDevice;
  data.DxgkDdiStopDevice = DdiStopDevice;
  data.DxgkDdiRemoveDevice = DdiRemoveDevice;
  data.DxgkDdiUnload = DdiUnload;
  data.DxgkDdiInterruptRoutine = DdiInterruptRoutine;
  data.DxgkDdiDpcRoutine = DdiDpcRoutine;
  data.DxgkDdiSetPowerState = DdiSetPowerState;
  data.DxgkDdiResetDevice = DdiResetDevice;
  data.DxgkDdiNotifySurpriseRemoval = DdiNotifySurpriseRemoval;
  data.DxgkDdiQueryAdapterInfo = DdiQueryAdapterInfo;
  data.DxgkDdiGetNodeMetadata = DdiGetNodeMetadata;
  data.DxgkDdiCreateDevice = DdiCreateDevice;
  data.DxgkDdiDestroyDevice = DdiDestroyDevice;
  data.DxgkDdiCreateContext = DdiCreateContext;
  data.DxgkDdiDestroyContext = DdiDestroyContext;
  data.DxgkDdiCreateAllocation = DdiCreateAllocation;
  data.DxgkDdiDestroyAllocation = DdiDestroyAllocation;
  data.DxgkDdiOpenAllocation = DdiOpenAllocation;
  data.DxgkDdiCloseAllocation = DdiCloseAllocation;
  data.DxgkDdiEscape = DdiEscape;
  data.DxgkDdiRender = DdiRender;
  data.DxgkDdiRenderKm = DdiRenderKm;
  data.DxgkDdiPatch = DdiPatch;
  data.DxgkDdiSubmitCommand = DdiSubmitCommand;
  data.DxgkDdiCancelCommand = DdiCancelCommand;
  data.DxgkDdiPreemptCommand = DdiPreemptCommand;
  data.DxgkDdiBuildPagingBuffer = DdiBuildPagingBuffer;
  data.DxgkDdiQueryCurrentFence = DdiQueryCurrentFence;
  data.DxgkDdiResetFromTimeout = DdiResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = DdiRestartFromTimeout;
  data.DxgkDdiCollectDbgInfo = DdiCollectDbgInfo;
  add_display_entries(&data);
  return DxgkInitialize(driver, registry_path, &data);
}
