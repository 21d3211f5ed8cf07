// Native fences (WDDM 3.2): sync objects that engines wait for and signal by themselves. They
// interrupt only if the CPU waits for the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// DXGK_NATIVE_FENCE_CAPS.
struct NativeFenceCaps {
  uint32_t monitored_value_stride = 0;  // bytes
  bool map_to_gpu_system_process = false;
  uint64_t minimum_address = 0, maximum_address = 0;  // GPU virtual; both 0: anywhere
};

/// Bytes of private data that user mode and driver exchange per fence.
inline constexpr size_t kNativeFencePrivateBytes = 64;

/// The DDIs of native fences of one adapter. kNotSupported without the entry, as with every driver
/// below WDDM 3.2; otherwise the driver's own status.
///
/// Threads: any. create, destroy, open and close: PASSIVE_LEVEL, level zero, not on the lane. The
/// updates run on the lane at device level, with the interrupt lock held, so that they exclude the
/// ISR.
class NativeFencePort {
 public:
  /// The core must outlive it.
  explicit NativeFencePort(PortCore& core) : core_(core) {}

  /// True if the driver has all entries: 3.2 or later.
  bool supported() const;
  /// DxgkDdiQueryAdapterInfo(NATIVE_FENCE_CAPS), during start.
  Result<NativeFenceCaps> query_caps();

  /// DxgkDdiCreateNativeFence. Returns the driver's global handle.
  /// @param intra_gpu     D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU, else DEFAULT
  /// @param private_data  kNativeFencePrivateBytes, in/out
  Result<void*> create(uint32_t handle, bool intra_gpu, std::span<std::byte> private_data);
  Status destroy(void* global);
  /// DxgkDdiOpenNativeFence. Returns the driver's local handle.
  Result<void*> open(void* global, uint32_t handle, void* device, uint64_t current_va,
                     uint64_t monitored_va);
  Status close(void* local);

  /// DxgkDdiUpdateMonitoredValues: the driver stores `value`. Once the call returns, no engine uses
  /// the old value.
  Status update_monitored(void* global, uint64_t value, void* cpu);
  /// DxgkDdiUpdateCurrentValuesFromCpu: the driver stores `value`, and finds the engines that
  /// waited for it.
  Status update_current(void* global, uint64_t value, void* cpu);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
