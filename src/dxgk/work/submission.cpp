#include "dxgk/work/submission.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <utility>

#include "base/interface_versions.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/core/process.h"
#include "dxgk/memory/paging_executor.h"
#include "dxgk/memory/residency.h"
#include "dxgk/va/table_eviction.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/dma_buffer_pool.h"
#include "dxgk/work/faults.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "dxgk/work/work_floor.h"
#include "port/fault_injector.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void Submission::queue(Packet& packet) {
  core_.lane().assert_current();
  if (packet.buffer != nullptr && packet.kind != vidsch::PacketKind::kPaging)
    ++packet.buffer->users;
  count_engine_work(packet, true);
  if (ClientQuota* const quota = quota_of(packet); quota != nullptr) quota->queued();
  ContextId context = packet.context == nullptr ? paging_context_ : packet.context->id();
  if (packet.flags.context_switch)
    context = context_allocations_.null_context(packet.switched_node);
  vidsch::PacketDesc desc;
  desc.id = packet.id;
  desc.kind = packet.kind;
  desc.points = std::move(packet.points);
  desc.at_submission = packet.at_submission;
  desc.broadcast = std::move(packet.broadcast);
  desc.selected_later = packet.context != nullptr &&
                        leaves_selection(core_, packet.context->device().floor().adapter);
  const Status status = core_.scheduler().queue(context, std::move(desc));
  if (is_success(status)) return;
  // The context failed meanwhile: the packet leaves as a cancelled one.
  retired(packet.id, vidsch::PacketOutcome::kCancelled, vidsch::Reached::kQueue);
}

void Submission::queue_paging(Packet& packet) {
  core_.lane().assert_current();
  ++core_.counters().paging_packets;
  queue(packet);
  timeout_.watch();  // it may run already, and not everybody who pages pumps
}

void Submission::note_busy(const Packet& packet, trace::BusyReason reason,
                           AllocationId allocation) {
  trace::emit(trace::EventKind::kWhyBusy, packet.id.value,
              packet.context == nullptr ? 0 : packet.context->id().value,
              static_cast<uint64_t>(reason), allocation.value);
}

vidsch::EnginePort::Prepare Submission::prepare(PacketId id) {
  Packet& packet = packets_.at(id);
  const bool listed = core_.facts().explicit_residency && packet.context != nullptr;
  bool list_under_way = false;
  bool tables_under_way = false;
  if (listed) {
    const Prepare list = residency_.acquire(packet.context->device().memory(), packet.residency);
    if (list == Prepare::kBusy) {
      note_busy(packet, trace::BusyReason::kList, AllocationId{});
      return list;
    }
    list_under_way = list == Prepare::kWaiting;
  }
  if (table_eviction_ != nullptr && packet.context != nullptr) {
    switch (table_eviction_->bring_tables(packet.context->device().process())) {
      case TableEviction::Tables::kThere:
        break;
      case TableEviction::Tables::kSoon:
        tables_under_way = true;
        break;
      case TableEviction::Tables::kNoRoom:
        // The tables were evicted while the device had other packets in flight, or acquire() would
        // have refused this one. Those packets give memory back when they retire, and the scheduler
        // then asks for this packet again.
        residency_.give_back(packet.context->device().memory(), packet.residency);
        note_busy(packet, trace::BusyReason::kPageTables, AllocationId{});
        return Prepare::kBusy;
    }
  }
  if (core_.options().verifier.has(VerifierSwitch::kTakeSplitPoint) && split_anyway(packet))
    static_cast<void>(core_.strikes(VerifierSwitch::kTakeSplitPoint));
  for (;;) {
    context_allocations_.list(packet);
    if (!list_under_way && !tables_under_way && core_.memory().pin_resident(packet.uses)) {
      packet.pinned = true;
      return Prepare::kReady;
    }
    core_.memory().plan_for_packet(id.value);
    std::expected<vidmm::ResidencyPlan, vidmm::ResidencyFailure> plan =
        residency_.make_resident(packet.uses);
    core_.memory().plan_for_packet(0);
    if (!plan.has_value()) {
      residency_.give_back(packet.context->device().memory(), packet.residency);
      if (plan.error().status == Status::kGraphicsAllocationBusy) {
        note_busy(packet, trace::BusyReason::kNoRoom,
                  packet.uses[plan.error().first_failed_use].allocation);
        return Prepare::kBusy;
      }
      if (split(packet, packet.uses[plan.error().first_failed_use].allocation)) continue;
      // Not even one step fits: the device fails, not the machine (REND-24).
      packet.context->device().set_error(DeviceState::kErrorOutOfMemory);
      return Prepare::kFailed;
    }
    packet.pinned = true;
    bool must_wait = list_under_way || tables_under_way || !plan->operations.empty();
    for (const vidmm::Use& use : packet.uses)
      must_wait = must_wait || core_.memory().pending_operations(use.allocation) != 0;
    if (!must_wait) return Prepare::kReady;

    preparing_ = id;
    prepared_inline_ = false;
    paging_.enqueue(plan->operations, [this, id]() DXGKIT_REQUIRES(on_lane) {
      if (preparing_ == id) {
        prepared_inline_ = true;
      } else if (packets_.contains(id)) {  // else it was cancelled while its memory was on the way
        core_.scheduler().packet_ready(id);
      }
    });
    preparing_ = PacketId{};
    return prepared_inline_ ? Prepare::kReady : Prepare::kWaiting;
  }
}

