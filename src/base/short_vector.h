// A list that is nearly always short.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace dxgkit {

/// Holds up to `N` elements without the heap, and any number with it. For local variables: it
/// cannot be moved. The few are made with it, so let T{} be cheap.
template <typename T, size_t N>
class ShortVector {
  static_assert(std::is_default_constructible_v<T> && std::is_nothrow_move_constructible_v<T>);

 public:
  ShortVector() = default;
  explicit ShortVector(size_t size) { resize(size); }
  ShortVector(const ShortVector&) = delete;
  ShortVector& operator=(const ShortVector&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= N ? few_.data() : many_.data(); }
  const T* data() const { return size_ <= N ? few_.data() : many_.data(); }
  /// New elements are T{}. Grows only.
  void resize(size_t size) {
    if (size > N) {
      if (size_ <= N) {
        many_.reserve(size);
        for (size_t i = 0; i < size_; ++i) many_.push_back(std::move(few_[i]));
      }
      many_.resize(size);
    }
    size_ = size;
  }
  void push_back(T element) {
    resize(size_ + 1);
    data()[size_ - 1] = std::move(element);
  }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  std::array<T, N> few_{};
  std::vector<T> many_;  // holds all elements once they do not fit into the array
  size_t size_ = 0;
};

}  // namespace dxgkit
