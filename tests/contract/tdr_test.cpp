// Detection of timeouts, and the reset of one engine.
#include <bit>
#include <cstring>

#include "runtime/sim_time.h"
#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

constexpr const char* kPreempt = "DxgkDdiPreemptCommand";
constexpr const char* kStatus = "DxgkDdiQueryEngineStatus";
constexpr const char* kGroup = "DxgkDdiQueryDependentEngineGroup";
constexpr const char* kCollect = "DxgkDdiCollectDbgInfo";
constexpr const char* kReset = "DxgkDdiResetEngine";
constexpr const char* kResetAll = "DxgkDdiResetFromTimeout";
constexpr const char* kRestart = "DxgkDdiRestartFromTimeout";
constexpr const char* kSubmit = "DxgkDdiSubmitCommand";

NTSTATUS submit(Client& client, ContextBuffers& context) {
  return client.render(context, work_on({}));
}

TEST_F(TdrTest, TheDelayRunsFromThePreemptionRequest) {
  DXGKIT_COVERS("TDR-01", "PREEMPT-06", "PREEMPT-12");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(submit(client, context), 0);
    pass(kDelay - 10 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.miniport.count(kPreempt), 0U);
    pass(110 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.miniport.count(kPreempt), 1U) << "no progress for TdrDelay";
    pass(kDelay - 200 * runtime::kMillisecond);
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_EQ(stack.rules(), Strings{});
    pass(200 * runtime::kMillisecond);
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U)) << "TdrDelay and at most 100 ms";
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    EXPECT_EQ(static_cast<int>(stack.only_finding().severity),
              static_cast<int>(verifier::Severity::kWarning));
    const dxgk::TimeoutReport report = reports(stack).at(0);
    EXPECT_LE(report.detected_ns - report.asked_ns, kDelay + 100 * runtime::kMillisecond);
  });
}

/// It has the driver to itself and waits for idle hardware. The recovery, which collects debug
/// information in the driver, goes first.
TEST_F(TdrTest, AnEscapeThatWaitsForAHungEngineDoesNotKeepItsRecoveryOut) {
  DXGKIT_COVERS("TDR-01", "THUNK-32");
  engines([](Stack& stack, EngineResets& resets) {
    Client guilty(stack, "guilty"), other(stack, "other");
    ContextBuffers context = guilty.make_context(0);
    ASSERT_EQ(submit(guilty, context), 0);
    stack.settle();
    bool idle = false;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      idle = stack.miniport.outstanding(0).empty();
      return nt_status(Status::kSuccess);
    };
    NTSTATUS answer = -1;
    const auto escape = runtime::Runtime::current().spawn("escape", [&] {
      D3DKMT_ESCAPE args{};
      args.hAdapter = other.adapter;
      args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      args.Flags.HardwareAccess = 1;
      answer = other.call([&] { return D3DKMTEscape(&args); });
    });
    wait_out(stack);
    escape->join();
    EXPECT_EQ(answer, 0);
    EXPECT_TRUE(idle);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U));
    EXPECT_THAT(resets.reasons, ::testing::Not(IsEmpty()));
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    stack.miniport.hooks = {};
  });
}

TEST_F(TdrTest, ALongPacketThatGivesWayIsNoTimeout) {
  DXGKIT_COVERS("TDR-01", "PREEMPT-12");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(submit(client, context), 0);
    for (uint32_t i = 1; i <= 3; ++i) {
      pass(kDelay + 50 * runtime::kMillisecond);
      rest(stack);
      const auto preempts = stack.miniport.calls().preempts;
      ASSERT_EQ(preempts.size(), i);
      stack.miniport.preempted(0, preempts.back().PreemptionFenceId, 0);
      rest(stack);
      EXPECT_EQ(stack.miniport.count(kSubmit), i + 1) << "resubmitted";
    }
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), Strings{});
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
  });
}

// The clock of a machine that was suspended is far ahead when it goes on; the engine's is not.
TEST_F(TdrTest, AMachineThatStoodStillBlamesNoEngine) {
  DXGKIT_COVERS("TDR-01");
  for (const bool answers : {true, false}) {
    SCOPED_TRACE(answers);
    engines([&](Stack& stack, EngineResets& resets) {
      Client client(stack);
      ContextBuffers context = client.make_context();
      ASSERT_EQ(submit(client, context), 0);
      pass(kDelay + 50 * runtime::kMillisecond);
      rest(stack);
      const auto preempts = stack.miniport.calls().preempts;
      ASSERT_EQ(preempts.size(), 1U);
      runtime::sim_jump(runtime::Runtime::current(), 60 * runtime::kSecond);
      rest(stack);
      EXPECT_THAT(resets.reset_nodes, IsEmpty()) << "nobody could have answered meanwhile";
      EXPECT_EQ(stack.rules(), Strings{});
      if (answers) {
        stack.miniport.preempted(0, preempts[0].PreemptionFenceId, 0);
      } else {
        pass(kDelay + 100 * runtime::kMillisecond);
      }
      rest(stack);
      stack.drive();
      EXPECT_EQ(resets.reset_nodes.size(), answers ? 0U : 1U) << "one more TdrDelay, and only one";
      EXPECT_EQ(stack.rules(), answers ? Strings{} : Strings{"TDR-01"});
      EXPECT_EQ(client.state(),
                answers ? D3DKMT_DEVICEEXECUTION_ACTIVE : D3DKMT_DEVICEEXECUTION_HUNG);
    });
  }
}

