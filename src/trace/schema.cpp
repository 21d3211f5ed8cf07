// The table of the names of events and of their arguments, in the order of the kinds.
#include <algorithm>
#include <iterator>

#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

constexpr ArgumentInfo kNameId{"name", true};
constexpr ArgumentInfo kPacket{"packet"};
constexpr ArgumentInfo kContext{"context"};
constexpr ArgumentInfo kFence{"fence"};
constexpr ArgumentInfo kIrql{"irql"};
constexpr ArgumentInfo kStatus{"status"};
constexpr ArgumentInfo kAllocation{"allocation"};
constexpr ArgumentInfo kSegmentNumber{"segment"};
constexpr ArgumentInfo kOffset{"offset"};
constexpr ArgumentInfo kSize{"size"};
constexpr ArgumentInfo kObject{"object"};
constexpr ArgumentInfo kValue{"value"};
constexpr ArgumentInfo kAdapter{"adapter"};
constexpr ArgumentInfo kProcess{"process"};
constexpr ArgumentInfo kAddress{"address"};
constexpr ArgumentInfo kFlags{"flags"};
constexpr ArgumentInfo kLevel{"level"};
constexpr ArgumentInfo kReason{"reason"};
constexpr ArgumentInfo kDevice{"device"};

using enum EventKind;

