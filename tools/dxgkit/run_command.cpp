#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/arithmetic.h"
#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "tools/dxgkit/child.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/hang.h"
#include "tools/dxgkit/hardware_ids.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/no_client.h"
#include "tools/dxgkit/processes/run_separately.h"
#include "tools/dxgkit/report.h"
#include "tools/dxgkit/screen.h"
#include "tools/dxgkit/seeds.h"
#include "tools/dxgkit/session.h"
#include "tools/dxgkit/start_story.h"
#include "tools/dxgkit/summary.h"
#include "tools/dxgkit/waivers.h"

namespace dxgkit::tool {
namespace {

/// More than any surface test needs; sparse, so it costs nothing until used.
constexpr uint64_t kVramBytesMax = uint64_t{32} << 30;
constexpr size_t kFindingsPrintedMax = 20;
/// A run without a tile for so long is lost. The kernel ends a DDI that hangs long before.
constexpr int kPatienceMs = 120'000;

constexpr uint64_t kLargePageBytes = uint64_t{64} << 10;  // of softgpu

/// Room for the hungriest submission and for page tables.
uint64_t least_vram_bytes(const Plan& plan, MemoryModel model) {
  return plan.vram_least_bytes + page_table_bytes(plan, model);
}
/// A quarter of the memory that the job uses, but at least its need.
uint64_t default_vram_bytes(const Plan& plan, MemoryModel model) {
  return align_up(std::max(plan.working_set_bytes / 4, least_vram_bytes(plan, model)),
                  model == MemoryModel::kLargePages ? kLargePageBytes : kPageBytes);
}

std::vector<DeviceChoice> devices_of(const RunOptions& options) {
  if (options.devices.empty()) return {default_device()};
  return options.devices;
}

/// There is one device, and the job knows its user mode.
bool is_softgpu_alone(const RunOptions& options) {
  const std::vector<DeviceChoice> devices = devices_of(options);
  return devices.size() == 1 && devices.front().type->name == kDefaultDevice;
}

bool shows_softgpu(const RunOptions& options) {
  return options.scanout.has_value() && is_softgpu_alone(options);
}

/// The driver that --driver and --model choose together: for GPU virtual addresses the built-in
/// driver is the 2.0 one.
std::string driver_of(const RunOptions& options) {
  const bool gpu_va = options.model.value_or(MemoryModel::kPatch) != MemoryModel::kPatch;
  if (shows_softgpu(options) && options.driver == kBuiltInDriver)
    return gpu_va ? kBuiltInDriverScreenWddm2 : kBuiltInDriverScreen;
  return gpu_va && options.driver == kBuiltInDriver ? kBuiltInDriverWddm2 : options.driver;
}

void print_findings(const std::vector<verifier::Finding>& findings) {
  for (size_t i = 0; i < findings.size() && i < kFindingsPrintedMax; ++i) {
    fmt::print(stderr, "{}\n", verifier::to_text(findings[i]));
  }
  if (findings.size() > kFindingsPrintedMax) {
    fmt::print(stderr, "dxgkit: {} more findings are in the report\n",
               findings.size() - kFindingsPrintedMax);
  }
}

bool any_violation(const std::vector<verifier::Finding>& findings) {
  return std::ranges::any_of(findings, verifier::is_mistake);
}

/// The progress line: rewritten in place on a terminal, otherwise a line each second.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet)
      : quiet_(quiet),
        on_terminal_(isatty(STDERR_FILENO) == 1),
        clock_(runtime::make_os_runtime()) {}
  void show(uint64_t done, uint64_t of) {
    if (quiet_) return;
    const runtime::TimeNs now = clock_->now();
    if (now - last_ < (on_terminal_ ? runtime::kSecond / 10 : runtime::kSecond)) return;
    last_ = now;
    say(stderr, "{}{} of {} tile steps done{}", on_terminal_ ? "\r" : "", done, of,
        on_terminal_ ? "" : "\n");
    shown_ = true;
  }
  /// Prints the present activity, even right after another line.
  void note(const char* text) {
    if (quiet_ || (!on_terminal_ && !shown_)) return;
    fmt::print(stderr, "{}{:<40}{}", on_terminal_ ? "\r" : "", text, on_terminal_ ? "" : "\n");
    shown_ = true;
  }
  void end() {
    if (shown_ && on_terminal_) fmt::print(stderr, "\r{:40}\r", "");
  }

