#include "dxgk/work/timeout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dxgk/core/graphics_registry.h"
#include "dxgk/core/process.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/faults.h"
#include "dxgk/work/guilty_device.h"
#include "dxgk/work/interrupt_reports.h"
#include "dxgk/work/unless_failed.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

/// So many preemptions without a completion, and so many times TdrDelay on hardware, make a packet
/// hung although the engine answers each time (TDR-34).
constexpr uint32_t kGivenBackMost = 5;

}  // namespace

TimeoutPolicy read_timeout_policy(const nt::KernelConfig& config, int64_t delay_ns) {
  TimeoutPolicy policy;
  policy.delay_ns = delay_ns;
  const auto number = [&](const char* name, uint32_t* out) {
    *out = graphics_dword(config, "", name).value_or(*out);
  };
  const auto seconds = [&](const char* name, int64_t* out) {
    if (const std::optional<uint32_t> value = graphics_dword(config, "", name))
      *out = int64_t{*value} * runtime::kSecond;
  };
  number("TdrLevel", &policy.level);
  number("TdrDebugMode", &policy.debug_mode);
  number("TdrLimitCount", &policy.limit_count);
  seconds("TdrDelay", &policy.delay_ns);
  seconds("TdrDdiDelay", &policy.ddi_delay_ns);
  seconds("TdrLimitTime", &policy.limit_time_ns);
  // 2 was to recover to a plain screen, and is not implemented anywhere; what is no level is the
  // default.
  if (policy.level > 1) policy.level = 3;
  if (policy.debug_mode > 3) policy.debug_mode = 2;
  return policy;
}

Timeout::Timeout(WorkFloor& floor, AdapterReset::Owner& above)
    : floor_(floor),
      core_(floor.core),
      runtime_(floor.core.runtime()),
      log_(floor),
      stale_(floor.core),
      limits_(floor, log_, policy_),
      adapter_reset_(floor, above, log_, stale_) {}
Timeout::~Timeout() { DXGKIT_CHECK(thread_ == nullptr); }

void Timeout::start() {
  timer_ = runtime_.make_timer([this] {
    core_.lane().post_from_interrupt([this]() DXGKIT_REQUIRES(on_lane) { on_timer(); });
  });
  const AdapterOptions& options = core_.options();
  policy_ =
      options.timeouts.value_or(read_timeout_policy(core_.kernel().config(), options.tdr_delay_ns));
}

void Timeout::stop() {
  stop_.store(true);
  std::unique_ptr<runtime::Thread> thread;
  core_.lane().run([&] { thread = std::move(thread_); });
  if (thread == nullptr) return;
  bell_.fetch_add(1);
  runtime_.wake_all(bell_);
  thread->join();
}

// --- detection: lane ---

namespace {

/// When a silent node is asked for a preemption, after its last sign of life.
int64_t asked_after(int64_t patience_ns, const TimeoutPolicy& policy) {
  return patience_ns == 0 ? policy.delay_ns : std::min(patience_ns, policy.delay_ns);
}

}  // namespace

std::optional<int64_t> Timeout::deadline(NodeOrdinal node) {
  const vidsch::NodeStatus status = core_.scheduler().node_status(node);
  if (status.resetting) return std::nullopt;
  const Node& mine = nodes_[node.value];
  // TDR-01: from the request, if there is one. An empty queue owes an answer, too (PREEMPT-06), but
  // may have become empty this moment.
  if (status.preemption_pending) {
    const bool idle = status.hardware_queue_length == 0;
    const int64_t since = idle ? std::max(mine.asked_ns, status.progress_ns) : mine.asked_ns;
    return std::max(since + policy_.delay_ns, mine.granted_until);
  }
  if (status.hardware_queue_length == 0) return std::nullopt;
  return std::max(status.progress_ns + asked_after(patience_ns_, policy_), mine.granted_until);
}

void Timeout::be_patient_for(int64_t patience_ns) {
  patience_ns_ = patience_ns;
  armed_ = false;  // it may be armed for a later time
  watch();
}

