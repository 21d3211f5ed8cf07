#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "base/ids.h"
#include "base/status.h"

namespace dxgkit {
namespace {

// A guarded copy moves what is there and answers false, not a crash, where nothing is.
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
