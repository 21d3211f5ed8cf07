// Accesses of a device to memory that the IOMMU keeps from it.
#pragma once

#include <functional>

#include "bus/function.h"

namespace dxgkit::bus {

/// One access that had no effect.
struct DmaFault {
  PhysicalAddress address;  // as the device sent it
  bool is_write = false;
};

/// Implemented, beside Device, by devices that are behind an IOMMU.
class DmaFaultSource {
 public:
  virtual ~DmaFaultSource() = default;
  /// Sets who is told of faults; empty: nobody. Faults from before are told now, on this thread,
  /// later ones on a thread of the device. Waits for a running call of the listener before. The
  /// device tells of all it knows of before its destructor returns.
  virtual void on_dma_fault(std::function<void(const DmaFault&)> told) = 0;
};

}  // namespace dxgkit::bus
