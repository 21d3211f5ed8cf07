// The report of `--hang`: the packet, the recovery, the clients that lost work and those that did
// not.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/work/timeout_report.h"
#include "tools/dxgkit/session.h"

namespace dxgkit::tool {

/// One line: "3d:40 hung and was recovered; client 1 lost its device; client 2: identical to CPU
/// reference".
std::string describe_hang(const Plan& plan, const SessionOutcome& outcome, const Picture& expected);
/// True if the engine was recovered, and every client either lost its device or has the right
/// picture.
bool hang_went_well(const Plan& plan, const SessionOutcome& outcome, const Picture& expected);
/// Name and value of each line of a timeout's section, times since power-on.
std::vector<std::pair<std::string, std::string>> hang_rows(const dxgk::TimeoutReport& report);
nlohmann::ordered_json hang_json(const std::vector<dxgk::TimeoutReport>& reports);

}  // namespace dxgkit::tool