bool Submission::split(Packet& packet, AllocationId unplaceable) {
  // REND-21: run up to the SplitOffset of the first patch that needs what has no room, page, go on
  // from there.
  const DmaBuffer& buffer = *packet.buffer;
  const uint32_t patch_end = packet.patch_start + packet.patch_length;
  uint32_t cut = patch_end;
  for (uint32_t i = packet.patch_start; i < patch_end; ++i) {
    const OpenedAllocation* reference = buffer.references[buffer.patches[i].allocation_index];
    if (reference != nullptr && reference->allocation->id == unplaceable) {
      cut = i;
      break;
    }
  }
  return cut != patch_end && split_before(packet, cut);
}

bool Submission::split_anyway(Packet& packet) {
  if (packet.kind != vidsch::PacketKind::kRender || packet.buffer == nullptr) return false;
  const DmaBuffer& buffer = *packet.buffer;
  if (buffer.broadcast_bytes != 0) return false;
  for (uint32_t i = packet.patch_start; i < packet.patch_start + packet.patch_length; ++i) {
    if (buffer.patches[i].split_offset <= packet.slice.start) continue;
    if (split_before(packet, i)) return true;
  }
  return false;
}

bool Submission::split_before(Packet& packet, uint32_t cut) {
  const DmaBuffer& buffer = *packet.buffer;
  const uint32_t patch_end = packet.patch_start + packet.patch_length;
  const uint32_t offset = buffer.patches[cut].split_offset;
  // Locations that share the split offset belong to the same step.
  while (cut > packet.patch_start && buffer.patches[cut - 1].split_offset == offset) --cut;
  if (cut == packet.patch_start) return false;  // not even the first step fits
  if (leaks_binding(packet, cut)) return false;

  Packet& rest = packets_.create();
  rest.kind = packet.kind;
  rest.context = packet.context;
  rest.driver_context = packet.driver_context;
  rest.buffer = packet.buffer;
  rest.flags = packet.flags;
  rest.slice = packet.slice;
  rest.slice.start = offset;
  rest.patch_start = cut;
  rest.patch_length = patch_end - cut;
  // What is said of the whole holds when its last part is done; the last part flips.
  rest.counts_as_present = std::exchange(packet.counts_as_present, false);
  rest.flip = std::exchange(packet.flip, 0);
  rest.vidpn_source = packet.vidpn_source;  // this and the interval are told with a flip only
  rest.flip_interval = packet.flip_interval;
  packet.flags.flip = false;
  packet.flags.flip_with_no_wait = false;
  if (packet.residency.counts_in_epoch)
    residency_.packet_split(packet.context->device().memory(), packet.residency, rest.residency);
  packet.slice.end = offset;
  packet.patch_length = cut - packet.patch_start;
  packet.context->rendering().list_uses(buffer, packet.patch_start, packet.patch_length,
                                        &packet.uses);
  packet.own_uses = 0;
  packet.context->rendering().list_uses(buffer, rest.patch_start, rest.patch_length, &rest.uses);
  ++packet.buffer->users;
  ++core_.counters().splits;
  count_engine_work(rest, true);
  if (ClientQuota* const quota = quota_of(rest); quota != nullptr) quota->queued();
  core_.scheduler().insert_after(packet.id, rest.id);
  return true;
}

