#include "tools/dxgkit/explain/explanation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "tools/dxgkit/paragraph.h"

namespace dxgkit::tool {
namespace {

/// The lines under a heading, up to the next one; empty if there is no such heading.
std::string section(const std::string& text, const std::string& title) {
  const size_t at = text.find("\n\n" + title + "\n");
  if (at == std::string::npos) return {};
  const size_t begin = at + title.size() + 3;
  return text.substr(begin, text.find("\n\n", begin) - begin);
}

/// Code words of the rulebook that nobody but its authors knows.
const std::regex& code_words() {
  static const std::regex kWords(
      R"(\b(TEST|VIOL|START-FAIL|TDR-ENGINE|TDR-ADAPTER|DEV-ERR)\b|\bBC\()");
  return kWords;
}

/// Prose stays within the columns; examples, addresses and long names are as they are.
void expect_prose_fits(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    ") ||
        line.find(' ', line.find_first_not_of(' ')) == std::string::npos)
      continue;
    EXPECT_LE(line.size(), kTextColumns) << line;
  }
}

// Every rule is told in full: all sections, each with a text, and no code word in any.
TEST(Explanation, TellsEveryRuleInFull) {
  for (const verifier::Rule& rule : verifier::all_rules()) {
    SCOPED_TRACE(rule.id);
    const std::string text = rule_text(rule);
    EXPECT_TRUE(text.starts_with(std::string(rule.id) + ": ")) << text;
    for (const char* title : {"Why", "When it is broken", "How to fix it", "Wrong", "Right",
                              "Situations that show it", "What is dxgkit's own choice", "Pages"})
      EXPECT_FALSE(section(text, title).empty()) << title;
    EXPECT_FALSE(std::regex_search(text, code_words())) << text;
    expect_prose_fits(text);
    const nlohmann::ordered_json json = rule_json(rule);
    EXPECT_EQ(json["id"], rule.id);
    EXPECT_FALSE(json["consequences"].empty());
    EXPECT_NE(json["situations"].empty(), !json.contains("no_situation"));
    EXPECT_EQ(json["pages"].size(), rule.pages.size());
    EXPECT_FALSE(std::regex_search(json.dump(), code_words())) << json.dump(1);
  }
}

// A rule that nobody documents in full says so; one that a page states says nothing of the kind.
TEST(Explanation, TellsWhatIsOurChoice) {
  const std::string choice =
      section(rule_text(*verifier::find_rule("DOD-02")), "What is dxgkit's own choice");
  EXPECT_NE(choice.find("No page states all of this rule."), std::string::npos) << choice;
  EXPECT_NE(choice.find("About DxgkDdiPresentDisplayOnly: our choice of words."), std::string::npos)
      << choice;
  EXPECT_NE(section(rule_text(*verifier::find_rule("PATCH-08")), "What is dxgkit's own choice")
                .find("Nothing"),
            std::string::npos);
  const std::string gap = rule_text(*verifier::find_rule("PREEMPT-11"));
  EXPECT_NE(gap.find("G-10: 0x119 with parameter 2"), std::string::npos) << gap;
}

// Situations, pages with and without an address, and the duty.
TEST(Explanation, TellsSituationsAndPages) {
  const std::string text = rule_text(*verifier::find_rule("PATCH-13"));
  EXPECT_TRUE(text.starts_with("PATCH-13: the miniport must keep this rule.\n")) << text;
  EXPECT_NE(
      section(text, "Situations that show it").find("patch.part-behind-start (DxgkDdiPatch): "),
      std::string::npos);
  EXPECT_NE(section(text, "Pages")
                .find("https://learn.microsoft.com/windows-hardware/drivers/ddi/"
                      "d3dkmddi/ns-d3dkmddi-_dxgkarg_patch"),
            std::string::npos);
  EXPECT_TRUE(
      rule_text(*verifier::find_rule("PATCH-08")).starts_with("PATCH-08: dxgkit itself must "));
  EXPECT_TRUE(rule_text(*verifier::find_rule("RES-04")).starts_with("RES-04: the caller must "));
  // A remark behind a title does not hide the page.
  const nlohmann::ordered_json page = rule_json(*verifier::find_rule("DOD-02"))["pages"][0];
  EXPECT_EQ(page["title"], "DxgkDdiPresentDisplayOnly (our choice of words)");
  EXPECT_TRUE(page["address"].get<std::string>().ends_with("-dxgkddi_presentdisplayonly"));
  EXPECT_TRUE(rule_json(*verifier::find_rule("FIELD-01"))["pages"][0]["address"].is_null());
}

