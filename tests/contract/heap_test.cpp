// Existing memory of a client as the backing store of an allocation.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "runtime/runtime.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using HeapTest = ContractTest;

constexpr UINT kCreateResource = 1U << 0, kCreateShared = 1U << 1, kExistingSysMem = 1U << 5,
               kNtSecuritySharing = 1U << 6, kCrossAdapter = 1U << 11,
               kStandardAllocation = 1U << 16, kExistingSection = 1U << 17;
constexpr UINT kHeap =
    kCreateResource | kCreateShared | kExistingSysMem | kCrossAdapter | kStandardAllocation;
constexpr uint32_t kCpuVisible = 1, kExisting = 16;

/// A driver that describes existing memory: pages the aperture shows.
struct HeapDriver {
  static inline std::vector<D3DKMDT_GDISURFACEDATA> asked;
  static inline uint64_t size_added = 0;
  static inline uint32_t flags = 0, segments = 0;
  static void prepare(ScriptedMiniport& miniport) {
    asked.clear();
    size_added = 0;
    flags = kCpuVisible | kExisting;
    segments = kAperture;
    miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiGetStandardAllocationDriverData = describe;
    };
  }
  static NTSTATUS NTAPI describe(const HANDLE, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA* args) {
    if (args->StandardAllocationType != D3DKMDT_STANDARDALLOCATION_GDISURFACE)
      return nt_status(Status::kNoMemory);
    if (args->pAllocationPrivateDriverData == nullptr) {
      args->AllocationPrivateDriverDataSize = sizeof(ScriptedAllocation);
      args->ResourcePrivateDriverDataSize = 4;
      return 0;
    }
    const D3DKMDT_GDISURFACEDATA& data = *args->pCreateGdiSurfaceData;
    asked.push_back(data);
    const ScriptedAllocation allocation{.size = uint64_t{data.Width} * data.Height + size_added,
                                        .supported_read = segments,
                                        .supported_write = segments,
                                        .flags = flags};
    std::memcpy(args->pAllocationPrivateDriverData, &allocation, sizeof allocation);
    std::memcpy(args->pResourcePrivateDriverData, "heap", 4);
    return 0;
  }
};

class Pages {
 public:
  explicit Pages(size_t count, int sharing = MAP_PRIVATE)
      : bytes(count * kPageBytes),
        data(static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(data, bytes); }
  const size_t bytes;
  char* const data;
};

/// A creation from `pages`, to be broken by a test.
struct Heap {
  Heap(Client& client_in, Pages& pages) : client(client_in) {
    info = {};
    info.pSystemMem = pages.data;
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    standard.ExistingHeapData.Size = pages.bytes;
    args.hDevice = client.device;
    args.pStandardAllocation = &standard;
    args.NumAllocations = 1;
    args.pAllocationInfo2 = &info;
  }
  NTSTATUS create(UINT flags = kHeap) {
    args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(flags);
    return client.call([&] { return D3DKMTCreateAllocation2(&args); });
  }
  NTSTATUS destroy() {
    D3DKMT_DESTROYALLOCATION2 gone{};
    gone.hDevice = client.device;
    gone.hResource = args.hResource;
    gone.Flags.SynchronousDestroy = 1;
    NTSTATUS status = 1;
    client.stack.blocking(
        [&] { status = client.call([&] { return D3DKMTDestroyAllocation2(&gone); }); });
    return status;
  }
  Client& client;
  D3DDDI_ALLOCATIONINFO2 info;
  D3DKMT_CREATESTANDARDALLOCATION standard{};
  D3DKMT_CREATEALLOCATION args{};
};

