// The reset of a whole adapter: who is kept out, what is lost, what survives, how often.
#include <cstring>

#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using Strings = std::vector<std::string>;

constexpr const char* kResetAll = "DxgkDdiResetFromTimeout";
constexpr const char* kRestart = "DxgkDdiRestartFromTimeout";

class TdrAdapterTest : public TdrTest {
 protected:
  /// A driver without per-engine recovery.
  static void plain(const std::function<void(Stack&)>& body, dxgk::TimeoutPolicy policy = {}) {
    bare([&](Stack& stack) {
      stack.options.timeouts = policy;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      body(stack);
    });
  }
  /// A fresh device of the client hangs, and that is waited out.
  static void hang_once(Stack& stack, Client& client) {
    const D3DKMT_HANDLE device = client.make_device();
    ContextBuffers context;
    ASSERT_EQ(client.create_context(&context, 0, device), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_EQ(client.destroy_device(device), 0);
  }
};

TEST_F(TdrAdapterTest, EveryDeviceIsLostAndTheAdapterIsNot) {
  DXGKIT_COVERS("TDR-25", "TDR-26", "TDR-27", "TDR-32", "TDR-07");
  plain([](Stack& stack) {
    Client guilty(stack, "guilty"), other(stack, "other");
    ContextBuffers hung = guilty.make_context(0), fine = other.make_context(1);
    ASSERT_EQ(guilty.render(hung, work_on({})), 0);
    ASSERT_EQ(other.render(fine, work_on({})), 0);
    stack.settle();
    const uint32_t last = stack.miniport.outstanding(0).back();
    wait_out(stack);
    EXPECT_EQ(guilty.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_RESET);
    EXPECT_EQ(other.render(fine, work_on({})), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(other.destroy_context(fine.handle), 0);
    EXPECT_EQ(stack.statistics().adapter_resets, 1U);
    stack.adapter().core().lane().run([&] {
      for (uint32_t node = 0; node < 2; ++node) {
        const vidsch::NodeStatus status =
            stack.adapter().core().scheduler().node_status(NodeOrdinal{node});
        EXPECT_EQ(status.last_completed, status.last_submitted);
      }
    });
    // Applications make their devices anew, and fences go on.
    Client next(stack, "next");
    ContextBuffers fresh = next.make_context(0);
    ASSERT_EQ(next.render(fresh, work_on({next.make_allocation()})), 0);
    stack.drive();
    EXPECT_EQ(next.wait_for_idle(), 0);
    EXPECT_TRUE(
        fence_newer(SubmissionFenceId{stack.miniport.last_completed(0)}, SubmissionFenceId{last}));
    const auto all = reports(stack);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].code, 0x117U);
    EXPECT_TRUE(all[0].recovered);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
  });
}

TEST_F(TdrAdapterTest, NobodyElseIsInTheDriver) {
  DXGKIT_COVERS("TDR-21", "IRQL-08");
  plain([](Stack& stack) {
    Client client(stack), other(stack, "other");
    std::atomic<bool> inside{false}, leave{false}, alone{true};
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) -> NTSTATUS {
      inside = true;
      while (!leave) pass(runtime::kMillisecond);
      inside = false;
      return 0;
    };
    stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
      alone = !inside;
      stack.miniport.forget_outstanding();
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
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_TRUE(inside);
    EXPECT_EQ(stack.miniport.count(kResetAll), 0U) << "it waits for the thread inside";
    // Who comes now waits outside.
    std::atomic<bool> made{false};
    const auto late = runtime::Runtime::current().spawn("late", [&] {
      static_cast<void>(other.destroy_device(other.make_device()));
      made = true;
    });
    rest(stack);
    EXPECT_FALSE(made);
    leave = true;
    rest(stack);
    pass(10 * runtime::kMillisecond);
    rest(stack);
    EXPECT_EQ(stack.miniport.count(kResetAll), 1U);
    EXPECT_TRUE(alone);
    escape->join();
    late->join();
    EXPECT_TRUE(made);
  });
}

