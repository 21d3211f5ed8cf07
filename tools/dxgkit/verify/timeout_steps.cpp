// The device fails under the work of two clients: engines stop dead, memory loses its content,
// interrupts get lost. Everybody but the one whose packet it was goes on as if nothing had been.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/spelling.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/crew.h"
#include "tools/dxgkit/verify/facts.h"
#include "tools/dxgkit/verify/late_report.h"
#include "tools/dxgkit/verify/page_fault.h"
#include "tools/dxgkit/verify/pointer_look.h"

namespace dxgkit::tool::verify {
namespace {

/// Longer than a submission takes, so that packets queue up behind each other.
constexpr uint64_t kBusyNs = 200 * 1000;
constexpr uint32_t kAll = 1'000'000;  // of a million
/// So many ids of fences before each quarter of what 32 bits hold the works of a step begin
/// (SUB-13).
constexpr uint32_t kFencesBefore = 8;
constexpr uint64_t kSlowResetNs = 350 * 1000;
/// What is behind a packet that failed may wait for what that packet would have written. Its device
/// is lost, so a preemption ends it, and nobody waits for TdrDelay.
constexpr int64_t kPatienceNs = 500 * runtime::kMillisecond;
constexpr const char* kNoneHung = "no engine reached the packet at which it was to stop";
constexpr uint32_t kNonsenseBytes = 16;  // of commands, and of private data
/// In an output that nobody writes, the engine is responsive.
constexpr std::byte kOtherBytes{0xA5};

struct Tally {
  size_t rounds = 0, jobs = 0, unreached = 0;
  size_t engine_resets = 0, adapter_resets = 0, faults = 0;
};

/// A finding that only this file can have: the kernel does not know what the device was told to do.
void blame(Bench& bench, const char* rule, const char* ddi, std::string actual,
           std::string expected, std::string fix) {
  bench.findings().report({.rule = rule,
                           .severity = verifier::Severity::kViolation,
                           .ddi = ddi,
                           .actual = std::move(actual),
                           .expected = std::move(expected),
                           .fix = std::move(fix),
                           .why = "The device model was told what to do wrong, and when.",
                           .windows = "Applications lose their devices, or stand still."});
}

std::vector<dxgk::TimeoutReport> reports(Bench& bench) {
  Result<std::vector<dxgk::TimeoutReport>> all = bench.system().timeouts(bench.luid());
  return all.has_value() ? std::move(*all) : std::vector<dxgk::TimeoutReport>();
}

/// Clients hear of their lost devices before a recovery is over, and it is told when it is over.
void await_report(Bench& bench, size_t before) {
  const runtime::TimeNs deadline =
      bench.runtime().now() + bench.exercise().timeout_policy().ddi_delay_ns;
  while (bench.running() && reports(bench).size() == before && bench.runtime().now() < deadline)
    bench.runtime().sleep_for(runtime::kMillisecond);
}

/// What kernel and driver did, as one text.
std::string story(const dxgk::TimeoutReport& report) {
  std::string text;
  for (const dxgk::TimeoutStep& step : report.steps) text += (text.empty() ? "" : " ") + step.text;
  return text;
}

const char* reset_ddi(const dxgk::TimeoutReport& report) {
  return report.code == 0x141 ? "DxgkDdiResetEngine" : "DxgkDdiRestartFromTimeout";
}

/// The engines took no packets after `report`, or lost them.
std::string blame_dead_engine(Bench& bench, const dxgk::TimeoutReport& report, std::string what) {
  const bool engine = report.code == 0x141;
  blame(bench, engine ? "TDR-13" : "TDR-33", reset_ddi(report),
        fmt::format("{}. The recovery before it: {}", what, story(report)),
        fmt::format("After {} the nodes take packets, run them, and report them complete.",
                    reset_ddi(report)),
        "Set ring, fences, interrupt enables and the driver's own queue up as after the start; "
        "forget the preemption request and the packets of before.");
  return what;
}

/// A full job on each node, and a question about each fence. Empty: all is well. `after`: what the
/// DDI and the rule for interrupts that stay out are; null: they may.
Answer<std::string> works(Bench& bench, const char* after = "DxgkDdiRestartFromTimeout") {
  const Answer<NodeJobs> jobs = run_on_each_node(bench, "afterwards");
  if (!jobs) return std::unexpected(jobs.error());
  if (jobs->lost) return fmt::format("a job on node {} lost its device", jobs->node);
  if (!jobs->wrong.empty()) {
    report_result(bench, "After a recovery: " + jobs->wrong);
    return jobs->wrong;
  }
  if (jobs->late && after != nullptr) {
    std::string what = "work was reported complete only when the kernel asked, after TdrDelay";
    blame(bench, "TDR-33", after, "After a recovery " + what + ".",
          "Nodes report packets complete as after the start.",
          "Enable the interrupts of every engine again, and clear no more than what was pending.");
    return what;
  }
  const Result<uint32_t> fences = bench.exercise().query_fences();
  if (!fences.has_value()) return std::unexpected(status_text(fences.error()));
  return std::string();
}

/// Clients that lost their devices without a reason; empty: none did.
std::string blame_lost_devices(Bench& bench, Crew& crew, const dxgk::TimeoutReport* report,
                               const std::string& culprit) {
  for (Crew::Member& member : crew.members()) {
    const std::string& name = member.worker.name;
    if (!member.lost || name == culprit) continue;
    std::string what = culprit.empty()
                           ? fmt::format("{} lost its device to nothing", name)
                           : fmt::format("{} lost its device to a packet of {}", name, culprit);
    blame(bench, "TDR-18", report != nullptr ? reset_ddi(*report) : "DxgkCbNotifyInterrupt",
          what + "." + (report != nullptr ? " " + story(*report) : std::string()),
          "One packet fails, and its device alone is lost. Others see a delay.",
          "Name the packet the engine was at, and report the ones before it complete.");
    return what;
  }
  return {};
}

Answer<std::string> judge_results(Bench& bench, Crew& crew, const std::string& after) {
  const Answer<std::string> wrong = crew.wrong();
  if (wrong && !wrong->empty()) report_result(bench, after + ": " + *wrong);
  return wrong;
}

struct Hang {
  uint32_t node = 0;
  uint32_t entry = 1;  // the one at which the engine stops dead
  Crew::Wishes wishes = {};
  uint32_t lost = 0;  // of a million interrupts before it
  bool whole_adapter = false;
  bool whole_device = false;  // it takes `entry` steps of its own and stands still until its reset
  bool late = false;  // the engine has done the work of the entry, and completes it in the reset
  uint64_t reset_ns = 0;
  std::byte fill{0};          // of outputs before calls
  bool reset_behind = false;  // the adapter is reset before the engines have new work
  bool shows = false;         // before the work, sources are shown on a device that hangs
};

/// Compares what became of a hang with what the device was told. Empty: it went well.
Answer<std::string> judge_hang(Bench& bench, const Hang& hang, Crew& crew,
                               std::span<const dxgk::TimeoutReport> told, Tally& tally) {
  if (told.empty()) {
    ++tally.unreached;  // fewer packets than that
    if (std::string what = blame_lost_devices(bench, crew, nullptr, {}); !what.empty()) return what;
    return judge_results(bench, crew, "While no engine hung");
  }
  const dxgk::TimeoutReport& report = told.front();
  if (!report.recovered) return fmt::format("node {} was not recovered", hang.node);
  if (told.size() > 1) {
    return blame_dead_engine(
        bench, report,
        fmt::format("Node {} hung once, and node {} timed out after the recovery", report.node,
                    told[1].node));
  }
  if (report.node != hang.node && !hang.whole_device) {
    return blame_dead_engine(
        bench, report, fmt::format("node {} hung, and node {} timed out", hang.node, report.node));
  }
  if (report.granted) {
    blame(bench, "TDR-10", "DxgkDdiQueryEngineStatus",
          fmt::format("Responsive was 1 for node {}, which had stopped dead at fence {}.",
                      report.node, report.fence),
          "Responsive is 1 only if the engine got on since the driver was asked for a preemption.",
          "Compare what the engine has done, or where it is, with what it was then.");
    return fmt::format("node {} was called responsive though it hung", report.node);
  }
  const bool engine = report.code == 0x141;
  ++(engine ? tally.engine_resets : tally.adapter_resets);
  if (!engine) return std::string();  // every device is lost (TDR-26)
  if (report.fence != 0 && report.aborted.value_or(report.fence) != report.fence) {
    blame(bench, "TDR-14", "DxgkDdiResetEngine",
          fmt::format("LastAbortedFenceId is {} for node {}, which had stopped dead at fence {}, a "
                      "packet of {}.",
                      *report.aborted, report.node, report.fence, report.process),
          "The fence of the packet that the engine was at.",
          "Ask the hardware which packet the reset ended. If it cannot tell, it is the oldest that "
          "it has not completed.");
    return fmt::format("the wrong packet was named after node {} had hung", report.node);
  }
  if (std::string what = blame_lost_devices(bench, crew, &report, report.process); !what.empty())
    return what;
  return judge_results(bench, crew, fmt::format("After a reset of node {}", report.node));
}

void begin_hang(Bench& bench, const Hang& hang) {
  if (hang.whole_device) {
    bench.shortage().goes_on_at_reset(bench.device_clock());
    bench.device_clock()->stop_after(hang.entry);
    return;
  }
  std::vector<bus::EngineFaults> faults(bench.device_faults()->engine_count());
  for (bus::EngineFaults& one : faults) {
    one.lose_interrupt_per_million = hang.lost;
    one.reset_ns = hang.reset_ns;
  }
  faults[hang.node].hang_at_entry = hang.entry;
  faults[hang.node].hangs_max = 1;
  faults[hang.node].hangs_late = hang.late;
  bench.device_faults()->set_faults(faults);
}

void end_hang(Bench& bench) {
  bench.shortage().goes_on_at_reset(nullptr);
  bench.end_device_faults();
}

/// What a driver has under way for the screen does not come back from a device that hangs.
void show_sources(Bench& bench) {
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!exercise.has_value() || !sources) return;  // it drives no screen
  for (const dxgk::DisplaySource& source : *sources)
    static_cast<void>(exercise->set_visible(source.id, source.visible));
}

Answer<std::string> hang_once(Bench& bench, const Hang& hang, Tally& tally) {
  using Provoked = dxgk::ProvokedTimeouts;
  Crew crew(bench, hang.node);
  DXGKIT_VERIFY_TRY(crew.prepare(hang.wishes));
  bench.exercise().skip_fences(kFencesBefore);
  const size_t before = reports(bench).size();
  bench.exercise().provoke_timeouts(hang.whole_adapter ? Provoked::kAdapterReset
                                                       : Provoked::kAnyReset);
  begin_hang(bench, hang);
  if (hang.shows) show_sources(bench);
  bench.exercise().fill_outputs(hang.fill);
  const Answer<void> done = crew.work();
  end_hang(bench);
  if (bench.running()) bench.exercise().fill_outputs(std::byte{0});
  if (!bench.running()) return std::string("the adapter failed");
  if (!done) return std::unexpected(done.error());
  ++tally.rounds;
  tally.jobs += crew.jobs();
  if (std::ranges::any_of(crew.members(), &Crew::Member::lost)) await_report(bench, before);
  const std::vector<dxgk::TimeoutReport> all = reports(bench);
  const std::span<const dxgk::TimeoutReport> told = std::span(all).subspan(before);
  Answer<std::string> wrong = judge_hang(bench, hang, crew, told, tally);
  if (!wrong || !wrong->empty() || !bench.running()) return wrong;
  // The driver may tell of its nodes.
  if (!told.empty() && told.front().code != 0x141) {
    if (const Answer<void> right = judge_escapes(bench); !right)
      return std::unexpected("after a reset of the adapter " + right.error());
  }
  // What hangs now was not provoked, and the usual limits end it.
  bench.exercise().provoke_timeouts(Provoked::kNone);
  const size_t recovered = reports(bench).size();
  if (hang.reset_behind) {
    if (is_success(bench.exercise().reset())) static_cast<void>(bench.exercise().query_fences());
    // A driver that refuses has been told so; what comes after that is no new mistake. An adapter
    // that runs was not reset, because its memory could not be emptied now.
    if (!bench.running()) return std::string("the adapter failed");
  }
  wrong = works(bench);
  const bool lost = wrong && wrong->ends_with("its device");
  if (!told.empty() && (!bench.running() || lost || reports(bench).size() != recovered)) {
    return blame_dead_engine(
        bench, told.front(),
        lost ? "After the recovery " + *wrong : std::string("Work after the recovery timed out"));
  }
  return wrong;
}

/// Nothing to inject, or nowhere to wait for what it leads to. Empty: go on.
std::string why_no_faults(Bench& bench) {
  if (bench.device_faults() == nullptr)
    return "the device cannot be made to fail, or is failing already";
  if (bench.device_faults()->engine_count() < bench.node_count())
    return "the device has fewer engines that can be made to fail than the driver has nodes";
  return {};
}

std::string why_no_recovery(Bench& bench) {
  const dxgk::TimeoutPolicy& policy = bench.exercise().timeout_policy();
  if (policy.level != 3 || policy.debug_mode < 2 || policy.delay_ns <= 0)
    return "the registry says that timeouts are not recovered from";
  if (!bench.runtime().is_simulated()) {
    return fmt::format("every timeout would take {} s; with --mode sim time costs nothing",
                       2 * policy.delay_ns / runtime::kSecond);
  }
  return {};
}

std::string why_no_timeouts(Bench& bench) {
  std::string why = why_no_faults(bench);
  return why.empty() ? why_no_recovery(bench) : why;
}

Outcome finish(Bench& bench, const Answer<std::string>& wrong) {
  end_hang(bench);
  if (bench.running()) bench.exercise().provoke_timeouts(dxgk::ProvokedTimeouts::kNone);
  if (!wrong) return Outcome::failed(wrong.error());
  return wrong->empty() ? Outcome::ok() : Outcome::failed(*wrong);
}

/// An engine that takes its time before it answers a preemption, and gets on meanwhile: a packet
/// that has begun and the next one both come to their end. Nothing may be reset.
Answer<std::string> be_slow(Bench& bench, uint32_t node, Tally& tally) {
  Crew crew(bench, node);
  const int64_t delay_ns = bench.exercise().timeout_policy().delay_ns;
  DXGKIT_VERIFY_TRY(crew.prepare(
      {.urgent = true, .busy_ns = kBusyNs, .later_ns = static_cast<uint64_t>(delay_ns) / 10 * 9}));
  const size_t before = reports(bench).size();
  std::vector<bus::EngineFaults> faults(bench.device_faults()->engine_count());
  faults[node].preempts_when_idle = true;
  bench.device_faults()->set_faults(faults);
  const Answer<void> done = crew.work();
  end_hang(bench);
  if (!bench.running()) return std::string("the adapter failed");
  DXGKIT_VERIFY_TRY(done);
  tally.jobs += crew.jobs();
  if (std::ranges::any_of(crew.members(), &Crew::Member::lost)) await_report(bench, before);
  const std::vector<dxgk::TimeoutReport> all = reports(bench);
  if (all.size() != before) {
    const dxgk::TimeoutReport& report = all[before];
    blame(bench, "TDR-10", "DxgkDdiQueryEngineStatus",
          fmt::format("Responsive was 0 for node {}, which had completed a packet since it was "
                      "asked for a preemption. {}",
                      report.node, story(report)),
          "Responsive is 1 if the engine got on since the driver was asked for a preemption.",
          "Compare what the engine has done, or where it is, with what it was then.");
    return fmt::format("node {} was reset though it got on", report.node);
  }
  if (std::string what = blame_lost_devices(bench, crew, nullptr, {}); !what.empty()) return what;
  return judge_results(bench, crew, "On a slow engine");
}

Outcome run_hangs(Bench& bench, std::span<const Hang> hangs, const char* if_none_hung,
                  bool slow = false) {
  bench.expect_warnings("TDR-01");
  const Answer<bool> pointed = show_pointers(bench);
  if (!pointed) return Outcome::failed(pointed.error());
  Tally tally;
  Answer<std::string> wrong{std::string()};
  for (const Hang& hang : hangs) {
    wrong = hang_once(bench, hang, tally);
    if (!wrong || !wrong->empty() || !bench.running()) break;
  }
  const bool asks = bench.exercise().caps().support_per_engine_tdr &&
                    bench.has_entry("DxgkDdiQueryEngineStatus") && bench.device_faults() != nullptr;
  for (uint32_t node = 0; asks && slow && node < bench.node_count(); ++node) {
    if (!wrong || !wrong->empty() || !bench.running()) break;
    bench.exercise().provoke_timeouts(dxgk::ProvokedTimeouts::kNone);
    wrong = be_slow(bench, node, tally);
  }
  Outcome outcome = finish(bench, wrong);
  if (outcome.kind != Outcome::Kind::kOk) return outcome;
  if (!bench.running()) return Outcome::failed("the adapter failed");
  const Answer<void> again = *pointed ? show_pointers_again(bench, "a recovery") : Answer<void>();
  if (!again) return Outcome::failed(again.error());
  static_cast<void>(bench.take_stall());  // of calls that have met the hang
  show_sources(bench);
  if (const auto stall = bench.take_stall()) report_stall(bench.findings(), *stall);
  if (tally.engine_resets + tally.adapter_resets == 0) return Outcome::failed(if_none_hung);
  outcome.text = fmt::format(
      "{} under {} of 2 clients: {} and {} the adapter were reset, what was not hit came out right",
      counted(tally.rounds - tally.unreached, "hang"), counted(tally.jobs, "job"),
      counted(tally.engine_resets, "engine"), counted(tally.adapter_resets, "time"));
  return outcome;
}

/// Each engine stops at one of its packets, with work behind it and beside it.
Outcome hangs(Bench& bench) {
  if (std::string why = why_no_timeouts(bench); !why.empty())
    return Outcome::skipped(std::move(why));
  std::vector<Hang> all;
  const int64_t delay_ns = std::max<int64_t>(bench.exercise().timeout_policy().delay_ns, 0);
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    // Behind the last packet nothing is submitted again, so that one reset follows the other. A
    // fence that is forgotten is an older one there (see kFencesBefore).
    all.push_back({.node = node, .entry = 6, .wishes = {.busy_ns = kBusyNs}, .reset_behind = true});
    for (const uint32_t entry : {1U, 2U, 4U})
      all.push_back({.node = node, .entry = entry, .wishes = {.busy_ns = kBusyNs}});
    all.push_back({.node = node, .entry = 3, .wishes = {.urgent = true, .busy_ns = kBusyNs}});
    all.push_back({.node = node, .entry = 3, .wishes = {.busy_ns = kBusyNs}, .lost = kAll});
    all.push_back({.node = node, .entry = 2, .wishes = {.busy_ns = kBusyNs}, .late = true});
    // The last of the urgent jobs, with one behind it that was stopped midway before.
    all.push_back({.node = node,
                   .entry = 4,
                   .wishes = {.urgent = true, .busy_ns = kBusyNs},
                   .reset_ns = kSlowResetNs,
                   .fill = kOtherBytes});
    // The other engines are at work until after the reset.
    if (bench.node_count() > 1) {
      all.push_back(
          {.node = node,
           .entry = 2,
           .wishes = {.busy_ns = kBusyNs, .beside_ns = static_cast<uint64_t>(delay_ns) / 10 * 9}});
    }
  }
  return run_hangs(bench, all, kNoneHung, /*slow=*/true);
}

