#include "port/core/interrupts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/paged.h"
#include "nt/polls.h"
#include "port/core/port_core.h"
#include "trace/trace.h"

namespace dxgkit::port {
namespace {

constexpr const char* kIsrName = "DxgkDdiInterruptRoutine";
constexpr const char* kDpcName = "DxgkDdiDpcRoutine";
constexpr const char* kSynchronizedName = "synchronised routine";
/// How often in a row an ISR may claim an interrupt silently, or refuse the only device on its line
/// (INT-08, our choice).
constexpr uint32_t kStormBound = 1000;
constexpr uint32_t kRefusalBound = 100;
/// So often in a row a driver that claims interrupts of others is believed to have a cause of its
/// own.
constexpr uint32_t kOwnCausesBound = 3;
/// Native fences one report may name (our choice).
constexpr uint32_t kSignaledFencesMost = 4096;

bool is_crtc(DXGK_INTERRUPT_TYPE type) {
  switch (type) {
    case DXGK_INTERRUPT_CRTC_VSYNC:
    case DXGK_INTERRUPT_DISPLAYONLY_VSYNC:
    case DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY:
    case DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2:
    case DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3:
      return true;
    default:
      return false;
  }
}

bool is_dma(DXGK_INTERRUPT_TYPE type) {
  return type == DXGK_INTERRUPT_DMA_COMPLETED || type == DXGK_INTERRUPT_DMA_PREEMPTED ||
         type == DXGK_INTERRUPT_DMA_FAULTED || type == DXGK_INTERRUPT_DMA_PAGE_FAULTED;
}

/// The planes that a vertical sync names. The driver's list is hostile and has at most kPlanesMost
/// elements.
template <typename Info>
void read_planes(const Info* infos, uint32_t count, InterruptReport* report) {
  constexpr uint32_t kPlanesMost = 64;
  report->planes = count;
  if (infos == nullptr) return;
  for (uint32_t i = 0; i < std::min(count, kPlanesMost); ++i) {
    report->highest_plane = std::max<uint32_t>(report->highest_plane, infos[i].LayerIndex);
    ShownPlane plane{.layer = static_cast<uint32_t>(infos[i].LayerIndex)};
    if constexpr (requires { infos[i].PhysicalAddress; }) {
      plane.enabled = infos[i].Enabled != FALSE;
      plane.address = static_cast<uint64_t>(infos[i].PhysicalAddress.QuadPart);
      if (infos[i].LayerIndex == 0) report->address = plane.address;
    } else {
      plane.by_id = true;
      plane.present_id = infos[i].PresentId;
      plane.post_present = infos[i].Flags.PostPresentNeeded != 0;
    }
    report->shown_planes.push_back(plane);
  }
}

InterruptReport report_of(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data, uint32_t version) {
  InterruptReport report;
  report.raw_type = static_cast<uint32_t>(data.InterruptType);
  switch (data.InterruptType) {
    case DXGK_INTERRUPT_DMA_COMPLETED:
      report.type = InterruptReport::Type::kDmaCompleted;
      report.fence = data.DmaCompleted.SubmissionFenceId;
      report.node = data.DmaCompleted.NodeOrdinal;
      report.engine = data.DmaCompleted.EngineOrdinal;
      break;
    case DXGK_INTERRUPT_DMA_PREEMPTED:
      report.type = InterruptReport::Type::kDmaPreempted;
      report.fence = data.DmaPreempted.PreemptionFenceId;
      report.last_completed = data.DmaPreempted.LastCompletedFenceId;
      report.node = data.DmaPreempted.NodeOrdinal;
      report.engine = data.DmaPreempted.EngineOrdinal;
      break;
    case DXGK_INTERRUPT_DMA_FAULTED:
      report.type = InterruptReport::Type::kDmaFaulted;
      report.fence = data.DmaFaulted.FaultedFenceId;
      report.status = data.DmaFaulted.Status;
      report.node = data.DmaFaulted.NodeOrdinal;
      report.engine = data.DmaFaulted.EngineOrdinal;
      break;
    case DXGK_INTERRUPT_CRTC_VSYNC:
      report.type = InterruptReport::Type::kCrtcVsync;
      report.node = data.CrtcVsync.VidPnTargetId;
      report.source = data.CrtcVsync.VidPnTargetId;
      report.address = static_cast<uint64_t>(data.CrtcVsync.PhysicalAddress.QuadPart);
      break;
    case DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY: {
      const auto& vsync = data.CrtcVsyncWithMultiPlaneOverlay;
      report.type = InterruptReport::Type::kCrtcVsync;
      report.source = vsync.VidPnTargetId;
      read_planes(vsync.pMultiPlaneOverlayVsyncInfo, vsync.MultiPlaneOverlayVsyncInfoCount,
                  &report);
      break;
    }
    case DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2: {
      const auto& vsync = data.CrtcVsyncWithMultiPlaneOverlay2;
      report.type = InterruptReport::Type::kCrtcVsync;
      report.source = vsync.VidPnTargetId;
      report.planes_by_id = true;
      read_planes(vsync.pMultiPlaneOverlayVsyncInfo, vsync.MultiPlaneOverlayVsyncInfoCount,
                  &report);
      break;
    }
    case DXGK_INTERRUPT_DISPLAYONLY_VSYNC:
      report.type = InterruptReport::Type::kDisplayOnlyVsync;
      report.source = data.DisplayOnlyVsync.VidPnTargetId;
      break;
    case DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS:
      report.type = InterruptReport::Type::kPresentProgress;
      report.source = data.DisplayOnlyPresentProgress.VidPnSourceId;
      report.failed = data.DisplayOnlyPresentProgress.ProgressId !=
                      DXGK_PRESENT_DISPLAYONLY_PROGRESS_ID_COMPLETE;
      break;
    case DXGK_INTERRUPT_DMA_PAGE_FAULTED:
      report.type = InterruptReport::Type::kDmaPageFaulted;
      report.fence = data.DmaPageFaulted.FaultedFenceId;
      report.node = data.DmaPageFaulted.NodeOrdinal;
      report.engine = data.DmaPageFaulted.EngineOrdinal;
      report.address = data.DmaPageFaulted.FaultedVirtualAddress;
      report.flags = static_cast<uint32_t>(data.DmaPageFaulted.PageFaultFlags);
      report.primitive = data.DmaPageFaulted.FaultedPrimitiveAPISequenceNumber;
      report.pipeline_stage = static_cast<uint32_t>(data.DmaPageFaulted.FaultedPipelineStage);
      report.bind_table_entry = data.DmaPageFaulted.FaultedBindTableEntry;
      report.page_table_level = data.DmaPageFaulted.PageTableLevel;
      static_assert(sizeof(report.error_code) == sizeof(data.DmaPageFaulted.FaultErrorCode));
      std::memcpy(&report.error_code, &data.DmaPageFaulted.FaultErrorCode,
                  sizeof(report.error_code));
      if (version >= kInterfaceWddm22 &&
          (report.flags & InterruptReport::kFaultProcessValid) != 0) {
        report.process = data.DmaPageFaulted.FaultedProcessHandle;
      }
      break;
    case DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED:
      report.type = InterruptReport::Type::kMonitoredFenceSignaled;
      report.node = data.MonitoredFenceSignaled.NodeOrdinal;
      report.engine = data.MonitoredFenceSignaled.EngineOrdinal;
      break;
    case DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED:
      report.type = InterruptReport::Type::kHwQueuePageFaulted;
      report.fence64 = data.HwQueuePageFaulted.FaultedFenceId;
      report.handle = data.HwQueuePageFaulted.FaultedHwQueue;
      report.node = data.HwQueuePageFaulted.NodeOrdinal;
      report.engine = data.HwQueuePageFaulted.EngineOrdinal;
      report.address = data.HwQueuePageFaulted.FaultedVirtualAddress;
      report.flags = static_cast<uint32_t>(data.HwQueuePageFaulted.PageFaultFlags);
      report.page_table_level = data.HwQueuePageFaulted.PageTableLevel;
      break;
    case DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED:
      report.type = InterruptReport::Type::kSuspendCompleted;
      report.fence64 = data.SuspendContextCompleted.ContextSuspendFence;
      report.handle = data.SuspendContextCompleted.hContext;
      break;
    case DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED: {
      const auto& signaled = data.NativeFenceSignaled;
      report.type = InterruptReport::Type::kNativeFenceSignaled;
      report.node = signaled.NodeOrdinal;
      report.engine = signaled.EngineOrdinal;
      report.legacy_fences_too = data.Flags.EvaluateLegacyMonitoredFences != 0;
      if (signaled.pSignaledNativeFenceArray == nullptr) break;
      // An impossible list is read as far as it may be valid.
      const uint32_t count = std::min(signaled.SignaledNativeFenceCount, kSignaledFencesMost);
      report.handles.assign(signaled.pSignaledNativeFenceArray,
                            signaled.pSignaledNativeFenceArray + count);
      break;
    }
    default:
      break;
  }
  return report;
}

/// Whether the report names an engine.
bool names_engine(InterruptReport::Type type) {
  using Type = InterruptReport::Type;
  return type == Type::kDmaCompleted || type == Type::kDmaPreempted || type == Type::kDmaFaulted ||
         type == Type::kDmaPageFaulted || type == Type::kMonitoredFenceSignaled ||
         type == Type::kHwQueuePageFaulted || type == Type::kNativeFenceSignaled;
}

}  // namespace

Interrupts::Interrupts(PortCore& core) : core_(core) {
  dpc_.routine = reinterpret_cast<nt::DeferredRoutine>(&dpc_routine);
  dpc_.context = this;
  reports_.reserve(64);
  spare_.reserve(64);
}

uint32_t Interrupts::this_thread() const { return core_.kernel.runtime().thread_number() + 1; }

bool Interrupts::service() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (is_dead(core_) || core_.ddi.DxgkDdiInterruptRoutine == nullptr) return false;
  if (owner_.load(std::memory_order_relaxed) == this_thread()) {
    // The thread that holds the interrupt lock accessed the device and so raised the line. As on a
    // processor at DIRQL, the interrupt stays pending until the lock is released.
    again_.store(true, std::memory_order_relaxed);
    return true;
  }
  return serve(/*for_another=*/false);
}

