// The options of the commands around simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/seeds.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

/// The worlds: the driver, and the overrides of the seeds' choices.
struct Worlds {
  std::string driver;  // empty or "softgpu": the built-in ones
  sim::Changes changes;
  sim::Canary canary = sim::Canary::kNone;
  WaiverChoice waivers;

  /// As options of the tool, behind the command: " drv.sys --faults none".
  std::string as_options() const;
};

struct SimOptions {
  Worlds worlds;
  sim::SeedRange seeds{1, 1000};
  uint32_t shard = 0, shards = 1;  // --shard I/N, I from 1
  uint32_t jobs = 0;               // 0: as many as there are processors
  uint32_t twice_every = 100;
  uint32_t failures_most = 10;
  std::optional<std::string> db;
  bool quiet = false;  // no progress
  Reports reports;
};

struct ReplayOptions {
  Worlds worlds;
  uint64_t seed = 0;
  std::optional<std::string> trace;  // to FILE.pftrace: for Perfetto; else text
  std::optional<std::string> until;  // a number, or text of the line
  std::optional<std::string> db;     // the trace's hash must equal the one kept there
  bool gdb = false, stop_here = false;
  std::vector<std::string> breakpoints;  // for gdb
};

struct ShrinkOptions {
  Worlds worlds;
  uint64_t seed = 0;
};

/// Many seeds; prints failures and the summary. kExitFailed if one failed.
int sim_command(const SimOptions& options);
/// Runs one seed again, byte for byte.
int replay_command(const ReplayOptions& options);
/// Finds the fewest faults, clients and operations with which the seed still fails.
int shrink_command(const ShrinkOptions& options);
/// Shows where two traces in text form differ first. kExitFailed if they differ.
int diff_command(const std::string& a, const std::string& b);
/// Merges results of several runs of the same worlds.
int merge_command(const std::string& out, const std::vector<std::string>& in);

}  // namespace dxgkit::tool
