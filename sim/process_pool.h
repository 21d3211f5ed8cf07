// Work by number on several processes, so that a number may end its process without harm to the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace dxgkit::sim {

/// A write of this size to a pipe arrives whole (PIPE_BUF).
inline constexpr size_t kAnswerBytesMost = 4000;
inline constexpr size_t kWorkersMost = 64;

/// How many workers there are if `asked` for; 0: as many as there are processors.
uint32_t workers_for(uint32_t asked);

struct PoolJob {
  uint64_t count = 0;    // numbers 0 to count - 1, handed out in order
  uint32_t workers = 1;  // at most kWorkersMost, and never more than numbers
  /// Runs in a worker process and returns the answer, cut off behind kAnswerBytesMost.
  std::function<std::string(uint64_t index)> work;
  /// Runs in the caller's process, in the order in which answers come. False: begin no further
  /// number.
  std::function<bool(uint64_t index, std::string_view answer)> done;
  /// The worker ended in the middle of this number; `how` is a clause ("the process ended by signal
  /// 6").
  std::function<bool(uint64_t index, std::string_view how)> died;
  /// Called some five times a second.
  std::function<void()> tick = {};
  /// Seconds for one number. After that its worker is killed, and `died` says so. 0: no limit.
  uint32_t seconds_most = 0;
};
/// Forks: call it outside any runtime, with no other thread running. False: a worker could not be
/// started, and some numbers were not done. After an interrupt (runtime/interrupt.h) numbers that
/// were begun or not begun have neither `done` nor `died`.
bool run_pool(const PoolJob& job);

}  // namespace dxgkit::sim
