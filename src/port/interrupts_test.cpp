// From the line to the host: ISR, reports, DPC, synchronised routines.
#include <algorithm>
#include <atomic>

#include "port/ddi/hw_scheduling.h"
#include "port/port_world_test.h"
#include "runtime/sync.h"

namespace dxgkit::port {
namespace {

using testing::ScriptedMiniport;

/// Current IRQL, as a driver asks it.
nt::Irql current_irql() {
  const auto ask = reinterpret_cast<nt::Irql(NTAPI*)()>(
      const_cast<void*>(nt::find_export("KeGetCurrentIrql")->address));
  return ask();
}

/// NotifyInterrupt only records, in the ISR at DIRQL; the host hears of it in the DPC, at
/// DISPATCH_LEVEL, in order.
TEST(Interrupts, ReportsReachTheHostInTheDpc) {
  DXGKIT_COVERS("INT-01", "INT-04", "INT-06");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [&](ULONG message) {
      EXPECT_EQ(current_irql(), nt::kDeviceLevel);
      const BOOLEAN claimed = world.miniport.default_interrupt(message);
      EXPECT_TRUE(world.host.seen().empty());
      return claimed;
    };
    world.miniport.hooks.dpc = [&] {
      EXPECT_EQ(current_irql(), nt::kDispatchLevel);
      EXPECT_TRUE(world.host.seen().empty());
      world.miniport.default_dpc();
    };
    world.miniport.queue_interrupt(ScriptedMiniport::completed_data(0, 5));
    world.miniport.queue_interrupt(ScriptedMiniport::preempted_data(1, 9, 8));
    EXPECT_TRUE(world.miniport.raise(
        ScriptedMiniport::faulted_data(0, 6, to_ntstatus(Status::kUnsuccessful))));
    const auto seen = world.host.seen();
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0].type, InterruptReport::Type::kDmaCompleted);
    EXPECT_EQ(seen[1].type, InterruptReport::Type::kDmaPreempted);
    EXPECT_EQ(seen[1].fence, 9u);
    EXPECT_EQ(seen[1].last_completed, 8u);
    EXPECT_EQ(seen[2].type, InterruptReport::Type::kDmaFaulted);
    EXPECT_EQ(seen[2].status, to_ntstatus(Status::kUnsuccessful));
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// A report about an engine between its reset and its resumption is marked so. No other engine is
/// meant, nor one whose number has no bit.
TEST(Interrupts, SayWhetherTheirEngineIsInReset) {
  DXGKIT_COVERS("INT-21");
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_4;
    world.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiResetHwEngine = [](const HANDLE, DXGKARG_RESETHWENGINE*)
                                       NTAPI -> NTSTATUS { return 0; };
      table.DxgkDdiResumeHwEngine = [](const HANDLE, DXGKARG_RESUMEHWENGINE*)
                                        NTAPI -> NTSTATUS { return 0; };
    };
    world.start();
    HwSchedulingPort& scheduling = world.adapter->hw_scheduling();
    const auto in_reset = [&](uint32_t node) {
      EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(node, 1)));
      return world.host.seen().back().in_engine_reset;
    };
    for (const uint32_t node : {0U, 5U, 63U})
      EXPECT_EQ(scheduling.reset_engine(NodeOrdinal{node}), Status::kSuccess);
    for (const uint32_t node : {0U, 5U, 63U}) EXPECT_TRUE(in_reset(node)) << node;
    for (const uint32_t node : {1U, 62U, 64U, 69U}) EXPECT_FALSE(in_reset(node)) << node;
    EXPECT_EQ(scheduling.resume_engine(NodeOrdinal{5}), Status::kSuccess);
    EXPECT_FALSE(in_reset(5));
    EXPECT_TRUE(in_reset(0));
    EXPECT_TRUE(in_reset(63));
    // Of the other kinds of reports none names an engine.
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::vsync_data(0, 0x1000)));
    EXPECT_FALSE(world.host.seen().back().in_engine_reset);
    world.stop();
  });
}

