#include "bus/page_allocator.h"

#include <gtest/gtest.h>

namespace dxgkit::bus {
namespace {

// Contiguous pages come from the smallest extent that fits, so that large extents survive.
TEST(PageAllocator, PrefersTheSmallestExtentThatFits) {
  PageAllocator pages(100);
  const uint64_t all = pages.allocate_contiguous(100).value();
  EXPECT_EQ(all, 0u);
  pages.release(0, 50);
  pages.release(60, 4);
  EXPECT_EQ(pages.allocate_contiguous(4), 60u);
  EXPECT_EQ(pages.allocate_contiguous(4), 0u);
  EXPECT_TRUE(pages.validate());
}

// Alignment is that of origin + index; an extent that fits only at one place is found.
TEST(PageAllocator, AlignsTheFrameNumberNotTheIndex) {
  PageAllocator pages(64);
  EXPECT_EQ(pages.allocate_contiguous(16, 16, 3), 13u);
  EXPECT_TRUE(pages.validate());
  PageAllocator tight(16);
  ASSERT_EQ(tight.allocate_contiguous(4), 0u);
  EXPECT_EQ(tight.allocate_contiguous(8, 8), 8u);
  EXPECT_EQ(tight.allocate_contiguous(8, 8), std::nullopt);
  EXPECT_EQ(tight.free_count(), 4u);
}

// Hostile counts and alignments neither wrap nor change anything.
TEST(PageAllocator, RefusesWhatCannotFit) {
  PageAllocator pages(16);
  EXPECT_EQ(pages.allocate_contiguous(17), std::nullopt);
  EXPECT_EQ(pages.allocate_contiguous(UINT64_MAX, uint64_t{1} << 63), std::nullopt);
  EXPECT_EQ(pages.allocate_contiguous(16, uint64_t{1} << 63, 1), std::nullopt);
  std::vector<uint64_t> out{7};
  EXPECT_FALSE(pages.allocate_scattered(17, out));
  EXPECT_EQ(out, std::vector<uint64_t>{7});
  EXPECT_EQ(pages.free_count(), 16u);
  EXPECT_TRUE(pages.validate());
}

// A driver that takes its pages for contiguous must be found out from two pages on.
TEST(PageAllocator, ScattersFromTwoPagesOn) {
  PageAllocator pages(1000);
  std::vector<uint64_t> out;
  ASSERT_TRUE(pages.allocate_scattered(100, out));
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 999u);
  EXPECT_LE(pages.extent_count(), 2u);
  for (const uint64_t page : out) pages.release(page, 1);
  EXPECT_EQ(pages.extent_count(), 1u);
  EXPECT_EQ(pages.free_count(), 1000u);
}

TEST(PageAllocatorDeathTest, AbortsOnDoubleRelease) {
  PageAllocator pages(16);
  ASSERT_EQ(pages.allocate_contiguous(4), 0u);
  EXPECT_DEATH(pages.release(3, 2), "");
  EXPECT_DEATH(pages.release(4, 1), "");
  EXPECT_DEATH(pages.release(15, 2), "");
}

// Against a bitmap: no page is handed out twice, none is lost, failure only when it must be.
TEST(PageAllocatorModel, AgreesWithABitmap) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    uint64_t state = seed;
    const auto random = [&state] {  // a linear congruential generator, high bits
      state = state * 6364136223846793005u + 1442695040888963407u;
      return state >> 33;
    };
    constexpr uint64_t kPages = 257;
    constexpr uint64_t kOrigin = 5;
    PageAllocator pages(kPages);
    std::vector<bool> used(kPages);
    std::vector<std::vector<uint64_t>> live;
    for (int step = 0; step < 2000; ++step) {
      const uint64_t action = random() % 3;
      const uint64_t count = 1 + random() % 40;
      if (action == 0) {
        const uint64_t alignment = uint64_t{1} << (random() % 5);
        bool possible = false;
        for (uint64_t first = 0; first + count <= kPages && !possible; ++first) {
          if ((first + kOrigin) % alignment != 0) continue;
          possible = true;
          for (uint64_t i = 0; i < count; ++i) possible = possible && !used[first + i];
        }
        const auto first = pages.allocate_contiguous(count, alignment, kOrigin);
        ASSERT_EQ(first.has_value(), possible);
        if (!first.has_value()) continue;
        EXPECT_EQ((*first + kOrigin) % alignment, 0u);
        std::vector<uint64_t> list;
        for (uint64_t i = 0; i < count; ++i) list.push_back(*first + i);
        live.push_back(list);
      } else if (action == 1) {
        std::vector<uint64_t> list;
        const bool possible = count <= pages.free_count();
        ASSERT_EQ(pages.allocate_scattered(count, list), possible);
        if (!possible) continue;
        ASSERT_EQ(list.size(), count);
        live.push_back(list);
      } else if (!live.empty()) {
        const size_t victim = random() % live.size();
        for (const uint64_t page : live[victim]) {
          used[page] = false;
          pages.release(page, 1);
        }
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
        continue;
      } else {
        continue;
      }
      for (const uint64_t page : live.back()) {
        ASSERT_LT(page, kPages);
        ASSERT_FALSE(used[page]);
        used[page] = true;
      }
      ASSERT_TRUE(pages.validate());
    }
  }
}

/// With an end the lowest pages that fit before it are taken, and nothing else.
TEST(PageAllocator, KeepsBeforeAnEnd) {
  PageAllocator pages(64);
  EXPECT_EQ(pages.allocate_contiguous(4, 1, 0, 16), 0u);
  EXPECT_EQ(pages.allocate_contiguous(4, 8, 0, 16), 8u);
  EXPECT_EQ(pages.allocate_contiguous(4, 1, 0, 16), 4u);
  EXPECT_EQ(pages.allocate_contiguous(5, 1, 0, 16), std::nullopt);
  EXPECT_EQ(pages.allocate_contiguous(4, 1, 0, 16), 12u);
  EXPECT_EQ(pages.allocate_contiguous(1, 1, 0, 16), std::nullopt);
  EXPECT_EQ(pages.allocate_contiguous(1, 1, 0, 17), 16u);
  EXPECT_EQ(pages.allocate_contiguous(1, 1, 0, 0), std::nullopt);
  EXPECT_EQ(pages.free_count(), 64u - 17u);
  EXPECT_TRUE(pages.validate());
}

}  // namespace
}  // namespace dxgkit::bus
