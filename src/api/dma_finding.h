// A fault of the IOMMU as a finding of the driver that caused it.
#pragma once

#include <span>

#include "bus/dma_fault.h"
#include "bus/machine.h"
#include "verifier/findings.h"

namespace dxgkit::api {

/// SEG-51: names the address and what is there, or was meant to be. `functions` are those in the
/// machine, the device that sent the address first.
verifier::Finding dma_finding(const bus::DmaFault& fault, bus::Machine& machine,
                              std::span<bus::PciFunction* const> functions);

}  // namespace dxgkit::api
