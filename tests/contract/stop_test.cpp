// Work that belongs to no context: the frame buffer leaves before the device stops. And submissions
// the kernel refuses to broadcast, or that are not to be executed.
#include <atomic>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using StopTest = ContractTest;

void make_resident(Stack& stack, Client& client, D3DKMT_HANDLE allocation) {
  ContextBuffers context = client.make_context();
  ASSERT_EQ(client.render(context, work_on({allocation})), 0);
  stack.drive();
}

// What a client wrote to video memory is transferred out before StopDevice, by paging packets
// without a context: the flag and the node say what they are.
TEST_F(StopTest, TheFrameBufferIsEvictedOnANullContext) {
  DXGKIT_COVERS("SUB-03", "PATCH-04", "LIFE-18", "SUB-19");
  with_client([](Stack& stack, Client& client) {
    make_resident(stack, client, client.make_allocation(64 * kKibibyte, kHidden));
    stack.miniport.clear_calls();
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    const ScriptedCalls calls = stack.miniport.calls();
    size_t out = 0;
    for (const testing::PagingCall& call : calls.paging) {
      if (call.args.Operation != DXGK_OPERATION_TRANSFER) continue;
      EXPECT_EQ(call.args.Transfer.Source.SegmentId, 2U);
      EXPECT_EQ(call.args.Transfer.Destination.SegmentId, 0U);
      ++out;
    }
    EXPECT_EQ(out, 1U);
    ASSERT_FALSE(calls.submits.empty());
    ASSERT_EQ(calls.patches.size(), calls.submits.size());
    EXPECT_EQ(calls.submits.front().args.hContext, nullptr);
    EXPECT_EQ(calls.submits.front().args.Flags.Paging, 1U);
    EXPECT_EQ(calls.submits.front().args.NodeOrdinal, stack.miniport.config.paging_node);
    EXPECT_EQ(calls.patches.front().args.hContext, nullptr);
    EXPECT_EQ(calls.patches.front().args.Flags.Paging, 1U);
    EXPECT_EQ(calls.order.back(), "DxgkDdiRemoveDevice");
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A driver that cannot submit paging work without a context is told what it lacks.
TEST_F(StopTest, ADriverThatNeedsAContextForPagingIsToldToKeepOne) {
  DXGKIT_COVERS("SUB-04");
  with_client([](Stack& stack, Client& client) {
    make_resident(stack, client, client.make_allocation(64 * kKibibyte, kHidden));
    stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
      if (args->hContext == nullptr) return nt_status(Status::kInvalidParameter);
      return stack.miniport.default_submit(args);
    };
    stack.expect_leaks = true;
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.rules(), (std::vector<std::string>{"SUB-27", "SUB-04"}));
    const verifier::Finding finding = stack.findings.all().back();
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    EXPECT_EQ(finding.ddi, "DxgkDdiSubmitCommand");
    EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiRemoveDevice");
  });
}

// Null rendering leaves out the execution only: the fence is owed, and a driver that drops it is
// timed out.
TEST_F(StopTest, NullRenderingStillOwesItsFence) {
  DXGKIT_COVERS("SUB-22", "SUB-23");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    Work work = work_on({client.make_allocation()});
    work.flags.NullRendering = 1;
    ASSERT_EQ(client.render(context, work), 0);
    stack.drive();
    EXPECT_EQ(stack.statistics().packets_cancelled, 0U);
    EXPECT_EQ(client.wait_for_idle(), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});

    ASSERT_EQ(client.render(context, work), 0);
    stack.expect_leaks = true;
    runtime::Runtime::current().sleep_for(3 * stack.options.tdr_delay_ns);
    stack.settle();
    EXPECT_EQ(stack.only_finding().rule, "TDR-01");
    EXPECT_EQ(client.wait_for_idle(), nt_status(Status::kDeviceRemoved));
  });
}

// Broadcast: at most 64 further contexts, each of the caller's process.
TEST_F(StopTest, BroadcastContextsAreCountedAndResolved) {
  DXGKIT_COVERS("SUB-35");
  with_client([](Stack& stack, Client& client) {
    Client stranger(stack, "stranger");
    ContextBuffers context = client.make_context();
    ContextBuffers other = client.make_context();
    ContextBuffers foreign = stranger.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const auto broadcast = [&](ULONG count, D3DKMT_HANDLE second) {
      context.allocations[0].hAllocation = allocation;
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 64;
      args.BroadcastContextCount = count;
      args.BroadcastContext[0] = second;
      return client.call([&] { return D3DKMTRender(&args); });
    };
    const Digest before = digest(stack, {&client, &stranger});
    EXPECT_EQ(broadcast(D3DDDI_MAX_BROADCAST_CONTEXT + 1, other.handle),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(broadcast(UINT32_MAX, other.handle), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(broadcast(1, foreign.handle + 0x10000), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(broadcast(1, allocation), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(broadcast(2, other.handle), nt_status(Status::kInvalidParameter))
        << "the second is 0";
    EXPECT_EQ(digest(stack, {&client, &stranger}), before);
  });
}

// A program waits for so many packets, until it is told otherwise, or until the adapter ends.
TEST_F(StopTest, WaitingForPacketsEndsWithThemOrWithoutThem) {
  DXGKIT_COVERS("LIFE-18");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const uint64_t before = stack.statistics().packets_completed;
    std::atomic<bool> cancelled{false};
    EXPECT_FALSE(stack.system->wait_for_packets(dxgk::Luid{77, 0}, 0, cancelled));
    bool reached = false;
    {
      Stack::Background waits(stack, [&] {
        reached = stack.system->wait_for_packets(stack.luid, before + 2, cancelled);
      });
      EXPECT_FALSE(waits.finished());
      for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
      EXPECT_FALSE(waits.finished()) << "they are on hardware";
      stack.drive();
      EXPECT_TRUE(waits.finished());
      EXPECT_TRUE(reached);
    }
    for (const bool stops : {false, true}) {
      SCOPED_TRACE(stops);
      reached = true;
      cancelled = false;
      Stack::Background waits(stack, [&] {
        reached = stack.system->wait_for_packets(stack.luid, before + 3, cancelled);
      });
      EXPECT_FALSE(waits.finished());
      if (stops) {
        stack.miniport.raise(ScriptedMiniport::completed_data(0, 77));  // fatal
        stack.expect_leaks = true;
      } else {
        cancelled = true;
        stack.system->nudge(stack.luid);
      }
      EXPECT_TRUE(waits.finished());
      EXPECT_FALSE(reached);
    }
  });
}

}  // namespace
}  // namespace dxgkit::contract
