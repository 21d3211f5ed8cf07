// Hardware scheduling: bands, contexts that leave the engine, engines that are reset.
#include <fmt/format.h>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "tests/contract/hw_fixture.h"

namespace dxgkit::contract {
namespace {

using HwSchedulingTest = HwTest;
constexpr NTSTATUS kOk = 0;

/// Takes a context off the engine, or lets it go, as content that moves does.
void take_off(HwStack& stack, size_t context) {
  stack.adapter().core().lane().run([&] {
    dxgk::HwQueues& all = *stack.adapter().floor().hw_queues;
    all.suspension().take_off(*all.context_of(stack.hw.contexts[context].get()));
  });
}
void let_go(HwStack& stack, size_t context) {
  stack.adapter().core().lane().run([&] {
    dxgk::HwQueues& all = *stack.adapter().floor().hw_queues;
    all.suspension().let_go(*all.context_of(stack.hw.contexts[context].get()));
    stack.adapter().core().pump();
  });
}
bool off(HwStack& stack, size_t context) {
  bool is = false;
  stack.adapter().core().lane().run([&] {
    dxgk::HwQueues& all = *stack.adapter().floor().hw_queues;
    is = all.suspension().off(*all.context_of(stack.hw.contexts[context].get()));
  });
  return is;
}
/// Lets virtual time pass with nobody at work.
void pass(int64_t ns) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  runtime.sleep_until(runtime.now() + ns);
}
size_t first(const ScriptedCalls& calls, std::string_view ddi) {
  const auto found = std::ranges::find(calls.order, ddi);
  return static_cast<size_t>(found - calls.order.begin());
}

TEST_F(HwSchedulingTest, BandsComeAfterTheStartAndBeforeAnyWork) {
  DXGKIT_COVERS("SCHED-18");
  running([](HwStack& stack) {
    HwClient client(stack);
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(stack.hw.bands.size(), 1U);
    const size_t bands = first(calls, "DxgkDdiSetupPriorityBands");
    EXPECT_GT(bands, first(calls, "DxgkDdiStartDevice"));
    for (const char* work : {"DxgkDdiSubmitCommandVirtual", "DxgkDdiSubmitCommand",
                             "DxgkDdiBuildPagingBuffer", "DxgkDdiCreateContext"})
      EXPECT_LT(bands, first(calls, work)) << work;
    EXPECT_LE(stack.hw.bands[0].targetNormalBandPercentage, 50U);
    EXPECT_EQ(stack.hw.bands[0].targetNormalBandPercentage, 10U);
    EXPECT_EQ(stack.hw.bands[0].gracePeriodForBand[DXGK_SCHEDULING_PRIORITY_BAND_REALTIME], 0U);
    EXPECT_NE(stack.hw.bands[0].processQuantumForBand[DXGK_SCHEDULING_PRIORITY_BAND_NORMAL], 0U);
  });
}

TEST_F(HwSchedulingTest, ADriverThatRefusesItsBandsDoesNotStart) {
  DXGKIT_COVERS("SCHED-18");
  bare([](HwStack& stack) {
    stack.hw.on_setup_bands = [] { return nt_status(Status::kNoMemory); };
    EXPECT_NE(stack.start(), Status::kSuccess);
    EXPECT_EQ(stack.miniport.count("DxgkDdiCreateContext"), 0U);
    stack.hw.on_setup_bands = nullptr;
  });
}

TEST_F(HwSchedulingTest, ContextsAreDescribedBeforeTheirFirstWork) {
  DXGKIT_COVERS("SCHED-18");
  running([](HwStack& stack) {
    HwClient client(stack);
    stack.miniport.clear_calls();
    ClientQueue queue = client.make_hw_queue();
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    ASSERT_EQ(stack.hw.properties.size(), 1U);
    EXPECT_EQ(stack.hw.properties[0].hContext, stack.hw.contexts[0].get());
    EXPECT_EQ(stack.hw.properties[0].priorityBand, DXGK_SCHEDULING_PRIORITY_BAND_NORMAL);
    EXPECT_EQ(stack.hw.properties[0].inProcessPriority, 0);
    EXPECT_NE(stack.hw.properties[0].quantum, 0U);
    const ScriptedCalls calls = stack.miniport.calls();
    EXPECT_LT(first(calls, "DxgkDdiSetContextSchedulingProperties"),
              first(calls, "DxgkDdiSubmitCommandToHwQueue"));
    // A change is told at once.
    const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY change{.hContext = queue.context, .Priority = -3};
    EXPECT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&change); }), kOk);
    ASSERT_EQ(stack.hw.properties.size(), 2U);
    EXPECT_EQ(stack.hw.properties[1].inProcessPriority, -3);
    const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY high{.hContext = queue.context, .Priority = 1};
    EXPECT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&high); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.hw.properties.size(), 2U);
    D3DKMT_GETCONTEXTSCHEDULINGPRIORITY get{.hContext = queue.context, .Priority = 0};
    EXPECT_EQ(client.call([&] { return D3DKMTGetContextSchedulingPriority(&get); }), kOk);
    EXPECT_EQ(get.Priority, -3);
  });
}

