#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/spelling.h"
#include "dxgk/work/timeout.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/check/hand_over.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/finding_json.h"
#include "tools/dxgkit/hardware_ids.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/verify/blind_spots.h"
#include "tools/dxgkit/verify/lost_run.h"
#include "tools/dxgkit/verify/mutate.h"
#include "tools/dxgkit/verify/report.h"
#include "tools/dxgkit/verify/running_step.h"
#include "tools/dxgkit/verify/seed_runs.h"
#include "tools/dxgkit/verify/verification.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

using verify::Board;
using verify::command_line;
using verify::Outcome;
using verify::RunEnd;
using verify::Step;
using verify::StepLog;
using verify::StepResult;
using verify::Verification;
using verify::VerifyReport;

int finish(const VerifyOptions& options, const VerifyReport& report, std::FILE* out) {
  if (!report.never_called.empty()) {
    std::string names;
    for (const std::string& name : report.never_called) names += (names.empty() ? "" : ", ") + name;
    say(out, "\nnot called here, though the driver has them: {}\n", names);
  }
  if (!report.waivers.empty()) say(out, "\n{}", waivers_text(report.waivers));
  say(out, "{}", situations_text(report.situations));
  say(out, "\n{}\n", verify::verdict(report));
  std::fflush(out);
  if (options.hand_over.has_value()) {
    const bool handed =
        check::SharedText::write(options.hand_over->report_fd, line_of(check::to_message(report)));
    return handed ? verify::exit_code(report) : kExitNotWritten;
  }
  bool written = report.written;
  written = write_output(options.reports.json, verify::to_json_text(report)) && written;
  written = write_output(options.reports.sarif, verify::to_sarif_text(report)) && written;
  written = write_output(options.reports.junit, verify::to_junit_text(report)) && written;
  if (const std::string why = verify::not_exercised(report); !why.empty())
    say(stderr, "dxgkit: {}\n", why);
  return written ? verify::exit_code(report) : kExitNotWritten;
}

int list_steps() {
  for (const Step& step : verify::all_steps()) fmt::print("{:<20}{}\n", step.name, step.title);
  return kExitDone;
}

/// The report of a run that the user ended: the steps so far, and what the present one has found.
int interrupted(const VerifyOptions& options, const Board& board, std::FILE* out) {
  verify::wipe_running();
  StepLog::Content found = board.steps.read()[options.seed];
  VerifyReport report;
  report.driver = options.driver;
  report.command = command_line(options);
  report.waivers = options.waivers.list;
  report.ended = false;
  report.steps = std::move(found.steps);
  report.interrupted = fmt::format("after {}", counted(report.steps.size(), "step"));
  if (!found.running.empty()) {
    report.interrupted += fmt::format(", in step {}", found.running);
    report.steps.push_back({.name = found.running,
                            .title = {},
                            .outcome = Outcome::skipped("interrupted"),
                            .calls = {},
                            .findings = std::move(found.of_running)});
    say(out, "{}", verify::step_line(report.steps.back()));
    for (const verifier::Finding& finding : report.steps.back().findings)
      say(out, "{}", verifier::to_text(finding));
  }
  report.situations = verifier::SituationReport(*board.situations);
  for (const StepResult& step : report.steps)
    report.findings.insert(report.findings.end(), step.findings.begin(), step.findings.end());
  if (options.trace.has_value()) say(stderr, "dxgkit: {}: not written\n", *options.trace);
  return finish(options, report, out);
}

/// The report of a run that did not end by itself: the outputs are written all the same.
int cut_short(const VerifyOptions& options, const Board& board, const LastWords& words,
              const ChildEnd& end, std::FILE* out) {
  verify::wipe_running();
  const StepLog::Content found = board.steps.read()[options.seed];
  const RunEnd how{.hung = end.kind == ChildEnd::Kind::kHung,
                   .how = end.kind == ChildEnd::Kind::kLeft
                              ? fmt::format("it ended itself with exit code {}", end.code)
                              : fmt::format("it ended by signal {}", end.code)};
  Problem problem = words.of(0, fmt::format("Step {}", verify::step_of(found)), how.how);
  if (!problem.broken_around_it.empty()) return bad_input(problem.broken_around_it);
  VerifyReport report;
  report.driver = options.driver;
  report.command = command_line(options);
  report.waivers = options.waivers.list;
  report.ended = false;
  report.steps = found.steps;
  report.steps.push_back(verify::lost_step(options, found, how, std::move(problem)));
  report.situations = verifier::SituationReport(*board.situations);
  for (const StepResult& step : report.steps)
    report.findings.insert(report.findings.end(), step.findings.begin(), step.findings.end());
  say(out, "{}", verify::step_line(report.steps.back()));
  for (const verifier::Finding& finding : report.steps.back().findings)
    say(out, "{}", verifier::to_text(finding));
  return finish(options, report, out);
}

/// Seconds without progress. With real threads a call may wait while the kernel waits for TdrDelay:
/// until it asks for a preemption, until it gives up on that, and until a second one. The finding
/// that is due then says more than the end of the process.
uint32_t default_patience_s(Mode mode, const nt::KernelConfig& config) {
  constexpr uint32_t kPatience = 20, kDelays = 3, kMost = 3600;
  if (mode == Mode::kSim) return kPatience;
  const int64_t delay_s =
      dxgk::read_timeout_policy(config, kBusyMachineTdrDelayNs).delay_ns / runtime::kSecond;
  return static_cast<uint32_t>(std::min<int64_t>(kMost, kPatience + kDelays * delay_s));
}

}  // namespace

