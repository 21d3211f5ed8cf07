// DxgkDdiSubmitCommand and DXGKARG_SUBMITCOMMAND beyond what the patch tests show; preemption;
// cancellation.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/guarded_copy.h"
#include "dxgk/exercise.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using SubTest = ContractTest;
using CancelTest = ContractTest;
using PreemptTest = ContractTest;

NTSTATUS set_priority(Client& client, const ContextBuffers& context, int priority) {
  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args{};
  args.hContext = context.handle;
  args.Priority = priority;
  return client.call([&] { return D3DKMTSetContextSchedulingPriority(&args); });
}

bool virtual_submission_called = false;
NTSTATUS NTAPI virtual_submission(const HANDLE, const DXGKARG_SUBMITCOMMANDVIRTUAL*) {
  virtual_submission_called = true;
  return nt_status(Status::kSuccess);
}

TEST_F(SubTest, PatchingContextsAndTheirPagingNeverSeeVirtualSubmission) {
  DXGKIT_COVERS("SUB-01");
  virtual_submission_called = false;
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE allocation = client.make_allocation();
        client.list({allocation});
        ASSERT_EQ(client.render(context, work_on({allocation})), 0);
        EXPECT_EQ(stack.drive(), 2U);
        EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), 2U);
        EXPECT_FALSE(virtual_submission_called);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiSubmitCommandVirtual = &virtual_submission;
        };
      });
}

// A driver that submits virtual addresses needs no DxgkDdiPatch: its paging is submitted unpatched.
TEST_F(SubTest, WithoutPatchPagingIsSubmittedAsItIs) {
  DXGKIT_COVERS("SUB-01");
  with_client(
      [](Stack& stack, Client& client) {
        const D3DKMT_HANDLE allocation = client.make_allocation();
        stack.blocking([&] {
          EXPECT_TRUE(dxgk::Exercise::on(*stack.system, stack.luid)
                          ->memory()
                          .page_in(*client.process, allocation)
                          .has_value());
        });
        EXPECT_GT(stack.miniport.count("DxgkDdiSubmitCommand"), 0U);
        EXPECT_EQ(stack.miniport.count("DxgkDdiPatch"), 0U);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiSubmitCommandVirtual = &virtual_submission;
          table.DxgkDdiPatch = nullptr;
          table.DxgkDdiRender = nullptr;
        };
      });
}

TEST_F(SubTest, WithoutPrivateDataThePointerLeadsNowhere) {
  DXGKIT_COVERS("SUB-11");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
        stack.drive();
        const ScriptedCalls calls = stack.miniport.calls();
        ASSERT_EQ(calls.submits.size(), 2U);
        char byte = 0;
        for (const testing::SubmitCall& call : calls.submits) {
          EXPECT_EQ(call.args.DmaBufferPrivateDataSize, 0U);
          ASSERT_NE(call.args.pDmaBufferPrivateData, nullptr)
              << "a null check would hide the mistake";
          EXPECT_FALSE(guarded_copy(&byte, call.args.pDmaBufferPrivateData, 1));
        }
        for (const testing::PatchCall& call : calls.patches)
          EXPECT_FALSE(guarded_copy(&byte, call.args.pDmaBufferPrivateData, 1));
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.dma_private_bytes = 0;
        miniport.config.paging_private_bytes = 0;
      });
}

TEST_F(SubTest, FencesRisePerNodeAndNodesCountIndependently) {
  DXGKIT_COVERS("SUB-13", "SUB-19", "SCHED-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers zero = client.make_context(0);
    ContextBuffers one = client.make_context(1);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(client.render(zero, work_on({allocation})), 0);
      if (i % 3 == 0) {
        ASSERT_EQ(client.render(one, work_on({})), 0);
      }
      if (i % 2 == 0) stack.drive();
    }
    stack.drive();
    std::map<UINT, std::vector<UINT>> fences;
    for (const testing::SubmitCall& call : stack.miniport.calls().submits)
      fences[call.args.NodeOrdinal].push_back(call.args.SubmissionFenceId);
    ASSERT_EQ(fences.size(), 2U);
    EXPECT_EQ(fences[0].size(), 10U);
    EXPECT_EQ(fences[1].size(), 5U) << "four renders and one fill";
    for (const auto& [node, ids] : fences) {
      EXPECT_TRUE(std::ranges::is_sorted(ids, std::less_equal<>{})) << node;
      EXPECT_NE(ids.front(), 0U);
    }
    EXPECT_EQ(fences[0].front(), fences[1].front()) << "each node from the same start";
  });
}

