// What one device wants in memory: a counted list, and whether all of it is there.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <unordered_map>
#include <vector>

#include "vidmm/memory_manager.h"

namespace dxgkit::vidmm {

/// Lane: the adapter's. The list is held or not: held means that every allocation on it has its
/// place and is pinned there by the list, so that work of the device needs one look, not one per
/// allocation. Whoever needs the memory more lets an idle list go (`release`): its allocations stay
/// where they are until the memory manager picks them as victims, and `hold` brings all of them
/// back.
class ResidencySet {
 public:
  explicit ResidencySet(MemoryManager& memory) : memory_(memory) {}
  ResidencySet(const ResidencySet&) = delete;
  ResidencySet& operator=(const ResidencySet&) = delete;

  /// One more reason to be on the list. True: it was not on it. A list that was held is not any
  /// more until `hold` has brought this one in, too.
  bool add(AllocationId id);
  /// One reason less (CHECKed: it had one). True: it is off the list and not pinned by it.
  bool remove(AllocationId id);
  bool contains(AllocationId id) const { return slots_.contains(id.value); }
  size_t size() const { return entries_.size(); }
  AllocationId at(size_t index) const { return entries_[index].id; }

  bool held() const { return pinned_ == entries_.size(); }
  /// Something of the list is pinned, maybe all.
  bool holds_any() const { return pinned_ != 0; }

  struct Held {
    std::vector<PagingOp> operations;  // to be executed before the device's work
    bool must_wait = false;            // these, or what others have under way for the same ones
    size_t first = 0;                  // entries from here on were pinned by this call
  };
  /// Places and pins all that is not pinned yet. All or nothing; kGraphicsAllocationBusy,
  /// kGraphicsNoVideoMemory as MemoryManager::make_resident. What is pinned here counts as written
  /// from then on, because nobody tells what the GPU does (RES-15). Cost: O(1) when held, else as
  /// make_resident for those that are not.
  std::expected<Held, Status> hold();
  /// Unpins all. `used`: the device worked since it was held, so that each counts as used now, in
  /// list order. Cost: O(list).
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
