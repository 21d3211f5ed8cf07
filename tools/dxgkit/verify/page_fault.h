// What a client is told of a page fault that a step has provoked.
#pragma once

#include <cstdint>
#include <span>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// Addresses in bytes.
struct AddressRange {
  uint64_t begin = 0, end = 0;
};

/// INT-25: a device was lost to a page fault. What the driver said of it must go with what was
/// provoked, and the plug-in judges the rest. Anything else is reported.
/// @param access  DXGKIT_CLIENT_FAULT_*, where the addresses could not be used in that way; there
///        are none for DXGKIT_CLIENT_FAULT_WORK, and a fault of the device is that, too
void judge_fault(Bench& bench, Client& client, D3DKMT_HANDLE device, uint32_t node, uint32_t access,
                 std::span<const AddressRange> places);

}  // namespace dxgkit::tool::verify
