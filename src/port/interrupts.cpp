// From the line to the lane: ISR, synchronised routines, reports, DPC.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/paged.h"
#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr const char* kIsrName = "DxgkDdiInterruptRoutine";
constexpr const char* kDpcName = "DxgkDdiDpcRoutine";
constexpr const char* kSynchronizedName = "synchronised routine";
/// How often in a row an ISR may claim an interrupt silently, or refuse the only device on its line
/// (INT-08, our choice).
constexpr uint32_t kStormBound = 1000;
constexpr uint32_t kRefusalBound = 100;
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

/// The planes a vertical sync names, hostile: the driver's list, of at most kPlanesMost.
template <typename Info>
void read_planes(const Info* infos, uint32_t count, InterruptReport* report) {
  constexpr uint32_t kPlanesMost = 64;
  report->planes = count;
  if (infos == nullptr) return;
  for (uint32_t i = 0; i < std::min(count, kPlanesMost); ++i) {
    report->highest_plane = std::max<uint32_t>(report->highest_plane, infos[i].LayerIndex);
    if constexpr (requires { infos[i].PhysicalAddress; }) {
      if (infos[i].LayerIndex == 0)
        report->address = static_cast<uint64_t>(infos[i].PhysicalAddress.QuadPart);
    }
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
      if (version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2 &&
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
      // A list nobody can mean is read as far as it may be true.
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

uint32_t this_thread(const AdapterPort::Impl& impl) {
  return impl.kernel.runtime().thread_number() + 1;
}

}  // namespace

bool AdapterPort::Impl::service_interrupt() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (is_dead(*this) || ddi.DxgkDdiInterruptRoutine == nullptr) return false;
  if (interrupt_owner.load(std::memory_order_relaxed) == this_thread(*this)) {
    // The thread that holds the interrupt lock touched the device and so raised the line: as on a
    // processor at DIRQL, the interrupt stays pending until the lock is given up.
    interrupt_again.store(true, std::memory_order_relaxed);
    return true;
  }
  bool claimed = false;
  nt::CallFrame frame(kernel, kIsrName, nt::kDeviceLevel);
  nt::at_level(kernel, nt::kDispatchLevel);
  frame.owner = this;
  interrupt_lock.lock();
  interrupt_owner.store(this_thread(*this), std::memory_order_relaxed);
  run_isr(frame, &claimed);
  leave_interrupt_lock(frame);
  return claimed;  // the frame's end lowers the level: the DPC runs there
}

void AdapterPort::Impl::run_isr(nt::CallFrame& frame,
                                bool* claimed) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  trace::Recorder* const recorder = trace::current();
  if (recorder != nullptr)
    recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(kIsrName), nt::kDeviceLevel);
  isr = IsrState{.inside = true};
  BOOLEAN answer = FALSE;
  const bool completed = frame.call(ddi.DxgkDdiInterruptRoutine, &answer, context, ULONG{0});
  const IsrState seen = isr;
  isr = IsrState{};
  if (recorder != nullptr) {
    recorder->record(trace::EventKind::kDdiExit, recorder->name_id(kIsrName), answer,
                     nt::kDeviceLevel);
  }
  if (!completed) return;
  *claimed = answer != FALSE;
  if (frame.irql() != nt::kDeviceLevel) [[unlikely]] {
    irql_violation(DdiInfo{kIsrName, nt::kDeviceLevel, DdiClass::kLevelZero}, frame.irql());
    frame.restore_entry_irql();
  }
  end_isr_checks(*claimed, seen);
}

void AdapterPort::Impl::end_isr_checks(bool claimed, const IsrState& seen) {
  if (seen.reported && !seen.queued_dpc) [[unlikely]] {
    (void)violation("INT-03", kIsrName,
                    "It called DxgkCbNotifyInterrupt and returned without DxgkCbQueueDpc.",
                    "After a report the ISR queues a DPC; until then the report stays unseen.",
                    "Call DxgkCbQueueDpc before returning TRUE.", Status::kSuccess);
  }
  if (!claimed && seen.reported) [[unlikely]] {
    (void)violation("INT-08", kIsrName, "It reported an interrupt and returned FALSE.",
                    "TRUE for an interrupt of its adapter, FALSE for others.",
                    "Return TRUE once the interrupt is dismissed.", Status::kSuccess);
  }
  refusals = claimed ? 0 : refusals + 1;
  silent_claims = claimed && !seen.reported && !seen.queued_dpc ? silent_claims + 1 : 0;
  if (refusals == kRefusalBound) [[unlikely]] {
    (void)violation(
        "INT-08", kIsrName,
        fmt::format("It returned FALSE {} times in a row on a line with no other device.",
                    kRefusalBound),
        "TRUE for an interrupt of its adapter.",
        "Check how the ISR recognises its device's interrupt.", Status::kSuccess);
  }
  if (silent_claims == kStormBound) [[unlikely]] {
    (void)violation(
        "INT-08", kIsrName,
        fmt::format(
            "It claimed {} interrupts in a row without reporting anything or queueing a DPC.",
            kStormBound),
        "A claimed interrupt is dismissed in the device, so that the line falls.",
        "Acknowledge the interrupt in the device before returning TRUE.", Status::kSuccess);
  }
}

