// Priorities of processes and contexts through the thunks, quanta on a driver, and renders that are
// broadcast.
#include <algorithm>
#include <cstring>

#include "dxgk/core/process.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using SchedTest = ContractTest;
using BroadcastTest = ContractTest;

const HANDLE kCurrentProcess = reinterpret_cast<HANDLE>(static_cast<intptr_t>(-1));

NTSTATUS set_class(Client& client, int value, HANDLE process = kCurrentProcess) {
  return client.call([&] {
    return D3DKMTSetProcessSchedulingPriorityClass(
        process, static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS>(value));
  });
}
int get_class(Client& client) {
  auto value = static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS>(-1);
  EXPECT_EQ(
      client.call([&] { return D3DKMTGetProcessSchedulingPriorityClass(kCurrentProcess, &value); }),
      0);
  return static_cast<int>(value);
}
NTSTATUS set_priority(Client& client, const ContextBuffers& context, int priority) {
  D3DKMT_SETCONTEXTSCHEDULINGPRIORITY args{};
  args.hContext = context.handle;
  args.Priority = priority;
  return client.call([&] { return D3DKMTSetContextSchedulingPriority(&args); });
}
NTSTATUS set_in_process(Client& client, D3DKMT_HANDLE context, int priority) {
  D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY args{};
  args.hContext = context;
  args.Priority = priority;
  return client.call([&] { return D3DKMTSetContextInProcessSchedulingPriority(&args); });
}
int get_in_process(Client& client, D3DKMT_HANDLE context) {
  D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY args{};
  args.hContext = context;
  args.Priority = -5;
  EXPECT_EQ(client.call([&] { return D3DKMTGetContextInProcessSchedulingPriority(&args); }), 0);
  return args.Priority;
}
/// Which context each submission was for, counted in order of first appearance.
std::vector<int> contexts_of(const ScriptedCalls& calls) {
  std::vector<void*> seen;
  std::vector<int> order;
  for (const testing::SubmitCall& call : calls.submits) {
    auto at = std::ranges::find(seen, call.args.hContext);
    if (at == seen.end()) at = seen.insert(seen.end(), call.args.hContext);
    order.push_back(static_cast<int>(at - seen.begin()));
  }
  return order;
}

