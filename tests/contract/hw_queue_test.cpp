// Hardware queues: what clients may ask, what the driver is told, what a fence says.
#include "tests/contract/hw_fixture.h"

namespace dxgkit::contract {
namespace {

using HwQueueTest = HwTest;

TEST_F(HwQueueTest, TheFenceIsOneWordForProcessorEngineAndDriver) {
  DXGKIT_COVERS("SUB-40", "SYNC-15");
  running([](HwStack& stack) {
    HwClient client(stack);
    const ClientQueue queue = client.make_hw_queue();
    ASSERT_EQ(stack.hw.queues.size(), 1U);
    const DXGKARG_CREATEHWQUEUE& told = stack.hw.queues[0]->args;
    EXPECT_EQ(told.hHwQueueProgressFence, queue.fence);
    EXPECT_EQ(told.HwQueueProgressFenceGPUVirtualAddress, queue.va);
    EXPECT_EQ(queue.va % 8, 0U);
    ASSERT_NE(queue.cpu, nullptr);
    EXPECT_EQ(*queue.cpu, 0U);
    const auto walk = client.walk(queue.va);
    ASSERT_TRUE(walk.valid) << walk.why;
    EXPECT_TRUE(walk.writable);
    EXPECT_EQ(static_cast<void*>(walk.cpu), told.HwQueueProgressFenceCPUVirtualAddress);
    ASSERT_TRUE(stack.gpu.write(client.process_handle(), queue.va, 7));
    EXPECT_EQ(*queue.cpu, 7U);
    // It is the queue's: nobody takes it or its address away.
    const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = queue.fence};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&destroy); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.free_va(queue.va, kPage), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.destroy_hw_queue(queue.handle), 0);
    stack.drive();
    EXPECT_FALSE(client.walk(queue.va).valid);
  });
}

TEST_F(HwQueueTest, TheDriverGetsTheClientsValues) {
  DXGKIT_COVERS("SUB-40");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue(client.make_hw_context(1));
    EXPECT_EQ(stack.hw.contexts[0]->args.NodeOrdinal, 1U);
    EXPECT_EQ(stack.hw.contexts[0]->args.EngineAffinity, 1U);
    stack.hw.paused = true;
    std::vector<std::byte> data(40, std::byte{0x3C});
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
    args.HwQueueProgressFenceId = queue.next = 0x1'0000'0005;
    args.CommandLength = 3 * sizeof(GpuCommand);
    args.pPrivateDriverData = data.data();
    args.PrivateDriverDataSize = 40;
    ASSERT_EQ(client.submit(args), 0);
    ASSERT_EQ(stack.hw.submissions.size(), 1U);
    const DXGKARG_SUBMITCOMMANDTOHWQUEUE& told = stack.hw.submissions[0].args;
    EXPECT_EQ(told.hHwQueue, stack.hw.queues[0].get());
    EXPECT_EQ(told.HwQueueProgressFenceId, 0x1'0000'0005U);
    EXPECT_EQ(told.DmaBufferVirtualAddress, client.va);
    EXPECT_EQ(told.DmaBufferSize, 3 * sizeof(GpuCommand));
    EXPECT_EQ(told.Flags.Value, 0U);
    EXPECT_EQ(told.HwQueueProgressFenceGpuVa, queue.va);
    EXPECT_EQ(told.HwQueueProgressFenceCpuVa,
              stack.hw.queues[0]->args.HwQueueProgressFenceCPUVirtualAddress);
    EXPECT_EQ(stack.hw.submissions[0].private_data, data);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(*queue.cpu, 0x1'0000'0005U);
    EXPECT_EQ(stack.statistics().packets_completed, stack.statistics().packets_submitted);
  });
}

TEST_F(HwQueueTest, PrivateDataIsGoneWhenTheCallReturns) {
  DXGKIT_COVERS("SUB-39");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    std::vector<std::byte> data(64, std::byte{0x55});
    const std::byte* kept = nullptr;
    std::byte inside{};
    stack.hw.on_submit = [&](const DXGKARG_SUBMITCOMMANDTOHWQUEUE* args) {
      kept = static_cast<const std::byte*>(args->pDmaBufferPrivateData);
      inside = kept[63];
      return nt_status(Status::kSuccess);
    };
    stack.hw.paused = true;
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
    args.pPrivateDriverData = data.data();
    args.PrivateDriverDataSize = 64;
    ASSERT_EQ(client.submit(args), 0);
    ASSERT_NE(kept, nullptr);
    EXPECT_NE(kept, data.data()) << "a copy of the kernel's";
    EXPECT_EQ(inside, std::byte{0x55});
    for (size_t i = 0; i < 64; ++i) ASSERT_NE(kept[i], std::byte{0x55}) << i;
    EXPECT_EQ(stack.hw.queues[0]->ring.size(), 1U) << "and the buffer has not even run";
    stack.hw.on_submit = nullptr;
  });
}

