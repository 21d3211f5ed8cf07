// One to three hostile processes on one adapter: any D3DKMT calls in any order, step by step.
//
//   Processes processes(ground, choices);       // inside the runtime of ground.system
//   while (...) processes.step(choices);        // `choices` decides the next step
//   processes.end();                            // all processes end, and their waiters come back
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "sim/hostile/caller.h"

namespace dxgkit::hostile {

/// The surroundings of the processes. They must outlive the processes.
struct Ground {
  dxgk::System& system;
  dxgk::Luid luid;
  /// Input that the driver accepts from its clients, as CallerOptions; may be empty.
  std::vector<std::byte> allocation_data = {}, commands = {};
  /// Lets a GPU that a test drives do some work. Empty: the GPU works by itself.
  std::function<void()> gpu_works = {};
  /// The same until no work is left.
  std::function<void()> gpu_drains = {};
  /// True if the adapter was stopped, which explains failures. Empty: never.
  std::function<bool()> stopped = {};
  /// Called when a promise of the kernel is broken, with a clause and the call.
  std::function<void(const std::string& what, const std::string& where)> broken = {};
  /// Called with each call and its answer, as one line. May be empty.
  std::function<void(const std::string&)> log = {};
  /// As CallerOptions; may be empty.
  std::function<void(std::string_view call, NTSTATUS status)> answered = {};
  bool repeats = false;
  MemoryWatch* watch = nullptr;  // as CallerOptions
};

struct Counts {
  uint64_t calls = 0, succeeded = 0, blocked = 0, processes = 0;
};

/// Checks these promises, and reports breaches: a refused call leaves the handles as they were; the
/// memory manager stays consistent; a process can always end, and its waiters come back. One thread
/// of the runtime; simulation only (a wait is a poll in virtual time).
class Processes {
 public:
  Processes(const Ground& ground, const Choices& choices);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// One decision. Usually a process makes a call. Otherwise a process ends and another begins, or
  /// the GPU stops or continues.
  void step(const Choices& choices);
  /// Ends all processes, with the GPU at work.
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
