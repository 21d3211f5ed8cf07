// CPU access to memory segments: swizzling ranges, CPU host apertures.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// DXGKARG_ACQUIRESWIZZLINGRANGE.
struct SwizzlingRange {
  void* allocation = nullptr;  // hAllocation
  uint32_t private_data = 0, range = 0;
  SegmentId segment;
  uint64_t size_bytes = 0;  // in/out with `size_may_change`
  bool size_may_change = false;
  uint64_t address =
      0;  // in: where the CPU sees it unswizzled; out: where the driver should map it
};

/// The DDIs of CPU access. Level one: made on the lane, so calls of these classes do not overlap
/// (IRQL-04). PASSIVE_LEVEL. kDeviceRemoved from a dead driver; else the driver's own status.
class CpuAccessPort {
 public:
  /// The core must outlive it.
  explicit CpuAccessPort(PortCore& core) : core_(core) {}

  /// DxgkDdiAcquireSwizzlingRange. kNotSupported: from WDDM 2.0 on, or without the entry. The
  /// driver's two refusals pass through.
  Status acquire_swizzling_range(SwizzlingRange* range);
  void release_swizzling_range(void* allocation, uint32_t private_data, uint32_t range);
  /// DxgkDdiMapCpuHostAperture: `aperture_pages[i]` shows page `segment_pages[i]`. kNotSupported
  /// without the entry.
  Status map_cpu_host_aperture(void* allocation, SegmentId segment,
                               std::span<const uint32_t> aperture_pages,
                               std::span<const uint64_t> segment_pages);
  /// DxgkDdiUnmapCpuHostAperture. kNotSupported without the entry.
  Status unmap_cpu_host_aperture(SegmentId segment, std::span<const uint32_t> aperture_pages);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