bool Submission::leaks_binding(const Packet& packet, uint32_t cut) {
  if (core_.caps().no_dma_patching || core_.caps().max_allocation_list_slot_id == 0) return false;
  const DmaBuffer& buffer = *packet.buffer;
  constexpr uint32_t kSlot = 0xFFFFFF;
  const std::span<const port::PatchLocation> all(buffer.patches);
  const auto before = all.subspan(packet.patch_start, cut - packet.patch_start);
  const auto behind = all.subspan(cut, packet.patch_start + packet.patch_length - cut);
  // What each slot holds where the part ends; a NULL entry holds nothing (REND-23).
  std::map<uint32_t, uint32_t> bound;
  for (const port::PatchLocation& patch : before) {
    if (buffer.references[patch.allocation_index] != nullptr) {
      bound[patch.slot_id & kSlot] = patch.allocation_index;
    } else {
      bound.erase(patch.slot_id & kSlot);
    }
  }
  for (const port::PatchLocation& patch : behind) bound.erase(patch.slot_id & kSlot);
  if (bound.empty()) return false;
  const auto& [slot, index] = *bound.begin();
  core_.fail(
      {.rule = "REND-26",
       .severity = verifier::Severity::kBugCheck,
       .ddi = "DxgkDdiRender",
       .actual = fmt::format("The part of the DMA buffer from offset {} on neither reprograms nor "
                             "unbinds slot {}, which holds allocation index {} since before.",
                             buffer.patches[cut].split_offset, slot, index),
       .expected = "Behind each SplitOffset every slot bound before is bound again, or unbound "
                   "with a NULL entry of the allocation list.",
       .fix = "Repeat the bindings that are still needed behind each split point and add a "
              "patch location with a NULL allocation for the others; or set NoDmaPatching.",
       .bugcheck_code = 0x10E,
       .bugcheck_parameter = 0x27,
       .why = "The parts run at different times: the allocation may have been evicted between "
              "them, and the engine would go on using its old place."});
  return true;
}

namespace {

/// The list is as DxgkDdiRender got it: this is the first that runs of the buffer.
bool may_spare_patch(AdapterCore& core, const Packet& packet) DXGKIT_REQUIRES(on_lane) {
  port::FaultInjector* const faults = core.options().faults;
  if (faults == nullptr) [[likely]]
    return false;
  const DmaBuffer& buffer = *packet.buffer;
  if (packet.slice.start != 0 || packet.patch_length == 0 || buffer.broadcast_bytes != 0)
    return false;
  for (uint32_t i = 0; i < buffer.allocation_count; ++i) {
    const OpenedAllocation* const opened = buffer.references[i];
    if (opened == nullptr) continue;
    const vidmm::Placement place = core.memory().placement(opened->allocation->id);
    const port::AllocationListEntry& told = buffer.allocations[i];
    if (told.segment() != place.segment.value || told.physical_address != place.gpu_address)
      return false;
  }
  return faults->spares_patch();
}

}  // namespace

void Submission::fill_allocation_list(const Packet& packet) {
  DmaBuffer& buffer = *packet.buffer;
  // Nothing has moved since: the places are right, unless the driver wrote over them, which the
  // checks want to see through.
  const bool fresh = buffer.places_as_of == core_.memory().plans();
  if (fresh && !core_.facts().explicit_residency && core_.options().check_level == CheckLevel::kOff)
    return;
  buffer.places_as_of = core_.memory().plans();
  for (uint32_t i = 0; i < buffer.allocation_count; ++i) {
    const OpenedAllocation* opened = buffer.references[i];
    if (opened == nullptr) continue;  // a NULL entry unbinds; it has no place (REND-23)
    const vidmm::Placement place = core_.memory().placement(opened->allocation->id);
    if (core_.facts().explicit_residency && buffer.allocations[i].write())
      core_.memory().assume_written(opened->allocation->id);
    port::AllocationListEntry& entry = buffer.allocations[i];
    entry.set(entry.write(), place.segment, place.gpu_address);
  }
}

port::PatchArgs Submission::patch_args(const Packet& packet, SubmissionFenceId fence) {
  port::PatchArgs args;
  const DmaBuffer& buffer = *packet.buffer;
  args.context = packet.driver_context;
  args.buffer = buffer.view;
  args.slice = packet.slice;
  args.fence = fence;
  args.flags = packet.flags;
  if (packet.kind != vidsch::PacketKind::kPaging) {  // PATCH-20, PATCH-23: paging has no lists
    args.allocations = buffer.allocations.data();
    args.allocation_count = buffer.allocation_count;
    args.patches = buffer.patches.data();
    args.patch_count = buffer.patch_count;
    args.patch_start = packet.patch_start;
    args.patch_length = packet.patch_length;
  }
  return args;
}

