// The scheduler's questions, answered with memory manager and driver: prepare, patch + submit,
// retire.
#include <fmt/format.h>

#include <map>
#include <span>
#include <utility>

#include "base/interface_versions.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/device.h"
#include "dxgk/display/display.h"
#include "dxgk/display/flips.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/process.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void Adapter::queue_packet(Packet& packet) {
  if (packet.buffer != nullptr && packet.kind != vidsch::PacketKind::kPaging)
    ++packet.buffer->users;
  count_engine_work(packet, true);
  ContextId context = packet.context == nullptr ? paging_context_ : packet.context->id();
  if (packet.flags.context_switch)
    context = context_allocations_->null_context(packet.switched_node);
  vidsch::PacketDesc desc;
  desc.id = packet.id;
  desc.kind = packet.kind;
  desc.points = std::move(packet.points);
  desc.at_submission = packet.at_submission;
  desc.broadcast = std::move(packet.broadcast);
  const Status status = scheduler_->queue(context, std::move(desc));
  if (is_success(status)) return;
  // The context failed meanwhile: the packet leaves as a cancelled one.
  retired(packet.id, vidsch::PacketOutcome::kCancelled, vidsch::Reached::kQueue);
}

void Adapter::queue_paging(Packet& packet) {
  ++counters_.paging_packets;
  queue_packet(packet);
  timeout_->watch();  // it may run already, and not everybody who pages pumps
}

void Adapter::pump() {
  if (failed_ || !scheduler_ || holds_ != 0) return;
  if (scheduler_->minds_time()) {
    scheduler_->pump(runtime_.now());
  } else {
    scheduler_->pump();  // looking at the clock would cost more than all the rest
  }
  timeout_->watch();
  if (scheduler_->minds_time()) watch_for_quantum();
}

vidsch::EnginePort::Prepare Adapter::prepare(PacketId id) {
  Packet& packet = packets_.at(id);
  const bool listed = explicit_residency_ && packet.context != nullptr;
  bool list_under_way = false;
  bool tables_under_way = false;
  if (listed) {
    const Prepare list = residency_->acquire(packet);
    if (list == Prepare::kBusy || list == Prepare::kFailed) return list;
    list_under_way = list == Prepare::kWaiting;
  }
  if (gpu_va_ != nullptr && packet.context != nullptr && packet.context->virtual_addressing()) {
    switch (gpu_va_->bring_tables(packet.context->device())) {
      case GpuVa::TablesThere::kYes:
        break;
      case GpuVa::TablesThere::kSoon:
        tables_under_way = true;
        break;
      case GpuVa::TablesThere::kNoMemory:
        if (listed) residency_->give_back(packet);
        // What runs or pages gives memory back as it retires, and this is asked again then.
        if (scheduler_->anything_on_hardware() || !paging_->idle()) return Prepare::kBusy;
        packet.context->device().set_error(DeviceState::kErrorOutOfMemory);
        return Prepare::kFailed;
    }
  }
  if (options_.verifier.has(VerifierSwitch::kTakeSplitPoint) && split_anyway(packet))
    static_cast<void>(strikes(VerifierSwitch::kTakeSplitPoint));
  for (;;) {
    context_allocations_->list(packet);
    if (!list_under_way && !tables_under_way && memory_->pin_resident(packet.uses)) {
      packet.pinned = true;
      return Prepare::kReady;
    }
    std::expected<vidmm::ResidencyPlan, vidmm::ResidencyFailure> plan =
        residency_->make_resident(packet.uses);
    if (!plan.has_value()) {
      if (listed) residency_->give_back(packet);
      if (plan.error().status == Status::kGraphicsAllocationBusy) return Prepare::kBusy;
      if (split(packet, packet.uses[plan.error().first_failed_use].allocation)) continue;
      // Not even one step fits: the device fails, not the machine (REND-24).
      packet.context->device().set_error(DeviceState::kErrorOutOfMemory);
      return Prepare::kFailed;
    }
    packet.pinned = true;
    bool must_wait = list_under_way || tables_under_way || !plan->operations.empty();
    for (const vidmm::Use& use : packet.uses)
      must_wait = must_wait || memory_->pending_operations(use.allocation) != 0;
    if (!must_wait) return Prepare::kReady;

    preparing_ = id;
    prepared_inline_ = false;
    paging_->enqueue(plan->operations, [this, id] {
      if (preparing_ == id) {
        prepared_inline_ = true;
      } else if (packets_.contains(id)) {  // else it was cancelled while its memory was on the way
        scheduler_->packet_ready(id);
      }
    });
    preparing_ = PacketId{};
    return prepared_inline_ ? Prepare::kReady : Prepare::kWaiting;
  }
}

