// A list that is nearly always short.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace dxgkit {

/// Holds up to `N` elements without the heap, and any number with it. For local variables: it
/// cannot be moved. Elements are plain values.
template <typename T, size_t N>
class ShortVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ShortVector() = default;
  ShortVector(const ShortVector&) = delete;
  ShortVector& operator=(const ShortVector&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= N ? few_.data() : many_.data(); }
  const T* data() const { return size_ <= N ? few_.data() : many_.data(); }
  /// New elements are T{}. Grows only.
  void resize(size_t size) {
    if (size > N) {
      if (size_ <= N) many_.assign(few_.begin(), few_.begin() + static_cast<std::ptrdiff_t>(size_));
      many_.resize(size);
    }
    size_ = size;
  }
  void push_back(const T& element) {
    resize(size_ + 1);
    data()[size_ - 1] = element;
  }
  operator std::span<const T>() const { return {data(), size_}; }  // NOLINT: a view, as vector's

 private:
  std::array<T, N> few_{};
  std::vector<T> many_;  // holds all elements once they do not fit into the array
  size_t size_ = 0;
};

}  // namespace dxgkit
