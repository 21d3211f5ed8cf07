// Budgets: numbers, pressure, reservations, trim notifications.
#include "runtime/sync.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr auto kLocal = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;
constexpr auto kNonLocal = D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL;
constexpr UINT kOnlyIfNecessary = 1;
constexpr uint64_t kAll = kMemoryUnits * kUnit;

/// What a trim callback was told. Its thread is the notifier's.
struct Told {
  runtime::Event event;
  std::vector<D3DKMT_TRIMNOTIFICATION> notices;
  std::function<void()> then;

  static void APIENTRY callback(D3DKMT_TRIMNOTIFICATION* notice) {
    auto* self = static_cast<Told*>(notice->Context);
    self->notices.push_back(*notice);
    if (self->then) self->then();
    self->event.set();
  }
  /// False: nothing came, and nothing will: everybody had a second.
  bool comes() {
    const bool came = event.wait(runtime::Runtime::current().now() + runtime::kSecond) ==
                      runtime::WaitResult::kWoken;
    event.reset();
    return came;
  }
};

void APIENTRY another_callback(D3DKMT_TRIMNOTIFICATION*) {}

class BudgetTest : public ContractTest {
 protected:
  static void listing(const std::function<void(Stack&)>& body,
                      const std::function<void(ScriptedMiniport&)>& prepare = explicit_residency) {
    running(body, prepare);
  }
  static NTSTATUS reserve(ListingClient& client, uint64_t bytes,
                          D3DKMT_MEMORY_SEGMENT_GROUP group = kLocal) {
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION args{};
    args.hAdapter = client.adapter;
    args.MemorySegmentGroup = group;
    args.Reservation = bytes;
    return client.call([&] { return D3DKMTChangeVideoMemoryReservation(&args); });
  }
  static NTSTATUS watch(Stack& stack, ListingClient& client, Told& told, void** handle) {
    D3DKMT_REGISTERTRIMNOTIFICATION args{};
    args.AdapterLuid.LowPart = stack.luid.low;
    args.AdapterLuid.HighPart = stack.luid.high;
    args.hDevice = client.device;
    args.Callback = Told::callback;
    args.Context = &told;
    const NTSTATUS status = client.call([&] { return D3DKMTRegisterTrimNotification(&args); });
    *handle = args.Handle;
    return status;
  }
  static NTSTATUS unwatch(ListingClient& client, void* handle,
                          PFND3DKMT_TRIMNOTIFICATIONCALLBACK callback = Told::callback) {
    D3DKMT_UNREGISTERTRIMNOTIFICATION args{handle, callback};
    return client.call([&] { return D3DKMTUnregisterTrimNotification(&args); });
  }
};

TEST_F(BudgetTest, WhatOthersDoNotUseIsLent) {
  DXGKIT_COVERS("RES-20");
  listing([](Stack& stack) {
    ListingClient first(stack, "first");
    D3DKMT_QUERYVIDEOMEMORYINFO info = first.memory();
    EXPECT_EQ(info.Budget, kAll) << "alone";
    EXPECT_EQ(info.CurrentUsage, 0U);
    EXPECT_EQ(info.CurrentReservation, 0U);
    EXPECT_EQ(info.AvailableForReservation, kAll / 2);
    EXPECT_EQ(first.memory(kNonLocal).Budget, 64 * kMebibyte);
    ListingClient second(stack, "second");
    EXPECT_EQ(first.memory().Budget, kAll) << "the other uses nothing";
    const D3DKMT_HANDLE a = second.make(4);
    ASSERT_EQ(second.make_resident({a}), nt_status(Status::kPending));
    EXPECT_EQ(second.memory().CurrentUsage, 4 * kUnit);
    EXPECT_EQ(first.memory().Budget, kAll - 4 * kUnit);
    EXPECT_EQ(second.memory().Budget, kAll);
    const D3DKMT_HANDLE b = second.make(8);
    ASSERT_EQ(second.make_resident({b}), nt_status(Status::kPending));
    EXPECT_EQ(first.memory().Budget, kAll / 2) << "but never less than an even share";
    EXPECT_EQ(first.memory().CurrentUsage, 0U) << "per process";
    const D3DKMT_HANDLE c = second.make_allocation(kUnit, kApertureSet);
    ASSERT_EQ(second.make_resident({c}), nt_status(Status::kPending));
    EXPECT_EQ(second.memory().CurrentUsage, 12 * kUnit) << "per group";
    EXPECT_EQ(second.memory(kNonLocal).CurrentUsage, kUnit);
    stack.drive();
  });
}

