// Many seeds: on several processes, so that a seed that ends its process is told from the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/counters.h"
#include "sim/fault_plan.h"

namespace dxgkit::sim {

struct SeedRange {
  uint64_t first = 1, last = 0;  // both included
  uint64_t count() const { return last - first + 1; }
};
/// "7" or "1..250"; nothing for other text or an empty range.
std::optional<SeedRange> parse_seeds(std::string_view text);

struct RunSeeds {
  SeedRange seeds;
  Canary canary = Canary::kNone;
  uint32_t workers = 1;
  /// Every n-th seed runs twice, and both must give the same trace (P16). 0: none.
  uint32_t replay_every = 0;
  /// The command that runs a range again: what a failure tells its reader.
  std::string program;
  /// As SeedOptions::trace_path; each seed overwrites the one before.
  std::string trace_path = {};
  /// After so many failures no further seed is begun.
  uint32_t failures_most = 10;
};
struct SeedFailure {
  uint64_t seed = 0;
  std::string what;    // with the world's plan
  std::string replay;  // one command
};
struct SeedsReport {
  Counters counters;
  std::vector<SeedFailure> failures;  // by seed
  double seconds = 0;
};
/// Forks its workers: call it outside any runtime, with no other thread about.
SeedsReport run_seeds(const RunSeeds& options);

/// A page of numbers.
std::string summary(const RunSeeds& options, const SeedsReport& report);

}  // namespace dxgkit::sim
