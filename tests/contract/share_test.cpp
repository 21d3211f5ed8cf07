// Shared resources: made by one process, opened by others, alive as long as anybody holds them.
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <set>

#include "runtime/runtime.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using ShareTest = ContractTest;

constexpr UINT kCreateResource = 1U << 0, kCreateShared = 1U << 1, kNtSecuritySharing = 1U << 6;
constexpr UINT kGlobal = kCreateResource | kCreateShared, kNt = kGlobal | kNtSecuritySharing;
constexpr DWORD kReadWrite = 1, kReadOnly = 0x8000'0000;
constexpr NTSTATUS kObjectTypeMismatch = static_cast<NTSTATUS>(0xC0000024);

/// What a creation made.
struct Made {
  NTSTATUS status = -1;
  D3DKMT_HANDLE resource = 0, global = 0;
  std::vector<D3DKMT_HANDLE> allocations;
};

Made create(Client& client, UINT flags, UINT count = 2, D3DKMT_HANDLE resource = 0,
            uint32_t segments = 0) {
  std::vector<ScriptedAllocation> data(count);
  std::vector<D3DDDI_ALLOCATIONINFO2> infos(count);
  for (UINT i = 0; i < count; ++i) {
    data[i].size = 8192;
    data[i].flags = 1;  // CpuVisible
    data[i].supported_read = data[i].supported_write = segments;
    infos[i] = {};
    infos[i].pPrivateDriverData = &data[i];
    infos[i].PrivateDriverDataSize = sizeof data[i];
  }
  const char runtime_data[5] = "runs";
  const char resource_data[9] = "resource";
  D3DKMT_CREATEALLOCATION args{};
  args.hDevice = client.device;
  args.hResource = resource;
  args.pPrivateRuntimeData = runtime_data;
  args.PrivateRuntimeDataSize = sizeof runtime_data;
  args.pPrivateDriverData = resource_data;
  args.PrivateDriverDataSize = sizeof resource_data;
  args.NumAllocations = count;
  args.pAllocationInfo2 = infos.data();
  args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(flags);
  Made made;
  made.status = client.call([&] { return D3DKMTCreateAllocation2(&args); });
  made.resource = args.hResource;
  made.global = args.hGlobalShare;
  for (const D3DDDI_ALLOCATIONINFO2& info : infos) made.allocations.push_back(info.hAllocation);
  return made;
}

/// An opening with buffers of the right size, to be broken by a test.
struct Opening {
  explicit Opening(Client& client_in, UINT count = 2) : client(client_in), infos(count) {
    for (D3DDDI_OPENALLOCATIONINFO2& info : infos) info = {};
    total.resize(count * sizeof(ScriptedAllocation));
    args.hDevice = nt.hDevice = client.device;
    args.NumAllocations = nt.NumAllocations = count;
    args.pOpenAllocationInfo2 = nt.pOpenAllocationInfo2 = infos.data();
    args.pPrivateRuntimeData = nt.pPrivateRuntimeData = runtime;
    args.PrivateRuntimeDataSize = nt.PrivateRuntimeDataSize = sizeof runtime;
    args.pResourcePrivateDriverData = nt.pResourcePrivateDriverData = resource_data;
    args.ResourcePrivateDriverDataSize = nt.ResourcePrivateDriverDataSize = sizeof resource_data;
    args.pTotalPrivateDriverDataBuffer = nt.pTotalPrivateDriverDataBuffer = total.data();
    args.TotalPrivateDriverDataBufferSize = nt.TotalPrivateDriverDataBufferSize =
        static_cast<UINT>(total.size());
  }
  NTSTATUS by_global(D3DKMT_HANDLE global) {
    args.hGlobalShare = global;
    const NTSTATUS status = client.call([&] { return D3DKMTOpenResource2(&args); });
    resource = args.hResource;
    return status;
  }
  NTSTATUS by_nt(HANDLE handle) {
    nt.hNtHandle = handle;
    const NTSTATUS status = client.call([&] { return D3DKMTOpenResourceFromNtHandle(&nt); });
    resource = nt.hResource;
    return status;
  }
  D3DKMT_HANDLE allocation(size_t i) const { return infos[i].hAllocation; }

  Client& client;
  std::vector<D3DDDI_OPENALLOCATIONINFO2> infos;
  std::vector<std::byte> total;
  char runtime[5] = {}, resource_data[9] = {};  // as the maker gave them
  D3DKMT_OPENRESOURCE args{};
  D3DKMT_OPENRESOURCEFROMNTHANDLE nt{};
  D3DKMT_HANDLE resource = 0;
};

NTSTATUS destroy_resource(Client& client, D3DKMT_HANDLE resource) {
  D3DKMT_DESTROYALLOCATION2 args{};
  args.hDevice = client.device;
  args.hResource = resource;
  return client.call([&] { return D3DKMTDestroyAllocation2(&args); });
}

NTSTATUS share(Client& client, D3DKMT_HANDLE object, HANDLE* out, DWORD access = kReadWrite) {
  return client.call([&] { return D3DKMTShareObjects(1, &object, nullptr, access, out); });
}

int fd_of(HANDLE handle) { return static_cast<int>(reinterpret_cast<uintptr_t>(handle)); }
HANDLE handle_of(int fd) { return reinterpret_cast<HANDLE>(static_cast<uintptr_t>(fd)); }

NTSTATUS query(Client& client, D3DKMT_HANDLE global, D3DKMT_QUERYRESOURCEINFO* args) {
  args->hDevice = client.device;
  args->hGlobalShare = global;
  return client.call([&] { return D3DKMTQueryResourceInfo(args); });
}

