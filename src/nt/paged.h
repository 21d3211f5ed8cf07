// Memory that Windows may page out. It becomes inaccessible whenever a thread reaches
// DISPATCH_LEVEL (IRQL-13).
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
/// It works like Windows' verifier. The rise to DISPATCH_LEVEL makes all of this memory
/// inaccessible, and the first access makes all of it accessible again. An access by driver code at
/// that level is a bug check (0xD1). An access below that level, or by host code, goes on. Pages
/// have no owner thread. So while one thread is at DISPATCH_LEVEL, another may make them
/// accessible; then a wrong access of the first is not seen. A right access is never reported.
///
/// Cost of a rise: one load if all of it is inaccessible already, else a system call per range.
/// Cost of the first access after it: a signal and as many system calls.
class PagedMemory {
 public:
  PagedMemory() = default;
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  /// A section of an image, whole pages, with its PROT_* bits. Not while the driver runs.
  void add_section(const void* start, uint64_t bytes, int protection);
  /// Removes the sections inside [start, start + bytes). Not while the driver runs.
  void remove_sections(const void* start, uint64_t bytes);
  /// MmLockPagable...: makes sections stay resident, or pageable again. Any thread, at most
  /// APC_LEVEL.
  void hold_sections(bool held);

  /// Pages of pool, readable and writable below DISPATCH_LEVEL; null if there are none left. Under
  /// the lock of the pool.
  std::byte* take(uint64_t page_count);
  void give_back(std::byte* first, uint64_t page_count);
  bool is_pool(const void* address) const;

  /// The calling thread has reached DISPATCH_LEVEL.
  void page_out();
  /// Signal-safe. Finds the owner of `address` if it is pageable memory of any kernel, and its
  /// protection allows this access (bits of a page fault's error code). Null otherwise.
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

/// A kernel's pageable memory, for the life of the kernel. Null if there are more kernels than
/// places, or without KernelConfig::catch_faults: then no memory is paged out.
void make_paged_memory(Kernel& kernel);
void end_paged_memory(Kernel& kernel);
PagedMemory* paged_memory(const Kernel& kernel);

/// Adds a section of an image whose name says that Windows may page it out; see
/// PagedMemory::add_section. Removed with the image.
void add_pageable_section(Kernel& kernel, const void* start, uint64_t bytes, int protection);

/// The number of all objects with memory that may be accessible.
extern std::atomic<uint32_t> g_paged_in;
void page_out_memory_of(const Kernel& kernel);
/// The calling thread continues at `irql`.
inline void at_level(const Kernel& kernel, Irql irql) {
  if (irql >= kDispatchLevel && g_paged_in.load(std::memory_order_relaxed) != 0) [[unlikely]]
    page_out_memory_of(kernel);
}

}  // namespace dxgkit::nt