TEST_F(BudgetTest, HostileQuestionsAreRefused) {
  DXGKIT_COVERS("RES-20", "THUNK-36", "THUNK-05");
  listing([](Stack& stack) {
    ListingClient client(stack);
    const Digest before = digest(stack, {&client});
    const NTSTATUS invalid = nt_status(Status::kInvalidParameter);
    D3DKMT_QUERYVIDEOMEMORYINFO good{};
    good.hAdapter = client.adapter;
    for (int i = 0; i < 4; ++i) {
      D3DKMT_QUERYVIDEOMEMORYINFO args = good;
      if (i == 0) args.hProcess = reinterpret_cast<HANDLE>(uintptr_t{0x44});
      if (i == 1) args.MemorySegmentGroup = static_cast<D3DKMT_MEMORY_SEGMENT_GROUP>(2);
      if (i == 2) args.PhysicalAdapterIndex = 1;
      if (i == 3) args.hAdapter = client.device;
      args.Budget = 0x77;
      EXPECT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&args); }),
                i == 0 ? nt_status(Status::kInvalidHandle) : invalid)
          << i;
      EXPECT_EQ(args.Budget, 0x77U);
    }
    for (const uint64_t bytes : {kAll / 2 + 1, UINT64_MAX})
      EXPECT_EQ(reserve(client, bytes), invalid) << "more than is available";
    EXPECT_EQ(reserve(client, 0, static_cast<D3DKMT_MEMORY_SEGMENT_GROUP>(2)), invalid);
    Client deviceless(stack, "deviceless", false);
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION args{};
    args.hAdapter = deviceless.adapter;
    args.Reservation = 1;
    EXPECT_EQ(deviceless.call([&] { return D3DKMTChangeVideoMemoryReservation(&args); }), invalid);
    EXPECT_EQ(client.memory().CurrentReservation, 0U);
    good.hProcess = reinterpret_cast<HANDLE>(intptr_t{-1});
    EXPECT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&good); }), 0) << "oneself";
    deviceless.end();
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(BudgetTest, ReservationsAreKeptFromOthers) {
  DXGKIT_COVERS("RES-20", "THUNK-36");
  listing([](Stack& stack) {
    ListingClient first(stack, "first"), second(stack, "second");
    ASSERT_EQ(reserve(first, kAll / 2), 0);
    EXPECT_EQ(first.memory().CurrentReservation, kAll / 2);
    EXPECT_EQ(second.memory().AvailableForReservation, 0U);
    EXPECT_EQ(second.memory().Budget, kAll / 2);
    EXPECT_EQ(reserve(second, 1), nt_status(Status::kInvalidParameter));
    ASSERT_EQ(reserve(first, kUnit), 0);
    EXPECT_EQ(second.memory().AvailableForReservation, kAll / 2 - kUnit);
    ASSERT_EQ(reserve(second, kUnit), 0);
    ASSERT_EQ(second.destroy_device(second.device), 0);
    EXPECT_EQ(first.memory().Budget, kAll) << "gone with its process's last device";
  });
}

TEST_F(BudgetTest, OverBudgetIsToldAndNothingIsTakenWhileThereIsRoom) {
  DXGKIT_COVERS("RES-17", "RES-18", "RES-19", "THUNK-35");
  listing([](Stack& stack) {
    ListingClient first(stack, "first"), second(stack, "second");
    const D3DKMT_HANDLE a = first.make(10), b = first.make(2);
    ASSERT_EQ(first.make_resident({a, b}), nt_status(Status::kPending));
    stack.drive();
    Told told;
    void* handle = nullptr;
    ASSERT_EQ(watch(stack, first, told, &handle), 0);
    EXPECT_FALSE(told.comes()) << "within budget";
    const size_t paging = stack.miniport.count("DxgkDdiBuildPagingBuffer");
    ASSERT_EQ(reserve(second, 6 * kUnit), 0);
    EXPECT_EQ(first.memory().Budget, 10 * kUnit);
    ASSERT_TRUE(told.comes());
    ASSERT_EQ(told.notices.size(), 1U);
    EXPECT_EQ(told.notices[0].Flags.Value, 4U) << "TrimToBudget alone";
    EXPECT_EQ(told.notices[0].NumBytesToTrim, 2 * kUnit);
    stack.drive();
    EXPECT_TRUE(first.in_memory(a)) << "there is room for all that is used";
    EXPECT_TRUE(first.in_memory(b));
    EXPECT_EQ(stack.miniport.count("DxgkDdiBuildPagingBuffer"), paging);
    NTSTATUS status = 0;
    const D3DKMT_HANDLE c = first.make(1);
    EXPECT_EQ(first.make_resident({c}, &status).NumBytesToTrim, 3 * kUnit);
    EXPECT_EQ(status, nt_status(Status::kPending)) << "over budget, with room: still granted";
    EXPECT_TRUE(told.comes()) << "further over";
    EXPECT_EQ(told.notices.back().NumBytesToTrim, 3 * kUnit);
    uint64_t trim = 0;
    ASSERT_EQ(first.evict({c}, 0, &trim), 0);
    EXPECT_EQ(trim, 2 * kUnit);
    ASSERT_EQ(first.evict({b}, 0, &trim), 0);
    EXPECT_EQ(trim, 0U) << "within again";
    EXPECT_FALSE(told.comes());
    ASSERT_EQ(unwatch(first, handle), 0);
    ASSERT_EQ(reserve(second, 8 * kUnit), 0);
    EXPECT_FALSE(told.comes()) << "not registered any more";
    stack.drive();
  });
}

