// What public tests have seen Windows do with resources and their handles, where no page says it.
#include <bit>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using ObservedTest = ContractTest;

constexpr NTSTATUS kBadHandle = nt_status(Status::kInvalidHandle);
constexpr UINT kCreateResource = 1U << 0, kCreateShared = 1U << 1;

/// A creation of `count` allocations, to be broken by a test.
struct Creation {
  Creation(Client& client_in, UINT count, UINT flags = 0)
      : client(client_in), data(count), infos(count) {
    for (UINT i = 0; i < count; ++i) {
      infos[i] = {};
      infos[i].pPrivateDriverData = &data[i];
      infos[i].PrivateDriverDataSize = sizeof data[i];
    }
    args.hDevice = client.device;
    args.NumAllocations = count;
    args.pAllocationInfo2 = infos.data();
    args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(flags);
  }
  NTSTATUS run() {
    return client.call([&] { return D3DKMTCreateAllocation2(&args); });
  }
  Client& client;
  std::vector<ScriptedAllocation> data;
  std::vector<D3DDDI_ALLOCATIONINFO2> infos;
  D3DKMT_CREATEALLOCATION args{};
};

NTSTATUS destroy(Client& client, const D3DKMT_DESTROYALLOCATION& args) {
  NTSTATUS status = 1;
  client.stack.blocking(
      [&] { status = client.call([&] { return D3DKMTDestroyAllocation(&args); }); });
  return status;
}

TEST_F(ObservedTest, AResourceGetsItsHandleBeforeItsAllocations) {
  DXGKIT_COVERS("ALLOC-58");
  with_client([](Stack&, Client& client) {
    Creation made(client, 3, kCreateResource | kCreateShared);
    ASSERT_EQ(made.run(), 0);
    const D3DKMT_HANDLE resource = made.args.hResource;
    for (UINT i = 0; i < 3; ++i) EXPECT_EQ(made.infos[i].hAllocation, resource + 0x40 * (i + 1));

    D3DDDI_OPENALLOCATIONINFO2 opened[3] = {};
    std::vector<std::byte> total(3 * sizeof(ScriptedAllocation));
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = made.args.hGlobalShare;
    open.NumAllocations = 3;
    open.pOpenAllocationInfo2 = opened;
    open.pTotalPrivateDriverDataBuffer = total.data();
    open.TotalPrivateDriverDataBufferSize = static_cast<UINT>(total.size());
    ASSERT_EQ(client.call([&] { return D3DKMTOpenResource2(&open); }), 0);
    EXPECT_EQ(open.hResource, resource + 0x40 * 4);
    for (UINT i = 0; i < 3; ++i) EXPECT_EQ(opened[i].hAllocation, open.hResource + 0x40 * (i + 1));
  });
}

TEST_F(ObservedTest, TheResourceOfACreationExistsAndIsNotMadeTwice) {
  DXGKIT_COVERS("ALLOC-56", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Creation resource(client, 1, kCreateResource);
    ASSERT_EQ(resource.run(), 0);
    const D3DKMT_HANDLE known = resource.args.hResource;
    const D3DKMT_HANDLE allocation = resource.infos[0].hAllocation;
    struct Row {
      D3DKMT_HANDLE resource;
      UINT flags;
      NTSTATUS status;
    };
    for (const Row& row :
         {Row{0x1EADBEED, 0, kBadHandle}, Row{allocation, 0, kBadHandle},
          Row{client.device, 0, kBadHandle}, Row{UINT32_MAX, 0, kBadHandle},
          Row{0x1EADBEED, kCreateResource, kBadHandle}, Row{known, kCreateResource, kInvalid}}) {
      Creation wrong(client, 1, row.flags);
      wrong.args.hResource = row.resource;
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(wrong.run(), row.status) << row.resource << " " << row.flags;
      EXPECT_EQ(digest(stack, {&client}), before);
      EXPECT_EQ(wrong.args.hResource, row.resource);
      EXPECT_EQ(wrong.infos[0].hAllocation, 0U);
    }
    Creation more(client, 1);
    more.args.hResource = known;
    EXPECT_EQ(more.run(), 0) << "and allocations may join it";
  });
}

