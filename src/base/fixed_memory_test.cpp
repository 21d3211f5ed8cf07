// Addresses of map_fixed: the same in every process, the lowest that is free, and never another's.
#include "base/fixed_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "base/arithmetic.h"

namespace dxgkit {
namespace {

void* map(FixedRange range, uint64_t bytes) {
  return map_fixed(range, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

std::string addresses() {
  char text[128];
  void* const image = map(FixedRange::kImages, 3 * kPageBytes);
  void* const stack = map(FixedRange::kStacks, kPageBytes);
  void* const memory = map(FixedRange::kMemory, 100 * kPageBytes);
  void* const list = map(FixedRange::kLists, kPageBytes);
  std::snprintf(text, sizeof(text), "%p %p %p %p", image, stack, memory, list);
  unmap_fixed(image, 3 * kPageBytes);
  unmap_fixed(stack, kPageBytes);
  unmap_fixed(memory, 100 * kPageBytes);
  unmap_fixed(list, kPageBytes);
  return text;
}

TEST(FixedMemory, IsAtTheSameAddressesInAnotherProcess) {
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
  const std::string command = "DXGKIT_PRINT_ADDRESSES=1 '" + std::string(self) +
                              "' --gtest_filter=FixedMemory.PrintsAddresses";
  FILE* const child = popen(command.c_str(), "r");
  ASSERT_NE(child, nullptr);
  std::string said;
  for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) said += static_cast<char>(c);
  ASSERT_EQ(pclose(child), 0);
  EXPECT_NE(said.find("addresses: " + addresses() + "\n"), std::string::npos) << said;
}

/// The other process of the test above.
TEST(FixedMemory, PrintsAddresses) {
  if (std::getenv("DXGKIT_PRINT_ADDRESSES") == nullptr) return;
  std::printf("addresses: %s\n", addresses().c_str());
}

TEST(FixedMemory, IsAtTheLowestFreeAddress) {
  auto* const first = static_cast<char*>(map(FixedRange::kMemory, kPageBytes));
  void* const second = map(FixedRange::kMemory, kPageBytes);
  EXPECT_EQ(second, first + 2 * kPageBytes);  // a page lies between them
  unmap_fixed(first, kPageBytes);
  void* const larger = map(FixedRange::kMemory, 2 * kPageBytes);
  EXPECT_EQ(larger, first + 4 * kPageBytes);
  void* const again = map(FixedRange::kMemory, kPageBytes);
  EXPECT_EQ(again, first);
  unmap_fixed(again, kPageBytes);
  unmap_fixed(second, kPageBytes);
  unmap_fixed(larger, 2 * kPageBytes);
}

TEST(FixedMemory, GoesAroundAnothersMemory) {
  auto* const first = static_cast<char*>(map(FixedRange::kMemory, kPageBytes));
  unmap_fixed(first, kPageBytes);
  void* const anothers = mmap(first, kPageBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(anothers, first);
  *static_cast<char*>(anothers) = 'x';
  void* const second = map(FixedRange::kMemory, kPageBytes);
  EXPECT_EQ(second, first + 2 * kPageBytes);
  std::memset(second, 0, kPageBytes);
  EXPECT_EQ(*static_cast<char*>(anothers), 'x');
  unmap_fixed(second, kPageBytes);
  munmap(anothers, kPageBytes);
}

TEST(FixedMemory, SaysWhatTheSystemRefuses) {
  EXPECT_EQ(map_fixed(FixedRange::kMemory, kPageBytes, PROT_READ, MAP_SHARED, -1), MAP_FAILED);
}

TEST(FixedMemory, IsElsewhereIfThereIsNoRoom) {
  // More than there is for images, and less than ThreadSanitizer leaves in one piece.
  constexpr uint64_t kBytes = uint64_t{600} << 30;
  void* const memory = map_fixed(FixedRange::kImages, kBytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  ASSERT_NE(memory, MAP_FAILED);
  unmap_fixed(memory, kBytes);
}

}  // namespace
}  // namespace dxgkit
