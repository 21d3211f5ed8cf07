// The members of a driver's caps that displays and flips need, as far as its version has them.
#pragma once

#include <cstdint>
#include <vector>

#include "port/types.h"

namespace dxgkit::port {

/// The caps for displays of a driver that declared `interface_version`.
DisplayCaps display_caps_of(const DriverCaps& caps, uint32_t interface_version);
FlipCaps flip_caps_of(const DriverCaps& caps, uint32_t interface_version);
/// A feature that WDDM 1.2 requires, as the caps report it (LIFE-13).
struct FeatureCap {
  const char* name;  // of the member of DXGK_DRIVERCAPS
  bool set = false;
  bool of_display = false;  // required of drivers with video present sources only
  bool is_new = false;      // no earlier version has it
};
/// Empty if the declared interface has no members for them.
std::vector<FeatureCap> features_of_wddm12(const DriverCaps& caps, uint32_t interface_version);

}  // namespace dxgkit::port