// Where packets bring in what they use: opened twice by a process, it is in memory once.
TEST_F(ShareTest, WhatAProcessOpensTwiceCountsOnceAsItsUsage) {
  DXGKIT_COVERS("RES-20", "THUNK-22");
  running([](Stack& stack) {
    Client maker(stack, "maker"), user(stack, "user");
    const Made made = create(maker, kGlobal, 2, 0, 1);
    ASSERT_EQ(made.status, 0);
    Opening again(maker), elsewhere(user);
    ASSERT_EQ(again.by_global(made.global), 0);
    ASSERT_EQ(elsewhere.by_global(made.global), 0);
    ContextBuffers context = maker.make_context();
    ASSERT_EQ(maker.render(context, work_on({again.allocation(0), again.allocation(1)})), 0);
    stack.drive();
    for (Client* client : {&maker, &user}) {
      D3DKMT_QUERYVIDEOMEMORYINFO args{};
      args.hAdapter = client->adapter;
      ASSERT_EQ(client->call([&] { return D3DKMTQueryVideoMemoryInfo(&args); }), 0);
      EXPECT_EQ(args.CurrentUsage, 2 * 8192U);
    }
  });
}

TEST_F(ShareTest, AnotherProcessSeesTheSameMemoryAndKeepsItWhenTheCreatorIsGone) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-25", "ALLOC-26", "THUNK-08", "THUNK-22");
  running([](Stack& stack) {
    auto maker = std::make_unique<Client>(stack, "maker");
    Client user(stack, "user");
    const Made made = create(*maker, kGlobal);
    ASSERT_EQ(made.status, 0);
    ASSERT_NE(made.global, 0U);
    EXPECT_EQ(made.global & 0x3FU, 2U) << "no process handle looks like it";
    void* address = nullptr;
    ASSERT_EQ(maker->lock(made.allocations[1], &address), 0);
    std::memcpy(address, "from the maker", 15);
    ASSERT_EQ(maker->unlock(made.allocations[1]), 0);

    stack.miniport.clear_calls();
    Opening opening(user);
    ASSERT_EQ(opening.by_global(made.global), 0);
    const ScriptedCalls calls = stack.miniport.calls();
    EXPECT_THAT(calls.order, ::testing::ElementsAre("DxgkDdiOpenAllocation"));
    EXPECT_EQ(calls.open_allocations[0].NumAllocations, 2U);
    EXPECT_EQ(calls.open_allocations[0].Flags.Value, 0U) << "not a creation";
    EXPECT_NE(opening.resource, 0U);
    ASSERT_NE(opening.allocation(0), 0U);
    ASSERT_NE(opening.allocation(1), 0U);

    std::vector<std::string> log;
    stack.miniport.hooks.close_allocation = [&](void* device, const DXGKARG_CLOSEALLOCATION* args) {
      log.push_back("close " + std::to_string(args->NumAllocations));
      return stack.miniport.default_close_allocation(device, args);
    };
    stack.miniport.hooks.destroy_allocation = [&](const DXGKARG_DESTROYALLOCATION* args) {
      log.push_back("destroy " + std::to_string(args->NumAllocations) +
                    (args->Flags.DestroyResource != 0 ? " and the resource" : ""));
      return stack.miniport.default_destroy_allocation(args);
    };
    maker->end();
    EXPECT_THAT(log, ::testing::ElementsAre("close 2"));
    ASSERT_EQ(user.lock(opening.allocation(1), &address), 0);
    EXPECT_STREQ(static_cast<const char*>(address), "from the maker");
    ASSERT_EQ(user.unlock(opening.allocation(1)), 0);
    Opening again(user);
    ASSERT_EQ(again.by_global(made.global), 0) << "by its second holder's name still";
    EXPECT_EQ(destroy_resource(user, again.resource), 0);
    stack.drive();
    EXPECT_THAT(log, ::testing::ElementsAre("close 2", "close 2"));
    EXPECT_EQ(destroy_resource(user, opening.resource), 0);
    stack.drive();
    EXPECT_THAT(
        log, ::testing::ElementsAre("close 2", "close 2", "close 2", "destroy 2 and the resource"));
    EXPECT_EQ(again.by_global(made.global), kInvalid) << "a global handle does not hold it";
    stack.miniport.hooks = {};
  });
}

