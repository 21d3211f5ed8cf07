// What only simulated time does. For simulations; CHECKs that the runtime is one.
#pragma once

#include <cstdint>

#include "runtime/runtime.h"

namespace dxgkit::runtime {

/// How often the clock has moved on because everybody waited: each time something was due. Where
/// nothing happens it stays. Any fiber; O(1).
uint64_t sim_time_steps(Runtime& runtime);

/// The clock jumps ahead by `by` (> 0) as it does behind a machine that was stopped: nothing ran in
/// between, and all that is due by now is due at once, in any order. The calling fiber runs on.
void sim_jump(Runtime& runtime, DurationNs by);

}  // namespace dxgkit::runtime
