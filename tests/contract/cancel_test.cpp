// Packets that leave without having run: which of them the driver is told of, and what.
#include <array>
#include <map>

#include "tests/contract/odd_fixture.h"
#include "tests/contract/tdr_fixture.h"

namespace dxgkit::contract {
namespace {

using Strings = std::vector<std::string>;
using dxgk::CancelReading;
using dxgk::PowerTarget;

constexpr uint32_t kOperationBytes = sizeof(testing::PagingRecord);
constexpr CancelReading kReadings[] = {CancelReading::kNeverSubmitted,
                                       CancelReading::kAlsoGivenBack};

class CancelPagingTest : public TdrTest {
 protected:
  static void odd_stack(CancelReading reading, const std::function<void(Stack&)>& body,
                        const std::function<void(ScriptedMiniport&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      odd::driver(stack.miniport);
      if (prepare) prepare(stack.miniport);
      stack.options.cancel_reading = reading;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      odd::use_private_data(stack);
      stack.drive();
      stack.miniport.clear_calls();
      body(stack);
      stack.miniport.hooks = {};
    });
  }
  /// Four contexts wait for memory that paging brings; two paging packets are on hardware, two in
  /// the software queue, all in one buffer.
  static void queue_paging(Stack& stack, Client& client) {
    for (const UINT node : {0U, odd::kOtherNode, odd::kNode, 0U}) {
      ContextBuffers context = client.make_context(node);
      ASSERT_EQ(client.render(context, work_on({client.make_allocation(64 * kKibibyte, kVisible)})),
                0);
    }
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(odd::kPagingNode).size(), 2U);
    ASSERT_EQ(stack.miniport.calls().paging.size(), 4U);
    ASSERT_EQ(odd::submits(stack, true).size(), 2U);
  }
  /// `args` is the `index`th of queue_paging()'s packets.
  static void expect_paging(Stack& stack, const DXGKARG_CANCELCOMMAND& args, uint32_t index,
                            void* context) {
    const testing::PagingCall built = stack.miniport.paging_call(0);
    EXPECT_EQ(args.hContext, context);
    EXPECT_EQ(args.pDmaBuffer, built.args.pDmaBuffer);
    EXPECT_EQ(reinterpret_cast<uint64_t>(args.pDmaBuffer) % 4096, 0U);
    EXPECT_EQ(args.DmaBufferSize, odd::kPagingBytes);
    EXPECT_EQ(args.DmaBufferSubmissionStartOffset, index * kOperationBytes);
    EXPECT_EQ(args.DmaBufferSubmissionEndOffset, (index + 1) * kOperationBytes);
    EXPECT_EQ(args.pDmaBufferPrivateData, built.args.pDmaBufferPrivateData);
    EXPECT_EQ(args.DmaBufferPrivateDataSize, odd::kPagingPrivateBytes);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionStartOffset, index * odd::kPagingPrivateUsed);
    EXPECT_EQ(args.DmaBufferPrivateDataSubmissionEndOffset, (index + 1) * odd::kPagingPrivateUsed);
    EXPECT_EQ(args.pAllocationList, nullptr);
    EXPECT_EQ(args.AllocationListSize, 0U);
    EXPECT_EQ(args.pPatchLocationList, nullptr);
    EXPECT_EQ(args.PatchLocationListSize, 0U);
    EXPECT_EQ(args.PatchLocationListSubmissionStart, 0U);
    EXPECT_EQ(args.PatchLocationListSubmissionLength, 0U);
    EXPECT_EQ(args.DmaBufferVirtualAddress, 0U);
    EXPECT_EQ(args.DmaBufferUmdPrivateDataSize, 0U);
  }
  /// Which of queue_paging()'s packets were cancelled, in order.
  static std::vector<uint32_t> cancelled_paging(Stack& stack) {
    std::vector<uint32_t> found;
    for (const testing::CancelCall& call : odd::cancels(stack, true))
      found.push_back(call.args.DmaBufferSubmissionStartOffset / kOperationBytes);
    return found;
  }
};