TEST_F(ShareTest, ContentInVideoMemoryStaysForTheOthersAndTheirWorkRuns) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-25");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kGlobal, 1);
    ASSERT_EQ(made.status, 0);
    ContextBuffers makers = maker.make_context();
    ASSERT_EQ(maker.render(makers, work_on({made.allocations[0]})), 0);
    stack.drive();
    Opening opening(user, 1);
    ASSERT_EQ(opening.by_global(made.global), 0);
    ContextBuffers users = user.make_context();
    ASSERT_EQ(user.render(users, work_on({opening.allocation(0)})), 0);
    stack.settle();
    const std::vector<dxgkit::testing::PatchCall> patches = stack.miniport.calls().patches;
    EXPECT_EQ(patches.back().allocations.at(0).physical_address,
              patches.at(patches.size() - 2).allocations.at(0).physical_address)
        << "one place for both";
    EXPECT_NE(patches.back().allocations.at(0).device_handle,
              patches.at(patches.size() - 2).allocations.at(0).device_handle)
        << "each device has its own handle";
    // The user's packet is on hardware: the maker closes without waiting for it.
    EXPECT_EQ(destroy_resource(maker, made.resource), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U);
    const uint64_t evictions = stack.statistics().evictions;
    stack.drive();
    EXPECT_EQ(stack.statistics().evictions, evictions);
    ASSERT_EQ(user.render(users, work_on({opening.allocation(0)})), 0);
    EXPECT_EQ(destroy_resource(user, opening.resource), 0);
    stack.settle();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U) << "queued work uses it";
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ShareTest, WhatWasGivenAtCreationComesWithTheOpening) {
  DXGKIT_COVERS("THUNK-21", "THUNK-20");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kGlobal);
    ASSERT_EQ(made.status, 0);
    D3DKMT_QUERYRESOURCEINFO info{};
    char untouched[5] = {'?', '?', '?', '?', '?'};
    info.pPrivateRuntimeData = untouched;
    info.PrivateRuntimeDataSize = sizeof untouched;
    ASSERT_EQ(query(user, made.global, &info), 0);
    EXPECT_EQ(info.NumAllocations, 2U);
    EXPECT_EQ(info.PrivateRuntimeDataSize, 5U);
    EXPECT_EQ(info.ResourcePrivateDriverDataSize, 9U);
    EXPECT_EQ(info.TotalPrivateDriverDataSize, 2 * sizeof(ScriptedAllocation));
    EXPECT_EQ(untouched[0], '?') << "data comes with the opening";
    Opening opening(user);
    opening.infos[0].GpuVirtualAddress = 1;
    opening.total.resize(opening.total.size() + 7);  // more room than needed
    opening.args.pTotalPrivateDriverDataBuffer = opening.total.data();
    opening.args.TotalPrivateDriverDataBufferSize += 7;
    ASSERT_EQ(opening.by_global(made.global), 0);
    EXPECT_STREQ(opening.runtime, "runs");
    EXPECT_STREQ(opening.resource_data, "resource");
    EXPECT_EQ(opening.args.PrivateRuntimeDataSize, 5U);
    EXPECT_EQ(opening.args.ResourcePrivateDriverDataSize, 9U);
    EXPECT_EQ(opening.args.TotalPrivateDriverDataBufferSize, 2 * sizeof(ScriptedAllocation));
    EXPECT_EQ(opening.infos[0].GpuVirtualAddress, 0U);
    EXPECT_EQ(opening.infos[0].pPrivateDriverData, opening.total.data());
    EXPECT_EQ(opening.infos[1].pPrivateDriverData,
              opening.total.data() + sizeof(ScriptedAllocation));
    ScriptedAllocation data;
    std::memcpy(&data, opening.infos[1].pPrivateDriverData, sizeof data);
    EXPECT_EQ(data.size, 8192U);

    // The first form has smaller elements.
    D3DDDI_OPENALLOCATIONINFO small[2] = {};
    opening.args.pOpenAllocationInfo = small;
    ASSERT_EQ(user.call([&] { return D3DKMTOpenResource(&opening.args); }), 0);
    EXPECT_NE(small[1].hAllocation, 0U);
    EXPECT_EQ(small[1].PrivateDriverDataSize, sizeof(ScriptedAllocation));
    EXPECT_EQ(destroy_resource(user, opening.args.hResource), 0);
  });
}

// Of several allocations each has private data of its own, for the driver and for who opens.
TEST_F(ShareTest, EachAllocationIsOpenedWithItsOwnData) {
  DXGKIT_COVERS("THUNK-21", "ALLOC-24", "ALLOC-25");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    ScriptedAllocation data[3];
    D3DDDI_ALLOCATIONINFO2 infos[3] = {};
    for (uint32_t i = 0; i < 3; ++i) {
      data[i].size = uint64_t{4096} * (i + 1);
      data[i].bank_hints = 70 + i;
      infos[i].pPrivateDriverData = &data[i];
      infos[i].PrivateDriverDataSize = sizeof data[i];
    }
    D3DKMT_CREATEALLOCATION args{};
    args.hDevice = maker.device;
    args.NumAllocations = 3;
    args.pAllocationInfo2 = infos;
    args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(kGlobal);
    ASSERT_EQ(maker.call([&] { return D3DKMTCreateAllocation2(&args); }), 0);
    std::vector<uint32_t> told;
    std::vector<D3DKMT_HANDLE> handles;
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* given) {
      for (UINT i = 0; i < given->NumAllocations; ++i) {
        ScriptedAllocation one;
        EXPECT_EQ(given->pOpenAllocation[i].PrivateDriverDataSize, sizeof one);
        std::memcpy(&one, given->pOpenAllocation[i].pPrivateDriverData, sizeof one);
        told.push_back(one.bank_hints);
        handles.push_back(given->pOpenAllocation[i].hAllocation);
      }
      return stack.miniport.default_open_allocation(device, given);
    };
    Opening opening(user, 3);
    opening.args.PrivateRuntimeDataSize = opening.args.ResourcePrivateDriverDataSize = 0;
    ASSERT_EQ(opening.by_global(args.hGlobalShare), 0);
    stack.miniport.hooks = {};
    EXPECT_THAT(told, ::testing::ElementsAre(70, 71, 72));
    EXPECT_THAT(handles, ::testing::ElementsAre(opening.allocation(0), opening.allocation(1),
                                                opening.allocation(2)));
    for (uint32_t i = 0; i < 3; ++i) {
      ScriptedAllocation one;
      std::memcpy(&one, opening.infos[i].pPrivateDriverData, sizeof one);
      EXPECT_EQ(one.bank_hints, 70 + i);
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "nobody has written it";
  });
}