void AdapterPort::Impl::leave_interrupt_lock(nt::CallFrame& frame)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  while (interrupt_again.exchange(false, std::memory_order_relaxed)) {
    if (is_dead(*this) || !interrupt_connected.load(std::memory_order_relaxed)) break;
    bool claimed = false;
    nt::CallFrame inner(kernel, kIsrName, nt::kDeviceLevel);
    inner.owner = this;
    run_isr(inner, &claimed);
  }
  (void)frame;
  interrupt_owner.store(0, std::memory_order_relaxed);
  interrupt_lock.unlock();
}

void AdapterPort::Impl::enter_interrupt_lock() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  nt::at_level(kernel, nt::kDispatchLevel);  // IRQL-13
  interrupt_lock.lock();
  interrupt_owner.store(this_thread(*this), std::memory_order_relaxed);
  isr = IsrState{};
}

void AdapterPort::Impl::leave_interrupt_lock() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  leave_interrupt_lock(nt::CallFrame::current());
}

void AdapterPort::Impl::notify_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  const bool owner = interrupt_owner.load(std::memory_order_relaxed) == this_thread(*this);
  const nt::Irql irql = nt::CallFrame::current().irql();
  if (!owner || irql < nt::kDeviceLevel) [[unlikely]] {
    (void)violation("INT-01", "DxgkCbNotifyInterrupt",
                    fmt::format("It was called at {} in {}, outside the interrupt lock.",
                                nt::irql_name(irql), nt::CallFrame::current().name()),
                    "It is called at device interrupt level: in the ISR or in a routine run by "
                    "DxgkCbSynchronizeExecution.",
                    "Wrap the call with DxgkCbSynchronizeExecution.", Status::kSuccess);
  }
  InterruptReport report = report_of(data, version);
  if (names_engine(report.type) && report.node < 64) {
    // Relaxed: a report that races with the end of the reset may be taken for either side of it.
    const uint64_t resetting = engines_in_reset.load(std::memory_order_relaxed);
    report.in_engine_reset = (resetting >> report.node & 1) != 0;
  }
  report.inside_preempt = preempt_thread.load(std::memory_order_relaxed) == this_thread(*this);
  if (owner) {
    if (isr.inside && is_dma(data.InterruptType) && isr.reported_crtc) [[unlikely]] {
      (void)violation("INT-09", kIsrName,
                      "It reported a DMA interrupt after a vertical sync in one run.",
                      "When several causes are pending, DMA types are reported before CRTC types.",
                      "Report DMA completions, preemptions and faults first.", Status::kSuccess);
    }
    isr.reported = true;
    isr.queued_dpc = false;
    isr.reported_crtc = isr.reported_crtc || is_crtc(data.InterruptType);
  }
  trace::emit(trace::EventKind::kInterrupt, report.raw_type, 0, report.fence, 0,
              report.type == InterruptReport::Type::kCrtcVsync || report.node > 0xFFFE
                  ? trace::kNoNode
                  : static_cast<uint16_t>(report.node));
  if (report.type == InterruptReport::Type::kDmaPreempted)
    last_preempted[report.node % 64].store(report.fence);
  if (owner && is_dma(data.InterruptType) && report.node < 64 &&
      (masked_nodes >> report.node & 1) != 0) [[unlikely]] {
    masked_reports.push_back(report);
    return;
  }
  runtime::MutexLock lock(reports_lock);
  reports.push_back(report);
  if (faults != nullptr && report.type == InterruptReport::Type::kDmaCompleted) [[unlikely]] {
    if (faults->repeats_report()) reports.push_back(report);
  }
}

void AdapterPort::Impl::notify_dpc() {
  std::vector<InterruptReport> taken;
  {
    runtime::MutexLock lock(reports_lock);
    taken.swap(reports);
    reports.swap(spare);  // an emptied buffer, so that the ISR does not allocate
  }
  if (!taken.empty()) host.on_interrupts(taken);
  taken.clear();
  runtime::MutexLock lock(reports_lock);
  if (spare.capacity() < taken.capacity()) spare.swap(taken);
}