TEST_F(HeapTest, TheGpuReachesTheClientsOwnPages) {
  DXGKIT_COVERS("ALLOC-20", "ALLOC-21");
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(3);
        std::strcpy(pages.data + kPageBytes, "from before");
        Heap heap(client, pages);
        const uint64_t free = stack.machine.free_page_count();
        ASSERT_EQ(heap.create(), 0);
        ASSERT_EQ(HeapDriver::asked.size(), 1U);
        const D3DKMDT_GDISURFACEDATA& asked = HeapDriver::asked[0];
        EXPECT_EQ(asked.Type, D3DKMDT_GDISURFACE_EXISTINGSYSMEM);
        EXPECT_EQ(uint64_t{asked.Pitch} * asked.Height, pages.bytes);
        EXPECT_EQ(asked.Width, asked.Pitch);
        EXPECT_NE(heap.args.hResource, 0U);
        EXPECT_NE(heap.args.hGlobalShare, 0U);
        EXPECT_EQ(stack.machine.free_page_count(), free - 3);
        ContextBuffers context = client.make_context();
        ASSERT_EQ(client.render(context, work_on({heap.info.hAllocation})), 0);
        stack.drive();
        const std::vector<dxgkit::testing::PagingCall> paging = stack.miniport.calls().paging;
        ASSERT_EQ(paging.size(), 1U) << "nothing is copied";
        EXPECT_EQ(paging[0].args.Operation, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
        ASSERT_EQ(paging[0].source_pages.size(), 3U);
        auto* physical = reinterpret_cast<char*>(stack.machine.system_pointer(
            bus::PhysicalAddress{paging[0].source_pages[1] * kPageBytes}, kPageBytes));
        EXPECT_STREQ(physical, "from before");
        std::strcpy(physical, "from the GPU");
        EXPECT_STREQ(pages.data + kPageBytes, "from the GPU");
        void* address = nullptr;
        ASSERT_EQ(client.lock(heap.info.hAllocation, &address), 0);
        EXPECT_STREQ(static_cast<const char*>(address) + kPageBytes, "from the GPU");
        EXPECT_EQ(client.unlock(heap.info.hAllocation), 0);
        EXPECT_EQ(heap.destroy(), 0);
        EXPECT_STREQ(pages.data + kPageBytes, "from the GPU") << "the client keeps its content";
        std::strcpy(pages.data, "still usable");
        heap.args.hResource = 0;
        ASSERT_EQ(heap.create(), 0) << "and may give it again";
        EXPECT_EQ(heap.destroy(), 0);
      },
      HeapDriver::prepare);
}

TEST_F(HeapTest, OtherProcessesOpenItAndItOutlivesItsMaker) {
  DXGKIT_COVERS("ALLOC-04", "ALLOC-20", "ALLOC-21");
  running(
      [](Stack& stack) {
        auto maker = std::make_unique<Client>(stack, "maker");
        Client user(stack, "user");
        Pages pages(2);
        Heap heap(*maker, pages);
        ASSERT_EQ(heap.create(), 0);
        D3DDDI_OPENALLOCATIONINFO2 opened{};
        std::byte total[sizeof(ScriptedAllocation)], resource[4];
        D3DKMT_OPENRESOURCE open{};
        open.hDevice = user.device;
        open.hGlobalShare = heap.args.hGlobalShare;
        open.NumAllocations = 1;
        open.pOpenAllocationInfo2 = &opened;
        open.pResourcePrivateDriverData = resource;
        open.ResourcePrivateDriverDataSize = sizeof resource;
        open.pTotalPrivateDriverDataBuffer = total;
        open.TotalPrivateDriverDataBufferSize = sizeof total;
        ASSERT_EQ(user.call([&] { return D3DKMTOpenResource2(&open); }), 0);
        EXPECT_EQ(std::memcmp(resource, "heap", 4), 0);
        std::strcpy(pages.data, "shown to others");
        maker->end();
        void* address = nullptr;
        ASSERT_EQ(user.lock(opened.hAllocation, &address), 0);
        EXPECT_STREQ(static_cast<const char*>(address), "shown to others");
        std::strcpy(static_cast<char*>(address), "from the other");
        EXPECT_EQ(user.unlock(opened.hAllocation), 0);
        user.end();
        EXPECT_STREQ(pages.data, "from the other");
      },
      HeapDriver::prepare);
}