TEST_F(ShareTest, ADriverThatChangesDataAtCreationIsWhatOthersAreTold) {
  DXGKIT_COVERS("THUNK-21");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
      const NTSTATUS status = stack.miniport.default_create_allocation(args);
      static_cast<ScriptedAllocation*>(args->pAllocationInfo[0].pPrivateDriverData)->bank_hints =
          77;
      return status;
    };
    const Made made = create(maker, kGlobal, 1);
    ASSERT_EQ(made.status, 0);
    Opening opening(user, 1);
    ASSERT_EQ(opening.by_global(made.global), 0);
    ScriptedAllocation data;
    std::memcpy(&data, opening.total.data(), sizeof data);
    EXPECT_EQ(data.bank_hints, 77U);
    stack.miniport.hooks = {};
  });
}

// The driver finds its own object of each allocation by the handle it is opened with.
TEST_F(ShareTest, EachOpeningLeadsToItsOwnAllocationOfTheDriver) {
  DXGKIT_COVERS("ALLOC-33", "THUNK-21");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kGlobal, 3);
    ASSERT_EQ(made.status, 0);
    Opening opening(user, 3);
    ASSERT_EQ(opening.by_global(made.global), 0);
    const auto of_driver = [&](Client& client, D3DKMT_HANDLE handle) {
      void* answer = nullptr;
      stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
        DXGKARGCB_GETHANDLEDATA args{};
        args.hObject = handle;
        args.Type = DXGK_HANDLE_ALLOCATION;
        answer = stack.miniport.callbacks().DxgkCbGetHandleData(&args);
        return NTSTATUS{0};
      };
      D3DKMT_ESCAPE escape{};
      escape.hAdapter = client.adapter;
      escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
      return answer;
    };
    std::set<void*> all;
    for (size_t i = 0; i < 3; ++i) {
      void* const mine = of_driver(maker, made.allocations[i]);
      EXPECT_NE(mine, nullptr);
      EXPECT_TRUE(all.insert(mine).second);
      EXPECT_EQ(of_driver(user, opening.allocation(i)), mine) << i;
    }
    stack.miniport.hooks = {};
  });
}

