// The promises of the simulation alone: one seed is one run, time is virtual, a hang is found and
// explained.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "runtime/lane.h"
#include "runtime/runtime.h"
#include "runtime/sim_time.h"
#include "runtime/sync.h"

namespace dxgkit::runtime {
namespace {

/// Three threads and a timer contend for a lock; the order in which they get it, with times, is the
/// result.
std::vector<uint64_t> contend(uint64_t seed) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(seed);
  std::vector<uint64_t> log;
  runtime->run_main([&] {
    Mutex mutex;
    const auto note = [&](uint64_t what) {
      log.push_back(what);
      log.push_back(runtime->thread_number());
      log.push_back(static_cast<uint64_t>(runtime->now()));
    };
    std::unique_ptr<Timer> timer = runtime->make_timer([&] { note(1000); });
    timer->arm(150);
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t i = 0; i < 3; ++i) {
      threads.push_back(runtime->spawn("contender", [&, i] {
        for (uint64_t j = 0; j < 8; ++j) {
          {
            MutexLock lock(mutex);
            note(i * 100 + j);
            runtime->interleave();
          }
          if (runtime->random() % 4 == 0) runtime->consume(50);
        }
      }));
    }
    for (auto& thread : threads) thread->join();
  });
  return log;
}

TEST(SimRuntime, SameSeedSameInterleaving) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<uint64_t> once = contend(seed);
    const auto ballast = std::make_unique<char[]>(1 + seed * 4096);  // other addresses, same run
    EXPECT_EQ(once, contend(seed)) << "seed " << seed;
  }
}

TEST(SimRuntime, SeedsGiveManyInterleavings) {
  std::set<std::vector<uint64_t>> runs;
  for (uint64_t seed = 0; seed < 200; ++seed) runs.insert(contend(seed));
  EXPECT_GT(runs.size(), 190u);
}

// A race that needs one exact switch is found within a hundred seeds, and the seeds that find it
// find it again.
TEST(SimRuntime, FindsALostUpdate) {
  const auto loses = [](uint64_t seed) {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(seed);
    int counter = 0;
    runtime->run_main([&] {
      const auto add = [&] {
        const int seen = counter;
        runtime->interleave();
        counter = seen + 1;
      };
      std::unique_ptr<Thread> other = runtime->spawn("other", add);
      add();
      other->join();
    });
    return counter != 2;
  };
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const bool lost = loses(seed);
    found += lost ? 1 : 0;
    EXPECT_EQ(lost, loses(seed));
  }
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 100);
}

// Time stands while anything can run, then jumps to the next thing due: a virtual hour costs
// nothing.
TEST(SimRuntime, TimeJumpsOnlyWhenNothingIsRunnable) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(3);
  runtime->run_main([&] {
    EXPECT_EQ(runtime->now(), 0);
    std::unique_ptr<Thread> busy = runtime->spawn("busy", [&] {
      for (int i = 0; i < 1000; ++i) runtime->interleave();
      EXPECT_EQ(runtime->now(), 0);
    });
    runtime->sleep_for(3600 * kSecond);
    EXPECT_EQ(runtime->now(), 3600 * kSecond);
    runtime->consume(7);
    EXPECT_EQ(runtime->now(), 3600 * kSecond + 7);
    busy->join();
  });
}

// Threads that consume in parallel overlap, as engines do.
TEST(SimRuntime, ConsumptionOverlaps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(seed);
    runtime->run_main([&] {
      std::vector<std::unique_ptr<Thread>> engines;
      for (int i = 0; i < 5; ++i) {
        engines.push_back(runtime->spawn("engine", [&] {
          for (int j = 0; j < 10; ++j) runtime->consume(10);
        }));
      }
      for (auto& engine : engines) engine->join();
      EXPECT_EQ(runtime->now(), 100);
    });
  }
}

// A driver that polls in a spin loop sees time pass, as it would on a machine.
TEST(SimRuntime, SpinningOnYieldLetsTimePass) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(5);
  runtime->run_main([&] {
    std::atomic<bool> done = false;
    std::unique_ptr<Thread> device = runtime->spawn("device", [&] {
      runtime->consume(kMillisecond);
      done = true;
    });
    while (!done) runtime->yield();
    EXPECT_EQ(runtime->now(), kMillisecond);
    device->join();
  });
}

TEST(SimRuntime, ThreadsMadeBeforeTheRunTakePart) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(1);
  int ran = 0;
  std::unique_ptr<Thread> early = runtime->spawn("early", [&] { ++ran; });
  EXPECT_EQ(ran, 0);
  runtime->run_main([&] { early->join(); });
  EXPECT_EQ(ran, 1);
}

