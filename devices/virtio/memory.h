// The memory that a virtio device reaches by DMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace dxgkit::virtio {

/// Bus addresses as a device sees them. Any thread.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Copies between memory at `address` and the span. False: nothing moved, because part of the
  /// range is no memory, or the device is not on the bus any more.
  virtual bool read(uint64_t address, std::span<std::byte> to) = 0;
  virtual bool write(uint64_t address, std::span<const std::byte> from) = 0;

  template <typename T>
  bool load(uint64_t address, T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return read(address, std::as_writable_bytes(std::span(value, 1)));
  }
  template <typename T>
  bool store(uint64_t address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(address, std::as_bytes(std::span(&value, 1)));
  }
};

}  // namespace dxgkit::virtio
