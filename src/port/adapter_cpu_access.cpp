// The CPU's ways into memory segments: swizzling ranges, CPU host apertures.
#include <fmt/format.h>

#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

// Level one: the lane keeps two of a class apart (IRQL-04).
constexpr DdiInfo kAcquireSwizzlingRange{"DxgkDdiAcquireSwizzlingRange", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};
constexpr DdiInfo kReleaseSwizzlingRange{"DxgkDdiReleaseSwizzlingRange", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};
constexpr DdiInfo kMapCpuHostAperture{"DxgkDdiMapCpuHostAperture", nt::kPassiveLevel,
                                      DdiClass::kLevelZero};
constexpr DdiInfo kUnmapCpuHostAperture{"DxgkDdiUnmapCpuHostAperture", nt::kPassiveLevel,
                                        DdiClass::kLevelZero};

}  // namespace

Status AdapterPort::acquire_swizzling_range(SwizzlingRange* range) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version >= kInterfaceWddm20 || port.ddi.DxgkDdiAcquireSwizzlingRange == nullptr)
    return Status::kNotSupported;
  DXGKARG_ACQUIRESWIZZLINGRANGE arguments{};
  arguments.hAllocation = range->allocation;
  arguments.PrivateDriverData = range->private_data;
  arguments.RangeId = range->range;
  arguments.SegmentId = range->segment.value;
  arguments.RangeSize = range->size_bytes;
  arguments.CPUTranslatedAddress.QuadPart = static_cast<LONGLONG>(range->address);
  DdiCall call(port, kAcquireSwizzlingRange, range->range);
  const Status status = call(port.ddi.DxgkDdiAcquireSwizzlingRange, port.context, &arguments);
  if (!call.completed() || status != Status::kSuccess) return status;
  range->address = static_cast<uint64_t>(arguments.CPUTranslatedAddress.QuadPart);
  if (arguments.RangeSize == range->size_bytes) return status;
  if (!range->size_may_change || arguments.RangeSize == 0) {
    static_cast<void>(port.violation(
        "ALLOC-50", kAcquireSwizzlingRange.name,
        fmt::format("It changed RangeSize from {} to {}; UseAlternateVA was {}.", range->size_bytes,
                    arguments.RangeSize, range->size_may_change ? "set" : "not set"),
        "RangeSize is the allocation's size; the driver may choose another one only with "
        "UseAlternateVA.",
        "Leave RangeSize alone.", Status::kInvalidParameter));
    return status;  // the size asked for is mapped
  }
  range->size_bytes = arguments.RangeSize;
  return status;
}

void AdapterPort::release_swizzling_range(void* allocation, uint32_t private_data, uint32_t range) {
  Impl& port = *impl_;
  if (is_dead(port) || port.ddi.DxgkDdiReleaseSwizzlingRange == nullptr) return;
  DXGKARG_RELEASESWIZZLINGRANGE arguments{};
  arguments.hAllocation = allocation;
  arguments.PrivateDriverData = private_data;
  arguments.RangeId = range;
  DdiCall call(port, kReleaseSwizzlingRange, range);
  static_cast<void>(call(port.ddi.DxgkDdiReleaseSwizzlingRange, port.context, &arguments));
}

Status AdapterPort::map_cpu_host_aperture(void* allocation, SegmentId segment,
                                          std::span<const uint32_t> aperture_pages,
                                          std::span<const uint64_t> segment_pages) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kInterfaceWddm20 || port.ddi.DxgkDdiMapCpuHostAperture == nullptr)
    return Status::kNotSupported;
  std::vector<UINT32> aperture(aperture_pages.begin(), aperture_pages.end());
  std::vector<UINT64> memory(segment_pages.begin(), segment_pages.end());
  DXGKARG_MAPCPUHOSTAPERTURE arguments{};
  arguments.hAllocation = allocation;
  arguments.SegmentId = static_cast<WORD>(segment.value);
  arguments.NumberOfPages = aperture.size();
  arguments.pCpuHostAperturePages = aperture.data();
  arguments.pMemorySegmentPages = memory.data();
  DdiCall call(port, kMapCpuHostAperture, aperture.size());
  return call(port.ddi.DxgkDdiMapCpuHostAperture, port.context, &arguments);
}

Status AdapterPort::unmap_cpu_host_aperture(SegmentId segment,
                                            std::span<const uint32_t> aperture_pages) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kInterfaceWddm20 || port.ddi.DxgkDdiUnmapCpuHostAperture == nullptr)
    return Status::kNotSupported;
  std::vector<UINT32> aperture(aperture_pages.begin(), aperture_pages.end());
  DXGKARG_UNMAPCPUHOSTAPERTURE arguments{};
  arguments.NumberOfPages = aperture.size();
  arguments.pCpuHostAperturePages = aperture.data();
  arguments.SegmentId = static_cast<WORD>(segment.value);
  DdiCall call(port, kUnmapCpuHostAperture, aperture.size());
  return call(port.ddi.DxgkDdiUnmapCpuHostAperture, port.context, &arguments);
}

}  // namespace dxgkit::port
