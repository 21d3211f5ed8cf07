// One to three hostile processes on one adapter: any D3DKMT calls in any order, step by step.
//
//   Processes processes(ground, choices);       // inside the runtime of ground.system
//   while (...) processes.step(choices);        // what happens next comes from `choices`
//   processes.end();                            // all of them end, and who waits comes back
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "sim/hostile/caller.h"

namespace dxgkit::hostile {

/// What the processes stand on. Outlives them.
struct Ground {
  dxgk::System& system;
  dxgk::Luid luid;
  /// What the driver takes from its clients, as CallerOptions; may be empty.
  std::vector<std::byte> allocation_data = {}, commands = {};
  /// Lets a GPU that a test drives get on with its work. Empty: it works by itself.
  std::function<void()> gpu_works = {};
  /// The same until nothing is left to do.
  std::function<void()> gpu_drains = {};
  /// The adapter was stopped: what fails now fails for that. Empty: never.
  std::function<bool()> stopped = {};
  /// A promise of the kernel is broken; a clause, and in which call.
  std::function<void(const std::string& what, const std::string& where)> broken = {};
  /// Each call and its answer, as one line. May be empty.
  std::function<void(const std::string&)> log = {};
};

struct Counts {
  uint64_t calls = 0, succeeded = 0, blocked = 0, processes = 0;
};

/// Checked, and told as broken: a refused call leaves the handles as they were; the memory manager
/// stays consistent; a process can always end, and whoever waited in it comes back. One thread of
/// the runtime; simulation only (waits are looks at virtual time).
class Processes {
 public:
  Processes(const Ground& ground, const Choices& choices);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// One decision: as a rule a call of one of them; else a process ends and another begins, or the
  /// GPU stands still or goes on.
  void step(const Choices& choices);
  /// Ends them all, with the GPU at work.
  void end();
  const Counts& counts() const { return counts_; }

 private:
  struct Pending;
  struct OneClient;

  void open(const Choices& choices);
  void wait(const std::atomic<bool>& done, runtime::DurationNs patience, bool gpu_works);
  size_t blocked() const;
  std::vector<size_t> handles() const;
  void call(size_t who, Planned planned);
  void finish(OneClient& client, Pending& pending);
  void collect();
  void check();
  void end(size_t who);
  bool stopped() const { return ground_.stopped && ground_.stopped(); }

  const Ground& ground_;
  Market market_;
  std::vector<std::unique_ptr<OneClient>> clients_;
  bool gpu_works_ = true;
  Counts counts_;
};

}  // namespace dxgkit::hostile