// Every bug check, alone and with each of its values, has all sections and no code word.
TEST(Explanation, TellsEveryBugCheckInFull) {
  for (const verifier::BugCheck& check : verifier::all_bug_checks()) {
    SCOPED_TRACE(check.name);
    std::vector<BugCheckParameters> lines = {{}, {0xFFFF'FFFF'FFFF'FFFF}};
    for (const verifier::BugCheckValue& value : check.values)
      lines.push_back({value.value, 1, 2, 3});
    for (const BugCheckParameters& parameters : lines) {
      const std::string text = bug_check_text(check, parameters);
      for (const char* title : {"Parameters", "Page"})
        EXPECT_FALSE(section(text, title).empty()) << title << text;
      const bool lists_values = parameters.empty() && !check.values.empty();
      EXPECT_EQ(
          section(text, check.complete ? "Values of parameter 1" : "Some values of parameter 1")
              .empty(),
          !lists_values);
      EXPECT_TRUE(lists_values ||
                  !section(text, "Rules that it comes from (dxgkit explain RULE)").empty())
          << text;
      EXPECT_FALSE(std::regex_search(text, code_words())) << text;
      expect_prose_fits(text);
      const nlohmann::ordered_json json = bug_check_json(check, parameters);
      EXPECT_EQ(json["parameters"].size(), 4U);
      EXPECT_EQ(json.contains("values"), parameters.empty());
    }
    EXPECT_EQ(bug_check_json(check, {})["values"].size(), check.values.size());
  }
}

// A value that is not published is called so; where a page lists more than we know, that is said.
TEST(Explanation, InventsNoMeaningOfAValue) {
  const std::string text = bug_check_text(*verifier::find_bug_check(0x119), {0x99});
  EXPECT_NE(text.find("does not publish the value 0x99"), std::string::npos) << text;
  EXPECT_TRUE(bug_check_json(*verifier::find_bug_check(0x119), {0x99})["parameter_1"].is_null());
  EXPECT_NE(bug_check_text(*verifier::find_bug_check(0xC2), {0x99}).find("the page lists more"),
            std::string::npos);
  // A pointer is no kind of violation.
  EXPECT_EQ(bug_check_text(*verifier::find_bug_check(0x116), {0x99}).find("\nParameter 1 = "),
            std::string::npos);
  const nlohmann::ordered_json seen = bug_check_json(*verifier::find_bug_check(0x113), {0x1C});
  EXPECT_EQ(seen["parameter_1"]["published"], false);
  const std::string known = bug_check_text(*verifier::find_bug_check(0x119), {0x1, 0xC00, 0xC01});
  EXPECT_NE(known.find("DRIVER_REPORTED_INVALID_FENCE_ID: "), std::string::npos) << known;
  EXPECT_NE(known.find("\n  3 = 0xC01  "), std::string::npos) << known;
  EXPECT_NE(known.find("INT-11 (the miniport must): "), std::string::npos) << known;
}

using Names = std::vector<std::string_view>;

// What is spelt much alike is offered, nearest first; what is not, is not.
TEST(Explanation, OffersTheNearestNames) {
  EXPECT_EQ(nearest_names("patch08"), Names{"PATCH-08"});
  EXPECT_EQ(nearest_names("pathc-08"), Names{"PATCH-08"});
  // Two neighbours changed places, twice.
  EXPECT_EQ(nearest_names("ptach0-8"), Names{"PATCH-08"});
  EXPECT_EQ(nearest_names("VIDEO_TDR_FAILUR"), Names{"VIDEO_TDR_FAILURE"});
  EXPECT_EQ(nearest_names("irql-2"), (Names{"IRQL-02", "IRQL-12"}));
  EXPECT_EQ(nearest_names("patch-").size(), 3U);
  EXPECT_TRUE(nearest_names("nonsense").empty());
}

}  // namespace
}  // namespace dxgkit::tool
