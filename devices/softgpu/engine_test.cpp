// Rings, completion, preemption and reset.
#include "devices/softgpu/engine.h"

#include <gtest/gtest.h>

#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu {
namespace {

using testing::Commands;
using testing::kVram;
using testing::Mode;
using testing::Rig;
using testing::Served;

using SoftGpuEngine = testing::InBothRuntimes;

/// Until the engine stands in its SEM_WAIT: a state the test then changes, not a race it hopes to
/// win.
void wait_for_semaphore(Rig& rig, uint32_t node) {
  while ((rig.node32(node, SGPU_NODE_STATUS) & SGPU_STATUS_WAITING) == 0) {
    rig.runtime.sleep_for(runtime::kMicrosecond);
  }
}

TEST_P(SoftGpuEngine, IdentifiesItself) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime, {.vram_bytes = 5 << 20, .timing = {}, .faults = {}});
    EXPECT_EQ(rig.get32(SGPU_REG_ID), SGPU_ID_VALUE);
    EXPECT_EQ(rig.get32(SGPU_REG_REVISION), SGPU_HW_REVISION);
    EXPECT_EQ(rig.get32(SGPU_REG_NODE_COUNT), 2u);
    EXPECT_EQ(rig.get64(SGPU_REG_VRAM_BASE), SGPU_VRAM_BASE);
    EXPECT_EQ(rig.get64(SGPU_REG_VRAM_SIZE), uint64_t{5 << 20});
    EXPECT_EQ(rig.gpu.function().bars()[SGPU_BAR_VRAM].size, uint64_t{8 << 20});
    EXPECT_EQ(rig.get64(SGPU_REG_APERTURE_BASE), SGPU_APERTURE_BASE);
    EXPECT_EQ(rig.get64(SGPU_REG_APERTURE_SIZE), SGPU_APERTURE_BYTES);
    // A wide register reads in halves; narrow and misaligned accesses answer nothing.
    EXPECT_EQ(rig.get32(SGPU_REG_VRAM_BASE + 4), SGPU_VRAM_BASE >> 32);
    EXPECT_EQ(rig.access(SGPU_REG_ID, 2), 0xFFFFu);
    EXPECT_EQ(rig.access(SGPU_REG_ID + 2, 4), 0xFFFF'FFFFu);
    EXPECT_EQ(rig.access(SGPU_REG_ID, 8), SGPU_ID_VALUE | uint64_t{SGPU_HW_REVISION} << 32);
    EXPECT_EQ(rig.get32(0xF000), 0u);
    EXPECT_EQ(rig.gpu.function().identity().vendor_id, SGPU_PCI_VENDOR_ID);
  });
}

// A ring of four, hundreds of entries: the head follows the tail around, in order, with nothing
// lost.
TEST_P(SoftGpuEngine, RingWrapsInOrder) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime, {.vram_bytes = 8 << 20, .timing = {}, .faults = {}}, 4);
    for (uint32_t fence = 1; fence <= 300; ++fence) {
      // Full with one entry free: wait for the engine to take some.
      rig.wait([&] { return rig.node32(0, SGPU_NODE_COMPLETED_FENCE) + 3 >= fence; });
      rig.execute(0, Commands().sem_wait(kVram, fence - 1).fence_write(kVram, fence), fence);
    }
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 300}); });
    EXPECT_EQ(rig.word(kVram), 300u);
    EXPECT_EQ(rig.node64(0, SGPU_NODE_EXECUTED), 300u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_HEAD), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_FETCHED_FENCE), 300u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CURRENT_FENCE), 0u);
    EXPECT_EQ(rig.node32(1, SGPU_NODE_COMPLETED_FENCE), 0u);
    uint32_t last = 0;
    for (const Served& served : rig.served()) {
      EXPECT_EQ(served.kind, Served::kComplete);
      EXPECT_GE(served.fence, last);
      last = served.fence;
    }
  });
}

