#include "tools/dxgkit/verify/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nt/polls.h"
#include "runtime/deadlock_note.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/settings/settings_arguments.h"
#include "tools/dxgkit/verify/late_report.h"
#include "tools/dxgkit/verify/running_step.h"
#include "tools/dxgkit/view/notes.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kEventsMax = size_t{1} << 22;

}  // namespace

std::string command_line(const VerifyOptions& options) {
  std::string line = fmt::format("dxgkit verify {}", options.driver);
  if (options.device.text != "softgpu") line += " --device " + options.device.text;
  line += options.machine.as_options();
  if (options.registry.has_value() && !is_table_of_settings(*options.registry))
    line += " --registry " + *options.registry;
  if (options.special_pool) line += " --special-pool";
  if (options.until_finding) line += " --until-finding";
  if (options.client.has_value()) line += " --client " + *options.client;
  line += fmt::format(" --mode {}", options.mode == Mode::kSim ? "sim" : "os");
  line += options.seeds.has_value()
              ? fmt::format(" --seeds {}..{}", options.seeds->first, options.seeds->last)
              : fmt::format(" --seed {}", options.seed);
  if (options.thorough) line += " --thorough";
  line += options.waivers.options;
  for (const std::string& step : options.only) line += " --step " + step;
  return line;
}

std::optional<std::string> Verification::why_not(Bench& bench, const Step& step) const {
  using Needs = Step::Needs;
  if (step.needs == Needs::kNothing) return std::nullopt;
  if (step.needs == Needs::kMachine)
    return bench.has_run() ? std::nullopt : std::optional<std::string>("the adapter has never run");
  if (!bench.loaded()) return "the driver is not loaded";
  if (step.needs == Needs::kDriver) return std::nullopt;
  if (!bench.running()) return "the adapter is not running";
  const bool addresses = step.needs == Needs::kVirtual || step.needs == Needs::kVirtualClient;
  const bool client = step.needs == Needs::kClient || step.needs == Needs::kVirtualClient;
  const bool render = step.needs == Needs::kRender || step.needs == Needs::kBuffers;
  if ((addresses || client || render) && bench.display_only())
    return "a display-only adapter has neither memory nor engines";
  if (addresses && !bench.gpu_addresses()) return "it has no GPU virtual addresses";
  if (step.needs == Needs::kBuffers && bench.gpu_addresses())
    return "contexts with GPU virtual addresses have no command buffers; see hostile-submit";
  if (client && bench.client_refused()) return "the client plug-in cannot be used";
  if (client && bench.plugin() == nullptr) {
    return "it takes --client: only the driver's user mode knows its private data";
  }
  if (step.needs == Needs::kDisplay && bench.exercise().video_present_sources() == 0)
    return "the adapter has no outputs";
  return std::nullopt;
}

std::string Verification::why_over(const StepResult& step) const {
  const std::string cause = findings_.doomed_by();
  if (cause.empty()) return {};
  const std::vector<verifier::Finding> all = findings_.all();
  const bool waits = std::ranges::any_of(all, [&](const verifier::Finding& finding) {
    return finding.rule == cause && (finding.dooms || finding.rule == "NT-20");
  });
  if (!waits && std::ranges::any_of(step.findings, verifier::breaks_rule)) return {};
  return fmt::format("the other steps are left out: {} would end them, too", cause);
}