TEST_F(BudgetTest, UnderPressureWhoIsOverBudgetGivesWay) {
  DXGKIT_COVERS("RES-18", "RES-20", "RES-17");
  listing([](Stack& stack) {
    ListingClient hog(stack, "hog"), modest(stack, "modest"), late(stack, "late");
    const D3DKMT_HANDLE hogs = hog.make(5), more = hog.make(6), modests = modest.make(5);
    ASSERT_EQ(modest.make_resident({modests}), nt_status(Status::kPending));
    ASSERT_EQ(hog.make_resident({hogs, more}), nt_status(Status::kPending));
    stack.drive();
    Told told, told_modest;
    void *handle = nullptr, *handle_modest = nullptr;
    ASSERT_EQ(watch(stack, hog, told, &handle), 0);
    ASSERT_EQ(watch(stack, modest, told_modest, &handle_modest), 0);
    // The late one is within its share, and what modest has would be just as wide.
    const D3DKMT_HANDLE lates = late.make(5);
    NTSTATUS status = 0;
    EXPECT_EQ(late.make_resident({lates}, &status).NumBytesToTrim, 0U);
    EXPECT_EQ(status, nt_status(Status::kPending));
    stack.drive();
    EXPECT_TRUE(late.in_memory(lates));
    EXPECT_TRUE(modest.in_memory(modests)) << "was last used first, and is within budget";
    EXPECT_NE(hog.in_memory(hogs), hog.in_memory(more)) << "no more than needed";
    ASSERT_TRUE(told.comes());
    EXPECT_EQ(told.notices.back().NumBytesToTrim, 11 * kUnit - hog.memory().Budget);
    EXPECT_FALSE(told_modest.comes());
    EXPECT_EQ(hog.memory().CurrentUsage, 11 * kUnit) << "listed all the same";
    // And no more for the hog, while others are within theirs.
    EXPECT_EQ(hog.make_resident({hog.make(1)}), nt_status(Status::kNoMemory));
    ASSERT_EQ(unwatch(hog, handle), 0);
    ASSERT_EQ(unwatch(modest, handle_modest), 0);
  });
}