TEST_F(HwQueueTest, ValuesRiseInEachQueue) {
  DXGKIT_COVERS("SUB-40");
  running([](HwStack& stack) {
    HwClient client(stack);
    const D3DKMT_HANDLE context = client.make_hw_context();
    ClientQueue one = client.make_hw_queue(context);
    ClientQueue other = client.make_hw_queue(context);
    stack.hw.paused = true;
    one.next = 9;
    ASSERT_EQ(client.submit(one), 0);  // 10
    const Digest before = digest(stack, {&client});
    for (const uint64_t value : {uint64_t{0}, uint64_t{9}, uint64_t{10}}) {
      D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(one);
      args.HwQueueProgressFenceId = value;
      EXPECT_EQ(client.submit(args), nt_status(Status::kInvalidParameter)) << value;
    }
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(client.submit(other), 0) << "each counts by itself";
    one.next = 10;
    EXPECT_EQ(client.submit(one), 0);
  });
}

TEST_F(HwQueueTest, WithoutTheRingsHelpTheBufferWritesTheFence) {
  DXGKIT_COVERS("SUB-40");
  for (const bool ring : {true, false}) {
    running(
        [&](HwStack& stack) {
          HwClient client(stack);
          ClientQueue queue = client.make_hw_queue();
          client.write({GpuCommand::write(client.va + kPage, 5), GpuCommand::write(queue.va, 1)});
          D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(queue);
          args.CommandLength = (ring ? 1 : 2) * sizeof(GpuCommand);
          ASSERT_EQ(client.submit(args), 0);
          stack.drive();
          EXPECT_EQ(*queue.cpu, 1U);
          EXPECT_EQ(stack.gpu.read(client.process_handle(), client.va + kPage), 5U);
          EXPECT_EQ(client.wait_for_idle(), 0);
        },
        [&](HwStack& stack) { stack.hw.ring_buffer_fence_release = ring; });
  }
}

TEST_F(HwQueueTest, WorkIsDoneWhenTheFenceSaysSoAndNotBefore) {
  DXGKIT_COVERS("SUB-40", "INT-24");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), 0);
    ASSERT_EQ(client.submit(queue), 0);
    const uint64_t completed = stack.statistics().packets_completed;
    stack.hw.interrupt_fence(0);  // nothing was written: harmless
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, completed);
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0]));
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, completed + 1);
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0], /*interrupt=*/false));
    stack.settle();
    EXPECT_EQ(stack.statistics().packets_completed, completed + 1) << "nobody has said a thing";
    Stack::Background waiting(stack, [&] { EXPECT_EQ(client.wait_cpu(queue.fence, 2), 0); });
    EXPECT_FALSE(waiting.finished() && stack.statistics().packets_completed != completed + 1);
    stack.hw.interrupt_fence(0);
    waiting.finish();
    EXPECT_EQ(stack.statistics().packets_completed, completed + 2);
  });
}

TEST_F(HwQueueTest, WaitsAndSignalsTakeEffectInTheOrderOfTheQueue) {
  DXGKIT_COVERS("SYNC-05", "SYNC-20", "SCHED-06");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    const D3DKMT_HANDLE gate = client.make_sync(D3DDDI_MONITORED_FENCE);
    const D3DKMT_HANDLE done = client.make_sync(D3DDDI_MONITORED_FENCE);
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), 0);
    ASSERT_EQ(client.signal(queue, done, 1), 0);
    ASSERT_EQ(client.wait(queue, gate, 5), 0);
    ASSERT_EQ(client.submit(queue), 0);
    ASSERT_EQ(client.signal(queue, done, 2), 0);
    EXPECT_EQ(stack.hw.submissions.size(), 1U) << "the second is behind the wait";
    Stack::Background first(stack, [&] { EXPECT_EQ(client.wait_cpu(done, 1), 0); });
    Stack::Background second(stack, [&] { EXPECT_EQ(client.wait_cpu(done, 2), 0); });
    EXPECT_FALSE(first.finished()) << "the buffer before the signal has not run";
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0]));
    first.finish();
    EXPECT_EQ(stack.hw.submissions.size(), 1U);
    ASSERT_EQ(client.signal_cpu(gate, 4), 0);
    stack.settle();
    EXPECT_EQ(stack.hw.submissions.size(), 1U);
    ASSERT_EQ(client.signal_cpu(gate, 5), 0);
    stack.settle();
    EXPECT_EQ(stack.hw.submissions.size(), 2U);
    EXPECT_FALSE(second.finished());
    ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0]));
    second.finish();
  });
}

