// What drivers answer to questions about engines that are silent, and what comes of it.
#include "dxgk/exercise.h"
#include "nt/kernel.h"
#include "runtime/sim_time.h"
#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TdrAnswerTest = OddTdrTest;

TEST_F(TdrAnswerTest, AnAnswerBeyondTheReportedIsToldWithBoth) {
  DXGKIT_COVERS("INT-22");
  struct Row {
    uint32_t answer;  // of fences 3 (reported), 4, 5 (on hardware)
    bool found;
  };
  for (const Row& row : {Row{3, false}, Row{4, true}, Row{5, true}, Row{6, false}}) {
    SCOPED_TRACE(row.answer);
    odd_engines([&](Stack& stack, EngineResets&) {
      Client client(stack);
      ContextBuffers context = client.make_context(kNode);
      render(client, context, 3);
      stack.drive();
      render(client, context, 2);
      std::set<UINT> asked;
      stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
        asked.insert(args->NodeOrdinal);
        args->CurrentFence = row.answer;
        return 0;
      };
      wait_out(stack, kLong + 50 * runtime::kMillisecond);
      EXPECT_THAT(asked, ElementsAre(kNode)) << "nobody asks for a node that owes nothing";
      EXPECT_EQ(stack.rules(), row.found ? Strings{"INT-22"} : Strings{});
      if (row.found) {
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kViolation);
        EXPECT_EQ(stack.only_finding().actual,
                  "It answered fence " + std::to_string(row.answer) +
                      " for node 2; fence 3 is the last one reported.");
      }
      stack.miniport.hooks.query_current_fence = nullptr;
      stack.drive();
      stack.miniport.preempted(kNode, stack.miniport.calls().preempts.back().PreemptionFenceId,
                               stack.miniport.last_completed(kNode));
      rest(stack);
      EXPECT_EQ(client.wait_for_idle(), 0);
    });
  }
}

// An engine that gives packets back unrun is told on; one that does so twice without having got on
// loses the adapter, and one that has got on in between is told on again.
TEST_F(TdrAnswerTest, AnEngineThatLosesPacketsIsToldWhichOnesAndHowOften) {
  DXGKIT_COVERS("TDR-01");
  for (const bool gets_on : {false, true}) {
    SCOPED_TRACE(gets_on);
    odd_engines([&](Stack& stack, EngineResets&) {
      stack.miniport.config.auto_preempt = true;
      Client client(stack);
      ContextBuffers context = client.make_context(kNode);
      render(client, context, 4);
      stack.settle();
      ASSERT_TRUE(stack.miniport.complete_next(kNode));
      wait_out(stack, kLong + 50 * runtime::kMillisecond);
      const verifier::Finding found = stack.only_finding();
      EXPECT_EQ(found.rule, "TDR-01");
      EXPECT_EQ(found.severity, verifier::Severity::kViolation);
      EXPECT_EQ(found.confidence, verifier::Confidence::kInferred);
      EXPECT_EQ(found.actual,
                "Node 2 reported nothing for 3000 ms with fence 2 submitted, and "
                "DxgkDdiPreemptCommand answered before it returned that nothing was running "
                "(LastCompletedFenceId 1).");
      EXPECT_EQ(stack.statistics().adapter_resets, 0U);
      if (gets_on) {
        ASSERT_TRUE(stack.miniport.complete_next(kNode));
        stack.settle();
      }
      wait_out(stack, kLong + 50 * runtime::kMillisecond);
      EXPECT_EQ(stack.findings.count("TDR-01"), 2U);
      EXPECT_EQ(stack.statistics().adapter_resets, gets_on ? 0U : 1U);
      if (!gets_on) {
        const dxgk::TimeoutReport report = reports(stack).at(0);
        EXPECT_EQ(report.code, 0x117U);
        EXPECT_EQ(report.node, kNode);
        EXPECT_EQ(report.cause, "Node 2 loses packets.");
        EXPECT_EQ(report.preemption, 0U);
        EXPECT_EQ(report.asked_ns, report.detected_ns) << "nothing was waited for";
      }
      stack.drive();
    });
  }
}

