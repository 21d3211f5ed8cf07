// Birth and death of the driver and of its adapters, and what it says about itself in between.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

ULONG g_engine_recovery = 1;  // 0: the registry does without SupportPerEngineTDR

NTSTATUS NTAPI DdiAddDevice(IN_CONST_PDEVICE_OBJECT physical_device, OUT_PPVOID context) {
  auto* adapter = make<Adapter>();
  if (adapter == nullptr) return STATUS_NO_MEMORY;
  adapter->physical_device = physical_device;
  for (UINT i = 0; i < SGPU_NODE_COUNT; ++i) {
    adapter->node[i].adapter = adapter;
    adapter->node[i].ordinal = i;
  }
  prepare_recovery(adapter);
  *context = adapter;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiRemoveDevice(IN_CONST_PVOID context) {
  unmake(context);
  return STATUS_SUCCESS;
}

void NTAPI DdiUnload() {}

/// The bus gives memory resources in the order of the BARs: registers, then video memory.
NTSTATUS find_resources(Adapter* adapter, PCM_RESOURCE_LIST resources) {
  if (resources == nullptr || resources->Count == 0) return STATUS_DEVICE_CONFIGURATION_ERROR;
  const CM_PARTIAL_RESOURCE_LIST& list = resources->List[0].PartialResourceList;
  UINT found = 0;
  for (ULONG i = 0; i < list.Count; ++i) {
    const CM_PARTIAL_RESOURCE_DESCRIPTOR& descriptor = list.PartialDescriptors[i];
    // A BAR of 4 GiB and more comes as a large resource, whose length is scaled. Where it starts is
    // in the same place, and how much memory is behind it a register says.
    if (descriptor.Type != CmResourceTypeMemory && descriptor.Type != CmResourceTypeMemoryLarge) {
      continue;
    }
    if (found == 0) adapter->register_bytes = descriptor.u.Memory.Length;
    PHYSICAL_ADDRESS* start = found == 0 ? &adapter->registers_address : &adapter->vram_cpu_address;
    // The list is packed: not aligned.
    if (found < 2) RtlCopyMemory(start, &descriptor.u.Memory.Start, sizeof(*start));
    ++found;
  }
  const bool usable = found >= 2 && adapter->register_bytes >= SGPU_BAR0_BYTES;
  return usable ? STATUS_SUCCESS : STATUS_DEVICE_CONFIGURATION_ERROR;
}

/// Is this the hardware the driver was written for?
NTSTATUS identify(Adapter* adapter) {
  USHORT ids[2] = {0, 0};  // vendor, device: the first four bytes of configuration space
  ULONG read = 0;
  const NTSTATUS status = adapter->dxgk.DxgkCbReadDeviceSpace(
      adapter->dxgk.DeviceHandle, DXGK_WHICHSPACE_CONFIG, ids, 0, sizeof(ids), &read);
  if (!NT_SUCCESS(status)) return status;
  if (read != sizeof(ids) || ids[0] != SGPU_PCI_VENDOR_ID || ids[1] != SGPU_PCI_DEVICE_ID) {
    return STATUS_DEVICE_CONFIGURATION_ERROR;
  }
  const bool known = read32(*adapter, SGPU_REG_ID) == SGPU_ID_VALUE &&
                     read32(*adapter, SGPU_REG_NODE_COUNT) >= SGPU_NODE_COUNT;
  // Segments consist of whole pages.
  const UINT64 page_bytes = has_large_pages() ? SGPU_LARGE_PAGE_BYTES : PAGE_SIZE;
  adapter->vram_bytes = read64(*adapter, SGPU_REG_VRAM_SIZE) & ~(page_bytes - 1);
  adapter->standby_keeps = read64(*adapter, SGPU_REG_STANDBY_KEEPS);
  adapter->hibernate_keeps = read64(*adapter, SGPU_REG_HIBERNATE_KEEPS) & ~UINT64{PAGE_SIZE - 1};
  adapter->aperture_base = read64(*adapter, SGPU_REG_APERTURE_BASE);
  adapter->aperture_bytes = read64(*adapter, SGPU_REG_APERTURE_SIZE) & ~UINT64{PAGE_SIZE - 1};
  const bool usable = known && adapter->vram_bytes != 0 && adapter->aperture_bytes != 0;
  return usable ? STATUS_SUCCESS : STATUS_DEVICE_CONFIGURATION_ERROR;
}

/// Undoes whatever part of the start was done: also how a failed start cleans up, because the
/// kernel calls DxgkDdiRemoveDevice next and nothing else.
void stop(Adapter* adapter) {
  if (adapter->registers == nullptr) return;
  // An engine that does not stop must not be left with a ring to fetch from; but whom to tell?
  if (adapter->node[0].ring != nullptr) (void)halt(adapter);
  free_rings(adapter);
  (void)adapter->dxgk.DxgkCbUnmapMemory(adapter->dxgk.DeviceHandle,
                                        const_cast<UCHAR*>(adapter->registers));
  adapter->registers = nullptr;
}

NTSTATUS start(Adapter* adapter) {
  DXGK_DEVICE_INFO info = {};
  NTSTATUS status = adapter->dxgk.DxgkCbGetDeviceInformation(adapter->dxgk.DeviceHandle, &info);
  if (!NT_SUCCESS(status)) return status;
  status = find_resources(adapter, info.TranslatedResourceList);
  if (!NT_SUCCESS(status)) return status;

  PVOID registers = nullptr;
  status = adapter->dxgk.DxgkCbMapMemory(adapter->dxgk.DeviceHandle, adapter->registers_address,
                                         SGPU_BAR0_BYTES, FALSE, FALSE, MmNonCached, &registers);
  if (!NT_SUCCESS(status)) return status;
  adapter->registers = static_cast<UCHAR*>(registers);

  if (status = identify(adapter); !NT_SUCCESS(status)) return status;
  if (status = allocate_rings(adapter); !NT_SUCCESS(status)) return status;
  // Whoever had the hardware before may have left it running.
  if (status = halt(adapter); !NT_SUCCESS(status)) return status;
  for (Node& node : adapter->node) start_engine(&node, 0);
  enable_interrupts(adapter, true);
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiStartDevice(IN_CONST_PVOID context, IN_PDXGK_START_INFO,
                              IN_PDXGKRNL_INTERFACE dxgk, OUT_PULONG source_count,
                              OUT_PULONG child_count) {
  auto* adapter = static_cast<Adapter*>(context);
  // The table is the kernel's and may be gone after this call; what it points to stays until
  // DxgkDdiStopDevice returns.
  adapter->dxgk = *dxgk;
  adapter->aperture_high_water = 0;
  adapter->vsync_cause = 0;
  *source_count = *child_count = 0;  // render only: no display entry point will be called
  const NTSTATUS status = start(adapter);
  if (!NT_SUCCESS(status)) stop(adapter);
#if SOFTGPU_HAS_SCREEN
  if (NT_SUCCESS(status)) *source_count = *child_count = screen_count(*adapter);
#endif
  return status;
}

NTSTATUS NTAPI DdiStopDevice(IN_CONST_PVOID context) {
  stop(static_cast<Adapter*>(context));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiSetPowerState(IN_CONST_PVOID context, IN_ULONG device_uid,
                                IN_DEVICE_POWER_STATE state, IN_POWER_ACTION) {
  auto* adapter = static_cast<Adapter*>(context);
  if (device_uid != kAdapterUid) return STATUS_SUCCESS;  // a child we never had
  const bool on = state == PowerDeviceD0;
  if (on == adapter->interrupts_on) return STATUS_SUCCESS;
  // May not fail: an engine that does not come up shows as a timeout.
  (void)halt(adapter);
  if (on) {
    for (Node& node : adapter->node) start_engine(&node, node.state.completed_fence);
    clear_aperture(adapter);
    enable_interrupts(adapter, true);
  }
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiNotifySurpriseRemoval(PVOID context, DXGK_SURPRISE_REMOVAL_TYPE) {
  // Beside anything else that runs here: one flag, which every access looks at.
  static_cast<Adapter*>(context)->gone = true;
  return STATUS_SUCCESS;
}

void NTAPI DdiResetDevice(IN_CONST_PVOID context) {
  // The system is going down, at any IRQL and perhaps in the middle of anything: be quiet, touch no
  // memory of our own. The hardware has no characters, so its screen goes dark.
  auto* adapter = static_cast<Adapter*>(context);
  if (adapter->registers == nullptr) return;
  write32(*adapter, SGPU_REG_INT_ENABLE, 0);
#if SOFTGPU_HAS_SCREEN
  screen_off(*adapter);
#endif
}

NTSTATUS driver_caps(const Adapter& adapter, void* out, UINT bytes) {
  // The kernel sizes the buffer by the interface version we declared; a newer kernel may pass more.
  if (bytes < sizeof(DXGK_DRIVERCAPS)) return STATUS_BUFFER_TOO_SMALL;
  auto* caps = static_cast<DXGK_DRIVERCAPS*>(out);
  RtlZeroMemory(caps, sizeof(*caps));
  caps->HighestAcceptableAddress.QuadPart = static_cast<LONGLONG>(SGPU_SYSTEM_LIMIT - 1);
  caps->MaxAllocationListSlotId = kSlots;
  caps->ApertureSegmentCommitLimit = adapter.aperture_bytes;
  // Every driver from WDDM 1.2 on claims it, display or not: the scheduler preempts with flips
  // pending and wants flips off the ring.
  caps->FlipCaps.FlipOnVSyncMmIo = 1;
  caps->SchedulingCaps.MultiEngineAware = 1;  // contexts, nodes
  caps->SchedulingCaps.PreemptionAware = 1;
  caps->SchedulingCaps.CancelCommandAware = 1;
  caps->MemoryManagementCaps.PagingNode = SGPU_NODE_COPY;  // moves memory beside the 3D node's work
#if SOFTGPU_HAS_GPU_VA
  caps->MemoryManagementCaps.VirtualAddressingSupported = has_gpu_va() ? 1 : 0;
  caps->MemoryManagementCaps.GpuMmuSupported = has_gpu_va() ? 1 : 0;
#endif
  caps->GpuEngineTopology.NbAsymetricProcessingNodes = SGPU_NODE_COUNT;
  caps->WDDMVersion = kWddmVersion;
  // The engines stop between two commands.
  caps->PreemptionCaps.GraphicsPreemptionGranularity =
      D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY;
  caps->PreemptionCaps.ComputePreemptionGranularity = D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY;
  caps->SupportPerEngineTDR = g_engine_recovery != 0;
  caps->SupportSurpriseRemovalInHibernation = TRUE;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
  caps->SupportSurpriseRemoval = TRUE;
#endif
#if SOFTGPU_HAS_SCREEN
  screen_caps(caps);
#endif
  return STATUS_SUCCESS;
}

/// What all descriptors have in common; `at(id)` gives the one of a segment.
template <typename At>
void describe_segments(const Adapter& adapter, At at) {
  auto& vram = at(kSegmentVram);
  vram.Flags.CpuVisible = 1;
  vram.BaseAddress.QuadPart = static_cast<LONGLONG>(SGPU_VRAM_BASE);
  vram.CpuTranslatedAddress = adapter.vram_cpu_address;
  vram.Size = vram.CommitLimit = adapter.vram_bytes;
  // What the memory keeps by itself needs no eviction. The oldest descriptor cannot say where a
  // part of it ends.
  if (adapter.standby_keeps >= adapter.vram_bytes) {
    vram.Flags.PreservedDuringStandby = 1;
    if (adapter.hibernate_keeps >= adapter.vram_bytes) {
      vram.Flags.PreservedDuringHibernate = 1;
    } else if constexpr (requires { vram.SystemMemoryEndAddress; }) {
      if (adapter.hibernate_keeps != 0) {
        vram.Flags.PartiallyPreservedDuringHibernate = 1;
        vram.SystemMemoryEndAddress = adapter.hibernate_keeps - 1;
      }
    }
  }

  auto& aperture = at(kSegmentAperture);
  aperture.Flags.Aperture = 1;
  aperture.Flags.CacheCoherent = 1;  // the engines snoop: staging memory may be cached
  aperture.BaseAddress.QuadPart = static_cast<LONGLONG>(adapter.aperture_base);
  aperture.Size = aperture.CommitLimit = adapter.aperture_bytes;
}

/// Paging buffers in plain contiguous system memory, which the engines reach one to one: with the
/// aperture they would need a paging operation to become usable.
template <typename Query>
void describe_paging(Query* query) {
  query->NbSegment = kSegmentCount;
  query->PagingBufferSegmentId = 0;
  query->PagingBufferSize = kPagingBufferBytes;
  query->PagingBufferPrivateDataSize = kPagingPrivateBytes;
}

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
/// The array's element may be wider than ours.
NTSTATUS query_segments4(const Adapter& adapter, void* out, UINT bytes) {
  if (bytes < sizeof(DXGK_QUERYSEGMENTOUT4)) return STATUS_BUFFER_TOO_SMALL;
  auto* query = static_cast<DXGK_QUERYSEGMENTOUT4*>(out);
  if (query->NbSegment == 0) {  // first pass, as below
    query->NbSegment = kSegmentCount;
    return STATUS_SUCCESS;
  }
  const SIZE_T stride = query->SegmentDescriptorStride;
  if (query->NbSegment < kSegmentCount || stride < sizeof(DXGK_SEGMENTDESCRIPTOR4)) {
    return STATUS_BUFFER_TOO_SMALL;
  }
  RtlZeroMemory(query->pSegmentDescriptor, kSegmentCount * stride);
  const auto at = [&](UINT segment) -> DXGK_SEGMENTDESCRIPTOR4& {
    return *reinterpret_cast<DXGK_SEGMENTDESCRIPTOR4*>(query->pSegmentDescriptor +
                                                       (segment - 1) * stride);
  };
  describe_segments(adapter, at);
  at(kSegmentVram).Flags.Use64KBPages = has_large_pages() ? 1 : 0;
  at(kSegmentVram).Flags.ApplicationTarget = 1;  // budgets are shares of this
  at(kSegmentVram).Flags.LocalBudgetGroup = 1;
  at(kSegmentAperture).Flags.ApplicationTarget = 1;
  at(kSegmentAperture).Flags.NonLocalBudgetGroup = 1;
  describe_paging(query);
  return STATUS_SUCCESS;
}
#endif

/// The older kinds of segment query, which differ in the descriptor only.
template <typename Query>
NTSTATUS query_segments(const Adapter& adapter, void* out, UINT bytes) {
  if (bytes < sizeof(Query)) return STATUS_BUFFER_TOO_SMALL;
  auto* query = static_cast<Query*>(out);
  if (query->pSegmentDescriptor == nullptr) {  // first pass: how many? Nothing else may be written.
    query->NbSegment = kSegmentCount;
    return STATUS_SUCCESS;
  }
  if (query->NbSegment < kSegmentCount) return STATUS_BUFFER_TOO_SMALL;

  RtlZeroMemory(query->pSegmentDescriptor, kSegmentCount * sizeof(*query->pSegmentDescriptor));
  describe_segments(
      adapter, [&](UINT segment) -> auto& { return query->pSegmentDescriptor[segment - 1]; });
  describe_paging(query);
  return STATUS_SUCCESS;
}

NTSTATUS umd_info(const Adapter& adapter, void* out, UINT bytes) {
  if (bytes < sizeof(SgpuUmdAdapterInfo)) return STATUS_BUFFER_TOO_SMALL;
  constexpr UINT kMax = SGPU_UMD_ALLOCATION_BYTES_MAX;
  UINT flags = kExplicitResidency ? SGPU_UMD_ADAPTER_EXPLICIT_RESIDENCY : 0;
  UINT va_bits = 0;
#if SOFTGPU_HAS_GPU_VA
  if (has_gpu_va()) {
    flags |= SGPU_UMD_ADAPTER_GPU_VA;
    va_bits = virtual_address_bits();
  }
#endif
  *static_cast<SgpuUmdAdapterInfo*>(out) = {
      .magic = SGPU_UMD_ADAPTER_MAGIC,
      .version = SGPU_UMD_VERSION,
      .size_bytes = sizeof(SgpuUmdAdapterInfo),
      .node_count = SGPU_NODE_COUNT,
      .vram_bytes = adapter.vram_bytes,
      .aperture_bytes = adapter.aperture_bytes,
      .hardware_revision = SGPU_HW_REVISION,
      .allocation_bytes_max = adapter.vram_bytes < kMax ? UINT(adapter.vram_bytes) : kMax,
      .flags = flags,
      .va_bits = va_bits};
  return STATUS_SUCCESS;
}

/// Static data only, no register: it may be asked at any power state, any number of times.
NTSTATUS NTAPI DdiQueryAdapterInfo(IN_CONST_HANDLE context,
                                   IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const auto& adapter = *static_cast<const Adapter*>(context);
  void* out = args->pOutputData;
  const UINT bytes = args->OutputDataSize;
  if (out == nullptr) return STATUS_INVALID_PARAMETER;
  switch (args->Type) {
    case DXGKQAITYPE_UMDRIVERPRIVATE:
      return umd_info(adapter, out, bytes);
    case DXGKQAITYPE_DRIVERCAPS:
      return driver_caps(adapter, out, bytes);
    case DXGKQAITYPE_QUERYSEGMENT:
      return query_segments<DXGK_QUERYSEGMENTOUT>(adapter, out, bytes);
    case DXGKQAITYPE_QUERYSEGMENT3:
      return query_segments<DXGK_QUERYSEGMENTOUT3>(adapter, out, bytes);
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    case DXGKQAITYPE_QUERYSEGMENT4:
      return query_segments4(adapter, out, bytes);
    case DXGKQAITYPE_GPUMMUCAPS:
      return has_gpu_va() ? query_mmu_caps(out, bytes) : STATUS_NOT_SUPPORTED;
    case DXGKQAITYPE_PAGETABLELEVELDESC:
      return has_gpu_va() ? query_level(args->pInputData, args->InputDataSize, out, bytes)
                          : STATUS_NOT_SUPPORTED;
#endif
    default:
      return STATUS_NOT_SUPPORTED;
  }
}

NTSTATUS NTAPI DdiGetNodeMetadata(IN_CONST_HANDLE, UINT node,
                                  OUT_PDXGKARG_GETNODEMETADATA metadata) {
  if (node >= SGPU_NODE_COUNT) return STATUS_INVALID_PARAMETER;
  RtlZeroMemory(metadata, sizeof(*metadata));
  metadata->EngineType = node == SGPU_NODE_3D ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
  static const WCHAR kNames[SGPU_NODE_COUNT][5] = {{'3', 'D', 0}, {'C', 'o', 'p', 'y', 0}};
  RtlCopyMemory(metadata->FriendlyName, kNames[node], sizeof(kNames[node]));
#if SOFTGPU_HAS_GPU_VA
  metadata->GpuMmuSupported = has_gpu_va() ? TRUE : FALSE;
#endif
  return STATUS_SUCCESS;
}

}  // namespace

NTSTATUS read_setting(PUNICODE_STRING registry_path, const WCHAR* name, ULONG* number) {
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE, nullptr, nullptr);
  HANDLE key = nullptr;
  if (!NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes)))
    return STATUS_SUCCESS;  // no key, no wish
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

}  // namespace softgpu