// Half a TdrDelay late is a watch that rang late; more is a machine that stood still.
TEST_F(TdrTest, AWatchThatRingsALittleLateExcusesNobody) {
  DXGKIT_COVERS("TDR-01");
  for (const bool stood_still : {false, true}) {
    SCOPED_TRACE(stood_still);
    engines([&](Stack& stack, EngineResets& resets) {
      Client client(stack);
      ContextBuffers context = client.make_context();
      ASSERT_EQ(submit(client, context), 0);
      const int64_t since = 50 * runtime::kMillisecond;
      pass(kDelay + since);
      rest(stack);
      ASSERT_EQ(stack.miniport.count(kPreempt), 1U);
      const int64_t margin = 30 * runtime::kMillisecond;
      const int64_t late = kDelay / 2 + (stood_still ? margin : -margin);
      runtime::sim_jump(runtime::Runtime::current(), kDelay - since + late);
      rest(stack);
      EXPECT_EQ(resets.reset_nodes.size(), stood_still ? 0U : 1U);
      if (stood_still) {
        const auto preempts = stack.miniport.calls().preempts;
        stack.miniport.preempted(0, preempts[0].PreemptionFenceId, 0);
        rest(stack);
      }
      stack.drive();
      EXPECT_EQ(client.state(),
                stood_still ? D3DKMT_DEVICEEXECUTION_ACTIVE : D3DKMT_DEVICEEXECUTION_HUNG);
    });
  }
}

// The guilty one is neither the first device nor the first context of its device.
TEST_F(TdrTest, TheReportNamesWhoseFaultItWas) {
  DXGKIT_COVERS("TDR-07", "TDR-18");
  engines([](Stack& stack, EngineResets&) {
    Client innocent(stack, "innocent"), guilty(stack, "guilty"), last(stack, "last");
    ContextBuffers fine = innocent.make_context();
    static_cast<void>(guilty.make_context());
    ContextBuffers hung = guilty.make_context(), behind = last.make_context();
    ASSERT_EQ(submit(innocent, fine), 0);
    stack.drive();
    const int64_t begin = runtime::Runtime::current().now();
    ASSERT_EQ(submit(guilty, hung), 0);
    ASSERT_EQ(submit(last, behind), 0);
    stack.settle();
    const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
    ASSERT_EQ(fences.size(), 2U);
    wait_out(stack);
    EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(last.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    const auto preempts = stack.miniport.calls().preempts;
    ASSERT_FALSE(preempts.empty());
    const std::vector<dxgk::TimeoutReport> all = reports(stack);
    ASSERT_EQ(all.size(), 1U);
    const dxgk::TimeoutReport& report = all[0];
    EXPECT_EQ(report.code, 0x141U);
    EXPECT_EQ(report.node, 0U);
    EXPECT_EQ(report.fence, fences[0]);
    EXPECT_EQ(report.packet, 2U);
    EXPECT_EQ(report.preemption, preempts[0].PreemptionFenceId);
    EXPECT_EQ(report.process, "guilty");
    EXPECT_FALSE(report.cause.empty());
    ASSERT_FALSE(report.steps.empty());
    EXPECT_EQ(report.steps[0].text, report.cause);
    EXPECT_GE(report.asked_ns, begin);
    EXPECT_GE(report.detected_ns, report.asked_ns + kDelay);
    EXPECT_GE(report.ended_ns, report.detected_ns);
    EXPECT_TRUE(report.recovered);
    ASSERT_EQ(report.devices.size(), 3U);
    for (const dxgk::TimeoutDevice& device : report.devices) {
      EXPECT_EQ(device.hurt, device.process == "guilty") << device.process;
      EXPECT_EQ(device.state, device.hurt ? "hung" : "active") << device.process;
    }
    stack.drive();
  });
}

// The first packet waits on the engine for something that never comes: to the kernel it is a packet
// that does not end, and only whether it gives way tells a driver that keeps the rule.
TEST_F(TdrTest, AWaitOnTheEngineThatIsNotMetGivesWayOrTimesOut) {
  DXGKIT_COVERS("PREEMPT-16");
  for (const bool gives_way : {true, false}) {
    SCOPED_TRACE(gives_way);
    engines([&](Stack& stack, EngineResets& resets) {
      Client waiting(stack, "waiting"), other(stack, "other");
      ContextBuffers blocked = waiting.make_context(), urgent = other.make_context();
      D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{.hContext = blocked.handle, .Priority = -1};
      ASSERT_EQ(waiting.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), 0);
      ASSERT_EQ(submit(waiting, blocked), 0);
      ASSERT_EQ(submit(other, urgent), 0);
      rest(stack);
      const auto preempts = stack.miniport.calls().preempts;
      ASSERT_EQ(preempts.size(), 1U);
      if (gives_way) {
        stack.miniport.preempted(0, preempts[0].PreemptionFenceId, 0);
      } else {
        pass(kDelay + 100 * runtime::kMillisecond);
      }
      rest(stack);
      stack.drive();
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(waiting.state(),
                gives_way ? D3DKMT_DEVICEEXECUTION_ACTIVE : D3DKMT_DEVICEEXECUTION_HUNG);
      EXPECT_EQ(resets.reset_nodes.size(), gives_way ? 0U : 1U);
      EXPECT_EQ(stack.rules(), gives_way ? Strings{} : Strings{"TDR-01"});
    });
  }
}

