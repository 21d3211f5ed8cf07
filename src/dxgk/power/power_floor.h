// The parts of an adapter that the power floor may use.
#pragma once

#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

class ComponentPower;
class Exclusions;
class Power;
class PoweredDisplay;

/// See SyncFloor.
struct PowerFloor : WorkFloor {
  using WorkFloor::WorkFloor;

  ComponentPower* component_power = nullptr;
  Exclusions* exclusions = nullptr;
  Power* power = nullptr;
  PoweredDisplay* powered_display = nullptr;  // null: no video present sources (DISP-21)
};

}  // namespace dxgkit::dxgk
