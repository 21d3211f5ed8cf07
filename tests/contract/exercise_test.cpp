// What `dxgkit verify` asks of an adapter beside clients' work: the driver's answers are judged,
// and what does not come to pass leaves nothing behind.
#include "dxgk/exercise.h"

#include <algorithm>

#include "dxgk/inspection.h"
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

// The silence of an idle node is told before it would count as a timeout, however late it is.
TEST_F(ExerciseTest, TheSilenceOfAnIdleNodeIsNoTimeout) {
  DXGKIT_COVERS("PREEMPT-06");
  with_client([](Stack& stack, Client&) {
    stack.expect_leaks = true;
    const int64_t delay = stack.options.tdr_delay_ns;
    runtime::Runtime::current().sleep_for(2 * delay);
    const int64_t before = runtime::Runtime::current().now();
    stack.blocking(
        [&] { EXPECT_EQ(on(stack).preempt_idle(NodeOrdinal{0}), Status::kDeviceRemoved); });
    const int64_t waited = runtime::Runtime::current().now() - before;
    EXPECT_GE(waited, delay / 10 * 9);
    EXPECT_LT(waited, delay);
    ASSERT_EQ(stack.rules(), (std::vector<std::string>{"PREEMPT-07", "PREEMPT-06"}));
    EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x116U);
  });
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

TEST_F(ExerciseTest, CapsThatChangeAreFoundByTheirByte) {
  DXGKIT_COVERS("LIFE-17");
  with_client([](Stack& stack, Client&) {
    stack.miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.MaxPointerWidth = 0x40; };
    EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
    stack.miniport.config.caps = nullptr;
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "LIFE-17");
    char text[80];
    std::snprintf(text, sizeof text, "Byte 0x%zx of DXGK_DRIVERCAPS was 0x00 and is 0x40 now.",
                  offsetof(DXGK_DRIVERCAPS, MaxPointerWidth));
    EXPECT_EQ(finding.actual, text);
  });
}

TEST_F(ExerciseTest, BanksThatChangeAreFound) {
  DXGKIT_COVERS("LIFE-17");
  static SIZE_T ends[2];
  ends[0] = 64 * kKibibyte;
  ends[1] = kMebibyte;
  with_client(
      [](Stack& stack, Client&) {
        EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        ends[0] += 4096;
        EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
        EXPECT_EQ(stack.only_finding().actual, "The description of segment 2 has changed.");
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_VISTA;
        miniport.config.preemption_aware = miniport.config.cancel_command_aware = false;
        dxgkit::testing::ScriptedSegment& segment = miniport.config.segments[1];
        segment.size = kMebibyte;
        segment.flags.UseBanking = 1;
        segment.bank_count = 2;
        segment.bank_table = ends;
      });
}

// Ranges that a driver calls bad later were used already.
TEST_F(ExerciseTest, BadRangesThatChangeAreFound) {
  DXGKIT_COVERS("LIFE-17");
  with_client(
      [](Stack& stack, Client&) {
        EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
        stack.miniport.config.segments[1].bad_ranges[0].offset += 4096;
        EXPECT_EQ(on(stack).repeat_queries(), Status::kSuccess);
        EXPECT_EQ(stack.only_finding().actual, "The description of segment 2 has changed.");
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.segments[1].bad_ranges = {{8192, 4096}};
        miniport.config.segments[1].invalid_ranges = 1;
      });
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
        stack.blocking([&] {
          EXPECT_EQ(on(stack).memory().page_out(*client.process, listed), Status::kSuccess);
        });
        EXPECT_FALSE(client.in_memory(listed));
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      explicit_residency);
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
            EXPECT_FALSE(on(stack)
                             .memory()
                             .through_segment(SegmentId{segment}, {}, kMebibyte + 4096)
                             .has_value());
          });
          EXPECT_EQ(digest(stack, {&client}), before);
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

// The exerciser works on running adapters only, which its makers name.
TEST_F(ExerciseTest, OnlyARunningAdapterIsExercised) {
  with_client([](Stack& stack, Client&) {
    const dxgk::Luid other{.low = stack.luid.low + 1, .high = stack.luid.high};
    EXPECT_EQ(dxgk::Exercise::on(*stack.system, other).error(), Status::kInvalidParameter);
    EXPECT_EQ(dxgk::Inspection::of(*stack.system, other).error(), Status::kInvalidParameter);
    EXPECT_TRUE(dxgk::Inspection::of(*stack.system, stack.luid).has_value());
  });
}

