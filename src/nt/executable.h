// Memory beside its image in which a driver may run code: executable pool and contiguous memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nt/kernel.h"

namespace dxgkit::nt {

/// The blocks in which the driver has run code. No lock: a signal handler looks.
class ExecutableBlocks {
 public:
  /// False: there is no room for another one.
  bool add(uint64_t start, uint64_t bytes);
  /// True: it was there.
  bool remove(uint64_t start);
  bool contains(uint64_t address) const;

 private:
  static constexpr size_t kMost = 256;
  struct Block {
    std::atomic<uint64_t> start{0}, bytes{0};
  };
  std::array<Block, kMost> blocks_;
  std::atomic<size_t> used_{0};  // of `blocks_`, from the first on; some of them are free again
};

/// The driver has jumped to `address`. If that is executable memory of its own, its pages become
/// executable, and the jump can be done again. Blocks are made so one by one and late, because
/// nearly no driver runs code there. Other blocks may lie in the same pages: code in those is not
/// seen as wrong.
bool allow_execution(Kernel& kernel, uint64_t address);
/// The block goes: its pages hold data again. `base` is where its memory begins.
void end_execution(Kernel& kernel, const void* base, uint64_t bytes);

}  // namespace dxgkit::nt
