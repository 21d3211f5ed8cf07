#include "tools/dxgkit/campaign/verified_seed.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dxgkit::tool::campaign {
namespace {

/// Of verify: 0 clean, 1 findings, 3 Windows would have stopped, 4 the driver did not come back.
constexpr int kAnswers[] = {0, 1, 3, 4};

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// FNV-1a.
uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

std::expected<sim::SeedResult, std::string> verified_seed(uint64_t seed, int code,
                                                          std::string_view json) {
  if (std::ranges::find(kAnswers, code) == std::end(kAnswers))
    return std::unexpected(fmt::format("verify ended with code {} for seed {}", code, seed));
  const nlohmann::json report = nlohmann::json::parse(json, nullptr, false);
  const auto steps = report.is_object() ? report.find("steps") : report.end();
  if (!report.is_object() || steps == report.end() || !steps->is_array())
    return std::unexpected(fmt::format("verify left no report for seed {}", seed));
  sim::SeedResult result;
  result.seed = seed;
  result.trace_hash = hash_of(json);
  result.counters.seeds = 1;
  if (code == 0) return result;
  result.failure = text_of(report, "verdict");
  for (const nlohmann::json& step : *steps) {
    if (!step.is_object()) continue;
    if (text_of(step, "outcome") == "failed")
      result.failure +=
          fmt::format("\n  step {} failed: {}", text_of(step, "name"), text_of(step, "text"));
    const auto findings = step.find("findings");
    if (findings == step.end() || !findings->is_array()) continue;
    for (const nlohmann::json& finding : *findings) {
      if (!finding.is_object()) continue;
      result.failure += fmt::format("\n  {} in {}: {}", text_of(finding, "rule"),
                                    text_of(finding, "ddi"), text_of(finding, "actual"));
    }
  }
  if (result.failure.empty()) result.failure = fmt::format("exit code {}", code);
  return result;
}

}  // namespace dxgkit::tool::campaign
