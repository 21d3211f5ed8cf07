#include "tools/dxgkit/evict/trace.h"

#include <gmock/gmock.h>

#include "tools/dxgkit/evict/generate.h"

namespace dxgkit::tool::evict {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(EvictTrace, CommentsBlanksAndWordsForProcesses) {
  const auto trace = parse_trace(
      "# a trace\n\n  alloc 7 100 # first\r\nalloc 18446744073709551615 200\n"
      "submit game 7 18446744073709551615 7\n\tsubmit 12 7\nsubmit game");
  ASSERT_TRUE(trace.has_value()) << trace.error();
  EXPECT_THAT(trace->bytes, ElementsAre(100, 200));
  EXPECT_EQ(trace->total_bytes(), 300U);
  EXPECT_EQ(trace->largest_submission_bytes(), 300U);
  EXPECT_EQ(trace->processes, 2U);
  ASSERT_EQ(trace->submissions.size(), 3U);
  EXPECT_THAT(trace->of(trace->submissions[0]), ElementsAre(0, 1)) << "named twice is named once";
  EXPECT_THAT(trace->of(trace->submissions[1]), ElementsAre(0));
  EXPECT_THAT(trace->of(trace->submissions[2]), ElementsAre());
  EXPECT_EQ(trace->submissions[1].process, 1U);
}

TEST(EvictTrace, WhatIsNoTraceIsRefusedWithItsLine) {
  const auto refused = [](std::string_view text, const std::string& line, const std::string& why) {
    const auto trace = parse_trace(text);
    ASSERT_FALSE(trace.has_value()) << text;
    EXPECT_THAT(trace.error(), StartsWith("line " + line + ": ")) << text;
    EXPECT_THAT(trace.error(), HasSubstr(why)) << text;
    EXPECT_EQ(trace.error().find('\n'), std::string::npos);
    EXPECT_LT(trace.error().size(), 200U);
  };
  refused("", "0", "without an 'alloc'");
  refused("# nothing\n", "1", "without an 'alloc'");
  refused("alloc 1 4096\nfree 1\n", "2", "'free'");
  refused("alloc 1\n", "1", "BYTES");
  refused("alloc\n", "1", "BYTES");
  refused("alloc 1 0\n", "1", "'0' is not a size");
  refused("alloc 1 -5\n", "1", "'-5'");
  refused("alloc 1 5x\n", "1", "'5x'");
  refused("alloc 1 1.5\n", "1", "'1.5'");
  refused("alloc x 5\n", "1", "'x' is not an ID");
  refused("alloc 1 5 6\n", "1", "'6'");
  refused("alloc 1 99999999999999999999\n", "1", "not a size");
  refused("alloc 99999999999999999999 1\n", "1", "not an ID");
  refused("alloc 1 4611686018427387904\n", "1", "2^62");
  refused("alloc 1 4611686018427387903\nalloc 2 1\n", "2", "2^62");
  refused("alloc 1 5\nalloc 1 5\n", "2", "allocation 1 is there already");
  refused("alloc 1 5\nsubmit\n", "2", "PROCESS");
  refused("alloc 1 5\nsubmit 1 2\n", "2", "no allocation 2");
  refused("submit 1 2\nalloc 2 5\n", "1", "no allocation 2 yet");
  refused("alloc 1 5\nsubmit 1 1,2\n", "2", "'1,2'");
  refused(std::string_view("\0\x01\xff\n", 4), "1", "'?");
  refused(std::string(100'000, 'a'), "1", "aaa...");
}

TEST(EvictTrace, GeneratedOnesAreTheSameForASeedAndSurviveTheirText) {
  for (const Family& family : families()) {
    SCOPED_TRACE(std::string(family.name));
    const auto trace = generate(family.name, 3);
    ASSERT_TRUE(trace.has_value());
    const std::string text = to_text(*trace, "one\n# two");
    const auto again = parse_trace(text);
    ASSERT_TRUE(again.has_value()) << again.error();
    EXPECT_EQ(to_text(*again, "one\n# two"), text);
    EXPECT_EQ(to_text(*generate(family.name, 3), "one\n# two"), text);
    EXPECT_NE(to_text(*generate(family.name, 4), "one\n# two"), text);
  }
  EXPECT_FALSE(generate("nothing", 1).has_value());
}

}  // namespace
}  // namespace dxgkit::tool::evict
