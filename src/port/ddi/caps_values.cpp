#include "port/ddi/caps_values.h"

#include <d3dkmddi.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/interface_versions.h"

namespace dxgkit::port {
namespace {

constexpr uint32_t kVersions[] = {
    DXGKDDI_WDDMv1,     DXGKDDI_WDDMv1_2,   DXGKDDI_WDDMv1_3, DXGKDDI_WDDMv2,   DXGKDDI_WDDMv2_1,
    DXGKDDI_WDDMv2_1_5, DXGKDDI_WDDMv2_1_6, DXGKDDI_WDDMv2_2, DXGKDDI_WDDMv2_3, DXGKDDI_WDDMv2_4,
    DXGKDDI_WDDMv2_5,   DXGKDDI_WDDMv2_6,   DXGKDDI_WDDMv2_7, DXGKDDI_WDDMv2_8, DXGKDDI_WDDMv2_9,
    DXGKDDI_WDDMv3_0,   DXGKDDI_WDDMv3_1,   DXGKDDI_WDDMv3_2};
constexpr uint32_t kGraphics[] = {D3DKMDT_GRAPHICS_PREEMPTION_NONE,
                                  D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY,
                                  D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY,
                                  D3DKMDT_GRAPHICS_PREEMPTION_TRIANGLE_BOUNDARY,
                                  D3DKMDT_GRAPHICS_PREEMPTION_PIXEL_BOUNDARY,
                                  D3DKMDT_GRAPHICS_PREEMPTION_SHADER_BOUNDARY};
constexpr uint32_t kCompute[] = {D3DKMDT_COMPUTE_PREEMPTION_NONE,
                                 D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY,
                                 D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY,
                                 D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY,
                                 D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY,
                                 D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY};

template <size_t kCount>
bool is_in(const uint32_t (&values)[kCount], uint32_t value) {
  return std::ranges::find(values, value) != std::end(values);
}

}  // namespace

std::vector<OddValue> odd_values_of(const DriverCaps& caps, uint32_t interface_version) {
  std::vector<OddValue> odd;
  if (caps.raw.empty()) return odd;  // a driver that was not asked
  DXGK_DRIVERCAPS raw{};
  std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  const auto version = static_cast<uint32_t>(raw.WDDMVersion);
  if (interface_version >= kInterfaceWin7 && version != 0 &&
      version <= static_cast<uint32_t>(DXGKDDI_WDDMv3_2) && !is_in(kVersions, version)) {
    odd.push_back({"WDDMVersion", version, "DXGK_WDDMVERSION",
                   "Set it to the constant of the version that the driver is written for."});
  }
  if (interface_version < kInterfaceWin8) return odd;
  constexpr const char* kHowFine =
      "Set it to the constant for how finely the coarsest engine can be preempted.";
  const auto graphics = static_cast<uint32_t>(raw.PreemptionCaps.GraphicsPreemptionGranularity);
  if (!is_in(kGraphics, graphics)) {
    odd.push_back({"PreemptionCaps.GraphicsPreemptionGranularity", graphics,
                   "D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY", kHowFine});
  }
  const auto compute = static_cast<uint32_t>(raw.PreemptionCaps.ComputePreemptionGranularity);
  if (!is_in(kCompute, compute)) {
    odd.push_back({"PreemptionCaps.ComputePreemptionGranularity", compute,
                   "D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY", kHowFine});
  }
  return odd;
}

}  // namespace dxgkit::port
