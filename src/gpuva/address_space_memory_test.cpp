// A space gives back every block it took. No number of the space tells of a block that the space
// no longer knows, so the blocks of this program are counted where they are taken and given back.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "gpuva/address_space.h"

namespace {

std::atomic<int64_t> g_blocks{0};

void* take(size_t size, size_t alignment) {
  // aligned_alloc wants whole multiples.
  void* const block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  ++g_blocks;
  return block;
}

void give_back(void* block) {
  if (block != nullptr) --g_blocks;
  std::free(block);
}

}  // namespace

// The other forms of new and delete end in these.
void* operator new(size_t size) { return take(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t size, std::align_val_t alignment) {
  return take(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete(void* block, size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { give_back(block); }

namespace dxgkit::gpuva {
namespace {

TEST(AddressSpaceMemory, AllOfItIsGivenBack) {
  const auto use = [] {
    const int64_t before = g_blocks;
    AddressSpace space({.end = uint64_t{1} << 40});
    for (uint64_t i = 0; i < 200; ++i) {
      space.apply({.mapping = {.span = {2 * i, 1},
                               .allocation = AllocationId{1 + i % 3},
                               .offset_pages = 10 * i},
                   .sequence = 1},
                  nullptr);
    }
    const int64_t taken = g_blocks - before;
    return space.mapping_count(AllocationId{1}) == 67 ? taken : 0;
  };
  EXPECT_GT(use(), 0);  // what is made once stays
  const int64_t before = g_blocks;
  for (int i = 0; i < 10; ++i) EXPECT_GT(use(), 0);
  EXPECT_EQ(g_blocks, before);
}

}  // namespace
}  // namespace dxgkit::gpuva
