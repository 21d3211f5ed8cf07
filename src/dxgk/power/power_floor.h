// The parts of an adapter that the power floor may use.
#pragma once

#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

class ComponentPower;
class DiagnosticReports;
class Exclusions;
class Power;
class PoweredDisplay;

/// See SyncFloor.
struct PowerFloor : WorkFloor {
  using WorkFloor::WorkFloor;

  ComponentPower* component_power = nullptr;
  DiagnosticReports* diagnostics = nullptr;
  Exclusions* exclusions = nullptr;
  Power* power = nullptr;
  PoweredDisplay* powered_display = nullptr;  // null: no video present sources (DISP-21)
};

}  // namespace dxgkit::dxgk
