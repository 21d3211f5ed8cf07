// What a developer reads of a timeout: every number of findings, steps and reports, on a node, with
// fences and after delays that no other has.
#include <cstring>

#include "runtime/sim_time.h"
#include "tests/contract/tdr_fixture.h"
#include "trace/trace.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

using TdrReportTest = OddTdrTest;

// While an engine is reset the others are heard, and what it says itself is of what the reset ends.
TEST_F(TdrReportTest, OnlyTheEngineUnderResetIsNotHeard) {
  DXGKIT_COVERS("TDR-09", "INT-21");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client guilty(stack, "guilty"), zero(stack, "zero"), one(stack, "one");
    ContextBuffers hung = guilty.make_context(kNode), first = zero.make_context(0),
                   second = one.make_context(kOther);
    render(guilty, hung);
    pass(2 * kLong - 500 * runtime::kMillisecond);  // the others are on hardware for that long only
    render(zero, first);
    render(one, second);
    stack.settle();
    const uint64_t completed = stack.statistics().packets_completed;
    resets.reset = [&](DXGKARG_RESETENGINE* args) {
      for (const uint32_t node : {kNode, 0U, kOther})
        stack.miniport.raise(
            ScriptedMiniport::completed_data(node, stack.miniport.outstanding(node).at(0)));
      return resets.default_reset(args);
    };
    wait_out(stack, 600 * runtime::kMillisecond);
    ASSERT_THAT(resets.reset_nodes, ElementsAre(kNode));
    EXPECT_EQ(stack.statistics().packets_completed, completed + 2);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    for (const uint32_t node : {0U, kOther})
      stack.miniport.retire(node, stack.miniport.outstanding(node).at(0));
  });
}

