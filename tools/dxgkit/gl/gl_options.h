// The options of `dxgkit gl`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct GlOptions {
  // The program and its arguments; the caller takes them off the command line.
  std::vector<std::string> command;
  std::string driver;                  // empty: ours for the virtio GPU
  std::optional<DeviceChoice> device;  // else virtio-gpu with 3D
  std::optional<uint64_t> vram_bytes, aperture_bytes;
  std::optional<std::string> registry;
  std::string socket;
  std::optional<uint32_t> hang_packet;  // the device stops dead there
  std::optional<std::string> trace, report, frame;
  ClientPlace clients = ClientPlace::kThreads;  // where connections live
  MachineOptions machine;
  Reports reports;
  WaiverChoice waivers;
  bool special_pool = false, trace_imports = false, in_process = false;
};

/// `options` lives as long as `app`.
void add_gl(CLI::App& app, GlOptions& options);
/// Runs a GL program whose commands go through a driver. The program's exit code, unless the driver
/// broke a rule (kExitFailed) or an output cannot be written; kExitBadInput: nothing was run.
int gl_command(const GlOptions& options);

}  // namespace dxgkit::tool
