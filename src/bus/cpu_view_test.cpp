#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "bus/machine.h"

namespace dxgkit::bus {
namespace {

MemoryWindow page(Machine& machine, PageFrame frame, uint64_t count = 1) {
  return machine.window_of(PhysicalAddress{frame.value * kPageBytes}, count * kPageBytes);
}

void put(Machine& machine, PageFrame frame, char content) {
  std::memset(machine.system_pointer(PhysicalAddress{frame.value * kPageBytes}, kPageBytes),
              content, kPageBytes);
}

// ALLOC-40 rests on this: content moves to other memory, the CPU address stays, and writes reach
// the new place.
TEST(CpuView, FollowsMovedContent) {
  Machine machine(1 << 20);
  const auto system = machine.allocate_pages(2).value();
  put(machine, system[0], 'a');
  put(machine, system[1], 'b');
  const int video = memfd_create("video", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(video, 4 * kPageBytes), 0);

  const auto view = CpuView::create(2 * kPageBytes).value();
  auto* bytes = static_cast<char*>(view->address());
  ASSERT_EQ(view->retarget(std::vector{page(machine, system[0]), page(machine, system[1])}),
            Status::kSuccess);
  EXPECT_EQ(bytes[0], 'a');
  EXPECT_EQ(bytes[kPageBytes], 'b');

  ASSERT_EQ(pwrite(video, bytes, 2 * kPageBytes, kPageBytes), ssize_t{2 * kPageBytes});
  ASSERT_EQ(view->retarget(std::vector{MemoryWindow{video, kPageBytes, 2 * kPageBytes}}),
            Status::kSuccess);
  EXPECT_EQ(view->address(), bytes);
  EXPECT_EQ(bytes[2 * kPageBytes - 1], 'b');
  bytes[5] = 'z';
  char seen = 0;
  ASSERT_EQ(pread(video, &seen, 1, kPageBytes + 5), 1);
  EXPECT_EQ(seen, 'z');
  EXPECT_EQ(*reinterpret_cast<char*>(
                machine.system_pointer(PhysicalAddress{system[0].value * kPageBytes + 5}, 1)),
            'a');
  close(video);
}

TEST(CpuView, KeepsOrderWhenNeighboursMerge) {
  Machine machine(1 << 20);
  const PageFrame first = machine.allocate_contiguous(3).value();
  for (uint64_t i = 0; i < 3; ++i)
    put(machine, PageFrame{first.value + i}, static_cast<char>('0' + i));
  const auto view = CpuView::create(4 * kPageBytes).value();
  const auto* bytes = static_cast<const char*>(view->address());
  ASSERT_EQ(
      view->retarget(std::vector{page(machine, first), page(machine, PageFrame{first.value + 1}),
                                 page(machine, first), page(machine, PageFrame{first.value + 2})}),
      Status::kSuccess);
  EXPECT_EQ(bytes[0], '0');
  EXPECT_EQ(bytes[kPageBytes], '1');
  EXPECT_EQ(bytes[2 * kPageBytes], '0');
  EXPECT_EQ(bytes[3 * kPageBytes], '2');
}

TEST(CpuView, RefusesUnsoundWindowsAndKeepsWhatItShowed) {
  Machine machine(1 << 20);
  const PageFrame first = machine.allocate_contiguous(2).value();
  put(machine, first, 'k');
  const MemoryWindow good = page(machine, first, 2);
  const auto view = CpuView::create(2 * kPageBytes).value();
  ASSERT_EQ(view->retarget(std::vector{good}), Status::kSuccess);
  MemoryWindow closed = good, odd_size = good, odd_offset = good, empty = good, small = good,
               wraps = good;
  closed.fd = -1;
  odd_size.size = kPageBytes + 1;
  odd_offset.offset += 8;
  empty.size = 0;
  small.size = kPageBytes;
  wraps.offset = ~uint64_t{0} - kPageBytes + 1;
  for (const auto& windows : std::vector<std::vector<MemoryWindow>>{
           {}, {closed}, {odd_size}, {odd_offset}, {empty, good}, {small}, {good, good}, {wraps}}) {
    EXPECT_EQ(view->retarget(windows), Status::kInvalidParameter);
    EXPECT_EQ(static_cast<const char*>(view->address())[0], 'k');
  }
}

// The second window cannot be mapped (its descriptor is closed): the first must not stay behind.
TEST(CpuView, ShowsTheOldContentWhenTheSystemRefusesHalfway) {
  Machine machine(1 << 20);
  const PageFrame first = machine.allocate_contiguous(2).value();
  const PageFrame other = machine.allocate_contiguous(1).value();
  put(machine, first, 'k');
  put(machine, other, 'x');
  const auto view = CpuView::create(2 * kPageBytes).value();
  ASSERT_EQ(view->retarget(std::vector{page(machine, first, 2)}), Status::kSuccess);
  EXPECT_EQ(view->retarget(std::vector{page(machine, other), MemoryWindow{1 << 20, 0, kPageBytes}}),
            Status::kNoMemory);
  EXPECT_EQ(static_cast<const char*>(view->address())[0], 'k');
}

// A client keeps its address when the memory behind it is freed, and cannot reach other memory
// through it.
TEST(CpuView, ShowsNothingOnceWhatItShowedIsGone) {
  Machine machine(1 << 20);
  const PageFrame first = machine.allocate_contiguous(2).value();
  put(machine, first, 'k');
  const auto view = CpuView::create(2 * kPageBytes).value();
  ASSERT_EQ(view->retarget(std::vector{page(machine, first, 2)}), Status::kSuccess);
  view->show_nothing();
  auto* const bytes = static_cast<volatile char*>(view->address());
  for (const uint64_t at : {uint64_t{0}, kPageBytes, 2 * kPageBytes - 1}) EXPECT_EQ(bytes[at], 0);
  bytes[0] = 'x';
  EXPECT_EQ(bytes[0], 'x');
  EXPECT_EQ(*machine.system_pointer(PhysicalAddress{first.value * kPageBytes}, kPageBytes),
            std::byte{'k'});
}

TEST(CpuView, RefusesSizesThatAreNoPages) {
  EXPECT_EQ(CpuView::create(0).error(), Status::kInvalidParameter);
  EXPECT_EQ(CpuView::create(kPageBytes + 1).error(), Status::kInvalidParameter);
  EXPECT_EQ(CpuView::create(uint64_t{1} << 62).error(), Status::kNoMemory);
}

TEST(CpuViewDeathTest, IsInaccessibleUntilAimed) {
  const auto view = CpuView::create(kPageBytes).value();
  EXPECT_DEATH(*static_cast<volatile char*>(view->address()) = 1, "");
}

}  // namespace
}  // namespace dxgkit::bus