/// A call from the ISR that names no adapter is of the ISR's adapter, though it is made too high.
TEST(Interrupts, BelongToTheirAdapter) {
  DXGKIT_COVERS("INT-07", "IRQL-12");
  in_both_modes([] {
    PortWorld world;
    ASSERT_EQ(world.load(), Status::kSuccess);
    // The driver's second adapter; the first one, which is not started, answers nothing.
    RecordingHost host;
    AdapterPort second(*world.driver, world.kernel, world.machine, world.miniport.function(), host,
                       world.findings);
    ASSERT_EQ(second.life().add_device(), Status::kSuccess);
    ASSERT_TRUE(second.life().start_device().has_value());
    ASSERT_TRUE(second.caps().query_driver_caps().has_value());
    void* in_isr = nullptr;
    void* in_dpc = nullptr;
    void* in_routine = nullptr;
    const auto ask = [&] {
      DXGKARGCB_GETHANDLEDATA args{};
      args.hObject = 0x40;
      args.Type = DXGK_HANDLE_ALLOCATION;
      return world.miniport.callbacks().DxgkCbGetHandleData(&args);
    };
    world.miniport.hooks.interrupt = [&](ULONG message) {
      in_isr = ask();
      return world.miniport.default_interrupt(message);
    };
    world.miniport.hooks.dpc = [&] {
      in_dpc = ask();
      world.miniport.default_dpc();
    };
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(0, 1)));
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      using Ask = std::pair<decltype(&ask), void**>;
      Ask both{&ask, &in_routine};
      constexpr auto routine = +[](void* opaque) NTAPI -> BOOLEAN {
        const auto& mine = *static_cast<Ask*>(opaque);
        *mine.second = (*mine.first)();
        return TRUE;
      };
      BOOLEAN result = FALSE;
      return callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine, &both, 0,
                                                  &result);
    };
    EXPECT_EQ(second.objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    void* const expected = reinterpret_cast<void*>(uintptr_t{0x40});
    EXPECT_EQ(in_isr, expected);
    EXPECT_EQ(in_dpc, expected);
    EXPECT_EQ(in_routine, expected);
    EXPECT_EQ(world.findings.count("IRQL-12"), 3u) << world.findings_text();
    EXPECT_EQ(world.findings.count("LIFE-08"), 0u) << world.findings_text();
    // The same where no DDI is under way, so that nothing but the routine itself says whose it is.
    in_routine = nullptr;
    {
      const nt::CallFrame thread(world.kernel, "host", nt::kPassiveLevel);
      EXPECT_EQ(world.miniport.hooks.escape(nullptr), STATUS_SUCCESS);
    }
    EXPECT_EQ(in_routine, expected);
    EXPECT_EQ(world.findings.count("LIFE-08"), 0u) << world.findings_text();
    EXPECT_EQ(second.life().stop_device(), Status::kSuccess);
    EXPECT_EQ(second.life().remove_device(), Status::kSuccess);
  });
}

