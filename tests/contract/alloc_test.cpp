// Allocations: create, open, lock, destroy; what the driver may answer.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using AllocTest = ContractTest;

TEST_F(AllocTest, TheWholeArrayIsCreatedInOneCallThenOpenedWithTheCreateFlag) {
  DXGKIT_COVERS("ALLOC-01", "THUNK-20");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.clear_calls();
    ScriptedAllocation data[3];
    D3DDDI_ALLOCATIONINFO2 infos[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      data[i].size = 4096 * (i + 1);
      infos[i].pPrivateDriverData = &data[i];
      infos[i].PrivateDriverDataSize = sizeof data[i];
      infos[i].GpuVirtualAddress = 0x1234;
    }
    std::vector<D3DKMT_HANDLE> opened;
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      for (UINT i = 0; i < args->NumAllocations; ++i)
        opened.push_back(args->pOpenAllocation[i].hAllocation);
      return stack.miniport.default_open_allocation(device, args);
    };
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 3;
    create.pAllocationInfo2 = infos;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    stack.miniport.hooks.open_allocation = nullptr;
    const ScriptedCalls calls = stack.miniport.calls();
    EXPECT_THAT(calls.order,
                ::testing::ElementsAre("DxgkDdiCreateAllocation", "DxgkDdiOpenAllocation"));
    ASSERT_EQ(calls.create_allocations[0].infos.size(), 3U);
    EXPECT_EQ(calls.open_allocations[0].NumAllocations, 3U);
    EXPECT_EQ(calls.open_allocations[0].Flags.Create, 1U);
    EXPECT_THAT(opened, ::testing::ElementsAre(infos[0].hAllocation, infos[1].hAllocation,
                                               infos[2].hAllocation));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NE(infos[i].hAllocation, 0U);
      EXPECT_EQ(infos[i].GpuVirtualAddress, 0U);
    }
    EXPECT_EQ(stack.statistics().page_ins, 0U) << "creation brings nothing in";
    EXPECT_TRUE(stack.miniport.calls().paging.empty());
  });
}

/// What DxgkDdiCreateAllocation may not answer; the thunk fails, the finding says why, nothing
/// stays.
struct BadInfo {
  const char* sentence;
  const char* rule;
  Status status;
  void (*broken)(DXGK_ALLOCATIONINFO&);
};
class AllocInfo : public ContractTest, public ::testing::WithParamInterface<BadInfo> {};
void break_info(ScriptedMiniport& miniport, void (*broken)(DXGK_ALLOCATIONINFO&)) {
  miniport.hooks.create_allocation = [&miniport, broken](DXGKARG_CREATEALLOCATION* args) {
    const NTSTATUS status = miniport.default_create_allocation(args);
    broken(args->pAllocationInfo[0]);
    return status;
  };
}
TEST_P(AllocInfo, IsRefusedAndNothingStays) {
  DXGKIT_COVERS(GetParam().rule, "ALLOC-03", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    static_cast<void>(client.make_allocation());
    break_info(stack.miniport, GetParam().broken);
    Digest before = digest(stack, {&client});
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(client.create_allocation({}, &handle), nt_status(GetParam().status));
    EXPECT_EQ(handle, 0U);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, GetParam().rule);
    EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    Digest after = digest(stack, {&client});
    before.findings = after.findings;
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before);
    stack.miniport.hooks.create_allocation = nullptr;
    EXPECT_EQ(client.create_allocation({}, &handle), 0);
  });
}
constexpr uint32_t kCpuVisible = 1, kPermanent = 2, kCached = 4, kProtected = 8, kExisting = 16,
                   kAlternate = 1 << 10, kHistory = 1 << 14;
template <uint32_t kFlags>
void flags(DXGK_ALLOCATIONINFO& info) {
  const uint32_t value = kFlags;
  std::memcpy(&info.Flags, &value, sizeof value);
}
const BadInfo kBadInfos[] = {
    {"SizeZero", "ALLOC-06", Status::kInvalidParameter, [](auto& i) { i.Size = 0; }},
    {"SizeThatWrapsWhenRounded", "ALLOC-06", Status::kInvalidParameter,
     [](auto& i) { i.Size = UINT64_MAX; }},
    {"AlignmentOfThree", "ALLOC-06", Status::kInvalidParameter, [](auto& i) { i.Alignment = 3; }},
    {"NoSegmentSupported", "ALLOC-07", Status::kInvalidParameter,
     [](auto& i) { i.SupportedReadSegmentSet = i.SupportedWriteSegmentSet = 0; }},
    {"AnUnknownSegmentSupported", "ALLOC-07", Status::kInvalidParameter,
     [](auto& i) { i.SupportedWriteSegmentSet |= 1U << 3; }},
    {"PrefersASegmentItDoesNotSupport", "ALLOC-07", Status::kInvalidParameter,
     [](auto& i) {
       i.SupportedReadSegmentSet = i.SupportedWriteSegmentSet = kHidden;
       i.PreferredSegment.Value = 1;
     }},
    {"EvictsToAMemorySegment", "ALLOC-09", Status::kInvalidParameter,
     [](auto& i) { i.EvictionSegmentSet = kHidden; }},
    {"CachedWithoutCpuVisible", "ALLOC-15", Status::kInvalidParameter, flags<kCached>},
    {"PermanentSysMemWithoutCpuVisible", "ALLOC-15", Status::kInvalidParameter, flags<kPermanent>},
    {"HistoryBufferWithoutCpuVisible", "ALLOC-15", Status::kInvalidParameter, flags<kHistory>},
    {"ProtectedBesidePermanentSysMem", "ALLOC-15", Status::kInvalidParameter,
     flags<kCpuVisible | kPermanent | kProtected>},
    {"TwoKindsOfSystemMemory", "ALLOC-15", Status::kInvalidParameter,
     flags<kCpuVisible | kPermanent | kExisting>},
    {"AlternateVaOnNoPrimary", "ALLOC-17", Status::kInvalidParameter, flags<kAlternate>},
};
INSTANTIATE_TEST_SUITE_P(Rows, AllocInfo, ::testing::ValuesIn(kBadInfos),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(AllocTest, HandlesThatStayNullAreFoundAndTheRestIsTakenBack) {
  DXGKIT_COVERS("ALLOC-02");
  with_client([](Stack& stack, Client& client) {
    Digest before = digest(stack, {&client});
    stack.miniport.hooks.open_allocation = [&](void* device, const DXGKARG_OPENALLOCATION* args) {
      static_cast<void>(device);
      args->pOpenAllocation[0].hDeviceSpecificAllocation = nullptr;
      return NTSTATUS{0};
    };
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(client.create_allocation({}, &handle), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.only_finding().rule, "ALLOC-02");
    Digest after = digest(stack, {&client});
    before.findings = after.findings;
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before) << "the driver's allocation was destroyed";
  });
}