// A bus address is the CPU's where one BAR, or system memory, has all of its bytes.
TEST_F(ExerciseTest, TheCpuReachesMemoryBarsAndSystemMemory) {
  DXGKIT_COVERS("SEG-19");
  with_client([](Stack& stack, Client&) {
    const bus::Bar bar = stack.miniport.function().bars()[1];
    const dxgk::Exercise exercise = on(stack);
    const uint64_t begin = bar.base.value, end = begin + bar.size;
    EXPECT_TRUE(exercise.cpu_reaches(begin, bar.size));
    EXPECT_TRUE(exercise.cpu_reaches(end - 4096, 4096));
    EXPECT_FALSE(exercise.cpu_reaches(end - 4096, 4097));
    EXPECT_FALSE(exercise.cpu_reaches(end, 1));
    EXPECT_FALSE(exercise.cpu_reaches(begin - 1, 2));
    const uint64_t highest = stack.machine.highest_system_address().value;
    EXPECT_TRUE(exercise.cpu_reaches(highest - 4095, 4096)) << "system memory";
    EXPECT_TRUE(exercise.cpu_reaches(highest, 1));
    EXPECT_FALSE(exercise.cpu_reaches(highest, 2));
  });
}

// Fence ids of every node go on just below the next multiple of a quarter of all of them, once the
// adapter is idle, so that they wrap with the fourth call.
TEST_F(ExerciseTest, FencesGoOnJustBelowTheNextQuarter) {
  DXGKIT_COVERS("SUB-13");
  with_client([](Stack& stack, Client& client) {
    constexpr uint32_t kQuarter = 1U << 30;
    ContextBuffers contexts[] = {client.make_context(0), client.make_context(1)};
    const auto fences_of = [&](uint32_t node) {
      std::vector<uint32_t> fences;
      for (const testing::SubmitCall& call : stack.miniport.calls().submits) {
        if (call.args.NodeOrdinal == node) fences.push_back(call.args.SubmissionFenceId);
      }
      return fences;
    };
    for (uint32_t round = 1; round <= 4; ++round) {
      SCOPED_TRACE(round);
      for (ContextBuffers& context : contexts) ASSERT_EQ(client.render(context, Work{}), 0);
      stack.settle();
      {
        Stack::Background skipping(stack, [&] { on(stack).skip_fences(3); });
        EXPECT_FALSE(skipping.finished()) << "there is work";
        skipping.finish();
      }
      stack.drive();
      stack.miniport.clear_calls();
      for (ContextBuffers& context : contexts) {
        for (int i = 0; i < 4; ++i) ASSERT_EQ(client.render(context, Work{}), 0);
      }
      stack.drive();
      const uint32_t turn = round * kQuarter;  // 0 at last, which is no fence id
      const std::vector<uint32_t> wanted = {turn - 3, turn - 2, turn - 1, turn == 0 ? 1 : turn};
      EXPECT_EQ(fences_of(0), wanted);
      EXPECT_EQ(fences_of(1), wanted);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A node that does not say its fence is told of; a driver without the entry is asked by nobody.
TEST_F(ExerciseTest, AnIdleNodeThatDoesNotSayItsFenceIsFound) {
  DXGKIT_COVERS("INT-22");
  with_client([](Stack& stack, Client&) {
    stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) -> NTSTATUS {
      if (args->NodeOrdinal == 1) return nt_status(Status::kUnsuccessful);
      args->CurrentFence = stack.miniport.last_completed(0);
      return 0;
    };
    const Result<uint32_t> answered = on(stack).query_fences();
    ASSERT_TRUE(answered.has_value());
    EXPECT_EQ(*answered, 1U);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "INT-22");
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.actual, "It answered 0xC0000001 for node 1, which is idle.");
    stack.miniport.hooks.query_current_fence = nullptr;
  });
  with_client(
      [](Stack& stack, Client&) {
        const Result<uint32_t> answered = on(stack).query_fences();
        ASSERT_TRUE(answered.has_value());
        EXPECT_EQ(*answered, 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiQueryCurrentFence = nullptr;
        };
      });
}

TEST_F(ExerciseTest, AnInterruptOfAnotherDeviceComesOnce) {
  DXGKIT_COVERS("INT-08");
  for (const bool claims : {false, true}) {
    SCOPED_TRACE(claims);
    with_client([&](Stack& stack, Client&) {
      int calls = 0;
      stack.miniport.hooks.interrupt = [&](ULONG) -> BOOLEAN {
        ++calls;
        return claims ? TRUE : FALSE;
      };
      on(stack).interrupt_of_another_device();
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(stack.rules(),
                claims ? std::vector<std::string>{"INT-08"} : std::vector<std::string>{});
      stack.miniport.hooks.interrupt = nullptr;
    });
  }
}

// Debug information is asked for as after a timeout of the adapter, in as many bytes as are given.
TEST_F(ExerciseTest, DebugInformationFitsIntoWhatIsGiven) {
  DXGKIT_COVERS("TDR-29");
  static std::vector<DXGKARG_COLLECTDBGINFO> asked;
  static size_t too_much;
  for (const size_t more : {0, 1}) {
    asked.clear();
    too_much = more;
    with_client(
        [&](Stack& stack, Client&) {
          on(stack).collect_debug_info(40);
          ASSERT_EQ(asked.size(), 1U);
          EXPECT_EQ(asked[0].Reason, 0x117U);
          EXPECT_EQ(asked[0].BufferSize, 40U);
          EXPECT_EQ(stack.rules(),
                    more == 0 ? std::vector<std::string>{} : std::vector<std::string>{"TDR-29"});
        },
        [](ScriptedMiniport& miniport) {
          miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
            table.DxgkDdiCollectDbgInfo = [](HANDLE, const DXGKARG_COLLECTDBGINFO* args)
                                              NTAPI -> NTSTATUS {
              asked.push_back(*args);
              std::fill_n(static_cast<char*>(args->pBuffer), args->BufferSize + too_much, 'x');
              return STATUS_SUCCESS;
            };
          };
        });
  }
}