constexpr KindInfo kSchema[] = {
    {kDdiEnter, "ddi_enter", {kNameId, kIrql, {"argument"}, {}}},
    {kDdiExit, "ddi_exit", {kNameId, kStatus, kIrql, {}}},
    {kCallbackEnter, "callback_enter", {kNameId, kIrql, {}, {}}},
    {kCallbackExit, "callback_exit", {kNameId, kStatus, {}, {}}},
    {kThunkEnter, "thunk_enter", {kNameId, {"process"}, {}, {}}},
    {kThunkExit, "thunk_exit", {kNameId, kStatus, {}, {}}},
    {kPacketQueued, "packet_queued", {kPacket, kContext, {"packet_kind"}, {"queue_length"}}},
    {kPacketReady, "packet_ready", {kPacket, kContext, {}, {}}},
    {kPacketPatched, "packet_patched", {kPacket, kContext, {"patches"}, {}}},
    {kPacketSubmitted, "packet_submitted", {kPacket, kContext, kFence, {"queue_length"}}},
    {kPacketCompleted, "packet_completed", {kPacket, kContext, kFence, {}}},
    {kPacketPreempted, "packet_preempted", {kPacket, kContext, kFence, {}}},
    {kPacketCancelled, "packet_cancelled", {kPacket, kContext, {}, {}}},
    {kPacketFaulted, "packet_faulted", {kPacket, kContext, kFence, {}}},
    {kHardwareStart, "hardware_start", {{}, {}, kFence, {}}},
    {kHardwareEnd, "hardware_end", {{}, {}, kFence, {}}},
    {kInterrupt, "interrupt", {{"type"}, {}, kFence, {}}},
    {kDpcQueued, "dpc_queued", {{}, {}, {}, {}}},
    {kDpcRun, "dpc_run", {{}, {}, {}, {}}},
    {kAllocationCreated, "allocation_created", {kAllocation, {"process"}, {}, kSize}},
    {kAllocationDestroyed, "allocation_destroyed", {kAllocation, {}, {}, kSize}},
    {kPlaced, "placed", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kEvicted, "evicted", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kPageIn, "page_in", {kAllocation, kSegmentNumber, kOffset, {"bytes"}}},
    {kPageOut, "page_out", {kAllocation, kSegmentNumber, kOffset, {"bytes"}}},
    {kApertureMapped, "aperture_mapped", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kApertureUnmapped, "aperture_unmapped", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kLocked, "locked", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kUnlocked, "unlocked", {kAllocation, kSegmentNumber, kOffset, kSize}},
    {kPagingOperation,
     "paging_operation",
     {{"operation"}, kAllocation, {"bytes"}, {"buffer_bytes"}}},
    {kBudget, "budget", {{"process"}, {"group"}, {"budget"}, {"usage"}}},
    {kSyncSignal, "sync_signal", {kObject, kValue, kContext, {}}},
    {kSyncWait, "sync_wait", {kObject, kValue, kContext, {}}},
    {kSyncSatisfied, "sync_satisfied", {kObject, kValue, kContext, {}}},
    {kAdapterState, "adapter_state", {kAdapter, {"state"}, {}, {}}},
    {kFinding, "finding", {{"rule", true}, {"severity"}, {}, {}}},
    {kMarker, "marker", {{"text", true}, {}, {}, {}}},
    {kSegment, "segment", {{}, kSegmentNumber, {"base"}, kSize}},
    {kObjectName, "object_name", {{"id"}, kNameId, {"class"}, {}}},
    {kGpuVaSpace, "gpu_va_space", {kProcess, {"bits"}, {"levels"}, {"index_bits"}}},
    {kGpuVaReserved, "gpu_va_reserved", {kProcess, kAddress, kSize, kFlags}},
    {kGpuVaFreed, "gpu_va_freed", {kProcess, kAddress, kSize, {}}},
    {kGpuVaUpdated, "gpu_va_updated", {kProcess, kContext, {"operations"}, kFence}},
    {kGpuVaMapped, "gpu_va_mapped", {kProcess, kAddress, kSize, kAllocation}},
    {kGpuVaView, "gpu_va_view", {kProcess, kOffset, {"protection"}, {"driver_protection"}}},
    {kGpuVaUnmapped, "gpu_va_unmapped", {kProcess, kAddress, kSize, {}}},
    {kPageTableWrite, "page_table_write", {kProcess, kLevel, kOffset, kSegmentNumber}},
    {kPageTableEntries, "page_table_entries", {kAddress, {"count"}, {"page"}, kFlags}},
    {kGpuVaRoot, "gpu_va_root", {kProcess, kContext, kOffset, kSegmentNumber}},
    {kTlbFlushed, "tlb_flushed", {kProcess, kAddress, {"end"}, {}}},
    {kGpuVaFault, "gpu_va_fault", {kFence, kAddress, kFlags, kLevel}},
    {kGpuVaSpaceEnded, "gpu_va_space_ended", {kProcess, {}, {}, {}}},
    {kPageTablesLost, "page_tables_lost", {kProcess, {}, {}, {}}},
    {kWhyEvicted, "why_evicted", {kAllocation, kReason, {"for_allocation"}, {"for_packet"}}},
    {kWhyBusy, "why_busy", {kPacket, kContext, kReason, kAllocation}},
    {kWhyPreempted, "why_preempted", {kPacket, kContext, kReason, kFence}},
    {kWhyTimeout, "why_timeout", {kPacket, kContext, kFence, {"preemption"}}},
    {kWhyDeviceLost, "why_device_lost", {kProcess, kDevice, {"state"}, {}}},
    {kWhyRefused, "why_refused", {kReason, {"handle"}, {"expected"}, {"found"}}},
    {kContextOwner, "context_owner", {kContext, kProcess, kDevice, {}}},
    {kHandleOpened, "handle_opened", {kProcess, {"handle"}, {"type"}, {"names"}}},
    {kHandleClosed, "handle_closed", {kProcess, {"handle"}, {}, {}}},
    {kHungBuffer, "hung_buffer", {kPacket, kSegmentNumber, kAddress, {"bytes"}}},
    {kHungPatch, "hung_patch", {kPacket, kOffset, kAllocation, {"allocation_offset"}}},
    {kHungBytes, "hung_bytes", {kPacket, kOffset, {"first"}, {"second"}}},
};
static_assert(std::ranges::is_sorted(kSchema, {}, &KindInfo::kind));

}  // namespace

const KindInfo* kind_info(uint16_t kind) {
  const auto* const found =
      std::ranges::lower_bound(kSchema, static_cast<EventKind>(kind), {}, &KindInfo::kind);
  if (found == std::end(kSchema) || found->kind != static_cast<EventKind>(kind)) return nullptr;
  return found;
}

std::span<const KindInfo> schema() { return kSchema; }

}  // namespace dxgkit::trace
