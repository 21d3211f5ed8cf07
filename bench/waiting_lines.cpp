// What waiting costs: asleep, at its worst, and with nothing to wait for.
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "bench/harness.h"
#include "bench/null_world.h"
#include "runtime/raw_futex.h"

namespace dxgkit::bench {
namespace {

/// Longer than anybody looks on before it parks.
constexpr runtime::DurationNs kUntilAsleep = 400 * runtime::kMicrosecond;

void compute(runtime::Runtime& os, runtime::DurationNs duration) {
  const runtime::TimeNs until = os.now() + duration;
  while (os.now() < until) {
  }
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Two threads that park in the system until the other one has something for them.
class FutexPair {
 public:
  explicit FutexPair(runtime::Runtime& os) : os_(os) {
    other_ = os.spawn("futex pair", [this] {
      use_second_core();
      for (uint32_t seen = 0;;) {
        while (ping_.load(std::memory_order_acquire) == seen) runtime::raw_wait(ping_, seen);
        seen_at_.store(os_.now(), std::memory_order_release);
        if (stop_.load(std::memory_order_relaxed)) return;
        ++seen;
        compute(os_, kUntilAsleep);
        done_at_.store(os_.now(), std::memory_order_release);
        pong_.store(seen, std::memory_order_release);
        runtime::raw_wake(pong_);
      }
    });
  }
  ~FutexPair() {
    stop_.store(true, std::memory_order_relaxed);
    ping_.fetch_add(1, std::memory_order_release);
    runtime::raw_wake(ping_);
    other_->join();
  }
  FutexPair(const FutexPair&) = delete;
  FutexPair& operator=(const FutexPair&) = delete;

  /// Both wake-ups of a round trip, without the other side's work.
  double one() {
    compute(os_, kUntilAsleep);
    const uint32_t next = ping_.load(std::memory_order_relaxed) + 1;
    const runtime::TimeNs begin = os_.now();
    ping_.store(next, std::memory_order_release);
    runtime::raw_wake(ping_);
    while (pong_.load(std::memory_order_acquire) != next) runtime::raw_wait(pong_, next - 1);
    const runtime::TimeNs end = os_.now();
    return static_cast<double>(seen_at_ - begin + (end - done_at_));
  }

 private:
  runtime::Runtime& os_;
  alignas(64) std::atomic<uint32_t> ping_{0};
  alignas(64) std::atomic<uint32_t> pong_{0};
  std::atomic<runtime::TimeNs> seen_at_{0}, done_at_{0};
  std::atomic<bool> stop_{false};
  std::unique_ptr<runtime::Thread> other_;
};

Line asleep_line(runtime::Runtime& os) {
  constexpr int kTrips = 8;
  Line line;
  line.what = "Render + signal + CPU wait, engine and client asleep in between / futex ping-pong";
  line.goal = Goal::kAtMost;
  line.target = 1.3;
  const auto trips = std::make_shared<RoundTrips>(os);
  line.unavailable = trips->world.error();
  if (!line.unavailable.empty()) return line;
  trips->gpu.set_duration(kUntilAsleep);
  line.ours.own_time = [&os, trips] {
    std::vector<double> times;
    for (int i = 0; i < kTrips; ++i) {
      compute(os, kUntilAsleep);
      const runtime::TimeNs begin = os.now();
      trips->one();
      const runtime::TimeNs end = os.now();
      times.push_back(
          static_cast<double>(trips->gpu.seen_at() - begin + (end - trips->gpu.done_at())));
    }
    return median_of(std::move(times));
  };
  const auto pair = std::make_shared<FutexPair>(os);
  line.reference = Side{.own_time = [pair] {
    std::vector<double> times;
    for (int i = 0; i < kTrips; ++i) times.push_back(pair->one());
    return median_of(std::move(times));
  }};
  line.fixture = trips;
  return line;
}

Line worst_line(runtime::Runtime& os) {
  constexpr size_t kTrips = 400;
  Line line;
  line.what =
      "the same round trip with a null engine that answers at once: 99th percentile / median";
  line.goal = Goal::kAtMost;
  line.target = 10;
  const auto trips = std::make_shared<RoundTrips>(os);
  line.unavailable = trips->world.error();
  const auto times = std::make_shared<std::vector<double>>();
  const auto take = [&os, trips, times] {
    times->clear();
    for (size_t i = 0; i < kTrips; ++i) {
      const runtime::TimeNs begin = os.now();
      trips->one();
      times->push_back(static_cast<double>(os.now() - begin));
    }
    std::ranges::sort(*times);
  };
  const auto at = [take, times](size_t place) {
    take();
    return (*times)[place];
  };
  line.ours.own_time = [at] { return at(kTrips * 99 / 100); };
  line.reference = Side{.own_time = [at] { return at(kTrips / 2); }};
  line.fixture = trips;
  return line;
}

double processor_seconds() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Of one processor, while an adapter has a client with a context, and nothing to do.
Line idle_line(runtime::Runtime& os) {
  constexpr runtime::DurationNs kIdle = 500 * runtime::kMillisecond;
  Line line;
  line.what = "processor time of an adapter with a client that asks for nothing";
  line.unit = Unit::kPercent;
  line.goal = Goal::kOursAtMost;
  line.target = 1;
  RoundTrips trips(os);
  line.unavailable = trips.world.error();
  if (!line.unavailable.empty()) return line;
  for (int i = 0; i < 100; ++i) trips.one();
  os.sleep_until(os.now() + 50 * runtime::kMillisecond);  // what looks on parks
  const double before = processor_seconds();
  const runtime::TimeNs begin = os.now();
  os.sleep_until(begin + kIdle);
  const double seconds = static_cast<double>(os.now() - begin) * 1e-9;
  line.ours = {.figure = 100 * (processor_seconds() - before) / seconds};
  return line;
}

}  // namespace

void add_waiting_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"submit.asleep_vs_futex", [&os] { return asleep_line(os); }});
  lines.push_back({"submit.worst_vs_median", [&os] { return worst_line(os); }});
  lines.push_back({"idle.processor_time", [&os] { return idle_line(os); }});
}

}  // namespace dxgkit::bench
