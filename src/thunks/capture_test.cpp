#include "thunks/capture.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "tests/support/covers.h"
#include "thunks/members.h"

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
}

TEST(Capture, ATextEndsWithItsTerminator) {
  const Pages pages;
  auto* const last = reinterpret_cast<char16_t*>(pages.at(kPage)) - 3;
  const std::u16string two = u"ab";
  std::memcpy(last, two.c_str(), 3 * sizeof(char16_t));
  EXPECT_EQ(capture_text(last, 3), two);  // nothing behind the terminator is looked at
  EXPECT_EQ(capture_text(last + 2, 1), u"");
  EXPECT_EQ(capture_text(last, 2).error(), Status::kInvalidParameter);
  EXPECT_EQ(capture_text(nullptr, 3).error(), Status::kInvalidParameter);
  const auto* const end = reinterpret_cast<const char16_t*>(pages.at(2 * kPage)) - 3;
  EXPECT_EQ(capture_text(end, 9).error(), Status::kInvalidParameter);
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

// --- members, as the table of arguments has them

TEST(Members, AListHasTheCountAndTheBoundOfTheTable) {
  DXGKIT_COVERS("THUNK-01");
  const Pages pages;
  D3DKMT_EVICT evict{};
  evict.AllocationList = reinterpret_cast<const D3DKMT_HANDLE*>(pages.at(2 * kPage)) - 3;
  std::vector<D3DKMT_HANDLE> handles;
  for (const UINT count : {0U, 1U, 3U}) {
    evict.NumAllocations = count;
    EXPECT_EQ(capture<&D3DKMT_EVICT::AllocationList>(evict, &handles), Status::kSuccess);
    EXPECT_EQ(handles, std::vector<D3DKMT_HANDLE>(count, 0x5A5A5A5A));
  }
  evict.NumAllocations = 4;
  EXPECT_EQ(capture<&D3DKMT_EVICT::AllocationList>(evict, &handles), Status::kInvalidParameter);
  // The bound of all lists, and one of its own.
  const std::vector<D3DKMT_HANDLE> many(kMaxListElements + 1, 7);
  evict.AllocationList = many.data();
  evict.NumAllocations = kMaxListElements;
  EXPECT_EQ(capture<&D3DKMT_EVICT::AllocationList>(evict, &handles), Status::kSuccess);
  ++evict.NumAllocations;
  EXPECT_EQ(capture<&D3DKMT_EVICT::AllocationList>(evict, &handles), Status::kInvalidParameter);
  std::vector<RECT> rects(4097), captured;
  D3DKMT_PRESENT present{};
  present.pSrcSubRects = rects.data();
  present.SubRectCnt = 4096;
  EXPECT_EQ(capture<&D3DKMT_PRESENT::pSrcSubRects>(present, &captured), Status::kSuccess);
  EXPECT_EQ(captured.size(), 4096U);
  present.SubRectCnt = 4097;
  EXPECT_EQ(capture<&D3DKMT_PRESENT::pSrcSubRects>(present, &captured), Status::kInvalidParameter);
}

TEST(Members, PrivateDataIsBounded) {
  const Pages pages;
  std::vector<std::byte> out;
  D3DKMT_ESCAPE escape{};
  escape.pPrivateDriverData = pages.at(0);
  escape.PrivateDriverDataSize = 2 * kPage;
  EXPECT_EQ(capture<&D3DKMT_ESCAPE::pPrivateDriverData>(escape, &out), Status::kSuccess);
  EXPECT_EQ(out, std::vector<std::byte>(2 * kPage, std::byte{0x5A}));
  escape.PrivateDriverDataSize = 2 * kPage + 1;
  EXPECT_EQ(capture<&D3DKMT_ESCAPE::pPrivateDriverData>(escape, &out), Status::kInvalidParameter);
  std::vector<std::byte> most(arguments::kMaxPrivateBytes + 1, std::byte{3});
  escape.pPrivateDriverData = most.data();
  escape.PrivateDriverDataSize = arguments::kMaxPrivateBytes;
  EXPECT_EQ(capture<&D3DKMT_ESCAPE::pPrivateDriverData>(escape, &out), Status::kSuccess);
  EXPECT_EQ(out.size(), arguments::kMaxPrivateBytes);
  EXPECT_EQ(check_room<&D3DKMT_ESCAPE::pPrivateDriverData>(escape), Status::kSuccess);
  ++escape.PrivateDriverDataSize;
  EXPECT_EQ(capture<&D3DKMT_ESCAPE::pPrivateDriverData>(escape, &out), Status::kInvalidParameter);
  EXPECT_EQ(check_room<&D3DKMT_ESCAPE::pPrivateDriverData>(escape), Status::kInvalidParameter);
}

TEST(Members, ACountMayDependOnAnotherMember) {
  D3DKMT_GETALLOCATIONPRIORITY get{};
  get.AllocationCount = 5;
  EXPECT_EQ(count_of<&D3DKMT_GETALLOCATIONPRIORITY::pPriorities>(get), 5U);
  get.hResource = 1;
  EXPECT_EQ(count_of<&D3DKMT_GETALLOCATIONPRIORITY::pPriorities>(get), 1U);
  // Members of one union are told apart.
  D3DKMT_CREATEALLOCATION create{};
  create.PrivateDriverDataSize = 9;
  EXPECT_EQ(count_of<&D3DKMT_CREATEALLOCATION::pPrivateDriverData>(create), 9U);
  EXPECT_EQ(count_of<&D3DKMT_CREATEALLOCATION::pStandardAllocation>(create), 0U);
  create.Flags.StandardAllocation = 1;
  EXPECT_EQ(count_of<&D3DKMT_CREATEALLOCATION::pStandardAllocation>(create), 1U);
  // A text that is counted in bytes.
  std::u16string name = u"name", captured;
  UNICODE_STRING text{};
  text.Buffer = name.data();
  text.Length = 8;
  EXPECT_EQ(capture<&UNICODE_STRING::Buffer>(text, &captured), Status::kSuccess);
  EXPECT_EQ(captured, name);
}

TEST(Members, WhatPointersOfAListLeadToIsCopiedOnce) {
  const Pages pages;
  D3DKMT_MULTIPLANE_OVERLAY3 plane{};
  plane.LayerIndex = 3;
  D3DKMT_MULTIPLANE_OVERLAY3* planes[9] = {&plane, &plane};
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY3 present{};
  present.ppPresentPlanes = planes;
  present.PresentPlaneCount = 2;
  std::vector<D3DKMT_MULTIPLANE_OVERLAY3> out;
  constexpr auto kPlanes = &D3DKMT_PRESENT_MULTIPLANE_OVERLAY3::ppPresentPlanes;
  EXPECT_EQ(capture_each<kPlanes>(present, &out), Status::kSuccess);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[1].LayerIndex, 3U);
  planes[1] = reinterpret_cast<D3DKMT_MULTIPLANE_OVERLAY3*>(pages.at(2 * kPage - 1));
  EXPECT_EQ(capture_each<kPlanes>(present, &out), Status::kInvalidParameter);
  present.PresentPlaneCount = D3DKMT_MAX_MULTIPLANE_OVERLAY_PLANES + 1;
  EXPECT_EQ(capture_each<kPlanes>(present, &out), Status::kInvalidParameter);
}