// An engine that answers each preemption and never completes the packet is not silent. It is hung
// all the same after five times, or after ten if it claims to get on.
TEST_F(TdrAnswerTest, APacketThatComesBackForEverIsATimeout) {
  DXGKIT_COVERS("TDR-34", "TDR-10");
  for (const bool responsive : {false, true}) {
    SCOPED_TRACE(responsive);
    odd_engines([&](Stack& stack, EngineResets& resets) {
      Client client(stack);
      ContextBuffers context = client.make_context(kNode);
      int asked = 0;
      resets.status = [&](DXGKARG_QUERYENGINESTATUS* args) {
        ++asked;
        args->EngineStatus.Responsive = responsive ? 1 : 0;
        return 0;
      };
      render(client, context, 2);
      const auto give_back = [&](int times) {
        for (int i = 0; i < times; ++i) {
          const size_t before = stack.miniport.calls().preempts.size();
          wait_out(stack, kLong + 50 * runtime::kMillisecond);
          ASSERT_EQ(stack.miniport.calls().preempts.size(), before + 1);
          stack.miniport.preempted(kNode, stack.miniport.calls().preempts.back().PreemptionFenceId,
                                   stack.miniport.last_completed(kNode));
          rest(stack);
        }
      };
      give_back(4);
      ASSERT_TRUE(stack.miniport.complete_next(kNode));  // so it gets on, and the next one counts
      stack.settle();
      const int most = responsive ? 10 : 5;
      give_back(most - 1);
      EXPECT_EQ(stack.rules(), Strings{});
      EXPECT_EQ(asked, responsive ? 1 : 0);
      EXPECT_THAT(resets.reset_nodes, IsEmpty());
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      give_back(1);
      const verifier::Finding found = stack.only_finding();
      EXPECT_EQ(found.rule, "TDR-34");
      EXPECT_EQ(found.severity, verifier::Severity::kViolation);
      EXPECT_THAT(found.actual,
                  ::testing::StartsWith("Node 2 answered " + std::to_string(most) +
                                        " preemption requests in a row with the same packet "
                                        "uncompleted (LastCompletedFenceId "));
      EXPECT_EQ(asked, 1);
      EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
      EXPECT_EQ(reports(stack).at(0).cause,
                "Node 2 gave one packet back " + std::to_string(most) + " times in a row.");
      stack.drive();
    });
  }
}

// A reset that ends no packet submits all of them again. The second in a row resets the adapter,
// which is counted: otherwise an engine that is dead would be reset for ever.
TEST_F(TdrAnswerTest, AResetThatEndsNothingIsPromotedTheSecondTime) {
  DXGKIT_COVERS("TDR-13", "TDR-05");
  for (const bool gets_on : {false, true}) {
    SCOPED_TRACE(gets_on);
    odd_engines([&](Stack& stack, EngineResets& resets) {
      Client client(stack);
      ContextBuffers context = client.make_context(kNode);
      resets.reset = [&](DXGKARG_RESETENGINE* args) {
        const uint32_t last = stack.miniport.last_completed(kNode);
        stack.miniport.retire(kNode, stack.miniport.outstanding(kNode).back());
        stack.miniport.retire(kNode, last);
        args->LastAbortedFenceId = last;
        return 0;
      };
      render(client, context, 2);
      wait_long(stack);
      EXPECT_EQ(resets.reset_nodes.size(), 1U);
      EXPECT_EQ(stack.findings.count("TDR-13"), 0U);
      if (gets_on) {
        ASSERT_TRUE(stack.miniport.complete_next(kNode));
        stack.settle();
      }
      wait_long(stack);
      EXPECT_EQ(resets.reset_nodes.size(), 2U);
      EXPECT_EQ(stack.findings.count("TDR-13"), gets_on ? 0U : 1U);
      EXPECT_EQ(stack.statistics().adapter_resets, gets_on ? 0U : 1U);
      if (!gets_on) {
        EXPECT_EQ(finding(stack, "TDR-13").actual,
                  "It answered LastAbortedFenceId 0 for node 2 twice, the last completed fence, "
                  "with 2 packets on hardware, and the node completed nothing between the two "
                  "resets.");
      }
      stack.drive();
    });
  }
}