// With other bytes in the outputs, what changes is what the driver did not write.
TEST_F(ExerciseTest, OutputsThatAreFilledShowWhatIsNotWritten) {
  DXGKIT_COVERS("LIFE-29");
  constexpr std::byte kFill{0xA5};
  struct Row {
    const char* ddi;
    const char* actual;
    int type;   // of QueryAdapterInfo; -1: node metadata
    size_t at;  // the member that keeps what is there
  };
  const Row rows[] = {
      {"DxgkDdiQueryAdapterInfo", "The description of segment 2 has changed.",
       DXGKQAITYPE_QUERYSEGMENT3,
       sizeof(DXGK_SEGMENTDESCRIPTOR3) + offsetof(DXGK_SEGMENTDESCRIPTOR3, CommitLimit)},
      {"DxgkDdiGetNodeMetadata", "The metadata of node 1 have changed.", -1,
       offsetof(DXGKARG_GETNODEMETADATA, FriendlyName)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.actual);
    with_client([&](Stack& stack, Client&) {
      bool writes = true;
      stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        auto* segments = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
        const bool mine = args->Type == row.type && segments->pSegmentDescriptor != nullptr;
        auto* const bytes = mine ? reinterpret_cast<std::byte*>(segments->pSegmentDescriptor)
                                 : static_cast<std::byte*>(args->pOutputData);
        const std::byte before = bytes[mine ? row.at : 0];
        const NTSTATUS status = stack.miniport.default_query_adapter_info(args);
        if (mine && !writes) bytes[row.at] = before;
        return status;
      };
      std::vector<std::byte> seen;
      stack.miniport.hooks.get_node_metadata = [&](UINT node,
                                                   DXGKARG_GETNODEMETADATA* args) -> NTSTATUS {
        if (node >= 2) return nt_status(Status::kInvalidParameter);
        seen.push_back(reinterpret_cast<std::byte*>(args)[row.type == -1 ? row.at : 8]);
        const DXGKARG_GETNODEMETADATA before = *args;
        *args = {};
        args->EngineType = node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
        if (row.type == -1 && node == 1 && !writes)
          std::copy_n(before.FriendlyName, 2, args->FriendlyName);
        return STATUS_SUCCESS;
      };
      dxgk::Exercise exercise = on(stack);
      exercise.fill_outputs(kFill);
      EXPECT_EQ(exercise.repeat_queries(), Status::kSuccess);
      EXPECT_EQ(seen, (std::vector<std::byte>{kFill, {}, kFill, {}}));
      EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "all is written";
      writes = false;
      EXPECT_EQ(exercise.repeat_queries(), Status::kSuccess);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "LIFE-29");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.ddi, row.ddi);
      EXPECT_EQ(finding.actual, std::string(row.actual) +
                                    " In between, the buffer was filled with 0xa5 before the "
                                    "call.");
      exercise.fill_outputs(std::byte{0});
      seen.clear();
      EXPECT_EQ(exercise.repeat_queries(), Status::kSuccess);
      EXPECT_EQ(seen, std::vector<std::byte>(2)) << "as at the start";
      EXPECT_EQ(stack.rules().size(), 1U);
      stack.miniport.hooks.query_adapter_info = nullptr;
      stack.miniport.hooks.get_node_metadata = nullptr;
    });
  }
}

