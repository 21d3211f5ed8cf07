#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/explain/explanation.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/paragraph.h"

namespace dxgkit::tool {
namespace {

/// A number as a blue screen shows it: hexadecimal, with or without 0x; debuggers put a ` between
/// the halves of 64 bits.
std::optional<uint64_t> parse_hex(std::string_view text) {
  std::string digits = upper(text);
  if (digits.starts_with("0X")) digits.erase(0, 2);
  std::erase(digits, '`');
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

int refuse_unknown(const std::string& what) {
  const std::string area_name = upper(what.substr(0, what.find('-')));
  for (const verifier::RuleArea& area : verifier::rule_areas()) {
    if (area.name == area_name)
      return bad_input(fmt::format("'{}' is not a rule; {} has {}: `dxgkit rules {}`", what,
                                   area.name, counted(area.count, "rule"), area.name));
  }
  const std::vector<std::string_view> near = nearest_names(what);
  return bad_input(fmt::format("'{}' is neither a rule nor a bug check; {}", what,
                               near.empty()
                                   ? std::string("`dxgkit rules` lists the areas of rules")
                                   : fmt::format("did you mean {}?", fmt::join(near, " or "))));
}

const verifier::BugCheck* bug_check_named(const std::string& name) {
  const auto found =
      std::ranges::find(verifier::all_bug_checks(), upper(name), &verifier::BugCheck::name);
  return found == verifier::all_bug_checks().end() ? nullptr : &*found;
}

int answer(const Reports& reports, const std::string& json, const std::string& text) {
  if (reports.json.has_value() && !write_output(reports.json, json)) return kExitNotWritten;
  if (!reports.on_stdout()) fmt::print("{}", text);
  return kExitDone;
}

}  // namespace

int explain_command(const std::vector<std::string>& words, const Reports& reports) {
  if (const int code = reports.check(); code != kExitDone) return code;
  const std::string& what = words.at(0);
  if (const verifier::Rule* rule = verifier::find_rule(upper(what)); rule != nullptr) {
    if (words.size() > 1)
      return bad_input(
          fmt::format("'{}' is too much: {} is a rule, and only bug checks have parameters",
                      words[1], rule->id));
    return answer(reports, rule_json(*rule).dump(1) + "\n", rule_text(*rule));
  }
  const std::optional<uint64_t> code = parse_hex(what);
  const verifier::BugCheck* const check =
      code.has_value() ? verifier::find_bug_check(*code) : bug_check_named(what);
  if (check == nullptr) {
    if (!code.has_value()) return refuse_unknown(what);
    return bad_input(fmt::format("no rule of the rulebook has to do with bug check 0x{:X}", *code));
  }
  BugCheckParameters parameters;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::optional<uint64_t> parameter = parse_hex(words[i]);
    if (!parameter.has_value())
      return bad_input(
          fmt::format("'{}' is not a hexadecimal number of at most 64 bits", words[i]));
    parameters.push_back(*parameter);
  }
  if (parameters.size() > check->parameters.size())
    return bad_input(fmt::format("a bug check has {}, not {}",
                                 counted(check->parameters.size(), "parameter"),
                                 parameters.size()));
  return answer(reports, bug_check_json(*check, parameters).dump(1) + "\n",
                bug_check_text(*check, parameters));
}

}  // namespace dxgkit::tool