// Time that was granted runs from the answer, once for each request, and no longer.
TEST_F(TdrAnswerTest, AResponsiveEnginesGrantRunsFromTheAnswer) {
  DXGKIT_COVERS("TDR-10");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    std::vector<int64_t> asked;
    resets.status = [&](DXGKARG_QUERYENGINESTATUS* args) {
      EXPECT_EQ(args->NodeOrdinal, kNode);
      asked.push_back(runtime::Runtime::current().now());
      args->EngineStatus.Responsive = 1;
      return 0;
    };
    render(client, context);
    wait_out(stack, 4 * kLong);
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_EQ(asked[1] - asked[0], kLong);
    const std::vector<dxgk::TimeoutReport> all = reports(stack);
    ASSERT_EQ(all.size(), 1U) << "what was granted is no timeout";
    EXPECT_EQ(all[0].detected_ns - all[0].asked_ns, 2 * kLong);
    EXPECT_EQ(stack.findings.count("TDR-01"), 2U);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
    // A new request has its own time, and its own grant.
    Client next(stack, "next");
    ContextBuffers again = next.make_context(kNode);
    render(next, again);
    wait_out(stack, 4 * kLong);
    EXPECT_EQ(asked.size(), 4U);
    EXPECT_EQ(resets.reset_nodes.size(), 2U);
  });
}

// Once the others have given way nothing is waited for.
TEST_F(TdrAnswerTest, TheResetComesAsSoonAsTheOthersGaveWay) {
  DXGKIT_COVERS("TDR-11");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers hung = client.make_context(kNode), one = other.make_context(kOther);
    resets.group = [](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
      args->DependentNodeOrdinalMask = 0b0110;
      return 0;
    };
    int64_t when = 0;
    resets.reset = [&](DXGKARG_RESETENGINE* args) {
      when = runtime::Runtime::current().now();
      return resets.default_reset(args);
    };
    render(client, hung);
    pass(2 * kLong - 200 * runtime::kMillisecond);
    render(other, one);
    wait_out(stack, 300 * runtime::kMillisecond);
    const auto preempts = stack.miniport.calls().preempts;
    ASSERT_EQ(preempts.size(), 2U);
    const int64_t gave_way = runtime::Runtime::current().now();
    stack.miniport.preempted(kOther, preempts[1].PreemptionFenceId, 0);
    rest(stack);
    EXPECT_EQ(when, gave_way);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
    EXPECT_EQ(reports(stack).at(0).ended_ns, gave_way);
    stack.drive();
    EXPECT_EQ(other.wait_for_idle(), 0);
  });
}

// An engine that cannot be preempted is asked for nothing: it gives way when it has nothing left.
TEST_F(TdrAnswerTest, ANodeThatCannotBePreemptedGivesWayWhenItIsEmpty) {
  DXGKIT_COVERS("TDR-11");
  engines(
      [](Stack& stack, EngineResets& resets) {
        Client client(stack), other(stack, "other");
        ContextBuffers hung = client.make_context(kNode), one = other.make_context(kOther);
        bool asked = false;
        resets.group = [&](DXGKARG_QUERYDEPENDENTENGINEGROUP* args) {
          asked = true;
          args->DependentNodeOrdinalMask = 0b0110;
          return 0;
        };
        render(client, hung);
        for (int i = 0; i < 100 && !asked; ++i) {  // always with something young on hardware
          for (const uint32_t fence : stack.miniport.outstanding(kOther))
            stack.miniport.complete(kOther, fence);
          render(other, one);
          wait_out(stack, 100 * runtime::kMillisecond);
        }
        ASSERT_TRUE(asked);
        ASSERT_EQ(stack.miniport.outstanding(kOther).size(), 1U);
        wait_out(stack, 100 * runtime::kMillisecond);
        EXPECT_THAT(resets.reset_nodes, IsEmpty());
        stack.miniport.complete(kOther, stack.miniport.outstanding(kOther)[0]);
        rest(stack);
        EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode)) << "500 ms have not passed";
        EXPECT_EQ(stack.miniport.count("DxgkDdiPreemptCommand"), 0U);
        EXPECT_EQ(other.wait_for_idle(), 0);
      },
      policy(),
      [](ScriptedMiniport& miniport) {
        odd_driver(miniport);
        miniport.config.preemption_aware = false;
      });
}

