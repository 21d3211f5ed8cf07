#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/verify/blind_spots.h"
#include "tools/dxgkit/verify/lost_run.h"
#include "tools/dxgkit/verify/mutate.h"
#include "tools/dxgkit/verify/report.h"
#include "tools/dxgkit/verify/seed_runs.h"
#include "tools/dxgkit/verify/verification.h"

namespace dxgkit::tool {
namespace {

using verify::Board;
using verify::command_line;
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
    fmt::print(out, "\nnot called here, though the driver has them: {}\n", names);
  }
  fmt::print(out, "{}", situations_text(report.situations));
  fmt::print(out, "\n{}\n", verify::verdict(report));
  std::fflush(out);
  bool written = write_output(options.json, verify::to_json_text(report));
  written = write_output(options.sarif, verify::to_sarif_text(report)) && written;
  written = write_output(options.junit, verify::to_junit_text(report)) && written;
  return written ? verify::exit_code(report) : std::max(kExitFailed, verify::exit_code(report));
}

int list_steps() {
  for (const Step& step : verify::all_steps()) fmt::print("{:<20}{}\n", step.name, step.title);
  return kExitDone;
}

/// The report of a run that did not end by itself: the outputs are written all the same.
int cut_short(const VerifyOptions& options, const Board& board, const LastWords& words,
              const ChildEnd& end, std::FILE* out) {
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
  report.ended = false;
  report.steps = found.steps;
  report.steps.push_back(verify::lost_step(options, found, how, std::move(problem)));
  report.situations = verifier::SituationReport(*board.situations);
  for (const StepResult& step : report.steps)
    report.findings.insert(report.findings.end(), step.findings.begin(), step.findings.end());
  fmt::print(out, "{}", verify::step_line(report.steps.back()));
  for (const verifier::Finding& finding : report.steps.back().findings)
    fmt::print(out, "{}", verifier::to_text(finding));
  return finish(options, report, out);
}

}  // namespace

int verify_command(const VerifyOptions& options) {
  if (options.list_steps) return list_steps();
  const std::expected<std::string, std::string> driver_path = find_driver(options.driver);
  if (!driver_path.has_value()) return bad_input(driver_path.error());
  const bool is_series = options.seeds.has_value() || options.thorough;
  const Mode mode = options.mutate || options.blind_spots || is_series ? Mode::kSim : options.mode;
  if (const auto fits = check_mode(options.device, mode); !fits) return bad_input(fits.error());
  const std::vector<Step> steps = verify::all_steps();
  for (const std::string& name : options.only) {
    if (std::ranges::any_of(steps, [&](const Step& step) { return name == step.name; })) continue;
    return bad_input(fmt::format("'{}' is not a step; --list-steps names them", name));
  }
  size_t on_stdout = 0;
  for (const std::optional<std::string>& path : {options.json, options.sarif, options.junit}) {
    if (!path.has_value()) continue;
    if (*path == "-") {
      ++on_stdout;
    } else if (const auto writable = check_writable(*path); !writable) {
      return bad_input(writable.error());
    }
  }
  if (on_stdout > 1) return bad_input("only one of --json, --sarif and --junit can go to stdout");
  if (options.trace.has_value()) {
    if (const auto writable = check_writable(*options.trace); !writable)
      return bad_input(writable.error());
  }
  std::expected<nt::KernelConfig, std::string> kernel_config =
      read_kernel_config(options.registry, options.special_pool, options.trace_imports);
  if (!kernel_config.has_value()) return bad_input(kernel_config.error());
  std::unique_ptr<verify::Plugin> plugin;
  if (options.client.has_value()) {
    std::expected<std::unique_ptr<verify::Plugin>, std::string> loaded =
        verify::Plugin::load(*options.client);
    if (!loaded.has_value()) return bad_input(loaded.error());
    plugin = std::move(*loaded);
  }

  std::FILE* const out = on_stdout == 0 ? stdout : stderr;
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
        code = end.code == SIGPIPE ? kExitFailed : cut_short(options, board, words, end, out);
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
