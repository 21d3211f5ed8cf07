// A device as VFIO shows it: regions, interrupts, reset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices/vfio/kernel.h"

namespace dxgkit::vfio {

inline constexpr uint32_t kBarSlots = 6;

/// A stretch of the device's descriptor: a BAR, or configuration space.
struct Region {
  uint64_t offset = 0, bytes = 0;  // 0 bytes: there is none
  bool mappable = false;           // as a whole, from page to page
};

/// Interrupts of one kind, by VFIO's index.
struct Interrupts {
  uint32_t count = 0;  // 0: the device has none of the kind
  bool masks_itself = false;
};

/// The descriptor of a device and what it can do. Any thread, but set_trigger: one at a time.
class Hardware {
 public:
  /// Asks for everything and checks it; owns the descriptor from now on, also after an error. The
  /// error is one sentence without a full stop.
  static std::expected<std::unique_ptr<Hardware>, std::string> create(
      std::shared_ptr<Kernel> kernel, int descriptor);
  ~Hardware();
  Hardware(const Hardware&) = delete;
  Hardware& operator=(const Hardware&) = delete;

  int descriptor() const { return descriptor_; }
  const Region& bar(uint32_t slot) const { return bars_[slot]; }
  const Interrupts& interrupts(uint32_t index) const { return interrupts_[index]; }
  bool can_reset() const { return can_reset_; }

  /// Reads or writes all of a stretch of a region. False: it lies outside, or the device does not
  /// answer.
  bool read(const Region& region, uint64_t offset, std::span<std::byte> out) const;
  bool write(const Region& region, uint64_t offset, std::span<const std::byte> in) const;
  /// Configuration space: 256 or 4096 bytes.
  const Region& config() const { return config_; }

  /// Resets the function. False: Linux refused.
  bool reset();
  /// Signals `event` for the first interrupt of a kind; -1: no event, and the interrupts of the
  /// kind are off.
  Answer<void> set_trigger(uint32_t index, int event);
  /// Lets INTx through again, which masks itself each time.
  void unmask(uint32_t index);

 private:
  Hardware(std::shared_ptr<Kernel> kernel, int descriptor)
      : kernel_(std::move(kernel)), descriptor_(descriptor) {}
  std::expected<void, std::string> ask();
  std::expected<Region, std::string> ask_region(uint32_t index);
  Answer<void> set_interrupts(uint32_t flags, uint32_t index, uint32_t count,
                              std::optional<int> event);

  const std::shared_ptr<Kernel> kernel_;
  const int descriptor_;
  bool can_reset_ = false;
  std::array<Region, kBarSlots> bars_{};
  Region config_;
  std::array<Interrupts, 5> interrupts_{};
};

}  // namespace dxgkit::vfio
