// Spaces give back every block they took, and tables that stay the same take no more memory with
// each change. No number of theirs tells of memory that they no longer know, so the blocks of this
// program are counted where they are taken and given back.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "gpuva/address_space.h"
#include "gpuva/page_tables_plan_test.h"

namespace {

std::atomic<int64_t> g_blocks{0};
std::atomic<int64_t> g_bytes{0};

void* take(size_t size, size_t alignment) {
  // aligned_alloc wants whole multiples.
  void* const block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  ++g_blocks;
  g_bytes += static_cast<int64_t>(malloc_usable_size(block));
  return block;
}

void give_back(void* block) {
  if (block != nullptr) {
    --g_blocks;
    g_bytes -= static_cast<int64_t>(malloc_usable_size(block));
  }
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

TEST_F(PageTablesTest, ChangesOfTheSameTablesTakeNoMoreMemory) {
  // Over two leaves in two spans, so that everything a plan is drafted from is used.
  use(four_levels());
  const auto change = [&](uint64_t place) {
    pieces_.all = {{.span = {512 + 7, 20}, .source = run(place)},
                   {.span = {1024 + 3, 9}, .source = run(place + 99)}};
    const std::array<PageSpan, 2> changed{PageSpan{512, 100}, PageSpan{1024, 100}};
    PageTables::Draft draft = tables_->draft(changed, pieces_);
    plan_.clear();
    tables_->commit(std::move(draft), memory_->allocate(draft.needs(), 0), &plan_);
    return plan_.steps.size();
  };
  for (uint64_t i = 0; i < 4; ++i) ASSERT_GT(change(1000 * i), 2U);  // what is made once stays
  const int64_t before = g_bytes;
  for (uint64_t i = 0; i < 200; ++i) ASSERT_GT(change(1000 * i), 2U);
  EXPECT_EQ(g_bytes, before);
}

}  // namespace
}  // namespace dxgkit::gpuva
