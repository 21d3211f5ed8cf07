// Hardware contexts that leave the engine, and come back (SCHED-19).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "dxgk/core/object.h"
#include "dxgk/memory/paging_executor.h"
#include "port/ddi/hw_scheduling.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class AdapterCore;
class HwContext;
class HwQueues;
struct WorkFloor;

/// Where the driver does not schedule, every context counts as off. Lane: the adapter's.
class HwSuspension {
 public:
  HwSuspension(WorkFloor& floor, HwQueues& all);

  /// Asks the context to leave the engine; `off` says when it has. Each call is followed by one of
  /// `let_go`.
  void take_off(HwContext& context) DXGKIT_REQUIRES(on_lane);
  void let_go(HwContext& context) DXGKIT_REQUIRES(on_lane);
  bool off(const HwContext& context) const DXGKIT_REQUIRES(on_lane);
  /// Before the power goes down every context leaves; they come back when it is up (SCHED-19).
  void all_leave() DXGKIT_REQUIRES(on_lane);
  bool all_off() const DXGKIT_REQUIRES(on_lane);
  void all_come_back() DXGKIT_REQUIRES(on_lane);
  /// Before content moves, the contexts that can reach it leave the engine until operation_done.
  void before(const vidmm::PagingOp& op, std::vector<std::unique_ptr<PagingWork>>* work)
      DXGKIT_REQUIRES(on_lane);
  void operation_done(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// The driver reports a context that has left (SCHED-19, SCHED-20).
  void completed(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// The driver will answer nothing that it was asked before.
  void power_failed() DXGKIT_REQUIRES(on_lane);
  /// Nothing comes back any more, because the adapter has failed or stopped. The contexts it kept
  /// are the caller's, to let them go off the lane.
  std::vector<Ref<HwContext>> give_up() DXGKIT_REQUIRES(on_lane);

 private:
  WorkFloor& floor_;
  AdapterCore& core_;
  HwQueues& all_;
  port::HwSchedulingPort scheduler_;
  /// Contexts taken off for a move, by allocation, in order of operations.
  std::map<uint64_t, std::deque<std::vector<Ref<HwContext>>>> moves_ DXGKIT_GUARDED_BY(on_lane);
  std::vector<Ref<HwContext>> away_ DXGKIT_GUARDED_BY(on_lane);  // of all_leave
};

}  // namespace dxgkit::dxgk
