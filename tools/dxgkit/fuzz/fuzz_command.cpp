// dxgkit fuzz.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/command_line.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/fuzz/fuzz_options.h"
#include "tools/dxgkit/fuzz/packed_outcome.h"
#include "tools/dxgkit/hardware_ids.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/settings/settings_arguments.h"
#include "tools/dxgkit/shared.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/verify/report.h"
#include "tools/dxgkit/waivers.h"
#include "verifier/formats.h"

namespace dxgkit::tool {
namespace {

using fuzz::FuzzOutcome;
using fuzz::FuzzPlan;
using fuzz::FuzzSetting;

/// Makes a reproducer smaller no longer than this.
constexpr runtime::DurationNs kMinimiseLongest = 60 * runtime::kSecond;
constexpr size_t kCallsShown = 400;

/// All seeds in which the same went wrong.
struct Group {
  Problem problem;
  uint64_t first_seed = 0, seeds = 0;
  FuzzPlan least;
  uint32_t tries = 0;
  std::string file;
};

/// "PATCH-08 in DxgkDdiPatch at x" as the name of a file.
std::string slug(const std::string& key) {
  std::string out;
  for (const char c : key) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) {
      out += c;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  out.resize(std::min<size_t>(out.size(), 60));
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "problem" : out;
}

bool counts(const Problem& problem) { return problem.finding.waived.empty(); }

/// Its run ended there, so what would have come afterwards was not tested.
bool cuts_short(const Problem& problem) {
  return !counts(problem) && problem.finding.severity == verifier::Severity::kBugCheck;
}

class Fuzzer {
 public:
  Fuzzer(const FuzzOptions& options, FuzzSetting setting, fuzz::Surroundings around)
      : options_(options),
        setting_(std::move(setting)),
        around_(std::move(around)),
        clock_(runtime::make_os_runtime(0)) {
    setting_.on_problem = &LastWords::keep;
  }

  int run();
  int replay(const FuzzPlan& plan);
  /// Nothing, or why there is nothing to fuzz.
  std::optional<std::string> probe();

 private:
  /// In a child process. Outcomes of processes that ended have one problem.
  FuzzOutcome run_apart(const FuzzPlan& plan, const std::string& log_path = {});
  /// Of a process that ended: what it had found, and its end.
  std::vector<Problem> problems_of(uint64_t note, std::string_view how) const;
  void seeds();
  void take(uint64_t seed, const FuzzOutcome& outcome);
  void make_small(Group& group);
  bool write_reproducer(Group& group);
  int finish();
  bool write_reports() const;
  int code() const;
  /// Empty, or how far it had got when the user ended it.
  std::string interrupted() const;
  std::string options_text() const;
  /// "clean", "2 problems".
  std::string sums() const;
  uint64_t first_seed() const { return options_.seconds.has_value() ? 1 : options_.seeds.first; }

  const FuzzOptions& options_;
  FuzzSetting setting_;
  const fuzz::Surroundings around_;
  const std::unique_ptr<runtime::Runtime> clock_;
  LastWords words_;
  Shared<verifier::SituationLog> situations_;
  std::string broken_around_it_;  // not empty: that ends everything
  std::map<std::string, Group>& groups_of(const Problem& problem) {
    return counts(problem) ? groups_ : waived_;
  }

