#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>

#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/verify/mutate.h"
#include "tools/dxgkit/verify/report.h"
#include "tools/dxgkit/verify/verification.h"

namespace dxgkit::tool {
namespace {

using verify::Board;
using verify::command_line;
using verify::Outcome;
using verify::Step;
using verify::Verification;
using verify::VerifyReport;

int bad_input(const std::string& text) {
  fmt::print(stderr, "dxgkit: {}\n", text);
  return kExitBadInput;
}

/// Writes one of the outputs: to stdout for "-".
bool write_output(const std::optional<std::string>& path, const std::string& text) {
  if (!path.has_value()) return true;
  if (*path == "-") {
    fmt::print("{}", text);
    return true;
  }
  const std::expected<void, std::string> written = write_file(*path, text);
  if (!written) fmt::print(stderr, "dxgkit: {}\n", written.error());
  return written.has_value();
}

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
int cut_short(const VerifyOptions& options, const Board& board, const ChildEnd& end,
              std::FILE* out) {
  VerifyReport report;
  report.driver = options.driver;
  report.command = command_line(options);
  const bool hung = end.kind == ChildEnd::Kind::kHung || board.deadlocked;
  const std::string what =
      board.deadlocked ? fmt::format("in step {} every thread waits", board.step)
      : hung ? fmt::format("step {} made no progress for {} s", board.step, options.ddi_timeout_s)
             : fmt::format("the process ended by signal {} in step {}", end.code, board.step);
  report.steps.push_back({.name = board.step[0] == 0 ? "begin" : board.step,
                          .title = {},
                          .outcome = Outcome::failed(what),
                          .calls = {},
                          .findings = {}});
  if (hung) {
    report.findings.push_back(
        {.rule = "NT-20",
         .severity = verifier::Severity::kBugCheck,
         .ddi = board.step,
         .actual =
             board.deadlocked
                 ? fmt::format("In step {} every thread waits, and nothing will wake one: an "
                               "interrupt, a DPC or an answer that the kernel waits for never "
                               "comes. stderr lists the threads.",
                               board.step)
                 : fmt::format("Step {} made no progress for {} s; the process was ended.",
                               board.step, options.ddi_timeout_s),
         .expected = "DriverEntry and every DDI return.",
         .fix = fmt::format("Run it under a debugger: {} --step {} --in-process; interrupt it and "
                            "look at the stacks.",
                            report.command, board.step),
         .bugcheck_code = 0x133,
         .bugcheck_parameter = 0,
         .confidence = verifier::Confidence::kInferred});
  } else {
    report.findings.push_back(
        {.rule = "NT-01",
         .severity = verifier::Severity::kBugCheck,
         .ddi = board.step,
         .actual = fmt::format("Step {} ended the process by signal {}.", board.step, end.code),
         .expected = "A fault of the driver becomes a finding with its place.",
         .fix =
             fmt::format("Run it under a debugger: {} --step {} --in-process. If the fault is not "
                         "in the driver or the client plug-in, it is a mistake of this tool.",
                         report.command, board.step),
         .bugcheck_code = 0xD1,
         .bugcheck_parameter = 0,
         .confidence = verifier::Confidence::kInferred});
  }
  report.steps.back().findings = report.findings;
  fmt::print(out, "{}", verify::step_line(report.steps.back()));
  fmt::print(out, "{}", verifier::to_text(report.findings.back()));
  return finish(options, report, out);
}

}  // namespace

int verify_command(const VerifyOptions& options) {
  if (options.list_steps) return list_steps();
  const std::expected<std::string, std::string> driver_path = find_driver(options.driver);
  if (!driver_path.has_value()) return bad_input(driver_path.error());
  const Mode mode = options.mutate ? Mode::kSim : options.mode;
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

  if (options.mutate) return verify::mutate(options, *driver_path, *kernel_config, plugin.get());

  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return bad_input("no memory to share with a child process");
  Board& board = *new (shared) Board;
  std::FILE* const out = on_stdout == 0 ? stdout : stderr;
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
    const ChildEnd end = run_in_child([&](Heartbeat& heartbeat) { return work(&heartbeat); },
                                      static_cast<int>(options.ddi_timeout_s) * 1000);
    switch (end.kind) {
      case ChildEnd::Kind::kExited:
        code = end.code;
        break;
      case ChildEnd::Kind::kNotStarted:
        code = bad_input("a child process could not be started");
        break;
      case ChildEnd::Kind::kKilled:
        code = end.code == SIGPIPE ? kExitFailed : cut_short(options, board, end, out);
        break;
      case ChildEnd::Kind::kHung:
        code = cut_short(options, board, end, out);
        break;
    }
  }
  munmap(shared, sizeof(Board));
  return code;
}

}  // namespace dxgkit::tool
