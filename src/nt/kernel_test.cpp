#include "nt/kernel.h"

#include <gtest/gtest.h>
#include <ntddk.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "nt/format.h"
#include "nt/layout.h"
#include "nt/test_world.h"
#include "nt/thread_delay.h"

namespace dxgkit::nt {
namespace {

static_assert(sizeof(Kevent) == sizeof(KEVENT));
static_assert(sizeof(Ksemaphore) == sizeof(KSEMAPHORE));
static_assert(sizeof(Kmutant) == sizeof(KMUTEX));
static_assert(sizeof(FastMutex) == sizeof(FAST_MUTEX));
static_assert(offsetof(FastMutex, event) == offsetof(FAST_MUTEX, Event));
static_assert(sizeof(Kdpc) == sizeof(KDPC));
static_assert(sizeof(Ktimer) == sizeof(KTIMER));
static_assert(sizeof(Mdl) == sizeof(MDL));
static_assert(offsetof(Mdl, mapped_system_va) == offsetof(MDL, MappedSystemVa));
static_assert(offsetof(Mdl, byte_offset) == offsetof(MDL, ByteOffset));
static_assert(sizeof(ObjectAttributes) == sizeof(OBJECT_ATTRIBUTES));

TEST(Exports, AreSortedAndUnique) {
  const auto all = exports();
  EXPECT_GT(all.size(), 150u);
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_LT(std::string_view(all[i - 1].name), std::string_view(all[i].name));
  for (const Export& entry : all) {
    EXPECT_NE(entry.address, nullptr) << entry.name;
    EXPECT_EQ(entry.support == Support::kSupported, entry.note[0] == 0) << entry.name;
  }
}

/// Everything the headers promise a driver is exported.
TEST(Exports, CoverWhatDriversUse) {
  for (const char* name : {"ExAllocatePoolWithTag",
                           "ExAllocatePool2",
                           "ExFreePoolWithTag",
                           "IoAllocateMdl",
                           "IoFreeMdl",
                           "MmProbeAndLockPages",
                           "MmUnlockPages",
                           "MmMapLockedPagesSpecifyCache",
                           "MmUnmapLockedPages",
                           "MmAllocateContiguousMemory",
                           "MmAllocateContiguousMemorySpecifyCache",
                           "MmFreeContiguousMemory",
                           "MmFreeContiguousMemorySpecifyCache",
                           "MmGetPhysicalAddress",
                           "MmMapIoSpace",
                           "MmMapIoSpaceEx",
                           "MmUnmapIoSpace",
                           "MmIsAddressValid",
                           "KeInitializeEvent",
                           "KeSetEvent",
                           "KeClearEvent",
                           "KeWaitForSingleObject",
                           "KeWaitForMultipleObjects",
                           "IoCreateNotificationEvent",
                           "PsCreateSystemThread",
                           "PsTerminateSystemThread",
                           "ObReferenceObjectByHandle",
                           "KeSetPriorityThread",
                           "KeDelayExecutionThread",
                           "KeStallExecutionProcessor",
                           "ZwClose",
                           "KeInitializeDpc",
                           "KeInsertQueueDpc",
                           "KeFlushQueuedDpcs",
                           "KeInitializeTimer",
                           "KeInitializeTimerEx",
                           "KeSetTimer",
                           "KeCancelTimer",
                           "KeInitializeSpinLock",
                           "KeAcquireSpinLockRaiseToDpc",
                           "KeReleaseSpinLock",
                           "KeAcquireSpinLockAtDpcLevel",
                           "KeReleaseSpinLockFromDpcLevel",
                           "ExAcquireFastMutex",
                           "ExReleaseFastMutex",
                           "ExInterlockedInsertTailList",
                           "ExInterlockedRemoveHeadList",
                           "KeGetCurrentIrql",
                           "KeInvalidateAllCaches",
                           "KeQueryTimeIncrement",
                           "KeQueryInterruptTime",
                           "ZwOpenKey",
                           "ZwCreateKey",
                           "ZwQueryValueKey",
                           "ZwSetValueKey",
                           "ZwFlushKey",
                           "IoOpenDeviceRegistryKey",
                           "IoGetDeviceProperty",
                           "RtlInitAnsiString",
                           "RtlInitUnicodeString",
                           "RtlAnsiStringToUnicodeString",
                           "RtlFreeUnicodeString",
                           "RtlIntegerToUnicodeString",
                           "RtlInitializeBitMap",
                           "RtlClearAllBits",
                           "RtlFindClearBits",
                           "RtlSetBits",
                           "RtlClearBits",
                           "_vsnprintf",
                           "_vsnwprintf",
                           "wcscmp",
                           "memcpy",
                           "memset",
                           "memcmp",
                           "_purecall",
                           "__chkstk",
                           "DbgPrintEx",
                           "vDbgPrintEx",
                           "DbgPrompt",
                           "KdDebuggerEnabled",
                           "KdDebuggerNotPresent",
                           "KdRefreshDebuggerNotPresent",
                           "KeBugCheck",
                           "KeBugCheckEx",
                           "IoBuildDeviceIoControlRequest",
                           "IofCallDriver",
                           "IoFileObjectType",
                           "ZwCreateFile",
                           "EtwRegister",
                           "PsThreadType"}) {
    EXPECT_NE(find_export(name), nullptr) << name;
  }
  EXPECT_EQ(find_export("NoSuchFunction"), nullptr);
}

TEST(Pool, AlignsZeroesAndCounts) {
  DXGKIT_COVERS("LIFE-20");
  in_both_modes([] {
    World world;
    const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
    const ExportCall<void*(uint64_t, uint64_t, uint32_t)> allocate2("ExAllocatePool2");
    const ExportCall<void(void*, uint32_t)> free_pool("ExFreePoolWithTag");
    const ExportCall<int64_t(void*)> physical("MmGetPhysicalAddress");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    void* small = allocate(512, 24, 0x31676154);
    void* page = allocate(512, 4096, 0x31676154);
    void* zero = allocate2(0x40, 100, 0x32676154);
    EXPECT_EQ(reinterpret_cast<uint64_t>(small) % 16, 0u);
    EXPECT_EQ(reinterpret_cast<uint64_t>(page) % 4096, 0u);
    EXPECT_NE(physical(page), 0);  // a page of non-paged pool can be given to a device
    EXPECT_TRUE(std::all_of(static_cast<char*>(zero), static_cast<char*>(zero) + 100,
                            [](char c) { return c == 0; }));
    auto leaks = world.kernel.leaks();
    ASSERT_EQ(leaks.size(), 2u);
    EXPECT_EQ(leaks[0].tag, "Tag1");
    EXPECT_EQ(leaks[0].count, 2u);
    EXPECT_EQ(leaks[0].bytes, 4120u);
    EXPECT_EQ(leaks[1].tag, "Tag2");
    free_pool(small, 0x31676154);
    free_pool(page, 0x31676154);
    free_pool(zero, 0x99999999);  // another tag: a finding
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 1u);
  });
}

TEST(Pool, FailsAtItsQuota) {
  in_both_modes([] {
    World world({.registry = {}, .pool_bytes_max = 100, .debug_print = {}});
    const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
    const ExportCall<void(void*, uint32_t)> free_pool("ExFreePoolWithTag");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    void* first = allocate(512, 100, 1);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(allocate(512, 1, 1), nullptr);
    free_pool(first, 1);
    void* again = allocate(512, 100, 1);
    EXPECT_NE(again, nullptr);
    free_pool(again, 1);
  });
}

/// A double free stops the driver call, not the process.
TEST(Pool, CatchesDoubleFrees) {
  in_both_modes([] {
    World world;
    constexpr auto driver = +[](void* reached) DXGKIT_NT_ABI {
      const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
      const ExportCall<void(void*, uint32_t)> free_pool("ExFreePoolWithTag");
      void* memory = allocate(512, 24, 1);
      free_pool(memory, 1);
      free_pool(memory, 1);
      *static_cast<bool*>(reached) = true;
    };
    bool reached = false;
    EXPECT_FALSE(run_driver(world.kernel, kPassiveLevel, driver, &reached));
    EXPECT_FALSE(reached);
    EXPECT_TRUE(world.kernel.driver_is_dead());
    ASSERT_EQ(world.findings.total(), 1u);
    EXPECT_EQ(world.findings.all()[0].bugcheck_code, 0xC2u);
  });
}

/// What a machine did to itself says nothing of the next one: a new kernel begins without a cause.
TEST(Kernel, BeginsANewMachine) {
  in_both_modes([] {
    World world;
    world.findings.report(
        {.rule = "NT-16", .ddi = {}, .actual = {}, .expected = {}, .fix = {}, .dooms = true});
    EXPECT_EQ(world.findings.doomed_by(), "NT-16");
    const Kernel next(runtime::Runtime::current(), world.machine, world.findings, {});
    EXPECT_EQ(world.findings.doomed_by(), "");
  });
}

TEST(Waits, NameAReasonThatADriverHas) {
  DXGKIT_COVERS("NT-40");
  in_both_modes([] {
    World world;
    const ExportCall<void(Kevent*, uint32_t, uint8_t)> initialize("KeInitializeEvent");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    const ExportCall<int32_t(uint32_t, void* const*, uint32_t, uint32_t, uint8_t, uint8_t,
                             const int64_t*, void*)>
        wait_for_all("KeWaitForMultipleObjects");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    Kevent event;
    initialize(&event, 0, 1);
    void* const objects[] = {&event};
    for (const uint32_t reason : {0U, 6U}) {
      EXPECT_EQ(wait(&event, reason, 0, 0, nullptr), 0);
      EXPECT_EQ(wait_for_all(1, objects, 0, reason, 0, 0, nullptr, nullptr), 0);
    }
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    EXPECT_EQ(wait(&event, 1, 0, 0, nullptr), 0);
    EXPECT_EQ(wait_for_all(1, objects, 0, 7, 0, 0, nullptr, nullptr), 0);
    EXPECT_EQ(world.findings.count("NT-40"), 2u) << world.findings_text();
    EXPECT_EQ(world.findings.total(), 2u) << world.findings_text();
  });
}

/// Paged pool above APC_LEVEL and waits at DISPATCH_LEVEL are findings; a poll is not.
TEST(Irql, ChecksCalls) {
  DXGKIT_COVERS("NT-07", "NT-17");
  in_both_modes([] {
    World world;
    const ExportCall<void*(uint32_t, uint64_t, uint32_t)> allocate("ExAllocatePoolWithTag");
    const ExportCall<void(void*, uint32_t)> free_pool("ExFreePoolWithTag");
    const ExportCall<void(Kevent*, uint32_t, uint8_t)> initialize("KeInitializeEvent");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    CallFrame frame(world.kernel, "driver", kDispatchLevel);
    free_pool(allocate(512, 8, 1), 1);
    Kevent event;
    initialize(&event, 0, 1);
    const int64_t now = 0;
    EXPECT_EQ(wait(&event, 0, 0, 0, &now), 0);
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    EXPECT_EQ(wait(&event, 0, 0, 0, nullptr), 0);
    EXPECT_EQ(world.findings.count("NT-17"), 1u);
    free_pool(allocate(1, 8, 1), 1);  // paged pool: both calls are too high
    EXPECT_EQ(world.findings.count("NT-07"), 2u);
  });
}

/// A DPC waits until the level falls below DISPATCH_LEVEL, and is queued once only.
TEST(Irql, DefersDpcs) {
  in_both_modes([] {
    World world;
    const ExportCall<void(Kdpc*, DeferredRoutine, void*)> initialize("KeInitializeDpc");
    const ExportCall<uint8_t(Kdpc*, void*, void*)> queue("KeInsertQueueDpc");
    const ExportCall<Irql(uint64_t*)> acquire("KeAcquireSpinLockRaiseToDpc");
    const ExportCall<void(uint64_t*, Irql)> release("KeReleaseSpinLock");
    std::vector<Irql> levels;
    constexpr auto routine = +[](Kdpc*, void* context, void*, void*) DXGKIT_NT_ABI {
      static_cast<std::vector<Irql>*>(context)->push_back(CallFrame::current().irql());
    };
    Kdpc dpc;
    initialize(&dpc, routine, &levels);
    uint64_t lock = 0;
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    const Irql old = acquire(&lock);
    EXPECT_EQ(old, kPassiveLevel);
    EXPECT_EQ(queue(&dpc, nullptr, nullptr), 1);
    EXPECT_EQ(queue(&dpc, nullptr, nullptr), 0);
    EXPECT_TRUE(levels.empty());
    release(&lock, old);
    EXPECT_EQ(levels, std::vector<Irql>{kDispatchLevel});
    EXPECT_EQ(queue(&dpc, nullptr, nullptr), 1);
    EXPECT_EQ(levels.size(), 2u);
  });
}

/// Spin locks exclude each other; taking one twice on a thread is a bug check, as on one processor
/// it would hang.
TEST(Sync, SpinLocksExclude) {
  in_both_modes([] {
    World world;
    struct Shared {
      uint64_t lock = 0;
      int counter = 0;
    } shared;
    const auto work = [&] {
      const ExportCall<Irql(uint64_t*)> acquire("KeAcquireSpinLockRaiseToDpc");
      const ExportCall<void(uint64_t*, Irql)> release("KeReleaseSpinLock");
      CallFrame frame(world.kernel, "driver", kPassiveLevel);
      for (int i = 0; i < 500; ++i) {
        const Irql old = acquire(&shared.lock);
        const int seen = shared.counter;
        if (i % 50 == 0) runtime::Runtime::current().yield();
        shared.counter = seen + 1;
        release(&shared.lock, old);
      }
    };
    auto thread = runtime::Runtime::current().spawn("other", work);
    work();
    thread->join();
    EXPECT_EQ(shared.counter, 1000);
    constexpr auto twice = +[](void* lock) DXGKIT_NT_ABI {
      const ExportCall<Irql(uint64_t*)> acquire("KeAcquireSpinLockRaiseToDpc");
      acquire(static_cast<uint64_t*>(lock));
      acquire(static_cast<uint64_t*>(lock));
    };
    EXPECT_FALSE(run_driver(world.kernel, kPassiveLevel, twice, &shared.lock));
    EXPECT_EQ(world.findings.all().back().bugcheck_code, 0xFu);
  });
}

/// A system thread, a notification and a synchronisation event, a semaphore and a mutex, waited for
/// alone and together.
TEST(Sync, WaitsForThreadsAndEvents) {
  in_both_modes([] {
    World world;
    const ExportCall<void(Kevent*, uint32_t, uint8_t)> initialize("KeInitializeEvent");
    const ExportCall<int32_t(Kevent*, int32_t, uint8_t)> set("KeSetEvent");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    const ExportCall<int32_t(uint32_t, void**, uint32_t, uint32_t, uint8_t, uint8_t, const int64_t*,
                             void*)>
        wait_many("KeWaitForMultipleObjects");
    const ExportCall<int32_t(void**, uint32_t, void*, void*, void*, void(DXGKIT_NT_ABI*)(void*),
                             void*)>
        create("PsCreateSystemThread");
    const ExportCall<int32_t(void*, uint32_t, void*, uint8_t, void**, void*)> reference(
        "ObReferenceObjectByHandle");
    const ExportCall<int64_t(void*)> dereference("ObfDereferenceObject");
    const ExportCall<int32_t(void*)> close("ZwClose");
    struct Shared {
      Kevent go, done;
      std::atomic<int> state{0};
    } shared;
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    initialize(&shared.go, 1, 0);
    initialize(&shared.done, 0, 0);
    constexpr auto body = +[](void* opaque) DXGKIT_NT_ABI {
      auto& mine = *static_cast<Shared*>(opaque);
      const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait_inside(
          "KeWaitForSingleObject");
      const ExportCall<int32_t(Kevent*, int32_t, uint8_t)> set_inside("KeSetEvent");
      const ExportCall<int32_t(int32_t)> terminate("PsTerminateSystemThread");
      EXPECT_EQ(wait_inside(&mine.go, 0, 0, 0, nullptr), 0);
      mine.state = 1;
      set_inside(&mine.done, 0, 0);
      terminate(0);
      mine.state = 2;  // never reached
    };
    void* handle = nullptr;
    ASSERT_EQ(create(&handle, 0, nullptr, nullptr, nullptr, body, &shared), 0);
    void* object = nullptr;
    ASSERT_EQ(reference(handle, 0, nullptr, 0, &object, nullptr), 0);
    const int64_t ten_milliseconds = -100'000;
    EXPECT_EQ(wait(object, 0, 0, 0, &ten_milliseconds), 0x102);  // STATUS_TIMEOUT: it waits for us
    EXPECT_EQ(shared.state, 0);
    set(&shared.go, 0, 0);
    void* both[] = {&shared.done, object};
    EXPECT_EQ(wait_many(2, both, 0, 0, 0, 0, nullptr, nullptr), 0);  // WaitAll
    EXPECT_EQ(wait_many(2, both, 1, 0, 0, 0, nullptr, nullptr), 0);  // WaitAny: the first
    EXPECT_EQ(shared.state, 1);
    EXPECT_EQ(wait(&shared.go, 0, 0, 0, &ten_milliseconds),
              0x102);  // a synchronisation event is consumed
    dereference(object);
    EXPECT_EQ(close(handle), 0);
    EXPECT_NE(close(handle), 0);
    EXPECT_EQ(world.findings.total(), 1u);  // the second close
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

/// A thread that a dead or leaking driver leaves waiting goes with the kernel.
TEST(Sync, EndsForgottenThreads) {
  in_both_modes([] {
    Kevent event{};
    {
      World world;
      const ExportCall<void(Kevent*, uint32_t, uint8_t)> initialize("KeInitializeEvent");
      const ExportCall<int32_t(void**, uint32_t, void*, void*, void*, void(DXGKIT_NT_ABI*)(void*),
                               void*)>
          create("PsCreateSystemThread");
      CallFrame frame(world.kernel, "driver", kPassiveLevel);
      initialize(&event, 0, 0);
      constexpr auto body = +[](void* opaque) DXGKIT_NT_ABI {
        const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
            "KeWaitForSingleObject");
        wait(opaque, 0, 0, 0, nullptr);
        ADD_FAILURE() << "the wait returned";
      };
      void* handle = nullptr;
      ASSERT_EQ(create(&handle, 0, nullptr, nullptr, nullptr, body, &event), 0);
      const auto leaks = world.kernel.leaks();
      ASSERT_EQ(leaks.size(), 2u);
      EXPECT_EQ(leaks[0].what, "thread");
      EXPECT_EQ(leaks[1].what, "handle");
    }
  });
}

/// A thread that is made slow lets everybody else go first, and nobody else is slow.
TEST(Sync, SlowThreadsGoOnLater) {
  runtime::make_sim_runtime(1)->run_main([] {
    World world;
    const ExportCall<void(Kevent*, uint32_t, uint8_t)> initialize("KeInitializeEvent");
    const ExportCall<int32_t(Kevent*, int32_t, uint8_t)> set("KeSetEvent");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    const ExportCall<int32_t(void**, uint32_t, void*, void*, void*, void(DXGKIT_NT_ABI*)(void*),
                             void*)>
        create("PsCreateSystemThread");
    const ExportCall<int32_t(void*)> close("ZwClose");
    struct Shared {
      Kevent go, done;
    } shared;
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    initialize(&shared.go, 1, 0);
    initialize(&shared.done, 1, 0);
    constexpr auto body = +[](void* opaque) DXGKIT_NT_ABI {
      const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait_here(
          "KeWaitForSingleObject");
      const ExportCall<int32_t(Kevent*, int32_t, uint8_t)> set_here("KeSetEvent");
      auto* const both = static_cast<Shared*>(opaque);
      for (int i = 0; i < 2; ++i) {
        wait_here(&both->go, 0, 0, 0, nullptr);
        set_here(&both->done, 0, 0);
      }
    };
    void* handle = nullptr;
    ASSERT_EQ(create(&handle, 0, nullptr, nullptr, nullptr, body, &shared), 0);
    runtime::Runtime& runtime = world.kernel.runtime();
    for (const runtime::DurationNs delay : {runtime::DurationNs{0}, runtime::kMillisecond}) {
      runtime.sleep_until(runtime.now() + runtime::kMicrosecond);  // it waits now
      set_thread_delay(world.kernel, delay);
      const runtime::TimeNs before = runtime.now();
      set(&shared.go, 0, 0);
      wait(&shared.done, 0, 0, 0, nullptr);
      EXPECT_EQ(runtime.now() - before, delay);
    }
    close(handle);
    runtime.sleep_until(runtime.now() + runtime::kMicrosecond);
    EXPECT_TRUE(world.kernel.leaks().empty()) << "it has ended";
  });
}

/// Timers fire at their time, periodic ones again and again, cancelled ones not; their DPC runs at
/// DISPATCH_LEVEL.
TEST(Timers, FireAndCancel) {
  in_both_modes([] {
    World world;
    const ExportCall<void(Ktimer*)> initialize("KeInitializeTimer");
    const ExportCall<void(Kdpc*, DeferredRoutine, void*)> initialize_dpc("KeInitializeDpc");
    const ExportCall<uint8_t(Ktimer*, int64_t, int32_t, Kdpc*)> set("KeSetTimerEx");
    const ExportCall<uint8_t(Ktimer*)> cancel("KeCancelTimer");
    const ExportCall<int32_t(void*, uint32_t, uint8_t, uint8_t, const int64_t*)> wait(
        "KeWaitForSingleObject");
    struct Shared {
      std::atomic<int> fired{0};
      std::atomic<int> level{-1};
    } shared;
    constexpr auto routine = +[](Kdpc*, void* context, void*, void*) DXGKIT_NT_ABI {
      auto& mine = *static_cast<Shared*>(context);
      mine.level = CallFrame::current().irql();
      ++mine.fired;
    };
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    Ktimer once, periodic;
    Kdpc dpc;
    initialize(&once);
    initialize(&periodic);
    initialize_dpc(&dpc, routine, &shared);
    EXPECT_EQ(set(&once, -10'000, 0, nullptr), 0);
    EXPECT_EQ(wait(&once, 0, 0, 0, nullptr), 0);
    EXPECT_EQ(cancel(&once), 0);
    EXPECT_EQ(set(&once, -100'000'000'000, 0, &dpc), 0);
    EXPECT_EQ(cancel(&once), 1);
    EXPECT_EQ(set(&periodic, -10'000, 1, &dpc), 0);
    while (shared.fired < 3) runtime::Runtime::current().sleep_for(runtime::kMillisecond);
    EXPECT_EQ(cancel(&periodic), 1);
    world.kernel.flush_dpcs();
    EXPECT_EQ(shared.level, kDispatchLevel);
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

/// Contiguous memory has one physical run, an MDL over it the same pages; what is mapped through it
/// is the same memory.
TEST(Memory, DescribesPages) {
  in_both_modes([] {
    World world;
    const ExportCall<void*(uint64_t, int64_t)> allocate("MmAllocateContiguousMemory");
    const ExportCall<void(void*)> free_memory("MmFreeContiguousMemory");
    const ExportCall<int64_t(void*)> physical("MmGetPhysicalAddress");
    const ExportCall<Mdl*(void*, uint32_t, uint8_t, uint8_t, void*)> make_mdl("IoAllocateMdl");
    const ExportCall<void(Mdl*)> build("MmBuildMdlForNonPagedPool"), free_mdl("IoFreeMdl");
    const ExportCall<void*(Mdl*, uint8_t, uint32_t, void*, uint32_t, uint32_t)> map(
        "MmMapLockedPagesSpecifyCache");
    const ExportCall<void(void*, Mdl*)> unmap("MmUnmapLockedPages");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    auto* memory = static_cast<std::byte*>(allocate(3 * 4096, -1));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(physical(memory + 4096), physical(memory) + 4096);
    Mdl* mdl = make_mdl(memory + 100, 8192, 0, 0, nullptr);
    build(mdl);
    EXPECT_EQ(mdl->byte_offset, 100u);
    for (uint64_t i = 0; i < 3; ++i)
      EXPECT_EQ(mdl->pages()[i], static_cast<uint64_t>(physical(memory)) / 4096 + i);
    std::swap(mdl->pages()[0], mdl->pages()[1]);  // pages in another order need a view of their own
    memory[100] = std::byte{42};
    auto* mapped = static_cast<std::byte*>(map(mdl, 0, 1, nullptr, 0, 0));
    ASSERT_NE(mapped, nullptr);
    EXPECT_EQ(mapped[4096], std::byte{42});
    unmap(mapped, mdl);
    free_mdl(mdl);
    EXPECT_EQ(world.kernel.leaks().size(), 1u);
    free_memory(memory);
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// Whole pages are given, and what is behind the size is nobody's.
TEST(Memory, SeesWhoWritesBehindContiguousMemory) {
  DXGKIT_COVERS("NT-38");
  struct Row {
    uint64_t bytes, at;
    bool is_found;
  };
  for (const Row& row : {Row{100, 99, false}, Row{100, 100, true}, Row{4096, 4095, false},
                         Row{5000, 4999, false}, Row{5000, 5000, true}, Row{5000, 8191, true}}) {
    SCOPED_TRACE(std::to_string(row.at) + " of " + std::to_string(row.bytes));
    in_both_modes([&] {
      World world;
      const ExportCall<void*(uint64_t, int64_t)> allocate("MmAllocateContiguousMemory");
      const ExportCall<void(void*)> free_memory("MmFreeContiguousMemory");
      CallFrame frame(world.kernel, "driver", kPassiveLevel);
      auto* const memory = static_cast<std::byte*>(allocate(row.bytes, -1));
      ASSERT_NE(memory, nullptr);
      memory[row.at] = std::byte{1};
      free_memory(memory);
      EXPECT_EQ(world.findings.total(), row.is_found ? 1u : 0u);
      EXPECT_EQ(world.findings.count("NT-38"), row.is_found ? 1u : 0u);
      const std::string text = "Of " + std::to_string(row.bytes) +
                               " bytes of contiguous memory byte " + std::to_string(row.at) +
                               " was written.";
      EXPECT_EQ(world.findings_text().find(text) != std::string::npos, row.is_found)
          << world.findings_text();
      EXPECT_TRUE(world.kernel.leaks().empty());
    });
  }
}

/// Unlocking takes the mapping in system space with it: drivers that never unmap are right.
TEST(Memory, UnlockingUnmaps) {
  DXGKIT_COVERS("NT-23");
  in_both_modes([] {
    World world;
    const ExportCall<void*(uint64_t, int64_t)> allocate("MmAllocateContiguousMemory");
    const ExportCall<void(void*)> free_memory("MmFreeContiguousMemory");
    const ExportCall<Mdl*(void*, uint32_t, uint8_t, uint8_t, void*)> make_mdl("IoAllocateMdl");
    const ExportCall<void(Mdl*)> build("MmBuildMdlForNonPagedPool"), free_mdl("IoFreeMdl"),
        unlock("MmUnlockPages");
    const ExportCall<void*(Mdl*, uint8_t, uint32_t, void*, uint32_t, uint32_t)> map(
        "MmMapLockedPagesSpecifyCache");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    auto* memory = static_cast<std::byte*>(allocate(2 * 4096, -1));
    ASSERT_NE(memory, nullptr);
    Mdl* mdl = make_mdl(memory, 2 * 4096, 0, 0, nullptr);
    build(mdl);
    mdl->flags = kMdlPagesLocked;  // as MmProbeAndLockPages leaves it
    ASSERT_NE(map(mdl, 0, 1, nullptr, 0, 0), nullptr);
    EXPECT_NE(mdl->flags & kMdlMappedToSystemVa, 0);
    unlock(mdl);
    EXPECT_EQ(mdl->flags & (kMdlMappedToSystemVa | kMdlPagesLocked), 0);
    EXPECT_EQ(mdl->mapped_system_va, nullptr);
    free_mdl(mdl);
    free_memory(memory);
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(Registry, ReadsTheConfiguration) {
  in_both_modes([] {
    KernelConfig config;
    config.registry[KernelConfig::kDeviceKey]["Flags"] = RegistryValue::dword(0x1234);
    World world(std::move(config));
    const ExportCall<int32_t(void*, uint32_t, uint32_t, void**)> open("IoOpenDeviceRegistryKey");
    const ExportCall<int32_t(void*, UnicodeString*, uint32_t, void*, uint32_t, uint32_t*)> query(
        "ZwQueryValueKey");
    const ExportCall<int32_t(void*)> close("ZwClose");
    const ExportCall<void(UnicodeString*, const char16_t*)> initialize("RtlInitUnicodeString");
    CallFrame frame(world.kernel, "driver", kPassiveLevel);
    void* key = nullptr;
    ASSERT_EQ(open(&world, 1, 0, &key), 0);
    UnicodeString name;
    initialize(&name, u"flags");
    uint32_t out[4] = {};
    uint32_t length = 0;
    EXPECT_EQ(query(key, &name, 2, out, sizeof(out), &length), 0);
    EXPECT_EQ(length, 16u);
    EXPECT_EQ(out[1], 4u);
    EXPECT_EQ(out[3], 0x1234u);
    EXPECT_EQ(query(key, &name, 2, out, 14, &length), static_cast<int32_t>(0x80000005));
    EXPECT_EQ(query(key, &name, 2, out, 4, &length), static_cast<int32_t>(0xC0000023));
    initialize(&name, u"absent");
    EXPECT_EQ(query(key, &name, 2, out, sizeof(out), &length), static_cast<int32_t>(0xC0000034));
    EXPECT_EQ(close(key), 0);
  });
}

DXGKIT_NT_ABI std::string format_for_test(const char* format, ...) {
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  std::string text = format_narrow(format, reinterpret_cast<const char*>(arguments));
  __builtin_ms_va_end(arguments);
  return text;
}

TEST(Format, KnowsTheMicrosoftConversions) {
  UnicodeString counted{4, 6, const_cast<char16_t*>(u"abX")};
  EXPECT_EQ(format_for_test("%d %u %x %08X %%", -5, 7, 0xBEEF, 0xAB), "-5 7 beef 000000AB %");
  EXPECT_EQ(format_for_test("%I64x %llu %I32d", 0x123456789ABCULL, 1ULL << 40, -1),
            "123456789abc 1099511627776 -1");
  EXPECT_EQ(format_for_test("[%s] [%5s] [%-5s] [%.2s]", "abc", "abc", "abc", "abc"),
            "[abc] [  abc] [abc  ] [ab]");
  EXPECT_EQ(format_for_test("%ws %ls %S %wZ %c", u"wide", u"wide", u"wide", &counted, 'x'),
            "wide wide wide ab x");
  EXPECT_EQ(format_for_test("%p %*d %.1f", static_cast<void*>(nullptr), 4, 1, 2.25),
            "0000000000000000    1 2.2");
  EXPECT_EQ(format_for_test("%s %q", static_cast<const char*>(nullptr)), "(null) %q");
}

/// An import that does not exist names itself when it is called, and the call is abandoned; the
/// address is stable.
TEST(Imports, TrapTheUnknown) {
  in_both_modes([] {
    World world;
    const void* trap = world.kernel.unresolved_import("NoSuchFunction");
    EXPECT_EQ(trap, world.kernel.unresolved_import("NoSuchFunction"));
    EXPECT_NE(trap, world.kernel.unresolved_import("NoOtherFunction"));
    const auto function = reinterpret_cast<void(DXGKIT_NT_ABI*)(void*)>(const_cast<void*>(trap));
    EXPECT_FALSE(run_driver(world.kernel, kPassiveLevel, function, nullptr));
    ASSERT_EQ(world.findings.total(), 1u);
    EXPECT_EQ(world.findings.all()[0].ddi, "NoSuchFunction");
    EXPECT_EQ(world.findings.all()[0].severity, verifier::Severity::kBugCheck);
  });
}

}  // namespace
}  // namespace dxgkit::nt
