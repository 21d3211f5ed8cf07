#include "tools/dxgkit/verify/seed_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/verify/lost_run.h"
#include "tools/dxgkit/verify/verification.h"

namespace dxgkit::tool::verify {
namespace {

// A run takes a few seconds. The kernel notices by itself that a driver hangs; this is for
// everything else.
constexpr uint32_t kRunSecondsMost = 300;

// After so many runs it is said what they found, and the situations are looked at. The number of
// processes does not matter, so that the outcome does not depend on it.
constexpr uint64_t kRunsAtOnce = 8;

// --thorough
constexpr uint64_t kTimesWanted = 3;
constexpr uint64_t kRunsInVain = 16;  // after so many without anything new it is over
constexpr uint64_t kRunsMost = 200;

class SeedRuns {
 public:
  SeedRuns(const VerifyOptions& options, const std::string& driver_path,
           const nt::KernelConfig& kernel_config, const Plugin* plugin, std::FILE* out)
      : options_(options),
        driver_path_(driver_path),
        kernel_config_(kernel_config),
        plugin_(plugin),
        out_(out) {
    options_.mode = Mode::kSim;
  }

  std::expected<VerifyReport, std::string> run();

 private:
  VerifyOptions options_of(uint64_t seed) const;
  /// Of these seeds. False: there is no point in more.
  bool run_some(uint64_t first, uint64_t count);
  std::string live(uint64_t seed);
  void take(uint64_t seed, StepLog::Content found);
  void take(uint64_t seed, const StepResult& step);
  /// How often situations that can come up are still wanted.
  uint64_t wanted() const;
  VerifyReport report() const;