TEST_F(AllocTest, DriverFailuresPassThroughAndUndocumentedOnesAreFound) {
  DXGKIT_COVERS("ALLOC-03", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    for (const Status status :
         {Status::kInvalidParameter, Status::kNoMemory, Status::kGraphicsDriverMismatch}) {
      stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION*) {
        return nt_status(status);
      };
      const Digest before = digest(stack, {&client});
      D3DKMT_HANDLE handle = 0;
      EXPECT_EQ(client.create_allocation({}, &handle), nt_status(status));
      Digest after = digest(stack, {&client});
      EXPECT_EQ(after.driver_calls, before.driver_calls + 1);
      after.driver_calls = before.driver_calls;
      EXPECT_EQ(after, before);
    }
    stack.miniport.hooks.create_allocation = [](DXGKARG_CREATEALLOCATION*) {
      return nt_status(Status::kUnsuccessful);
    };
    D3DKMT_HANDLE handle = 0;
    EXPECT_LT(client.create_allocation({}, &handle), 0);
    EXPECT_EQ(stack.only_finding().rule, "ALLOC-03");
  });
}

TEST_F(AllocTest, AFailingOpenTakesTheCreationBack) {
  DXGKIT_COVERS("ALLOC-01", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Digest before = digest(stack, {&client});
    stack.miniport.hooks.open_allocation = [](void*, const DXGKARG_OPENALLOCATION*) {
      return nt_status(Status::kNoMemory);
    };
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(client.create_allocation({}, &handle), nt_status(Status::kNoMemory));
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 0U);
    Digest after = digest(stack, {&client});
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before);
  });
}

TEST_F(AllocTest, MilderViolationsAreFoundAndTheAllocationIsMade) {
  DXGKIT_COVERS("ALLOC-13", "ALLOC-14");
  with_client([](Stack& stack, Client& client) {
    break_info(stack.miniport, [](DXGK_ALLOCATIONINFO& info) { info.AllocationPriority = 0; });
    static_cast<void>(client.make_allocation());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"ALLOC-13"});
    break_info(stack.miniport,
               [](DXGK_ALLOCATIONINFO& info) { info.PitchAlignedSize = info.Size; });
    static_cast<void>(client.make_allocation());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"ALLOC-13"}) << "it may be equal";
    break_info(stack.miniport,
               [](DXGK_ALLOCATIONINFO& info) { info.PitchAlignedSize = info.Size - 1; });
    static_cast<void>(client.make_allocation());
    EXPECT_EQ(stack.rules(), (std::vector<std::string>{"ALLOC-13", "ALLOC-14"}));
    for (const verifier::Finding& finding : stack.findings.all())
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
  });
}

// Handles are written into each element, so all of the list must be writable.
TEST_F(AllocTest, AListThatEndsInMemoryToReadIsRefused) {
  DXGKIT_COVERS("THUNK-01", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    constexpr size_t kPage = 4096;
    auto* const pages = static_cast<std::byte*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    auto* const infos = reinterpret_cast<D3DDDI_ALLOCATIONINFO2*>(pages + kPage) - 1;
    ScriptedAllocation data;
    for (const int i : {0, 1}) {
      infos[i] = {};
      infos[i].pPrivateDriverData = &data;
      infos[i].PrivateDriverDataSize = sizeof data;
    }
    ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_READ), 0);
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 2;
    create.pAllocationInfo2 = infos;
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(infos[0].hAllocation, 0U);
    create.NumAllocations = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    EXPECT_NE(infos[0].hAllocation, 0U);
    // Likewise where a resource is opened.
    data = {};
    D3DDDI_ALLOCATIONINFO2 shared[2] = {};
    for (D3DDDI_ALLOCATIONINFO2& info : shared) {
      info.pPrivateDriverData = &data;
      info.PrivateDriverDataSize = sizeof data;
    }
    create.NumAllocations = 2;
    create.pAllocationInfo2 = shared;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    std::vector<std::byte> total(2 * sizeof data);
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 2;
    open.pOpenAllocationInfo2 = reinterpret_cast<D3DDDI_OPENALLOCATIONINFO2*>(pages + kPage) - 1;
    open.pTotalPrivateDriverDataBuffer = total.data();
    open.TotalPrivateDriverDataBufferSize = static_cast<UINT>(total.size());
    const Digest opened = digest(stack, {&client});
    EXPECT_EQ(client.call([&] { return D3DKMTOpenResource2(&open); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), opened);
    EXPECT_EQ(open.hResource, 0U);
    munmap(pages, 2 * kPage);
  });
}

