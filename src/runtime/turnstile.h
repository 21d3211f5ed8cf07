// Many pass often, and seldom somebody wants them all out.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dxgkit::runtime {

namespace detail {
inline constexpr uint32_t kTurnstilePlaces = 32;
/// Number of the calling OS thread's place; kTurnstilePlaces: the one that is shared;
/// above: not asked for yet. Places of ended threads are given again.
extern constinit thread_local uint32_t t_turnstile_place;
uint32_t take_turnstile_place();
}  // namespace detail

/// Counts who is inside. Passing costs a few plain instructions, as each OS thread counts in a
/// place of its own (threads beyond the first 32 share one); who bars the way pays for that with a
/// system call that makes every processor's stores visible. Thread-safe. One may bar at a time.
/// Whoever is inside keeps the turnstile alive until after `leave`.
class Turnstile {
 public:
  /// False, and not inside: barred. Everything done before `unbar` is visible to who enters after.
  bool enter() {
    count(1);
    if (barred_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  /// Inside although it may be barred: for the one who is waited for neither way.
  void enter_barred() { count(1); }
  void leave() {
    count(uint32_t{0} - 1);
    if (barred_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      departed();
  }

  /// From now on `enter` refuses. CHECKs that nobody has barred it.
  void bar();
  void unbar();
  bool barred() const { return barred_.load(std::memory_order_acquire) != 0; }
  /// After `bar`: blocks until nobody is inside; everything those did is visible then.
  void wait_empty();
  /// The same until a time of the runtime's clock. False: somebody is inside still.
  bool wait_empty_until(int64_t deadline_ns);
  /// Blocks while barred.
  void wait_unbarred();
  /// Exact while barred; else a moment's view.
  bool empty() const;

 private:
  struct alignas(64) Place {
    std::atomic<uint32_t> inside{0};
  };
  /// Adds to the caller's place, then looks at `barred_`; `bar` writes that, then looks at the
  /// places. Its barrier runs between the two on every processor, so here the compiler's order is
  /// enough.
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
  std::atomic<uint32_t> departures_{0};  // counts; who waits for an empty turnstile sleeps on it
};

}  // namespace dxgkit::runtime
