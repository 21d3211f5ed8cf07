// What residency calls name: resources and lists, properties by themselves, trim registrations by
// adapter; and fences of several requests.
#include "tests/contract/res_fixture.h"
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

class ResTargetsTest : public ContractTest {
 protected:
  static void listing(const std::function<void(Stack&, ListingClient&)>& body) {
    running(
        [&](Stack& stack) {
          ListingClient client(stack);
          body(stack, client);
          stack.miniport.hooks = {};
        },
        explicit_residency);
  }
  /// A resource of one allocation per entry of `segments`.
  struct Resource {
    D3DKMT_HANDLE handle = 0;
    std::vector<D3DKMT_HANDLE> members;
  };
  static Resource make(ListingClient& client, std::vector<uint32_t> segments,
                       D3DKMT_HANDLE device = 0) {
    std::vector<ScriptedAllocation> data(segments.size());
    std::vector<D3DDDI_ALLOCATIONINFO> infos(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      data[i].size = kUnit;
      data[i].supported_read = data[i].supported_write = segments[i];
      infos[i] = {};
      infos[i].pPrivateDriverData = &data[i];
      infos[i].PrivateDriverDataSize = sizeof data[i];
    }
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = device == 0 ? client.device : device;
    create.NumAllocations = static_cast<UINT>(infos.size());
    create.pAllocationInfo = infos.data();
    create.Flags.CreateResource = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
    Resource made{create.hResource, {}};
    for (const auto& info : infos) made.members.push_back(info.hAllocation);
    return made;
  }
};

