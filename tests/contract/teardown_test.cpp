// Destruction in any order, under work, beside others; process end; adapter stop with clients
// inside.
#include <algorithm>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using TeardownTest = ContractTest;

/// Busy: work queued, on hardware, behind a wait, with memory locked and an allocation being paged
/// in.
struct Busy {
  explicit Busy(Client& client_in) : client(client_in) {
    context = client.make_context();
    waiting = client.make_context();
    fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    for (D3DKMT_HANDLE& handle : allocations) handle = client.make_allocation();
    ScriptedAllocation visible;
    visible.flags = 1;
    locked = client.make_allocation(visible);
    void* address = nullptr;
    EXPECT_EQ(client.lock(locked, &address), 0);
    EXPECT_EQ(client.render(context, work_on({allocations[0]})), 0);
    EXPECT_EQ(client.render(context, work_on({allocations[0], allocations[1]})), 0);
    EXPECT_EQ(client.render(context, work_on({allocations[2]})), 0);
    EXPECT_EQ(client.wait_gpu(waiting, fence, 10), 0);
    EXPECT_EQ(client.render(waiting, work_on({allocations[1]})), 0);
    client.stack.settle();
  }
  Client& client;
  ContextBuffers context, waiting;
  D3DKMT_HANDLE fence = 0, locked = 0;
  D3DKMT_HANDLE allocations[3] = {};
};

TEST_F(TeardownTest, EndOfAProcessWithWorkQueuedLeavesNothing) {
  DXGKIT_COVERS("THUNK-08", "SCHED-22", "SCHED-23");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    with_client(
        [](Stack& stack, Client& client) {
          Client other(stack, "other");
          ContextBuffers theirs = other.make_context();
          const size_t objects = stack.miniport.live_objects();
          {
            Client dying(stack, "dying");
            const Busy busy(dying);
            dying.end();
          }
          EXPECT_EQ(stack.miniport.live_objects(), objects);
          EXPECT_EQ(other.render(theirs, work_on({})), 0) << "the neighbour goes on";
          stack.drive();
          EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          const std::vector<std::string> order = stack.miniport.calls().order;
          const auto last = [&](const char* name) {
            return std::ranges::find(order.rbegin(), order.rend(), name) - order.rbegin();
          };
          EXPECT_GT(last("DxgkDdiDestroyContext"), last("DxgkDdiDestroyAllocation"));
          EXPECT_GT(last("DxgkDdiDestroyAllocation"), last("DxgkDdiDestroyDevice"));
        },
        nullptr, seed);
  }
}

/// Only the lock keeps what was queued before from running, and nobody can unlock any more.
TEST_F(TeardownTest, ALockEndsWithTheHandleAndNotWithTheWorkBefore) {
  DXGKIT_COVERS("ALLOC-27", "ALLOC-34");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const auto make = [&](uint64_t size) {
          return client.make_allocation(
              {.size = size, .supported_read = kVisible, .supported_write = kVisible, .flags = 1});
        };
        const D3DKMT_HANDLE first = make(16 * kKibibyte), locked = make(16 * kKibibyte),
                            large = make(40 * kKibibyte);
        for (const D3DKMT_HANDLE handle : {first, locked}) {
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
        }
        void* address = nullptr;
        ASSERT_EQ(client.lock(locked, &address), 0);
        ASSERT_EQ(client.destroy_allocation(first, 0), 0);
        stack.drive();
        const size_t submitted = stack.miniport.count("DxgkDdiSubmitCommand");
        ASSERT_EQ(client.render(context, work_on({locked, large})), 0);
        stack.drive();
        ASSERT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), submitted)
            << "the locked one is in the way, in the middle";
        const size_t objects = stack.miniport.live_objects();
        ASSERT_EQ(client.destroy_allocation(locked, 0), 0);
        stack.drive();
        EXPECT_GT(stack.miniport.count("DxgkDdiSubmitCommand"), submitted);
        EXPECT_LT(stack.miniport.live_objects(), objects);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[0].size = 64 * kKibibyte; });
}

