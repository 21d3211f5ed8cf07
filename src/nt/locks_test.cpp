// Resources, push locks, rundown, lists, lookaside lists, the rarer spin locks and timers, called
// as a driver calls them.
#include <gtest/gtest.h>
#include <ntddk.h>

#include <atomic>
#include <vector>

#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

constexpr int32_t kTimeout = 0x102;

/// Threads of the test that act as the driver's.
std::unique_ptr<runtime::Thread> driver_thread(World& world, std::function<void()> body) {
  return runtime::Runtime::current().spawn("driver", [&world, body = std::move(body)] {
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    body();
  });
}

struct ResourceCalls {
  ExportCall<int32_t(void*)> initialize{"ExInitializeResourceLite"},
      destroy{"ExDeleteResourceLite"};
  ExportCall<uint8_t(void*, uint8_t)> exclusive{"ExAcquireResourceExclusiveLite"},
      shared{"ExAcquireResourceSharedLite"}, starve{"ExAcquireSharedStarveExclusive"};
  ExportCall<void(void*)> release{"ExReleaseResourceLite"},
      convert{"ExConvertExclusiveToSharedLite"};
  ExportCall<uint8_t(void*)> is_exclusive{"ExIsResourceAcquiredExclusiveLite"};
  ExportCall<uint32_t(void*)> is_shared{"ExIsResourceAcquiredSharedLite"},
      waiters{"ExGetExclusiveWaiterCount"};
};

/// Exclusive excludes, shared shares, both nest. A waiting writer keeps new readers out, but not
/// starving readers nor readers that hold it already. A lock that is not held cannot be released.
TEST(Resources, ShareAndExclude) {
  DXGKIT_COVERS("NT-23", "NT-30");
  in_both_modes([] {
    World world;
    const ResourceCalls call;
    alignas(16) std::byte resource[104];
    with_frame(world.kernel, kPassiveLevel, [&] {
      EXPECT_EQ(call.initialize(resource), 0);
      EXPECT_EQ(call.exclusive(resource, 1), 1);
      EXPECT_EQ(call.exclusive(resource, 1), 1);
      EXPECT_EQ(call.shared(resource, 1), 1);
      EXPECT_EQ(call.is_exclusive(resource), 1);
      EXPECT_EQ(call.is_shared(resource), 3u);
      driver_thread(world, [&] {
        EXPECT_EQ(call.shared(resource, 0), 0);
        EXPECT_EQ(call.exclusive(resource, 0), 0);
        EXPECT_EQ(call.is_shared(resource), 0u);
      })->join();
      call.release(resource);
      call.release(resource);
      call.convert(resource);
      EXPECT_EQ(call.is_exclusive(resource), 0);
      std::atomic<bool> wrote{false};
      auto writer = driver_thread(world, [&] {
        EXPECT_EQ(call.exclusive(resource, 1), 1);
        wrote = true;
        call.release(resource);
      });
      while (call.waiters(resource) == 0) runtime::Runtime::current().yield();
      EXPECT_FALSE(wrote);
      driver_thread(world, [&] {
        EXPECT_EQ(call.shared(resource, 0), 0);
        EXPECT_EQ(call.starve(resource, 0), 1);
        call.release(resource);
      })->join();
      EXPECT_EQ(call.shared(resource, 0), 1);  // it holds it already
      call.release(resource);
      EXPECT_FALSE(wrote);
      call.release(resource);
      writer->join();
      EXPECT_TRUE(wrote);
      EXPECT_EQ(world.kernel.leaks().size(), 1u);
      EXPECT_EQ(call.destroy(resource), 0);
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-30", 0xE3, [] {
      alignas(16) std::byte mine[104];
      const ResourceCalls calls;
      calls.initialize(mine);
      calls.release(mine);
    });
    expect_bug_check("NT-31", 0xC4, [] {
      alignas(16) std::byte mine[104];
      const ResourceCalls calls;
      calls.initialize(mine);
      calls.shared(mine, 1);
      calls.destroy(mine);
    });
    expect_bug_check("NT-31", 0xC4, [] {
      alignas(16) std::byte mine[104] = {};
      ResourceCalls().exclusive(mine, 1);
    });
  });
}

