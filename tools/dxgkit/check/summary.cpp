#include "tools/dxgkit/check/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/spelling.h"
#include "tools/dxgkit/situations.h"
#include "tools/dxgkit/waivers.h"
#include "verifier/source_lines.h"

namespace dxgkit::tool::check {
namespace {

using verifier::Finding;
using verifier::Severity;
using verify::Outcome;
using verify::StepResult;
using verify::VerifyReport;

/// Words in the reasons of steps and situations. The first one that is there counts.
struct Hint {
  std::string_view words;
  Way way;
};
constexpr Hint kHints[] = {
    {"is not loaded", Way::kMending},
    {"was not loaded", Way::kMending},
    {"is not running", Way::kMending},
    {"does not run", Way::kMending},
    {"has never run", Way::kMending},
    {"is dead", Way::kMending},
    {"which is waived, ended it", Way::kMending},
    {"interrupted", Way::kMending},
    {"--mode sim", Way::kSimulation},
    {"with real threads", Way::kSimulation},
    {"client", Way::kPlugIn},
    {"plug-in", Way::kPlugIn},
    {"display-only", Way::kDriver},
    {"the driver has no", Way::kDriver},
    {"its caps", Way::kDriver},
    {"device", Way::kDevice},
    {"screen", Way::kDevice},
    {"monitor", Way::kDevice},
    {"firmware", Way::kDevice},
    {"segment of", Way::kDevice},
};

/// Worst first. Warnings stand last.
int weight_of(const Fault& fault) {
  return static_cast<int>(Severity::kBugCheck) - static_cast<int>(fault.finding.severity);
}

Gap gap_of(const StepResult& step) {
  return {.way = way_past(step.outcome.text),
          .is_step = true,
          .name = step.name,
          .why = step.outcome.text};
}

constexpr std::string_view kNotSo = "not so: ", kNoEntry = "the driver has no DxgkDdi";

/// @param whole  every step had its turn
Gap gap_of(const verifier::SituationCount& one, bool ran, bool whole) {
  Gap gap{.way = Way::kRuns, .is_step = false, .name = std::string(one.info->id), .why = {}};
  if (one.why_not.empty()) {
    if (!ran || !whole) gap.way = Way::kMending;
    return gap;
  }
  gap.why = one.why_not.starts_with(kNotSo) ? one.why_not.substr(kNotSo.size()) : one.why_not;
  gap.way = !ran                                                         ? Way::kMending
            : gap.why == text_of(verifier::SituationFact::kPlugIn)       ? Way::kPlugIn
            : gap.why == text_of(verifier::SituationFact::kDeviceFaults) ? Way::kDevice
                                                                         : Way::kDriver;
  return gap;
}

/// "1 bug check", "2 violations"; nothing for none.
std::string count_text(const Summary& summary, bool known) {
  std::string out;
  const auto add = [&](size_t count, std::string_view one) {
    if (count != 0) out += (out.empty() ? "" : ", ") + counted(count, one);
  };
  add(summary.count(Severity::kBugCheck, known), "bug check");
  add(summary.count(Severity::kStartFail, known), "failed start");
  add(summary.count(Severity::kViolation, known), "violation");
  const auto failed = std::ranges::count_if(
      summary.failed, [&](const FailedStep& step) { return step.known == known; });
  add(static_cast<size_t>(failed), "failed step");
  return out;
}

}  // namespace

std::string_view name_of(Way way) {
  switch (way) {
    case Way::kPlugIn:
      return "plug-in";
    case Way::kDevice:
      return "device";
    case Way::kSimulation:
      return "simulation";
    case Way::kMending:
      return "mending";
    case Way::kRuns:
      return "runs";
    case Way::kDriver:
      return "driver";
  }
  return "";
}

Way way_past(std::string_view reason) {
  for (const Hint& hint : kHints) {
    if (reason.find(hint.words) != std::string_view::npos) return hint.way;
  }
  return Way::kDriver;
}

size_t Summary::count(Severity severity, bool known) const {
  return static_cast<size_t>(std::ranges::count_if(faults, [&](const Fault& fault) {
    return fault.finding.severity == severity && fault.known == known;
  }));
}

Summary summarize(VerifyReport report, DriverFacts facts, bool has_plug_in, const Baseline* known,
                  const std::optional<std::string>& file) {
  Summary summary;
  summary.facts = std::move(facts);
  summary.has_plug_in = has_plug_in;
  summary.baseline = file;
  bool ran = false;
  for (const StepResult& step : report.steps) {
    switch (step.outcome.kind) {
      case Outcome::Kind::kOk:
        summary.works.push_back(step);
        ran = ran || step.name == "start";
        break;
      case Outcome::Kind::kSkipped:
        summary.gaps.push_back(gap_of(step));
        break;
      case Outcome::Kind::kFailed:
        summary.failed.push_back({.name = step.name,
                                  .text = step.outcome.text,
                                  .known = known != nullptr && known->has(mark_of(step))});
        break;
    }
  }
  for (const Finding& finding : report.findings) {
    if (!finding.because_of.empty()) {
      ++summary.consequences;
    } else if (!finding.waived.empty()) {
      ++summary.waived;
    } else {
      summary.faults.push_back(
          {.finding = finding, .known = known != nullptr && known->has(mark_of(finding))});
    }
  }
  std::ranges::stable_sort(summary.faults, [](const Fault& a, const Fault& b) {
    return std::pair(weight_of(a), a.known) < std::pair(weight_of(b), b.known);
  });
  for (const verifier::SituationCount& one : report.situations.counts) {
    if (one.count == 0) summary.gaps.push_back(gap_of(one, ran, report.ended && !report.left_out));
  }
  if (known != nullptr) summary.not_seen = known->without(Baseline::of(report));
  summary.exit_code = verify::exit_code(known == nullptr ? report : only_new(report, *known));
  summary.report = std::move(report);
  return summary;
}

std::string place_of(const Finding& finding) {
  const verifier::Place& place = finding.place;
  if (place.image.empty()) return {};
  const std::vector<verifier::SourceFrame> source = verifier::source_of(place);
  if (!source.empty()) return verifier::to_text(source[0]);
  return place.symbol.empty() ? fmt::format("{}+{:#x}", place.image, place.rva) : place.symbol;
}

std::string subject_of(const DriverFacts& facts) {
  const nlohmann::ordered_json& d = facts.diagnosis;
  if (d.is_null()) return facts.missing;
  size_t filled = 0, missing_entries = 0, absent = 0;
  for (const auto& entry : d.at("ddis")) {
    filled += entry.at("state") == "filled" ? 1 : 0;
    missing_entries += entry.at("state") == "missing" ? 1 : 0;
  }
  for (const auto& import : d.at("imports")) {
    const auto& support = import.at("support");
    absent += support == "missing" || support == "refused" ? 1 : 0;
  }
  const std::string version = d.at("interface_version_name");
  return fmt::format("{}, {}{}, {} filled, {} missing; {} not supported here",
                     d.at("image").at("machine").get<std::string>(),
                     d.at("kind").get<std::string>(), version.empty() ? "" : " " + version,
                     counted(filled, "entry", "entries"), missing_entries,
                     counted(absent, "import"));
}

std::string heading_of(Way way, const Summary& summary) {
  switch (way) {
    case Way::kPlugIn:
      return summary.has_plug_in
                 ? "with more in the client plug-in"
                 : "with a client plug-in (--client; `dxgkit new-client mine` writes a skeleton)";
    case Way::kDevice:
      return "with another device, or a model that does more (--device; `dxgkit devices` lists "
             "them)";
    case Way::kSimulation:
      return "in simulation (--mode sim)";
    case Way::kMending:
      return "when what is wrong is mended";
    case Way::kRuns:
      return summary.faults.empty() && summary.failed.empty()
                 ? "perhaps with other seeds (--thorough); no exercise reached it in this run"
                 : "when what is wrong is mended, or with other seeds (--thorough)";
    case Way::kDriver:
      return "by a driver that has what this one lacks";
  }
  return "";
}

std::string verdict_of(const Summary& summary) {
  const std::string fresh = count_text(summary, false), old = count_text(summary, true);
  std::string text;
  if (!summary.report.interrupted.empty()) {
    text = fmt::format("interrupted {}: ", summary.report.interrupted);
  } else if (summary.exit_code == kExitDone) {
    text = summary.baseline.has_value() ? "nothing new: " : "clean: ";
  } else if (summary.exit_code == verify::kExitBugCheck) {
    text = "Windows would have stopped: ";
  } else if (summary.exit_code == verify::kExitHang) {
    text = "the driver did not come back: ";
  } else {
    text = "not clean: ";
  }
  text += counted(summary.works.size(), "step") + " done";
  if (!fresh.empty()) text += (summary.baseline.has_value() ? "; new: " : "; ") + fresh;
  if (!old.empty()) text += "; known: " + old;
  const size_t warnings = summary.count(Severity::kWarning, false);
  if (warnings != 0) text += "; " + counted(warnings, "warning");
  if (summary.waived != 0) text += fmt::format("; {} waived", summary.waived);
  if (summary.consequences != 0) text += "; " + counted(summary.consequences, "consequence");
  return text;
}

std::string to_json_text(const Summary& summary) {
  using nlohmann::ordered_json;
  ordered_json out;
  out["driver"] = summary.report.driver;
  out["command"] = summary.report.command;
  out["exit_code"] = summary.exit_code;
  out["verdict"] = verdict_of(summary);
  out["works"] = ordered_json::array();
  for (const StepResult& step : summary.works)
    out["works"].push_back({{"step", step.name}, {"text", step.outcome.text}});
  out["wrong"] = ordered_json::array();
  for (const Fault& fault : summary.faults) {
    ordered_json one = ordered_json::parse(verifier::to_json(fault.finding), nullptr, false);
    one["known"] = fault.known;
    one["where"] = place_of(fault.finding);
    out["wrong"].push_back(std::move(one));
  }
  out["failed_steps"] = ordered_json::array();
  for (const FailedStep& step : summary.failed)
    out["failed_steps"].push_back(
        {{"step", step.name}, {"text", step.text}, {"known", step.known}});
  out["consequences"] = summary.consequences;
  out["waived"] = summary.waived;
  out["not_reached"] = ordered_json::array();
  for (const Way way : kWays) {
    ordered_json one{{"way", name_of(way)}, {"what", heading_of(way, summary)}};
    ordered_json steps = ordered_json::object(), situations = ordered_json::object();
    for (const Gap& gap : summary.gaps) {
      if (gap.way == way) (gap.is_step ? steps : situations)[gap.name] = gap.why;
    }
    if (steps.empty() && situations.empty()) continue;
    one["steps"] = std::move(steps);
    one["situations"] = std::move(situations);
    out["not_reached"].push_back(std::move(one));
  }
  out["never_called"] = summary.report.never_called;
  if (summary.baseline.has_value()) {
    ordered_json gone = ordered_json::array();
    for (const Mark& mark : summary.not_seen) gone.push_back(to_text(mark));
    out["baseline"] = {{"file", *summary.baseline}, {"not_seen", std::move(gone)}};
  }
  out["diagnosis"] = summary.facts.diagnosis;
  out["verify"] = ordered_json::parse(verify::to_json_text(summary.report), nullptr, false);
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_sarif_text(const Summary& summary) {
  using nlohmann::ordered_json;
  ordered_json log = ordered_json::parse(verify::to_sarif_text(summary.report), nullptr, false);
  ordered_json& results = log.at("runs").at(0).at("results");
  // Every finding has a result, in the same order.
  for (size_t i = 0; i < std::min(results.size(), summary.report.findings.size()); ++i) {
    const Finding& finding = summary.report.findings[i];
    const Mark mark = mark_of(finding);
    results[i]["partialFingerprints"] = {
        {"dxgkitFinding/v1",
         fmt::format("{} {} {} {}", mark.rule, mark.place, mark.function, mark.what)}};
    if (!summary.baseline.has_value() || !verifier::is_mistake(finding)) continue;
    const bool known = std::ranges::any_of(summary.faults, [&](const Fault& fault) {
      return fault.known && mark_of(fault.finding) == mark;
    });
    results[i]["baselineState"] = known ? "unchanged" : "new";
    // A code host shows results that are suppressed apart from those to act on.
    if (known) {
      results[i]["suppressions"].push_back({{"kind", "external"},
                                            {"status", "accepted"},
                                            {"justification", "known to " + *summary.baseline}});
    }
  }
  return log.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_text(const Summary& summary) {
  std::string out = fmt::format("{}: {}\n{}\n", summary.report.driver, subject_of(summary.facts),
                                summary.report.command);

  out += fmt::format("\nworks: {}\n", counted(summary.works.size(), "step"));
  for (const StepResult& step : summary.works) {
    const std::string& text = step.outcome.text.empty() ? step.title : step.outcome.text;
    out += fmt::format("  {:<20}{}\n", step.name, text);
  }

  out += fmt::format("\nwrong: {}\n", counted(summary.faults.size(), "finding"));
  std::string_view severity;
  for (const Fault& fault : summary.faults) {
    const Finding& finding = fault.finding;
    if (severity != verifier::severity_text(finding.severity)) {
      severity = verifier::severity_text(finding.severity);
      out += fmt::format("  {}\n", severity);
    }
    const std::string place = place_of(finding);
    const std::string_view state = !summary.baseline.has_value() || !verifier::is_mistake(finding)
                                       ? ""
                                   : fault.known ? "  known"
                                                 : "  NEW";
    out += fmt::format("    {} in {}{}{}\n", finding.rule, finding.ddi,
                       place.empty() ? "" : ", " + place, state);
    out += fmt::format("      {}\n", finding.actual);
    if (!finding.fix.empty() && !fault.known) out += fmt::format("      fix: {}\n", finding.fix);
  }
  for (const FailedStep& step : summary.failed)
    out +=
        fmt::format("  step {} failed: {}{}\n", step.name, step.text, step.known ? "  known" : "");
  if (summary.report.left_out)
    out += "  the steps behind that one are left out: the same mistake would end them, too\n";
  if (!summary.report.waivers.empty()) out += waivers_text(summary.report.waivers);

  out += "\nnot reached\n";
  for (const Way way : kWays) {
    std::string steps;
    std::map<std::string, size_t> reasons;  // of situations
    size_t situations = 0;
    for (const Gap& gap : summary.gaps) {
      if (gap.way != way) continue;
      if (gap.is_step) {
        steps += way == Way::kPlugIn && !summary.has_plug_in
                     ? (steps.empty() ? "    steps " : ", ") + gap.name
                     : fmt::format("{}    {:<20}{}", steps.empty() ? "" : "\n", gap.name, gap.why);
      } else {
        ++situations;
        ++reasons[gap.why];
      }
    }
    if (steps.empty() && situations == 0) continue;
    out += fmt::format("  {}\n", heading_of(way, summary));
    if (!steps.empty()) out += steps + "\n";
    if (way == Way::kDriver) {
      size_t entries = 0, of_entries = 0;
      for (const auto& [reason, count] : reasons) {
        if (reason.starts_with(kNoEntry)) {
          ++entries;
          of_entries += count;
        } else {
          out += fmt::format("    {:<20}{}\n", counted(count, "situation"), reason);
        }
      }
      if (entries != 0)
        out += fmt::format("    {:<20}it has the entry: {} that it may do without\n",
                           counted(of_entries, "situation"), counted(entries, "entry", "entries"));
    } else if (way == Way::kRuns && summary.report.situations.reached() != 0) {
      for (const Gap& gap : summary.gaps) {
        if (gap.way == way && !gap.is_step) out += fmt::format("    {}\n", gap.name);
      }
    } else if (situations != 0) {
      out += fmt::format("    {}\n", counted(situations, "situation"));
    }
  }
  if (!summary.report.never_called.empty()) {
    out += "  entries of the driver that were never called\n";
    for (const std::string& entry : summary.report.never_called)
      out += fmt::format("    {}\n", entry);
  }
  if (!summary.not_seen.empty()) {
    out += fmt::format("\n{} of {} did not come up; write it anew if they are mended\n",
                       counted(summary.not_seen.size(), "finding"), *summary.baseline);
    for (const Mark& mark : summary.not_seen) out += fmt::format("  {}\n", to_text(mark));
  }
  if (!summary.faults.empty())
    out += fmt::format("\n`dxgkit explain {}` says why a rule is there and how to keep it\n",
                       summary.faults[0].finding.rule);
  return out + "\n" + verdict_of(summary) + "\n";
}

}  // namespace dxgkit::tool::check