bool AdapterPort::Impl::queue_dpc() DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (interrupt_owner.load(std::memory_order_relaxed) == this_thread(*this)) isr.queued_dpc = true;
  return nt::CallFrame::current().queue_dpc(dpc, nullptr, nullptr);
}

void NTAPI AdapterPort::Impl::dpc_routine(nt::Kdpc*, void* impl, void*, void*) {
  static_cast<Impl*>(impl)->run_driver_dpc();
}

void AdapterPort::Impl::run_driver_dpc() {
  // Another thread may be in the routine: then that one runs it once more (INT-06).
  uint32_t state = dpc_state.load(std::memory_order_acquire);
  for (;;) {
    if (state == 0) {
      if (dpc_state.compare_exchange_weak(state, 1, std::memory_order_acq_rel)) break;
    } else if (dpc_state.compare_exchange_weak(state, 2, std::memory_order_acq_rel)) {
      return;
    }
  }
  for (;;) {
    if (!is_dead(*this) && ddi.DxgkDdiDpcRoutine != nullptr) {
      // It may come late; there is nothing it could answer.
      if (faults != nullptr) [[unlikely]]
        static_cast<void>(faults->before_ddi(kDpcName));
      nt::CallFrame frame(kernel, kDpcName, nt::kDispatchLevel);
      nt::at_level(kernel, nt::kDispatchLevel);
      frame.owner = this;
      trace::Recorder* const recorder = trace::current();
      if (recorder != nullptr)
        recorder->record(trace::EventKind::kDdiEnter, recorder->name_id(kDpcName),
                         nt::kDispatchLevel);
      const bool completed = frame.call_void(ddi.DxgkDdiDpcRoutine, context);
      if (recorder != nullptr)
        recorder->record(trace::EventKind::kDdiExit, recorder->name_id(kDpcName), 0, frame.irql());
      if (completed && frame.irql() != nt::kDispatchLevel) [[unlikely]] {
        irql_violation(DdiInfo{kDpcName, nt::kDispatchLevel, DdiClass::kLevelZero}, frame.irql());
        frame.restore_entry_irql();
      }
    }
    uint32_t running = 1;
    if (dpc_state.compare_exchange_strong(running, 0, std::memory_order_acq_rel)) return;
    dpc_state.store(1, std::memory_order_relaxed);
  }
}

Status AdapterPort::Impl::synchronize(PKSYNCHRONIZE_ROUTINE routine, void* routine_context,
                                      uint32_t message,
                                      BOOLEAN* result) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  if (!interrupt_connected.load(std::memory_order_acquire)) return Status::kUnsuccessful;
  if (routine == nullptr) return Status::kInvalidParameter;
  if (message != interrupt_message) [[unlikely]] {
    (void)violation("INT-02", "DxgkCbSynchronizeExecution",
                    fmt::format("MessageNumber is {}, InterruptMessageNumber of the caps is {}.",
                                message, interrupt_message),
                    "Notifications come from one fixed message, the one reported in the caps.",
                    "Pass the message number reported as InterruptMessageNumber.",
                    Status::kSuccess);
  }
  nt::CallFrame& caller = nt::CallFrame::current();
  bool abandoned = false;
  {
    nt::CallFrame frame(kernel, kSynchronizedName, nt::kDeviceLevel);
    nt::at_level(kernel, nt::kDispatchLevel);
    frame.owner = this;
    const bool nested = interrupt_owner.load(std::memory_order_relaxed) == this_thread(*this);
    if (!nested) {
      interrupt_lock.lock();
      interrupt_owner.store(this_thread(*this), std::memory_order_relaxed);
      isr = IsrState{};
    }
    BOOLEAN answer = FALSE;
    abandoned = !frame.call(routine, &answer, routine_context);
    if (!abandoned && frame.irql() != nt::kDeviceLevel) [[unlikely]] {
      irql_violation(DdiInfo{kSynchronizedName, nt::kDeviceLevel, DdiClass::kLevelZero},
                     frame.irql());
      frame.restore_entry_irql();
    }
    if (!abandoned && result != nullptr) *result = answer;
    if (!nested) leave_interrupt_lock(frame);
  }
  if (abandoned) caller.abandon();
  return Status::kSuccess;
}

void AdapterPort::Impl::at_device_level(const char* what, const std::function<void()>& work)
    DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  nt::CallFrame frame(kernel, what, nt::kDeviceLevel);
  frame.owner = this;
  interrupt_lock.lock();
  interrupt_owner.store(this_thread(*this), std::memory_order_relaxed);
  isr = IsrState{};
  work();
  leave_interrupt_lock(frame);
}

void AdapterPort::Impl::disconnect_interrupt() {
  if (!interrupt_connected.exchange(false)) return;
  function.interrupt_line().connect(nullptr);
}

}  // namespace dxgkit::port
