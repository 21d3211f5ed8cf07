// The options of `dxgkit campaign`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/seeds.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct CampaignOptions {
  std::string action;
  std::string folder = "campaign";
  std::string driver, work, engine = "local", shard, scratch;
  std::optional<sim::SeedRange> seeds;
  uint32_t shards = 0;  // 0: chosen by the number of seeds
  uint32_t jobs = 0;    // 0: the engine's choice
  uint32_t retries = 3;
  bool again = false;
  std::vector<std::string> slurm_options;
  std::vector<std::string> passed;  // behind "--": for sim or verify
  Reports reports;
};

/// Adds the command to `app`. `options` lives as long.
void add_campaign(CLI::App& app, CampaignOptions& options);

/// kExitDone: all seeds ran and passed. kExitFailed: seeds failed, or have no results, or two
/// different ones. For `shard`: campaign/task.h. kExitInterrupted: it is not at its end.
int campaign_command(const CampaignOptions& options);

}  // namespace dxgkit::tool