/// The same with a reset of the adapter for it: whatever the driver can do else, and because paging
/// was hit.
Outcome adapter_hangs(Bench& bench) {
  if (std::string why = why_no_timeouts(bench); !why.empty())
    return Outcome::skipped(std::move(why));
  std::vector<Hang> all;
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    for (const uint32_t entry : {1U, 3U}) {
      all.push_back(
          {.node = node, .entry = entry, .wishes = {.busy_ns = kBusyNs}, .whole_adapter = true});
    }
    if (bench.exercise().video_present_sources() != 0) {
      all.push_back({.node = node,
                     .entry = 1,
                     .wishes = {.busy_ns = kBusyNs},
                     .whole_adapter = true,
                     .shows = true});
    }
    all.push_back({.node = node,
                   .entry = 1,
                   .wishes = {.evicted = true, .busy_ns = kBusyNs},
                   .reset_ns = kSlowResetNs});
  }
  return run_hangs(bench, all, kNoneHung);
}

/// The device stands still with everything that is on it, and works again when it is reset. So it
/// can be with a device that knows nothing of faults.
Outcome device_stops(Bench& bench) {
  if (bench.device_clock() == nullptr)
    return Outcome::skipped("the device has no time of its own that could stop");
  if (std::string why = why_no_recovery(bench); !why.empty())
    return Outcome::skipped(std::move(why));
  std::vector<Hang> all;
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    for (const uint32_t steps : {0U, 1U, 2U, 3U, 5U, 8U}) {
      all.push_back({.node = node,
                     .entry = steps,
                     .wishes = {.urgent = steps == 3, .busy_ns = kBusyNs},
                     .whole_adapter = true,
                     .whole_device = true,
                     .fill = steps == 2 ? kOtherBytes : std::byte{0}});
    }
  }
  return run_hangs(bench, all, "work went on while the device stood still");
}

