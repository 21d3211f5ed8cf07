#include "port/core/work_situations.h"

#include <algorithm>

#include "base/ids.h"

namespace dxgkit::port {
namespace {

using verifier::Situation;

constexpr uint32_t kApertureFlag = 1;  // DXGK_SEGMENTFLAGS.Aperture
constexpr size_t kContextsKept = 3;
constexpr size_t kPartsKept = 4096;

bool is_done(uint32_t fence, uint32_t last_completed) {
  return !fence_newer(SubmissionFenceId{fence}, SubmissionFenceId{last_completed});
}

}  // namespace

const WorkSituations::Form WorkSituations::kPhysical{
    .paging = Situation::kSubmitPaging,
    .idle_node = Situation::kSubmitIdleNode,
    .busy_node = Situation::kSubmitBusyNode,
    .other_node_busy = Situation::kSubmitOtherNodeBusy,
    .second_node = Situation::kSubmitSecondNode,
    .other_context = Situation::kSubmitOtherContext,
    .resubmission = Situation::kSubmitResubmission,
    .null_rendering = Situation::kSubmitNullRendering,
    .no_private_data = Situation::kSubmitNoPrivateData,
    .after_reset = Situation::kSubmitAfterReset,
    .after_power = Situation::kSubmitAfterPower};

const WorkSituations::Form WorkSituations::kVirtual{
    .paging = Situation::kSubmitVirtualPaging,
    .idle_node = Situation::kSubmitVirtualIdleNode,
    .busy_node = Situation::kSubmitVirtualBusyNode,
    .other_node_busy = Situation::kSubmitVirtualOtherNodeBusy,
    .second_node = Situation::kSubmitVirtualSecondNode,
    .other_context = Situation::kSubmitVirtualOtherContext,
    .resubmission = Situation::kSubmitVirtualResubmission,
    .null_rendering = Situation::kSubmitVirtualNullRendering,
    .no_private_data = Situation::kSubmitVirtualNoPrivateData,
    .after_reset = Situation::kSubmitVirtualAfterReset,
    .after_power = Situation::kSubmitVirtualAfterPower};

void WorkSituations::patched(const PatchArgs& args, std::span<const SegmentInfo> segments) {
  log_.reach(Situation::kPatchPartBehindStart, args.slice.start != 0);
  log_.reach(Situation::kPatchPartBeforeEnd, args.slice.end < args.buffer.size_bytes);
  log_.reach(Situation::kPatchElementsBehindStart, args.patch_start != 0);
  log_.reach(Situation::kPatchElementsBehindEnd,
             args.patch_start + args.patch_length < args.patch_count);
  log_.reach(Situation::kPatchNoElements, args.patch_length == 0);
  log_.reach(Situation::kPatchPaging, args.flags.paging);
  log_.reach(Situation::kPatchNoPrivateData, args.buffer.private_size_bytes == 0);
  log_.reach(Situation::kPatchPrivateBehindStart, args.slice.private_start != 0);
  look_at_elements(args, segments);
  const SpinGuard guard(lock_);
  log_.reach(Situation::kPatchOtherContext,
             last_patched_ != nullptr && last_patched_ != args.context);
  last_patched_ = args.context;
  if (contexts_.size() < kContextsKept &&
      std::ranges::find(contexts_, args.context) == contexts_.end())
    contexts_.push_back(args.context);
  log_.reach(Situation::kPatchSecondContext, contexts_.size() == kContextsKept);
  if (args.flags.paging || args.patch_length == 0) return;
  uint64_t addresses = 0;
  for (uint32_t i = args.patch_start; i < args.patch_start + args.patch_length; ++i) {
    const uint32_t index = args.patches[i].allocation_index;
    if (index < args.allocation_count)
      addresses = addresses * 31 + args.allocations[index].physical_address;
  }
  if (patched_.size() > kPartsKept) patched_.clear();
  const auto [at, is_new] = patched_.try_emplace({args.buffer.cpu, args.slice.start});
  if (args.flags.resubmission && !is_new) {
    log_.reach(Situation::kPatchAgain, at->second == addresses);
    log_.reach(Situation::kPatchAgainMoved, at->second != addresses);
  }
  at->second = addresses;
}

void WorkSituations::look_at_elements(const PatchArgs& args,
                                      std::span<const SegmentInfo> segments) {
  bool several = false;
  for (uint32_t i = args.patch_start; i < args.patch_start + args.patch_length; ++i) {
    const PatchLocation& element = args.patches[i];
    several =
        several || element.allocation_index != args.patches[args.patch_start].allocation_index;
    log_.reach(Situation::kPatchAllocationOffset, element.allocation_offset != 0);
    if (element.allocation_index >= args.allocation_count) continue;
    const AllocationListEntry& entry = args.allocations[element.allocation_index];
    const bool there = entry.device_handle != nullptr;
    log_.reach(Situation::kPatchNullEntry, !there);
    log_.reach(Situation::kPatchWritten, there && entry.write());
    if (entry.segment() == 0 || entry.segment() > segments.size()) continue;
    const bool aperture = (segments[entry.segment() - 1].flags & kApertureFlag) != 0;
    log_.reach(aperture ? Situation::kPatchApertureAddress : Situation::kPatchMemoryAddress, there);
  }
  log_.reach(Situation::kPatchSeveralAllocations, several);
}

void WorkSituations::look_at(const Form& form, void* context, const PacketFlags& flags,
                             NodeOrdinal node, SubmissionFenceId fence, bool private_data) {
  log_.reach(form.paging, flags.paging);
  log_.reach(form.second_node, node.value != 0);
  log_.reach(form.resubmission, flags.resubmission);
  log_.reach(form.null_rendering, flags.null_rendering);
  log_.reach(form.no_private_data, !private_data);
  const SpinGuard guard(lock_);
  Node& mine = nodes_[node.value];
  log_.reach(form.idle_node, mine.open.empty());
  log_.reach(form.busy_node, !mine.open.empty());
  log_.reach(form.other_node_busy, other_node_busy(node.value));
  log_.reach(form.other_context, mine.last_context != nullptr && mine.last_context != context);
  log_.reach(form.after_reset, std::exchange(mine.after_reset, false));
  log_.reach(form.after_power, std::exchange(mine.after_power, false));
  mine.last_context = context;
  mine.open.push_back({fence.value, flags.resubmission});
}

void WorkSituations::submitted(const SubmitArgs& args) {
  log_.reach(Situation::kSubmitPartBehindStart, args.slice.start != 0);
  log_.reach(Situation::kSubmitPrivateBehindStart, args.slice.private_start != 0);
  log_.reach(Situation::kSubmitBufferInSegment, args.buffer.segment != kSystemMemory);
  log_.reach(Situation::kSubmitContextSwitch, args.flags.context_switch);
  log_.reach(Situation::kSubmitPresent, args.flags.present);
  log_.reach(Situation::kSubmitFlip, args.flags.flip || args.flags.flip_with_no_wait);
  look_at(kPhysical, args.context, args.flags, args.node, args.fence,
          args.buffer.private_size_bytes != 0);
}

void WorkSituations::submitted(const SubmitVirtualArgs& args, bool refused) {
  log_.reach(Situation::kSubmitVirtualRefused, refused);
  if (refused) return;
  log_.reach(Situation::kSubmitVirtualUserPrivateData, args.user_private_bytes != 0);
  look_at(kVirtual, args.context, args.flags, args.node, args.fence, args.private_bytes != 0);
}

void WorkSituations::preempt(NodeOrdinal node, bool idle) {
  log_.reach(Situation::kPreemptIdle, idle);
  log_.reach(Situation::kPreemptSecondNode, node.value != 0);
  const SpinGuard guard(lock_);
  Node& mine = nodes_[node.value];
  mine.at_request = mine.open.size();
  log_.reach(Situation::kPreemptOne, mine.open.size() == 1);
  log_.reach(Situation::kPreemptSeveral, mine.open.size() >= 2);
  log_.reach(Situation::kPreemptOtherNodeBusy, other_node_busy(node.value));
  log_.reach(Situation::kPreemptAgain, std::ranges::any_of(mine.open, &Submission::again));
}

void WorkSituations::cancelled(const PatchArgs& args) {
  log_.reach(args.flags.paging ? Situation::kCancelPaging : Situation::kCancelRendering);
  log_.reach(Situation::kCancelPartBehindStart, args.slice.start != 0);
  log_.reach(Situation::kCancelElementsBehindStart, args.patch_start != 0);
}

void WorkSituations::cancelled_virtual(const PacketFlags& flags) {
  log_.reach(flags.paging ? Situation::kCancelPaging : Situation::kCancelRendering);
  log_.reach(Situation::kCancelVirtual);
}

void WorkSituations::rendered(const RenderArgs& args, const RenderResult& result) {
  log_.reach(Situation::kRenderSecondPass, args.multipass_offset != 0);
  log_.reach(Situation::kRenderInsufficient,
             result.status == Status::kGraphicsInsufficientDmaBuffer);
  log_.reach(Situation::kRenderNoAllocations, args.allocation_count == 0);
  log_.reach(Situation::kRenderRefused,
             !is_success(result.status) && result.status != Status::kGraphicsInsufficientDmaBuffer);
  for (const AllocationListEntry& entry : std::span(args.allocations, args.allocation_count)) {
    if (entry.device_handle == nullptr) continue;
    log_.reach(entry.segment() != 0 ? Situation::kRenderPrepatched : Situation::kRenderNotResident,
               true);
  }
}

void WorkSituations::presented(const PresentArgs& args) {
  log_.reach(Situation::kPresentBlt, args.flags.blt);
  log_.reach(Situation::kPresentColorFill, args.flags.color_fill);
  log_.reach(Situation::kPresentFlip, args.flags.flip || args.flags.flip_with_no_wait);
}

void WorkSituations::reported(const InterruptReport& report) {
  using Type = InterruptReport::Type;
  const bool write = (report.flags & InterruptReport::kFaultWrite) != 0;
  switch (report.type) {
    case Type::kDmaCompleted: {
      const SpinGuard guard(lock_);
      const size_t done = complete(nodes_[report.node], report.fence);
      log_.reach(Situation::kInterruptCompleted, done != 0);
      log_.reach(Situation::kInterruptSeveralCompleted, done >= 2);
      log_.reach(Situation::kInterruptOtherNode, report.node != 0);
      return;
    }
    case Type::kDmaPreempted: {
      const SpinGuard guard(lock_);
      answered(report);
      return;
    }
    case Type::kDmaFaulted:
      log_.reach(Situation::kInterruptFaulted);
      break;
    case Type::kDmaPageFaulted:
    case Type::kHwQueuePageFaulted:
      log_.reach(write ? Situation::kInterruptPageFaultWrite : Situation::kInterruptPageFaultRead);
      break;
    case Type::kCrtcVsync:
      log_.reach(Situation::kInterruptVsync);
      return;
    case Type::kDisplayOnlyVsync:
      log_.reach(Situation::kInterruptVsyncDisplayOnly);
      return;
    case Type::kPresentProgress:
      log_.reach(Situation::kInterruptPresentProgress);
      return;
    case Type::kMonitoredFenceSignaled:
      log_.reach(Situation::kInterruptMonitoredFence);
      return;
    case Type::kSuspendCompleted:
      log_.reach(Situation::kInterruptSuspendCompleted);
      return;
    case Type::kNativeFenceSignaled:
      log_.reach(Situation::kInterruptNativeFence);
      return;
    case Type::kOther:
      return;
  }
  // A fault ends what it names, and all before it.
  if (report.type == Type::kHwQueuePageFaulted || report.fence == 0) return;
  const SpinGuard guard(lock_);
  complete(nodes_[report.node], report.fence);
}

size_t WorkSituations::complete(Node& node, uint32_t fence) {
  size_t done = 0;
  for (; !node.open.empty() && is_done(node.open.front().fence, fence); ++done)
    node.open.pop_front();
  return done;
}

void WorkSituations::answered(const InterruptReport& report) {
  Node& mine = nodes_[report.node];
  complete(mine, report.last_completed);
  const size_t back = mine.open.size();
  if (mine.at_request != 0) {
    log_.reach(Situation::kPreemptAllDone, back == 0);
    log_.reach(Situation::kPreemptAllGivenBack, back >= mine.at_request);
    log_.reach(Situation::kPreemptSomeGivenBack, back != 0 && back < mine.at_request);
  }
  mine.open.clear();
}

void WorkSituations::reset_engine(NodeOrdinal node) {
  log_.reach(Situation::kTimeoutSecondNode, node.value != 0);
  const SpinGuard guard(lock_);
  Node& mine = nodes_[node.value];
  log_.reach(Situation::kTimeoutEngineBusy, !mine.open.empty());
  log_.reach(Situation::kTimeoutEngineSeveral, mine.open.size() >= 2);
  log_.reach(Situation::kTimeoutEngineOtherBusy, other_node_busy(node.value));
  mine.open.clear();
  mine.after_reset = true;
}

void WorkSituations::reset_adapter() {
  const SpinGuard guard(lock_);
  log_.reach(anything_open() ? Situation::kTimeoutAdapterBusy : Situation::kTimeoutAdapterIdle);
  for (auto& [ordinal, node] : nodes_) {
    node.open.clear();
    node.after_reset = true;
  }
}

void WorkSituations::power_is_back() {
  const SpinGuard guard(lock_);
  for (auto& [ordinal, node] : nodes_) node.after_power = true;
}

void WorkSituations::removed() {
  const SpinGuard guard(lock_);
  log_.reach(Situation::kRemovalSurprise);
  log_.reach(Situation::kRemovalBusy, anything_open());
}

bool WorkSituations::other_node_busy(uint32_t node) const {
  return std::ranges::any_of(
      nodes_, [&](const auto& one) { return one.first != node && !one.second.open.empty(); });
}

bool WorkSituations::anything_open() const {
  return std::ranges::any_of(nodes_, [](const auto& one) { return !one.second.open.empty(); });
}

}  // namespace dxgkit::port