void Verification::run_step(Bench& bench, const Step& step, runtime::Runtime& runtime,
                            trace::Recorder& recorder) {
  board_.steps.begin(step.name);
  if (heartbeat_ != nullptr) {
    heartbeat_->beat();
    show_running(step.name, step.title);
  }
  StepResult result{
      .name = step.name, .title = step.title, .outcome = {}, .calls = {}, .findings = {}};
  const size_t findings_before = findings_.all().size();
  // Time stands still in a simulation that does not wait, and tells nothing of the order there.
  const runtime::TimeNs began = runtime.now();
  const uint64_t recorded_before = runtime.is_simulated() ? recorder.recorded() : 0;
  const uint64_t late = bench.late_reports();
  std::array<uint64_t, verifier::kSituations> counts_before;
  for (size_t i = 0; i < counts_before.size(); ++i)
    counts_before[i] = board_.situations->count(static_cast<verifier::Situation>(i));
  if (const std::optional<std::string> why = why_not(bench, step)) {
    result.outcome = Outcome::skipped(*why);
  } else {
    bench.begin_random(step.name);
    result.outcome = step.run(bench);
    if (bench.late_reports() > late && !step.makes_devices_fail) report_late(findings_);
    const std::vector<std::string> misuses = bench.take_misuses();
    if (!misuses.empty() && !step.makes_devices_fail) report_misuse(findings_, misuses.front());
    // Those that make devices fail raise interrupts in a sleep, where a routine may look.
    const uint64_t asleep = bench.take_sleeping_accesses();
    if (asleep != 0 && !step.makes_devices_fail) report_disturbed_sleep(findings_, asleep);
    // Devices of a step's own may be broken, or not there.
    const std::optional<nt::Stall> stall = bench.take_stall();
    if (stall.has_value() && !step.makes_devices_fail && step.needs != Step::Needs::kMachine)
      report_stall(findings_, *stall);
    if (bench.loaded() && bench.simulated() && !bench.mutated()) {
      if (const auto polling = nt::take_densest_polling(bench.kernel()))
        report_polling(findings_, *polling);
    }
  }
  for (size_t i = 0; i < counts_before.size(); ++i) {
    const auto situation = static_cast<verifier::Situation>(i);
    if (board_.situations->count(situation) != counts_before[i])
      result.situations.push_back(situation);
  }
  const std::set<std::string> expected = bench.take_expected_warnings();
  const std::vector<verifier::Finding> all = findings_.all();
  for (size_t i = findings_before; i < all.size(); ++i) {
    // By TDR-34 alone it cannot be told whether commands never end or the driver does not run them.
    const bool excused = all[i].severity == verifier::Severity::kWarning || all[i].rule == "TDR-34";
    if (excused && expected.contains(all[i].rule)) {
      dismissed_.insert(i);
    } else {
      result.findings.push_back(all[i]);
    }
  }
  if (result.outcome.kind != Outcome::Kind::kSkipped) {
    const std::vector<std::string> names = recorder.names();
    const uint64_t dropped = recorder.dropped();
    const uint64_t before = recorded_before > dropped ? recorded_before - dropped : 0;
    for (const trace::Event& event : recorder.events(before)) {
      if (event.time_ns < began ||
          event.kind != static_cast<uint16_t>(trace::EventKind::kDdiEnter) ||
          event.a >= names.size())
        continue;
      ++result.calls[names[event.a]];
    }
  }
  const auto fatal = std::ranges::find_if(result.findings, [](const verifier::Finding& finding) {
    return finding.severity == verifier::Severity::kBugCheck && finding.because_of.empty() &&
           !finding.waived.empty();
  });
  // The waiver reaches as far as the run: it excuses this step, but no step that is left out.
  if (fatal != result.findings.end() && result.outcome.kind == Outcome::Kind::kFailed &&
      why_over(result).empty()) {
    result.outcome = Outcome::skipped(
        fmt::format("{}, which is waived, ended it: {}", fatal->rule, result.outcome.text));
  }
  if (heartbeat_ != nullptr) wipe_running();
  if (bench.not_a_driver()) {  // bad input: one line on stderr, nothing here
    report_.steps.push_back(std::move(result));
    return;
  }
  say(out_, "{}", step_line(result));
  for (const verifier::Finding& finding : result.findings)
    say(out_, "{}", verifier::to_text(finding));
  std::fflush(out_);
  board_.steps.add(result);
  report_.steps.push_back(std::move(result));
}