TEST_F(SubTest, MembersOfFlipsHoldNoValueWithoutAFlip) {
  DXGKIT_COVERS("SUB-15", "SUB-16", "SUB-18");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    for (const testing::SubmitCall& call : stack.miniport.calls().submits) {
      EXPECT_EQ(call.args.Flags.Flip, 0U);
      EXPECT_EQ(call.args.Flags.FlipWithNoWait, 0U);
      EXPECT_EQ(call.args.VidPnSourceId, D3DDDI_ID_UNINITIALIZED);
      EXPECT_EQ(call.args.FlipInterval, 0);
      EXPECT_EQ(call.args.DmaBufferVirtualAddress, 0U);
    }
  });
}

TEST_F(SubTest, AFailureStopsTheAdapter) {
  DXGKIT_COVERS("SUB-27", "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    stack.miniport.hooks.submit = [](const DXGKARG_SUBMITCOMMAND*) {
      return nt_status(Status::kInvalidParameter);
    };
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "SUB-27");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 2U);
    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(SubTest, ABufferIsReusedAfterItsCompletionAndNotBefore) {
  DXGKIT_COVERS("SUB-38");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    std::vector<void*> buffers, lists;
    const auto render = [&] {
      ASSERT_EQ(client.render(context, work_on({})), 0);
      buffers.push_back(stack.miniport.calls().renders.back().args.pDmaBuffer);
    };
    for (int i = 0; i < 4; ++i) render();
    std::ranges::sort(buffers);
    EXPECT_EQ(std::ranges::unique(buffers).size(), 0U) << "four in flight, four buffers";
    const std::vector<void*> before = buffers;
    stack.drive();
    render();
    EXPECT_TRUE(std::ranges::find(before, buffers.back()) != before.end());
    stack.drive();
  });
}

TEST_F(SubTest, PacketsOfAContextRunInOrderWithinTheDepthOfTheHardwareQueue) {
  DXGKIT_COVERS("SCHED-06", "SCHED-07");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    for (int i = 0; i < 6; ++i) {
      Work work;
      work.command_bytes = 16 + 16 * static_cast<uint32_t>(i);
      ASSERT_EQ(client.render(context, work), 0);
      stack.settle();
      EXPECT_LE(stack.miniport.outstanding(0).size(), 2U);
    }
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 2U) << "depth 2 when HwQueuePacketCap is 0";
    stack.drive();
    std::vector<UINT> ends;
    for (const testing::SubmitCall& call : stack.miniport.calls().submits)
      ends.push_back(call.args.DmaBufferSubmissionEndOffset);
    EXPECT_EQ(ends, (std::vector<UINT>{16, 32, 48, 64, 80, 96}));
  });
}

// As many as HwQueuePacketCap says, up to the largest it can say; before WDDM 2.3 nobody is asked.
TEST_F(SubTest, TheDriverSaysHowDeepItsQueueIs) {
  DXGKIT_COVERS("SCHED-07");
  struct Row {
    uint32_t version, cap, depth;
  };
  for (const auto& [version, cap, depth] : {Row{DXGKDDI_INTERFACE_VERSION_WDDM2_3, 0, 2},
                                            {DXGKDDI_INTERFACE_VERSION_WDDM2_3, 1, 1},
                                            {DXGKDDI_INTERFACE_VERSION_WDDM2_3, 3, 3},
                                            {DXGKDDI_INTERFACE_VERSION_WDDM2_3, 15, 15},
                                            {DXGKDDI_INTERFACE_VERSION_WDDM2_2, 5, 2}}) {
    SCOPED_TRACE(cap);
    with_client(
        [&, depth = depth](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context();
          for (uint32_t i = 1; i <= depth + 2; ++i) {
            ASSERT_EQ(client.render(context, Work{}), 0);
            stack.settle();
            EXPECT_EQ(stack.miniport.outstanding(0).size(), std::min(i, depth));
          }
          stack.drive();
        },
        [&, version = version, cap = cap](ScriptedMiniport& miniport) {
          miniport.config.version = version;
          miniport.config.caps = [cap](DXGK_DRIVERCAPS& caps) {
            caps.SchedulingCaps.HwQueuePacketCap = cap & 0xFU;
          };
        });
  }
}

