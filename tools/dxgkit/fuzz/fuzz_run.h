// One run of `dxgkit fuzz`: a machine, the driver, hostile processes; and what went wrong in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nt/kernel.h"
#include "sim/hostile/processes.h"
#include "tools/dxgkit/fuzz/fuzz_plan.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/plugin.h"
#include "verifier/findings.h"

namespace dxgkit::tool::fuzz {

struct FuzzSetting {
  std::string driver_path;
  DeviceChoice device = default_device();
  nt::KernelConfig kernel;
  const verify::Plugin* plugin = nullptr;  // its pack_allocation, if there is one
  uint32_t seconds_most = 30;              // of the processor's time, then the driver hangs
};

/// Something wrong. Two with the same key are the same mistake.
struct Problem {
  std::string key;  // "PATCH-08 in DxgkDdiPatch at SgpuPatch"
  verifier::Finding finding;
  /// Not empty: something broke that is not the driver, and nothing can be said of that. One
  /// sentence.
  std::string broken_around_it = {};
};
struct FuzzOutcome {
  std::string unusable;  // it is no driver, or does not start: no run at all
  std::vector<Problem> problems;
  hostile::Counts counts;
};

/// In this process, which the driver may take along. Outside any runtime. `log` hears each call and
/// may be empty.
FuzzOutcome run_plan(const FuzzSetting& setting, const FuzzPlan& plan,
                     const std::function<void(const std::string&)>& log);

}  // namespace dxgkit::tool::fuzz
