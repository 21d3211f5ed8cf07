#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "base/ids.h"
#include "base/short_vector.h"
#include "base/status.h"

namespace dxgkit {
namespace {

// A guarded copy moves what is there and answers false, not a crash, where nothing is.
TEST(Arithmetic, RoundingGoesToTheNextMultipleAndStaysThere) {
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{2}, uint64_t{64}, kPageBytes}) {
    for (uint64_t value = 0; value <= 3 * alignment; ++value) {
      const uint64_t down = value / alignment * alignment;
      const uint64_t up = (value + alignment - 1) / alignment * alignment;
      uint64_t checked = ~uint64_t{0};
      ASSERT_EQ(align_down(value, alignment), down) << value << " to " << alignment;
      ASSERT_EQ(align_up(value, alignment), up) << value << " to " << alignment;
      ASSERT_TRUE(checked_align_up(value, alignment, &checked));
      ASSERT_EQ(checked, up) << value << " to " << alignment;
    }
  }
  // The largest multiple there is, and what would be rounded up past it.
  constexpr uint64_t kLargest = ~uint64_t{0} - (kPageBytes - 1);
  uint64_t aligned = 0;
  EXPECT_TRUE(checked_align_up(kLargest, kPageBytes, &aligned));
  EXPECT_EQ(aligned, kLargest);
  EXPECT_FALSE(checked_align_up(kLargest + 1, kPageBytes, &aligned));
  EXPECT_FALSE(checked_align_up(~uint64_t{0}, kPageBytes, &aligned));
  EXPECT_TRUE(checked_align_up(~uint64_t{0}, 1, &aligned));
}

TEST(ShortVector, HoldsFewWithoutTheHeapAndManyWithIt) {
  ShortVector<uint64_t, 4> list;
  EXPECT_TRUE(list.empty());
  for (uint64_t i = 0; i < 20; ++i) {
    list.push_back(i * i);
    const std::span<const uint64_t> all = list;
    ASSERT_EQ(all.size(), i + 1);
    for (uint64_t k = 0; k <= i; ++k) ASSERT_EQ(all[k], k * k) << i;
  }
  ShortVector<uint64_t, 4> sized;
  sized.resize(3);
  EXPECT_EQ(sized.data()[2], 0U);
  sized.data()[2] = 7;
  sized.resize(9);
  EXPECT_EQ(sized.data()[2], 7U);
  EXPECT_EQ(sized.data()[8], 0U);
  ShortVector<std::unique_ptr<int>, 1> owners(1);  // elements that only move
  owners[0] = std::make_unique<int>(5);
  owners.push_back(std::make_unique<int>(6));
  EXPECT_EQ(*owners[0] + *owners[1], 11);
  EXPECT_EQ(owners.end() - owners.begin(), 2);
}

TEST(GuardedCopy, ReportsUnreadableAndUnwritableMemory) {
  constexpr size_t kBytes = 8192;
  auto* pages = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  for (int i = 0; i < 4096; ++i) pages[i] = static_cast<char>(i);
  std::vector<char> out(4096, 0);
  EXPECT_TRUE(guarded_copy(out.data(), pages, 4096));
  EXPECT_EQ(out[77], 77);
  EXPECT_FALSE(guarded_copy(out.data(), pages + 1, 4096));
  EXPECT_FALSE(guarded_copy(pages + 4000, out.data(), 200));
  EXPECT_FALSE(guarded_copy(out.data(), nullptr, 1));
  for (size_t bytes = 0; bytes <= 4096; bytes += bytes < 100 ? 1 : 61) {
    for (size_t i = 0; i < bytes; ++i) pages[4096 - bytes + i] = static_cast<char>(i * 7 + bytes);
    std::ranges::fill(out, '?');
    ASSERT_TRUE(guarded_copy(out.data(), pages + 4096 - bytes, bytes)) << bytes;
    ASSERT_EQ(std::memcmp(out.data(), pages + 4096 - bytes, bytes), 0) << bytes;
    if (bytes < out.size()) {
      ASSERT_EQ(out[bytes], '?') << bytes;
    }
    if (bytes == 0) continue;
    // One byte too many at either side of the copy, which is in the page that is not there.
    ASSERT_FALSE(guarded_copy(out.data(), pages + 4097 - bytes, bytes)) << bytes;
    ASSERT_FALSE(guarded_copy(pages + 4097 - bytes, out.data(), bytes)) << bytes;
  }
  EXPECT_FALSE(guarded_copy(out.data(), reinterpret_cast<const void*>(UINTPTR_MAX - 10), 100));
  EXPECT_TRUE(guarded_copy(out.data(), nullptr, 0));
  munmap(pages, kBytes);
}

TEST(Arithmetic, RangesNeverWrap) {
  EXPECT_TRUE(range_within(0, 10, 10));
  EXPECT_TRUE(range_within(10, 0, 10));
  EXPECT_FALSE(range_within(11, 0, 10));
  EXPECT_FALSE(range_within(1, 10, 10));
  EXPECT_FALSE(range_within(UINT64_MAX, 2, UINT64_MAX));
  uint64_t aligned = 0;
  EXPECT_FALSE(checked_align_up(UINT64_MAX, kPageBytes, &aligned));
  EXPECT_TRUE(checked_align_up(1, kPageBytes, &aligned));
  EXPECT_EQ(aligned, kPageBytes);
}

TEST(SubmissionFences, CompareAcrossTheWrap) {
  EXPECT_TRUE(fence_newer(SubmissionFenceId{2}, SubmissionFenceId{1}));
  EXPECT_TRUE(fence_newer(SubmissionFenceId{1}, SubmissionFenceId{0xFFFFFFFF}));
  EXPECT_FALSE(fence_newer(SubmissionFenceId{5}, SubmissionFenceId{5}));
}

TEST(StatusCodes, PendingIsSuccessAndErrorsAreNot) {
  EXPECT_TRUE(is_success(Status::kPending));
  EXPECT_FALSE(is_success(Status::kInvalidParameter));
  EXPECT_EQ(from_ntstatus(to_ntstatus(Status::kGraphicsNoVideoMemory)),
            Status::kGraphicsNoVideoMemory);
  EXPECT_EQ(status_name(Status::kDeviceRemoved), "STATUS_DEVICE_REMOVED");
}

}  // namespace
}  // namespace dxgkit