TEST_F(CancelPagingTest, WhatIsQueuedAtAnAdapterResetIsCancelledMemberByMember) {
  DXGKIT_COVERS("CANCEL-20", "CANCEL-22", "CANCEL-04", "CANCEL-06", "CANCEL-07", "CANCEL-08",
                "CANCEL-09", "CANCEL-10", "CANCEL-11", "CANCEL-12", "CANCEL-13", "CANCEL-14",
                "CANCEL-15", "CANCEL-16");
  for (const CancelReading reading : kReadings) {
    odd_stack(reading, [](Stack& stack) {
      Client client(stack);
      queue_paging(stack, client);
      void* const context = stack.adapter().floor().system_objects->context();
      ASSERT_NE(context, nullptr);
      ASSERT_EQ(odd::submits(stack, true)[0].args.hContext, context);
      wait_out(stack);
      EXPECT_EQ(stack.statistics().adapter_resets, 1U);
      const auto cancels = odd::cancels(stack, true);
      // Those on hardware went with it: DxgkDdiResetFromTimeout says so to the driver.
      ASSERT_EQ(cancels.size(), 2U);
      for (uint32_t i = 0; i < 2; ++i) {
        SCOPED_TRACE(i);
        expect_paging(stack, cancels[i].args, i + 2, context);
      }
      EXPECT_EQ(odd::cancels(stack, false).size(), 4U) << "and what waited for them";
      const Strings order = TdrTest::order(
          stack, {"DxgkDdiResetFromTimeout", "DxgkDdiCancelCommand", "DxgkDdiRestartFromTimeout"});
      ASSERT_EQ(order.size(), 8U);
      EXPECT_EQ(order.front(), "DxgkDdiResetFromTimeout");
      EXPECT_EQ(order.back(), "DxgkDdiRestartFromTimeout");
      stack.drive();
      EXPECT_EQ(odd::cancels(stack, true).size(), 2U);
      EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    });
  }
}

// An adapter that leaves, and one that stops after a driver's failure.
TEST_F(CancelPagingTest, WhatIsQueuedWhenTheAdapterEndsIsCancelled) {
  DXGKIT_COVERS("CANCEL-20", "CANCEL-22");
  for (const bool removed : {true, false}) {
    SCOPED_TRACE(removed ? "removed" : "failed");
    odd_stack(CancelReading::kNeverSubmitted, [&](Stack& stack) {
      Client client(stack);
      queue_paging(stack, client);
      void* const context = stack.adapter().floor().system_objects->context();
      if (removed) {
        stack.miniport.forget_outstanding();
        stack.machine.pull_out(stack.miniport.function());
        stack.blocking(
            [&] { EXPECT_EQ(stack.system->remove_adapter(stack.luid), Status::kSuccess); });
      } else {
        stack.expect_leaks = true;
        const uint32_t fence = stack.miniport.outstanding(odd::kPagingNode)[0];
        stack.miniport.faulted(odd::kPagingNode, fence, nt_status(Status::kUnsuccessful));
        stack.settle();
      }
      EXPECT_EQ(stack.rules(), Strings{removed ? "LIFE-21" : "PAGE-49"});
      const auto cancels = odd::cancels(stack, true);
      ASSERT_EQ(cancels.size(), 2U);
      for (uint32_t i = 0; i < 2; ++i) {
        SCOPED_TRACE(i);
        expect_paging(stack, cancels[i].args, i + 2, context);
      }
      stack.drive();
      EXPECT_EQ(odd::cancels(stack, true).size(), 2U);
    });
  }
}

// The eviction of all content on the way to sleep is no context's work, and power fails in it.
TEST_F(CancelPagingTest, WorkOfNoContextIsCancelledWithoutOne) {
  DXGKIT_COVERS("CANCEL-06", "CANCEL-20", "CANCEL-22");
  odd_stack(
      CancelReading::kNeverSubmitted,
      [](Stack& stack) {
        Client client(stack);
        ContextBuffers context = client.make_context(odd::kNode);
        for (int i = 0; i < 6; ++i) {
          const D3DKMT_HANDLE dirty = client.make_allocation(64 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(context, work_on({dirty})), 0);
          stack.drive();
        }
        stack.miniport.clear_calls();
        std::unique_ptr<Stack::Background> down = std::make_unique<Stack::Background>(stack, [&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD3).has_value());
        });
        ASSERT_FALSE(down->finished());
        const auto submits = odd::submits(stack, true);
        ASSERT_EQ(submits.size(), 2U) << "two evictions each, and two more wait";
        EXPECT_EQ(submits[0].args.hContext, nullptr);
        stack.miniport.forget_outstanding();
        EXPECT_EQ(stack.system->power_failed(stack.luid, PowerTarget::kD3), Status::kSuccess);
        down->finish();
        const auto cancels = odd::cancels(stack, true);
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value());
        });
        ASSERT_EQ(cancels.size(), 1U);
        const testing::PagingCall built = stack.miniport.paging_call(4);
        EXPECT_EQ(cancels[0].args.hContext, nullptr);
        EXPECT_EQ(cancels[0].args.pDmaBuffer, built.args.pDmaBuffer);
        EXPECT_EQ(cancels[0].args.DmaBufferSubmissionEndOffset, 2 * kOperationBytes);
        EXPECT_EQ(cancels[0].args.DmaBufferPrivateDataSubmissionEndOffset,
                  2 * odd::kPagingPrivateUsed);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_RESET);
        EXPECT_EQ(stack.rules(), Strings{});
      },
      [](ScriptedMiniport& miniport) {
        // Room for two operations: what is left is too little for a third.
        miniport.config.paging_buffer_bytes = 256 + kOperationBytes;
      });
}

