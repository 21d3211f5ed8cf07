// The command lines of sim, replay, shrink, diff and merge.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/sim/sim_options.h"

namespace dxgkit::tool {

struct SimArguments {
  SimOptions sim;
  ReplayOptions replay;
  ShrinkOptions shrink;
  std::string diff_a, diff_b, merged;
  std::vector<std::string> to_merge;
};
/// `arguments` lives as long as `app`.
void add_simulation(CLI::App& app, SimArguments& arguments);
/// Runs the given command; does nothing if it is none of these.
std::optional<int> run_simulation(const CLI::App& app, const SimArguments& arguments);

}  // namespace dxgkit::tool
