#include "bench/harness.h"

#include <atomic>

namespace dxgkit::bench {

namespace {

/// The process's cores as they were before anything was pinned.
const cpu_set_t& all_cores() {
  static const cpu_set_t cores = [] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_ZERO(&set);
    return set;
  }();
  return cores;
}

/// Pins the calling thread to the `wanted`-th core it may use, if there are two.
void use_core(int wanted) {
  if (CPU_COUNT(&all_cores()) < 2) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all_cores()) || wanted-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    static_cast<void>(sched_setaffinity(0, sizeof(one), &one));
    return;
  }
}

}  // namespace

void use_second_core() { use_core(1); }

OnFirstCore::OnFirstCore() : before_(all_cores()) { use_core(0); }
OnFirstCore::~OnFirstCore() { static_cast<void>(sched_setaffinity(0, sizeof(before_), &before_)); }

struct SpinPair::Words {
  // A cache line each: the hand-off costs two transfers, not a fight over one line.
  alignas(64) std::atomic<uint32_t> ping{0};
  alignas(64) std::atomic<uint32_t> pong{0};
  alignas(64) std::atomic<bool> stop{false};
};

SpinPair::SpinPair(runtime::Runtime& os) : os_(os), words_(std::make_unique<Words>()) {
  other_ = os.spawn("spin pair", [this] {
    use_second_core();
    Words& words = *words_;
    uint32_t seen = 0;
    for (;;) {
      // The bare spin is what is measured; between batches the thread parks and costs nothing.
      uint32_t next = words.ping.load(std::memory_order_acquire);
      for (int i = 0; next == seen && i < 100'000; ++i) {
        next = words.ping.load(std::memory_order_acquire);
      }
      if (next == seen) {
        os_.wait(words.ping, seen);
        continue;
      }
      if (words.stop.load(std::memory_order_relaxed)) return;
      seen = next;
      words.pong.store(seen, std::memory_order_release);
    }
  });
}

SpinPair::~SpinPair() {
  words_->stop.store(true, std::memory_order_relaxed);
  words_->ping.fetch_add(1, std::memory_order_release);
  os_.wake_all(words_->ping);
  other_->join();
}

void SpinPair::warm() {
  for (int i = 0; i < 4; ++i) {
    const uint32_t next = words_->ping.load(std::memory_order_relaxed) + 1;
    words_->ping.store(next, std::memory_order_release);
    os_.wake_all(words_->ping);
    while (words_->pong.load(std::memory_order_acquire) != next) os_.yield();
  }
}

void SpinPair::round_trips(uint32_t count) {
  uint32_t next = words_->ping.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    words_->ping.store(++next, std::memory_order_release);
    spin_until([&] { return words_->pong.load(std::memory_order_acquire) == next; },
               [&] { os_.wake_all(words_->ping); });
  }
}

Side SpinPair::side(runtime::Runtime& os, uint32_t count) {
  const auto pair = std::make_shared<SpinPair>(os);
  return {.warm = [pair] { pair->warm(); },
          .batch = [pair, count] { pair->round_trips(count); },
          .operations = static_cast<double>(count)};
}

}  // namespace dxgkit::bench
