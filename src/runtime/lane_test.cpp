// The lane: one event at a time, in order, on real threads and under many seeds.
#include "runtime/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::runtime {
namespace {

enum class Mode { kOs, kSim };

class LaneTest : public testing::TestWithParam<Mode> {
 protected:
  void run(const std::function<void(Runtime&)>& body, uint64_t seeds = 200) {
    if (GetParam() == Mode::kOs) {
      const std::unique_ptr<Runtime> runtime = make_os_runtime();
      runtime->run_main([&] { body(*runtime); });
      return;
    }
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      const std::unique_ptr<Runtime> runtime =
          make_sim_runtime(SimOptions{.seed = seed, .time_limit = 3600 * kSecond});
      runtime->run_main([&] { body(*runtime); });
      if (testing::Test::HasFailure()) return;
    }
  }
  int rounds(int os, int sim) const { return GetParam() == Mode::kOs ? os : sim; }
};
INSTANTIATE_TEST_SUITE_P(Modes, LaneTest, testing::Values(Mode::kOs, Mode::kSim),
                         [](const auto& parameter) {
                           return parameter.param == Mode::kOs ? std::string("Os")
                                                               : std::string("Sim");
                         });

// Uncontended work runs at once, on the caller, and nested work inline. Afterwards no thread is on
// the lane.
TEST_P(LaneTest, RunsInlineWhenFree) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        const uint32_t me = runtime.thread_number();
        int depth = 0;
        EXPECT_FALSE(lane.is_current());
        lane.run([&] {
          EXPECT_TRUE(lane.is_current());
          EXPECT_EQ(runtime.thread_number(), me);
          lane.run([&] {
            lane.assert_current();
            depth = 2;
          });
          EXPECT_EQ(depth, 2);
        });
        EXPECT_FALSE(lane.is_current());
        bool posted = false;
        lane.post([&] {
          EXPECT_EQ(runtime.thread_number(), me);
          posted = lane.is_current();
        });
        EXPECT_TRUE(posted);
      },
      10);
}

// Posting from the lane queues behind the event that posts; it has run when the outer run returns.
TEST_P(LaneTest, PostFromTheLaneRunsAfterTheCurrentEvent) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        std::string order;
        lane.run([&] {
          lane.post([&] { order += 'b'; });
          lane.post_from_interrupt([&] { order += 'c'; });
          order += 'a';
        });
        EXPECT_EQ(order, "abc");
      },
      20);
}

// Two lanes nest in both ways of asking, and each knows its own.
TEST_P(LaneTest, LanesNest) {
  run(
      [](Runtime& runtime) {
        Lane outer(runtime, "outer");
        Lane inner(runtime, "inner");
        outer.run([&] {
          EXPECT_FALSE(inner.is_current());
          inner.run([&] {
            EXPECT_TRUE(outer.is_current());
            EXPECT_TRUE(inner.is_current());
          });
          EXPECT_FALSE(inner.is_current());
          EXPECT_TRUE(outer.is_current());
        });
      },
      10);
}

// The run path takes any callable by reference: capturing much does not allocate or copy.
TEST_P(LaneTest, RunTakesCallablesByReference) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        std::array<uint64_t, 64> big{};
        std::unique_ptr<int> move_only = std::make_unique<int>(3);
        auto work = [big, only = std::move(move_only)]() mutable {
          big[0] += static_cast<uint64_t>(*only);
        };
        lane.run(work);
        lane.run(work);
        std::function<void()> function = [&big] { big[1] = 9; };
        lane.run(function);
        EXPECT_EQ(big[1], 9u);
      },
      3);
}

// Work from interrupt context runs on another thread while the poster stays blocked, although no
// other thread brings work.
TEST_P(LaneTest, InterruptWorkNeedsNoOtherCaller) {
  run([this](Runtime& runtime) {
    Lane lane(runtime, "adapter");
    const uint32_t me = runtime.thread_number();
    for (int i = 0; i < rounds(300, 10); ++i) {
      Event done;
      lane.post_from_interrupt([&] {
        EXPECT_NE(runtime.thread_number(), me);
        EXPECT_TRUE(lane.is_current());
        done.set();
      });
      done.wait();
    }
  });
}

