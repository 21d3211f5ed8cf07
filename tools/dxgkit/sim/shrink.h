// Makes a failing world smaller, as long as it fails.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/fault_plan.h"
#include "sim/world.h"

namespace dxgkit::tool {

struct Shrunk {
  sim::Changes changes;
  uint32_t tries = 0, successes = 0;
};
/// Greedy, until nothing more can be left out: kinds of faults one by one, then clients, operations
/// after the last fault, operations. `plan` is the plan of the world that fails with `from`.
/// `still_fails` runs it. `said` gets a sentence for each step that succeeded.
Shrunk shrink(const sim::WorldPlan& plan, const sim::Changes& from,
              const std::function<bool(const sim::Changes&)>& still_fails,
              const std::function<void(const std::string&)>& said);

/// The key by which two failures are the same: the first line without its numbers.
std::string shape_of(const std::string& failure);

}  // namespace dxgkit::tool
