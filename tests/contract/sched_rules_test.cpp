// Rules about drivers that the scheduler and the submission path lean on, each with a driver that
// keeps it and one that does not.
#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using SchedRulesTest = ContractTest;

// A node that is there is described, one that is not is refused.
TEST_F(SchedRulesTest, NodesBeyondTheLastAreRefusedByTheDriver) {
  DXGKIT_COVERS("SCHED-04");
  for (const bool careless : {false, true}) {
    with_client(
        [&](Stack& stack, Client&) {
          EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)->repeat_queries(),
                    Status::kSuccess);
          if (!careless) {
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
            return;
          }
          const verifier::Finding finding = stack.only_finding();
          EXPECT_EQ(finding.rule, "SCHED-04");
          EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
          EXPECT_NE(finding.actual.find("NodeOrdinal 2 of 2"), std::string::npos);
        },
        [&](ScriptedMiniport& miniport) {
          if (!careless) return;
          miniport.hooks.get_node_metadata = [](UINT node, DXGKARG_GETNODEMETADATA* metadata) {
            metadata->EngineType = node == 0 ? DXGK_ENGINE_TYPE_3D : DXGK_ENGINE_TYPE_COPY;
            return nt_status(Status::kSuccess);
          };
        });
  }
}

TEST_F(SchedRulesTest, ANodeThatCannotBeDescribedFailsTheStart) {
  DXGKIT_COVERS("SCHED-04");
  bare([](Stack& stack) {
    stack.miniport.hooks.get_node_metadata = [](UINT node, DXGKARG_GETNODEMETADATA*) {
      return nt_status(node == 0 ? Status::kSuccess : Status::kUnsuccessful);
    };
    EXPECT_EQ(stack.start(), Status::kUnsuccessful);
  });
}

// Only lack of memory excuses a refused device or context; the caller gets the status either way.
TEST_F(SchedRulesTest, OnlyLackOfMemoryExcusesRefusingDevicesAndContexts) {
  DXGKIT_COVERS("SCHED-05");
  for (const Status status : {Status::kNoMemory, Status::kUnsuccessful, Status::kNotSupported}) {
    for (const bool device : {false, true}) {
      with_client([&](Stack& stack, Client& client) {
        NTSTATUS answer = 0;
        const Digest before = digest(stack, {&client});
        if (device) {
          stack.miniport.hooks.create_device = [&](DXGKARG_CREATEDEVICE*) {
            return nt_status(status);
          };
          D3DKMT_CREATEDEVICE args{};
          args.hAdapter = client.adapter;
          answer = client.call([&] { return D3DKMTCreateDevice(&args); });
        } else {
          stack.miniport.hooks.create_context = [&](void*, DXGKARG_CREATECONTEXT*) {
            return nt_status(status);
          };
          ContextBuffers none;
          answer = client.create_context(&none);
        }
        EXPECT_EQ(answer, nt_status(status));
        EXPECT_EQ(digest(stack, {&client}).handles, before.handles);
        const bool excused = status == Status::kNoMemory;
        EXPECT_EQ(stack.rules(),
                  excused ? std::vector<std::string>{} : std::vector<std::string>{"SCHED-05"});
        stack.miniport.hooks.create_device = nullptr;
        stack.miniport.hooks.create_context = nullptr;
      });
    }
  }
}

