// Many simulations, one per seed.
#pragma once

#include "tools/dxgkit/options.h"
#include "tools/dxgkit/session.h"

namespace dxgkit::tool {

/// Sides of the default picture of --seeds: small, but with tiles that do not all fit into video
/// memory.
inline constexpr uint32_t kSeedsPictureSide = 256;
/// The drawn picture never depends on the run's seed: seeds differ in their interleavings only.
inline constexpr uint64_t kDrawnPictureSeed = 1;

/// Runs `options.seeds` in child processes, one per CPU, so that a crash or a deadlock is a result
/// too. Prints each failing seed with the command that replays it (stderr), then `seeds A..B: N
/// passed, M failed (S s)`. kExitDone if all passed, else kExitFailed.
int run_seeds(const RunOptions& options, const SessionConfig& config, const Plan& plan,
              const Picture& source);

}  // namespace dxgkit::tool
