// Records by allocation id. Private to the module.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/id_slot.h"
#include "base/slab.h"
#include "vidmm/segment.h"

namespace dxgkit::vidmm {

/// The slot in an allocation's id leads to its record. Records do not move while they live.
class RecordTable {
 public:
  /// The id must not be in use, nor another id with the same slot; CHECKed.
  Record& create(AllocationId id) {
    const uint32_t slot = slot_of(id);
    slab_.grow_to(size_t{slot} + 1);
    Record& record = slab_[slot];
    DXGKIT_CHECK(!record.live);
    record.live = true;
    record.id = id;
    ++live_;
    return record;
  }
  void destroy(Record& record) {
    record = Record();
    --live_;
  }
  /// Null if the allocation is destroyed or never existed.
  Record* find(AllocationId id) {
    const uint32_t slot = slot_of(id);
    if (slot >= slab_.size()) return nullptr;
    Record& record = slab_[slot];
    return record.live && record.id == id ? &record : nullptr;
  }
  const Record* find(AllocationId id) const { return const_cast<RecordTable*>(this)->find(id); }
  /// Converts between a record and its name in a RangeIndex.
  static uint32_t owner_of(const Record& record) { return slot_of(record.id) + 1; }
  Record& of_slot(uint32_t slot) { return slab_[slot]; }
  const Record& of_owner(uint32_t owner) const { return slab_[owner - 1]; }
  Record& of_owner(uint32_t owner) { return slab_[owner - 1]; }
  size_t live() const { return live_; }
  /// By slot.
  template <typename Visit>
  void for_each(Visit visit) {
    for (size_t slot = 0; slot < slab_.size(); ++slot) {
      if (slab_[slot].live) visit(slab_[slot]);
    }
  }

 private:
  Slab<Record> slab_;
  size_t live_ = 0;
};

}  // namespace dxgkit::vidmm
