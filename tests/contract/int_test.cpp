// Interrupt and DPC notification.
#include <algorithm>
#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using IntTest = ContractTest;

/// A client whose two packets are on hardware, fences returned.
std::vector<uint32_t> two_on_hardware(Stack& stack, Client& client, ContextBuffers& context) {
  EXPECT_EQ(client.render(context, work_on({})), 0);
  EXPECT_EQ(client.render(context, work_on({})), 0);
  stack.settle();
  const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
  EXPECT_EQ(fences.size(), 2U);
  return fences;
}

TEST_F(IntTest, ACompletionCompletesEveryEarlierFenceOfItsNodeOnly) {
  DXGKIT_COVERS("INT-10");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context(0), other = client.make_context(1);
    ASSERT_EQ(client.render(other, work_on({})), 0);
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.complete(0, fences[1]);
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    EXPECT_EQ(stack.miniport.outstanding(1).size(), 1U);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 3U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// Reports that stop the adapter, each with its rule and bug check.
struct Fatal {
  const char* sentence;
  const char* rule;
  uint32_t parameter;
  void (*report)(Stack&, const std::vector<uint32_t>& fences);
};
class IntFatal : public ContractTest, public ::testing::WithParamInterface<Fatal> {};
TEST_P(IntFatal, StopsTheAdapter) {
  DXGKIT_COVERS(GetParam().rule, "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    GetParam().report(stack, fences);
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, GetParam().rule);
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, GetParam().parameter);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
  });
}
void raise_fault(Stack& stack, uint32_t fence, uint32_t flags, uint32_t node = 0) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof data);
  data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
  data.DmaPageFaulted.FaultedFenceId = fence;
  data.DmaPageFaulted.NodeOrdinal = node;
  data.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(flags);
  stack.miniport.raise(data);
}
const Fatal kFatals[] = {
    {"FenceThatWasNeverSubmitted", "INT-11", 1,
     [](auto& s, auto& f) { s.miniport.raise(ScriptedMiniport::completed_data(0, f[1] + 100)); }},
    {"FenceZero", "INT-11", 1,
     [](auto& s, auto&) { s.miniport.raise(ScriptedMiniport::completed_data(0, 0x80000000)); }},
    {"NodeThatDoesNotExist", "INT-12", 1,
     [](auto& s, auto& f) { s.miniport.raise(ScriptedMiniport::completed_data(2, f[0])); }},
    {"NodeAllOnes", "INT-12", 1,
     [](auto& s, auto& f) {
       s.miniport.raise(ScriptedMiniport::completed_data(UINT32_MAX, f[0]));
     }},
    {"EngineOtherThanZero", "INT-12", 1,
     [](auto& s, auto& f) {
       DXGKARGCB_NOTIFY_INTERRUPT_DATA data = ScriptedMiniport::completed_data(0, f[0]);
       data.DmaCompleted.EngineOrdinal = 1;
       s.miniport.raise(data);
     }},
    {"PreemptionOfAnotherEngine", "INT-12", 1,
     [](auto& s, auto& f) {
       DXGKARGCB_NOTIFY_INTERRUPT_DATA data = ScriptedMiniport::preempted_data(0, f[1] + 1, 0);
       data.DmaPreempted.EngineOrdinal = 1;
       s.miniport.raise(data);
     }},
    {"PreemptionNobodyAskedFor", "INT-14", 1,
     [](auto& s, auto& f) { s.miniport.raise(ScriptedMiniport::preempted_data(0, f[1] + 1, 0)); }},
    {"PageFaultWithoutFenceOrReset", "INT-17", 0xD,
     [](auto& s, auto&) { raise_fault(s, 0, DXGK_PAGE_FAULT_FENCE_INVALID); }},
    {"PageFaultWithInvalidFenceThatIsNotZero", "INT-17", 0xD,
     [](auto& s, auto& f) {
       raise_fault(s, f[0], DXGK_PAGE_FAULT_FENCE_INVALID | DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED);
     }},
    {"PageFaultOfANodeThatDoesNotExist", "INT-12", 1,
     [](auto& s, auto& f) { raise_fault(s, f[0], 0, 2); }},
    {"PageFaultWithResetOfANodeThatDoesNotExist", "INT-12", 1,
     [](auto& s, auto&) {
       raise_fault(s, 0, DXGK_PAGE_FAULT_FENCE_INVALID | DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED, 2);
     }},
    {"PageFaultWithAdapterResetOfANodeThatDoesNotExist", "INT-12", 1,
     [](auto& s, auto&) {
       raise_fault(s, 0, DXGK_PAGE_FAULT_FENCE_INVALID | DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED,
                   UINT32_MAX);
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, IntFatal, ::testing::ValuesIn(kFatals),
                         [](const auto& row) { return std::string(row.param.sentence); });

// What a driver reports when its adapter has failed is nobody's business any more.
TEST_F(IntTest, AfterAFailureReportsAreNotJudged) {
  DXGKIT_COVERS("THUNK-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.complete(0, fences[0]);
    stack.settle();
    stack.miniport.raise(ScriptedMiniport::completed_data(2, fences[0]));
    stack.settle();
    ASSERT_EQ(stack.only_finding().rule, "INT-12");
    const uint64_t completed = stack.statistics().packets_completed;
    stack.miniport.raise(ScriptedMiniport::completed_data(0, fences[0]));  // a repeat
    stack.miniport.raise(ScriptedMiniport::completed_data(0, fences[1]));
    stack.settle();
    EXPECT_EQ(stack.only_finding().rule, "INT-12");
    EXPECT_EQ(stack.statistics().packets_completed, completed);
  });
}

TEST_F(IntTest, ARepeatOfTheLastFenceIsAViolationOnly) {
  DXGKIT_COVERS("INT-11");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.complete(0, fences[0]);
    stack.miniport.raise(ScriptedMiniport::completed_data(0, fences[0]));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "INT-11");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(stack.drive(), 1U) << "it goes on";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(IntTest, NotifyInterruptOnlyRecordsAndNotifyDpcActs) {
  DXGKIT_COVERS("INT-04");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.hooks.dpc = [] {};  // swallows the notification
    stack.miniport.complete(0, fences[0]);
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    EXPECT_EQ(stack.statistics().interrupts, 0U);
    stack.miniport.hooks.dpc = nullptr;
    stack.miniport.complete(0, fences[1]);
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    EXPECT_EQ(stack.statistics().interrupts, 2U) << "the one recorded before is not lost";
  });
}