void Timeout::watch() {
  if (armed_ || recovering_ || stop_.load(std::memory_order_relaxed)) return;
  if (policy_.delay_ns <= 0 || policy_.level == 0 || policy_.debug_mode == 1) return;
  nodes_.resize(core_.scheduler().node_count());
  std::optional<int64_t> first;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const std::optional<int64_t> due = deadline(NodeOrdinal{i});
    if (due.has_value()) first = std::min(first.value_or(*due), *due);
  }
  if (!first.has_value()) return;
  armed_ = true;
  // What is asked later is due later: the watch need not be armed anew before it rings.
  armed_for_ = std::max(*first, runtime_.now() + 1);
  timer_->arm(armed_for_);
}

void Timeout::on_timer() {
  armed_ = false;
  if (!core_.running_or_starting() || recovering_ || core_.power_phase().off()) return;
  const int64_t now = runtime_.now();
  // The watch rings far too late: this machine was stopped meanwhile, the engine's time with it.
  const bool stood_still = now - armed_for_ > policy_.delay_ns / 2;
  for (uint32_t i = 0; i < nodes_.size() && core_.running_or_starting(); ++i) {
    const std::optional<int64_t> due = deadline(NodeOrdinal{i});
    if (!due.has_value() || *due > now) continue;
    if (!stood_still || !excuse(NodeOrdinal{i})) look_at(NodeOrdinal{i});
  }
  watch();
}

/// What it has not answered it gets another TdrDelay for, once. False: there is nothing to excuse.
bool Timeout::excuse(NodeOrdinal node) {
  Node& mine = nodes_[node.value];
  if (mine.excused || !core_.scheduler().node_status(node).preemption_pending) return false;
  mine.excused = true;
  mine.granted_until = runtime_.now() + policy_.delay_ns;
  return true;
}

namespace {

verifier::Finding never_completed(NodeOrdinal node, SubmissionFenceId fence, int64_t delay_ns) {
  return {
      .rule = "TDR-01",
      .severity = verifier::Severity::kViolation,
      .ddi = "DxgkDdiSubmitCommand",
      .actual = fmt::format("Node {} took fence {} and reported nothing for {} ms. It has never "
                            "reported a completion.",
                            node.value, fence.value, delay_ns / runtime::kMillisecond),
      .expected = "A submitted packet reaches the engine, and its fence is reported complete.",
      .fix =
          "Check that the engine was started for this fence, that its interrupt is enabled "
          "and acknowledged, and that the ISR reports DMA_COMPLETED for every fence.",
      .why = "Without a report the kernel cannot know that anything has run.",
      .windows =
          "The engine or the adapter is reset again and again, until Windows gives the "
          "adapter up.",
      .dooms = true};
}

}  // namespace

void Timeout::look_at(NodeOrdinal node) {
  const SubmissionFenceId before = core_.scheduler().node_status(node).last_completed;
  // INT-22: the driver reports what it missed before anybody calls it a hang.
  const Result<uint32_t> current = core_.port().submission().query_current_fence(node);
  core_.port().timeouts().flush_dpcs();
  floor_.reports->drain();
  if (!core_.running_or_starting()) return;  // by what it answered, or reported
  vidsch::Scheduler& scheduler = core_.scheduler();
  const vidsch::NodeStatus status = scheduler.node_status(node);
  if (status.last_completed != before) ++counts_.late_reports;
  const SubmissionFenceId answer{current.value_or(status.last_completed.value)};
  if (fence_newer(answer, status.last_completed) && !fence_newer(answer, status.last_submitted)) {
    core_.findings().report(
        {.rule = "INT-22",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiQueryCurrentFence",
         .actual = fmt::format("It answered fence {} for node {}; fence {} is the last one "
                               "reported.",
                               answer.value, node.value, status.last_completed.value),
         .expected = "What it answers has been reported complete, if need be before it returns.",
         .fix = "Call DxgkCbNotifyInterrupt inside DxgkCbSynchronizeExecution for what the "
                "interrupt missed, and only then answer."});
  }
  const std::optional<int64_t> due = deadline(node);
  if (!due.has_value() || *due > runtime_.now()) return;  // it got on
  const bool early =
      !status.preemption_pending && status.progress_ns + policy_.delay_ns > runtime_.now();
  // No fence is 0, so nothing has ever completed.
  if (!early && core_.options().silence_ends_it && provoked_ == ProvokedTimeouts::kNone &&
      status.last_completed == SubmissionFenceId{} && status.hardware_queue_length != 0) {
    core_.fail(never_completed(node, scheduler.packets_on(node).front().second, policy_.delay_ns));
    return;
  }
  if (!status.preemption_pending) {
    Node& mine = nodes_[node.value];
    mine.asked_fences.clear();
    for (const auto& [packet, fence] : scheduler.packets_on(node))
      mine.asked_fences.push_back(fence.value);
    mine.by_watch = true;
    if (scheduler.request_preemption(node)) {
      ++counts_.watch_preemptions;
      return;
    }
    mine.by_watch = false;  // it cannot preempt
    if (early) {
      mine.granted_until = status.progress_ns + policy_.delay_ns;
      return;
    }
  }
  timed_out(node);
}