TEST(PushLocks, ShareAndExclude) {
  in_both_modes([] {
    World world;
    const ExportCall<void(uint64_t*)> initialize("ExInitializePushLock");
    const ExportCall<void(uint64_t*, uint32_t)> exclusive("ExAcquirePushLockExclusiveEx"),
        shared("ExAcquirePushLockSharedEx"), release_exclusive("ExReleasePushLockExclusiveEx"),
        release_shared("ExReleasePushLockSharedEx");
    uint64_t lock = UINT64_MAX;
    int counter = 0;
    with_frame(world.kernel, kPassiveLevel, [&] {
      initialize(&lock);
      shared(&lock, 0);
      shared(&lock, 0);
      std::vector<std::unique_ptr<runtime::Thread>> threads;
      for (int i = 0; i < 3; ++i) {
        threads.push_back(driver_thread(world, [&] {
          for (int k = 0; k < 100; ++k) {
            exclusive(&lock, 0);
            const int seen = counter;
            runtime::Runtime::current().yield();
            counter = seen + 1;
            release_exclusive(&lock, 0);
          }
        }));
      }
      EXPECT_EQ(counter, 0);
      release_shared(&lock, 0);
      release_shared(&lock, 0);
      for (const auto& thread : threads) thread->join();
      EXPECT_EQ(counter, 300);
      EXPECT_EQ(lock, 0u);
    });
    expect_bug_check("NT-30", 0xE3, [] {
      uint64_t mine = 0;
      ExportCall<void(uint64_t*, uint32_t)>("ExReleasePushLockSharedEx")(&mine, 0);
    });
  });
}

TEST(Rundown, WaitsForEveryReferenceAndThenRefuses) {
  DXGKIT_COVERS("NT-31");
  in_both_modes([] {
    World world;
    const ExportCall<void(uint64_t*)> initialize("ExInitializeRundownProtection"),
        release("ExReleaseRundownProtection"), wait("ExWaitForRundownProtectionRelease");
    const ExportCall<uint8_t(uint64_t*)> acquire("ExAcquireRundownProtection");
    uint64_t rundown = 0;
    with_frame(world.kernel, kPassiveLevel, [&] {
      initialize(&rundown);
      EXPECT_EQ(acquire(&rundown), 1);
      EXPECT_EQ(acquire(&rundown), 1);
      std::atomic<bool> ended{false};
      auto thread = driver_thread(world, [&] {
        wait(&rundown);
        ended = true;
      });
      while (acquire(&rundown) != 0) {
        release(&rundown);
        runtime::Runtime::current().yield();
      }
      release(&rundown);
      EXPECT_FALSE(ended);
      release(&rundown);
      thread->join();
      EXPECT_TRUE(ended);
      EXPECT_EQ(acquire(&rundown), 0);
    });
    expect_bug_check("NT-31", 0x18, [] {
      uint64_t mine = 0;
      ExportCall<void(uint64_t*)>("ExReleaseRundownProtection")(&mine);
    });
  });
}

struct alignas(16) Entry {
  Entry* next;
  int value;
};
struct alignas(16) Head {
  uint64_t words[2];
};

/// Last in, first out; the depth is where drivers read it inline; threads lose no entry.
TEST(Slists, KeepOrderAndDepth) {
  in_both_modes([] {
    World world;
    const ExportCall<Entry*(Head*, Entry*)> push("ExpInterlockedPushEntrySList");
    const ExportCall<Entry*(Head*)> pop("ExpInterlockedPopEntrySList"),
        flush("ExpInterlockedFlushSList");
    Head head{};
    std::vector<Entry> entries(300);
    with_frame(world.kernel, kPassiveLevel, [&] {
      EXPECT_EQ(pop(&head), nullptr);
      EXPECT_EQ(push(&head, &entries[0]), nullptr);
      EXPECT_EQ(push(&head, &entries[1]), &entries[0]);
      EXPECT_EQ(head.words[0] & 0xFFFF, 2u);
      EXPECT_EQ(head.words[1], reinterpret_cast<uint64_t>(&entries[1]));
      EXPECT_EQ(pop(&head), &entries[1]);
      EXPECT_EQ(head.words[0] & 0xFFFF, 1u);
      EXPECT_EQ(pop(&head), &entries[0]);
      EXPECT_EQ(head.words[0] & 0xFFFF, 0u);
      std::vector<std::unique_ptr<runtime::Thread>> threads;
      for (size_t t = 0; t < 3; ++t) {
        threads.push_back(driver_thread(world, [&, t] {
          for (size_t i = 0; i < 100; ++i) {
            push(&head, &entries[t * 100 + i]);
            runtime::Runtime::current().interleave();
            if (i % 3 == 0) {
              Entry* mine = pop(&head);
              ASSERT_NE(mine, nullptr);
              push(&head, mine);
            }
          }
        }));
      }
      for (const auto& thread : threads) thread->join();
      EXPECT_EQ(head.words[0] & 0xFFFF, 300u);
      size_t count = 0;
      for (Entry* at = flush(&head); at != nullptr; at = at->next) ++count;
      EXPECT_EQ(count, 300u);
      EXPECT_EQ(pop(&head), nullptr);
    });
    expect_bug_check("NT-01", 0x7E, [] {
      Head mine{};
      Entry entry{};
      ExportCall<Entry*(Head*, Entry*)>("ExpInterlockedPushEntrySList")(
          &mine, reinterpret_cast<Entry*>(reinterpret_cast<uint64_t>(&entry) + 8));
    });
  });
}