TEST_F(HeapTest, ADriverMayAskForItWithoutTheStandardForm) {
  DXGKIT_COVERS("ALLOC-20");
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(2);
        ScriptedAllocation data;
        data.size = pages.bytes;
        data.flags = kCpuVisible | kExisting;
        data.supported_read = data.supported_write = kAperture;
        D3DDDI_ALLOCATIONINFO info{};
        info.pSystemMem = pages.data;
        info.pPrivateDriverData = &data;
        info.PrivateDriverDataSize = sizeof data;
        D3DKMT_CREATEALLOCATION args{};
        args.hDevice = client.device;
        args.NumAllocations = 1;
        args.pAllocationInfo = &info;
        const auto create = [&] {
          return client.call([&] { return D3DKMTCreateAllocation(&args); });
        };
        ASSERT_EQ(create(), 0);
        std::strcpy(pages.data, "seen");
        void* address = nullptr;
        ASSERT_EQ(client.lock(info.hAllocation, &address), 0);
        EXPECT_STREQ(static_cast<const char*>(address), "seen");
        EXPECT_EQ(client.unlock(info.hAllocation), 0);
        // What one allocation has, a lock shows, or more than is there: no.
        Digest before = digest(stack, {&client});
        const D3DKMT_HANDLE first = info.hAllocation;
        EXPECT_EQ(create(), kInvalid);
        ASSERT_EQ(client.lock(first, &address), 0);
        info.pSystemMem = address;
        EXPECT_EQ(create(), kInvalid);
        EXPECT_EQ(client.unlock(first), 0);
        EXPECT_EQ(client.destroy_allocation(first, 2), 0);
        info.pSystemMem = pages.data + 8;
        EXPECT_EQ(create(), kInvalid);
        Pages shared(2, MAP_SHARED);
        info.pSystemMem = shared.data;
        EXPECT_EQ(create(), kInvalid);
        info.pSystemMem = reinterpret_cast<void*>(uintptr_t{0x1000});
        EXPECT_EQ(create(), kInvalid);
        info.pSystemMem = pages.data;
        data.size = pages.bytes + (uint64_t{1} << 40);
        EXPECT_EQ(create(), kInvalid);
        Digest after = digest(stack, {&client});
        EXPECT_EQ(after.handles[0], before.handles[0] - 1);
        EXPECT_EQ(after.driver_objects, before.driver_objects - 2);
        EXPECT_EQ(after.free_pages, before.free_pages + 2);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      HeapDriver::prepare);
}

// From 2.0 on the write set alone says where an allocation may be.
TEST_F(HeapTest, FromWddm2OnTheReadSetDoesNotCount) {
  DXGKIT_COVERS("ALLOC-08", "ALLOC-20");
  for (const uint32_t version :
       {DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_INTERFACE_VERSION_WDDM2_0,
        DXGKDDI_INTERFACE_VERSION_WDDM2_1}) {
    SCOPED_TRACE(version);
    with_client(
        [&](Stack& stack, Client& client) {
          Pages pages(2);
          ScriptedAllocation data;
          data.size = pages.bytes;
          data.flags = kCpuVisible | kExisting;
          data.supported_read = kAperture | kHidden;
          data.supported_write = kAperture;
          D3DDDI_ALLOCATIONINFO info{};
          info.pSystemMem = pages.data;
          info.pPrivateDriverData = &data;
          info.PrivateDriverDataSize = sizeof data;
          D3DKMT_CREATEALLOCATION args{};
          args.hDevice = client.device;
          args.NumAllocations = 1;
          args.pAllocationInfo = &info;
          Digest before = digest(stack, {&client});
          const auto create = [&] {
            return client.call([&] { return D3DKMTCreateAllocation(&args); });
          };
          if (version >= DXGKDDI_INTERFACE_VERSION_WDDM2_0) {
            EXPECT_EQ(create(), 0);
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
            EXPECT_EQ(client.destroy_allocation(info.hAllocation, 2), 0);
            before.findings = 0;
          } else {
            EXPECT_EQ(create(), kInvalid);
            EXPECT_EQ(stack.only_finding().rule, "ALLOC-20");
            Digest after = digest(stack, {&client});
            after.findings = before.findings;
            after.driver_calls = before.driver_calls;
            EXPECT_EQ(after, before);
          }
          // In the write set it counts in every version.
          std::swap(data.supported_read, data.supported_write);
          EXPECT_EQ(create(), kInvalid);
          EXPECT_EQ(stack.rules().back(), "ALLOC-20");
        },
        [&](ScriptedMiniport& miniport) {
          HeapDriver::prepare(miniport);
          miniport.config.version = version;
        });
  }
}

