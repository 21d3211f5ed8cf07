// From virtual to physical: the walk through page tables, and what each engine remembers of it.
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

/// The page tables of a ring entry, as its fields name them.
struct VirtualSpace {
  uint64_t root = 0;  // GPU physical, page aligned
  uint32_t root_entries = 0;
  bool four_levels = false;

  uint32_t levels() const { return four_levels ? 4 : 2; }
  uint32_t address_bits() const { return four_levels ? SGPU_VA_BITS_4 : SGPU_VA_BITS_2; }
  /// Whether a ring entry may name such tables at all. The tables themselves may still be anything.
  bool is_sound() const;
};

/// Where one walk ended: SGPU_FAULT_NONE and the leaf entry, or why not.
struct Walk {
  Fault fault;
  uint64_t leaf = 0;  // with VALID, of the 4 KiB; a ZERO entry at a higher level is one too
};

/// Page table walks and one translation cache per node. Thread-safe.
///
/// A translation is remembered until it is flushed, until its node is reset, or until others take
/// its place: page tables that change without a flush go unnoticed, as on hardware. Nothing is
/// remembered of entries that do not translate.
///
/// An engine that resolved addresses keeps host pointers until release(): who flushes waits for
/// that before the old pages may be given to somebody else.
class Mmu {
 public:
  /// `memory` outlives it.
  Mmu(runtime::Runtime& runtime, AddressSpace& memory);
  Mmu(const Mmu&) = delete;

  /// Resolves virtual [address, address + size) for node `node` on its engine's thread; the result
  /// holds until release(). Size 0 gives an empty range wherever it is. On a fault `out` is empty.
  /// ZERO pages read as zeros; what is written there goes nowhere and is not read back.
  /// Cost: one cache look-up per page, a walk of up to four loads where it misses.
  Fault resolve(uint32_t node, const VirtualSpace& space, uint64_t address, uint64_t size,
                Access access, Range& out);
  /// The engine of `node` has no pointers left. Cheap if it had none.
  void release(uint32_t node);

  /// What the tables say now, past every cache. Any thread.
  Walk walk(const VirtualSpace& space, uint64_t address) const;

  /// What each engine is doing: changes when it releases.
  using Uses = std::array<uint32_t, SGPU_NODE_COUNT>;
  /// Forgets translations of `root` (0: any) for [start, end) (both 0: all), on every node.
  Uses flush(uint64_t root, uint64_t start, uint64_t end);
  /// Whether `node` may still hold a pointer from before the flush that gave `uses`.
  bool still_uses(uint32_t node, const Uses& uses) const {
    return uses[node] % 2 == 1 && units_[node].use.load(std::memory_order_seq_cst) == uses[node];
  }
  /// Blocks while still_uses() and while `bell` holds `bell_expected`; may return early.
  void wait_for_release(uint32_t node, const Uses& uses, const std::atomic<uint32_t>& bell,
                        uint32_t bell_expected);

  /// The node was reset: it remembers nothing.
  void forget(uint32_t node);
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  void lose_power() { misses_.store(0, std::memory_order_relaxed); }

  static constexpr uint32_t kSets = 64;
  static constexpr uint32_t kWays = 4;

 private:
  struct Translation {
    uint64_t root = 0;
    uint64_t page = 0;
    uint64_t leaf = 0;  // 0: nothing here
    bool four_levels = false;
  };
  struct Unit {
    runtime::Mutex mutex;  // leaf; never held while waiting
    std::array<std::array<Translation, kWays>, kSets> sets DXGKIT_GUARDED_BY(mutex);
    std::array<uint8_t, kSets> next_way DXGKIT_GUARDED_BY(mutex) = {};  // to be replaced
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
  std::atomic<uint32_t> waiters_{0};  // in wait_for_release
};

}  // namespace dxgkit::softgpu