bool Adapter::split(Packet& packet, AllocationId unplaceable) {
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

bool Adapter::split_anyway(Packet& packet) {
  if (packet.kind != vidsch::PacketKind::kRender || packet.buffer == nullptr) return false;
  const DmaBuffer& buffer = *packet.buffer;
  if (buffer.broadcast_bytes != 0) return false;
  for (uint32_t i = packet.patch_start; i < packet.patch_start + packet.patch_length; ++i) {
    if (buffer.patches[i].split_offset <= packet.slice.start) continue;
    if (split_before(packet, i)) return true;
  }
  return false;
}

bool Adapter::split_before(Packet& packet, uint32_t cut) {
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
  rest.vidpn_source = std::exchange(packet.vidpn_source, 0);
  rest.flip_interval = std::exchange(packet.flip_interval, 0);
  packet.flags.flip = false;
  packet.flags.flip_with_no_wait = false;
  if (packet.counts_in_epoch) residency_->packet_split(packet, rest);
  packet.slice.end = offset;
  packet.patch_length = cut - packet.patch_start;
  packet.context->list_uses(buffer, packet.patch_start, packet.patch_length, &packet.uses);
  packet.own_uses = 0;
  packet.context->list_uses(buffer, rest.patch_start, rest.patch_length, &rest.uses);
  ++packet.buffer->users;
  ++counters_.splits;
  count_engine_work(rest, true);
  scheduler_->insert_after(packet.id, rest.id);
  return true;
}

bool Adapter::leaks_binding(const Packet& packet, uint32_t cut) {
  if (caps_.no_dma_patching || caps_.max_allocation_list_slot_id == 0) return false;
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
  fail({.rule = "REND-26",
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

void Adapter::fill_allocation_list(const Packet& packet) {
  DmaBuffer& buffer = *packet.buffer;
  // Nothing has moved since: the places are right, unless the driver wrote over them, which the
  // checks want to see through.
  const bool fresh = buffer.places_as_of == memory_->plans();
  if (fresh && !explicit_residency_ && options_.check_level == CheckLevel::kOff) return;
  buffer.places_as_of = memory_->plans();
  for (uint32_t i = 0; i < buffer.allocation_count; ++i) {
    const OpenedAllocation* opened = buffer.references[i];
    if (opened == nullptr) continue;  // a NULL entry unbinds; it has no place (REND-23)
    const vidmm::Placement place = memory_->placement(opened->allocation->id);
    if (explicit_residency_ && buffer.allocations[i].write())
      memory_->assume_written(opened->allocation->id);
    port::AllocationListEntry& entry = buffer.allocations[i];
    entry.set(entry.write(), place.segment, place.gpu_address);
  }
}

port::PatchArgs Adapter::patch_args(const Packet& packet, SubmissionFenceId fence) {
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

void Adapter::note_submission(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                              uint64_t bytes) {
  if (submitted_.size() <= node.value) submitted_.resize(node.value + 1);
  packet.number = ++submitted_[node.value];
  ++counters_.packets_submitted;
  counters_.dma_bytes += bytes;
  trace::emit(trace::EventKind::kPacketSubmitted, packet.id.value,
              packet.context == nullptr ? 0 : packet.context->id().value, fence.value,
              scheduler_->node_status(node).hardware_queue_length,
              static_cast<uint16_t>(node.value));
  context_allocations_->entered(node, packet);
}

port::SubmitVirtualArgs Adapter::virtual_args(Packet& packet) {
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
    args.private_data = command.private_data.empty() ? nullptr : command.private_data.data();
    args.private_bytes = static_cast<uint32_t>(command.private_data.size());
    args.user_private_bytes = command.user_private_bytes;
  }
  return args;
}

Adapter::Submit Adapter::submit_virtual(Packet& packet, NodeOrdinal node, SubmissionFenceId fence,
                                        bool resubmission) {
  port::SubmitVirtualArgs args = virtual_args(packet);
  args.fence = fence;
  args.node = node;
  args.flags.resubmission = resubmission;
  note_submission(packet, node, fence, args.buffer_bytes);
  const Status status = port_->submission().submit_virtual(args);
  if (status == Status::kSuccess) return Submit::kTaken;
  if (status != Status::kInvalidParameter) return Submit::kStopping;
  fault_state_ = DeviceState::kErrorDmaFault;
  blame(packet);  // SUB-29; of paging it stops the adapter
  return Submit::kRefused;
}

Adapter::Submit Adapter::submit_context_switch(Packet& packet, NodeOrdinal node,
                                               SubmissionFenceId fence, bool resubmission) {
  // Nothing to patch, and no buffer: flags, fence and node say it all.
  port::PacketFlags flags = packet.flags;
  flags.resubmission = resubmission && interface_version() >= kInterfaceWddm20;
  note_submission(packet, node, fence, 0);
  Status status = Status::kSuccess;
  if (packet.switches_virtual) {
    port::SubmitVirtualArgs args;
    args.context = packet.driver_context;
    args.fence = fence;
    args.node = node;
    args.flags = flags;
    status = port_->submission().submit_virtual(args);
    if (status == Status::kInvalidParameter) {
      blame(packet);
      return Submit::kRefused;
    }
  } else {
    port::SubmitArgs args;
    args.context = packet.driver_context;
    args.fence = fence;
    args.node = node;
    args.flags = flags;
    status = port_->submission().submit(args);
  }
  return status == Status::kSuccess ? Submit::kTaken : Submit::kStopping;
}

Adapter::Submit Adapter::submit(PacketId id, NodeOrdinal node, SubmissionFenceId fence,
                                bool resubmission) {
  Packet& packet = packets_.at(id);
  counters_.packets_resubmitted += resubmission ? 1 : 0;
  if (packet.flags.context_switch) return submit_context_switch(packet, node, fence, resubmission);
  if (packet.context != nullptr && packet.context->of_hw_queue())
    return hw_queues_->submit(packet, fence);
  if (gpu_va_ != nullptr && (packet.context == nullptr || packet.context->virtual_addressing()))
    return submit_virtual(packet, node, fence, resubmission);
  DmaBuffer& buffer = *packet.buffer;
  if (buffer.memory.value != 0) {
    const vidmm::Placement place = memory_->placement(buffer.memory);
    buffer.view.segment = place.segment;
    buffer.view.physical_address = place.gpu_address;
  }
  if (packet.kind != vidsch::PacketKind::kPaging) fill_allocation_list(packet);
  if (port_->submission().has_patch()) {
    const bool part = buffer.broadcast_bytes != 0 &&
                      (packet.slice.start != 0 || packet.slice.end != buffer.broadcast_bytes);
    if (part) broadcast_before_.assign(buffer.view.cpu, buffer.view.cpu + buffer.broadcast_bytes);
    Status status = port_->submission().patch(patch_args(packet, fence));
    if (is_success(status) && strikes(VerifierSwitch::kAlwaysRepatch))
      status = port_->submission().patch(patch_args(packet, fence));
    if (part) check_broadcast_part(packet);
    trace::emit(trace::EventKind::kPacketPatched, id.value,
                packet.context == nullptr ? 0 : packet.context->id().value, packet.patch_length, 0,
                static_cast<uint16_t>(node.value));
    if (status != Status::kSuccess) return Submit::kStopping;  // the port reported it (PATCH-31)
    counters_.patch_locations += packet.patch_length;
  }
  port::SubmitArgs args;
  args.context = packet.driver_context;
  args.buffer = buffer.view;
  args.slice = packet.slice;
  args.fence = fence;
  args.node = node;
  args.flags = packet.flags;
  // SUB-25: told from WDDM 2.0 on.
  args.flags.resubmission = resubmission && interface_version() >= kInterfaceWddm20;
  args.vidpn_source = packet.vidpn_source;  // SUB-15
  args.flip_interval = packet.flip_interval;
  if (packet.flip != 0) display_->flips()->reached(packet.vidpn_source, packet.flip, true);
  note_submission(packet, node, fence, packet.slice.end - packet.slice.start);
  if (port_->submission().submit(args) == Status::kSuccess) return Submit::kTaken;
  if (args.context == nullptr) {  // SUB-27 was reported; this is why
    findings_.report(verifier::Finding{
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

void Adapter::check_broadcast_part(const Packet& packet) {
  const std::byte* now = packet.buffer->view.cpu;
  for (uint32_t i = 0; i < packet.buffer->broadcast_bytes; ++i) {
    if (i >= packet.slice.start && i < packet.slice.end) continue;
    if (now[i] == broadcast_before_[i]) continue;
    findings_.report(verifier::Finding{
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

void Adapter::cancel_packet(Packet& packet, vidsch::Reached reached) {
  if (!caps_.cancel_command_aware) return;  // CANCEL-01
  if (!port_->submission().has_cancel()) return;
  if (reached == vidsch::Reached::kHardware) return;  // CANCEL-22
  const bool given_back_too = options_.cancel_reading == CancelReading::kAlsoGivenBack;
  if (reached == vidsch::Reached::kGivenBack && !given_back_too) return;  // CANCEL-21
  // CANCEL-23: there is no DMA buffer, or the scheduler's queue is not where it would have run.
  const bool paging = packet.kind == vidsch::PacketKind::kPaging;
  if (!paging && packet.kind != vidsch::PacketKind::kRender) return;
  if (packet.flags.context_switch) return;
  if (packet.context != nullptr && packet.context->of_hw_queue()) return;
  // Of paging: CANCEL-20.
  const bool by_address = paging ? gpu_va_ != nullptr : packet.context->virtual_addressing();
  const Status status = by_address
                            ? port_->submission().cancel(virtual_args(packet))
                            : port_->submission().cancel(patch_args(packet, SubmissionFenceId{}));
  static_cast<void>(status);  // a failure is fatal and was reported by the port (CANCEL-18)
}

void Adapter::retired(PacketId id, vidsch::PacketOutcome outcome, vidsch::Reached reached) {
  Packet& packet = packets_.at(id);
  const bool completed = outcome == vidsch::PacketOutcome::kCompleted;
  const bool reached_hardware = reached != vidsch::Reached::kQueue;
  const bool work =
      packet.kind == vidsch::PacketKind::kRender || packet.kind == vidsch::PacketKind::kPaging;
  if (work) {
    if (completed) ++counters_.packets_completed;
    if (outcome == vidsch::PacketOutcome::kCancelled) ++counters_.packets_cancelled;
    if (outcome == vidsch::PacketOutcome::kFaulted) ++counters_.packets_faulted;
  }
  count_engine_work(packet, false);
  if (completed && packet.kind == vidsch::PacketKind::kSignal) ++counters_.sync_signals;
  if (outcome == vidsch::PacketOutcome::kFaulted && reached_hardware && !failed_) {
    blame(packet);
  }
  if (packet.counts_as_present) --packet.context->device().queued_presents;
  const std::pair<uint32_t, uint64_t> flip{packet.vidpn_source, packet.flip};
  if (!completed) cancel_packet(packet, reached);  // before anything it is made of is used again
  if (packet.flags.context_switch) {
    context_allocations_->switched(packet);
  } else if (packet.kind == vidsch::PacketKind::kPaging) {
    paging_->packet_retired(packet, completed);
  } else {
    if (packet.context->of_hw_queue()) hw_queues_->packet_left(packet);
    if (packet.pinned) memory_->release(packet.uses);
    residency_->packet_retired(packet.context->device(), packet);
    if (packet.buffer != nullptr) drop_buffer_user(*packet.buffer);
  }
  packets_.destroy(packet);
  // A DMA buffer's flip ends at a vertical sync, unless it never began.
  if (flip.second != 0 && (!work || !reached_hardware))
    display_->flips()->reached(flip.first, flip.second, completed && !work);
  progress();
}

NodeOrdinal Adapter::node_of(const Packet& packet) const {
  if (packet.flags.context_switch) return packet.switched_node;
  return packet.context == nullptr ? NodeOrdinal{caps_.paging_node} : packet.context->node();
}

void Adapter::count_engine_work(const Packet& packet, bool comes) {
  if (!runtime_power_) return;
  if (packet.kind != vidsch::PacketKind::kRender && packet.kind != vidsch::PacketKind::kPaging)
    return;
  if (comes) {
    runtime_power_->add_work(node_of(packet));
    return;
  }
  runtime_power_->remove_work(node_of(packet));
  // Not from here: the scheduler is in the middle of something.
  if (std::exchange(rest_posted_, true)) return;
  lane_.post([this] {
    rest_posted_ = false;
    if (runtime_power_ && !failed_) runtime_power_->look();
  });
}

Status Adapter::set_component_f_state(uint32_t component, uint32_t f_state) {
  return failed_ ? Status::kDeviceRemoved
                 : port_->power().set_component_f_state(component, f_state);
}

void Adapter::hold_node(NodeOrdinal node, bool held) { scheduler_->hold_node(node, held); }

void Adapter::unexpected_completion(uint32_t component) {
  findings_.report({.rule = "PWR-12",
                    .severity = verifier::Severity::kViolation,
                    .ddi = "DxgkCbCompleteFStateTransition",
                    .actual = fmt::format("It was called for component {}, which has no "
                                          "transition to complete.",
                                          component),
                    .expected = "Once per DxgkDdiSetPowerComponentFState, for components with "
                                "DriverCompletesFStateTransition.",
                    .fix = "Complete each transition once; clear the flag if the transition ends "
                           "with the DDI."});
}

void Adapter::explain_page_fault(const Packet& packet) {
  if (page_fault_ == nullptr || gpu_va_ == nullptr) return;
  const port::InterruptReport& report = *page_fault_;
  // A general code, and not that of page faults: no address is to blame.
  if ((report.error_code & 1U) == 0 && report.error_code != 0) return;
  const bool write = (report.flags & port::InterruptReport::kFaultWrite) != 0;
  const bool paging = packet.kind == vidsch::PacketKind::kPaging;
  if (!paging && !packet.context->virtual_addressing()) return;
  const Process* const process = paging ? nullptr : &packet.context->device().process();
  GpuVa::Fault fault = gpu_va_->explain(paging ? 0 : process->number(), report.address, write);
  const std::string who = paging
                              ? "The paging process"
                              : fmt::format("Process {} ({})", process->number(), process->name());
  findings_.report(
      {.rule = "VA-28",
       .severity = verifier::Severity::kWarning,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual = fmt::format("{} {} 0x{:X}, {}: DMA_PAGE_FAULTED for fence {} of node {}, ended at "
                             "page table level {}.",
                             who, write ? "wrote to" : "read", report.address, fault.reason,
                             report.fence, report.node, report.page_table_level),
       .expected = "GPU work uses addresses that are mapped, with the right to do so, to "
                   "allocations that are resident, behind the fences that say so.",
       .fix = fault.advice,
       .why = fault.story,
       .windows = "The device is removed: D3DKMTGetDeviceState answers ERROR_DMAPAGEFAULT; nothing "
                  "says what was mapped there."});
}

void Adapter::blame(const Packet& packet) {
  explain_page_fault(packet);
  if (packet.kind != vidsch::PacketKind::kPaging) {
    Device& device = packet.context->device();
    if (page_fault_ != nullptr && !device.lost()) device.page_fault = *page_fault_;  // INT-19
    device.set_error(fault_state_);  // a device that is lost already stays as it is
    return;
  }
  fail(verifier::Finding{
      .rule = "PAGE-49",
      .severity = verifier::Severity::kBugCheck,
      .ddi = "DxgkCbNotifyInterrupt",
      .actual = fmt::format("The paging packet that covers bytes [{}, {}) of its buffer faulted.",
                            packet.slice.start, packet.slice.end),
      .expected = "Commands built by DxgkDdiBuildPagingBuffer run to completion.",
      .fix =
          "Check the addresses and sizes the paging commands carry, and that the engine may reach "
          "both sides of the transfer.",
      .bugcheck_code = 0x119,
      .bugcheck_parameter = 0x5});
}

void Adapter::drop_buffer_user(DmaBuffer& buffer) {
  DXGKIT_CHECK(buffer.users > 0);
  if (--buffer.users == 0) buffer.pool->recycle(buffer);
}

void Adapter::preempt(NodeOrdinal node, SubmissionFenceId preemption_fence) {
  timeout_->preemption_asked(node, preemption_fence);
  const bool idle = scheduler_->node_status(node).hardware_queue_length == 0;
  const Status status = port_->submission().preempt(node, preemption_fence, idle);
  static_cast<void>(status);  // fatal failures are reported by the port (PREEMPT-11)
}

PagingTarget Adapter::paging_target(AllocationId id) {
  const Allocation& allocation = allocations_.at(id);
  PagingTarget target;
  target.driver_allocation = allocation.driver_handle;
  target.pages = allocation.pages.numbers();
  target.cached = allocation.cached;
  context_allocations_->describe(id, &target);
  if (!allocation.opened.empty()) target.device = allocation.opened.front()->device_specific;
  return target;
}

bool Adapter::perform(const vidmm::PagingOp& op) {
  const bool map = op.kind == vidmm::PagingOp::Kind::kMapAperture;
  if (!map && op.kind != vidmm::PagingOp::Kind::kUnmapAperture) return false;
  if (!memory_->segments()[op.place.segment.value - 1].agp) return false;
  if (map) {
    machine_.gart_map(op.place.offset_bytes, allocations_.at(op.allocation).pages.numbers());
  } else {
    machine_.gart_unmap(op.place.offset_bytes, op.size_bytes / kPageBytes);
  }
  return true;
}

void Adapter::before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work) {
  cpu_windows_->leaving(op);
  if (hw_queues_) hw_queues_->before(op, work);
  context_allocations_->before(op, work);
  if (gpu_va_) gpu_va_->before(op, work);
}

void Adapter::behind(std::span<const vidmm::PagingOp> operations,
                     std::vector<std::unique_ptr<PagingWork>>* work) {
  if (gpu_va_) gpu_va_->behind(operations, work);
}

std::unique_ptr<PagingWork> Adapter::translate(const vidmm::PagingOp& op) {
  return gpu_va_ ? gpu_va_->translate(op) : nullptr;
}

void Adapter::operation_done(const vidmm::PagingOp& op) {
  Allocation& allocation = allocations_.at(op.allocation);
  if (!allocation.forgotten) memory_->operation_done(op);
  if (hw_queues_) hw_queues_->operation_done(op);
  progress();
}

}  // namespace dxgkit::dxgk
