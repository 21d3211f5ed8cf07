#include "tools/dxgkit/verify/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/waivers.h"
#include "verifier/formats.h"

namespace dxgkit::tool::verify {
namespace {

/// A driver that does not come back (the rule about returning).
constexpr const char* kHangRule = "NT-20";

const char* outcome_word(Outcome::Kind kind) {
  switch (kind) {
    case Outcome::Kind::kOk:
      return "ok";
    case Outcome::Kind::kSkipped:
      return "skipped";
    case Outcome::Kind::kFailed:
      return "failed";
  }
  return "";
}

/// "AddDevice, QueryAdapterInfo x9": without the common prefix.
std::string calls_text(const std::map<std::string, uint64_t>& calls) {
  std::string out;
  for (const auto& [name, count] : calls) {
    const std::string_view prefix = "DxgkDdi";
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ",
                       name.starts_with(prefix) ? name.substr(prefix.size()) : name,
                       count == 1 ? "" : fmt::format(" x{}", count));
  }
  return out;
}

size_t count(const VerifyReport& report, Outcome::Kind kind) {
  return static_cast<size_t>(std::ranges::count_if(
      report.steps, [&](const StepResult& step) { return step.outcome.kind == kind; }));
}

bool is_chosen(const VerifyReport& report, const StepResult& step) {
  return std::ranges::find(report.chosen, step.name) != report.chosen.end();
}

/// Each step that the user named was skipped, and not because of a waived finding.
bool is_idle(const VerifyReport& report) {
  const auto idle = [&](const StepResult& step) {
    return !is_chosen(report, step) ||
           (step.outcome.kind == Outcome::Kind::kSkipped && step.findings.empty());
  };
  const auto chosen = [&](const StepResult& step) { return is_chosen(report, step); };
  return std::ranges::any_of(report.steps, chosen) && std::ranges::all_of(report.steps, idle);
}

}  // namespace

int exit_code(const VerifyReport& report) {
  if (!report.interrupted.empty()) return kExitInterrupted;
  bool bad = std::ranges::any_of(report.findings, is_mistake);
  bool bug_check = false;
  for (const verifier::Finding& finding : report.findings) {
    if (finding.rule == kHangRule && is_mistake(finding)) return kExitHang;
    bug_check =
        bug_check || (finding.severity == verifier::Severity::kBugCheck && is_mistake(finding));
  }
  if (bug_check) return kExitBugCheck;
  bad = bad || count(report, Outcome::Kind::kFailed) != 0 || report.left_out;
  if (bad) return kExitFailed;
  return is_idle(report) ? kExitBadInput : kExitDone;
}

std::string not_exercised(const VerifyReport& report) {
  if (exit_code(report) != kExitBadInput) return {};
  const StepResult& first = *std::ranges::find_if(
      report.steps, [&](const StepResult& step) { return is_chosen(report, step); });
  return fmt::format("the driver was not exercised: step {} was skipped, because {}", first.name,
                     first.outcome.text);
}

std::string verdict(const VerifyReport& report) {
  const size_t failed = count(report, Outcome::Kind::kFailed);
  const auto violations = static_cast<size_t>(std::ranges::count_if(report.findings, is_mistake));
  const auto consequences = static_cast<size_t>(std::ranges::count_if(
      report.findings,
      [](const verifier::Finding& finding) { return !finding.because_of.empty(); }));
  const auto waived = static_cast<size_t>(
      std::ranges::count_if(report.findings, [](const verifier::Finding& finding) {
        return finding.because_of.empty() && !finding.waived.empty();
      }));
  std::string sums = fmt::format(
      "{} done, {} skipped, {} failed; {}, {}", counted(count(report, Outcome::Kind::kOk), "step"),
      count(report, Outcome::Kind::kSkipped), failed, counted(violations, "finding"),
      counted(report.findings.size() - violations - consequences - waived, "warning"));
  if (consequences != 0) sums += ", " + counted(consequences, "consequence");
  if (waived != 0) sums += fmt::format(", {} waived", waived);
  const bool cut_short = std::ranges::any_of(report.findings, [](const verifier::Finding& finding) {
    return finding.severity == verifier::Severity::kBugCheck && finding.because_of.empty() &&
           !finding.waived.empty();
  });
  switch (exit_code(report)) {
    case kExitInterrupted:
      return fmt::format("interrupted {}: {}", report.interrupted, sums);
    case kExitBadInput:
      return "not exercised: " + sums;
    case kExitDone:
      return (cut_short ? "clean as far as it ran: " : "clean: ") + sums;
    case kExitBugCheck:
      return "Windows would have stopped: " + sums;
    case kExitHang:
      return "the driver did not come back: " + sums;
    default:
      return "not clean: " + sums;
  }
}

