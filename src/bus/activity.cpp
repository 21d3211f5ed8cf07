#include "bus/activity.h"

#include <algorithm>

namespace dxgkit::bus {

bool may_access_memory(const PciFunction& function) {
  return std::ranges::any_of(function.bars(), [](const Bar& bar) {
    const auto* const activity = dynamic_cast<const Activity*>(bar.registers);
    return activity != nullptr && activity->may_access_memory();
  });
}

}  // namespace dxgkit::bus
