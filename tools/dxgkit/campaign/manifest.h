// What a campaign is: the file campaign.json in its folder.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "sim/seeds.h"

namespace dxgkit::tool::campaign {

/// The command that runs a seed.
enum class Work {
  kSim,     // dxgkit sim: worlds around a driver for softgpu
  kVerify,  // dxgkit verify: the steps, in simulation
  kFuzz,    // dxgkit fuzz: hostile processes and a failing device
};
inline constexpr std::string_view kWorkNames[] = {"sim", "verify", "fuzz"};

inline constexpr uint32_t kShardsMost = 100'000;
/// SQLite's numbers are signed.
inline constexpr uint64_t kSeedMost = INT64_MAX;

/// Everything that decides the results. It does not change while the campaign lives, and says
/// nothing of where, when or in which order shards run. Plain data.
struct Manifest {
  std::string program;  // version and commit: other builds may give other results
  Work work = Work::kSim;
  std::string driver;         // as it was given; empty: the built-in ones
  uint64_t driver_bytes = 0;  // of its file; 0 for a built-in one
  uint32_t driver_crc32 = 0;
  std::vector<std::string> options;  // of the command
  std::string folder;                // where relative paths of driver and options begin
  std::string worlds;                // what the databases of all shards say of their worlds
  sim::SeedRange seeds;
  uint32_t shards = 1;  // 1 to kShardsMost, and no more than seeds

  bool operator==(const Manifest& other) const;
};

std::string to_text(const Manifest& manifest);
/// Reads a manifest from anybody. The error is one sentence.
std::expected<Manifest, std::string> parse_manifest(std::string_view text);

/// A task's part: of the seeds every shards-th, from the shard-th on; both begin with 0.
struct Shard {
  uint32_t index = 0, shards = 1;
};
/// "3/8" is {2, 8}. Nothing for other text.
std::expected<Shard, std::string> parse_shard(std::string_view text);

/// How many seeds a shard has; at least 1 for a shard of `manifest`.
uint64_t seeds_of(const Manifest& manifest, uint32_t shard);
/// The seed is one of that shard.
bool has_seed(const Manifest& manifest, uint32_t shard, uint64_t seed);

/// Fills driver_bytes and driver_crc32. The error is one sentence.
std::expected<void, std::string> look_at_driver(Manifest& manifest);

}  // namespace dxgkit::tool::campaign
