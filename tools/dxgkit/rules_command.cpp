#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/spelling.h"
#include "tools/dxgkit/commands.h"
#include "verifier/rule_catalogue.h"

namespace dxgkit::tool {
namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Breaks at spaces so that lines stay within `width` columns, each beginning with `indent`.
std::string wrapped(std::string_view text, std::string_view indent, size_t width) {
  std::string out;
  std::string line(indent);
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(begin, end - begin);
    if (line.size() > indent.size() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line = indent;
    }
    if (line.size() > indent.size()) line += ' ';
    line += word;
    begin = end + 1;
  }
  return out + line + "\n";
}

}  // namespace

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
                 wrapped(rule.statement, "    ", 100));
    }
    return kExitDone;
  }
  const auto name_of = [](const verifier::RuleArea& area) { return std::string_view(area.name); };
  const std::string meant = did_you_mean(wanted, verifier::rule_areas(), name_of);
  return bad_input(fmt::format("'{}' is not an area of the rulebook{}", area_name,
                               meant.empty() ? "; `dxgkit rules` lists them" : meant));
}

int explain_command(const std::string& id) {
  const verifier::Rule* rule = verifier::find_rule(upper(id));
  if (rule == nullptr) {
    fmt::print(stderr,
               "dxgkit: '{}' is not a rule of the rulebook; `dxgkit rules AREA` lists them\n", id);
    return kExitBadInput;
  }
  fmt::print("{}  {}, duty of the {}\n{}", rule->id, rule->level, verifier::to_string(rule->who),
             wrapped(rule->statement, "  ", 100));
  fmt::print("when broken:\n{}", wrapped(rule->observed, "  ", 100));
  fmt::print("from:\n{}", wrapped(rule->sources, "  ", 100));
  if (rule->our_choice) fmt::print("Part of this rule is said by no source; it is our choice.\n");
  return kExitDone;
}

}  // namespace dxgkit::tool
