// The rulebook at run time: what each rule id says. Made from rules/*.json at build time.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dxgkit::verifier {

/// Whose duty a rule is: ours, the driver's, or the caller's of a D3DKMT function.
enum class Who { kKernel, kMiniport, kThunkCaller };

/// One rule. All texts are UTF-8 and live as long as the process.
struct Rule {
  std::string_view id;     // "PATCH-08"
  std::string_view level;  // "MUST" or "SHOULD"
  Who who;
  std::string_view statement;  // one or more sentences
  std::string_view observed;   // what is seen when it is broken: TEST, VIOL, START-FAIL,
                               // BC(code,parameter), a status name ...
  std::string_view sources;    // titles of the public pages it comes from, separated by "; "
  bool seed;                   // from one of the five pages the rulebook began with
  bool our_choice;             // part of it is not said by any source
};

struct RuleArea {
  std::string_view name;  // "PATCH"
  std::string_view title;
  size_t first;  // index of its first rule in all_rules()
  size_t count;
};

/// The rule with this id, or null. Cost: linear in the areas and in the rules of one area. Any
/// thread.
const Rule* find_rule(std::string_view id);
/// All rules, area by area, in the order of the rulebook.
std::span<const Rule> all_rules();
std::span<const RuleArea> rule_areas();
/// "kernel", "miniport", "thunk caller".
std::string_view to_string(Who who);

}  // namespace dxgkit::verifier