// --- memory errors ---
/// Packets of a crew's work that are paging, although everything was resident.
Answer<uint64_t> paging_of_work(Bench& bench) {
  Crew crew(bench, 0);
  DXGKIT_VERIFY_TRY(crew.prepare({.busy_ns = kBusyNs}));
  const Result<dxgk::AdapterStatistics> before = bench.system().statistics(bench.luid());
  DXGKIT_VERIFY_TRY(crew.work());
  const Result<dxgk::AdapterStatistics> after = bench.system().statistics(bench.luid());
  if (!before.has_value() || !after.has_value())
    return std::unexpected(std::string("the adapter failed"));
  return after->paging_packets - before->paging_packets;
}

struct MemoryError {
  uint32_t entry = 1;
  bool urgent = false;   // and a while after the entry has begun, when a preemption is asked for
  bool at_once = false;  // the preemption meets what was submitted again behind the error
  uint32_t lost = 0;     // of a million interrupts before it
  uint64_t reset_ns = 0;
};

Answer<std::string> fault_once(Bench& bench, uint32_t node, const MemoryError& error,
                               Tally& tally) {
  Crew crew(bench, node);
  DXGKIT_VERIFY_TRY(crew.prepare({.urgent = error.urgent, .busy_ns = kBusyNs}));
  bench.exercise().skip_fences(kFencesBefore);
  const size_t before = reports(bench).size();
  const uint64_t met = bench.memory_errors();
  std::vector<bus::EngineFaults> faults(bench.device_faults()->engine_count());
  for (bus::EngineFaults& one : faults) {
    one.lose_interrupt_per_million = error.lost;
    one.reset_ns = error.reset_ns;
  }
  faults[node].memory_error_at_entry = error.entry;
  if (error.urgent && !error.at_once) faults[node].memory_error_after_ns = kBusyNs;
  bench.device_faults()->set_faults(faults);
  bench.exercise().ask_silent_nodes_after(kPatienceNs);
  const Answer<void> done = crew.work();
  bench.device_faults()->set_faults({});
  if (!bench.running()) return std::string("the adapter failed");
  bench.exercise().ask_silent_nodes_after(0);
  DXGKIT_VERIFY_TRY(done);
  tally.jobs += crew.jobs();
  const std::vector<dxgk::TimeoutReport> all = reports(bench);
  std::array<Crew::Member, 2>& members = crew.members();
  const auto lost = std::ranges::count_if(members, &Crew::Member::lost);
  if (lost == 0 && bench.memory_errors() != met) return report_untold_error(bench.findings(), node);
  tally.faults += lost != 0;
  std::string what;
  if (all.size() != before) {
    what = fmt::format("Node {} met a memory error at one packet, and node {} timed out", node,
                       all.back().node);
    if (std::ranges::any_of(members, &Crew::Member::lost)) what += ", and devices were lost to it";
    blame(bench, "TDR-18", "DxgkCbNotifyInterrupt", what + ". " + story(all.back()),
          "The fault is reported with the fence of its packet, and the engine goes on with the "
          "packets behind it.",
          "Report the fault from the ISR, reset the engine, and submit what it held behind the "
          "faulted packet to it again.");
    return what;
  }
  if (lost > 1) {
    what = "one packet met a memory error, and both clients lost their devices";
    blame(bench, "TDR-18", "DxgkCbNotifyInterrupt", what + ".",
          "One packet fails, and its device alone is lost.",
          "Name the packet the engine was at, and report the ones before it complete.");
    return what;
  }
  for (Crew::Member& member : members) {
    Worker& worker = member.worker;
    if (member.lost && worker.client.page_faulted(worker.device))
      judge_fault(bench, worker.client, worker.device, node, DXGKIT_CLIENT_FAULT_WORK, {});
  }
  const Answer<std::string> wrong = judge_results(bench, crew, "After a memory error");
  if (!wrong || !wrong->empty()) return wrong;
  return works(bench);
}

