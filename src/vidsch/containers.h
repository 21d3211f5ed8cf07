// The two containers of the scheduler's hot path: lists threaded through their members, and a table
// from id to pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace dxgkit::vidsch {

/// The part of a member that one list owns. Default: on no list.
template <typename T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
  bool listed = false;
};

/// A doubly linked list through `Link`. Owns nothing and allocates nothing; order is insertion
/// order.
template <typename T, ListLink<T> T::*Link>
class IntrusiveList {
 public:
  bool empty() const { return front_ == nullptr; }
  size_t size() const { return size_; }
  T* front() const { return front_; }
  T* back() const { return back_; }
  static T* next(const T* member) { return (member->*Link).next; }
  static T* previous(const T* member) { return (member->*Link).previous; }
  static bool listed(const T* member) { return (member->*Link).listed; }

  void push_back(T* member) { insert_after(back_, member); }
  void push_front(T* member) { insert_after(nullptr, member); }
  /// Null `position` means the front.
  void insert_after(T* position, T* member) {
    ListLink<T>& link = member->*Link;
    DXGKIT_CHECK(!link.listed);
    link.listed = true;
    link.previous = position;
    link.next = position == nullptr ? front_ : (position->*Link).next;
    (link.previous == nullptr ? front_ : (link.previous->*Link).next) = member;
    (link.next == nullptr ? back_ : (link.next->*Link).previous) = member;
    ++size_;
  }
  void erase(T* member) {
    ListLink<T>& link = member->*Link;
    DXGKIT_CHECK(link.listed);
    (link.previous == nullptr ? front_ : (link.previous->*Link).next) = link.next;
    (link.next == nullptr ? back_ : (link.next->*Link).previous) = link.previous;
    link = {};
    --size_;
  }
  T* pop_front() {
    T* member = front_;
    if (member != nullptr) erase(member);
    return member;
  }

 private:
  T* front_ = nullptr;
  T* back_ = nullptr;
  size_t size_ = 0;
};

/// A table from a 64-bit id to a pointer. Open addressing. It cannot be iterated, so hash order
/// decides nothing. Amortised O(1). Allocates only when it grows past its largest size so far.
template <typename T>
class IdTable {
 public:
  T* find(uint64_t id) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home(id);; i = (i + 1) & mask()) {
      if (slots_[i].value == nullptr) return nullptr;
      if (slots_[i].id == id) return slots_[i].value;
    }
  }
  /// Returns false, and changes nothing, if the id is present.
  bool insert(uint64_t id, T* value) {
    DXGKIT_CHECK(value != nullptr);
    if (find(id) != nullptr) return false;
    if ((count_ + 1) * 2 > slots_.size()) grow();
    place(id, value);
    ++count_;
    return true;
  }
  void erase(uint64_t id) {
    DXGKIT_CHECK(find(id) != nullptr);
    size_t hole = home(id);
    while (slots_[hole].id != id) hole = (hole + 1) & mask();
    // Close the gap: a later entry moves back if its home does not lie between the hole and itself.
    for (size_t i = (hole + 1) & mask(); slots_[i].value != nullptr; i = (i + 1) & mask()) {
      const size_t distance_from_home = (i - home(slots_[i].id)) & mask();
      if (distance_from_home >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = {};
    --count_;
  }
  size_t size() const { return count_; }

 private:
  struct Slot {
    uint64_t id = 0;
    T* value = nullptr;
  };
  size_t mask() const { return slots_.size() - 1; }
  size_t home(uint64_t id) const {
    return static_cast<size_t>((id * 0x9E3779B97F4A7C15ULL) >> 32) & mask();
  }
  void place(uint64_t id, T* value) {
    size_t i = home(id);
    while (slots_[i].value != nullptr) i = (i + 1) & mask();
    slots_[i] = {id, value};
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != nullptr) place(slot.id, slot.value);
    }
  }
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace dxgkit::vidsch
