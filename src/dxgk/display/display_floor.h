// The parts of an adapter that the display floor may use: all of them.
#pragma once

#include "dxgk/power/power_floor.h"

namespace dxgkit::dxgk {

class Display;

/// See SyncFloor.
struct DisplayFloor : PowerFloor {
  using PowerFloor::PowerFloor;

  Display* display = nullptr;  // null: no video present sources (DISP-21)
};

}  // namespace dxgkit::dxgk
