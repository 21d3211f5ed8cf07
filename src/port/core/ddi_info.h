// What the rulebook's table says of a DDI.
#pragma once

#include "nt/kernel.h"

namespace dxgkit::port {

/// How a DDI may overlap with others (the DDI table of the rulebook).
enum class DdiClass {
  kLevelZero,        // fully reentrant
  kScheduler,        // level one, GPU scheduler class: never overlaps itself (IRQL-06)
  kLevelTwo,         // inside enter_level_two(): nobody else but ISR, DPC and kLevelZeroBeside
  kExclusive,        // level three: nobody else in the driver, but ISR, DPC and kLevelZeroBeside
  kLevelZeroBeside,  // QueryAdapterInfo: level zero, may overlap level three (IRQL-09)
};

struct DdiInfo {
  const char* name;
  nt::Irql irql;
  DdiClass ddi_class;
};

}  // namespace dxgkit::port