/// One packet fails on an engine whose reset takes its time; meanwhile the adapter is stopped. What
/// the driver has begun for the recovery ends with that. Empty: it went well.
Answer<std::string> stop_in_recovery(Bench& bench, uint32_t node) {
  {
    Worker worker(bench, "stopped in its recovery");
    DXGKIT_VERIFY_TRY(worker.open());
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker.client, worker.device, bench.random(), node);
    if (!job) return std::unexpected(job.error());
    // Once for nothing: then the next packet of the node is the job.
    DXGKIT_VERIFY_TRY((*job)->submit(worker.contexts[node]));
    DXGKIT_VERIFY_TRY(worker.client.wait_idle(worker.device));
    std::vector<bus::EngineFaults> faults(bench.device_faults()->engine_count());
    faults[node] = {.memory_error_at_entry = 1, .reset_ns = 10 * kSlowResetNs};
    bench.device_faults()->set_faults(faults);
    static_cast<void>((*job)->submit(worker.contexts[node]));
    static_cast<void>(worker.client.wait_idle(worker.device));
  }
  const Outcome stopped = bench.stop();
  bench.device_faults()->set_faults({});
  const Outcome started = bench.start();
  if (stopped.kind != Outcome::Kind::kOk) return stopped.text;
  if (started.kind != Outcome::Kind::kOk) return started.text;
  return works(bench);
}