TEST_F(IntTest, OutsideTheInterruptLevelNotifyInterruptIsAViolation) {
  DXGKIT_COVERS("INT-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.hooks.dpc = [&] {
      DXGKARGCB_NOTIFY_INTERRUPT_DATA data = ScriptedMiniport::completed_data(0, fences[1]);
      stack.miniport.callbacks().DxgkCbNotifyInterrupt(stack.miniport.callbacks().DeviceHandle,
                                                       &data);
      stack.miniport.default_dpc();
    };
    stack.miniport.complete(0, fences[0]);
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "INT-01");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    stack.miniport.hooks.dpc = nullptr;
    stack.drive();
  });
}

TEST_F(IntTest, AReportWithoutADpcStaysUnseenUntilTheNextOne) {
  DXGKIT_COVERS("INT-03");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    stack.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      DXGKARGCB_NOTIFY_INTERRUPT_DATA data = ScriptedMiniport::completed_data(0, fences[0]);
      callbacks.DxgkCbNotifyInterrupt(callbacks.DeviceHandle, &data);
      return TRUE;
    };
    EXPECT_TRUE(stack.miniport.raise_line());
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-03"});
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    stack.miniport.hooks.interrupt = nullptr;
    stack.miniport.complete(0, fences[1]);
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
  });
}

TEST_F(IntTest, ASecondDpcBeforeTheFirstRanIsRefusedAndNothingIsLost) {
  DXGKIT_COVERS("INT-05");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    BOOLEAN first = FALSE, second = TRUE;
    stack.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      for (const uint32_t fence : fences) {
        DXGKARGCB_NOTIFY_INTERRUPT_DATA data = ScriptedMiniport::completed_data(0, fence);
        callbacks.DxgkCbNotifyInterrupt(callbacks.DeviceHandle, &data);
      }
      first = callbacks.DxgkCbQueueDpc(callbacks.DeviceHandle);
      second = callbacks.DxgkCbQueueDpc(callbacks.DeviceHandle);
      return TRUE;
    };
    stack.miniport.raise_line();
    stack.settle();
    EXPECT_NE(first, FALSE);
    EXPECT_EQ(second, FALSE);
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    EXPECT_EQ(stack.miniport.calls().dpcs, 1U);
    stack.miniport.hooks.interrupt = nullptr;
    static_cast<void>(stack.miniport.complete_all());
  });
}

