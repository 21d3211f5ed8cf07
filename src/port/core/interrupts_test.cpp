// Interrupts over a table filled by hand; with a driver behind it: ../interrupts_test.cpp.
#include "port/core/interrupts.h"

#include <gtest/gtest.h>

#include <vector>

#include "port/core/core_world_test.h"
#include "trace/trace.h"

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

/// What is raised under the lock waits for its end. Nobody serves it if there is no routine any
/// more.
TEST(InterruptsCore, ServeWhatWasRaisedUnderTheLockWhileConnected) {
  for (const bool disconnects : {false, true}) {
    in_world([disconnects](CoreWorld& world) {
      Interrupts& interrupts = world.core().interrupts;
      interrupts.connect();
      struct Inside {
        CoreWorld& world;
        bool disconnects;
      } inside{world, disconnects};
      nt::CallFrame frame(world.kernel, "caller", nt::kPassiveLevel);
      BOOLEAN answer = FALSE;
      EXPECT_EQ(interrupts.synchronize(
                    +[](void* opaque) NTAPI -> BOOLEAN {
                      auto& me = *static_cast<Inside*>(opaque);
                      me.world.function.interrupt_line().raise();
                      EXPECT_FALSE(g_in_isr);
                      if (me.disconnects) me.world.core().interrupts.disconnect();
                      return TRUE;
                    },
                    &inside, 0, &answer),
                Status::kSuccess);
      EXPECT_EQ(answer, TRUE);
      EXPECT_EQ(g_in_isr, !disconnects);
      interrupts.disconnect();
    });
  }
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

/// A report is in the trace with its type, its fence and its node, if it has one that a trace can
/// name. The calls of the ISR and of the DPC are there with their levels.
TEST(InterruptsCore, AreInTheTraceWithTheirNode) {
  trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
  trace::set_current(&recorder);
  in_world([](CoreWorld& world) {
    world.core().interrupts.connect();
    g_causes = {completed(3, 70), completed(0xFFFE, 71), completed(0xFFFF, 72),
                completed(0x1'0001, 73)};
    g_causes.emplace_back();
    g_causes.back().InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    g_causes.back().CrtcVsync.VidPnTargetId = 4;
    world.function.interrupt_line().raise();
    world.core().interrupts.disconnect();
  });
  trace::set_current(nullptr);
  struct Noted {
    uint64_t type, fence;
    uint16_t node;
    bool operator==(const Noted&) const = default;
  };
  std::vector<Noted> reports;
  std::vector<std::string> calls;
  const std::vector<std::string> names = recorder.names();
  for (const trace::Event& event : recorder.events()) {
    const auto kind = static_cast<trace::EventKind>(event.kind);
    if (kind == trace::EventKind::kInterrupt) reports.push_back({event.a, event.c, event.node});
    if (kind == trace::EventKind::kDdiEnter)
      calls.push_back("> " + names.at(event.a) + " " + std::to_string(event.b));
    if (kind == trace::EventKind::kDdiExit) {
      calls.push_back("< " + names.at(event.a) + " " + std::to_string(event.b) + " " +
                      std::to_string(event.c));
    }
  }
  const std::vector<Noted> expected = {{DXGK_INTERRUPT_DMA_COMPLETED, 70, 3},
                                       {DXGK_INTERRUPT_DMA_COMPLETED, 71, 0xFFFE},
                                       {DXGK_INTERRUPT_DMA_COMPLETED, 72, trace::kNoNode},
                                       {DXGK_INTERRUPT_DMA_COMPLETED, 73, trace::kNoNode},
                                       {DXGK_INTERRUPT_CRTC_VSYNC, 0, trace::kNoNode}};
  EXPECT_EQ(reports, expected);
  const std::string device = std::to_string(nt::kDeviceLevel);
  const std::string dispatch = std::to_string(nt::kDispatchLevel);
  EXPECT_EQ(calls,
            (std::vector<std::string>{
                "> DxgkDdiInterruptRoutine " + device, "< DxgkDdiInterruptRoutine 1 " + device,
                "> DxgkDdiDpcRoutine " + dispatch, "< DxgkDdiDpcRoutine 0 " + dispatch}));
}

/// An injector hears of each DPC, whatever it answers, and may have completions told twice.
TEST(InterruptsCore, AnInjectorHearsOfDpcsAndRepeatsCompletions) {
  struct Injector : FaultInjector {
    std::optional<Status> before_ddi(std::string_view ddi) override {
      heard.emplace_back(ddi);
      return Status::kNoMemory;
    }
    std::optional<Status> before_paging(const PagingOperation&, uint32_t) override {
      return std::nullopt;
    }
    uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
    void shape(SegmentsInfo*) override {}
    bool repeats_report() override { return repeats; }
    std::vector<std::string> heard;
    bool repeats = false;
  };
  in_world([](CoreWorld& world) {
    Injector injector;
    world.core().faults = &injector;
    world.core().interrupts.connect();
    world.function.interrupt_line().raise();
    EXPECT_EQ(fences(world), std::vector<uint32_t>{7});
    injector.repeats = true;
    g_causes = {completed(1, 8)};
    g_causes.emplace_back();
    g_causes.back().InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
    g_causes.back().DmaPreempted.PreemptionFenceId = 9;
    world.function.interrupt_line().raise();
    EXPECT_EQ(fences(world), (std::vector<uint32_t>{7, 8, 8, 9}));
    EXPECT_EQ(injector.heard, std::vector<std::string>(2, "DxgkDdiDpcRoutine"));
    world.core().interrupts.disconnect();
    world.core().faults = nullptr;
  });
}

/// A driver without an ISR has no interrupts of its own or of others; one without a DPC has no
/// reports.
TEST(InterruptsCore, NeedTheEntriesOfTheDriver) {
  in_world([](CoreWorld& world) {
    Interrupts& interrupts = world.core().interrupts;
    interrupts.raised_by_another();
    EXPECT_FALSE(g_in_isr) << "not connected";
    interrupts.connect();
    CoreWorld::set(world.table.table.DxgkDdiDpcRoutine, static_cast<void (*)(void*)>(nullptr));
    EXPECT_TRUE(world.function.interrupt_line().raise());
    EXPECT_TRUE(fences(world).empty());
    CoreWorld::set(world.table.table.DxgkDdiDpcRoutine, &dpc);
    EXPECT_TRUE(world.function.interrupt_line().raise());
    EXPECT_EQ(fences(world), (std::vector<uint32_t>{7, 7}));
    g_in_isr = false;
    CoreWorld::set(world.table.table.DxgkDdiInterruptRoutine,
                   static_cast<BOOLEAN (*)(void*, ULONG)>(nullptr));
    EXPECT_FALSE(world.function.interrupt_line().raise());
    interrupts.raised_by_another();
    EXPECT_FALSE(g_in_isr);
    EXPECT_EQ(world.rules(), "");
    interrupts.disconnect();
  });
}

}  // namespace
}  // namespace dxgkit::port