TEST_F(TdrTest, AnEngineThatDropsAPacketAndSaysSoIsToldOn) {
  DXGKIT_COVERS("TDR-01");
  engines([](Stack& stack, EngineResets&) {
    stack.miniport.config.auto_preempt = true;
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(submit(client, context), 0);
    pass(kDelay + 50 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.only_finding().rule, "TDR-01");
    EXPECT_EQ(static_cast<int>(stack.only_finding().severity),
              static_cast<int>(verifier::Severity::kViolation));
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(TdrTest, AnEngineResetGoesStepByStep) {
  DXGKIT_COVERS("TDR-09", "TDR-11", "TDR-29");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers context = client.make_context(), innocent = other.make_context();
    ASSERT_EQ(submit(client, context), 0);
    ASSERT_EQ(submit(other, innocent), 0);
    wait_out(stack);
    const Strings wanted{kSubmit, kSubmit, kPreempt, kStatus, kGroup, kCollect, kReset, kSubmit};
    Strings steps = order(stack, {kSubmit, kPreempt, kStatus, kGroup, kCollect, kReset, kResetAll});
    steps.resize(std::min(steps.size(), wanted.size()));  // the innocent packet is not run here
    EXPECT_EQ(steps, wanted);
    EXPECT_THAT(resets.reasons, ElementsAre(0x141U));
    stack.drive();
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
  });
}

TEST_F(TdrTest, TheGuiltyDeviceIsLostAndOthersSeeADelayOnly) {
  DXGKIT_COVERS("TDR-16", "TDR-17", "TDR-18", "TDR-27", "TDR-32", "CANCEL-03");
  engines([](Stack& stack, EngineResets&) {
    Client guilty(stack, "guilty"), innocent(stack, "innocent");
    ContextBuffers hung = guilty.make_context(), fine = innocent.make_context();
    ASSERT_EQ(submit(guilty, hung), 0);
    ASSERT_EQ(submit(innocent, fine), 0);
    ASSERT_EQ(submit(guilty, hung), 0);  // waits behind a full hardware queue
    stack.settle();
    const auto before = stack.miniport.calls().submits;
    ASSERT_EQ(before.size(), 2U);
    wait_out(stack);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(submit(guilty, hung), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 1U);
    const auto after = stack.miniport.calls().submits;
    ASSERT_EQ(after.size(), 3U);
    EXPECT_TRUE(fence_newer(SubmissionFenceId{after[2].args.SubmissionFenceId},
                            SubmissionFenceId{before[1].args.SubmissionFenceId}))
        << "a render packet gets a new id";
    EXPECT_EQ(stack.drive(), 1U);
    EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(innocent.wait_for_idle(), 0);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    EXPECT_EQ(stack.statistics().engine_resets, 1U);
    // What destroys and closes works; a new device of the same process does, too.
    const D3DKMT_HANDLE fresh = guilty.make_device();
    EXPECT_EQ(guilty.destroy_device(fresh), 0);
    EXPECT_EQ(guilty.destroy_context(hung.handle), 0);
    const dxgk::TimeoutReport report = reports(stack).at(0);
    EXPECT_EQ(report.code, 0x141U);
    EXPECT_EQ(report.process, "guilty");
    EXPECT_TRUE(report.recovered);
    ASSERT_EQ(report.devices.size(), 2U);
    EXPECT_TRUE(report.devices[0].hurt);
    EXPECT_FALSE(report.devices[1].hurt);
  });
}

// The engine is as fast as an engine can be: what is submitted again ends inside the DDI.
TEST_F(TdrTest, WhatEndsAsSoonAsItIsSubmittedAgainIsHeard) {
  DXGKIT_COVERS("TDR-16", "INT-21");
  engines([](Stack& stack, EngineResets&) {
    Client guilty(stack, "guilty"), innocent(stack, "innocent");
    ContextBuffers hung = guilty.make_context(), fine = innocent.make_context();
    ASSERT_EQ(submit(guilty, hung), 0);
    ASSERT_EQ(submit(innocent, fine), 0);
    stack.settle();
    stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
      stack.miniport.complete(0, args->SubmissionFenceId);
      return 0;
    };
    wait_out(stack);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(innocent.wait_for_idle(), 0);
    EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    wait_out(stack);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    EXPECT_EQ(stack.statistics().engine_resets, 1U);
  });
}