/// Broken openings: exact status, nothing changed, nothing written.
struct BadOpening {
  const char* sentence;
  NTSTATUS status;
  void (*broken)(Opening&, const Made&, Client& maker);
};
class BadOpen : public ContractTest, public ::testing::WithParamInterface<BadOpening> {};
TEST_P(BadOpen, IsRefusedAndNothingChanges) {
  DXGKIT_COVERS("THUNK-21", "THUNK-22", "THUNK-04", "THUNK-05");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    static_cast<void>(maker.make_device());  // its handles are no user's
    const Made made = create(maker, kGlobal);
    ASSERT_EQ(made.status, 0);
    Opening opening(user);
    opening.args.hGlobalShare = made.global;
    GetParam().broken(opening, made, maker);
    const Digest before = digest(stack, {&maker, &user});
    const D3DKMT_OPENRESOURCE given = opening.args;
    EXPECT_EQ(user.call([&] { return D3DKMTOpenResource2(&opening.args); }), GetParam().status);
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
    EXPECT_EQ(std::memcmp(&given, &opening.args, sizeof given), 0);
    EXPECT_EQ(opening.runtime[0], 0);
    EXPECT_EQ(opening.infos[0].hAllocation, 0U);
    Opening good(user);
    EXPECT_EQ(good.by_global(made.global), 0);
  });
}
void* const kBadPointer = reinterpret_cast<void*>(uintptr_t{0x10});
const BadOpening kBadOpenings[] = {
    {"DeviceZero", kInvalid, [](auto& o, auto&, auto&) { o.args.hDevice = 0; }},
    {"DeviceMax", kInvalid, [](auto& o, auto&, auto&) { o.args.hDevice = UINT32_MAX; }},
    {"DeviceWithAStrayBit", kInvalid, [](auto& o, auto&, auto&) { o.args.hDevice |= 1; }},
    {"AnAdapterAsTheDevice", kInvalid,
     [](auto& o, auto&, auto&) { o.args.hDevice = o.client.adapter; }},
    {"GlobalZero", kInvalid, [](auto& o, auto&, auto&) { o.args.hGlobalShare = 0; }},
    {"GlobalMax", kInvalid, [](auto& o, auto&, auto&) { o.args.hGlobalShare = UINT32_MAX; }},
    {"GlobalWithAnotherLowBit", kInvalid, [](auto& o, auto&, auto&) { o.args.hGlobalShare |= 1; }},
    {"GlobalWithoutItsMark", kInvalid, [](auto& o, auto&, auto&) { o.args.hGlobalShare &= ~2U; }},
    {"TheMakersResourceHandle", kInvalid,
     [](auto& o, auto& made, auto&) { o.args.hGlobalShare = made.resource; }},
    {"TheMakersResourceHandleMarked", kInvalid,
     [](auto& o, auto& made, auto&) { o.args.hGlobalShare = made.resource | 2; }},
    {"FreedResource", kInvalid,
     [](auto& o, auto& made, auto& maker) {
       EXPECT_EQ(destroy_resource(maker, made.resource), 0);
       const Made other = create(maker, kGlobal);  // so that the good opening below has one
       EXPECT_EQ(other.status, 0);
       const_cast<Made&>(made).global = other.global;
       static_cast<void>(o);
     }},
    {"NoAllocations", kInvalid, [](auto& o, auto&, auto&) { o.args.NumAllocations = 0; }},
    {"TooFewAllocations", kInvalid, [](auto& o, auto&, auto&) { o.args.NumAllocations = 1; }},
    {"TooManyAllocations", kInvalid, [](auto& o, auto&, auto&) { o.args.NumAllocations = 3; }},
    {"MaxAllocations", kInvalid, [](auto& o, auto&, auto&) { o.args.NumAllocations = UINT32_MAX; }},
    {"NoElements", kInvalid, [](auto& o, auto&, auto&) { o.args.pOpenAllocationInfo2 = nullptr; }},
    {"UnreadableElements", nt_status(Status::kInvalidParameter),
     [](auto& o, auto&, auto&) {
       o.args.pOpenAllocationInfo2 = static_cast<D3DDDI_OPENALLOCATIONINFO2*>(kBadPointer);
     }},
    {"NoRoomForRuntimeData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.PrivateRuntimeDataSize = 4; }},
    {"NoBufferForRuntimeData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.pPrivateRuntimeData = nullptr; }},
    {"UnwritableRuntimeData", nt_status(Status::kInvalidParameter),
     [](auto& o, auto&, auto&) { o.args.pPrivateRuntimeData = kBadPointer; }},
    {"NoRoomForResourceData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.ResourcePrivateDriverDataSize = 8; }},
    {"NoBufferForResourceData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.pResourcePrivateDriverData = nullptr; }},
    {"UnwritableResourceData", nt_status(Status::kInvalidParameter),
     [](auto& o, auto&, auto&) { o.args.pResourcePrivateDriverData = kBadPointer; }},
    {"AByteMoreForRuntimeData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.PrivateRuntimeDataSize = 6; }},
    {"AByteMoreForResourceData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.ResourcePrivateDriverDataSize = 10; }},
    {"NoRoomForAllocationData", nt_status(Status::kNoMemory),
     [](auto& o, auto&, auto&) { --o.args.TotalPrivateDriverDataBufferSize; }},
    {"NoBufferForAllocationData", kInvalid,
     [](auto& o, auto&, auto&) { o.args.pTotalPrivateDriverDataBuffer = nullptr; }},
    {"UnwritableAllocationData", nt_status(Status::kInvalidParameter),
     [](auto& o, auto&, auto&) { o.args.pTotalPrivateDriverDataBuffer = kBadPointer; }},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadOpen, ::testing::ValuesIn(kBadOpenings),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(ShareTest, AForeignDeviceDoesNotOpenAndQueriesAreCheckedTheSameWay) {
  DXGKIT_COVERS("THUNK-04", "THUNK-21", "THUNK-22", "THUNK-01");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    D3DKMT_HANDLE foreign = 0;
    for (int i = 0; i < 5; ++i) foreign = maker.make_device();  // no number the user has
    const Made made = create(maker, kGlobal);
    const Digest before = digest(stack, {&maker, &user});
    Opening opening(user);
    opening.args.hDevice = foreign;
    EXPECT_EQ(opening.by_global(made.global), kInvalid);
    D3DKMT_QUERYRESOURCEINFO info{};
    for (const D3DKMT_HANDLE global : {0U, UINT32_MAX, made.resource, made.global & ~2U}) {
      EXPECT_EQ(query(user, global, &info), kInvalid);
      EXPECT_EQ(info.NumAllocations, 0U);
    }
    info.hDevice = foreign;
    info.hGlobalShare = made.global;
    EXPECT_EQ(user.call([&] { return D3DKMTQueryResourceInfo(&info); }), kInvalid);
    EXPECT_EQ(user.call([] { return D3DKMTQueryResourceInfo(nullptr); }), kInvalid);
    EXPECT_EQ(user.call([] { return D3DKMTOpenResource(nullptr); }), kInvalid);
    EXPECT_EQ(user.call([] { return D3DKMTOpenResource2(nullptr); }), kInvalid);
    EXPECT_EQ(user.call([] { return D3DKMTOpenResourceFromNtHandle(nullptr); }), kInvalid);
    EXPECT_EQ(user.call([] { return D3DKMTQueryResourceInfoFromNtHandle(nullptr); }), kInvalid);
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
  });
}

TEST_F(ShareTest, SharingNeedsAResourceAndSecurityNeedsSharing) {
  DXGKIT_COVERS("ALLOC-22", "ALLOC-23");
  with_client([](Stack& stack, Client& client) {
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(create(client, kCreateShared).status, kInvalid);
    EXPECT_EQ(create(client, kNtSecuritySharing).status, kInvalid);
    EXPECT_EQ(create(client, kCreateResource | kNtSecuritySharing).status, kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    const Made own = create(client, kCreateResource);
    EXPECT_EQ(own.status, 0);
    EXPECT_EQ(own.global, 0U);
    const Made nt = create(client, kNt);
    EXPECT_EQ(nt.status, 0);
    EXPECT_EQ(nt.global, 0U) << "only descriptors name it";
    const Made empty = create(client, kGlobal, 0);
    EXPECT_EQ(empty.status, 0) << "a shared resource may be empty";
    Opening none(client, 0);
    EXPECT_EQ(none.by_global(empty.global), 0);
    EXPECT_NE(none.resource, empty.resource);
  });
}

TEST_F(ShareTest, ASharedResourceIsCompleteAndGoesAsAWhole) {
  DXGKIT_COVERS("ALLOC-23");
  with_client([](Stack& stack, Client& client) {
    const Made made = create(client, kGlobal);
    ASSERT_EQ(made.status, 0);
    const D3DKMT_HANDLE another_device = client.make_device();
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(create(client, 0, 1, made.resource).status, kInvalid) << "nothing joins it";
    EXPECT_EQ(client.destroy_allocation(made.allocations[0]), kInvalid) << "nothing leaves it";
    const D3DKMT_HANDLE own_device = std::exchange(client.device, another_device);
    EXPECT_EQ(destroy_resource(client, made.resource), kInvalid) << "another device's";
    client.device = own_device;
    EXPECT_EQ(digest(stack, {&client}), before);
    Opening opening(client);
    ASSERT_EQ(opening.by_global(made.global), 0) << "twice on one device";
    EXPECT_NE(opening.allocation(0), made.allocations[0]);
    EXPECT_EQ(create(client, 0, 1, opening.resource).status, kInvalid);
    EXPECT_EQ(destroy_resource(client, made.resource), 0);
    void* address = nullptr;
    EXPECT_EQ(client.lock(opening.allocation(0), &address), 0);
    EXPECT_EQ(client.unlock(opening.allocation(0)), 0);
  });
}

TEST_F(ShareTest, ADriverThatFailsToOpenFailsTheCallAndNothingElse) {
  DXGKIT_COVERS("ALLOC-25", "THUNK-05", "ALLOC-02");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kGlobal);
    Digest before = digest(stack, {&maker, &user});
    stack.miniport.hooks.open_allocation = [](void*, const DXGKARG_OPENALLOCATION*) {
      return nt_status(Status::kNoMemory);
    };
    Opening opening(user);
    EXPECT_EQ(opening.by_global(made.global), nt_status(Status::kNoMemory));
    Digest after = digest(stack, {&maker, &user});
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before);
    // The maker goes while the opening is inside the driver, which then fails: nobody is left.
    stack.miniport.hooks.open_allocation = [&](void*, const DXGKARG_OPENALLOCATION*) {
      EXPECT_EQ(destroy_resource(maker, made.resource), 0);
      EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U) << "it is being opened";
      return nt_status(Status::kNoMemory);
    };
    EXPECT_EQ(opening.by_global(made.global), nt_status(Status::kNoMemory));
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
    stack.miniport.hooks = {};
  });
}

TEST_F(ShareTest, ADescriptorNamesTheResourceAndHoldsItUntilItsLastDuplicateIsClosed) {
  DXGKIT_COVERS("THUNK-23", "THUNK-24", "ALLOC-22", "ALLOC-04");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kNt);
    HANDLE handle = nullptr;
    ASSERT_EQ(share(maker, made.resource, &handle), 0);
    EXPECT_EQ(fcntl(fd_of(handle), F_GETFD), FD_CLOEXEC) << "not inherited unasked";
    EXPECT_NE(fcntl(fd_of(handle), F_GETFL) & O_NONBLOCK, 0) << "nobody can get stuck on it";
    const int duplicate = dup(fd_of(handle));
    ASSERT_EQ(close(fd_of(handle)), 0);
    EXPECT_EQ(destroy_resource(maker, made.resource), 0);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U);

    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE info{};
    info.hDevice = user.device;
    info.hNtHandle = handle_of(duplicate);
    EXPECT_EQ(user.call([&] { return D3DKMTQueryResourceInfoFromNtHandle(&info); }), 0);
    EXPECT_EQ(info.NumAllocations, 2U);
    EXPECT_EQ(info.PrivateRuntimeDataSize, 5U);
    EXPECT_EQ(info.ResourcePrivateDriverDataSize, 9U);
    EXPECT_EQ(info.TotalPrivateDriverDataSize, 2 * sizeof(ScriptedAllocation));
    Opening opening(user);
    opening.nt.hKeyedMutex = opening.nt.hSyncObject = 5;
    ASSERT_EQ(opening.by_nt(handle_of(duplicate)), 0);
    EXPECT_EQ(opening.nt.hKeyedMutex, 0U);
    EXPECT_EQ(opening.nt.hSyncObject, 0U);
    EXPECT_STREQ(opening.runtime, "runs");
    ContextBuffers context = user.make_context();
    EXPECT_EQ(user.render(context, work_on({opening.allocation(0)})), 0) << "with write access";
    stack.drive();
    EXPECT_EQ(destroy_resource(user, opening.resource), 0);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U) << "the descriptor holds it";
    ASSERT_EQ(close(duplicate), 0);
    static_cast<void>(user.make_allocation());  // the kernel looks when it is called
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
    EXPECT_EQ(opening.by_nt(handle_of(duplicate)), nt_status(Status::kInvalidHandle));
  });
}