// Every member of the properties, and a refusal leaves the priority as it was.
TEST_F(HwSchedulingTest, AnUnheardPriorityIsNoPriority) {
  DXGKIT_COVERS("SCHED-18", "SCHED-11");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_context());
    const D3DKMT_HANDLE context = client.make_hw_context(1);
    const auto set = [&](INT priority) {
      const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args{.hContext = context, .Priority = priority};
      return client.call([&] { return D3DKMTSetContextSchedulingPriority(&args); });
    };
    const auto get = [&] {
      D3DKMT_GETCONTEXTSCHEDULINGPRIORITY args{.hContext = context, .Priority = 99};
      EXPECT_EQ(client.call([&] { return D3DKMTGetContextSchedulingPriority(&args); }), kOk);
      return args.Priority;
    };
    EXPECT_EQ(set(-2), kOk);
    const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES told = stack.hw.properties.back();
    EXPECT_EQ(told.hContext, stack.hw.contexts[1].get());
    EXPECT_EQ(told.priorityBand, DXGK_SCHEDULING_PRIORITY_BAND_NORMAL);
    EXPECT_EQ(told.realtimeBandPriorityLevel, 0U);
    EXPECT_EQ(told.inProcessPriority, -2);
    EXPECT_EQ(told.quantum, 200'000U);
    EXPECT_EQ(told.gracePeriodSamePriority, 10'000U);
    EXPECT_EQ(told.gracePeriodLowerPriority, 0U);
    stack.hw.on_set_properties = [](const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES*) {
      return nt_status(Status::kInvalidParameter);
    };
    EXPECT_LT(set(-5), 0);
    EXPECT_EQ(get(), -2);
    stack.hw.on_set_properties = nullptr;
    EXPECT_EQ(set(-7), kOk);
    EXPECT_EQ(get(), -7);
    EXPECT_EQ(set(-8), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(get(), -7);
  });
}

TEST_F(HwSchedulingTest, AContextThatIsGoneHasNoPriority) {
  DXGKIT_COVERS("SCHED-11", "THUNK-27");
  for (const bool destroyed : {true, false}) {
    SCOPED_TRACE(destroyed);
    running([&](HwStack& stack) {
      HwClient client(stack);
      const D3DKMT_HANDLE context = client.make_hw_context();
      const auto held = client.process->handles().find<dxgk::HwContext>(context);
      ASSERT_TRUE(held.has_value());
      if (destroyed) {
        ASSERT_EQ(client.destroy_hw_context(context), kOk);
      } else {
        const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
        ASSERT_EQ(stack.hw.invalidate(*stack.hw.contexts[0]), kOk);
      }
      const size_t told = stack.hw.properties.size();
      EXPECT_EQ((*held)->set_priority(-4), Status::kDeviceRemoved);
      EXPECT_EQ((*held)->priority(), 0);
      EXPECT_EQ(stack.hw.properties.size(), told);
    });
  }
}