// Six classes; the upper two need the privilege. A refusal changes nothing.
TEST_F(SchedTest, ProcessClassesHaveARangeAndAPrivilege) {
  DXGKIT_COVERS("SCHED-12", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    EXPECT_EQ(get_class(client), D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL);
    for (int value = 0; value <= 3; ++value) {
      EXPECT_EQ(set_class(client, value), 0);
      EXPECT_EQ(get_class(client), value);
    }
    const Digest before = digest(stack, {&client});
    for (const int bad : {-1, 6, INT32_MIN, INT32_MAX}) {
      EXPECT_EQ(set_class(client, bad), nt_status(Status::kInvalidParameter)) << bad;
    }
    for (const int privileged : {4, 5}) {
      EXPECT_EQ(set_class(client, privileged), nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(set_class(client, 1, nullptr), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.call(
                  [] { return D3DKMTGetProcessSchedulingPriorityClass(kCurrentProcess, nullptr); }),
              nt_status(Status::kInvalidParameter));
    auto out = static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS>(77);
    EXPECT_EQ(client.call([&] { return D3DKMTGetProcessSchedulingPriorityClass(nullptr, &out); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(static_cast<int>(out), 77);
    EXPECT_EQ(get_class(client), 3);
    EXPECT_EQ(digest(stack, {&client}), before);
    client.process->set_base_priority_privilege(true);
    for (const int privileged : {4, 5}) {
      EXPECT_EQ(set_class(client, privileged), 0);
      EXPECT_EQ(get_class(client), privileged);
    }
    EXPECT_EQ(set_priority(client, context, 7), 0) << "SCHED-11";
  });
}

// A process of a higher class goes first, whatever the priorities inside; also for contexts it
// makes later.
TEST_F(SchedTest, HigherClassGoesFirst) {
  DXGKIT_COVERS("SCHED-12");
  with_client(
      [](Stack& stack, Client& client) {
        Client other(stack, "other");
        ContextBuffers low = client.make_context();
        ASSERT_EQ(set_class(client, D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL), 0);
        ContextBuffers late = client.make_context();
        ContextBuffers high = other.make_context();
        ASSERT_EQ(set_priority(other, high, -7), 0);
        for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(low, work_on({})), 0);
        ASSERT_EQ(client.render(late, work_on({})), 0);
        for (int i = 0; i < 2; ++i) ASSERT_EQ(other.render(high, work_on({})), 0);
        stack.drive();
        // Two of the first reach the hardware before the others are there.
        EXPECT_EQ(contexts_of(stack.miniport.calls()), (std::vector<int>{0, 0, 1, 1, 2}));
        EXPECT_EQ(stack.miniport.calls().submits[4].args.hContext,
                  stack.miniport.calls().renders[2].context);
        other.end();
      },
      [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

TEST_F(SchedTest, InProcessPriorityIsZeroOrOne) {
  DXGKIT_COVERS("SCHED-13", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const ContextBuffers context = client.make_context();
    EXPECT_EQ(get_in_process(client, context.handle), 0);
    EXPECT_EQ(set_in_process(client, context.handle, 1), 0);
    EXPECT_EQ(get_in_process(client, context.handle), 1);
    const Digest before = digest(stack, {&client});
    for (const int bad : {-1, 2, INT32_MIN, INT32_MAX}) {
      EXPECT_EQ(set_in_process(client, context.handle, bad), nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(set_in_process(client, client.device, 0), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(get_in_process(client, context.handle), 1);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(set_in_process(client, context.handle, 0), 0);
    EXPECT_EQ(get_in_process(client, context.handle), 0);
  });
}

TEST_F(SchedTest, InProcessPriorityGoesAheadOfItsSiblings) {
  DXGKIT_COVERS("SCHED-13");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers first = client.make_context(), ahead = client.make_context();
        ASSERT_EQ(set_in_process(client, ahead.handle, 1), 0);
        for (int i = 0; i < 4; ++i) ASSERT_EQ(client.render(first, work_on({})), 0);
        for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(ahead, work_on({})), 0);
        stack.drive();
        EXPECT_EQ(contexts_of(stack.miniport.calls()), (std::vector<int>{0, 0, 1, 1, 0, 0}));
      },
      [](ScriptedMiniport& miniport) { miniport.config.preemption_aware = false; });
}

// A packet that outlives quantum and grace while an equal waits is preempted; without a waiting
// equal it may run on.
TEST_F(SchedTest, UsedUpQuantumPreemptsWhenAnEqualWaits) {
  DXGKIT_COVERS("SCHED-10");
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    Stack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers first = client.make_context(), second = client.make_context();
    ASSERT_EQ(client.render(first, work_on({})), 0);
    stack.settle();
    runtime->sleep_until(runtime->now() + 100 * runtime::kMillisecond);
    stack.settle();
    EXPECT_TRUE(stack.miniport.calls().preempts.empty()) << "alone";
    ASSERT_EQ(client.render(second, work_on({})), 0);
    stack.settle();
    runtime->sleep_until(runtime->now() + runtime::kMillisecond);
    stack.settle();
    const std::vector<DXGKARG_PREEMPTCOMMAND> preempts = stack.miniport.calls().preempts;
    ASSERT_EQ(preempts.size(), 1U);
    stack.miniport.preempted(0, preempts[0].PreemptionFenceId, 0);
    stack.settle();
    const std::vector<testing::SubmitCall> submits = stack.miniport.calls().submits;
    ASSERT_EQ(submits.size(), 4U);
    EXPECT_EQ(submits[2].args.hContext, submits[1].args.hContext) << "the one that waited";
    EXPECT_EQ(submits[3].args.hContext, submits[0].args.hContext);
    stack.drive();
  });
}

// Who still holds a context that was destroyed, or whose device is lost, changes nothing any more.
TEST_F(SchedTest, ContextsThatAreGoneTakeNothing) {
  DXGKIT_COVERS("SCHED-11", "THUNK-27");
  for (const bool destroyed : {true, false}) {
    SCOPED_TRACE(destroyed);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers context = client.make_context();
      ASSERT_EQ(set_priority(client, context, -2), 0);
      const auto held = client.process->handles().find<dxgk::Context>(context.handle);
      ASSERT_TRUE(held.has_value());
      dxgk::Context& gone = **held;
      if (destroyed) {
        ASSERT_EQ(client.destroy_context(context.handle), 0);
      } else {
        ASSERT_EQ(client.render(context, work_on({})), 0);
        stack.settle();
        stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                               nt_status(Status::kUnsuccessful));
        stack.settle();
      }
      EXPECT_EQ(client.state(),
                destroyed ? D3DKMT_DEVICEEXECUTION_ACTIVE : D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(gone.priority().set(-4), Status::kDeviceRemoved);
      EXPECT_EQ(gone.priority().value(), -2);
      EXPECT_EQ(gone.priority().set_ahead_in_process(true), Status::kDeviceRemoved);
      EXPECT_FALSE(gone.priority().ahead_in_process());
      EXPECT_EQ(gone.queue_sync(vidsch::PacketKind::kSignal, {}), Status::kDeviceRemoved);
      EXPECT_EQ(dxgk::Context::queue_signal(std::span(&*held, 1), {}, {}), Status::kDeviceRemoved);
      dxgk::RenderRequest request;
      request.command_length = 16;
      uint32_t queued = 0;
      EXPECT_EQ(gone.rendering().render(request, &queued),
                destroyed ? Status::kInvalidParameter : Status::kDeviceRemoved);
      EXPECT_EQ(digest(stack, {&client}), before);
    });
  }
}

// --- broadcast

struct Broadcast {
  NTSTATUS status;
  UINT queued;
};
Broadcast broadcast(Client& client, ContextBuffers& context, D3DKMT_HANDLE allocation,
                    std::vector<D3DKMT_HANDLE> others, uint32_t bytes = 64) {
  std::memset(context.command, 0x3C, bytes);
  context.allocations[0] = {};
  context.allocations[0].hAllocation = allocation;
  context.allocations[0].Value = 1;  // written
  context.patches[0] = patch_at(0, 16);
  D3DKMT_RENDER args{};
  args.hContext = context.handle;
  args.CommandLength = bytes;
  args.AllocationCount = allocation == 0 ? 0 : 1;
  args.PatchLocationCount = args.AllocationCount;
  args.BroadcastContextCount = static_cast<ULONG>(others.size());
  std::ranges::copy(others, args.BroadcastContext);
  const NTSTATUS status = client.call([&] { return D3DKMTRender(&args); });
  return {status, args.QueuedBufferCount};
}

// One Render of the driver, one submission per context, each with the same commands.
TEST_F(BroadcastTest, EveryContextRunsWhatWasBuiltOnce) {
  DXGKIT_COVERS("SUB-35", "REND-01");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers first = client.make_context(0), second = client.make_context(1),
                   third = client.make_context(0);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const Broadcast done = broadcast(client, first, allocation, {second.handle, third.handle});
    ASSERT_EQ(done.status, 0);
    EXPECT_EQ(done.queued, 1U) << "of the context itself";
    stack.drive();
    const ScriptedCalls calls = stack.miniport.calls();
    EXPECT_EQ(calls.renders.size(), 1U);
    std::vector<std::pair<void*, uint32_t>> places;
    std::vector<uint64_t> buffers;
    for (const testing::SubmitCall& call : calls.submits) {
      if (call.args.Flags.Paging) continue;
      places.emplace_back(call.args.hContext, call.args.NodeOrdinal);
      buffers.push_back(static_cast<uint64_t>(call.args.DmaBufferPhysicalAddress.QuadPart));
      EXPECT_EQ(call.args.DmaBufferSubmissionEndOffset,
                calls.submits.back().args.DmaBufferSubmissionEndOffset);
    }
    ASSERT_EQ(places.size(), 3U);
    std::ranges::sort(places);
    EXPECT_EQ(std::ranges::unique(places).begin(), places.end()) << "three contexts";
    EXPECT_EQ(std::ranges::count(places, 1U, &std::pair<void*, uint32_t>::second), 1);
    std::ranges::sort(buffers);
    EXPECT_EQ(std::ranges::unique(buffers).begin(), buffers.end()) << "a buffer each";
    // Patched for each, with the same list.
    EXPECT_EQ(calls.patches.size(), calls.submits.size());
    EXPECT_EQ(client.destroy_allocation(allocation), 0) << "and nothing holds it";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What was built for one fits the buffers of another that are at least as large.
TEST_F(BroadcastTest, BuffersOfTheOthersAreLargeEnough) {
  DXGKIT_COVERS("SUB-35");
  struct Row {
    UINT dma, private_data;
    bool fits;
  };
  for (const Row& row : {Row{16384, 256, true}, Row{16384, 255, false}, Row{16383, 256, false},
                         Row{20480, 320, true}}) {
    SCOPED_TRACE(::testing::Message() << row.dma << ", " << row.private_data);
    with_client([&](Stack& stack, Client& client) {
      ContextBuffers first = client.make_context();
      stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
        const NTSTATUS status = stack.miniport.default_create_context(device, args);
        args->ContextInfo.DmaBufferSize = row.dma;
        args->ContextInfo.DmaBufferPrivateDataSize = row.private_data;
        return status;
      };
      ContextBuffers second = client.make_context();
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(broadcast(client, first, 0, {second.handle}).status,
                row.fits ? 0 : nt_status(Status::kInvalidParameter));
      if (!row.fits) {
        EXPECT_EQ(digest(stack, {&client}), before);
      }
      stack.drive();
      EXPECT_EQ(stack.statistics().packets_completed, row.fits ? 2U : 0U);
      stack.miniport.hooks.create_context = nullptr;
    });
  }
}

TEST_F(BroadcastTest, ContextsThatCannotAreRefusedAndNothingRuns) {
  DXGKIT_COVERS("SUB-35", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers first = client.make_context(), second = client.make_context();
    const D3DKMT_HANDLE elsewhere = client.make_device();
    ContextBuffers foreign;
    ASSERT_EQ(client.create_context(&foreign, 0, elsewhere), 0);
    const Digest before = digest(stack, {&client});
    for (const std::vector<D3DKMT_HANDLE>& others : std::vector<std::vector<D3DKMT_HANDLE>>{
             {first.handle}, {second.handle, second.handle}, {foreign.handle}, {0}}) {
      EXPECT_EQ(broadcast(client, first, 0, others).status, nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(broadcast(client, first, 0, {second.handle}).status, 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_completed, 2U);
  });
}

// A context of the broadcast may be destroyed while another still has its copy to run.
TEST_F(BroadcastTest, ContextsGoIndependently) {
  with_client([](Stack& stack, Client& client) {
    ContextBuffers first = client.make_context(), second = client.make_context(1);
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.wait_gpu(second, fence, 1), 0);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    ASSERT_EQ(broadcast(client, first, allocation, {second.handle}).status, 0);
    stack.drive();
    stack.blocking([&] { EXPECT_EQ(client.destroy_context(first.handle), 0); });
    ASSERT_EQ(client.signal_cpu(fence, 1), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_cancelled, 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
