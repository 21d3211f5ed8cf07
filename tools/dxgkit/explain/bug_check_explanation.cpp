#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <span>

#include "tools/dxgkit/explain/explanation.h"
#include "tools/dxgkit/paragraph.h"

namespace dxgkit::tool {
namespace {

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (const auto part : std::views::split(text, separator)) {
    if (!part.empty()) out.emplace_back(part.begin(), part.end());
  }
  return out;
}

std::string points(std::string_view lines) {
  std::string out;
  for (const std::string_view line : parts_of(lines, '\n')) out += point(line);
  return out;
}

/// "FATAL_PAGE_FAULT: The flags ..."; without a name, the meaning alone.
std::string meaning_of(const verifier::BugCheckValue& value) {
  if (value.name.empty()) return std::string(value.meaning);
  return fmt::format("{}: {}", value.name, value.meaning);
}

/// What a first parameter is that is not among the values; nothing where it is no kind, but data.
std::string unknown_value(const verifier::BugCheck& check, uint64_t value) {
  if (check.complete)
    return fmt::format("The page of this bug check does not publish the value 0x{:X}.", value);
  if (check.values.empty()) return {};
  return fmt::format("dxgkit does not know the value 0x{:X}; the page lists more.", value);
}

std::string rules_text(std::string_view rules) {
  std::string out;
  for (const std::string_view id : parts_of(rules, ' ')) {
    const verifier::Rule* const rule = verifier::find_rule(id);
    if (rule == nullptr) continue;
    out += point(fmt::format("{} ({}): {}", id, duty_of(*rule), rule->statement));
  }
  return out.empty() ? "  - None of the rulebook.\n" : out;
}

/// The rules of the bug check that none of its values names.
std::string rules_beside_values(const verifier::BugCheck& check) {
  std::string out;
  for (const std::string_view id : parts_of(check.rules, ' ')) {
    const bool named = std::ranges::any_of(check.values, [&](const verifier::BugCheckValue& value) {
      return std::ranges::count(parts_of(value.rules, ' '), id) != 0;
    });
    if (!named) out += fmt::format("{} ", id);
  }
  return out;
}

std::string parameters_text(const verifier::BugCheck& check, std::span<const uint64_t> given) {
  std::string out;
  for (size_t i = 0; i < check.parameters.size(); ++i) {
    const std::string value = i < given.size() ? fmt::format(" = 0x{:X}", given[i]) : std::string();
    out += wrapped(fmt::format("{}{}  {}", i + 1, value, check.parameters[i]), "  ", "     ");
  }
  return out;
}

std::string values_text(const verifier::BugCheck& check) {
  std::string out =
      heading(check.complete ? "Values of parameter 1" : "Some values of parameter 1");
  for (const verifier::BugCheckValue& value : check.values) {
    std::string text =
        fmt::format("{:<9}{}", fmt::format("0x{:X}", value.value), meaning_of(value));
    if (!value.rules.empty()) text += fmt::format(" [{}]", value.rules);
    out += wrapped(text, "  ", "           ");
  }
  return out;
}

}  // namespace

std::string bug_check_text(const verifier::BugCheck& check, const BugCheckParameters& parameters) {
  std::string out = fmt::format("0x{:X} {}\n", check.code, check.name);
  out += wrapped(check.meaning, "  ");
  const verifier::BugCheckValue* const value =
      parameters.empty() ? nullptr : verifier::find_value(check, parameters[0]);
  const bool lists_values = parameters.empty() && !check.values.empty();
  std::string rules = lists_values ? rules_beside_values(check) : std::string(check.rules);
  std::string_view causes = check.causes;
  if (value != nullptr) {
    out += heading(fmt::format("Parameter 1 = 0x{:X}", value->value));
    out += wrapped(meaning_of(*value), "  ");
    rules = value->rules;
    if (!value->causes.empty()) causes = value->causes;
  } else if (!parameters.empty()) {
    const std::string unknown = unknown_value(check, parameters[0]);
    if (!unknown.empty())
      out += heading(fmt::format("Parameter 1 = 0x{:X}", parameters[0])) + wrapped(unknown, "  ");
  }
  out += heading("Parameters") + parameters_text(check, parameters);
  if (!causes.empty()) out += heading("Likely causes") + points(causes);
  if (lists_values) out += values_text(check);
  if (!lists_values || !rules.empty())
    out += heading("Rules that it comes from (dxgkit explain RULE)") + rules_text(rules);
  return out + heading("Page") + fmt::format("  {}\n", check.page);
}

nlohmann::ordered_json bug_check_json(const verifier::BugCheck& check,
                                      const BugCheckParameters& parameters) {
  const auto value_json = [](const verifier::BugCheckValue& value) {
    return nlohmann::ordered_json{{"value", fmt::format("0x{:X}", value.value)},
                                  {"name", value.name},
                                  {"meaning", value.meaning},
                                  {"published", value.published},
                                  {"rules", parts_of(value.rules, ' ')},
                                  {"causes", parts_of(value.causes, '\n')}};
  };
  nlohmann::ordered_json out = {{"kind", "bug check"},
                                {"code", fmt::format("0x{:X}", check.code)},
                                {"name", check.name},
                                {"meaning", check.meaning},
                                {"live_dump", check.live_dump}};
  out["parameters"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < check.parameters.size(); ++i) {
    out["parameters"].push_back({{"meaning", check.parameters[i]}, {"value", nullptr}});
    if (i < parameters.size())
      out["parameters"].back()["value"] = fmt::format("0x{:X}", parameters[i]);
  }
  out["rules"] = parts_of(check.rules, ' ');
  out["causes"] = parts_of(check.causes, '\n');
  if (!parameters.empty()) {
    const verifier::BugCheckValue* const value = verifier::find_value(check, parameters[0]);
    out["parameter_1"] = value == nullptr ? nlohmann::ordered_json() : value_json(*value);
    if (value == nullptr) out["not_published"] = check.complete;
  } else {
    out["values"] = nlohmann::ordered_json::array();
    for (const verifier::BugCheckValue& value : check.values)
      out["values"].push_back(value_json(value));
    out["all_values"] = check.complete;
  }
  out["page"] = check.page;
  return out;
}

}  // namespace dxgkit::tool