// What a device's end leaves queued is the kernel's, and runs.
TEST_F(CancelPagingTest, PagingOutlivesTheDeviceItWasFor) {
  DXGKIT_COVERS("CANCEL-25");
  odd_stack(CancelReading::kNeverSubmitted, [](Stack& stack) {
    Client client(stack);
    queue_paging(stack, client);
    Stack::Background ending(stack, [&] {
      D3DKMT_DESTROYDEVICE destroy{.hDevice = client.device};
      EXPECT_EQ(client.call([&] { return D3DKMTDestroyDevice(&destroy); }), 0);
    });
    EXPECT_FALSE(ending.finished());
    ending.finish();
    EXPECT_EQ(odd::cancels(stack, true).size(), 0U);
    uint32_t end = 0;
    for (const testing::SubmitCall& call : odd::submits(stack, true))
      end = std::max<uint32_t>(end, call.args.DmaBufferSubmissionEndOffset);
    EXPECT_GE(end, 4 * kOperationBytes);
    EXPECT_EQ(stack.rules(), Strings{});
  });
}

// The engine gives paging back, and the adapter is reset before it can go there again.
TEST_F(CancelPagingTest, PagingThatWasGivenBackIsCancelledInOneReadingOnly) {
  DXGKIT_COVERS("CANCEL-21", "CANCEL-20");
  for (const CancelReading reading : kReadings) {
    static std::function<void()> while_debugging;
    odd_stack(
        reading,
        [&](Stack& stack) {
          Client client(stack);
          queue_paging(stack, client);
          while_debugging = [&stack] {
            const DXGKARG_PREEMPTCOMMAND asked = stack.miniport.calls().preempts.back();
            ASSERT_EQ(asked.NodeOrdinal, odd::kPagingNode);
            stack.miniport.preempted(odd::kPagingNode, asked.PreemptionFenceId,
                                     stack.miniport.last_completed(odd::kPagingNode));
          };
          wait_out(stack);
          while_debugging = nullptr;
          EXPECT_EQ(stack.statistics().adapter_resets, 1U);
          const bool told = reading == CancelReading::kAlsoGivenBack;
          EXPECT_EQ(cancelled_paging(stack),
                    told ? (std::vector<uint32_t>{0, 1, 2, 3}) : (std::vector<uint32_t>{2, 3}));
          stack.drive();
          EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
        },
        [](ScriptedMiniport& miniport) {
          miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
            table.DxgkDdiCollectDbgInfo = [](HANDLE, const DXGKARG_COLLECTDBGINFO*)
                                              NTAPI -> NTSTATUS {
              if (while_debugging) while_debugging();
              return STATUS_SUCCESS;
            };
          };
        });
  }
}

// --- rendering that was given back ---