TEST_F(HwQueueTest, OneQueueWaitsForAnothersProgress) {
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue first = client.make_hw_queue();
    ClientQueue second = client.make_hw_queue(client.make_hw_context(1));
    client.write({GpuCommand::write(client.va + kPage, 41)});
    client.write({GpuCommand::copy(client.va + kPage, client.va + kPage + 8)}, client.va + 512);
    stack.hw.paused = true;
    ASSERT_EQ(client.wait(second, first.fence, 1), 0);
    D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(second);
    args.CommandBuffer = client.va + 512;
    ASSERT_EQ(client.submit(args), 0);
    ASSERT_EQ(client.submit(first), 0);
    EXPECT_TRUE(stack.hw.queues[1]->ring.empty());
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(stack.gpu.read(client.process_handle(), client.va + kPage + 8), 41U);
  });
}

TEST_F(HwQueueTest, AQueueTakesAsManyBuffersAsTheDriverSays) {
  DXGKIT_COVERS("SCHED-07");
  for (const uint32_t depth : {1U, 3U, 0U}) {
    running(
        [&](HwStack& stack) {
          HwClient client(stack);
          ClientQueue queue = client.make_hw_queue();
          stack.hw.paused = true;
          for (int i = 0; i < 12; ++i) ASSERT_EQ(client.submit(queue), 0);
          EXPECT_EQ(stack.hw.queues[0]->ring.size(), depth == 0 ? 8U : depth);
          for (uint64_t done = 1; done <= 12; ++done) {
            ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[0]));
            stack.settle();
            EXPECT_LE(stack.hw.queues[0]->ring.size(), depth == 0 ? 8U : depth);
            EXPECT_EQ(*queue.cpu, done) << "in order";
          }
        },
        [&](HwStack& stack) { stack.hw.max_in_flight = depth; });
  }
}

TEST_F(HwQueueTest, AQueueThatStandsStillHoldsUpNoOther) {
  DXGKIT_COVERS("SCHED-21");
  running([](HwStack& stack) {
    HwClient client(stack);
    const D3DKMT_HANDLE context = client.make_hw_context();
    ClientQueue full = client.make_hw_queue(context);
    ClientQueue waiting = client.make_hw_queue(context);
    ClientQueue free = client.make_hw_queue(context);
    const D3DKMT_HANDLE never = client.make_sync(D3DDDI_MONITORED_FENCE);
    stack.hw.paused = true;
    for (int i = 0; i < 20; ++i) ASSERT_EQ(client.submit(full), 0);
    ASSERT_EQ(client.wait(waiting, never, 1), 0);
    ASSERT_EQ(client.submit(waiting), 0);
    // The driver checks that nobody is inside with the same queue when it is called.
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(client.submit(free), 0);
      ASSERT_TRUE(stack.hw.run_next(*stack.hw.queues[2]));
      stack.settle();
    }
    EXPECT_EQ(*free.cpu, 20U);
    EXPECT_EQ(*full.cpu, 0U);
    ASSERT_EQ(client.signal_cpu(never, 1), 0);
  });
}

TEST_F(HwQueueTest, MalformedWorkLosesTheDevice) {
  DXGKIT_COVERS("SUB-41");
  running([](HwStack& stack) {
    HwClient client(stack);
    HwClient neighbour(stack, "neighbour");
    ClientQueue queue = client.make_hw_queue();
    ClientQueue other = neighbour.make_hw_queue();
    stack.hw.on_submit = [&](const DXGKARG_SUBMITCOMMANDTOHWQUEUE* args) {
      return nt_status(args->hHwQueue == stack.hw.queues[0].get() ? Status::kInvalidParameter
                                                                  : Status::kSuccess);
    };
    ASSERT_EQ(client.submit(queue), 0);
    stack.drive();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(neighbour.submit(other), 0);
    stack.drive();
    EXPECT_EQ(*other.cpu, 1U);
    EXPECT_TRUE(stack.rules().empty());
    stack.hw.on_submit = nullptr;
  });
}

