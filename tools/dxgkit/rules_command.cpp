#include <fmt/format.h>

#include <cstdio>

#include "base/spelling.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/paragraph.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::tool {

int rules_command(const std::string& area_name) {
  if (area_name.empty()) {
    for (const verifier::RuleArea& area : verifier::rule_areas())
      fmt::print("{:<8} {:>3}  {}\n", area.name, area.count, area.title);
    fmt::print("{:<8} {:>3}\n", "total", verifier::all_rules().size());
    return kExitDone;
  }
  const std::string wanted = upper(area_name);
  for (const verifier::RuleArea& area : verifier::rule_areas()) {
    if (area.name != wanted) continue;
    for (const verifier::Rule& rule : verifier::all_rules().subspan(area.first, area.count)) {
      fmt::print("{} [{}]\n{}", rule.id, verifier::to_string(rule.who),
                 wrapped(rule.statement, "    "));
    }
    return kExitDone;
  }
  const auto name_of = [](const verifier::RuleArea& area) { return std::string_view(area.name); };
  const std::string meant = did_you_mean(wanted, verifier::rule_areas(), name_of);
  return bad_input(fmt::format("'{}' is not an area of the rulebook{}", area_name,
                               meant.empty() ? "; `dxgkit rules` lists them" : meant));
}

}  // namespace dxgkit::tool
