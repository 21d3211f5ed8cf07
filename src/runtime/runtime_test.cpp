// The contract of Runtime, Mutex, Event and Timer, held by both implementations: each test runs in
// os mode and in simulation under a range of seeds.
#include "runtime/runtime.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <new>
#include <thread>

#include "runtime/sync.h"
#include "trace/trace.h"

namespace dxgkit::runtime {
namespace {

enum class Mode { kOs, kSim };

class BothModes : public testing::TestWithParam<Mode> {
 protected:
  /// Runs `body` as the main thread: once on real threads, or once for each seed.
  void run(const std::function<void(Runtime&)>& body, uint64_t seeds = 50) {
    if (GetParam() == Mode::kOs) {
      const std::unique_ptr<Runtime> runtime = make_os_runtime();
      runtime->run_main([&] { body(*runtime); });
      return;
    }
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      const std::unique_ptr<Runtime> runtime = make_sim_runtime(seed);
      runtime->run_main([&] { body(*runtime); });
      if (testing::Test::HasFailure()) return;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, BothModes, testing::Values(Mode::kOs, Mode::kSim),
                         [](const auto& parameter) {
                           return parameter.param == Mode::kOs ? std::string("Os")
                                                               : std::string("Sim");
                         });

// Spawned threads know their runtime, their name, a number of their own, and start with empty
// slots.
TEST_P(BothModes, GivesEachThreadAnIdentity) {
  run([](Runtime& runtime) {
    EXPECT_EQ(&Runtime::current(), &runtime);
    EXPECT_EQ(runtime.thread_number(), 0u);
    EXPECT_EQ(runtime.thread_name(), "main");
    int local = 0;
    runtime.thread_slot(2) = &local;
    uint32_t numbers[2] = {};
    {
      std::unique_ptr<Thread> threads[2];
      for (size_t i = 0; i < 2; ++i) {
        threads[i] = runtime.spawn("worker " + std::to_string(i), [&runtime, &numbers, i] {
          EXPECT_EQ(&Runtime::current(), &runtime);
          EXPECT_EQ(runtime.thread_name(), "worker " + std::to_string(i));
          EXPECT_EQ(runtime.thread_slot(2), nullptr);
          runtime.thread_slot(2) = &numbers[i];
          runtime.yield();
          EXPECT_EQ(runtime.thread_slot(2), &numbers[i]);
          numbers[i] = runtime.thread_number();
        });
      }
      for (auto& thread : threads) thread->join();
    }
    EXPECT_EQ(numbers[0], 1u);
    EXPECT_EQ(numbers[1], 2u);
    EXPECT_EQ(runtime.thread_slot(2), &local);
    EXPECT_EQ(runtime.thread_names(), (std::vector<std::string>{"main", "worker 0", "worker 1"}));
  });
}

// run_main returns only when spawned threads have ended, joined or not.
TEST_P(BothModes, RunMainWaitsForEveryThread) {
  const std::unique_ptr<Runtime> runtime =
      GetParam() == Mode::kOs ? make_os_runtime() : make_sim_runtime(7);
  std::unique_ptr<Thread> thread;
  std::atomic<bool> ended = false;
  runtime->run_main([&] {
    thread = runtime->spawn("left alone", [&] {
      runtime->sleep_for(2 * kMillisecond);
      ended = true;
    });
  });
  EXPECT_TRUE(ended);
  thread->join();
}

// A mutex excludes: a plain counter incremented non-atomically by several threads loses nothing.
TEST_P(BothModes, MutexExcludes) {
  const int rounds = GetParam() == Mode::kOs ? 20'000 : 200;
  run([rounds](Runtime& runtime) {
    Mutex mutex;
    int64_t counter = 0;
    int inside = 0;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(runtime.spawn("adder", [&] {
        for (int j = 0; j < rounds; ++j) {
          MutexLock lock(mutex);
          EXPECT_EQ(++inside, 1);
          const int64_t seen = counter;
          runtime.interleave();
          counter = seen + 1;
          --inside;
        }
      }));
    }
    for (auto& thread : threads) thread->join();
    EXPECT_EQ(counter, 4 * rounds);
  });
}

TEST_P(BothModes, TryLockRefusesWhileHeld) {
  run([](Runtime& runtime) {
    Mutex mutex;
    mutex.lock();
    bool refused = false;
    std::unique_ptr<Thread> other = runtime.spawn("other", [&] {
      if (mutex.try_lock()) {
        mutex.unlock();
      } else {
        refused = true;
      }
    });
    other->join();
    EXPECT_TRUE(refused);
    mutex.unlock();
    if (mutex.try_lock()) {
      mutex.unlock();
    } else {
      ADD_FAILURE() << "a free mutex refused";
    }
  });
}

/// Stands for a stack that is left without destructors: the lock in places[0] lies below the other.
void leave_lower_scope(Mutex& upper, Mutex& lower) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  struct alignas(MutexLock) Place {
    std::byte bytes[sizeof(MutexLock)];
  };
  std::array<Place, 2> places;
  auto* const stays = new (&places[1]) MutexLock(upper);
  new (&places[0]) MutexLock(lower);
  MutexLock::release_below(&places[1]);
  EXPECT_TRUE(lower.try_lock());
  lower.unlock();
  EXPECT_FALSE(upper.try_lock());
  stays->~MutexLock();
  EXPECT_TRUE(upper.try_lock());
  upper.unlock();
}

TEST_P(BothModes, LocksOfScopesThatAreLeftCanBeReleased) {
  run([](Runtime&) {
    Mutex upper, lower;
    leave_lower_scope(upper, lower);
    leave_lower_scope(upper, lower);  // the list of locks is whole again
  });
}

// No wake-up is lost: two threads pass a token to and fro through two events.
TEST_P(BothModes, EventsHandATokenToAndFro) {
  const int rounds = GetParam() == Mode::kOs ? 20'000 : 200;
  run([rounds](Runtime& runtime) {
    Event ping;
    Event pong;
    std::unique_ptr<Thread> other = runtime.spawn("pong", [&] {
      for (int i = 0; i < rounds; ++i) {
        EXPECT_EQ(ping.wait(), WaitResult::kWoken);
        ping.reset();
        pong.set();
      }
    });
    for (int i = 0; i < rounds; ++i) {
      ping.set();
      EXPECT_EQ(pong.wait(), WaitResult::kWoken);
      pong.reset();
    }
    other->join();
  });
}

TEST_P(BothModes, EventWakesEveryWaiter) {
  run([](Runtime& runtime) {
    Event event;
    std::atomic<int> woken = 0;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 20; ++i) {
      threads.push_back(runtime.spawn("waiter", [&] {
        EXPECT_EQ(event.wait(), WaitResult::kWoken);
        ++woken;
      }));
    }
    runtime.sleep_for(kMillisecond);
    EXPECT_EQ(woken, 0);
    event.set();
    for (auto& thread : threads) thread->join();
    EXPECT_EQ(woken, 20);
    EXPECT_TRUE(event.is_set());
  });
}