struct BadHeap {
  const char* sentence;
  NTSTATUS status;
  UINT flags;
  void (*broken)(Heap&);
};
class BadHeaps : public ContractTest, public ::testing::WithParamInterface<BadHeap> {};
TEST_P(BadHeaps, AreRefusedAndNothingChanges) {
  DXGKIT_COVERS("ALLOC-20", "ALLOC-21", "ALLOC-22", "THUNK-05");
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(2);
        std::strcpy(pages.data, "untouched");
        Heap heap(client, pages);
        GetParam().broken(heap);
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(heap.create(GetParam().flags), GetParam().status);
        Digest after = digest(stack, {&client});
        after.driver_calls = before.driver_calls;  // some rows are the driver's business
        EXPECT_EQ(after, before);
        EXPECT_EQ(heap.info.hAllocation, 0U);
        EXPECT_STREQ(pages.data, "untouched");
        Heap good(client, pages);
        EXPECT_EQ(good.create(), 0);
        EXPECT_EQ(good.destroy(), 0);
      },
      HeapDriver::prepare);
}
void nothing(Heap&) {}
const BadHeap kBadHeaps[] = {
    {"BothKinds", kInvalid, kHeap | kExistingSection, nothing},
    {"NeitherKind", kInvalid, kHeap & ~kExistingSysMem, nothing},
    {"WithoutTheStandardFlag", kInvalid, kHeap & ~kStandardAllocation, nothing},
    {"NotShared", kInvalid, kHeap & ~kCreateShared, nothing},
    {"WithoutAResource", kInvalid, kHeap & ~kCreateResource, nothing},
    {"SecurityWithoutSharing", kInvalid, (kHeap & ~kCreateShared) | kNtSecuritySharing, nothing},
    {"ASectionInstead", nt_status(Status::kNotSupported),
     (kHeap & ~kExistingSysMem) | kExistingSection, nothing},
    {"CrossAdapterAlone", nt_status(Status::kNotSupported),
     kCreateResource | kCreateShared | kCrossAdapter, nothing},
    {"NoDescription", kInvalid, kHeap, [](auto& h) { h.args.pStandardAllocation = nullptr; }},
    {"AnUnreadableDescription", nt_status(Status::kInvalidParameter), kHeap,
     [](auto& h) {
       h.args.pStandardAllocation =
           reinterpret_cast<D3DKMT_CREATESTANDARDALLOCATION*>(uintptr_t{0x10});
     }},
    {"TypeZero", kInvalid, kHeap,
     [](auto& h) { h.standard.Type = static_cast<D3DKMT_STANDARDALLOCATIONTYPE>(0); }},
    {"TypeThree", kInvalid, kHeap,
     [](auto& h) { h.standard.Type = static_cast<D3DKMT_STANDARDALLOCATIONTYPE>(3); }},
    {"AnInternalBackingStore", nt_status(Status::kNotSupported), kHeap,
     [](auto& h) { h.standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE; }},
    {"AReservedFlag", kInvalid, kHeap, [](auto& h) { h.standard.Flags.Value = 1; }},
    {"SizeZero", kInvalid, kHeap, [](auto& h) { h.standard.ExistingHeapData.Size = 0; }},
    {"PartOfAPage", kInvalid, kHeap, [](auto& h) { h.standard.ExistingHeapData.Size = 4097; }},
    {"SizeMax", kInvalid, kHeap, [](auto& h) { h.standard.ExistingHeapData.Size = UINT64_MAX; }},
    {"TheLargestNumberOfPages", kInvalid, kHeap,
     [](auto& h) { h.standard.ExistingHeapData.Size = ~uint64_t{0xFFF}; }},
    {"MoreThanIsThere", kInvalid, kHeap,
     [](auto& h) { h.standard.ExistingHeapData.Size = uint64_t{1} << 36; }},
    {"NoMemory", kInvalid, kHeap, [](auto& h) { h.info.pSystemMem = nullptr; }},
    {"NotAligned", kInvalid, kHeap,
     [](auto& h) { h.info.pSystemMem = static_cast<const char*>(h.info.pSystemMem) + 1; }},
    {"NotMapped", kInvalid, kHeap,
     [](auto& h) { h.info.pSystemMem = reinterpret_cast<const void*>(uintptr_t{0x1000}); }},
    {"NoAllocation", kInvalid, kHeap, [](auto& h) { h.args.NumAllocations = 0; }},
    {"PrivateDataOfTheResource", kInvalid, kHeap,
     [](auto& h) { h.args.PrivateDriverDataSize = 4; }},
    {"AResourceToJoin", kInvalid, kExistingSysMem | kStandardAllocation,
     [](auto& h) {
       D3DKMT_CREATEALLOCATION made{};
       made.hDevice = h.client.device;
       made.Flags.CreateResource = 1;
       EXPECT_EQ(h.client.call([&] { return D3DKMTCreateAllocation2(&made); }), 0);
       h.args.hResource = made.hResource;
     }},
};
INSTANTIATE_TEST_SUITE_P(Rows, BadHeaps, ::testing::ValuesIn(kBadHeaps),
                         [](const auto& row) { return std::string(row.param.sentence); });