void Interrupts::raised_by_another() {
  if (is_dead(core_) || core_.ddi.DxgkDdiInterruptRoutine == nullptr || !connected()) return;
  static_cast<void>(serve(/*for_another=*/true));
}

bool Interrupts::serve(bool for_another) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  nt::CallFrame frame(core_.kernel, kIsrName, nt::kDeviceLevel);
  nt::at_level(core_.kernel, nt::kDispatchLevel);
  frame.owner = &core_;
  take_lock();
  const bool claimed = run_isr(frame, for_another);
  leave_lock(frame);
  return claimed;  // the frame's end lowers the level: the DPC runs there
}

bool Interrupts::run_isr(nt::CallFrame& frame, bool for_another) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  trace::Recorder* const recorder = trace::current();
  if (recorder != nullptr)
    recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(kIsrName), nt::kDeviceLevel);
  isr_ = IsrState{.inside = true};
  BOOLEAN answer = FALSE;
  const bool completed =
      frame.call(core_.ddi.DxgkDdiInterruptRoutine, &answer, core_.context, ULONG{0});
  const IsrState seen = isr_;
  isr_ = IsrState{};
  if (recorder != nullptr) {
    recorder->record(trace::EventKind::kDdiExit, recorder->name_id(kIsrName), answer,
                     nt::kDeviceLevel);
  }
  if (!completed) return false;
  const bool claimed = answer != FALSE;
  if (frame.irql() != nt::kDeviceLevel) [[unlikely]] {
    core_.irql_violation(DdiInfo{kIsrName, nt::kDeviceLevel, DdiClass::kLevelZero}, frame.irql());
    frame.restore_entry_irql();
  }
  end_isr_checks(claimed, seen, for_another);
  return claimed;
}

