// The path of an interrupt from the line to the lane: ISR, synchronised routines, reports, DPC.
#pragma once

#include <dispmprt.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/cache_line.h"
#include "base/ids.h"
#include "base/status.h"
#include "nt/kernel.h"
#include "port/types.h"
#include "runtime/sync.h"

namespace dxgkit::port {

struct PortCore;

/// The interrupt of one adapter. The interrupt lock is the interrupt spin lock of WDDM: the ISR and
/// synchronised routines hold it at DIRQL. A raise by the thread that holds it stays pending until
/// that thread releases it. The DPC of an adapter never runs twice at once (INT-06).
///
/// Locks: the interrupt lock, then the lock of the reports. Each method's comment says its thread.
/// It has cache lines of its own: each interrupt writes it, and no DDI reads it.
class alignas(kCacheLineBytes) Interrupts {
 public:
  /// The core must outlive it, and is not used before it is complete.
  explicit Interrupts(PortCore& core);
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// From now on the line calls the ISR, and the driver may call back (LIFE-08).
  /// DxgkDdiStartDevice is called next.
  void connect();
  /// DxgkDdiStartDevice has returned.
  void end_start() { starting_.store(false, std::memory_order_relaxed); }
  void disconnect();
  /// Calls the ISR as when another device on the same line interrupts. INT-08: an ISR that claims
  /// it has something to report. The caller's adapter is idle, and its level passive. Nothing
  /// happens without an ISR, or while it is not connected.
  void raised_by_another();
  bool connected() const { return connected_.load(std::memory_order_relaxed); }
  /// InterruptMessageNumber of the caps (INT-02). Before the adapter runs.
  void set_message(uint32_t message) { message_ = message; }

  /// Holds the interrupt lock for a DDI at device level, as for a synchronised routine. The caller
  /// does not hold the lock, and its frame is at device level.
  void enter_lock();
  void leave_lock();

  // Callbacks, on the driver's thread.
  void notify_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data);
  void notify_dpc();
  bool queue_dpc();
  Status synchronize(PKSYNCHRONIZE_ROUTINE routine, void* routine_context, uint32_t message,
                     BOOLEAN* result);
  /// True if this thread is inside the ISR.
  bool in_isr() const;

  /// From now on DMA interrupts of these nodes are held back; one step at interrupt level (TDR-09).
  void mask(uint64_t nodes);
  /// Ends that. Interrupts that were held back are reported now, or dropped (INT-21) with all of
  /// before that no DPC has brought: a reset has ended what they are about.
  void unmask(uint64_t nodes, bool tell);

  // Called around DxgkDdiPreemptCommand, on the lane. Reports made in between are marked.
  void begin_preempt();
  void end_preempt();
  /// The last preemption of the node that the driver reported (PREEMPT-07).
  uint32_t last_preempted(NodeOrdinal node) const {
    return last_preempted_[node.value % 64].load();
  }

  // Between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, interrupts of the node are unexpected
  // (INT-21). On the lane.
  void enter_engine_reset(NodeOrdinal node) {
    engines_in_reset_.fetch_or(uint64_t{1} << node.value);
  }
  void leave_engine_reset(NodeOrdinal node) {
    engines_in_reset_.fetch_and(~(uint64_t{1} << node.value));
  }
  void forget_engine_resets() { engines_in_reset_.store(0, std::memory_order_relaxed); }

 private:
  /// The effects of one ISR run. They are few enough to be recorded whole.
  struct IsrState {
    bool inside = false;         // an ISR runs (on owner_)
    bool reported = false;       // it called DxgkCbNotifyInterrupt
    bool queued_dpc = false;     // a DPC was queued, or was pending already, after the last report
    bool reported_crtc = false;  // a CRTC type was reported (INT-09)
  };
  uint32_t this_thread() const;
  bool service();
  bool serve(bool for_another);
  /// True if the ISR claims the interrupt. `for_another`: see raised_by_another().
  bool run_isr(nt::CallFrame& frame, bool for_another);
  void end_isr_checks(bool claimed, const IsrState& seen, bool for_another);
  /// The lock, the number of its owner, and a fresh record of the ISR.
  void take_lock();
  void leave_lock(nt::CallFrame& frame);
  static void NTAPI dpc_routine(nt::Kdpc* dpc, void* interrupts, void*, void*);
  void run_driver_dpc();
  /// Runs `work` at device level, as a routine that excludes the ISR.
  void at_device_level(const char* what, const std::function<void()>& work);

  PortCore& core_;
  uint32_t message_ = 0;
  runtime::Mutex lock_;
  std::atomic<uint32_t> owner_{0};  // runtime thread number + 1, 0 when free
  // Raised by the owner itself: service once more before the release.
  std::atomic<bool> again_{false};
  std::atomic<bool> connected_{false};
  std::atomic<bool> starting_{false};  // from connect() to end_start()
  IsrState isr_ DXGKIT_GUARDED_BY(lock_);
  uint32_t silent_claims_ = 0, refusals_ = 0;    // in a row, guarded by lock_ (INT-08)
  uint32_t own_causes_ = 0;                      // as above, at interrupts of other devices
  std::atomic<uint32_t> preempt_thread_{0};      // the thread inside DxgkDdiPreemptCommand, + 1
  uint64_t masked_nodes_ = 0;                    // guarded by lock_
  std::vector<InterruptReport> masked_reports_;  // of these nodes, guarded by lock_
  runtime::Mutex reports_lock_;
  std::vector<InterruptReport> reports_ DXGKIT_GUARDED_BY(reports_lock_);
  std::vector<InterruptReport> spare_ DXGKIT_GUARDED_BY(reports_lock_);
  std::array<std::atomic<uint32_t>, 64> last_preempted_{};  // by node
  nt::Kdpc dpc_{};
  std::atomic<uint32_t> dpc_state_{0};  // 0 idle, 1 running, 2 running and wanted again (INT-06)
  std::atomic<uint64_t> engines_in_reset_{0};  // one bit per node
};

}  // namespace dxgkit::port