int verify_command(const VerifyOptions& given) {
  if (given.list_steps) return list_steps();
  const std::expected<std::string, std::string> driver_path = find_loadable_driver(given.driver);
  if (!driver_path.has_value()) return bad_input(driver_path.error());
  VerifyOptions options = given;
  if (!options.device_given) options.device = device_of_driver(*driver_path);
  const bool is_series = options.seeds.has_value() || options.thorough;
  const Mode mode = options.mutate || options.blind_spots || is_series ? Mode::kSim : options.mode;
  if (const auto fits = check_mode(options.device, mode); !fits) return bad_input(fits.error());
  const std::vector<Step> steps = verify::all_steps();
  for (const std::string& name : options.only) {
    if (std::ranges::any_of(steps, [&](const Step& step) { return name == step.name; })) continue;
    const auto name_of = [](const Step& step) -> std::string_view { return step.name; };
    const std::string meant = did_you_mean(name, steps, name_of);
    return bad_input(fmt::format("'{}' is not a step{}", name,
                                 meant.empty() ? "; --list-steps names them" : meant));
  }
  const auto& catalogue = verifier::situation_catalogue();
  const bool known = std::ranges::any_of(catalogue, [&](const verifier::SituationInfo& info) {
    return info.id.starts_with(options.situation);
  });
  if (!known) {
    const auto id_of = [](const verifier::SituationInfo& info) {
      return std::string_view(info.id);
    };
    const std::string meant = did_you_mean(options.situation, catalogue, id_of);
    return bad_input(fmt::format("no situation begins with '{}'{}", options.situation,
                                 meant.empty() ? "; `dxgkit situations` lists them" : meant));
  }
  if ((options.mutate || options.blind_spots) && !options.waivers.list.empty()) {
    return bad_input(
        fmt::format("--waive: not with {}, where what the driver does wrong anyway does not count",
                    options.mutate ? "--mutate" : "--blind-spots"));
  }
  if (const int code = options.reports.check(); code != kExitDone) return code;
  if (const int code = check_outputs({&options.trace}); code != kExitDone) return code;
  std::expected<nt::KernelConfig, std::string> kernel_config =
      read_kernel_config(options.registry, options.special_pool, options.trace_imports);
  if (!kernel_config.has_value()) return bad_input(kernel_config.error());
  if (options.ddi_timeout_s == 0) options.ddi_timeout_s = default_patience_s(mode, *kernel_config);
  kernel_config->processors = options.machine.processors;
  std::unique_ptr<verify::Plugin> plugin;
  if (options.client.has_value()) {
    std::expected<std::unique_ptr<verify::Plugin>, std::string> loaded =
        verify::Plugin::load(*options.client);
    if (!loaded.has_value()) return bad_input(loaded.error());
    plugin = std::move(*loaded);
  }

  if (!options.in_process) runtime::catch_interrupts();
  std::FILE* const out =
      options.hand_over.has_value() ? options.hand_over->text : options.reports.text_stream();
  if (is_series) {
    const auto report = verify::run_seeds(options, *driver_path, *kernel_config, plugin.get(), out);
    if (!report.has_value()) return bad_input(fmt::format("{}: {}", *driver_path, report.error()));
    return finish(options, *report, out);
  }
  if (options.mutate) return verify::mutate(options, *driver_path, *kernel_config, plugin.get());
  if (options.blind_spots)
    return verify::find_blind_spots(options, *driver_path, *kernel_config, plugin.get());

  Board board;
  LastWords words;
  const auto work = [&](Heartbeat* heartbeat) {
    Verification verification(options, *driver_path, *kernel_config, plugin.get(), board, heartbeat,
                              out);
    std::string message;
    const std::optional<VerifyReport> report = verification.run(&message);
    if (!report.has_value()) return bad_input(fmt::format("{}: {}", *driver_path, message));
    return finish(options, *report, out);
  };
  int code = kExitFailed;
  if (options.in_process) {
    code = work(nullptr);
  } else {
    // A step has many calls. The patience is for one call that makes no progress.
    const ChildEnd end = run_in_child(
        [&](Heartbeat& heartbeat) {
          words.listen(0, 0);
          return work(&heartbeat);
        },
        static_cast<int>(options.ddi_timeout_s) * 1000);
    switch (end.kind) {
      case ChildEnd::Kind::kExited:
        code = end.code;
        break;
      case ChildEnd::Kind::kNotStarted:
        code = bad_input("a child process could not be started");
        break;
      case ChildEnd::Kind::kKilled:
        code = end.code == SIGPIPE ? kExitNotWritten : cut_short(options, board, words, end, out);
        break;
      case ChildEnd::Kind::kInterrupted:
        code = interrupted(options, board, out);
        break;
      case ChildEnd::Kind::kHung:
      case ChildEnd::Kind::kLeft:
        code = cut_short(options, board, words, end, out);
        break;
    }
  }
  return code;
}

}  // namespace dxgkit::tool
