#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "arguments/table.h"
#include "base/spelling.h"
#include "dxgk/core/process.h"
#include "dxgkit/stack.h"
#include "record/replay.h"
#include "runtime/interrupt.h"
#include "sim/process_pool.h"
#include "tools/dxgkit/commands.h"
#include "tools/dxgkit/driver_path.h"
#include "tools/dxgkit/files.h"
#include "tools/dxgkit/record/record_commands.h"

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

/// Where lines about differences and findings go.
using Say = std::function<void(const std::string& line)>;

struct Once {
  std::string error;  // not empty: nothing was replayed, and why
  record::ReplayResult result;
  size_t findings = 0;
  bool alike = false;  // no difference, and no finding but warnings
};

std::optional<record::ReplayResult> replay_on(Stack& stack, const std::string& driver,
                                              const record::Recording& recording,
                                              const Say& differs, std::string& error) {
  if (error = start_adapters(stack, driver); !error.empty()) return std::nullopt;
  const auto client = stack.make_client(recording.process.name);
  const ClientProcess::Attach attach(*client);
  record::ReplayOptions options;
  options.on_stuck = [&client] { client->end(); };
  options.on_difference = [&](size_t call, const std::string& text) {
    const char* const name = arguments::functions()[recording.calls[call - 1].function].name;
    differs(fmt::format("call {}, {}: {}", call, name, text));
  };
  return record::replay(*dxgk::Process::current(), recording, options);
}

/// One run from power-on to power-off. Any process.
Once replay_once(const StackOptions& machine, const std::string& driver,
                 const record::Recording& recording, const Say& differs, const Say& found) {
  Once once;
  StackOptions telling = machine;
  telling.on_finding = [&found](const Finding& finding) { found(finding.text); };
  std::optional<record::ReplayResult> result;
  const auto outcome = Stack::run(telling, [&](Stack& stack) {
    result = replay_on(stack, driver, recording, differs, once.error);
  });
  if (!outcome.has_value()) once.error = outcome.error().message;
  if (!outcome.has_value() || !result.has_value()) return once;
  once.result = *result;
  once.findings = outcome->findings.size();
  const bool wrong = std::ranges::any_of(outcome->findings, [](const Finding& finding) {
    return finding.severity != Severity::kWarning;
  });
  once.alike = result->differences == 0 && !wrong;
  return once;
}

/// A simulation for each seed, each in a process.
int replay_seeds(const ReplayRecordingOptions& options, const StackOptions& machine,
                 const std::string& driver, const record::Recording& recording) {
  const SeedRange range = *options.seeds;
  uint64_t alike = 0, others = 0;
  const auto report = [&](uint64_t index, std::string_view text) {
    ++others;
    say(stdout, "seed {}: {}\n", range.first + index, text);
    return true;
  };
  sim::PoolJob job;
  job.count = range.last - range.first + 1;
  job.workers = sim::workers_for(0);
  job.work = [&](uint64_t index) {
    StackOptions of_seed = machine;
    of_seed.seed = range.first + index;
    std::string lines;
    const Say add = [&lines](const std::string& line) { lines += "\n  " + line; };
    const Once once = replay_once(of_seed, driver, recording, add, add);
    if (!once.error.empty()) return once.error;
    return once.alike ? std::string()
                      : fmt::format("{}, {}{}", counted(once.result.differences, "difference"),
                                    counted(once.findings, "finding"), lines);
  };
  job.done = [&](uint64_t index, std::string_view text) {
    if (!text.empty()) return report(index, text);
    ++alike;
    return true;
  };
  job.died = report;
  if (!sim::run_pool(job)) return bad_input("a child process could not be started");
  say(stdout, "seeds {}..{}: {} as recorded, {} not\n", range.first, range.last, alike, others);
  if (runtime::interrupted()) return kExitInterrupted;
  return alike == job.count ? kExitDone : kExitFailed;
}

}  // namespace

int replay_recording_command(const ReplayRecordingOptions& options) {
  const auto recording = record::read_recording(options.recording);
  if (!recording.has_value()) return bad_input(recording.error());
  const auto driver = find_loadable_driver(options.driver);
  if (!driver.has_value()) return bad_input(driver.error());
  StackOptions machine;
  machine.mode = options.mode == Mode::kSim || options.seeds ? dxgkit::Mode::kSimulation
                                                             : dxgkit::Mode::kRealThreads;
  machine.seed = options.seed;
  if (!options.devices.empty()) machine.devices = options.devices;
  if (!options.registry.empty()) {
    auto registry = read_file(options.registry);
    if (!registry.has_value()) return bad_input(registry.error());
    machine.registry = std::move(*registry);
  }
  if (!recording->cut.empty()) say(stderr, "dxgkit: {}: {}\n", options.recording, recording->cut);
  if (options.seeds) {
    runtime::catch_interrupts();
    return replay_seeds(options, machine, *driver, *recording);
  }
  const Once once = replay_once(
      machine, *driver, *recording, [](const std::string& line) { say(stdout, "{}\n", line); },
      [](const std::string& line) { say(stderr, "{}\n", line); });
  if (!once.error.empty()) return bad_input(once.error);
  const record::ReplayResult& result = once.result;
  say(stdout, "{} replayed, {}{}{}, {}\n", counted(result.made, "call"),
      result.left_out == 0 ? "" : fmt::format("{} left out, ", result.left_out),
      counted(result.differences, "difference"),
      result.renamed == 0 ? ""
                          : fmt::format(", {} with other numbers", counted(result.renamed, "name")),
      counted(once.findings, "finding"));
  return once.alike ? kExitDone : kExitFailed;
}

}  // namespace dxgkit::tool
