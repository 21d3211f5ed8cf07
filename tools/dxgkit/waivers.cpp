#include "tools/dxgkit/waivers.h"

#include <fmt/format.h>

#include "base/spelling.h"

namespace dxgkit::tool {
namespace {

std::string use_text(const verifier::Waivers& waivers, size_t index) {
  const uint64_t uses = waivers.uses(index);
  return uses == 0 ? "unused" : "used " + counted(uses, "time");
}

}  // namespace

std::string waivers_text(const verifier::Waivers& waivers) {
  std::string text;
  for (size_t i = 0; i < waivers.all().size(); ++i) {
    text += fmt::format("waiver {}: {} ({})\n", waivers.all()[i].rule, use_text(waivers, i),
                        waivers.all()[i].reason);
  }
  return text;
}

nlohmann::ordered_json waivers_json(const verifier::Waivers& waivers) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < waivers.all().size(); ++i) {
    const verifier::Waiver& waiver = waivers.all()[i];
    json.push_back({{"rule", waiver.rule}, {"reason", waiver.reason}, {"uses", waivers.uses(i)}});
  }
  return json;
}

std::vector<verifier::JunitCase> waiver_cases(const verifier::Waivers& waivers) {
  std::vector<verifier::JunitCase> cases;
  for (size_t i = 0; i < waivers.all().size(); ++i) {
    const verifier::Waiver& waiver = waivers.all()[i];
    cases.push_back({.name = "waiver " + waiver.rule,
                     .outcome = verifier::JunitCase::Outcome::kSkipped,
                     .message = use_text(waivers, i) + ": " + waiver.reason,
                     .text = {}});
  }
  return cases;
}

std::vector<std::string> unused_waivers(const verifier::Waivers& waivers) {
  std::vector<std::string> unused;
  for (size_t i = 0; i < waivers.all().size(); ++i) {
    if (waivers.uses(i) == 0)
      unused.push_back(fmt::format("The waiver of {} is unused.", waivers.all()[i].rule));
  }
  return unused;
}

}  // namespace dxgkit::tool
