// Hostile processes on one adapter: any D3DKMT calls in any order, all decided by one source.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "sim/hostile/processes.h"
#include "tests/support/choices.h"

namespace dxgkit::fuzz {

struct WorldOptions {
  /// Each call and its answer, as one line. May be empty.
  std::function<void(const std::string&)> log = {};
  /// Calls at most; it ends when a fuzzer's input does, too.
  uint32_t calls_most = 400;
  /// Each call and its answer. May be empty.
  std::function<void(std::string_view call, NTSTATUS status)> answered = {};
  /// As hostile::CallerOptions.
  bool repeats = false;
  hostile::MemoryWatch* watch = nullptr;
  /// The adapter patches and has a screen, whatever the choices say.
  bool with_screen = false;
  /// What happens to the clients' devices when half of the calls have been made. kLost: each device
  /// is lost soon after it was made. kStopped: the adapter stops.
  enum class Later { kNothing, kLost, kStopped } later = Later::kNothing;
};

using WorldCounts = hostile::Counts;

/// Runs one world to its end: start of an adapter of the scripted driver (patching or with GPU
/// virtual addresses and hardware queues), processes that call, their ends, the stop. Checked, as
/// failures of the running test: a refused call leaves the handles as they were; the memory manager
/// stays consistent; a process can always end, and whoever waited in it comes back; nothing is left
/// behind (handles, pages, objects of the driver); and no client makes the kernel stop the adapter.
/// Call it outside any runtime.
WorldCounts run_world(testing::Choices choices, const WorldOptions& options = {});

}  // namespace dxgkit::fuzz
