#include "tools/dxgkit/verify/blind_spots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/finding_json.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/verify/negligence.h"
#include "tools/dxgkit/verify/verification.h"
#include "verifier/formats.h"

namespace dxgkit::tool::verify {
namespace {

using verifier::Situation;

/// Of one process. The kernel notices by itself that a driver hangs; this is for everything else.
constexpr uint32_t kRunSecondsMost = 600;
/// Answers of processes are short.
constexpr size_t kTextKept = 400;

/// What came of a driver that does nothing in a situation.
struct Trial {
  Situation situation{};
  std::vector<std::string> steps;  // in which it came up
  enum class Outcome {
    kFound,      // a rule names the mistake
    kFailed,     // a step went wrong, and no rule says so
    kUnnoticed,  // the run passed
    kIdle,       // the same, and a driver may do nothing there
    kNotTried,   // no entry can be left out there
  } outcome = Outcome::kNotTried;
  std::string rule, text;
};

/// Where a driver may be right that does nothing.
struct MayBeIdle {
  std::string_view situation, why;
};
constexpr MayBeIdle kMayBeIdle[] = {
    {"patch.no-elements", "there is nothing to patch"},
    {"patch.paging", "the paging buffers had nothing to patch"},
    {"patch.private-behind-start",
     "only paging buffers have private data, and had nothing to patch"},
    {"patch.again", "the addresses are there from the time before"},
    {"cancel.rendering", "a driver that remembers nothing of a buffer has nothing to forget"},
    {"cancel.paging", "a driver that remembers nothing of a buffer has nothing to forget"},
    {"cancel.part-behind-start",
     "a driver that remembers nothing of a buffer has nothing to forget"},
    {"cancel.elements-behind-start",
     "a driver that remembers nothing of a buffer has nothing to forget"},
    {"cancel.virtual", "a driver that remembers nothing of a buffer has nothing to forget"},
    {"transfer.nothing", "there is nothing to transfer"},
    {"paging.discard", "a driver that keeps no state of content has nothing to drop"},
    {"power.sleep", "the device sleeps all the same; what it forgets shows when it wakes"},
    {"power.hibernate", "the device sleeps all the same; what it forgets shows when it wakes"},
    {"power.child-sleep", "the output goes dark with its device"},
    {"power.child-wake", "the output wakes with its device"},
    {"vidpn.recommend-modes", "a driver may have no modes to add"},
    {"present-display-only.hidden", "nothing of it is shown"},
    {"timeout.debug-info", "a driver may have nothing to tell"},
    {"render.no-allocations", "commands without memory change nothing that can be seen"}};

const char* word_of(Trial::Outcome outcome) {
  switch (outcome) {
    case Trial::Outcome::kFound:
      return "found";
    case Trial::Outcome::kFailed:
      return "failed";
    case Trial::Outcome::kUnnoticed:
      return "unnoticed";
    case Trial::Outcome::kIdle:
      return "idle";
    case Trial::Outcome::kNotTried:
      break;
  }
  return "not tried";
}

class BlindSpots {
 public:
  BlindSpots(const VerifyOptions& options, const std::string& driver_path,
             const nt::KernelConfig& kernel_config, const Plugin* plugin)
      : options_(options),
        driver_path_(driver_path),
        kernel_config_(kernel_config),
        plugin_(plugin) {
    options_.mode = Mode::kSim;
  }
  int run();

 private:
  struct Run {
    std::optional<VerifyReport> report;
    std::string message;  // of what is no driver
    Negligence::Calls calls;
    uint64_t neglected = 0;
  };
  /// In a child process. With a situation: the driver does nothing there in these calls.
  Run run_steps(const VerifyOptions& options, Board& board, std::optional<Situation> which,
                const std::optional<Negligence::Calls>& neglected) const;
  nlohmann::json live(const Trial& trial) const;
  void judge(const nlohmann::json& answer, Trial* trial) const;
  /// False: there is nothing to verify.
  bool begin();
  void say(const Trial& trial) const;
  bool write_outputs() const;