TEST_F(IntTest, DmaTypesComeBeforeVerticalSync) {
  DXGKIT_COVERS("INT-09");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    DXGKARGCB_NOTIFY_INTERRUPT_DATA vsync{};  // a type that the kernel has no use for here
    vsync.InterruptType = DXGK_INTERRUPT_DISPLAYONLY_VSYNC;
    stack.miniport.queue_interrupt(vsync);
    stack.miniport.queue_interrupt(ScriptedMiniport::completed_data(0, fences[0]));
    stack.miniport.raise_line();
    stack.settle();
    EXPECT_THAT(stack.rules(), ::testing::Contains("INT-09"));
    static_cast<void>(stack.miniport.complete(0, fences[1]));
    stack.settle();
  });
}

TEST_F(IntTest, AnIsrThatRefusesItsOwnInterruptsForLongIsFound) {
  DXGKIT_COVERS("INT-08");
  running([](Stack& stack) {
    stack.miniport.hooks.interrupt = [](ULONG) -> BOOLEAN { return FALSE; };
    for (int i = 0; i < 99; ++i) EXPECT_FALSE(stack.miniport.raise_line());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_FALSE(stack.miniport.raise_line());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-08"});
  });
}

TEST_F(IntTest, AnIsrThatClaimsSilentlyForLongIsAStorm) {
  DXGKIT_COVERS("INT-08");
  running([](Stack& stack) {
    stack.miniport.hooks.interrupt = [](ULONG) -> BOOLEAN { return TRUE; };
    for (int i = 0; i < 999; ++i) EXPECT_TRUE(stack.miniport.raise_line());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_TRUE(stack.miniport.raise_line());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-08"});
  });
}

TEST_F(IntTest, AFaultedPacketPutsItsDeviceInErrorAndNoOther) {
  DXGKIT_COVERS("INT-15", "SCHED-17");
  with_client([](Stack& stack, Client& client) {
    Client neighbour(stack, "neighbour");
    ContextBuffers context = client.make_context(), theirs = neighbour.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(neighbour.render(theirs, work_on({})), 0);
    stack.settle();
    stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(neighbour.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.statistics().packets_faulted, 1U);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "legal below 2.0";
  });
}

// A packet is counted by its end, once: complete, faulted, or gone with its device; and a signal
// that never came is none.
TEST_F(IntTest, PacketsAreCountedByTheirEnd) {
  DXGKIT_COVERS("INT-15");
  with_client([](Stack& stack, Client& client) {
    Client neighbour(stack, "neighbour");
    ContextBuffers context = client.make_context(), theirs = neighbour.make_context();
    const D3DKMT_HANDLE sync = client.make_sync(D3DDDI_FENCE);
    const D3DKMT_HANDLE their_sync = neighbour.make_sync(D3DDDI_FENCE);
    ASSERT_EQ(neighbour.render(theirs, work_on({})), 0);
    ASSERT_EQ(neighbour.signal_gpu(theirs, their_sync, 1), 0);
    stack.drive();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
    ASSERT_EQ(client.signal_gpu(context, sync, 1), 0);
    stack.settle();
    ASSERT_TRUE(stack.miniport.complete_next(0));
    stack.settle();
    const auto before = stack.statistics();
    EXPECT_EQ(before.packets_completed, 2U);
    EXPECT_EQ(before.sync_signals, 1U) << "the neighbour's";
    const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
    ASSERT_EQ(fences.size(), 2U) << "two more wait";
    stack.miniport.faulted(0, fences[1], nt_status(Status::kUnsuccessful));
    stack.drive();
    const auto after = stack.statistics();
    EXPECT_EQ(after.packets_faulted, 1U);
    EXPECT_EQ(after.packets_cancelled, 2U);
    EXPECT_EQ(after.packets_completed, 3U) << "what was in front of it ran";
    EXPECT_EQ(after.sync_signals, 1U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
  });
}

TEST_F(IntTest, FromWddm2OnDmaFaultedIsAViolationWithTheSameEffect) {
  DXGKIT_COVERS("INT-15");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
        stack.miniport.faulted(0, fences[0], nt_status(Status::kUnsuccessful));
        stack.drive();
        EXPECT_EQ(stack.only_finding().rule, "INT-15");
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
      },
      [](ScriptedMiniport& m) { m.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0; });
}

