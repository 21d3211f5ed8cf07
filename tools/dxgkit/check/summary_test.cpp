// The summary of a check: what is counted where, and that no text of a driver gets out of its
// place.
#include "tools/dxgkit/check/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace dxgkit::tool::check {
namespace {

using testing::HasSubstr;
using testing::Not;
using verifier::Finding;
using verifier::Severity;
using verify::Outcome;
using verify::StepResult;
using verify::VerifyReport;

Finding finding(std::string rule, Severity severity, std::string actual) {
  Finding one;
  one.rule = std::move(rule);
  one.severity = severity;
  one.ddi = "DxgkDdiPatch";
  one.actual = std::move(actual);
  one.expected = "Something else.";
  one.fix = "Mend it.";
  return one;
}

StepResult step(std::string name, Outcome outcome) {
  StepResult one;
  one.name = std::move(name);
  one.title = "a title";
  one.outcome = std::move(outcome);
  return one;
}

VerifyReport mixed() {
  VerifyReport report;
  report.driver = "a.sys";
  report.command = "dxgkit verify a.sys";
  report.findings = {finding("PATCH-27", Severity::kWarning, "A warning."),
                     finding("PATCH-08", Severity::kViolation, "Known."),
                     finding("PATCH-32", Severity::kViolation, "A violation."),
                     finding("PATCH-31", Severity::kBugCheck, "A stop."),
                     finding("PATCH-13", Severity::kViolation, "A consequence."),
                     finding("PATCH-09", Severity::kViolation, "On purpose.")};
  report.findings[4].because_of = "PATCH-31";
  report.findings[5].waived = "reason";
  report.steps = {step("start", Outcome::ok("it runs")),
                  step("queries", Outcome::ok()),
                  step("render", Outcome::failed("it is wrong")),
                  step("jobs", Outcome::skipped("it takes --client: only the driver knows")),
                  step("hangs", Outcome::skipped("the device cannot be made to fail")),
                  step("planes", Outcome::skipped("its caps have no overlay planes"))};
  verifier::SituationLog log;
  log.add_entry("DxgkDdiPatch");
  log.add(verifier::SituationFact::kPatch);
  report.situations = verifier::SituationReport(log);
  report.never_called = {"DxgkDdiEscape"};
  return report;
}

Baseline known_of(const Finding& known) {
  VerifyReport report;
  report.findings = {known};
  return Baseline::of(report);
}

TEST(Summary, WorstFirstAndNewBeforeKnown) {
  const Baseline known = known_of(mixed().findings[1]);
  const Summary summary = summarize(mixed(), {}, false, &known, "known.json");
  std::vector<std::string> order;
  for (const Fault& fault : summary.faults)
    order.push_back(fault.finding.rule + (fault.known ? " known" : ""));
  EXPECT_THAT(order, testing::ElementsAre("PATCH-31", "PATCH-32", "PATCH-08 known", "PATCH-27"));
  EXPECT_EQ(summary.consequences, 1U);
  EXPECT_EQ(summary.waived, 1U);
  EXPECT_EQ(summary.exit_code, verify::kExitBugCheck);
  EXPECT_EQ(verdict_of(summary),
            "Windows would have stopped: 2 steps done; new: 1 bug check, 1 violation, 1 failed "
            "step; known: 1 violation; 1 warning; 1 waived; 1 consequence");
  const std::string text = to_text(summary);
  EXPECT_THAT(text, HasSubstr("    PATCH-08 in DxgkDdiPatch  known\n      Known.\n  warning\n"));
  EXPECT_THAT(text, HasSubstr("    PATCH-31 in DxgkDdiPatch  NEW\n      A stop.\n      fix: Mend"));
  EXPECT_THAT(text, HasSubstr("  step render failed: it is wrong\n"));
  EXPECT_THAT(text, HasSubstr("  queries             a title\n"));
}

TEST(Summary, EachGapHasItsWay) {
  const Summary summary = summarize(mixed(), {}, false, nullptr, std::nullopt);
  std::map<std::string, Way> ways;
  for (const Gap& gap : summary.gaps) ways.emplace(gap.name, gap.way);
  EXPECT_EQ(ways.at("jobs"), Way::kPlugIn);
  EXPECT_EQ(ways.at("hangs"), Way::kDevice);
  EXPECT_EQ(ways.at("planes"), Way::kDriver);
  EXPECT_EQ(ways.at("patch.part-behind-start"), Way::kPlugIn);
  EXPECT_EQ(ways.at("patch.paging"), Way::kRuns);
  EXPECT_EQ(ways.at("patch.private-behind-start"), Way::kDriver);
  EXPECT_EQ(ways.at("submit.paging"), Way::kDriver) << "the driver has no such entry";
  const std::string text = to_text(summary);
  EXPECT_THAT(text,
              HasSubstr("  with a client plug-in (--client; `dxgkit new-client mine` writes a "
                        "skeleton)\n    steps jobs\n"));
  EXPECT_THAT(text, HasSubstr("    hangs               the device cannot be made to fail\n"));
  EXPECT_THAT(text,
              HasSubstr("  entries of the driver that were never called\n    DxgkDdiEscape\n"));
  EXPECT_THAT(text, Not(HasSubstr("known")));
  const auto json = nlohmann::json::parse(to_json_text(summary));
  EXPECT_EQ(json.at("exit_code"), 3);
  EXPECT_EQ(json.at("not_reached").at(0).at("way"), "plug-in");
  EXPECT_TRUE(json.at("not_reached").at(0).at("steps").contains("jobs"));
}

TEST(Summary, WhatEndedTheRunComesBeforeEverythingElse) {
  VerifyReport report = mixed();
  report.steps = {step("start", Outcome::failed("it does not start")),
                  step("jobs", Outcome::skipped("the adapter is not running"))};
  const Summary summary = summarize(report, {}, false, nullptr, std::nullopt);
  for (const Gap& gap : summary.gaps) EXPECT_EQ(gap.way, Way::kMending) << gap.name;
}

TEST(Summary, ReasonsHaveWays) {
  EXPECT_EQ(way_past("the client plug-in has no record_overreach"), Way::kPlugIn);
  EXPECT_EQ(way_past("it takes --mode sim: most of it is waiting"), Way::kSimulation);
  EXPECT_EQ(way_past("every timeout would take 4 s; with --mode sim time costs nothing"),
            Way::kSimulation);
  EXPECT_EQ(way_past("nothing is shown: no monitor is connected"), Way::kDevice);
  EXPECT_EQ(way_past("a display-only adapter has neither memory nor engines"), Way::kDriver);
  EXPECT_EQ(way_past("PAGE-05, which is waived, ended it: the adapter failed"), Way::kMending);
  EXPECT_EQ(way_past("it has no GPU virtual addresses"), Way::kDriver);
}

TEST(Summary, KnownFindingsLeaveNothingNew) {
  const Baseline known = Baseline::of(mixed());
  Summary summary = summarize(mixed(), {}, false, &known, "known.json");
  EXPECT_EQ(summary.exit_code, kExitDone);
  EXPECT_THAT(verdict_of(summary),
              testing::StartsWith("nothing new: 2 steps done; known: 1 bug check, 2 violations, 1 "
                                  "failed step; 1 warning"));
  EXPECT_TRUE(summary.not_seen.empty());
  VerifyReport mended = mixed();
  mended.findings.erase(mended.findings.begin() + 3);
  summary = summarize(mended, {}, false, &known, "known.json");
  ASSERT_EQ(summary.not_seen.size(), 1U);
  EXPECT_EQ(summary.not_seen[0].rule, "PATCH-31");
  EXPECT_THAT(to_text(summary), HasSubstr("1 finding of known.json did not come up"));
}

TEST(Summary, SarifSaysWhatIsNew) {
  const Baseline known = known_of(mixed().findings[1]);
  const auto results = [&](const Baseline* baseline) {
    const Summary summary =
        summarize(mixed(), {}, false, baseline,
                  baseline == nullptr ? std::nullopt : std::optional<std::string>("known.json"));
    return nlohmann::json::parse(to_sarif_text(summary)).at("runs").at(0).at("results");
  };
  const nlohmann::json with = results(&known);
  std::map<std::string, std::string> states;
  for (const auto& result : with) states[result.at("ruleId")] = result.value("baselineState", "");
  EXPECT_EQ(states, (std::map<std::string, std::string>{{"PATCH-27", ""},
                                                        {"PATCH-08", "unchanged"},
                                                        {"PATCH-32", "new"},
                                                        {"PATCH-31", "new"},
                                                        {"PATCH-13", ""},
                                                        {"PATCH-09", ""}}));
  EXPECT_EQ(with.at(1).at("suppressions").at(0).at("justification"), "known to known.json");
  EXPECT_FALSE(with.at(2).contains("suppressions"));
  EXPECT_EQ(with.at(2).at("partialFingerprints").at("dxgkitFinding/v1"),
            "PATCH-32 DxgkDdiPatch  A violation.");
  for (const auto& result : results(nullptr)) EXPECT_FALSE(result.contains("baselineState"));
}

TEST(Summary, NoTextGetsOutOfItsPlaceOnThePage) {
  VerifyReport report = mixed();
  report.driver = "<script>alert(1)</script>\"'&.sys";
  report.findings[3].actual = "</pre><script>\x01\xff";
  report.steps[0].outcome.text = "<img src=x onerror=alert(1)>";
  report.never_called = {"<b>"};
  const std::string page = to_html(summarize(report, {}, false, nullptr, std::nullopt));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("&lt;/pre&gt;&lt;script&gt;??"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;.sys"));
  EXPECT_THAT(page, HasSubstr("<h2 id=\"not-reached\">Not reached</h2>"));
}

}  // namespace
}  // namespace dxgkit::tool::check
