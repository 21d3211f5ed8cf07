// The residency list of one device: a counted list, and whether all of it is in memory.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <unordered_map>
#include <vector>

#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {

/// Lane: the adapter's. The list is held or not. In a held list every allocation has its place and
/// is pinned there by the list. So work of the device needs one look, not one per allocation. If
/// other work needs the memory more, the hold on an idle list is released (`release`). Its
/// allocations then stay where they are until the memory manager picks them as victims, and `hold`
/// brings all of them back.
class ResidencySet {
 public:
  explicit ResidencySet(MemoryManager& memory) : memory_(memory) {}
  ResidencySet(const ResidencySet&) = delete;
  ResidencySet& operator=(const ResidencySet&) = delete;

  /// Adds one more reference to an allocation. True: it was not on the list. The list is then no
  /// longer held until `hold` has brought this allocation in, too.
  bool add(AllocationId id);
  /// Drops one reference (CHECKed: there is one). True: the allocation is off the list and the list
  /// no longer pins it.
  bool remove(AllocationId id);
  bool contains(AllocationId id) const { return slots_.contains(id.value); }
  size_t size() const { return entries_.size(); }
  AllocationId at(size_t index) const { return entries_[index].id; }

  bool held() const { return pinned_ == entries_.size(); }
  /// True if allocations of the list are pinned, maybe all.
  bool holds_any() const { return pinned_ != 0; }

  struct Held {
    std::vector<PagingOp> operations;  // to be executed before the device's work
    // Wait for these operations, or for other operations on the same allocations.
    bool must_wait = false;
    size_t first = 0;  // entries from here on were pinned by this call
  };
  /// Places and pins all entries that are not pinned yet. All or nothing; kGraphicsAllocationBusy,
  /// kGraphicsNoVideoMemory as MemoryManager::make_resident. An allocation pinned here counts as
  /// written from then on, because nothing tells what the GPU writes (RES-15). Cost: O(1) when
  /// held, else as make_resident for the entries that are not.
  std::expected<Held, Status> hold();
  /// Unpins all entries. `used`: the device worked since the list was held, so each entry counts as
  /// used now, in list order. Cost: O(list).
  void release(bool used);

 private:
  struct Entry {
    AllocationId id;
    uint32_t reasons = 0;
  };
  void swap_entries(size_t a, size_t b);

  MemoryManager& memory_;
  std::vector<Entry> entries_;  // the first pinned_ of them are pinned
  size_t pinned_ = 0;
  std::unordered_map<uint64_t, size_t> slots_;  // looked up only, never iterated
};

}  // namespace dxgkit::vidmm