// The same work is posted again as soon as it has begun: each post runs it once, in order with
// other work.
TEST_P(LaneTest, RecurringWorkRunsOnceForEachPost) {
  run([this](Runtime& runtime) {
    Lane lane(runtime, "adapter");
    const uint32_t rounds_wanted = static_cast<uint32_t>(rounds(2000, 20));
    std::atomic<bool> queued = false;
    std::atomic<uint32_t> runs = 0;
    uint32_t others = 0;
    Lane::RecurringWork work([&] {
      EXPECT_TRUE(lane.is_current());
      queued.store(false);
      ++runs;
      runtime.wake_all(runs);
    });
    std::unique_ptr<Thread> device = runtime.spawn("device", [&] {
      for (uint32_t posted = 0; posted < rounds_wanted;) {
        if (!queued.exchange(true)) {
          ++posted;
          lane.post_from_interrupt(work);
        } else {
          runtime.yield();
        }
      }
    });
    for (uint32_t i = 0; i < rounds_wanted; ++i) lane.post_from_interrupt([&] { ++others; });
    for (uint32_t seen = runs.load(); seen < rounds_wanted; seen = runs.load())
      lane.wait_helping(runs, seen);
    device->join();
    lane.run([&] { EXPECT_EQ(others, rounds_wanted); });
    EXPECT_EQ(runs.load(), rounds_wanted);
  });
}

// Work that is on the lane keeps its place before what was posted after it.
TEST_P(LaneTest, RecurringWorkKeepsItsPlace) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        std::string order;
        Lane::RecurringWork work([&] { order += 'r'; });
        for (int i = 0; i < 2; ++i) {
          order.clear();
          lane.run([&] {
            lane.post([&] { order += 'a'; });
            lane.post_from_interrupt(work);
            lane.post([&] { order += 'b'; });
          });
          EXPECT_EQ(order, "arb");
        }
      },
      20);
}

// A waiter that helps runs the completion itself when it comes; the word it waits for is set by
// that work.
TEST_P(LaneTest, WaitHelpingRunsInterruptWork) {
  run(
      [this](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        const uint32_t me = runtime.thread_number();
        std::atomic<uint32_t> helped = 0;
        std::atomic<uint32_t> fence = 0;
        std::atomic<uint32_t> requested = 0;
        std::unique_ptr<Thread> device = runtime.spawn("device", [&] {
          for (uint32_t i = 1; i <= static_cast<uint32_t>(rounds(3000, 20)); ++i) {
            while (requested.load() < i) runtime.wait(requested, i - 1);
            lane.post_from_interrupt([&, i] {
              if (runtime.thread_number() == me) ++helped;
              fence.store(i);
              runtime.wake_all(fence);
            });
          }
        });
        for (uint32_t i = 1; i <= static_cast<uint32_t>(rounds(3000, 20)); ++i) {
          requested.store(i);
          runtime.wake_all(requested);
          while (fence.load() < i) lane.wait_helping(fence, i - 1);
        }
        device->join();
        EXPECT_EQ(fence, static_cast<uint32_t>(rounds(3000, 20)));
        EXPECT_GT(helped, 0u);
      },
      100);
}

TEST_P(LaneTest, WaitHelpingTimesOut) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        std::atomic<uint32_t> word = 0;
        Event ran;
        const TimeNs deadline = runtime.now() + 2 * kMillisecond;
        std::unique_ptr<Timer> timer = runtime.make_timer([&] {
          lane.post_from_interrupt(
              [&] { ran.set(); });  // wakes the helper, but is not what it waits for
        });
        timer->arm(runtime.now() + kMillisecond);
        WaitResult result = WaitResult::kWoken;
        while (result == WaitResult::kWoken) result = lane.wait_helping(word, 0, deadline);
        EXPECT_GE(runtime.now(), deadline);
        ran.wait();  // on a loaded machine the timer may come after the deadline
      },
      50);
}

// Many threads, all three ways in: events never overlap, each thread's come in its order, none is
// lost, and what was queued before a run has been done when it returns.
TEST_P(LaneTest, ExcludesAndKeepsOrder) {
  run([this](Runtime& runtime) {
    constexpr size_t kThreads = 4;
    const int each = rounds(4'000, 30);
    auto lane = std::make_unique<Lane>(runtime, "adapter");
    int inside = 0;
    int64_t total = 0;
    std::array<int, kThreads> next{};
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.push_back(runtime.spawn("client " + std::to_string(t), [&, t] {
        for (int i = 0; i < each; ++i) {
          const auto work = [&, t, i] {
            EXPECT_EQ(++inside, 1);
            runtime.interleave();
            EXPECT_EQ(next[t], i);
            next[t] = i + 1;
            ++total;
            --inside;
          };
          switch (runtime.random() % 3) {
            case 0:
              lane->run(work);
              break;
            case 1:
              lane->post(work);
              break;
            default:
              lane->post_from_interrupt(work);
              break;
          }
          if (i % 16 == 15) {
            lane->run([&] { EXPECT_EQ(next[t], i + 1); });
          }
        }
      }));
    }
    for (auto& thread : threads) thread->join();
    lane.reset();  // runs what is queued
    EXPECT_EQ(total, static_cast<int64_t>(kThreads) * each);
  });
}