/// One packet meets memory that has lost its content.
Outcome memory_errors(Bench& bench) {
  if (std::string why = why_no_faults(bench); !why.empty()) return Outcome::skipped(std::move(why));
  const Answer<uint64_t> paging = paging_of_work(bench);
  if (!paging) return Outcome::failed(paging.error());
  if (*paging != 0)
    return Outcome::skipped("its work comes with paging, whose errors no driver survives");
  std::vector<MemoryError> errors = {
      {.entry = 1},
      {.entry = 1, .urgent = true, .reset_ns = kSlowResetNs},
      {.entry = 2},
      {.entry = 3, .urgent = true},
      {.entry = 1, .urgent = true, .at_once = true},
      {.entry = 2, .urgent = true, .at_once = true},
      {.entry = 4, .reset_ns = kSlowResetNs},
  };
  // One of these has one packet behind it, or none.
  for (const uint32_t entry : {4U, 5U, 6U}) errors.push_back({.entry = entry});
  // What a lost interrupt leaves is missed after TdrDelay only.
  if (why_no_timeouts(bench).empty()) errors.push_back({.entry = 2, .lost = kAll});
  Tally tally;
  Answer<std::string> wrong{std::string()};
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    for (const MemoryError& error : errors) {
      wrong = fault_once(bench, node, error, tally);
      if (!wrong || !wrong->empty() || !bench.running()) return finish(bench, wrong);
    }
    if (tally.faults == 0) continue;
    // The driver may count faults, and forget them in a stop.
    if (const Answer<void> told = judge_escapes(bench); !told) return Outcome::failed(told.error());
    wrong = stop_in_recovery(bench, node);
    if (!wrong || !wrong->empty() || !bench.running()) return finish(bench, wrong);
  }
  if (tally.faults == 0) return Outcome::skipped("the device has no memory that could fail");
  return Outcome::ok(
      fmt::format("{} met memory errors under {} of 2 clients, what was not hit came out right",
                  counted(tally.faults, "packet"), counted(tally.jobs, "job")));
}