// All flags that depend on each other, in all combinations, each with every other flag.
TEST_F(HeapTest, EachCombinationOfFlagsHasOneAnswer) {
  DXGKIT_COVERS("ALLOC-21", "ALLOC-22", "THUNK-03");
  constexpr UINT kSome[] = {kCreateResource, kCreateShared,       kNtSecuritySharing,
                            kExistingSysMem, kStandardAllocation, kExistingSection,
                            kCrossAdapter};
  constexpr UINT kIgnored = 1U << 14 | 1U << 18;  // content that is zeros, or need not be
  constexpr UINT kDefined = (1U << 23) - 1;
  with_client(
      [&](Stack& stack, Client& client) {
        Pages pages(2);
        for (UINT chosen = 0; chosen < 1U << std::size(kSome); ++chosen) {
          UINT base = 0;
          for (size_t i = 0; i < std::size(kSome); ++i) base |= (chosen >> i & 1) * kSome[i];
          for (UINT bit = 0; bit <= 32; ++bit) {
            const UINT more = bit == 32 ? 0 : 1U << bit;
            if ((base & more) != 0 || std::ranges::count(kSome, more) != 0) continue;
            if (chosen % 8 != 0 && bit != 32 && bit != 2 && bit != 18 && bit != 22 && bit != 23)
              continue;  // a sample is enough where the flags are not refused for themselves
            const UINT flags = base | more;
            SCOPED_TRACE(flags);
            const auto has = [&](UINT flag) { return (flags & flag) != 0; };
            const bool needs =
                (has(kCreateShared) && !has(kCreateResource)) ||
                (has(kNtSecuritySharing) && !has(kCreateShared)) ||
                (has(kExistingSysMem) && has(kExistingSection)) ||
                (has(kExistingSysMem) || has(kExistingSection)) != has(kStandardAllocation);
            NTSTATUS expected = 0;
            if ((flags & ~kDefined) != 0 || needs) {
              expected = kInvalid;
            } else if (has(kCrossAdapter) && !has(kStandardAllocation)) {
              expected = nt_status(Status::kNotSupported);
            } else if (has(kCrossAdapter) && !has(kCreateShared)) {
              expected = kInvalid;
            } else if (has(kExistingSection) || (more & ~kIgnored) != 0) {
              expected = nt_status(Status::kNotSupported);
            }
            Heap heap(client, pages);
            ScriptedAllocation plain;
            if (!has(kStandardAllocation)) {
              heap.info.pSystemMem = nullptr;
              heap.info.pPrivateDriverData = &plain;
              heap.info.PrivateDriverDataSize = sizeof plain;
            }
            const Digest before = digest(stack, {&client});
            EXPECT_EQ(heap.create(flags), expected);
            if (expected != 0) {
              EXPECT_EQ(digest(stack, {&client}), before);
              EXPECT_EQ(heap.info.hAllocation, 0U);
            } else if (heap.args.hResource != 0) {
              EXPECT_TRUE(has(kCreateResource));
              EXPECT_EQ(heap.destroy(), 0);
            } else {
              EXPECT_FALSE(has(kCreateResource));
              EXPECT_EQ(client.destroy_allocation(heap.info.hAllocation, 2), 0);
            }
          }
        }
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      HeapDriver::prepare);
}

// What is wrong with the second allocation refuses both; data for other processes is read where
// there are any.
TEST_F(HeapTest, EachAllocationOfAListIsLookedAt) {
  DXGKIT_COVERS("ALLOC-20", "THUNK-03", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    ScriptedAllocation plain;
    D3DDDI_ALLOCATIONINFO2 infos[2] = {};
    const auto create = [&](const std::function<void(D3DDDI_ALLOCATIONINFO2&)>& spoil, UINT flags) {
      for (D3DDDI_ALLOCATIONINFO2& info : infos) {
        info = {};
        info.pPrivateDriverData = &plain;
        info.PrivateDriverDataSize = sizeof plain;
      }
      spoil(infos[1]);
      D3DKMT_CREATEALLOCATION args{};
      args.hDevice = client.device;
      args.NumAllocations = 2;
      args.pAllocationInfo2 = infos;
      args.pPrivateRuntimeData = reinterpret_cast<const void*>(uintptr_t{0x10});
      args.PrivateRuntimeDataSize = 4;
      args.Flags = std::bit_cast<D3DKMT_CREATEALLOCATIONFLAGS>(flags);
      return client.call([&] { return D3DKMTCreateAllocation2(&args); });
    };
    const Digest before = digest(stack, {&client});
    struct Row {
      const char* what;
      std::function<void(D3DDDI_ALLOCATIONINFO2&)> spoil;
      NTSTATUS status;
    };
    const Row rows[] = {
        {"a reserved flag", [](auto& i) { i.Flags.Value = 1U << 31; }, kInvalid},
        {"the lowest reserved flag", [](auto& i) { i.Flags.Value = 4; }, kInvalid},
        {"stereo", [](auto& i) { i.Flags.Stereo = 1; }, nt_status(Status::kNotSupported)},
        {"a primary without outputs", [](auto& i) { i.Flags.Primary = 1; },
         nt_status(Status::kNotSupported)},
        {"private data beyond memory", [](auto& i) { i.pPrivateDriverData = nullptr; }, kInvalid},
        {"memory that is not aligned",
         [](auto& i) { i.pSystemMem = reinterpret_cast<const void*>(uintptr_t{0x1001}); },
         kInvalid},
    };
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      EXPECT_EQ(create(row.spoil, 0), row.status);
      EXPECT_EQ(infos[0].hAllocation, 0U);
      EXPECT_EQ(digest(stack, {&client}), before);
    }
    EXPECT_EQ(create([](auto&) {}, kCreateResource | kCreateShared), kInvalid) << "others read it";
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(create([](auto&) {}, kCreateResource), 0) << "nobody else";
    EXPECT_EQ(create([](auto&) {}, 0), 0);
  });
}