  std::map<std::string, Group> groups_, waived_;
  uint64_t ended_ = 0, bad_ = 0, cut_short_ = 0;
  hostile::Counts counts_;
  bool interrupted_ = false;  // as it was when the outputs were begun
  std::FILE* const out_ = options_.reports.text_stream();
};

std::string Fuzzer::options_text() const {
  std::string text = shell_quoted(options_.driver);
  if (around_.device != kDefaultDevice) text += " --device " + shell_quoted(around_.device);
  text += options_.machine.as_options();
  if (options_.registry.has_value() && !is_table_of_settings(*options_.registry))
    text += " --registry " + shell_quoted(*options_.registry);
  if (!around_.client.empty()) text += " --client " + shell_quoted(around_.client);
  if (around_.special_pool) text += " --special-pool";
  return text + options_.waivers.options;
}

std::vector<Problem> Fuzzer::problems_of(uint64_t note, std::string_view how) const {
  Problem end = words_.of(note, "A run", how);
  end.finding.fix =
      "Replay the reproducer under a debugger: dxgkit fuzz ... --replay FILE --in-process. "
      "If the fault is not in the driver, it is a mistake of this tool.";
  std::vector<Problem> problems = words_.kept(note);
  problems.push_back(std::move(end));
  for (Problem& one : problems) one.finding.waived = setting_.waivers.use(one.finding.rule);
  return problems;
}

FuzzOutcome Fuzzer::run_apart(const FuzzPlan& plan, const std::string& log_path) {
  static uint64_t number = uint64_t{1} << 63;  // outside the range of seeds
  const uint64_t note = number++;
  FuzzOutcome outcome;
  sim::PoolJob job;
  job.count = 1;
  job.work = [&](uint64_t) {
    std::FILE* const log = log_path.empty() ? nullptr : std::fopen(log_path.c_str(), "w");
    words_.listen(note, options_.timeout_s);
    const auto said = [log](const std::string& line) {
      fmt::print(log, "{}\n", line);
      std::fflush(log);  // the next call may be the last
    };
    const FuzzOutcome out = fuzz::run_plan(
        setting_, plan,
        log == nullptr ? std::function<void(const std::string&)>() : std::function(said));
    return fuzz::pack(out, sim::kAnswerBytesMost);
  };
  job.done = [&](uint64_t, std::string_view answer) {
    outcome = fuzz::unpack(answer);
    return true;
  };
  job.died = [&](uint64_t, std::string_view how) {
    std::vector<Problem> problems = problems_of(note, how);
    broken_around_it_ = problems.back().broken_around_it;
    if (broken_around_it_.empty()) outcome.problems = std::move(problems);
    return true;
  };
  if (!sim::run_pool(job)) outcome.unusable = "a child process could not be started";
  return outcome;
}

std::optional<std::string> Fuzzer::probe() {
  FuzzPlan nothing;
  const FuzzOutcome outcome = run_apart(nothing);
  if (!broken_around_it_.empty()) return broken_around_it_;
  if (outcome.unusable.empty()) return std::nullopt;
  for (const Problem& problem : outcome.problems)
    fmt::print(stderr, "{}", verifier::to_text(problem.finding));
  std::string why = fmt::format("{}: {}", options_.driver, outcome.unusable);
  for (const std::string& line : outcome.before) why += "\n  " + line;
  return why;
}

void Fuzzer::take(uint64_t seed, const FuzzOutcome& outcome) {
  ++ended_;
  bad_ += std::ranges::any_of(outcome.problems, counts) ? 1 : 0;
  cut_short_ += std::ranges::any_of(outcome.problems, cuts_short) ? 1 : 0;
  counts_.calls += outcome.counts.calls;
  counts_.succeeded += outcome.counts.succeeded;
  counts_.blocked += outcome.counts.blocked;
  counts_.processes += outcome.counts.processes;
  std::map<std::string, bool> seen;
  for (const Problem& problem : outcome.problems) {
    if (!std::exchange(seen[problem.key], true)) {
      Group& group = groups_of(problem)[problem.key];
      if (group.seeds++ == 0) {
        fmt::print(out_, "seed {}: {}{}\n", seed, problem.key, counts(problem) ? "" : " (waived)");
        std::fflush(out_);
      }
      // The lowest, whatever order workers end in.
      if (group.seeds == 1 || seed < group.first_seed) {
        group.first_seed = seed;
        group.problem = problem;
      }
    }
  }
}

void Fuzzer::seeds() {
  const runtime::TimeNs deadline = options_.seconds.has_value()
                                       ? clock_->now() + *options_.seconds * runtime::kSecond
                                       : INT64_MAX;
  const auto in_time = [&] { return clock_->now() < deadline; };
  sim::PoolJob job;
  job.count =
      options_.seconds.has_value() ? kSeedsMax : options_.seeds.last - options_.seeds.first + 1;
  job.workers = sim::workers_for(options_.jobs);
  job.work = [&](uint64_t index) {
    words_.listen(index, options_.timeout_s);
    const FuzzPlan plan = FuzzPlan::draw(first_seed() + index, options_.steps);
    return fuzz::pack(fuzz::run_plan(setting_, plan, {}), sim::kAnswerBytesMost);
  };
  job.done = [&](uint64_t index, std::string_view answer) {
    take(first_seed() + index, fuzz::unpack(answer));
    return in_time();
  };
  job.died = [&](uint64_t index, std::string_view how) {
    FuzzOutcome outcome;
    outcome.problems = problems_of(index, how);
    broken_around_it_ = outcome.problems.back().broken_around_it;
    if (!broken_around_it_.empty()) return false;
    take(first_seed() + index, outcome);
    return in_time();
  };
  setting_.situations = &*situations_;
  if (!sim::run_pool(job)) fmt::print(stderr, "dxgkit: a child process could not be started\n");
  setting_.situations = nullptr;  // making reproducers smaller does not count
}

void Fuzzer::make_small(Group& group) {
  const runtime::TimeNs deadline = clock_->now() + kMinimiseLongest;
  const auto still = [&](const FuzzPlan& plan) {
    if (clock_->now() > deadline) return false;
    const FuzzOutcome outcome = run_apart(plan);
    return std::ranges::any_of(
        outcome.problems, [&](const Problem& problem) { return problem.key == group.problem.key; });
  };
  const FuzzPlan whole = FuzzPlan::draw(group.first_seed, options_.steps);
  group.least = whole;
  if (runtime::interrupted() || !still(whole))
    return;  // it does not repeat alone, so the whole seed is the reproducer
  const fuzz::Minimised least = fuzz::minimise(whole, still, options_.tries);
  group.least = least.plan;
  group.tries = least.tries + 1;
}

bool Fuzzer::write_reproducer(Group& group) {
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  const std::string stem = options_.out + "/" + slug(group.problem.key);
  group.file = stem + ".fuzz";
  for (int more = 2; std::filesystem::exists(group.file, error); ++more) {
    const bool mine = std::ranges::any_of(groups_, [&](const auto& entry) {
      return &entry.second != &group && entry.second.file == group.file;
    });
    if (!mine) break;  // of an earlier run: replaced
    group.file = fmt::format("{}-{}.fuzz", stem, more);
  }
  const std::string log_path = group.file + ".calls";
  run_apart(group.least, log_path);  // after an interrupt: nothing, so the calls are left out
  std::string text = fmt::format("# {}\n# dxgkit fuzz {} --replay {}\n", group.problem.key,
                                 shell_quoted(options_.driver), shell_quoted(group.file));
  text += fuzz::to_text({group.least, around_});
  const std::string finding = verifier::to_text(group.problem.finding);
  const std::string calls = read_file(log_path).value_or("");
  std::filesystem::remove(log_path, error);
  size_t lines = 0;
  for (const std::string* part : {&finding, &calls}) {
    if (part == &calls && calls.empty()) break;
    text +=
        part == &calls ? "#\n# The calls, before they are made and as they came back:\n" : "#\n";
    for (size_t at = 0; at < part->size() && lines < kCallsShown; ++lines) {
      const size_t end = std::min(part->find('\n', at), part->size());
      text += "# " + part->substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  const auto written = write_file(group.file, text);
  if (!written) fmt::print(stderr, "dxgkit: {}\n", written.error());
  return written.has_value();
}

int worst(const std::map<std::string, Group>& groups) {
  int code = groups.empty() ? kExitDone : kExitFailed;
  for (const auto& [key, group] : groups) {
    if (key.starts_with("hang")) return verify::kExitHang;
    if (group.problem.finding.severity == verifier::Severity::kBugCheck)
      code = verify::kExitBugCheck;
  }
  return code;
}

std::string Fuzzer::interrupted() const {
  if (!interrupted_) return {};
  const std::string done = counted(ended_, "seed");
  return options_.seconds.has_value()
             ? fmt::format("after {}", done)
             : fmt::format("after {} of {}", ended_,
                           counted(options_.seeds.last - options_.seeds.first + 1, "seed"));
}

/// False: one could not be written.
bool Fuzzer::write_reports() const {
  std::vector<verifier::Finding> findings;
  std::vector<verifier::JunitCase> cases;
  verifier::ReportedRun run{.driver = options_.driver,
                            .command = "dxgkit fuzz " + options_text(),
                            .ended = !interrupted_};
  const auto told = [](const std::string& key, const Group& group) {
    return nlohmann::ordered_json{
        {"key", key},
        {"seeds", group.seeds},
        {"first_seed", group.first_seed},
        {"steps", group.least.steps.size()},
        {"reproducer", group.file},
        {"finding",
         nlohmann::ordered_json::parse(verifier::to_json(group.problem.finding), nullptr, false)}};
  };
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  nlohmann::ordered_json waived = nlohmann::ordered_json::array();
  for (const auto& [key, group] : groups_) {
    findings.push_back(group.problem.finding);
    const std::string from = group.file.empty() ? "" : "reproducer: " + group.file;
    cases.push_back({.name = key,
                     .outcome = verifier::JunitCase::Outcome::kFailed,
                     .message = group.problem.finding.actual,
                     .text = verifier::to_text(group.problem.finding) + from});
    problems.push_back(told(key, group));
  }
  cases.push_back({.name = "seeds",
                   .outcome = ended_ == 0 ? verifier::JunitCase::Outcome::kSkipped
                                          : verifier::JunitCase::Outcome::kPassed,
                   .message = counted(ended_, "seed"),
                   .text = {}});
  for (const auto& [key, group] : waived_) {
    findings.push_back(group.problem.finding);
    waived.push_back(told(key, group));
  }
  run.remarks = unused_waivers(setting_.waivers);
  std::ranges::move(waiver_cases(setting_.waivers), std::back_inserter(cases));
  if (const std::string how_far = interrupted(); !how_far.empty()) {
    run.notes.push_back(fmt::format("Interrupted by the user {}.", how_far));
    cases.push_back(verifier::interrupted_case(how_far));
  }
  const verifier::SituationReport reached(*situations_);
  std::ranges::move(situation_cases(reached), std::back_inserter(cases));
  const nlohmann::ordered_json all{{"driver", options_.driver},
                                   {"command", run.command},
                                   {"interrupted", interrupted()},
                                   {"exit_code", code()},
                                   {"seeds", ended_},
                                   {"seeds_not_clean", bad_},
                                   {"problems", problems},
                                   {"waived", waived},
                                   {"waivers", waivers_json(setting_.waivers)},
                                   {"situations", situations_json(reached)}};
  const Reports& reports = options_.reports;
  bool written = write_output(
      reports.json, all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  written = write_output(reports.sarif, verifier::to_sarif(findings, run)) && written;
  return write_output(reports.junit, verifier::to_junit("dxgkit fuzz " + options_.driver, cases)) &&
         written;
}

std::string Fuzzer::sums() const {
  std::string text = groups_.empty() ? "clean" : counted(groups_.size(), "problem");
  if (!waived_.empty()) text += fmt::format(", {} waived", waived_.size());
  if (cut_short_ != 0)
    text += fmt::format("; {} ended early at a waived bug check", counted(cut_short_, "seed"));
  return text;
}

int Fuzzer::code() const { return interrupted_ ? kExitInterrupted : worst(groups_); }

int Fuzzer::finish() {
  interrupted_ = runtime::interrupted();
  fmt::print(out_, "{}, {} of them not clean; {} of {}, {} succeeded, {} blocked\n",
             counted(ended_, "seed"), bad_, counted(counts_.calls, "call"),
             counted(counts_.processes, "process", "processes"), counts_.succeeded,
             counts_.blocked);
  for (const auto& [key, group] : groups_) {
    fmt::print(out_, "{}: {}, the first {}; {} in {}\n", key, counted(group.seeds, "seed"),
               group.first_seed, counted(group.least.steps.size(), "step"), group.file);
  }
  for (const auto& [key, group] : waived_) {
    fmt::print(out_, "waived: {}: {}, the first {}\n", key, counted(group.seeds, "seed"),
               group.first_seed);
  }
  fmt::print(out_, "{}", waivers_text(setting_.waivers));
  fmt::print(out_, "{}\n", situations_text(verifier::SituationReport(*situations_)));
  if (interrupted_) {
    fmt::print(out_, "interrupted {}: {}\n", interrupted(),
               groups_.empty() ? "no problem so far" : sums());
  } else {
    fmt::print(out_, "{}\n", sums());
  }
  return write_reports() ? code() : kExitNotWritten;
}

int Fuzzer::run() {
  seeds();
  if (!broken_around_it_.empty()) return bad_input(broken_around_it_);
  bool written = true;
  for (auto& [key, group] : groups_) {
    make_small(group);
    written = write_reproducer(group) && written;
  }
  const int code = finish();
  return written ? code : kExitNotWritten;
}

int Fuzzer::replay(const FuzzPlan& plan) {
  FuzzOutcome outcome;
  if (options_.in_process) {
    outcome = fuzz::run_plan(setting_, plan, [this](const std::string& line) {
      say(out_, "{}\n", line);
      std::fflush(out_);
    });
  } else {
    outcome = run_apart(plan, out_ == stdout ? "/dev/stdout" : "/dev/stderr");
    if (!broken_around_it_.empty()) return bad_input(broken_around_it_);
  }
  for (const Problem& problem : outcome.problems) {
    fmt::print(out_, "{}\n{}", problem.key, verifier::to_text(problem.finding));
    Group& group = groups_of(problem)[problem.key];
    group.problem = problem;
    group.least = plan;
    group.file = *options_.replay;
  }
  interrupted_ = runtime::interrupted();
  fmt::print(out_, "{}\n", interrupted_ ? std::string("interrupted") : sums());
  return write_reports() ? code() : kExitNotWritten;
}

/// The command line above the reproducer, and that above the defaults. `around` becomes what the
/// run has. The error is one sentence.
std::optional<std::string> apply(const FuzzOptions& options, FuzzSetting* setting,
                                 fuzz::Surroundings* around) {
  const std::string whose = options.replay.has_value() ? *options.replay + ": " : std::string();
  if (options.device.has_value()) {
    setting->device = *options.device;
  } else if (!around->device.empty()) {
    auto device = parse_device(around->device);
    if (!device.has_value()) return whose + device.error();
    setting->device = std::move(*device);
  } else {
    setting->device = device_of_driver(setting->driver_path);
  }
  around->device = setting->device.text;
  if (const auto simulated = check_mode(setting->device, Mode::kSim); !simulated)
    return simulated.error();
  std::string path = whose + "registry";
  if (options.registry.has_value()) {
    auto text = read_file(*options.registry);
    if (!text.has_value()) return text.error();
    around->registry = std::move(*text);
    path = *options.registry;
  }
  around->special_pool = around->special_pool || options.special_pool;
  auto kernel = kernel_config_of(around->registry, path, around->special_pool, false);
  if (!kernel.has_value()) return kernel.error();
  setting->kernel = std::move(*kernel);
  setting->kernel.processors = options.machine.processors;
  if (options.client.has_value()) around->client = *options.client;
  const uint64_t memory_bytes = options.machine.memory_bytes.value_or(around->memory_bytes);
  if (memory_bytes != 0) setting->memory_bytes = memory_bytes;
  if (around->vram_bytes != 0) setting->vram_bytes = around->vram_bytes;
  around->memory_bytes = setting->memory_bytes;
  around->vram_bytes = setting->vram_bytes;
  return std::nullopt;
}

}  // namespace

void add_fuzz(CLI::App& app, FuzzOptions& options) {
  CLI::App* fuzz = app.add_subcommand(
      "fuzz", "hostile processes and a failing device around a driver, seed by seed");
  fuzz->footer(
      "Each seed is one to three processes that make any D3DKMT call in any order, in simulation. "
      "Exit codes: 0 clean, 1 findings, 2 bad input, 3 Windows would have stopped, 4 a hang, "
      "5 an output could not be written, 130 interrupted.");
  fuzz->add_option("DRIVER", options.driver, "softgpu, or the path of a driver (.sys or .so)")
      ->required();
  const auto parsed = [](auto parse, auto store) {
    return CLI::callback_t([=](const CLI::results_t& texts) {
      auto value = parse(texts.back());
      if (!value.has_value()) throw CLI::ValidationError(value.error());
      store(*value);
      return true;
    });
  };
  fuzz->add_option(
          "--device",
          parsed(parse_device, [&options](const DeviceChoice& device) { options.device = device; }),
          "what the driver finds, as `dxgkit devices` lists it: NAME[,OPTION=VALUE...] or a "
          "plug-in, "
          "FILE.so (softgpu, which can be made to fail)")
      ->expected(1)
      ->type_name("DEVICE");
  add_machine(fuzz, options.machine, "memory of the machine, like 1G (512M)");
  fuzz->add_option("--registry", options.registry, "values the driver reads (TOML or JSON)");
  fuzz->add_option("--client", options.client,
                   "plug-in that knows the driver's private data (dxgkit/client_plugin.h)");
  fuzz->add_flag("--special-pool", options.special_pool,
                 "put every pool block at the end of a page: overruns fault where they happen");
  CLI::Option* seeds =
      fuzz->add_option("--seeds",
                       parsed(parse_seeds, [&options](SeedRange range) { options.seeds = range; }),
                       "FIRST..LAST (1..200)")
          ->expected(1)
          ->type_name("A..B");
  fuzz->add_option("--seconds", options.seconds, "seeds from 1 on, for so long")
      ->check(CLI::Range(1U, 1'000'000U))
      ->excludes(seeds);
  fuzz->add_option("--jobs", options.jobs, "processes at once (as many as there are processors)")
      ->check(CLI::Range(1U, 64U));
  fuzz->add_option("--steps", options.steps, "of each seed")
      ->check(CLI::Range(0U, fuzz::kStepsMost))
      ->capture_default_str();
  fuzz->add_option("--timeout", options.timeout_s, "seconds of a seed after which it hangs")
      ->check(CLI::Range(1U, 3600U))
      ->capture_default_str();
  fuzz->add_option("--tries", options.tries, "runs that make a reproducer smaller, at most")
      ->check(CLI::Range(0U, 100'000U))
      ->capture_default_str();
  fuzz->add_option("--out", options.out, "folder of the reproducers")->capture_default_str();
  fuzz->add_option("--replay", options.replay,
                   "run a reproducer with the options it was made with, and show its calls")
      ->type_name("FILE");
  fuzz->add_flag("--in-process", options.in_process,
                 "with --replay: run the driver in this process, for a debugger");
  add_waivers(fuzz, options.waivers);
  add_reports(fuzz, options.reports, "the problems as JSON", "the findings as SARIF 2.1.0",
              "the problems as JUnit XML");
}

int fuzz_command(const FuzzOptions& options) {
  const auto driver_path = find_loadable_driver(options.driver);
  if (!driver_path.has_value()) return bad_input(driver_path.error());
  if (const int code = options.reports.check(); code != kExitDone) return code;
  FuzzSetting setting;
  setting.driver_path = *driver_path;
  setting.waivers = options.waivers.list;
  fuzz::Reproducer from;
  if (options.replay.has_value()) {
    const auto text = read_file(*options.replay);
    if (!text.has_value()) return bad_input(text.error());
    auto parsed = fuzz::parse_reproducer(*text);
    if (!parsed.has_value())
      return bad_input(fmt::format("{}: {}", *options.replay, parsed.error()));
    from = std::move(*parsed);
  }
  fuzz::Surroundings& around = from.around;
  if (const auto wrong = apply(options, &setting, &around)) return bad_input(*wrong);
  std::unique_ptr<verify::Plugin> plugin;
  if (!around.client.empty()) {
    auto loaded = verify::Plugin::load(around.client);
    if (!loaded.has_value()) return bad_input(loaded.error());
    plugin = std::move(*loaded);
    setting.plugin = plugin.get();
  }
  if (!options.in_process) runtime::catch_interrupts();
  Fuzzer fuzzer(options, std::move(setting), std::move(around));
  if (const auto why = fuzzer.probe()) return bad_input(*why);
  return options.replay.has_value() ? fuzzer.replay(from.plan) : fuzzer.run();
}

}  // namespace dxgkit::tool