std::optional<VerifyReport> Verification::run(std::string* message) {
  report_.driver = options_.driver;
  report_.command = command_line(options_);
  report_.waivers = options_.waivers.list;
  report_.chosen = options_.only;
  findings_.set_waivers(&options_.waivers.list);
  board_.steps.begin_seed(options_.seed);
  const std::unique_ptr<runtime::Runtime> runtime = options_.mode == Mode::kSim
                                                        ? runtime::make_sim_runtime(options_.seed)
                                                        : runtime::make_os_runtime(options_.seed);
  trace::Recorder recorder(
      trace::Recorder::Clock{.now_ns = [&runtime] { return runtime->now(); },
                             .thread = [&runtime] { return runtime->thread_number(); }},
      kEventsMax);
  bool is_driver = true;
  runtime->run_main([&] {
    trace::set_current(&recorder);
    {
      const runtime::DeadlockNote note([this] {
        board_.steps.add_deadlock();
        return std::string();
      });
      findings_.set_listener(
          [this](const verifier::Finding& finding) { board_.steps.add(finding); });
      Bench bench(*runtime, options_, driver_path_, kernel_config_, plugin_, findings_,
                  *board_.situations, heartbeat_, mutator_);
      bench.set_negligence(negligence_);
      bool found = false;
      std::string over;
      for (const Step& step : all_steps()) {
        const bool always = step.needs == Step::Needs::kNothing ||
                            step.needs == Step::Needs::kDriver;  // the frame of every run
        if (!always && ((found && options_.until_finding) || !over.empty())) continue;
        if (!always && !options_.only.empty() &&
            std::ranges::find(options_.only, step.name) == options_.only.end())
          continue;
        const bool was_running = bench.running();
        run_step(bench, step, *runtime, recorder);
        found = found || std::ranges::any_of(report_.steps.back().findings, is_mistake);
        // A bug check ends the machine, not the verification: the other steps get a new machine.
        if (was_running && !bench.running() && step.needs != Step::Needs::kDriver) {
          over = why_over(report_.steps.back());
          if (!over.empty()) {
            say(out_, "{:<20}{}\n", "", over);
            bench.lose_patience();
            report_.left_out = true;
          } else if (bench.start_over()) {
            say(out_, "{:<20}{}\n", "", "the machine was started again");
          }
        }
        if (bench.not_a_driver()) {
          is_driver = false;
          *message = report_.steps.back().outcome.text;
          break;
        }
      }
      report_.interface_version = bench.interface_version();
      report_.situations = verifier::SituationReport(*board_.situations);
      for (const std::string& entry : bench.filled_entries()) {
        if (entry == "DxgkDdiUnload") continue;  // the last step; it belongs to no adapter's trace
        const bool called = std::ranges::any_of(
            report_.steps, [&](const StepResult& step) { return step.calls.contains(entry); });
        if (!called) report_.never_called.push_back(entry);
      }
    }
    trace::set_current(nullptr);
  });
  if (heartbeat_ != nullptr) heartbeat_->finishing();
  if (!is_driver) return std::nullopt;
  const std::vector<verifier::Finding> all = findings_.all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!dismissed_.contains(i)) report_.findings.push_back(all[i]);
  }
  if (options_.trace.has_value()) {
    const trace::Recording recording{.events = recorder.events(),
                                     .names = recorder.names(),
                                     .threads = runtime->thread_names(),
                                     .dropped = recorder.dropped()};
    // Every finding has its event, those too that steps provoked.
    nlohmann::ordered_json run{{"findings", findings_for_page(all)}};
    for (const size_t i : dismissed_)
      run["findings"][i]["provoked"] = "a step brought it about, and it does not count";
    report_.written = write_output(options_.trace, trace_file(*options_.trace, recording, run));
  }
  return std::move(report_);
}

}  // namespace dxgkit::tool::verify