/// A thread of the process is inside a thunk when the process ends: it comes back before the end
/// does, and what it was making meanwhile goes too.
TEST_F(TeardownTest, EndOfAProcessWaitsForItsThreads) {
  DXGKIT_COVERS("THUNK-08");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    with_client(
        [](Stack& stack, Client&) {
          const size_t objects = stack.miniport.live_objects();
          Client dying(stack, "dying");
          const D3DKMT_HANDLE fence = dying.make_sync(D3DDDI_MONITORED_FENCE);
          NTSTATUS waited = 0;
          bool made_all = false;
          Stack::Background waiting(stack, [&] { waited = dying.wait_cpu(fence, 1); });
          Stack::Background making(stack, [&] {
            dying.as_client([&] {
              D3DKMT_CREATEDEVICE create{};
              create.hAdapter = dying.adapter;
              for (int i = 0; i < 50 && D3DKMTCreateDevice(&create) >= 0; ++i) made_all = i == 49;
            });
          });
          EXPECT_FALSE(waiting.finished(1));
          dying.end();
          waiting.finish();
          making.finish();
          EXPECT_EQ(waited, nt_status(Status::kDeviceRemoved));
          EXPECT_EQ(stack.miniport.live_objects(), objects) << made_all;
        },
        nullptr, seed);
  }
}

/// A thread that still belongs to an ended process is turned away, however the call is made.
TEST_F(TeardownTest, ThreadsOfAnEndedProcessAreTurnedAway) {
  DXGKIT_COVERS("THUNK-08");
  with_client([](Stack& stack, Client&) {
    Client dying(stack, "dying");
    dying.as_client([&] {
      dying.end();
      const Digest before = digest(stack, {});
      const auto terminating = static_cast<NTSTATUS>(0xC000010A);
      const D3DKMT_WAITFORIDLE idle{.hDevice = dying.device};
      EXPECT_EQ(D3DKMTWaitForIdle(&idle), terminating);
      HANDLE shared = nullptr;
      EXPECT_EQ(D3DKMTShareObjects(1, &dying.device, nullptr, 1, &shared), terminating);
      EXPECT_EQ(shared, nullptr);
      EXPECT_EQ(digest(stack, {}), before);
    });
  });
}

/// Every order of destroying the parts of a busy device.
TEST_F(TeardownTest, PartsMayGoInAnyOrder) {
  DXGKIT_COVERS("ALLOC-27", "SCHED-22", "SCHED-23", "SYNC-28");
  std::vector<int> order = {0, 1, 2, 3, 4};
  do {
    with_client([&](Stack& stack, Client& client) {
      Busy busy(client);
      for (const int part : order) {
        switch (part) {
          case 0:
            EXPECT_EQ(client.destroy_context(busy.context.handle), 0);
            break;
          case 1:
            EXPECT_EQ(client.destroy_context(busy.waiting.handle), 0);
            break;
          case 2:
            for (const D3DKMT_HANDLE handle : busy.allocations)
              EXPECT_EQ(client.destroy_allocation(handle), 0);
            break;
          case 3: {
            D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{busy.fence};
            EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&destroy); }), 0);
            break;
          }
          default:
            EXPECT_EQ(client.destroy_allocation(busy.locked), 0);
            break;
        }
      }
      EXPECT_EQ(client.destroy_device(client.device), 0);
      EXPECT_EQ(client.handles(), 1U) << "the adapter's";
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(TeardownTest, TheAdapterHandleMayGoFirst) {
  with_client([](Stack& stack, Client& client) {
    Busy busy(client);
    D3DKMT_CLOSEADAPTER close{client.adapter};
    EXPECT_EQ(client.call([&] { return D3DKMTCloseAdapter(&close); }), 0);
    EXPECT_EQ(client.render(busy.context, work_on({})), 0) << "devices keep their adapter";
    stack.drive();
    EXPECT_EQ(client.destroy_device(client.device), 0);
    EXPECT_EQ(client.handles(), 0U);
  });
}