void Interrupts::end_isr_checks(bool claimed, const IsrState& seen, bool for_another) {
  if (core_.situations != nullptr) [[unlikely]] {
    using verifier::Situation;
    if (!claimed) core_.situations->reach(Situation::kInterruptNotOurs);
    if (starting_.load(std::memory_order_relaxed))
      core_.situations->reach(Situation::kInterruptDuringStart);
  }
  if (seen.reported && !seen.queued_dpc) [[unlikely]] {
    (void)core_.violation(
        "INT-03", kIsrName, "It called DxgkCbNotifyInterrupt and returned without DxgkCbQueueDpc.",
        "After a report the ISR queues a DPC; until then the report stays unseen.",
        "Call DxgkCbQueueDpc before returning TRUE.", Status::kSuccess);
  }
  if (!claimed && seen.reported) [[unlikely]] {
    (void)core_.violation("INT-08", kIsrName, "It reported an interrupt and returned FALSE.",
                          "TRUE for an interrupt of its adapter, FALSE for others.",
                          "Return TRUE once the interrupt is dismissed.", Status::kSuccess);
  }
  if (for_another) [[unlikely]] {
    // A cause of its own may have come just then. It is dismissed by that, and not there again.
    const bool for_own_cause = claimed && !seen.reported && seen.queued_dpc;
    own_causes_ = for_own_cause ? own_causes_ + 1 : 0;
    if (!claimed || seen.reported || (for_own_cause && own_causes_ != kOwnCausesBound)) return;
    (void)core_.violation(
        "INT-08", kIsrName,
        for_own_cause
            ? "Another device on its line interrupted again and again. Each time it returned TRUE "
              "and queued a DPC, and it reported nothing."
            : "Another device on its line interrupted while the adapter was idle. It "
              "returned TRUE, reported nothing and queued no DPC.",
        "FALSE for an interrupt of another device. TRUE ends the search, and the other device "
        "waits for ever.",
        "Read the causes of your device, and return FALSE if there is none.", Status::kSuccess);
    return;
  }
  refusals_ = claimed ? 0 : refusals_ + 1;
  silent_claims_ = claimed && !seen.reported && !seen.queued_dpc ? silent_claims_ + 1 : 0;
  if (refusals_ == kRefusalBound) [[unlikely]] {
    (void)core_.violation(
        "INT-08", kIsrName,
        fmt::format("It returned FALSE {} times in a row on a line with no other device.",
                    kRefusalBound),
        "TRUE for an interrupt of its adapter.",
        "Check how the ISR recognises its device's interrupt.", Status::kSuccess);
  }
  if (silent_claims_ == kStormBound) [[unlikely]] {
    (void)core_.violation(
        "INT-08", kIsrName,
        fmt::format(
            "It claimed {} interrupts in a row without reporting anything or queueing a DPC.",
            kStormBound),
        "A claimed interrupt is dismissed in the device, so that the line falls.",
        "Acknowledge the interrupt in the device before returning TRUE.", Status::kSuccess);
  }
}

