// The generated rule table, for the catalogue only.
#pragma once

#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier::table {

extern const RuleArea kAreas[];
extern const size_t kAreaCount;
extern const Rule kRules[];
extern const size_t kRuleCount;
extern const RuleGap kGaps[];
extern const size_t kGapCount;

}  // namespace dxgkit::verifier::table
