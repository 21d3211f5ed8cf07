// What an adapter reset means to hardware queues, and which failures of an engine lead to one.
#include <limits>

#include "tests/contract/hw_fixture.h"
#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kOk = 0;
constexpr uint64_t kMaximum = std::numeric_limits<uint64_t>::max();

class HwRecovery : public HwTest {
 protected:
  /// After a reset of the adapter engines have nothing any more, and work again.
  static void reset_empties(HwStack& stack) {
    stack.miniport.hooks.reset_from_timeout = [&stack]() -> NTSTATUS {
      for (const auto& queue : stack.hw.queues) queue->ring.clear();
      stack.miniport.forget_outstanding();
      stack.hw.paused = false;
      stack.hw.on_reset_engine = stack.hw.on_resume_engine = nullptr;
      return kOk;
    };
  }
  /// Who comes now has a queue that works.
  static void works_again(HwStack& stack, const char* name) {
    HwClient next(stack, name);
    for (const UINT node : {0U, 1U}) {
      ClientQueue queue = next.make_hw_queue(next.make_hw_context(node));
      ASSERT_EQ(next.submit(queue), kOk);
      stack.drive();
      EXPECT_EQ(*queue.cpu, 1U) << node;
    }
    EXPECT_EQ(next.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  }
};

TEST_F(HwRecovery, AnEngineThatCannotBeBroughtBackCostsTheAdapterAReset) {
  DXGKIT_COVERS("TDR-30", "TDR-26");
  for (const bool resume : {true, false}) {
    running([&](HwStack& stack) {
      reset_empties(stack);
      HwClient client(stack), elsewhere(stack, "elsewhere");
      ClientQueue queue = client.make_hw_queue(client.make_hw_context(1));
      ClientQueue far = elsewhere.make_hw_queue();
      const auto fails = [](uint32_t) { return nt_status(Status::kUnsuccessful); };
      (resume ? stack.hw.on_resume_engine : stack.hw.on_reset_engine) = fails;
      stack.hw.paused = true;
      ASSERT_EQ(client.submit(queue), kOk);
      wait_out(stack, stack.options.tdr_delay_ns + 50 * runtime::kMillisecond);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "TDR-30");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.ddi, resume ? "DxgkDdiResumeHwEngine" : "DxgkDdiResetHwEngine");
      EXPECT_EQ(finding.actual, "It returned 0xC0000001 for node 1.");
      EXPECT_EQ(stack.statistics().adapter_resets, 1U);
      EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
      EXPECT_EQ(elsewhere.submit(far), nt_status(Status::kDeviceRemoved));
      works_again(stack, "next");
    });
  }
}

// Two engines are silent, and the first cannot be reset: the adapter will be, and the second engine
// with it.
TEST_F(HwRecovery, BeforeAnAdapterResetNoOtherEngineIsReset) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    reset_empties(stack);
    HwClient client(stack), elsewhere(stack, "elsewhere");
    ClientQueue queue = client.make_hw_queue();
    ClientQueue far = elsewhere.make_hw_queue(elsewhere.make_hw_context(1));
    stack.hw.on_reset_engine = [](uint32_t) { return nt_status(Status::kUnsuccessful); };
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), kOk);
    ASSERT_EQ(elsewhere.submit(far), kOk);
    wait_out(stack, stack.options.tdr_delay_ns + 50 * runtime::kMillisecond);
    EXPECT_EQ(stack.hw.resets, std::vector<uint32_t>{0});
    EXPECT_EQ(stack.statistics().adapter_resets, 1U);
    works_again(stack, "next");
  });
}

