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
#include "dxgk/work/timeout_report.h"
#include "port/types.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class Adapter;
class Device;

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
  explicit Timeout(Adapter& adapter);
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
  /// A report of a packet from before a reset of its engine, after it: a finding, and nothing else
  /// (TDR-13, TDR-22). `outcome`: what the scheduler said of it.
  bool is_stale(const port::InterruptReport& report, vidsch::FenceReport outcome)
      DXGKIT_REQUIRES(on_lane);
  /// It hung the GPU too often (TDR-06).
  bool is_blocked(uint32_t process) const DXGKIT_REQUIRES(on_lane) {
    return blocked_.contains(process);
  }
  const std::vector<TimeoutReport>& reports() const DXGKIT_REQUIRES(on_lane) { return reports_; }
  /// The adapter is about to be reset, or being reset: who waits for idle hardware with the driver
  /// to itself lets go, and comes back when it is over.
  bool resetting_adapter() const DXGKIT_REQUIRES(on_lane) { return resetting_adapter_; }
  uint64_t engine_resets() const DXGKIT_REQUIRES(on_lane) { return engine_resets_; }
  uint64_t adapter_resets() const DXGKIT_REQUIRES(on_lane) { return adapter_resets_; }

 private:
  struct Request {
    NodeOrdinal node;
    bool adapter = false;   // the whole adapter, without trying the engine
    bool required = false;  // by the driver: no preemption has been waited for
    std::string cause;
    uint64_t adapter_resets = 0;  // before it
  };
  /// What a reset left behind, to know late reports by.
  struct Stale {
    bool any = false, whole = false;
    SubmissionFenceId after, upto, preemption;
    SubmissionFenceId aborted;  // the last completed one once the reset was done
  };
  struct Node {
    int64_t asked_ns = 0;
    bool by_watch = false;  // the preemption that pends was ours
    bool lost = false;      // it gave packets back that never ran, when the one below was the last
    SubmissionFenceId lost_after;
    bool granted = false;  // Responsive gave it a second TdrDelay (TDR-10)
    bool excused = false;  // it got another one because the machine stood still
    int64_t granted_until = 0;
    SubmissionFenceId preemption;        // asked last
    std::vector<uint32_t> asked_fences;  // on hardware when it was asked
    Stale stale;
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
  void timed_out(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
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
  EngineOutcome judge(NodeOrdinal node, const vidsch::NodeStatus& before,
                      SubmissionFenceId last_aborted) DXGKIT_REQUIRES(on_lane);
  uint64_t preempt_others(uint64_t mask, NodeOrdinal node);
  void recover_adapter(const Request& request);
  bool past_limit(const Request& request) DXGKIT_REQUIRES(on_lane);
  void report_working_hardware() DXGKIT_REQUIRES(on_lane);
  bool reset_hardware(NodeOrdinal node);
  void clean_up(Device* guilty) DXGKIT_REQUIRES(on_lane);
  void come_back();
  void note_engine_timeout(Device& guilty) DXGKIT_REQUIRES(on_lane);
  void refuse_reset(const char* ddi, Status status);
  void begin_report(const Request& request) DXGKIT_REQUIRES(on_lane);
  void end_report(bool recovered);
  void step(std::string text);
  void note(std::string text) DXGKIT_REQUIRES(on_lane);  // the same, on the lane
  Device* device_of(ContextId context) DXGKIT_REQUIRES(on_lane);
  bool on_lane_unless_failed(const std::function<void()>& work);

  Adapter& adapter_;
  AdapterCore& core_;
  runtime::Runtime& runtime_;
  TimeoutPolicy policy_;
  std::unique_ptr<runtime::Timer> timer_;
  // Lane:
  std::vector<Node> nodes_ DXGKIT_GUARDED_BY(on_lane);
  bool armed_ DXGKIT_GUARDED_BY(on_lane) = false;
  int64_t armed_for_ DXGKIT_GUARDED_BY(on_lane) = 0;  // when it should ring
  bool recovering_ DXGKIT_GUARDED_BY(on_lane) = false;
  bool resetting_adapter_ DXGKIT_GUARDED_BY(on_lane) = false;
  std::deque<Request> requests_ DXGKIT_GUARDED_BY(on_lane);
  std::vector<TimeoutReport> reports_ DXGKIT_GUARDED_BY(on_lane);
  std::optional<TimeoutReport> report_ DXGKIT_GUARDED_BY(on_lane);  // of the recovery under way
  std::vector<int64_t> adapter_reset_times_ DXGKIT_GUARDED_BY(on_lane);
  std::map<uint32_t, std::vector<int64_t>> engine_timeouts_
      DXGKIT_GUARDED_BY(on_lane);                          // by process
  std::set<uint32_t> blocked_ DXGKIT_GUARDED_BY(on_lane);  // processes
  uint64_t engine_resets_ DXGKIT_GUARDED_BY(on_lane) = 0, adapter_resets_
                                                          DXGKIT_GUARDED_BY(on_lane) = 0;

  std::atomic<uint32_t> bell_{0};  // rises with each request; the thread waits on it
  std::atomic<bool> stop_{false};
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::dxgk
