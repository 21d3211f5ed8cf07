// SARIF and JUnit as other tools will read them: the text is checked by a Python script that uses
// nothing but the standard library.
#include "verifier/formats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "verifier/json_text.h"

namespace dxgkit::verifier {
namespace {

std::vector<Finding> samples() {
  Finding patch{.rule = "PATCH-31",
                .severity = Severity::kBugCheck,
                .ddi = "DxgkDdiPatch",
                .actual = "It returned \"0xC000000D\" \\ <&>.",
                .expected = "STATUS_SUCCESS.",
                .fix = "Validate earlier.",
                .bugcheck_code = 0x119,
                .bugcheck_parameter = 3};
  Finding placed = patch;
  placed.rule = "NT-01";
  placed.place = {.image = "gpu driver.sys",
                  .rva = 0x1A2C,
                  .symbol = "Patch+0x14",
                  .registers = "rax=0",
                  .stack = {"gpu.sys+0x1a2c Patch+0x14", "gpu.sys+0x10 Main"}};
  Finding consequence = placed;
  consequence.because_of = "PATCH-31";
  Finding warning = patch;
  warning.rule = "NO-SUCH-RULE";
  warning.severity = Severity::kWarning;
  warning.actual = "Bytes \xFF\xC3\x28 and \x01 from a driver.";
  Finding waived = patch;
  waived.waived = "known \"since\" spring";
  return {patch, placed, consequence, warning, waived};
}

ReportedRun sample_run() {
  return {.driver = "build/gpu driver.sys",
          .command = "dxgkit verify 'build/gpu driver.sys'",
          .ended = true,
          .notes = {"Step power failed: it said \"no\"."},
          .remarks = {"The waiver of PAGE-05 is unused."}};
}

/// Runs the script on `text`; the test fails with what it prints.
void expect_accepted(const std::string& kind, const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("dxgkit_formats_{}.{}", getpid(), kind);
  std::ofstream(file, std::ios::binary) << text;
  const std::string command =
      fmt::format("'{}' '{}' {} '{}' 2>&1", PYTHON, CHECK_FORMATS, kind, file.string());
  std::FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  char block[4096];
  while (const size_t count = std::fread(block, 1, sizeof(block), pipe)) said.append(block, count);
  EXPECT_EQ(pclose(pipe), 0) << said;
  std::filesystem::remove(file);
}

TEST(Sarif, SaysWhatTheSchemaWants) {
  expect_accepted("sarif", to_sarif(samples(), sample_run()));
  expect_accepted("sarif", to_sarif({}, sample_run()));
  ReportedRun cut_short = sample_run();
  cut_short.ended = false;
  expect_accepted("sarif", to_sarif(samples(), cut_short));
}

TEST(Sarif, NamesRulePlaceAndLevel) {
  const std::string text = to_sarif(samples(), sample_run());
  EXPECT_NE(text.find(R"("ruleId":"PATCH-31","ruleIndex":0,"level":"error")"), std::string::npos);
  EXPECT_NE(text.find(R"("becauseOf":"PATCH-31")"), std::string::npos);
  EXPECT_NE(text.find(R"("level":"note","message":{"text":"Because of PATCH-31: It returned)"),
            std::string::npos);
  EXPECT_NE(text.find(R"("relativeAddress":6700)"), std::string::npos);
  EXPECT_NE(text.find(R"("level":"warning")"), std::string::npos);
  EXPECT_NE(text.find(R"("fullyQualifiedName":"DxgkDdiPatch","kind":"function")"),
            std::string::npos);
  EXPECT_NE(text.find(R"("suppressions":[{"kind":"external","status":"accepted",)"
                      R"("justification":"known \"since\" spring"}])"),
            std::string::npos);
  // The help of the rule speaks in sentences, not in the rulebook's short words.
  EXPECT_NE(text.find("When it is broken: Windows stops with bug check 0x119 "), std::string::npos);
  EXPECT_EQ(text.find("BC(119"), std::string::npos);
  EXPECT_EQ(text, to_sarif(samples(), sample_run()));
}

TEST(JsonText, IsAlwaysUtf8) {
  EXPECT_EQ(json_string("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json_string("\xC3\xA9"), "\"\xC3\xA9\"");
  constexpr const char* kReplaced = "\"\xEF\xBF\xBD\"";
  for (const char* bad : {"\xFF", "\x80", "\xC3"}) EXPECT_EQ(json_string(bad), kReplaced);
  // Overlong, surrogate, beyond the last code point: each byte is replaced.
  EXPECT_EQ(json_string("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json_string("\xED\xA0\x80").size(), 2u + 3 * 3);
  EXPECT_EQ(json_string("\xF4\x90\x80\x80").size(), 2u + 4 * 3);
}

TEST(Junit, SaysWhatFailedAndWhatWasSkipped) {
  const std::vector<JunitCase> cases{
      {.name = "start", .outcome = JunitCase::Outcome::kPassed, .message = {}, .text = {}},
      {.name = "power",
       .outcome = JunitCase::Outcome::kFailed,
       .message = "it said <no> & \"never\"",
       .text = "PWR-02: violation\n\x01\xFF"},
      {.name = "render",
       .outcome = JunitCase::Outcome::kSkipped,
       .message = "no client",
       .text = {}}};
  const std::string text = to_junit("dxgkit verify gpu.sys", cases);
  expect_accepted("junit", text);
  EXPECT_NE(text.find("tests=\"3\" failures=\"1\" skipped=\"1\""), std::string::npos);
  EXPECT_NE(text.find("it said &lt;no&gt; &amp; &quot;never&quot;"), std::string::npos);
}

}  // namespace
}  // namespace dxgkit::verifier
