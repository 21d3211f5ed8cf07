// Ranges that were unmapped: what is remembered of them, and for how long.
#include "dxgk/va/unmapped_ranges.h"

#include <gtest/gtest.h>

#include "runtime/runtime.h"

namespace dxgkit::dxgk {
namespace {

UnmappedRanges::Range range(gpuva::PageSpan span, uint64_t allocation) {
  UnmappedRanges::Range made;
  made.span = span;
  made.allocation = AllocationId{allocation};
  return made;
}

TEST(UnmappedRanges, TheLatestRangeThatHasThePageIsFound) {
  UnmappedRanges ranges;
  EXPECT_EQ(ranges.find(5), nullptr);
  ranges.note(range({0, 10}, 1));
  ranges.note(range({5, 1}, 2));
  ranges.note(std::nullopt);
  ASSERT_NE(ranges.find(5), nullptr);
  EXPECT_EQ(ranges.find(5)->allocation, AllocationId{2});
  EXPECT_EQ(ranges.find(6)->allocation, AllocationId{1});
  EXPECT_EQ(ranges.find(10), nullptr);
}

TEST(UnmappedRanges, OldRangesAreForgotten) {
  UnmappedRanges ranges;
  for (uint64_t i = 0; i <= UnmappedRanges::kMost; ++i) ranges.note(range({i, 1}, i + 1));
  EXPECT_EQ(ranges.find(0), nullptr);
  EXPECT_NE(ranges.find(1), nullptr);
}

TEST(UnmappedRanges, ASpanThatMapsNothingLosesNothing) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    const gpuva::AddressSpace addresses({.end = uint64_t{1} << 40, .first = uint64_t{1} << 12});
    EXPECT_FALSE(
        UnmappedRanges::going(addresses, {1, 4}, "by a test", runtime::Runtime::current()));
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
