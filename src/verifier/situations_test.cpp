#include "verifier/situations.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "verifier/rule_catalogue.h"

namespace dxgkit::verifier {
namespace {

using std::string_literals::operator""s;

nlohmann::json read(const std::string& name) {
  std::ifstream file(DXGKIT_SOURCE_DIR "/rules/" + name);
  return nlohmann::json::parse(file);
}

std::set<std::string> rules_of(const SituationInfo& info) {
  std::istringstream words{std::string(info.rules)};
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(Situations, HaveAnIdADdiASentenceAndRulesThatExist) {
  std::set<std::string_view> ids;
  for (const SituationInfo& info : situation_catalogue()) {
    EXPECT_TRUE(ids.insert(info.id).second) << info.id;
    EXPECT_TRUE(info.ddi.starts_with("DxgkDdi") || info.ddi.starts_with("DxgkCb")) << info.id;
    EXPECT_TRUE(info.when.ends_with(".")) << info.id;
    EXPECT_FALSE(rules_of(info).empty()) << info.id;
    for (const std::string& id : rules_of(info)) EXPECT_NE(find_rule(id), nullptr) << info.id << id;
  }
  EXPECT_EQ(ids.size(), kSituations);
}

TEST(Situations, EachDutyOfADriverHasOneOrAReasonWhyNot) {
  std::set<std::string> named;
  for (const SituationInfo& info : situation_catalogue()) named.merge(rules_of(info));
  const nlohmann::json none = read("situations.json")["no_situation"];
  for (const Rule& rule : all_rules()) {
    const std::string id(rule.id);
    if (rule.who != Who::kMiniport) continue;
    EXPECT_NE(named.contains(id), none.contains(id))
        << id << ": a rule has situations, or a reason why it cannot have any, and not both";
  }
  for (const auto& [id, why] : none.items()) {
    EXPECT_NE(find_rule(id), nullptr) << id;
    EXPECT_TRUE(why.get<std::string>().ends_with(".")) << id;
  }
}

TEST(Situations, AreNotPossibleWithoutTheEntryOrAFact) {
  SituationLog log;
  const Situation patch = Situation::kPatchPartBehindStart;
  EXPECT_EQ(log.why_not(patch), "the driver has no DxgkDdiPatch");
  log.add_entry("DxgkDdiPatch");
  EXPECT_EQ(log.why_not(patch), "not so: the driver patches addresses into DMA buffers");
  log.add(SituationFact::kPatch);
  EXPECT_EQ(log.why_not(patch), "not so: a client plug-in makes work");
  log.add(SituationFact::kPlugIn);
  EXPECT_EQ(log.why_not(patch), std::nullopt);
  // Callbacks are always there.
  EXPECT_EQ(log.why_not(Situation::kInterruptCompleted),
            "not so: it renders: it is no display-only driver");
  log.add(SituationFact::kRenders);
  EXPECT_EQ(log.why_not(Situation::kInterruptCompleted), std::nullopt);
}

TEST(Situations, AReportCountsWhatIsPossibleAndWhatIsReached) {
  SituationLog log;
  const size_t possible = SituationReport(log).possible();
  log.add_entry("DxgkDdiPreemptCommand");
  log.add(SituationFact::kPreemption);
  SituationReport report(log);
  EXPECT_EQ(report.possible(), possible + 1);
  EXPECT_EQ(report.reached(), 0U);
  const auto is_missing = [&](std::string_view id) {
    return std::ranges::any_of(report.missing(),
                               [&](const SituationInfo* info) { return info->id == id; });
  };
  EXPECT_TRUE(is_missing("preempt.idle"));
  EXPECT_FALSE(is_missing("preempt.several"));
  log.reach(Situation::kPreemptIdle);
  log.reach(Situation::kPreemptIdle);
  // What was reached was possible, whatever the facts say.
  log.reach(Situation::kPreemptSeveral);
  report = SituationReport(log);
  EXPECT_EQ(report.reached(), 2U);
  EXPECT_EQ(report.possible(), possible + 2);
  EXPECT_FALSE(is_missing("preempt.idle"));
  EXPECT_EQ(report.counts[static_cast<size_t>(Situation::kPreemptIdle)].count, 2U);
}

}  // namespace
}  // namespace dxgkit::verifier
