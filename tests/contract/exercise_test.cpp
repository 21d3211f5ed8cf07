// What `dxgkit verify` asks of an adapter beside clients' work: the driver's answers are judged,
// and what does not come to pass leaves nothing behind.
#include "dxgk/exercise.h"

#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

class ExerciseTest : public ContractTest {
 protected:
  static dxgk::Exercise on(Stack& stack) {
    return std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
  }
};

// An idle node that is asked to preempt answers; one that does not is found, and one that cannot is
// not asked.
TEST_F(ExerciseTest, AnIdleNodeAnswersAPreemption) {
  DXGKIT_COVERS("PREEMPT-06");
  for (const bool answers : {true, false}) {
    SCOPED_TRACE(answers);
    with_client([&](Stack& stack, Client&) {
      stack.miniport.config.auto_preempt = answers;
      stack.expect_leaks = !answers;
      const int64_t before = runtime::Runtime::current().now();
      Status status = Status::kRetry;
      stack.blocking([&] { status = on(stack).preempt_idle(NodeOrdinal{1}); });
      EXPECT_EQ(stack.miniport.calls().preempts.at(0).NodeOrdinal, 1U);
      if (answers) {
        EXPECT_EQ(status, Status::kSuccess);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_LT(runtime::Runtime::current().now() - before, stack.options.tdr_delay_ns / 2);
        return;
      }
      EXPECT_EQ(status, Status::kDeviceRemoved);
      ASSERT_EQ(stack.rules(), (std::vector<std::string>{"PREEMPT-07", "PREEMPT-06"}));
      EXPECT_NE(stack.findings.all()[1].actual.find("Node 1"), std::string::npos);
      stack.blocking(
          [&] { EXPECT_EQ(on(stack).preempt_idle(NodeOrdinal{1}), Status::kDeviceRemoved); });
    });
  }
  with_client(
      [&](Stack& stack, Client&) {
        stack.blocking(
            [&] { EXPECT_EQ(on(stack).preempt_idle(NodeOrdinal{0}), Status::kNotSupported); });
        EXPECT_EQ(stack.miniport.count("DxgkDdiPreemptCommand"), 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

// A driver that describes itself otherwise when it is asked again is told of what has changed.
TEST_F(ExerciseTest, AnswersThatChangeAreFound) {
  DXGKIT_COVERS("LIFE-17");
  struct Row {
    const char* sentence;
    void (*change)(dxgkit::testing::ScriptedConfig& config);
    const char* actual;
  };
  const Row rows[] = {
      {"flags of the first", [](auto& c) { c.segments[0].flags.PreservedDuringStandby = 1; },
       "The description of segment 1 has changed."},
      {"size of the second",
       [](auto& c) {
         c.segments[1].commit_limit = c.segments[1].size;  // which stays
         c.segments[1].size += 4096;
       },
       "The description of segment 2 has changed."},
      {"base of the last", [](auto& c) { c.segments[2].base_address += 0x1'0000'0000; },
       "The description of segment 3 has changed."},
      {"place for the CPU", [](auto& c) { c.segments[0].cpu_translated_address = 0x8'0000'0000; },
       "The description of segment 1 has changed."},
      {"commit limit", [](auto& c) { c.segments[2].commit_limit = c.segments[2].size / 2; },
       "The description of segment 3 has changed."},
      {"one less", [](auto& c) { c.segments.pop_back(); },
       "There were 3 segments, there are 2 now."},
      {"bytes of a paging buffer", [](auto& c) { c.paging_buffer_bytes *= 2; },
       "The description of the paging buffer has changed."},
      {"private bytes of a paging buffer", [](auto& c) { c.paging_private_bytes += 8; },
       "The description of the paging buffer has changed."},
      {"segment of paging buffers", [](auto& c) { c.paging_buffer_segment = 3; },
       "The description of the paging buffer has changed."},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    with_client([&](Stack& stack, Client&) {
      EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
      ASSERT_EQ(stack.rules(), std::vector<std::string>{});
      const dxgkit::testing::ScriptedConfig before = stack.miniport.config;
      row.change(stack.miniport.config);
      EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
      stack.miniport.config = before;
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "LIFE-17");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.actual, row.actual);
    });
  }
}

// What a client lists stays where it is, but not against somebody who pages it out by hand.
TEST_F(ExerciseTest, WhatIsListedIsPagedOutByHand) {
  DXGKIT_COVERS("RES-14");
  with_client(
      [](Stack& stack, Client&) {
        ListingClient client(stack);
        const D3DKMT_HANDLE listed = client.make(2);
        EXPECT_GE(client.make_resident({listed}), 0);
        stack.drive();
        ASSERT_TRUE(client.in_memory(listed));
        stack.blocking(
            [&] { EXPECT_EQ(on(stack).memory().page_out(*client.process, listed), Status::kSuccess); });
        EXPECT_FALSE(client.in_memory(listed));
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      explicit_residency);
}

// A reset that takes the content is a success only if the driver is there afterwards.
TEST_F(ExerciseTest, AResetThatTheDriverDoesNotSurviveIsNoSuccess) {
  DXGKIT_COVERS("TDR-24");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE hidden = client.make_allocation(64 * kKibibyte, 1U << 1);
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(fails);
      ASSERT_EQ(client.render(context, work_on({hidden})), 0);
      stack.drive();
      if (fails) {
        stack.expect_leaks = true;
        stack.miniport.hooks.build_paging = [](DXGKARG_BUILDPAGINGBUFFER*) {
          return nt_status(Status::kUnsuccessful);
        };
      }
      stack.blocking([&] {
        EXPECT_EQ(on(stack).reset_losing_content(),
                  fails ? Status::kDeviceRemoved : Status::kSuccess);
      });
      EXPECT_EQ(stack.rules().size(), fails ? 1U : 0U);
    }
  });
}

