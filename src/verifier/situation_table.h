// The generated table behind situations.h.
#pragma once

#include <string_view>

#include "verifier/situations.h"

namespace dxgkit::verifier::table {

extern const SituationInfo kSituationTable[kSituations];
extern const std::string_view kFactTexts[kSituationFacts];

}  // namespace dxgkit::verifier::table