TEST_F(TdrAdapterTest, AThreadThatStaysInTheDriverIsFatal) {
  DXGKIT_COVERS("TDR-04");
  plain([](Stack& stack) {
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
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack, 2 * kDelay + 4900 * runtime::kMillisecond);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    wait_out(stack, 200 * runtime::kMillisecond);
    ASSERT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-04"}));
    EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x116U);
    EXPECT_EQ(stack.miniport.count(kResetAll), 0U);
    leave = true;
    escape->join();
  });
}

TEST_F(TdrAdapterTest, TheSixthResetOfAMinuteIsFatal) {
  DXGKIT_COVERS("TDR-05");
  plain([](Stack& stack) {
    stack.expect_leaks = true;
    Client client(stack, "client");
    pass(200 * runtime::kSecond);  // it is the time between them that counts
    for (int i = 0; i < 5; ++i) hang_once(stack, client);
    EXPECT_EQ(stack.statistics().adapter_resets, 5U);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    const D3DKMT_HANDLE device = client.make_device();
    ContextBuffers context;
    ASSERT_EQ(client.create_context(&context, 0, device), 0);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    ASSERT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-05"}));
    EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x116U);
    EXPECT_EQ(stack.miniport.count(kResetAll), 5U);
  });
}

TEST_F(TdrAdapterTest, ResetsFarApartDoNotCountTogether) {
  DXGKIT_COVERS("TDR-05");
  plain([](Stack& stack) {
    Client client(stack, "client");
    for (int i = 0; i < 7; ++i) {
      hang_once(stack, client);
      pass(15 * runtime::kSecond);
    }
    EXPECT_EQ(stack.statistics().adapter_resets, 7U);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
  });
}

TEST_F(TdrAdapterTest, DebugModeThreeGoesPastTheLimits) {
  DXGKIT_COVERS("TDR-03");
  dxgk::TimeoutPolicy policy;
  policy.debug_mode = 3;
  plain(
      [](Stack& stack) {
        Client client(stack, "client");
        for (int i = 0; i < 7; ++i) hang_once(stack, client);
        EXPECT_EQ(stack.statistics().adapter_resets, 7U);
        EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
      },
      policy);
}

TEST_F(TdrAdapterTest, ADriverThatCannotResetIsFatal) {
  DXGKIT_COVERS("TDR-23");
  // The second is also what a driver that is stopped answers; this one is not.
  for (const auto& [restart, answer] :
       {std::pair(false, Status::kUnsuccessful), std::pair(false, Status::kDeviceRemoved),
        std::pair(true, Status::kUnsuccessful), std::pair(true, Status::kDeviceRemoved)}) {
    plain([&, restart = restart, answer = answer](Stack& stack) {
      stack.expect_leaks = true;
      const auto fails = [answer] { return nt_status(answer); };
      (restart ? stack.miniport.hooks.restart_from_timeout
               : stack.miniport.hooks.reset_from_timeout) = fails;
      Client client(stack);
      ContextBuffers context = client.make_context();
      ASSERT_EQ(client.render(context, work_on({})), 0);
      wait_out(stack);
      ASSERT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-23"}));
      EXPECT_EQ(stack.findings.all()[1].bugcheck_code, 0x116U);
      EXPECT_EQ(stack.findings.all()[1].ddi, restart ? kRestart : kResetAll);
      EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    });
  }
}

// The engines are masked while they are reset: what is reported then is of before, and is dropped.
TEST_F(TdrAdapterTest, WhatIsReportedDuringTheResetIsNotHeard) {
  DXGKIT_COVERS("TDR-21");
  plain([&](Stack& stack) {
    stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
      stack.miniport.forget_outstanding();
      stack.miniport.raise(ScriptedMiniport::completed_data(0, 7777));
      return 0;
    };
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_EQ(stack.statistics().adapter_resets, 1U);
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    EXPECT_TRUE(stack.adapter().core().running());
    stack.miniport.hooks.reset_from_timeout = nullptr;
  });
}