TEST(Members, OneElementAndATextAreCopied) {
  const Pages pages;
  int64_t timeout = 0;
  D3DKMT_ACQUIREKEYEDMUTEX acquire{};
  for (const auto& [at, status] : {std::pair(2 * kPage - 8, Status::kSuccess),
                                   std::pair(2 * kPage - 7, Status::kInvalidParameter)}) {
    acquire.pTimeout = reinterpret_cast<decltype(acquire.pTimeout)>(pages.at(at));
    EXPECT_EQ(capture_one<&D3DKMT_ACQUIREKEYEDMUTEX::pTimeout>(acquire, &timeout), status);
  }
  EXPECT_EQ(timeout, 0x5A5A5A5A5A5A5A5A);
  std::u16string name(260, u'x');
  D3DKMT_OPENADAPTERFROMDEVICENAME open{};
  open.pDeviceName = name.c_str();
  constexpr auto kName = &D3DKMT_OPENADAPTERFROMDEVICENAME::pDeviceName;
  EXPECT_EQ(capture_text<kName>(open).error(), Status::kInvalidParameter);
  name.pop_back();
  open.pDeviceName = name.c_str();
  EXPECT_EQ(capture_text<kName>(open), name);
}

TEST(Members, WhatIsGivenGoesToTheFirstElements) {
  const Pages pages;
  auto* const last = reinterpret_cast<UINT*>(pages.at(kPage)) - 2;
  D3DKMT_GETALLOCATIONPRIORITY get{};
  get.pPriorities = last;
  get.AllocationCount = 3;
  constexpr auto kPriorities = &D3DKMT_GETALLOCATIONPRIORITY::pPriorities;
  std::vector<UINT> values;
  EXPECT_TRUE(has_room<kPriorities>(get, 2));
  EXPECT_FALSE(has_room<kPriorities>(get, 3));  // the third can only be read
  EXPECT_EQ(check_room<kPriorities>(get), Status::kInvalidParameter);
  EXPECT_EQ(capture<kPriorities>(get, &values), Status::kSuccess);
  EXPECT_EQ(capture_two_way<kPriorities>(get, &values), Status::kInvalidParameter);
  EXPECT_TRUE(give<kPriorities>(get, std::vector<UINT>{5}));
  EXPECT_EQ(last[0], 5U);
  EXPECT_EQ(last[1], 0x5A5A5A5AU);
  EXPECT_FALSE(give<kPriorities>(get, std::vector<UINT>{1, 2, 3}));
  get.AllocationCount = 2;
  EXPECT_EQ(capture_two_way<kPriorities>(get, &values), Status::kSuccess);
  EXPECT_DEATH(static_cast<void>(give<kPriorities>(get, std::vector<UINT>{1, 2, 3})), "");
}

}  // namespace
}  // namespace dxgkit::thunks