TEST_F(TdrTest, ADriverThatAnswersLateIsLeftAlone) {
  DXGKIT_COVERS("TDR-09");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    resets.status = [&](DXGKARG_QUERYENGINESTATUS*) {
      stack.miniport.preempted(0, stack.miniport.calls().preempts.back().PreemptionFenceId, 0);
      return 0;
    };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_EQ(stack.miniport.count(kSubmit), 2U);
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(TdrTest, AResponsiveEngineGetsOneMoreDelay) {
  DXGKIT_COVERS("TDR-10");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    resets.status = [](DXGKARG_QUERYENGINESTATUS* args) {
      args->EngineStatus.Responsive = 1;
      return 0;
    };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack, 3 * kDelay - 100 * runtime::kMillisecond);
    EXPECT_EQ(stack.miniport.count(kStatus), 1U);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    wait_out(stack, 200 * runtime::kMillisecond);
    EXPECT_EQ(stack.miniport.count(kStatus), 2U);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U)) << "one more, not for ever";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
  });
}

TEST_F(TdrTest, AStatusThatCannotBeToldIsAViolation) {
  DXGKIT_COVERS("TDR-10");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    resets.status = [](DXGKARG_QUERYENGINESTATUS*) { return nt_status(Status::kUnsuccessful); };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-10"}));
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U));
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
  });
}

class Dependents : public TdrTest, public ::testing::WithParamInterface<bool> {};
TEST_P(Dependents, GiveWayWithinHalfASecondOrAreReset) {
  DXGKIT_COVERS("TDR-11");
  const bool gives_way = GetParam();
  engines([&](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers context = client.make_context(1), neighbour = other.make_context(0);
    resets.group = [](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
      args->DependentNodeOrdinalMask = 3;
      return 0;
    };
    ASSERT_EQ(submit(client, context), 0);
    pass(kDelay);
    ASSERT_EQ(submit(other, neighbour), 0);  // young enough when node 1 times out
    pass(kDelay + 300 * runtime::kMillisecond);
    rest(stack);
    const auto preempts = stack.miniport.calls().preempts;
    ASSERT_GE(preempts.size(), 2U);
    EXPECT_EQ(preempts[0].NodeOrdinal, 1U);
    if (gives_way) {
      for (const auto& request : preempts) {
        if (request.NodeOrdinal == 0) stack.miniport.preempted(0, request.PreemptionFenceId, 0);
      }
    }
    EXPECT_THAT(resets.reset_nodes, IsEmpty()) << "500 ms for the others";
    wait_out(stack, 400 * runtime::kMillisecond);
    if (gives_way) {
      EXPECT_THAT(resets.reset_nodes, ElementsAre(1U));
      stack.drive();
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    } else {
      EXPECT_THAT(resets.reset_nodes, ElementsAre(0U, 1U)) << "in the order of engines";
      EXPECT_EQ(stack.miniport.count(kGroup), 2U) << "before each reset";
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
  });
}
INSTANTIATE_TEST_SUITE_P(YesAndNo, Dependents, ::testing::Bool());

TEST_F(TdrTest, AGroupWithoutTheNodeItselfIsFatal) {
  DXGKIT_COVERS("TDR-12");
  struct Row {
    uint64_t mask;
    NTSTATUS answer = 0;
  };
  for (const auto [mask, answer] :
       {Row{0}, Row{2}, Row{5}, Row{1, nt_status(Status::kNotSupported)}}) {
    engines([mask, answer](Stack& stack, EngineResets& resets) {
      stack.expect_leaks = true;
      Client client(stack);
      ContextBuffers context = client.make_context();
      resets.group = [&](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
        args->DependentNodeOrdinalMask = mask;
        return answer;
      };
      ASSERT_EQ(submit(client, context), 0);
      wait_out(stack);
      ASSERT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-12"})) << mask;
      EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x119U);
      EXPECT_EQ(stack.findings.all()[1].bugcheck_parameter, 8U);
      EXPECT_THAT(resets.reset_nodes, IsEmpty());
      EXPECT_EQ(submit(client, context), nt_status(Status::kDeviceRemoved));
    });
  }
}

TEST_F(TdrTest, ALastAbortedFenceOutOfRangeIsFatal) {
  DXGKIT_COVERS("TDR-14");
  for (const int32_t off : {-1, 2}) {
    engines([&](Stack& stack, EngineResets& resets) {
      stack.expect_leaks = true;
      Client client(stack);
      ContextBuffers context = client.make_context();
      ASSERT_EQ(submit(client, context), 0);
      stack.drive();
      const uint32_t completed = stack.miniport.last_completed(0);
      resets.reset = [&](DXGKARG_RESETENGINE* args) {
        args->LastAbortedFenceId = completed + static_cast<uint32_t>(off);
        return 0;
      };
      ASSERT_EQ(submit(client, context), 0);
      wait_out(stack);
      ASSERT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-14"})) << off;
      EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x119U);
      EXPECT_EQ(stack.findings.all()[1].bugcheck_parameter, 0xAU);
      EXPECT_EQ(stack.statistics().engine_resets, 0U);
    });
  }
}