TEST_P(SoftGpuEngine, NullExecuteAndFenceEntriesCompleteWithoutMemory) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    SgpuRingEntry null = rig.entry_for(Commands().fence_write(kVram, 1), 1, SGPU_EXECUTE_NULL);
    null.address = 8;  // would fault if it were looked at
    rig.submit(0, null);
    SgpuRingEntry fence{};
    fence.type = SGPU_RING_FENCE;
    fence.fence = 2;
    rig.submit(0, SgpuRingEntry{});  // a NOP
    rig.submit(0, fence);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 2}); });
    EXPECT_EQ(rig.word(kVram), 0u);
    EXPECT_EQ(rig.node64(0, SGPU_NODE_EXECUTED), 2u);
  });
}

TEST_P(SoftGpuEngine, NoInterruptUpdatesTheFenceSilently) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(0, Commands(), 1, SGPU_EXECUTE_NO_INTERRUPT);
    rig.execute(0, Commands(), 2, SGPU_EXECUTE_NO_INTERRUPT);
    EXPECT_TRUE(rig.run(1, Commands().sem_wait(kVram, 0)));
    rig.execute(0, Commands(), 3);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 3}); });
    EXPECT_FALSE(rig.saw({Served::kComplete, 0, 1}));
    EXPECT_FALSE(rig.saw({Served::kComplete, 0, 2}));
  });
}

TEST_P(SoftGpuEngine, ConfigurationIsIgnoredWhileEnabled) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const uint64_t base = rig.node64(0, SGPU_NODE_RING_BASE);
    rig.set64(SGPU_NODE_REG(0, SGPU_NODE_RING_BASE), base + 4096);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_RING_SIZE), 2);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_COMPLETED_FENCE), 77);
    EXPECT_EQ(rig.node64(0, SGPU_NODE_RING_BASE), base);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_SIZE), Rig::kRingEntries);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 0u);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_CONTROL), 0);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_RING_BASE) + 4,
              0x10);  // half of a wide register keeps the other half
    EXPECT_EQ(rig.node64(0, SGPU_NODE_RING_BASE), (base & 0xFFFF'FFFF) | uint64_t{0x10} << 32);
    rig.set64(SGPU_NODE_REG(0, SGPU_NODE_RING_BASE), base);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_COMPLETED_FENCE), 77);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 77u);
    // A disabled engine leaves its ring alone until it is enabled again.
    rig.execute(0, Commands(), 5);
    EXPECT_TRUE(rig.run(1, Commands()));
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 77u);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_CONTROL), SGPU_CONTROL_ENABLE);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 5}); });
  });
}

// --- preemption

TEST_P(SoftGpuEngine, IdleEngineAnswersPreemptionAtOnce) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    EXPECT_TRUE(rig.run(0, Commands()));
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 0);  // no request
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 40);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 40}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_COMPLETED), 1u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_FENCE), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), SGPU_STATUS_ENABLED);
    EXPECT_TRUE(rig.run(0, Commands().fence_write(kVram, 3)));  // and goes on
    EXPECT_EQ(rig.served().size(), 3u);
  });
}

