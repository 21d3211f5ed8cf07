// rules/ddi.json in a test: what the rulebook says of each DDI.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

namespace dxgkit::testing {

struct DdiRule {
  std::string irql, sync_level, needed;  // as the file words them
};

/// By full name (DxgkDdiPatch). A row that names several entries gives each of them the row.
inline std::map<std::string, DdiRule> read_ddi_rules(const std::string& path) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::map<std::string, DdiRule> rules;
  const auto member = [](const std::string& object, const char* name) {
    std::smatch found;
    const std::regex pattern("\"" + std::string(name) + "\": \"([^\"]*)\"");
    return std::regex_search(object, found, pattern) ? found[1].str() : std::string();
  };
  const std::regex row("\\{\\s*\"entry\"[^}]*\\}");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), row); at != std::sregex_iterator();
       ++at) {
    const std::string object = at->str();
    const DdiRule rule{member(object, "irql"), member(object, "sync_level"),
                       member(object, "needed")};
    const std::string names = member(object, "entry");
    std::string stem;
    const std::regex word("[A-Za-z0-9]+");
    for (auto name = std::sregex_iterator(names.begin(), names.end(), word);
         name != std::sregex_iterator(); ++name) {
      // "ControlInterrupt, 2, 3": a number stands for the same name with it behind.
      const std::string one = name->str();
      if (one.find_first_not_of("0123456789") != std::string::npos) stem = one;
      rules["DxgkDdi" + (stem == one ? one : stem + one)] = rule;
    }
  }
  return rules;
}

}  // namespace dxgkit::testing
