// dxgkit serve, and dxgkit status.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"
#include "tools/dxgkit/serve/adapter_process.h"

namespace dxgkit::tool {

struct ServeOptions {
  std::string stack, socket;
  std::vector<std::string> users, groups;  // names or numbers
  uint32_t connections_most = 256, processes_most = 32;
  uint64_t handles_most = 1U << 20;
  uint64_t user_memory_most = uint64_t{1} << 30;  // system memory of one user in an adapter
  uint64_t submissions_most = 4096;               // of one user in an adapter, not completed
  uint64_t memory_bytes = uint64_t{4} << 30;      // private memory of an adapter process
  std::string recordings;                         // a folder; empty: nothing is recorded
  std::string traces;                             // a folder; empty: nothing is traced
  uint32_t restarts = 5, restart_seconds = 60;
  bool list_system_calls = false;
};

struct StatusOptions {
  std::string socket;
  uint32_t interval_ms = 500;
  Reports reports;
};

/// Adds `serve`, `status`, and the hidden `serve-adapter`, which the broker starts.
void add_serve(CLI::App& app, ServeOptions& options, serve::AdapterProcessOptions& adapter,
               StatusOptions& status);

/// Serves the adapters of a stack file until Ctrl-C. kExitFailed: no adapter is left.
int serve_command(const ServeOptions& options);
/// Shows what a broker serves. kExitBadInput: none answers.
int status_command(const StatusOptions& options);

}  // namespace dxgkit::tool
