// The commands of the tool. Each returns the exit code of the process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

/// The main job, or many seeds of a small one.
int run_command(const RunOptions& options);

/// Facts about a driver, and whether it can be started. Runs its DriverEntry. kExitBadInput if the
/// file is not a driver.
int doctor_command(const std::string& driver, const std::optional<std::string>& registry,
                   const Reports& reports);

/// Writes dxgkit.toml beside a driver, after a look at it. kExitBadInput, and nothing is written:
/// it exists already, or the file is no driver.
int init_command(const std::string& driver);

/// Starts a driver, calls every entry that its kind must support, and unloads it. Exit codes 3 and
/// 4 beside the usual ones: see verify/report.h.
int verify_command(const VerifyOptions& options);

/// The bytes that a reference trace pages in under our eviction policy, under LRU, and at least. Or
/// prints a trace made from a seed.
int evict_bench_command(const EvictBenchOptions& options);

/// The GPU virtual addresses of a recorded process: its map, or the walk and the history of one
/// address. kExitBadInput if there is nothing to show, or the file is not a trace in text form.
int va_command(const VaOptions& options);

/// The devices that --device names, with their options.
int devices_command(const Reports& reports);

/// Serves a device of the catalogue, or of a plug-in, to vfio-user clients until Ctrl-C.
/// kExitBadInput: the model cannot be served, or nothing can listen at `socket`.
int serve_device_command(const std::string& model, const std::string& socket);

/// Every DDI, callback, NT export and D3DKMT function with its support state, as far as they are
/// asked for. kExitBadInput if there is none.
int support_command(const SupportOptions& options);

/// What a driver may be confronted with: DDI, condition, the rules that a wrong answer breaks.
int situations_command(const Reports& reports);

/// Writes the skeleton of a client plug-in into a folder, which names it. kExitBadInput, and
/// nothing is written: the name is none, or a file exists already.
int new_client_command(const std::string& folder);

/// Writes a miniport, its client plug-in, build file and settings into a folder, which names it.
/// kExitBadInput, and nothing is written: the name is none, or a file exists already.
int new_command(const std::string& folder);

/// The rules of one area, or the list of areas when `area` is empty. Unknown area: kExitBadInput.
int rules_command(const std::string& area);

/// One rule in full, or a bug check with what is known of its parameters. Unknown words:
/// kExitBadInput.
/// @param words  an id, or a code or name of a bug check and up to four parameters; not empty.
int explain_command(const std::vector<std::string>& words, const Reports& reports);

}  // namespace dxgkit::tool
