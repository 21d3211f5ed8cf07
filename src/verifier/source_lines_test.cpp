// Functions and lines of driver code, out of what llvm-symbolizer answers.
#include "verifier/source_lines.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "verifier/formats.h"

namespace dxgkit::verifier {
namespace {

TEST(SourceLines, TheInlinedFunctionComesBeforeItsCaller) {
  const std::vector<SourceFrame> all = parse_symbols(
      R"([{"Address":"0x10","ModuleName":"d.sys","Symbol":[)"
      R"({"Column":3,"FileName":"/src/../src/first.c","FunctionName":"QuerySegments","Line":183},)"
      R"({"Column":3,"FileName":"/src/first.c","FunctionName":"FirstQuery","Line":204}]}])"
      "\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(to_text(all[0]), "QuerySegments (/src/first.c:183)");
  EXPECT_EQ(to_text(all[1]), "FirstQuery (/src/first.c:204)");
}

TEST(SourceLines, WhatIsUnknownOrNotJsonGivesNoFrame) {
  EXPECT_TRUE(parse_symbols("no JSON\n").empty());
  EXPECT_TRUE(parse_symbols("[]").empty());
  EXPECT_TRUE(parse_symbols(R"([{"Address":"0x1","Error":{"Message":"no such file"}}])").empty());
  EXPECT_TRUE(
      parse_symbols(R"([{"Symbol":[{"FileName":"","FunctionName":"f","Line":0}]}])").empty());
}

TEST(SourceLines, AFileWithoutLinesIsTextToo) {
  EXPECT_EQ(to_text(SourceFrame{.function = "f", .file = "a.c", .line = 0}), "f (a.c)");
  EXPECT_EQ(to_text(SourceFrame{.function = "", .file = "a.c", .line = 3}), "a.c:3");
  EXPECT_EQ(to_text(SourceFrame{.function = "f", .file = "", .line = 0}), "f");
}

[[gnu::noinline]] int function_with_a_line(int value) { return value * 3 + __LINE__; }
constexpr uint32_t kLine = __LINE__ - 1;

/// This program is an image like another: its own debugging information names the function.
TEST(SourceLines, AnImageIsLookedUpByItsOffset) {
  const auto address = reinterpret_cast<uint64_t>(&function_with_a_line);
  EXPECT_NE(function_with_a_line(1), 0);
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(address), &info), 0);
  Place place{.image = "me", .rva = address - reinterpret_cast<uint64_t>(info.dli_fbase)};
  EXPECT_TRUE(source_of(place).empty()) << "without a file there is nothing to look into";
  place.path = "/proc/self/exe";
  place.path = std::filesystem::read_symlink(place.path).string();
  const std::vector<SourceFrame> found = source_of(place);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].line, kLine);
  EXPECT_TRUE(found[0].file.ends_with("source_lines_test.cpp")) << found[0].file;
  EXPECT_NE(found[0].function.find("function_with_a_line"), std::string::npos);
  // A frame of a stack is a return address: the call is before it.
  const std::string frame = fmt::format("me+{:#x} f", place.rva + 1);
  ASSERT_EQ(source_of_frame(place, frame).size(), 1u);
  EXPECT_EQ(source_of_frame(place, frame)[0].line, kLine);
  EXPECT_TRUE(source_of_frame(place, "other.sys+0x10").empty());

  // In every form that a finding is written in.
  Finding finding{.rule = "PATCH-31",
                  .ddi = "DxgkDdiPatch",
                  .actual = "It returned 1.",
                  .expected = "STATUS_SUCCESS.",
                  .fix = "Validate earlier.",
                  .place = place};
  const std::string line = fmt::format("source_lines_test.cpp:{})", kLine);
  EXPECT_NE(to_text(finding).find(line), std::string::npos) << to_text(finding);
  EXPECT_NE(to_json(finding).find(fmt::format("\"line\":{}", kLine)), std::string::npos);
  EXPECT_NE(to_sarif(std::span(&finding, 1), {}).find(fmt::format("\"startLine\":{}", kLine)),
            std::string::npos);
  finding.place.entry = true;
  EXPECT_NE(to_text(finding).find("  in:       "), std::string::npos) << to_text(finding);
}

Finding with_place(std::string path) {
  return {.rule = "PATCH-31",
          .severity = Severity::kViolation,
          .ddi = "DxgkDdiPatch",
          .actual = "It returned 1.",
          .expected = "STATUS_SUCCESS.",
          .fix = "Validate earlier.",
          .place = {.image = "d.sys", .rva = 0x10, .symbol = "F+0x1", .path = std::move(path)}};
}

/// The place stays image and offset, and the author hears once why.
TEST(SourceLinesDeathTest, AMissingSymbolizerIsToldOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("PATH", "/nonexistent", 1);
        const std::string first = to_text(with_place("/a.sys"));
        const std::string second = to_text(with_place("/b.sys"));
        std::fputs(first.c_str(), stderr);
        std::fputs(second.find("missing") == std::string::npos ? "told once" : "told twice",
                   stderr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "d.sys\\+0x10 F\\+0x1.*llvm-symbolizer is missing.*told once");
}

}  // namespace
}  // namespace dxgkit::verifier
