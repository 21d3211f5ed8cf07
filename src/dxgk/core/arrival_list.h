// Members of something, in the order of their arrival, which leave at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dxgkit::dxgk {

/// Pointers to objects that have a member `uint32_t arrival`, which the list owns; an object is on
/// one list at most. Coming and leaving are amortised O(1), however many there are. Iterate with
/// `for (T* member : list.all())`.
template <typename T>
class ArrivalList {
 public:
  void push_back(T* member) {
    member->arrival = static_cast<uint32_t>(places_.size());
    places_.push_back(member);
    ++size_;
  }
  /// Ignores who is not on it.
  void erase(T* member) {
    if (member->arrival >= places_.size() || places_[member->arrival] != member) return;
    places_[member->arrival] = nullptr;
    --size_;
    if (places_.size() >= kFewest && size_ < places_.size() / 2) close_gaps();
  }
  size_t size() const { return size_; }
  class Iterator {
   public:
    Iterator(T* const* place, T* const* end) : place_(place), end_(end) { skip(); }
    T* operator*() const { return *place_; }
    Iterator& operator++() {
      ++place_;
      skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    void skip() {
      while (place_ != end_ && *place_ == nullptr) ++place_;
    }
    T* const* place_;
    T* const* end_;
  };
  Iterator begin() const { return {places_.data(), places_.data() + places_.size()}; }
  Iterator end() const {
    return {places_.data() + places_.size(), places_.data() + places_.size()};
  }
  bool empty() const { return size_ == 0; }
  std::vector<T*> all() const {
    std::vector<T*> members;
    members.reserve(size_);
    for (T* member : *this) members.push_back(member);
    return members;
  }

 private:
  static constexpr size_t kFewest = 16;
  void close_gaps() {
    std::vector<T*> kept = all();
    for (uint32_t i = 0; i < kept.size(); ++i) kept[i]->arrival = i;
    places_.swap(kept);
  }
  std::vector<T*> places_;  // null: left
  size_t size_ = 0;
};

}  // namespace dxgkit::dxgk
