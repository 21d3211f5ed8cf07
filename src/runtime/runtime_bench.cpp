// The cost of the runtime and the recorder: one line per figure. Run it from a release build on a
// quiet machine:
//
//   dxgkit_runtime_bench
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/lane.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "trace/trace.h"

namespace dxgkit::runtime {
namespace {

/// Best of several rounds, in ns per operation: the machine's noise only ever adds.
double best_ns(Runtime& clock, uint64_t operations, const std::function<void()>& body,
               int rounds = 5) {
  double best = 1e18;
  for (int i = 0; i < rounds; ++i) {
    const TimeNs begin = clock.now();
    body();
    best =
        std::min(best, static_cast<double>(clock.now() - begin) / static_cast<double>(operations));
  }
  return best;
}

void report(const char* what, double value, const char* unit) {
  fmt::print("{:<58} {:>10.1f} {}\n", what, value, unit);
}

/// Two threads pass a number to and fro; `respond` is how the other side waits.
template <typename Wait, typename Wake>
double ping_pong(Runtime& os, uint32_t rounds, const Wait& wait, const Wake& wake) {
  alignas(64) std::atomic<uint32_t> ping = 0;
  alignas(64) std::atomic<uint32_t> pong = 0;
  std::unique_ptr<Thread> other = os.spawn("pong", [&] {
    for (uint32_t i = 0; i < rounds; ++i) {
      wait(ping, i);
      pong.store(i + 1);
      wake(pong);
    }
  });
  // The best of many short batches: one that no other process of the machine disturbed.
  constexpr uint32_t kBatch = 500;
  double best = 1e18;
  TimeNs begin = os.now();
  for (uint32_t i = 0; i < rounds; ++i) {
    ping.store(i + 1);
    wake(ping);
    wait(pong, i);
    if ((i + 1) % kBatch != 0) continue;
    const TimeNs end = os.now();
    best = std::min(best, static_cast<double>(end - begin) / kBatch);
    begin = end;
  }
  other->join();
  return best;
}

void bench_os(Runtime& os) {
  double spin = 1e18;
  double waits = 1e18;
  for (int i = 0; i < 5; ++i) {
    spin = std::min(spin, ping_pong(
                              os, 200'000,
                              [](const std::atomic<uint32_t>& word, uint32_t old) {
                                while (word.load() == old) {
                                }
                              },
                              [](const std::atomic<uint32_t>&) {}));
    waits = std::min(waits, ping_pong(
                                os, 200'000,
                                [&](const std::atomic<uint32_t>& word, uint32_t old) {
                                  while (word.load() == old) os.wait(word, old);
                                },
                                [&](const std::atomic<uint32_t>& word) { os.wake_one(word); }));
  }
  report("limit: bare spin hand-off, round trip", spin, "ns");
  report("os wait/wake_one, both sides answering at once, round trip", waits, "ns");
  // The answer comes after the spin phase: both sides park every time.
  const double parked = ping_pong(
                            os, 2'000,
                            [&](const std::atomic<uint32_t>& word, uint32_t old) {
                              while (word.load() == old) os.wait(word, old);
                            },
                            [&](const std::atomic<uint32_t>& word) {
                              const TimeNs due = os.now() + 50 * kMicrosecond;
                              while (os.now() < due) {
                              }
                              os.wake_one(word);
                            }) -
                        100'000.0;
  report("os wait/wake_one, the waiter parked, round trip", parked, "ns");

  constexpr uint64_t kMany = 2'000'000;
  std::atomic<uint32_t> word = 0;
  report("os wake_one with nobody waiting",
         best_ns(os, kMany,
                 [&] {
                   for (uint64_t i = 0; i < kMany; ++i) os.wake_one(word);
                 }),
         "ns");
  Mutex mutex;
  report("os Mutex lock + unlock, free",
         best_ns(os, kMany,
                 [&] {
                   for (uint64_t i = 0; i < kMany; ++i) MutexLock lock(mutex);
                 }),
         "ns");
  Lane lane(os, "bench");
  uint64_t counter = 0;
  report("os Lane::run, free",
         best_ns(os, kMany,
                 [&] {
                   for (uint64_t i = 0; i < kMany; ++i) lane.run([&] { ++counter; });
                 }),
         "ns");
  report("os Lane::post, free",
         best_ns(os, kMany,
                 [&] {
                   for (uint64_t i = 0; i < kMany; ++i) lane.post([&] { ++counter; });
                 }),
         "ns");
  constexpr uint32_t kContended = 50'000;
  report("os Lane::run, two threads contending",
         best_ns(
             os, 2 * kContended,
             [&] {
               std::unique_ptr<Thread> other = os.spawn("other", [&] {
                 for (uint32_t i = 0; i < kContended; ++i) lane.run([&] { ++counter; });
               });
               for (uint32_t i = 0; i < kContended; ++i) lane.run([&] { ++counter; });
               other->join();
             },
             3),
         "ns");
  constexpr uint32_t kFences = 50'000;
  double helped = 1e18;
  for (int round = 0; round < 3; ++round) {
    std::atomic<uint32_t> request = 0;
    std::atomic<uint32_t> fence = 0;
    std::unique_ptr<Thread> device = os.spawn("device", [&] {
      for (uint32_t i = 0; i < kFences; ++i) {
        while (request.load() == i) os.wait(request, i);
        lane.post_from_interrupt([&, i] {
          fence.store(i + 1);
          os.wake_all(fence);
        });
      }
    });
    constexpr uint32_t kBatch = 500;
    TimeNs begin = os.now();
    for (uint32_t i = 0; i < kFences; ++i) {
      request.store(i + 1);
      os.wake_one(request);
      while (fence.load() == i) lane.wait_helping(fence, i);
      if ((i + 1) % kBatch != 0) continue;
      const TimeNs end = os.now();
      helped = std::min(helped, static_cast<double>(end - begin) / kBatch);
      begin = end;
    }
    device->join();
  }
  report("os request -> interrupt post -> wait_helping, round trip", helped, "ns");
}

void bench_sim(Runtime& os) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    constexpr uint64_t kYields = 1'000'000;
    uint64_t switches = 0;
    const double yields = best_ns(
        os, 4 * kYields,
        [&] {
          const std::unique_ptr<Runtime> sim = make_sim_runtime(seed);
          switches = 0;
          sim->run_main([&] {
            uint32_t last = 0;
            std::vector<std::unique_ptr<Thread>> threads;
            for (int t = 0; t < 4; ++t) {
              threads.push_back(sim->spawn("spinner", [&] {
                const uint32_t me = sim->thread_number();
                for (uint64_t i = 0; i < kYields; ++i) {
                  if (last != me) ++switches;
                  last = me;
                  sim->yield();
                }
              }));
            }
            for (auto& thread : threads) thread->join();
          });
        },
        3);
    const double per_switch = yields * (4.0 * kYields) / static_cast<double>(switches);
    report(fmt::format("sim seed {}: yield", seed).c_str(), yields, "ns");
    report(fmt::format("sim seed {}: switches", seed).c_str(), 1e3 / per_switch, "million/s");
    constexpr uint32_t kRounds = 300'000;
    report(fmt::format("sim seed {}: wait/wake ping-pong, round trip", seed).c_str(),
           best_ns(
               os, kRounds,
               [&] {
                 const std::unique_ptr<Runtime> sim = make_sim_runtime(seed);
                 sim->run_main([&] {
                   std::atomic<uint32_t> ping = 0;
                   std::atomic<uint32_t> pong = 0;
                   std::unique_ptr<Thread> other = sim->spawn("pong", [&] {
                     for (uint32_t i = 0; i < kRounds; ++i) {
                       while (ping.load() == i) sim->wait(ping, i);
                       pong.store(i + 1);
                       sim->wake_one(pong);
                     }
                   });
                   for (uint32_t i = 0; i < kRounds; ++i) {
                     ping.store(i + 1);
                     sim->wake_one(ping);
                     while (pong.load() == i) sim->wait(pong, i);
                   }
                   other->join();
                 });
               },
               3),
           "ns");
  }
  constexpr uint64_t kConsumes = 200'000;
  report("sim: consume with 16 threads pending",
         best_ns(
             os, 16 * kConsumes,
             [&] {
               const std::unique_ptr<Runtime> sim = make_sim_runtime(4);
               sim->run_main([&] {
                 std::vector<std::unique_ptr<Thread>> threads;
                 for (int t = 0; t < 16; ++t) {
                   threads.push_back(sim->spawn("engine", [&, t] {
                     for (uint64_t i = 0; i < kConsumes; ++i) sim->consume(10 + t);
                   }));
                 }
                 for (auto& thread : threads) thread->join();
               });
             },
             2),
         "ns");
  report("sim: make, run 8 short threads, destroy",
         best_ns(
             os, 1'000,
             [&] {
               for (uint64_t seed = 0; seed < 1'000; ++seed) {
                 const std::unique_ptr<Runtime> sim = make_sim_runtime(seed);
                 sim->run_main([&] {
                   std::vector<std::unique_ptr<Thread>> threads;
                   for (int t = 0; t < 8; ++t) threads.push_back(sim->spawn("short", [] {}));
                   for (auto& thread : threads) thread->join();
                 });
               }
             },
             3),
         "ns");
}