void Interrupts::leave_lock(nt::CallFrame& frame) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  while (again_.load(std::memory_order_relaxed)) {  // nobody else sets it
    again_.store(false, std::memory_order_relaxed);
    if (is_dead(core_) || !connected_.load(std::memory_order_relaxed)) break;
    nt::CallFrame inner(core_.kernel, kIsrName, nt::kDeviceLevel);
    inner.owner = &core_;
    static_cast<void>(run_isr(inner, /*for_another=*/false));
  }
  (void)frame;
  owner_.store(0, std::memory_order_relaxed);
  lock_.unlock();
}

void Interrupts::take_lock() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  owner_.store(this_thread(), std::memory_order_relaxed);
  isr_ = IsrState{};
}

void Interrupts::enter_lock() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  nt::at_level(core_.kernel, nt::kDispatchLevel);  // IRQL-13
  take_lock();
}

void Interrupts::leave_lock() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  leave_lock(nt::CallFrame::current());
}

void Interrupts::notify_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  const bool owner = owner_.load(std::memory_order_relaxed) == this_thread();
  const nt::Irql irql = nt::CallFrame::current().irql();
  if (!owner || irql < nt::kDeviceLevel) [[unlikely]] {
    (void)core_.violation(
        "INT-01", "DxgkCbNotifyInterrupt",
        fmt::format("It was called at {} in {}, outside the interrupt lock.", nt::irql_name(irql),
                    nt::CallFrame::current().name()),
        "It is called at device interrupt level: in the ISR or in a routine run by "
        "DxgkCbSynchronizeExecution.",
        "Wrap the call with DxgkCbSynchronizeExecution.", Status::kSuccess);
  }
  InterruptReport report = report_of(data, core_.version);
  if (names_engine(report.type) && report.node < 64) {
    // Relaxed: a report that races with the end of the reset may be taken for either side of it.
    const uint64_t resetting = engines_in_reset_.load(std::memory_order_relaxed);
    report.in_engine_reset = (resetting >> report.node & 1) != 0;
  }
  report.inside_preempt = preempt_thread_.load(std::memory_order_relaxed) == this_thread();
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->work.reported(report);
  if (owner) {
    if (isr_.inside && is_dma(data.InterruptType) && isr_.reported_crtc) [[unlikely]] {
      (void)core_.violation(
          "INT-09", kIsrName, "It reported a DMA interrupt after a vertical sync in one run.",
          "When several causes are pending, DMA types are reported before CRTC types.",
          "Report DMA completions, preemptions and faults first.", Status::kSuccess);
    }
    isr_.reported = true;
    isr_.queued_dpc = false;
    isr_.reported_crtc = isr_.reported_crtc || is_crtc(data.InterruptType);
  }
  trace::emit(trace::EventKind::kInterrupt, report.raw_type, 0, report.fence, 0,
              report.type == InterruptReport::Type::kCrtcVsync || report.node > 0xFFFE
                  ? trace::kNoNode
                  : static_cast<uint16_t>(report.node));
  if (report.type == InterruptReport::Type::kDmaPreempted)
    last_preempted_[report.node % 64].store(report.fence);
  if (owner && is_dma(data.InterruptType) && report.node < 64 &&
      (masked_nodes_ >> report.node & 1) != 0) [[unlikely]] {
    masked_reports_.push_back(report);
    return;
  }
  runtime::MutexLock lock(reports_lock_);
  reports_.push_back(report);
  if (core_.faults != nullptr && report.type == InterruptReport::Type::kDmaCompleted) [[unlikely]] {
    if (core_.faults->repeats_report()) reports_.push_back(report);
  }
}

