#include "verifier/findings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/runtime.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {
namespace {

Finding sample() {
  return {.rule = "PATCH-31",
          .severity = Severity::kBugCheck,
          .ddi = "DxgkDdiPatch",
          .actual = "It returned \"0xC000000D\".",
          .expected = "STATUS_SUCCESS.",
          .fix = "Validate earlier.",
          .bugcheck_code = 0x119,
          .bugcheck_parameter = 3};
}

template <typename Body>
void in_runtime(const Body& body) {
  runtime::make_os_runtime(1)->run_main(body);
}

/// Repeats are counted and told once; another wording is another finding.
TEST(Findings, CountRepeats) {
  in_runtime([] {
    Findings findings;
    std::vector<std::string> heard;
    findings.set_listener([&](const Finding& finding) { heard.push_back(finding.actual); });
    findings.report(sample());
    findings.report(sample());
    Finding other = sample();
    other.actual = "It returned 1.";
    findings.report(other);
    EXPECT_EQ(findings.total(), 3u);
    EXPECT_EQ(findings.count("PATCH-31"), 3u);
    EXPECT_EQ(findings.count("PATCH-3"), 0u);
    ASSERT_EQ(findings.all().size(), 2u);
    EXPECT_EQ(heard, (std::vector<std::string>{sample().actual, "It returned 1."}));
  });
}

/// A machine that a bug check or a lasting mistake dooms tells nothing new; the next one does.
TEST(Findings, WhatFollowsADoomedMachineIsItsConsequence) {
  in_runtime([] {
    for (const bool bug_check : {false, true}) {
      Findings findings;
      Finding cause = sample();
      cause.severity = bug_check ? Severity::kBugCheck : Severity::kViolation;
      cause.dooms = !bug_check;
      Finding other = sample();
      other.rule = "SEG-04";
      other.severity = Severity::kStartFail;
      findings.report(cause);
      EXPECT_EQ(findings.doomed_by(), "PATCH-31");
      findings.report(other);
      findings.report(cause);  // the mistake again: told already
      ASSERT_EQ(findings.all().size(), 2u);
      EXPECT_TRUE(is_mistake(findings.all()[0]));
      EXPECT_FALSE(is_mistake(findings.all()[1]));
      EXPECT_TRUE(to_text(findings.all()[1])
                      .starts_with("SEG-04: note in DxgkDdiPatch, because of PATCH-31\n"));
      EXPECT_NE(to_json(findings.all()[1]).find(R"("because_of":"PATCH-31")"), std::string::npos);
      findings.begin_machine();
      EXPECT_EQ(findings.doomed_by(), "");
      findings.report(other);  // now it is a mistake of its own
      ASSERT_EQ(findings.all().size(), 3u);
      EXPECT_TRUE(is_mistake(findings.all()[2]));
    }
  });
}

/// After a violation the machine goes on, and the next finding accuses.
TEST(Findings, AnOrdinaryViolationExplainsNothing) {
  in_runtime([] {
    Findings findings;
    Finding finding = sample();
    finding.severity = Severity::kViolation;
    findings.report(finding);
    finding.rule = "SEG-04";
    findings.report(finding);
    EXPECT_TRUE(is_mistake(findings.all().at(1)));
  });
}

/// Paging that loses content spoils every comparison behind it, on later machines too.
TEST(Findings, LostContentExplainsWrongResults) {
  in_runtime([] {
    Findings findings;
    Finding finding = sample();
    finding.severity = Severity::kViolation;
    for (const char* rule : {"SUB-22", "PAGE-50", "PAGE-51", "SUB-22", "PATCH-31"}) {
      findings.begin_machine();
      finding.rule = rule;
      finding.actual += " Again.";
      findings.report(finding);
    }
    const std::vector<Finding> all = findings.all();
    ASSERT_EQ(all.size(), 5u);
    EXPECT_EQ(all[0].because_of, "");
    EXPECT_EQ(all[1].because_of, "");
    EXPECT_EQ(all[2].because_of, "PAGE-50");
    EXPECT_EQ(all[3].because_of, "PAGE-50");
    EXPECT_EQ(all[4].because_of, "");
  });
}

/// A finding without an instruction has the function of the driver's table as its place.
TEST(Findings, NameTheEntryOfTheDdi) {
  in_runtime([] {
    Findings findings;
    findings.set_entry_places([](std::string_view ddi) {
      return Place{
          .image = std::string(ddi) + ".sys", .rva = 0x40, .symbol = "F+0x0", .entry = true};
    });
    findings.report(sample());
    Finding query = sample();
    query.ddi = "DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)";
    findings.report(query);
    Finding placed = sample();
    placed.rule = "NT-01";
    placed.place.image = "mine.sys";
    findings.report(placed);
    EXPECT_EQ(findings.all().at(0).place.image, "DxgkDdiPatch.sys");
    EXPECT_EQ(findings.all().at(1).place.image, "DxgkDdiQueryAdapterInfo.sys");
    EXPECT_EQ(findings.all().at(2).place.image, "mine.sys");
    EXPECT_NE(to_text(findings.all()[0]).find("  in:       DxgkDdiPatch.sys+0x40 F+0x0\n"),
              std::string::npos);
    findings.set_entry_places(nullptr);
    placed.rule = "NT-02";
    placed.place = {};
    findings.report(placed);
    EXPECT_EQ(findings.all().at(3).place.image, "");
  });
}

/// A bug check stops the adapter: it is told, also if what it says was a lesser thing before.
TEST(Findings, TellABugCheckAlthoughItsWordsWereAViolation) {
  in_runtime([] {
    Findings findings;
    Finding finding = sample();
    finding.severity = Severity::kViolation;
    findings.report(finding);
    finding.severity = Severity::kBugCheck;
    findings.report(finding);
    findings.report(finding);
    ASSERT_EQ(findings.all().size(), 2u);
    EXPECT_EQ(findings.all().back().severity, Severity::kBugCheck);
    EXPECT_EQ(findings.total(), 3u);
  });
}

/// What no page says is not printed as documented, whatever the report claims.
TEST(Findings, AreNoSurerThanTheirRules) {
  size_t of_pages = 0, ours = 0, in_part = 0;
  for (const Rule& rule : all_rules()) {
    Finding finding = sample();
    finding.rule = rule.id;
    const std::string_view said = confidence_text(finding);
    if (!rule.documented) {
      EXPECT_EQ(said, "inferred") << rule.id;
      ++ours;
    } else if (rule.our_choice) {
      EXPECT_EQ(said, "documented in part") << rule.id;
      ++in_part;
    } else {
      EXPECT_EQ(said, "documented") << rule.id;
      ++of_pages;
    }
    EXPECT_TRUE(to_text(finding).contains(fmt::format("  sure:     {}\n", said))) << rule.id;
    EXPECT_TRUE(to_json(finding).contains(fmt::format(R"("confidence":"{}")", said))) << rule.id;
    finding.confidence = Confidence::kMeasured;
    EXPECT_EQ(confidence_text(finding), "measured");
  }
  EXPECT_GT(of_pages, 400U);
  EXPECT_GT(in_part, 150U);
  EXPECT_GT(ours, 10U);
  for (const char* id : {"LIFE-11", "TDR-28", "THUNK-08", "CAPS-10"})
    EXPECT_FALSE(find_rule(id)->documented) << id;
  for (const char* id : {"PATCH-31", "CAPS-01", "LIFE-18"})
    EXPECT_TRUE(find_rule(id)->documented) << id;
}

/// The text says what, where, why and what Windows would do; the JSON holds the same, escaped.
TEST(Findings, ExplainThemselves) {
  const std::string text = to_text(sample());
  for (const char* part : {"PATCH-31: bug-check in DxgkDdiPatch",
                           "actual:", "expected:", "rule:", "source:", "fix:", "Validate earlier.",
                           "bug check 0x119, parameter 0x3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const std::string json = to_json(sample());
  EXPECT_NE(json.find(R"("rule":"PATCH-31")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("actual":"It returned \"0xC000000D\".")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("bugcheck_code":281)"), std::string::npos) << json;
  Finding control = sample();
  control.actual = "a\nb";
  EXPECT_NE(to_json(control).find(R"(a\u000ab)"), std::string::npos);
}

}  // namespace
}  // namespace dxgkit::verifier
