// dxgkit record, calls and replay FILE.dxgk: the D3DKMT calls of a program in a file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"
#include "tools/dxgkit/run_client.h"

namespace dxgkit::tool {

struct ReplayRecordingOptions {
  std::string recording;
  std::string driver;
  std::vector<std::string> devices;
  std::string registry;
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  std::optional<SeedRange> seeds;  // a run for each, in simulation
};

struct RecordOptions {
  RunClientOptions client;
  std::string out;
  std::string printed;  // by `calls`
  ReplayRecordingOptions replay;
};

/// `replay` is for seeds of sim, too: with a recording it is a command of its own, under a name
/// that users need not know.
inline constexpr const char* kReplayRecording = "replay-recording";
void name_replay_of_recording(std::vector<std::string>& arguments);

/// Makes the calls of a recording again. kExitDone: every status and everything that came out was
/// the same, and there is no finding. kExitFailed: something differed. kExitBadInput: no recording,
/// or the driver does not start.
int replay_recording_command(const ReplayRecordingOptions& options);

/// Adds the three commands to `app`.
void add_record(CLI::App& app, RecordOptions& options);

/// Runs one of these commands, if it was asked for. The exit code.
std::optional<int> run_record_command(const CLI::App& app, const RecordOptions& options);

}  // namespace dxgkit::tool
