#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <set>

#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/report.h"
#include "trace/trace.h"

namespace dxgkit::tool {
namespace {

using verify::Bench;
using verify::Outcome;
using verify::Step;
using verify::StepResult;
using verify::VerifyReport;

constexpr size_t kEventsMax = size_t{1} << 22;

int bad_input(const std::string& text) {
  fmt::print(stderr, "dxgkit: {}\n", text);
  return kExitBadInput;
}

/// What parent and child share: which step is under way.
struct Board {
  char step[64] = {};
};

std::string command_line(const VerifyOptions& options) {
  std::string line = fmt::format("dxgkit verify {}", options.driver);
  if (options.device.text != "softgpu") line += " --device " + options.device.text;
  if (options.registry.has_value()) line += " --registry " + *options.registry;
  if (options.special_pool) line += " --special-pool";
  if (options.client.has_value()) line += " --client " + *options.client;
  line +=
      fmt::format(" --mode {} --seed {}", options.mode == Mode::kSim ? "sim" : "os", options.seed);
  for (const std::string& step : options.only) line += " --step " + step;
  return line;
}

/// Runs the steps inside the runtime.
class Verification {
 public:
  Verification(const VerifyOptions& options, const std::string& driver_path,
               const nt::KernelConfig& kernel_config, const verify::Plugin* plugin, Board& board,
               Heartbeat* heartbeat, std::FILE* out)
      : options_(options),
        driver_path_(driver_path),
        kernel_config_(kernel_config),
        plugin_(plugin),
        board_(board),
        heartbeat_(heartbeat),
        out_(out) {}

  /// The report; nullopt: not a driver, and why is in `message`.
  std::optional<VerifyReport> run(std::string* message);

 private:
  std::optional<std::string> why_not(Bench& bench, const Step& step) const;
  void run_step(Bench& bench, const Step& step, runtime::Runtime& runtime,
                trace::Recorder& recorder);

  const VerifyOptions& options_;
  const std::string& driver_path_;
  const nt::KernelConfig& kernel_config_;
  const verify::Plugin* plugin_;
  Board& board_;
  Heartbeat* heartbeat_;
  std::FILE* out_;
  verifier::Findings findings_;
  std::set<size_t> dismissed_;  // by number: what steps provoked
  VerifyReport report_;
};

std::optional<std::string> Verification::why_not(Bench& bench, const Step& step) const {
  using Needs = Step::Needs;
  if (step.needs == Needs::kNothing) return std::nullopt;
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

void Verification::run_step(Bench& bench, const Step& step, runtime::Runtime& runtime,
                            trace::Recorder& recorder) {
  std::strncpy(board_.step, step.name, sizeof(board_.step) - 1);
  if (heartbeat_ != nullptr) heartbeat_->beat();
  StepResult result{
      .name = step.name, .title = step.title, .outcome = {}, .calls = {}, .findings = {}};
  const size_t findings_before = findings_.all().size();
  const runtime::TimeNs began = runtime.now();
  if (const std::optional<std::string> why = why_not(bench, step)) {
    result.outcome = Outcome::skipped(*why);
  } else {
    result.outcome = step.run(bench);
  }
  const bool provoked = bench.take_page_faults_expected();
  const std::vector<verifier::Finding> all = findings_.all();
  for (size_t i = findings_before; i < all.size(); ++i) {
    if (provoked && all[i].rule == "VA-28") {
      dismissed_.insert(i);
    } else {
      result.findings.push_back(all[i]);
    }
  }
  if (result.outcome.kind != Outcome::Kind::kSkipped) {
    const std::vector<std::string> names = recorder.names();
    for (const trace::Event& event : recorder.events()) {
      if (event.time_ns < began ||
          event.kind != static_cast<uint16_t>(trace::EventKind::kDdiEnter) ||
          event.a >= names.size())
        continue;
      ++result.calls[names[event.a]];
    }
  }
  if (bench.not_a_driver()) {  // bad input: one line on stderr, nothing here
    report_.steps.push_back(std::move(result));
    return;
  }
  fmt::print(out_, "{}", verify::step_line(result));
  for (const verifier::Finding& finding : result.findings)
    fmt::print(out_, "{}", verifier::to_text(finding));
  std::fflush(out_);
  report_.steps.push_back(std::move(result));
}

std::optional<VerifyReport> Verification::run(std::string* message) {
  report_.driver = options_.driver;
  report_.command = command_line(options_);
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
      Bench bench(*runtime, options_, driver_path_, kernel_config_, plugin_, findings_, heartbeat_);
      for (const Step& step : verify::all_steps()) {
        const bool always = step.needs == Step::Needs::kNothing ||
                            step.needs == Step::Needs::kDriver;  // the frame of every run
        if (!always && !options_.only.empty() &&
            std::ranges::find(options_.only, step.name) == options_.only.end())
          continue;
        const bool was_running = bench.running();
        run_step(bench, step, *runtime, recorder);
        // A bug check ends the machine, not the verification: the other steps have one of their
        // own.
        if (was_running && !bench.running() && step.needs != Step::Needs::kDriver &&
            bench.start_over())
          fmt::print(out_, "{:<20}{}\n", "", "the machine was started again");
        if (bench.not_a_driver()) {
          is_driver = false;
          *message = report_.steps.back().outcome.text;
          break;
        }
      }
      report_.interface_version = bench.interface_version();
      for (const std::string& entry : bench.filled_entries()) {
        if (entry == "DxgkDdiUnload") continue;  // the last step; it belongs to no adapter's trace
        const bool called = std::ranges::any_of(
            report_.steps, [&](const StepResult& step) { return step.calls.contains(entry); });
        if (!called) report_.never_called.push_back(entry);
      }
    }
    trace::set_current(nullptr);
  });
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
    if (const auto written = write_file(*options_.trace, trace_file(*options_.trace, recording));
        !written)
      fmt::print(stderr, "dxgkit: {}\n", written.error());
  }
  return std::move(report_);
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

/// A run that did not end by itself, as a report: the outputs are written all the same.
int cut_short(const VerifyOptions& options, const Board& board, const ChildEnd& end,
              std::FILE* out) {
  VerifyReport report;
  report.driver = options.driver;
  report.command = command_line(options);
  const bool hung = end.kind == ChildEnd::Kind::kHung;
  const std::string what =
      hung ? fmt::format("step {} made no progress for {} s", board.step, options.ddi_timeout_s)
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
         .actual = fmt::format("Step {} made no progress for {} s; the process was ended.",
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
    // A step is many calls: the patience is for one that makes no progress at all.
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
