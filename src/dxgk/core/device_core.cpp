#include "dxgk/core/device_core.h"

namespace dxgkit::dxgk {

void DeviceCore::set_error(DeviceState state) {
  if (lost()) return;  // THUNK-28
  state_.store(state, std::memory_order_release);
  end_work(state);
}

}  // namespace dxgkit::dxgk
