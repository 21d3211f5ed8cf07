// The table and the pending bits of MSI-X, in a BAR of their own (PCI Local Bus 3.0, 6.8.2).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bus/function.h"
#include "runtime/sync.h"

namespace dxgkit::virtio {

/// A write of four bytes that interrupts.
struct Message {
  uint64_t address = 0;
  uint32_t data = 0;
  bool operator==(const Message&) const = default;
};

/// Thread-safe. The lock is a leaf. Who owns it tells what configuration space says (set_control).
class MsixTable final : public bus::MmioHandler {
 public:
  static constexpr uint64_t kPendingOffset = 0x800, kBarBytes = 0x1000;
  static constexpr uint16_t kEnable = 0x8000, kMaskAll = 0x4000;  // of the control word

  /// @param rung  called after a register or control write that may have made a pending message
  ///              deliverable; with no lock held
  MsixTable(uint16_t messages, std::function<void()> rung);

  uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override;
  void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override;

  /// The capability with the writable bits of its control word.
  bus::PciCapability capability(uint32_t bar) const;
  void set_control(uint16_t control);
  bool is_enabled() const { return (control_.load(std::memory_order_acquire) & kEnable) != 0; }
  /// The message of a vector that has something to tell now; nullopt: it is masked, and pends.
  std::optional<Message> send(uint16_t vector);
  /// A pending message that is not masked any more, which then no longer pends.
  std::optional<Message> take_pending();
  void reset();

 private:
  struct Entry {
    uint64_t address = 0;
    uint32_t data = 0;
    uint32_t control = 1;  // masked
  };
  bool is_masked(const Entry& entry) const;

  const uint16_t messages_;
  const std::function<void()> rung_;
  std::atomic<uint16_t> control_{0};
  runtime::Mutex mutex_;
  std::vector<Entry> entries_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t pending_ DXGKIT_GUARDED_BY(mutex_) = 0;  // a bit per vector
};

}  // namespace dxgkit::virtio
