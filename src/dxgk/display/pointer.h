// The mouse pointer that hardware draws.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dxgk/display/display_core.h"
#include "port/display_types.h"

namespace dxgkit::dxgk {

/// Any thread outside the driver and off the lane: takes the display mutex. See Displays for what
/// the calls answer.
class Pointer {
 public:
  explicit Pointer(DisplayCore& display) : display_(display), core_(display.core()) {}

  Status set_shape(const port::PointerShape& shape);
  Status set_position(uint32_t source, int32_t x, int32_t y, bool visible);

 private:
  DisplayCore& display_;
  AdapterCore& core_;
};

}  // namespace dxgkit::dxgk
