#include "runtime/turnstile.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace {

/// More threads pass than there are places, while one bars the way again and again. Then no thread
/// is inside, and no effect of a thread inside is missing.
void pass_and_bar(Runtime& runtime, int threads, int rounds, int bars) {
  Turnstile turnstile;
  std::atomic<bool> alone{false};
  // Plain: only the thread that has barred reads it.
  std::vector<int> done(static_cast<size_t>(threads), 0);
  int wrong = 0, total = 0;
  std::vector<std::unique_ptr<Thread>> passing;
  for (int i = 0; i < threads; ++i) {
    passing.push_back(runtime.spawn("passing", [&, i] {
      for (int round = 0; round < rounds; ++round) {
        while (!turnstile.enter()) turnstile.wait_unbarred();
        EXPECT_FALSE(alone.load());
        ++done[static_cast<size_t>(i)];
        runtime.interleave();
        EXPECT_FALSE(alone.load());
        turnstile.leave();
        runtime.interleave();
      }
    }));
  }
  for (int i = 0; i < bars; ++i) {
    turnstile.bar();
    turnstile.wait_empty();
    alone.store(true);
    total = 0;
    for (const int one : done) total += one;
    runtime.interleave();
    int again = 0;
    for (const int one : done) again += one;
    if (again != total) ++wrong;
    alone.store(false);
    turnstile.unbar();
    runtime.yield();
  }
  for (const auto& thread : passing) thread->join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(turnstile.empty());
  total = 0;
  for (const int one : done) total += one;
  EXPECT_EQ(total, threads * rounds);
}

TEST(Turnstile, WhoBarsIsAlone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto runtime = make_sim_runtime(seed);
    runtime->run_main([&] { pass_and_bar(*runtime, 4, 20, 20); });
  }
  const auto runtime = make_os_runtime(1);
  runtime->run_main([&] {
    pass_and_bar(*runtime, 3, 20000, 300);
    pass_and_bar(*runtime, 40, 500, 50);
  });
}

TEST(Turnstile, RefusesWhileBarredExceptTheOneWhoMay) {
  const auto runtime = make_sim_runtime(1);
  runtime->run_main([] {
    Turnstile turnstile;
    EXPECT_TRUE(turnstile.enter());
    EXPECT_FALSE(turnstile.empty());
    turnstile.bar();
    EXPECT_TRUE(turnstile.barred());
    EXPECT_FALSE(turnstile.enter());
    turnstile.leave();
    turnstile.wait_empty();
    turnstile.enter_barred();
    EXPECT_FALSE(turnstile.empty());
    turnstile.leave();
    turnstile.unbar();
    EXPECT_TRUE(turnstile.enter());
    turnstile.leave();
    EXPECT_TRUE(turnstile.empty());
  });
}

}  // namespace
}  // namespace dxgkit::runtime
