// From virtual to physical addresses: the walk through page tables, and the translation cache of
// each engine.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "devices/softgpu/address_space.h"
#include "devices/softgpu/softgpu_hw.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu {

/// The page tables of a ring entry, from the entry's fields.
struct VirtualSpace {
  uint64_t root = 0;  // GPU physical, page aligned
  uint32_t root_entries = 0;
  bool four_levels = false;

  uint32_t levels() const { return four_levels ? 4 : 2; }
  uint32_t address_bits() const { return four_levels ? SGPU_VA_BITS_4 : SGPU_VA_BITS_2; }
  /// True if a ring entry may name such tables. The content of the tables is not checked.
  bool is_sound() const;
};

/// The end of one walk: SGPU_FAULT_NONE and the leaf entry, or the fault.
struct Walk {
  Fault fault;
  uint64_t leaf = 0;  // with VALID, for the 4 KiB page; may be a ZERO entry of a higher level
};

/// Page table walks and one translation cache per node. Thread-safe.
///
/// A translation stays cached until it is flushed, its node is reset, or another translation
/// replaces it. Page tables that change without a flush go unnoticed, as on hardware. Entries that
/// do not translate are not cached.
///
/// An engine that resolved addresses keeps host pointers until release(). A flush waits for that,
/// before the old pages may be given to another owner.
class Mmu {
 public:
  /// @param memory  must outlive it.
  Mmu(runtime::Runtime& runtime, AddressSpace& memory);
  Mmu(const Mmu&) = delete;

  /// Resolves virtual [address, address + size) for node `node` on its engine's thread. The result
  /// is valid until release(). Size 0 gives an empty range at any address. On a fault `out` is
  /// empty. ZERO pages read as zeros, and writes to them are dropped. Cost: one cache look-up per
  /// page, and a walk of up to four loads on a miss.
  Fault resolve(uint32_t node, const VirtualSpace& space, uint64_t address, uint64_t size,
                Access access, Range& out);
  /// The engine of `node` has no pointers left. Cheap if it had none.
  void release(uint32_t node);

  /// The translation by the present tables, without any cache. Any thread.
  Walk walk(const VirtualSpace& space, uint64_t address) const;

  /// The use of each engine; the value changes when the engine releases.
  using Uses = std::array<uint32_t, SGPU_NODE_COUNT>;
  /// Drops cached translations of `root` (0: any) for [start, end) (both 0: all), on every node.
  Uses flush(uint64_t root, uint64_t start, uint64_t end);
  /// True if `node` may still hold a pointer from before the flush that returned `uses`.
  bool still_uses(uint32_t node, const Uses& uses) const {
    return uses[node] % 2 == 1 && units_[node].use.load(std::memory_order_seq_cst) == uses[node];
  }
  /// Blocks while still_uses() and while `bell` holds `bell_expected`; may return early.
  void wait_for_release(uint32_t node, const Uses& uses, const std::atomic<uint32_t>& bell,
                        uint32_t bell_expected);

  /// The node was reset: empties its cache.
  void forget(uint32_t node);
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  void lose_power() { misses_.store(0, std::memory_order_relaxed); }

  static constexpr uint32_t kSets = 64;
  static constexpr uint32_t kWays = 4;

 private:
  struct Translation {
    uint64_t root = 0;
    uint64_t page = 0;
    uint64_t leaf = 0;  // 0: empty
    bool four_levels = false;
  };
  struct Unit {
    runtime::Mutex mutex;  // leaf; never held while waiting
    std::array<std::array<Translation, kWays>, kSets> sets DXGKIT_GUARDED_BY(mutex);
    std::array<uint8_t, kSets> next_way DXGKIT_GUARDED_BY(mutex) = {};  // the next to be replaced
    std::atomic<uint32_t> use{0};  // odd: the engine holds pointers
    std::unique_ptr<std::byte[]> sink;
  };

  Fault translate(Unit& unit, const VirtualSpace& space, uint64_t address, uint64_t* leaf)
      DXGKIT_REQUIRES(unit.mutex);

  runtime::Runtime& runtime_;
  AddressSpace& memory_;
  std::array<Unit, SGPU_NODE_COUNT> units_;
  std::unique_ptr<std::byte[]> zeros_;
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint32_t> waiters_{0};  // threads in wait_for_release
};

}  // namespace dxgkit::softgpu
