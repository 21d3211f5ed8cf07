// Planted faults: what a driver and a scheduler will see of them.
#include "devices/softgpu/faults.h"

#include <gtest/gtest.h>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Mode;
using testing::Rig;
using testing::Served;

using SoftGpuFaults = testing::InBothRuntimes;

TEST_P(SoftGpuFaults, HangStopsAtItsFenceUntilReset) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].hang_at_fence = 12;
    plan.nodes[0].hangs_max = 1;
    rig.gpu.set_faults(plan);
    for (uint32_t fence = 10; fence <= 13; ++fence)
      rig.execute(0, Commands().fence_write(kVram, fence), fence);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 11}); });
    rig.watch([&] { return rig.node32(0, SGPU_NODE_CURRENT_FENCE) == 12; });
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 99);
    EXPECT_TRUE(rig.run(1, Commands().delay(100'000)));
    EXPECT_EQ(rig.word(kVram), 11u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CURRENT_FENCE), 12u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS),
              SGPU_STATUS_ENABLED | SGPU_STATUS_BUSY | SGPU_STATUS_PREEMPTING);
    EXPECT_FALSE(rig.saw({Served::kPreempted, 0, 99}));
    rig.reset(0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_ABORTED_FENCE), 12u);
    rig.start(0);
    rig.execute(0, Commands().fence_write(kVram, 12), 12);  // one hang was planned
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 12}); });
  });
}

TEST_P(SoftGpuFaults, HangStopsAtItsEntryCountedFromThePlan) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(0, Commands().fence_write(kVram, 1), 1);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 1}); });
    FaultPlan plan;
    plan.nodes[0].hang_at_entry = 2;
    plan.nodes[0].hangs_max = 1;
    rig.gpu.set_faults(plan);
    for (uint32_t fence = 2; fence <= 4; ++fence)
      rig.execute(0, Commands().fence_write(kVram, fence), fence);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 2}); });
    rig.watch([&] { return rig.node32(0, SGPU_NODE_CURRENT_FENCE) == 3; });
    rig.reset(0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_ABORTED_FENCE), 3u);
    EXPECT_EQ(rig.word(kVram), 2u);
  });
}

TEST_P(SoftGpuFaults, MemoryErrorStopsTheEntryBeforeItsFirstCommand) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[0].memory_error_at_entry = 2;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    rig.start(0);
    for (uint32_t fence = 1; fence <= 3; ++fence)
      rig.execute(0, Commands().fence_write(kVram, fence), fence);
    rig.wait([&] { return rig.saw({Served::kFault, 0, 2}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_MEMORY);
    EXPECT_EQ(rig.word(kVram), 1u);
    EXPECT_EQ(rig.gpu.memory_errors(), 1u);
    rig.reset(0);
    rig.start(0);
    rig.execute(0, Commands().fence_write(kVram, 4), 4);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 4}); });
    EXPECT_EQ(rig.gpu.memory_errors(), 1u);
  });
}

TEST_P(SoftGpuFaults, MemoryErrorComesAfterItsTime) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[0].memory_error_at_entry = 1;
    plan.nodes[0].memory_error_after_ns = runtime::kMillisecond;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    const runtime::TimeNs began = runtime.now();
    rig.execute(0, Commands().fence_write(kVram, 1), 1);
    rig.wait([&] { return rig.saw({Served::kFault, 0, 1}); });
    EXPECT_GE(runtime.now() - began, runtime::kMillisecond);
    EXPECT_EQ(rig.word(kVram), 0u);
  });
}

TEST_P(SoftGpuFaults, AnEntryThatHangsLateCompletesInTheReset) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[0].hang_at_entry = 1;
    plan.nodes[0].hangs_max = 1;
    plan.nodes[0].hangs_late = true;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    rig.execute(0, Commands().fence_write(kVram, 7), 1);
    rig.watch([&] { return rig.word(kVram) == 7; });
    EXPECT_TRUE(rig.run(1, Commands().delay(100'000)));
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CURRENT_FENCE), 1u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 0u);
    rig.reset(0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_ABORTED_FENCE), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 1u);
    EXPECT_TRUE(rig.saw({Served::kComplete, 0, 1}));
  });
}

TEST_P(SoftGpuFaults, AResetTakesItsTime) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[1].reset_ns = runtime::kMillisecond;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    const runtime::TimeNs began = runtime.now();
    rig.reset(1);
    EXPECT_GE(runtime.now() - began, runtime::kMillisecond);
    rig.start(1);
    EXPECT_TRUE(rig.run(1, Commands()));
  });
}

/// Both entries run to their end, and the request is answered behind them.
TEST_P(SoftGpuFaults, APreemptionWaitsForAnEmptyRing) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[0].preempts_when_idle = true;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    rig.execute(0, Commands().fence_write(kVram, 7).delay(1'000'000), 1);
    rig.watch([&] { return rig.word(kVram) == 7; });
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 5);
    rig.execute(0, Commands(), 2);
    rig.watch([&] { return rig.node32(0, SGPU_NODE_PREEMPT_DONE) == 5; });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_COMPLETED), 2u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_FENCE), 0u);
    EXPECT_EQ(rig.node64(0, SGPU_NODE_EXECUTED), 2u);
  });
}

