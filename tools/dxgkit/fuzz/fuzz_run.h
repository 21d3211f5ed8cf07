// One run of `dxgkit fuzz`: a machine, the driver, hostile processes, and the problems that came
// up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nt/kernel.h"
#include "sim/hostile/processes.h"
#include "tools/dxgkit/fuzz/fuzz_plan.h"
#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"
#include "verifier/findings.h"
#include "verifier/situations.h"
#include "verifier/waivers.h"

namespace dxgkit::tool::fuzz {

struct FuzzSetting {
  std::string driver_path;
  DeviceChoice device = default_device();
  /// A page costs memory of the host once it is touched.
  uint64_t memory_bytes = uint64_t{512} << 20;
  nt::KernelConfig kernel;
  uint64_t vram_bytes = uint64_t{4} << 20;       // little: allocations push each other out
  const verify::Plugin* plugin = nullptr;        // its pack_allocation is used, if there is one
  verifier::SituationLog* situations = nullptr;  // may be null; else its life is the caller's
  verifier::Waivers waivers;
  /// Called with each problem when it comes up; any thread of the run. May be empty.
  std::function<void(const Problem&)> on_problem;
};

struct FuzzOutcome {
  std::string unusable;  // the file is not a driver, or the driver does not start: there was no run
  std::vector<std::string> before;  // then: what the start says beside its problems
  std::vector<Problem> problems;    // waived ones, too
  hostile::Counts counts;
};

/// Runs in this process, which the driver may end. Outside any runtime. `log` gets each call and
/// may be empty.
FuzzOutcome run_plan(const FuzzSetting& setting, const FuzzPlan& plan,
                     const std::function<void(const std::string&)>& log);

}  // namespace dxgkit::tool::fuzz