TEST_F(BudgetTest, RegistrationsAreTheDevicesAndEndWithIt) {
  DXGKIT_COVERS("THUNK-35", "THUNK-05");
  listing([](Stack& stack) {
    ListingClient client(stack), stranger(stack, "stranger");
    Told told;
    const Digest before = digest(stack, {&client, &stranger});
    const NTSTATUS invalid = nt_status(Status::kInvalidParameter);
    D3DKMT_REGISTERTRIMNOTIFICATION args{};
    args.AdapterLuid.LowPart = stack.luid.low;
    args.hDevice = client.device;
    args.Context = &told;
    EXPECT_EQ(client.call([&] { return D3DKMTRegisterTrimNotification(&args); }), invalid)
        << "no callback";
    args.Callback = Told::callback;
    args.AdapterLuid.LowPart = stack.luid.low + 1;
    EXPECT_EQ(client.call([&] { return D3DKMTRegisterTrimNotification(&args); }), invalid);
    void* handle = nullptr;
    ASSERT_EQ(watch(stack, client, told, &handle), 0);
    EXPECT_EQ(unwatch(client, handle, another_callback), invalid);
    EXPECT_EQ(unwatch(client, nullptr), invalid);
    EXPECT_EQ(unwatch(client, static_cast<char*>(handle) + 1), invalid);
    EXPECT_EQ(unwatch(stranger, handle), invalid) << "not theirs";
    EXPECT_EQ(unwatch(client, handle), 0);
    EXPECT_EQ(unwatch(client, handle), invalid);
    EXPECT_EQ(digest(stack, {&client, &stranger}), before);

    // From inside: the callback trims, and withdraws itself.
    const D3DKMT_HANDLE a = client.make(12), b = client.make(4);
    ASSERT_EQ(client.make_resident({a, b}), nt_status(Status::kPending));
    stack.drive();
    ASSERT_EQ(watch(stack, client, told, &handle), 0);
    told.then = [&] {
      D3DKMT_EVICT evict{client.device, 1, &b, {}, 0};
      EXPECT_EQ(D3DKMTEvict(&evict), 0) << "it acts for its process";
      D3DKMT_UNREGISTERTRIMNOTIFICATION end{handle, Told::callback};
      EXPECT_EQ(D3DKMTUnregisterTrimNotification(&end), 0);
    };
    ASSERT_EQ(reserve(stranger, 4 * kUnit), 0);
    ASSERT_TRUE(told.comes());
    told.then = nullptr;
    EXPECT_EQ(client.memory().CurrentUsage, 12 * kUnit);
    EXPECT_EQ(unwatch(client, handle), invalid);
    // A device that goes takes what is left along.
    ASSERT_EQ(watch(stack, client, told, &handle), 0);
    ASSERT_EQ(client.destroy_device(client.device), 0);
    ASSERT_EQ(reserve(stranger, 8 * kUnit), 0);
    EXPECT_FALSE(told.comes());
    EXPECT_EQ(unwatch(client, handle), invalid);
  });
}

TEST_F(BudgetTest, TheDriverSaysWhatCountsWhere) {
  DXGKIT_COVERS("SEG-43");
  listing(
      [](Stack& stack) {
        ListingClient client(stack);
        EXPECT_EQ(client.memory().Budget, 2 * kAll) << "both local segments";
        EXPECT_EQ(client.memory(kNonLocal).Budget, 8 * kUnit) << "one is special";
        const D3DKMT_HANDLE special = client.make_allocation(kUnit, 1U << 2);
        ASSERT_EQ(client.make_resident({special}), nt_status(Status::kPending));
        EXPECT_EQ(client.memory(kNonLocal).CurrentUsage, kUnit) << "memory, and not local";
        stack.drive();
        ASSERT_EQ(client.evict({special}, kOnlyIfNecessary), 0);
      },
      [](ScriptedMiniport& miniport) {
        explicit_residency(miniport);
        auto& segments = miniport.config.segments;
        dxgkit::testing::ScriptedSegment more = segments[0];
        more.base_address = 0x3'0000'0000;
        segments[0].flags.ApplicationTarget = 1;
        more.flags.ApplicationTarget = 1;
        more.flags.LocalBudgetGroup = 1;
        dxgkit::testing::ScriptedSegment special = segments[0];
        special.base_address = 0x3'1000'0000;
        special.size = 8 * kUnit;
        special.flags.NonLocalBudgetGroup = 1;
        segments = {segments[0], more, special, segments[1]};
      });
}

TEST_F(BudgetTest, ProcessesAtWorkAreToldToTrimPeriodByPeriod) {
  DXGKIT_COVERS("RES-19");
  static constexpr int64_t kPeriod = 5 * runtime::kMillisecond;
  bare([](Stack& stack) {
    explicit_residency(stack.miniport);
    stack.options.periodic_trim_ns = kPeriod;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    ListingClient worker(stack, "worker");
    ListingClient idle(stack, "idle");
    Told told, told_idle;
    void* handle = nullptr;
    void* idle_handle = nullptr;
    ASSERT_EQ(watch(stack, worker, told, &handle), 0);
    ASSERT_EQ(watch(stack, idle, told_idle, &idle_handle), 0);
    const D3DKMT_HANDLE one = worker.make(1);
    worker.list({one});
    ContextBuffers context = worker.make_context();
    EXPECT_FALSE(told.comes()) << "nothing is queued yet";
    const auto flags_of_next = [&] {
      EXPECT_TRUE(told.comes());
      const UINT flags = told.notices.empty() ? ~0U : told.notices.back().Flags.Value;
      told.notices.clear();
      return flags;
    };
    constexpr UINT kPeriodic = 1, kRestart = 2;
    for (int life = 0; life < 2; ++life) {
      ASSERT_EQ(worker.render(context, work_on({one})), 0);
      stack.drive();
      EXPECT_EQ(flags_of_next(), kRestart) << "from here on it counts";
      ASSERT_EQ(worker.render(context, work_on({one})), 0);
      stack.drive();
      const int64_t before = runtime::Runtime::current().now();
      EXPECT_EQ(flags_of_next(), kPeriodic);
      EXPECT_LE(runtime::Runtime::current().now() - before, kPeriod);
      EXPECT_FALSE(told.comes()) << "it did nothing since";
    }
    EXPECT_TRUE(told_idle.notices.empty());
    EXPECT_EQ(unwatch(worker, handle), 0);
    EXPECT_EQ(unwatch(idle, idle_handle), 0);
  });
}