// What a driver writes into the data of each allocation comes back to its own buffer.
TEST_F(HeapTest, EachAllocationGetsItsOwnDataBack) {
  DXGKIT_COVERS("ALLOC-03", "THUNK-20");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.create_allocation = [&](DXGKARG_CREATEALLOCATION* args) {
      const NTSTATUS status = stack.miniport.default_create_allocation(args);
      for (UINT i = 0; i < args->NumAllocations; ++i) {
        auto* data = static_cast<ScriptedAllocation*>(args->pAllocationInfo[i].pPrivateDriverData);
        data->padding = 70 + i;
      }
      return status;
    };
    ScriptedAllocation data[3];
    D3DDDI_ALLOCATIONINFO2 infos[3] = {};
    for (UINT i = 0; i < 3; ++i) {
      infos[i].pPrivateDriverData = &data[i];
      infos[i].PrivateDriverDataSize = sizeof data[i];
      infos[i].GpuVirtualAddress = 5;
    }
    D3DKMT_CREATEALLOCATION args{};
    args.hDevice = client.device;
    args.NumAllocations = 3;
    args.pAllocationInfo2 = infos;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&args); }), 0);
    for (UINT i = 0; i < 3; ++i) {
      EXPECT_EQ(data[i].padding, 70 + i);
      EXPECT_EQ(infos[i].GpuVirtualAddress, 0U);
      EXPECT_NE(infos[i].hAllocation, 0U);
      for (UINT j = 0; j < i; ++j) EXPECT_NE(infos[i].hAllocation, infos[j].hAllocation);
    }
    stack.miniport.hooks.create_allocation = nullptr;
  });
}