void Timeout::preemption_asked(NodeOrdinal node, SubmissionFenceId fence) {
  nodes_.resize(core_.scheduler().node_count());
  Node& mine = nodes_[node.value];
  mine.asked_ns = runtime_.now();
  mine.preemption = fence;
  mine.granted = false;
  mine.excused = false;
  mine.granted_until = 0;
  watch();
}

void Timeout::preemption_answered(const port::InterruptReport& report) {
  const NodeOrdinal node{report.node};
  Node& mine = nodes_[report.node];
  const bool ours = std::exchange(mine.by_watch, false);
  if (!ours || !report.inside_preempt) {
    look_at_given_back(report);
    return;
  }
  const auto left = std::ranges::find_if(mine.asked_fences, [&](uint32_t fence) {
    return fence_newer(SubmissionFenceId{fence}, SubmissionFenceId{report.last_completed});
  });
  if (left == mine.asked_fences.end()) return;
  core_.findings().report(
      {.rule = "TDR-01",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSubmitCommand",
       .actual = fmt::format(
           "Node {} reported nothing for {} ms with fence {} submitted, and DxgkDdiPreemptCommand "
           "answered before it returned that nothing was running (LastCompletedFenceId {}).",
           report.node, asked_after(patience_ns_, policy_) / runtime::kMillisecond, *left,
           report.last_completed),
       .expected = "A submitted packet reaches the engine, and its fence is reported complete.",
       .fix = "Check that the engine was started for this fence, that its interrupt is enabled "
              "and acknowledged, and that the ISR reports DMA_COMPLETED for every fence.",
       .why = "The packet was neither run nor kept: the kernel submits it again.",
       .windows = "Nothing happens until another packet wants the engine: the application hangs.",
       .confidence = verifier::Confidence::kInferred});
  const SubmissionFenceId last = core_.scheduler().node_status(node).last_completed;
  if (mine.lost && mine.lost_after == last) {  // twice the same: it would go on for ever
    require_adapter_reset(node, fmt::format("Node {} loses packets.", report.node));
    return;
  }
  mine.lost = true;
  mine.lost_after = last;
}