 private:
  bool quiet_;
  bool on_terminal_;
  std::unique_ptr<runtime::Runtime> clock_;  // wall time, in sim mode too
  runtime::TimeNs last_ = 0;
  bool shown_ = false;
};

std::expected<PowerPlan, std::string> read_power_plan(const std::string& given) {
  if (given.starts_with("at ")) return parse_power_plan(given);
  const std::expected<std::string, std::string> text = read_file(given);
  if (!text.has_value()) return std::unexpected(text.error());
  std::expected<PowerPlan, std::string> plan = parse_power_plan(*text);
  if (plan.has_value()) return plan;
  return std::unexpected(fmt::format("{}: {}", given, plan.error()));
}

bool power_went_well(const SessionOutcome& outcome) {
  return std::ranges::all_of(outcome.power,
                             [](const PowerDone& done) { return is_success(done.status); });
}

/// Clients of an adapter that the plan removed got an error; their last call says so.
bool ended_by_removal(const SessionOutcome& outcome) {
  return outcome.removed && outcome.kind == SessionOutcome::Kind::kJobFailed &&
         says_removed(outcome.message);
}

/// 0, or the exit code if an output cannot be written.
int check_outputs(const RunOptions& options) {
  std::optional<std::string> scanout = options.scanout;
  if (scanout.has_value() && std::filesystem::is_directory(*scanout)) *scanout += "/frame";
  if (const int code = options.reports.check(); code != kExitDone) return code;
  return tool::check_outputs({&options.trace, &options.report, &options.output, &scanout});
}

/// The files of a run: what was written, and what to do with it.
struct Written {
  int code = kExitDone;
  std::string text;  // a line for each file