// A wait without a wake-up ends at its deadline, not before; in sim exactly then.
TEST_P(BothModes, WaitTimesOut) {
  run([](Runtime& runtime) {
    Event event;
    const TimeNs deadline = runtime.now() + 3 * kMillisecond;
    EXPECT_EQ(event.wait(deadline), WaitResult::kTimedOut);
    EXPECT_GE(runtime.now(), deadline);
    if (runtime.is_simulated()) {
      EXPECT_EQ(runtime.now(), deadline);
    }
    EXPECT_EQ(event.wait(0), WaitResult::kTimedOut);
    event.set();
    EXPECT_EQ(event.wait(0), WaitResult::kWoken);
  });
}

// wait_either returns for a change of either word and for a deadline, and leaves no trace in the
// other's queue.
TEST_P(BothModes, WaitEitherWatchesBothWords) {
  const uint32_t rounds = GetParam() == Mode::kOs ? 5'000 : 100;
  run([rounds](Runtime& runtime) {
    std::atomic<uint32_t> words[2] = {0, 0};
    std::atomic<uint32_t> seen = 0;
    std::unique_ptr<Thread> waiter = runtime.spawn("waiter", [&] {
      uint32_t last[2] = {0, 0};
      while (last[0] + last[1] < rounds) {
        while (words[0].load() == last[0] && words[1].load() == last[1]) {
          runtime.wait_either(words[0], last[0], words[1], last[1]);
        }
        last[0] = words[0].load();
        last[1] = words[1].load();
        seen.store(last[0] + last[1]);
        runtime.wake_one(seen);
      }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
      std::atomic<uint32_t>& word = words[runtime.random() & 1];
      word.fetch_add(1);
      runtime.wake_one(word);
      for (uint32_t now = seen.load(); now != i + 1; now = seen.load()) runtime.wait(seen, now);
    }
    waiter->join();
    WaitResult result = WaitResult::kWoken;
    const TimeNs deadline = runtime.now() + kMillisecond;
    while (result == WaitResult::kWoken) {
      result = runtime.wait_either(words[0], words[0].load(), words[1], words[1].load(), deadline);
    }
    EXPECT_GE(runtime.now(), deadline);
  });
}

// A word may be gone when it is woken: the waiter destroys it as soon as it has seen the change.
TEST_P(BothModes, WaitersMayDestroyTheWordTheyWaitedFor) {
  const int rounds = GetParam() == Mode::kOs ? 5'000 : 100;
  run([rounds](Runtime& runtime) {
    std::atomic<Event*> offered = nullptr;
    std::unique_ptr<Thread> setter = runtime.spawn("setter", [&] {
      for (int i = 0; i < rounds; ++i) {
        Event* event = nullptr;
        while ((event = offered.exchange(nullptr)) == nullptr) runtime.yield();
        event->set();
      }
    });
    for (int i = 0; i < rounds; ++i) {
      auto event = std::make_unique<Event>();
      offered = event.get();
      EXPECT_EQ(event->wait(), WaitResult::kWoken);
    }
    setter->join();
  });
}

TEST_P(BothModes, TimersRunInOrderOfTheirTimes) {
  run([](Runtime& runtime) {
    Mutex mutex;
    std::vector<int> order;
    Event all;
    const TimeNs start = runtime.now();
    std::vector<std::unique_ptr<Timer>> timers;
    for (int i = 0; i < 4; ++i) {
      timers.push_back(runtime.make_timer([&, i] {
        EXPECT_GE(runtime.now(), start + (4 - i) * kMillisecond);
        MutexLock lock(mutex);
        order.push_back(i);
        if (order.size() == 4) all.set();
      }));
      timers.back()->arm(start + (4 - i) * kMillisecond);
    }
    all.wait();
    MutexLock lock(mutex);
    EXPECT_EQ(order, (std::vector<int>{3, 2, 1, 0}));
  });
}

TEST_P(BothModes, CancelledTimerDoesNotRun) {
  run([](Runtime& runtime) {
    int runs = 0;
    Event later;
    std::unique_ptr<Timer> timer = runtime.make_timer([&] { ++runs; });
    std::unique_ptr<Timer> probe = runtime.make_timer([&] { later.set(); });
    EXPECT_FALSE(timer->cancel());  // never armed
    timer->arm(runtime.now() + kSecond);
    timer->arm(runtime.now() + 2 * kSecond);  // moves it, does not add
    EXPECT_TRUE(timer->cancel());
    EXPECT_FALSE(timer->cancel());
    timer->arm(runtime.now() + kMillisecond);
    probe->arm(runtime.now() + kMillisecond);
    later.wait();
    EXPECT_EQ(runs, 1);
    EXPECT_FALSE(timer->cancel());
    timer->arm(runtime.now() + kSecond);
    timer.reset();
    EXPECT_EQ(runs, 1);
  });
}

// Destroying a timer waits for a callback that is running, unless that callback does it.
TEST_P(BothModes, DestroyingATimerWaitsForItsCallback) {
  run([](Runtime& runtime) {
    Event entered;
    Event go_on;
    std::atomic<bool> left = false;
    std::unique_ptr<Timer> timer = runtime.make_timer([&] {
      entered.set();
      go_on.wait();
      left = true;
    });
    timer->arm(runtime.now());
    entered.wait();
    std::unique_ptr<Thread> releaser = runtime.spawn("releaser", [&] {
      runtime.sleep_for(kMillisecond);
      EXPECT_FALSE(left);
      go_on.set();
    });
    timer.reset();
    EXPECT_TRUE(left);
    releaser->join();

    Event gone;
    std::unique_ptr<Timer> suicidal;
    suicidal = runtime.make_timer([&] {
      Event& last = gone;  // the captures go with the timer
      suicidal.reset();
      last.set();
    });
    suicidal->arm(runtime.now() + kMicrosecond);
    gone.wait();
    EXPECT_EQ(suicidal, nullptr);
  });
}

// Periodic work: a callback may arm its own timer again.
TEST_P(BothModes, CallbackMayRearm) {
  run([](Runtime& runtime) {
    int runs = 0;
    Event done;
    std::unique_ptr<Timer> timer;
    timer = runtime.make_timer([&] {
      if (++runs == 5) {
        done.set();
      } else {
        timer->arm(runtime.now() + 10 * kMicrosecond);
      }
    });
    timer->arm(runtime.now());
    done.wait();
    EXPECT_EQ(runs, 5);
  });
}

// Exceptions are per thread: several are in flight and caught, with switches inside the handlers.
TEST_P(BothModes, ExceptionsStayInTheirThread) {
  run([](Runtime& runtime) {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(runtime.spawn("thrower", [&runtime, i] {
        for (int j = 0; j < 20; ++j) {
          try {
            try {
              throw i;
            } catch (int value) {
              runtime.yield();
              EXPECT_EQ(value, i);
              EXPECT_EQ(std::uncaught_exceptions(), 0);
              throw;
            }
          } catch (int value) {
            EXPECT_EQ(value, i);
            runtime.yield();
            EXPECT_NE(std::current_exception(), nullptr);
          }
          EXPECT_EQ(std::current_exception(), nullptr);
        }
      }));
    }
    for (auto& thread : threads) thread->join();
  });
}