  VerifyOptions options_;
  const std::string& driver_path_;
  const nt::KernelConfig& kernel_config_;
  const Plugin* plugin_;
  std::FILE* const out_;
  Board board_;
  LastWords words_;
  std::map<uint64_t, std::string> lost_;  // seeds whose process ended, and how
  std::map<std::string, StepResult> steps_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> failed_;  // step -> first seed, seeds
  std::set<std::tuple<std::string, std::string, std::string>> told_;
  uint64_t seeds_ = 0, bad_ = 0;
  std::string error_;
};

VerifyOptions SeedRuns::options_of(uint64_t seed) const {
  VerifyOptions options = options_;
  options.seed = seed;
  options.seeds.reset();
  options.thorough = false;
  return options;
}

std::string SeedRuns::live(uint64_t seed) {
  words_.listen(seed, kRunSecondsMost);
  board_.steps.begin_seed(seed);
  const VerifyOptions options = options_of(seed);
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  Verification verification(options, driver_path_, kernel_config_, plugin_, board_, nullptr,
                            nowhere);
  std::string message;
  static_cast<void>(verification.run(&message));
  std::fclose(nowhere);
  return message;
}

void SeedRuns::take(uint64_t seed, const StepResult& step) {
  StepResult& sum = steps_[step.name];
  sum.name = step.name;
  sum.title = step.title;
  for (const auto& [ddi, calls] : step.calls) sum.calls[ddi] += calls;
  if (step.outcome.kind == Outcome::Kind::kFailed) {
    auto& [first, seeds] = failed_[step.name];
    if (seeds++ == 0) {
      first = seed;
      fmt::print(out_, "seed {}: step {} failed: {}\n", seed, step.name, step.outcome.text);
    }
  }
  // What failed stands before what was done, and that before what was skipped.
  const auto weight = [](const StepResult& one) {
    return one.outcome.kind == Outcome::Kind::kFailed ? 2
           : one.outcome.kind == Outcome::Kind::kOk   ? 1
                                                      : 0;
  };
  if (sum.outcome.text.empty() || weight(step) > weight(sum)) sum.outcome = step.outcome;
  for (const verifier::Finding& finding : step.findings) {
    if (!told_.emplace(step.name, finding.rule, finding.ddi).second) continue;
    fmt::print(out_, "seed {}: step {}: {} in {}\n", seed, step.name, finding.rule, finding.ddi);
    sum.findings.push_back(finding);
    sum.findings.back().actual += fmt::format(" That was with seed {}.", seed);
  }
}

void SeedRuns::take(uint64_t seed, StepLog::Content found) {
  std::vector<StepResult> steps = std::move(found.steps);
  if (const auto lost = lost_.find(seed); lost != lost_.end()) {
    Problem problem = words_.of(seed, fmt::format("Step {}", step_of(found)), lost->second);
    if (!problem.broken_around_it.empty()) {
      error_ = problem.broken_around_it;
      return;
    }
    steps.push_back(lost_step(options_of(seed), std::move(found), RunEnd{.how = lost->second},
                              std::move(problem)));
  }
  ++seeds_;
  bool bad = false;
  for (const StepResult& step : steps) {
    bad = bad || step.outcome.kind == Outcome::Kind::kFailed ||
          std::ranges::any_of(step.findings, is_mistake);
    take(seed, step);
  }
  bad_ += bad ? 1 : 0;
}

bool SeedRuns::run_some(uint64_t first, uint64_t count) {
  sim::PoolJob job;
  job.count = count;
  job.workers = sim::workers_for(options_.jobs);
  job.work = [&](uint64_t index) { return live(first + index); };
  job.done = [&](uint64_t, std::string_view message) {
    if (error_.empty()) error_ = message;
    return error_.empty();
  };
  job.died = [&](uint64_t index, std::string_view how) {
    lost_.emplace(first + index, how);
    return true;
  };
  if (!sim::run_pool(job)) error_ = "a child process could not be started";
  std::map<uint64_t, StepLog::Content> found = board_.steps.read();
  board_.steps.clear();
  for (uint64_t seed = first; seed - first < count && error_.empty(); ++seed) {
    // After an interrupt some runs have not begun, and some have done only part of their steps.
    if (runtime::interrupted() && found[seed].steps.empty()) continue;
    take(seed, std::move(found[seed]));
  }
  std::fflush(out_);
  return error_.empty() && !runtime::interrupted();
}

uint64_t SeedRuns::wanted() const {
  uint64_t wanted = 0;
  for (const verifier::SituationCount& one : verifier::SituationReport(*board_.situations).counts) {
    if (one.why_not.empty()) wanted += kTimesWanted - std::min(one.count, kTimesWanted);
  }
  return wanted;
}

VerifyReport SeedRuns::report() const {
  VerifyReport report;
  report.driver = options_.driver;
  report.command = command_line(options_);
  report.waivers = options_.waivers.list;
  report.chosen = options_.only;
  report.situations = verifier::SituationReport(*board_.situations);
  if (runtime::interrupted()) {
    report.ended = false;
    report.interrupted = fmt::format("after {} with some steps or all", counted(seeds_, "run"));
  }
  for (const Step& step : all_steps()) {
    const auto found = steps_.find(step.name);
    if (found == steps_.end()) continue;
    report.steps.push_back(found->second);
    if (const auto failed = failed_.find(step.name); failed != failed_.end()) {
      const auto [first, seeds] = failed->second;
      report.steps.back().outcome.text +=
          fmt::format(" (seed {}; {} of {})", first, seeds, counted(seeds_, "run"));
    }
    const auto& findings = report.steps.back().findings;
    report.findings.insert(report.findings.end(), findings.begin(), findings.end());
  }
  return report;
}

std::expected<VerifyReport, std::string> SeedRuns::run() {
  if (options_.seeds.has_value()) {
    const auto [first, last] = *options_.seeds;
    for (uint64_t done = 0; done <= last - first; done += kRunsAtOnce) {
      if (!run_some(first + done, std::min(kRunsAtOnce, last - first - done + 1))) break;
    }
  } else {
    uint64_t in_vain = 0, before = 0;
    for (uint64_t done = 0; done < kRunsMost && in_vain < kRunsInVain; done += kRunsAtOnce) {
      if (!run_some(options_.seed + done, kRunsAtOnce)) break;
      const uint64_t now = wanted();
      if (now == 0) break;
      in_vain = done != 0 && now == before ? in_vain + kRunsAtOnce : 0;
      before = now;
    }
  }
  if (!error_.empty()) return std::unexpected(error_);
  const VerifyReport all = report();
  for (const StepResult& step : all.steps) {
    fmt::print(out_, "{}", step_line(step));
    for (const verifier::Finding& finding : step.findings)
      fmt::print(out_, "{}", verifier::to_text(finding));
  }
  fmt::print(out_, "\n{}, {} of them not clean\n", counted(seeds_, "run"), bad_);
  return all;
}

}  // namespace

std::expected<VerifyReport, std::string> run_seeds(const VerifyOptions& options,
                                                   const std::string& driver_path,
                                                   const nt::KernelConfig& kernel_config,
                                                   const Plugin* plugin, std::FILE* out) {
  return SeedRuns(options, driver_path, kernel_config, plugin, out).run();
}

}  // namespace dxgkit::tool::verify
