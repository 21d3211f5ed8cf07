// How long calls of the driver keep the processor busy with waiting.
#pragma once

#include <optional>

#include "runtime/runtime.h"

namespace dxgkit::nt {

class Kernel;

/// What one call of the driver has asked of KeStallExecutionProcessor, all its stalls together.
struct Stall {
  const char* call = "";  // "DxgkDdiSetPowerState": a literal
  runtime::DurationNs length_ns = 0;
};

/// The longest one since the last call of this function; nullopt: nothing has stalled. Any thread.
std::optional<Stall> take_longest_stall(Kernel& kernel);

}  // namespace dxgkit::nt
