// What displays and flips need of a driver's caps, of those that its version has.
#pragma once

#include <cstdint>
#include <vector>

#include "port/types.h"

namespace dxgkit::port {

/// What displays need of the caps of a driver that declared `interface_version`.
DisplayCaps display_caps_of(const DriverCaps& caps, uint32_t interface_version);
FlipCaps flip_caps_of(const DriverCaps& caps, uint32_t interface_version);
/// A feature that WDDM 1.2 asks for, as the caps say it (LIFE-13).
struct FeatureCap {
  const char* name;  // of the member of DXGK_DRIVERCAPS
  bool set = false;
  bool of_display = false;  // asked of drivers with video present sources only
  bool is_new = false;      // no earlier version has it
};
/// Empty where the declared interface has no room for them.
std::vector<FeatureCap> features_of_wddm12(const DriverCaps& caps, uint32_t interface_version);

}  // namespace dxgkit::port
