// Many seeds: on several processes, so that a seed that ends its process is told from the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/counters.h"
#include "sim/fault_plan.h"
#include "sim/world.h"

namespace dxgkit::sim {

struct SeedRange {
  uint64_t first = 1, last = 0;  // both included
  uint64_t count() const { return last - first + 1; }
};
/// "7" or "1..250"; nothing for other text or an empty range.
std::optional<SeedRange> parse_seeds(std::string_view text);

struct SeedFailure {
  uint64_t seed = 0;
  std::string what;    // with the world's plan
  std::string replay;  // one command
};
/// What one seed came to.
struct SeedResult {
  uint64_t seed = 0;
  uint64_t trace_hash = 0;
  bool died = false;  // it ended its process: there are no numbers
  Counters counters;
  std::string failure;  // with the world's plan; empty: passed
};

struct SeedsReport {
  Counters counters;
  std::vector<SeedFailure> failures;  // by seed
  uint64_t ended = 0;                 // seeds
  double seconds = 0;
};

struct RunSeeds {
  SeedRange seeds;
  /// Of the seeds every shards-th, from the shard-th on.
  uint32_t shard = 0, shards = 1;
  Canary canary = Canary::kNone;
  Changes changes = {};
  std::string driver = {};
  DriverFace face = DriverFace::kEither;
  uint32_t workers = 1;
  /// Told of each seed, in the order they end, and now and then of how many have ended.
  std::function<void(const SeedResult&)> on_seed = {};
  std::function<void(const SeedsReport&)> on_tick = {};
  /// Every n-th seed runs twice, and both must give the same trace (P16). 0: none.
  uint32_t replay_every = 0;
  /// The command that runs a seed again: what a failure tells its reader.
  std::function<std::string(uint64_t seed)> replay;
  /// As SeedOptions::trace_path; each seed overwrites the one before.
  std::string trace_path = {};
  /// After so many failures no further seed is begun.
  uint32_t failures_most = 10;
  /// Real time one seed may take; one that takes longer fails, and its worker is killed. 0: any.
  uint32_t seconds_most = 300;
};
/// Forks its workers: call it outside any runtime, with no other thread about.
SeedsReport run_seeds(const RunSeeds& options);

/// How many seeds that are.
uint64_t count_of(const RunSeeds& options);

/// A page of numbers, by itself or of results that were kept.
std::string summary(const SeedsReport& report, std::string_view seeds);

}  // namespace dxgkit::sim
