// Members of the caps that hold a value of an enumeration.
#pragma once

#include <cstdint>
#include <vector>

#include "port/types.h"

namespace dxgkit::port {

/// A member with a value that its enumeration does not have (CAPS-11).
struct OddValue {
  const char* member;  // of DXGK_DRIVERCAPS
  uint32_t value = 0;
  const char* enumeration;
  const char* fix;
};
/// 0 is no mistake: the member was left as it was. Members that the declared version does not have
/// are not looked at, and neither are WDDM versions above the newest that we know.
std::vector<OddValue> odd_values_of(const DriverCaps& caps, uint32_t interface_version);

}  // namespace dxgkit::port
