// How mode-management DDIs are made: alone in the driver, with the GPU idle (IRQL-03).
#pragma once

#include "dxgk/core/adapter_core.h"
#include "dxgk/work/selection.h"
#include "dxgk/work/timeout.h"
#include "dxgk/work/work_floor.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Runs `call` at level two and returns its status; kDeviceRemoved if the adapter failed first.
/// Off the lane. A display-only adapter has no lane work to keep out; of a full one the hardware is
/// idle and the call is made on the lane. If an engine or the adapter has to be reset meanwhile,
/// that goes first.
template <typename Call>
Status level_two(WorkFloor& floor, const Call& call) {
  Status status = Status::kDeviceRemoved;
  for (bool over = false; !over;) {
    floor.core.port().levels().enter_level_two();
    if (floor.core.display_only()) {
      status = call();
      over = true;
    } else {
      over = floor.selection->run_with_idle_hardware([&] { status = call(); });
    }
    floor.core.port().levels().leave_level_two();
    if (over) break;
    // block_until asks once even if the adapter has failed, and then nothing is being reset.
    over = !floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
      return !floor.timeout->resetting();
    }) || !floor.core.running_or_starting();
  }
  return status;
}

}  // namespace dxgkit::dxgk
