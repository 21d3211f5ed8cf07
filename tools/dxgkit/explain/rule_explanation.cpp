#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "tools/dxgkit/explain/explanation.h"
#include "tools/dxgkit/paragraph.h"
#include "verifier/observed.h"
#include "verifier/situations.h"

namespace dxgkit::tool {
namespace {

/// Lines of code stay as they are.
std::string example(std::string_view code) {
  std::string out;
  for (const auto line : std::views::split(code, '\n'))
    out += fmt::format("    {}\n", std::string_view(line.begin(), line.end()));
  return out;
}

bool names(std::string_view rules, std::string_view id) {
  for (const auto word : std::views::split(rules, ' ')) {
    if (std::string_view(word.begin(), word.end()) == id) return true;
  }
  return false;
}

std::vector<const verifier::SituationInfo*> situations_of(const verifier::Rule& rule) {
  std::vector<const verifier::SituationInfo*> out;
  for (const verifier::SituationInfo& info : verifier::situation_catalogue()) {
    if (names(info.rules, rule.id)) out.push_back(&info);
  }
  return out;
}

std::string no_situation_of(const verifier::Rule& rule) {
  if (!rule.no_situation.empty()) return std::string(rule.no_situation);
  return "The catalogue of situations is about duties of drivers; this one is not.";
}

/// What stands in brackets in `text` and says that it is a choice or an inference of ours.
std::vector<std::string_view> remarks_in(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t open = text.find('('); open != std::string_view::npos;
       open = text.find('(', open + 1)) {
    const size_t close = text.find(')', open);
    if (close == std::string_view::npos) break;
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    if (inside.contains("our choice") || inside.contains("is ours")) out.push_back(inside);
  }
  return out;
}

std::vector<std::string> own_choices_of(const verifier::Rule& rule) {
  std::vector<std::string> out;
  if (!rule.our_choice) return {"Nothing: the pages below state all of the rule."};
  out.emplace_back("No page states all of this rule. What dxgkit does there is its own choice.");
  for (const std::string_view remark : remarks_in(rule.observed))
    out.push_back(fmt::format("About what is seen: {}.", remark));
  for (const verifier::RulePage& page : rule.pages) {
    for (const std::string_view remark : remarks_in(page.title))
      out.push_back(
          fmt::format("About {}: {}.", page.title.substr(0, page.title.find(" (")), remark));
  }
  return out;
}

std::vector<const verifier::RuleGap*> gaps_of(const verifier::Rule& rule) {
  std::vector<const verifier::RuleGap*> out;
  for (const verifier::RuleGap& gap : verifier::rule_gaps()) {
    if (rule.statement.contains(gap.id)) out.push_back(&gap);
  }
  return out;
}

}  // namespace

std::string duty_of(const verifier::Rule& rule) {
  const std::string_view verb = rule.level == "SHOULD" ? "should" : "must";
  switch (rule.who) {
    case verifier::Who::kKernel:
      return fmt::format("dxgkit itself {}", verb);
    case verifier::Who::kMiniport:
      return fmt::format("the miniport {}", verb);
    case verifier::Who::kThunkCaller:
      return fmt::format("the caller {}", verb);
  }
  return {};
}

std::string rule_text(const verifier::Rule& rule) {
  std::string out = fmt::format("{}: {} keep this rule.\n", rule.id, duty_of(rule));
  out += wrapped(rule.statement, "  ");
  out += heading("Why") + wrapped(rule.why, "  ");
  out += heading("When it is broken");
  for (const std::string& sentence : verifier::consequences_of(rule)) out += point(sentence);
  out += heading("How to fix it") + wrapped(rule.fix, "  ");
  out += heading("Wrong") + example(rule.wrong);
  out += heading("Right") + example(rule.right);
  out += heading("Situations that show it");
  const auto situations = situations_of(rule);
  for (const verifier::SituationInfo* info : situations)
    out += point(fmt::format("{} ({}): {}", info->id, info->ddi, info->when));
  if (situations.empty()) out += point("None. " + no_situation_of(rule));
  out += heading("What is dxgkit's own choice");
  for (const std::string& sentence : own_choices_of(rule)) out += point(sentence);
  for (const verifier::RuleGap* gap : gaps_of(rule))
    out += point(fmt::format("{}: {}", gap->id, gap->text));
  out += heading("Pages");
  for (const verifier::RulePage& page : rule.pages) {
    out += point(page.title);
    if (!page.address.empty()) out += fmt::format("    {}\n", page.address);
  }
  return out;
}

nlohmann::ordered_json rule_json(const verifier::Rule& rule) {
  nlohmann::ordered_json situations = nlohmann::ordered_json::array();
  for (const verifier::SituationInfo* info : situations_of(rule))
    situations.push_back({{"id", info->id}, {"ddi", info->ddi}, {"when", info->when}});
  nlohmann::ordered_json gaps = nlohmann::ordered_json::array();
  for (const verifier::RuleGap* gap : gaps_of(rule))
    gaps.push_back({{"id", gap->id}, {"text", gap->text}});
  nlohmann::ordered_json pages = nlohmann::ordered_json::array();
  for (const verifier::RulePage& page : rule.pages) {
    pages.push_back({{"title", page.title}, {"address", nullptr}});
    if (!page.address.empty()) pages.back()["address"] = page.address;
  }
  nlohmann::ordered_json out = {
      {"kind", "rule"},        {"id", rule.id},
      {"level", rule.level},   {"who", verifier::to_string(rule.who)},
      {"duty", duty_of(rule)}, {"statement", rule.statement},
      {"why", rule.why},       {"consequences", verifier::consequences_of(rule)},
      {"fix", rule.fix},       {"wrong", rule.wrong},
      {"right", rule.right}};
  out["situations"] = std::move(situations);
  if (out["situations"].empty()) out["no_situation"] = no_situation_of(rule);
  out["our_choice"] = rule.our_choice;
  out["own_choices"] = own_choices_of(rule);
  out["gaps"] = std::move(gaps);
  out["pages"] = std::move(pages);
  return out;
}

}  // namespace dxgkit::tool
