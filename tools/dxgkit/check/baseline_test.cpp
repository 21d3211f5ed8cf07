// What a mistake is known by, and the file of known ones: any bytes may stand in it.
#include "tools/dxgkit/check/baseline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/dxgkit/check/hand_over.h"
#include "tools/dxgkit/finding_json.h"

namespace dxgkit::tool::check {
namespace {

using testing::HasSubstr;
using verifier::Finding;
using verifier::Severity;
using verify::Outcome;
using verify::StepResult;
using verify::VerifyReport;

Finding finding(std::string rule, std::string actual, Severity severity = Severity::kViolation) {
  Finding one;
  one.rule = std::move(rule);
  one.severity = severity;
  one.ddi = "DxgkDdiPatch";
  one.actual = std::move(actual);
  one.expected = "Something else.";
  one.place.image = "nowhere.sys";
  one.place.symbol = "SgpuPatch+0x14";
  return one;
}

StepResult step(std::string name, Outcome outcome) {
  StepResult one;
  one.name = std::move(name);
  one.outcome = std::move(outcome);
  return one;
}

TEST(Mark, HasNoNumberAddressOrSeedInIt) {
  const Finding one = finding("PATCH-08", "Bytes 4 to 0x1f of 2 packets at 0xfffff80012345678.");
  Finding other = finding("PATCH-08",
                          "Bytes 12 to 0x40 of 3 packets at 0xfffff80099999999. That was with seed "
                          "7.");
  other.place.symbol = "SgpuPatch+0x99";
  other.place.rva = 0x1234;
  EXPECT_EQ(mark_of(one).function, "SgpuPatch");
  EXPECT_EQ(mark_of(one).what, "Bytes # to # of # packets at #.");
  EXPECT_EQ(mark_of(one), mark_of(other));
  EXPECT_EQ(mark_of(step("render", Outcome::failed("3 of 8 jobs (seed 2; 1 of 1 run)"))),
            mark_of(step("render", Outcome::failed("4 of 9 jobs"))));
}

TEST(Mark, DiffersInEachOfItsParts) {
  const Mark one{.rule = "A-1", .place = "DxgkDdiPatch", .function = "Patch", .what = "It is."};
  EXPECT_TRUE(one.is(one));
  Mark other = one;
  other.function.clear();
  EXPECT_TRUE(one.is(other)) << "a build without debugging information";
  EXPECT_TRUE(other.is(one));
  other.function = "Render";
  EXPECT_FALSE(one.is(other));
  for (std::string Mark::*member : {&Mark::rule, &Mark::place, &Mark::what}) {
    other = one;
    other.*member = "another";
    EXPECT_FALSE(one.is(other));
  }
}

TEST(Baseline, KnowsMistakesAndFailedStepsAfterItsFileWasRead) {
  VerifyReport report;
  report.findings = {finding("PATCH-08", "One."),
                     finding("PATCH-31", "Two.", Severity::kBugCheck),
                     finding("PATCH-27", "A warning.", Severity::kWarning),
                     finding("PATCH-13", "Because."),
                     finding("PATCH-09", "On purpose."),
                     finding("PATCH-08", "One.")};
  report.findings[3].because_of = "PATCH-31";
  report.findings[4].waived = "reason";
  report.steps = {step("render", Outcome::failed("3 jobs are wrong")),
                  step("paging", Outcome::ok("all"))};
  const auto read = Baseline::parse(Baseline::of(report).to_json_text());
  ASSERT_TRUE(read.has_value()) << read.error();
  std::vector<std::string> texts;
  for (const Mark& mark : read->marks()) texts.push_back(to_text(mark));
  EXPECT_THAT(texts, testing::ElementsAre("step render: # jobs are wrong",
                                          "PATCH-08 in DxgkDdiPatch, SgpuPatch: One.",
                                          "PATCH-31 in DxgkDdiPatch, SgpuPatch: Two."));
  EXPECT_EQ(verify::exit_code(report), verify::kExitBugCheck);
  const VerifyReport rest = only_new(report, *read);
  EXPECT_EQ(verify::exit_code(rest), kExitDone);
  EXPECT_EQ(rest.findings.size(), 3U) << "what does not count stays";
  EXPECT_TRUE(read->without(*read).empty());
  EXPECT_EQ(read->without(Baseline()).size(), 3U);

  report.findings.push_back(finding("PATCH-32", "New."));
  EXPECT_EQ(verify::exit_code(only_new(report, *read)), kExitFailed);
  report.findings.back().severity = Severity::kBugCheck;
  EXPECT_EQ(verify::exit_code(only_new(report, *read)), verify::kExitBugCheck);
  report.findings.pop_back();
  report.steps.push_back(step("power", Outcome::failed("it is new")));
  EXPECT_EQ(verify::exit_code(only_new(report, *read)), kExitFailed);
  report.steps.pop_back();
  report.left_out = true;
  EXPECT_EQ(verify::exit_code(only_new(report, *read)), kExitFailed);
  EXPECT_EQ(verify::exit_code(only_new(report, Baseline::of(report))), kExitDone);
  report.interrupted = "after 1 step";
  EXPECT_EQ(verify::exit_code(only_new(report, Baseline::of(report))), kExitInterrupted);
}

TEST(Baseline, ALineForEachMarkAndNoneWithout) {
  EXPECT_EQ(Baseline().to_json_text(),
            "{\n \"format\": \"dxgkit baseline\",\n \"version\": 1,\n \"findings\": []\n}\n");
  EXPECT_TRUE(Baseline::parse(Baseline().to_json_text()).has_value());
}

TEST(Baseline, RefusesWhatIsNone) {
  const auto error = [](std::string_view text) {
    const auto parsed = Baseline::parse(text);
    return parsed.has_value() ? std::string() : parsed.error();
  };
  constexpr std::string_view kHead = R"({"format":"dxgkit baseline","version":1)";
  const auto with = [&](std::string_view rest) { return std::string(kHead) + std::string(rest); };
  const std::string none = "it is no baseline: `dxgkit check --write-baseline` writes one";
  for (const std::string_view text :
       {"", "{", "[]", "7", "null", "{\"format\":7}", "{\"format\":\"sarif\"}", "\xff\xfe"})
    EXPECT_EQ(error(text), none) << text;
  EXPECT_EQ(error(std::string(200'000, '[')), none) << "nesting costs no stack";
  EXPECT_EQ(error(R"({"format":"dxgkit baseline","version":2,"findings":[]})"),
            "a baseline of another version: write it anew");
  EXPECT_EQ(error(with("}")), "it has no list of findings");
  EXPECT_EQ(error(with(R"(,"findings":{}})")), "it has no list of findings");
  EXPECT_EQ(error(with(R"(,"findings":[7]})")), "finding 1 is no object");
  EXPECT_EQ(error(with(R"(,"findings":[{"place":"a","what":"b"},{"place":"a"}]})")),
            "finding 2 has no place, or no what");
  for (const std::string_view member : {R"("time":"1")", R"("rule":7)", R"("what":null)"})
    EXPECT_THAT(error(with(fmt::format(R"(,"findings":[{{{}}}]}})", member))),
                HasSubstr("that is no rule, place, function or what"));
  EXPECT_THAT(error(std::string(Baseline::kFileBytesMost + 1, ' ')), HasSubstr("more than"));
}

TEST(HandOver, AReportComesBackWhole) {
  VerifyReport report;
  report.driver = "a.sys";
  report.command = "dxgkit verify a.sys";
  report.interface_version = 0x4002;
  report.display_only = report.left_out = true;
  report.ended = report.written = false;
  report.interrupted = "after 3 steps";
  report.never_called = {"DxgkDdiEscape"};
  report.findings = {finding("PATCH-08", "One \xff.")};
  report.steps = {step("render", Outcome::failed("wrong"))};
  report.steps[0].outcome.before = {"DriverEntry"};
  report.steps[0].calls["DxgkDdiPatch"] = 7;
  report.steps[0].findings = report.findings;
  report.steps[0].situations = {verifier::Situation{3}};
  const verifier::SituationLog log;
  report.situations = verifier::SituationReport(log);
  report.situations.counts[3].count = 9;
  const SharedText shared;
  EXPECT_EQ(shared.read(), "");
  ASSERT_TRUE(SharedText::write(shared.fd(), std::string(100'000, 'x')));
  ASSERT_TRUE(SharedText::write(shared.fd(), line_of(to_message(report))));
  const auto back = report_of(shared.read());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(verify::to_json_text(*back), verify::to_json_text(report));
  EXPECT_EQ(line_of(to_message(*back)), line_of(to_message(report)));
  EXPECT_TRUE(back->left_out);
  EXPECT_FALSE(back->written);
  EXPECT_EQ(back->findings[0].place.symbol, "SgpuPatch+0x14");
  EXPECT_EQ(back->steps[0].situations, report.steps[0].situations);
  EXPECT_FALSE(report_of("").has_value());
  EXPECT_FALSE(report_of(R"({"driver":7})").has_value());
}

}  // namespace
}  // namespace dxgkit::tool::check