/// A callback that names no adapter, and is called on behalf of none, is for the driver's oldest
/// remaining adapter.
TEST(Interrupts, NobodysCallIsOfTheOldestAdapter) {
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    ASSERT_EQ(world.load(), Status::kSuccess);
    const auto started = [&](AdapterPort& adapter) {
      ASSERT_EQ(adapter.life().add_device(), Status::kSuccess);
      ASSERT_TRUE(adapter.life().start_device().has_value());
    };
    const auto stopped = [&](AdapterPort& adapter) {
      EXPECT_EQ(adapter.life().stop_device(), Status::kSuccess);
      EXPECT_EQ(adapter.life().remove_device(), Status::kSuccess);
    };
    struct Host : RecordingHost {
      explicit Host(uint32_t number) : number_(number) {}
      uint32_t get_handle_parent(uint32_t) override { return number_; }
      uint32_t number_;
    };
    Host hosts[] = {Host{2}, Host{3}, Host{4}};
    std::vector<std::unique_ptr<AdapterPort>> adapters;
    for (Host& host : hosts) {
      adapters.push_back(std::make_unique<AdapterPort>(*world.driver, world.kernel, world.machine,
                                                       world.miniport.function(), host,
                                                       world.findings));
    }
    const auto ask = [&] {
      const nt::CallFrame thread(world.kernel, "host", nt::kPassiveLevel);
      return world.miniport.callbacks().DxgkCbGetHandleParent(0x40);
    };
    started(*world.adapter);
    EXPECT_EQ(ask(), 0x41U);
    stopped(*world.adapter);
    world.adapter.reset();
    for (const auto& adapter : adapters) started(*adapter);
    EXPECT_EQ(ask(), 2U);
    stopped(*adapters[1]);  // another one that goes changes nothing
    adapters.erase(adapters.begin() + 1);
    EXPECT_EQ(ask(), 2U);
    stopped(*adapters[0]);
    adapters.erase(adapters.begin());
    EXPECT_EQ(ask(), 4U);
    stopped(*adapters[0]);
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// Once the driver has given up the screen and its device it has no interrupts, as after
/// StopDevice.
TEST(Interrupts, EndWithTheReleaseOfTheDisplay) {
  DXGKIT_COVERS("LIFE-19");
  runtime::make_sim_runtime(1)->run_main([] {
    PortWorld world;
    world.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiStopDeviceAndReleasePostDisplayOwnership =
          [](PVOID, D3DDDI_VIDEO_PRESENT_TARGET_ID target, DXGK_DISPLAY_INFORMATION* out) NTAPI {
            out->Width = 1;
            out->Height = 2;
            out->Pitch = 3;
            out->ColorFormat = static_cast<D3DDDIFORMAT>(4);
            out->PhysicAddress.QuadPart = 5;
            out->TargetId = target;
            out->AcpiId = 7;
            return STATUS_SUCCESS;
          };
    };
    world.start();
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(0, 1)));
    const uint64_t interrupts = world.miniport.calls().interrupts;
    DisplayInformation left;
    ASSERT_EQ(world.adapter->life().stop_device_and_release(6, &left), Status::kSuccess);
    EXPECT_EQ(left.width, 1U);
    EXPECT_EQ(left.height, 2U);
    EXPECT_EQ(left.pitch_bytes, 3U);
    EXPECT_EQ(left.format, 4U);
    EXPECT_EQ(left.address, 5U);
    EXPECT_EQ(left.target_id, 6U);
    EXPECT_EQ(left.acpi_id, 7U);
    EXPECT_FALSE(world.miniport.raise_line());
    EXPECT_EQ(world.miniport.calls().interrupts, interrupts);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// A report made outside the interrupt lock is a finding, whatever thread makes it.
TEST(Interrupts, RefuseReportsOutsideTheInterruptLock) {
  DXGKIT_COVERS("INT-01");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      auto data = ScriptedMiniport::completed_data(0, 5);
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      callbacks.DxgkCbNotifyInterrupt(callbacks.DeviceHandle, &data);
      return NTSTATUS{0};
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_EQ(world.findings.count("INT-01"), 1u);
    world.stop();
  });
}

/// The same report inside DxgkCbSynchronizeExecution is legal from any thread; the DPC it queues
/// runs when the level drops.
TEST(Interrupts, TakeReportsFromSynchronisedRoutines) {
  DXGKIT_COVERS("INT-01", "IRQL-10");
  in_both_modes([] {
    PortWorld world;
    world.start();
    struct Context {
      PortWorld* world;
      nt::Irql irql;
      bool dpc_ran_inside;
    } context{&world, 0, false};
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      constexpr auto routine = +[](void* opaque) NTAPI -> BOOLEAN {
        auto& mine = *static_cast<Context*>(opaque);
        mine.irql = current_irql();
        const DXGKRNL_INTERFACE& inside = mine.world->miniport.callbacks();
        auto data = ScriptedMiniport::completed_data(0, 5);
        inside.DxgkCbNotifyInterrupt(inside.DeviceHandle, &data);
        inside.DxgkCbQueueDpc(inside.DeviceHandle);
        mine.dpc_ran_inside = !mine.world->host.seen().empty();
        return TRUE;
      };
      BOOLEAN result = FALSE;
      const NTSTATUS status = callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine,
                                                                   &context, 0, &result);
      EXPECT_EQ(result, TRUE);
      EXPECT_EQ(world.host.seen().size(), 1u);
      return status;
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_EQ(context.irql, nt::kDeviceLevel);
    EXPECT_FALSE(context.dpc_ran_inside);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// A synchronised routine returns at the level it was called at; its caller goes on at its own.
TEST(Interrupts, WatchTheLevelOfSynchronisedRoutines) {
  DXGKIT_COVERS("IRQL-01", "IRQL-10");
  in_both_modes([] {
    PortWorld world;
    world.start();
    nt::Irql after = 77;
    BOOLEAN result = FALSE;
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      constexpr auto routine = +[](void*) NTAPI -> BOOLEAN {
        reinterpret_cast<void(NTAPI*)(nt::Irql)>(
            const_cast<void*>(nt::find_export("KeLowerIrql")->address))(nt::kDispatchLevel);
        return TRUE;
      };
      const NTSTATUS status = callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine,
                                                                   nullptr, 0, &result);
      after = current_irql();
      return status;
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_EQ(result, TRUE);
    EXPECT_EQ(after, nt::kPassiveLevel);
    EXPECT_EQ(world.findings.count("IRQL-01"), 1u) << world.findings_text();
    world.miniport.hooks = {};
    world.stop();
  });
}

/// Messages other than the one reported in the caps are a finding.
TEST(Interrupts, WatchTheMessageNumber) {
  DXGKIT_COVERS("INT-02");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      constexpr auto routine = +[](void*) NTAPI -> BOOLEAN { return FALSE; };
      BOOLEAN result = TRUE;
      EXPECT_EQ(callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine, nullptr, 0,
                                                     &result),
                0);
      EXPECT_EQ(world.findings.count("INT-02"), 0u);
      EXPECT_EQ(callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine, nullptr, 3,
                                                     &result),
                0);
      return NTSTATUS{0};
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_EQ(world.findings.count("INT-02"), 1u);
    world.stop();
  });
}