// Every idle node is asked what it has completed; one that says less than it has reported is found,
// and a busy one is not asked.
TEST_F(ExerciseTest, EachIdleNodeSaysItsFence) {
  DXGKIT_COVERS("INT-22");
  with_client(
      [&](Stack& stack, Client& client) {
        ContextBuffers contexts[] = {client.make_context(0), client.make_context(1),
                                     client.make_context(2)};
        for (ContextBuffers& context : contexts) {
          for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(context, Work{}), 0);
        }
        stack.drive();
        ASSERT_EQ(client.render(contexts[1], Work{}), 0);
        stack.settle();
        std::vector<UINT> asked;
        stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) {
          asked.push_back(args->NodeOrdinal);
          args->CurrentFence =
              stack.miniport.last_completed(args->NodeOrdinal) - (args->NodeOrdinal == 2 ? 1 : 0);
          return nt_status(Status::kSuccess);
        };
        const Result<uint32_t> answered = on(stack).query_fences();
        ASSERT_TRUE(answered.has_value());
        EXPECT_EQ(*answered, 2U);
        EXPECT_EQ(asked, (std::vector<UINT>{0, 2}));
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "INT-22");
        EXPECT_NE(finding.actual.find("Node 2 is idle"), std::string::npos) << finding.actual;
        stack.miniport.hooks.query_current_fence = nullptr;
        stack.drive();
      },
      [](ScriptedMiniport& miniport) { miniport.config.nodes = 3; });
}

// An adapter that has failed says that it is gone, and its driver is not asked.
TEST_F(ExerciseTest, AnAdapterThatHasFailedIsNotAsked) {
  DXGKIT_COVERS("LIFE-18");
  with_client([](Stack& stack, Client&) {
    dxgk::Exercise by_hand = on(stack);
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 0x70000000));
    stack.settle();
    ASSERT_EQ(stack.rules(), std::vector<std::string>{"INT-11"});
    const size_t calls = stack.miniport.calls().order.size();
    const std::vector<std::byte> page(4096);
    stack.blocking([&] {
      EXPECT_EQ(by_hand.query_fences().error(), Status::kDeviceRemoved);
      EXPECT_EQ(by_hand.memory().write_plain(SegmentId{9}, 0, page), Status::kDeviceRemoved);
      EXPECT_EQ(by_hand.memory().read_plain(SegmentId{9}, 0, 4096).error(), Status::kDeviceRemoved);
      EXPECT_EQ(by_hand.memory().touch(SegmentId{9}, 0, true), Status::kDeviceRemoved);
      EXPECT_EQ(by_hand.preempt_idle(NodeOrdinal{0}), Status::kDeviceRemoved);
      EXPECT_EQ(by_hand.power_cycle(), Status::kDeviceRemoved);
    });
    EXPECT_EQ(stack.miniport.calls().order.size(), calls);
    EXPECT_EQ(stack.rules().size(), 1U);
  });
}

// Content that cannot leave its segment stays, and the driver is not told that power goes.
TEST_F(ExerciseTest, APowerCycleNeedsAllContentToLeave) {
  DXGKIT_COVERS("PWR-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE used = client.make_allocation(64 * kKibibyte, 2);
    ASSERT_EQ(client.render(context, work_on({used})), 0);
    stack.settle();
    while (stack.miniport.complete_next(1)) stack.settle();  // it is there, and in use
    const Status status = on(stack).power_cycle();
    EXPECT_EQ(status, Status::kGraphicsAllocationBusy);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerState"), 0U);
    stack.drive();
    stack.blocking([&] { EXPECT_EQ(on(stack).power_cycle(), Status::kSuccess); });
    EXPECT_EQ(stack.miniport.count("DxgkDdiSetPowerState"), 2U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What comes back of a segment was carried out of it by the driver: one that carries nothing shows
// neither what was put in nor what was there before.
TEST_F(ExerciseTest, WhatTheDriverDoesNotCarryDoesNotComeBack) {
  with_client([](Stack& stack, Client&) {
    const std::vector<std::byte> content(2 * 4096, std::byte{0x3C});
    stack.blocking([&] {
      const auto back = on(stack).memory().through_segment(SegmentId{2}, content, 0);
      ASSERT_TRUE(back.has_value());
      EXPECT_EQ(*back, std::vector<std::byte>(2 * 4096, std::byte{0xDB}));
    });
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Content that no segment has room for, or that goes to a segment there is not, costs nothing.
TEST_F(ExerciseTest, WhatDoesNotFitThroughASegmentLeavesNoPages) {
  with_client(
      [](Stack& stack, Client& client) {
        const Digest before = digest(stack, {&client});
        for (const uint32_t segment : {0U, 2U, 3U, 4U}) {
          SCOPED_TRACE(segment);
          stack.blocking([&] {
            EXPECT_FALSE(
                on(stack).memory().through_segment(SegmentId{segment}, {}, kMebibyte + 4096).has_value());
          });
          EXPECT_EQ(digest(stack, {&client}), before);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

}  // namespace
}  // namespace dxgkit::contract