// --- preemption

/// Low-priority work on hardware, then high: leaves one preemption request outstanding and returns
/// it.
DXGKARG_PREEMPTCOMMAND ask_for_preemption(Stack& stack, Client& client, ContextBuffers& low,
                                          ContextBuffers& high) {
  EXPECT_EQ(set_priority(client, low, -1), 0);
  EXPECT_EQ(client.render(low, work_on({})), 0);
  EXPECT_EQ(client.render(low, work_on({})), 0);
  stack.settle();
  EXPECT_EQ(stack.miniport.outstanding(0).size(), 2U);
  EXPECT_EQ(client.render(high, work_on({})), 0);
  stack.settle();
  const std::vector<DXGKARG_PREEMPTCOMMAND> preempts = stack.miniport.calls().preempts;
  EXPECT_EQ(preempts.size(), 1U);
  return preempts.empty() ? DXGKARG_PREEMPTCOMMAND{} : preempts.front();
}

TEST_F(PreemptTest, HigherWorkAsksOnceWithANewerFence) {
  DXGKIT_COVERS("PREEMPT-03", "PREEMPT-04", "PREEMPT-05", "SCHED-09");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers low = client.make_context(), high = client.make_context();
    const DXGKARG_PREEMPTCOMMAND request = ask_for_preemption(stack, client, low, high);
    EXPECT_EQ(request.NodeOrdinal, 0U);
    EXPECT_EQ(request.EngineOrdinal, 0U);
    EXPECT_EQ(request.Flags.Value, 0U);
    for (const uint32_t fence : stack.miniport.outstanding(0))
      EXPECT_GT(request.PreemptionFenceId, fence);
    ASSERT_EQ(client.render(high, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.calls().preempts.size(), 1U) << "one request outstanding per engine";
    stack.miniport.preempted(0, request.PreemptionFenceId, stack.miniport.last_completed(0));
    stack.drive();
  });
}

void resubmission(uint32_t version, uint32_t flag_of_the_second) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Stack stack;
    stack.miniport.config.version = version;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers low = client.make_context(), high = client.make_context();
    const DXGKARG_PREEMPTCOMMAND request = ask_for_preemption(stack, client, low, high);
    const std::vector<testing::SubmitCall> before = stack.miniport.calls().submits;
    stack.miniport.preempted(0, request.PreemptionFenceId, before[0].args.SubmissionFenceId);
    stack.drive();
    const std::vector<testing::SubmitCall> after = stack.miniport.calls().submits;
    // The first completed, the second was preempted; then the higher one, then the second again.
    ASSERT_EQ(after.size(), 4U);
    EXPECT_EQ(after[2].args.hContext, stack.miniport.calls().renders[2].context);
    EXPECT_EQ(after[3].args.hContext, before[1].args.hContext);
    EXPECT_EQ(after[3].args.DmaBufferPhysicalAddress.QuadPart,
              before[1].args.DmaBufferPhysicalAddress.QuadPart);
    EXPECT_GT(after[3].args.SubmissionFenceId, request.PreemptionFenceId) << "a new, higher id";
    EXPECT_EQ(after[0].args.Flags.Resubmission, 0U);
    EXPECT_EQ(after[1].args.Flags.Resubmission, 0U);
    EXPECT_EQ(after[2].args.Flags.Resubmission, 0U);
    EXPECT_EQ(after[3].args.Flags.Resubmission, flag_of_the_second);
    EXPECT_EQ(stack.miniport.calls().patches.size(), 4U) << "patched again";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    EXPECT_EQ(stack.statistics().packets_completed, 3U);
  });
}

TEST_F(PreemptTest, PreemptedRenderingComesAgainWithANewFenceInWddm1) {
  DXGKIT_COVERS("SUB-25", "SUB-26", "INT-13", "PREEMPT-08", "PATCH-01");
  resubmission(DXGKDDI_INTERFACE_VERSION_WDDM1_3, 0);
}
TEST_F(PreemptTest, PreemptedRenderingIsMarkedAsResubmittedInWddm2) {
  DXGKIT_COVERS("SUB-25", "SUB-26", "INT-13", "PREEMPT-08");
  resubmission(DXGKDDI_INTERFACE_VERSION_WDDM2_0, 1);
}