// Its client can write into it, which says nothing; a descriptor has gone when it is closed.
TEST_F(ShareTest, ADescriptorThatIsWrittenIntoStillHoldsItsResource) {
  DXGKIT_COVERS("THUNK-23", "THUNK-24");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kNt);
    HANDLE handle = nullptr;
    ASSERT_EQ(share(maker, made.resource, &handle), 0);
    ASSERT_EQ(write(fd_of(handle), "hello", 5), 5);
    EXPECT_EQ(destroy_resource(maker, made.resource), 0);
    static_cast<void>(user.make_allocation());  // the kernel looks when it is called
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U);
    Opening opening(user);
    EXPECT_EQ(opening.by_nt(handle), 0);
    ASSERT_EQ(close(fd_of(handle)), 0);
    EXPECT_EQ(destroy_resource(user, opening.resource), 0);
    stack.drive();
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
  });
}

TEST_F(ShareTest, WhatIsNoDescriptorOfAResourceIsRefused) {
  DXGKIT_COVERS("THUNK-22", "THUNK-24", "THUNK-05");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kNt);
    HANDLE handle = nullptr;
    ASSERT_EQ(share(maker, made.resource, &handle), 0);
    HANDLE nothing = nullptr;
    ASSERT_EQ(share(maker, made.resource, &nothing, 0), 0);
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const int file = open("/dev/null", O_RDWR);
    const int closed = dup(file);
    close(closed);
    struct Row {
      HANDLE handle;
      NTSTATUS status;
    };
    const Row rows[] = {
        {nullptr, nt_status(Status::kInvalidHandle)},
        {reinterpret_cast<HANDLE>(~uintptr_t{0}), nt_status(Status::kInvalidHandle)},
        {reinterpret_cast<HANDLE>(uintptr_t{0x1'0000'0000} + static_cast<uintptr_t>(fd_of(handle))),
         nt_status(Status::kInvalidHandle)},
        {handle_of(closed), nt_status(Status::kInvalidHandle)},
        {handle_of(file), kObjectTypeMismatch},
        {handle_of(pipe_ends[1]), kObjectTypeMismatch},
        {nothing, nt_status(Status::kAccessDenied)},
    };
    const Digest before = digest(stack, {&maker, &user});
    for (const Row& row : rows) {
      Opening opening(user);
      EXPECT_EQ(opening.by_nt(row.handle), row.status);
      EXPECT_EQ(opening.resource, 0U);
      D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE info{};
      info.hDevice = user.device;
      info.hNtHandle = row.handle;
      EXPECT_EQ(user.call([&] { return D3DKMTQueryResourceInfoFromNtHandle(&info); }), row.status);
    }
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
    for (const int fd : {fd_of(handle), fd_of(nothing), pipe_ends[0], pipe_ends[1], file})
      close(fd);
  });
}

