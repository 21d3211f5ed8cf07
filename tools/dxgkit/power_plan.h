// The power transitions of a run: read from text, carried out beside the job.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool {

enum class PowerStep { kStandby, kHibernate, kHybrid, kD1, kD2, kD3, kRemove };
const char* power_step_name(PowerStep step);

struct PlannedPower {
  uint64_t packets = 0;  // completed by the adapter, at least
  PowerStep step = PowerStep::kStandby;
  bool operator==(const PlannedPower&) const = default;
};
using PowerPlan = std::vector<PlannedPower>;

/// "at 200 standby; at 400 hibernate; at 800 remove": statements end with a semicolon or a line;
/// '#' begins a comment. Numbers rise, and nothing follows a removal. Steps: standby, hibernate,
/// hybrid, d1, d2, d3, remove; all but the last wake up again at once. The error names line and
/// column, from 1.
std::expected<PowerPlan, std::string> parse_power_plan(std::string_view text);

}  // namespace dxgkit::tool
