// Every rule id that code or tests name exists in the rulebook.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Ids in `text` that look like rules and are none: a string literal that is wholly an id of any
/// area, or an id of one of our areas anywhere, comments included.
std::set<std::string> unknown_ids(const std::string& text) {
  std::string areas;
  for (const RuleArea& area : rule_areas())
    areas += (areas.empty() ? "" : "|") + std::string(area.name);
  const std::regex literal("\"([A-Z]{2,8}-[0-9]{2})\"");
  const std::regex mention("\\b((?:" + areas + ")-[0-9]{2})\\b");
  std::set<std::string> unknown;
  for (const std::regex& pattern : {literal, mention}) {
    for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern);
         it != std::sregex_iterator(); ++it) {
      if (find_rule((*it)[1].str()) == nullptr) unknown.insert((*it)[1].str());
    }
  }
  return unknown;
}

// The finder sees what it is meant to see. The ids are put together here, so that this file stays
// clean for the next test.
TEST(RuleIds, FinderSeesUnknownIds) {
  const auto id = [](const std::string& area, int number) {
    return area + "-" + std::to_string(number);
  };
  EXPECT_EQ(unknown_ids("DXGKIT_COVERS(\"PATCH-08\", \"" + id("PATCH", 77) + "\");"),
            std::set<std::string>{id("PATCH", 77)});
  EXPECT_EQ(unknown_ids("finding.rule = \"" + id("FOO", 12) + "\";"),
            std::set<std::string>{id("FOO", 12)});
  EXPECT_EQ(unknown_ids("// as " + id("SEG", 98) + " asks"), std::set<std::string>{id("SEG", 98)});
  EXPECT_TRUE(unknown_ids("// as SEG-17 asks, and UTF-16 text").empty());
}

// Every id named in the sources is a rule, so that no finding and no coverage claim points nowhere.
TEST(RuleIds, SourcesNameOnlyRulesOfTheBook) {
  const std::filesystem::path root = DXGKIT_SOURCE_DIR;
  size_t files = 0;
  for (const char* folder :
       {"src", "tests", "devices", "miniports", "sim", "fuzz", "bench", "tools", "rules"}) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() ||
          (extension != ".cpp" && extension != ".h" && extension != ".c"))
        continue;
      ++files;
      for (const std::string& id : unknown_ids(read_file(entry.path()))) {
        ADD_FAILURE() << std::filesystem::relative(entry.path(), root).string() << " names " << id
                      << ", which is no rule";
      }
    }
  }
  EXPECT_GT(files, 20U);
}

}  // namespace
}  // namespace dxgkit::verifier
