// Allocations and resources of a driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// An allocation that a device opens.
struct OpenInfo {
  uint32_t allocation_handle = 0;  // D3DKMT handle, for DxgkCbGetHandleData
  std::span<std::byte> private_data;
  void* device_specific = nullptr;  // out
};

/// Private data of an allocation that the driver itself composed.
struct StandardAllocation {
  std::vector<std::byte> allocation_data, resource_data;
};

/// The DDIs of allocations. Level zero: any thread, PASSIVE_LEVEL. kDeviceRemoved from a dead
/// driver.
class AllocationsPort {
 public:
  /// The core must outlive it.
  explicit AllocationsPort(PortCore& core) : core_(core) {}

  /// One DxgkDdiCreateAllocation for the whole array (ALLOC-01). `resource` in/out: driver's
  /// resource handle when `creates_resource` or adding to one; null otherwise.
  Status create_allocations(std::span<AllocationInfo> infos,
                            std::span<const std::byte> private_data, bool creates_resource,
                            void** resource);
  Status destroy_allocations(std::span<void* const> handles, void* resource, bool destroy_resource);
  Status open_allocations(void* device, std::span<OpenInfo> infos,
                          std::span<const std::byte> private_data, bool create,
                          uint32_t resource_handle, bool read_only = false);
  Status close_allocations(void* device, std::span<void* const> device_specific);
  /// DxgkDdiStopCapture of an allocation with Capture that is about to be destroyed. Inside level
  /// two. A failure is a violation (OPT-36). kNotSupported without the entry.
  Status stop_capture(void* allocation);
  /// DxgkDdiValidateUpdateAllocationProperty, from WDDM 2.1 on: level zero. Returns the driver's
  /// own status. kNotSupported without the entry: then the change cannot be validated.
  Status validate_property_update(void* allocation, const PropertyUpdate& update);
  /// DxgkDdiDescribeAllocation of a primary or a possible present source only (ALLOC-31): level
  /// zero. Returns the driver's own status; kNotSupported without the entry.
  Result<AllocationDescription> describe_allocation(void* allocation);
  /// DxgkDdiGetStandardAllocationDriverData for a shared primary: sizes, then data.
  Result<StandardAllocation> describe_shared_primary(const PrimarySurface& surface);
  /// The same for a surface that the kernel copies from or to. What is wrong with a success is a
  /// finding (ALLOC-64).
  enum class CopySurface : uint8_t { kShadow, kStaging };
  Result<StandardAllocation> describe_copy_surface(CopySurface kind, uint32_t width,
                                                   uint32_t height);
  /// The same for existing system memory, as a GDI surface of bytes (ALLOC-20). Any thread.
  Result<StandardAllocation> describe_existing_memory(uint64_t size_bytes);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
