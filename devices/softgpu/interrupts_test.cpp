#include "devices/softgpu/interrupts.h"

#include <gtest/gtest.h>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Mode;
using testing::Rig;
using testing::Served;

using SoftGpuInterrupts = testing::InBothRuntimes;

TEST_P(SoftGpuInterrupts, MaskedCausesWaitAndComeWhenUnmasked) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_COMPLETE(1));
    rig.execute(0, Commands(), 5);
    rig.watch([&] { return rig.get32(SGPU_REG_INT_STATUS) != 0; });
    EXPECT_TRUE(rig.run(1, Commands()));
    EXPECT_FALSE(rig.saw({Served::kComplete, 0, 5}));
    EXPECT_EQ(rig.get32(SGPU_REG_INT_STATUS), SGPU_INT_COMPLETE(0));
    EXPECT_EQ(rig.get32(SGPU_REG_INT_PENDING), 0u);
    rig.set32(SGPU_REG_INT_ENABLE, 0xFFFF'FFFF);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 5}); });
    EXPECT_EQ(rig.get32(SGPU_REG_INT_ENABLE), SGPU_INT_ALL);
    EXPECT_EQ(rig.get32(SGPU_REG_INT_STATUS), 0u);
  });
}

// While masked, completions merge: one interrupt tells the newest fence of each node.
TEST_P(SoftGpuInterrupts, CompletionsMerge) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.set32(SGPU_REG_INT_ENABLE, 0);
    for (uint32_t fence = 1; fence <= 10; ++fence) {
      rig.execute(0, Commands(), fence);
      rig.execute(1, Commands(), 100 + fence);
    }
    while (rig.node32(0, SGPU_NODE_COMPLETED_FENCE) != 10 ||
           rig.node32(1, SGPU_NODE_COMPLETED_FENCE) != 110 ||
           rig.get32(SGPU_REG_INT_STATUS) != SGPU_INT_COMPLETE_ALL) {
      runtime.sleep_for(runtime::kMicrosecond);
    }
    rig.set32(SGPU_REG_INT_ENABLE, SGPU_INT_ALL);
    rig.wait([&] { return rig.interrupt_count() == 1; });
    EXPECT_EQ(rig.served(),
              (std::vector<Served>{{Served::kComplete, 0, 10}, {Served::kComplete, 1, 110}}));
  });
}

// Two engines complete as fast as they can while the handler acknowledges: the last fence of each
// is always told, and the device never calls the handler for nothing.
TEST_P(SoftGpuInterrupts, NoCompletionIsLostInTheAcknowledgeRace) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    for (uint32_t round = 0; round < 100; ++round) {
      const uint32_t last = (round + 1) * 20;
      for (uint32_t fence = round * 20 + 1; fence <= last; ++fence) {
        rig.execute(0, Commands(), fence);
        rig.execute(1, Commands(), fence);
      }
      rig.wait([&] {
        return rig.saw({Served::kComplete, 0, last}) && rig.saw({Served::kComplete, 1, last});
      });
    }
    EXPECT_EQ(rig.spurious(), 0u);
    EXPECT_EQ(rig.gpu.interrupt_storms(), 0u);
  });
}

TEST_P(SoftGpuInterrupts, HandlerThatNeverAcknowledgesIsBounded) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    std::atomic<uint32_t> calls{0};
    rig.gpu.function().interrupt_line().connect([&] {
      ++calls;
      return true;
    });
    rig.execute(0, Commands().fence_write(kVram, 1), 1);
    while (rig.gpu.interrupt_storms() == 0) runtime.sleep_for(runtime::kMicrosecond);
    EXPECT_EQ(calls, static_cast<uint32_t>(Interrupts::kRoundsMax));
    EXPECT_EQ(rig.get32(SGPU_REG_INT_STATUS), SGPU_INT_COMPLETE(0));
  });
}

TEST_P(SoftGpuInterrupts, UnclaimedInterruptIsAskedOncePerEvent) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    std::atomic<uint32_t> calls{0};
    rig.gpu.function().interrupt_line().connect([&] {
      calls.fetch_add(1);
      return false;
    });
    rig.execute(0, Commands(), 1);
    while (calls.load() < 1) runtime.sleep_for(runtime::kMicrosecond);
    rig.execute(0, Commands(), 2);
    while (calls.load() < 2) runtime.sleep_for(runtime::kMicrosecond);
    EXPECT_EQ(rig.gpu.interrupt_storms(), 0u);
    EXPECT_EQ(calls, 2u);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuInterrupts, ::testing::Values(Mode::kOs, Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