TEST_F(PreemptTest, PreemptedPagingKeepsItsFenceAndGoesFirst) {
  DXGKIT_COVERS("SUB-13", "SUB-26", "PREEMPT-13", "PREEMPT-14");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers low = client.make_context(), high = client.make_context();
        ContextBuffers pager = client.make_context();
        ASSERT_EQ(set_priority(client, low, -1), 0);
        ASSERT_EQ(client.render(low, work_on({})), 0);
        ASSERT_EQ(client.render(pager, work_on({client.make_allocation()})), 0);
        stack.settle();
        const std::vector<testing::SubmitCall> first = stack.miniport.calls().submits;
        ASSERT_EQ(first.size(), 2U) << "low rendering, then a fill";
        ASSERT_EQ(first[1].args.Flags.Paging, 1U);
        if (stack.miniport.calls().preempts.empty()) {
          ASSERT_EQ(client.render(high, work_on({})), 0);
        }
        stack.settle();
        const std::vector<DXGKARG_PREEMPTCOMMAND> preempts = stack.miniport.calls().preempts;
        ASSERT_EQ(preempts.size(), 1U);
        stack.miniport.preempted(0, preempts[0].PreemptionFenceId, 0);
        stack.settle();
        const std::vector<testing::SubmitCall> then = stack.miniport.calls().submits;
        ASSERT_GE(then.size(), 3U);
        EXPECT_EQ(then[2].args.Flags.Paging, 1U) << "before anything else";
        EXPECT_EQ(then[2].args.SubmissionFenceId, first[1].args.SubmissionFenceId);
        stack.drive();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "an old id is no violation";
        EXPECT_EQ(stack.statistics().packets_completed, stack.statistics().packets_submitted - 2);
        EXPECT_EQ(stack.statistics().packets_resubmitted, 2U);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.nodes = 1;
        miniport.config.paging_node = 0;
      });
}

TEST_F(PreemptTest, AFailureOfPreemptCommandStopsTheAdapter) {
  DXGKIT_COVERS("PREEMPT-11");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.preempt = [](const DXGKARG_PREEMPTCOMMAND*) {
      return nt_status(Status::kUnsuccessful);
    };
    ContextBuffers low = client.make_context(), high = client.make_context();
    static_cast<void>(ask_for_preemption(stack, client, low, high));
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "PREEMPT-11");
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 2U);
    EXPECT_EQ(client.render(high, work_on({})), nt_status(Status::kDeviceRemoved));
  });
}

