#include "nt/executable.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/arithmetic.h"
#include "nt/kernel_impl.h"

namespace dxgkit::nt {
namespace {

void protect(uint64_t start, uint64_t bytes, int protection) {
  const uint64_t first = align_down(start, kPageBytes);
  static_cast<void>(mprotect(reinterpret_cast<void*>(first),
                             align_up(start + bytes, kPageBytes) - first, protection));
}

struct Block {
  uint64_t start = 0, bytes = 0;
};

/// The executable block with this address; without bytes: there is none. memory_lock is held.
Block find_block(const Kernel::Impl& state, uint64_t address) {
  const auto* const at = reinterpret_cast<const std::byte*>(address);
  if (auto next = state.pool.upper_bound(at); next != state.pool.begin()) {
    const auto& [memory, block] = *std::prev(next);
    if (block.executable && at < static_cast<const std::byte*>(memory) + block.bytes)
      return {reinterpret_cast<uint64_t>(block.base), block.base_bytes};
  }
  if (auto next = state.contiguous.upper_bound(at); next != state.contiguous.begin()) {
    const auto& [memory, block] = *std::prev(next);
    const Block found{reinterpret_cast<uint64_t>(memory), block.page_count * kPageBytes};
    if (address - found.start < found.bytes) return found;
  }
  return {};
}

}  // namespace

bool ExecutableBlocks::add(uint64_t start, uint64_t bytes) {
  for (size_t i = 0; i < kMost; ++i) {
    uint64_t free = 0;
    if (!blocks_[i].start.compare_exchange_strong(free, start)) continue;
    blocks_[i].bytes.store(bytes);
    size_t used = used_.load();
    while (used < i + 1 && !used_.compare_exchange_weak(used, i + 1)) {
    }
    return true;
  }
  return false;
}

bool ExecutableBlocks::remove(uint64_t start) {
  for (size_t i = 0; i < used_.load(); ++i) {
    if (blocks_[i].start.load() != start) continue;
    blocks_[i].bytes.store(0);
    blocks_[i].start.store(0);
    return true;
  }
  return false;
}

bool ExecutableBlocks::contains(uint64_t address) const {
  for (size_t i = 0; i < used_.load(); ++i) {
    if (address - blocks_[i].start.load() < blocks_[i].bytes.load()) return true;
  }
  return false;
}

bool allow_execution(Kernel& kernel, uint64_t address) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.memory_lock);
  const Block block = find_block(state, address);
  if (block.bytes == 0) return false;
  if (!state.executable.contains(address) && !state.executable.add(block.start, block.bytes))
    return false;
  protect(block.start, block.bytes, PROT_READ | PROT_WRITE | PROT_EXEC);
  return true;
}

void end_execution(Kernel& kernel, const void* base, uint64_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(base);
  if (kernel.impl().executable.remove(start)) protect(start, bytes, PROT_READ | PROT_WRITE);
}

}  // namespace dxgkit::nt