TEST_F(TeardownTest, StopWithClientsInsideEndsTheirCallsWithDeviceRemoved) {
  DXGKIT_COVERS("LIFE-18", "SYNC-22", "THUNK-07");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    with_client(
        [](Stack& stack, Client& client) {
          Busy busy(client);
          NTSTATUS waited = 1, idled = 1;
          Stack::Background wait(stack, [&] { waited = client.wait_cpu(busy.fence, 10); });
          D3DKMT_WAITFORIDLE idle_args{};
          idle_args.hDevice = client.device;
          Stack::Background idle(
              stack, [&] { idled = client.call([&] { return D3DKMTWaitForIdle(&idle_args); }); });
          EXPECT_FALSE(wait.finished());
          EXPECT_FALSE(idle.finished());
          stack.blocking(
              [&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
          wait.finish();
          idle.finish();
          EXPECT_EQ(waited, nt_status(Status::kDeviceRemoved));
          EXPECT_EQ(idled, nt_status(Status::kDeviceRemoved));
          EXPECT_EQ(stack.miniport.live_objects(), 0U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          EXPECT_EQ(client.destroy_device(client.device), 0);
        },
        nullptr, seed);
  }
}

TEST_F(TeardownTest, AFailedAdapterKeepsPagesUntilStopAndThenReturnsThem) {
  DXGKIT_COVERS("LIFE-18", "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    Busy busy(client);
    const uint64_t free_pages = stack.machine.free_page_count();
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 0x70000000));
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-11"});
    EXPECT_EQ(client.destroy_device(client.device), 0);
    EXPECT_LE(stack.machine.free_page_count(), free_pages + 1)
        << "hardware may still write them (the fence page is ours)";
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    EXPECT_EQ(stack.machine.free_page_count(), stack.pages_at_start);
  });
}

// What its owner had given up while the GPU used it is given back as well.
TEST_F(TeardownTest, AFailedAdapterReturnsWhatWaitedForTheGpu) {
  DXGKIT_COVERS("LIFE-18", "ALLOC-27");
  with_client([](Stack& stack, Client& client) {
    Busy busy(client);
    D3DKMT_OFFERALLOCATIONS offer{};  // to begin when its work has ended
    offer.hDevice = client.device;
    offer.HandleList = &busy.allocations[0];
    offer.NumAllocations = 1;
    offer.Priority = D3DKMT_OFFER_PRIORITY_NORMAL;
    EXPECT_EQ(client.call([&] { return D3DKMTOfferAllocations(&offer); }), 0);
    EXPECT_EQ(client.destroy_allocation(busy.allocations[0]), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 0U) << "it is in use";
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 0x70000000));
    stack.settle();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"INT-11"});
    EXPECT_EQ(client.destroy_device(client.device), 0);
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.machine.free_page_count(), stack.pages_at_start);
  });
}

/// Threads that use and destroy the same handles at once; nothing but documented answers, nothing
/// left behind.
void hostile_threads(Stack& stack, int rounds) {
  Client client(stack);
  for (int round = 0; round < rounds; ++round) {
    const D3DKMT_HANDLE device = client.make_device();
    ContextBuffers context;
    ASSERT_EQ(client.create_context(&context, 0, device), 0);
    D3DKMT_HANDLE allocation = 0;
    ASSERT_EQ(client.create_allocation({}, &allocation, device), 0);
    std::atomic<int> refused{0};
    const auto check = [&](NTSTATUS status) {
      switch (from_ntstatus(status)) {
        case Status::kSuccess:
          break;
        case Status::kInvalidParameter:
        case Status::kInvalidHandle:
        case Status::kDeviceRemoved:
          refused.fetch_add(1);
          break;
        default:
          ADD_FAILURE() << std::hex << status;
      }
    };
    // Locks wait for content on the move, so the GPU works on its own thread.
    Stack::Background renders(stack, [&] {
      for (int i = 0; i < 4; ++i) {
        ContextBuffers mine = context;
        D3DKMT_RENDER args{};
        args.hContext = mine.handle;
        args.CommandLength = 64;
        check(client.call([&] { return D3DKMTRender(&args); }));
      }
    });
    Stack::Background locks(stack, [&] {
      for (int i = 0; i < 4; ++i) {
        D3DKMT_LOCK2 lock{};
        lock.hDevice = device;
        lock.hAllocation = allocation;
        check(client.call([&] { return D3DKMTLock2(&lock); }));
        D3DKMT_UNLOCK2 unlock{};
        unlock.hDevice = device;
        unlock.hAllocation = allocation;
        check(client.call([&] { return D3DKMTUnlock2(&unlock); }));
      }
    });
    Stack::Background destroys(stack, [&] {
      D3DKMT_DESTROYALLOCATION2 destroy{};
      destroy.hDevice = device;
      destroy.phAllocationList = &allocation;
      destroy.AllocationCount = 1;
      check(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }));
      D3DKMT_DESTROYCONTEXT gone{};
      gone.hContext = context.handle;
      check(client.call([&] { return D3DKMTDestroyContext(&gone); }));
    });
    Stack::Background ends(stack, [&] {
      D3DKMT_DESTROYDEVICE destroy{};
      destroy.hDevice = device;
      check(client.call([&] { return D3DKMTDestroyDevice(&destroy); }));
    });
    ends.finish();
    destroys.finish();
    locks.finish();
    renders.finish();
    EXPECT_EQ(client.handles(), 2U) << "adapter and first device; round " << round;
  }
  stack.drive();
  EXPECT_EQ(stack.rules(), std::vector<std::string>{});
}