TEST_F(PreemptTest, WithoutPreemptionAwareNothingIsAskedFor) {
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers low = client.make_context(), high = client.make_context();
        ASSERT_EQ(set_priority(client, low, -1), 0);
        ASSERT_EQ(client.render(low, work_on({})), 0);
        ASSERT_EQ(client.render(high, work_on({})), 0);
        stack.drive();
        EXPECT_EQ(stack.miniport.count("DxgkDdiPreemptCommand"), 0U);
      },
      [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

TEST_F(PreemptTest, ADriverMayDeclareThatItCannotPreempt) {
  DXGKIT_COVERS("PREEMPT-02");
  for (const bool graphics : {true, false}) {
    for (const bool aware : {true, false}) {
      SCOPED_TRACE(::testing::PrintToString(std::pair(graphics, aware)));
      with_client(
          [&](Stack& stack, Client& client) {
            ContextBuffers context = client.make_context();
            ASSERT_EQ(client.render(context, work_on({})), 0);
            stack.drive();
            EXPECT_EQ(stack.miniport.calls().submits.size(), 1U);
            EXPECT_EQ(stack.rules(),
                      aware ? std::vector<std::string>{"PREEMPT-02"} : std::vector<std::string>{});
            for (const verifier::Finding& finding : stack.findings.all())
              EXPECT_EQ(finding.severity, verifier::Severity::kWarning);
          },
          [&](ScriptedMiniport& miniport) {
            miniport.config.preemption_aware = aware;
            miniport.config.caps = [graphics](DXGK_DRIVERCAPS& caps) {
              if (graphics)
                caps.PreemptionCaps.GraphicsPreemptionGranularity =
                    D3DKMDT_GRAPHICS_PREEMPTION_NONE;
              else
                caps.PreemptionCaps.ComputePreemptionGranularity = D3DKMDT_COMPUTE_PREEMPTION_NONE;
            };
          });
    }
  }
}

TEST_F(PreemptTest, NothingIsAskedForWhileTheRegistryForbidsIt) {
  DXGKIT_COVERS("PREEMPT-18");
  for (const std::optional<uint32_t> value : {std::optional<uint32_t>(), {0U}, {1U}}) {
    SCOPED_TRACE(value.has_value() ? std::to_string(*value) : "no value");
    runtime::make_sim_runtime(1)->run_main([&] {
      nt::KernelConfig config;
      if (value.has_value()) {
        config.registry
            ["\\registry\\machine\\System\\CurrentControlSet\\Control\\"
             "GraphicsDrivers\\scheduler"]["enablepreemption"] = nt::RegistryValue::dword(*value);
      }
      Stack stack(config);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      ContextBuffers low = client.make_context(), high = client.make_context();
      ASSERT_EQ(set_priority(client, low, -1), 0);
      ASSERT_EQ(client.render(low, work_on({})), 0);
      ASSERT_EQ(client.render(high, work_on({})), 0);
      stack.drive();
      EXPECT_EQ(stack.miniport.count("DxgkDdiPreemptCommand"), value == 0U ? 0U : 1U);
    });
  }
}

TEST_F(PreemptTest, TheHighestPriorityReadyContextGoesFirst) {
  DXGKIT_COVERS("SCHED-08");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers low = client.make_context(), high = client.make_context();
        ASSERT_EQ(set_priority(client, low, -3), 0);
        for (int i = 0; i < 4; ++i) ASSERT_EQ(client.render(low, work_on({})), 0);
        for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(high, work_on({})), 0);
        stack.drive();
        const ScriptedCalls calls = stack.miniport.calls();
        std::vector<bool> is_high;
        for (const testing::SubmitCall& call : calls.submits)
          is_high.push_back(call.args.hContext == calls.renders[4].context);
        EXPECT_EQ(is_high, (std::vector<bool>{false, false, true, true, false, false}));
      },
      [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

// --- cancellation

/// One packet on hardware, two behind it that never get there; then the first one faults.
struct Cancelled {
  ScriptedCalls calls;
  std::vector<void*> rendered_buffers;
};
Cancelled cancel_two(Stack& stack, Client& client, D3DKMT_HANDLE allocation) {
  ContextBuffers context = client.make_context();
  stack.miniport.hooks.render = [&](void* driver_context, DXGKARG_RENDER* args) {
    const NTSTATUS status = stack.miniport.default_render(driver_context, args);
    std::memset(args->pDmaBufferPrivateData, 0x77, 32);
    args->pDmaBufferPrivateData = static_cast<std::byte*>(args->pDmaBufferPrivateData) + 32;
    return status;
  };
  for (uint32_t i = 0; i < 4; ++i) {
    Work work = work_on({allocation, allocation});
    work.command_bytes = 256 * (i + 1);
    EXPECT_EQ(client.render(context, work), 0);
    if (i == 0) stack.drive();  // so that its memory is there
  }
  stack.settle();
  EXPECT_EQ(stack.miniport.outstanding(0).size(), 2U);
  stack.miniport.faulted(0, stack.miniport.outstanding(0)[0], nt_status(Status::kUnsuccessful));
  stack.settle();
  Cancelled out;
  out.calls = stack.miniport.calls();
  for (const testing::RenderCall& call : out.calls.renders)
    out.rendered_buffers.push_back(call.args.pDmaBuffer);
  return out;
}

TEST_F(CancelTest, DescribesEachPacketThatNeverReachedHardwareOnceMemberByMember) {
  DXGKIT_COVERS("CANCEL-03", "CANCEL-04", "CANCEL-06", "CANCEL-07", "CANCEL-08", "CANCEL-09",
                "CANCEL-10", "CANCEL-11", "CANCEL-12", "CANCEL-13", "CANCEL-14", "CANCEL-15",
                "CANCEL-16", "INT-15");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const Cancelled seen = cancel_two(stack, client, allocation);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    ASSERT_EQ(seen.calls.cancels.size(), 1U) << "the fourth; the third was on hardware";
    const DXGKARG_CANCELCOMMAND& args = seen.calls.cancels[0].args;
    EXPECT_EQ(args.hContext, seen.calls.renders[3].context);
    EXPECT_EQ(args.pDmaBuffer, seen.rendered_buffers[3]);
    EXPECT_EQ(args.DmaBufferSize, 16 * kKibibyte);
    EXPECT_EQ(args.DmaBufferSubmissionStartOffset, 0U);
    EXPECT_EQ(args.DmaBufferSubmissionEndOffset, 1024U);
    EXPECT_EQ(args.pDmaBufferPrivateData, seen.calls.renders[3].args.pDmaBufferPrivateData);
    EXPECT_EQ(args.DmaBufferPrivateDataSize, 256U);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, 0U);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, 32U);
    EXPECT_EQ(args.pAllocationList, seen.calls.renders[3].args.pAllocationList);
    EXPECT_EQ(args.AllocationListSize, 2U);
    EXPECT_EQ(args.PatchLocationListSize, 2U);
    EXPECT_EQ(args.PatchLocationListSubmissionStart, 0U);
    EXPECT_EQ(args.PatchLocationListSubmissionLength, 2U);
    ASSERT_EQ(seen.calls.cancels[0].patches.size(), 2U);
    EXPECT_EQ(seen.calls.cancels[0].patches[1].patch_offset, 16U);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 1U);
  });
}