TEST_F(HwRecovery, FencesOfLostQueuesAreAtTheirMaximumAndWaitersWake) {
  DXGKIT_COVERS("TDR-26", "TDR-30");
  running([](HwStack& stack) {
    reset_empties(stack);
    HwClient client(stack), waiting(stack, "waiting");
    ClientQueue hung = client.make_hw_queue();
    ClientQueue idle = client.make_hw_queue();
    stack.hw.on_resume_engine = [](uint32_t) { return nt_status(Status::kUnsuccessful); };
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(hung), kOk);
    ASSERT_EQ(client.submit(hung), kOk);
    NTSTATUS woken = 1;
    const auto waiter = runtime::Runtime::current().spawn("waiter", [&] {
      const uint64_t value = 2;
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args{};
      args.hDevice = client.device;
      args.ObjectCount = 1;
      args.ObjectHandleArray = &hung.fence;
      args.FenceValueArray = &value;
      woken = client.call([&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&args); });
    });
    rest(stack);
    EXPECT_EQ(woken, 1);
    EXPECT_LT(*hung.cpu, 2U);
    wait_out(stack, stack.options.tdr_delay_ns + 50 * runtime::kMillisecond);
    waiter->join();
    EXPECT_EQ(woken, nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(*hung.cpu, kMaximum);
    EXPECT_EQ(*idle.cpu, kMaximum);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_RESET);
    // What is lost can be destroyed.
    EXPECT_EQ(client.destroy_hw_queue(hung.handle), kOk);
    EXPECT_EQ(client.destroy_hw_context(hung.context), kOk);
    works_again(stack, "next");
  });
}

// A queue whose device is lost while its work still runs elsewhere: the fence tells the truth until
// that has ended.
TEST_F(HwRecovery, AFenceDoesNotJumpWhileItsWorkIsOnAnEngine) {
  DXGKIT_COVERS("TDR-30");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue hit = client.make_hw_queue();
    ClientQueue far = client.make_hw_queue(client.make_hw_context(1));
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(hit), kOk);
    ASSERT_EQ(client.submit(far), kOk);
    {
      const nt::CallFrame frame(stack.kernel, "a thread of the driver", nt::kPassiveLevel);
      EXPECT_EQ(stack.hw.invalidate(*stack.hw.contexts[0]), kOk);
    }
    stack.settle();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(*hit.cpu, kMaximum);
    EXPECT_EQ(*far.cpu, 0U);
    stack.hw.queues[0]->ring.clear();
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[1]));
    stack.settle();
    EXPECT_EQ(*far.cpu, kMaximum);
    stack.hw.paused = false;
  });
}

// A context is on its way out, and its engine is reset with the adapter before it answers: nothing
// is left to leave.
TEST_F(HwRecovery, WhoWaitsForAContextToLeaveWaitsNoLonger) {
  DXGKIT_COVERS("TDR-26", "SCHED-19");
  running([](HwStack& stack) {
    reset_empties(stack);
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.on_suspend = [](const DXGKARG_SUSPENDCONTEXT*) { return nt_status(Status::kPending); };
    const D3DKMT_DESTROYHWCONTEXT args{.hHwContext = queue.context};
    Stack::Background destroying(
        stack, [&] { EXPECT_EQ(client.call([&] { return D3DKMTDestroyHwContext(&args); }), kOk); });
    EXPECT_FALSE(destroying.finished());
    stack.adapter().core().lane().run([&] {
      stack.adapter().floor().timeout->require_adapter_reset(NodeOrdinal{0}, "The test wants it.");
    });
    rest(stack);
    EXPECT_TRUE(destroying.finished());
    EXPECT_TRUE(stack.hw.contexts[0]->gone);
    EXPECT_TRUE(stack.hw.resumes.empty());
    stack.hw.on_suspend = nullptr;
    works_again(stack, "next");
  });
}

TEST_F(HwRecovery, AHangOfTheKernelsOwnEnginesTakesQueuesWithIt) {
  DXGKIT_COVERS("TDR-26");
  running([](HwStack& stack) {
    reset_empties(stack);
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    ASSERT_EQ(client.submit(queue), kOk);
    stack.drive();
    EXPECT_EQ(*queue.cpu, 1U);
    stack.adapter().core().lane().run([&] {
      stack.adapter().floor().timeout->require_adapter_reset(NodeOrdinal{0}, "The test wants it.");
    });
    rest(stack);
    EXPECT_EQ(stack.statistics().adapter_resets, 1U);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_RESET);
    EXPECT_EQ(*queue.cpu, kMaximum);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
    works_again(stack, "next");
    EXPECT_TRUE(stack.rules().empty());
  });
}

}  // namespace
}  // namespace dxgkit::contract
