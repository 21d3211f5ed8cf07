// The only owner of time, threads, waiting and chance.
//
// Two implementations stand behind one interface:
//   os   real threads, real clock, futexes           (make_os_runtime)
//   sim  fibers on one thread, a virtual clock, one seed that decides every interleaving
//   (make_sim_runtime)
// Everything above blocks only through this header and sync.h, lane.h; a test enforces it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dxgkit::runtime {

/// Nanoseconds since the runtime was made. Never goes back.
using TimeNs = int64_t;
/// A length of time in nanoseconds.
using DurationNs = int64_t;
inline constexpr TimeNs kForever = INT64_MAX;
inline constexpr DurationNs kMicrosecond = 1'000;
inline constexpr DurationNs kMillisecond = 1'000'000;
inline constexpr DurationNs kSecond = 1'000'000'000;

enum class WaitResult { kWoken, kTimedOut };

/// A thread of the runtime: an OS thread, or a fiber in simulation. Join before destruction.
class Thread {
 public:
  virtual ~Thread() = default;
  /// Blocks the caller until the body has returned. Once only.
  virtual void join() = 0;
};

struct ThreadOptions {
  /// Usable stack bytes; a guard page is added. 0 = the runtime's default (256 KiB in sim, system
  /// default in os).
  size_t stack_bytes = 0;
};

/// A one-shot callback in the future; cancel or destroy to withdraw it.
class Timer {
 public:
  virtual ~Timer() = default;  // cancels, and waits for a running callback (unless called from it)
  /// (Re)arms: the callback runs once at `due` on the runtime's timer thread (a fiber in sim).
  virtual void arm(TimeNs due) = 0;
  /// True if the callback will not run; false if it ran or is running.
  virtual bool cancel() = 0;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// The runtime the calling thread belongs to. CHECKs that there is one: threads made by `spawn`
  /// have one, others adopt one with `AdoptThread` (os) or run inside `run_main` (sim).
  static Runtime& current();
  static Runtime* current_or_null();

  virtual bool is_simulated() const = 0;
  virtual TimeNs now() = 0;

  [[nodiscard]] virtual std::unique_ptr<Thread> spawn(std::string name, std::function<void()> body,
                                                      ThreadOptions options = {}) = 0;
  [[nodiscard]] virtual std::unique_ptr<Timer> make_timer(std::function<void()> callback) = 0;

  /// Small dense number of the calling thread, the same in every run of one seed; for traces.
  virtual uint32_t thread_number() = 0;
  virtual const std::string& thread_name() = 0;
  /// Names of all threads so far, by number, for `trace::Recording::threads`.
  virtual std::vector<std::string> thread_names() = 0;

  /// A per-thread pointer that other modules may use (slot < kThreadSlots): see ThreadSlot. Starts
  /// null.
  virtual void*& thread_slot(size_t slot) = 0;

  /// A point where another thread may run: a pause in os, a seeded choice in sim. Spin loops must
  /// call it: in sim, time moves on when every runnable thread only yields.
  virtual void yield() = 0;
  /// In sim, switches to another thread with the seed's probability; nothing in os. Lock-free code
  /// calls it between its atomic steps so that simulation explores their interleavings.
  virtual void interleave() = 0;
  virtual void sleep_until(TimeNs due) = 0;
  void sleep_for(DurationNs duration) { sleep_until(now() + duration); }
  /// Work that takes modelled time (a hardware engine at work): virtual time passes in sim, nothing
  /// happens in os.
  virtual void consume(DurationNs duration) = 0;

  /// A futex-like wait: blocks while `word` holds `expected`, until woken or `deadline`. Spurious
  /// wake-ups are allowed, so callers loop. In os it spins briefly first, then parks.
  virtual WaitResult wait(const std::atomic<uint32_t>& word, uint32_t expected,
                          TimeNs deadline = kForever) = 0;
  /// As `wait`, on two words at once: blocks while both hold their expected values.
  virtual WaitResult wait_either(const std::atomic<uint32_t>& first, uint32_t first_expected,
                                 const std::atomic<uint32_t>& second, uint32_t second_expected,
                                 TimeNs deadline = kForever) = 0;
  /// Wakes waiters of `word` after it changed. Only the address is used: the word may be destroyed
  /// already.
  virtual void wake_one(const std::atomic<uint32_t>& word) = 0;
  virtual void wake_all(const std::atomic<uint32_t>& word) = 0;

  /// Names what the calling thread is about to wait for, for deadlock reports. Returns the previous
  /// reason. `reason` must live as long as it is set. See WaitReason.
  virtual const char* set_wait_reason(const char* reason) = 0;

  /// A random number from the runtime's seed. In sim it depends on the interleaving too; in os it
  /// is thread-safe.
  virtual uint64_t random() = 0;

  /// Runs `body` as the main thread and returns when it and every thread it spawned have ended. In
  /// sim the calling OS thread becomes the simulation. A simulation in which every thread waits
  /// forever is a deadlock. It is reported on stderr with each thread's name and the seed, and then
  /// the process aborts.
  virtual void run_main(std::function<void()> body) = 0;
};

/// Names what the enclosing scope waits for: `WaitReason reason(runtime, "the paging fence");`
class WaitReason {
 public:
  WaitReason(Runtime& runtime, const char* reason)
      : runtime_(runtime), previous_(runtime.set_wait_reason(reason)) {}
  ~WaitReason() { runtime_.set_wait_reason(previous_); }
  WaitReason(const WaitReason&) = delete;
  WaitReason& operator=(const WaitReason&) = delete;

 private:
  Runtime& runtime_;
  const char* previous_;
};

namespace detail {
/// The thread_slot array of the calling thread or fiber; null outside a runtime. The runtimes
/// maintain it for code that reads a slot on every call: reading costs one load.
extern constinit thread_local void** t_thread_slots;
/// The runtime of the calling thread if it is a simulation, in which each lock may switch to
/// another thread; null otherwise.
extern constinit thread_local Runtime* t_simulation;
}  // namespace detail

enum class ThreadSlot : size_t {
  kNt = 0,
  kLane = 1,
  kThunks = 2,
  kTrace = 3,
  kVidPn = 4,
  kLocks = 5,
  kCallLog = 6,
  kLateSelection = 7,
};
inline constexpr size_t kThreadSlots = 8;

/// Lets the calling, foreign OS thread use an os runtime for the scope's length. Not for sim.
class AdoptThread {
 public:
  AdoptThread(Runtime& runtime, std::string name);
  ~AdoptThread();
  AdoptThread(const AdoptThread&) = delete;
  AdoptThread& operator=(const AdoptThread&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::unique_ptr<Runtime> make_os_runtime(uint64_t seed = 0);
[[nodiscard]] std::unique_ptr<Runtime> make_sim_runtime(uint64_t seed);

struct SimOptions {
  uint64_t seed = 0;
  /// Virtual time at which the run is reported like a deadlock: a hang that periodic timers keep
  /// alive ends here.
  TimeNs time_limit = kForever;
  size_t stack_bytes = size_t{256} * 1024;
};
/// Objects made inside `run_main` (lanes, threads) must be gone when its body returns; work outside
/// it is not simulated.
[[nodiscard]] std::unique_ptr<Runtime> make_sim_runtime(const SimOptions& options);

}  // namespace dxgkit::runtime
