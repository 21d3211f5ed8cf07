// The softgpu miniport with a fault, for tests of the tool's messages to a driver's author. The
// registry value "Mutant" of the driver's key chooses the fault; without it the driver has none.
// Where there is no registry, a test writes the fault's name behind the colon in `own_fault`, in a
// copy of the file.
// The rest of the driver is compiled with DxgkInitialize renamed to the function below.
#undef DxgkInitialize
#include <dispmprt.h>
#include <ntddk.h>

#include "miniports/softgpu/softgpu_umd.h"
#include "tools/dxgkit/mutants/endless_faults.h"
#include "tools/dxgkit/mutants/recovery_faults.h"
#include "tools/dxgkit/mutants/start_faults.h"

namespace softgpu {
NTSTATUS read_user(void* to, const void* from, SIZE_T bytes);
}

namespace {

// --- queries ---
LONG query_count;
NTSTATUS NTAPI change_caps(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && ++query_count > 1)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxOverlays += 1;
  return status;
}

/// Nothing compares the size of the buffer.
NTSTATUS NTAPI fill_any_size(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type != DXGKQAITYPE_DRIVERCAPS) return whole.DxgkDdiQueryAdapterInfo(adapter, args);
  DXGKARG_QUERYADAPTERINFO larger = *args;
  larger.OutputDataSize = sizeof(DXGK_DRIVERCAPS);
  return whole.DxgkDdiQueryAdapterInfo(adapter, &larger);
}
NTSTATUS NTAPI know_all_types(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  return status == STATUS_NOT_SUPPORTED ? STATUS_SUCCESS : status;
}
/// It answers what was in the buffer.
NTSTATUS NTAPI leave_overlays(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  auto* const caps = static_cast<DXGK_DRIVERCAPS*>(args->pOutputData);
  const bool has_overlays = args->Type == DXGKQAITYPE_DRIVERCAPS &&
                            args->OutputDataSize >= FIELD_OFFSET(DXGK_DRIVERCAPS, GammaRampCaps);
  const UINT overlays = has_overlays ? caps->MaxOverlays : 0;
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (has_overlays) caps->MaxOverlays = overlays;
  return status;
}
NTSTATUS NTAPI version_of_nobody(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS) {
    auto* const caps = static_cast<DXGK_DRIVERCAPS*>(args->pOutputData);
    caps->WDDMVersion = static_cast<DXGK_WDDMVERSION>(caps->WDDMVersion + 1);
  }
  return status;
}
/// As if the caps had nothing but zeros there.
NTSTATUS NTAPI caps_of_no_version(IN_CONST_HANDLE adapter,
                                  IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->WDDMVersion =
        static_cast<DXGK_WDDMVERSION>(0);
  return status;
}
NTSTATUS NTAPI caps_without_preemption(IN_CONST_HANDLE adapter,
                                       IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->SchedulingCaps.PreemptionAware = 0;
  return status;
}
NTSTATUS NTAPI caps_without_slots(IN_CONST_HANDLE adapter,
                                  IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (NT_SUCCESS(status) && args->Type == DXGKQAITYPE_DRIVERCAPS)
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxAllocationListSlotId = 0;
  return status;
}
NTSTATUS NTAPI copy_engines_only(IN_CONST_HANDLE adapter, UINT node,
                                 OUT_PDXGKARG_GETNODEMETADATA metadata) {
  const NTSTATUS status = whole.DxgkDdiGetNodeMetadata(adapter, node, metadata);
  if (NT_SUCCESS(status)) metadata->EngineType = DXGK_ENGINE_TYPE_COPY;
  return status;
}
NTSTATUS NTAPI refuse_private(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type == DXGKQAITYPE_UMDRIVERPRIVATE) return STATUS_INVALID_PARAMETER;
  return whole.DxgkDdiQueryAdapterInfo(adapter, args);
}
/// Changes the first segment's description.
template <typename Change>
NTSTATUS query_first_segment(HANDLE adapter, const DXGKARG_QUERYADAPTERINFO* args, Change change) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (!NT_SUCCESS(status) || args->Type != DXGKQAITYPE_QUERYSEGMENT3) return status;
  auto* const query = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
  if (query->pSegmentDescriptor != nullptr) change(query->pSegmentDescriptor);
  return status;
}
NTSTATUS NTAPI keep_in_standby(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  return query_first_segment(adapter, args, [](DXGK_SEGMENTDESCRIPTOR3* segment) {
    segment->Flags.PreservedDuringStandby = 1;
  });
}
NTSTATUS NTAPI forget_cpu_visible(IN_CONST_HANDLE adapter,
                                  IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  return query_first_segment(
      adapter, args, [](DXGK_SEGMENTDESCRIPTOR3* segment) { segment->Flags.CpuVisible = 0; });
}
/// It knows no device but the author's own.
NTSTATUS NTAPI want_memory(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  bool known = true;
  const NTSTATUS status = query_first_segment(
      adapter, args,
      [&](const DXGK_SEGMENTDESCRIPTOR3* segment) { known = segment->Size == 64 << 20; });
  return known ? status : STATUS_DEVICE_CONFIGURATION_ERROR;
}
/// The caps promise engines that are reset, and the setting takes the entries away.
NTSTATUS NTAPI promise_engine_resets(IN_CONST_HANDLE adapter,
                                     IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && NT_SUCCESS(status))
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->SupportPerEngineTDR = TRUE;
  return status;
}
NTSTATUS NTAPI another_maximum(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (args->Type == DXGKQAITYPE_UMDRIVERPRIVATE && NT_SUCCESS(status))
    static_cast<SgpuUmdAdapterInfo*>(args->pOutputData)->allocation_bytes_max = PAGE_SIZE;
  return status;
}
NTSTATUS NTAPI base_inside_page(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  return query_first_segment(
      adapter, args, [](DXGK_SEGMENTDESCRIPTOR3* segment) { segment->BaseAddress.QuadPart += 16; });
}
NTSTATUS NTAPI forget_cpu_address(IN_CONST_HANDLE adapter,
                                  IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  return query_first_segment(adapter, args, [](DXGK_SEGMENTDESCRIPTOR3* segment) {
    segment->CpuTranslatedAddress.QuadPart = 0;
  });
}