void Submission::note_submission(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                                 uint64_t bytes) {
  if (submitted_.size() <= node.value) submitted_.resize(node.value + 1);
  packet.number = ++submitted_[node.value];
  ++core_.counters().packets_submitted;
  core_.counters().dma_bytes += bytes;
  trace::emit(trace::EventKind::kPacketSubmitted, packet.id.value,
              packet.context == nullptr ? 0 : packet.context->id().value, fence.value,
              core_.scheduler().node_status(node).hardware_queue_length,
              static_cast<uint16_t>(node.value));
  context_allocations_.entered(node, packet);
}

port::SubmitVirtualArgs Submission::virtual_args(Packet& packet) {
  port::SubmitVirtualArgs args;
  args.context = packet.driver_context;
  args.flags = packet.flags;
  if (packet.kind == vidsch::PacketKind::kPaging) {
    const DmaBuffer& buffer = *packet.buffer;
    const port::Slice& slice = packet.slice;
    args.buffer_va = buffer.gpu_va + slice.start;
    args.buffer_bytes = slice.end - slice.start;
    if (buffer.view.private_data != nullptr)
      args.private_data = buffer.view.private_data + slice.private_start;
    args.private_bytes = slice.private_end - slice.private_start;
  } else {
    VirtualCommand& command = packet.command;
    args.buffer_va = command.address;
    args.buffer_bytes = command.bytes;
    args.private_data = command.private_data.data();
    args.private_bytes = static_cast<uint32_t>(command.private_data.size());
    args.user_private_bytes = command.user_private_bytes;
  }
  return args;
}

Submission::Submit Submission::submit_virtual(Packet& packet, NodeOrdinal node,
                                              SubmissionFenceId fence, bool resubmission) {
  port::SubmitVirtualArgs args = virtual_args(packet);
  args.fence = fence;
  args.node = node;
  args.flags.resubmission = resubmission;
  note_submission(packet, node, fence, args.buffer_bytes);
  const Status status = core_.port().submission().submit_virtual(args);
  if (status == Status::kSuccess) return Submit::kTaken;
  if (status != Status::kInvalidParameter) return Submit::kStopping;
  faults_.set_device_state(DeviceState::kErrorDmaFault);
  faults_.blame(packet);  // SUB-29; of paging it stops the adapter
  return Submit::kRefused;
}

Submission::Submit Submission::submit_context_switch(Packet& packet, NodeOrdinal node,
                                                     SubmissionFenceId fence, bool resubmission) {
  // Nothing to patch, and no buffer: flags, fence and node say it all.
  port::PacketFlags flags = packet.flags;
  flags.resubmission = resubmission;
  note_submission(packet, node, fence, 0);
  Status status = Status::kSuccess;
  if (packet.switches_virtual) {
    port::SubmitVirtualArgs args;
    args.context = packet.driver_context;
    args.fence = fence;
    args.node = node;
    args.flags = flags;
    status = core_.port().submission().submit_virtual(args);
    if (status == Status::kInvalidParameter) {
      faults_.blame(packet);
      return Submit::kRefused;
    }
  } else {
    port::SubmitArgs args;
    args.context = packet.driver_context;
    args.fence = fence;
    args.node = node;
    args.flags = flags;
    status = core_.port().submission().submit(args);
  }
  return status == Status::kSuccess ? Submit::kTaken : Submit::kStopping;
}

