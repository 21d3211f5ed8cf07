// Objects by id, where an id carries its slot: finding one is an index, ids are never reused.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's. `T` has a member `id` of type `Id` and a `recycle()`.
template <typename T, typename Id>
class IdTable {
 public:
  T& create() {
    uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slots_.size());
      DXGKIT_CHECK(slot <= kSlotMask);
      slots_.push_back(std::make_unique<T>());
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    T& object = *slots_[slot];
    object.id = Id{++sequence_ << kSlotBits | slot};
    return object;
  }
  T& at(Id id) {
    T& object = *slots_[id.value & kSlotMask];
    DXGKIT_CHECK(object.id == id);
    return object;
  }
  /// False for an id whose object is gone.
  bool contains(Id id) const {
    const auto slot = static_cast<size_t>(id.value & kSlotMask);
    return slot < slots_.size() && slots_[slot]->id == id;
  }
  void destroy(T& object) {
    const auto slot = static_cast<uint32_t>(object.id.value & kSlotMask);
    object.recycle();
    free_.push_back(slot);
  }
  size_t live() const { return slots_.size() - free_.size(); }

 private:
  static constexpr uint32_t kSlotBits = 22;
  static constexpr uint64_t kSlotMask = (1U << kSlotBits) - 1;
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<uint32_t> free_;
  uint64_t sequence_ = 0;
};

}  // namespace dxgkit::dxgk
