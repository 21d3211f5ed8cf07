#include "devices/virtio/msix.h"

#include <cstring>

#include "base/check.h"

namespace dxgkit::virtio {
namespace {

constexpr uint64_t kEntryBytes = 16;
constexpr size_t kVectorsMost = 64;  // the pending bits are one word

}  // namespace

MsixTable::MsixTable(uint16_t messages, std::function<void()> rung)
    : messages_(messages), rung_(std::move(rung)), entries_(messages) {
  DXGKIT_CHECK(messages <= kVectorsMost);
}

bool MsixTable::is_masked(const Entry& entry) const {
  return (control_.load(std::memory_order_acquire) & kMaskAll) != 0 || (entry.control & 1) != 0;
}

uint64_t MsixTable::mmio_read(uint64_t offset, uint32_t size_bytes) {
  // Software may use words and pairs of words only.
  if ((size_bytes != 4 && size_bytes != 8) || offset % size_bytes != 0) return UINT64_MAX;
  const runtime::MutexLock lock(mutex_);
  uint64_t value = 0;
  if (offset >= kPendingOffset) {
    if (offset < kPendingOffset + 8) value = pending_ >> (8 * (offset % 8));
    return value;
  }
  const uint64_t index = offset / kEntryBytes;
  if (index >= entries_.size()) return 0;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(&entries_[index]) + offset % kEntryBytes,
              size_bytes);
  return value;
}

void MsixTable::mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) {
  static_assert(sizeof(Entry) == kEntryBytes);
  if ((size_bytes != 4 && size_bytes != 8) || offset % size_bytes != 0) return;
  {
    const runtime::MutexLock lock(mutex_);
    const uint64_t index = offset / kEntryBytes;
    if (index >= entries_.size()) return;
    std::memcpy(reinterpret_cast<std::byte*>(&entries_[index]) + offset % kEntryBytes, &value,
                size_bytes);
    entries_[index].control &= 1;
  }
  rung_();
}

bus::PciCapability MsixTable::capability(uint32_t bar) const {
  bus::PciCapability capability =
      bus::msix_capability(messages_, bar, 0, bar, static_cast<uint32_t>(kPendingOffset));
  capability.writable.assign(2, std::byte{0});
  capability.writable[1] = std::byte{(kEnable | kMaskAll) >> 8};
  return capability;
}

void MsixTable::set_control(uint16_t control) {
  control_.store(control, std::memory_order_release);
  rung_();
}

std::optional<Message> MsixTable::send(uint16_t vector) {
  const runtime::MutexLock lock(mutex_);
  if (vector >= entries_.size()) return std::nullopt;
  const Entry& entry = entries_[vector];
  if (!is_masked(entry)) return Message{entry.address, entry.data};
  pending_ |= uint64_t{1} << vector;
  return std::nullopt;
}

std::optional<Message> MsixTable::take_pending() {
  if (!is_enabled()) return std::nullopt;
  const runtime::MutexLock lock(mutex_);
  for (size_t vector = 0; vector < entries_.size(); ++vector) {
    const uint64_t bit = uint64_t{1} << vector;
    if ((pending_ & bit) == 0 || is_masked(entries_[vector])) continue;
    pending_ &= ~bit;
    return Message{entries_[vector].address, entries_[vector].data};
  }
  return std::nullopt;
}

void MsixTable::reset() {
  control_.store(0, std::memory_order_release);
  const runtime::MutexLock lock(mutex_);
  for (Entry& entry : entries_) entry = {};
  pending_ = 0;
}

}  // namespace dxgkit::virtio