TEST_F(TdrTest, AQueueThatRanDryInBetweenStillCostsTheDevice) {
  DXGKIT_COVERS("TDR-15", "INT-21");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    resets.reset = [&](DXGKARG_RESETENGINE* args) {
      // Its interrupt comes while it is kept back.
      args->LastAbortedFenceId = stack.miniport.outstanding(0).back();
      stack.miniport.complete(0, args->LastAbortedFenceId);
      return 0;
    };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"}) << "the interrupt was ignored";
  });
}

TEST_F(TdrTest, AHitPagingPacketTakesTheWholeAdapter) {
  DXGKIT_COVERS("TDR-19", "TDR-32");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context(0);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);  // its paging hangs on node 1
    wait_out(stack);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(1U));
    EXPECT_EQ(order(stack, {kReset, kResetAll, kRestart}), (Strings{kReset, kResetAll, kRestart}));
    EXPECT_THAT(resets.reasons, ElementsAre(0x141U, 0x117U));
    EXPECT_NE(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"}) << "the system device survives";
    // Paging works for who comes next.
    Client next(stack, "next");
    ContextBuffers fresh = next.make_context(0);
    ASSERT_EQ(next.render(fresh, work_on({next.make_allocation()})), 0);
    stack.drive();
    EXPECT_EQ(next.wait_for_idle(), 0);
  });
}

TEST_F(TdrTest, AnEngineThatCannotBeResetTakesTheWholeAdapter) {
  DXGKIT_COVERS("TDR-20");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers context = client.make_context();
    resets.reset = [](DXGKARG_RESETENGINE*) { return nt_status(Status::kUnsuccessful); };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-20"}));
    EXPECT_EQ(stack.miniport.count(kResetAll), 1U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_RESET);
    EXPECT_EQ(reports(stack).at(0).code, 0x117U);
  });
}

TEST_F(TdrTest, APacketHeardOfAfterTheResetIsAViolationAndNothingElse) {
  DXGKIT_COVERS("TDR-13");
  engines([](Stack& stack, EngineResets&) {
    Client guilty(stack), other(stack, "other");
    ContextBuffers hung = guilty.make_context(), fine = other.make_context();
    ASSERT_EQ(submit(guilty, hung), 0);
    ASSERT_EQ(submit(other, fine), 0);
    stack.settle();
    const std::vector<uint32_t> old = stack.miniport.outstanding(0);
    ASSERT_EQ(old.size(), 2U);
    wait_out(stack);
    stack.miniport.raise(ScriptedMiniport::completed_data(0, old[1]));
    rest(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-13"}));
    EXPECT_EQ(stack.statistics().packets_completed, 0U);
    stack.drive();
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
  });
}

// What was paging is submitted again under its old fence: once that has come back, hearing of it
// twice says nothing about the reset.
TEST_F(TdrTest, ARepeatOfWhatWasSubmittedAgainUnderItsFenceIsARepeat) {
  DXGKIT_COVERS("TDR-17", "INT-11");
  engines(
      [](Stack& stack, EngineResets&) {
        Client guilty(stack), innocent(stack, "innocent");
        ContextBuffers hung = guilty.make_context(), fine = innocent.make_context();
        ASSERT_EQ(submit(guilty, hung), 0);
        ASSERT_EQ(innocent.render(fine, work_on({innocent.make_allocation()})), 0);
        stack.settle();
        const std::vector<uint32_t> old = stack.miniport.outstanding(0);
        ASSERT_EQ(old.size(), 2U);
        ASSERT_TRUE(stack.miniport.calls().submits.back().args.Flags.Paging);
        wait_out(stack);
        ASSERT_THAT(stack.miniport.outstanding(0), ElementsAre(old[1]));
        EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
        stack.miniport.complete(0, old[1]);
        stack.settle();
        stack.miniport.raise(ScriptedMiniport::completed_data(0, old[1]));
        stack.settle();
        EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "INT-11"}));
        // The one that hung never comes back: hearing of it does.
        stack.miniport.raise(ScriptedMiniport::completed_data(0, old[0]));
        stack.settle();
        EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "INT-11", "TDR-13"}));
        stack.drive();
        EXPECT_EQ(innocent.wait_for_idle(), 0);
        EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      },
      {}, [](ScriptedMiniport& miniport) { miniport.config.paging_node = 0; });
}