  VerifyOptions options_;
  const std::string& driver_path_;
  const nt::KernelConfig& kernel_config_;
  const Plugin* plugin_;
  LastWords words_;
  std::set<std::string> known_;  // mistakes that the driver makes anyway: rule and DDI
  std::vector<Trial> trials_;
  std::string how_far_;  // after an interrupt
  std::string error_;
  std::FILE* const out_ = options_.reports.text_stream();
};

std::string_view id_of(Situation situation) {
  return verifier::situation_catalogue()[static_cast<size_t>(situation)].id;
}

BlindSpots::Run BlindSpots::run_steps(const VerifyOptions& options, Board& board,
                                      std::optional<Situation> which,
                                      const std::optional<Negligence::Calls>& neglected) const {
  Negligence negligence = neglected.has_value() ? Negligence(*board.situations, *which, *neglected)
                                                : Negligence(*board.situations);
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  Verification verification(options, driver_path_, kernel_config_, plugin_, board, nullptr,
                            nowhere);
  verification.set_negligence(&negligence);
  Run run;
  run.report = verification.run(&run.message);
  std::fclose(nowhere);
  if (which.has_value() && !neglected.has_value()) run.calls = negligence.calls_of(*which);
  run.neglected = negligence.neglected();
  return run;
}

nlohmann::json BlindSpots::live(const Trial& trial) const {
  VerifyOptions options = options_;
  options.only = trial.steps;
  options.until_finding = true;
  nlohmann::json answer;
  Board counting, board;
  const Run before = run_steps(options, counting, trial.situation, std::nullopt);
  const Run run = run_steps(options, board, trial.situation, before.calls);
  answer["neglected"] = run.neglected;
  if (!run.report.has_value()) {
    answer["failed"] = run.message;
    return answer;
  }
  for (const StepResult& step : run.report->steps) {
    if (step.outcome.kind == Outcome::Kind::kFailed && !answer.contains("failed"))
      answer["failed"] =
          fmt::format("step {}: {}", step.name, step.outcome.text.substr(0, kTextKept));
    for (const verifier::Finding& finding : step.findings) {
      // A mistake says more than a warning.
      const bool mistake = is_mistake(finding);
      if (known_.contains(key_of(finding)) || answer.value("mistake", false)) continue;
      if (!mistake && answer.contains("rule")) continue;
      answer["rule"] = finding.rule;
      answer["mistake"] = mistake;
      answer["text"] = fmt::format("{}step {}: {}", mistake ? "" : "warning in ", step.name,
                                   finding.actual.substr(0, kTextKept));
    }
  }
  return answer;
}

void BlindSpots::judge(const nlohmann::json& answer, Trial* trial) const {
  if (!answer.is_object()) {
    trial->outcome = Trial::Outcome::kFailed;
    trial->text = "its run has no result";
  } else if (answer.contains("rule")) {
    trial->outcome = Trial::Outcome::kFound;
    trial->rule = answer.value("rule", "");
    trial->text = answer.value("text", "");
  } else if (answer.contains("failed")) {
    trial->outcome = Trial::Outcome::kFailed;
    trial->text = answer.value("failed", "");
  } else if (answer.value("neglected", uint64_t{0}) == 0) {
    trial->text = "it came up no more, or what answers there is not the driver";
  } else {
    trial->outcome = Trial::Outcome::kUnnoticed;
    trial->text =
        fmt::format("{} did nothing", counted(answer.value("neglected", uint64_t{0}), "call"));
    const auto idle = std::ranges::find(kMayBeIdle, id_of(trial->situation), &MayBeIdle::situation);
    if (idle == std::end(kMayBeIdle)) return;
    trial->outcome = Trial::Outcome::kIdle;
    trial->text += fmt::format(", and {}", idle->why);
  }
}

bool BlindSpots::begin() {
  // Its steps survive the process, and it answers why there are none.
  Board board;
  sim::PoolJob job;
  job.count = 1;
  job.work = [&](uint64_t) {
    words_.listen(UINT64_MAX - 1, kRunSecondsMost);
    return run_steps(options_, board, std::nullopt, std::nullopt).message;
  };
  job.done = [&](uint64_t, std::string_view message) {
    error_ = message;
    return true;
  };
  job.died = [&](uint64_t, std::string_view how) {
    const Problem problem = words_.of(UINT64_MAX - 1, "A run", how);
    error_ = problem.broken_around_it.empty() ? "with nothing left out: " + problem.finding.actual
                                              : problem.broken_around_it;
    return true;
  };
  if (!sim::run_pool(job)) error_ = "a child process could not be started";
  if (!error_.empty()) return false;
  std::map<Situation, std::vector<std::string>> steps;
  const StepLog::Content found = board.steps.read()[options_.seed];
  for (const StepResult& step : found.steps) {
    for (const Situation situation : step.situations) steps[situation].push_back(step.name);
    for (const verifier::Finding& finding : step.findings) known_.insert(key_of(finding));
  }
  for (auto& [situation, names] : steps) {
    if (!id_of(situation).starts_with(options_.situation)) continue;
    trials_.push_back({.situation = situation, .steps = std::move(names), .rule = {}, .text = {}});
    if (!Negligence::can_neglect(situation))
      trials_.back().text = "it is told by a callback, or by an interrupt";
  }
  return true;
}

void BlindSpots::say(const Trial& trial) const {
  constexpr size_t kTextShown = 200;
  fmt::print(out_, "{:<10}{:<32}{}{}{}\n", word_of(trial.outcome), id_of(trial.situation),
             trial.rule, trial.rule.empty() ? "" : " ", trial.text.substr(0, kTextShown));
  std::fflush(out_);
}

bool BlindSpots::write_outputs() const {
  std::vector<verifier::JunitCase> cases;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Trial& trial : trials_) {
    using Case = verifier::JunitCase::Outcome;
    const Case outcome =
        trial.outcome == Trial::Outcome::kFound ? Case::kPassed
        : trial.outcome == Trial::Outcome::kNotTried || trial.outcome == Trial::Outcome::kIdle
            ? Case::kSkipped
            : Case::kFailed;
    cases.push_back({.name = std::string(id_of(trial.situation)),
                     .outcome = outcome,
                     .message = word_of(trial.outcome),
                     .text = trial.text});
    list.push_back({{"situation", id_of(trial.situation)},
                    {"outcome", word_of(trial.outcome)},
                    {"rule", trial.rule},
                    {"text", trial.text},
                    {"steps", trial.steps}});
  }
  if (!how_far_.empty()) {
    cases.push_back(verifier::interrupted_case(how_far_));
    list.emplace_back();
    list.back()["interrupted"] = how_far_;
  }
  const bool written =
      write_output(options_.reports.junit,
                   verifier::to_junit("dxgkit verify --blind-spots " + options_.driver, cases));
  return write_output(options_.reports.json,
                      list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n") &&
         written;
}

int BlindSpots::run() {
  if (!begin()) {
    fmt::print(stderr, "dxgkit: {}: {}\n", driver_path_, error_);
    return kExitBadInput;
  }
  std::vector<size_t> tried;
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (Negligence::can_neglect(trials_[i].situation)) tried.push_back(i);
  }
  sim::PoolJob job;
  job.count = tried.size();
  job.workers = sim::workers_for(options_.jobs);
  job.work = [&](uint64_t index) {
    words_.listen(index, kRunSecondsMost);
    return line_of(live(trials_[tried[index]]));
  };
  size_t ended = 0;
  std::vector<bool> there(tried.size());
  job.done = [&](uint64_t index, std::string_view text) {
    ++ended;
    there[index] = true;
    Trial& trial = trials_[tried[index]];
    judge(nlohmann::json::parse(text, nullptr, false), &trial);
    return true;
  };
  job.died = [&](uint64_t index, std::string_view how) {
    const Problem problem = words_.of(index, "A run", how);
    if (!problem.broken_around_it.empty()) error_ = problem.broken_around_it;
    ++ended;
    there[index] = true;
    Trial& trial = trials_[tried[index]];
    trial.outcome = Trial::Outcome::kFound;
    trial.rule = problem.finding.rule;
    trial.text = problem.finding.actual;
    return error_.empty();
  };
  if (!sim::run_pool(job)) error_ = "a child process could not be started";
  if (!error_.empty()) {
    fmt::print(stderr, "dxgkit: {}\n", error_);
    return kExitBadInput;
  }
  if (runtime::interrupted()) {
    how_far_ = fmt::format("after {} of {}", ended, counted(tried.size(), "trial"));
    for (size_t i = 0; i < tried.size(); ++i) {
      if (!there[i]) trials_[tried[i]].text = "interrupted";
    }
  }
  std::map<Trial::Outcome, size_t> counts;
  for (const Trial& trial : trials_) {
    say(trial);
    ++counts[trial.outcome];
  }
  fmt::print(
      out_,
      "\n{} came up: {} found, {} failed without a rule, {} unnoticed, {} where a driver may do "
      "nothing, {} not tried\n",
      counted(trials_.size(), "situation"), counts[Trial::Outcome::kFound],
      counts[Trial::Outcome::kFailed], counts[Trial::Outcome::kUnnoticed],
      counts[Trial::Outcome::kIdle], counts[Trial::Outcome::kNotTried]);
  const bool all = counts[Trial::Outcome::kFailed] + counts[Trial::Outcome::kUnnoticed] == 0;
  if (!how_far_.empty()) fmt::print(out_, "interrupted {}\n", how_far_);
  if (!write_outputs()) return kExitNotWritten;
  return !how_far_.empty() ? kExitInterrupted : all ? kExitDone : kExitFailed;
}

}  // namespace

int find_blind_spots(const VerifyOptions& options, const std::string& driver_path,
                     const nt::KernelConfig& kernel_config, const Plugin* plugin) {
  return BlindSpots(options, driver_path, kernel_config, plugin).run();
}

}  // namespace dxgkit::tool::verify