TEST_F(HwSchedulingTest, ContextsLeaveTheEngineBeforeTheirMemoryMoves) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    HwClient neighbour(stack, "neighbour");
    ClientQueue queue = client.make_hw_queue();
    static_cast<void>(neighbour.make_hw_queue());
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    EXPECT_TRUE(stack.hw.suspends.empty()) << "contexts are created resumed";
    // The driver answers late: nothing moves before.
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return nt_status(Status::kPending); };
    stack.miniport.clear_calls();
    stack.gpu.clear_calls();
    ASSERT_EQ(client.evict({client.memory}), kOk);
    stack.drive();
    ASSERT_EQ(stack.hw.suspends.size(), 1U) << "who cannot reach it is left alone";
    EXPECT_EQ(stack.hw.suspends[0].hContext, stack.hw.contexts[0].get());
    EXPECT_EQ(stack.hw.suspends[0].contextSuspendFence, 1U);
    EXPECT_TRUE(stack.gpu.calls().transfers.empty());
    EXPECT_TRUE(stack.gpu.calls().updates.empty());
    EXPECT_TRUE(stack.hw.resumes.empty());
    stack.hw.acknowledge(*stack.hw.contexts[0], 1);
    stack.drive();
    EXPECT_FALSE(stack.gpu.calls().updates.empty());
    EXPECT_FALSE(client.in_memory(client.memory));
    ASSERT_EQ(stack.hw.resumes.size(), 1U);
    EXPECT_EQ(stack.hw.resumes[0].hContext, stack.hw.contexts[0].get());
    stack.hw.on_suspend = nullptr;
    // Back again, it works.
    client.list({client.memory});
    stack.drive();
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    EXPECT_EQ(*queue.cpu, 2U);
    EXPECT_TRUE(stack.rules().empty());
  });
}

TEST_F(HwSchedulingTest, AnAnswerAtOnceNeedsNoInterrupt) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return kOk; };
    take_off(stack, 0);
    EXPECT_TRUE(off(stack, 0));
    let_go(stack, 0);
    EXPECT_FALSE(off(stack, 0));
    EXPECT_EQ(stack.hw.resumes.size(), 1U);
    stack.hw.on_suspend = nullptr;
  });
}

TEST_F(HwSchedulingTest, NothingGoesToAContextThatIsOff) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), kOk);
    take_off(stack, 0);
    stack.settle();
    ASSERT_EQ(client.submit(queue), kOk);
    EXPECT_EQ(stack.hw.submissions.size(), 1U);
    EXPECT_FALSE(stack.hw.run_next(*stack.hw.queues[0])) << "it is off";
    let_go(stack, 0);
    EXPECT_EQ(stack.hw.submissions.size(), 2U);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(*queue.cpu, 2U);
  });
}

TEST_F(HwSchedulingTest, LateAnswersAreToldApartByTheirValue) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return nt_status(Status::kPending); };
    take_off(stack, 0);
    let_go(stack, 0);  // nobody has waited for the answer
    take_off(stack, 0);
    ASSERT_EQ(stack.hw.suspends.size(), 2U);
    EXPECT_EQ(stack.hw.suspends[1].contextSuspendFence, 2U);
    stack.hw.acknowledge(*stack.hw.contexts[0], 1);
    stack.settle();
    EXPECT_FALSE(off(stack, 0)) << "that was the first request's";
    stack.hw.acknowledge(*stack.hw.contexts[0], 2);
    stack.settle();
    EXPECT_TRUE(off(stack, 0));
    let_go(stack, 0);
    stack.hw.acknowledge(*stack.hw.contexts[0], 2);
    stack.settle();
    EXPECT_FALSE(off(stack, 0));
    EXPECT_TRUE(stack.rules().empty());
    stack.hw.on_suspend = nullptr;
  });
}

TEST_F(HwSchedulingTest, AValueNobodyHasIssuedIsFatal) {
  DXGKIT_COVERS("SCHED-20");
  for (const uint64_t wrong : {uint64_t{3}, uint64_t{0}, UINT64_MAX}) {
    running([&](HwStack& stack) {
      HwClient client(stack);
      static_cast<void>(client.make_hw_queue());
      for (int i = 0; i < 2; ++i) {
        take_off(stack, 0);
        let_go(stack, 0);
      }
      stack.settle();
      stack.hw.acknowledge(*stack.hw.contexts[0], wrong);
      stack.settle();
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "SCHED-20");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.actual,
                fmt::format("SUSPEND_CONTEXT_COMPLETED has ContextSuspendFence {}; the last one "
                            "issued for the context is 2.",
                            wrong));
      EXPECT_EQ(finding.bugcheck_code, 0x119U);
      EXPECT_EQ(finding.bugcheck_parameter, 0x11U);
      stack.expect_leaks = true;
    });
  }
}