// Two packets are on hardware, painter's and player's. The reset names the first, or the second
// with the first one done.
TEST_F(TdrReportTest, AnEngineResetIsToldStepByStep) {
  DXGKIT_COVERS("TDR-01", "TDR-07", "TDR-13", "TDR-15", "TDR-17", "TDR-18");
  for (const bool second : {false, true}) {
    SCOPED_TRACE(second);
    odd_engines([&](Stack& stack, EngineResets& resets) {
      Client painter(stack, "painter"), player(stack, "player");
      ContextBuffers one = painter.make_context(kNode), two = player.make_context(kNode);
      render(painter, one, 3);
      stack.drive();
      resets.collect = leave_five_bytes;
      resets.reset = abort_packet(stack, second ? 1 : 0);
      const int64_t begin = runtime::Runtime::current().now();
      render(painter, one);
      render(player, two);
      wait_long(stack);
      ASSERT_THAT(resets.reset_nodes, ElementsAre(kNode));
      const verifier::Finding silence = stack.only_finding();
      EXPECT_EQ(silence.rule, "TDR-01");
      EXPECT_EQ(silence.severity, verifier::Severity::kWarning);
      EXPECT_EQ(silence.actual,
                "Node 2 reported nothing for 3000 ms after DxgkDdiPreemptCommand with "
                "PreemptionFenceId 6: fence 3 is the last completed, fence 5 the last submitted, 2 "
                "packets are on hardware.");
      EXPECT_EQ(silence.expected,
                "A submitted packet completes, or is preempted, within TdrDelay (3000 ms).");
      const std::vector<dxgk::TimeoutReport> all = reports(stack);
      ASSERT_EQ(all.size(), 1U);
      const dxgk::TimeoutReport& report = all[0];
      EXPECT_EQ(report.code, 0x141U);
      EXPECT_EQ(report.node, kNode);
      EXPECT_EQ(report.fence, 4U);
      EXPECT_EQ(report.packet, 4U);
      EXPECT_EQ(report.preemption, 6U);
      EXPECT_EQ(report.process, "painter");
      EXPECT_EQ(report.debug_bytes, 5U);
      EXPECT_TRUE(report.recovered);
      EXPECT_GT(report.asked_ns, begin);
      EXPECT_EQ(report.detected_ns, report.asked_ns + kLong);
      EXPECT_EQ(report.ended_ns, report.detected_ns);
      EXPECT_THAT(
          steps(report),
          ElementsAre("Node 2 did not answer a preemption request for 3000 ms.",
                      "DxgkDdiQueryEngineStatus: the engine is not responsive.",
                      "DxgkDdiQueryDependentEngineGroup: nodes 0x4 are reset together.",
                      "DxgkDdiCollectDbgInfo for event 0x141: 5 bytes.",
                      second ? "DxgkDdiResetEngine of node 2: LastAbortedFenceId 5; fence 3 was "
                               "the last completed, 5 the last submitted."
                             : "DxgkDdiResetEngine of node 2: LastAbortedFenceId 4; fence 3 was "
                               "the last completed, 5 the last submitted.",
                      second ? "Fence 5 was of player, whose device is lost (hung); 1 packets "
                               "before it are complete, 0 behind it are submitted again."
                             : "Fence 4 was of painter, whose device is lost (hung); 0 packets "
                               "before it are complete, 1 behind it are submitted again."));
      for (const dxgk::TimeoutStep& step : report.steps) EXPECT_EQ(step.at_ns, report.detected_ns);
      Client& guilty = second ? player : painter;
      Client& innocent = second ? painter : player;
      EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
      EXPECT_EQ(innocent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      // Of what the reset ended nothing is heard any more, from its first fence to its last, nor of
      // the request.
      stack.miniport.raise(ScriptedMiniport::completed_data(kNode, 4));
      stack.settle();
      EXPECT_EQ(stack.findings.count("TDR-13"), 1U);
      const verifier::Finding stale = finding(stack, "TDR-13");
      EXPECT_EQ(stale.severity, verifier::Severity::kViolation);
      EXPECT_EQ(stale.actual,
                "Interrupt type 1 named fence 4 on node 2, which DxgkDdiResetEngine had ended: the "
                "engine was still at it.");
      EXPECT_EQ(stale.expected,
                "When DxgkDdiResetEngine returns the hardware queue is empty, and what was in it "
                "is never heard of again.");
      stack.miniport.raise(ScriptedMiniport::completed_data(kNode, 5));
      stack.settle();
      EXPECT_EQ(stack.findings.count("TDR-13"), 2U);
      stack.miniport.raise(ScriptedMiniport::preempted_data(kNode, 6, 3));
      stack.settle();
      EXPECT_EQ(stack.findings.count("TDR-13"), 3U);
      stack.drive();
      EXPECT_EQ(innocent.wait_for_idle(), 0);
      EXPECT_EQ(stack.statistics().packets_completed, 4U);
      // What was done before the reset is an old story: repeating it is another mistake.
      stack.miniport.raise(ScriptedMiniport::completed_data(kNode, 3));
      stack.settle();
      EXPECT_EQ(stack.findings.count("TDR-13"), 3U);
      EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-13", "INT-11"}));
      stack.expect_leaks = true;
    });
  }
}

// Two others hang with it: one gives way, one does not and is reset, too. Nobody is to blame for
// the engine that had nothing to do but owed an answer.
TEST_F(TdrReportTest, WhoDidNotGiveWayIsNamed) {
  DXGKIT_COVERS("TDR-11", "TDR-09");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers hung = client.make_context(kNode), zero = other.make_context(0),
                   one = other.make_context(1);
    resets.group = [](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
      args->DependentNodeOrdinalMask = 0b1111;
      return 0;
    };
    std::vector<int64_t> when;
    resets.reset = [&](DXGKARG_RESETENGINE* args) {
      when.push_back(runtime::Runtime::current().now());
      return resets.default_reset(args);
    };
    render(client, hung);
    pass(2 * kLong - 200 * runtime::kMillisecond);
    render(other, zero);
    render(other, one);
    wait_out(stack, 300 * runtime::kMillisecond);
    const auto preempts = stack.miniport.calls().preempts;
    ASSERT_EQ(preempts.size(), 3U) << "nobody asks the idle node";
    EXPECT_EQ(preempts[1].NodeOrdinal, 0U);
    EXPECT_EQ(preempts[2].NodeOrdinal, 1U);
    stack.miniport.preempted(1, preempts[2].PreemptionFenceId, 0);
    wait_out(stack, 300 * runtime::kMillisecond);
    EXPECT_THAT(resets.reset_nodes, IsEmpty()) << "500 ms";
    wait_out(stack, 300 * runtime::kMillisecond);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(0U, kNode));
    const dxgk::TimeoutReport report = reports(stack).at(0);
    ASSERT_EQ(when.size(), 2U);
    EXPECT_EQ(when[0], report.detected_ns + 500 * runtime::kMillisecond);
    EXPECT_EQ(report.ended_ns, when[1]);
    EXPECT_THAT(steps(report),
                ElementsAre("Node 2 did not answer a preemption request for 3000 ms.",
                            "DxgkDdiQueryEngineStatus: the engine is not responsive.",
                            "DxgkDdiQueryDependentEngineGroup: nodes 0xf are reset together.",
                            "Nodes 0x1 did not give way within 500 ms.",
                            "DxgkDdiCollectDbgInfo for event 0x141: 0 bytes.",
                            "DxgkDdiResetEngine of node 0: LastAbortedFenceId 1; fence 0 was the "
                            "last completed, 1 the last submitted.",
                            "Fence 1 was of other, whose device is lost (hung); 0 packets before "
                            "it are complete, 0 behind it are submitted again.",
                            "DxgkDdiResetEngine of node 2: LastAbortedFenceId 1; fence 0 was the "
                            "last completed, 1 the last submitted.",
                            "Fence 1 was of client, whose device is lost (hung); 0 packets before "
                            "it are complete, 0 behind it are submitted again."));
    stack.drive();
  });
}