extern "C" NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path) {
  using namespace softgpu;
  DRIVER_INITIALIZATION_DATA data;
  // What is not named below stays null: what only displays, their children and GDI surfaces need.
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
  data.DxgkDdiRender = DdiRender;
  data.DxgkDdiRenderKm = DdiRenderKm;
  data.DxgkDdiPatch = DdiPatch;
  data.DxgkDdiSubmitCommand = DdiSubmitCommand;
  data.DxgkDdiCancelCommand = DdiCancelCommand;
  data.DxgkDdiPreemptCommand = DdiPreemptCommand;
  data.DxgkDdiBuildPagingBuffer = DdiBuildPagingBuffer;
  data.DxgkDdiQueryCurrentFence = DdiQueryCurrentFence;
  data.DxgkDdiQueryDependentEngineGroup = DdiQueryDependentEngineGroup;
  data.DxgkDdiQueryEngineStatus = DdiQueryEngineStatus;
  data.DxgkDdiResetEngine = DdiResetEngine;
  data.DxgkDdiResetFromTimeout = DdiResetFromTimeout;
  data.DxgkDdiRestartFromTimeout = DdiRestartFromTimeout;
  data.DxgkDdiCollectDbgInfo = DdiCollectDbgInfo;
  data.DxgkDdiEscape = DdiEscape;
  static const WCHAR kEngineRecovery[] = {'P', 'e', 'r', 'E', 'n', 'g', 'i',
                                          'n', 'e', 'T', 'd', 'r', 0};
  g_engine_recovery = 1;
  if (const NTSTATUS status = read_setting(registry_path, kEngineRecovery, &g_engine_recovery);
      !NT_SUCCESS(status)) {
    return status;
  }
  if (g_engine_recovery == 0) {  // the kernel resets the adapter then
    data.DxgkDdiQueryDependentEngineGroup = nullptr;
    data.DxgkDdiQueryEngineStatus = nullptr;
    data.DxgkDdiResetEngine = nullptr;
  }
#if SOFTGPU_HAS_SCREEN
  if (const NTSTATUS status = read_screen_size(registry_path); !NT_SUCCESS(status)) return status;
  add_screen_entries(&data);
#endif
#if SOFTGPU_HAS_GPU_VA
  if (const NTSTATUS status = read_memory_model(registry_path, &g_memory_model);
      !NT_SUCCESS(status)) {
    return status;
  }
  data.DxgkDdiCreateProcess = DdiCreateProcess;
  data.DxgkDdiDestroyProcess = DdiDestroyProcess;
  if (has_gpu_va()) {
    // A context is one thing or the other, and here all are the other.
    data.DxgkDdiRender = data.DxgkDdiRenderKm = nullptr;
    data.DxgkDdiPatch = nullptr;
    data.DxgkDdiSubmitCommand = nullptr;
    data.DxgkDdiSubmitCommandVirtual = DdiSubmitCommandVirtual;
    data.DxgkDdiSetRootPageTable = DdiSetRootPageTable;
    if (has_two_levels()) {
      data.DxgkDdiGetRootPageTableSize = DdiGetRootPageTableSize;
    }
  }
#endif
  return DxgkInitialize(driver, registry_path, &data);
}