TEST_F(HwQueueTest, ADriverThatFailsASubmissionStopsTheAdapter) {
  DXGKIT_COVERS("SUB-41");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    queue.next = 6;
    stack.hw.on_submit = [](const DXGKARG_SUBMITCOMMANDTOHWQUEUE*) {
      return nt_status(Status::kNoMemory);
    };
    static_cast<void>(client.submit(queue));
    stack.settle();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "SUB-41");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.actual, "It returned 0xC0000017 for progress fence value 7.");
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 0x2U);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kDeviceRemoved));
    stack.hw.on_submit = nullptr;
    stack.expect_leaks = true;
  });
}

TEST_F(HwQueueTest, AFaultHitsTheDeviceWhoseWorkItWas) {
  DXGKIT_COVERS("INT-16");
  running([](HwStack& stack) {
    HwClient client(stack);
    HwClient neighbour(stack, "neighbour");
    ClientQueue queue = client.make_hw_queue();
    ClientQueue other = neighbour.make_hw_queue();
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), 0);
    ASSERT_EQ(neighbour.submit(other), 0);
    stack.hw.queues[0]->ring.clear();
    stack.hw.page_fault(*stack.hw.queues[0], 1);
    stack.settle();
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(neighbour.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(*other.cpu, 1U);
  });
}

// What the queue had no room for was in a software queue; the driver knows nothing of it.
TEST_F(HwQueueTest, WhatNeverGotThereIsNotCancelled) {
  DXGKIT_COVERS("CANCEL-23");
  running(
      [](HwStack& stack) {
        HwClient client(stack);
        ClientQueue queue = client.make_hw_queue();
        stack.hw.paused = true;
        for (int i = 0; i < 6; ++i) ASSERT_EQ(client.submit(queue), 0);
        ASSERT_EQ(stack.hw.queues[0]->ring.size(), 2U);
        const uint64_t before = stack.statistics().packets_cancelled;
        stack.hw.queues[0]->ring.clear();
        stack.hw.page_fault(*stack.hw.queues[0], 1);
        stack.settle();
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
        EXPECT_EQ(stack.statistics().packets_cancelled, before + 4);
        EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 0U);
        stack.hw.paused = false;
        stack.drive();
        EXPECT_EQ(stack.miniport.count("DxgkDdiCancelCommand"), 0U);
      },
      [](HwStack& stack) { stack.hw.max_in_flight = 2; });
}

// Of a queue without that value, and of no queue at all though another one has the value.
TEST_F(HwQueueTest, AFaultOfNoWorkIsFatal) {
  DXGKIT_COVERS("INT-11");
  for (const bool known : {true, false}) {
    SCOPED_TRACE(known);
    running([&](HwStack& stack) {
      HwClient client(stack);
      const D3DKMT_HANDLE context = client.make_hw_context(1);
      ClientQueue other = client.make_hw_queue(context);
      ClientQueue queue = client.make_hw_queue(context);
      stack.hw.paused = true;
      other.next = 2;
      ASSERT_EQ(client.submit(other), 0);  // 3
      ASSERT_EQ(client.submit(queue), 0);  // 1
      ScriptedHwQueue nobody;
      nobody.context = stack.hw.contexts[0].get();
      stack.hw.page_fault(known ? *stack.hw.queues[1] : nobody, 3);
      stack.settle();
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "INT-11");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.actual,
                "HWQUEUE_PAGE_FAULTED named progress fence value 3 of a queue of node 1; no such "
                "work is on hardware.");
      EXPECT_EQ(finding.bugcheck_code, 0x119U);
      EXPECT_EQ(finding.bugcheck_parameter, 0x1U);
      EXPECT_EQ(client.submit(other), nt_status(Status::kDeviceRemoved));
      stack.expect_leaks = true;
    });
  }
}