TEST_F(TdrReportTest, AnIdleEnginesSilenceIsItsOwnFinding) {
  DXGKIT_COVERS("PREEMPT-06", "TDR-15");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context, 2);
    stack.settle();
    stack.adapter().core().lane().run([&] {
      EXPECT_TRUE(stack.adapter().core().scheduler().request_preemption(NodeOrdinal{kNode}));
    });
    stack.drive();  // the packets complete, the request stays unanswered
    pass(kLong + 100 * runtime::kMillisecond);
    rest(stack);
    const verifier::Finding found = stack.only_finding();
    EXPECT_EQ(found.rule, "PREEMPT-06");
    EXPECT_EQ(found.severity, verifier::Severity::kViolation);
    EXPECT_EQ(found.actual,
              "Node 2 reported nothing for 3000 ms after DxgkDdiPreemptCommand with "
              "PreemptionFenceId 3: fence 2 is the last completed, fence 2 the last submitted, 0 "
              "packets are on hardware.");
    EXPECT_EQ(found.expected,
              "Every request is answered by DMA_PREEMPTED within TdrDelay (3000 ms), by an idle "
              "engine at once.");
    EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
    const dxgk::TimeoutReport report = reports(stack).at(0);
    EXPECT_EQ(report.fence, 0U);
    EXPECT_EQ(report.packet, 0U);
    EXPECT_EQ(report.process, "");
    EXPECT_EQ(report.preemption, 3U);
    for (const trace::Event& event : trace::current()->events()) {
      if (event.kind != static_cast<uint16_t>(trace::EventKind::kWhyTimeout)) continue;
      EXPECT_EQ(event.a, 0U) << "no packet";
      EXPECT_EQ(event.d, 3U);
    }
    EXPECT_EQ(report.steps.back().text, "Nobody is to blame; 0 packets are submitted again.");
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    render(client, context);
    stack.drive();
    EXPECT_EQ(client.wait_for_idle(), 0);
  });
}

