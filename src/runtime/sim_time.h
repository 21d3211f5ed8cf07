// Operations on simulated time, for simulations. They CHECK that the runtime is a simulation.
#pragma once

#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// How often the clock has moved on because every thread waited and something was due. It does not
/// change while nothing happens. Any fiber; O(1).
uint64_t sim_time_steps(Runtime& runtime);

/// How often one fiber has given way to another. Any fiber; O(1).
uint64_t sim_switches(Runtime& runtime);

/// Moves the clock ahead by `by` (> 0), as on a machine that was stopped. Nothing ran in between.
/// Every timer and wait that is due by now is due at once, in any order. The calling fiber runs on.
void sim_jump(Runtime& runtime, DurationNs by);

}  // namespace dxgkit::runtime