TEST_F(CancelTest, IsNotCalledWithoutTheCapability) {
  DXGKIT_COVERS("CANCEL-01");
  bool called = false;
  with_client(
      [&](Stack& stack, Client& client) {
        static_cast<void>(cancel_two(stack, client, client.make_allocation()));
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
        EXPECT_EQ(stack.statistics().packets_cancelled, 1U);
        EXPECT_FALSE(called);
        stack.drive();
      },
      [&](ScriptedMiniport& miniport) {
        miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND*) {
          called = true;
          return NTSTATUS{0};
        };
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
          caps.SchedulingCaps.CancelCommandAware = 0;
        };
      });
}

TEST_F(CancelTest, TheBufferMayBeUsedAgainAfterwards) {
  DXGKIT_COVERS("CANCEL-05");
  with_client([](Stack& stack, Client& client) {
    // The context, and with it every buffer, can go: nobody holds a cancelled packet's buffer.
    const D3DKMT_HANDLE allocation = client.make_allocation();
    static_cast<void>(cancel_two(stack, client, allocation));
    stack.drive();
    EXPECT_EQ(client.destroy_allocation(allocation, 2), 0) << "synchronous: waits for its uses";
    EXPECT_EQ(client.destroy_device(client.device), 0);
  });
}

TEST_F(CancelTest, AFailureStopsTheAdapter) {
  DXGKIT_COVERS("CANCEL-18");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.cancel = [](const DXGKARG_CANCELCOMMAND*) {
      return nt_status(Status::kInvalidParameter);
    };
    static_cast<void>(cancel_two(stack, client, client.make_allocation()));
    const std::vector<verifier::Finding> all = stack.findings.all();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().rule, "CANCEL-18");
    EXPECT_EQ(all.back().bugcheck_code, 0x119U);
    EXPECT_EQ(all.back().bugcheck_parameter, 9U);
  });
}

TEST_F(PreemptTest, WhatFinishedBeforeTheReportIsCompleteAndNotPreempted) {
  DXGKIT_COVERS("PREEMPT-10");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers low = client.make_context(), high = client.make_context();
    const DXGKARG_PREEMPTCOMMAND request = ask_for_preemption(stack, client, low, high);
    const std::vector<uint32_t> fences = stack.miniport.outstanding(0);
    stack.miniport.complete(0, fences.at(0));
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, 1U);
    stack.miniport.preempted(0, request.PreemptionFenceId, fences.at(0));
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 3U);
    EXPECT_EQ(stack.statistics().packets_submitted, 4U) << "only the second came again";
    EXPECT_EQ(stack.statistics().packets_resubmitted, 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