// --- objects ---
DXGKCB_GETHANDLEDATA get_handle_data;
PVOID NTAPI get_data_of_no_type(IN_CONST_PDXGKARGCB_GETHANDLEDATA args) {
  DXGKARGCB_GETHANDLEDATA changed = *args;
  changed.Type = static_cast<DXGK_HANDLE_TYPE>(0);
  return get_handle_data(&changed);
}
/// What nobody knows is what was asked for last.
PVOID last_data;
PVOID NTAPI get_last_data(IN_CONST_PDXGKARGCB_GETHANDLEDATA args) {
  PVOID const data = get_handle_data(args);
  if (data != nullptr) last_data = data;
  return last_data;
}
template <DXGKCB_GETHANDLEDATA kWrong>
NTSTATUS NTAPI start_with_handles(const PVOID adapter, PDXGK_START_INFO start,
                                  PDXGKRNL_INTERFACE interface, PULONG sources, PULONG children) {
  DXGKRNL_INTERFACE changed = *interface;
  get_handle_data = changed.DxgkCbGetHandleData;
  changed.DxgkCbGetHandleData = kWrong;
  return whole.DxgkDdiStartDevice(adapter, start, &changed, sources, children);
}
LONG live_contexts;
NTSTATUS NTAPI create_few_contexts(IN_CONST_HANDLE device, INOUT_PDXGKARG_CREATECONTEXT args) {
  // The driver has room for so many.
  if (InterlockedIncrement(&live_contexts) > 40) {
    InterlockedDecrement(&live_contexts);
    return STATUS_UNSUCCESSFUL;
  }
  return whole.DxgkDdiCreateContext(device, args);
}
NTSTATUS NTAPI destroy_counted_context(IN_CONST_HANDLE context) {
  InterlockedDecrement(&live_contexts);
  return whole.DxgkDdiDestroyContext(context);
}
NTSTATUS NTAPI keep_device(IN_CONST_HANDLE) { return STATUS_SUCCESS; }
KSPIN_LOCK kept_lock;
NTSTATUS NTAPI keep_lock(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEDEVICE args) {
  KeInitializeSpinLock(&kept_lock);
  KIRQL old;
  KeRaiseIrql(DISPATCH_LEVEL, &old);
  KeAcquireSpinLockAtDpcLevel(&kept_lock);
  KeLowerIrql(old);
  return whole.DxgkDdiCreateDevice(adapter, args);
}

NTSTATUS NTAPI rename_more(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const NTSTATUS status = whole.DxgkDdiCreateAllocation(adapter, args);
  if (NT_SUCCESS(status) && args->NumAllocations != 0)
    args->pAllocationInfo[0].MaximumRenamingListLength += 1;
  return status;
}
NTSTATUS NTAPI leave_eviction(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const UINT set = args->NumAllocations == 0 ? 0 : args->pAllocationInfo[0].EvictionSegmentSet;
  const NTSTATUS status = whole.DxgkDdiCreateAllocation(adapter, args);
  if (NT_SUCCESS(status) && args->NumAllocations != 0)
    args->pAllocationInfo[0].EvictionSegmentSet = set;
  return status;
}
NTSTATUS NTAPI fail_close(IN_CONST_HANDLE device, IN_CONST_PDXGKARG_CLOSEALLOCATION args) {
  static_cast<void>(whole.DxgkDdiCloseAllocation(device, args));
  return STATUS_UNSUCCESSFUL;
}

// Wrong error paths, which have no effect while there is memory.
NTSTATUS NTAPI leak_when_open_fails(IN_CONST_HANDLE device, IN_CONST_PDXGKARG_OPENALLOCATION args) {
  PVOID const scratch = ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'nepO');
  if (scratch == nullptr) return STATUS_NO_MEMORY;
  const NTSTATUS status = whole.DxgkDdiOpenAllocation(device, args);
  if (NT_SUCCESS(status)) ExFreePoolWithTag(scratch, 'nepO');
  return status;
}
NTSTATUS NTAPI blame_user_mode(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  const NTSTATUS status = whole.DxgkDdiCreateAllocation(adapter, args);
  return status == STATUS_NO_MEMORY ? STATUS_INVALID_PARAMETER : status;
}