TEST_F(AllocTest, SizesAreRoundedToWholePages) {
  DXGKIT_COVERS("ALLOC-05");
  with_client([](Stack& stack, Client& client) {
    const uint64_t before = stack.machine.free_page_count();
    const D3DKMT_HANDLE handle = client.make_allocation(4097, kHidden);
    EXPECT_EQ(stack.machine.free_page_count(), before - 2);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().paging.at(0).args.Fill.FillSize, 8192U);
  });
}

TEST_F(AllocTest, PreferencesComeFirstThenTheRestByAscendingId) {
  DXGKIT_COVERS("ALLOC-10", "ALLOC-12");
  with_client(
      [](Stack& stack, Client& client) {
        ContextBuffers context = client.make_context();
        const auto place = [&](const ScriptedAllocation& description) {
          const D3DKMT_HANDLE handle = client.make_allocation(description);
          EXPECT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
          return stack.miniport.calls().patches.back().allocations.at(0).physical_address;
        };
        ScriptedAllocation description;
        description.size = 64 * kKibibyte;
        description.supported_read = description.supported_write = kVisible | kHidden;
        EXPECT_EQ(place(description), 0x1'0000'0000U) << "lowest id, lowest address";
        description.preferred = 2;
        EXPECT_EQ(place(description), 0x2'0000'0000U);
        description.preferred = 2 | 1U << 5;  // from the top
        EXPECT_EQ(place(description), 0x2'0000'0000U + kMebibyte - 64 * kKibibyte);
        description.preferred = 0;
        description.supported_read = description.supported_write = kHidden;
        description.flags = 1U << 6;  // FromEndOfSegment
        EXPECT_EQ(place(description), 0x2'0000'0000U + kMebibyte - 128 * kKibibyte);
      },
      [](ScriptedMiniport& miniport) { miniport.config.segments[1].size = kMebibyte; });
}

TEST_F(AllocTest, BelowWddm2EachSetCountsForItsAccessAndFrom2OnOnlyTheWriteSet) {
  DXGKIT_COVERS("ALLOC-08");
  for (const uint32_t version :
       {uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM1_3}, uint32_t{DXGKDDI_INTERFACE_VERSION_WDDM2_0}}) {
    with_client(
        [&](Stack& stack, Client& client) {
          ContextBuffers context = client.make_context();
          ScriptedAllocation description;
          description.supported_read = kVisible;
          description.supported_write = kHidden;
          const D3DKMT_HANDLE handle = client.make_allocation(description);
          Work reading = work_on({handle});
          reading.allocations[0].write = false;
          const bool old = version < DXGKDDI_INTERFACE_VERSION_WDDM2_0;
          if (!old) client.list({handle});
          ASSERT_EQ(client.render(context, reading), 0);
          stack.drive();
          EXPECT_EQ(stack.miniport.calls().patches.back().allocations.at(0).segment(),
                    old ? 1U : 2U);
          ASSERT_EQ(client.render(context, work_on({handle})), 0);
          stack.drive();
          EXPECT_EQ(stack.miniport.calls().patches.back().allocations.at(0).segment(), 2U);
        },
        [&](ScriptedMiniport& miniport) { miniport.config.version = version; });
  }
}

TEST_F(AllocTest, ClosingComesBeforeDestroyingAndBothAfterQueuedWork) {
  DXGKIT_COVERS("ALLOC-26", "ALLOC-27");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation();
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.settle();
    EXPECT_EQ(client.destroy_allocation(handle), 0) << "does not block";
    EXPECT_EQ(client.destroy_allocation(handle), nt_status(Status::kInvalidParameter))
        << "the handle is gone";
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 0U) << "queued work still uses it";
    stack.drive();
    const std::vector<std::string> order = stack.miniport.calls().order;
    const auto at = [&](const char* name) {
      return std::ranges::find(order, name) - order.begin();
    };
    EXPECT_EQ(stack.miniport.count("DxgkDdiCloseAllocation"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
    EXPECT_LT(at("DxgkDdiCloseAllocation"), at("DxgkDdiDestroyAllocation"));
    EXPECT_EQ(stack.statistics().packets_completed, stack.statistics().packets_submitted);
  });
}