// Threads inherit the recorder; timers inherit it from the thread that armed them.
TEST_P(BothModes, RecorderIsHandedDown) {
  run(
      [](Runtime& runtime) {
        trace::Recorder recorder({.now_ns = [&] { return runtime.now(); },
                                  .thread = [&] { return runtime.thread_number(); }});
        trace::set_current(&recorder);
        std::unique_ptr<Thread> thread =
            runtime.spawn("emitter", [] { trace::emit(trace::EventKind::kMarker, 1); });
        thread->join();
        Event done;
        std::unique_ptr<Timer> timer = runtime.make_timer([&] {
          trace::emit(trace::EventKind::kMarker, 2);
          done.set();
        });
        timer->arm(runtime.now());
        done.wait();
        timer.reset();
        trace::set_current(nullptr);
        const std::vector<trace::Event> events = recorder.events();
        ASSERT_EQ(events.size(), 2u);
        EXPECT_EQ(events[0].a, 1u);
        EXPECT_EQ(events[0].thread, 1u);
        EXPECT_EQ(events[1].a, 2u);
        EXPECT_EQ(events[1].thread, 2u);
      },
      10);
}

TEST_P(BothModes, StackSizeIsRespected) {
  run(
      [](Runtime& runtime) {
        std::unique_ptr<Thread> thread =
            runtime.spawn("deep",
                          [] {
                            volatile char big[3 << 20];
                            for (size_t i = 0; i < sizeof big; i += 4096) big[i] = 1;
                            EXPECT_EQ(big[0], 1);
                          },
                          {.stack_bytes = size_t{4} << 20});
        thread->join();
      },
      3);
}

