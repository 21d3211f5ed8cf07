// Registers and ports of the hardware, one call for each access.
#pragma once

#include <atomic>
#include <cstdint>

#include "bus/function.h"
#include "devices/vfio/hardware.h"

namespace dxgkit::vfio {

/// One BAR that is not mapped. Each access is checked against the size that the device has, is made
/// by Linux, and is a marker in the trace. An access of 8 bytes is made as two of 4 bytes, as older
/// versions of Linux do it.
class Registers final : public bus::MmioHandler {
 public:
  /// @param gone  true: the device has left; reads give ones, and writes are dropped
  Registers(const Hardware& hardware, uint32_t slot, const std::atomic<bool>& gone)
      : hardware_(hardware), slot_(slot), gone_(gone) {}
  uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) override;
  void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) override;

 private:
  const Hardware& hardware_;
  const uint32_t slot_;
  const std::atomic<bool>& gone_;
};

}  // namespace dxgkit::vfio
