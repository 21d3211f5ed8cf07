// Memory of the process that devices reach: what may be captured, what both sides see, what is left
// afterwards.
#include "bus/user_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace dxgkit::bus {
namespace {

/// Pages of the process, as a client has them.
class Pages {
 public:
  explicit Pages(size_t count, int sharing = MAP_PRIVATE)
      : bytes(count * kPageBytes),
        data(static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(data, bytes); }
  const size_t bytes;
  char* const data;
};

char* physical(Machine& machine, const UserMemory& memory, size_t page) {
  return reinterpret_cast<char*>(
      machine.system_pointer(PhysicalAddress{memory.pages()[page].value * kPageBytes}, kPageBytes));
}

TEST(UserMemory, BothSidesSeeTheSameBytesAndTheProcessKeepsThem) {
  Machine machine(1 << 20);
  const uint64_t free = machine.free_page_count();
  Pages pages(3);
  std::strcpy(pages.data + kPageBytes, "before");
  {
    auto memory = UserMemory::capture(machine, pages.data, pages.bytes);
    ASSERT_TRUE(memory.has_value());
    ASSERT_EQ((*memory)->pages().size(), 3U);
    EXPECT_EQ(machine.free_page_count(), free - 3);
    EXPECT_STREQ(physical(machine, **memory, 1), "before");
    std::strcpy(pages.data + 2 * kPageBytes, "process");
    EXPECT_STREQ(physical(machine, **memory, 2), "process");
    std::strcpy(physical(machine, **memory, 0), "device");
    EXPECT_STREQ(pages.data, "device");
    const auto again = UserMemory::capture(machine, pages.data + kPageBytes, kPageBytes);
    ASSERT_FALSE(again.has_value()) << "a second owner";
    EXPECT_EQ(again.error(), Status::kInvalidParameter);
  }
  EXPECT_EQ(machine.free_page_count(), free);
  EXPECT_STREQ(pages.data, "device");
  EXPECT_STREQ(pages.data + kPageBytes, "before");
  EXPECT_STREQ(pages.data + 2 * kPageBytes, "process");
  const auto next = machine.allocate_contiguous(3);
  ASSERT_TRUE(next.has_value());
  std::strcpy(pages.data, "mine");
  EXPECT_EQ(*machine.system_pointer(PhysicalAddress{next->value * kPageBytes}, 1), std::byte{0})
      << "the machine's page is no part of the process any more";
  EXPECT_TRUE(UserMemory::capture(machine, pages.data, pages.bytes).has_value());
}

TEST(UserMemory, ScatteredPagesServeToo) {
  Machine machine(64 * kPageBytes);
  // Every second page is taken: no two free ones are neighbours.
  const Result<PageFrame> all = machine.allocate_contiguous(64);
  ASSERT_TRUE(all.has_value());
  for (uint64_t i = 0; i < 64; i += 2) machine.free_contiguous(PageFrame{all->value + i}, 1);
  Pages pages(5);
  for (uint64_t i = 0; i < 5; ++i) pages.data[i * kPageBytes] = static_cast<char>('a' + i);
  {
    auto memory = UserMemory::capture(machine, pages.data, pages.bytes);
    ASSERT_TRUE(memory.has_value());
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(*physical(machine, **memory, i), static_cast<char>('a' + i));
      *physical(machine, **memory, i) = static_cast<char>('A' + i);
    }
    EXPECT_EQ(pages.data[4 * kPageBytes], 'E');
  }
  for (uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(pages.data[i * kPageBytes], static_cast<char>('A' + i));
  for (uint64_t i = 1; i < 64; i += 2) machine.free_contiguous(PageFrame{all->value + i}, 1);
}

TEST(UserMemory, WhatIsNotPrivateMemoryInWholePagesIsRefused) {
  Machine machine(16 * kPageBytes);
  const uint64_t free = machine.free_page_count();
  Pages pages(4);
  std::strcpy(pages.data, "kept");
  Pages shared(2, MAP_SHARED);
  Pages hole(3);
  ASSERT_EQ(munmap(hole.data + kPageBytes, kPageBytes), 0);
  Pages read_only(2);
  ASSERT_EQ(mprotect(read_only.data + kPageBytes, kPageBytes, PROT_READ), 0);
  Pages closed(2);
  ASSERT_EQ(mprotect(closed.data, kPageBytes, PROT_NONE), 0);
  auto view = CpuView::create(kPageBytes);
  ASSERT_TRUE(view.has_value());
  const Result<PageFrame> page = machine.allocate_contiguous(1);
  const MemoryWindow window =
      machine.window_of(PhysicalAddress{page->value * kPageBytes}, kPageBytes);
  ASSERT_EQ((*view)->retarget(std::span(&window, 1)), Status::kSuccess);
  struct Row {
    const char* sentence;
    void* address;
    uint64_t bytes;
    Status status = Status::kInvalidParameter;
  };
  const uint64_t top = ~uint64_t{0} << 12;
  const Row rows[] = {
      {"null", nullptr, kPageBytes},
      {"not aligned", pages.data + 8, kPageBytes},
      {"part of a page", pages.data, kPageBytes + 1},
      {"nothing", pages.data, 0},
      {"wraps", pages.data, top},
      {"wraps from the top", reinterpret_cast<void*>(top), 2 * kPageBytes},
      {"not mapped", reinterpret_cast<void*>(uintptr_t{0x1000}), kPageBytes},
      {"a hole in the middle", hole.data, 3 * kPageBytes},
      {"behind the end", hole.data + 2 * kPageBytes, 0x10'0000'0000},
      {"readable only at its end", read_only.data, 2 * kPageBytes},
      {"not even readable", closed.data, 2 * kPageBytes},
      {"shared with others", shared.data, 2 * kPageBytes},
      {"what a lock shows", (*view)->address(), kPageBytes},
  };
  for (const Row& row : rows) {
    const auto memory = UserMemory::capture(machine, row.address, row.bytes);
    ASSERT_FALSE(memory.has_value()) << row.sentence;
    EXPECT_EQ(memory.error(), row.status) << row.sentence;
  }
  Pages many(64);
  const auto large = UserMemory::capture(machine, many.data, many.bytes);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error(), Status::kNoMemory);
  EXPECT_EQ(machine.free_page_count(), free - 1);
  EXPECT_STREQ(pages.data, "kept");
  machine.free_contiguous(*page, 1);
}

TEST(UserMemory, WhatTheProcessPutThereMeanwhileStays) {
  Machine machine(16 * kPageBytes);
  Pages pages(4);
  for (uint64_t i = 0; i < 4; ++i) pages.data[i * kPageBytes] = static_cast<char>('a' + i);
  auto memory = UserMemory::capture(machine, pages.data, pages.bytes);
  ASSERT_TRUE(memory.has_value());
  ASSERT_EQ(munmap(pages.data + kPageBytes, kPageBytes), 0);
  ASSERT_NE(mmap(pages.data + 2 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  pages.data[2 * kPageBytes] = 'x';
  memory->reset();
  EXPECT_EQ(pages.data[0], 'a');
  EXPECT_EQ(pages.data[2 * kPageBytes], 'x');
  EXPECT_EQ(pages.data[3 * kPageBytes], 'd');
  unsigned char resident = 0;
  EXPECT_EQ(mincore(pages.data + kPageBytes, kPageBytes, &resident), -1) << "still unmapped";
}

}  // namespace
}  // namespace dxgkit::bus
