// Interrupts over a table filled by hand; with a driver behind it: ../interrupts_test.cpp.
#include "port/core/interrupts.h"

#include <gtest/gtest.h>

#include <vector>

#include "port/core/core_world_test.h"

namespace dxgkit::port {
namespace {

CoreWorld* g_world = nullptr;
bool g_in_isr = false;
/// What the ISR reports.
std::vector<DXGKARGCB_NOTIFY_INTERRUPT_DATA> g_causes;

DXGKARGCB_NOTIFY_INTERRUPT_DATA completed(uint32_t node, uint32_t fence) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.NodeOrdinal = node;
  data.DmaCompleted.SubmissionFenceId = fence;
  return data;
}

BOOLEAN NTAPI isr(void*, ULONG) {
  Interrupts& interrupts = g_world->core().interrupts;
  g_in_isr = interrupts.in_isr();
  for (const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data : g_causes) interrupts.notify_interrupt(data);
  interrupts.queue_dpc();
  return TRUE;
}
void NTAPI dpc(void*) { g_world->core().interrupts.notify_dpc(); }

void in_world(const std::function<void(CoreWorld&)>& body) {
  with_core([&](CoreWorld& world) {
    g_world = &world;
    g_in_isr = false;
    g_causes = {completed(1, 7)};
    CoreWorld::set(world.table.table.DxgkDdiInterruptRoutine, &isr);
    CoreWorld::set(world.table.table.DxgkDdiDpcRoutine, &dpc);
    body(world);
    g_world = nullptr;
  });
}

std::vector<uint32_t> fences(CoreWorld& world) {
  std::vector<uint32_t> all;
  for (const InterruptReport& report : world.host.seen()) all.push_back(report.fence);
  return all;
}

/// Line, ISR, DPC, host: while it is connected.
TEST(InterruptsCore, ReachTheHostWhileConnected) {
  in_world([](CoreWorld& world) {
    bus::InterruptLine& line = world.function.interrupt_line();
    Interrupts& interrupts = world.core().interrupts;
    EXPECT_FALSE(interrupts.connected());
    interrupts.connect();
    EXPECT_TRUE(interrupts.connected());
    line.raise();
    EXPECT_TRUE(g_in_isr);
    EXPECT_FALSE(interrupts.in_isr());
    EXPECT_EQ(fences(world), std::vector<uint32_t>{7});
    interrupts.disconnect();
    line.raise();
    EXPECT_EQ(fences(world), std::vector<uint32_t>{7});
    EXPECT_EQ(world.rules(), "");
  });
}

/// Reports of a masked node come when it is unmasked, in their order, or never (TDR-09, INT-21).
TEST(InterruptsCore, AreKeptBackFromMaskedNodes) {
  for (const bool tell : {true, false}) {
    in_world([tell](CoreWorld& world) {
      Interrupts& interrupts = world.core().interrupts;
      interrupts.connect();
      interrupts.mask(1U << 1);
      world.function.interrupt_line().raise();
      EXPECT_TRUE(fences(world).empty());
      {
        // The host of these tests asks at which level it is called.
        nt::CallFrame frame(world.kernel, "unmask", nt::kPassiveLevel);
        interrupts.unmask(1U << 1, tell);
      }
      EXPECT_EQ(fences(world), tell ? std::vector<uint32_t>{7} : std::vector<uint32_t>{});
      interrupts.disconnect();
    });
  }
}

/// What no engine's work has to say is told at once, whichever nodes are masked.
TEST(InterruptsCore, KeepNothingBackButDmaReports) {
  in_world([](CoreWorld& world) {
    Interrupts& interrupts = world.core().interrupts;
    interrupts.connect();
    interrupts.mask(~uint64_t{0});
    g_causes.assign(3, {});
    g_causes[0].InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
    g_causes[0].MonitoredFenceSignaled.NodeOrdinal = 1;
    g_causes[1].InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    g_causes[2].InterruptType = DXGK_INTERRUPT_DISPLAYONLY_VSYNC;
    world.function.interrupt_line().raise();
    std::vector<InterruptReport::Type> types;
    for (const InterruptReport& report : world.host.seen()) types.push_back(report.type);
    EXPECT_EQ(types, (std::vector{InterruptReport::Type::kMonitoredFenceSignaled,
                                  InterruptReport::Type::kCrtcVsync,
                                  InterruptReport::Type::kDisplayOnlyVsync}));
    nt::CallFrame frame(world.kernel, "unmask", nt::kPassiveLevel);
    interrupts.unmask(~uint64_t{0}, true);
    EXPECT_EQ(world.host.seen().size(), 3U);
    interrupts.disconnect();
  });
}

/// A report of a node in reset says so (INT-21).
TEST(InterruptsCore, SayThatTheEngineIsInReset) {
  in_world([](CoreWorld& world) {
    Interrupts& interrupts = world.core().interrupts;
    interrupts.connect();
    interrupts.enter_engine_reset(NodeOrdinal{1});
    world.function.interrupt_line().raise();
    interrupts.leave_engine_reset(NodeOrdinal{1});
    world.function.interrupt_line().raise();
    const std::vector<InterruptReport> seen = world.host.seen();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen[0].in_engine_reset);
    EXPECT_FALSE(seen[1].in_engine_reset);
    interrupts.disconnect();
  });
}

}  // namespace
}  // namespace dxgkit::port