TEST_F(TdrReportTest, WithoutPreemptionNothingWasAsked) {
  DXGKIT_COVERS("TDR-01");
  engines(
      [](Stack& stack, EngineResets&) {
        Client client(stack);
        ContextBuffers context = client.make_context(kNode);
        pass(1234 * runtime::kMillisecond);
        render(client, context, 2);
        const int64_t begin = runtime::Runtime::current().now();
        wait_out(stack, kLong + 100 * runtime::kMillisecond);
        EXPECT_EQ(stack.only_finding().actual,
                  "Node 2 reported nothing for 3000 ms: fence 0 is the last completed, fence 2 the "
                  "last submitted, 2 packets are on hardware.");
        const dxgk::TimeoutReport report = reports(stack).at(0);
        EXPECT_EQ(report.cause, "Node 2 reported nothing for 3000 ms.");
        EXPECT_EQ(report.preemption, 0U);
        EXPECT_EQ(report.asked_ns, 0);
        EXPECT_EQ(report.detected_ns, begin + kLong);
      },
      policy(),
      [](ScriptedMiniport& miniport) {
        odd_driver(miniport);
        miniport.config.preemption_aware = false;
      });
}

TEST_F(TdrReportTest, AFenceOutOfRangeIsToldWithTheRange) {
  DXGKIT_COVERS("TDR-14");
  odd_engines([](Stack& stack, EngineResets& resets) {
    stack.expect_leaks = true;
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context, 3);
    stack.drive();
    render(client, context, 2);
    resets.reset = [](DXGKARG_RESETENGINE* args) {
      args->LastAbortedFenceId = 9;
      return 0;
    };
    wait_long(stack);
    const verifier::Finding found = finding(stack, "TDR-14");
    EXPECT_EQ(found.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(found.actual, "LastAbortedFenceId is 9 for node 2.");
    EXPECT_EQ(found.expected,
              "A submission fence from 3 (the last completed) to 5 (the last submitted), both "
              "included.");
    const std::vector<dxgk::TimeoutReport> all = reports(stack);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_FALSE(all[0].recovered);
  });
}

TEST_F(TdrReportTest, LevelOneAndDebugModeZeroSayWhatTheyDo) {
  DXGKIT_COVERS("TDR-02", "TDR-03", "TDR-07");
  dxgk::TimeoutPolicy stops = policy();
  stops.level = 1;
  stops.debug_mode = 0;
  odd_engines(
      [](Stack& stack, EngineResets&) {
        stack.expect_leaks = true;
        Client client(stack);
        ContextBuffers context = client.make_context(kNode);
        render(client, context);
        wait_long(stack);
        const verifier::Finding found = finding(stack, "TDR-02");
        EXPECT_EQ(found.severity, verifier::Severity::kBugCheck);
        EXPECT_EQ(found.actual,
                  "Node 2 did not answer a preemption request for 3000 ms. TdrLevel is 1.");
        EXPECT_EQ(found.bugcheck_code, 0x116U);
        EXPECT_EQ(found.bugcheck_parameter, 0U);
        const std::vector<dxgk::TimeoutReport> all = reports(stack);
        ASSERT_EQ(all.size(), 1U);
        EXPECT_EQ(all[0].code, 0x193U);
        EXPECT_EQ(all[0].node, kNode);
        EXPECT_EQ(all[0].cause,
                  "Node 2 did not answer a preemption request for 3000 ms. TdrDebugMode 0 stops "
                  "here for a debugger.");
        EXPECT_GT(all[0].detected_ns, 2 * kLong - 1);
        EXPECT_EQ(all[0].ended_ns, all[0].detected_ns);
      },
      stops);
}