Submission::Submit Submission::submit(PacketId id, NodeOrdinal node, SubmissionFenceId fence,
                                      bool resubmission) {
  Packet& packet = packets_.at(id);
  core_.counters().packets_resubmitted += resubmission ? 1 : 0;
  packet.submitted_ns = core_.runtime().now();
  nodes_.submitted(work_of(packet), resubmission);
  if (packet.flags.context_switch) return submit_context_switch(packet, node, fence, resubmission);
  if (packet.context != nullptr && packet.context->of_hw_queue())
    return hw_queues_->submit(packet, fence);
  if (table_eviction_ != nullptr) return submit_virtual(packet, node, fence, resubmission);
  DmaBuffer& buffer = *packet.buffer;
  if (buffer.memory.value != 0) {
    const vidmm::Placement place = core_.memory().placement(buffer.memory);
    buffer.view.segment = place.segment;
    buffer.view.physical_address = place.gpu_address;
  }
  const bool spared =
      packet.kind == vidsch::PacketKind::kRender && !resubmission && may_spare_patch(core_, packet);
  if (packet.kind != vidsch::PacketKind::kPaging) fill_allocation_list(packet);
  if (core_.port().submission().has_patch() && !spared) {
    const bool part = buffer.broadcast_bytes != 0 &&
                      (packet.slice.start != 0 || packet.slice.end != buffer.broadcast_bytes);
    if (part) broadcast_before_.assign(buffer.view.cpu, buffer.view.cpu + buffer.broadcast_bytes);
    port::PatchArgs args = patch_args(packet, fence);
    args.flags.resubmission = resubmission;
    Status status = core_.port().submission().patch(args);
    if (is_success(status) && core_.strikes(VerifierSwitch::kAlwaysRepatch)) {
      args.flags.resubmission = true;
      status = core_.port().submission().patch(args);
    }
    if (part) check_broadcast_part(packet);
    trace::emit(trace::EventKind::kPacketPatched, id.value,
                packet.context == nullptr ? 0 : packet.context->id().value, packet.patch_length, 0,
                static_cast<uint16_t>(node.value));
    if (status != Status::kSuccess) return Submit::kStopping;  // the port reported it (PATCH-31)
    core_.counters().patch_locations += packet.patch_length;
  }
  port::SubmitArgs args;
  args.context = packet.driver_context;
  args.buffer = buffer.view;
  args.slice = packet.slice;
  args.fence = fence;
  args.node = node;
  args.flags = packet.flags;
  args.flags.resubmission = resubmission;
  args.vidpn_source = packet.vidpn_source;  // SUB-15
  args.flip_interval = packet.flip_interval;
  if (packet.flip != 0) owner_.flip_reached(packet.vidpn_source, packet.flip, true);
  note_submission(packet, node, fence, packet.slice.end - packet.slice.start);
  if (core_.port().submission().submit(args) == Status::kSuccess) return Submit::kTaken;
  if (args.context == nullptr) {  // SUB-27 was reported; this is why
    core_.findings().report(verifier::Finding{
        .rule = "SUB-04",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiSubmitCommand",
        .actual = "It failed a paging submission whose hContext / hDevice is NULL.",
        .expected = "Some paging work, such as evicting a whole segment, belongs to no context; "
                    "Flags.Paging marks it and NodeOrdinal names the node.",
        .fix = "Keep an internal device made at adapter start for paging that needs one."});
  }
  return Submit::kStopping;
}

void Submission::check_broadcast_part(const Packet& packet) {
  const std::byte* now = packet.buffer->view.cpu;
  for (uint32_t i = 0; i < packet.buffer->broadcast_bytes; ++i) {
    if (i >= packet.slice.start && i < packet.slice.end) continue;
    if (now[i] == broadcast_before_[i]) continue;
    core_.findings().report(verifier::Finding{
        .rule = "PREEMPT-17",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkDdiPatch",
        .actual =
            fmt::format("For bytes [{}, {}) of a DMA buffer of {} that several contexts run, "
                        "it changed the byte at {}.",
                        packet.slice.start, packet.slice.end, packet.buffer->broadcast_bytes, i),
        .expected =
            "Patching a part of a split DMA buffer that is broadcast leaves the other parts "
            "as they are.",
        .fix = "Write inside DmaBufferSubmissionStartOffset .. EndOffset only.",
        .why = "Where adapters are linked, another one runs or will run the other parts out of the "
               "same buffer.",
        .windows = "Nothing is said: the other adapter runs what it finds.",
        .confidence = verifier::Confidence::kInferred});
    return;
  }
}

void Submission::cancel_packet(Packet& packet, vidsch::Reached reached) {
  if (!core_.caps().cancel_command_aware) return;  // CANCEL-01
  if (!core_.port().submission().has_cancel()) return;
  if (reached == vidsch::Reached::kHardware) return;  // CANCEL-22
  const bool given_back_too = core_.options().cancel_reading == CancelReading::kAlsoGivenBack;
  if (reached == vidsch::Reached::kGivenBack && !given_back_too) return;  // CANCEL-21
  // CANCEL-23: there is no DMA buffer, or the scheduler's queue is not where it would have run.
  const bool paging = packet.kind == vidsch::PacketKind::kPaging;
  if (!paging && packet.kind != vidsch::PacketKind::kRender) return;
  if (packet.flags.context_switch) return;
  if (packet.context != nullptr && packet.context->of_hw_queue()) return;
  // By address, or by DMA buffer; of paging: CANCEL-20.
  const Status status =
      table_eviction_ != nullptr
          ? core_.port().submission().cancel(virtual_args(packet))
          : core_.port().submission().cancel(patch_args(packet, SubmissionFenceId{}));
  static_cast<void>(status);  // a failure is fatal and was reported by the port (CANCEL-18)
}

