#include "nt/heap.h"

#include <cstring>

namespace dxgkit::nt {
namespace {

/// What the heap maps at once. Larger blocks than a quarter of it are mapped by themselves.
constexpr uint64_t kChunkBytes = 256 * 1024;

}  // namespace

PoolHeap::~PoolHeap() {
  for (std::byte* const chunk : chunks_) pages_.unmap(chunk, kChunkBytes);
}

std::byte* PoolHeap::take(uint64_t bytes) {
  SpinGuard guard(lock_);
  if (const auto known = free_.find(bytes); known != free_.end() && !known->second.empty()) {
    std::byte* const block = known->second.back();
    known->second.pop_back();
    return block;
  }
  const bool whole_pages = bytes % kPageBytes == 0;
  const bool alone = bytes > kChunkBytes / 4;
  if (const uint64_t skip = whole_pages ? left_ % kPageBytes : 0; !alone && skip != 0) {
    next_ += skip;
    left_ -= skip;
  }
  if (alone || left_ < bytes) {
    std::byte* const memory = pages_.map(alone ? align_up(bytes, kPageBytes) : kChunkBytes);
    if (memory == nullptr || alone) return memory;
    next_ = memory;
    left_ = kChunkBytes;
    chunks_.push_back(next_);
  }
  std::byte* const block = next_;
  next_ += bytes;
  left_ -= bytes;
  return block;
}

void PoolHeap::give_back(std::byte* block, uint64_t bytes) {
  if (bytes > kChunkBytes / 4) return pages_.unmap(block, align_up(bytes, kPageBytes));
  SpinGuard guard(lock_);
  free_[bytes].push_back(block);
}

HeapBlock take_block(PoolHeap& heap, uint64_t bytes) {
  const uint64_t whole = align_up(bytes, uint64_t{16});
  std::byte* const block = heap.take(whole);
  if (block != nullptr) std::memset(block, 0, whole);
  return HeapBlock(block, HeapDelete{&heap, whole});
}

}  // namespace dxgkit::nt