// --- interrupts ---

struct Noise {
  const char* what;
  bus::EngineFaults faults;
  bool urgent = false;
  uint64_t delay_ns = 0;  // at most, of each interrupt of a device without faults
};

/// Two clients in flight while interrupts go astray. No device may be lost, nothing time out.
Answer<std::string> interrupts_once(Bench& bench, uint32_t node, const Noise& noise, Tally& tally) {
  Crew crew(bench, node);
  DXGKIT_VERIFY_TRY(crew.prepare({.urgent = noise.urgent, .busy_ns = kBusyNs}));
  const size_t before = reports(bench).size();
  if (noise.delay_ns != 0) {
    bench.device_clock()->delay_interrupts(noise.delay_ns);
  } else {
    bench.device_faults()->set_faults(
        std::vector<bus::EngineFaults>(bench.device_faults()->engine_count(), noise.faults));
  }
  const Answer<void> done = crew.work();
  bench.end_device_faults();
  if (!bench.running()) return std::string("the adapter failed");
  if (!done) return std::unexpected(done.error());
  tally.jobs += crew.jobs();
  const std::vector<dxgk::TimeoutReport> all = reports(bench);
  if (all.size() != before) {
    const std::string what =
        fmt::format("node {} timed out while interrupts were {}", all[before].node, noise.what);
    blame(bench, "INT-22", "DxgkDdiQueryCurrentFence",
          what + ", though its engine had finished. " + story(all[before]),
          "What the interrupt missed is reported when the kernel asks for the current fence.",
          "Read the completed fence from the hardware, report it with DxgkCbNotifyInterrupt inside "
          "DxgkCbSynchronizeExecution, and only then answer.");
    return what;
  }
  if (std::string what = blame_lost_devices(bench, crew, nullptr, {}); !what.empty()) return what;
  const Answer<std::string> wrong =
      judge_results(bench, crew, fmt::format("While interrupts were {}", noise.what));
  if (!wrong || !wrong->empty()) return wrong;
  return works(bench, nullptr);
}