// Stopped midway, resumed at the saved offset: what was done is not done again, what was queued
// behind is dropped.
TEST_P(SoftGpuEngine, PreemptsAtACommandBoundaryAndResumes) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const uint64_t counter = kVram;
    Commands commands;
    commands.fence_write(counter, 1).sem_wait(kVram + 8, 1).fence_write(counter + 16, 2);
    const SgpuRingEntry entry = rig.entry_for(commands, 10);
    rig.submit(0, entry);
    rig.execute(0, Commands().fence_write(kVram + 32, 5), 11);
    wait_for_semaphore(rig, 0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CURRENT_FENCE), 10u);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 90);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 90}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_FENCE), 10u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_OFFSET), sizeof(SgpuFenceWrite));
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_COMPLETED), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_HEAD), rig.node32(0, SGPU_NODE_RING_TAIL));
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), SGPU_STATUS_ENABLED);

    rig.set_word(counter, 100);
    rig.set_word(kVram + 8, 1);
    SgpuRingEntry resumed = entry;
    resumed.start_offset = rig.node32(0, SGPU_NODE_PREEMPT_OFFSET);
    rig.submit(0, resumed);
    rig.wait([&] { return rig.saw({Served::kComplete, 0, 10}); });
    EXPECT_EQ(rig.word(counter), 100u);     // not repeated
    EXPECT_EQ(rig.word(counter + 16), 2u);  // carried on
    EXPECT_EQ(rig.word(kVram + 32), 0u);    // fence 11 was dropped
    EXPECT_FALSE(rig.saw({Served::kComplete, 0, 11}));
  });
}

TEST_P(SoftGpuEngine, PreemptibleDelayStopsAndOthersRunToTheirEnd) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(
        0, Commands().fence_write(kVram, 1).delay(SGPU_DELAY_MAX_NS, SGPU_DELAY_PREEMPTIBLE), 3);
    rig.run(1, Commands().sem_wait(kVram, 1));
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 8);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 8}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_FENCE), 3u);
    // The last command of a buffer, not preemptible: the entry completes, then the preemption is
    // answered.
    rig.execute(0, Commands().fence_write(kVram, 2).delay(2 * runtime::kMillisecond), 4);
    rig.run(1, Commands().sem_wait(kVram, 2));
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 9);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 9}); });
    const uint32_t stopped = rig.node32(0, SGPU_NODE_PREEMPT_FENCE);
    if (stopped == 0) {
      EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_COMPLETED), 4u);
    } else {
      // The request came between the two commands.
      EXPECT_EQ(stopped, 4u);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_OFFSET), sizeof(SgpuFenceWrite));
    }
    EXPECT_EQ(rig.saw({Served::kComplete, 0, 4}), stopped == 0);
  });
}

TEST_P(SoftGpuEngine, SecondRequestIsIgnoredWhileOneIsOpen) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    FaultPlan plan;
    plan.nodes[0].hang_always = true;
    rig.gpu.set_faults(plan);
    rig.execute(0, Commands(), 1);
    rig.watch([&] { return rig.node32(0, SGPU_NODE_CURRENT_FENCE) == 1; });
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 20);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 21);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_REQUEST), 20u);
    rig.reset(0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_REQUEST), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_PREEMPT_DONE), 0u);
  });
}

// However request and work interleave: a fence is either completed before the answer or never, and
// the registers of the answer agree with what was seen. Many seeds in simulation.
TEST(SoftGpuPreemption, EveryInterleavingIsConsistent) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto runtime = runtime::make_sim_runtime(seed);
    runtime->run_main([&] {
      Rig rig(*runtime);
      for (uint32_t fence = 1; fence <= 8; ++fence) {
        rig.execute(
            0, Commands().fence_write(kVram + fence * 8, 1).nop().fence_write(kVram + fence * 8, 2),
            fence);
      }
      runtime->sleep_for(static_cast<runtime::DurationNs>(runtime->random() % 12'000));
      rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 1000);
      rig.wait([&] { return rig.saw({Served::kPreempted, 0, 1000}); });
      const uint32_t completed = rig.node32(0, SGPU_NODE_PREEMPT_COMPLETED);
      const uint32_t stopped = rig.node32(0, SGPU_NODE_PREEMPT_FENCE);
      if (stopped != 0) {
        EXPECT_EQ(stopped, completed + 1);
      }
      for (uint32_t fence = 1; fence <= 8; ++fence) {
        const uint64_t done = rig.word(kVram + fence * 8);
        if (fence <= completed) {
          EXPECT_EQ(done, 2u);
        }
        if (fence > completed && fence != stopped) {
          EXPECT_EQ(done, 0u);
        }
        if (fence == stopped) {
          EXPECT_EQ(done != 0, rig.node32(0, SGPU_NODE_PREEMPT_OFFSET) != 0);
        }
      }
      EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), completed);
      EXPECT_TRUE(rig.run(1, Commands()));  // time passes, and nothing more completes on node 0
      EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), completed);
    });
  }
}