// What was not delivered yet is joined by what comes then: one notice says both.
TEST_F(BudgetTest, NoticesThatAreNotDeliveredYetAreJoined) {
  DXGKIT_COVERS("RES-19");
  bare([](Stack& stack) {
    explicit_residency(stack.miniport);
    stack.options.periodic_trim_ns = 5 * runtime::kMillisecond;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    ListingClient first(stack, "first"), second(stack, "second");
    const D3DKMT_HANDLE large = first.make(12);
    ASSERT_EQ(first.make_resident({large}), nt_status(Status::kPending));
    stack.drive();
    ContextBuffers context = first.make_context();
    Told told;
    runtime::Event go_on;
    told.then = [&] {
      if (told.notices.size() == 1) go_on.wait(INT64_MAX);
    };
    void* handle = nullptr;
    ASSERT_EQ(watch(stack, first, told, &handle), 0);
    ASSERT_EQ(reserve(second, 5 * kUnit), 0);  // the first notice, which stays in its callback
    for (int i = 0; i < 50; ++i) stack.settle();
    ASSERT_EQ(told.notices.size(), 1U);
    ASSERT_EQ(reserve(second, 7 * kUnit), 0);
    ASSERT_EQ(first.render(context, work_on({large})), 0);  // and a period begins
    stack.drive();
    go_on.set();
    while (told.comes()) continue;
    ASSERT_GE(told.notices.size(), 2U);
    EXPECT_EQ(told.notices[1].Flags.Value, 4U | 2U) << "TrimToBudget and RestartPeriodicTrim";
    EXPECT_EQ(told.notices[1].NumBytesToTrim, 3 * kUnit);
    EXPECT_EQ(unwatch(first, handle), 0);
  });
}

// Memory of an adapter that has failed is nobody's to trim: the period that had begun ends unsaid.
TEST_F(BudgetTest, NobodyIsToldPeriodicallyOfAnAdapterThatHasFailed) {
  DXGKIT_COVERS("RES-19");
  static constexpr int64_t kPeriod = 5 * runtime::kMillisecond;
  bare([](Stack& stack) {
    explicit_residency(stack.miniport);
    stack.options.periodic_trim_ns = kPeriod;
    stack.expect_leaks = true;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    ListingClient worker(stack, "worker");
    Told told;
    void* handle = nullptr;
    ASSERT_EQ(watch(stack, worker, told, &handle), 0);
    const D3DKMT_HANDLE one = worker.make(1);
    worker.list({one});
    ContextBuffers context = worker.make_context();
    for (int i = 0; i < 2; ++i) {  // the second one is work in the period that the first began
      ASSERT_EQ(worker.render(context, work_on({one})), 0);
      stack.drive();
    }
    ASSERT_EQ(told.notices.size(), 1U) << "a period begins";
    told.event.reset();
    stack.miniport.raise(ScriptedMiniport::completed_data(0, 0x70000000));
    stack.settle();
    ASSERT_EQ(stack.rules(), std::vector<std::string>{"INT-11"});
    EXPECT_FALSE(told.comes());
    EXPECT_EQ(told.notices.size(), 1U);
    static_cast<void>(unwatch(worker, handle));
  });
}

TEST_F(BudgetTest, NobodyIsToldPeriodicallyWhereThatIsOff) {
  DXGKIT_COVERS("RES-19");
  listing([](Stack& stack) {
    ListingClient worker(stack, "worker");
    Told told;
    void* handle = nullptr;
    ASSERT_EQ(watch(stack, worker, told, &handle), 0);
    const D3DKMT_HANDLE one = worker.make(1);
    worker.list({one});
    ContextBuffers context = worker.make_context();
    ASSERT_EQ(worker.render(context, work_on({one})), 0);
    stack.drive();
    EXPECT_FALSE(told.comes());
    EXPECT_EQ(unwatch(worker, handle), 0);
  });
}

}  // namespace
}  // namespace dxgkit::contract