TEST_F(AllocTest, SynchronousDestructionReturnsWhenTheMemoryIsBack) {
  DXGKIT_COVERS("ALLOC-28");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const uint64_t before = stack.machine.free_page_count();
    const D3DKMT_HANDLE handle = client.make_allocation(64 * kKibibyte, kHidden);
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.settle();
    const uint64_t buffers =
        before - 16 - stack.machine.free_page_count();  // the DMA buffer made meanwhile
    NTSTATUS status = 1;
    Stack::Background destroy(stack, [&] { status = client.destroy_allocation(handle, 2); });
    EXPECT_FALSE(destroy.finished());
    destroy.finish();
    EXPECT_EQ(status, 0);
    EXPECT_EQ(stack.machine.free_page_count(), before - buffers);
  });
}

TEST_F(AllocTest, AResourceGoesTogetherAndItsListsDoNotMix) {
  DXGKIT_COVERS("ALLOC-23", "ALLOC-26", "ALLOC-29");
  with_client([](Stack& stack, Client& client) {
    const auto create = [&](UINT count, D3DKMT_HANDLE* resource, bool creates,
                            std::vector<D3DKMT_HANDLE>* out) {
      std::vector<D3DDDI_ALLOCATIONINFO> infos(count);
      D3DKMT_CREATEALLOCATION args{};
      args.hDevice = client.device;
      args.hResource = creates ? 0 : *resource;
      args.NumAllocations = count;
      args.pAllocationInfo = infos.data();
      args.Flags.CreateResource = creates ? 1 : 0;
      const NTSTATUS status = client.call([&] { return D3DKMTCreateAllocation(&args); });
      if (creates) *resource = args.hResource;
      for (const D3DDDI_ALLOCATIONINFO& info : infos) out->push_back(info.hAllocation);
      return status;
    };
    D3DKMT_HANDLE one = 0, two = 0, empty = 0;
    std::vector<D3DKMT_HANDLE> of_one, of_two, none;
    ASSERT_EQ(create(2, &one, true, &of_one), 0);
    ASSERT_EQ(create(1, &two, true, &of_two), 0);
    EXPECT_EQ(create(0, &empty, true, &none), 0) << "a resource without allocations is legal";
    EXPECT_EQ(create(1, &one, false, &of_one), 0) << "one may be added later";
    const Digest before = digest(stack, {&client});
    D3DKMT_HANDLE mixed[] = {of_one[0], of_two[0]};
    D3DKMT_HANDLE twice[] = {of_one[0], of_one[0]};
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.AllocationCount = 2;
    for (D3DKMT_HANDLE* list : {mixed, twice}) {
      destroy.phAllocationList = list;
      EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }),
                nt_status(Status::kInvalidParameter));
    }
    destroy.hResource = one;  // and a list
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    bool resource_flag = false;
    size_t closed_together = 0;
    stack.miniport.hooks.close_allocation = [&](void* device, const DXGKARG_CLOSEALLOCATION* args) {
      closed_together = args->NumAllocations;
      return stack.miniport.default_close_allocation(device, args);
    };
    stack.miniport.hooks.destroy_allocation = [&](const DXGKARG_DESTROYALLOCATION* args) {
      resource_flag = args->Flags.DestroyResource != 0;
      return stack.miniport.default_destroy_allocation(args);
    };
    destroy.phAllocationList = nullptr;  // the count is ignored
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }), 0);
    stack.drive();
    EXPECT_EQ(closed_together, 3U);
    EXPECT_TRUE(resource_flag);
    EXPECT_EQ(client.destroy_allocation(of_one[0]), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.destroy_allocation(of_two[0]), 0);
    stack.drive();
    EXPECT_FALSE(resource_flag) << "not with a part of it";
  });
}

// What cannot be added is taken back, and the resource stays the driver's.
TEST_F(AllocTest, AFailingAdditionLeavesTheResourceAlone) {
  DXGKIT_COVERS("ALLOC-23", "ALLOC-26", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    D3DDDI_ALLOCATIONINFO infos[2] = {};
    D3DKMT_CREATEALLOCATION args{};
    args.hDevice = client.device;
    args.NumAllocations = 1;
    args.pAllocationInfo = infos;
    args.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&args); }), 0);
    const D3DKMT_HANDLE resource = args.hResource;
    Digest before = digest(stack, {&client});
    stack.miniport.hooks.open_allocation = [](void*, const DXGKARG_OPENALLOCATION*) {
      return nt_status(Status::kNoMemory);
    };
    std::vector<DXGKARG_DESTROYALLOCATION> destroyed;
    stack.miniport.hooks.destroy_allocation = [&](const DXGKARG_DESTROYALLOCATION* given) {
      destroyed.push_back(*given);
      return stack.miniport.default_destroy_allocation(given);
    };
    args.Flags.CreateResource = 0;
    args.NumAllocations = 2;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&args); }),
              nt_status(Status::kNoMemory));
    ASSERT_EQ(destroyed.size(), 1U);
    EXPECT_EQ(destroyed[0].NumAllocations, 2U);
    EXPECT_EQ(destroyed[0].Flags.DestroyResource, 0U);
    const Digest after = digest(stack, {&client});
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before);
    stack.miniport.hooks.open_allocation = nullptr;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&args); }), 0) << "it is there still";
    D3DKMT_DESTROYALLOCATION2 destroy{};
    destroy.hDevice = client.device;
    destroy.hResource = resource;
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyAllocation2(&destroy); }), 0);
    stack.drive();
    ASSERT_EQ(destroyed.size(), 2U);
    EXPECT_EQ(destroyed[1].NumAllocations, 3U);
    EXPECT_EQ(destroyed[1].Flags.DestroyResource, 1U);
    stack.miniport.hooks = {};
  });
}