// What was in video memory is told by zero-size transfers, what an aperture showed is unmapped.
TEST_F(TdrAdapterTest, TheKernelCleansUpBetweenTheTwoCalls) {
  DXGKIT_COVERS("TDR-24", "TDR-26", "PAGE-22");
  plain([](Stack& stack) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE local = client.make_allocation(64 * kKibibyte, 1U << 0);
    const D3DKMT_HANDLE mapped = client.make_allocation(64 * kKibibyte, 1U << 2);
    ASSERT_EQ(client.render(context, work_on({local, mapped})), 0);
    stack.drive();
    ASSERT_EQ(client.wait_for_idle(), 0);
    size_t zero_transfers = 0, unmaps = 0;
    bool between = false, submitted = false;
    stack.miniport.hooks.reset_from_timeout = [&]() -> NTSTATUS {
      stack.miniport.forget_outstanding();
      between = true;
      return 0;
    };
    stack.miniport.hooks.restart_from_timeout = [&]() -> NTSTATUS {
      between = false;
      return 0;
    };
    stack.miniport.hooks.submit = [&](const DXGKARG_SUBMITCOMMAND* args) {
      submitted = submitted || between;
      return stack.miniport.default_submit(args);
    };
    stack.miniport.hooks.build_paging = [&](DXGKARG_BUILDPAGINGBUFFER* args) {
      if (between && args->Operation == DXGK_OPERATION_TRANSFER && args->Transfer.TransferSize == 0)
        ++zero_transfers;
      if (between && args->Operation == DXGK_OPERATION_UNMAP_APERTURE_SEGMENT) ++unmaps;
      return stack.miniport.default_build_paging(args);
    };
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_EQ(stack.miniport.count(kRestart), 1U);
    EXPECT_EQ(zero_transfers, 1U);
    EXPECT_EQ(unmaps, 1U);
    EXPECT_FALSE(submitted);
    stack.drive();
    EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
  });
}

TEST_F(TdrAdapterTest, LockedAddressesStayValid) {
  DXGKIT_COVERS("TDR-28");
  plain([](Stack& stack) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ScriptedAllocation visible;
    visible.flags = 1;  // CpuVisible
    visible.supported_read = visible.supported_write = 1;
    D3DKMT_HANDLE allocation = 0;
    ASSERT_EQ(client.create_allocation(visible, &allocation), 0);
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    const uint64_t where = stack.miniport.calls().patches.back().allocations.at(0).physical_address;
    void* address = nullptr;
    ASSERT_EQ(client.lock(allocation, &address), 0);
    std::memset(address, 0x21, visible.size);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_NE(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    std::memset(address, 0x42, visible.size);  // faults if the address is gone
    EXPECT_EQ(static_cast<unsigned char*>(address)[visible.size - 1], 0x42);
    stack.drive();

    // The video memory it was in is somebody else's now: not a byte of it is at that address.
    Client next(stack, "next");
    ContextBuffers fresh = next.make_context();
    D3DKMT_HANDLE other = 0;
    ASSERT_EQ(next.create_allocation(visible, &other), 0);
    ASSERT_EQ(next.render(fresh, work_on({other})), 0);
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().patches.back().allocations.at(0).physical_address, where)
        << "the same place";
    void* theirs = nullptr;
    ASSERT_EQ(next.lock(other, &theirs), 0);
    std::memset(theirs, 0x77, visible.size);
    std::memset(address, 0x11, visible.size);
    for (uint64_t i = 0; i < visible.size; ++i)
      ASSERT_EQ(static_cast<unsigned char*>(theirs)[i], 0x77) << "byte " << i;
    for (uint64_t i = 0; i < visible.size; ++i)
      ASSERT_EQ(static_cast<unsigned char*>(address)[i], 0x11) << "byte " << i;
    EXPECT_EQ(next.unlock(other), 0);
    // The lost device's lock and allocation end as usual.
    EXPECT_EQ(client.destroy_allocation(allocation), 0);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    stack.drive();
  });
}

