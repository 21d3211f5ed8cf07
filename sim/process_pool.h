// Work by number on several processes, so that a number that ends its process is told from the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace dxgkit::sim {

/// What is written to a pipe at once arrives whole (PIPE_BUF).
inline constexpr size_t kAnswerBytesMost = 4000;
inline constexpr size_t kWorkersMost = 64;

struct PoolJob {
  uint64_t count = 0;    // numbers 0 to count - 1, handed out in order
  uint32_t workers = 1;  // at most kWorkersMost; never more than there are numbers
  /// In a worker process: the answer, cut off behind kAnswerBytesMost.
  std::function<std::string(uint64_t index)> work;
  /// In the caller's process, in the order answers come. False: no further number is begun.
  std::function<bool(uint64_t index, std::string_view answer)> done;
  /// The worker ended in the middle of it; `how` is a clause ("the process ended by signal 6").
  std::function<bool(uint64_t index, std::string_view how)> died;
  /// Now and then, some five times a second.
  std::function<void()> tick = {};
  /// Seconds that one number may take; then its worker is killed, and `died` says so. 0: forever.
  uint32_t seconds_most = 0;
};
/// Forks: call it outside any runtime, with no other thread about. False: a worker could not be
/// started, and some numbers were not done.
bool run_pool(const PoolJob& job);

}  // namespace dxgkit::sim