// Linearizable: whatever way work came in, it took effect after it was brought, a run before it
// returned, and in an order that agrees with real time: what was brought completely before
// something else was called runs before it.
TEST_P(LaneTest, IsLinearizable) {
  run([this](Runtime& runtime) {
    struct Operation {
      uint64_t called = 0;
      uint64_t returned = 0;
      uint64_t effect = 0;
      bool is_run = false;
    };
    auto lane = std::make_unique<Lane>(runtime, "adapter");
    std::atomic<uint64_t> moments = 0;
    const auto each = static_cast<size_t>(rounds(2'000, 25));
    std::vector<std::vector<Operation>> done(3, std::vector<Operation>(each));
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& operations : done) {
      threads.push_back(runtime.spawn("client", [&] {
        for (Operation& operation : operations) {
          const auto work = [&] { operation.effect = ++moments; };
          const uint64_t way = runtime.random() % 3;
          operation.is_run = way == 0;
          operation.called = ++moments;
          runtime.interleave();
          if (way == 0) lane->run(work);
          if (way == 1) lane->post(work);
          if (way == 2) lane->post_from_interrupt(work);
          runtime.interleave();
          operation.returned = ++moments;
        }
      }));
    }
    for (auto& thread : threads) thread->join();
    lane.reset();
    std::vector<Operation> all;
    for (const auto& operations : done) all.insert(all.end(), operations.begin(), operations.end());
    std::sort(all.begin(), all.end(),
              [](const Operation& a, const Operation& b) { return a.effect < b.effect; });
    uint64_t earliest_return_of_later = UINT64_MAX;
    for (size_t i = all.size(); i-- > 0;) {
      const Operation& operation = all[i];
      ASSERT_LT(operation.called, operation.effect);
      if (operation.is_run) {
        ASSERT_LT(operation.effect, operation.returned);
      }
      ASSERT_GT(earliest_return_of_later, operation.called) << "overtaken by what came later";
      earliest_return_of_later = std::min(earliest_return_of_later, operation.returned);
    }
  });
}

// A thread that wants the lane gets it after a bounded number of others, although they never stop
// coming.
TEST_P(LaneTest, HandOverDoesNotStarve) {
  run(
      [](Runtime& runtime) {
        Lane lane(runtime, "adapter");
        std::atomic<bool> stop = false;
        std::vector<std::unique_ptr<Thread>> greedy;
        for (int i = 0; i < 3; ++i) {
          greedy.push_back(runtime.spawn("greedy", [&] {
            while (!stop) {
              lane.run([&] { runtime.interleave(); });
              lane.post_from_interrupt([] {});
              runtime.yield();
            }
          }));
        }
        for (int i = 0; i < 20; ++i) lane.run([] {});
        stop = true;
        for (auto& thread : greedy) thread->join();
      },
      50);
}

// A lane may be destroyed as soon as the last call into it has returned, whatever other callers are
// still leaving.
TEST_P(LaneTest, MayBeDestroyedRightAfterItsLastEvent) {
  run([this](Runtime& runtime) {
    for (int i = 0; i < rounds(200, 5); ++i) {
      auto lane = std::make_unique<Lane>(runtime, "short-lived");
      Event done;
      std::unique_ptr<Thread> poster = runtime.spawn(
          "poster", [&, raw = lane.get()] { raw->post_from_interrupt([&] { done.set(); }); });
      done.wait();
      lane.reset();
      poster->join();
    }
  });
}

TEST(LaneDeathTest, AssertCurrentAbortsElsewhere) {
  const auto offend = [] {
    const std::unique_ptr<Runtime> runtime = make_sim_runtime(0);
    runtime->run_main([&] {
      Lane lane(*runtime, "adapter");
      lane.assert_current();
    });
  };
  EXPECT_DEATH(offend(), "is_current");
}

}  // namespace
}  // namespace dxgkit::runtime