TEST_F(HwQueueTest, DestructionWaitsForWhatRuns) {
  DXGKIT_COVERS("SCHED-22");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    stack.hw.paused = true;
    for (int i = 0; i < 12; ++i) ASSERT_EQ(client.submit(queue), 0);
    const D3DKMT_DESTROYHWQUEUE args{.hHwQueue = queue.handle};
    Stack::Background destroying(
        stack, [&] { EXPECT_EQ(client.call([&] { return D3DKMTDestroyHwQueue(&args); }), 0); });
    EXPECT_FALSE(destroying.finished());
    EXPECT_FALSE(stack.hw.queues[0]->gone);
    EXPECT_EQ(client.submit(queue), nt_status(Status::kInvalidParameter)) << "the handle is gone";
    stack.hw.paused = false;
    destroying.finish();
    EXPECT_TRUE(stack.hw.queues[0]->gone);
    EXPECT_EQ(stack.hw.submissions.size(), 12U);
    EXPECT_EQ(client.destroy_hw_context(queue.context), 0);
    EXPECT_TRUE(stack.hw.contexts[0]->gone);
  });
}

TEST_F(HwQueueTest, AContextTakesItsQueuesAlong) {
  running([](HwStack& stack) {
    HwClient client(stack);
    const size_t handles = client.handles();
    const D3DKMT_HANDLE context = client.make_hw_context();
    ClientQueue a = client.make_hw_queue(context);
    ClientQueue b = client.make_hw_queue(context);
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(a), 0);
    ASSERT_EQ(client.submit(b), 0);
    stack.hw.paused = false;
    EXPECT_EQ(client.destroy_hw_context(context), 0);
    EXPECT_EQ(stack.hw.live(), 0U);
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(client.submit(a), nt_status(Status::kInvalidParameter));
  });
}

TEST_F(HwQueueTest, AProcessEndsInTheMiddleOfItsWork) {
  running([](HwStack& stack) {
    {
      HwClient client(stack);
      const D3DKMT_HANDLE never = client.make_sync(D3DDDI_MONITORED_FENCE);
      ClientQueue running_queue = client.make_hw_queue();
      ClientQueue waiting = client.make_hw_queue();
      for (int i = 0; i < 12; ++i) ASSERT_EQ(client.submit(running_queue), 0);
      ASSERT_EQ(client.wait(waiting, never, 1), 0);
      ASSERT_EQ(client.submit(waiting), 0);
    }
    EXPECT_EQ(stack.hw.live(), 0U);
    EXPECT_LT(stack.hw.submissions.size(), 14U) << "what nobody waits for is dropped";
  });
}

TEST_F(HwQueueTest, QueuesOfAContextShareItsRoot) {
  DXGKIT_COVERS("VA-06");
  running([](HwStack& stack) {
    HwClient client(stack);
    const D3DKMT_HANDLE context = client.make_hw_context();
    stack.gpu.clear_calls();
    static_cast<void>(client.make_hw_queue(context));
    static_cast<void>(client.make_hw_queue(context));
    const auto roots = stack.gpu.calls().roots;
    ASSERT_EQ(roots.size(), 1U);
    EXPECT_EQ(roots[0].hContext, stack.hw.contexts[0].get());
  });
}

TEST_F(HwQueueTest, PlacesRunOutAndComeBack) {
  running([](HwStack& stack) {
    HwClient client(stack);
    const D3DKMT_HANDLE context = client.make_hw_context();
    std::vector<ClientQueue> queues;
    const size_t most = 64 - stack.miniport.config.nodes;
    for (size_t i = 0; i < most; ++i) queues.push_back(client.make_hw_queue(context));
    D3DKMT_CREATEHWQUEUE args{};
    args.hHwContext = context;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.create_hw_queue(args), nt_status(Status::kNoMemory));
    stack.drive();
    EXPECT_EQ(digest(stack, {&client}).handles, before.handles);
    EXPECT_EQ(digest(stack, {&client}).free_pages, before.free_pages);
    EXPECT_EQ(client.destroy_hw_queue(queues.back().handle), 0);
    EXPECT_EQ(client.create_hw_queue(args), 0);
  });
}

