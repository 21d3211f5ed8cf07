#include "tools/dxgkit/verify/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "base/spelling.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/finding_json.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/verify/verification.h"
#include "verifier/formats.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kTextShown = 200;
constexpr uint32_t kLostRates[] = {100'000, 1'000'000};  // per million
/// The rules that report leaks.
constexpr std::string_view kLeakRules[] = {"LIFE-20", "NT-12", "NT-13", "NT-14"};
constexpr std::string_view kHungRule = "NT-20";
constexpr std::string_view kNotRun = "not run";  // after an interrupt

/// The outcome of a run.
struct MutantResult {
  std::string word;  // survived, leaked, crashed, hung, violated, not reached
  std::string text;
  verifier::Finding finding = {};  // without a rule: none
};

bool bad(const verifier::Finding& finding) {
  return verifier::is_mistake(finding) && finding.severity != verifier::Severity::kStartFail;
}

std::string_view word_of(const verifier::Finding& finding) {
  if (finding.rule == kHungRule) return "hung";
  if (finding.severity == verifier::Severity::kBugCheck) return "crashed";
  return std::ranges::find(kLeakRules, finding.rule) != std::end(kLeakRules) ? "leaked"
                                                                             : "violated";
}
int gravity(std::string_view word) {
  constexpr std::string_view kOrder[] = {"survived", "violated", "leaked", "crashed", "hung"};
  return static_cast<int>(std::ranges::find(kOrder, word) - std::begin(kOrder));
}

/// Workers answer with text, and all of it must fit into a pipe.
nlohmann::json to_answer(verifier::Finding finding) {
  constexpr size_t kText = 1000, kFrames = 8;
  for (std::string* text : {&finding.actual, &finding.expected, &finding.fix, &finding.why})
    text->resize(std::min(text->size(), kText));
  finding.place.stack.resize(std::min(finding.place.stack.size(), kFrames));
  finding.place.registers.clear();
  return to_message(finding);
}

class Mutations {
 public:
  Mutations(const VerifyOptions& options, const std::string& driver_path,
            const nt::KernelConfig& kernel_config, const Plugin* plugin)
      : options_(options),
        driver_path_(driver_path),
        kernel_config_(kernel_config),
        plugin_(plugin) {
    options_.mode = Mode::kSim;
  }
  int run();

 private:
  /// In a child process.
  nlohmann::json live(const Mutation& mutation);
  MutantResult judge(const nlohmann::json& answer) const;
  /// False: there is nothing to verify.
  bool begin();
  void plan(const nlohmann::json& baseline);
  void say(size_t index);
  bool write_outputs() const;

  VerifyOptions options_;
  const std::string& driver_path_;
  const nt::KernelConfig& kernel_config_;
  const Plugin* plugin_;
  LastWords words_;
  std::set<std::string> known_;   // the driver's mistakes without any injected fault
  std::string broken_around_it_;  // not empty: that ends everything
  std::vector<Mutation> mutations_;
  std::vector<MutantResult> results_;
  std::string how_far_;  // empty, or where it was when the user ended it
  std::FILE* const out_ = options_.reports.text_stream();
};

nlohmann::json Mutations::live(const Mutation& mutation) {
  VerifyOptions options = options_;
  if (mutation.kind == Mutation::Kind::kNoResources) {
    const size_t blank = mutation.name.rfind(' ');
    if (auto device = parse_device(mutation.name.substr(blank + 1)); device.has_value())
      options.device = *device;
  }
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  Board board;
  Mutator mutator(mutation);
  Verification verification(options, driver_path_, kernel_config_, plugin_, board, nullptr,
                            nowhere);
  verification.set_mutator(&mutator);
  std::string message;
  const std::optional<VerifyReport> report = verification.run(&message);
  std::fclose(nowhere);
  nlohmann::json answer;
  if (!report.has_value()) {
    answer["unusable"] = message;
    return answer;
  }
  answer["struck"] = mutator.struck();
  answer["vendor"] = mutator.identity().vendor_id;
  answer["device"] = mutator.identity().device_id;
  answer["device fails"] = mutator.device_fails();
  answer["callbacks"] = mutator.callbacks();
  answer["allocations"] = mutator.allocations();
  for (const StepResult& step : report->steps) {
    if (step.outcome.kind == Outcome::Kind::kFailed && !answer.contains("failed"))
      answer["failed"] = step.name + ": " + step.outcome.text;
  }
  answer["findings"] = nlohmann::json::array();
  for (const verifier::Finding& finding : report->findings) {
    if (!bad(finding) || known_.contains(key_of(finding))) continue;
    if (answer["findings"].size() == 8) break;
    answer["findings"].push_back(to_answer(finding));
  }
  return answer;
}

MutantResult Mutations::judge(const nlohmann::json& answer) const {
  MutantResult result{.word = "survived", .text = answer.value("failed", "")};
  if (!answer.value("struck", false)) result.word = "not reached";
  for (const auto& text : answer.value("findings", nlohmann::json::array())) {
    const verifier::Finding finding = finding_of(text);
    if (known_.contains(key_of(finding))) continue;
    const std::string_view word = word_of(finding);
    if (result.word != "not reached" && gravity(word) <= gravity(result.word)) continue;
    result = {std::string(word), finding.actual.substr(0, kTextShown), finding};
  }
  return result;
}

bool Mutations::begin() {
  nlohmann::json baseline;
  sim::PoolJob job;
  job.count = 1;
  job.work = [&](uint64_t) {
    words_.listen(UINT64_MAX - 1, options_.ddi_timeout_s);
    return line_of(live({}));
  };
  job.done = [&](uint64_t, std::string_view text) {
    baseline = nlohmann::json::parse(text, nullptr, false);
    return true;
  };
  job.died = [&](uint64_t, std::string_view how) {
    const Problem problem = words_.of(UINT64_MAX - 1, "A run", how);
    broken_around_it_ = problem.broken_around_it;
    baseline["unusable"] = "with nothing wrong around it: " + problem.finding.actual;
    return true;
  };
  static_cast<void>(sim::run_pool(job));
  if (!broken_around_it_.empty()) {
    fmt::print(stderr, "dxgkit: {}\n", broken_around_it_);
    return false;
  }
  if (baseline.is_discarded() || !baseline.is_object() || baseline.contains("unusable")) {
    if (runtime::interrupted()) return true;  // before it could say anything
    fmt::print(stderr, "dxgkit: {}: {}\n", driver_path_,
               baseline.is_object() ? baseline.value("unusable", "") : "it cannot be verified");
    return false;
  }
  for (const auto& text : baseline["findings"]) {
    const verifier::Finding finding = finding_of(text);
    known_.insert(key_of(finding));
    fmt::print(out_, "with nothing wrong around it: {}: {}\n", finding.rule,
               finding.actual.substr(0, kTextShown));
  }
  plan(baseline);
  return true;
}

void Mutations::plan(const nlohmann::json& baseline) {
  const auto callbacks = baseline.value("callbacks", std::map<std::string, uint32_t>());
  for (const MayFail& row : callbacks_that_may_fail()) {
    const auto found = callbacks.find(std::string(row.callback));
    if (found == callbacks.end()) continue;
    for (uint32_t nth = 1; nth <= std::min(found->second, options_.mutate_calls); ++nth) {
      for (const Status status : row.statuses) {
        if (status == Status::kSuccess) continue;
        mutations_.push_back({.kind = Mutation::Kind::kCallback,
                              .name = found->first,
                              .nth = nth,
                              .status = status});
      }
    }
  }
  for (const auto& [routine, count] :
       baseline.value("allocations", std::map<std::string, uint32_t>())) {
    for (uint32_t nth = 1; nth <= std::min(count, options_.mutate_calls); ++nth)
      mutations_.push_back({.kind = Mutation::Kind::kAllocation, .name = routine, .nth = nth});
  }
  const auto without = [&](const std::string& device) {
    mutations_.push_back({.kind = Mutation::Kind::kNoResources,
                          .name = "the device is only " + device,
                          .status = Status::kSuccess});
  };
  const std::string ids = fmt::format("pci:{:04x}:{:04x}", baseline.value("vendor", uint16_t{0}),
                                      baseline.value("device", uint16_t{0}));
  if (baseline.value("device fails", false)) {
    without(ids);
    for (const uint32_t rate : kLostRates)
      mutations_.push_back({.kind = Mutation::Kind::kLostInterrupts, .name = {}, .nth = rate});
  }
  // In turn each requested BAR is missing, with its content.
  const auto is_bar = [](const std::string& option) {
    return option.size() == 4 && option.starts_with("bar");
  };
  const std::span<const std::pair<std::string, std::string>> given = options_.device.options.all();
  for (const auto& [gone, size] : given) {
    if (!is_bar(gone)) continue;
    std::string text = ids;
    for (const auto& [name, value] : given) {
      if (name == "vendor" || name == "device" || name.back() == gone.back()) continue;
      text +=
          fmt::format(",{}={}", name, is_bar(name) ? std::to_string(*parse_bytes(value)) : value);
    }
    without(text);
  }
}

void Mutations::say(size_t index) {
  const MutantResult& result = results_[index];
  std::string line = fmt::format("{:<12}{}", result.word, mutations_[index].text());
  if (!result.finding.rule.empty()) {
    line += fmt::format("\n{:<12}{}: {}", "", result.finding.rule, result.text);
  } else if (!result.text.empty()) {
    line += fmt::format("\n{:<12}step {}", "", result.text);
  }
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

bool Mutations::write_outputs() const {
  std::vector<verifier::JunitCase> cases;
  std::vector<verifier::Finding> findings;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < results_.size(); ++i) {
    using Case = verifier::JunitCase::Outcome;
    const MutantResult& result = results_[i];
    const Case outcome = result.word == "survived"                                ? Case::kPassed
                         : result.word == "not reached" || result.word == kNotRun ? Case::kSkipped
                                                                                  : Case::kFailed;
    const std::string& rule = result.finding.rule;
    cases.push_back({.name = mutations_[i].text(),
                     .outcome = outcome,
                     .message = result.word + (rule.empty() ? "" : ": " + rule),
                     .text = result.text});
    list.push_back({{"mutation", mutations_[i].text()},
                    {"outcome", result.word},
                    {"rule", rule},
                    {"text", result.text}});
    if (rule.empty()) continue;
    findings.push_back(result.finding);
    findings.back().actual += fmt::format(" It was after: {}.", mutations_[i].text());
  }
  verifier::ReportedRun run{.driver = options_.driver,
                            .command = command_line(options_) + " --mutate",
                            .ended = how_far_.empty(),
                            .notes = {}};
  if (!how_far_.empty()) {
    run.notes.push_back(fmt::format("Interrupted by the user {}.", how_far_));
    cases.push_back(verifier::interrupted_case(how_far_));
    list.emplace_back();
    list.back()["interrupted"] = how_far_;
  }
  bool written = write_output(options_.reports.sarif, verifier::to_sarif(findings, run));
  written = write_output(options_.reports.junit,
                         verifier::to_junit("dxgkit verify --mutate " + options_.driver, cases)) &&
            written;
  return write_output(options_.reports.json,
                      list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n") &&
         written;
}

int Mutations::run() {
  if (!begin()) return kExitBadInput;
  results_.resize(mutations_.size(), {.word = std::string(kNotRun), .text = {}});
  std::vector<bool> there(mutations_.size());
  size_t said = 0;
  const auto ended = [&](uint64_t index, MutantResult result) {
    results_[index] = std::move(result);
    there[index] = true;
    for (; said < there.size() && there[said]; ++said) say(said);  // in order
    return true;
  };
  sim::PoolJob job;
  job.count = mutations_.size();
  job.workers = sim::workers_for(options_.jobs);
  job.work = [&](uint64_t index) {
    words_.listen(index, options_.ddi_timeout_s);
    return line_of(live(mutations_[index]));
  };
  job.done = [&](uint64_t index, std::string_view text) {
    const auto answer = nlohmann::json::parse(text, nullptr, false);
    if (!answer.is_object()) return ended(index, {"crashed", "it has no result"});
    return ended(index, judge(answer));
  };
  job.died = [&](uint64_t index, std::string_view how) {
    const Problem problem = words_.of(index, "A run", how);
    if (!problem.broken_around_it.empty()) {
      broken_around_it_ = problem.broken_around_it;
      return false;
    }
    return ended(index,
                 {std::string(word_of(problem.finding)), problem.finding.actual, problem.finding});
  };
  if (!sim::run_pool(job)) fmt::print(stderr, "dxgkit: a child process could not be started\n");
  if (!broken_around_it_.empty()) {
    fmt::print(stderr, "dxgkit: {}\n", broken_around_it_);
    return kExitBadInput;
  }
  std::map<std::string, size_t> counts;
  int worst = 0;
  for (const MutantResult& result : results_) {
    ++counts[result.word];
    if (result.word != "not reached" && result.word != kNotRun)
      worst = std::max(worst, gravity(result.word));
  }
  std::string sums;
  for (const auto& [word, count] : counts)
    sums += fmt::format("{}{} {}", sums.empty() ? "" : ", ", count, word);
  if (runtime::interrupted())
    how_far_ = fmt::format("after {} of {}", results_.size() - counts[std::string(kNotRun)],
                           counted(results_.size(), "mutation"));
  fmt::print(out_, "\n{}: {}\n",
             !how_far_.empty() ? "interrupted " + how_far_
             : worst == 0      ? "clean"
                               : "not clean",
             sums);
  const bool written = write_outputs();
  constexpr int kCodes[] = {kExitDone, kExitFailed, kExitFailed, kExitBugCheck, kExitHang};
  const int code = worst < static_cast<int>(std::size(kCodes)) ? kCodes[worst] : kExitFailed;
  return !written ? kExitNotWritten : how_far_.empty() ? code : kExitInterrupted;
}

}  // namespace

int mutate(const VerifyOptions& options, const std::string& driver_path,
           const nt::KernelConfig& kernel_config, const Plugin* plugin) {
  return Mutations(options, driver_path, kernel_config, plugin).run();
}

}  // namespace dxgkit::tool::verify