TEST_F(AllocTest, EitherFlagOfADestructionIsTaken) {
  DXGKIT_COVERS("ALLOC-27", "ALLOC-28");
  with_client([](Stack& stack, Client& client) {
    constexpr UINT kAssumeNotInUse = 1, kSynchronousDestroy = 2;
    const Digest before = digest(stack, {&client});
    for (const UINT flags :
         {0U, kAssumeNotInUse, kSynchronousDestroy, kAssumeNotInUse | kSynchronousDestroy}) {
      const D3DKMT_HANDLE allocation = client.make_allocation();
      stack.blocking([&] { EXPECT_EQ(client.destroy_allocation(allocation, flags), 0) << flags; });
      stack.drive();
      Digest after = digest(stack, {&client});
      EXPECT_EQ(after.driver_objects, before.driver_objects) << flags;
      EXPECT_EQ(after.handles, before.handles) << flags;
    }
    const D3DKMT_HANDLE allocation = client.make_allocation();
    for (UINT bit = 2; bit < 32; ++bit) {
      EXPECT_EQ(client.destroy_allocation(allocation, 1U << bit | kAssumeNotInUse),
                nt_status(Status::kInvalidParameter))
          << bit;
    }
    EXPECT_EQ(client.destroy_allocation(allocation), 0);
  });
}