void Interrupts::notify_dpc() {
  std::vector<InterruptReport> taken;
  {
    runtime::MutexLock lock(reports_lock_);
    taken.swap(reports_);
    reports_.swap(spare_);  // an emptied buffer, so that the ISR does not allocate
  }
  if (!taken.empty()) core_.host.on_interrupts(taken);
  taken.clear();
  runtime::MutexLock lock(reports_lock_);
  if (spare_.capacity() < taken.capacity()) spare_.swap(taken);
}

bool Interrupts::queue_dpc() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (owner_.load(std::memory_order_relaxed) == this_thread()) isr_.queued_dpc = true;
  return nt::CallFrame::current().queue_dpc(dpc_, nullptr, nullptr);
}

void NTAPI Interrupts::dpc_routine(nt::Kdpc*, void* interrupts, void*, void*) {
  static_cast<Interrupts*>(interrupts)->run_driver_dpc();
}

void Interrupts::run_driver_dpc() {
  // Another thread may be in the routine: then that thread runs it once more (INT-06).
  uint32_t state = dpc_state_.load(std::memory_order_acquire);
  for (;;) {
    if (state == 0) {
      if (dpc_state_.compare_exchange_weak(state, 1, std::memory_order_acq_rel)) break;
    } else if (dpc_state_.compare_exchange_weak(state, 2, std::memory_order_acq_rel)) {
      return;
    }
  }
  for (;;) {
    if (!is_dead(core_) && core_.ddi.DxgkDdiDpcRoutine != nullptr) {
      // It may come late; the return value does not matter.
      if (core_.faults != nullptr) [[unlikely]]
        static_cast<void>(core_.faults->before_ddi(kDpcName));
      nt::CallFrame frame(core_.kernel, kDpcName, nt::kDispatchLevel);
      nt::at_level(core_.kernel, nt::kDispatchLevel);
      frame.owner = &core_;
      trace::Recorder* const recorder = trace::current();
      if (recorder != nullptr)
        recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(kDpcName),
                         nt::kDispatchLevel);
      const bool completed = frame.call_void(core_.ddi.DxgkDdiDpcRoutine, core_.context);
      if (recorder != nullptr)
        recorder->record(trace::EventKind::kDdiExit, recorder->name_id(kDpcName), 0, frame.irql());
      if (completed && frame.irql() != nt::kDispatchLevel) [[unlikely]] {
        core_.irql_violation(DdiInfo{kDpcName, nt::kDispatchLevel, DdiClass::kLevelZero},
                             frame.irql());
        frame.restore_entry_irql();
      }
    }
    uint32_t running = 1;
    if (dpc_state_.compare_exchange_strong(running, 0, std::memory_order_acq_rel)) return;
    dpc_state_.store(1, std::memory_order_relaxed);
  }
}

