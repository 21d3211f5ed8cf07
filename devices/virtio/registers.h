// The common configuration of a virtio device (virtio 1.2, 4.1.4.3): status, features, queues.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/virtio/virtqueue.h"

namespace dxgkit::virtio {

struct QueueRegisters {
  QueueLayout layout;
  uint16_t size_most = 0;
  uint16_t vector = 0xFFFF;
  bool enabled = false;
};

/// What the owner of the registers has to do after a write.
enum class Effect {
  kNone,
  kReset,   // the driver wrote 0 to the status; the registers are as at power-on already
  kRun,     // the driver is ready: queues are served from now on
  kBroken,  // `error()` says why; the status has NEEDS_RESET already
};

/// Registers without threads and without memory: the owner locks. Each access is of the width of
/// its field, or of half of one of 64 bits; reads may be narrower. Other writes are ignored.
class Registers {
 public:
  /// @param features  offered; VERSION_1 is among them. It and ACCESS_PLATFORM are needed: a driver
  /// that leaves an offered one away is refused.
  /// @param queue_sizes  by queue, the largest size: a power of two
  /// @param vectors  of MSI-X
  Registers(uint64_t features, std::vector<uint16_t> queue_sizes, uint16_t vectors);

  uint64_t read(uint64_t offset, uint32_t bytes) const;
  Effect write(uint64_t offset, uint32_t bytes, uint64_t value);

  /// Values as at power-on. The generation goes on.
  void reset();
  /// The device gives up. The first reason stays.
  void set_broken(std::string why);
  /// It did so under a driver that was ready, which hears of it by a configuration interrupt.
  bool is_broken_in_use() const;
  /// The device's own configuration has changed.
  void next_generation() { ++generation_; }

  bool is_running() const;  // ready, and not broken
  bool has(uint32_t feature) const { return (negotiated_ >> feature & 1) != 0; }
  QueueFeatures queue_features() const;
  const std::vector<QueueRegisters>& queues() const { return queues_; }
  uint16_t config_vector() const { return config_vector_; }
  const std::string& error() const { return error_; }
  /// Steps of the set-up (virtio 1.2, 3.1.1) that the driver has left out since the last call.
  std::vector<std::string> take_misuses() { return std::exchange(misuses_, {}); }

 private:
  static constexpr size_t kMisusesMost = 8;

  Effect write_status(uint8_t value);
  Effect write_queue(uint64_t offset, uint32_t bytes, uint64_t value);
  uint16_t checked_vector(uint64_t value) const;
  void note_misuse(const char* what);

  const uint64_t offered_;
  const uint16_t vectors_;
  std::vector<QueueRegisters> queues_;
  uint32_t device_select_ = 0, driver_select_ = 0;
  uint64_t negotiated_ = 0;
  uint16_t config_vector_ = 0xFFFF;
  uint8_t status_ = 0, generation_ = 0;
  uint16_t queue_select_ = 0;
  std::string error_;
  std::vector<std::string> misuses_;  // no more than kMisusesMost
};

}  // namespace dxgkit::virtio
