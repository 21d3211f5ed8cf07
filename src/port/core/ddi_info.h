// The facts about a DDI from the rulebook's table.
#pragma once

#include <optional>

#include "nt/kernel.h"
#include "verifier/situation_ids.h"

namespace dxgkit::port {

/// How a DDI may overlap with others (the DDI table of the rulebook).
enum class DdiClass {
  kLevelZero,        // fully reentrant
  kScheduler,        // level one, GPU scheduler class: never overlaps itself (IRQL-06)
  kLevelTwo,         // inside enter_level_two(): overlaps with ISR, DPC and kLevelZeroBeside only
  kExclusive,        // level three: overlaps with ISR, DPC and kLevelZeroBeside only
  kLevelZeroBeside,  // QueryAdapterInfo: level zero, may overlap level three (IRQL-09)
};

struct DdiInfo {
  const char* name;
  nt::Irql irql;
  DdiClass ddi_class;
  std::optional<verifier::Situation> situation = {};  // one that is nothing but the call
};

}  // namespace dxgkit::port
