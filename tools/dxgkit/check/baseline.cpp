#include "tools/dxgkit/check/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "verifier/finding_text.h"
#include "verifier/source_lines.h"

namespace dxgkit::tool::check {
namespace {

using verify::Outcome;
using verify::StepResult;
using verify::VerifyReport;

constexpr std::string_view kFormat = "dxgkit baseline";
constexpr int kVersion = 1;

struct MarkMember {
  const char* name;
  std::string Mark::*text;
};
constexpr MarkMember kMembers[] = {{"rule", &Mark::rule},
                                   {"place", &Mark::place},
                                   {"function", &Mark::function},
                                   {"what", &Mark::what}};

/// "SgpuPatch+0x14" without the offset.
std::string function_of(const verifier::Place& place) {
  if (place.image.empty()) return {};
  const std::vector<verifier::SourceFrame> source = verifier::source_of(place);
  if (!source.empty() && !source[0].function.empty()) return source[0].function;
  return place.symbol.substr(0, place.symbol.find('+'));
}

/// With many seeds a text ends with the seed and the number of runs.
std::string_view without_seed(std::string_view text) {
  for (const std::string_view end : {" That was with seed ", " (seed "}) {
    if (const size_t at = text.rfind(end); at != std::string_view::npos) text = text.substr(0, at);
  }
  return text;
}

constexpr std::string_view kLeftOut = "steps that a mistake ended were left out";

std::expected<Mark, std::string> read_mark(const nlohmann::json& one, size_t number) {
  Mark mark;
  if (!one.is_object()) return std::unexpected(fmt::format("finding {} is no object", number));
  for (const auto& [name, value] : one.items()) {
    const auto member = std::ranges::find_if(
        kMembers, [&name = name](const MarkMember& known) { return name == known.name; });
    if (member == std::end(kMembers) || !value.is_string())
      return std::unexpected(
          fmt::format("finding {} has a member that is no rule, place, function or what, or no "
                      "text",
                      number));
    mark.*member->text = value.get<std::string>();
  }
  if (mark.place.empty() || mark.what.empty())
    return std::unexpected(fmt::format("finding {} has no place, or no what", number));
  return mark;
}

}  // namespace

bool Mark::is(const Mark& other) const {
  return rule == other.rule && place == other.place && what == other.what &&
         (function == other.function || function.empty() || other.function.empty());
}

Mark mark_of(const verifier::Finding& finding) {
  return {.rule = finding.rule,
          .place = finding.ddi,
          .function = function_of(finding.place),
          .what = verifier::without_numbers(without_seed(finding.actual))};
}

Mark mark_of(const StepResult& step) {
  return {.rule = {},
          .place = step.name,
          .function = {},
          .what = verifier::without_numbers(without_seed(step.outcome.text))};
}

std::string to_text(const Mark& mark) {
  return fmt::format("{} {}{}: {}", mark.rule.empty() ? "step" : mark.rule + " in", mark.place,
                     mark.function.empty() ? "" : ", " + mark.function, mark.what);
}

Baseline Baseline::of(const VerifyReport& report) {
  Baseline all;
  for (const verifier::Finding& finding : report.findings) {
    if (verifier::is_mistake(finding)) all.marks_.push_back(mark_of(finding));
  }
  for (const StepResult& step : report.steps) {
    if (step.outcome.kind == Outcome::Kind::kFailed) all.marks_.push_back(mark_of(step));
  }
  if (report.left_out)
    all.marks_.push_back(
        {.rule = {}, .place = "all", .function = {}, .what = std::string(kLeftOut)});
  std::ranges::sort(all.marks_);
  const auto rest = std::ranges::unique(all.marks_);
  all.marks_.erase(rest.begin(), rest.end());
  return all;
}

std::expected<Baseline, std::string> Baseline::parse(std::string_view text) {
  if (text.size() > kFileBytesMost)
    return std::unexpected(fmt::format("more than {} bytes", kFileBytesMost));
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || file.value("format", nlohmann::json()) != kFormat)
    return std::unexpected("it is no baseline: `dxgkit check --write-baseline` writes one");
  if (file.value("version", nlohmann::json()) != kVersion)
    return std::unexpected("a baseline of another version: write it anew");
  const auto found = file.find("findings");
  if (found == file.end() || !found->is_array())
    return std::unexpected("it has no list of findings");
  Baseline all;
  for (const nlohmann::json& one : *found) {
    std::expected<Mark, std::string> mark = read_mark(one, all.marks_.size() + 1);
    if (!mark.has_value()) return std::unexpected(mark.error());
    all.marks_.push_back(std::move(*mark));
  }
  std::ranges::sort(all.marks_);
  return all;
}

std::string Baseline::to_json_text() const {
  std::string text = fmt::format("{{\n \"format\": \"{}\",\n \"version\": {},\n \"findings\": [",
                                 kFormat, kVersion);
  for (const Mark& mark : marks_) {
    nlohmann::ordered_json one;
    for (const MarkMember& member : kMembers) {
      if (!(mark.*member.text).empty()) one[member.name] = mark.*member.text;
    }
    text += fmt::format("{}\n  {}", &mark == marks_.data() ? "" : ",",
                        one.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return text + (marks_.empty() ? "]\n}\n" : "\n ]\n}\n");
}

bool Baseline::has(const Mark& mark) const {
  return std::ranges::any_of(marks_, [&](const Mark& one) { return one.is(mark); });
}

std::vector<Mark> Baseline::without(const Baseline& now) const {
  std::vector<Mark> gone;
  std::ranges::copy_if(marks_, std::back_inserter(gone),
                       [&](const Mark& mark) { return !now.has(mark); });
  return gone;
}

VerifyReport only_new(const VerifyReport& report, const Baseline& known) {
  VerifyReport rest = report;
  const auto is_known = [&](const verifier::Finding& finding) {
    return verifier::is_mistake(finding) && known.has(mark_of(finding));
  };
  std::erase_if(rest.findings, is_known);
  for (StepResult& step : rest.steps) {
    std::erase_if(step.findings, is_known);
    if (step.outcome.kind == Outcome::Kind::kFailed && known.has(mark_of(step)))
      step.outcome = Outcome::skipped("known to fail: " + step.outcome.text);
  }
  if (report.left_out)
    rest.left_out =
        !known.has({.rule = {}, .place = "all", .function = {}, .what = std::string(kLeftOut)});
  return rest;
}

}  // namespace dxgkit::tool::check