TEST_F(TeardownTest, ConcurrentUseAndDestructionUnderManyInterleavings) {
  DXGKIT_COVERS("THUNK-04", "THUNK-05");
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    running([](Stack& stack) { hostile_threads(stack, 3); }, nullptr, seed);
  }
}

TEST_F(TeardownTest, ConcurrentUseAndDestructionOnRealThreads) {
  DXGKIT_COVERS("THUNK-04", "THUNK-05");
  const auto runtime = runtime::make_os_runtime();
  runtime->run_main([&] {
    Stack stack;
    stack.miniport.config.record = false;
    stack.miniport.config.auto_complete = true;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    hostile_threads(stack, 30);
  });
}

TEST_F(TeardownTest, HandlesGuessedWhileTheyAreMadeLeadNowhere) {
  DXGKIT_COVERS("THUNK-04");
  with_client([](Stack& stack, Client& client) {
    // The driver's create call is the moment another thread of the client could use the handle that
    // is being made.
    D3DKMT_HANDLE guessed = 0;
    NTSTATUS destroyed = 0, used = 0;
    stack.miniport.hooks.create_device = [&](DXGKARG_CREATEDEVICE* args) {
      guessed = static_cast<D3DKMT_HANDLE>(reinterpret_cast<uintptr_t>(args->hDevice));
      D3DKMT_DESTROYDEVICE destroy{};
      destroy.hDevice = guessed;
      D3DKMT_GETDEVICESTATE state{};
      state.hDevice = guessed;
      state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
      used = client.call([&] { return D3DKMTGetDeviceState(&state); });
      destroyed = client.call([&] { return D3DKMTDestroyDevice(&destroy); });
      return stack.miniport.default_create_device(args);
    };
    const D3DKMT_HANDLE made = client.make_device();
    EXPECT_EQ(made, guessed);
    EXPECT_EQ(used, nt_status(Status::kInvalidParameter));
    EXPECT_EQ(destroyed, nt_status(Status::kInvalidParameter));
    stack.miniport.hooks.create_device = nullptr;

    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      guessed = args->pOpenAllocation[0].hAllocation;
      destroyed = client.destroy_allocation(guessed);
      return stack.miniport.default_open_allocation(device, args);
    };
    EXPECT_EQ(client.make_allocation(), guessed);
    EXPECT_EQ(destroyed, nt_status(Status::kInvalidParameter));
    stack.miniport.hooks.open_allocation = nullptr;

    stack.miniport.hooks.create_context = [&](void* device, DXGKARG_CREATECONTEXT* args) {
      guessed = static_cast<D3DKMT_HANDLE>(reinterpret_cast<uintptr_t>(args->hContext));
      D3DKMT_GETCONTEXTSCHEDULINGPRIORITY get{};
      get.hContext = guessed;
      used = client.call([&] { return D3DKMTGetContextSchedulingPriority(&get); });
      return stack.miniport.default_create_context(device, args);
    };
    EXPECT_EQ(client.make_context().handle, guessed);
    EXPECT_EQ(used, nt_status(Status::kInvalidParameter));
  });
}

}  // namespace
}  // namespace dxgkit::contract
