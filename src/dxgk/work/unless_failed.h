// Steps of a recovery, which end when the adapter fails.
#pragma once

#include <functional>

#include "dxgk/core/adapter_core.h"

namespace dxgkit::dxgk {

/// Runs `work` on the lane unless the adapter has failed. False: it has, before or through it. Not
/// on the lane.
inline bool run_unless_failed(AdapterCore& core, const std::function<void()>& work) {
  bool failed = false;
  core.lane().run([&] {
    if (core.running_or_starting()) work();
    failed = !core.running_or_starting();
  });
  return !failed;
}

}  // namespace dxgkit::dxgk
