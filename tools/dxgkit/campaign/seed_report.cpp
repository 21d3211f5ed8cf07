#include "tools/dxgkit/campaign/seed_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dxgkit::tool::campaign {
namespace {

/// Of both: 0 clean, 1 findings, 3 Windows would have stopped, 4 the driver did not come back.
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

/// The report, which is an object with a list called `list`.
std::expected<nlohmann::json, std::string> report_of(std::string_view command, const char* list,
                                                     uint64_t seed, int code,
                                                     std::string_view json) {
  if (std::ranges::find(kAnswers, code) == std::end(kAnswers))
    return std::unexpected(fmt::format("{} ended with code {} for seed {}", command, code, seed));
  nlohmann::json report = nlohmann::json::parse(json, nullptr, false);
  const bool fits = report.is_object() && report.contains(list) && report[list].is_array();
  if (!fits) return std::unexpected(fmt::format("{} left no report for seed {}", command, seed));
  return report;
}

/// A name of a file that leads nowhere else.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 100 &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.';
         });
}

}  // namespace

std::expected<sim::SeedResult, std::string> verified_seed(uint64_t seed, int code,
                                                          std::string_view json) {
  const auto read = report_of("verify", "steps", seed, code, json);
  if (!read.has_value()) return std::unexpected(read.error());
  const nlohmann::json& report = *read;
  sim::SeedResult result;
  result.seed = seed;
  result.trace_hash = hash_of(json);
  result.counters.seeds = 1;
  if (code == 0) return result;
  result.failure = text_of(report, "verdict");
  for (const nlohmann::json& step : report["steps"]) {
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

std::expected<FuzzedSeed, std::string> fuzzed_seed(uint64_t seed, int code, std::string_view json) {
  const auto read = report_of("fuzz", "problems", seed, code, json);
  if (!read.has_value()) return std::unexpected(read.error());
  FuzzedSeed out;
  out.result.seed = seed;
  out.result.counters.seeds = 1;
  for (const nlohmann::json& problem : (*read)["problems"]) {
    if (!problem.is_object()) continue;
    out.result.failure += (out.result.failure.empty() ? "" : "\n") + text_of(problem, "key");
    const std::string file = text_of(problem, "reproducer");
    const std::string name = file.substr(file.rfind('/') + 1);
    if (is_plain_name(name)) out.files.push_back(name);
  }
  if (code != 0 && out.result.failure.empty())
    out.result.failure = fmt::format("exit code {}", code);
  out.result.trace_hash = hash_of(out.result.failure);
  return out;
}

}  // namespace dxgkit::tool::campaign