TEST_F(HwSchedulingTest, AContextNobodyHasMadeIsFatal) {
  DXGKIT_COVERS("SCHED-20");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    take_off(stack, 0);
    let_go(stack, 0);
    stack.settle();
    ScriptedHwContext nobody;
    stack.hw.acknowledge(nobody, 1);
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "SCHED-20");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.actual,
              "SUSPEND_CONTEXT_COMPLETED named context handle that does not exist, with "
              "ContextSuspendFence 1.");
    stack.expect_leaks = true;
  });
}

// What neither suspends nor says that it will is told of, and so is a refused resumption.
TEST_F(HwSchedulingTest, RefusedSuspensionsAndResumptionsAreToldWithTheirStatus) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) {
      return nt_status(Status::kNoMemory);
    };
    stack.hw.on_resume = [](const DXGKARG_RESUMECONTEXT*) {
      return nt_status(Status::kInvalidParameter);
    };
    take_off(stack, 0);
    EXPECT_FALSE(off(stack, 0));
    let_go(stack, 0);
    const std::vector<verifier::Finding> all = stack.findings.all();
    ASSERT_EQ(all.size(), 2U);
    const char* const ddis[] = {"DxgkDdiSuspendContext", "DxgkDdiResumeContext"};
    const char* const said[] = {"It returned 0xC0000017.", "It returned 0xC000000D."};
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(all[i].rule, "SCHED-19");
      EXPECT_EQ(all[i].severity, verifier::Severity::kViolation);
      EXPECT_EQ(all[i].ddi, ddis[i]);
      EXPECT_EQ(all[i].actual, said[i]);
    }
    stack.hw.on_suspend = nullptr;
    stack.hw.on_resume = nullptr;
    stack.expect_leaks = true;  // the driver has not counted it as resumed
  });
}

// A context is wanted off by two, and comes back when both let it go; it is asked once.
TEST_F(HwSchedulingTest, AContextComesBackWhenTheLastOneLetsItGo) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    take_off(stack, 0);
    take_off(stack, 0);
    stack.settle();
    EXPECT_TRUE(off(stack, 0));
    EXPECT_EQ(stack.hw.suspends.size(), 1U);
    ASSERT_EQ(client.submit(queue), kOk);
    let_go(stack, 0);
    EXPECT_TRUE(stack.hw.resumes.empty());
    EXPECT_TRUE(off(stack, 0));
    EXPECT_TRUE(stack.hw.submissions.empty());
    let_go(stack, 0);
    EXPECT_EQ(stack.hw.resumes.size(), 1U);
    EXPECT_EQ(stack.hw.submissions.size(), 1U);
    stack.drive();
    EXPECT_EQ(*queue.cpu, 1U);
  });
}

TEST_F(HwSchedulingTest, AContextThatDoesNotLeaveCostsTheEngineAReset) {
  DXGKIT_COVERS("SCHED-19", "TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_queue());
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return nt_status(Status::kPending); };
    take_off(stack, 0);
    pass(stack.options.tdr_delay_ns - 1);
    stack.settle();
    EXPECT_TRUE(stack.hw.resets.empty());
    pass(2);
    stack.settle();
    EXPECT_EQ(stack.hw.resets, std::vector<uint32_t>{0}) << "after TdrDelay";
    EXPECT_TRUE(stack.hw.engine_resumes.empty());
    pass(runtime::kMillisecond);
    stack.settle();
    EXPECT_EQ(stack.hw.resets, std::vector<uint32_t>{0});
    EXPECT_EQ(stack.hw.engine_resumes, std::vector<uint32_t>{0});
    EXPECT_TRUE(off(stack, 0));
    let_go(stack, 0);
    stack.hw.on_suspend = nullptr;
    EXPECT_TRUE(stack.rules().empty());
  });
}