/// A report without a DPC is a finding and stays unseen until the next DPC, which brings both.
TEST(Interrupts, MissADpcThatIsNotQueued) {
  DXGKIT_COVERS("INT-03");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      auto data = ScriptedMiniport::completed_data(0, 1);
      world.miniport.callbacks().DxgkCbNotifyInterrupt(world.miniport.callbacks().DeviceHandle,
                                                       &data);
      return TRUE;
    };
    EXPECT_TRUE(world.miniport.raise_line());
    EXPECT_EQ(world.findings.count("INT-03"), 1u);
    EXPECT_TRUE(world.host.seen().empty());
    world.miniport.hooks.interrupt = nullptr;
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(0, 2)));
    EXPECT_EQ(world.host.seen().size(), 2u);
    EXPECT_EQ(world.findings.count("INT-03"), 1u);
    world.stop();
  });
}

/// After a reset nobody waits for a fence of before; the kernel would take it for a wrong one.
TEST(Interrupts, LoseWhatNoDpcBroughtBeforeAReset) {
  DXGKIT_COVERS("INT-21");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      for (const uint32_t node : {0U, 1U, 63U}) {
        auto data = ScriptedMiniport::completed_data(node, 5);
        world.miniport.callbacks().DxgkCbNotifyInterrupt(world.miniport.callbacks().DeviceHandle,
                                                         &data);
      }
      return TRUE;
    };
    EXPECT_TRUE(world.miniport.raise_line());
    world.miniport.hooks.interrupt = nullptr;
    for (const bool tell : {true, false}) {
      constexpr uint64_t kReset = uint64_t{1} << 63 | 0b10;
      world.adapter->timeouts().mask_engines(kReset);
      world.adapter->timeouts().unmask_engines(kReset, tell);
      EXPECT_TRUE(world.host.seen().empty());
    }
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(1, 6)));
    const auto seen = world.host.seen();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].node, 0u) << "of another engine";
    EXPECT_EQ(seen[0].fence, 5u);
    EXPECT_EQ(seen[1].node, 1u);
    EXPECT_EQ(seen[1].fence, 6u);
    EXPECT_EQ(world.findings.count("INT-03"), 1u);
    world.stop();
  });
}