/// An engine that answers every preemption is never silent, and yet may not run what it takes.
void Timeout::look_at_given_back(const port::InterruptReport& report) {
  if (policy_.delay_ns <= 0 || policy_.level == 0 || policy_.debug_mode == 1) return;
  const NodeOrdinal node{report.node};
  const vidsch::NodeStatus status = core_.scheduler().node_status(node);
  const vidsch::GivenBack& back = status.given_back;
  Node& mine = nodes_[report.node];
  const bool granted = back.times != 0 && mine.granted_packet == back.packet;
  const uint32_t most = granted ? 2 * kGivenBackMost : kGivenBackMost;
  if (back.times < most || back.ran_ns < most * policy_.delay_ns) return;
  if (!granted && core_.port().timeouts().has_engine_reset()) {
    const Result<bool> responsive = core_.port().timeouts().query_engine_status(node);
    if (!core_.running_or_starting()) return;
    if (responsive.has_value() && *responsive) {  // TDR-10
      mine.granted_packet = back.packet;
      return;
    }
  }
  core_.findings().report(
      {.rule = "TDR-34",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSubmitCommand",
       .actual = fmt::format(
           "Node {} answered {} preemption requests in a row with the same packet uncompleted "
           "(LastCompletedFenceId {} each time), after {} ms on hardware in all.",
           report.node, back.times, report.last_completed, back.ran_ns / runtime::kMillisecond),
       .expected = fmt::format(
           "A packet that comes again goes on, or starts again, and completes in the end: here "
           "within {} preemptions and {} ms on hardware.",
           most, most * policy_.delay_ns / runtime::kMillisecond),
       .fix = "Check that the engine was started for this fence, that its interrupt is enabled "
              "and acknowledged, and that the ISR reports DMA_COMPLETED for every fence. If the "
              "commands themselves never end, it is the user mode's to find.",
       .why = "The kernel submits a preempted packet again: it would do so for ever.",
       .windows = "An engine that answers in time is not reset: the application hangs, and memory "
                  "management with it if the packet is a paging packet.",
       .confidence = verifier::Confidence::kInferred});
  std::string cause =
      fmt::format("Node {} gave one packet back {} times in a row.", report.node, back.times);
  if (is_settled_by_policy(node, cause)) return;
  require_engine_reset(node, std::move(cause));
}

void Timeout::report_silence(NodeOrdinal node, const vidsch::NodeStatus& status) {
  const Node& mine = nodes_[node.value];
  const bool idle = status.hardware_queue_length == 0;
  const int64_t since = status.preemption_pending ? mine.asked_ns : status.progress_ns;
  const int64_t silent_ms = (runtime_.now() - since) / runtime::kMillisecond;
  std::string actual = fmt::format(
      "Node {} reported nothing for {} ms{}: fence {} is the last completed, fence {} the last "
      "submitted, {} packets are on hardware.",
      node.value, silent_ms,
      status.preemption_pending
          ? fmt::format(" after DxgkDdiPreemptCommand with PreemptionFenceId {}",
                        mine.preemption.value)
          : "",
      status.last_completed.value, status.last_submitted.value, status.hardware_queue_length);
  const int64_t delay_ms = policy_.delay_ns / runtime::kMillisecond;
  if (idle) {
    core_.findings().report(
        {.rule = "PREEMPT-06",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiPreemptCommand",
         .actual = std::move(actual),
         .expected = fmt::format("Every request is answered by DMA_PREEMPTED within TdrDelay "
                                 "({} ms), by an idle engine at once.",
                                 delay_ms),
         .fix = "When nothing runs, report the preemption from inside DxgkDdiPreemptCommand, in "
                "DxgkCbSynchronizeExecution."});
    return;
  }
  core_.findings().report(
      {.rule = "TDR-01",
       .severity = verifier::Severity::kWarning,
       .ddi = "DxgkDdiSubmitCommand",
       .actual = std::move(actual),
       .expected = fmt::format("A submitted packet completes, or is preempted, within TdrDelay "
                               "({} ms).",
                               delay_ms),
       .fix = "Check that the engine was started for this fence, that its interrupt is enabled "
              "and acknowledged, and that the ISR reports DMA_COMPLETED for every fence and "
              "DMA_PREEMPTED for every request. If the commands themselves hang, it is the user "
              "mode's to find.",
       .windows = "The engine is reset, or the adapter; events 0x141 or 0x117, and 0x116 when the "
                  "recovery fails."});
}

void Timeout::timed_out(NodeOrdinal node) {
  const vidsch::NodeStatus status = core_.scheduler().node_status(node);
  report_silence(node, status);
  std::string cause = fmt::format(
      "Node {} {} for {} ms.", node.value,
      status.preemption_pending ? "did not answer a preemption request" : "reported nothing",
      policy_.delay_ns / runtime::kMillisecond);
  if (is_settled_by_policy(node, cause)) return;
  Request request;
  request.node = node;
  request.cause = std::move(cause);
  this->request(std::move(request));
}