TEST_F(HwSchedulingTest, ASilentEngineIsResetAndWhomItHitIsLost) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient guilty(stack, "guilty");
    HwClient innocent(stack, "innocent");
    HwClient elsewhere(stack, "elsewhere");
    ClientQueue hung = guilty.make_hw_queue();
    ClientQueue other = innocent.make_hw_queue();
    ClientQueue far = elsewhere.make_hw_queue(elsewhere.make_hw_context(1));
    stack.hw.paused = true;
    ASSERT_EQ(guilty.submit(hung), kOk);
    ASSERT_EQ(innocent.submit(other), kOk);
    size_t submitted_inside = 0;
    stack.hw.on_reset_engine = [&](uint32_t node) {
      EXPECT_EQ(node, 0U);
      EXPECT_EQ(stack.hw.invalidate(*stack.hw.contexts[0]), kOk);
      stack.hw.queues[0]->ring.clear();
      submitted_inside = stack.hw.submissions.size();
      return kOk;
    };
    stack.hw.on_resume_engine = [&](uint32_t) {
      EXPECT_EQ(stack.hw.submissions.size(), submitted_inside) << "nothing before the resumption";
      return kOk;
    };
    pass(stack.options.tdr_delay_ns + 10 * runtime::kMillisecond);
    EXPECT_EQ(stack.hw.resets, std::vector<uint32_t>{0});
    EXPECT_EQ(stack.hw.engine_resumes, std::vector<uint32_t>{0});
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(guilty.submit(hung), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(elsewhere.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(*other.cpu, 1U);
    ASSERT_EQ(innocent.submit(other), kOk);
    ASSERT_EQ(elsewhere.submit(far), kOk);
    stack.drive();
    EXPECT_EQ(*other.cpu, 2U);
    EXPECT_EQ(*far.cpu, 1U);
    EXPECT_TRUE(stack.rules().empty());
    stack.hw.on_reset_engine = nullptr;
    stack.hw.on_resume_engine = nullptr;
  });
}

TEST_F(HwSchedulingTest, NothingIsSubmittedBetweenResetAndResumption) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    ClientQueue far = client.make_hw_queue(client.make_hw_context(1));
    stack.adapter().core().lane().run([&] {
      EXPECT_TRUE(stack.adapter().floor().hw_queues->resets().reset_engine(NodeOrdinal{0}));
    });
    ASSERT_EQ(client.submit(queue), kOk);
    ASSERT_EQ(client.submit(far), kOk);
    EXPECT_EQ(stack.hw.submissions.size(), 1U) << "the other engine's";
    EXPECT_TRUE(stack.hw.engine_resumes.empty());
    pass(10 * runtime::kMillisecond);
    EXPECT_EQ(stack.hw.engine_resumes, std::vector<uint32_t>{0});
    EXPECT_EQ(stack.hw.submissions.size(), 2U);
    stack.drive();
    EXPECT_EQ(*queue.cpu, 1U);
  });
}

TEST_F(HwSchedulingTest, ProgressIsNoSilence) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue slow = client.make_hw_queue();
    ClientQueue patient = client.make_hw_queue(client.make_hw_context(), 1);  // DisableGpuTimeout
    stack.hw.paused = true;
    for (int i = 0; i < 6; ++i) ASSERT_EQ(client.submit(slow), kOk);
    ASSERT_EQ(client.submit(patient), kOk);
    for (int i = 0; i < 5; ++i) {
      pass(stack.options.tdr_delay_ns / 2);
      ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0]));
      stack.settle();
    }
    // A lost interrupt is no hang either: the fence says that the work is done.
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0], /*interrupt=*/false));
    pass(3 * stack.options.tdr_delay_ns);
    EXPECT_TRUE(stack.hw.resets.empty());
    EXPECT_EQ(stack.statistics().packets_completed + 1, stack.statistics().packets_submitted);
  });
}

