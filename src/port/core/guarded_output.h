// Finds what a driver writes outside an output buffer, on calls that are not on a packet's way.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace dxgkit::port {

struct PortCore;

/// A copy of a buffer between guard bytes. The driver gets the copy, so that a write outside it
/// damages nothing but the guards. `finish` tells what was damaged and copies the rest back.
///
/// Cost: one allocation, two copies of the buffer, about a kilobyte filled and compared. Thread:
/// the one that calls the DDI.
class GuardedOutput {
 public:
  /// @param bytes  the buffer as it is before the call; null: the driver gets null, too
  explicit GuardedOutput(std::span<const std::byte> bytes);
  /// For an array or a structure of the ABI.
  template <typename T>
  static GuardedOutput of(std::span<T> elements) {
    return GuardedOutput(std::as_bytes(elements));
  }

  /// 16-byte aligned, with as many bytes.
  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

  /// After the call: copies back what the driver changed inside. False: it wrote outside, which was
  /// reported (NT-33).
  /// @param what  the parameter, with the element or type that tells it from others
  bool finish(PortCore& core, const char* ddi_name, const std::string& what);

 private:
  std::span<const std::byte> target_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_ = nullptr;
};

}  // namespace dxgkit::port
