// The commands of the tool. Each returns the exit code of the process.
#pragma once

#include <optional>
#include <string>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

/// The main job, or many seeds of a small one.
int run_command(const RunOptions& options);

/// What a driver is, and whether it can be started; runs its DriverEntry. Not a driver:
/// kExitBadInput.
int doctor_command(const std::string& driver, const std::optional<std::string>& registry,
                   bool json);

/// Starts a driver, exercises every entry its kind must support, unloads it. Exit codes 3 and 4
/// beside the usual ones: see verify/report.h.
int verify_command(const VerifyOptions& options);

/// What a reference trace pages in by our eviction policy, by LRU, and at least; or prints a trace
/// made from a seed.
int evict_bench_command(const EvictBenchOptions& options);

/// What a recorded process's GPU virtual addresses showed: its map, or the walk and the history of
/// one address. Nothing to show, or no trace as text: kExitBadInput.
int va_command(const VaOptions& options);

/// The devices that --device names, with their options.
int devices_command(bool json);

/// Every DDI, callback, NT export and D3DKMT function with what we make of it.
int support_command(bool json);

/// The rules of one area, or the list of areas when `area` is empty. Unknown area: kExitBadInput.
int rules_command(const std::string& area);

/// One rule in full. Unknown id: kExitBadInput.
int explain_command(const std::string& id);

}  // namespace dxgkit::tool
