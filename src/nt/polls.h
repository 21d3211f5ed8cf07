// How often calls of the driver look at something again before any time has passed.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/runtime.h"

namespace dxgkit::nt {

class CallFrame;
class Kernel;

/// Looks of one call, one behind the other in the same instant.
struct Polling {
  const char* call = "";  // "DxgkDdiSetPowerState": a literal
  uint32_t looks = 0;
};

/// The call of `frame` looks once more: it is about to run a routine of the driver's at device
/// level. Counted in simulations only, where one thread runs at a time.
void count_look(const CallFrame& frame);

/// The most looks of a call since the last call of this function; nullopt: nobody has looked.
std::optional<Polling> take_densest_polling(const Kernel& kernel);

}  // namespace dxgkit::nt