TEST_F(ShareTest, AHandleWithoutWriteAccessOpensForReading) {
  DXGKIT_COVERS("THUNK-24");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made made = create(maker, kNt, 1);
    HANDLE handle = nullptr;
    ASSERT_EQ(share(maker, made.resource, &handle, kReadOnly), 0);
    UINT flags = 0;
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      flags = args->Flags.Value;
      return stack.miniport.default_open_allocation(device, args);
    };
    Opening opening(user, 1);
    ASSERT_EQ(opening.by_nt(handle), 0);
    EXPECT_EQ(flags, 2U) << "ReadOnly";
    ContextBuffers context = user.make_context();
    const Digest before = digest(stack, {&maker, &user});
    EXPECT_EQ(user.render(context, work_on({opening.allocation(0)})),
              nt_status(Status::kAccessDenied));
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
    // The first entry that is wrong says why.
    const auto spoil = [&](UINT second) {
      for (UINT i = 0; i < 2; ++i) {
        context.allocations[i] = {};
        context.allocations[i].hAllocation = opening.allocation(0);
        context.allocations[i].Value = i == 0 ? 1 : second;
      }
      D3DKMT_RENDER args{};
      args.hContext = context.handle;
      args.CommandLength = 16;
      args.AllocationCount = 2;
      return user.call([&] { return D3DKMTRender(&args); });
    };
    EXPECT_EQ(spoil(1U << 5), nt_status(Status::kAccessDenied));
    EXPECT_EQ(spoil(0), nt_status(Status::kAccessDenied));
    Work reading = work_on({opening.allocation(0)});
    reading.allocations[0].write = false;
    EXPECT_EQ(user.render(context, reading), 0);
    stack.drive();
    close(fd_of(handle));
    stack.miniport.hooks = {};
  });
}

TEST_F(ShareTest, OnlyOneResourceMadeForItIsShared) {
  DXGKIT_COVERS("THUNK-23", "THUNK-03", "THUNK-05");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made nt = create(maker, kNt);
    const Made global = create(maker, kGlobal);
    const Made own = create(maker, kCreateResource);
    const D3DKMT_HANDLE alone = maker.make_allocation();
    const D3DKMT_HANDLE sync = maker.make_sync(D3DDDI_MONITORED_FENCE);
    const Digest before = digest(stack, {&maker, &user});
    HANDLE handle = nullptr;
    for (const D3DKMT_HANDLE wrong :
         {0U, UINT32_MAX, nt.resource | 1U, nt.allocations[0], global.resource, global.global,
          own.resource, alone, sync, maker.device, maker.adapter}) {
      EXPECT_EQ(share(maker, wrong, &handle), kInvalid);
    }
    EXPECT_EQ(share(user, nt.resource, &handle), kInvalid) << "another process's handle";
    const D3DKMT_HANDLE several[] = {nt.resource, sync, sync, sync};
    for (const UINT count : {0U, 2U, 3U, 4U, UINT32_MAX}) {
      EXPECT_EQ(maker.call([&] {
        return D3DKMTShareObjects(count, several, nullptr, kReadWrite, &handle);
      }),
                kInvalid);
    }
    const auto with = [&](const D3DKMT_HANDLE* list, OBJECT_ATTRIBUTES* attributes, HANDLE* out) {
      return maker.call([&] { return D3DKMTShareObjects(1, list, attributes, kReadWrite, out); });
    };
    EXPECT_EQ(with(nullptr, nullptr, &handle), kInvalid);
    EXPECT_EQ(with(static_cast<const D3DKMT_HANDLE*>(kBadPointer), nullptr, &handle), kInvalid);
    EXPECT_EQ(with(several, nullptr, nullptr), kInvalid);
    EXPECT_EQ(with(several, nullptr, static_cast<HANDLE*>(kBadPointer)), kInvalid);
    EXPECT_EQ(with(several, static_cast<OBJECT_ATTRIBUTES*>(kBadPointer), &handle), kInvalid);
    OBJECT_ATTRIBUTES attributes{};
    EXPECT_EQ(with(several, &attributes, &handle), kInvalid) << "its length";
    attributes.Length = sizeof attributes;
    attributes.RootDirectory = handle_of(0x7FFFFFF0);
    EXPECT_EQ(with(several, &attributes, &handle), nt_status(Status::kInvalidHandle));
    attributes.RootDirectory = nullptr;
    attributes.ObjectName = static_cast<UNICODE_STRING*>(kBadPointer);
    EXPECT_EQ(with(several, &attributes, &handle), kInvalid);
    char16_t text[] = u"name";
    for (const UNICODE_STRING& name :
         {UNICODE_STRING{3, 8, text}, UNICODE_STRING{8, 6, text}, UNICODE_STRING{8, 8, nullptr},
          UNICODE_STRING{8, 8, static_cast<char16_t*>(kBadPointer)},
          UNICODE_STRING{2048, 2048, text}}) {
      UNICODE_STRING bad = name;
      attributes.ObjectName = &bad;
      EXPECT_EQ(with(several, &attributes, &handle), kInvalid);
    }
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(digest(stack, {&maker, &user}), before);
    attributes.ObjectName = nullptr;
    EXPECT_EQ(with(several, &attributes, &handle), 0);
    EXPECT_NE(handle, nullptr);
    close(fd_of(handle));
    // Once closing, no more.
    EXPECT_EQ(destroy_resource(maker, nt.resource), 0);
    EXPECT_EQ(share(maker, nt.resource, &handle), kInvalid);
  });
}