/// True: the machine stops instead of a recovery (TDR-02).
bool Timeout::is_settled_by_policy(NodeOrdinal node, const std::string& cause) {
  if (policy_.debug_mode == 0) {  // there is no debugger to stop for: it is noted (our choice)
    TimeoutReport note;
    note.code = 0x193;
    note.node = node.value;
    note.cause = cause + " TdrDebugMode 0 stops here for a debugger.";
    note.detected_ns = note.ended_ns = runtime_.now();
    log_.add(std::move(note));
  }
  if (policy_.level != 1) return false;
  core_.fail({.rule = "TDR-02",
              .severity = verifier::Severity::kBugCheck,
              .ddi = "DxgkDdiPreemptCommand",
              .actual = cause + " TdrLevel is 1.",
              .expected = "With TdrLevel 1 a timeout stops the machine.",
              .fix = "Set TdrLevel to 3 to have timeouts recovered.",
              .bugcheck_code = 0x116,
              .bugcheck_parameter = 0});
  return true;
}

void Timeout::require_engine_reset(NodeOrdinal node, std::string cause) {
  Request request;
  request.node = node;
  request.required = true;
  request.cause = std::move(cause);
  this->request(std::move(request));
}

void Timeout::require_adapter_reset(NodeOrdinal node, std::string cause) {
  Request request;
  request.node = node;
  request.adapter = request.required = true;
  request.cause = std::move(cause);
  this->request(std::move(request));
}

void Timeout::request(Request request) {
  if (stop_.load()) return;
  nodes_.resize(core_.scheduler().node_count());
  if (request.required && !request.adapter) core_.scheduler().begin_reset(request.node);
  request.adapter_resets = adapter_reset_.resets();
  requests_.push_back(std::move(request));
  recovering_ = true;
  if (thread_ == nullptr) thread_ = runtime_.spawn("timeouts", [this] { run(); });
  bell_.fetch_add(1);
  runtime_.wake_all(bell_);
}

// --- the thread ---

void Timeout::run() {
  while (!stop_.load()) {
    const uint32_t seen = bell_.load();
    std::optional<Request> next;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (requests_.empty()) return;
      next = std::move(requests_.front());
      requests_.pop_front();
    });
    if (!next.has_value()) {
      if (!stop_.load()) runtime_.wait(bell_, seen);
      continue;
    }
    recover(*next);
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      recovering_ = !requests_.empty();
      if (recovering_) return;
      core_.pump();
      core_.progress();
    });
  }
}

bool Timeout::still_due(const Request& request) {
  if (request.adapter_resets != adapter_reset_.resets()) return false;
  if (request.required) return true;
  const std::optional<int64_t> due = deadline(request.node);
  return due.has_value() && *due <= runtime_.now();
}

void Timeout::begin_log(const Request& request) {
  RecoveryLog::Beginning beginning;
  beginning.node = request.node;
  beginning.adapter = request.adapter;
  beginning.cause = request.cause;
  const Node& mine = nodes_[request.node.value];
  beginning.asked_ns = request.required ? runtime_.now() : mine.asked_ns;
  if (!request.required && core_.scheduler().node_status(request.node).preemption_pending)
    beginning.preemption = mine.preemption.value;
  log_.begin(beginning);
  log_.current().granted = mine.granted;
}

void Timeout::recover(const Request& request) {
  bool off = false;
  if (!run_unless_failed(core_,
                         [&]() DXGKIT_REQUIRES(on_lane) {
                           off = core_.power_phase().off() || !still_due(request);
                           if (off) return;
                           begin_log(request);
                           if (request.adapter) return;
                           resetting_engine_ = true;
                           core_.progress();
                         }) ||
      off) {
    return;
  }
  EngineOutcome outcome = EngineOutcome::kPromote;
  if (!request.adapter) {
    outcome = recover_engine(request);
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      resetting_engine_ = false;
      core_.progress();
    });
  }
  switch (outcome) {
    case EngineOutcome::kRecovered:
      log_.end(true);
      break;
    case EngineOutcome::kPromote:
      recover_adapter(request);
      break;
    case EngineOutcome::kNotNeeded:
    case EngineOutcome::kGranted:
      log_.drop();
      return;
    case EngineOutcome::kOver:
      log_.end(false);
      break;
  }
  // One was provoked. A driver that does not get on afterwards runs into the limits.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { provoked_ = ProvokedTimeouts::kNone; });
}