/// One packet at a time, and no completion interrupts: the kernel asks for the fence, and that is
/// enough.
Answer<std::string> ask_instead(Bench& bench, Tally& tally) {
  Worker worker(bench, "without interrupts");
  DXGKIT_VERIFY_TRY(worker.open());
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker.client, worker.device, bench.random(), node);
    if (!job) return std::unexpected(job.error());
    const Result<dxgk::AdapterStatistics> before = bench.system().statistics(bench.luid());
    const std::vector<bus::EngineFaults> faults(
        bench.device_faults()->engine_count(),
        bus::EngineFaults{.lose_interrupt_per_million = kAll});
    bench.device_faults()->set_faults(faults);
    const Answer<void> submitted = (*job)->submit(worker.contexts[node]);
    std::string lost;
    const Answer<bool> kept = submitted ? worker.idle(&lost) : Answer<bool>(false);
    bench.device_faults()->set_faults({});
    DXGKIT_VERIFY_TRY(submitted);
    if (!kept) return std::unexpected(kept.error());
    const Result<dxgk::AdapterStatistics> after = bench.system().statistics(bench.luid());
    if (!before.has_value() || !after.has_value()) return std::string("the adapter failed");
    if (!*kept || after->watch_preemptions != before->watch_preemptions) {
      const std::string what = fmt::format("node {} told of no completion when asked", node);
      blame(bench, "INT-22", "DxgkDdiQueryCurrentFence",
            fmt::format("Node {} had finished a packet, its interrupt was lost, and the call "
                        "neither reported the fence nor answered it: the kernel asked for a "
                        "preemption.",
                        node),
            "What the interrupt missed is reported when the kernel asks for the current fence.",
            "Read the completed fence from the hardware, report it with DxgkCbNotifyInterrupt "
            "inside DxgkCbSynchronizeExecution, and only then answer.");
      return what;
    }
    if (const Answer<void> right = (*job)->check(); !right) {
      report_result(bench, "Without interrupts: " + right.error());
      return right.error();
    }
    ++tally.jobs;
    DXGKIT_VERIFY_TRY((*job)->destroy());
  }
  return std::string();
}

