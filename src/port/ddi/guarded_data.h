// Private data of user mode, on its way to the driver and back.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {

/// Lends a driver a copy of private data that it may write. Behind the copy lie bytes that it must
/// leave alone: user mode says how long the data is, so a driver that writes a whole structure
/// without looking at the size writes over what lies there.
class GuardedData {
 public:
  explicit GuardedData(std::span<std::byte> data) : data_(data) {
    if (data.empty()) return;  // the driver gets no pointer
    copy_.resize(data.size() + kGuardBytes);
    std::ranges::copy(data, copy_.begin());
    std::memset(copy_.data() + data.size(), kPoisonByte, kGuardBytes);
  }
  /// What the driver gets.
  std::span<std::byte> lent() { return std::span(copy_).first(data_.size()); }
  /// After the call: takes the driver's bytes over, and reports LIFE-24 if the guard has changed.
  void take_back(PortCore& core, const char* ddi) {
    std::copy_n(copy_.begin(), data_.size(), data_.begin());
    const std::span<const std::byte> guard = std::span(copy_).subspan(data_.size());
    const auto changed =
        std::ranges::find_if(guard, [](std::byte b) { return b != std::byte{kPoisonByte}; });
    if (changed == guard.end()) return;
    (void)core.violation(
        "LIFE-24", ddi,
        fmt::format("It wrote byte {} of private data that has {} bytes.",
                    data_.size() + static_cast<size_t>(changed - guard.begin()), data_.size()),
        "Private data is read and written inside the size that comes with it.",
        "Compare the size with the structure's before the pointer is used, and refuse less.",
        Status::kSuccess);
  }

 private:
  static constexpr size_t kGuardBytes = 256;
  std::span<std::byte> data_;
  std::vector<std::byte> copy_;
};

}  // namespace dxgkit::port
