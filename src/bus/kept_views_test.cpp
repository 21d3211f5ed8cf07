#include "bus/kept_views.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "bus/machine.h"

namespace dxgkit::bus {
namespace {

std::byte* memory_of(Machine& machine, PageFrame frame) {
  return machine.system_pointer(PhysicalAddress{frame.value * kPageBytes}, kPageBytes);
}

// Content that is looked at again is shown by the same view, with the bytes of now.
TEST(KeptViews, ShowTheSameWindowsAgain) {
  Machine machine(1 << 20);
  const auto pages = machine.allocate_pages(3).value();
  const auto windows = machine.windows_of(std::span(pages).first(2));
  KeptViews kept;
  auto view = kept.show(windows).value();
  auto* const address = static_cast<std::byte*>(view->address());
  EXPECT_EQ(view->size(), 2 * kPageBytes);
  address[0] = std::byte{1};
  EXPECT_EQ(*memory_of(machine, pages[0]), std::byte{1});
  kept.keep(std::move(view), windows, 1);
  EXPECT_EQ(kept.count(), 1U);

  std::memset(memory_of(machine, pages[1]), 7, kPageBytes);
  const auto other = kept.show(machine.windows_of(std::span(pages).last(2))).value();
  EXPECT_NE(other->address(), address);
  view = kept.show(windows).value();
  EXPECT_EQ(view->address(), address);
  EXPECT_EQ(address[kPageBytes], std::byte{7});
  EXPECT_EQ(kept.count(), 0U);
  // It is in use: a second one is another.
  EXPECT_NE(kept.show(windows).value()->address(), address);
}

TEST(KeptViewsDeathTest, EndWhenTheyAreCleared) {
  Machine machine(1 << 20);
  const auto windows = machine.windows_of(machine.allocate_pages(1).value());
  KeptViews kept;
  auto view = kept.show(windows).value();
  auto* const address = static_cast<volatile char*>(view->address());
  kept.keep(std::move(view), windows, 1);
  EXPECT_EQ(*address, 0);
  kept.clear();
  EXPECT_DEATH(static_cast<void>(*address), "");
}

TEST(KeptViewsDeathTest, EndWithWhatLiesThere) {
  Machine machine(1 << 20);
  KeptViews kept;
  std::vector<volatile char*> addresses;
  for (const uint64_t owner : {1U, 2U, 1U}) {
    const auto windows = machine.windows_of(machine.allocate_pages(1).value());
    auto view = kept.show(windows).value();
    addresses.push_back(static_cast<volatile char*>(view->address()));
    kept.keep(std::move(view), windows, owner);
  }
  kept.drop(1);
  EXPECT_EQ(kept.count(), 1U);
  EXPECT_EQ(*addresses[1], 0);
  EXPECT_DEATH(static_cast<void>(*addresses[0]), "");
  EXPECT_DEATH(static_cast<void>(*addresses[2]), "");
  kept.drop(2);
  EXPECT_EQ(kept.count(), 0U);
}

TEST(KeptViews, RefuseWhatAViewRefuses) {
  Machine machine(1 << 20);
  KeptViews kept;
  const auto windows = machine.windows_of(machine.allocate_pages(1).value());
  kept.keep(kept.show(windows).value(), windows, 1);
  MemoryWindow odd = windows[0];
  odd.size += 1;
  EXPECT_EQ(kept.show(std::span(&odd, 1)).error(), Status::kInvalidParameter);
  EXPECT_EQ(kept.show({}).error(), Status::kInvalidParameter);
  EXPECT_EQ(kept.count(), 1U);
}

// A window that the system does not map: the kept ones go first, and then the call is refused.
TEST(KeptViews, GoBeforeACallIsRefusedForWantOfMappings) {
  Machine machine(1 << 20);
  KeptViews kept;
  const auto windows = machine.windows_of(machine.allocate_pages(1).value());
  kept.keep(kept.show(windows).value(), windows, 1);
  const MemoryWindow closed{1 << 20, 0, kPageBytes};
  EXPECT_EQ(kept.show(std::span(&closed, 1)).error(), Status::kNoMemory);
  EXPECT_EQ(kept.count(), 0U);
}

// Address space is bounded: the view that was kept first goes first.
TEST(KeptViews, AreBounded) {
  Machine machine(8 << 20);
  constexpr size_t kViews = KeptViews::kViewsMost + 10;
  const PageFrame first = machine.allocate_contiguous(kViews).value();
  std::vector<std::vector<MemoryWindow>> windows;
  std::vector<void*> addresses;
  KeptViews kept;
  for (size_t i = 0; i < kViews; ++i) {
    windows.push_back(machine.windows_of(std::vector{PageFrame{first.value + i}}));
    auto view = kept.show(windows.back()).value();
    addresses.push_back(view->address());
    kept.keep(std::move(view), windows.back(), 1);
  }
  EXPECT_EQ(kept.count(), KeptViews::kViewsMost);
  EXPECT_EQ(kept.show(windows[10]).value()->address(), addresses[10]);
  EXPECT_EQ(kept.count(), KeptViews::kViewsMost - 1);
  static_cast<void>(kept.show(windows[9]).value());  // made anew
  EXPECT_EQ(kept.count(), KeptViews::kViewsMost - 1);
}

}  // namespace
}  // namespace dxgkit::bus
