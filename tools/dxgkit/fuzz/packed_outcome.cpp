#include "tools/dxgkit/fuzz/packed_outcome.h"

#include "tools/dxgkit/finding_json.h"

namespace dxgkit::tool::fuzz {

std::string pack(const FuzzOutcome& outcome, size_t most) {
  nlohmann::json message;
  message["unusable"] = outcome.unusable.substr(0, most / 4);
  // The entry comes first, and what it did last comes last.
  std::vector<std::string> before = outcome.before;
  const auto bytes = [&] {
    size_t sum = 0;
    for (const std::string& line : before) sum += line.size();
    return sum;
  };
  while (before.size() > 1 && bytes() > most / 4) before.erase(before.begin() + 1);
  message["before"] = before;
  message["counts"] = {outcome.counts.calls, outcome.counts.succeeded, outcome.counts.blocked,
                       outcome.counts.processes};
  message["problems"] = nlohmann::json::array();
  std::string out = line_of(message);
  for (const Problem& problem : outcome.problems) {
    nlohmann::json& all = message["problems"];
    verifier::Finding finding = problem.finding;
    all.push_back({{"key", problem.key}, {"finding", to_message(finding)}});
    std::string longer = line_of(message);
    while (longer.size() > most && finding.before.size() > 1) {
      finding.before.erase(finding.before.begin() + 1);
      all.back()["finding"] = to_message(finding);
      longer = line_of(message);
    }
    if (longer.size() > most) {
      all.back()["finding"] = {{"rule", finding.rule},
                               {"ddi", finding.ddi},
                               {"waived", finding.waived},
                               {"severity", static_cast<int>(finding.severity)}};
      longer = line_of(message);
    }
    if (longer.size() > most) break;
    out = std::move(longer);
  }
  return out;
}

FuzzOutcome unpack(std::string_view bytes) {
  FuzzOutcome outcome;
  const auto message = nlohmann::json::parse(bytes, nullptr, false);
  if (!message.is_object()) {
    outcome.unusable = "the run left no result";
    return outcome;
  }
  outcome.unusable = message.value("unusable", "");
  outcome.before = message.value("before", std::vector<std::string>());
  const auto counts = message.value("counts", std::vector<uint64_t>());
  size_t at = 0;
  for (uint64_t* count : {&outcome.counts.calls, &outcome.counts.succeeded, &outcome.counts.blocked,
                          &outcome.counts.processes})
    *count = at < counts.size() ? counts[at++] : 0;
  for (const auto& one : message.value("problems", nlohmann::json::array()))
    outcome.problems.push_back({.key = one.value("key", ""),
                                .finding = finding_of(one.value("finding", nlohmann::json()))});
  return outcome;
}

}  // namespace dxgkit::tool::fuzz