struct alignas(64) LookasideMemory {
  uint64_t head[2];
  uint16_t depth, depth_max;
  uint32_t allocates, misses, frees, free_misses, type, tag, size;
  void*(DXGKIT_NT_ABI* allocate)(uint32_t, uint64_t, uint32_t);
  void(DXGKIT_NT_ABI* free)(void*);
  uint64_t rest[8];
};
static_assert(sizeof(LookasideMemory) == 128);

/// The inline halves in drivers: pop, or call Allocate; push up to Depth, or call Free. Deleting
/// frees the kept blocks.
TEST(Lookaside, ServesTheInlineHalves) {
  in_both_modes([] {
    World world;
    const ExportCall<void(LookasideMemory*, void*, void*, uint32_t, uint64_t, uint32_t, uint16_t)>
        initialize("ExInitializeNPagedLookasideList");
    const ExportCall<void(LookasideMemory*)> destroy("ExDeleteNPagedLookasideList");
    const ExportCall<Entry*(void*)> pop("ExpInterlockedPopEntrySList");
    const ExportCall<Entry*(void*, void*)> push("ExpInterlockedPushEntrySList");
    LookasideMemory list;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      initialize(&list, nullptr, nullptr, 512, 100, 0x54534554, 0);
      EXPECT_EQ(list.size, 100u);
      EXPECT_EQ(list.tag, 0x54534554u);
      ASSERT_GT(list.depth, 0);
      EXPECT_EQ(pop(&list), nullptr);
      std::vector<void*> blocks;
      for (int i = 0; i < list.depth; ++i)
        blocks.push_back(list.allocate(list.type, list.size, list.tag));
      EXPECT_EQ(world.kernel.leaks()[0].count, list.depth);
      for (void* block : blocks) push(&list, block);
      EXPECT_EQ(pop(&list), blocks.back());
      push(&list, blocks.back());
      void* extra = list.allocate(list.type, list.size, list.tag);
      list.free(extra);
      EXPECT_EQ(world.kernel.leaks().back().what, "lookaside list");
      destroy(&list);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-31", 0xC4, [] {
      LookasideMemory mine{};
      ExportCall<void(LookasideMemory*)>("ExDeleteNPagedLookasideList")(&mine);
    });
  });
}

std::atomic<int> custom_frees{0};
DXGKIT_NT_ABI void custom_free(void* memory, void*) {
  ++custom_frees;
  ExportCall<void(void*)>("ExFreePool")(memory);
}

TEST(Lookaside, CallsTheDriversOwnRoutines) {
  in_both_modes([] {
    World world;
    custom_frees = 0;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const ExportCall<int32_t(void*, void*, void*, uint32_t, uint32_t, uint64_t, uint32_t,
                               uint16_t)>
          initialize("ExInitializeLookasideListEx");
      const ExportCall<void(void*)> destroy("ExDeleteLookasideListEx");
      const ExportCall<Entry*(void*, void*)> push("ExpInterlockedPushEntrySList");
      const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
      LookasideMemory list;
      EXPECT_EQ(initialize(&list, nullptr, reinterpret_cast<void*>(&custom_free), 512, 0, 64, 1, 3),
                nt_status(0xC000000D));
      EXPECT_EQ(initialize(&list, nullptr, reinterpret_cast<void*>(&custom_free), 512, 8, 64, 1, 0),
                nt_status(0xC000000D));
      EXPECT_EQ(initialize(&list, nullptr, reinterpret_cast<void*>(&custom_free), 512, 0, 64, 1, 0),
                0);
      push(&list, allocate(512, 64, 1));
      destroy(&list);
    }));
    EXPECT_EQ(custom_frees, 1);
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