  void add(const std::string& path, const std::expected<void, std::string>& result,
           std::string_view what) {
    if (result.has_value()) {
      text += fmt::format("wrote {}: {}\n", path, what);
      return;
    }
    code = not_written(result.error());
  }
};

std::string_view use_of_trace(const std::string& path) {
  return path.ends_with(".txt") ? "text, for `dxgkit diff` and `dxgkit va`"
                                : "open it at https://ui.perfetto.dev";
}

Written write_outputs(const RunOptions& options, const Summary& summary) {
  const SessionOutcome& outcome = summary.outcome;
  Written written;
  if (options.output.has_value() && outcome.kind == SessionOutcome::Kind::kRan) {
    written.add(*options.output, write_png(*options.output, outcome.job.picture),
                "the resulting picture");
  }
  if (options.scanout.has_value()) {
    const bool folder = std::filesystem::is_directory(*options.scanout);
    const std::string_view what = "a picture of the screen";
    for (size_t i = 0; folder && i < outcome.frames.size(); ++i) {
      const std::string path = fmt::format("{}/frame-{:04}.png", *options.scanout, i + 1);
      written.add(path, write_png(path, outcome.frames[i]), what);
    }
    if (!outcome.screen.has_value()) {
      const std::string& why = outcome.show_error;
      fmt::print(stderr, "dxgkit: --scanout: {}\n",
                 why.empty() ? "the adapter shows nothing that could be read" : why);
      written.code = std::max(written.code, kExitFailed);
    } else if (!folder) {
      written.add(*options.scanout, write_png(*options.scanout, *outcome.screen), what);
    } else if (outcome.frames.empty()) {
      const std::string path = *options.scanout + "/frame-0001.png";
      written.add(path, write_png(path, *outcome.screen), what);
    }
  }
  if (options.trace.has_value()) {
    written.add(*options.trace,
                write_file(*options.trace,
                           trace_file(*options.trace, outcome.recording, to_report_run(summary))),
                use_of_trace(*options.trace));
  }
  if (options.report.has_value()) {
    written.add(*options.report,
                write_file(*options.report, make_report(outcome.recording, to_report_run(summary))),
                "open it in a browser");
  }
  return written;
}

/// False: it could not be written.
bool write_summary(const RunOptions& options, const Summary& summary, const std::string& how_far) {
  nlohmann::ordered_json json = to_json(summary);
  json["interrupted"] = how_far;
  json["waivers"] = waivers_json(options.waivers.list);
  return write_output(options.reports.json,
                      json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// Writes the files and prints the summary. Returns the exit code.
int conclude(const RunOptions& options, const Summary& summary, const std::string& how_far,
             const std::string& text, int code) {
  const Written written = write_outputs(options, summary);
  bool all = write_summary(options, summary, how_far);
  if (!options.reports.on_stdout())
    fmt::print("{}{}{}", waivers_text(options.waivers.list), text, written.text);
  all = all && written.code != kExitNotWritten;
  return !all               ? kExitNotWritten
         : !how_far.empty() ? kExitInterrupted
                            : std::max(code, written.code);
}

/// The run and its outputs. `heartbeat` may be null.
int run_once(const RunOptions& options, const SessionConfig& config, const Plan& plan,
             const Picture& source, Heartbeat* heartbeat) {
  ProgressLine progress(options.reports.on_stdout());
  uint64_t steps = 0, all_steps = 0;
  const SessionOutcome outcome = run_session(config, plan, source, [&](uint64_t done, uint64_t of) {
    progress.show(done, of);
    steps = done;
    all_steps = of;
    if (heartbeat != nullptr) heartbeat->beat();
  });
  if (heartbeat != nullptr) heartbeat->finishing();
  progress.end();
  std::string how_far;  // if the user ended it
  if (runtime::interrupted() && all_steps == 0) {
    how_far = "before the first tile";
  } else if (runtime::interrupted()) {
    how_far = fmt::format("after {} of {}", steps, counted(all_steps, "tile step"));
  }

  using Kind = SessionOutcome::Kind;
  std::optional<Picture> expected;
  if (outcome.kind == Kind::kRan && how_far.empty()) {
    progress.note("computing the CPU reference");
    expected = reference_result(source);
  }
  progress.end();
  if (outcome.kind == Kind::kNotADriver) return bad_input(outcome.message);
  print_findings(outcome.findings);
  Summary summary{.config = config, .plan = plan, .outcome = outcome, .result = {}};
  summary.results.resize(outcome.adapters.size());
  for (size_t i = 0; i < outcome.adapters.size(); ++i)
    summary.results[i] = outcome.adapters[i].error();
  int code = kExitFailed;
  if (outcome.kind == Kind::kNoClient) {
    summary.result = outcome.message.empty() ? outcome.no_client.text : outcome.message;
    if (outcome.message.empty() && !any_violation(outcome.findings)) code = kExitDone;
    const bool idle = outcome.message.empty() && !outcome.no_client.compared;
    if (code == kExitDone && idle && how_far.empty())
      return bad_input(no_work_line(options.driver));
    return conclude(
        options, summary, how_far,
        fmt::format("{} has no client here: {}\n`dxgkit verify` exercises it; a plug-in "
                    "(`dxgkit new-client`) gives it work.\n",
                    config.driver_name, summary.result),
        code);
  }
  if (!how_far.empty() && (outcome.kind == Kind::kRan || outcome.kind == Kind::kJobFailed)) {
    summary.result = "interrupted " + how_far;
  } else if (expected.has_value() && !outcome.adapters.empty()) {
    summary.results = compare_adapters(plan, outcome, *expected);
    summary.result = sum_up(outcome, summary.results);
    if (all_went_well(outcome, summary.results) && !any_violation(outcome.findings)) {
      if (none_got_work(outcome)) return bad_input(no_work_line(options.driver));
      code = kExitDone;
    }
  } else if (expected.has_value() && config.hang.has_value()) {
    summary.result = describe_hang(plan, outcome, *expected);
    if (hang_went_well(plan, outcome, *expected) && !any_violation(outcome.findings))
      code = kExitDone;
  } else if (expected.has_value()) {
    summary.result = compare(plan, outcome.job, *expected);
    if (outcome.job.picture == *expected && summary.result.starts_with("identical") &&
        !any_violation(outcome.findings) && power_went_well(outcome))
      code = kExitDone;
  } else if (ended_by_removal(outcome)) {
    summary.result = fmt::format("removed as planned: {}", outcome.message);
    if (!any_violation(outcome.findings)) code = kExitDone;
  } else {
    fmt::print(stderr, "dxgkit: {}\n{}", outcome.message, story_text(outcome.before));
    summary.result = outcome.message;
    if (outcome.kind == Kind::kLoadRefused || outcome.kind == Kind::kStartFailed) {
      // There was no run, so there is nothing to sum up. But the trace shows how far the start
      // came.
      const int written = write_outputs(options, summary).code;
      return std::max(write_summary(options, summary, {}) ? written : kExitNotWritten, kExitFailed);
    }
  }
  if (expected.has_value() && outcome.screen.has_value()) {
    const bool right = same_colours(*outcome.screen, outcome.job.picture);
    summary.result += right ? "; the screen shows it" : "; the screen shows SOMETHING ELSE";
    if (!right) code = kExitFailed;
  }
  return conclude(options, summary, how_far, to_text(summary), code);
}

/// The outputs of a run whose process ended: what it had found, and its end.
int lose_run(const RunOptions& options, const SessionConfig& config, const Plan& plan,
             const LastWords& words, const ChildEnd& end) {
  const bool hung = end.kind == ChildEnd::Kind::kHung;
  const std::string how = hung ? fmt::format("it made no progress for {} s", kPatienceMs / 1000)
                          : end.kind == ChildEnd::Kind::kLeft
                              ? fmt::format("it ended itself with exit code {}", end.code)
                              : fmt::format("it ended by signal {}", end.code);
  Problem problem = words.of(0, "The run", how);
  if (!problem.broken_around_it.empty()) return bad_input(problem.broken_around_it);
  if (hung) {
    problem.finding.rule = "NT-20";
    problem.finding.bugcheck_code = 0x133;
  }
  problem.finding.fix =
      "Run the same with --in-process under a debugger. If the fault is not in the driver, it is a "
      "mistake of this tool.";
  SessionOutcome outcome;
  outcome.kind = SessionOutcome::Kind::kJobFailed;
  outcome.message = "the process was lost: " + how;
  for (Problem& kept : words.kept(0)) outcome.findings.push_back(std::move(kept.finding));
  outcome.findings.push_back(std::move(problem.finding));
  print_findings(outcome.findings);
  for (const auto* path : {&options.trace, &options.report, &options.output, &options.scanout}) {
    if (path->has_value()) fmt::print(stderr, "dxgkit: {}: not written\n", **path);
  }
  const Summary summary{
      .config = config, .plan = plan, .outcome = outcome, .result = outcome.message};
  if (!options.reports.on_stdout()) fmt::print("result: {}\n", summary.result);
  return write_summary(options, summary, "") ? kExitFailed : kExitNotWritten;
}

}  // namespace

int run_command(const RunOptions& given) {
  runtime::catch_interrupts();
  RunOptions options = given;
  const bool separately = options.clients == ClientPlace::kProcesses;
  if (const std::string what = only_with_threads(options); separately && !what.empty())
    return bad_input(fmt::format("{}: not with --clients processes", what));
  const std::string driver = driver_of(options);
  const MemoryModel model = options.model.value_or(MemoryModel::kPatch);
  const std::expected<std::string, std::string> driver_path = find_loadable_driver(driver);
  if (!driver_path.has_value()) return bad_input(driver_path.error());
  if (options.devices.empty() && !is_built_in(driver))
    options.devices = {device_of_driver(*driver_path)};

  Picture source;
  if (options.input.has_value()) {
    std::expected<Picture, std::string> read = read_png(*options.input);
    if (!read.has_value()) return bad_input(read.error());
    source = std::move(*read);
  } else {
    const bool small = options.seeds.has_value() && !options.size_given;
    const uint32_t width = small ? kSeedsPictureSide : options.width;
    const uint32_t height = small ? kSeedsPictureSide : options.height;
    source = draw_picture(width, height, kDrawnPictureSeed);
  }
  const Plan plan = make_plan(source.width, source.height, 0,
                              model == MemoryModel::kLargePages ? kLargePageBytes : kPageBytes);

  SessionConfig config;
  config.driver_path = *driver_path;
  config.driver_name =
      is_built_in(driver) ? driver : std::filesystem::path(driver).filename().string();
  config.vram_bytes = default_vram_bytes(plan, model);
  config.model = options.model;
  config.client_api = options.client_api;
  config.mode = options.seeds.has_value() ? Mode::kSim : options.mode;
  config.seed = options.seed;
  config.devices = devices_of(options);
  for (const DeviceChoice& device : config.devices) {
    if (const auto fits = check_mode(device, config.mode); !fits) return bad_input(fits.error());
  }
  if (config.devices.size() > 1 && options.scanout.has_value())
    return bad_input("--scanout: only with one device");
  std::expected<nt::KernelConfig, std::string> kernel_config =
      read_kernel_config(options.registry, options.special_pool, options.trace_imports);
  if (!kernel_config.has_value()) return bad_input(kernel_config.error());
  config.kernel = std::move(*kernel_config);
  if (options.model.has_value()) {
    config.kernel.registry[nt::KernelConfig::kDriverKey]["MemoryModel"] =
        nt::RegistryValue::dword(static_cast<uint32_t>(model));
  }
  config.kernel.processors = options.machine.processors;
  config.verifier = options.verifier;
  config.waivers = options.waivers.list;
  if (options.power_plan.has_value()) {
    if (!is_softgpu_alone(options))
      return bad_input("--power-plan: only for one softgpu device, whose job can be checked");
    std::expected<PowerPlan, std::string> plan_of_power = read_power_plan(*options.power_plan);
    if (!plan_of_power.has_value())
      return bad_input(fmt::format("--power-plan: {}", plan_of_power.error()));
    config.power = std::move(*plan_of_power);
  }
  if (options.hang.has_value()) {
    if (!is_softgpu_alone(options))
      return bad_input("--hang: only for one softgpu device, whose job can be checked");
    if (options.power_plan.has_value() || options.seeds.has_value())
      return bad_input("--hang: not with --power-plan or --seeds");
    config.hang = options.hang;
  }
  if (shows_softgpu(options)) {
    const uint32_t width = (plan.width + 1) / 2, height = (plan.height + 1) / 2;
    config.show = true;
    if (config.devices.front().options.find("refresh") == "0")
      return bad_input("--scanout: the device has no screen with refresh=0");
    config.devices.front().options.add("refresh", std::to_string(kScreenRefreshHz));
    config.kernel.registry[nt::KernelConfig::kDriverKey]["ScreenSize"] =
        nt::RegistryValue::dword(width | height << 16);
    config.vram_bytes +=
        align_up(uint64_t{width + 64} * height * kPixelBytes,
                 model == MemoryModel::kLargePages ? kLargePageBytes : kPageBytes) *
        kScreenPrimaries;
  }
  config.record = options.trace.has_value() || options.report.has_value();
  if (options.vram_bytes.has_value()) {
    if (*options.vram_bytes < least_vram_bytes(plan, model)) {
      return bad_input(
          fmt::format("--vram {}: too small for one tile; this job needs at least {} bytes",
                      *options.vram_bytes, least_vram_bytes(plan, model)));
    }
    if (*options.vram_bytes > kVramBytesMax) {
      return bad_input(
          fmt::format("--vram {}: more than {} bytes", *options.vram_bytes, kVramBytesMax));
    }
    config.vram_bytes = align_down(*options.vram_bytes, kPageBytes);
  }
  config.memory_bytes = memory_of_job(config, plan);
  if (options.machine.memory_bytes.has_value()) {
    if (*options.machine.memory_bytes < config.memory_bytes) {
      return bad_input(fmt::format("--memory {}: too little; this job needs at least {} bytes",
                                   *options.machine.memory_bytes, config.memory_bytes));
    }
    config.memory_bytes = *options.machine.memory_bytes;
  }
  if (const int code = check_outputs(options); code != kExitDone) return code;
  if (options.seeds.has_value()) {
    if (options.trace.has_value() || options.report.has_value() || options.output.has_value() ||
        options.scanout.has_value()) {
      return bad_input(
          "--seeds writes no files; replay one seed with --seed to get its --trace, --report or "
          "--output");
    }
    return run_seeds(options, config, plan, source);
  }

  if (separately) {
    if (!is_softgpu_alone(options))
      return bad_input("--clients processes: only for softgpu, whose user mode the clients know");
    return run_separately(options, config, plan, source,
                          model == MemoryModel::kLargePages ? kLargePageBytes : kPageBytes);
  }
  if (options.in_process) return run_once(options, config, plan, source, nullptr);

  const LastWords words;
  config.on_finding = [](const verifier::Finding& finding) {
    LastWords::keep({.key = {}, .finding = finding});
  };
  const ChildEnd end = run_in_child(
      [&](Heartbeat& heartbeat) {
        words.listen(0, 0);
        return run_once(options, config, plan, source, &heartbeat);
      },
      kPatienceMs, ChildInterrupts::kReachIt);
  switch (end.kind) {
    case ChildEnd::Kind::kExited:
      return end.code;
    case ChildEnd::Kind::kNotStarted:
      return bad_input("a child process could not be started");
    case ChildEnd::Kind::kInterrupted:
      return kExitInterrupted;
    case ChildEnd::Kind::kKilled:
    case ChildEnd::Kind::kLeft:
    case ChildEnd::Kind::kHung:
      break;
  }
  if (end.kind == ChildEnd::Kind::kKilled && end.code == SIGPIPE) return kExitNotWritten;
  return lose_run(options, config, plan, words, end);
}

}  // namespace dxgkit::tool