TEST_F(HwSchedulingTest, AnEngineThatSpeaksBeforeItIsResumedIsFatal) {
  DXGKIT_COVERS("INT-21");
  for (const bool before : {true, false}) {
    running([&](HwStack& stack) {
      HwClient client(stack);
      static_cast<void>(client.make_hw_queue());
      stack.adapter().core().lane().run([&] {
        EXPECT_TRUE(stack.adapter().floor().hw_queues->resets().reset_engine(NodeOrdinal{1}));
      });
      stack.hw.interrupt_fence(0);  // another engine
      if (!before) pass(10 * runtime::kMillisecond);
      stack.hw.interrupt_fence(1);
      pass(10 * runtime::kMillisecond);
      if (!before) {
        EXPECT_TRUE(stack.rules().empty());
        return;
      }
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "INT-21");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.actual,
                fmt::format("Interrupt type {} of node 1 was reported after DxgkDdiResetHwEngine "
                            "had returned and before DxgkDdiResumeHwEngine was called.",
                            static_cast<int>(DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED)));
      EXPECT_EQ(finding.bugcheck_code, 0x119U);
      EXPECT_EQ(finding.bugcheck_parameter, 0x10U);
      EXPECT_TRUE(stack.hw.engine_resumes.empty()) << "the adapter has stopped";
      stack.expect_leaks = true;
    });
  }
}

TEST_F(HwSchedulingTest, AContextIsNamedByTheDriverAtAnyTime) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), kOk);
    {
      const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
      EXPECT_EQ(stack.hw.invalidate_handle(&stack), nt_status(Status::kInvalidParameter));
      EXPECT_EQ(stack.hw.invalidate(*stack.hw.contexts[0]), kOk);
    }
    stack.settle();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(client.destroy_hw_queue(queue.handle), kOk) << "nothing is waited for";
  });
}

TEST_F(HwSchedulingTest, AContextIsOffTheEngineWhenItIsDestroyed) {
  DXGKIT_COVERS("SCHED-19", "SCHED-22");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return nt_status(Status::kPending); };
    const D3DKMT_DESTROYHWCONTEXT args{.hHwContext = queue.context};
    Stack::Background destroying(
        stack, [&] { EXPECT_EQ(client.call([&] { return D3DKMTDestroyHwContext(&args); }), kOk); });
    EXPECT_FALSE(destroying.finished());
    EXPECT_TRUE(stack.hw.queues[0]->gone);
    EXPECT_FALSE(stack.hw.contexts[0]->gone);
    ASSERT_EQ(stack.hw.suspends.size(), 1U);
    stack.hw.acknowledge(*stack.hw.contexts[0], 1);
    destroying.finish();
    EXPECT_TRUE(stack.hw.contexts[0]->gone);
    EXPECT_TRUE(stack.hw.resumes.empty());
    stack.hw.on_suspend = nullptr;
  });
}

TEST_F(HwSchedulingTest, ContextsLeaveBeforeThePowerGoesDown) {
  DXGKIT_COVERS("SCHED-19");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    ClientQueue other = client.make_hw_queue(client.make_hw_context(1));
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    size_t asked = 0;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state != PowerDeviceD0) {
        asked = stack.hw.suspends.size();
        for (const auto& context : stack.hw.contexts) EXPECT_TRUE(context->suspended);
      }
      return nt_status(Status::kSuccess);
    };
    for (int i = 0; i < 2; ++i) {
      stack.blocking([&] {
        EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
      });
      EXPECT_GE(asked, 2U);
      stack.blocking([&] {
        EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
      });
      for (const auto& context : stack.hw.contexts) EXPECT_FALSE(context->suspended);
      ASSERT_EQ(client.submit(queue), kOk);
      ASSERT_EQ(client.submit(other), kOk);
      stack.drive();
      EXPECT_EQ(*queue.cpu, 2U + static_cast<uint64_t>(i));
    }
    EXPECT_TRUE(stack.rules().empty());
    stack.miniport.hooks.set_power_state = nullptr;
  });
}