/// One client at work, and behind its packet a submission of another one's that the driver refuses.
/// With late interrupts the packet's fence is the last no more when its interrupt comes, and it
/// must be told complete all the same. The same without the other one says how long that takes.
Answer<std::string> refuse_behind(Bench& bench, Tally& tally) {
  bench.expect_warnings("VA-28");  // of a driver that refuses nothing
  const std::vector<bus::EngineFaults> late(bench.device_faults()->engine_count(),
                                            {.late_interrupt_per_million = kAll});
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    Worker worker(bench, "before a refusal");
    DXGKIT_VERIFY_TRY(worker.open());
    Worker refused(bench, "refused");
    DXGKIT_VERIFY_TRY(refused.open());
    const Answer<std::unique_ptr<Job>> job =
        Job::create(bench, worker.client, worker.device, bench.random(), node);
    if (!job) return std::unexpected(job.error());
    runtime::DurationNs alone = 0;
    for (const bool both : {false, true}) {
      bench.device_faults()->set_faults(late);
      const Answer<void> submitted = (*job)->submit(worker.contexts[node], 5 * kBusyNs);
      const runtime::TimeNs sent = bench.runtime().now();
      // Nothing is there, in the middle of eight bytes, and the data have no meaning.
      std::vector<std::byte> nonsense = bench.random_bytes(kNonsenseBytes);
      if (both) {
        refused.client.try_submit(refused.contexts[node].handle, kNonsenseBytes + 4, kNonsenseBytes,
                                  nonsense);
      }
      std::string wrong;
      const Answer<bool> kept = submitted ? worker.idle(&wrong) : Answer<bool>(false);
      const runtime::DurationNs took = bench.runtime().now() - sent;
      if (both) static_cast<void>(refused.client.wait_idle(refused.device));
      bench.device_faults()->set_faults({});
      DXGKIT_VERIFY_TRY(submitted);
      if (!bench.running()) return std::string("the adapter failed");
      if (!kept) return std::unexpected(kept.error());
      ++tally.jobs;
      if (!both) {
        alone = took;
      } else if (bench.simulated() && took > 3 * alone) {
        std::string what = fmt::format("node {} kept a completion for itself", node);
        blame(
            bench, "INT-26", "DxgkCbNotifyInterrupt",
            fmt::format("A packet on node {} took {} us from its submission until it was told "
                        "complete, and {} us with a submission behind it that the driver refused.",
                        node, alone / 1000, took / 1000),
            "Each packet that is complete is reported by the interrupt that tells of it, whatever "
            "has become of those behind it.",
            "Look for the newest completed packet that was not refused, or report the fence of "
            "the refused one: it counts as completed (SUB-29).");
        return what;
      }
      if (const Answer<void> right = *kept ? (*job)->check() : Answer<void>(); !right)
        wrong = right.error();
      if (wrong.empty()) continue;
      report_result(bench, "Before a submission that was refused: " + wrong);
      return wrong;
    }
  }
  return std::string();
}

Outcome interrupts(Bench& bench) {
  const std::string why = why_no_faults(bench);
  if (!why.empty() && bench.device_clock() == nullptr) return Outcome::skipped(why);
  std::vector<Noise> noises;
  if (why.empty()) {
    noises.push_back({"late", {.late_interrupt_per_million = kAll / 2}});
    noises.push_back({"doubled", {.duplicate_interrupt_per_million = kAll / 2}});
  } else {
    for (const bool urgent : {false, true}) {
      for (const uint64_t delay_ns : {kBusyNs / 100, kBusyNs})
        noises.push_back({"late", {}, urgent, delay_ns});
    }
  }
  // A lost interrupt is missed after TdrDelay only.
  const bool lose = why.empty() && why_no_timeouts(bench).empty();
  if (lose) {
    noises.push_back({"lost", {.lose_interrupt_per_million = kAll / 2}});
    noises.push_back({"lost, late and doubled",
                      {.lose_interrupt_per_million = kAll / 4,
                       .duplicate_interrupt_per_million = kAll / 4,
                       .late_interrupt_per_million = kAll / 4}});
    // Those of preemptions, too.
    noises.push_back({"lost, all of them", {.lose_interrupt_per_million = kAll}, /*urgent=*/true});
  }
  Tally tally;
  Answer<std::string> wrong{std::string()};
  for (const Noise& noise : noises) {
    for (uint32_t node = 0; node < bench.node_count(); ++node) {
      wrong = interrupts_once(bench, node, noise, tally);
      if (!wrong || !wrong->empty() || !bench.running()) return finish(bench, wrong);
    }
  }
  if (why.empty() && bench.gpu_addresses()) wrong = refuse_behind(bench, tally);
  if (!wrong || !wrong->empty()) return finish(bench, wrong);
  if (lose) wrong = ask_instead(bench, tally);
  if (!wrong || !wrong->empty()) return finish(bench, wrong);
  if (!why.empty())
    return Outcome::ok(fmt::format("{} with interrupts that come late, results right",
                                   counted(tally.jobs, "job")));
  return Outcome::ok(
      fmt::format("{} with completions late, doubled{}, results right", counted(tally.jobs, "job"),
                  lose ? " and lost" : "; none lost, because each would take TdrDelay"));
}

constexpr Step kSteps[] = {
    {"stray-interrupts", "completion interrupts are late, doubled and lost", Step::Needs::kClient,
     interrupts, /*makes_devices_fail=*/true},
    {"memory-errors", "single packets meet memory that lost its content", Step::Needs::kClient,
     memory_errors, /*makes_devices_fail=*/true},
    {"hangs", "engines stop dead at packets of one of two clients", Step::Needs::kClient, hangs,
     /*makes_devices_fail=*/true},
    {"adapter-hangs", "hangs that take a reset of the adapter, paging among them",
     Step::Needs::kClient, adapter_hangs, /*makes_devices_fail=*/true},
    {"device-stops", "the device stands still under work until it is reset", Step::Needs::kClient,
     device_stops, /*makes_devices_fail=*/true},
};

}  // namespace

std::span<const Step> timeout_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