TEST_F(TdrTest, LevelsAndDebugModes) {
  DXGKIT_COVERS("TDR-02", "TDR-03", "TDR-07");
  struct Case {
    uint32_t level, debug_mode;
    Strings rules;
    std::vector<uint32_t> codes;
    D3DKMT_DEVICEEXECUTION_STATE state;
  };
  const Case cases[] = {
      {0, 2, {}, {}, D3DKMT_DEVICEEXECUTION_ACTIVE},
      {1, 2, {"TDR-01", "TDR-02"}, {}, D3DKMT_DEVICEEXECUTION_STOPPED},
      {3, 2, {"TDR-01"}, {0x141}, D3DKMT_DEVICEEXECUTION_HUNG},
      {3, 1, {}, {}, D3DKMT_DEVICEEXECUTION_ACTIVE},
      {3, 0, {"TDR-01"}, {0x193, 0x141}, D3DKMT_DEVICEEXECUTION_HUNG},
  };
  for (const Case& one : cases) {
    dxgk::TimeoutPolicy policy;
    policy.level = one.level;
    policy.debug_mode = one.debug_mode;
    engines(
        [&](Stack& stack, EngineResets&) {
          stack.expect_leaks = one.level == 1;
          Client client(stack);
          ContextBuffers context = client.make_context();
          ASSERT_EQ(submit(client, context), 0);
          wait_out(stack, 5 * kDelay);
          EXPECT_EQ(stack.rules(), one.rules) << one.level << one.debug_mode;
          if (one.level != 1) {
            EXPECT_EQ(client.state(), one.state);
          }
          std::vector<uint32_t> codes;
          for (const auto& report : reports(stack)) codes.push_back(report.code);
          EXPECT_EQ(codes, one.codes);
          if (one.level == 1) {
            EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x116U);
          }
          stack.drive();
        },
        policy);
  }
}