TEST_F(HwQueueTest, RefusesWhatTheRulesForbid) {
  DXGKIT_COVERS("THUNK-03", "THUNK-04", "SCHED-01", "SUB-36");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    const D3DKMT_HANDLE semaphore = client.make_sync(D3DDDI_SEMAPHORE, 0, 4);
    const NTSTATUS invalid = nt_status(Status::kInvalidParameter);
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATEHWCONTEXT context{};
    context.hDevice = client.device;
    const auto context_row = [&](const char* what, NTSTATUS expected, auto change) {
      D3DKMT_CREATEHWCONTEXT args = context;
      change(args);
      EXPECT_EQ(client.create_hw_context(args), expected) << what;
    };
    context_row("device", invalid, [&](auto& args) { args.hDevice = queue.handle; });
    context_row("flags", invalid, [](auto& args) { args.Flags.Value = 1; });
    context_row("node", invalid, [](auto& args) { args.NodeOrdinal = 2; });
    context_row("affinity", invalid, [](auto& args) { args.EngineAffinity = 2; });
    context_row("private data", nt_status(Status::kInvalidParameter), [](auto& args) {
      args.pPrivateDriverData = reinterpret_cast<void*>(0x10);
      args.PrivateDriverDataSize = 8;
    });
    D3DKMT_CREATEHWQUEUE create{};
    create.hHwContext = queue.context;
    const auto queue_row = [&](const char* what, NTSTATUS expected, auto change) {
      D3DKMT_CREATEHWQUEUE args = create;
      change(args);
      EXPECT_EQ(client.create_hw_queue(args), expected) << what;
    };
    queue_row("context", invalid, [&](auto& args) { args.hHwContext = client.context; });
    queue_row("reserved flag", invalid, [](auto& args) { args.Flags.Value = 1U << 7; });
    queue_row("NoKmdAccess", invalid, [](auto& args) { args.Flags.Value = 1U << 3; });
    queue_row("UserModeSubmission", nt_status(Status::kNotSupported),
              [](auto& args) { args.Flags.Value = 1U << 4; });
    queue_row("NativeProgressFence", nt_status(Status::kNotSupported),
              [](auto& args) { args.Flags.Value = 1U << 5; });
    const auto submit_row = [&](const char* what, NTSTATUS expected, auto change) {
      ClientQueue copy = queue;
      D3DKMT_SUBMITCOMMANDTOHWQUEUE args = client.submit_args(copy);
      change(args);
      EXPECT_EQ(client.submit(args), expected) << what;
    };
    submit_row("queue", invalid, [&](auto& args) { args.hHwQueue = queue.context; });
    submit_row("primaries", invalid, [](auto& args) { args.NumPrimaries = 17; });
    submit_row("primary", invalid, [&](auto& args) {
      args.NumPrimaries = 1;
      args.WrittenPrimaries = &queue.handle;
    });
    submit_row("private data", nt_status(Status::kInvalidParameter), [](auto& args) {
      args.pPrivateDriverData = reinterpret_cast<void*>(0x10);
      args.PrivateDriverDataSize = 8;
    });
    EXPECT_EQ(client.wait(queue, semaphore, 1), invalid);
    EXPECT_EQ(client.signal(queue, semaphore, 1), invalid);
    EXPECT_EQ(client.wait(queue, queue.handle, 1), invalid);
    ClientQueue none = queue;
    none.handle = client.context;
    EXPECT_EQ(client.wait(none, queue.fence, 1), invalid);
    EXPECT_EQ(client.signal(none, queue.fence, 1), invalid);
    D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal{};
    EXPECT_EQ(client.call([&] { return D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal); }),
              invalid);
    const uint64_t value = 9;
    signal = {};
    signal.BroadcastHwQueueCount = 1;
    signal.BroadcastHwQueueArray = &queue.handle;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &queue.fence;
    signal.FenceValueArray = &value;
    const auto signal_row = [&](UINT flags, NTSTATUS expected, UINT queues = 1) {
      D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE args = signal;
      args.Flags.Value = flags;
      args.BroadcastHwQueueCount = queues;
      EXPECT_EQ(client.call([&] { return D3DKMTSubmitSignalSyncObjectsToHwQueue(&args); }),
                expected)
          << flags << " " << queues;
    };
    for (const UINT flags : {2U, 3U, 6U, 7U}) signal_row(flags, invalid);
    for (UINT bit = 3; bit < 32; ++bit) signal_row(1U << bit, invalid);
    const D3DKMT_HANDLE mixed[] = {queue.handle, client.context};
    signal.BroadcastHwQueueArray = mixed;
    signal_row(0, invalid, 2);
    signal_row(0, invalid, D3DDDI_MAX_BROADCAST_CONTEXT + 1);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

