#include "verifier/rule_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace dxgkit::verifier {
namespace {

// The catalogue holds the whole rulebook: the counts are those the rulebook states about itself.
TEST(RuleCatalogue, HoldsEveryRuleOfTheBook) {
  const std::map<std::string, size_t> expected = {
      {"SEG", 49},   {"ALLOC", 49}, {"RES", 30},   {"PAGE", 49},   {"VA", 46},
      {"REND", 28},  {"PATCH", 33}, {"SUB", 40},   {"CANCEL", 19}, {"PREEMPT", 17},
      {"SCHED", 23}, {"SYNC", 32},  {"INT", 24},   {"TDR", 32},    {"PWR", 15},
      {"DISP", 21},  {"LIFE", 22},  {"THUNK", 38}, {"IRQL", 13}};
  // Areas grow at their end, and there are areas of our own; what the book began with stays.
  std::map<std::string, size_t> found;
  size_t seed = 0;
  size_t our_choice = 0;
  for (const RuleArea& area : rule_areas()) {
    const auto book = expected.find(std::string(area.name));
    if (book == expected.end()) continue;
    found[book->first] = std::min(area.count, book->second);
    for (const Rule& rule : all_rules().subspan(area.first, found[book->first])) {
      seed += rule.seed ? 1 : 0;
      our_choice += rule.our_choice ? 1 : 0;
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(seed, 104U);
  EXPECT_EQ(our_choice, 137U);
}

// Looking up finds each rule under its own id and nothing under an id that is none.
TEST(RuleCatalogue, FindsByExactId) {
  for (const Rule& rule : all_rules()) EXPECT_EQ(find_rule(rule.id), &rule);
  for (const char* id : {"", "-", "PATCH", "PATCH-",
                         "PATCH-"
                         "00",
                         "PATCH-"
                         "34",
                         "PATCH-8", "PATCH-008", "patch-08", "G-01",
                         "NONE-"
                         "01"}) {
    EXPECT_EQ(find_rule(id), nullptr) << id;
  }
}

// Every rule can be shown to a driver author: no field is empty.
TEST(RuleCatalogue, EveryRuleIsComplete) {
  for (const Rule& rule : all_rules()) {
    EXPECT_FALSE(rule.statement.empty()) << rule.id;
    EXPECT_FALSE(rule.observed.empty()) << rule.id;
    EXPECT_FALSE(rule.sources.empty()) << rule.id;
    EXPECT_TRUE(rule.level == "MUST" || rule.level == "SHOULD") << rule.id;
    EXPECT_FALSE(to_string(rule.who).empty()) << rule.id;
  }
}

}  // namespace
}  // namespace dxgkit::verifier
