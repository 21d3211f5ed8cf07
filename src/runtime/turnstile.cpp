#include "runtime/turnstile.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace detail {

constinit thread_local uint32_t t_turnstile_place = kTurnstilePlaces + 1;

namespace {

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

/// If the kernel has no such barrier, every thread uses the shared place.
bool has_barrier() {
  static const bool has = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return has;
}

// A bit per place in use. Acquire and release hand a place's count from its last owner to the next.
std::atomic<uint32_t> places_taken{0};
static_assert(kTurnstilePlaces == 32);

class OwnPlace {
 public:
  OwnPlace() {
    if (!has_barrier()) return;
    uint32_t taken = places_taken.load(std::memory_order_relaxed);
    while (taken != UINT32_MAX) {
      const uint32_t lowest = ~taken & (taken + 1);
      if (places_taken.compare_exchange_weak(taken, taken | lowest, std::memory_order_acquire)) {
        place_ = static_cast<uint32_t>(__builtin_ctz(lowest));
        return;
      }
    }
  }
  ~OwnPlace() {
    t_turnstile_place = kTurnstilePlaces;
    if (place_ < kTurnstilePlaces)
      places_taken.fetch_and(~(uint32_t{1} << place_), std::memory_order_release);
  }
  OwnPlace(const OwnPlace&) = delete;
  OwnPlace& operator=(const OwnPlace&) = delete;
  uint32_t place() const { return place_; }

 private:
  uint32_t place_ = kTurnstilePlaces;
};

}  // namespace

uint32_t take_turnstile_place() {
  thread_local const OwnPlace own;
  return t_turnstile_place = own.place();
}

}  // namespace detail

void Turnstile::count_slowly(uint32_t change) {
  uint32_t place = detail::t_turnstile_place;
  if (place > detail::kTurnstilePlaces) place = detail::take_turnstile_place();
  // Ordered against `bar` by itself, as the place may be the shared one.
  places_[place].inside.fetch_add(change, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Turnstile::bar() {
  DXGKIT_CHECK(barred_.exchange(1, std::memory_order_seq_cst) == 0);
  if (detail::has_barrier())
    DXGKIT_CHECK(detail::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

void Turnstile::unbar() {
  DXGKIT_CHECK(barred_.exchange(0, std::memory_order_release) == 1);
  Runtime::current().wake_all(barred_);
}

bool Turnstile::empty() const {
  uint32_t inside = 0;  // one place may be below zero: entered on another thread
  for (const Place& place : places_) inside += place.inside.load(std::memory_order_seq_cst);
  return inside == 0;
}

void Turnstile::departed() {
  departures_.fetch_add(1, std::memory_order_seq_cst);
  Runtime::current().wake_all(departures_);
}

void Turnstile::wait_empty() {
  for (;;) {
    const uint32_t seen = departures_.load(std::memory_order_seq_cst);
    if (empty()) return;
    Runtime::current().wait(departures_, seen);
  }
}

bool Turnstile::wait_empty_until(int64_t deadline_ns) {
  for (;;) {
    const uint32_t seen = departures_.load(std::memory_order_seq_cst);
    if (empty()) return true;
    if (Runtime::current().wait(departures_, seen, deadline_ns) == WaitResult::kTimedOut)
      return empty();
  }
}

void Turnstile::wait_unbarred() {
  while (barred_.load(std::memory_order_acquire) != 0) Runtime::current().wait(barred_, 1);
}

}  // namespace dxgkit::runtime