void bench_trace(Runtime& os) {
  constexpr uint64_t kEvents = 2'000'000;
  report("os clock: now()",
         best_ns(os, kEvents,
                 [&] {
                   for (uint64_t i = 0; i < kEvents; ++i) os.now();
                 }),
         "ns");
  const auto record = [&](trace::Recorder::Clock clock) {
    // A bounded recorder with warm memory, as in a long run.
    trace::Recorder recorder(std::move(clock), size_t{1} << 16);
    trace::set_current(&recorder);
    const double cost = best_ns(os, kEvents, [&] {
      for (uint64_t i = 0; i < kEvents; ++i) trace::emit(trace::EventKind::kMarker, i, i, i, i);
    });
    trace::set_current(nullptr);
    return cost;
  };
  report("trace event, the clock free",
         record({.now_ns = [] { return 1; }, .thread = [] { return 0u; }}), "ns");
  report("trace event, os clock",
         record({.now_ns = [&] { return os.now(); }, .thread = [&] { return os.thread_number(); }}),
         "ns");
  const std::unique_ptr<Runtime> sim = make_sim_runtime(1);
  report("trace event, sim clock",
         record({.now_ns = [&] { return sim->now(); },
                 .thread = [&] { return sim->thread_number(); }}),
         "ns");
  report("trace event, nobody records",
         best_ns(os, kEvents,
                 [&] {
                   for (uint64_t i = 0; i < kEvents; ++i) trace::emit(trace::EventKind::kMarker, i);
                 }),
         "ns");
  {
    constexpr uint64_t kCold = 1'000'000;
    trace::Recorder recorder(
        {.now_ns = [&] { return sim->now(); }, .thread = [&] { return sim->thread_number(); }});
    trace::set_current(&recorder);
    report("trace event, sim clock, first use of the memory",
           best_ns(
               os, kCold,
               [&] {
                 for (uint64_t i = 0; i < kCold; ++i) trace::emit(trace::EventKind::kMarker, i);
               },
               3),
           "ns");
    trace::set_current(nullptr);
  }
}

}  // namespace
}  // namespace dxgkit::runtime

int main() {
  using namespace dxgkit::runtime;
  const std::unique_ptr<Runtime> os = make_os_runtime();
  os->run_main([&] {
    bench_os(*os);
    bench_sim(*os);
    bench_trace(*os);
  });
  return 0;
}
