// What a run is reported as: lines for a person, JSON for a program, the head of the report page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/dxgkit/session.h"

namespace dxgkit::tool {

/// "identical to CPU reference", or "DIFFERENT ..." with how many pixels, the first of them and its
/// tile.
std::string compare(const Plan& plan, const JobResult& job, const Picture& expected);

struct Summary {
  const SessionConfig& config;
  const Plan& plan;
  const SessionOutcome& outcome;
  std::string result;  // from compare, or why there is none
};

/// Several lines, the last one "result: ...".
std::string to_text(const Summary& summary);
nlohmann::ordered_json to_json(const Summary& summary);
/// The object the page reads beside the recording: {result, driver, sections, findings}.
nlohmann::ordered_json to_report_run(const Summary& summary);

}  // namespace dxgkit::tool
