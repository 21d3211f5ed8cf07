#include "dxgk/adapter/reset_effects.h"

#include "dxgk/display/display.h"
#include "dxgk/power/power.h"

namespace dxgkit::dxgk {

bool ResetEffects::is_kernels(const Process& process) const {
  return Primaries::is_kernels(process);
}

void ResetEffects::displays_were_reset() {
  if (floor_.display != nullptr) floor_.display->hardware_was_reset();
}

void ResetEffects::show_locked() { floor_.power->show_locked(); }

void ResetEffects::show_again() {
  if (floor_.display != nullptr) floor_.display->worker().set_again();
}

}  // namespace dxgkit::dxgk
