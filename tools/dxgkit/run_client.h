// dxgkit run-client: an unmodified program as a client of a kernel inside it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dxgkit::tool {

struct RunClientOptions {
  std::string stack;  // a file for DXGKIT_STACK; empty: made of the rest
  std::string driver;
  std::vector<std::string> devices;
  std::string registry;
  std::string findings;
  std::string recording;             // a file for DXGKIT_RECORD; empty: calls are not recorded
  bool dev_dxg = false;              // /dev/dxg, too
  bool wsl_path = false;             // the library at /usr/lib/wsl/lib, too
  std::vector<std::string> program;  // with its arguments; the caller takes it off the command line
};

/// Adds the command and its options to `app`.
void add_run_client(CLI::App& app, RunClientOptions& options);

/// Adds the options to a command that runs a program so.
void add_run_client_options(CLI::App* command, RunClientOptions& options);

/// Runs the program with libdxcore.so in front of its libraries. Its exit code, 128 and the signal
/// that ended it, or kExitBadInput: it cannot be started, or an option is wrong.
int run_client_command(const RunClientOptions& options);

/// The folder of libdxcore.so and of programs that are clients: where an installed tool has them,
/// or where the build left the library.
std::string library_folder();

}  // namespace dxgkit::tool