// Sharing beside destruction, in many orders: who is given a descriptor holds the resource with it.
TEST_F(ShareTest, ADescriptorHoldsWhatItNamesOrIsNotMade) {
  DXGKIT_COVERS("THUNK-23", "THUNK-05");
  size_t made_it = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    running(
        [&](Stack& stack) {
          Client maker(stack, "maker"), user(stack, "user");
          const Made made = create(maker, kNt);
          ASSERT_EQ(made.status, 0);
          HANDLE handle = nullptr;
          NTSTATUS shared = 1, destroyed = 1;
          {
            Stack::Background shares(stack, [&] { shared = share(maker, made.resource, &handle); });
            Stack::Background destroys(stack,
                                       [&] { destroyed = destroy_resource(maker, made.resource); });
            shares.finish();
            destroys.finish();
          }
          EXPECT_EQ(destroyed, 0);
          if (shared != 0) {
            EXPECT_EQ(shared, kInvalid);
            ++refused;
            return;
          }
          ++made_it;
          Opening opening(user);
          EXPECT_EQ(opening.by_nt(handle), 0);
          EXPECT_EQ(close(fd_of(handle)), 0);
        },
        nullptr, seed);
  }
  EXPECT_GT(made_it, 0U);
  EXPECT_GT(refused, 0U);
}

TEST_F(ShareTest, AStoppedAdapterTakesItsResourcesWhoeverHoldsThem) {
  DXGKIT_COVERS("THUNK-07", "ALLOC-26");
  running([](Stack& stack) {
    Client maker(stack, "maker");
    Client user(stack, "user");
    const Made nt = create(maker, kNt);
    HANDLE handle = nullptr;
    ASSERT_EQ(share(maker, nt.resource, &handle), 0);
    const Made global = create(maker, kGlobal);
    Opening opening(user);
    ASSERT_EQ(opening.by_global(global.global), 0);
    EXPECT_EQ(destroy_resource(maker, nt.resource), 0) << "only the descriptor holds it now";
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.miniport.live_objects(), 0U);
    EXPECT_EQ(opening.by_nt(handle), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(opening.by_global(global.global), nt_status(Status::kDeviceRemoved));
    HANDLE more = nullptr;
    EXPECT_EQ(share(user, opening.resource, &more), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(destroy_resource(user, opening.resource), 0) << "closing always works";
    close(fd_of(handle));
  });
}

/// A process ends while another uses what it made: work goes on, nothing leaks.
void end_while_in_use(Stack& stack, uint64_t rounds) {
  Client user(stack, "user");
  ContextBuffers context = user.make_context();
  for (uint64_t round = 0; round < rounds; ++round) {
    auto maker = std::make_unique<Client>(stack, "maker");
    const Made made = create(*maker, kGlobal);
    ASSERT_EQ(made.status, 0);
    ContextBuffers makers = maker->make_context();
    Opening opening(user);
    ASSERT_EQ(opening.by_global(made.global), 0);
    EXPECT_EQ(maker->render(makers, work_on({made.allocations[0], made.allocations[1]})), 0);
    uint32_t wrong = 0;
    Stack::Background work(stack, [&] {
      for (int i = 0; i < 8; ++i) {
        const NTSTATUS status =
            user.render(context, work_on({opening.allocation(0), opening.allocation(1)}));
        if (status != 0) ++wrong;
      }
    });
    maker->end();
    work.finish();
    EXPECT_EQ(wrong, 0U);
    stack.drive();
    EXPECT_EQ(destroy_resource(user, opening.resource), 0);
    stack.drive();
    Opening late(user);
    EXPECT_EQ(late.by_global(made.global), kInvalid);
  }
  EXPECT_EQ(user.wait_for_idle(), 0);
  EXPECT_EQ(user.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  EXPECT_EQ(stack.rules(), std::vector<std::string>{});
}

TEST_F(ShareTest, TheCreatorDiesWhileAnotherProcessWorksInTheSimulation) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-26", "THUNK-08");
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    running([](Stack& stack) { end_while_in_use(stack, 2); }, nullptr, seed);
  }
}

TEST_F(ShareTest, TheCreatorDiesWhileAnotherProcessWorksOnRealThreads) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-26", "THUNK-08");
  const auto runtime = runtime::make_os_runtime();
  runtime->run_main([&] {
    Stack stack;
    // A loaded machine may take its time: no timeouts, and no quantum whose end is to be answered.
    stack.options.tdr_delay_ns = 0;
    stack.miniport.config.preemption_aware = false;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    end_while_in_use(stack, 6);
  });
}

}  // namespace
}  // namespace dxgkit::contract
