// Configuration space that a device model answers by itself, such as a capability through which
// software reaches a BAR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dxgkit::bus {

/// Implemented, beside MmioHandler, by the object behind the first BAR of a function that has one.
/// Called on the thread of the access, with no lock held; any thread, several at once. May use
/// PciFunction::config_read and config_write, which come back here.
class ConfigObserver {
 public:
  virtual ~ConfigObserver() = default;
  /// `out` is what software is about to get from [offset, offset + out.size()); it may be changed.
  virtual void config_read(uint32_t offset, std::span<std::byte> out) = 0;
  /// Software has written `in` there. Bits that it may not write have kept their value.
  virtual void config_written(uint32_t offset, std::span<const std::byte> in) = 0;
};

}  // namespace dxgkit::bus
