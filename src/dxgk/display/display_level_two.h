// How mode-management DDIs are made: alone in the driver, with the GPU idle (IRQL-03).
#pragma once

#include "dxgk/adapter/adapter.h"

namespace dxgkit::dxgk {

/// Runs `call` at level two and returns its status; kDeviceRemoved if the adapter failed first.
/// Off the lane. A display-only adapter has no lane work to keep out; of a full one the hardware is
/// idle and the call is made on the lane.
template <typename Call>
Status level_two(Adapter& adapter, const Call& call) {
  Status status = Status::kDeviceRemoved;
  adapter.port().enter_level_two();
  if (adapter.display_only()) {
    status = call();
  } else {
    adapter.run_with_idle_hardware([&] { status = call(); });
  }
  adapter.port().leave_level_two();
  return status;
}

}  // namespace dxgkit::dxgk
