// The page frames behind an allocation.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "bus/machine.h"

namespace dxgkit::dxgk {

/// A fixed list of page frames. Names them, does not own them. A list of one, of which there may be
/// a million, takes no heap.
class FrameList {
 public:
  FrameList() = default;
  explicit FrameList(std::span<const bus::PageFrame> frames) : count_(frames.size()) {
    if (count_ > 1) only_or_all_.value = std::bit_cast<uintptr_t>(new bus::PageFrame[count_]);
    std::ranges::copy(frames, data());
  }
  FrameList(FrameList&& other) noexcept
      : count_(std::exchange(other.count_, 0)), only_or_all_(other.only_or_all_) {}
  FrameList& operator=(FrameList&& other) noexcept {
    FrameList gone(std::move(other));
    std::swap(count_, gone.count_);
    std::swap(only_or_all_, gone.only_or_all_);
    return *this;
  }
  ~FrameList() {
    if (count_ > 1) delete[] data();
  }

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const bus::PageFrame* begin() const { return frames().data(); }
  const bus::PageFrame* end() const { return begin() + count_; }
  std::span<const bus::PageFrame> frames() const {
    return {const_cast<FrameList*>(this)->data(), count_};
  }
  /// The same as plain numbers, as MDLs want them.
  std::span<const uint64_t> numbers() const {
    static_assert(std::is_standard_layout_v<bus::PageFrame> && sizeof(bus::PageFrame) == 8);
    return {reinterpret_cast<const uint64_t*>(begin()), count_};
  }

 private:
  bus::PageFrame* data() {
    return count_ > 1 ? std::bit_cast<bus::PageFrame*>(uintptr_t{only_or_all_.value})
                      : &only_or_all_;
  }

  size_t count_ = 0;
  bus::PageFrame only_or_all_{};  // the only frame, or the address of all of them
};

}  // namespace dxgkit::dxgk