TEST_F(TdrTest, ThePolicyComesFromTheRegistry) {
  DXGKIT_COVERS("TDR-02", "TDR-03", "TDR-04", "TDR-05");
  nt::KernelConfig config;
  const dxgk::TimeoutPolicy defaults = dxgk::read_timeout_policy(config, 2'000'000'000);
  EXPECT_EQ(defaults.level, 3U);
  EXPECT_EQ(defaults.debug_mode, 2U);
  EXPECT_EQ(defaults.delay_ns, 2'000'000'000);
  EXPECT_EQ(defaults.ddi_delay_ns, 5'000'000'000);
  EXPECT_EQ(defaults.limit_count, 5U);
  EXPECT_EQ(defaults.limit_time_ns, 60'000'000'000);
  auto& key =
      config.registry["\\registry\\machine\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers"];
  key["tdrlevel"] = nt::RegistryValue::dword(2);
  key["TdrDelay"] = nt::RegistryValue::dword(7);
  key["TdrDdiDelay"] = nt::RegistryValue::dword(9);
  key["TdrDebugMode"] = nt::RegistryValue::dword(77);
  key["TdrLimitCount"] = nt::RegistryValue::dword(3);
  key["TdrLimitTime"] = nt::RegistryValue::string(u"10");
  const dxgk::TimeoutPolicy policy = dxgk::read_timeout_policy(config, 2'000'000'000);
  EXPECT_EQ(policy.level, 3U) << "2 is not implemented";
  EXPECT_EQ(policy.delay_ns, 7 * runtime::kSecond);
  EXPECT_EQ(policy.ddi_delay_ns, 9 * runtime::kSecond);
  EXPECT_EQ(policy.debug_mode, 2U);
  EXPECT_EQ(policy.limit_count, 3U);
  EXPECT_EQ(policy.limit_time_ns, 60'000'000'000) << "not a number";
}

TEST_F(TdrTest, EachLevelIsTakenAsItIsAndNumbersHaveFourBytes) {
  DXGKIT_COVERS("TDR-02", "TDR-05");
  nt::KernelConfig config;
  auto& key =
      config.registry["\\registry\\machine\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers"];
  for (const uint32_t level : {0U, 1U, 3U}) {
    key["TdrLevel"] = nt::RegistryValue::dword(level);
    EXPECT_EQ(dxgk::read_timeout_policy(config, 2'000'000'000).level, level);
  }
  for (const uint32_t none : {4U, 0x01000001U, UINT32_MAX}) {
    key["TdrLevel"] = nt::RegistryValue::dword(none);
    EXPECT_EQ(dxgk::read_timeout_policy(config, 2'000'000'000).level, 3U) << none;
  }
  key["TdrLimitCount"] = nt::RegistryValue::dword(0x12345678);
  EXPECT_EQ(dxgk::read_timeout_policy(config, 2'000'000'000).limit_count, 0x12345678U);
}

TEST_F(TdrTest, AProcessThatKeepsHangingTheEngineIsKeptFromIt) {
  DXGKIT_COVERS("TDR-06", "TDR-07");
  engines([](Stack& stack, EngineResets&) {
    Client bad(stack, "bad"), good(stack, "good");
    D3DKMT_HANDLE device = bad.device;
    for (int i = 0; i < 4; ++i) {
      if (i != 0) device = bad.make_device();
      ContextBuffers context;
      ASSERT_EQ(bad.create_context(&context, 0, device), 0) << i;
      ASSERT_EQ(submit(bad, context), 0);
      wait_out(stack);
    }
    EXPECT_EQ(stack.statistics().engine_resets, 4U);
    EXPECT_EQ(stack.statistics().adapter_resets, 0U) << "engine resets do not count";
    D3DKMT_CREATEDEVICE create{};
    create.hAdapter = bad.adapter;
    EXPECT_EQ(bad.call([&] { return D3DKMTCreateDevice(&create); }),
              nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(good.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(good.destroy_device(good.make_device()), 0);
    std::vector<uint32_t> codes;
    for (const auto& report : reports(stack)) codes.push_back(report.code);
    EXPECT_THAT(codes, ElementsAre(0x141U, 0x141U, 0x141U, 0x142U, 0x141U));
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"}) << "report events stop nothing";
  });
}

TEST_F(TdrTest, AnIdleEngineOwesAnAnswerToo) {
  DXGKIT_COVERS("PREEMPT-06");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(submit(client, context), 0);
    stack.settle();
    stack.adapter().core().lane().run([&] {
      EXPECT_TRUE(stack.adapter().core().scheduler().request_preemption(NodeOrdinal{0}));
    });
    stack.drive();  // the packet completes, the request stays unanswered
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U));
    EXPECT_EQ(stack.only_finding().rule, "PREEMPT-06");
    stack.drive();
    EXPECT_EQ(client.wait_for_idle(), 0) << "nobody is to blame";
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

// The last packet ends just before the request is overdue: from then on the engine has TdrDelay to
// answer.
TEST_F(TdrTest, AnEngineThatHasJustBecomeIdleHasItsTimeToAnswer) {
  DXGKIT_COVERS("PREEMPT-06", "TDR-01");
  for (const bool answers : {true, false}) {
    engines([&](Stack& stack, EngineResets& resets) {
      Client client(stack);
      ContextBuffers context = client.make_context();
      ASSERT_EQ(submit(client, context), 0);
      pass(kDelay + 50 * runtime::kMillisecond);
      rest(stack);
      ASSERT_EQ(stack.miniport.count(kPreempt), 1U);
      pass(kDelay - 100 * runtime::kMillisecond);
      ASSERT_TRUE(stack.miniport.complete_next(0));
      pass(kDelay - 100 * runtime::kMillisecond);
      rest(stack);
      EXPECT_EQ(stack.rules(), Strings{});
      EXPECT_THAT(resets.reset_nodes, IsEmpty());
      if (answers) {
        const auto request = stack.miniport.calls().preempts.back();
        stack.miniport.preempted(0, request.PreemptionFenceId, stack.miniport.last_completed(0));
      }
      pass(250 * runtime::kMillisecond);
      rest(stack);
      EXPECT_EQ(stack.rules(), answers ? Strings{} : Strings{"PREEMPT-06"});
      EXPECT_EQ(resets.reset_nodes.size(), answers ? 0U : 1U);
      stack.drive();
      EXPECT_EQ(client.wait_for_idle(), 0);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    });
    if (HasFatalFailure()) return;
  }
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA page_fault(uint32_t fence, uint32_t flags) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof data);
  data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
  data.DmaPageFaulted.FaultedFenceId = fence;
  data.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(flags);
  data.DmaPageFaulted.FaultedVirtualAddress = 0x1234'5000;
  data.DmaPageFaulted.FaultedPipelineStage = DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER;
  data.DmaPageFaulted.FaultedPrimitiveAPISequenceNumber = 77;
  data.DmaPageFaulted.FaultedBindTableEntry = 5;
  data.DmaPageFaulted.FaultErrorCode = std::bit_cast<DXGK_FAULT_ERROR_CODE>(0x42U);
  return data;
}

TEST_F(TdrTest, APageFaultMayAskForAnEngineResetAtOnce) {
  DXGKIT_COVERS("INT-18", "INT-19", "INT-16");
  engines([](Stack& stack, EngineResets& resets) {
    Client guilty(stack), other(stack, "other");
    ContextBuffers hung = guilty.make_context(), fine = other.make_context();
    ASSERT_EQ(submit(guilty, hung), 0);
    ASSERT_EQ(submit(other, fine), 0);
    stack.settle();
    const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
    resets.reset = [&](DXGKARG_RESETENGINE* args) {
      stack.miniport.retire(0, fences[1]);
      stack.miniport.retire(0, fences[0]);
      args->LastAbortedFenceId = fences[0];
      return 0;
    };
    stack.miniport.raise(page_fault(fences[0], DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED));
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U)) << "without waiting";
    EXPECT_EQ(stack.miniport.count(kPreempt), 0U);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    D3DKMT_GETDEVICESTATE ask{};
    ask.hDevice = guilty.device;
    ask.StateType = D3DKMT_DEVICESTATE_PAGE_FAULT;
    ASSERT_EQ(guilty.call([&] { return D3DKMTGetDeviceState(&ask); }), 0);
    EXPECT_EQ(ask.PageFaultState.FaultedVirtualAddress, 0x1234'5000U);
    EXPECT_EQ(ask.PageFaultState.FaultedPrimitiveAPISequenceNumber, 77U);
    EXPECT_EQ(ask.PageFaultState.FaultedPipelineStage, DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER);
    EXPECT_EQ(ask.PageFaultState.FaultedBindTableEntry, 5U);
    EXPECT_EQ(std::bit_cast<uint32_t>(ask.PageFaultState.FaultErrorCode), 0x42U);
    EXPECT_EQ(static_cast<uint32_t>(ask.PageFaultState.PageFaultFlags),
              static_cast<uint32_t>(DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED));
    ask.hDevice = other.device;
    ASSERT_EQ(other.call([&] { return D3DKMTGetDeviceState(&ask); }), 0);
    EXPECT_EQ(ask.PageFaultState.FaultedVirtualAddress, 0U);
    ask.StateType = D3DKMT_DEVICESTATE_RESET;
    ASSERT_EQ(other.call([&] { return D3DKMTGetDeviceState(&ask); }), 0);
    EXPECT_EQ(ask.ResetState.Value, 0U);
    EXPECT_EQ(stack.drive(), 1U);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(stack.rules(), Strings{});
  });
}

TEST_F(TdrTest, APageFaultOfNoPacketMayAskForAnAdapterReset) {
  DXGKIT_COVERS("INT-18");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context(1);
    ASSERT_EQ(submit(client, context), 0);
    stack.settle();
    DXGKARGCB_NOTIFY_INTERRUPT_DATA fault =
        page_fault(0, DXGK_PAGE_FAULT_FENCE_INVALID | DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED);
    fault.DmaPageFaulted.NodeOrdinal = 1;
    stack.miniport.raise(fault);
    rest(stack);
    ASSERT_EQ(reports(stack).size(), 1U);
    EXPECT_EQ(reports(stack)[0].node, 1U);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_EQ(order(stack, {kResetAll, kRestart}), (Strings{kResetAll, kRestart}));
    EXPECT_NE(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(TdrTest, WhatQueryCurrentFenceAnswersHasBeenReported) {
  DXGKIT_COVERS("INT-22");
  engines([](Stack& stack, EngineResets&) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(submit(client, context), 0);
    stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
      const std::vector<uint32_t> fences = stack.miniport.outstanding(args->NodeOrdinal);
      args->CurrentFence = fences.empty() ? 0 : fences.front();
      return 0;
    };
    pass(kDelay + 50 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.only_finding().rule, "INT-22");
    stack.drive();
    stack.miniport.preempted(0, stack.miniport.calls().preempts.back().PreemptionFenceId,
                             stack.miniport.last_completed(0));
    rest(stack);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  });
}

TEST_F(TdrTest, DebugInformationStaysInItsBuffer) {
  DXGKIT_COVERS("TDR-29");
  engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    resets.collect = [](const DXGKARG_COLLECTDBGINFO* args) {
      std::memset(args->pBuffer, 0x11, args->BufferSize + 1);
      return 0;
    };
    ASSERT_EQ(submit(client, context), 0);
    wait_out(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-29"}));
    EXPECT_GT(reports(stack).at(0).debug_bytes, 0U);
  });
}

TEST_F(TdrTest, AResetWakesWhoWaits) {
  DXGKIT_COVERS("TDR-18", "SYNC-22");
  engines([](Stack& stack, EngineResets&) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(submit(client, context), 0);
    ASSERT_EQ(client.signal_gpu(context, fence, 1), 0);
    NTSTATUS status = 0;
    std::atomic<bool> done{false};
    const auto waiter = runtime::Runtime::current().spawn("waiter", [&] {
      status = client.wait_cpu(fence, 1);
      done = true;
    });
    wait_out(stack);
    EXPECT_TRUE(done);
    EXPECT_EQ(status, nt_status(Status::kDeviceRemoved));
    waiter->join();
  });
}

TEST_F(TdrTest, ADriverThatPromisesEngineResetsHasTheEntries) {
  DXGKIT_COVERS("TDR-08");
  using Table = DRIVER_INITIALIZATION_DATA;
  void (*const takes[])(Table&) = {
      [](Table& table) { table.DxgkDdiQueryDependentEngineGroup = nullptr; },
      [](Table& table) { table.DxgkDdiQueryEngineStatus = nullptr; },
      [](Table& table) { table.DxgkDdiResetEngine = nullptr; },
      [](Table& table) { table.DxgkDdiResetFromTimeout = nullptr; },
      [](Table& table) { table.DxgkDdiRestartFromTimeout = nullptr; },
  };
  for (const auto take : takes) {
    bare([&](Stack& stack) {
      EngineResets resets(stack.miniport);
      const auto fill = stack.miniport.config.table;
      stack.miniport.config.table = [&, fill](Table& table) {
        fill(table);
        take(table);
      };
      EXPECT_NE(stack.start(), Status::kSuccess);
      EXPECT_EQ(stack.rules().size(), 1U);
    });
  }
}

TEST_F(TdrTest, WithoutPreemptionTheDelayRunsFromTheLastProgress) {
  DXGKIT_COVERS("TDR-01");
  engines(
      [](Stack& stack, EngineResets& resets) {
        Client client(stack);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(submit(client, context), 0);
        wait_out(stack, kDelay + 100 * runtime::kMillisecond);
        EXPECT_EQ(stack.miniport.count(kPreempt), 0U);
        EXPECT_THAT(resets.reset_nodes, ElementsAre(0U));
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
      },
      {}, [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

}  // namespace
}  // namespace dxgkit::contract