// What the driver reports while it is asked is fatal: the machine would stand still, so that nobody
// asks for the other node, preempts, or resets anything.
TEST_F(TdrAnswerTest, ADriverThatIsStoppedWhileItIsAskedIsAskedNothingMore) {
  DXGKIT_COVERS("INT-22", "INT-11");
  odd_engines([](Stack& stack, EngineResets& resets) {
    stack.expect_leaks = true;
    Client client(stack);
    ContextBuffers one = client.make_context(kOther), two = client.make_context(kNode);
    render(client, one);
    render(client, two);
    std::vector<UINT> asked;
    stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
      asked.push_back(args->NodeOrdinal);
      stack.miniport.raise(ScriptedMiniport::completed_data(args->NodeOrdinal, 77));
      return stack.miniport.default_query_current_fence(args);
    };
    wait_long(stack);
    EXPECT_THAT(asked, ElementsAre(kOther));
    EXPECT_EQ(stack.rules(), Strings{"INT-11"});
    EXPECT_TRUE(stack.miniport.calls().preempts.empty());
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_THAT(reports(stack), IsEmpty());
  });
}

// An answer inside the call is only told on if the watch had asked: to a request of the scheduler's
// an engine may answer as fast as it can.
TEST_F(TdrAnswerTest, AFastAnswerToTheSchedulerIsNoLoss) {
  DXGKIT_COVERS("TDR-01", "PREEMPT-06");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers low = client.make_context(kNode), high = client.make_context(kNode);
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority{.hContext = low.handle, .Priority = -1};
    ASSERT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&priority); }), 0);
    render(client, low, 4);
    stack.settle();
    ASSERT_TRUE(stack.miniport.complete_next(kNode));
    pass(kLong + 50 * runtime::kMillisecond);
    rest(stack);
    ASSERT_EQ(stack.miniport.calls().preempts.size(), 1U) << "the watch asked";
    stack.miniport.preempted(kNode, stack.miniport.calls().preempts[0].PreemptionFenceId, 1);
    rest(stack);
    stack.miniport.config.auto_preempt = true;
    render(client, high);
    rest(stack);
    ASSERT_EQ(stack.miniport.calls().preempts.size(), 2U) << "the scheduler asks";
    EXPECT_EQ(stack.rules(), Strings{});
    stack.drive();
    EXPECT_EQ(client.wait_for_idle(), 0);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_EQ(stack.rules(), Strings{});
  });
}

// The machine stands still twice while an engine owes an answer: it is excused once.
TEST_F(TdrAnswerTest, AnEngineIsExcusedOnce) {
  DXGKIT_COVERS("TDR-01");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context);
    pass(kLong + 50 * runtime::kMillisecond);
    rest(stack);
    ASSERT_EQ(stack.miniport.calls().preempts.size(), 1U);
    for (const size_t times : {0U, 1U}) {
      runtime::sim_jump(runtime::Runtime::current(), 60 * runtime::kSecond);
      rest(stack);
      EXPECT_EQ(resets.reset_nodes.size(), times);
    }
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
  });
}