/// Three packets of one context: two come back from hardware, the third never was there; then its
/// device is lost.
class GivenBackTest : public CancelPagingTest {
 protected:
  static void submit_three(Stack& stack, Client& client, Client& urgent) {
    ContextBuffers context = client.make_context(odd::kNode),
                   elsewhere = client.make_context(odd::kOtherNode);
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY low{.hContext = context.handle, .Priority = -2};
    EXPECT_EQ(client.call([&] { return D3DKMTSetContextSchedulingPriority(&low); }), 0);
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    for (uint32_t i = 0; i < 3; ++i) {
      Work work = work_on({});
      work.command_bytes = 64 * (i + 1);
      EXPECT_EQ(client.render(context, work), 0);
      // Neither of them is a DMA buffer (CANCEL-23).
      EXPECT_EQ(client.signal_gpu(context, fence, i + 1), 0);
    }
    EXPECT_EQ(client.wait_gpu(context, fence, 77), 0);
    EXPECT_EQ(client.render(elsewhere, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(odd::kNode).size(), 2U);
    ContextBuffers other = urgent.make_context(odd::kNode);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(urgent.render(other, work_on({})), 0);  // fills it
    stack.settle();
    EXPECT_EQ(stack.miniport.calls().preempts.size(), 1U);
  }
  static void give_back(Stack& stack) {
    const DXGKARG_PREEMPTCOMMAND asked = stack.miniport.calls().preempts.at(0);
    stack.miniport.preempted(odd::kNode, asked.PreemptionFenceId, 0);
    stack.settle();
  }
  static void lose(Stack& stack) {
    stack.miniport.faulted(odd::kOtherNode, stack.miniport.outstanding(odd::kOtherNode).at(0),
                           nt_status(Status::kUnsuccessful));
    stack.settle();
  }
  static std::vector<UINT> ends(Stack& stack) {
    std::vector<UINT> found;
    for (const testing::CancelCall& call : stack.miniport.calls().cancels)
      found.push_back(call.args.DmaBufferSubmissionEndOffset);
    return found;
  }
};

TEST_F(GivenBackTest, RenderingIsCancelledInOneReadingOnly) {
  DXGKIT_COVERS("CANCEL-21", "CANCEL-23", "CANCEL-04", "CANCEL-03");
  for (const CancelReading reading : kReadings) {
    for (const bool lost_first : {false, true}) {
      SCOPED_TRACE(lost_first ? "lost while on hardware" : "lost when back");
      odd_stack(reading, [&](Stack& stack) {
        Client client(stack), urgent(stack, "urgent");
        submit_three(stack, client, urgent);
        if (lost_first) {
          lose(stack);
          EXPECT_EQ(ends(stack), std::vector<UINT>{192});
          give_back(stack);
        } else {
          give_back(stack);
          EXPECT_EQ(ends(stack), std::vector<UINT>{});
          lose(stack);
        }
        std::vector<UINT> expected{192};
        if (reading == CancelReading::kAlsoGivenBack)
          expected = lost_first ? std::vector<UINT>{192, 64, 128} : std::vector<UINT>{64, 128, 192};
        EXPECT_EQ(ends(stack), expected);
        const ScriptedCalls calls = stack.miniport.calls();
        for (const testing::CancelCall& call : calls.cancels) {
          const size_t which = call.args.DmaBufferSubmissionEndOffset / 64 - 1;
          EXPECT_EQ(call.args.hContext, calls.renders.at(which).context);
          EXPECT_EQ(call.args.pDmaBuffer, calls.renders.at(which).args.pDmaBuffer);
          EXPECT_EQ(call.args.pDmaBufferPrivateData,
                    calls.renders.at(which).args.pDmaBufferPrivateData);
        }
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
        stack.drive();
        EXPECT_EQ(ends(stack), expected);
        EXPECT_EQ(urgent.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(urgent.wait_for_idle(), 0);
        EXPECT_EQ(stack.rules(), Strings{});
      });
    }
  }
}

// What comes back and runs to its end is no cancellation.
TEST_F(GivenBackTest, WhatRunsAfterAllIsNotCancelled) {
  DXGKIT_COVERS("CANCEL-21", "CANCEL-04");
  odd_stack(CancelReading::kAlsoGivenBack, [](Stack& stack) {
    Client client(stack), urgent(stack, "urgent");
    submit_three(stack, client, urgent);
    give_back(stack);
    stack.drive();
    EXPECT_EQ(ends(stack), std::vector<UINT>{});
    // On hardware again when its device is lost, and not given back: it is not cancelled either.
    ContextBuffers context = client.make_context(odd::kOtherNode);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    lose(stack);
    EXPECT_EQ(ends(stack), std::vector<UINT>{});
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    stack.drive();
    EXPECT_EQ(ends(stack), std::vector<UINT>{});
  });
}

// An engine's reset gives back what was behind the packet that hung.
TEST_F(GivenBackTest, WhatAnEngineResetGivesBackIsTheSame) {
  DXGKIT_COVERS("CANCEL-21", "CANCEL-22", "TDR-16");
  for (const CancelReading reading : kReadings) {
    bare([&](Stack& stack) {
      EngineResets resets(stack.miniport);
      odd::driver(stack.miniport);
      stack.options.cancel_reading = reading;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      ContextBuffers context = client.make_context(odd::kNode);
      for (uint32_t i = 0; i < 3; ++i) {
        Work work = work_on({});
        work.command_bytes = 64 * (i + 1);
        ASSERT_EQ(client.render(context, work), 0);
      }
      stack.settle();
      wait_out(stack);
      EXPECT_EQ(stack.statistics().engine_resets, 1U);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
      const bool told = reading == CancelReading::kAlsoGivenBack;
      EXPECT_EQ(ends(stack), told ? (std::vector<UINT>{128, 192}) : std::vector<UINT>{192});
      stack.drive();
      EXPECT_EQ(stack.rules(), Strings{"TDR-01"});
    });
  }
}

// --- drivers that were written to one reading or the other ---

/// Holds something for each DMA buffer from Render on, by its private data.
class Holder {
 public:
  enum class LetsGo {
    kWhenSubmitted,  // "never reached the hardware queue": what was submitted is its own business
    kWhenDone,       // "removed from the hardware queue": completed, or cancelled
  };
  Holder(Stack& stack, LetsGo when) : when_(when) {
    odd::use_private_data(stack);
    const auto render = stack.miniport.hooks.render;
    stack.miniport.hooks.render = [this, render](void* context, DXGKARG_RENDER* args) {
      held_.emplace(args->pDmaBufferPrivateData, true);
      return render(context, args);
    };
    stack.miniport.hooks.submit = [this, &stack](const DXGKARG_SUBMITCOMMAND* args) {
      void* const key = args->pDmaBufferPrivateData;
      if (args->Flags.Paging == 0) {
        fences_[{args->NodeOrdinal, args->SubmissionFenceId}] = key;
        if (when_ == LetsGo::kWhenSubmitted) held_.erase(key);
      }
      return stack.miniport.default_submit(args);
    };
    stack.miniport.hooks.execute = [this](uint32_t node, uint32_t fence) {
      if (const auto found = fences_.find({node, fence}); found != fences_.end())
        held_.erase(found->second);
      return true;
    };
    stack.miniport.hooks.cancel = [this](const DXGKARG_CANCELCOMMAND* args) {
      if (held_.erase(args->pDmaBufferPrivateData) == 0) ++freed_twice;
      return nt_status(Status::kSuccess);
    };
  }
  size_t leaked() const { return held_.size(); }
  size_t freed_twice = 0;

 private:
  const LetsGo when_;
  std::map<void*, bool> held_;
  std::map<std::pair<uint32_t, uint32_t>, void*> fences_;
};

TEST_F(GivenBackTest, ADriverWrittenToTheOtherReadingIsFound) {
  DXGKIT_COVERS("CANCEL-21");
  struct Row {
    Holder::LetsGo when;
    CancelReading reading;
    size_t leaked, freed_twice;
  };
  constexpr Row kRows[] = {
      {Holder::LetsGo::kWhenSubmitted, CancelReading::kNeverSubmitted, 0, 0},
      {Holder::LetsGo::kWhenSubmitted, CancelReading::kAlsoGivenBack, 0, 2},
      {Holder::LetsGo::kWhenDone, CancelReading::kNeverSubmitted, 2, 0},
      {Holder::LetsGo::kWhenDone, CancelReading::kAlsoGivenBack, 0, 0},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(&row - kRows);
    odd_stack(row.reading, [&](Stack& stack) {
      Holder holder(stack, row.when);
      {
        Client client(stack), urgent(stack, "urgent");
        submit_three(stack, client, urgent);
        give_back(stack);
        const uint32_t fence = stack.miniport.outstanding(odd::kOtherNode).at(0);
        static_cast<void>(stack.miniport.hooks.execute(odd::kOtherNode, fence));  // it faults
        lose(stack);
        stack.drive();
      }
      EXPECT_EQ(holder.leaked(), row.leaked);
      EXPECT_EQ(holder.freed_twice, row.freed_twice);
      stack.miniport.hooks = {};
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
