// Timeout detection and recovery of one adapter.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/work/adapter_reset.h"
#include "dxgk/work/recovery_log.h"
#include "dxgk/work/stale_reports.h"
#include "dxgk/work/timeout_limits.h"
#include "port/types.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

struct WorkFloor;

/// `delay_ns` is the one to use without a value in the registry. Values of other types than
/// REG_DWORD are not looked at.
TimeoutPolicy read_timeout_policy(const nt::KernelConfig& config, int64_t delay_ns);

///   work, no progress      preemption asked       silent for TdrDelay
///   for TdrDelay  ------>  (or by the scheduler) ------------------> engine reset
///                                                                     | fails, paging hit, not
///                                                                     v supported
///                                          fatal, past the limits <- adapter reset
///
/// The lane watches and notices; a thread of our own, made at the first timeout, recovers: it waits
/// for others to leave the driver, which the lane must not.
class Timeout {
 public:
  Timeout(WorkFloor& floor, AdapterReset::Owner& above);
  ~Timeout();

  /// Reads the policy. Before anything runs.
  void start();
  /// After the last thing has run.
  void end_watch() { timer_.reset(); }
  /// Ends the thread; a recovery under way first. Not on the lane, which still runs.
  void stop();

  // Lane:
  /// Arms the watch when work is on hardware, or a preemption pends.
  void watch() DXGKIT_REQUIRES(on_lane);
  void on_timer() DXGKIT_REQUIRES(on_lane);
  void preemption_asked(NodeOrdinal node, SubmissionFenceId fence) DXGKIT_REQUIRES(on_lane);
  void preemption_answered(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// INT-18: that reset at once.
  void require_engine_reset(NodeOrdinal node, std::string cause) DXGKIT_REQUIRES(on_lane);
  void require_adapter_reset(NodeOrdinal node, std::string cause) DXGKIT_REQUIRES(on_lane);
  /// An engine is being recovered, or the adapter is reset (AdapterReset::under_way). The thread
  /// has calls to make that whoever has the driver to himself would hold up, and he waits for
  /// hardware that hangs.
  bool resetting() const DXGKIT_REQUIRES(on_lane) {
    return resetting_engine_ || adapter_reset_.under_way();
  }
  struct Counts {
    uint64_t engine_resets = 0;
    uint64_t watch_preemptions = 0;  // asked for by the watch because a node did not get on
    uint64_t late_reports = 0;  // of nodes that told of a completion only when asked for the fence
  };
  const Counts& counts() const DXGKIT_REQUIRES(on_lane) { return counts_; }
  void provoke(ProvokedTimeouts provoked) DXGKIT_REQUIRES(on_lane) { provoked_ = provoked; }
  /// A silent node is asked for a preemption after `patience_ns` if that is less than TdrDelay; 0:
  /// after TdrDelay, as usual. It still times out after TdrDelay only.
  void be_patient_for(int64_t patience_ns) DXGKIT_REQUIRES(on_lane);
  /// Constant after start().
  const TimeoutPolicy& policy() const { return policy_; }

  /// What belongs to recoveries.
  const RecoveryLog& log() const { return log_; }
  StaleReports& stale() { return stale_; }
  const TimeoutLimits& limits() const { return limits_; }
  const AdapterReset& adapter_reset() const { return adapter_reset_; }

 private:
  struct Request {
    NodeOrdinal node;
    bool adapter = false;   // the whole adapter, without trying the engine
    bool required = false;  // by the driver, or known to be due: no preemption is waited for
    std::string cause;
    uint64_t adapter_resets = 0;  // before it
  };
  struct Node {
    int64_t asked_ns = 0;
    bool by_watch = false;  // the preemption that pends was ours
    bool lost = false;      // it gave packets back that never ran, when the one below was the last
    SubmissionFenceId lost_after;
    PacketId granted_packet;  // given back too often, and Responsive gave it as much time again
    // It was reset, no packet was to blame, and the one below was the last completed.
    bool blameless = false;
    SubmissionFenceId blameless_after;
    bool granted = false;  // Responsive gave it a second TdrDelay (TDR-10)
    bool excused = false;  // it got another one because the machine stood still
    int64_t granted_until = 0;
    SubmissionFenceId preemption;        // asked last
    std::vector<uint32_t> asked_fences;  // on hardware when it was asked
  };
  enum class EngineOutcome {
    kRecovered,
    kNotNeeded,  // it got on after all
    kGranted,    // more time
    kPromote,    // the adapter has to be reset
    kOver,       // the adapter failed
  };

  // Lane: detection.
  std::optional<int64_t> deadline(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  bool excuse(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  void look_at(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  void look_at_given_back(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  void timed_out(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  bool is_settled_by_policy(NodeOrdinal node, const std::string& cause) DXGKIT_REQUIRES(on_lane);
  void report_silence(NodeOrdinal node, const vidsch::NodeStatus& status) DXGKIT_REQUIRES(on_lane);
  void request(Request request) DXGKIT_REQUIRES(on_lane);

  // The thread.
  void run();
  void recover(const Request& request);
  /// Nothing that was done since has settled it.
  bool still_due(const Request& request) DXGKIT_REQUIRES(on_lane);
  EngineOutcome recover_engine(const Request& request);
  std::optional<bool> responsive(NodeOrdinal node);
  EngineOutcome reset_one(NodeOrdinal node, bool required, bool hung);
  bool resets_without_end(NodeOrdinal node, const vidsch::NodeStatus& before,
                          const vidsch::EngineReset& found) DXGKIT_REQUIRES(on_lane);
  EngineOutcome judge(NodeOrdinal node, const vidsch::NodeStatus& before,
                      SubmissionFenceId last_aborted) DXGKIT_REQUIRES(on_lane);
  uint64_t preempt_others(uint64_t mask, NodeOrdinal node);
  void recover_adapter(const Request& request);
  void begin_log(const Request& request) DXGKIT_REQUIRES(on_lane);

  WorkFloor& floor_;
  AdapterCore& core_;
  runtime::Runtime& runtime_;
  TimeoutPolicy policy_;
  RecoveryLog log_;
  StaleReports stale_;
  TimeoutLimits limits_;
  AdapterReset adapter_reset_;
  std::unique_ptr<runtime::Timer> timer_;
  // Lane:
  std::vector<Node> nodes_ DXGKIT_GUARDED_BY(on_lane);
  bool armed_ DXGKIT_GUARDED_BY(on_lane) = false;
  bool resetting_engine_ DXGKIT_GUARDED_BY(on_lane) = false;
  int64_t armed_for_ DXGKIT_GUARDED_BY(on_lane) = 0;  // when it should ring
  bool recovering_ DXGKIT_GUARDED_BY(on_lane) = false;
  std::deque<Request> requests_ DXGKIT_GUARDED_BY(on_lane);
  Counts counts_ DXGKIT_GUARDED_BY(on_lane);
  ProvokedTimeouts provoked_ DXGKIT_GUARDED_BY(on_lane) = ProvokedTimeouts::kNone;
  int64_t patience_ns_ DXGKIT_GUARDED_BY(on_lane) = 0;

  std::atomic<uint32_t> bell_{0};  // rises with each request; the thread waits on it
  std::atomic<bool> stop_{false};
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::dxgk
