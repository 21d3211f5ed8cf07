// OBJECT_ATTRIBUTES that a driver hands over.
#pragma once

#include <fmt/format.h>

#include "nt/executive.h"

namespace dxgkit::nt {

/// False, with NT-39: nobody has initialised them. The caller refuses the call.
inline bool are_initialized(Kernel& kernel, const char* function, const ObjectAttributes& given) {
  if (given.length == sizeof(ObjectAttributes)) return true;
  kernel.violation("NT-39", function,
                   fmt::format("{} was given attributes whose Length is {}.", function,
                               uint32_t{given.length}),
                   fmt::format("Length is sizeof(OBJECT_ATTRIBUTES), {}.", sizeof(ObjectAttributes)),
                   "Call InitializeObjectAttributes before each use of the structure.");
  return false;
}

}  // namespace dxgkit::nt
