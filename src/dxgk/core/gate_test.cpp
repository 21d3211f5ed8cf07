#include "dxgk/core/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace dxgkit::dxgk {
namespace {

TEST(Gate, NobodyEntersOnceItIsClosed) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    Gate gate;
    EXPECT_TRUE(gate.enter());
    EXPECT_FALSE(gate.closed());
    EXPECT_TRUE(gate.close());
    EXPECT_FALSE(gate.close()) << "the second closer learns that it was not first";
    EXPECT_TRUE(gate.closed());
    EXPECT_FALSE(gate.enter());
    EXPECT_FALSE(GatePass(gate));
    gate.leave();
    gate.wait_empty();
  });
}

TEST(Gate, APassLeavesWithItsScopeAndOnlyIfItEntered) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    Gate gate;
    {
      GatePass first(gate);
      GatePass second(gate);
      EXPECT_TRUE(first);
      EXPECT_TRUE(second);
      gate.close();
      GatePass third(gate);
      EXPECT_FALSE(third);
    }
    gate.wait_empty();
  });
}

// Whoever holds the gate is not inside: it is empty for who closes it, and the holder lets go
// later.
TEST(Gate, AHolderKeepsNobodyFromClosing) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Gate gate;
    ASSERT_TRUE(gate.enter());
    gate.hold();
    gate.hold();
    EXPECT_TRUE(gate.enter_beside()) << "a holder is nothing to who disturbs nobody";
    bool refused = false;
    const auto waiter = runtime->spawn("waiter", [&] { refused = !gate.enter(); });
    runtime->yield();
    EXPECT_TRUE(gate.close());
    waiter->join();
    EXPECT_TRUE(refused) << "who waited for the holder learns that it is closed";
    EXPECT_FALSE(gate.enter_beside());
    const auto inside = runtime->spawn("inside", [&] {
      gate.leave();
      runtime->yield();
      gate.leave();
    });
    gate.wait_empty();
    inside->join();
    gate.release();
    gate.wait_empty();
    gate.release();
    gate.wait_empty();
  });
}

// Two holders: the gate opens with the second one's release, and not before.
TEST(Gate, OpensWhenTheLastHolderLetsGo) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Gate gate;
    gate.hold();
    gate.hold();
    bool entered = false;
    const auto waiter = runtime->spawn("waiter", [&] {
      entered = gate.enter();
      gate.leave();
    });
    for (int i = 0; i < 20; ++i) runtime->yield();
    EXPECT_FALSE(entered);
    gate.release();
    for (int i = 0; i < 20; ++i) runtime->yield();
    EXPECT_FALSE(entered);
    gate.release();
    waiter->join();
    EXPECT_TRUE(entered);
  });
}

TEST(Gate, TheCloserSeesEverythingThoseInsideDidUnderManyInterleavings) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto runtime = runtime::make_sim_runtime(seed);
    runtime->run_main([&] {
      Gate gate;
      int inside = 0;
      int entered = 0;
      bool closed = false;
      std::vector<std::unique_ptr<runtime::Thread>> threads;
      for (int i = 0; i < 4; ++i) {
        threads.push_back(runtime->spawn("client", [&] {
          for (int round = 0; round < 5; ++round) {
            GatePass pass(gate);
            if (!pass) return;
            EXPECT_FALSE(closed);
            ++inside;
            ++entered;
            runtime->yield();
            --inside;
          }
        }));
      }
      runtime->yield();
      EXPECT_TRUE(gate.close());
      gate.wait_empty();
      EXPECT_EQ(inside, 0) << "seed " << seed;
      closed = true;
      const int before = entered;
      for (const auto& thread : threads) thread->join();
      EXPECT_EQ(entered, before) << "seed " << seed;
    });
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