TEST_F(AllocTest, LocksNestAndSurplusUnlocksAreRefused) {
  DXGKIT_COVERS("THUNK-26", "ALLOC-40", "THUNK-25");
  with_client([](Stack& stack, Client& client) {
    ScriptedAllocation description;
    description.flags = 1;
    const D3DKMT_HANDLE handle = client.make_allocation(description);
    EXPECT_EQ(client.unlock(handle), nt_status(Status::kInvalidParameter)) << "not locked";
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(client.lock(handle, &first), 0);
    ASSERT_EQ(client.lock(handle, &second), 0);
    EXPECT_EQ(first, second) << "the same address until the last unlock";
    std::memset(first, 1, 4096);
    EXPECT_EQ(client.unlock(handle), 0);
    std::memset(first, 2, 4096);
    EXPECT_EQ(client.unlock(handle), 0);
    EXPECT_EQ(client.unlock(handle), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(AllocTest, WhatTheCpuCannotReachIsNotLockable) {
  DXGKIT_COVERS("ALLOC-35");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE handle = client.make_allocation(64 * kKibibyte, kHidden);
    void* address = nullptr;
    EXPECT_EQ(client.lock(handle, &address), 0) << "in system memory at the time";
    EXPECT_EQ(client.unlock(handle), 0);
    ASSERT_EQ(client.render(context, work_on({handle})), 0);
    stack.drive();
    address = nullptr;
    EXPECT_EQ(client.lock(handle, &address), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(address, nullptr);
    const D3DKMT_HANDLE with_aperture = client.make_allocation(64 * kKibibyte, kHidden | kAperture);
    ASSERT_EQ(client.render(context, work_on({with_aperture})), 0);
    stack.drive();
    EXPECT_EQ(client.lock(with_aperture, &address), 0);
    EXPECT_EQ(client.unlock(with_aperture), 0);
  });
}

TEST_F(AllocTest, HandleDataIsGivenOnlyForLiveHandlesOfTheRightType) {
  DXGKIT_COVERS("ALLOC-33");
  with_client([](Stack& stack, Client& client) {
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const D3DKMT_HANDLE stale = client.make_allocation();
    ASSERT_EQ(client.destroy_allocation(stale, 2), 0);
    Client stranger(stack, "stranger");
    static_cast<void>(stranger.make_device());
    static_cast<void>(stranger.make_device());
    const D3DKMT_HANDLE foreign = stranger.make_allocation();
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    const auto ask = [&](D3DKMT_HANDLE handle, DXGK_HANDLE_TYPE type, bool device_specific) {
      void* answer = reinterpret_cast<void*>(uintptr_t{1});
      stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
        DXGKARGCB_GETHANDLEDATA args{};
        args.hObject = handle;
        args.Type = type;
        args.Flags.DeviceSpecific = device_specific ? 1 : 0;
        answer = callbacks.DxgkCbGetHandleData(&args);
        return NTSTATUS{0};
      };
      D3DKMT_ESCAPE escape{};
      escape.hAdapter = client.adapter;
      escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
      return answer;
    };
    void* const driver_allocation = ask(allocation, DXGK_HANDLE_ALLOCATION, false);
    void* const opened = ask(allocation, DXGK_HANDLE_ALLOCATION, true);
    EXPECT_NE(driver_allocation, nullptr);
    EXPECT_NE(opened, nullptr);
    EXPECT_NE(driver_allocation, opened);
    EXPECT_EQ(ask(allocation, DXGK_HANDLE_RESOURCE, false), nullptr) << "wrong type";
    EXPECT_EQ(ask(stale, DXGK_HANDLE_ALLOCATION, false), nullptr);
    EXPECT_EQ(ask(foreign, DXGK_HANDLE_ALLOCATION, false), nullptr);
    EXPECT_EQ(ask(0, DXGK_HANDLE_ALLOCATION, false), nullptr);
    EXPECT_EQ(ask(client.device, DXGK_HANDLE_ALLOCATION, true), nullptr);
  });
}

TEST_F(AllocTest, WithLargePagesAlignmentIsDemandedAndSizesFollow) {
  DXGKIT_COVERS("SEG-42");
  with_client(
      [](Stack& stack, Client& client) {
        Digest before = digest(stack, {&client});
        D3DKMT_HANDLE handle = 0;
        ScriptedAllocation description;
        description.size = 4096;
        description.supported_read = description.supported_write = kHidden;
        description.alignment = 4096;
        EXPECT_EQ(client.create_allocation(description, &handle),
                  nt_status(Status::kInvalidParameter));
        EXPECT_EQ(stack.only_finding().rule, "SEG-42");
        EXPECT_THAT(stack.only_finding().actual, ::testing::HasSubstr("segment 2 uses 64 KiB"));
        Digest after = digest(stack, {&client});
        before.findings = after.findings;
        before.driver_calls = after.driver_calls;
        EXPECT_EQ(after, before);
        description.alignment = 65536;
        ASSERT_EQ(client.create_allocation(description, &handle), 0);
        EXPECT_EQ(stack.machine.free_page_count(), before.free_pages - 16) << "rounded to 64 KiB";
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.segments[1].flags.Use64KBPages = 1;
      });
}

// Each flag alone, beside CpuVisible where it needs that, means one thing to the memory manager.
TEST_F(AllocTest, EveryFlagIsHandedOnAndNoneStandsForAnother) {
  DXGKIT_COVERS("ALLOC-15", "ALLOC-48", "ALLOC-49");
  constexpr uint32_t kFromEnd = 1U << 6, kOverlay = 1U << 8, kCapture = 1U << 9,
                     kPhysical = 1U << 15, kNotify = 1U << 16;
  struct Row {
    uint32_t flags;
    bool visible, cached, permanent, from_end, pinned, notify;
  };
  const Row rows[] = {
      {0, false, false, false, false, false, false},
      {kCpuVisible, true, false, false, false, false, false},
      {kCpuVisible | kCached, true, true, false, false, false, false},
      {kCpuVisible | kPermanent, true, false, true, false, false, false},
      {kFromEnd, false, false, false, true, false, false},
      {kOverlay, false, false, false, false, true, false},
      {kCapture, false, false, false, false, true, false},
      {kPhysical, false, false, false, false, false, false},
      {kPhysical | kNotify, false, false, false, false, false, true},
  };
  with_client(
      [&](Stack& stack, Client& client) {
        constexpr size_t kCount = std::size(rows);
        ScriptedAllocation data[kCount];
        D3DDDI_ALLOCATIONINFO infos[kCount]{};
        for (size_t i = 0; i < kCount; ++i) {
          data[i].size = (i + 2) * 4096;
          data[i].supported_read = data[i].supported_write = kVisible;
          data[i].flags = rows[i].flags;
          infos[i].pPrivateDriverData = &data[i];
          infos[i].PrivateDriverDataSize = sizeof data[i];
        }
        stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
          const NTSTATUS status = stack.miniport.default_create_allocation(args);
          for (UINT i = 0; i < args->NumAllocations; ++i)
            args->pAllocationInfo[i].MaximumRenamingListLength = 3 + i;
          return status;
        };
        D3DKMT_CREATEALLOCATION create{};
        create.hDevice = client.device;
        create.NumAllocations = kCount;
        create.pAllocationInfo = infos;
        ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
        stack.miniport.hooks.create_allocation = nullptr;
        std::vector<void*> driver_handles;
        for (size_t i = 0; i < kCount; ++i) {
          const Row& row = rows[i];
          SCOPED_TRACE(row.flags);
          const auto opened =
              client.process->handles().find<dxgk::OpenedAllocation>(infos[i].hAllocation);
          ASSERT_TRUE(opened.has_value());
          EXPECT_EQ((*opened)->allocation->size_bytes, data[i].size);
          EXPECT_EQ((*opened)->allocation->maximum_renaming, 3 + i);
          EXPECT_EQ((*opened)->allocation->driver_handle, (*opened)->driver_allocation);
          EXPECT_EQ(std::ranges::count(driver_handles, (*opened)->driver_allocation), 0);
          driver_handles.push_back((*opened)->driver_allocation);
          const vidmm::AllocationDesc desc =
              stack.adapter().core().memory().description((*opened)->allocation->id);
          EXPECT_EQ(desc.cpu_visible, row.visible);
          EXPECT_EQ(desc.cached, row.cached);
          EXPECT_EQ(desc.permanent_system_memory, row.permanent);
          EXPECT_EQ(desc.from_end_of_segment, row.from_end);
          EXPECT_EQ(desc.pinned, row.pinned);
          EXPECT_EQ(desc.last_fifth, row.pinned);
          EXPECT_EQ(desc.notify_residency, row.notify);
          EXPECT_FALSE(desc.notify_eviction);
          EXPECT_EQ((*opened)->allocation->cpu_visible, row.visible);
          EXPECT_EQ((*opened)->allocation->cached, row.cached);
          EXPECT_EQ((*opened)->allocation->info_flags, row.flags);
        }
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

// Five preferences of a segment and a direction, four hints of a bank and a direction.
TEST_F(AllocTest, EachPreferenceAndEachBankHintIsHandedOn) {
  DXGKIT_COVERS("ALLOC-10", "ALLOC-11", "ALLOC-09", "ALLOC-13");
  with_client([](Stack& stack, Client& client) {
    const std::vector<std::pair<uint32_t, bool>> segments = {
        {3, true}, {1, false}, {0, false}, {2, true}, {1, true}};
    const std::vector<std::pair<uint32_t, bool>> banks = {
        {5, false}, {127, true}, {0, true}, {64, false}};
    ScriptedAllocation description;
    description.supported_read = kVisible | kHidden | 1U << 2;
    description.supported_write = kVisible | 1U << 2;
    description.eviction = 1U << 2;
    description.priority = 0x5000'0000;
    description.alignment = 0x4000;
    description.size = 5 * 4096;
    for (size_t i = 0; i < segments.size(); ++i) {
      description.preferred |= (segments[i].first | (segments[i].second ? 1U << 5 : 0)) << (6 * i);
    }
    for (size_t i = 0; i < banks.size(); ++i)
      description.bank_hints |= (banks[i].first | (banks[i].second ? 1U << 7 : 0)) << (8 * i);
    const D3DKMT_HANDLE handle = client.make_allocation(description);
    const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(handle);
    ASSERT_TRUE(opened.has_value());
    const vidmm::AllocationDesc desc =
        stack.adapter().core().memory().description((*opened)->allocation->id);
    for (size_t i = 0; i < segments.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(desc.preferred[i].segment.value, segments[i].first);
      EXPECT_EQ(desc.preferred[i].from == vidmm::SearchFrom::kTop, segments[i].second);
    }
    for (size_t i = 0; i < banks.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(desc.banks[i].bank, banks[i].first);
      EXPECT_EQ(desc.banks[i].from == vidmm::SearchFrom::kTop, banks[i].second);
    }
    EXPECT_EQ(desc.supported_read, kVisible | kHidden | 1U << 2);
    EXPECT_EQ(desc.supported_write, kVisible | 1U << 2);
    EXPECT_EQ(desc.eviction, 1U << 2);
    EXPECT_EQ(desc.priority, 0x5000'0000U);
    EXPECT_EQ(desc.alignment_bytes, 0x4000U);
    EXPECT_EQ(desc.size_bytes, 5 * 4096U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Sets have 32 bits: the last segment is looked at like the others.
TEST_F(AllocTest, TheLastOfThirtyTwoSegmentsCounts) {
  DXGKIT_COVERS("ALLOC-07", "ALLOC-09", "ALLOC-16", "ALLOC-20", "SEG-42");
  constexpr uint32_t kLast = 1U << 31;
  alignas(4096) static std::byte memory[64 * kKibibyte];
  with_client(
      [&](Stack& stack, Client& client) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{"SEG-06"}) << "a warning";
        const auto create = [&](const ScriptedAllocation& description, void* existing) {
          D3DDDI_ALLOCATIONINFO info{};
          info.pSystemMem = existing;
          info.pPrivateDriverData = const_cast<ScriptedAllocation*>(&description);
          info.PrivateDriverDataSize = sizeof description;
          D3DKMT_CREATEALLOCATION args{};
          args.hDevice = client.device;
          args.NumAllocations = 1;
          args.pAllocationInfo = &info;
          return client.call([&] { return D3DKMTCreateAllocation(&args); });
        };
        const auto refused = [&](const ScriptedAllocation& description, const char* rule,
                                 void* existing = nullptr) {
          SCOPED_TRACE(rule);
          const size_t before = stack.rules().size();
          EXPECT_EQ(create(description, existing), nt_status(Status::kInvalidParameter));
          ASSERT_EQ(stack.rules().size(), before + 1);
          EXPECT_EQ(stack.rules().back(), rule);
        };
        ScriptedAllocation description;
        description.supported_read = description.supported_write = kLast;
        refused(description, "SEG-42");
        description.alignment = 0x10000;
        EXPECT_EQ(create(description, nullptr), 0) << "it may live there";
        description.eviction = kLast;
        refused(description, "ALLOC-09");
        description.eviction = 0;
        description.flags = kCpuVisible | kExisting;
        description.supported_read = description.supported_write = kLast | 1U << 2;
        refused(description, "ALLOC-20", memory);
        // A primary as the display makes it: no client function does.
        description.flags = kCpuVisible;
        dxgk::AllocationRequest request;
        request.private_data = std::as_writable_bytes(std::span(&description, 1));
        request.vidpn_source = 0;
        request.primary = true;
        dxgk::CreateOptions options;
        client.as_client([&] {
          const auto device = client.process->handles().find<dxgk::Device>(client.device);
          ASSERT_TRUE(device.has_value());
          EXPECT_EQ((*device)->memory().create_allocations(std::span(&request, 1), options),
                    Status::kInvalidParameter);
        });
        EXPECT_EQ(stack.rules().back(), "ALLOC-16");
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        while (miniport.config.segments.size() < 32) {
          testing::ScriptedSegment one = miniport.config.segments[1];
          one.base_address = (uint64_t{16} + miniport.config.segments.size()) << 32;
          one.size = kMebibyte;
          miniport.config.segments.push_back(one);
        }
        miniport.config.segments.back().flags.Use64KBPages = 1;
      });
}

// A device that is lost makes nothing any more, and its driver is not asked.
TEST_F(AllocTest, OnALostDeviceNothingIsMade) {
  DXGKIT_COVERS("THUNK-07");
  with_client([](Stack& stack, Client& client) {
    client.make_allocation();
    stack.adapter().core().lane().run([&] {
      client.as_client([&] {
        const auto device = client.process->handles().find<dxgk::Device>(client.device);
        ASSERT_TRUE(device.has_value());
        (*device)->set_error(dxgk::DeviceState::kErrorOutOfMemory);
      });
    });
    stack.drive();
    const Digest before = digest(stack, {&client});
    const size_t asked = stack.miniport.count("DxgkDdiCreateAllocation");
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(client.create_allocation(ScriptedAllocation{}, &handle),
              nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(handle, 0U);
    // The display comes past the thunks.
    ScriptedAllocation description;
    dxgk::AllocationRequest request;
    request.private_data = std::as_writable_bytes(std::span(&description, 1));
    dxgk::CreateOptions options;
    client.as_client([&] {
      const auto device = client.process->handles().find<dxgk::Device>(client.device);
      ASSERT_TRUE(device.has_value());
      EXPECT_EQ((*device)->memory().create_allocations(std::span(&request, 1), options),
                Status::kDeviceRemoved);
    });
    EXPECT_EQ(request.handle, 0U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiCreateAllocation"), asked);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// Primaries that are made in one call are each of the source they were made for.
TEST_F(AllocTest, EachPrimaryOfACallIsOfItsOwnSource) {
  DXGKIT_COVERS("ALLOC-01");
  with_client([](Stack& stack, Client& client) {
    std::array<ScriptedAllocation, 3> descriptions;
    std::array<dxgk::AllocationRequest, 3> requests;
    const std::array<uint32_t, 3> sources{2, 5, 1};
    for (size_t i = 0; i < 3; ++i) {
      descriptions[i].flags = kCpuVisible;
      descriptions[i].supported_read = descriptions[i].supported_write = kVisible;
      requests[i].private_data = std::as_writable_bytes(std::span(&descriptions[i], 1));
      requests[i].vidpn_source = sources[i];
      requests[i].primary = true;
    }
    dxgk::CreateOptions options;
    client.as_client([&] {
      const auto device = client.process->handles().find<dxgk::Device>(client.device);
      ASSERT_TRUE(device.has_value());
      ASSERT_EQ((*device)->memory().create_allocations(requests, options), Status::kSuccess);
      for (size_t i = 0; i < 3; ++i) {
        const auto opened =
            client.process->handles().find<dxgk::OpenedAllocation>(requests[i].handle);
        ASSERT_TRUE(opened.has_value());
        EXPECT_TRUE((*opened)->allocation->primary);
        EXPECT_EQ((*opened)->allocation->vidpn_source, sources[i]);
      }
    });
    stack.drive();
  });
}

TEST_F(AllocTest, MachineMemoryThatRunsOutFailsTheCallAndNothingElse) {
  DXGKIT_COVERS("THUNK-19", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Digest before = digest(stack, {&client});
    D3DKMT_HANDLE handle = 0;
    ScriptedAllocation description;
    description.size = 100 * kMebibyte;  // the machine has 64
    description.supported_read = description.supported_write = kHidden;
    EXPECT_EQ(client.create_allocation(description, &handle), nt_status(Status::kNoMemory));
    Digest after = digest(stack, {&client});
    before.driver_calls = after.driver_calls;
    EXPECT_EQ(after, before);
  });
}

TEST_F(AllocTest, AReferenceOfTheDriverDelaysDestruction) {
  DXGKIT_COVERS("ALLOC-32");
  with_client(
      [](Stack& stack, Client& client) {
        const D3DKMT_HANDLE handle = client.make_allocation();
        const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
        DXGKARG_RELEASE_HANDLE reference{};
        void* data = nullptr;
        const auto inside_the_driver = [&](const std::function<void()>& body) {
          stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
            body();
            return NTSTATUS{0};
          };
          D3DKMT_ESCAPE escape{};
          escape.hAdapter = client.adapter;
          escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
          EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
        };
        inside_the_driver([&] {
          DXGKARGCB_GETHANDLEDATA args{};
          args.hObject = handle;
          args.Type = DXGK_HANDLE_ALLOCATION;
          data = callbacks.DxgkCbAcquireHandleData(&args, &reference);
        });
        ASSERT_NE(data, nullptr);
        // Nothing else can be held, whatever the handle is.
        for (const D3DKMT_HANDLE object : {handle, client.device}) {
          DXGKARG_RELEASE_HANDLE none{};
          void* other = &none;
          inside_the_driver([&] {
            DXGKARGCB_GETHANDLEDATA args{};
            args.hObject = object;
            args.Type = DXGK_HANDLE_RESOURCE;
            other = callbacks.DxgkCbAcquireHandleData(&args, &none);
          });
          EXPECT_EQ(other, nullptr);
        }
        EXPECT_EQ(client.destroy_allocation(handle), 0);
        stack.drive();
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 0U);
        inside_the_driver([&] {
          DXGKARGCB_RELEASEHANDLEDATA args{};
          args.ReleaseHandle = reference;
          args.Type = DXGK_HANDLE_ALLOCATION;
          callbacks.DxgkCbReleaseHandleData(args);
        });
        stack.drive();
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyAllocation"), 1U);
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

}  // namespace
}  // namespace dxgkit::contract
