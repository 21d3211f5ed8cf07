#include "port/ddi/display_caps.h"

#include <algorithm>
#include <cstring>

#include "base/interface_versions.h"
#include "port/core/driver_table.h"

namespace dxgkit::port {

DisplayCaps display_caps_of(const DriverCaps& caps, uint32_t version) {
  DXGK_DRIVERCAPS raw{};
  if (!caps.raw.empty())  // a driver that was not asked
    std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  DisplayCaps result;
  result.max_pointer_width = raw.MaxPointerWidth;
  result.max_pointer_height = raw.MaxPointerHeight;
  result.pointer_flags = raw.PointerCaps.Value;
  result.max_overlays = raw.MaxOverlays;
  result.gamma_table = raw.GammaRampCaps.Gamma_Rgb256x3x16 != 0;
  if (version >= kInterfaceWin8) {
    result.support_non_vga = raw.SupportNonVGA != FALSE;
    result.support_smooth_rotation = raw.SupportSmoothRotation != FALSE;
  }
  if (version >= kInterfaceWddm26) result.compute_only = raw.MiscCaps.ComputeOnly != 0;
  return result;
}

std::vector<FeatureCap> features_of_wddm12(const DriverCaps& caps, uint32_t version) {
  if (version < kInterfaceWin8 || caps.raw.empty()) return {};
  DXGK_DRIVERCAPS raw{};
  std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  return {{.name = "PreemptionCaps",
           .set = raw.PreemptionCaps.GraphicsPreemptionGranularity != 0 ||
                  raw.PreemptionCaps.ComputePreemptionGranularity != 0,
           .is_new = true},
          {.name = "SupportPerEngineTDR", .set = raw.SupportPerEngineTDR != FALSE, .is_new = true},
          {.name = "PresentationCaps.SupportKernelModeCommandBuffer",
           .set = raw.PresentationCaps.SupportKernelModeCommandBuffer != 0},
          {.name = "SupportNonVGA",
           .set = raw.SupportNonVGA != FALSE,
           .of_display = true,
           .is_new = true},
          {.name = "SupportSmoothRotation",
           .set = raw.SupportSmoothRotation != FALSE,
           .of_display = true,
           .is_new = true},
          {.name = "SupportDirectFlip",
           .set = raw.SupportDirectFlip != FALSE,
           .of_display = true,
           .is_new = true}};
}

FlipCaps flip_caps_of(const DriverCaps& caps, uint32_t version) {
  DXGK_DRIVERCAPS raw{};
  if (!caps.raw.empty())  // a driver that was not asked
    std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  FlipCaps result;
  result.on_vsync_with_no_wait = raw.FlipCaps.FlipOnVSyncWithNoWait != 0;
  result.on_vsync_mmio = raw.FlipCaps.FlipOnVSyncMmIo != 0;
  result.interval = raw.FlipCaps.FlipInterval != 0;
  result.immediate_mmio = raw.FlipCaps.FlipImmediateMmIo != 0;
  result.max_queued_on_vsync = raw.MaxQueuedFlipOnVSync;
  result.vsync_power_save_aware = raw.SchedulingCaps.VSyncPowerSaveAware != 0;
  if (version >= kInterfaceWin8) {
    result.reports_preemption = raw.PreemptionCaps.GraphicsPreemptionGranularity != 0 &&
                                raw.PreemptionCaps.ComputePreemptionGranularity != 0;
  }
  if (version >= kInterfaceWddm13) result.max_overlay_planes = raw.MaxOverlayPlanes;
  if (version >= kInterfaceWddm21)
    result.immediate_planes = raw.SupportMultiPlaneOverlayImmediateFlip != 0;
  if (version >= kInterfaceWddm30) result.max_hw_queued = raw.MaxHwQueuedFlips;
  return result;
}

}  // namespace dxgkit::port
