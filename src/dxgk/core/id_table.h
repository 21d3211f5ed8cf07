// Objects by id, where an id carries its slot: finding one is an index, ids are never reused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/id_slot.h"
#include "base/slab.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's. `T` has a member `id` of type `Id` and a `recycle()`. Objects do not move.
template <typename T, typename Id>
class IdTable {
 public:
  T& create() {
    uint32_t slot = 0;
    if (free_.empty()) {
      slot = made_++;
      DXGKIT_CHECK(slot >> kIdSlotBits == 0);
      slots_.grow_to(made_);
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    T& object = slots_[slot];
    object.id = Id{++sequence_ << kIdSlotBits | slot};
    return object;
  }
  T& at(Id id) {
    DXGKIT_CHECK(contains(id));
    return slots_[slot_of(id)];
  }
  /// False for an id whose object is gone.
  bool contains(Id id) const { return slot_of(id) < made_ && slots_[slot_of(id)].id == id; }
  void destroy(T& object) {
    const uint32_t slot = slot_of(object.id);
    object.recycle();
    free_.push_back(slot);
  }
  size_t live() const { return made_ - free_.size(); }

 private:
  Slab<T> slots_;
  uint32_t made_ = 0;
  std::vector<uint32_t> free_;
  uint64_t sequence_ = 0;
};

}  // namespace dxgkit::dxgk
