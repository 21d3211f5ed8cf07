// Detects a driver's writes behind the DMA buffer or the private data that it was given.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "port/types.h"

namespace dxgkit::port {

/// Fills the bytes behind a range with a pattern; `damage()` tells what was written there since.
///
/// Cost: 64 bytes written, 64 compared. Thread: one call of a DDI that owns the buffer.
class WriteGuard {
 public:
  /// @param end  first byte behind the range, followed by kGuardBytes of ours; null: no check
  explicit WriteGuard(std::byte* end) : end_(end) {
    if (end_ != nullptr) std::memset(end_, kPattern, kGuardBytes);
  }
  struct Damage {
    uint32_t first = 0, last = 0;  // bytes behind the end, both included
    uint8_t value = 0;             // of the first
  };
  std::optional<Damage> damage() const {
    if (end_ == nullptr) return std::nullopt;
    const auto is_damaged = [](std::byte byte) { return byte != std::byte{kPattern}; };
    const std::byte* const first = std::find_if(end_, end_ + kGuardBytes, is_damaged);
    if (first == end_ + kGuardBytes) return std::nullopt;
    const std::byte* last = end_ + kGuardBytes - 1;
    while (!is_damaged(*last)) --last;
    return Damage{.first = static_cast<uint32_t>(first - end_),
                  .last = static_cast<uint32_t>(last - end_),
                  .value = std::to_integer<uint8_t>(*first)};
  }

 private:
  static constexpr int kPattern = 0xD7;
  std::byte* end_;
};

}  // namespace dxgkit::port