// --- reset

TEST_P(SoftGpuEngine, ResetStopsWorkAndLeavesTheOtherNodeAlone) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    EXPECT_TRUE(rig.run(0, Commands()));
    rig.execute(0, Commands().sem_wait(kVram, 1).fence_write(kVram + 8, 1), 30);
    rig.execute(0, Commands().fence_write(kVram + 8, 2), 31);
    rig.execute(1, Commands().sem_wait(kVram + 64, 1), 70);
    wait_for_semaphore(rig, 0);
    wait_for_semaphore(rig, 1);
    rig.reset(0);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_ABORTED_FENCE), 30u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_COMPLETED_FENCE), 1u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_HEAD), 0u);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_TAIL), 0u);
    rig.set_word(kVram, 1);
    rig.set_word(kVram + 64, 1);
    rig.set32(SGPU_REG_SEM_DOORBELL, 1);
    rig.wait([&] { return rig.saw({Served::kComplete, 1, 70}); });
    EXPECT_EQ(rig.word(kVram + 8), 0u);
    rig.start(0);
    EXPECT_TRUE(rig.run(0, Commands().fence_write(kVram + 8, 3)));
    EXPECT_EQ(rig.word(kVram + 8), 3u);
  });
}

TEST_P(SoftGpuEngine, ResetCutsALongCommandShort) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(0, Commands().delay(SGPU_DELAY_MAX_NS), 5);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 6);  // will not be answered
    const runtime::TimeNs start = runtime.now();
    rig.reset(0);
    EXPECT_LT(runtime.now() - start, 60 * runtime::kSecond);
    EXPECT_EQ(rig.node32(0, SGPU_NODE_STATUS), 0u);
    EXPECT_FALSE(rig.saw({Served::kComplete, 0, 5}));
  });
}

TEST_P(SoftGpuEngine, RegistersWrittenDuringAResetAreIgnored) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const uint32_t control = SGPU_NODE_REG(0, SGPU_NODE_CONTROL);
    rig.set32(control, SGPU_CONTROL_RESET | SGPU_CONTROL_ENABLE);
    while ((rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) != 0) {
    }
    EXPECT_EQ(rig.node32(0, SGPU_NODE_CONTROL), 0u);  // RESET wins over ENABLE
    rig.start(0);
    EXPECT_TRUE(rig.run(0, Commands()));
  });
}

// The device goes away in the middle of everything: threads end, nothing is touched afterwards.
TEST_P(SoftGpuEngine, DestructionAbandonsWork) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.execute(0, Commands().sem_wait(kVram, 1), 1);
    rig.execute(1, Commands().delay(SGPU_DELAY_MAX_NS), 2);
    wait_for_semaphore(rig, 0);
  });
}

// --- faults of the ring

