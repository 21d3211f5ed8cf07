#include "thunks/capture.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/support/covers.h"

namespace dxgkit::thunks {
namespace {

constexpr size_t kPage = 4096;

/// A page that can be read and written, then one that can only be read, then none.
class Pages {
 public:
  Pages()
      : base_(
            mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(base_, MAP_FAILED);
    std::memset(base_, 0x5A, 2 * kPage);
    EXPECT_EQ(mprotect(at(kPage), kPage, PROT_READ), 0);
    EXPECT_EQ(mprotect(at(2 * kPage), kPage, PROT_NONE), 0);
  }
  ~Pages() { munmap(base_, 3 * kPage); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* at(size_t offset) const { return static_cast<std::byte*>(base_) + offset; }

 private:
  void* const base_;
};

TEST(Capture, AListIsCopiedWholeOrNotAtAll) {
  DXGKIT_COVERS("THUNK-01");
  const Pages pages;
  const auto* const last = reinterpret_cast<const uint64_t*>(pages.at(2 * kPage)) - 3;
  std::vector<uint64_t> out = {1, 2, 3, 4, 5};
  EXPECT_EQ(capture_array(last, 3, 3, &out), Status::kSuccess);
  EXPECT_EQ(out, std::vector<uint64_t>(3, 0x5A5A5A5A5A5A5A5AU));
  // One element too long, not readable at all, or no list given.
  EXPECT_EQ(capture_array(last, 4, 4, &out), Status::kInvalidParameter);
  EXPECT_EQ(capture_array(last + 3, 1, 4, &out), Status::kInvalidParameter);
  EXPECT_EQ(capture_array<uint64_t>(nullptr, 1, 4, &out), Status::kInvalidParameter);
}

TEST(Capture, AListHasAsManyElementsAsItMayHave) {
  DXGKIT_COVERS("THUNK-01");
  const Pages pages;
  const auto* const list = reinterpret_cast<const uint32_t*>(pages.at(0));
  std::vector<uint32_t> out;
  EXPECT_EQ(capture_array(list, 4, 4, &out), Status::kSuccess);
  EXPECT_EQ(out.size(), 4U);
  std::vector<uint32_t> kept = {7};
  EXPECT_EQ(capture_array(list, 5, 4, &kept), Status::kInvalidParameter);
  EXPECT_EQ(kept, std::vector<uint32_t>{7});  // no room is made for what is refused
  EXPECT_EQ(capture_array(list, SIZE_MAX, 4, &kept), Status::kInvalidParameter);
}

TEST(Capture, AnEmptyListIsNotLookedAt) {
  std::vector<uint32_t> out = {7};
  EXPECT_EQ(capture_array<uint32_t>(nullptr, 0, 4, &out), Status::kSuccess);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(capture_array(reinterpret_cast<const uint32_t*>(0x10), 0, 4, &out), Status::kSuccess);
  std::vector<std::byte> bytes = {std::byte{7}};
  EXPECT_EQ(capture_bytes(nullptr, 0, &bytes), Status::kSuccess);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(capture_bytes(nullptr, 1, &bytes), Status::kInvalidParameter);
}

TEST(Capture, PrivateDataIsBounded) {
  const Pages pages;
  std::vector<std::byte> out;
  EXPECT_EQ(capture_bytes(pages.at(0), 2 * kPage, &out), Status::kSuccess);
  EXPECT_EQ(out, std::vector<std::byte>(2 * kPage, std::byte{0x5A}));
  EXPECT_EQ(capture_bytes(pages.at(0), 2 * kPage + 1, &out), Status::kInvalidParameter);
  EXPECT_EQ(capture_bytes(pages.at(0), kMaxPrivateBytes + 1, &out), Status::kInvalidParameter);
  const std::vector<std::byte> most(kMaxPrivateBytes, std::byte{3});
  EXPECT_EQ(capture_bytes(most.data(), most.size(), &out), Status::kSuccess);
  EXPECT_EQ(out, most);
}

TEST(Capture, WritableAsksForAllOfItAndChangesNothing) {
  const Pages pages;
  EXPECT_TRUE(writable(pages.at(0), kPage));
  EXPECT_TRUE(writable(pages.at(kPage - 1), 1));
  EXPECT_FALSE(writable(pages.at(0), kPage + 1));      // the end can only be read
  EXPECT_FALSE(writable(pages.at(kPage), 1));          // so can this
  EXPECT_FALSE(writable(pages.at(2 * kPage - 1), 2));  // and this not even that
  EXPECT_TRUE(writable(nullptr, 0));
  for (size_t i = 0; i < kPage; ++i) ASSERT_EQ(*pages.at(i), std::byte{0x5A});
}

}  // namespace
}  // namespace dxgkit::thunks
