// How the tool shows situations: what a driver was confronted with, and what not.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verifier/formats.h"
#include "verifier/situations.h"

namespace dxgkit::tool {

/// A few lines, beginning with an empty one: how many situations were reached, which were not.
/// Nothing for an empty report.
std::string situations_text(const verifier::SituationReport& report);
/// Counts by id; of what was not reached, the reason.
nlohmann::ordered_json situations_json(const verifier::SituationReport& report);

/// A case for each situation, passed if it was reached.
std::vector<verifier::JunitCase> situation_cases(const verifier::SituationReport& report);

}  // namespace dxgkit::tool