TEST_P(SoftGpuEngine, BadRingsFault) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const uint64_t good = rig.node64(0, SGPU_NODE_RING_BASE);
    struct Case {
      const char* what;
      uint64_t base;
      uint32_t size;
      uint32_t tail;
    };
    const Case cases[] = {
        {"base outside memory", 0x1000, 64, 1},
        {"base misaligned", good + 8, 32, 1},
        {"base in the aperture", SGPU_APERTURE_BASE, 64, 1},
        {"ring runs out of VRAM", SGPU_VRAM_BASE + (8 << 20) - 64, 2, 1},
        {"size zero", good, 0, 1},
        {"size one", good, 1, 1},
        {"size no power of two", good, 48, 1},
        {"size too large", good, 131072, 1},
        {"tail outside the ring", good, 64, 64},
        {"tail far outside", good, 64, 0xFFFF'FFFF},
    };
    size_t faults = 0;
    for (const Case& each : cases) {
      SCOPED_TRACE(each.what);
      rig.reset(0);
      rig.set64(SGPU_NODE_REG(0, SGPU_NODE_RING_BASE), each.base);
      rig.set32(SGPU_NODE_REG(0, SGPU_NODE_RING_SIZE), each.size);
      rig.set32(SGPU_NODE_REG(0, SGPU_NODE_CONTROL), SGPU_CONTROL_ENABLE);
      rig.set32(SGPU_NODE_REG(0, SGPU_NODE_RING_TAIL), each.tail);
      ++faults;
      rig.wait([&] { return rig.served().size() == faults; });
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_RING);
      EXPECT_NE(rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_FAULTED, 0u);
    }
    rig.reset(0);
    rig.start(0);
    EXPECT_TRUE(rig.run(0, Commands()));
  });
}

TEST_P(SoftGpuEngine, PreemptionWithABadTailStillFaults) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_CONTROL), 0);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_RING_TAIL), 0x8000'0000);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_PREEMPT_REQUEST), 3);
    rig.wait([&] { return rig.saw({Served::kPreempted, 0, 3}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_RING_HEAD), 0u);
    rig.set32(SGPU_NODE_REG(0, SGPU_NODE_CONTROL), SGPU_CONTROL_ENABLE);
    rig.wait([&] { return rig.saw({Served::kFault, 0, 0}); });
    EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_RING);
  });
}

TEST_P(SoftGpuEngine, BadEntriesFaultAndStopTheEngine) {
  in_runtime([](runtime::Runtime& runtime) {
    Rig rig(runtime);
    const Commands commands = Commands().fence_write(kVram, 1);
    const auto broken = [&](const std::function<void(SgpuRingEntry&)>& change) {
      SgpuRingEntry entry = rig.entry_for(commands, 55);
      change(entry);
      rig.submit(0, entry);
      rig.execute(0, Commands().fence_write(kVram, 2), 56);
      rig.wait([&] { return (rig.node32(0, SGPU_NODE_STATUS) & SGPU_STATUS_FAULTED) != 0; });
      const uint32_t reason = rig.node32(0, SGPU_NODE_FAULT_REASON);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_FENCE), 55u);
      rig.reset(0);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_ABORTED_FENCE), 55u);
      EXPECT_EQ(rig.node32(0, SGPU_NODE_FAULT_REASON), SGPU_FAULT_NONE);
      rig.start(0);
      EXPECT_EQ(rig.word(kVram), 0u);
      return reason;
    };
    EXPECT_EQ(broken([](auto& e) { e.type = 3; }), SGPU_FAULT_RING);
    EXPECT_EQ(broken([](auto& e) { e.flags = 32; }), SGPU_FAULT_RING);
    EXPECT_EQ(broken([](auto& e) { e.root_entries = 1; }), SGPU_FAULT_RING);
    EXPECT_EQ(broken([](auto& e) { e.reserved[2] = 1; }), SGPU_FAULT_RING);
    EXPECT_EQ(broken([](auto& e) { e.length = 33; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.length = SGPU_DMA_BYTES_MAX + 8; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.start_offset = 4; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.start_offset = 40; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.address += 4; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.address = 0; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.address = ~uint64_t{7}; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(broken([](auto& e) { e.address = SGPU_APERTURE_BASE; }), SGPU_FAULT_BUFFER);
    EXPECT_EQ(rig.fault_of(0, commands), SGPU_FAULT_NONE);
  });
}

INSTANTIATE_TEST_SUITE_P(Runtimes, SoftGpuEngine, ::testing::Values(Mode::kOs, Mode::kSim),
                         testing::mode_name);

}  // namespace
}  // namespace dxgkit::softgpu