// Who waits for nothing else may have silent nodes asked sooner. They time out as late as ever.
TEST_F(TdrAnswerTest, SilentNodesMayBeAskedSooner) {
  DXGKIT_COVERS("TDR-01");
  constexpr int64_t kSoon = 100 * runtime::kMillisecond;
  odd_engines([](Stack& stack, EngineResets& resets) {
    dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
    const auto asked = [&] { return stack.miniport.calls().preempts.size(); };
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    render(client, context);
    pass(kSoon);
    exercise.ask_silent_nodes_after(2 * kSoon);
    pass(kSoon - runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(asked(), 0U);
    pass(2 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.statistics().watch_preemptions, 1U);
    ASSERT_EQ(asked(), 1U);
    stack.miniport.preempted(kNode, stack.miniport.calls().preempts.back().PreemptionFenceId,
                             stack.miniport.last_completed(kNode));
    rest(stack);  // it is submitted again
    exercise.ask_silent_nodes_after(0);
    pass(kLong - runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(asked(), 1U);
    pass(2 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(asked(), 2U);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    exercise.ask_silent_nodes_after(kSoon);  // what was asked has its whole TdrDelay
    pass(kLong - 10 * runtime::kMillisecond);
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    pass(20 * runtime::kMillisecond);
    rest(stack);
    EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
  });
}

// One that cannot preempt is not called a hang before TdrDelay.
TEST_F(TdrAnswerTest, ASilentNodeThatCannotPreemptKeepsItsTdrDelay) {
  DXGKIT_COVERS("TDR-01");
  engines(
      [](Stack& stack, EngineResets& resets) {
        dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
        exercise.ask_silent_nodes_after(100 * runtime::kMillisecond);
        Client client(stack);
        ContextBuffers context = client.make_context(kNode);
        render(client, context);
        pass(kLong - runtime::kMillisecond);
        rest(stack);
        EXPECT_THAT(resets.reset_nodes, IsEmpty());
        EXPECT_THAT(stack.miniport.calls().preempts, IsEmpty());
        pass(2 * runtime::kMillisecond);
        rest(stack);
        EXPECT_THAT(resets.reset_nodes, ElementsAre(kNode));
      },
      policy(),
      [](ScriptedMiniport& miniport) {
        odd_driver(miniport);
        miniport.config.preemption_aware = false;
      });
}

// Who provokes timeouts to see a driver recover may have as many as it takes, and may have the
// adapter reset by a driver that could reset one engine.
TEST_F(TdrAnswerTest, ProvokedTimeoutsCountForNothing) {
  using Provoked = dxgk::ProvokedTimeouts;
  DXGKIT_COVERS("TDR-05", "TDR-06");
  for (const Provoked provoked : {Provoked::kAnyReset, Provoked::kAdapterReset}) {
    SCOPED_TRACE(static_cast<int>(provoked));
    engines([provoked](Stack& stack, EngineResets& resets) {
      dxgk::Exercise exercise = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
      const bool adapter = provoked == Provoked::kAdapterReset;
      const uint32_t limit = exercise.timeout_policy().limit_count;
      Client client(stack);
      const auto hang = [&] {
        const D3DKMT_HANDLE device = client.make_device();
        ContextBuffers context;
        ASSERT_EQ(client.create_context(&context, 0, device), 0);
        render(client, context);
        wait_out(stack);
        EXPECT_EQ(client.destroy_device(device), 0);
      };
      for (uint32_t i = 0; i <= limit; ++i) {
        exercise.provoke_timeouts(provoked);
        hang();
      }
      EXPECT_EQ(stack.statistics().engine_resets, adapter ? 0 : limit + 1);
      EXPECT_EQ(stack.statistics().adapter_resets, adapter ? limit + 1 : 0);
      EXPECT_EQ(stack.statistics().watch_preemptions, limit + 1);
      for (const dxgk::TimeoutReport& report : reports(stack)) {
        EXPECT_EQ(report.code, adapter ? 0x117U : 0x141U);
        EXPECT_EQ(report.aborted.has_value(), !adapter);
        if (!adapter) {
          EXPECT_EQ(report.aborted, report.fence);
        }
        EXPECT_FALSE(report.granted);
      }
      // The next one was not provoked.
      resets.status = [](DXGKARG_QUERYENGINESTATUS* args) {
        args->EngineStatus.Responsive = 1;
        return 0;
      };
      hang();
      wait_out(stack);
      EXPECT_EQ(stack.statistics().engine_resets, adapter ? 1 : limit + 2);
      EXPECT_TRUE(reports(stack).back().granted);
    });
  }
}

// Each node has its own grant: that of one says nothing of another's packet.
TEST_F(TdrAnswerTest, PacketsOfTwoNodesThatComeBackAreExcusedOnceEach) {
  DXGKIT_COVERS("TDR-34", "TDR-10");
  odd_engines([](Stack& stack, EngineResets& resets) {
    Client client(stack), other(stack, "other");
    ContextBuffers one = client.make_context(kNode), two = other.make_context(kOther);
    std::vector<UINT> asked;
    resets.status = [&](DXGKARG_QUERYENGINESTATUS* args) {
      asked.push_back(args->NodeOrdinal);
      args->EngineStatus.Responsive = 1;
      return 0;
    };
    render(client, one);
    render(other, two);
    const auto give_back = [&](int times) {
      for (int i = 0; i < times; ++i) {
        const size_t before = stack.miniport.calls().preempts.size();
        wait_out(stack, kLong + 50 * runtime::kMillisecond);
        const std::vector<DXGKARG_PREEMPTCOMMAND> all = stack.miniport.calls().preempts;
        ASSERT_EQ(all.size(), before + 2);
        for (size_t k = before; k < all.size(); ++k)
          stack.miniport.preempted(all[k].NodeOrdinal, all[k].PreemptionFenceId, 0);
        rest(stack);
      }
    };
    give_back(9);
    EXPECT_THAT(asked, ::testing::UnorderedElementsAre(kNode, kOther));
    EXPECT_EQ(stack.rules(), Strings{});
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    give_back(1);
    EXPECT_EQ(stack.findings.count("TDR-34"), 2U);
    EXPECT_THAT(resets.reset_nodes, ::testing::UnorderedElementsAre(kNode, kOther));
    stack.drive();
  });
}

// A driver that stops the machine when it is asked about such a packet is blamed for that alone.
TEST_F(TdrAnswerTest, ADriverThatFailsWhenItIsAskedForAPacketIsNotBlamedForThatToo) {
  DXGKIT_COVERS("TDR-34", "NT-21");
  odd_engines([](Stack& stack, EngineResets& resets) {
    stack.expect_leaks = true;
    Client client(stack);
    ContextBuffers context = client.make_context(kNode);
    size_t asked = 0;
    resets.status = [&](DXGKARG_QUERYENGINESTATUS* args) {
      ++asked;
      args->EngineStatus.Responsive = 0;
      reinterpret_cast<void(NTAPI*)(uint32_t)>(
          const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
      return 0;
    };
    render(client, context);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(asked, 0U);
      wait_out(stack, kLong + 50 * runtime::kMillisecond);
      stack.miniport.preempted(kNode, stack.miniport.calls().preempts.back().PreemptionFenceId, 0);
      rest(stack);
    }
    EXPECT_EQ(asked, 1U);
    EXPECT_EQ(stack.rules(), Strings{"NT-21"});
    EXPECT_THAT(resets.reset_nodes, IsEmpty());
    EXPECT_THAT(reports(stack), IsEmpty());
  });
}

// Who does not care for recoveries has an adapter end at its first timeout if it has never
// completed anything. What has completed something, owes only an answer, or was provoked is
// recovered as ever.
TEST_F(TdrAnswerTest, ASilentAdapterMayEndAtItsFirstTimeout) {
  DXGKIT_COVERS("TDR-01");
  struct Row {
    const char* sentence;
    bool asked, completed, idle, provoked;
  };
  for (const Row& row : {Row{"nothing has ever completed", true, false, false, false},
                         {"nobody asked for that", false, false, false, false},
                         {"something has completed", true, true, false, false},
                         {"nothing was ever submitted", true, false, true, false},
                         {"the timeout was provoked", true, false, false, true}}) {
    SCOPED_TRACE(row.sentence);
    bare([&](Stack& stack) {
      const bool ends = row.asked && !row.completed && !row.idle && !row.provoked;
      stack.expect_leaks = ends;
      EngineResets resets(stack.miniport);
      odd_driver(stack.miniport);
      stack.options.timeouts = policy();
      stack.options.silence_ends_it = row.asked;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      pass(1234 * runtime::kMillisecond);
      Client client(stack);
      ContextBuffers context = client.make_context(kNode);
      if (row.completed) {
        render(client, context);
        stack.drive();
      }
      if (row.provoked)
        dxgk::Exercise::on(*stack.system, stack.luid)
            ->provoke_timeouts(dxgk::ProvokedTimeouts::kAnyReset);
      if (row.idle) {
        stack.adapter().core().lane().run([&] {
          EXPECT_TRUE(stack.adapter().core().scheduler().request_preemption(NodeOrdinal{kNode}));
        });
      } else {
        render(client, context);
      }
      wait_long(stack);
      EXPECT_EQ(stack.adapter().core().running(), !ends);
      EXPECT_EQ(stack.miniport.calls().preempts.size(), ends ? 0U : 1U);
      EXPECT_EQ(stack.statistics().engine_resets, ends ? 0U : 1U);
      if (!ends) {
        stack.drive();
        return;
      }
      const verifier::Finding found = stack.only_finding();
      EXPECT_EQ(found.rule, "TDR-01");
      EXPECT_EQ(found.severity, verifier::Severity::kViolation);
      EXPECT_TRUE(found.dooms);
      EXPECT_EQ(found.actual,
                "Node 2 took fence 1 and reported nothing for 3000 ms. It has never reported a "
                "completion.");
      EXPECT_THAT(reports(stack), IsEmpty());
      EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