// A foreign thread may use an os runtime while it holds an adoption. It belongs to no runtime
// before and after.
TEST(OsRuntime, ForeignThreadsMayAdoptIt) {
  const std::unique_ptr<Runtime> runtime = make_os_runtime();
  Event from_main;
  Event from_foreign;
  std::thread foreign([&] {
    EXPECT_EQ(Runtime::current_or_null(), nullptr);
    {
      AdoptThread adopt(*runtime, "foreign");
      EXPECT_EQ(&Runtime::current(), runtime.get());
      EXPECT_EQ(runtime->thread_name(), "foreign");
      from_foreign.set();
      from_main.wait();
    }
    EXPECT_EQ(Runtime::current_or_null(), nullptr);
  });
  runtime->run_main([&] {
    from_foreign.wait();
    from_main.set();
  });
  foreign.join();
}

TEST(OsRuntime, ChanceIsSeeded) {
  const auto draw = [](uint64_t seed) {
    const std::unique_ptr<Runtime> runtime = make_os_runtime(seed);
    return std::array{runtime->random(), runtime->random(), runtime->random()};
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

using RuntimeDeathTest = testing::Test;

TEST(RuntimeDeathTest, CurrentNeedsARuntime) {
  EXPECT_DEATH(Runtime::current(), "t_runtime != nullptr");
}

TEST(RuntimeDeathTest, UnlockingAFreeMutexIsABug) {
  Mutex mutex;
  const auto offend = [&]() DXGKIT_NO_THREAD_SAFETY_ANALYSIS { mutex.unlock(); };
  EXPECT_DEATH(offend(), "before == kContended");
}

}  // namespace
}  // namespace dxgkit::runtime
