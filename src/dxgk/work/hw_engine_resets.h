// Engines that schedule by themselves: silence, and resets of one engine (ADR 0012).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "port/ddi/hw_scheduling.h"
#include "port/types.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;
class HwContext;
class HwQueues;
struct WorkFloor;

/// Lane: the adapter's, except where a call says otherwise.
class HwEngineResets {
 public:
  HwEngineResets(WorkFloor& floor, HwQueues& all, size_t nodes);

  /// Work came to an idle queue, or a context was asked to leave. From now on the engine's silence
  /// is noticed.
  void watch() DXGKIT_REQUIRES(on_lane);
  /// Work has left an engine of the node.
  void work_left(NodeOrdinal node) DXGKIT_REQUIRES(on_lane) { fruitless_[node.value] = 0; }
  /// Resets an engine, as after a timeout. Contexts that the driver names are in error. Nothing is
  /// submitted until the engine is resumed. False: the engine is being reset already, or the driver
  /// does not schedule.
  bool reset_engine(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  /// The engine takes no work: it is being reset, or the whole adapter is to be.
  bool stops(NodeOrdinal node) const DXGKIT_REQUIRES(on_lane) {
    return adapter_reset_due_ || resetting(node);
  }
  /// INT-21: the report came between the reset of its engine and the resumption.
  void unexpected_report(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// TDR-30. Any thread.
  Status invalidate(void* driver_context);
  /// The whole adapter has been reset: no engine needs a reset of its own any more.
  void adapter_was_reset() DXGKIT_REQUIRES(on_lane);

 private:
  bool resetting(NodeOrdinal node) const DXGKIT_REQUIRES(on_lane) {
    return (resetting_ >> node.value & 1) != 0;
  }
  /// The driver could not reset an engine that schedules by itself, or not resume it: the whole
  /// adapter is reset, and nothing is submitted before that (TDR-30).
  void engine_is_lost(NodeOrdinal node, const char* ddi, Status status) DXGKIT_REQUIRES(on_lane);
  void on_timer() DXGKIT_REQUIRES(on_lane);
  void resume_engine(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  void lose(HwContext& context) DXGKIT_REQUIRES(on_lane);

  WorkFloor& floor_;
  AdapterCore& core_;
  HwQueues& all_;
  port::HwSchedulingPort scheduler_;
  uint64_t resetting_ DXGKIT_GUARDED_BY(on_lane) = 0;           // engines, one bit per node
  std::vector<HwContext*> hit_ DXGKIT_GUARDED_BY(on_lane);      // named while one is being reset
  std::vector<uint32_t> fruitless_ DXGKIT_GUARDED_BY(on_lane);  // by node: resets since work left
  bool collecting_ DXGKIT_GUARDED_BY(on_lane) = false;          // inside DxgkDdiResetHwEngine
  bool adapter_reset_due_ DXGKIT_GUARDED_BY(on_lane) = false;
  bool armed_ DXGKIT_GUARDED_BY(on_lane) = false;
  std::unique_ptr<runtime::Timer> timer_;         // silence
  std::unique_ptr<runtime::Timer> resume_timer_;  // engines that have been reset
};

}  // namespace dxgkit::dxgk