// A driver that asks for its hardware alone has it without contexts on the engines.
TEST_F(HwSchedulingTest, ContextsLeaveBeforeTheDriverIsAlone) {
  DXGKIT_COVERS("SCHED-19", "IRQL-11");
  struct Seen {
    HwStack& stack;
    int calls = 0;
    size_t suspended = 0;
    NTSTATUS status = 1;
  };
  for (const ULONG attributes : {ULONG{0}, ULONG{DXGK_EXCLUDE_EVICT_ALL}}) {
    SCOPED_TRACE(attributes);
    running([&](HwStack& stack) {
      HwClient client(stack);
      ClientQueue queue = client.make_hw_queue();
      ClientQueue other = client.make_hw_queue(client.make_hw_context(1));
      ASSERT_EQ(client.submit(queue), kOk);
      stack.drive();
      Seen seen{stack};
      const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
      {
        const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
        EXPECT_EQ(callbacks.DxgkCbExcludeAdapterAccess(
                      callbacks.DeviceHandle, attributes,
                      [](void*, void* context, NTSTATUS status) NTAPI {
                        auto& me = *static_cast<Seen*>(context);
                        ++me.calls;
                        me.status = status;
                        for (const auto& one : me.stack.hw.contexts)
                          me.suspended += one->suspended ? 1 : 0;
                      },
                      &seen),
                  kOk);
      }
      for (int i = 0; i < 20; ++i) {
        pass(runtime::kMillisecond);
        stack.drive();
      }
      EXPECT_EQ(seen.calls, 1);
      EXPECT_EQ(seen.status, kOk);
      EXPECT_EQ(seen.suspended, 2U);
      for (const auto& context : stack.hw.contexts) EXPECT_FALSE(context->suspended);
      ASSERT_EQ(client.submit(queue), kOk);
      ASSERT_EQ(client.submit(other), kOk);
      stack.drive();
      EXPECT_EQ(*queue.cpu, 2U);
      EXPECT_EQ(*other.cpu, 1U);
      EXPECT_TRUE(stack.rules().empty());
    });
  }
}

// Power fails while contexts are asked to leave, or before that: nobody answers any more. The way
// up waits for no answer, the driver is told of roots again, and the context is resumed.
TEST_F(HwSchedulingTest, WhatPowerTookIsNotWaitedFor) {
  DXGKIT_COVERS("SCHED-19", "PWR-10");
  for (const bool on_the_way : {true, false}) {
    SCOPED_TRACE(on_the_way);
    running([&](HwStack& stack) {
      HwClient client(stack);
      ClientQueue queue = client.make_hw_queue();
      ASSERT_EQ(client.evict({client.memory}), kOk);
      stack.drive();
      const size_t resumed = stack.hw.resumes.size();
      stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) {
        return nt_status(Status::kPending);
      };
      if (on_the_way) {
        Stack::Background down(stack, [&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD3).has_value());
        });
        EXPECT_FALSE(down.finished());
        stack.miniport.forget_outstanding();
        EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kD3), Status::kSuccess);
        down.finish();
      } else {
        stack.blocking([&] {
          EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kD3),
                    Status::kSuccess);
        });
      }
      ASSERT_FALSE(stack.hw.suspends.empty());
      const uint64_t asked = stack.hw.suspends.back().contextSuspendFence;
      stack.hw.on_suspend = nullptr;
      stack.gpu.clear_calls();
      stack.blocking([&] {
        EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
      });
      stack.drive();
      EXPECT_EQ(stack.hw.resumes.size(), resumed + 1);
      EXPECT_TRUE(std::ranges::any_of(stack.gpu.calls().roots, [&](const auto& root) {
        return root.hContext == stack.hw.contexts[0].get();
      }));
      stack.hw.acknowledge(*stack.hw.contexts[0], asked);  // too late to mean anything
      stack.settle();
      EXPECT_FALSE(off(stack, 0));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      client.list({client.memory});
      stack.drive();
      ASSERT_EQ(client.submit(queue), kOk);
      stack.drive();
      EXPECT_EQ(*queue.cpu, 1U);
      EXPECT_TRUE(stack.rules().empty());
    });
  }
}

