#include "devices/softgpu/mmu.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace dxgkit::softgpu {

namespace {

constexpr uint32_t kIndexBits = 9;
constexpr uint64_t kIndexMask = SGPU_VA_TABLE_ENTRIES - 1;
constexpr uint32_t kPageShift = 12;
constexpr uint32_t kLargePageShift = 16;
constexpr uint32_t kDetailWhyShift = 8;
constexpr uint32_t kDetailLevelShift = 16;

Fault page_fault(uint64_t address, uint32_t why, uint32_t level) {
  return {SGPU_FAULT_PAGE, address, why << kDetailWhyShift | level << kDetailLevelShift};
}

/// The fault of memory behind a translation. An error of the memory itself stays one.
Fault behind(Fault physical, uint64_t address, uint32_t why, uint32_t level) {
  if (physical.reason == SGPU_FAULT_MEMORY) return physical;
  return page_fault(address, why, level);
}

/// Reserved bits, and bits without a meaning at that level.
bool is_malformed(uint64_t entry, uint32_t level) {
  if ((entry & ~(SGPU_PTE_FLAGS | SGPU_PTE_ADDRESS_MASK)) != 0) return true;
  if ((entry & SGPU_PTE_ZERO) != 0 && (entry & SGPU_PTE_ADDRESS_MASK) != 0) return true;
  if ((entry & SGPU_PTE_64K) != 0 && (level != 1 || (entry & SGPU_PTE_ZERO) != 0)) return true;
  constexpr uint64_t kOfLeaves = SGPU_PTE_READ_ONLY | SGPU_PTE_NO_EXECUTE | SGPU_PTE_COHERENT;
  return level > 0 && (entry & kOfLeaves) != 0;
}

/// Of a page of 64 KiB: the entry of the 4 KiB page in it that holds `address`.
uint64_t part_of(uint64_t entry, uint64_t address) {
  if ((entry & SGPU_PTE_ZERO) != 0) return entry;
  return entry | (address & (SGPU_LARGE_PAGE_BYTES - SGPU_PAGE_BYTES));
}

}  // namespace

bool VirtualSpace::is_sound() const {
  const uint32_t most = four_levels ? SGPU_VA_TABLE_ENTRIES : SGPU_VA_ROOT_ENTRIES_MAX_2;
  return (root & ~SGPU_PTE_ADDRESS_MASK) == 0 && root_entries <= most;
}

Mmu::Mmu(runtime::Runtime& runtime, AddressSpace& memory)
    : runtime_(runtime), memory_(memory), zeros_(std::make_unique<std::byte[]>(SGPU_PAGE_BYTES)) {
  for (Unit& unit : units_) unit.sink = std::make_unique<std::byte[]>(SGPU_PAGE_BYTES);
}

Walk Mmu::walk(const VirtualSpace& space, uint64_t address) const {
  uint32_t level = space.levels() - 1;
  const auto shift = [](uint32_t of_level) { return kPageShift + kIndexBits * of_level; };
  if (address >> space.address_bits() != 0) {
    return {page_fault(address, SGPU_PAGE_VA_WIDTH, level), 0};
  }
  uint64_t index = address >> shift(level);
  if (index >= space.root_entries) return {page_fault(address, SGPU_PAGE_ROOT_INDEX, level), 0};
  uint64_t table = space.root;
  bool large = false;  // the table is a leaf of pages of 64 KiB
  // Ends after as many loads as there are levels, wherever the entries lead.
  while (true) {
    std::byte* word = nullptr;
    if (const Fault bad = memory_.resolve_word(table + index * sizeof(uint64_t), sizeof(uint64_t),
                                               Access::kRead, &word)) {
      return {behind(bad, address, SGPU_PAGE_BAD_TABLE, level), 0};
    }
    // The CPU or the other engine may be writing it: whole entries, old or new.
    const uint64_t entry =
        __atomic_load_n(reinterpret_cast<const uint64_t*>(word), __ATOMIC_ACQUIRE);
    if ((entry & SGPU_PTE_VALID) == 0) {
      return {page_fault(address, SGPU_PAGE_NOT_VALID, level), 0};
    }
    if (is_malformed(entry, level) ||
        (large && (entry & (SGPU_LARGE_PAGE_BYTES - SGPU_PAGE_BYTES)) != 0)) {
      return {page_fault(address, SGPU_PAGE_BAD_ENTRY, level), 0};
    }
    if (large) return {{}, part_of(entry, address)};
    if (level == 0 || (entry & SGPU_PTE_ZERO) != 0) return {{}, entry};
    table = entry & SGPU_PTE_ADDRESS_MASK;
    --level;
    index = address >> shift(level) & kIndexMask;
    large = (entry & SGPU_PTE_64K) != 0;
    if (large) index >>= kLargePageShift - kPageShift;
  }
}