/// The second QueueDpc before the DPC runs answers FALSE, and nothing is lost; queued again from
/// the DPC it runs once more.
TEST(Interrupts, KeepOneDpcPending) {
  DXGKIT_COVERS("INT-05");
  in_both_modes([] {
    PortWorld world;
    world.start();
    std::vector<int> answers;
    const auto queue = [&] {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      answers.push_back(callbacks.DxgkCbQueueDpc(callbacks.DeviceHandle));
    };
    int dpcs = 0;
    world.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      for (uint32_t fence = 1; fence <= 2; ++fence) {
        auto data = ScriptedMiniport::completed_data(0, fence);
        callbacks.DxgkCbNotifyInterrupt(callbacks.DeviceHandle, &data);
        queue();
      }
      return TRUE;
    };
    world.miniport.hooks.dpc = [&] {
      world.miniport.default_dpc();
      if (++dpcs == 1) queue();
    };
    EXPECT_TRUE(world.miniport.raise_line());
    EXPECT_EQ(answers, (std::vector<int>{TRUE, FALSE, TRUE}));
    EXPECT_EQ(dpcs, 2);
    EXPECT_EQ(world.host.seen().size(), 2u);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// Two threads that both queue the DPC while it runs: it never runs twice at once, and runs again
/// afterwards.
TEST(Interrupts, NeverRunTheDpcTwiceAtOnce) {
  DXGKIT_COVERS("INT-06");
  in_both_modes([] {
    PortWorld world;
    world.start();
    std::atomic<int> inside{0}, worst{0};
    world.miniport.hooks.dpc = [&] {
      worst = std::max(worst.load(), ++inside);
      runtime::Runtime::current().yield();
      world.miniport.default_dpc();
      --inside;
    };
    constexpr int kRounds = 200;
    const auto work = [&world] {
      nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      for (int i = 0; i < kRounds; ++i) {
        callbacks.DxgkCbQueueDpc(callbacks.DeviceHandle);
        runtime::Runtime::current().yield();
      }
    };
    auto a = runtime::Runtime::current().spawn("a", work);
    auto b = runtime::Runtime::current().spawn("b", work);
    for (int i = 1; i <= kRounds; ++i)
      world.miniport.raise(ScriptedMiniport::completed_data(0, static_cast<uint32_t>(i)));
    a->join();
    b->join();
    EXPECT_EQ(worst.load(), 1);
    EXPECT_EQ(world.host.seen().size(), static_cast<size_t>(kRounds));
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// The ISR calls nothing but NotifyInterrupt and QueueDpc.
TEST(Interrupts, KnowWhatAnIsrMayCall) {
  DXGKIT_COVERS("INT-07");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [&](ULONG message) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      uint32_t id = 0;
      ULONG bytes = 0;
      callbacks.DxgkCbReadDeviceSpace(callbacks.DeviceHandle, DXGK_WHICHSPACE_CONFIG, &id, 0, 4,
                                      &bytes);
      return world.miniport.default_interrupt(message);
    };
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(0, 1)));
    EXPECT_EQ(world.findings.count("INT-07"), 1u);
    EXPECT_EQ(world.findings.count("IRQL-12"), 1u);
    world.stop();
  });
}

/// An ISR that refuses its own device's interrupt over and over, or claims it without ever
/// dismissing it, is found out; a few spurious ones are not held against it.
TEST(Interrupts, FindStorms) {
  DXGKIT_COVERS("INT-08");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.interrupt = [](ULONG) -> BOOLEAN { return FALSE; };
    for (int i = 0; i < 99; ++i) EXPECT_FALSE(world.miniport.raise_line());
    EXPECT_EQ(world.findings.count("INT-08"), 0u);
    EXPECT_FALSE(world.miniport.raise_line());
    EXPECT_EQ(world.findings.count("INT-08"), 1u);
    world.miniport.hooks.interrupt = [](ULONG) -> BOOLEAN { return TRUE; };
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(world.miniport.raise_line());
    EXPECT_EQ(world.findings.count("INT-08"), 2u);
    world.stop();
  });
}

/// A device on the same line interrupts: an ISR leaves that to others, unless it has something to
/// report just then. Refusing it is right, however often.
TEST(Interrupts, LeaveTheInterruptsOfOthersToThem) {
  DXGKIT_COVERS("INT-08");
  in_both_modes([] {
    PortWorld world;
    world.start();
    int calls = 0;
    BOOLEAN answer = FALSE;
    world.miniport.hooks.interrupt = [&](ULONG) {
      ++calls;
      return answer;
    };
    for (int i = 0; i < 300; ++i) world.adapter->interrupt_of_another_device();
    EXPECT_EQ(calls, 300);
    EXPECT_EQ(world.findings.total(), 0u);
    answer = TRUE;
    world.adapter->interrupt_of_another_device();
    EXPECT_EQ(world.findings.count("INT-08"), 1u);
    EXPECT_EQ(world.findings.total(), 1u);
    world.miniport.hooks.interrupt = nullptr;
    world.miniport.queue_interrupt(ScriptedMiniport::completed_data(0, 1));
    world.adapter->interrupt_of_another_device();
    EXPECT_EQ(world.findings.total(), 1u) << "its own came at the same time";
    world.stop();
    world.adapter->interrupt_of_another_device();
    EXPECT_EQ(calls, 301) << "not connected any more";
  });
}