// Power fails after the contexts have left, while memory is written back: what the engine knew is
// gone with it, and the driver is told of roots again.
TEST_F(HwSchedulingTest, PowerThatFailsDuringThePurgeTakesTheRoots) {
  DXGKIT_COVERS("SCHED-19", "PWR-10");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return kOk; };
    {
      Stack::Background down(stack, [&] {
        static_cast<void>(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD3));
      });
      EXPECT_FALSE(down.finished());
      EXPECT_TRUE(off(stack, 0));
      stack.miniport.forget_outstanding();
      EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kD3), Status::kSuccess);
      EXPECT_TRUE(off(stack, 0)) << "it is not on its engine, and is not to come back yet";
      down.finish();
    }
    stack.gpu.clear_calls();
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
    stack.drive();
    EXPECT_FALSE(off(stack, 0));
    EXPECT_TRUE(std::ranges::any_of(stack.gpu.calls().roots, [&](const auto& root) {
      return root.hContext == stack.hw.contexts[0].get();
    }));
    EXPECT_TRUE(stack.rules().empty());
    stack.hw.on_suspend = nullptr;
  });
}

TEST_F(HwSchedulingTest, BandsFollowTheClassOfTheProcess) {
  DXGKIT_COVERS("SCHED-18", "SCHED-12");
  running([](HwStack& stack) {
    HwClient client(stack);
    static_cast<void>(client.make_hw_context());
    const auto self = reinterpret_cast<HANDLE>(intptr_t{-1});
    EXPECT_EQ(client.call([&] {
      return D3DKMTSetProcessSchedulingPriorityClass(self, D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    }),
              kOk);
    ASSERT_EQ(stack.hw.properties.size(), 2U);
    EXPECT_EQ(stack.hw.properties[1].priorityBand, DXGK_SCHEDULING_PRIORITY_BAND_IDLE);
    static_cast<void>(client.make_hw_context());
    ASSERT_EQ(stack.hw.properties.size(), 3U);
    EXPECT_EQ(stack.hw.properties[2].priorityBand, DXGK_SCHEDULING_PRIORITY_BAND_IDLE);
  });
}

TEST_F(HwSchedulingTest, AnEngineThatIsResetInVainCostsTheAdapter) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue(client.make_hw_context(1));
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), kOk);
    stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
      for (const auto& one : stack.hw.queues) one->ring.clear();
      return kOk;
    };
    for (int i = 0; i < 400; ++i) {  // the driver names nobody
      pass(stack.options.tdr_delay_ns / 20);
      stack.drive();  // not the queues
    }
    EXPECT_EQ(stack.hw.resets, std::vector<uint32_t>(5, 1));
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "TDR-30");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.ddi, "DxgkDdiResetHwEngine");
    EXPECT_EQ(finding.actual,
              "Work of hardware queues of node 1 does not end, and resetting the engine names "
              "nobody and frees nobody.");
    EXPECT_EQ(stack.statistics().adapter_resets, 1U);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(HwSchedulingTest, NativeFencesAreReportedOnlyWhereTheyAreEnabled) {
  DXGKIT_COVERS("SYNC-31");
  for (const bool reported : {true, false}) {
    bare([&](HwStack& stack) {
      stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_1;
      stack.miniport.config.caps = [reported,
                                    before = stack.miniport.config.caps](DXGK_DRIVERCAPS& caps) {
        before(caps);
        caps.SchedulingCaps.NativeGpuFence = reported ? 1 : 0;
      };
      const Status status = stack.start();
      if (!reported) {
        EXPECT_EQ(status, Status::kSuccess);
        return;
      }
      EXPECT_NE(status, Status::kSuccess);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "SYNC-31");
      EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
    });
  }
}

TEST_F(HwSchedulingTest, DriversWithoutSchedulingHaveQueuesAllTheSame) {
  running(
      [](HwStack& stack) {
        HwClient client(stack);
        ClientQueue queue = client.make_hw_queue();
        ASSERT_EQ(client.submit(queue), kOk);
        stack.drive();
        EXPECT_EQ(*queue.cpu, 1U);
        ASSERT_EQ(client.evict({client.memory}), kOk);
        stack.drive();
        EXPECT_FALSE(client.in_memory(client.memory));
        EXPECT_EQ(client.destroy_hw_context(queue.context), kOk);
        EXPECT_EQ(stack.miniport.count("DxgkDdiSuspendContext"), 0U);
      },
      [](HwStack& stack) { stack.hw.scheduling_entries = false; });
}

}  // namespace
}  // namespace dxgkit::contract