// Simulations on several OS threads at once do not disturb each other.
TEST(SimRuntime, RunsInParallel) {
  std::vector<std::vector<uint64_t>> expected;
  for (uint64_t seed = 0; seed < 20; ++seed) expected.push_back(contend(seed));
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        if (contend(seed) == expected[seed]) ++equal;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
}

TEST(SimRuntime, ManyThreadsComeAndGo) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(11);
  runtime->run_main([&] {
    int ran = 0;
    for (int round = 0; round < 50; ++round) {
      std::vector<std::unique_ptr<Thread>> threads;
      for (int i = 0; i < 20; ++i) {
        threads.push_back(runtime->spawn("short", [&] {
          runtime->yield();
          ++ran;
        }));
      }
      for (auto& thread : threads) thread->join();
    }
    EXPECT_EQ(ran, 1000);
  });
}

TEST(SimRuntime, CountsHowOftenTimeMovedOn) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(SimOptions{.seed = 3});
  runtime->run_main([&] {
    const uint64_t before = sim_time_steps(*runtime);
    runtime->sleep_for(3600 * kSecond);
    EXPECT_EQ(sim_time_steps(*runtime) - before, 1U) << "however long";
    runtime->yield();
    EXPECT_EQ(sim_time_steps(*runtime) - before, 1U);
    for (int i = 0; i < 5; ++i) runtime->sleep_for(1);
    EXPECT_EQ(sim_time_steps(*runtime) - before, 6U);
  });
}

TEST(SimRuntime, JumpsOverWhatWasDueWithoutRunningIt) {
  const std::unique_ptr<Runtime> runtime = make_sim_runtime(SimOptions{.seed = 3});
  runtime->run_main([&] {
    std::vector<TimeNs> seen;
    std::vector<std::unique_ptr<Thread>> threads;
    for (const DurationNs due : {kSecond, 2 * kSecond, 20 * kSecond}) {
      threads.push_back(runtime->spawn("sleeper", [&, due] {
        runtime->sleep_until(due);
        seen.push_back(runtime->now());
      }));
    }
    runtime->sleep_for(kMillisecond);
    sim_jump(*runtime, 10 * kSecond);
    EXPECT_TRUE(seen.empty());
    const TimeNs late = 10 * kSecond + kMillisecond;
    EXPECT_EQ(runtime->now(), late);
    for (const auto& thread : threads) thread->join();
    EXPECT_EQ(seen, (std::vector<TimeNs>{late, late, 20 * kSecond}));
  });
}

TEST(SimRuntimeDeathTest, DeadlockIsReportedWithNamesAndSeed) {
  const auto deadlock = [] {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(42);
    runtime->run_main([&] {
      Event never;
      Mutex mutex;
      std::unique_ptr<Thread> holder = runtime->spawn("holder of the lock", [&] {
        MutexLock lock(mutex);
        WaitReason reason(*runtime, "the paging fence");
        std::atomic<uint32_t> word = 5;
        while (word == 5) runtime->wait(word, 5);
      });
      runtime->sleep_for(10);
      std::unique_ptr<Thread> contender =
          runtime->spawn("contender", [&] { MutexLock lock(mutex); });
      never.wait();
    });
  };
  EXPECT_DEATH(deadlock(),
               "deadlock.*seed 42.*virtual time 10 ns.*\n"
               ".*0 \"main\": waits for an event.*\n"
               ".*\"holder of the lock\": waits for the paging fence, word .* to leave 5.*\n"
               ".*\"contender\": waits for a mutex");
}

TEST(SimRuntimeDeathTest, TimeLimitEndsAHangThatTimersKeepAlive) {
  const auto hang = [] {
    const std::unique_ptr<Runtime> runtime =
        make_sim_runtime(SimOptions{.seed = 9, .time_limit = kSecond});
    runtime->run_main([&] {
      std::unique_ptr<Timer> timer;
      timer = runtime->make_timer([&] { timer->arm(runtime->now() + kMillisecond); });
      timer->arm(0);
      Event never;
      never.wait();
    });
  };
  EXPECT_DEATH(hang(), "time limit.*seed 9.*\n.*\"main\": waits for an event");
}

TEST(SimRuntimeDeathTest, StackOverflowHitsTheGuardPage) {
  const auto overflow = [] {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(0);
    runtime->run_main([&] {
      std::unique_ptr<Thread> thread =
          runtime->spawn("deep",
                         [] {
                           volatile char big[64 * 4096];
                           for (size_t i = sizeof big; i >= 4096; i -= 4096) big[i - 1] = 1;
                         },
                         {.stack_bytes = 32 * 4096});
      thread->join();
    });
  };
  EXPECT_DEATH(overflow(), "");
}

}  // namespace
}  // namespace dxgkit::runtime
