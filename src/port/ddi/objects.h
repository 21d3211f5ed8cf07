// Processes, devices and contexts of a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs that make and destroy processes, devices and contexts, and DxgkDdiEscape. Level zero:
/// any thread, PASSIVE_LEVEL. kDeviceRemoved from a dead driver; else the driver's own status. A
/// refusal that SCHED-05 does not excuse is a violation, and its status is returned.
class ObjectsPort {
 public:
  /// The core must outlive it.
  explicit ObjectsPort(PortCore& core) : core_(core) {}

  /// `system`: the paging process. The driver may call AdapterHost::reserve_gpu_va inside (VA-09).
  /// A null handle and kSuccess below 2.0.
  Result<void*> create_process(uint32_t process_handle, bool system);
  Status destroy_process(void* process);
  /// `process`: the driver's handle of the device's process; from WDDM 2.0 on.
  Result<DeviceInfo> create_device(uint32_t device_handle, bool system, void* process = nullptr);
  Status destroy_device(void* device);
  Result<ContextInfo> create_context(void* device, uint32_t context_handle, NodeOrdinal node,
                                     uint32_t engine_affinity, bool system,
                                     std::span<std::byte> private_data,
                                     bool virtual_addressing = false);
  Status destroy_context(void* context);
  Status escape(void* device, void* context, uint32_t flags, std::span<std::byte> data);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