TEST_P(SoftGpuFaults, HangAlwaysTakesEveryEntryOfItsNode) {
  in_runtime([](runtime::Runtime& runtime) {
    FaultPlan plan;
    plan.nodes[1].hang_always = true;
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = plan});
    for (uint32_t fence = 5; fence < 8; ++fence) {
      rig.execute(1, Commands(), fence);
      EXPECT_TRUE(rig.run(0, Commands().delay(50'000)));
      rig.reset(1);
      EXPECT_EQ(rig.node64(1, SGPU_NODE_EXECUTED), 0u);
      rig.start(1);
    }
    rig.gpu.set_faults({});
    EXPECT_TRUE(rig.run(1, Commands()));
  });
}

TEST_P(SoftGpuFaults, LostInterruptStaysACauseForTheNext) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].lose_interrupt_at_fence = 3;
    rig.gpu.set_faults(plan);
    rig.execute(0, Commands(), 3);
    rig.watch([&] { return rig.get32(SGPU_REG_INT_PENDING) == SGPU_INT_COMPLETE(0); });
    EXPECT_TRUE(rig.run(1, Commands()));
    // The interrupt of node 1 finds both causes.
    EXPECT_TRUE(rig.saw({Served::kComplete, 0, 3}));
    EXPECT_EQ(rig.interrupt_count(), 1u);
  });
}

TEST_P(SoftGpuFaults, DuplicateInterruptReportsTheSameFenceTwice) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].duplicate_interrupt_at_fence = 3;
    rig.gpu.set_faults(plan);
    rig.execute(0, Commands(), 3);
    rig.wait([&] { return rig.served().size() == 2; });
    EXPECT_EQ(rig.served(),
              (std::vector<Served>{{Served::kComplete, 0, 3}, {Served::kComplete, 0, 3}}));
  });
}

TEST_P(SoftGpuFaults, LateInterruptComesAfterTheFence) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].late_interrupt_at_fence = 3;
    plan.nodes[0].late_by_ns = 5 * runtime::kMillisecond;
    rig.gpu.set_faults(plan);
    const runtime::TimeNs start = runtime.now();
    rig.execute(0, Commands().fence_write(kVram, 1), 3);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 3}); });
    EXPECT_GE(runtime.now() - start, 5 * runtime::kMillisecond);
  });
}

TEST_P(SoftGpuFaults, CorruptFenceIsReportedInstead) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].corrupt_fences = {{3, 0xDEAD}};
    rig.gpu.set_faults(plan);
    rig.execute(0, Commands(), 3);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 0xDEAD}); });
    rig.execute(0, Commands(), 4);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 4}); });
  });
}

TEST_P(SoftGpuFaults, BadVramFaultsTheCommand) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.bad_vram_begin = 0x10000;
    plan.bad_vram_end = 0x11000;
    rig.gpu.set_faults(plan);
    uint64_t address = 0;
    EXPECT_EQ(rig.fault_of(1, Commands().fill(kVram, 0x20000, 5), &address), SGPU_FAULT_MEMORY);
    EXPECT_EQ(address, kVram + 0x10000);
    EXPECT_EQ(rig.word(kVram), 0u);
    EXPECT_TRUE(rig.run(1, Commands().fill(kVram, 0x10000, 5)));
  });
}

// With a factor, work takes modelled time on real threads too.
TEST_P(SoftGpuFaults, SlowEngineTakesLonger) {
  in_runtime([](runtime::Runtime& runtime) {
    SoftGpuConfig config{.vram_bytes = 8 << 20, .timing = {}, .faults = {}};
    config.timing.entry_ns = 20'000;
    config.faults.nodes[0].slow_factor = 100;
    Rig rig(runtime, config);
    const runtime::TimeNs start = runtime.now();
    EXPECT_TRUE(rig.run(0, Commands()));
    EXPECT_GE(runtime.now() - start, 2 * runtime::kMillisecond);
  });
}

// Chance comes from the runtime's seed: the same seed repeats the same interrupts.
TEST(SoftGpuFaultChance, IsDecidedByTheSeed) {
  const auto told_twice = [](uint64_t seed) {
    std::vector<uint32_t> seen;
    const auto runtime = runtime::make_sim_runtime(seed);
    runtime->run_main([&] {
      Rig rig(*runtime);
      FaultPlan plan;
      plan.nodes[0].duplicate_interrupt_per_million = 300'000;
      rig.gpu.set_faults(plan);
      for (uint32_t fence = 1; fence <= 40; ++fence) {
        rig.execute(0, Commands(), fence);
        rig.run(1, Commands().delay(50'000));
      }
      for (const Served& served : rig.served()) {
        if (served.node == 0) seen.push_back(served.fence);
      }
    });
    return seen;
  };
  EXPECT_EQ(told_twice(5), told_twice(5));
  EXPECT_NE(told_twice(5), told_twice(6));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuFaults, ::testing::Values(Mode::kOs, Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