// Many of both, none refused: what the rule promises applications.
TEST_F(SchedRulesTest, ManyContextsAndDevicesWorkSideBySide) {
  DXGKIT_COVERS("SCHED-05");
  with_client([](Stack& stack, Client& client) {
    std::vector<ContextBuffers> contexts;
    for (UINT i = 0; i < 200; ++i) contexts.push_back(client.make_context(i % 2));
    for (int i = 0; i < 50; ++i) static_cast<void>(client.make_device());
    for (ContextBuffers& context : contexts) ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 200U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

void ask_idle_node(Stack& stack) {
  dxgk::Adapter& adapter = stack.adapter();
  bool asked = false;
  adapter.core().lane().run(
      [&] { asked = adapter.core().scheduler().request_preemption(NodeOrdinal{0}); });
  EXPECT_TRUE(asked);
}

// With nothing on the engine the driver answers from the call; one that leaves it to hardware is
// found.
TEST_F(SchedRulesTest, AnIdleNodeIsPreemptedAtOnce) {
  DXGKIT_COVERS("PREEMPT-07");
  for (const bool direct : {true, false}) {
    with_client(
        [&](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context();
          ASSERT_EQ(client.render(context, work_on({})), 0);
          stack.drive();  // so that there is a completed fence
          ask_idle_node(stack);
          if (direct) {
            stack.settle();
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          } else {
            const verifier::Finding finding = stack.only_finding();
            EXPECT_EQ(finding.rule, "PREEMPT-07");
            EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
            EXPECT_EQ(finding.ddi, "DxgkDdiPreemptCommand");
            const std::vector<DXGKARG_PREEMPTCOMMAND> asked = stack.miniport.calls().preempts;
            ASSERT_EQ(asked.size(), 1U);
            stack.miniport.preempted(0, asked[0].PreemptionFenceId,
                                     stack.miniport.last_completed(0));
          }
          ASSERT_EQ(client.render(context, work_on({})), 0);
          stack.drive();
          EXPECT_EQ(stack.statistics().packets_completed, 2U) << "and the node goes on";
        },
        [&](ScriptedMiniport& miniport) { miniport.config.auto_preempt = direct; });
  }
}

// A driver of before Windows 8 has no entry for it, whatever its caps say.
TEST_F(SchedRulesTest, DriversBeforeWindows8AreNotAskedToCancel) {
  DXGKIT_COVERS("CANCEL-19");
  for (const uint32_t version :
       {uint32_t{DXGKDDI_INTERFACE_VERSION_WIN7}, uint32_t{DXGKDDI_INTERFACE_VERSION_WIN8}}) {
    SCOPED_TRACE(version);
    size_t cancelled = 0;
    with_client(
        [&](Stack& stack, Client& client) {
          stack.miniport.hooks.cancel = [&](const DXGKARG_CANCELCOMMAND*) {
            ++cancelled;
            return nt_status(Status::kSuccess);
          };
          ContextBuffers context = client.make_context();
          for (int i = 0; i < 4; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
          stack.settle();
          ASSERT_EQ(stack.miniport.outstanding(0).size(), 2U);
          stack.miniport.faulted(0, stack.miniport.outstanding(0)[0],
                                 nt_status(Status::kUnsuccessful));
          stack.settle();
          EXPECT_EQ(stack.statistics().packets_cancelled, 2U);
          stack.drive();
        },
        [&](ScriptedMiniport& miniport) { miniport.config.version = version; });
    EXPECT_EQ(cancelled, version == DXGKDDI_INTERFACE_VERSION_WIN8 ? 2U : 0U);
  }
}

// Two threads of one process may be in the driver at once: stricter for the driver than Windows.
TEST_F(SchedRulesTest, TwoThreadsOfOneProcessAreInTheDriverAtOnce) {
  DXGKIT_COVERS("IRQL-07");
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Stack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers first = client.make_context(), second = client.make_context();
    int inside = 0, most = 0;
    stack.miniport.hooks.render = [&](void* context, DXGKARG_RENDER* args) {
      most = std::max(most, ++inside);
      for (int i = 0; i < 50 && most < 2; ++i) runtime->yield();
      --inside;
      return stack.miniport.default_render(context, args);
    };
    Stack::Background other(stack, [&] { EXPECT_EQ(client.render(second, work_on({})), 0); });
    EXPECT_EQ(client.render(first, work_on({})), 0);
    other.finish();
    EXPECT_EQ(most, 2);
    stack.miniport.hooks.render = nullptr;
    stack.drive();
  });
}

// Several processes use the adapter at the same time; nothing of one reaches another's context.
TEST_F(SchedRulesTest, SeveralProcessesSubmitAtTheSameTime) {
  DXGKIT_COVERS("SUB-20");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto runtime = runtime::make_sim_runtime(seed);
    runtime->run_main([&] {
      Stack stack;
      stack.miniport.config.multi_engine_aware = false;  // hDevice names the work
      stack.miniport.config.preemption_aware = stack.miniport.config.cancel_command_aware = false;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      std::vector<std::unique_ptr<Client>> clients;
      for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Client>(stack));
      std::vector<std::unique_ptr<Stack::Background>> threads;
      for (const std::unique_ptr<Client>& client : clients) {
        threads.push_back(std::make_unique<Stack::Background>(stack, [&] {
          ContextBuffers one = client->make_context(), two = client->make_context();
          for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(client->render(i % 2 == 0 ? one : two, work_on({})), 0);
            runtime->yield();
          }
        }));
      }
      for (const std::unique_ptr<Stack::Background>& thread : threads) thread->finish();
      threads.clear();
      stack.drive();
      EXPECT_EQ(stack.statistics().packets_completed, 40U);
      std::map<const void*, int> submissions;
      for (const testing::SubmitCall& call : stack.miniport.calls().submits)
        ++submissions[call.args.hDevice];
      EXPECT_EQ(submissions.size(), 4U) << "a device for each";
      for (const auto& [device, count] : submissions) EXPECT_EQ(count, 10);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      clients.clear();
    });
  }
}

