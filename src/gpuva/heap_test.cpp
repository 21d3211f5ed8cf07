// Spaces give back every block they took, and tables that stay the same take no more memory with
// each change. No number of theirs tells of memory that they no longer know, so the blocks of this
// program are counted where they are taken and given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "gpuva/address_space.h"
#include "gpuva/page_tables_plan_test.h"

namespace {

std::atomic<int64_t> g_blocks{0};
std::atomic<int64_t> g_bytes{0};

/// In front of each block.
struct Header {
  void* start;
  size_t bytes;  // asked for
};

void* take(size_t size, size_t alignment) {
  alignment = std::max(alignment, sizeof(Header));
  // aligned_alloc wants whole multiples.
  void* const start =
      std::aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment);
  if (start == nullptr) throw std::bad_alloc();
  ++g_blocks;
  g_bytes += static_cast<int64_t>(size);
  std::byte* const block = static_cast<std::byte*>(start) + alignment;
  new (block - sizeof(Header)) Header{start, size};
  return block;
}

void give_back(void* block) {
  if (block == nullptr) return;
  const Header header = *(static_cast<Header*>(block) - 1);
  --g_blocks;
  g_bytes -= static_cast<int64_t>(header.bytes);
  std::free(header.start);
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

TEST(AddressSpaceMemory, BytesAreWhatTheHeapGave) {
  const int64_t none = g_bytes;
  AddressSpace space({.end = uint64_t{1} << 46, .first = 4 * kPageBytes});
  uint64_t sequence = 0;
  int64_t others = 0;  // bytes of what this test itself keeps
  const auto look = [&](const char* when) {
    const int64_t taken = g_bytes - none - others;
    EXPECT_EQ(static_cast<int64_t>(space.bytes() - space.outside_heap()), taken) << when;
  };
  const auto map = [&](uint64_t page, uint64_t pages, uint64_t allocation, uint64_t offset) {
    space.apply({.mapping = {.span = {page, pages},
                             .allocation = AllocationId{allocation},
                             .offset_pages = offset,
                             .protection = {.write = offset % 2 != 0}},
                 .sequence = ++sequence},
                nullptr);
  };
  look("empty");
  for (uint64_t i = 0; i < 5; ++i) map(uint64_t{1} << (16 + 3 * i), 3, 1, 10 * i);
  look("a few of one allocation, far apart");
  for (uint64_t i = 0; i < 3000; ++i) map(0x1000 + 2 * i, 1, 2 + i % 700, i);
  look("many of many");
  std::vector<MapOperation> claimed;
  for (uint64_t i = 0; i < 40; ++i) {
    MapRequest request;
    request.size_pages = 1 + i % 3;
    request.allocation = AllocationId{900 + i};
    request.allocation_pages = 4;
    request.driver_protection = i % 5;
    const Result<MapOperation> operation = space.claim(request, ++sequence);
    ASSERT_TRUE(operation.has_value());
    claimed.push_back(*operation);
  }
  others = static_cast<int64_t>(claimed.capacity() * sizeof(MapOperation));
  look("claimed");
  for (const MapOperation& operation : claimed) space.apply(operation, nullptr);
  look("and mapped");
  for (uint64_t i = 0; i < 2000; ++i) {
    space.apply({.mapping = {.span = {0x1000 + 2 * i, 1}, .protection = {.no_access = true}},
                 .sequence = ++sequence},
                nullptr);
  }
  look("most of it is gone");
  for (uint64_t i = 0; i < 31 * 31 * 600; ++i) map(0x10'0000 + 2 * i, 1, 3, 7);
  EXPECT_GT(space.outside_heap(), 0U);
  look("more than small pages are for");
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