// What DxgkDdiRender is to write is filled, too: a driver that leaves something out is found by
// what the kernel reads there.
TEST_F(ExerciseTest, TheBuffersOfRenderAreFilled) {
  DXGKIT_COVERS("LIFE-29");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE used = client.make_allocation();
    for (const std::byte fill : {std::byte{0xA5}, std::byte{0}}) {
      on(stack).fill_outputs(fill);
      std::vector<std::byte> list, buffer;
      stack.miniport.hooks.render = [&](void* of, DXGKARG_RENDER* args) {
        const auto* patches = reinterpret_cast<const std::byte*>(args->pPatchLocationListOut);
        list.assign(patches, patches + args->PatchLocationListOutSize *
                                           sizeof(*args->pPatchLocationListOut));
        const auto* bytes = static_cast<const std::byte*>(args->pDmaBuffer);
        buffer.assign(bytes, bytes + args->DmaSize);
        return stack.miniport.default_render(of, args);
      };
      ASSERT_EQ(client.render(context, work_on({used})), 0);
      stack.miniport.hooks.render = nullptr;
      stack.drive();
      ASSERT_FALSE(list.empty());
      ASSERT_FALSE(buffer.empty());
      if (fill == std::byte{0}) continue;  // as they were left
      EXPECT_EQ(list, std::vector<std::byte>(list.size(), fill));
      EXPECT_EQ(buffer, std::vector<std::byte>(buffer.size(), fill));
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What the driver answers instead of its facts is what comes back, and nothing more is asked.
TEST_F(ExerciseTest, AQuestionThatTheDriverRefusesStops) {
  DXGKIT_COVERS("LIFE-17");
  constexpr int kNodes = -1;
  const struct {
    int refused;
    Status status;
    std::vector<std::string> rules;
  } rows[] = {
      {DXGKQAITYPE_DRIVERCAPS, Status::kNoMemory, {}},
      {DXGKQAITYPE_QUERYSEGMENT3, Status::kDeviceConfigurationError, {"SEG-04"}},
      {kNodes, Status::kNoMemory, {}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.refused);
    with_client([&](Stack& stack, Client&) {
      std::vector<int> asked;
      stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        asked.push_back(args->Type);
        return args->Type == row.refused ? nt_status(Status::kNoMemory)
                                         : stack.miniport.default_query_adapter_info(args);
      };
      stack.miniport.hooks.get_node_metadata = [&](UINT node, DXGKARG_GETNODEMETADATA* args) {
        asked.push_back(kNodes);
        args->EngineType = DXGK_ENGINE_TYPE_3D;
        return nt_status(row.refused == kNodes && node == 1 ? Status::kNoMemory : Status::kSuccess);
      };
      EXPECT_EQ(on(stack).repeat_queries(), row.status);
      EXPECT_EQ(asked.back(), row.refused);
      EXPECT_EQ(stack.rules(), row.rules);
      stack.miniport.hooks.query_adapter_info = nullptr;
      stack.miniport.hooks.get_node_metadata = nullptr;
    });
  }
}

TEST_F(ExerciseTest, WithoutVirtualAddressesThereAreNoneToAskFor) {
  with_client([](Stack& stack, Client& client) {
    const dxgk::Exercise exercise = on(stack);
    EXPECT_EQ(exercise.gpu_va_pages(), 0U);
    EXPECT_TRUE(exercise.gpu_va_facts().table_pages.empty());
    dxgk::Exercise by_hand = on(stack);
    EXPECT_EQ(by_hand.gpu_va_root(*client.process).error(), Status::kNotSupported);
  });
}

// What a segment keeps is what its flags say of the state, and never more than it has.
TEST_F(ExerciseTest, SegmentsKeepWhatTheirFlagsSay) {
  DXGKIT_COVERS("PWR-01");
  using dxgk::PowerTarget;
  with_client(
      [](Stack& stack, Client&) {
        const auto inspection = dxgk::Inspection::of(*stack.system, stack.luid);
        ASSERT_TRUE(inspection.has_value());
        const struct {
          PowerTarget target;
          uint64_t kept[3];
        } rows[] = {
            {PowerTarget::kD0, {kMebibyte, 2 * kMebibyte, 4 * kMebibyte}},
            {PowerTarget::kD1, {kMebibyte, 2 * kMebibyte, 0}},
            {PowerTarget::kD3, {kMebibyte, 2 * kMebibyte, 0}},
            {PowerTarget::kStandby, {kMebibyte, 2 * kMebibyte, 0}},
            {PowerTarget::kHybridSleep, {kMebibyte, 64 * kKibibyte, 0}},
            {PowerTarget::kHibernate, {kMebibyte, 64 * kKibibyte, 0}},
        };
        for (const auto& row : rows) {
          for (uint32_t i = 0; i < 3; ++i) {
            EXPECT_EQ(inspection->kept_bytes(SegmentId{i + 1}, row.target), row.kept[i])
                << int(row.target) << " of segment " << i + 1;
          }
        }
        ASSERT_EQ(inspection->segments().segments.size(), 3U);
        EXPECT_EQ(inspection->segments().segments[1].size, 2 * kMebibyte);
        EXPECT_EQ(inspection->gpu_mmu_caps().error(), Status::kNotSupported);
        EXPECT_EQ(inspection->late_reports(), 0U);
      },
      [](ScriptedMiniport& miniport) {
        auto& segments = miniport.config.segments;
        for (uint32_t i = 0; i < 3; ++i) segments[i].size = kMebibyte << i;
        segments[0].flags.PreservedDuringStandby = segments[1].flags.PreservedDuringStandby = 1;
        segments[0].flags.PreservedDuringHibernate = 1;
        segments[1].flags.PartiallyPreservedDuringHibernate = 1;
        segments[1].system_memory_end = 64 * kKibibyte - 1;
      });
}

TEST_F(ExerciseTest, MemoryThatDoesNotRefreshItselfIsEmptyAfterStandby) {
  DXGKIT_COVERS("PWR-01");
  using dxgk::PowerTarget;
  with_client(
      [](Stack& stack, Client&) {
        const auto inspection = dxgk::Inspection::of(*stack.system, stack.luid);
        ASSERT_TRUE(inspection.has_value());
        EXPECT_EQ(inspection->kept_bytes(SegmentId{2}, PowerTarget::kD3), kMebibyte);
        EXPECT_EQ(inspection->kept_bytes(SegmentId{2}, PowerTarget::kStandby), 0U);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_4;
        miniport.config.segments[1].size = kMebibyte;
        miniport.config.segments[1].flags.PreservedDuringStandby = 1;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 = 1;
        };
      });
}