// The worst of a resource counts wherever it stands, the first where a resource has one answer.
TEST_F(ResTargetsTest, AResourceHasTheWorstPlaceAndTheFirstPriority) {
  DXGKIT_COVERS("RES-27", "RES-23", "THUNK-29");
  listing([](Stack& stack, ListingClient& client) {
    for (const bool worst_first : {false, true}) {
      SCOPED_TRACE(worst_first);
      const Resource made = make(client, worst_first ? std::vector{kApertureSet, kMemorySet}
                                                     : std::vector{kMemorySet, kApertureSet});
      client.list(made.members);
      stack.drive();
      D3DKMT_ALLOCATIONRESIDENCYSTATUS place{};
      const D3DKMT_QUERYALLOCATIONRESIDENCY query{client.device, made.handle, nullptr, 0, &place};
      EXPECT_EQ(client.call([&] { return D3DKMTQueryAllocationResidency(&query); }), 0);
      EXPECT_EQ(place, D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
      const UINT set[] = {0x70000000, 0x50000000};
      const D3DKMT_SETALLOCATIONPRIORITY priorities{client.device, 0, made.members.data(), 2, set};
      ASSERT_EQ(client.call([&] { return D3DKMTSetAllocationPriority(&priorities); }), 0);
      UINT got[2] = {1, 2};
      const D3DKMT_GETALLOCATIONPRIORITY ask{client.device, made.handle, nullptr, 0, got};
      ASSERT_EQ(client.call([&] { return D3DKMTGetAllocationPriority(&ask); }), 0);
      EXPECT_EQ(got[0], 0x70000000U);
      EXPECT_EQ(got[1], 2U) << "one answer";
    }
  });
}

// A resource is named without a list, and on its own device.
TEST_F(ResTargetsTest, AResourceIsNamedByItselfOnItsDevice) {
  DXGKIT_COVERS("THUNK-29", "THUNK-05");
  listing([](Stack& stack, ListingClient& client) {
    const D3DKMT_HANDLE other = client.make_device();
    const Resource here = make(client, {kMemorySet, kMemorySet}),
                   there = make(client, {kMemorySet, kMemorySet}, other);
    const UINT priorities[] = {0x70000000, 0x50000000};
    const auto set = [&](D3DKMT_HANDLE resource, UINT count) {
      const D3DKMT_SETALLOCATIONPRIORITY args{client.device, resource, nullptr, count, priorities};
      return client.call([&] { return D3DKMTSetAllocationPriority(&args); });
    };
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(set(here.handle, 2), kInvalid);
    EXPECT_EQ(set(there.handle, 0), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(set(here.handle, 0), 0);
    EXPECT_EQ(set(here.handle, 1), 0);
  });
}

std::vector<DXGKARG_VALIDATEUPDATEALLOCPROPERTY> asked;
NTSTATUS NTAPI validate(const HANDLE, const DXGKARG_VALIDATEUPDATEALLOCPROPERTY* args) {
  asked.push_back(*args);
  return STATUS_SUCCESS;
}

// One property at a time: what the mask does not name stays as it was.
// Work in flight may reach all that its device lists: who wants to look waits for it.
TEST_F(ResTargetsTest, ALockWaitsForWorkThatMayReachWhatIsListed) {
  DXGKIT_COVERS("ALLOC-41", "RES-03");
  running(
      [](Stack& stack) {
        ListingClient client(stack);
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE seen = client.make_allocation(kUnit, kMemorySet | kApertureSet);
        ASSERT_EQ(client.make_resident({seen}), nt_status(Status::kPending));
        stack.drive();
        ASSERT_TRUE(client.in_memory(seen));
        ASSERT_EQ(client.render(context, work_on({})), 0);
        stack.settle();
        NTSTATUS status = 1;
        void* address = nullptr;
        Stack::Background locks(stack, [&] {
          D3DKMT_LOCK2 args{};
          args.hDevice = client.device;
          args.hAllocation = seen;
          status = client.call([&] { return D3DKMTLock2(&args); });
          address = args.pData;
        });
        EXPECT_FALSE(locks.finished());
        locks.finish();
        EXPECT_EQ(status, 0);
        EXPECT_NE(address, nullptr);
        EXPECT_EQ(client.unlock(seen), 0);
      },
      explicit_residency);
}

TEST_F(ResTargetsTest, PropertiesChangeOneByOne) {
  DXGKIT_COVERS("RES-32", "THUNK-33");
  asked.clear();
  running(
      [](Stack& stack) {
        ListingClient client(stack);
        const D3DKMT_HANDLE one = client.make(1);
        const auto update = [&](const std::function<void(D3DDDI_UPDATEALLOCPROPERTY&)>& change) {
          D3DDDI_UPDATEALLOCPROPERTY args{};
          args.hPagingQueue = client.queue.handle;
          args.hAllocation = one;
          change(args);
          NTSTATUS status = -1;
          stack.blocking(
              [&] { status = client.call([&] { return D3DKMTUpdateAllocationProperty(&args); }); });
          return status;
        };
        ASSERT_EQ(update([](auto& args) {
                    args.SetAccessedPhysically = 1;
                    args.Flags.AccessedPhysically = 1;
                    args.Flags.Unmoveable = 1;  // not named
                  }),
                  0);
        ASSERT_EQ(update([](auto& args) {
                    args.SetUnmoveable = 1;
                    args.Flags.Unmoveable = 1;
                  }),
                  0);
        const size_t told = asked.size();
        // What both are by now is no news.
        ASSERT_EQ(update([](auto& args) {
                    args.SetAccessedPhysically = args.SetUnmoveable = 1;
                    args.Flags.AccessedPhysically = args.Flags.Unmoveable = 1;
                  }),
                  0);
        EXPECT_EQ(asked.size(), told);
        stack.drive();
      },
      [](ScriptedMiniport& miniport) {
        explicit_residency(miniport);
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_1;
        miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
          table.DxgkDdiValidateUpdateAllocationProperty = validate;
        };
      });
}

void APIENTRY nobody(D3DKMT_TRIMNOTIFICATION*) {}

// A registration is of its adapter, though both count from one.
TEST_F(ResTargetsTest, ARegistrationIsOfItsAdapter) {
  DXGKIT_COVERS("THUNK-35");
  listing([](Stack& stack, ListingClient& client) {
    SecondAdapter second(stack, explicit_residency);
    const D3DKMT_HANDLE there = second.make_device(client);
    const auto watch = [&](D3DKMT_HANDLE device, dxgk::Luid luid) {
      D3DKMT_REGISTERTRIMNOTIFICATION args{};
      args.AdapterLuid.LowPart = luid.low;
      args.AdapterLuid.HighPart = luid.high;
      args.hDevice = device;
      args.Callback = nobody;
      EXPECT_EQ(client.call([&] { return D3DKMTRegisterTrimNotification(&args); }), 0);
      return args.Handle;
    };
    const auto unwatch = [&](void* handle) {
      D3DKMT_UNREGISTERTRIMNOTIFICATION args{handle, nobody};
      return client.call([&] { return D3DKMTUnregisterTrimNotification(&args); });
    };
    void* const mine = watch(client.device, stack.luid);
    void* const theirs = watch(there, second.luid);
    EXPECT_NE(mine, theirs);
    EXPECT_EQ(unwatch(theirs), 0);
    EXPECT_EQ(unwatch(theirs), kInvalid) << "once, and the other one is not it";
    EXPECT_EQ(unwatch(mine), 0);
    ASSERT_EQ(client.destroy_device(there), 0);
  });
}

// A later request of a queue is not done before an earlier one, though it would fit at once.
TEST_F(ResTargetsTest, AFenceStandsForAllBeforeIt) {
  DXGKIT_COVERS("PAGE-44", "RES-06");
  running(
      [](Stack& stack) {
        ListingClient holder(stack, "holder"), client(stack);
        const D3DKMT_HANDLE all = holder.make(kMemoryUnits);
        ContextBuffers work = holder.make_context();
        ASSERT_EQ(holder.make_resident({all}), nt_status(Status::kPending));
        stack.drive();
        ASSERT_EQ(holder.render(work, work_on({all})), 0);
        stack.settle();
        NTSTATUS status = 0;
        const D3DDDI_MAKERESIDENT first =
            client.make_resident({client.make(4)}, &status, cant_trim());
        ASSERT_EQ(status, nt_status(Status::kPending));
        const D3DDDI_MAKERESIDENT second = client.make_resident(
            {client.make_allocation(kUnit, kApertureSet)}, &status, cant_trim());
        ASSERT_EQ(status, nt_status(Status::kPending));
        EXPECT_EQ(first.PagingFenceValue, 1U);
        EXPECT_EQ(second.PagingFenceValue, 2U);
        while (stack.miniport.complete_next(1)) stack.settle();
        EXPECT_EQ(client.queue.value(), 0U) << "the first waits for room";
        stack.drive();
        EXPECT_EQ(client.queue.value(), 2U);
      },
      explicit_residency);
}

}  // namespace
}  // namespace dxgkit::contract