TEST_F(IntTest, APageFaultCompletesWhatIsBeforeAndFailsTheFaultedOnesDevice) {
  DXGKIT_COVERS("INT-16");
  with_client([](Stack& stack, Client& client) {
    Client neighbour(stack, "neighbour");
    ContextBuffers context = client.make_context(), theirs = neighbour.make_context();
    ASSERT_EQ(neighbour.render(theirs, work_on({})), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
    ASSERT_EQ(fences.size(), 2U);
    raise_fault(stack, fences[1], 0);
    stack.settle();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    EXPECT_EQ(neighbour.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    EXPECT_EQ(stack.statistics().packets_faulted, 1U);
    stack.miniport.clear_calls();
    ASSERT_EQ(neighbour.render(theirs, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 1U) << "the node goes on";
    const uint32_t last = stack.miniport.calls().submits.at(0).args.SubmissionFenceId;
    stack.miniport.complete(0, last);
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(IntTest, AFaultOfAPagingPacketIsFatal) {
  DXGKIT_COVERS("INT-15", "PAGE-49");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ContextBuffers other = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    ASSERT_EQ(client.render(other, work_on({client.make_allocation()})), 0);
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(1).size(), 2U);
    ASSERT_TRUE(stack.miniport.complete_next(1));
    stack.settle();
    stack.miniport.faulted(1, stack.miniport.outstanding(1)[0], nt_status(Status::kUnsuccessful));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "PAGE-49");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.actual,
              "The paging packet that covers bytes [64, 128) of its buffer faulted.");
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 5U);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(IntTest, AnOverdueFenceIsAskedForBeforeItIsATimeout) {
  DXGKIT_COVERS("INT-22");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const std::vector<uint32_t> fences = two_on_hardware(stack, client, context);
    stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
      // The driver finds what it missed and reports it, at interrupt level, before it answers.
      if (args->NodeOrdinal == 0) stack.miniport.complete(0, fences[1]);
      return stack.miniport.default_query_current_fence(args);
    };
    runtime::Runtime::current().sleep_for(5 * runtime::kSecond);
    stack.settle();
    EXPECT_GE(stack.miniport.count("DxgkDdiQueryCurrentFence"), 1U);
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(IntTest, AFenceThatNeverComesStopsTheAdapter) {
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    static_cast<void>(two_on_hardware(stack, client, context));
    runtime::Runtime::current().sleep_for(runtime::kSecond);
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "TdrDelay is two seconds";
    runtime::Runtime::current().sleep_for(5 * runtime::kSecond);
    stack.settle();
    EXPECT_EQ(stack.only_finding().rule, "TDR-01");
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(IntTest, AnotherMessageThanTheReportedOneIsAViolation) {
  DXGKIT_COVERS("INT-02");
  running([](Stack& stack) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    Client client(stack);
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      BOOLEAN result = FALSE;
      return callbacks.DxgkCbSynchronizeExecution(
          callbacks.DeviceHandle, [](void*) NTAPI -> BOOLEAN { return TRUE; }, nullptr, 3, &result);
    };
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    static_cast<void>(client.call([&] { return D3DKMTEscape(&escape); }));
    EXPECT_EQ(stack.only_finding().rule, "INT-02");
    EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
  });
}

TEST_F(IntTest, TheIsrMayCallOnlyTwoCallbacks) {
  DXGKIT_COVERS("INT-07");
  running([](Stack& stack) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    stack.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
      DXGK_DEVICE_INFO info{};
      static_cast<void>(callbacks.DxgkCbGetDeviceInformation(callbacks.DeviceHandle, &info));
      callbacks.DxgkCbQueueDpc(callbacks.DeviceHandle);
      return TRUE;
    };
    stack.miniport.raise_line();
    EXPECT_THAT(stack.rules(), ::testing::Contains("INT-07"));
  });
}

TEST_F(IntTest, TheFirstErrorOfADeviceStays) {
  DXGKIT_COVERS("THUNK-28");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers zero = client.make_context(0), one = client.make_context(1);
    ASSERT_EQ(client.render(zero, work_on({})), 0);
    ASSERT_EQ(client.render(one, work_on({})), 0);
    stack.settle();
    const uint32_t fence = stack.miniport.outstanding(1).at(0);
    stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    std::memset(&data, 0, sizeof data);
    data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
    data.DmaPageFaulted.FaultedFenceId = fence;
    data.DmaPageFaulted.NodeOrdinal = 1;
    stack.miniport.raise(data);
    stack.settle();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    stack.miniport.clear_calls();
  });
}

}  // namespace
}  // namespace dxgkit::contract