TEST_F(ExerciseTest, NodesSayWhatTheyAre) {
  DXGKIT_COVERS("CAPS-12");
  with_client([](Stack& stack, Client&) {
    const auto inspection = dxgk::Inspection::of(*stack.system, stack.luid);
    ASSERT_TRUE(inspection.has_value());
    for (const uint32_t node : {0U, 1U}) {
      const Result<port::NodeMetadata> found = inspection->node_metadata(NodeOrdinal{node});
      ASSERT_TRUE(found.has_value());
      uint32_t type = 99;
      std::copy_n(found->raw.data(), sizeof type, reinterpret_cast<std::byte*>(&type));
      EXPECT_EQ(type,
                static_cast<uint32_t>(node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY));
    }
    EXPECT_EQ(inspection->node_metadata(NodeOrdinal{2}).error(), Status::kInvalidParameter);
  });
}

// Work whose interrupt is lost is reported when its node is asked for its fence, which is late.
TEST_F(ExerciseTest, ReportsThatComeOnlyWhenAskedForAreLate) {
  DXGKIT_COVERS("INT-22");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const auto inspection = dxgk::Inspection::of(*stack.system, stack.luid);
    ASSERT_TRUE(inspection.has_value());
    stack.miniport.hooks.query_current_fence = [&](DXGKARG_QUERYCURRENTFENCE* args) -> NTSTATUS {
      static_cast<void>(stack.miniport.complete_next(args->NodeOrdinal));
      args->CurrentFence = stack.miniport.last_completed(args->NodeOrdinal);
      return 0;
    };
    for (const uint64_t late : {1U, 2U}) {
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.settle();
      runtime::Runtime::current().sleep_for(2 * stack.options.tdr_delay_ns);
      stack.settle();
      EXPECT_EQ(inspection->late_reports(), late);
    }
    stack.miniport.hooks.query_current_fence = nullptr;
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    EXPECT_EQ(inspection->late_reports(), 2U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