// --- private data ---
NTSTATUS NTAPI overrun_private_data(IN_CONST_HANDLE adapter,
                                    IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  if (args->Type == DXGKQAITYPE_UMDRIVERPRIVATE)
    RtlZeroMemory(args->pOutputData, sizeof(SgpuUmdAdapterInfo));
  return whole.DxgkDdiQueryAdapterInfo(adapter, args);
}
NTSTATUS NTAPI take_reserved(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) {
    DXGK_ALLOCATIONINFO& info = args->pAllocationInfo[i];
    if (info.PrivateDriverDataSize >= sizeof(SgpuUmdAllocation))
      static_cast<SgpuUmdAllocation*>(info.pPrivateDriverData)->reserved = 0;
  }
  return whole.DxgkDdiCreateAllocation(adapter, args);
}
NTSTATUS NTAPI leak_when_escape_fails(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_ESCAPE args) {
  PVOID const scratch = ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'csEs');
  const NTSTATUS status = whole.DxgkDdiEscape(adapter, args);
  if (NT_SUCCESS(status) && scratch != nullptr) ExFreePoolWithTag(scratch, 'csEs');
  return status;
}
/// The reason of a fault is a number that the hardware does not have.
NTSTATUS NTAPI invent_reasons(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_ESCAPE args) {
  const NTSTATUS status = whole.DxgkDdiEscape(adapter, args);
  if (!NT_SUCCESS(status)) return status;
  for (auto& node : static_cast<SgpuUmdEscape*>(args->pPrivateDriverData)->node) {
    if (node.faults != 0) node.last_fault_reason = 1000;
  }
  return status;
}
/// What the engines have done is not copied.
NTSTATUS NTAPI leave_states(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_ESCAPE args) {
  const NTSTATUS status = whole.DxgkDdiEscape(adapter, args);
  if (!NT_SUCCESS(status)) return status;
  auto* const escape = static_cast<SgpuUmdEscape*>(args->pPrivateDriverData);
  RtlZeroMemory(escape->node, sizeof(escape->node));
  return status;
}

// --- memory ---
NTSTATUS NTAPI transfer_nothing(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_TRANSFER) return STATUS_SUCCESS;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}
NTSTATUS NTAPI fill_half(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_FILL && args->Fill.FillSize > 2 * PAGE_SIZE)
    args->Fill.FillSize -= PAGE_SIZE;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

/// Fills are with zeros, whatever the pattern is.
NTSTATUS NTAPI fill_with_zeros(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_FILL) args->Fill.FillPattern = 0;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}
/// What stays in its segment is believed to be there already.
NTSTATUS NTAPI move_nothing(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_TRANSFER && args->Transfer.Source.SegmentId != 0 &&
      args->Transfer.Source.SegmentId == args->Transfer.Destination.SegmentId) {
    return STATUS_SUCCESS;
  }
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

/// Registers are not mapped before the start, and the line is another device's, too.
volatile ULONG* early_registers;
NTSTATUS NTAPI start_late(const PVOID adapter, PDXGK_START_INFO start, PDXGKRNL_INTERFACE interface,
                          PULONG sources, PULONG children) {
  static ULONG nothing;
  early_registers = nullptr;
  const NTSTATUS status = whole.DxgkDdiStartDevice(adapter, start, interface, sources, children);
  if (NT_SUCCESS(status)) early_registers = &nothing;
  return status;
}
BOOLEAN NTAPI interrupt_unready(IN_CONST_PVOID adapter, IN_ULONG message) {
  if (READ_REGISTER_ULONG(early_registers) != 0) return FALSE;
  return whole.DxgkDdiInterruptRoutine(adapter, message);
}

/// What is to be written is before the place.
NTSTATUS NTAPI touch_before(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_WRITE_PHYSICAL)
    args->WritePhysical.PhysicalAddress.QuadPart -= 4;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

/// Every part of a transfer begins where the first one does.
NTSTATUS NTAPI transfer_from_start(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_TRANSFER) args->Transfer.TransferOffset = 0;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

/// Every part of an aperture shows the first pages of the allocation.
NTSTATUS NTAPI map_from_start(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_MAP_APERTURE_SEGMENT)
    args->MapApertureSegment.MdlOffset = 0;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}
/// The last page of what leaves the aperture stays.
NTSTATUS NTAPI unmap_too_little(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT &&
      args->UnmapApertureSegment.NumberOfPages > 1)
    args->UnmapApertureSegment.NumberOfPages -= 1;
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}
/// Pages in a row are one command, of the size of a page.
NTSTATUS NTAPI merge_pages(IN_CONST_HANDLE adapter, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  if (args->Operation == DXGK_OPERATION_TRANSFER && args->Transfer.Source.SegmentId == 0) {
    const PFN_NUMBER* const pages = MmGetMdlPfnArray(args->Transfer.Source.pMdl);
    if (args->Transfer.TransferSize > PAGE_SIZE && pages[1] == pages[0] + 1)
      args->Transfer.TransferSize = PAGE_SIZE;
  }
  return whole.DxgkDdiBuildPagingBuffer(adapter, args);
}

