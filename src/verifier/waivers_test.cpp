// Waivers come from a file beside the driver, which may hold anything.
#include "verifier/waivers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "verifier/findings.h"

namespace dxgkit::verifier {
namespace {

std::string error_of(std::string_view text) {
  Waivers waivers;
  const auto added = waivers.add_file(text);
  return added ? "" : added.error();
}

TEST(Waivers, AreReadLineByLine) {
  Waivers waivers;
  ASSERT_TRUE(waivers.add_file("# comment\r\n\n PATCH-31 \t=  a = b \r\nPAGE-05=c"));
  ASSERT_EQ(waivers.all().size(), 2U);
  EXPECT_EQ(waivers.all()[0].rule, "PATCH-31");
  EXPECT_EQ(waivers.all()[0].reason, "a = b");
  EXPECT_EQ(waivers.all()[1].reason, "c");
}

TEST(Waivers, RefuseWhatSaysNothing) {
  EXPECT_EQ(error_of("\nPATCH-31\n"), "line 2: PATCH-31: a waiver takes a reason: PATCH-31=REASON");
  EXPECT_EQ(error_of("PATCH-31 = "), "line 1: PATCH-31: a waiver takes a reason: PATCH-31=REASON");
  EXPECT_EQ(error_of("PATCH-3l=x"), "line 1: there is no rule 'PATCH-3l'; did you mean PATCH-30?");
  EXPECT_EQ(error_of("=x"), "line 1: there is no rule ''; `dxgkit rules` lists them");
  EXPECT_EQ(error_of("\x1b[2J\xFF=x"),
            "line 1: there is no rule '?[2J?'; `dxgkit rules` lists them");
  EXPECT_EQ(error_of("PATCH-31=a\x1b[2J"), "line 1: PATCH-31: its reason has a control character");
  EXPECT_EQ(error_of(std::string_view("PATCH-31=a\0b", 12)),
            "line 1: PATCH-31: its reason has a control character");
  EXPECT_EQ(error_of("PATCH-31=" + std::string(501, 'x')),
            "line 1: PATCH-31: its reason has more than 500 bytes");
  EXPECT_EQ(error_of("PATCH-31=" + std::string(500, 'x')), "");
  EXPECT_EQ(error_of("PATCH-31=a\n\nPATCH-31=b"), "line 3: PATCH-31 is waived twice");
  EXPECT_EQ(error_of(std::string(Waivers::kFileBytesMost + 1, '\n')),
            fmt::format("more than {} bytes", Waivers::kFileBytesMost));
  EXPECT_EQ(error_of(std::string(100'000, 'A')).size(),
            error_of(std::string(40, 'A')).size());  // a long name is cut
}

TEST(Waivers, AreUsedByFindings) {
  runtime::make_os_runtime(1)->run_main([] {
    Waivers waivers;
    ASSERT_TRUE(waivers.add("PATCH-31=on purpose"));
    ASSERT_TRUE(waivers.add("PAGE-05=never seen"));
    Findings findings;
    findings.set_waivers(&waivers);
    findings.report({.rule = "PATCH-31",
                     .ddi = "DxgkDdiPatch",
                     .actual = "It failed.",
                     .expected = "It succeeds.",
                     .fix = "Mend it."});
    findings.report({.rule = "SEG-04",
                     .ddi = "DxgkDdiPatch",
                     .actual = "It failed.",
                     .expected = "It succeeds.",
                     .fix = "Mend it."});
    const Finding waived = findings.all()[0], other = findings.all()[1];
    EXPECT_EQ(waived.waived, "on purpose");
    EXPECT_FALSE(is_mistake(waived));
    EXPECT_TRUE(breaks_rule(waived));
    EXPECT_TRUE(is_mistake(other));
    EXPECT_NE(to_text(waived).find("PATCH-31: violation in DxgkDdiPatch, waived\n"
                                   "  waived:   on purpose\n"),
              std::string::npos)
        << to_text(waived);
    EXPECT_NE(to_json(waived).find(R"("waived":"on purpose")"), std::string::npos);
    EXPECT_EQ(to_json(other).find("waived"), std::string::npos);
    EXPECT_EQ(waivers.uses(0), 1U);
    EXPECT_EQ(waivers.uses(1), 0U);
  });
}

// The process that runs the driver is another one than that which prints the waivers.
TEST(Waivers, CountUsesOfProcessesTogether) {
  Waivers waivers;
  ASSERT_TRUE(waivers.add("PATCH-31=on purpose"));
  const Waivers copy = waivers;
  const pid_t child = fork();
  if (child == 0) {
    static_cast<void>(copy.use("PATCH-31"));
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(waivers.uses(0), 1U);
}

}  // namespace
}  // namespace dxgkit::verifier