std::optional<bool> Timeout::responsive(NodeOrdinal node) {
  std::optional<bool> answer;
  const bool alive = run_unless_failed(core_, [&]() DXGKIT_REQUIRES(on_lane) {
    const Result<bool> status = core_.port().timeouts().query_engine_status(node);
    // TDR-10: a failure was reported; nobody can say that the engine gets on.
    answer = status.has_value() && *status;
    Node& mine = nodes_[node.value];
    if (!*answer || mine.granted) {
      answer = false;
      return;
    }
    mine.granted = true;
    mine.granted_until = runtime_.now() + policy_.delay_ns;
  });
  return alive ? answer : std::nullopt;
}

Timeout::EngineOutcome Timeout::recover_engine(const Request& request) {
  if (!core_.caps().support_per_engine_tdr || !core_.port().timeouts().has_engine_reset()) {
    log_.step("The driver has no per-engine recovery: the adapter is reset.");
    return EngineOutcome::kPromote;
  }
  bool whole = false;
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { whole = provoked_ == ProvokedTimeouts::kAdapterReset; });
  if (whole) {
    log_.step("A reset of the adapter is asked for.");
    return EngineOutcome::kPromote;
  }
  if (!request.required) {
    const std::optional<bool> answer = responsive(request.node);
    if (!answer.has_value()) return EngineOutcome::kOver;
    if (*answer) return EngineOutcome::kGranted;
    log_.step("DxgkDdiQueryEngineStatus: the engine is not responsive.");
  }
  uint32_t count = 0;
  uint64_t mask = 0;
  const bool alive = run_unless_failed(core_, [&]() DXGKIT_REQUIRES(on_lane) {
    count = static_cast<uint32_t>(nodes_.size());
    const Result<uint64_t> group =
        core_.port().timeouts().query_dependent_engines(request.node, count);
    if (group.has_value()) mask = *group;
  });
  if (!alive || mask == 0) return EngineOutcome::kOver;
  log_.step(fmt::format("DxgkDdiQueryDependentEngineGroup: nodes {:#x} are reset together.", mask));
  const uint64_t also = preempt_others(mask, request.node);
  const std::vector<std::byte> info = core_.port().timeouts().collect_debug_info(0x141);
  if (!run_unless_failed(
          core_, [&]() DXGKIT_REQUIRES(on_lane) { log_.current().debug_bytes = info.size(); }))
    return EngineOutcome::kOver;
  log_.step(fmt::format("DxgkDdiCollectDbgInfo for event 0x141: {} bytes.", info.size()));
  EngineOutcome outcome = EngineOutcome::kRecovered;
  for (uint32_t i = 0; i < count && outcome == EngineOutcome::kRecovered; ++i) {
    const NodeOrdinal node{i};
    if (node != request.node && (also >> i & 1) == 0) continue;
    const bool hung = node == request.node;
    outcome = reset_one(node, hung && request.required, hung);
  }
  return outcome;
}

/// TDR-11. Returns those that did not give way.
uint64_t Timeout::preempt_others(uint64_t mask, NodeOrdinal node) {
  constexpr int64_t kPatienceNs = 500 * runtime::kMillisecond;
  uint64_t busy = 0;
  static_cast<void>(run_unless_failed(core_, [&]() DXGKIT_REQUIRES(on_lane) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (NodeOrdinal{i} == node || (mask >> i & 1) == 0) continue;
      const vidsch::NodeStatus status = core_.scheduler().node_status(NodeOrdinal{i});
      if (status.hardware_queue_length == 0 && !status.preemption_pending) continue;
      static_cast<void>(core_.scheduler().request_preemption(NodeOrdinal{i}));
      busy |= uint64_t{1} << i;
    }
  }));
  const int64_t until = runtime_.now() + kPatienceNs;
  AdapterCore::Waiting waiting(core_);
  while (busy != 0) {
    const uint32_t seen = waiting.seen();
    const bool alive = run_unless_failed(core_, [&]() DXGKIT_REQUIRES(on_lane) {
      for (uint32_t i = 0; i < nodes_.size(); ++i) {
        const vidsch::NodeStatus status = core_.scheduler().node_status(NodeOrdinal{i});
        // One that cannot be preempted is given way by being empty.
        if (!status.preemption_pending && status.hardware_queue_length == 0)
          busy &= ~(uint64_t{1} << i);
        else if (!status.preemption_pending && nodes_[i].preemption.value != 0)
          busy &= ~(uint64_t{1} << i);
      }
    });
    if (!alive || busy == 0) return busy;
    if (waiting.wait_until(until, seen) == runtime::WaitResult::kTimedOut) break;
  }
  if (busy != 0) log_.step(fmt::format("Nodes {:#x} did not give way within 500 ms.", busy));
  return busy;
}

