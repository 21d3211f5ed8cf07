#include "verifier/findings.h"

#include <gtest/gtest.h>

#include "runtime/runtime.h"

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