// No node submits from user mode here: doorbells are refused, and no driver hears of it.
TEST_F(SchedRulesTest, DoorbellsAreRefused) {
  DXGKIT_COVERS("THUNK-37", "THUNK-38");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATE_DOORBELL create{};
    create.hHwQueue = context.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateDoorbell(&create); }),
              nt_status(Status::kNotSupported));
    EXPECT_EQ(create.DoorbellCPUVirtualAddress, nullptr);
    EXPECT_EQ(create.hDoorbell, 0U);
    D3DKMT_CONNECT_DOORBELL connect{};
    EXPECT_EQ(client.call([&] { return D3DKMTConnectDoorbell(&connect); }),
              nt_status(Status::kNotSupported));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// A part of a split buffer that several contexts run is patched inside that part only.
TEST_F(SchedRulesTest, PatchingAPartOfABroadcastLeavesTheOthersAlone) {
  DXGKIT_COVERS("PREEMPT-17");
  for (const bool careless : {false, true}) {
    const auto body = [&](Stack& stack, Client& client) {
      ContextBuffers first = client.make_context(), second = client.make_context();
      // Of a segment of 1 MiB: never two at once.
      std::vector<D3DKMT_HANDLE> big;
      for (int i = 0; i < 3; ++i) big.push_back(client.make_allocation(640 * kKibibyte, kHidden));
      stack.miniport.hooks.patch = [&](const DXGKARG_PATCH* args) {
        const bool later = args->DmaBufferSubmissionStartOffset != 0;
        if (careless && later) ++*static_cast<uint8_t*>(args->pDmaBuffer);
        return stack.miniport.default_patch(args);
      };
      for (int i = 0; i < 3; ++i) {
        first.allocations[i] = {};
        first.allocations[i].hAllocation = big[static_cast<size_t>(i)];
        first.allocations[i].Value = 1;
        const auto index = static_cast<uint32_t>(i);
        first.patches[i] = patch_at(index, 64 * index + 16, 64 * index);
      }
      D3DKMT_RENDER args{};
      args.hContext = first.handle;
      args.CommandLength = 192;
      args.AllocationCount = args.PatchLocationCount = 3;
      args.BroadcastContextCount = 1;
      args.BroadcastContext[0] = second.handle;
      ASSERT_EQ(client.call([&] { return D3DKMTRender(&args); }), 0);
      stack.drive();
      EXPECT_EQ(stack.statistics().splits, 4U) << "each of them in three parts";
      const std::vector<std::string> rules = stack.rules();
      if (careless) {
        EXPECT_GE(std::ranges::count(rules, "PREEMPT-17"), 1);
      } else {
        EXPECT_EQ(rules, std::vector<std::string>{});
      }
    };
    with_client(body,
                [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
  }
}

}  // namespace
}  // namespace dxgkit::contract