TEST_F(ObservedTest, AListOfNoAllocationsIsFineWithAResourceAndWithout) {
  DXGKIT_COVERS("ALLOC-57", "ALLOC-29");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_HANDLE alone = client.make_allocation();
    D3DKMT_DESTROYALLOCATION args{};
    args.hDevice = client.device;
    Digest before = digest(stack, {&client});
    EXPECT_EQ(destroy(client, args), 0) << "nothing is named";
    args.phAllocationList = &alone;
    EXPECT_EQ(destroy(client, args), 0) << "of the list nothing counts";
    EXPECT_EQ(digest(stack, {&client}), before);
    args.AllocationCount = 1;
    args.phAllocationList = nullptr;
    EXPECT_EQ(destroy(client, args), kInvalid);
    args.AllocationCount = 0;
    args.hDevice = alone;
    EXPECT_EQ(destroy(client, args), kInvalid) << "no device";
    EXPECT_EQ(digest(stack, {&client}), before);

    // A resource, made and destroyed beside a pointer that is not looked at.
    Creation empty(client, 1, kCreateResource);
    empty.args.NumAllocations = 0;
    ASSERT_EQ(empty.run(), 0);
    EXPECT_EQ(empty.infos[0].hAllocation, 0U);
    args.hDevice = client.device;
    args.hResource = empty.args.hResource;
    args.phAllocationList = &alone;
    args.AllocationCount = 1;
    before = digest(stack, {&client});
    EXPECT_EQ(destroy(client, args), kInvalid) << "both at once";
    EXPECT_EQ(digest(stack, {&client}), before);
    args.AllocationCount = 0;
    EXPECT_EQ(destroy(client, args), 0);
    EXPECT_EQ(destroy(client, args), kInvalid) << "it is gone";
    EXPECT_EQ(client.destroy_allocation(alone, 2), 0) << "the allocation is not";
  });
}

TEST_F(ObservedTest, ANumberThatIsNoProcessHasNoMemory) {
  DXGKIT_COVERS("THUNK-54", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    D3DKMT_QUERYVIDEOMEMORYINFO query{};
    query.hAdapter = client.adapter;
    query.hProcess = reinterpret_cast<HANDLE>(uintptr_t{0xDEADBEEF});
    EXPECT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&query); }), kBadHandle);
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION change{};
    change.hAdapter = client.adapter;
    change.hProcess = query.hProcess;
    EXPECT_EQ(client.call([&] { return D3DKMTChangeVideoMemoryReservation(&change); }), kBadHandle);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(query.Budget, 0U);
    query.hProcess = reinterpret_cast<HANDLE>(~uintptr_t{0});  // GetCurrentProcess()
    EXPECT_EQ(client.call([&] { return D3DKMTQueryVideoMemoryInfo(&query); }), 0);
  });
}

TEST_F(ObservedTest, AskedForACountAloneTheAdaptersAreAsManyAsThereCanBe) {
  DXGKIT_COVERS("THUNK-09");
  with_client([](Stack& stack, Client& client) {
    D3DKMT_ENUMADAPTERS2 all{};
    const Digest before = digest(stack, {&client});
    ASSERT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&all); }), 0);
    EXPECT_EQ(all.NumAdapters, 34U);
    std::vector<D3DKMT_ADAPTERINFO> infos(all.NumAdapters);
    all.pAdapters = infos.data();
    all.NumAdapters = 0;
    EXPECT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&all); }),
              nt_status(Status::kBufferTooSmall));
    EXPECT_EQ(digest(stack, {&client}), before);
    all.NumAdapters = 34;
    ASSERT_EQ(client.call([&] { return D3DKMTEnumAdapters2(&all); }), 0);
    EXPECT_EQ(all.NumAdapters, 1U) << "those that there are";
  });
}

}  // namespace
}  // namespace dxgkit::contract
