// A gate that many threads pass often, and that one thread seldom closes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dxgkit::runtime {

namespace detail {
inline constexpr uint32_t kTurnstilePlaces = 32;
/// The number of the calling OS thread's place. kTurnstilePlaces is the shared place; a larger
/// number means that the thread has not asked yet. Places of ended threads are given out again.
extern constinit thread_local uint32_t t_turnstile_place;
uint32_t take_turnstile_place();
}  // namespace detail

/// Counts the threads inside. Passing costs a few plain instructions, because each OS thread counts
/// in a place of its own (threads beyond the first 32 share one). The thread that bars the way pays
/// instead, with a system call that makes every processor's stores visible. Thread-safe. One thread
/// may bar at a time. A thread inside keeps the turnstile alive until after `leave`.
class Turnstile {
 public:
  /// Returns false, without entering, if the way is barred. A thread that enters sees everything
  /// that was done before `unbar`.
  bool enter() {
    count(1);
    if (barred_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  /// Enters even if the way is barred, for a thread that must not wait.
  void enter_barred() { count(1); }
  void leave() {
    count(uint32_t{0} - 1);
    if (barred_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      departed();
  }

  /// Makes `enter` refuse from now on. CHECKs that no thread has barred the way.
  void bar();
  void unbar();
  bool barred() const { return barred_.load(std::memory_order_acquire) != 0; }
  /// After `bar`: blocks until no thread is inside. Everything those threads did is visible then.
  void wait_empty();
  /// The same until a time of the runtime's clock. Returns false if a thread is still inside.
  bool wait_empty_until(int64_t deadline_ns);
  /// Blocks while the way is barred.
  void wait_unbarred();
  /// Exact while the way is barred; otherwise a snapshot.
  bool empty() const;

 private:
  struct alignas(64) Place {
    std::atomic<uint32_t> inside{0};
  };
  /// `enter` adds to the caller's place and then reads `barred_`. `bar` writes `barred_` and then
  /// reads the places. Its barrier runs between the two on every processor, so the compiler's order
  /// is enough here.
  void count(uint32_t change) {
    const uint32_t place = detail::t_turnstile_place;
    if (place < detail::kTurnstilePlaces) [[likely]] {
      std::atomic<uint32_t>& mine = places_[place].inside;
      mine.store(mine.load(std::memory_order_relaxed) + change, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      count_slowly(change);
    }
  }
  void count_slowly(uint32_t change);
  void departed();

  std::array<Place, detail::kTurnstilePlaces + 1> places_ = {};
  std::atomic<uint32_t> barred_{0};
  // A count; a thread that waits for an empty turnstile sleeps on it.
  std::atomic<uint32_t> departures_{0};
};

}  // namespace dxgkit::runtime
