#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/spelling.h"
#include "dxgk/core/process.h"
#include "dxgkit/stack.h"
#include "record/replay.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/record/record_commands.h"
#include "wire/arguments.h"

namespace dxgkit::tool {
namespace {

/// As the host of a program starts them: every slot that the driver takes.
std::string start_adapters(Stack& stack, const std::string& driver) {
  const auto loaded = stack.load(driver);
  if (!loaded.has_value()) return loaded.error().message;
  std::string error = "the machine has no slot for a display driver";
  bool started = false;
  for (size_t slot = 0; slot < stack.slots(); ++slot) {
    const auto adapter = stack.start(**loaded, slot);
    if (adapter.has_value())
      started = true;
    else
      error = adapter.error().message;
  }
  return started ? "" : error;
}

std::optional<record::ReplayResult> replay_on(Stack& stack, const std::string& driver,
                                              const record::Recording& recording,
                                              std::string& error) {
  if (error = start_adapters(stack, driver); !error.empty()) return std::nullopt;
  const auto client = stack.make_client(recording.process.name);
  const ClientProcess::Attach attach(*client);
  record::ReplayOptions options;
  options.on_stuck = [&client] { client->end(); };
  options.on_difference = [&recording](size_t call, const std::string& text) {
    const char* const name = wire::functions()[recording.calls[call - 1].function].name;
    say(stdout, "call {}, {}: {}\n", call, name, text);
  };
  return record::replay(*dxgk::Process::current(), recording, options);
}

}  // namespace

int replay_recording_command(const ReplayRecordingOptions& options) {
  const auto recording = record::read_recording(options.recording);
  if (!recording.has_value()) return bad_input(recording.error());
  const auto driver = find_loadable_driver(options.driver);
  if (!driver.has_value()) return bad_input(driver.error());
  StackOptions machine;
  machine.mode =
      options.mode == Mode::kSim ? dxgkit::Mode::kSimulation : dxgkit::Mode::kRealThreads;
  machine.seed = options.seed;
  if (!options.devices.empty()) machine.devices = options.devices;
  if (!options.registry.empty()) {
    auto registry = read_file(options.registry);
    if (!registry.has_value()) return bad_input(registry.error());
    machine.registry = std::move(*registry);
  }
  machine.on_finding = [](const Finding& finding) { say(stderr, "{}\n", finding.text); };
  std::string error;
  std::optional<record::ReplayResult> result;
  const auto outcome = Stack::run(
      machine, [&](Stack& stack) { result = replay_on(stack, *driver, *recording, error); });
  if (!outcome.has_value()) return bad_input(outcome.error().message);
  if (!result.has_value()) return bad_input(error);
  say(stdout, "{} replayed, {}{}{}, {}\n", counted(result->made, "call"),
      result->left_out == 0 ? "" : fmt::format("{} left out, ", result->left_out),
      counted(result->differences, "difference"),
      result->renamed == 0
          ? ""
          : fmt::format(", {} with other numbers", counted(result->renamed, "name")),
      counted(outcome->findings.size(), "finding"));
  if (!recording->cut.empty()) say(stderr, "dxgkit: {}: {}\n", options.recording, recording->cut);
  const bool wrong = std::ranges::any_of(outcome->findings, [](const Finding& finding) {
    return finding.severity != Severity::kWarning;
  });
  return result->differences == 0 && !wrong ? kExitDone : kExitFailed;
}

}  // namespace dxgkit::tool