TEST(SpinLocks, QueuedAndSharedFormsRaiseAndLower) {
  DXGKIT_COVERS("NT-16");
  in_both_modes([] {
    World world;
    struct Handle {
      void* next;
      void* lock;
      uint8_t irql;
    };
    const ExportCall<void(uint64_t*, Handle*)> acquire("KeAcquireInStackQueuedSpinLock");
    const ExportCall<void(Handle*)> release("KeReleaseInStackQueuedSpinLock");
    const ExportCall<Irql(uint32_t*)> shared("ExAcquireSpinLockShared"),
        exclusive("ExAcquireSpinLockExclusive");
    const ExportCall<void(uint32_t*, Irql)> release_shared("ExReleaseSpinLockShared"),
        release_exclusive("ExReleaseSpinLockExclusive");
    const ExportCall<uint32_t(uint32_t*)> convert("ExTryConvertSharedSpinLockExclusive");
    uint64_t lock = 0;
    uint32_t shared_lock = 0;
    with_frame(world.kernel, kPassiveLevel, [&] {
      Handle handle{};
      acquire(&lock, &handle);
      EXPECT_EQ(CallFrame::current().irql(), kDispatchLevel);
      EXPECT_EQ(handle.irql, kPassiveLevel);
      EXPECT_NE(lock, 0u);
      release(&handle);
      EXPECT_EQ(CallFrame::current().irql(), kPassiveLevel);
      EXPECT_EQ(lock, 0u);
      const Irql old = shared(&shared_lock);
      EXPECT_EQ(shared(&shared_lock), kDispatchLevel);
      EXPECT_EQ(convert(&shared_lock), 0u);
      release_shared(&shared_lock, kDispatchLevel);
      EXPECT_EQ(convert(&shared_lock), 1u);
      release_exclusive(&shared_lock, old);
      EXPECT_EQ(CallFrame::current().irql(), kPassiveLevel);
      EXPECT_EQ(shared_lock, 0u);
      release_exclusive(&shared_lock, exclusive(&shared_lock));
    });
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-16", 0x10, [] {
      uint32_t mine = 0;
      ExportCall<void(uint32_t*, Irql)>("ExReleaseSpinLockShared")(&mine, 0);
    });
  });
}

/// Guarded mutexes keep the level; interlocked sums and single lists work under their lock.
TEST(Locks, GuardedMutexesAndInterlockedForms) {
  in_both_modes([] {
    World world;
    const ExportCall<void(FastMutex*)> initialize("KeInitializeGuardedMutex"),
        acquire("KeAcquireGuardedMutex"), release("KeReleaseGuardedMutex");
    const ExportCall<uint8_t(FastMutex*)> attempt("KeTryToAcquireGuardedMutex");
    with_frame(world.kernel, kPassiveLevel, [&] {
      FastMutex mutex;
      initialize(&mutex);
      acquire(&mutex);
      EXPECT_EQ(CallFrame::current().irql(), kPassiveLevel);
      driver_thread(world, [&] { EXPECT_EQ(attempt(&mutex), 0); })->join();
      release(&mutex);
      EXPECT_EQ(attempt(&mutex), 1);
      release(&mutex);
      uint64_t lock = 0;
      uint32_t sum = UINT32_MAX;
      EXPECT_EQ(ExportCall<uint32_t(uint32_t*, uint32_t, uint64_t*)>("ExInterlockedAddUlong")(
                    &sum, 2, &lock),
                UINT32_MAX);
      EXPECT_EQ(sum, 1u);
      Entry head{}, one{};
      const ExportCall<Entry*(Entry*, Entry*, uint64_t*)> push("ExInterlockedPushEntryList");
      const ExportCall<Entry*(Entry*, uint64_t*)> pop("ExInterlockedPopEntryList");
      EXPECT_EQ(push(&head, &one, &lock), nullptr);
      EXPECT_EQ(pop(&head, &lock), &one);
      EXPECT_EQ(pop(&head, &lock), nullptr);
    });
  });
}

struct Ticks {
  std::atomic<int> fired{0};
  std::atomic<int> level{-1};
  void* timer = nullptr;
};
DXGKIT_NT_ABI void on_tick(void* timer, void* context) {
  auto& mine = *static_cast<Ticks*>(context);
  EXPECT_EQ(timer, mine.timer);
  mine.level = CallFrame::current().irql();
  ++mine.fired;
}

