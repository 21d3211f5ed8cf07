#include "verifier/rule_catalogue.h"

#include "verifier/rule_catalogue_table.h"

namespace dxgkit::verifier {

const Rule* find_rule(std::string_view id) {
  const size_t dash = id.rfind('-');
  if (dash == std::string_view::npos) return nullptr;
  const std::string_view area_name = id.substr(0, dash);
  for (const RuleArea& area : rule_areas()) {
    if (area.name != area_name) continue;
    for (const Rule& rule : all_rules().subspan(area.first, area.count)) {
      if (rule.id == id) return &rule;
    }
    return nullptr;
  }
  return nullptr;
}

std::span<const Rule> all_rules() { return {table::kRules, table::kRuleCount}; }

std::span<const RuleArea> rule_areas() { return {table::kAreas, table::kAreaCount}; }

std::span<const RuleGap> rule_gaps() { return {table::kGaps, table::kGapCount}; }

std::string_view to_string(Who who) {
  switch (who) {
    case Who::kKernel:
      return "kernel";
    case Who::kMiniport:
      return "miniport";
    case Who::kThunkCaller:
      return "thunk caller";
  }
  return "";
}

}  // namespace dxgkit::verifier