/// DMA types come before CRTC types.
TEST(Interrupts, WatchTheOrderOfCauses) {
  DXGKIT_COVERS("INT-09");
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.queue_interrupt(ScriptedMiniport::completed_data(0, 1));
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::vsync_data(0, 0x1000)));
    EXPECT_EQ(world.findings.count("INT-09"), 0u);
    world.miniport.queue_interrupt(ScriptedMiniport::vsync_data(0, 0x1000));
    EXPECT_TRUE(world.miniport.raise(ScriptedMiniport::completed_data(0, 2)));
    EXPECT_EQ(world.findings.count("INT-09"), 1u);
    world.stop();
  });
}

/// Two threads, one in a synchronised routine and one in the ISR, never overlap; after StopDevice
/// the callback refuses.
TEST(Interrupts, SynchronisedRoutinesExcludeTheIsr) {
  DXGKIT_COVERS("IRQL-10");
  in_both_modes([] {
    PortWorld world;
    world.start();
    std::atomic<int> inside{0}, worst{0};
    struct Context {
      std::atomic<int>*inside, *worst;
    } context{&inside, &worst};
    constexpr auto enter = +[](void* opaque) NTAPI -> BOOLEAN {
      auto& mine = *static_cast<Context*>(opaque);
      *mine.worst = std::max(mine.worst->load(), ++*mine.inside);
      runtime::Runtime::current().yield();
      --*mine.inside;
      return TRUE;
    };
    world.miniport.hooks.interrupt = [&](ULONG message) {
      enter(&context);
      return world.miniport.default_interrupt(message);
    };
    DXGKRNL_INTERFACE callbacks = world.miniport.callbacks();
    auto thread = runtime::Runtime::current().spawn("worker", [&] {
      nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
      BOOLEAN result = FALSE;
      for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, enter, &context, 0,
                                                       &result),
                  0);
      }
    });
    for (uint32_t i = 1; i <= 200; ++i)
      world.miniport.raise(ScriptedMiniport::completed_data(0, i));
    thread->join();
    EXPECT_EQ(worst.load(), 1);
    world.stop();
    nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
    EXPECT_EQ(
        callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, enter, &context, 0, nullptr),
        to_ntstatus(Status::kUnsuccessful));
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// A driver that touches its device while it holds the interrupt lock may raise the line on its own
/// thread: the interrupt waits, as on a processor at DIRQL.
TEST(Interrupts, WaitForTheHolderOfTheLock) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    struct Context {
      PortWorld* world;
      uint64_t interrupts_inside;
      bool claimed = false;
    } context{&world, 99};
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      constexpr auto routine = +[](void* opaque) NTAPI -> BOOLEAN {
        auto& mine = *static_cast<Context*>(opaque);
        mine.claimed = mine.world->miniport.raise(ScriptedMiniport::completed_data(0, 3));
        mine.interrupts_inside = mine.world->miniport.calls().interrupts;
        return TRUE;
      };
      BOOLEAN result = FALSE;
      return callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine, &context, 0,
                                                  &result);
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kSuccess);
    EXPECT_EQ(context.interrupts_inside, 0u);
    EXPECT_TRUE(context.claimed) << "nobody else is asked: it is the holder's";
    EXPECT_EQ(world.host.seen().size(), 1u);
    world.stop();
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// A bug check in a synchronised routine ends the driver's call around it, too, and nobody's
/// interrupt is served any more.
TEST(Interrupts, ABugCheckInASynchronisedRoutineEndsItsCaller) {
  in_both_modes([] {
    PortWorld world;
    world.start();
    world.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) -> NTSTATUS {
      const DXGKRNL_INTERFACE& callbacks = world.miniport.callbacks();
      constexpr auto routine = +[](void*) NTAPI -> BOOLEAN {
        reinterpret_cast<void(NTAPI*)(uint32_t)>(
            const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
        return TRUE;
      };
      BOOLEAN result = FALSE;
      callbacks.DxgkCbSynchronizeExecution(callbacks.DeviceHandle, routine, nullptr, 0, &result);
      ADD_FAILURE() << "the caller went on";
      return 0;
    };
    EXPECT_EQ(world.adapter->objects().escape(nullptr, nullptr, 0, {}), Status::kDeviceRemoved);
    ASSERT_EQ(world.host.fatal.size(), 1U);
    EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x116U);
    EXPECT_EQ(nt::CallFrame::current_or_null(), nullptr);
    const uint64_t interrupts = world.miniport.calls().interrupts;
    EXPECT_FALSE(world.miniport.raise_line());
    world.adapter->interrupt_of_another_device();
    EXPECT_EQ(world.miniport.calls().interrupts, interrupts);
  });
}

}  // namespace
}  // namespace dxgkit::port