Timeout::EngineOutcome Timeout::reset_one(NodeOrdinal node, bool required, bool hung) {
  const uint64_t bit = uint64_t{1} << node.value;
  if (!run_unless_failed(core_,
                         [&]() DXGKIT_REQUIRES(on_lane) { core_.scheduler().begin_reset(node); }))
    return EngineOutcome::kOver;
  // TDR-09: from here on the engine's interrupts are kept back; what came before is taken in.
  core_.port().timeouts().mask_engines(bit);
  core_.port().timeouts().flush_dpcs();
  EngineOutcome outcome = EngineOutcome::kOver;
  static_cast<void>(run_unless_failed(core_, [&]() DXGKIT_REQUIRES(on_lane) {
    floor_.reports->drain();
    if (!core_.running_or_starting()) return;
    const vidsch::NodeStatus before = core_.scheduler().node_status(node);
    const bool owes = before.preemption_pending || before.hardware_queue_length != 0;
    const bool answered = nodes_[node.value].preemption.value != 0 && !before.preemption_pending;
    if (!required && (!owes || (answered && hung))) {
      core_.port().timeouts().unmask_engines(bit, /*tell=*/true);
      core_.scheduler().end_reset(node);
      outcome = EngineOutcome::kNotNeeded;
      return;
    }
    if (!hung) {  // TDR-11: before each reset
      const auto count = static_cast<uint32_t>(nodes_.size());
      if (!core_.port().timeouts().query_dependent_engines(node, count).has_value()) return;
    }
    const Result<uint32_t> reset = core_.port().timeouts().reset_engine(node);
    if (!reset.has_value()) {
      if (reset.error() == Status::kDeviceRemoved) return;  // the driver died inside
      log_.note("DxgkDdiResetEngine failed: the adapter is reset (reason 9, promoted).");
      outcome = EngineOutcome::kPromote;
      return;
    }
    log_.note(fmt::format(
        "DxgkDdiResetEngine of node {}: LastAbortedFenceId {}; fence {} was the last completed, "
        "{} the last submitted.",
        node.value, *reset, before.last_completed.value, before.last_submitted.value));
    if (hung) log_.current().aborted = *reset;
    // INT-21: what was kept back is of packets the reset ended. The engine goes on before this
    // step is over, and what it reports then counts.
    core_.port().timeouts().unmask_engines(bit, /*tell=*/false);
    outcome = judge(node, before, SubmissionFenceId{*reset});
  }));
  core_.port().timeouts().unmask_engines(bit, /*tell=*/false);  // where that was left early
  return outcome;
}

