#include "nt/paged.h"

#include <sys/mman.h>

#include <span>

#include "base/arithmetic.h"
#include "base/fixed_memory.h"

namespace dxgkit::nt {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{1} << 30;   // of address space
constexpr uint64_t kPageWrite = 2, kPageFetch = 16;  // bits of a page fault's error code

/// The pageable memory of all kernels, because a fault may come on a thread that has no frame. A
/// place is taken by its key. Its memory is made before the key is published.
struct Place {
  std::atomic<const Kernel*> kernel{nullptr};
  std::atomic<PagedMemory*> memory{nullptr};
};
std::array<Place, 256> g_places;
/// Places that were ever taken: the rest need no look.
std::atomic<size_t> g_places_used{0};

std::span<Place> places() { return std::span(g_places).first(g_places_used.load()); }

}  // namespace

std::atomic<uint32_t> g_paged_in{0};

void make_paged_memory(Kernel& kernel) {
  if (!kernel.config().catch_faults) return;
  for (size_t i = 0; i < g_places.size(); ++i) {
    Place& place = g_places[i];
    const Kernel* none = nullptr;
    if (!place.kernel.compare_exchange_strong(none, &kernel)) continue;
    size_t used = g_places_used.load();
    while (used <= i && !g_places_used.compare_exchange_weak(used, i + 1)) {
    }
    place.memory.store(new PagedMemory(), std::memory_order_release);
    return;
  }
}

void end_paged_memory(Kernel& kernel) {
  for (Place& place : places()) {
    if (place.kernel.load() != &kernel) continue;
    delete place.memory.exchange(nullptr);
    place.kernel.store(nullptr);
  }
}

PagedMemory* paged_memory(const Kernel& kernel) {
  for (const Place& place : places()) {
    if (place.kernel.load(std::memory_order_relaxed) == &kernel)
      return place.memory.load(std::memory_order_acquire);
  }
  return nullptr;
}

void page_out_memory_of(const Kernel& kernel) {
  if (PagedMemory* const memory = paged_memory(kernel); memory != nullptr) memory->page_out();
}

void add_pageable_section(Kernel& kernel, const void* start, uint64_t bytes, int protection) {
  if (PagedMemory* const memory = paged_memory(kernel); memory != nullptr)
    memory->add_section(start, bytes, protection);
}

PagedMemory::~PagedMemory() {
  if (in_.load()) g_paged_in.fetch_sub(1);
  if (ranges_[0].start.load() != 0)
    unmap_fixed(reinterpret_cast<void*>(ranges_[0].start.load()), kPoolBytes);
}

void PagedMemory::add_section(const void* start, uint64_t bytes, int protection) {
  for (size_t i = 1; i < kRangesMax; ++i) {
    Range& range = ranges_[i];
    if (range.bytes.load() != 0) continue;
    range.protection = protection;
    range.start.store(reinterpret_cast<uint64_t>(start));
    range.bytes.store(align_up(bytes, kPageBytes));
    mark_in();
    return;
  }  // more are not watched
}

void PagedMemory::remove_sections(const void* start, uint64_t bytes) {
  const auto first = reinterpret_cast<uint64_t>(start);
  for (size_t i = 1; i < kRangesMax; ++i) {
    Range& range = ranges_[i];
    if (range.bytes.load() == 0 || range.start.load() - first >= bytes) continue;
    protect(i, range.protection);  // the code that unmaps it may read it
    range.bytes.store(0);
  }
}

void PagedMemory::hold_sections(bool held) {
  if (held) {
    holds_.fetch_add(1);
    page_in();
    return;
  }
  // A driver that unlocks more often than it locks changes nothing.
  uint32_t seen = holds_.load();
  while (seen != 0 && !holds_.compare_exchange_weak(seen, seen - 1)) {
  }
  mark_in();  // sections locked at the last rise are still accessible
}

std::byte* PagedMemory::take(uint64_t page_count) {
  if (const auto known = free_.find(page_count); known != free_.end() && !known->second.empty()) {
    std::byte* const first = known->second.back();
    known->second.pop_back();
    return first;
  }
  Range& pool = ranges_[0];
  if (pool.start.load() == 0) {
    void* const memory = map_fixed(FixedRange::kMemory, kPoolBytes, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (memory == MAP_FAILED) return nullptr;
    pool.protection = PROT_READ | PROT_WRITE;
    pool.start.store(reinterpret_cast<uint64_t>(memory));
  }
  const uint64_t used = pool.bytes.load();
  if (page_count > (kPoolBytes - used) / kPageBytes) return nullptr;
  // Inaccessible at first: the caller's first touch brings it in.
  pool.bytes.store(used + page_count * kPageBytes);
  return reinterpret_cast<std::byte*>(pool.start.load() + used);
}

void PagedMemory::give_back(std::byte* first, uint64_t page_count) {
  free_[page_count].push_back(first);
}

bool PagedMemory::is_pool(const void* address) const {
  return reinterpret_cast<uint64_t>(address) - ranges_[0].start.load() < ranges_[0].bytes.load();
}

void PagedMemory::protect(size_t index, int protection) {
  const uint64_t bytes = ranges_[index].bytes.load();
  if (bytes != 0) mprotect(reinterpret_cast<void*>(ranges_[index].start.load()), bytes, protection);
}

void PagedMemory::mark_in() {
  if (!in_.exchange(true)) g_paged_in.fetch_add(1);
}

void PagedMemory::page_out() {
  if (!in_.load(std::memory_order_relaxed) || !in_.exchange(false)) return;
  g_paged_in.fetch_sub(1);
  for (size_t i = 0; i < kRangesMax; ++i) {
    if (!held(i)) protect(i, PROT_NONE);
  }
}

void PagedMemory::page_in() {
  mark_in();
  for (size_t i = 0; i < kRangesMax; ++i) protect(i, ranges_[i].protection);
}

PagedMemory* PagedMemory::find(uint64_t address, uint64_t error) {
  const int wanted = (error & kPageFetch) != 0   ? PROT_EXEC
                     : (error & kPageWrite) != 0 ? PROT_WRITE
                                                 : PROT_READ;
  for (const Place& place : places()) {
    PagedMemory* const memory = place.memory.load(std::memory_order_acquire);
    if (memory == nullptr) continue;
    for (const Range& range : memory->ranges_) {
      if (address - range.start.load() >= range.bytes.load()) continue;
      return (range.protection & wanted) != 0 ? memory : nullptr;
    }
  }
  return nullptr;
}

}  // namespace dxgkit::nt