Fault Mmu::translate(Unit& unit, const VirtualSpace& space, uint64_t address, uint64_t* leaf) {
  const uint64_t page = address >> kPageShift;
  const size_t set = page % kSets;
  for (const Translation& one : unit.sets[set]) {
    if (one.leaf != 0 && one.page == page && one.root == space.root &&
        one.four_levels == space.four_levels) {
      *leaf = one.leaf;
      return {};
    }
  }
  misses_.fetch_add(1, std::memory_order_relaxed);
  const Walk walked = walk(space, address);
  if (walked.fault) return walked.fault;
  uint8_t& way = unit.next_way[set];
  unit.sets[set][way] = {space.root, page, walked.leaf, space.four_levels};
  way = static_cast<uint8_t>((way + 1) % kWays);
  *leaf = walked.leaf;
  return {};
}

Fault Mmu::resolve(uint32_t node, const VirtualSpace& space, uint64_t address, uint64_t size,
                   Access access, Range& out) {
  out.clear();
  if (size == 0) return {};
  const uint32_t top = space.levels() - 1;
  Unit& unit = units_[node];
  // Before the first read of the cache: see flush().
  if (unit.use.load(std::memory_order_relaxed) % 2 == 0) {
    unit.use.fetch_add(1, std::memory_order_seq_cst);
  }
  const auto fail = [&](Fault fault) {
    out.clear();
    if (fault.reason != SGPU_FAULT_PAGE) return fault;
    if (access == Access::kWrite) fault.detail |= SGPU_DETAIL_WRITE;
    if (access == Access::kFetch) fault.detail |= SGPU_DETAIL_FETCH;
    return fault;
  };
  const uint64_t limit = uint64_t{1} << space.address_bits();
  if (!range_within(address, size, limit)) {
    return fail(page_fault(std::max(address, limit), SGPU_PAGE_VA_WIDTH, top));
  }
  const uint64_t root_reach = uint64_t{space.root_entries} << (kPageShift + kIndexBits * top);

  const runtime::MutexLock lock(unit.mutex);
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end;) {
    const uint64_t in_page = at % SGPU_PAGE_BYTES;
    const uint64_t step = std::min<uint64_t>(SGPU_PAGE_BYTES - in_page, end - at);
    // A cached translation does not count for an address that the present root does not reach.
    if (at >= root_reach) return fail(page_fault(at, SGPU_PAGE_ROOT_INDEX, top));
    uint64_t leaf = 0;
    if (const Fault fault = translate(unit, space, at, &leaf)) return fail(fault);
    std::byte* pointer = nullptr;
    if ((leaf & SGPU_PTE_ZERO) != 0) {
      if (access == Access::kFetch) return fail(page_fault(at, SGPU_PAGE_NO_EXECUTE, 0));
      pointer = (access == Access::kWrite ? unit.sink : zeros_).get() + in_page;
    } else {
      if (access == Access::kWrite && (leaf & SGPU_PTE_READ_ONLY) != 0) {
        return fail(page_fault(at, SGPU_PAGE_READ_ONLY, 0));
      }
      if (access == Access::kFetch && (leaf & SGPU_PTE_NO_EXECUTE) != 0) {
        return fail(page_fault(at, SGPU_PAGE_NO_EXECUTE, 0));
      }
      const uint64_t physical = (leaf & SGPU_PTE_ADDRESS_MASK) + in_page;
      if (const Fault fault = memory_.resolve_in_page(physical, step, access, &pointer)) {
        return fail(behind(fault, at, SGPU_PAGE_BAD_ADDRESS, 0));
      }
    }
    out.append(pointer, step);
    at += step;
  }
  return {};
}

void Mmu::release(uint32_t node) {
  std::atomic<uint32_t>& use = units_[node].use;
  if (use.load(std::memory_order_relaxed) % 2 == 0) return;
  use.fetch_add(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) runtime_.wake_all(use);
}

void Mmu::wait_for_release(uint32_t node, const Uses& uses, const std::atomic<uint32_t>& bell,
                           uint32_t bell_expected) {
  const runtime::WaitReason reason(runtime_, "the other engine's use of old translations");
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (still_uses(node, uses)) {
    runtime_.wait_either(units_[node].use, uses[node], bell, bell_expected);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

Mmu::Uses Mmu::flush(uint64_t root, uint64_t start, uint64_t end) {
  const bool all = start == 0 && end == 0;
  const uint64_t first = start >> kPageShift;
  const uint64_t last = end >> kPageShift;
  Uses uses = {};
  for (uint32_t node = 0; node < SGPU_NODE_COUNT; ++node) {
    Unit& unit = units_[node];
    {
      const runtime::MutexLock lock(unit.mutex);
      for (auto& set : unit.sets) {
        for (Translation& one : set) {
          if (root != 0 && one.root != root) continue;
          if (all || (one.page >= first && one.page < last)) one = {};
        }
      }
    }
    // An engine that read before this marked itself before. An engine that reads after this finds
    // nothing.
    uses[node] = unit.use.load(std::memory_order_seq_cst);
  }
  return uses;
}

void Mmu::forget(uint32_t node) {
  Unit& unit = units_[node];
  const runtime::MutexLock lock(unit.mutex);
  for (auto& set : unit.sets) set = {};
}

}  // namespace dxgkit::softgpu
