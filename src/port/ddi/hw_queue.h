// Hardware queues (WDDM 2.2): work that the hardware takes from memory by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// DXGKARG_CREATEHWQUEUE.
struct HwQueueArgs {
  uint32_t handle = 0;  // D3DKMT handle of the queue
  uint32_t flags = 0;   // D3DDDI_CREATEHWQUEUEFLAGS.Value
  std::span<std::byte> private_data;
  uint32_t progress_fence = 0;         // D3DKMT handle of its monitored fence
  void* progress_fence_cpu = nullptr;  // the address where the kernel reads it
  // The address where the engine writes it, in the process's space.
  uint64_t progress_fence_va = 0;
};

/// DXGKARG_SUBMITCOMMANDTOHWQUEUE.
struct HwQueueSubmission {
  void* queue = nullptr;        // driver's handle
  uint64_t progress_fence = 0;  // written when the buffer is done; increases per queue (SUB-40)
  uint64_t buffer_va = 0;       // in the address space of the queue's process
  uint32_t buffer_bytes = 0;
  /// Valid until the call returns only (SUB-39).
  std::byte* private_data = nullptr;
  uint32_t private_bytes = 0;
  bool present = false;  // the only flag there is (SUB-40)
  uint64_t progress_fence_va = 0;
  void* progress_fence_cpu = nullptr;
};

/// The DDIs of hardware queues of one adapter. kNotSupported without the entry, as with every
/// driver below WDDM 2.2; otherwise the driver's own status.
///
/// Threads: level zero, any thread. The caller makes one submission to a queue at a time
/// (SCHED-21).
class HwQueuePort {
 public:
  /// The core must outlive it.
  explicit HwQueuePort(PortCore& core) : core_(core) {}

  /// True if the driver has the entries: 2.2 or later, and none missing.
  bool supported() const;
  /// DxgkDdiCreateHwContext on a device of the driver; PASSIVE_LEVEL. Returns the driver's handle.
  Result<void*> create_hw_context(void* device, uint32_t handle, NodeOrdinal node,
                                  uint32_t engine_affinity, std::span<std::byte> private_data);
  Status destroy_hw_context(void* context);
  /// DxgkDdiCreateHwQueue on a context of either kind; PASSIVE_LEVEL. Returns the driver's handle.
  Result<void*> create_hw_queue(void* context, const HwQueueArgs& args);
  Status destroy_hw_queue(void* queue);
  /// DxgkDdiSubmitCommandToHwQueue at DISPATCH_LEVEL, the stricter of its two possible levels.
  Status submit(const HwQueueSubmission& submission);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