/// A signal of several queues, or at submission.
NTSTATUS broadcast(HwClient& client, std::vector<D3DKMT_HANDLE> queues, D3DKMT_HANDLE object,
                   uint64_t value, UINT flags) {
  D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE args{};
  args.Flags.Value = flags;
  args.BroadcastHwQueueCount = static_cast<UINT>(queues.size());
  args.BroadcastHwQueueArray = queues.data();
  args.ObjectCount = 1;
  args.ObjectHandleArray = &object;
  args.FenceValueArray = &value;
  return client.call([&] { return D3DKMTSubmitSignalSyncObjectsToHwQueue(&args); });
}

TEST_F(HwQueueTest, ASignalOfSeveralQueuesComesWhenAllHaveComeToIt) {
  DXGKIT_COVERS("SYNC-06", "SYNC-20");
  running([](HwStack& stack) {
    HwClient client(stack);
    const ClientQueue one = client.make_hw_queue(), two = client.make_hw_queue();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 gate{}, done{};
    const D3DKMT_HANDLE opens = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &gate);
    const D3DKMT_HANDLE signalled = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &done);
    const auto value = [&] {
      return *static_cast<const uint64_t*>(done.Info.MonitoredFence.FenceValueCPUVirtualAddress);
    };
    ASSERT_EQ(client.wait(two, opens, 1), 0);
    ASSERT_EQ(broadcast(client, {one.handle, two.handle}, signalled, 5, 0), 0);
    stack.drive();
    EXPECT_EQ(value(), 0U) << "the second waits";
    ASSERT_EQ(client.signal_cpu(opens, 1), 0);
    stack.drive();
    EXPECT_EQ(value(), 5U);
  });
}

TEST_F(HwQueueTest, ASignalAtSubmissionDoesNotWaitForTheEngine) {
  DXGKIT_COVERS("SYNC-05");
  running([](HwStack& stack) {
    HwClient client(stack);
    ClientQueue queue = client.make_hw_queue();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 early{}, late{};
    const D3DKMT_HANDLE at_once = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &early);
    const D3DKMT_HANDLE behind = client.make_sync(D3DDDI_MONITORED_FENCE, 0, 1, &late);
    const auto value = [](const D3DKMT_CREATESYNCHRONIZATIONOBJECT2& made) {
      return *static_cast<const uint64_t*>(made.Info.MonitoredFence.FenceValueCPUVirtualAddress);
    };
    client.write({GpuCommand::write(client.va + kPage, 7)});
    stack.hw.paused = true;
    ASSERT_EQ(client.submit(queue), 0);
    ASSERT_EQ(broadcast(client, {queue.handle}, at_once, 5, /*SignalAtSubmission*/ 1), 0);
    ASSERT_EQ(broadcast(client, {queue.handle}, behind, 6, 0), 0);
    stack.settle();
    EXPECT_EQ(value(early), 5U);
    EXPECT_EQ(value(late), 0U);
    stack.hw.paused = false;
    stack.drive();
    EXPECT_EQ(value(late), 6U);
  });
}

TEST_F(HwQueueTest, DriversThatFailAreCleanedUpAfter) {
  running([](HwStack& stack) {
    HwClient client(stack);
    D3DKMT_CREATEHWQUEUE args{};
    args.hHwContext = client.make_hw_context();
    stack.hw.on_create_queue = [](void*, DXGKARG_CREATEHWQUEUE*) {
      return nt_status(Status::kNoMemory);
    };
    const size_t handles = client.handles();
    EXPECT_EQ(client.create_hw_queue(args), nt_status(Status::kNoMemory));
    EXPECT_EQ(client.handles(), handles);
    stack.hw.on_create_queue = nullptr;
    EXPECT_EQ(client.create_hw_queue(args), 0);
  });
}

TEST_F(HwQueueTest, NodesThatDoNotScheduleHaveNone) {
  running(
      [](HwStack& stack) {
        VaClient client(stack);
        D3DKMT_CREATEHWCONTEXT args{};
        args.hDevice = client.device;
        EXPECT_EQ(client.call([&] { return D3DKMTCreateHwContext(&args); }),
                  nt_status(Status::kNotSupported));
        EXPECT_EQ(stack.miniport.count("DxgkDdiSetupPriorityBands"), 0U);
      },
      [](HwStack& stack) { stack.hw.context_scheduling = false; });
}

}  // namespace
}  // namespace dxgkit::contract