/// A reset that ends no packet submits all of them again. If nothing completes before the next one,
/// it would go on for ever, and engine resets count for no limit (TDR-05): the second is promoted.
bool Timeout::resets_without_end(NodeOrdinal node, const vidsch::NodeStatus& before,
                                 const vidsch::EngineReset& found) {
  Node& mine = nodes_[node.value];
  if (found.on_hardware || before.hardware_queue_length == 0) {
    mine.blameless = false;
    return false;
  }
  if (!mine.blameless || mine.blameless_after != before.last_completed) {
    mine.blameless = true;
    mine.blameless_after = before.last_completed;
    return false;
  }
  mine.blameless = false;
  core_.findings().report(
      {.rule = "TDR-13",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiResetEngine",
       .actual = fmt::format(
           "It answered LastAbortedFenceId {} for node {} twice, the last completed fence, with {} "
           "packets on hardware, and the node completed nothing between the two resets.",
           before.last_completed.value, node.value, before.hardware_queue_length),
       .expected = "The reset names the packet that it ended, and the node then takes new packets "
                   "and completes them.",
       .fix = "Return the fence of the packet that was running, and check that the engine starts "
              "again: its ring, its interrupt, its doorbell.",
       .why = "Without an aborted packet all of them are submitted again, to an engine that hangs "
              "as before.",
       .windows = "Undocumented. Here the adapter is reset.",
       .confidence = verifier::Confidence::kInferred});
  return true;
}

Timeout::EngineOutcome Timeout::judge(NodeOrdinal node, const vidsch::NodeStatus& before,
                                      SubmissionFenceId last_aborted) {
  vidsch::Scheduler& scheduler = core_.scheduler();
  const vidsch::EngineReset found = scheduler.find_aborted(node, last_aborted);
  if (!found.in_range) {
    core_.fail({.rule = "TDR-14",
                .severity = verifier::Severity::kBugCheck,
                .ddi = "DxgkDdiResetEngine",
                .actual = fmt::format("LastAbortedFenceId is {} for node {}.", last_aborted.value,
                                      node.value),
                .expected = fmt::format("A submission fence from {} (the last completed) to {} "
                                        "(the last submitted), both included.",
                                        before.last_completed.value, before.last_submitted.value),
                .fix = "Return the fence of the packet the reset ended; if the queue had run "
                       "dry, that of the last one that finished.",
                .bugcheck_code = 0x119,
                .bugcheck_parameter = 0xA});
    return EngineOutcome::kOver;
  }
  if (found.on_hardware && found.kind == vidsch::PacketKind::kPaging) {
    log_.note(
        "The aborted packet is a paging packet: memory is in an unknown state, and the adapter is "
        "reset.");
    return EngineOutcome::kPromote;
  }
  if (resets_without_end(node, before, found)) {
    log_.note("The engine did not get on after its last reset either: the adapter is reset.");
    return EngineOutcome::kPromote;
  }
  Node& mine = nodes_[node.value];
  stale_.engine_was_reset(node, before, mine.preemption, last_aborted);
  mine.by_watch = false;
  mine.granted = false;
  mine.granted_until = 0;
  Device* guilty = nullptr;
  if (before.hardware_queue_length != 0) guilty = device_of(floor_, found.context);
  floor_.faults->set_device_state(DeviceState::kHung);
  static_cast<void>(scheduler.engine_was_reset(node, last_aborted, runtime_.now()));
  ++counts_.engine_resets;
  if (guilty != nullptr) {
    guilty->set_error(DeviceState::kHung);  // TDR-15 too: although its packet had finished
    log_.note(
        fmt::format("Fence {} was of {}, whose device is lost (hung); {} packets before it are "
                    "complete, {} behind it are submitted again.",
                    last_aborted.value, guilty->process().name(), found.finished, found.innocent));
    if (provoked_ == ProvokedTimeouts::kNone) limits_.note_engine_timeout(*guilty);
  } else {
    log_.note(fmt::format("Nobody is to blame; {} packets are submitted again.", found.innocent));
  }
  return EngineOutcome::kRecovered;
}

void Timeout::recover_adapter(const Request& request) {
  bool past = false;
  if (!run_unless_failed(core_,
                         [&]() DXGKIT_REQUIRES(on_lane) {
                           past = provoked_ == ProvokedTimeouts::kNone &&
                                  limits_.past_limit(request.cause);
                           if (past) return;
                           log_.current().code = 0x117;
                           adapter_reset_.begin();
                         }) ||
      past) {
    log_.end(false);
    return;
  }
  const bool done =
      adapter_reset_.run(request.node, policy_.ddi_delay_ns, [&]() DXGKIT_REQUIRES(on_lane) {
        for (Node& mine : nodes_) mine = {};
      });
  log_.end(done);
}

}  // namespace dxgkit::dxgk
