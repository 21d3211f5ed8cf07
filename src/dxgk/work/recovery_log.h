// What is told of recoveries from timeouts, step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "dxgk/work/timeout_report.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct WorkFloor;

/// At most one recovery is under way. Lane: the adapter's, except where a call says otherwise.
class RecoveryLog {
 public:
  /// What is known when a recovery begins.
  struct Beginning {
    NodeOrdinal node;
    bool adapter = false;     // the whole adapter, without trying the engine
    std::string cause;        // a full sentence
    int64_t asked_ns = 0;     // when a preemption was asked for
    uint32_t preemption = 0;  // the request that was not answered; 0: nothing was asked
  };
  explicit RecoveryLog(WorkFloor& floor) : floor_(floor) {}

  void begin(const Beginning& beginning) DXGKIT_REQUIRES(on_lane);
  /// Of the recovery under way, for what is known later.
  TimeoutReport& current() DXGKIT_REQUIRES(on_lane) { return *report_; }
  /// A step of the recovery under way: in the report and in the trace.
  void note(std::string text) DXGKIT_REQUIRES(on_lane);
  /// The same, not on the lane.
  void step(std::string text);
  /// The report is finished, with what became of devices. Not on the lane.
  void end(bool recovered);
  /// There was no recovery. Not on the lane.
  void drop();

  /// A report that is of no recovery, or beside one.
  void add(TimeoutReport report) DXGKIT_REQUIRES(on_lane);
  const std::vector<TimeoutReport>& reports() const DXGKIT_REQUIRES(on_lane) { return reports_; }

 private:
  WorkFloor& floor_;
  std::vector<TimeoutReport> reports_ DXGKIT_GUARDED_BY(on_lane);
  std::optional<TimeoutReport> report_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