// Only who asks for it waits until the memory is back.
TEST_F(HeapTest, ADestructionWaitsForNothingUnlessItIsToldTo) {
  DXGKIT_COVERS("ALLOC-29");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    for (const UINT flags : {0U, 1U}) {
      const D3DKMT_HANDLE handle = client.make_allocation();
      ASSERT_EQ(client.render(context, work_on({handle})), 0);
      stack.drive();
      ASSERT_EQ(client.render(context, work_on({handle})), 0);
      stack.settle();
      ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U);
      EXPECT_EQ(client.destroy_allocation(handle, flags), 0);
      EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U) << "the work goes on";
      stack.drive();
    }
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// With and without a resource, sharing and other adapters.
TEST_F(HeapTest, AHeapIsAnAllocationWithOrWithoutAResource) {
  DXGKIT_COVERS("ALLOC-21", "ALLOC-58");
  constexpr UINT kAlone = kExistingSysMem | kStandardAllocation;
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(2);
        for (const UINT more : {0U, kCreateResource, kCreateResource | kCreateShared,
                                kCreateResource | kCreateShared | kNtSecuritySharing,
                                kCreateResource | kCreateShared | kCrossAdapter}) {
          SCOPED_TRACE(more);
          Heap heap(client, pages);
          heap.args.hGlobalShare = 77;
          heap.args.hPrivateRuntimeResourceHandle = &heap;
          ASSERT_EQ(heap.create(kAlone | more), 0);
          EXPECT_EQ(heap.args.hPrivateRuntimeResourceHandle, &heap);
          EXPECT_EQ(heap.args.hResource != 0, (more & kCreateResource) != 0);
          EXPECT_EQ(heap.args.hGlobalShare != 0,
                    (more & (kCreateShared | kNtSecuritySharing)) == kCreateShared);
          if (heap.args.hResource != 0) {
            EXPECT_EQ(heap.info.hAllocation, heap.args.hResource + 0x40);
            EXPECT_EQ(heap.destroy(), 0);
          } else {
            EXPECT_EQ(client.destroy_allocation(heap.info.hAllocation, 2), 0);
          }
          stack.drive();
        }
        EXPECT_EQ(HeapDriver::asked.size(), 5U) << "the driver described each";
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      HeapDriver::prepare);
}

