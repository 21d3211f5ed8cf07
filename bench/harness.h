// A benchmark line: something of ours beside the limit or the peer it is measured against, in one
// run.
#pragma once

#include <sched.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::bench {

/// One of the two things a line compares.
struct Side {
  /// Untimed, before each batch: wakes threads that parked while the other side ran.
  std::function<void()> warm = [] {};
  /// Timed. Short, 20 us to a few ms: what a busy machine disturbs is then one batch of many, and
  /// the median does not see it.
  std::function<void()> batch = [] {};
  /// In place of `batch`, where not all of its time counts: returns the nanoseconds that do.
  std::function<double()> own_time = {};
  /// What one batch does: operations, or bytes for a rate in GB/s.
  double operations = 1;
  /// Known already when the line is made: nothing is run and timed, this is the figure.
  std::optional<double> figure = std::nullopt;
};

enum class Unit {
  kNanoseconds,         // per operation
  kGigabytesPerSecond,  // operations are bytes
  kMillionsPerSecond,
  kBytes,    // a `figure`
  kPercent,  // a `figure`
};

enum class Goal { kNone, kAtMost, kAtLeast, kOursAtMost, kOursAtLeast };

/// The ratio of a line is always ours / reference, in the line's unit. Goals are about the ratio,
/// but kOursAtMost and kOursAtLeast about ours.
struct Line {
  std::string name;
  std::string what;  // for the table: what ours is, and what the reference is
  Unit unit = Unit::kNanoseconds;
  Goal goal = Goal::kNone;
  double target = 0;
  Side ours;
  std::optional<Side> reference;
  std::string unavailable;        // why it could not be measured; then nothing else counts
  std::shared_ptr<void> fixture;  // what the sides use
};

/// Lines are made when their turn comes and go when it is over, so that what one keeps running or
/// in memory does not disturb the next.
struct Maker {
  std::string name;
  std::function<Line()> make;
};

// One function per file.
void add_patch_lines(std::vector<Maker>& lines);
void add_memory_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_core_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_sched_lines(std::vector<Maker>& lines);
void add_scale_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_sim_lines(std::vector<Maker>& lines);
void add_submit_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_waiting_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_lavapipe_line(runtime::Runtime& os, std::vector<Maker>& lines);
void add_evict_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_paging_lines(runtime::Runtime& os, std::vector<Maker>& lines);
void add_loader_line(std::vector<Maker>& lines);
void add_va_lines(std::vector<Maker>& lines);
void add_map_line(runtime::Runtime& os, std::vector<Maker>& lines);
void add_vfio_user_line(runtime::Runtime& os, std::vector<Maker>& lines);

/// Two threads handing a word to and fro, spinning: the floor under every hand-off between threads.
class SpinPair {
 public:
  explicit SpinPair(runtime::Runtime& os);
  ~SpinPair();
  SpinPair(const SpinPair&) = delete;
  SpinPair& operator=(const SpinPair&) = delete;
  /// Wakes the other thread if it has parked.
  void warm();
  void round_trips(uint32_t count);
  /// As a line's reference: `count` round trips per batch.
  static Side side(runtime::Runtime& os, uint32_t count);

 private:
  struct Words;
  runtime::Runtime& os_;
  std::unique_ptr<Words> words_;
  std::unique_ptr<runtime::Thread> other_;
};

/// Spins until `done`. On a machine with other work the other thread may have parked because this
/// one was off its core for long: then `wake` helps, now and again.
template <typename Done, typename Wake>
void spin_until(Done done, Wake wake) {
  for (uint32_t spins = 1; !done(); ++spins) {
    if (spins % (1U << 16) == 0) wake();
  }
}

/// Two threads that answer each other belong on two cores, and the system takes a while to see it:
/// threads that answer the main thread of a benchmark call `use_second_core` once, and the main
/// thread is on the first core while it measures. No effect with one core.
void use_second_core();
class OnFirstCore {
 public:
  OnFirstCore();
  ~OnFirstCore();
  OnFirstCore(const OnFirstCore&) = delete;
  OnFirstCore& operator=(const OnFirstCore&) = delete;

 private:
  cpu_set_t before_;
};

/// Keeps the compiler from dropping or moving what produced `value`.
template <typename T>
void keep(T&& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace dxgkit::bench
