// The options of `dxgkit fuzz`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct FuzzOptions {
  std::string driver;
  std::optional<DeviceChoice>
      device;  // else the reproducer's, the one of the driver's ids, or the default
  MachineOptions machine;
  std::optional<std::string> registry, client;
  SeedRange seeds{1, 200};
  std::optional<uint32_t> seconds;  // instead of a range of seeds: seeds from 1 on for so long
  uint32_t jobs = 0;                // 0: as many as there are processors
  uint32_t steps = 200;             // of each seed
  uint32_t timeout_s = 30;          // of a seed
  uint32_t tries = 400;             // to make a reproducer smaller, at most
  std::string out = "dxgkit-fuzz";  // made when there is a file to put there
  std::optional<std::string> replay;
  Reports reports;
  WaiverChoice waivers;
  bool special_pool = false, in_process = false;
};

/// `options` lives as long as `app`.
void add_fuzz(CLI::App& app, FuzzOptions& options);
/// Runs hostile processes and a failing device against a driver. Problems are grouped, each with a
/// small reproducer. Exit codes as verify's.
int fuzz_command(const FuzzOptions& options);

}  // namespace dxgkit::tool
