#include "tools/dxgkit/finding_json.h"

namespace dxgkit::tool {
namespace {

using verifier::Finding;

struct TextMember {
  const char* name;
  std::string Finding::*text;
};
constexpr TextMember kTexts[] = {
    {"rule", &Finding::rule},       {"ddi", &Finding::ddi},
    {"actual", &Finding::actual},   {"expected", &Finding::expected},
    {"fix", &Finding::fix},         {"why", &Finding::why},
    {"windows", &Finding::windows}, {"because_of", &Finding::because_of},
    {"waived", &Finding::waived}};

/// The member, or `otherwise` if it is missing or of another type.
template <typename T>
T member(const nlohmann::json& message, const char* name, T otherwise) {
  const auto found = message.find(name);
  if (found == message.end()) return otherwise;
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    return otherwise;
  }
}

}  // namespace

nlohmann::json to_message(const Finding& finding) {
  nlohmann::json message;
  for (const TextMember& one : kTexts) {
    if (!(finding.*one.text).empty()) message[one.name] = finding.*one.text;
  }
  message["severity"] = static_cast<int>(finding.severity);
  message["confidence"] = static_cast<int>(finding.confidence);
  message["code"] = finding.bugcheck_code;
  message["parameter"] = finding.bugcheck_parameter;
  const verifier::Place& place = finding.place;
  if (!place.image.empty()) message["image"] = place.image;
  if (!place.path.empty()) message["path"] = place.path;
  if (place.rva != 0) message["rva"] = place.rva;
  if (place.after_call) message["after_call"] = true;
  if (place.entry) message["entry"] = true;
  if (finding.dooms) message["dooms"] = true;
  if (!place.symbol.empty()) message["symbol"] = place.symbol;
  if (!place.registers.empty()) message["registers"] = place.registers;
  if (!place.stack.empty()) message["stack"] = place.stack;
  if (!finding.before.empty()) message["before"] = finding.before;
  return message;
}

Finding finding_of(const nlohmann::json& message) {
  Finding finding;
  if (!message.is_object()) return finding;
  for (const TextMember& one : kTexts)
    finding.*one.text = member<std::string>(message, one.name, {});
  finding.severity = static_cast<verifier::Severity>(
      member(message, "severity", static_cast<int>(verifier::Severity::kViolation)));
  finding.confidence = static_cast<verifier::Confidence>(
      member(message, "confidence", static_cast<int>(verifier::Confidence::kInferred)));
  finding.bugcheck_code = member(message, "code", uint32_t{0});
  finding.bugcheck_parameter = member(message, "parameter", uint32_t{0});
  verifier::Place& place = finding.place;
  place.image = member<std::string>(message, "image", {});
  place.path = member<std::string>(message, "path", {});
  place.rva = member(message, "rva", uint64_t{0});
  place.after_call = member(message, "after_call", false);
  place.entry = member(message, "entry", false);
  finding.before = member<std::vector<std::string>>(message, "before", {});
  finding.dooms = member(message, "dooms", false);
  place.symbol = member<std::string>(message, "symbol", {});
  place.registers = member<std::string>(message, "registers", {});
  place.stack = member<std::vector<std::string>>(message, "stack", {});
  return finding;
}

}  // namespace dxgkit::tool