/// Executive timers fire once or periodically, can be waited for, and are deleted once.
TEST(ExTimers, FireCancelAndAreDeleted) {
  in_both_modes([] {
    World world;
    const ExportCall<void*(void*, void*, uint32_t)> allocate("ExAllocateTimer");
    const ExportCall<uint8_t(void*, int64_t, int64_t, void*)> set("ExSetTimer");
    const ExportCall<uint8_t(void*, void*)> cancel("ExCancelTimer");
    const ExportCall<uint8_t(void*, uint8_t, uint8_t, void*)> destroy("ExDeleteTimer");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    Ticks ticks;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      EXPECT_EQ(allocate(nullptr, nullptr, 0x12), nullptr);
      ticks.timer = allocate(reinterpret_cast<void*>(&on_tick), &ticks, 0);
      ASSERT_NE(ticks.timer, nullptr);
      EXPECT_EQ(set(ticks.timer, -10'000, 0, nullptr), 0);
      EXPECT_EQ(wait(ticks.timer, 0, 0, 0, nullptr), 0);
      world.kernel.flush_dpcs();
      while (ticks.fired < 1) runtime::Runtime::current().yield();
      EXPECT_EQ(ticks.level, kDispatchLevel);
      EXPECT_EQ(set(ticks.timer, -5'000, 5'000, nullptr), 0);
      while (ticks.fired < 4) runtime::Runtime::current().sleep_for(runtime::kMillisecond / 2);
      EXPECT_EQ(cancel(ticks.timer, nullptr), 1);
      EXPECT_EQ(cancel(ticks.timer, nullptr), 0);
      EXPECT_EQ(set(ticks.timer, -100'000'000'000, 0, nullptr), 0);
      EXPECT_EQ(set(ticks.timer, -100'000'000'000, 0, nullptr), 1);
      EXPECT_EQ(world.kernel.leaks().size(), 2u);  // armed, and allocated
      EXPECT_EQ(destroy(ticks.timer, 1, 1, nullptr), 1);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-31", 0xC7, [] {
      int no_timer = 0;
      ExportCall<uint8_t(void*, int64_t, int64_t, void*)>("ExSetTimer")(&no_timer, -1, 0, nullptr);
    });
  });
}

/// A DPC taken out of the queue does not run; one that is not there says so.
TEST(Dpcs, CanBeRemoved) {
  in_both_modes([] {
    World world;
    const ExportCall<void(Kdpc*, DeferredRoutine, void*)> initialize("KeInitializeDpc");
    const ExportCall<uint8_t(Kdpc*, void*, void*)> queue("KeInsertQueueDpc");
    const ExportCall<uint8_t(Kdpc*)> remove("KeRemoveQueueDpc");
    std::vector<int> order;
    constexpr auto routine = +[](Kdpc* dpc, void* context, void*, void*) DXGKIT_NT_ABI {
      static_cast<std::vector<int>*>(context)->push_back(dpc->number);
    };
    Kdpc dpcs[3];
    {
      CallFrame frame(world.kernel, "driver", kDispatchLevel);
      for (uint16_t i = 0; i < 3; ++i) {
        initialize(&dpcs[i], routine, &order);
        dpcs[i].number = i;
        EXPECT_EQ(queue(&dpcs[i], nullptr, nullptr), 1);
      }
      EXPECT_EQ(remove(&dpcs[1]), 1);
      EXPECT_EQ(remove(&dpcs[1]), 0);
      EXPECT_EQ(remove(&dpcs[2]), 1);
      EXPECT_EQ(queue(&dpcs[2], nullptr, nullptr), 1);
    }
    EXPECT_EQ(order, (std::vector<int>{0, 2}));
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

TEST(Events, ByHandleAndPulsed) {
  in_both_modes([] {
    World world;
    const ExportCall<int32_t(void**, uint32_t, void*, uint32_t, uint8_t)> create("ZwCreateEvent");
    const ExportCall<int32_t(void*, int32_t*)> set("ZwSetEvent"), reset("ZwResetEvent");
    const ExportCall<int32_t(void*, uint8_t, const int64_t*)> wait("ZwWaitForSingleObject");
    const ExportCall<int32_t(void*)> close("ZwClose");
    with_frame(world.kernel, kPassiveLevel, [&] {
      void* handle = nullptr;
      EXPECT_EQ(create(&handle, 0, nullptr, 2, 0), nt_status(0xC000000D));
      ASSERT_EQ(create(&handle, 0, nullptr, 0, 0), 0);
      const int64_t now = 0;
      EXPECT_EQ(wait(handle, 0, &now), kTimeout);
      int32_t previous = 9;
      EXPECT_EQ(set(handle, &previous), 0);
      EXPECT_EQ(previous, 0);
      EXPECT_EQ(wait(handle, 0, nullptr), 0);
      EXPECT_EQ(reset(handle, &previous), 0);
      EXPECT_EQ(previous, 1);
      EXPECT_EQ(close(handle), 0);
      EXPECT_EQ(set(handle, nullptr), nt_status(0xC0000008));
      EXPECT_EQ(wait(handle, 0, nullptr), nt_status(0xC0000008));
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

}  // namespace
}  // namespace dxgkit::nt