// An engine reset moves nothing: what the lost device has locked is still its own, content and all.
TEST_F(TdrAdapterTest, LocksOutliveAnEngineReset) {
  DXGKIT_COVERS("TDR-28", "TDR-18");
  engines([](Stack& stack, EngineResets&) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ScriptedAllocation visible;
    visible.flags = 1;
    visible.supported_read = visible.supported_write = 1;
    D3DKMT_HANDLE allocation = 0;
    ASSERT_EQ(client.create_allocation(visible, &allocation), 0);
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.drive();
    void* address = nullptr;
    ASSERT_EQ(client.lock(allocation, &address), 0);
    std::memset(address, 0x21, visible.size);
    ASSERT_EQ(client.render(context, work_on({})), 0);
    wait_out(stack);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
    for (uint64_t i = 0; i < visible.size; ++i)
      ASSERT_EQ(static_cast<unsigned char*>(address)[i], 0x21) << "byte " << i;
    std::memset(address, 0x42, visible.size);
    EXPECT_EQ(static_cast<unsigned char*>(address)[visible.size - 1], 0x42);
    EXPECT_EQ(client.destroy_allocation(allocation), 0);
    stack.drive();
  });
}

TEST_F(TdrAdapterTest, WorkUnderWayInEveryStateLeaves) {
  DXGKIT_COVERS("TDR-21", "TDR-26", "CANCEL-04");
  // Packets on hardware, prepared, paging, waiting on a fence: all leave, once, and the stack's end
  // finds nothing left.
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    bare(
        [&](Stack& stack) {
          ASSERT_EQ(stack.start(), Status::kSuccess);
          Client client(stack), other(stack, "other");
          ContextBuffers a = client.make_context(0), b = client.make_context(1),
                         c = other.make_context(0);
          const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
          for (int i = 0; i < 6; ++i) {
            const D3DKMT_HANDLE allocation = client.make_allocation(256 * kKibibyte, 1U << 0);
            ASSERT_EQ(client.render(a, work_on({allocation})), 0);
            ASSERT_EQ(client.render(b, work_on({allocation})), 0);
            ASSERT_EQ(other.render(c, work_on({other.make_allocation()})), 0);
            if (i == 2) {
              ASSERT_EQ(client.wait_gpu(a, fence, 9), 0);
            }
          }
          for (uint64_t i = 0; i < seed; ++i) {
            stack.settle();
            stack.miniport.complete_next(1);
          }
          wait_out(stack, kDelay + 500 * runtime::kMillisecond);  // equals wait: asked at a quantum
          EXPECT_EQ(stack.statistics().adapter_resets, 1U);
          stack.drive();
          Client next(stack, "next");
          ContextBuffers fresh = next.make_context(0);
          ASSERT_EQ(next.render(fresh, work_on({next.make_allocation()})), 0);
          stack.drive();
          EXPECT_EQ(next.wait_for_idle(), 0);
          EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
        },
        seed);
  }
}

// A completion from before the reset: the hardware was not quiet.
TEST_F(TdrAdapterTest, HardwareThatGoesOnIsAViolation) {
  DXGKIT_COVERS("TDR-22");
  plain([](Stack& stack) {
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    const uint32_t fence = stack.miniport.outstanding(0).front();
    wait_out(stack);
    stack.miniport.raise(ScriptedMiniport::completed_data(0, fence));
    rest(stack);
    EXPECT_EQ(stack.rules(), (Strings{"TDR-01", "TDR-22"}));
    EXPECT_TRUE(stack.adapter().core().running());
  });
}

}  // namespace
}  // namespace dxgkit::contract
