#include "bus/pages_apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>

namespace dxgkit::bus {
namespace {

constexpr uint64_t kPages = 1024;

PhysicalAddress address_of(PageFrame page) { return PhysicalAddress{page.value * kPageBytes}; }

/// The memory object as another process sees it.
class Seen {
 public:
  explicit Seen(const MemoryWindow& window) : bytes_(window.size) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, window.fd,
                   static_cast<off_t>(window.offset));
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Seen() { munmap(memory_, bytes_); }
  char* bytes() const { return static_cast<char*>(memory_); }

 private:
  size_t bytes_;
  void* memory_;
};

bool is_zero(const char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

/// The descriptor shows what devices reach at the machine's addresses, and nobody can resize it.
TEST(PagesApart, AreSeenByOthersAndByDevices) {
  Machine machine(kPages * kPageBytes);
  const auto group = PagesApart::make(machine);
  const auto pages = *group->allocate(3);
  ASSERT_EQ(pages.size(), 3U);
  const PagesApart::Part part = group->part_of(pages);
  ASSERT_GE(part.window.fd, 0);
  EXPECT_EQ(part.window.size, 3 * kPageBytes);
  const Seen seen(part.window);
  EXPECT_TRUE(is_zero(seen.bytes(), 3 * kPageBytes));
  const char text[] = "by a device";
  EXPECT_TRUE(machine.dma_write(PhysicalAddress{address_of(pages[1]).value + 8},
                                std::as_bytes(std::span(text))));
  EXPECT_STREQ(seen.bytes() + kPageBytes + 8, "by a device");
  std::strcpy(seen.bytes() + 2 * kPageBytes, "by a client");
  EXPECT_STREQ(reinterpret_cast<char*>(machine.system_pointer(address_of(pages[2]), kPageBytes)),
               "by a client");
  // Views find them, too, in one piece.
  const auto windows = machine.windows_of(pages);
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_EQ(windows[0].fd, part.window.fd);
  const auto view = *CpuView::create(3 * kPageBytes);
  EXPECT_EQ(view->retarget(windows), Status::kSuccess);
  EXPECT_STREQ(static_cast<char*>(view->address()) + 2 * kPageBytes, "by a client");
  EXPECT_EQ(ftruncate(part.window.fd, 0), -1);
  EXPECT_EQ(ftruncate(part.window.fd, 1 << 30), -1);
  EXPECT_EQ(fcntl(part.window.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  machine.free_pages(pages);
  group->close();
  EXPECT_EQ(machine.free_page_count(), kPages);
}

/// Common pages and those of a second group lie in other objects, and what one held is not seen in
/// another. Windows never mix objects.
TEST(PagesApart, HoldNothingOfOthers) {
  Machine machine(kPages * kPageBytes);
  const auto first = PagesApart::make(machine);
  const auto second = PagesApart::make(machine);
  const auto ones = *first->allocate(4);
  const auto twos = *second->allocate(4);
  const auto common = *machine.allocate_pages(4);
  std::set<ino_t> objects;
  for (const auto& pages : {ones, twos, common}) {
    struct stat status {};
    ASSERT_EQ(fstat(machine.window_of(address_of(pages[0]), kPageBytes).fd, &status), 0);
    objects.insert(status.st_ino);
    for (const PageFrame page : pages)
      std::memset(machine.system_pointer(address_of(page), kPageBytes), 0x5A, kPageBytes);
  }
  EXPECT_EQ(objects.size(), 3U);
  EXPECT_EQ(first->part_of(twos).window.fd, -1);
  EXPECT_EQ(first->part_of(common).window.fd, -1);
  std::vector<PageFrame> apart = ones;
  std::swap(apart[0], apart[1]);
  EXPECT_EQ(first->part_of(apart).window.fd, -1) << "no single piece";
  EXPECT_EQ(first->part_of({}).window.fd, -1);
  const PageFrame last{ones[0].value + 64};  // the first object has 64 pages
  EXPECT_EQ(
      machine.window_of(PhysicalAddress{address_of(last).value - kPageBytes}, 2 * kPageBytes).fd,
      -1);
  // Freed pages of one are zeros for whoever is next, in the group and outside.
  machine.free_pages(ones);
  machine.free_pages(twos);
  machine.free_pages(common);
  first->close();
  const auto again = *second->allocate(4);
  EXPECT_EQ(again, twos);
  const Seen seen(second->part_of(again).window);
  EXPECT_TRUE(is_zero(seen.bytes(), 4 * kPageBytes));
  const auto rest = *machine.allocate_pages(machine.free_page_count());
  for (const PageFrame page : rest)
    EXPECT_TRUE(
        is_zero(reinterpret_cast<const char*>(machine.system_pointer(address_of(page), kPageBytes)),
                kPageBytes));
}

/// A thousand small allocations need few objects, and all pages come back.
TEST(PagesApart, AreFewObjectsThatGoWhenTheyAreEmpty) {
  Machine machine(8 * kPages * kPageBytes);
  const auto group = PagesApart::make(machine);
  std::vector<std::vector<PageFrame>> all;
  for (unsigned i = 0; i < 1000; ++i) all.push_back(*group->allocate(1 + i % 3));
  EXPECT_LE(group->object_count(), 12U);
  std::set<uint64_t> frames;
  for (const auto& pages : all) {
    for (const PageFrame page : pages) EXPECT_TRUE(frames.insert(page.value).second);
  }
  for (const auto& pages : all) machine.free_pages(pages);
  EXPECT_LE(group->object_count(), 1U) << "one is kept";
  group->close();
  EXPECT_EQ(group->object_count(), 0U);
  EXPECT_EQ(machine.free_page_count(), 8 * kPages);
  EXPECT_EQ(group->allocate(1).error(), Status::kNoMemory) << "it is closed";
}

TEST(PagesApart, ClosedWhileInUseGoWithTheirLastPage) {
  Machine machine(kPages * kPageBytes);
  auto group = PagesApart::make(machine);
  const auto pages = *group->allocate(2);
  group->close();
  group.reset();
  std::memset(machine.system_pointer(address_of(pages[0]), kPageBytes), 1, kPageBytes);
  machine.free_contiguous(pages[0], 1);
  EXPECT_EQ(machine.free_page_count(), kPages - 64);
  machine.free_contiguous(pages[1], 1);
  EXPECT_EQ(machine.free_page_count(), kPages);
}

TEST(PagesApart, RefusalsChangeNothing) {
  Machine machine(kPages * kPageBytes);
  const auto group = PagesApart::make(machine);
  EXPECT_EQ(group->allocate(kPages + 1).error(), Status::kNoMemory);
  EXPECT_EQ(group->allocate(1, PagesApart::Objects::kAsTheyAre).error(), Status::kNoMemory);
  EXPECT_EQ(machine.free_page_count(), kPages);
  EXPECT_EQ(group->object_count(), 0U);
  // All of it at once: the spare pages of an object are none of what is asked for.
  const auto all = *group->allocate(kPages);
  machine.free_pages(all);
  EXPECT_EQ(machine.free_page_count(), kPages);
  machine.fix_system_memory();
  EXPECT_EQ(group->allocate(1).error(), Status::kNoMemory);
  EXPECT_EQ(machine.free_page_count(), kPages);
}

}  // namespace
}  // namespace dxgkit::bus
