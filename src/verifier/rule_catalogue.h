// The rulebook at run time: the text of each rule id. Made from rules/*.json at build time.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dxgkit::verifier {

/// The side with the duty: the kernel, the driver, or the caller of a D3DKMT function.
enum class Who { kKernel, kMiniport, kThunkCaller };

/// A page that a rule comes from.
struct RulePage {
  std::string_view title;    // as the rule names it, with a remark in brackets where there is one
  std::string_view address;  // empty where it is not known for sure
};

/// One rule. All texts are UTF-8 and live as long as the process.
struct Rule {
  std::string_view id;     // "PATCH-08"
  std::string_view level;  // "MUST" or "SHOULD"
  Who who;
  std::string_view statement;       // one or more sentences
  std::string_view observed;        // what is seen when it is broken: TEST, VIOL, START-FAIL,
                                    // BC(code,parameter), a status name ...
  std::string_view sources;         // titles of the public pages it comes from, separated by "; "
  std::span<const RulePage> pages;  // the same, one by one
  // What `dxgkit explain` says beside the rest:
  std::string_view why;           // what it is for, and what goes wrong
  std::string_view fix;           // what to look at and to change
  std::string_view wrong;         // an example that breaks it, in lines
  std::string_view right;         // the same example, with the rule kept
  std::string_view no_situation;  // why no situation of the catalogue shows it; else empty
  bool seed;                      // from one of the five pages that the rulebook began with
  bool our_choice;                // no source states a part of it
  bool documented;                // a page states at least a part of it
};

struct RuleArea {
  std::string_view name;  // "PATCH"
  std::string_view title;
  size_t first;  // index of its first rule in all_rules()
  size_t count;
};

/// Where the sources are silent or contradict each other. Rules name it by its id.
struct RuleGap {
  std::string_view id;    // "G-11"
  std::string_view text;  // what is silent, and what we do there
};

/// The rule with this id, or null. Cost: linear in the areas and in the rules of one area. Any
/// thread.
const Rule* find_rule(std::string_view id);
/// All rules, area by area, in the order of the rulebook.
std::span<const Rule> all_rules();
std::span<const RuleArea> rule_areas();
std::span<const RuleGap> rule_gaps();
/// "kernel", "miniport", "thunk caller".
std::string_view to_string(Who who);

}  // namespace dxgkit::verifier