std::string step_line(const StepResult& step) {
  const std::string word =
      step.outcome.kind == Outcome::Kind::kFailed ? "FAILED" : outcome_word(step.outcome.kind);
  const std::string text = step.outcome.text.empty() ? step.title : step.outcome.text;
  std::string line = fmt::format("{:<20}{:<9}{}\n", step.name, word, text);
  if (const std::string calls = calls_text(step.calls); !calls.empty())
    line += fmt::format("{:<29}{}\n", "", calls);
  for (const std::string& before : step.outcome.before)
    line += fmt::format("{:<29}{}\n", "", before);
  return line;
}

std::string to_json_text(const VerifyReport& report) {
  nlohmann::ordered_json out;
  out["driver"] = report.driver;
  out["command"] = report.command;
  out["interface_version"] = report.interface_version;
  out["display_only"] = report.display_only;
  out["ended"] = report.ended;
  out["interrupted"] = report.interrupted;
  out["exit_code"] = exit_code(report);
  out["verdict"] = verdict(report);
  out["steps"] = nlohmann::ordered_json::array();
  for (const StepResult& step : report.steps) {
    nlohmann::ordered_json one;
    one["name"] = step.name;
    one["title"] = step.title;
    one["outcome"] = outcome_word(step.outcome.kind);
    one["text"] = step.outcome.text;
    if (!step.outcome.before.empty()) one["before"] = step.outcome.before;
    one["ddis"] = nlohmann::ordered_json::object();
    for (const auto& [name, calls] : step.calls) one["ddis"][name] = calls;
    one["findings"] = nlohmann::ordered_json::array();
    for (const verifier::Finding& finding : step.findings) {
      one["findings"].push_back(
          nlohmann::ordered_json::parse(verifier::to_json(finding), nullptr, false));
    }
    out["steps"].push_back(std::move(one));
  }
  out["never_called"] = report.never_called;
  out["waivers"] = waivers_json(report.waivers);
  out["situations"] = situations_json(report.situations);
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_sarif_text(const VerifyReport& report) {
  verifier::ReportedRun run{
      .driver = report.driver, .command = report.command, .ended = report.ended};
  run.remarks = unused_waivers(report.waivers);
  if (!report.interrupted.empty())
    run.notes.push_back(fmt::format("Interrupted by the user {}.", report.interrupted));
  for (const StepResult& step : report.steps) {
    if (step.outcome.kind != Outcome::Kind::kFailed) continue;
    run.notes.push_back(fmt::format("Step {} failed: {}.", step.name, step.outcome.text));
    for (const std::string& before : step.outcome.before) run.notes.back() += "\n" + before;
  }
  return verifier::to_sarif(report.findings, run);
}

std::string to_junit_text(const VerifyReport& report) {
  using Case = verifier::JunitCase;
  std::vector<Case> cases;
  for (const StepResult& step : report.steps) {
    const bool bad = std::ranges::any_of(step.findings, is_mistake);
    Case one{.name = step.name,
             .outcome = Case::Outcome::kPassed,
             .message = step.outcome.text,
             .text = {}};
    if (step.outcome.kind == Outcome::Kind::kSkipped) one.outcome = Case::Outcome::kSkipped;
    if (step.outcome.kind == Outcome::Kind::kFailed || bad) one.outcome = Case::Outcome::kFailed;
    for (const verifier::Finding& finding : step.findings) one.text += verifier::to_text(finding);
    if (one.message.empty() && bad) {
      const auto first = std::ranges::find_if(step.findings, is_mistake);
      one.message = first->rule + ": " + first->actual;
    }
    cases.push_back(std::move(one));
  }
  if (!report.interrupted.empty()) cases.push_back(verifier::interrupted_case(report.interrupted));
  std::ranges::move(waiver_cases(report.waivers), std::back_inserter(cases));
  std::ranges::move(situation_cases(report.situations), std::back_inserter(cases));
  return verifier::to_junit("dxgkit verify " + report.driver, cases);
}

}  // namespace dxgkit::tool::verify
