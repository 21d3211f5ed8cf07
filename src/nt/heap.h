// Memory of what drivers see by address: their pool, and the kernel's objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "base/spin_lock.h"
#include "nt/pool_pages.h"

namespace dxgkit::nt {

/// Memory for blocks of any size, side by side, at addresses that only depend on the requests: a
/// driver that prints a pointer prints the same in each run of a seed. Any thread; no scheduling
/// point.
class PoolHeap {
 public:
  /// `pages` outlives it.
  explicit PoolHeap(PoolPages& pages) : pages_(pages) {}
  ~PoolHeap();
  PoolHeap(const PoolHeap&) = delete;
  PoolHeap& operator=(const PoolHeap&) = delete;
  /// `bytes`: a multiple of 16. Whole pages begin at a page, others at a multiple of 16. Null if
  /// there is no memory.
  std::byte* take(uint64_t bytes);
  /// What `take` returned for so many bytes.
  void give_back(std::byte* block, uint64_t bytes);

 private:
  PoolPages& pages_;
  SpinLock lock_;
  std::byte* next_ = nullptr;  // the rest of the last chunk
  uint64_t left_ = 0;
  std::vector<std::byte*> chunks_;
  std::map<uint64_t, std::vector<std::byte*>> free_;  // by size, last in first out
};

/// A block of the heap that goes back when its owner ends. The heap must live longer.
struct HeapDelete {
  PoolHeap* heap = nullptr;
  uint64_t bytes = 0;
  void operator()(std::byte* block) const { heap->give_back(block, bytes); }
};
using HeapBlock = std::unique_ptr<std::byte[], HeapDelete>;
/// Zeroed; `bytes` > 0 of any size. Null if there is no memory.
HeapBlock take_block(PoolHeap& heap, uint64_t bytes);

/// For containers and shared objects that drivers see. The heap must live longer than they do.
template <typename T>
struct HeapAllocator {
  using value_type = T;
  static_assert(alignof(T) <= 16);

  explicit HeapAllocator(PoolHeap& heap) : heap_(&heap) {}
  template <typename U>
  HeapAllocator(const HeapAllocator<U>& other) : heap_(other.heap_) {}
  T* allocate(size_t count) {
    std::byte* const block = heap_->take(align_up(count * sizeof(T), uint64_t{16}));
    if (block == nullptr) throw std::bad_alloc();
    return reinterpret_cast<T*>(block);
  }
  void deallocate(T* block, size_t count) {
    heap_->give_back(reinterpret_cast<std::byte*>(block),
                     align_up(count * sizeof(T), uint64_t{16}));
  }
  template <typename U>
  bool operator==(const HeapAllocator<U>& other) const {
    return heap_ == other.heap_;
  }

  PoolHeap* heap_;
};

/// An object that drivers see. The heap must live longer.
template <typename T, typename... A>
std::shared_ptr<T> make_in(PoolHeap& heap, A&&... arguments) {
  return std::allocate_shared<T>(HeapAllocator<T>(heap), std::forward<A>(arguments)...);
}

}  // namespace dxgkit::nt