Status Interrupts::synchronize(PKSYNCHRONIZE_ROUTINE routine, void* routine_context,
                               uint32_t message, BOOLEAN* result) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (!connected_.load(std::memory_order_acquire)) return Status::kUnsuccessful;
  if (routine == nullptr) return Status::kInvalidParameter;
  if (message != message_) [[unlikely]] {
    (void)core_.violation(
        "INT-02", "DxgkCbSynchronizeExecution",
        fmt::format("MessageNumber is {}, InterruptMessageNumber of the caps is {}.", message,
                    message_),
        "Notifications come from one fixed message, the one reported in the caps.",
        "Pass the message number reported as InterruptMessageNumber.", Status::kSuccess);
  }
  nt::CallFrame& caller = nt::CallFrame::current();
  nt::count_look(caller);
  bool abandoned = false;
  {
    nt::CallFrame frame(core_.kernel, kSynchronizedName, nt::kDeviceLevel);
    nt::at_level(core_.kernel, nt::kDispatchLevel);
    frame.owner = &core_;
    const bool nested = owner_.load(std::memory_order_relaxed) == this_thread();
    if (nested && !isr_.inside) [[unlikely]] {  // of an interrupt routine INT-07 says it
      (void)core_.violation(
          "INT-28", "DxgkCbSynchronizeExecution",
          fmt::format("{} called it while it was synchronized with the interrupt already.",
                      caller.name()),
          "It is called from below device level.",
          "Do the work at once where the kernel or DxgkCbSynchronizeExecution has called at device "
          "level; KeGetCurrentIrql tells where that may be.",
          Status::kSuccess);
    }
    if (!nested) take_lock();
    BOOLEAN answer = FALSE;
    abandoned = !frame.call(routine, &answer, routine_context);
    if (!abandoned && frame.irql() != nt::kDeviceLevel) [[unlikely]] {
      core_.irql_violation(DdiInfo{kSynchronizedName, nt::kDeviceLevel, DdiClass::kLevelZero},
                           frame.irql());
      frame.restore_entry_irql();
    }
    if (!abandoned && result != nullptr) *result = answer;
    if (!nested) leave_lock(frame);
  }
  if (abandoned) caller.abandon();
  return Status::kSuccess;
}

void Interrupts::at_device_level(const char* what, const std::function<void()>& work)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  nt::CallFrame frame(core_.kernel, what, nt::kDeviceLevel);
  frame.owner = &core_;
  take_lock();
  work();
  leave_lock(frame);
}

void Interrupts::connect() {
  starting_.store(true, std::memory_order_relaxed);
  connected_.store(true, std::memory_order_release);
  core_.function.interrupt_line().connect([this] { return service(); });
}

void Interrupts::disconnect() {
  if (!connected_.exchange(false)) return;
  core_.function.interrupt_line().connect(nullptr);
}

bool Interrupts::in_isr() const DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  return isr_.inside && owner_.load(std::memory_order_relaxed) == this_thread();
}

void Interrupts::begin_preempt() {
  preempt_thread_.store(this_thread(), std::memory_order_relaxed);
}

void Interrupts::end_preempt() { preempt_thread_.store(0, std::memory_order_relaxed); }

void Interrupts::mask(uint64_t nodes) {
  at_device_level("interrupt mask", [&] { masked_nodes_ |= nodes; });
}

void Interrupts::unmask(uint64_t nodes, bool tell) {
  std::vector<InterruptReport> kept;
  // A report that arrives while the kept ones are delivered is kept as well, so that all are
  // delivered in order.
  do {
    kept.clear();
    at_device_level("interrupt mask", [&] {
      const auto ours = std::stable_partition(
          masked_reports_.begin(), masked_reports_.end(),
          [&](const InterruptReport& report) { return (nodes >> report.node & 1) == 0; });
      if (tell) kept.assign(ours, masked_reports_.end());
      masked_reports_.erase(ours, masked_reports_.end());
      if (kept.empty()) masked_nodes_ &= ~nodes;
      if (!tell) {
        // Without a DPC they were not seen: what they are about has ended with the reset.
        runtime::MutexLock lock(reports_lock_);
        std::erase_if(reports_, [&](const InterruptReport& report) {
          return is_dma(static_cast<DXGK_INTERRUPT_TYPE>(report.raw_type)) && report.node < 64 &&
                 (nodes >> report.node & 1) != 0;
        });
      }
    });
    if (!kept.empty()) core_.host.on_interrupts(kept);
  } while (!kept.empty());
}

}  // namespace dxgkit::port
