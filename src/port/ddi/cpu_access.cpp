#include "port/ddi/cpu_access.h"

#include <fmt/format.h>

#include <vector>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

// Level one: the lane keeps two of a class apart (IRQL-04).
constexpr DdiInfo kAcquireSwizzlingRange{"DxgkDdiAcquireSwizzlingRange", nt::kPassiveLevel,
                                         DdiClass::kLevelZero,
                                         verifier::Situation::kCpuSwizzlingRange};

constexpr DdiInfo kReleaseSwizzlingRange{"DxgkDdiReleaseSwizzlingRange", nt::kPassiveLevel,
                                         DdiClass::kLevelZero};
constexpr DdiInfo kMapCpuHostAperture{"DxgkDdiMapCpuHostAperture", nt::kPassiveLevel,
                                      DdiClass::kLevelZero, verifier::Situation::kCpuHostAperture};
constexpr DdiInfo kUnmapCpuHostAperture{"DxgkDdiUnmapCpuHostAperture", nt::kPassiveLevel,
                                        DdiClass::kLevelZero};

}  // namespace

Status CpuAccessPort::acquire_swizzling_range(SwizzlingRange* range) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version >= kInterfaceWddm20 || core_.ddi.DxgkDdiAcquireSwizzlingRange == nullptr)
    return Status::kNotSupported;
  DXGKARG_ACQUIRESWIZZLINGRANGE arguments{};
  arguments.hAllocation = range->allocation;
  arguments.PrivateDriverData = range->private_data;
  arguments.RangeId = range->range;
  arguments.SegmentId = range->segment.value;
  arguments.RangeSize = range->size_bytes;
  arguments.CPUTranslatedAddress.QuadPart = static_cast<LONGLONG>(range->address);
  DdiCall call(core_, kAcquireSwizzlingRange, range->range);
  const Status status = call(core_.ddi.DxgkDdiAcquireSwizzlingRange, core_.context, &arguments);
  if (!call.completed() || status != Status::kSuccess) return status;
  range->address = static_cast<uint64_t>(arguments.CPUTranslatedAddress.QuadPart);
  if (arguments.RangeSize == range->size_bytes) return status;
  if (!range->size_may_change || arguments.RangeSize == 0) {
    static_cast<void>(core_.violation(
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

void CpuAccessPort::release_swizzling_range(void* allocation, uint32_t private_data,
                                            uint32_t range) {
  if (is_dead(core_) || core_.ddi.DxgkDdiReleaseSwizzlingRange == nullptr) return;
  DXGKARG_RELEASESWIZZLINGRANGE arguments{};
  arguments.hAllocation = allocation;
  arguments.PrivateDriverData = private_data;
  arguments.RangeId = range;
  DdiCall call(core_, kReleaseSwizzlingRange, range);
  static_cast<void>(call(core_.ddi.DxgkDdiReleaseSwizzlingRange, core_.context, &arguments));
}

Status CpuAccessPort::map_cpu_host_aperture(void* allocation, SegmentId segment,
                                            std::span<const uint32_t> aperture_pages,
                                            std::span<const uint64_t> segment_pages) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm20 || core_.ddi.DxgkDdiMapCpuHostAperture == nullptr)
    return Status::kNotSupported;
  std::vector<UINT32> aperture(aperture_pages.begin(), aperture_pages.end());
  std::vector<UINT64> memory(segment_pages.begin(), segment_pages.end());
  DXGKARG_MAPCPUHOSTAPERTURE arguments{};
  arguments.hAllocation = allocation;
  arguments.SegmentId = static_cast<WORD>(segment.value);
  arguments.NumberOfPages = aperture.size();
  arguments.pCpuHostAperturePages = aperture.data();
  arguments.pMemorySegmentPages = memory.data();
  DdiCall call(core_, kMapCpuHostAperture, aperture.size());
  return call(core_.ddi.DxgkDdiMapCpuHostAperture, core_.context, &arguments);
}

Status CpuAccessPort::unmap_cpu_host_aperture(SegmentId segment,
                                              std::span<const uint32_t> aperture_pages) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.version < kInterfaceWddm20 || core_.ddi.DxgkDdiUnmapCpuHostAperture == nullptr)
    return Status::kNotSupported;
  std::vector<UINT32> aperture(aperture_pages.begin(), aperture_pages.end());
  DXGKARG_UNMAPCPUHOSTAPERTURE arguments{};
  arguments.NumberOfPages = aperture.size();
  arguments.pCpuHostAperturePages = aperture.data();
  arguments.SegmentId = static_cast<WORD>(segment.value);
  DdiCall call(core_, kUnmapCpuHostAperture, aperture.size());
  return call(core_.ddi.DxgkDdiUnmapCpuHostAperture, core_.context, &arguments);
}

}  // namespace dxgkit::port