void Submission::retired(PacketId id, vidsch::PacketOutcome outcome, vidsch::Reached reached) {
  Packet& packet = packets_.at(id);
  const bool completed = outcome == vidsch::PacketOutcome::kCompleted;
  const bool reached_hardware = reached != vidsch::Reached::kQueue;
  const bool work =
      packet.kind == vidsch::PacketKind::kRender || packet.kind == vidsch::PacketKind::kPaging;
  if (work) {
    if (completed) ++core_.counters().packets_completed;
    if (outcome == vidsch::PacketOutcome::kCancelled) ++core_.counters().packets_cancelled;
    if (outcome == vidsch::PacketOutcome::kFaulted) ++core_.counters().packets_faulted;
  }
  if (work && reached_hardware) {
    using End = NodeCounters::End;
    nodes_.left(work_of(packet),
                completed                                    ? End::kCompleted
                : outcome == vidsch::PacketOutcome::kFaulted ? End::kFaulted
                                                             : End::kOther,
                packet.submitted_ns, core_.runtime().now());
  }
  count_engine_work(packet, false);
  if (ClientQuota* const quota = quota_of(packet); quota != nullptr) quota->retired();
  if (completed && packet.kind == vidsch::PacketKind::kSignal) ++core_.counters().sync_signals;
  if (outcome == vidsch::PacketOutcome::kFaulted && reached_hardware && !core_.failed()) {
    faults_.blame(packet);
  }
  if (packet.counts_as_present) --packet.context->device().queued_presents;
  const std::pair<uint32_t, uint64_t> flip{packet.vidpn_source, packet.flip};
  if (!completed) cancel_packet(packet, reached);  // before anything it is made of is used again
  if (packet.flags.context_switch) {
    context_allocations_.switched(packet);
  } else if (packet.kind == vidsch::PacketKind::kPaging) {
    // After a fatal failure the hardware is not known to have stopped.
    paging_.packet_retired(packet.id, completed, /*may_be_read=*/!completed && core_.fatal());
  } else {
    if (packet.context->of_hw_queue()) hw_queues_->packet_left(packet);
    if (packet.pinned) core_.memory().release(packet.uses);
    residency_.packet_retired(packet.context->device().memory(), packet.residency);
    if (packet.buffer != nullptr) DmaBufferPool::drop_user(*packet.buffer);
  }
  packets_.destroy(packet);
  // A flip that is on hardware stays there: it ends at a vertical sync.
  if (flip.second != 0) owner_.flip_reached(flip.first, flip.second, completed);
  core_.progress();
}

NodeCounters::Work Submission::work_of(const Packet& packet) const {
  return {.node = node_of(packet),
          .process = packet.context == nullptr ? NodeCounters::kSystem
                                               : packet.context->device().process().number(),
          .context = packet.context == nullptr ? paging_context_ : packet.context->id(),
          .paging = packet.kind == vidsch::PacketKind::kPaging};
}

NodeOrdinal Submission::node_of(const Packet& packet) const {
  if (packet.flags.context_switch) return packet.switched_node;
  return packet.context == nullptr ? NodeOrdinal{core_.caps().paging_node} : packet.context->node();
}

void Submission::preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) {
  timeout_.preemption_asked(node, preemption_fence);
  const bool idle = core_.scheduler().node_status(node).hardware_queue_length == 0;
  const Status status = core_.port().submission().preempt(node, preemption_fence, idle);
  static_cast<void>(status);  // fatal failures are reported by the port (PREEMPT-11)
}

ClientQuota* Submission::quota_of(const Packet& packet) {
  if (packet.context == nullptr) return nullptr;
  const ClientMemory* const client = packet.context->device().process().client_memory();
  return client == nullptr ? nullptr : client->quota().get();
}

void Submission::count_engine_work(const Packet& packet, bool comes) {
  if (packet.kind != vidsch::PacketKind::kRender && packet.kind != vidsch::PacketKind::kPaging)
    return;
  owner_.engine_work(node_of(packet), comes);
}

}  // namespace dxgkit::dxgk