// The third engine timeout within 50 seconds, the first at the very edge of them.
TEST_F(TdrReportTest, AProcessIsKeptOutAtItsLimitWithinTheTime) {
  DXGKIT_COVERS("TDR-06", "TDR-07");
  for (const bool within : {false, true}) {
    SCOPED_TRACE(within);
    dxgk::TimeoutPolicy narrow = policy();
    narrow.limit_count = 4;
    odd_engines(
        [&](Stack& stack, EngineResets&) {
          Client bad(stack, "bad"), good(stack, "good");
          ContextBuffers fine = good.make_context(kNode);
          std::vector<int64_t> when;
          const auto hang = [&](int64_t gap) {
            if (!when.empty()) {
              // What counts is when a recovery came to its end.
              const int64_t now = runtime::Runtime::current().now();
              pass(when.back() + gap - 2 * kLong - now);
            }
            const D3DKMT_HANDLE device = bad.make_device();
            ContextBuffers context;
            ASSERT_EQ(bad.create_context(&context, kNode, device), 0);
            render(bad, context);
            wait_long(stack);
            for (const dxgk::TimeoutReport& report : reports(stack)) {
              if (report.code == 0x141) when.resize(when.size() + 1, report.ended_ns);
            }
            when.erase(when.begin(), when.end() - 1);
          };
          hang(0);
          const int64_t first = when.back();
          hang(30 * runtime::kSecond);
          hang(20 * runtime::kSecond - (within ? 1 : 0));
          EXPECT_EQ(when.back() - first, 50 * runtime::kSecond - (within ? 1 : 0));
          D3DKMT_CREATEDEVICE create{};
          create.hAdapter = bad.adapter;
          const NTSTATUS status = bad.call([&] { return D3DKMTCreateDevice(&create); });
          EXPECT_EQ(status, within ? nt_status(Status::kDeviceRemoved) : 0);
          EXPECT_EQ(bad.state(),
                    within ? D3DKMT_DEVICEEXECUTION_HUNG : D3DKMT_DEVICEEXECUTION_ACTIVE)
              << "all its devices go, the one that never hung, too";
          EXPECT_EQ(good.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          render(good, fine);
          stack.drive();
          const std::vector<dxgk::TimeoutReport> all = reports(stack);
          const auto found = std::ranges::find(all, 0x142U, &dxgk::TimeoutReport::code);
          ASSERT_EQ(found != all.end(), within);
          if (!within) return;
          EXPECT_EQ(found->process, "bad");
          EXPECT_EQ(found->cause,
                    "Process bad caused 3 engine timeouts within 50 s: it is kept from the GPU.");
          EXPECT_TRUE(found->recovered);
          EXPECT_EQ(found->detected_ns, when.back());
          EXPECT_EQ(found->ended_ns, when.back());
          EXPECT_EQ(all.back().steps.back().text, found->cause) << "a step of that recovery, too";
        },
        narrow);
  }
}

TEST_F(TdrReportTest, AnAdapterResetIsToldStepByStep) {
  DXGKIT_COVERS("TDR-07", "TDR-22", "TDR-25", "TDR-26");
  odd_plain([](Stack& stack) {
    Client painter(stack, "painter"), player(stack, "player"), lost(stack, "lost");
    ContextBuffers one = painter.make_context(kNode), two = player.make_context(kOther),
                   gone = lost.make_context(kOther);
    render(lost, gone);
    stack.settle();
    stack.miniport.faulted(kOther, 1, nt_status(Status::kUnsuccessful));
    stack.drive();
    ASSERT_EQ(lost.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    ASSERT_EQ(player.render(two, work_on({player.make_allocation(64 * kKibibyte, 1U << 1),
                                          player.make_allocation(64 * kKibibyte, 1U << 1)})),
              0);
    stack.drive();
    render(painter, one, 2);
    stack.drive();
    render(player, two);
    pass(runtime::kSecond);
    render(painter, one, 2);
    stack.settle();
    ASSERT_TRUE(stack.miniport.complete_next(kOther));
    wait_long(stack);
    const std::vector<dxgk::TimeoutReport> all = reports(stack);
    ASSERT_EQ(all.size(), 1U);
    const dxgk::TimeoutReport& report = all[0];
    EXPECT_EQ(report.code, 0x117U);
    EXPECT_EQ(report.node, kNode);
    EXPECT_EQ(report.fence, 3U);
    EXPECT_EQ(report.packet, 3U);
    EXPECT_EQ(report.process, "painter");
    EXPECT_TRUE(report.recovered);
    EXPECT_THAT(steps(report),
                ElementsAre("Node 2 did not answer a preemption request for 3000 ms.",
                            "The driver has no per-engine recovery: the adapter is reset.",
                            "DxgkDdiCollectDbgInfo for event 0x117: 0 bytes.",
                            "DxgkDdiResetFromTimeout: the hardware is quiet.",
                            "2 devices are lost, 2 allocations with them.",
                            "DxgkDdiRestartFromTimeout: the hardware runs again."));
    ASSERT_EQ(report.devices.size(), 3U);
    EXPECT_EQ(report.devices[0].process, "painter");
    EXPECT_EQ(report.devices[0].handle, painter.device);
    EXPECT_TRUE(report.devices[0].hurt);
    EXPECT_EQ(report.devices[0].state, "hung");
    EXPECT_EQ(report.devices[1].process, "player");
    EXPECT_TRUE(report.devices[1].hurt);
    EXPECT_EQ(report.devices[1].state, "reset");
    EXPECT_EQ(report.devices[2].process, "lost");
    EXPECT_FALSE(report.devices[2].hurt) << "it was lost before";
    EXPECT_EQ(report.devices[2].state, "DMA fault");
    // A completion from before, of another node than the one that hung.
    stack.miniport.raise(ScriptedMiniport::completed_data(kNode, 4));
    stack.settle();
    const verifier::Finding stale = finding(stack, "TDR-22");
    EXPECT_EQ(stale.actual,
              "Interrupt type 1 named fence 4 on node 2, which DxgkDdiResetFromTimeout had ended: "
              "the engine was still at it.");
    EXPECT_EQ(stale.expected,
              "When DxgkDdiResetFromTimeout returns the GPU does nothing any more.");
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-22"}));
  });
}

// One reset more than the limit, with the time between the first and the last one nanosecond short
// of the limit's; with that nanosecond it is a reset as any other.
TEST_F(TdrReportTest, TheLimitOfAdapterResetsIsToldWithItsNumbers) {
  DXGKIT_COVERS("TDR-05");
  for (const bool within : {false, true}) {
    SCOPED_TRACE(within);
    odd_plain([&](Stack& stack) {
      stack.expect_leaks = within;
      Client client(stack);
      int64_t first = 0;
      for (int i = 0; i < 4; ++i) {
        const D3DKMT_HANDLE device = client.make_device();
        ContextBuffers context;
        ASSERT_EQ(client.create_context(&context, kNode, device), 0);
        if (i == 3) {
          const int64_t ends = first + 50 * runtime::kSecond - (within ? 1 : 0);
          pass(ends - 2 * kLong - runtime::Runtime::current().now());
        }
        render(client, context);
        wait_long(stack);
        if (i == 0) first = reports(stack).at(0).detected_ns;
        if (i < 3) {
          EXPECT_EQ(client.destroy_device(device), 0);
        }
      }
      EXPECT_EQ(stack.statistics().adapter_resets, within ? 3U : 4U);
      const std::vector<dxgk::TimeoutReport> all = reports(stack);
      ASSERT_EQ(all.size(), 4U);
      EXPECT_EQ(all[3].detected_ns - first, 50 * runtime::kSecond - (within ? 1 : 0));
      EXPECT_EQ(all[3].recovered, !within);
      if (!within) return;
      const verifier::Finding found = finding(stack, "TDR-05");
      EXPECT_EQ(found.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(found.bugcheck_parameter, 0xDU);
      EXPECT_EQ(found.actual,
                "The adapter would be reset for the 4th time within 50 s. Node 2 did not answer a "
                "preemption request for 3000 ms.");
      EXPECT_EQ(found.expected, "At most 3 adapter resets within 50 s.");
    });
  }
}

TEST_F(TdrReportTest, AThreadThatStaysIsToldHowLong) {
  DXGKIT_COVERS("TDR-04");
  odd_plain([](Stack& stack) {
    stack.expect_leaks = true;
    Client client(stack), other(stack, "other");
    std::atomic<bool> leave{false};
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) -> NTSTATUS {
      while (!leave) pass(runtime::kMillisecond);
      return 0;
    };
    const auto escape = runtime::Runtime::current().spawn("escape", [&] {
      other.call([&] {
        uint32_t data = 0;
        D3DKMT_ESCAPE args{};
        args.hAdapter = other.adapter;
        args.pPrivateDriverData = &data;
        args.PrivateDriverDataSize = sizeof(data);
        return D3DKMTEscape(&args);
      });
    });
    ContextBuffers context = client.make_context(kNode);
    render(client, context);
    wait_out(stack, 2 * kLong + 6900 * runtime::kMillisecond);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    wait_out(stack, 200 * runtime::kMillisecond);
    const verifier::Finding found = finding(stack, "TDR-04");
    EXPECT_EQ(found.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(found.actual, "Threads were inside the driver 7000 ms after the recovery began.");
    EXPECT_EQ(found.expected, "All of them leave within TdrDdiDelay (7000 ms).");
    EXPECT_EQ(found.bugcheck_code, 0x116U);
    EXPECT_EQ(found.bugcheck_parameter, 0U);
    const dxgk::TimeoutReport report = reports(stack).at(0);
    EXPECT_FALSE(report.recovered);
    EXPECT_EQ(report.ended_ns - report.detected_ns, 7 * runtime::kSecond);
    leave = true;
    escape->join();
  });
}

TEST_F(TdrReportTest, ARefusedResetIsToldWithItsStatus) {
  DXGKIT_COVERS("TDR-23");
  odd_plain([](Stack& stack) {
    stack.expect_leaks = true;
    stack.miniport.hooks.restart_from_timeout = [] { return nt_status(Status::kNoMemory); };
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context);
    wait_long(stack);
    const verifier::Finding found = finding(stack, "TDR-23");
    EXPECT_EQ(found.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(found.actual, "It answered 0xC0000017 after a timeout.");
    EXPECT_EQ(found.bugcheck_parameter, 0xC0000017U);
    EXPECT_EQ(stack.statistics().adapter_resets, 0U);
    EXPECT_FALSE(reports(stack).at(0).recovered);
  });
}

// A driver that fails while its other engines have their half second has no more time.
TEST_F(TdrReportTest, ADriverThatFailsMeanwhileIsNotWaitedFor) {
  DXGKIT_COVERS("TDR-11", "INT-11");
  odd_engines([](Stack& stack, EngineResets& resets) {
    stack.expect_leaks = true;
    Client client(stack), other(stack, "other");
    ContextBuffers hung = client.make_context(kNode), neighbour = other.make_context(kOther);
    resets.group = [](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
      args->DependentNodeOrdinalMask = 0b110;
      return 0;
    };
    render(client, hung);
    pass(2 * kLong - 200 * runtime::kMillisecond);
    render(other, neighbour);
    wait_out(stack, 300 * runtime::kMillisecond);
    ASSERT_EQ(stack.miniport.calls().preempts.size(), 2U);
    const int64_t failed_ns = runtime::Runtime::current().now();
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 77));
    pass(runtime::kSecond);
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    const dxgk::TimeoutReport report = reports(stack).at(0);
    EXPECT_FALSE(report.recovered);
    EXPECT_EQ(report.ended_ns, failed_ns);
    EXPECT_THAT(steps(report),
                ElementsAre("Node 2 did not answer a preemption request for 3000 ms.",
                            "DxgkDdiQueryEngineStatus: the engine is not responsive.",
                            "DxgkDdiQueryDependentEngineGroup: nodes 0x6 are reset together."));
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "INT-11"}));
  });
}

// A driver that fails between the two calls of an adapter reset is not started again.
TEST_F(TdrReportTest, ADriverThatFailsInTheCleanUpIsNotRestarted) {
  DXGKIT_COVERS("TDR-24", "CANCEL-18");
  odd_plain([](Stack& stack) {
    stack.expect_leaks = true;
    stack.miniport.hooks.cancel = [](const DXGKARG_CANCELCOMMAND*) {
      return nt_status(Status::kInvalidParameter);
    };
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context, 4);  // the last one waits for room
    wait_long(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "CANCEL-18"}));
    EXPECT_EQ(stack.miniport.count("DxgkDdiResetFromTimeout"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRestartFromTimeout"), 0U);
    EXPECT_EQ(stack.statistics().adapter_resets, 0U);
    EXPECT_FALSE(reports(stack).at(0).recovered);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

}  // namespace
}  // namespace dxgkit::contract