TEST_F(HeapTest, PrivateDataOfTheClientReachesTheDriverInPlaceOfADescription) {
  DXGKIT_COVERS("ALLOC-21", "ALLOC-03", "THUNK-05");
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(2);
        Heap heap(client, pages);
        ScriptedAllocation data;
        data.size = pages.bytes;
        data.flags = kCpuVisible | kExisting;
        data.supported_read = data.supported_write = kAperture;
        heap.info.pPrivateDriverData = &data;
        heap.info.PrivateDriverDataSize = sizeof data;
        ASSERT_EQ(heap.create(kExistingSysMem | kStandardAllocation), 0);
        EXPECT_TRUE(HeapDriver::asked.empty());
        EXPECT_EQ(client.destroy_allocation(heap.info.hAllocation, 2), 0);
        stack.miniport.hooks.create_allocation = [](DXGKARG_CREATEALLOCATION*) {
          return nt_status(Status::kInvalidParameter);
        };
        Digest before = digest(stack, {&client});
        EXPECT_EQ(heap.create(kExistingSysMem | kStandardAllocation), kInvalid)
            << "the driver does not take it";
        Digest after = digest(stack, {&client});
        after.driver_calls = before.driver_calls;
        EXPECT_EQ(after, before);
        stack.miniport.hooks.create_allocation = nullptr;
      },
      HeapDriver::prepare);
}

TEST_F(HeapTest, OnlyOneAllocationComesFromAHeap) {
  DXGKIT_COVERS("ALLOC-21");
  with_client(
      [](Stack& stack, Client& client) {
        Pages pages(2);
        Heap heap(client, pages);
        D3DDDI_ALLOCATIONINFO2 two[2] = {heap.info, heap.info};
        heap.args.NumAllocations = 2;
        heap.args.pAllocationInfo2 = two;
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(heap.create(), kInvalid);
        EXPECT_EQ(digest(stack, {&client}), before);
      },
      HeapDriver::prepare);
}

TEST_F(HeapTest, WhatTheDriverMakesOfItIsChecked) {
  DXGKIT_COVERS("ALLOC-20");
  struct Row {
    const char* sentence;
    uint32_t flags, segments;
    uint64_t size_added;
  };
  for (const Row& row : {Row{"it does not say ExistingSysMem", kCpuVisible, kAperture, 0},
                         Row{"it would move to video memory", kCpuVisible | kExisting, 7, 0},
                         Row{"it wants a page more", kCpuVisible | kExisting, kAperture, 4096},
                         Row{"it wants a byte more", kCpuVisible | kExisting, kAperture, 1}}) {
    with_client(
        [&](Stack& stack, Client& client) {
          HeapDriver::flags = row.flags;
          HeapDriver::segments = row.segments;
          HeapDriver::size_added = row.size_added;
          Pages pages(2);
          std::strcpy(pages.data, "untouched");
          Heap heap(client, pages);
          Digest before = digest(stack, {&client});
          EXPECT_EQ(heap.create(), kInvalid) << row.sentence;
          EXPECT_EQ(stack.only_finding().rule, "ALLOC-20") << row.sentence;
          Digest after = digest(stack, {&client});
          before.findings = after.findings;
          before.driver_calls = after.driver_calls;
          EXPECT_EQ(after, before) << row.sentence;
          EXPECT_STREQ(pages.data, "untouched");
        },
        HeapDriver::prepare);
  }
  // And no memory where the driver says there is some.
  with_client([](Stack& stack, Client& client) {
    ScriptedAllocation data;
    data.flags = kCpuVisible | kExisting;
    data.supported_read = data.supported_write = kAperture;
    D3DKMT_HANDLE handle = 0;
    EXPECT_EQ(client.create_allocation(data, &handle), kInvalid);
    EXPECT_EQ(stack.only_finding().rule, "ALLOC-20");
  });
}

TEST_F(HeapTest, ADriverWithoutStandardAllocationsHasNone) {
  DXGKIT_COVERS("ALLOC-21", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    Pages pages(2);
    Heap heap(client, pages);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(heap.create(), nt_status(Status::kNotSupported));
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

}  // namespace
}  // namespace dxgkit::contract