// --- work ---
/// Of a DMA buffer that was cut at a split point only the first part is patched.
NTSTATUS NTAPI patch_first_part(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_PATCH args) {
  if (args->DmaBufferSubmissionStartOffset != 0) return STATUS_SUCCESS;
  return whole.DxgkDdiPatch(adapter, args);
}
NTSTATUS NTAPI fail_patch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH) { return STATUS_UNSUCCESSFUL; }
NTSTATUS NTAPI trust_user_mode(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // The first four bytes of the command as an offset, unchecked.
  ULONG offset = 0;
  RtlCopyMemory(&offset, args->pCommand, args->CommandLength < 4 ? args->CommandLength : 4);
  static_cast<volatile UCHAR*>(args->pDmaBuffer)[offset] = 0;
  return whole.DxgkDdiRender(context, args);
}
/// What the client has unmapped is the whole driver's to find out.
bool is_readable(const DXGKARG_RENDER* args) {
  for (ULONG at = 0; at < args->CommandLength; at += sizeof(ULONG64)) {
    UCHAR byte;
    if (!NT_SUCCESS(softgpu::read_user(&byte, static_cast<const UCHAR*>(args->pCommand) + at, 1)))
      return false;
  }
  return true;
}
/// Changes each FILL of a user's buffer before its first pass. The last of them and where its
/// command is in the DMA buffer; null without one.
template <typename Change>
SgpuUmdFill* each_fill(const DXGKARG_RENDER* args, ULONG* offset, Change change) {
  auto* const bytes = static_cast<UCHAR*>(const_cast<PVOID>(args->pCommand));
  SgpuUmdFill* last = nullptr;
  if (!is_readable(args)) return nullptr;
  for (ULONG at = sizeof(SgpuUmdBufferHeader);
       args->MultipassOffset == 0 && at + sizeof(SgpuUmdFill) <= args->CommandLength;) {
    auto* const fill = reinterpret_cast<SgpuUmdFill*>(bytes + at);
    if (fill->header.opcode == SGPU_UMD_OP_FILL) {
      change(fill);
      last = fill;
      *offset = at - sizeof(SgpuUmdBufferHeader);
    }
    if (fill->header.size_bytes < sizeof(SgpuUmdCommand)) break;
    at += fill->header.size_bytes;
  }
  return last;
}
NTSTATUS NTAPI fill_otherwise(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // Another pattern than the client's: the commands run to completion and have another effect.
  ULONG offset = 0;
  each_fill(args, &offset, [](SgpuUmdFill* fill) { fill->pattern ^= 1; });
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI fill_unreserved(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // What must be 0 is not looked at.
  ULONG offset = 0;
  each_fill(args, &offset, [](SgpuUmdFill* fill) { fill->reserved = 0; });
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI fill_nothing(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // A FILL of no bytes is as good as one of a word.
  ULONG offset = 0;
  each_fill(args, &offset, [](SgpuUmdFill* fill) {
    if (fill->size_bytes == 0) fill->size_bytes = 4;
  });
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI fill_unchecked(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // The size of the last FILL is never compared with its allocation, as it is put in afterwards.
  ULONG offset = 0;
  SgpuUmdFill* const fill = each_fill(args, &offset, [](SgpuUmdFill*) {});
  if (fill == nullptr) return whole.DxgkDdiRender(context, args);
  const UINT64 size_bytes = fill->size_bytes;
  auto* const dma = static_cast<UCHAR*>(args->pDmaBuffer) + offset;
  fill->size_bytes = 4;
  const NTSTATUS status = whole.DxgkDdiRender(context, args);
  fill->size_bytes = size_bytes;
  // A user's command is as long as the hardware's.
  if (static_cast<UCHAR*>(args->pDmaBuffer) >= dma + sizeof(*fill))
    reinterpret_cast<SgpuUmdFill*>(dma)->size_bytes = size_bytes;
  return status;
}
NTSTATUS NTAPI fill_little(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // A size that is allowed is refused.
  ULONG offset = 0;
  bool refused = false;
  each_fill(args, &offset,
            [&](const SgpuUmdFill* fill) { refused = refused || fill->size_bytes == 100; });
  return refused ? STATUS_INVALID_USER_BUFFER : whole.DxgkDdiRender(context, args);
}
/// Its author never saw a client unmap its commands.
NTSTATUS NTAPI read_unguarded(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  const auto* const bytes = static_cast<const volatile UCHAR*>(args->pCommand);
  for (ULONG at = 0; at < args->CommandLength; ++at) (void)bytes[at];
  return whole.DxgkDdiRender(context, args);
}
/// There is a handler, and behind it the call goes on as if nothing had happened.
NTSTATUS NTAPI forget_handler(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  return is_readable(args) ? whole.DxgkDdiRender(context, args) : STATUS_SUCCESS;
}
/// It leaves all addresses to DxgkDdiPatch.
NTSTATUS NTAPI write_no_address(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  UCHAR segments[256];
  const UINT count = args->AllocationListSize;
  if (count > sizeof(segments)) return whole.DxgkDdiRender(context, args);
  for (UINT i = 0; i < count; ++i) {
    segments[i] = static_cast<UCHAR>(args->pAllocationList[i].SegmentId);
    args->pAllocationList[i].SegmentId = 0;
  }
  const NTSTATUS status = whole.DxgkDdiRender(context, args);
  for (UINT i = 0; i < count; ++i) args->pAllocationList[i].SegmentId = segments[i];
  return status;
}
NTSTATUS NTAPI ignore_room(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  // As large as DxgkDdiCreateContext asked for, whatever DmaSize says.
  args->DmaSize = 64 * 1024;
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI ignore_patch_room(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  args->PatchLocationListOutSize *= 2;
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI list_first_pass_only(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  D3DDDI_PATCHLOCATIONLIST* const list = args->pPatchLocationListOut;
  const bool later = args->MultipassOffset != 0;
  const NTSTATUS status = whole.DxgkDdiRender(context, args);
  if (later) args->pPatchLocationListOut = list;
  return status;
}
NTSTATUS NTAPI begin_each_pass_anew(IN_CONST_HANDLE context, INOUT_PDXGKARG_RENDER args) {
  args->MultipassOffset = 0;
  return whole.DxgkDdiRender(context, args);
}
NTSTATUS NTAPI ignore_preemption(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PREEMPTCOMMAND) {
  return STATUS_SUCCESS;
}
NTSTATUS NTAPI spin_in_render(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) {
  for (volatile ULONG rounds = 0;; rounds = rounds + 1) {
  }
}

// --- the end of the process, as wild code may cause it ---
/// A call of the host's kernel, which no exception tells of.
ULONG64 system_call(ULONG64 number, ULONG64 first, ULONG64 second) {
  asm volatile("syscall" : "+a"(number) : "D"(first), "S"(second) : "rcx", "r11", "memory");
  return number;
}
NTSTATUS NTAPI leave_process(IN_CONST_HANDLE, INOUT_PDXGKARG_CREATEALLOCATION) {
  system_call(231, 0, 0);  // exit_group
  return STATUS_SUCCESS;
}
/// A signal that is no exception of the processor, after another mistake.
NTSTATUS NTAPI abort_process(IN_CONST_HANDLE adapter, INOUT_PDXGKARG_CREATEALLOCATION args) {
  free_otherwise();
  system_call(200, system_call(186, 0, 0), 6);  // tkill, gettid, SIGABRT
  return whole.DxgkDdiCreateAllocation(adapter, args);
}

// --- reset, power, end ---
NTSTATUS NTAPI fail_reset(IN_CONST_HANDLE) { return STATUS_UNSUCCESSFUL; }
NTSTATUS NTAPI fail_power(const PVOID, ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
  return STATUS_DEVICE_BUSY;
}
KEVENT never_set;
NTSTATUS NTAPI wait_in_stop(const PVOID adapter) {
  const NTSTATUS status = whole.DxgkDdiStopDevice(adapter);
  KeInitializeEvent(&never_set, NotificationEvent, FALSE);
  KeWaitForSingleObject(&never_set, Executive, KernelMode, FALSE, nullptr);
  return status;
}
NTSTATUS NTAPI leak_at_remove(const PVOID adapter) {
  static_cast<void>(ExAllocatePoolWithTag(NonPagedPoolNx, 100, 'kaeL'));
  return whole.DxgkDdiRemoveDevice(adapter);
}

/// What is under that name in the driver's key, whatever its type and size; `longer`: if it is a
/// number, whatever follows that.
ULONG read_unchecked(PUNICODE_STRING registry_path, bool longer) {
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                             nullptr, nullptr);
  HANDLE key = nullptr;
  if (!NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) return 0;
  WCHAR value_name[] = {'P', 'o', 'i', 'n', 't', 'e', 'r', 's', 0};
  UNICODE_STRING name;
  RtlInitUnicodeString(&name, value_name);
  struct {
    KEY_VALUE_PARTIAL_INFORMATION information;
    UCHAR more[16];
  } value = {};
  ULONG size = 0;
  const NTSTATUS status =
      ZwQueryValueKey(key, &name, KeyValuePartialInformation, &value, sizeof(value), &size);
  ZwClose(key);
  const KEY_VALUE_PARTIAL_INFORMATION& found = value.information;
  if (longer && (found.Type != REG_DWORD || found.DataLength < sizeof(ULONG))) return 0;
  return NT_SUCCESS(status) || longer ? found.Data[0] : 0;
}
ULONG pointers;
NTSTATUS NTAPI take_pointers(IN_CONST_HANDLE adapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO args) {
  const NTSTATUS status = whole.DxgkDdiQueryAdapterInfo(adapter, args);
  if (args->Type == DXGKQAITYPE_DRIVERCAPS && NT_SUCCESS(status))
    static_cast<DXGK_DRIVERCAPS*>(args->pOutputData)->MaxOverlays = pointers;
  return status;
}

/// The mutant's name is `text`, `characters` long.
bool is(const WCHAR* name, ULONG characters, const char* text) {
  for (ULONG i = 0; i < characters; ++i) {
    if (text[i] == 0 || name[i] != static_cast<WCHAR>(text[i])) return false;
  }
  return text[characters] == 0;
}

void break_one(const WCHAR* name, ULONG characters, PDRIVER_INITIALIZATION_DATA data) {
  const auto chosen = [&](const char* text) { return is(name, characters, text); };
  if (chosen("start_fails")) data->DxgkDdiStartDevice = fail_start;
  if (chosen("start_error_leaks")) data->DxgkDdiStartDevice = leak_when_start_fails;
  if (chosen("start_crippled")) {
    data->DxgkDdiStartDevice = start_crippled;
    data->DxgkDdiCreateAllocation = create_if_whole;
  }
  if (chosen("start_fails_again")) data->DxgkDdiStartDevice = fail_again;
  if (chosen("first_is_memory")) data->DxgkDdiStartDevice = believe_first_resource;
  if (chosen("no_device_needed")) data->DxgkDdiStartDevice = start_without_device;
  if (chosen("no_registers_needed")) data->DxgkDdiStartDevice = start_without_registers;
  if (chosen("unmaps_nothing")) data->DxgkDdiStartDevice = unmap_nothing;
  if (chosen("frees_otherwise")) data->DxgkDdiStopDevice = free_more;
  if (chosen("keeps_nothing")) data->DxgkDdiQueryAdapterInfo = keep_in_standby;
  if (chosen("one_device")) data->DxgkDdiQueryAdapterInfo = want_memory;
  if (chosen("setting_forgotten")) data->DxgkDdiQueryAdapterInfo = promise_engine_resets;
  if (chosen("memory_hidden")) data->DxgkDdiQueryAdapterInfo = forget_cpu_visible;
  if (chosen("maximum_odd")) data->DxgkDdiQueryAdapterInfo = another_maximum;
  if (chosen("private_refused")) data->DxgkDdiQueryAdapterInfo = refuse_private;
  if (chosen("any_size")) data->DxgkDdiQueryAdapterInfo = fill_any_size;
  if (chosen("all_types")) data->DxgkDdiQueryAdapterInfo = know_all_types;
  if (chosen("overlays_left_out")) data->DxgkDdiQueryAdapterInfo = leave_overlays;
  if (chosen("eviction_left_out")) data->DxgkDdiCreateAllocation = leave_eviction;
  if (chosen("instances_odd")) data->DxgkDdiCreateAllocation = rename_more;
  if (chosen("close_fails")) data->DxgkDdiCloseAllocation = fail_close;
  if (chosen("cancel_missing")) data->DxgkDdiCancelCommand = nullptr;
  if (chosen("start_error_ignored")) data->DxgkDdiStartDevice = believe_device_information;
  if (chosen("watches_with_nothing")) data->DxgkDdiStartDevice = watch_with_nothing;
  if (chosen("registers_lost")) data->DxgkDdiStartDevice = read_no_registers;
  if (chosen("lock_kept")) data->DxgkDdiCreateDevice = keep_lock;
  if (chosen("leaves_process")) data->DxgkDdiCreateAllocation = leave_process;
  if (chosen("aborts_process")) data->DxgkDdiCreateAllocation = abort_process;
  if (chosen("waits_for_nobody")) data->DxgkDdiCreateDevice = wait_for_nobody;
  if (chosen("lock_twice")) data->DxgkDdiCreateDevice = lock_twice;
  if (chosen("locks_crossed")) data->DxgkDdiCreateDevice = cross_locks;
  if (chosen("thread_wild")) data->DxgkDdiCreateAllocation = start_wild_thread;
  if (chosen("thread_endless")) data->DxgkDdiCreateAllocation = start_endless_thread;
  if (chosen("stop_waits")) data->DxgkDdiStopDevice = wait_in_stop;
  if (chosen("version_odd")) data->DxgkDdiQueryAdapterInfo = version_of_nobody;
  if (chosen("slots_none")) data->DxgkDdiQueryAdapterInfo = caps_without_slots;
  if (chosen("engines_copy")) data->DxgkDdiGetNodeMetadata = copy_engines_only;
  if (chosen("base_odd")) data->DxgkDdiQueryAdapterInfo = base_inside_page;
  if (chosen("cpu_address_nowhere")) data->DxgkDdiQueryAdapterInfo = forget_cpu_address;
  if (chosen("handle_of_no_type"))
    data->DxgkDdiStartDevice = start_with_handles<get_data_of_no_type>;
  if (chosen("handle_unknown")) data->DxgkDdiStartDevice = start_with_handles<get_last_data>;
  if (chosen("version_left_out")) data->DxgkDdiQueryAdapterInfo = caps_of_no_version;
  if (chosen("preemption_unsaid")) data->DxgkDdiQueryAdapterInfo = caps_without_preemption;
  if (chosen("context_too_many")) {
    data->DxgkDdiCreateContext = create_few_contexts;
    data->DxgkDdiDestroyContext = destroy_counted_context;
  }
  if (chosen("caps_change")) data->DxgkDdiQueryAdapterInfo = change_caps;
  if (chosen("devices_leak")) data->DxgkDdiDestroyDevice = keep_device;
  if (chosen("open_error_leaks")) data->DxgkDdiOpenAllocation = leak_when_open_fails;
  if (chosen("no_memory_renamed")) data->DxgkDdiCreateAllocation = blame_user_mode;
  if (chosen("data_overrun")) data->DxgkDdiQueryAdapterInfo = overrun_private_data;
  if (chosen("reserved_taken")) data->DxgkDdiCreateAllocation = take_reserved;
  if (chosen("escape_error_leaks")) data->DxgkDdiEscape = leak_when_escape_fails;
  if (chosen("reasons_invented")) data->DxgkDdiEscape = invent_reasons;
  if (chosen("states_left_out")) data->DxgkDdiEscape = leave_states;
  if (chosen("transfers_nothing")) data->DxgkDdiBuildPagingBuffer = transfer_nothing;
  if (chosen("fills_zeros")) data->DxgkDdiBuildPagingBuffer = fill_with_zeros;
  if (chosen("moves_nothing")) data->DxgkDdiBuildPagingBuffer = move_nothing;
  if (chosen("device_disowned")) data->DxgkDdiAddDevice = disown_device;
  if (chosen("unready_at_interrupt")) {
    data->DxgkDdiStartDevice = start_late;
    data->DxgkDdiInterruptRoutine = interrupt_unready;
  }
  if (chosen("touches_astray")) data->DxgkDdiBuildPagingBuffer = touch_before;
  if (chosen("event_not_made")) data->DxgkDdiStartDevice = set_what_is_no_event;
  if (chosen("resource_unasked")) data->DxgkDdiCreateAllocation = make_resources;
  if (chosen("first_row_only")) data->DxgkDdiCreateAllocation = make_first_rows;
  if (chosen("allocations_refused")) data->DxgkDdiCreateAllocation = make_no_allocations;
  if (chosen("fence_unknown")) data->DxgkDdiQueryCurrentFence = know_no_fence;
  if (chosen("entry_astray")) {
    data->DxgkDdiEscape = reinterpret_cast<PDXGKDDI_ESCAPE>(0xA5A5A5A5A5A5A5A5);
  }
  if (chosen("fills_half")) data->DxgkDdiBuildPagingBuffer = fill_half;
  if (chosen("parts_overlap")) data->DxgkDdiBuildPagingBuffer = transfer_from_start;
  if (chosen("maps_from_start")) data->DxgkDdiBuildPagingBuffer = map_from_start;
  if (chosen("last_page_stays")) data->DxgkDdiBuildPagingBuffer = unmap_too_little;
  if (chosen("pages_merged")) data->DxgkDdiBuildPagingBuffer = merge_pages;
  if (chosen("first_part_only")) data->DxgkDdiPatch = patch_first_part;
  if (chosen("patch_fails")) data->DxgkDdiPatch = fail_patch;
  if (chosen("render_trusts")) data->DxgkDdiRender = trust_user_mode;
  if (chosen("render_spins")) data->DxgkDdiRender = spin_in_render;
  if (chosen("fills_otherwise")) data->DxgkDdiRender = fill_otherwise;
  if (chosen("fill_unreserved")) data->DxgkDdiRender = fill_unreserved;
  if (chosen("fill_nothing")) data->DxgkDdiRender = fill_nothing;
  if (chosen("part_begins_anew")) data->DxgkDdiSubmitCommand = begin_part_anew;
  if (chosen("last_behind_fault")) {
    notify_instead = lose_last;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiSubmitCommand = submit_behind_fault;
  }
  if (chosen("fill_unchecked")) data->DxgkDdiRender = fill_unchecked;
  if (chosen("fill_little")) data->DxgkDdiRender = fill_little;
  if (chosen("commands_unguarded")) data->DxgkDdiRender = read_unguarded;
  if (chosen("handler_forgotten")) data->DxgkDdiRender = forget_handler;
  if (chosen("prepatch_left_out")) data->DxgkDdiRender = write_no_address;
  if (chosen("room_ignored")) data->DxgkDdiRender = ignore_room;
  if (chosen("patch_room_ignored")) data->DxgkDdiRender = ignore_patch_room;
  if (chosen("later_pass_unlisted")) data->DxgkDdiRender = list_first_pass_only;
  if (chosen("passes_stand_still")) data->DxgkDdiRender = begin_each_pass_anew;
  if (chosen("preempt_silent")) data->DxgkDdiPreemptCommand = ignore_preemption;
  if (chosen("reset_blames_newest")) {
    data->DxgkDdiSubmitCommand = remember_submission;
    data->DxgkDdiResetEngine = blame_newest;
  }
  if (chosen("responsive_for_ever")) data->DxgkDdiQueryEngineStatus = always_responsive;
  if (chosen("never_responsive")) data->DxgkDdiQueryEngineStatus = never_responsive;
  if (chosen("restart_deaf")) {
    data->DxgkDdiRestartFromTimeout = restart_deaf;
    data->DxgkDdiSubmitCommand = drop_submission;
  }
  if (chosen("fence_from_memory")) {
    notify_instead = note_report;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiQueryCurrentFence = answer_from_memory;
  }
  if (chosen("fault_hushed")) {
    notify_instead = hush_fault;
    data->DxgkDdiStartDevice = start_between;
  }
  if (chosen("query_wakes_nobody")) {
    data->DxgkDdiSetPowerState = note_sleep;
    data->DxgkDdiQueryAdapterInfo = query_registers;
  }
  if (chosen("fault_of_next")) {
    notify_instead = blame_the_next;
    data->DxgkDdiStartDevice = start_between;
  }
  if (chosen("reset_deafens")) {
    notify_instead = miss_one;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiSubmitCommand = remember_submission;
    data->DxgkDdiResetEngine = reset_deafens;
  }
  if (chosen("told_when_asked")) {
    notify_instead = hold_some;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiQueryCurrentFence = answer_with_held;
  }
  if (chosen("fences_rise")) {
    notify_instead = report_higher;
    data->DxgkDdiStartDevice = start_between;
  }
  if (chosen("fault_ends_preemption")) {
    notify_instead = forget_preemption;
    data->DxgkDdiStartDevice = start_between;
  }
  if (chosen("resumes_at_start")) data->DxgkDdiSubmitCommand = begin_anew;
  if (chosen("status_left_out")) data->DxgkDdiQueryEngineStatus = leave_status;
  if (chosen("reset_blames_unbegun")) {
    notify_instead = note_report;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiResetEngine = blame_another_than_reported;
  }
  if (chosen("sleeper_claims")) {
    data->DxgkDdiSetPowerState = note_sleep;
    data->DxgkDdiInterruptRoutine = claim_asleep;
  }
  if (chosen("interrupt_stays")) {
    data->DxgkDdiStartDevice = start_undisturbed;
    data->DxgkDdiInterruptRoutine = dismiss_nothing;
  }
  if (chosen("contexts_lost_asleep")) {
    data->DxgkDdiCreateContext = keep_context;
    data->DxgkDdiSetPowerState = lose_contexts;
    data->DxgkDdiRender = render_in_lost_context;
  }
  if (chosen("sleep_forgets") || chosen("reset_forgets")) {
    if (chosen("sleep_forgets")) data->DxgkDdiSetPowerState = forget_asleep;
    if (chosen("reset_forgets")) data->DxgkDdiResetFromTimeout = forget_in_reset;
    data->DxgkDdiSubmitCommand = remember_again;
    data->DxgkDdiQueryCurrentFence = answer_forgetfully;
  }
  if (chosen("hibernation_deafens")) {
    notify_instead = hold_after_hibernation;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiSetPowerState = note_hibernation;
    data->DxgkDdiQueryCurrentFence = answer_with_held;
  }
  if (chosen("zero_is_newer")) {
    notify_instead = note_report;
    data->DxgkDdiStartDevice = start_between;
    data->DxgkDdiSetPowerState = forget_asleep;
    data->DxgkDdiSubmitCommand = remember_again;
    data->DxgkDdiQueryCurrentFence = answer_with_newer_zero;
  }
  if (chosen("reset_fails")) data->DxgkDdiResetFromTimeout = fail_reset;
  if (chosen("power_fails")) data->DxgkDdiSetPowerState = fail_power;
  if (chosen("pool_leaks")) data->DxgkDdiRemoveDevice = leak_at_remove;
  if (chosen("entry_missing")) data->DxgkDdiBuildPagingBuffer = nullptr;
  if (chosen("entry_faults")) *reinterpret_cast<volatile int*>(8) = 1;
}

const volatile char own_fault[48] = "own fault:";
constexpr ULONG kOwnFaultAt = 10;

}  // namespace

extern "C" NTSTATUS NTAPI mutant_initialize(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path,
                                            PDRIVER_INITIALIZATION_DATA data) {
  whole = *data;
  bool gives_up = false;
  WCHAR own[sizeof(own_fault)];
  ULONG own_characters = 0;
  for (ULONG i = kOwnFaultAt; i < sizeof(own_fault) && own_fault[i] != 0; ++i)
    own[own_characters++] = static_cast<WCHAR>(own_fault[i]);
  if (own_characters != 0) break_one(own, own_characters, data);
  OBJECT_ATTRIBUTES attributes;
  InitializeObjectAttributes(&attributes, registry_path, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                             nullptr, nullptr);
  HANDLE key = nullptr;
  if (NT_SUCCESS(ZwOpenKey(&key, KEY_READ, &attributes))) {
    WCHAR value_name[] = {'M', 'u', 't', 'a', 'n', 't', 0};
    UNICODE_STRING name;
    RtlInitUnicodeString(&name, value_name);
    struct {
      KEY_VALUE_PARTIAL_INFORMATION information;
      WCHAR text[32];
    } value;
    ULONG size = 0;
    if (NT_SUCCESS(ZwQueryValueKey(key, &name, KeyValuePartialInformation, &value, sizeof(value),
                                   &size)) &&
        value.information.DataLength >= sizeof(WCHAR)) {
      const auto* text = reinterpret_cast<const WCHAR*>(value.information.Data);
      break_one(text, value.information.DataLength / sizeof(WCHAR) - 1, data);
      gives_up = is(text, value.information.DataLength / sizeof(WCHAR) - 1, "entry_gives_up");
      const ULONG characters = value.information.DataLength / sizeof(WCHAR) - 1;
      const bool longer = is(text, characters, "value_cut");
      if (longer || is(text, characters, "value_unchecked")) {
        pointers = read_unchecked(registry_path, longer);
        data->DxgkDdiQueryAdapterInfo = take_pointers;
      }
    }
    ZwClose(key);
  }
  return gives_up ? STATUS_UNSUCCESSFUL : DxgkInitialize(driver, registry_path, data);
}
