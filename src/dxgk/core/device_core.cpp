#include "dxgk/core/device_core.h"

#include "dxgk/core/process.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

void DeviceCore::set_error(DeviceState state) {
  if (lost()) return;  // THUNK-28
  state_.store(state, std::memory_order_release);
  trace::emit(trace::EventKind::kWhyDeviceLost, process_.number(), handle,
              static_cast<uint64_t>(state));
  end_work(state);
}

}  // namespace dxgkit::dxgk
