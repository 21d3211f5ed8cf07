// What Windows may page out, taken away whenever somebody reaches DISPATCH_LEVEL (IRQL-13).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nt/kernel.h"

namespace dxgkit::nt {

/// Paged pool and the pageable sections of driver images of one kernel.
///
/// As Windows' verifier does: the rise to DISPATCH_LEVEL makes all of it inaccessible, the first
/// touch brings all of it back. A touch by driver code at that level is a bug check (0xD1); below,
/// or by code of ours, it goes on. Pages have no owner thread, so while one thread is at
/// DISPATCH_LEVEL another may bring them back: then a touch of the first is not seen. Nobody is
/// blamed wrongly.
///
/// Cost of a rise: one load while all is out already, else a system call per range; of the first
/// touch after it: a signal and as many system calls.
class PagedMemory {
 public:
  PagedMemory() = default;
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  /// A section of an image, whole pages, with its PROT_* bits. Not while the driver runs.
  void add_section(const void* start, uint64_t bytes, int protection);
  /// Those inside [start, start + bytes). Not while the driver runs.
  void remove_sections(const void* start, uint64_t bytes);
  /// MmLockPagable...: sections stay from then on, or may go again. Any thread, at most APC_LEVEL.
  void hold_sections(bool held);

  /// Pages of pool, readable and writable below DISPATCH_LEVEL; null: none left. Under the lock of
  /// the pool.
  std::byte* take(uint64_t page_count);
  void give_back(std::byte* first, uint64_t page_count);
  bool is_pool(const void* address) const;

  /// The calling thread has reached DISPATCH_LEVEL.
  void page_out();
  /// Signal-safe. Whether `address` is pageable memory, of whatever kernel, that its protection
  /// allows to use so (bits of a page fault's error code), and whose; null: it is not.
  static PagedMemory* find(uint64_t address, uint64_t error);
  /// Signal-safe.
  void page_in();

 private:
  struct Range {
    std::atomic<uint64_t> start{0}, bytes{0};
    int protection = 0;
  };
  static constexpr size_t kRangesMax = 16;  // the first is the pool's
  bool held(size_t index) const { return index != 0 && holds_.load() != 0; }
  void mark_in();
  void protect(size_t index, int protection);

  std::array<Range, kRangesMax> ranges_;
  std::atomic<bool> in_{false};  // some of it may be accessible
  std::atomic<uint32_t> holds_{0};
  std::map<uint64_t, std::vector<std::byte*>> free_;  // by number of pages
};

/// Every kernel has one while it lives; with more kernels than there are places, or without
/// KernelConfig::catch_faults, null: nothing is paged out there.
void make_paged_memory(Kernel& kernel);
void end_paged_memory(Kernel& kernel);
PagedMemory* paged_memory(const Kernel& kernel);

/// A section of an image whose name says that Windows may page it out; see
/// PagedMemory::add_section. Removed with the image.
void add_pageable_section(Kernel& kernel, const void* start, uint64_t bytes, int protection);

/// How many of all have something that may be accessible.
extern std::atomic<uint32_t> g_paged_in;
void page_out_memory_of(const Kernel& kernel);
/// The calling thread goes on at `irql`.
inline void at_level(const Kernel& kernel, Irql irql) {
  if (irql >= kDispatchLevel && g_paged_in.load(std::memory_order_relaxed) != 0) [[unlikely]]
    page_out_memory_of(kernel);
}

}  // namespace dxgkit::nt
