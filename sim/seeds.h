// Many seeds on several processes, so that a seed may end its process without harm to the others.
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
/// The result of one seed.
struct SeedResult {
  uint64_t seed = 0;
  uint64_t trace_hash = 0;
  bool died = false;  // its process ended, so there are no numbers
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
  verifier::Waivers waivers = {};
  uint32_t workers = 1;
  /// In a worker, before each seed and with each finding when it is reported.
  std::function<void(uint64_t seed)> on_begin = {};
  std::function<void(const verifier::Finding&)> on_finding = {};
  /// What is to be said of a seed whose process ended as `how` says. Empty: that.
  std::function<std::string(uint64_t seed, std::string_view how)> last_words = {};
  /// Called for each seed, in the order in which they end, and regularly with the number of ended
  /// seeds.
  std::function<void(const SeedResult&)> on_seed = {};
  std::function<void(const SeedsReport&)> on_tick = {};
  /// Every n-th seed runs twice, and both runs must give the same trace (P16). 0: none.
  uint32_t replay_every = 0;
  /// The command that runs a seed again, for the reader of a failure.
  std::function<std::string(uint64_t seed)> replay;
  /// As SeedOptions::trace_path. Each seed overwrites the trace of the one before.
  std::string trace_path = {};
  /// After this many failures no further seed is begun.
  uint32_t failures_most = 10;
  /// Real time for one seed. A seed that takes longer fails, and its worker is killed. 0: no limit.
  uint32_t seconds_most = 300;
};
/// Forks its workers: call it outside any runtime, with no other thread running.
SeedsReport run_seeds(const RunSeeds& options);

/// The number of seeds.
uint64_t count_of(const RunSeeds& options);

/// A page of numbers, from this run or from kept results.
std::string summary(const SeedsReport& report, std::string_view seeds);

}  // namespace dxgkit::sim
