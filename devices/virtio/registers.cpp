#include "devices/virtio/registers.h"

#include <array>
#include <cstring>

#include "base/arithmetic.h"
#include "devices/virtio/virtio_hw.h"

namespace dxgkit::virtio {
namespace {

/// Replaces one half, or all, of a register of 64 bits.
void put(uint64_t* whole, uint64_t at, uint32_t bytes, uint64_t value) {
  if (bytes == 8 && at == 0) {
    *whole = value;
  } else if (bytes == 4 && at % 4 == 0) {
    const uint64_t shift = 8 * at;
    *whole = (*whole & ~(uint64_t{UINT32_MAX} << shift)) | (value & UINT32_MAX) << shift;
  }
}

}  // namespace

Registers::Registers(uint64_t features, std::vector<uint16_t> queue_sizes, uint16_t vectors)
    : offered_(features), vectors_(vectors) {
  for (const uint16_t size : queue_sizes) queues_.push_back({.layout = {}, .size_most = size});
  reset();
}

void Registers::reset() {
  device_select_ = driver_select_ = 0;
  negotiated_ = 0;
  config_vector_ = VIRTIO_NO_VECTOR;
  status_ = 0;
  queue_select_ = 0;
  error_.clear();
  for (QueueRegisters& queue : queues_) {
    queue = {.layout = {.size = queue.size_most}, .size_most = queue.size_most};
  }
}

void Registers::set_broken(std::string why) {
  if ((status_ & VIRTIO_STATUS_NEEDS_RESET) != 0) return;
  status_ |= VIRTIO_STATUS_NEEDS_RESET;
  error_ = std::move(why);
}

bool Registers::is_broken_in_use() const {
  constexpr uint8_t kBoth = VIRTIO_STATUS_DRIVER_OK | VIRTIO_STATUS_NEEDS_RESET;
  return (status_ & kBoth) == kBoth;
}

bool Registers::is_running() const {
  return (status_ & (VIRTIO_STATUS_DRIVER_OK | VIRTIO_STATUS_NEEDS_RESET)) ==
         VIRTIO_STATUS_DRIVER_OK;
}

QueueFeatures Registers::queue_features() const {
  return {.indirect = has(VIRTIO_F_INDIRECT_DESC), .event_index = has(VIRTIO_F_EVENT_IDX)};
}

uint64_t Registers::read(uint64_t offset, uint32_t bytes) const {
  std::array<std::byte, VIRTIO_COMMON_BYTES> all{};
  const auto set = [&all](uint32_t at, auto value) {
    std::memcpy(all.data() + at, &value, sizeof value);
  };
  const auto half = [](uint64_t bits, uint32_t select) {
    return select > 1 ? uint32_t{0} : static_cast<uint32_t>(bits >> (32 * select));
  };
  set(VIRTIO_COMMON_DEVICE_FEATURE_SELECT, device_select_);
  set(VIRTIO_COMMON_DEVICE_FEATURE, half(offered_, device_select_));
  set(VIRTIO_COMMON_DRIVER_FEATURE_SELECT, driver_select_);
  set(VIRTIO_COMMON_DRIVER_FEATURE, half(negotiated_, driver_select_));
  set(VIRTIO_COMMON_CONFIG_VECTOR, config_vector_);
  set(VIRTIO_COMMON_QUEUE_COUNT, static_cast<uint16_t>(queues_.size()));
  set(VIRTIO_COMMON_STATUS, status_);
  set(VIRTIO_COMMON_GENERATION, generation_);
  set(VIRTIO_COMMON_QUEUE_SELECT, queue_select_);
  if (queue_select_ < queues_.size()) {  // of another queue the size is 0: it does not exist
    const QueueRegisters& queue = queues_[queue_select_];
    set(VIRTIO_COMMON_QUEUE_SIZE, queue.layout.size);
    set(VIRTIO_COMMON_QUEUE_VECTOR, queue.vector);
    set(VIRTIO_COMMON_QUEUE_ENABLE, static_cast<uint16_t>(queue.enabled));
    set(VIRTIO_COMMON_QUEUE_NOTIFY, queue_select_);
    set(VIRTIO_COMMON_QUEUE_DESC, queue.layout.descriptors);
    set(VIRTIO_COMMON_QUEUE_DRIVER, queue.layout.driver);
    set(VIRTIO_COMMON_QUEUE_DEVICE, queue.layout.device);
  }
  uint64_t value = 0;
  if (bytes > sizeof value || !range_within(offset, bytes, all.size())) return UINT64_MAX;
  std::memcpy(&value, all.data() + offset, bytes);
  return value;
}

uint16_t Registers::checked_vector(uint64_t value) const {
  return value < vectors_ ? static_cast<uint16_t>(value) : uint16_t{VIRTIO_NO_VECTOR};
}

Effect Registers::write(uint64_t offset, uint32_t bytes, uint64_t value) {
  if (offset == VIRTIO_COMMON_STATUS) {
    return bytes == 1 ? write_status(static_cast<uint8_t>(value)) : Effect::kNone;
  }
  if (offset >= VIRTIO_COMMON_QUEUE_SIZE) return write_queue(offset, bytes, value);
  if (bytes == 4) {
    const auto word = static_cast<uint32_t>(value);
    if (offset == VIRTIO_COMMON_DEVICE_FEATURE_SELECT) device_select_ = word;
    if (offset == VIRTIO_COMMON_DRIVER_FEATURE_SELECT) driver_select_ = word;
    // What was agreed upon does not change any more.
    if (offset == VIRTIO_COMMON_DRIVER_FEATURE && driver_select_ < 2 &&
        (status_ & VIRTIO_STATUS_FEATURES_OK) == 0)
      put(&negotiated_, uint64_t{4} * driver_select_, 4, word);
  } else if (bytes == 2) {
    if (offset == VIRTIO_COMMON_QUEUE_SELECT) queue_select_ = static_cast<uint16_t>(value);
    if (offset == VIRTIO_COMMON_CONFIG_VECTOR) config_vector_ = checked_vector(value);
  }
  return Effect::kNone;
}

Effect Registers::write_status(uint8_t value) {
  if (value == 0) {
    reset();
    return Effect::kReset;
  }
  // A driver only adds bits. FEATURES_OK stays away if the device cannot do what the driver wants:
  // that is how it says no. Without it there is no DRIVER_OK.
  uint8_t added =
      value & (VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_DRIVER_OK |
               VIRTIO_STATUS_FEATURES_OK | VIRTIO_STATUS_FAILED);
  constexpr uint64_t kVersion = uint64_t{1} << VIRTIO_F_VERSION_1,
                     kPlatform = uint64_t{1} << VIRTIO_F_ACCESS_PLATFORM;
  const uint64_t needed = offered_ & (kVersion | kPlatform);
  if ((negotiated_ & ~offered_) != 0 || (needed & ~negotiated_) != 0)
    added &= static_cast<uint8_t>(~VIRTIO_STATUS_FEATURES_OK);
  if (((status_ | added) & VIRTIO_STATUS_FEATURES_OK) == 0)
    added &= static_cast<uint8_t>(~VIRTIO_STATUS_DRIVER_OK);
  const bool was_running = is_running();
  constexpr uint8_t kKnown = VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER;
  if ((added & ~status_ & VIRTIO_STATUS_FEATURES_OK) != 0 && (status_ & kKnown) != kKnown)
    note_misuse("FEATURES_OK is set before ACKNOWLEDGE and DRIVER are");
  if ((value & VIRTIO_STATUS_DRIVER_OK) != 0 && (status_ & VIRTIO_STATUS_FEATURES_OK) == 0)
    note_misuse("DRIVER_OK is set without FEATURES_OK");
  status_ |= added;
  return !was_running && is_running() ? Effect::kRun : Effect::kNone;
}

void Registers::note_misuse(const char* what) {
  if (misuses_.size() < kMisusesMost) misuses_.emplace_back(what);
}

Effect Registers::write_queue(uint64_t offset, uint32_t bytes, uint64_t value) {
  if (queue_select_ >= queues_.size()) return Effect::kNone;
  QueueRegisters& queue = queues_[queue_select_];
  if (bytes == 2 && offset == VIRTIO_COMMON_QUEUE_VECTOR) {
    queue.vector = checked_vector(value);
    return Effect::kNone;
  }
  if (queue.enabled) return Effect::kNone;  // until the next reset
  if (bytes == 2 && offset == VIRTIO_COMMON_QUEUE_SIZE) {
    queue.layout.size = static_cast<uint16_t>(value);
  } else if (bytes == 2 && offset == VIRTIO_COMMON_QUEUE_ENABLE && value == 1) {
    if (auto why = layout_error(queue.layout, queue.size_most); why.has_value()) {
      set_broken("queue " + std::to_string(queue_select_) + ": " + *why);
      return Effect::kBroken;
    }
    queue.enabled = true;
  } else if (offset >= VIRTIO_COMMON_QUEUE_DESC && offset < VIRTIO_COMMON_BYTES) {
    uint64_t* const areas[] = {&queue.layout.descriptors, &queue.layout.driver,
                               &queue.layout.device};
    put(areas[(offset - VIRTIO_COMMON_QUEUE_DESC) / 8], offset % 8, bytes, value);
  }
  return Effect::kNone;
}

}  // namespace dxgkit::virtio
