// Why a device is lost.
#pragma once

#include <cstdint>

namespace dxgkit::dxgk {

/// As D3DKMT_DEVICEEXECUTION_STATE: only ever leaves kActive once (THUNK-28).
enum class DeviceState : uint32_t {
  kActive = 1,
  kReset = 2,
  kHung = 3,
  kStopped = 4,
  kErrorOutOfMemory = 5,
  kErrorDmaFault = 6,
  kErrorDmaPageFault = 7,
};

}  // namespace dxgkit::dxgk
