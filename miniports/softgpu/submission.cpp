// From command buffers and paging operations to rings.
#include "miniports/softgpu/driver.h"

namespace softgpu {
namespace {

/// Null if the range has no room for a record: then `data` may point anywhere.
SubmissionRecord* record_at(void* data, UINT start, UINT end) {
  if (end < start || end - start < sizeof(SubmissionRecord)) return nullptr;
  return reinterpret_cast<SubmissionRecord*>(static_cast<UCHAR*>(data) + start);
}

/// The record of a DXGKARG_SUBMITCOMMAND or DXGKARG_CANCELCOMMAND.
template <typename Arguments>
SubmissionRecord* record_of(const Arguments* args) {
  return record_at(args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSubmissionStartOffset,
                   args->DmaBufferPrivateDataSubmissionEndOffset);
}

/// A side of a Transfer or SpecialLockTransfer, which have the same members under other names. The
/// offset in bytes counts for segments, the one in pages for page lists.
template <typename Side>
TransferSide side_of(const Side& side, UINT transfer_offset, UINT mdl_offset) {
  if (side.SegmentId == 0) return {MmGetMdlPfnArray(side.pMdl) + mdl_offset, 0};
  return {nullptr, static_cast<UINT64>(side.SegmentAddress.QuadPart) + transfer_offset};
}

template <typename Transfer>
NTSTATUS build(PagingBuffer* buffer, const Transfer& t, UINT mdl_offset, UINT* multipass_offset) {
  return build_transfer(buffer, side_of(t.Source, t.TransferOffset, mdl_offset),
                        side_of(t.Destination, t.TransferOffset, mdl_offset), t.TransferSize,
                        multipass_offset);
}

NTSTATUS build_operation(Adapter* adapter, DXGKARG_BUILDPAGINGBUFFER* args, PagingBuffer* buffer) {
  switch (args->Operation) {
    case DXGK_OPERATION_TRANSFER:
      return build(buffer, args->Transfer, args->Transfer.MdlOffset, &args->MultipassOffset);
    case DXGK_OPERATION_SPECIAL_LOCK_TRANSFER:  // nothing is swizzled here: a plain transfer
      return build(buffer, args->SpecialLockTransfer, 0, &args->MultipassOffset);
    case DXGK_OPERATION_FILL: {
      const auto& f = args->Fill;
      return build_fill(buffer, static_cast<UINT64>(f.Destination.SegmentAddress.QuadPart),
                        f.FillSize, f.FillPattern);
    }
    case DXGK_OPERATION_DISCARD_CONTENT:
      return STATUS_SUCCESS;  // the driver keeps nothing about contents
    case DXGK_OPERATION_READ_PHYSICAL:
      return build_touch(buffer, args->ReadPhysical.PhysicalAddress, false);
    case DXGK_OPERATION_WRITE_PHYSICAL:
      return build_touch(buffer, args->WritePhysical.PhysicalAddress, true);
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
      return build_aperture(adapter, args, buffer);
    default:
      // Not an allowed answer, on purpose: nothing else is ever asked of a driver of this kind, and
      // success would be a lie about somebody's memory.
      return STATUS_NOT_SUPPORTED;
  }
}

}  // namespace

NTSTATUS build_aperture(Adapter* adapter, DXGKARG_BUILDPAGINGBUFFER* args, PagingBuffer* buffer) {
  if (args->Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT) {
    const auto& u = args->UnmapApertureSegment;
    return build_unmap_aperture(buffer, static_cast<UINT>(u.OffsetInPages),
                                static_cast<UINT>(u.NumberOfPages),
                                static_cast<UINT64>(u.DummyPage.QuadPart));
  }
  const auto& m = args->MapApertureSegment;
  const UINT first = static_cast<UINT>(m.OffsetInPages);
  const UINT count = static_cast<UINT>(m.NumberOfPages);
  if (first + count > adapter->aperture_high_water) {
    adapter->aperture_high_water = first + count;
  }
  return build_map_aperture(buffer, first, MmGetMdlPfnArray(m.pMdl) + m.MdlOffset, count,
                            &args->MultipassOffset);
}

NTSTATUS NTAPI DdiRender(IN_CONST_HANDLE handle, INOUT_PDXGKARG_RENDER args) {
  // One record serves all parts the buffer may be split into: only one of them can be stopped
  // midway at a time.
  SubmissionRecord* record =
      record_at(args->pDmaBufferPrivateData, 0, args->DmaBufferPrivateDataSize);
  if (record == nullptr) return STATUS_INVALID_PARAMETER;

  TranslateJob job = {.read = read_user,
                      .command = args->pCommand,
                      .command_length = args->CommandLength,
                      .node = static_cast<const Context*>(handle)->node,
                      .allocations = args->pAllocationList,
                      .allocation_count = args->AllocationListSize,
                      .dma = static_cast<UCHAR*>(args->pDmaBuffer),
                      .dma_size = args->DmaSize,
                      .patches = args->pPatchLocationListOut,
                      .patch_capacity = args->PatchLocationListOutSize,
                      .multipass_offset = args->MultipassOffset};
  const NTSTATUS status = translate(&job);
  if (!NT_SUCCESS(status) && status != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) return status;

  // The record of the buffer's last life must not make this one start in its middle.
  RtlZeroMemory(record, sizeof(*record));
  args->pDmaBuffer = job.dma + job.dma_used;
  args->pDmaBufferPrivateData = record + 1;
  args->pPatchLocationListOut = job.patches + job.patch_count;
  args->MultipassOffset = job.multipass_offset;
  return status;
}

NTSTATUS NTAPI DdiRenderKm(IN_CONST_HANDLE, INOUT_PDXGKARG_RENDER) {
  return STATUS_ILLEGAL_INSTRUCTION;  // GDI acceleration is for displays
}

NTSTATUS NTAPI DdiPatch(IN_CONST_HANDLE, IN_CONST_PDXGKARG_PATCH args) {
  // Paging buffers are built with final addresses.
  if (args->Flags.Paging != 0) return STATUS_SUCCESS;
  return patch({.dma = static_cast<UCHAR*>(args->pDmaBuffer),
                .start = args->DmaBufferSubmissionStartOffset,
                .end = args->DmaBufferSubmissionEndOffset,
                .allocations = args->pAllocationList,
                .allocation_count = args->AllocationListSize,
                .patches = args->pPatchLocationList,
                .patch_count = args->PatchLocationListSize,
                .first = args->PatchLocationListSubmissionStart,
                .length = args->PatchLocationListSubmissionLength});
}

NTSTATUS NTAPI DdiSubmitCommand(IN_CONST_HANDLE handle, IN_CONST_PDXGKARG_SUBMITCOMMAND args) {
  auto* adapter = static_cast<Adapter*>(handle);
  if (args->NodeOrdinal >= SGPU_NODE_COUNT) return STATUS_INVALID_PARAMETER;
  const UINT start = args->DmaBufferSubmissionStartOffset;
  const UINT length = args->DmaBufferSubmissionEndOffset - start;
  // The context is not looked at: it is null for some paging work, and the node says enough.
  Node* node = &adapter->node[args->NodeOrdinal];
  InFlight submission = {};
  submission.slice_start = start;
  submission.record = record_of(args);
  SgpuRingEntry& entry = submission.entry;
  entry.fence = args->SubmissionFenceId;
  if (length == 0) {
    entry.type = SGPU_RING_FENCE;  // a context switch: nothing to run, but in its place in the line
  } else {
    entry.type = SGPU_RING_EXECUTE;
    entry.flags = args->Flags.NullRendering != 0 ? SGPU_EXECUTE_NULL : 0;
    // System memory, aperture and video memory all have GPU addresses of their own, so it does not
    // matter which segment the buffer is in.
    entry.address = static_cast<SgpuU64>(args->DmaBufferPhysicalAddress.QuadPart) + start;
    entry.length = length;
    SubmissionRecord* record = submission.record;
    if (record != nullptr && record->slice_start == start && record->resume_offset < length) {
      entry.start_offset = record->resume_offset;
      record->resume_offset = 0;
    }
  }
  // At most two submissions per node are out at a time, and refusing one stops the machine.
  bool accepted = false;
  const NTSTATUS status = at_device_level(adapter, [&] { accepted = submit(node, submission); });
  return NT_SUCCESS(status) && !accepted ? STATUS_INSUFFICIENT_RESOURCES : status;
}

NTSTATUS NTAPI DdiCancelCommand(IN_CONST_HANDLE, IN_CONST_PDXGKARG_CANCELCOMMAND args) {
  // All a submission owns is its record, and that only says something after a preemption. A virtual
  // one is not even looked at unless the submission comes back.
  if (has_gpu_va()) return STATUS_SUCCESS;
  SubmissionRecord* record = record_of(args);
  if (record != nullptr) RtlZeroMemory(record, sizeof(*record));
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI DdiBuildPagingBuffer(IN_CONST_HANDLE handle, IN_PDXGKARG_BUILDPAGINGBUFFER args) {
  auto* adapter = static_cast<Adapter*>(handle);
#if SOFTGPU_HAS_GPU_VA
  NTSTATUS done;
  if (has_gpu_va() && build_without_buffer(adapter, *args, &done)) return done;
#endif
  // Each operation takes a record of its own, so that submissions of one buffer do not share: the
  // kernel decides only later where one submission ends.
  SubmissionRecord* record =
      record_at(args->pDmaBufferPrivateData, 0, args->DmaBufferPrivateDataSize);
  if (record == nullptr) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;

  PagingBuffer buffer = {static_cast<UCHAR*>(args->pDmaBuffer), args->DmaSize, 0};
#if SOFTGPU_HAS_GPU_VA
  const NTSTATUS status = has_gpu_va() ? build_virtual(adapter, args, &buffer)
                                       : build_operation(adapter, args, &buffer);
#else
  const NTSTATUS status = build_operation(adapter, args, &buffer);
#endif
  if (!NT_SUCCESS(status) && status != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER) return status;
  if (buffer.used != 0) {
    RtlZeroMemory(record, sizeof(*record));
    args->pDmaBufferPrivateData = record + 1;
    args->pDmaBuffer = buffer.bytes + buffer.used;
  }
  return status;
}

}  // namespace softgpu
