// The callbacks of a user-mode driver in the patch model: tables by version, refusals, allocations,
// contexts, rendering, CPU access, synchronization objects, questions to the adapter.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "tests/contract/umd_fixture.h"
#include "thunks/support.h"

namespace dxgkit::contract {
namespace {

using UmdTest = ContractTest;

// D3DDDI_DEVICECALLBACKS as an array of pointers, in the order of the support table.
constexpr size_t kDeviceCallbacks = sizeof(D3DDDI_DEVICECALLBACKS) / sizeof(void*);
constexpr size_t kAdapterCallbacks = sizeof(D3DDDI_ADAPTERCALLBACKS) / sizeof(void*);
constexpr std::byte kUntouched{0xC3};

TEST(Umd, EachVersionGetsItsOwnCallbacksAndNothingBehindThemIsWritten) {
  DXGKIT_COVERS("UMD-03", "UMD-04");
  const auto support = umd::support();
  ASSERT_EQ(support.size(), kDeviceCallbacks + kAdapterCallbacks);
  std::set<UINT> versions;
  for (const auto& row : support) versions.insert(row.since);
  ASSERT_EQ(*versions.begin(), UINT{D3D_UMD_INTERFACE_VERSION_VISTA});
  EXPECT_TRUE(versions.contains(D3D_UMD_INTERFACE_VERSION_WDDM2_6));
  versions.insert(D3D_UMD_INTERFACE_VERSION_WDDM2_2_1);  // between two published ones: the older
  versions.insert(D3D_UMD_INTERFACE_VERSION);
  for (const UINT version : versions) {
    SCOPED_TRACE(version);
    std::array<std::byte, sizeof(D3DDDI_DEVICECALLBACKS)> device{};
    std::array<std::byte, sizeof(D3DDDI_ADAPTERCALLBACKS)> adapter{};
    device.fill(kUntouched);
    adapter.fill(kUntouched);
    umd::device_callbacks(version, reinterpret_cast<D3DDDI_DEVICECALLBACKS*>(device.data()));
    umd::adapter_callbacks(version, reinterpret_cast<D3DDDI_ADAPTERCALLBACKS*>(adapter.data()));
    std::array<std::byte, sizeof(void*)> untouched{};
    untouched.fill(kUntouched);
    for (size_t i = 0; i < support.size(); ++i) {
      const std::byte* slot = i < kDeviceCallbacks
                                  ? device.data() + i * sizeof(void*)
                                  : adapter.data() + (i - kDeviceCallbacks) * sizeof(void*);
      const bool written = std::memcmp(slot, untouched.data(), sizeof(void*)) != 0;
      EXPECT_EQ(written, support[i].since <= version) << support[i].name;
      void* function = nullptr;
      std::memcpy(&function, slot, sizeof function);
      EXPECT_NE(function, nullptr) << support[i].name;
    }
  }
}

TEST(Umd, NoCallbackClaimsMoreThanTheFunctionBehindIt) {
  std::map<std::string_view, thunks::Support> thunks;
  for (const auto& row : thunks::support()) thunks[row.name] = row.support;
  for (const auto& row : umd::support()) {
    if (row.support == umd::Support::kRefused) {
      EXPECT_FALSE(row.note.empty()) << row.name;
    }
    if (row.thunk.empty()) continue;
    ASSERT_TRUE(thunks.contains(row.thunk)) << row.name << " calls " << row.thunk;
    if (thunks[row.thunk] == thunks::Support::kRefused) {
      EXPECT_EQ(row.support, umd::Support::kRefused) << row.name;
    }
  }
}

TEST(Umd, EveryStatusHasItsResult) {
  DXGKIT_COVERS("UMD-02");
  std::set<NTSTATUS> seen;
  for (const umd::Translation& row : umd::translations()) {
    EXPECT_TRUE(seen.insert(row.status).second) << std::hex << row.status;
    EXPECT_EQ(umd::to_hresult(row.status), row.result);
    EXPECT_EQ(row.status < 0, row.result < 0 && row.result != E_PENDING) << std::hex << row.status;
  }
  EXPECT_EQ(umd::to_hresult(STATUS_PENDING), E_PENDING);
  // A graphics status without an entry keeps its number.
  EXPECT_EQ(umd::to_hresult(STATUS_GRAPHICS_PRESENT_OCCLUDED), ERROR_GRAPHICS_PRESENT_OCCLUDED);
  EXPECT_EQ(umd::to_hresult(STATUS_GRAPHICS_ALLOCATION_CLOSED), ERROR_GRAPHICS_ALLOCATION_CLOSED);
  EXPECT_EQ(umd::to_hresult(STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE),
            ERROR_GRAPHICS_GPU_EXCEPTION_ON_DEVICE);
  EXPECT_EQ(umd::to_hresult(STATUS_UNSUCCESSFUL), E_FAIL);
  EXPECT_EQ(umd::to_hresult(static_cast<NTSTATUS>(0xC01F0001)), E_FAIL);
}

/// All callbacks with an argument structure, called with one of zeros or with a bad pointer.
template <typename Visit>
void for_each_device_callback(const D3DDDI_DEVICECALLBACKS& table, const Visit& visit) {
#define VISIT(name) visit(#name, table.name);
  VISIT(pfnAllocateCb)
  VISIT(pfnDeallocateCb)
  VISIT(pfnSetPriorityCb)
  VISIT(pfnQueryResidencyCb)
  VISIT(pfnSetDisplayModeCb)
  VISIT(pfnPresentCb)
  VISIT(pfnRenderCb)
  VISIT(pfnLockCb)
  VISIT(pfnUnlockCb)
  VISIT(pfnEscapeCb)
  VISIT(pfnCreateOverlayCb)
  VISIT(pfnUpdateOverlayCb)
  VISIT(pfnFlipOverlayCb)
  VISIT(pfnDestroyOverlayCb)
  VISIT(pfnCreateContextCb)
  VISIT(pfnDestroyContextCb)
  VISIT(pfnCreateSynchronizationObjectCb)
  VISIT(pfnDestroySynchronizationObjectCb)
  VISIT(pfnWaitForSynchronizationObjectCb)
  VISIT(pfnSignalSynchronizationObjectCb)
  VISIT(pfnSetDisplayPrivateDriverFormatCb)
  VISIT(pfnOfferAllocationsCb)
  VISIT(pfnReclaimAllocationsCb)
  VISIT(pfnCreateSynchronizationObject2Cb)
  VISIT(pfnWaitForSynchronizationObject2Cb)
  VISIT(pfnSignalSynchronizationObject2Cb)
  VISIT(pfnPresentMultiPlaneOverlayCb)
  VISIT(pfnLogUMDMarkerCb)
  VISIT(pfnMakeResidentCb)
  VISIT(pfnEvictCb)
  VISIT(pfnWaitForSynchronizationObjectFromCpuCb)
  VISIT(pfnSignalSynchronizationObjectFromCpuCb)
  VISIT(pfnWaitForSynchronizationObjectFromGpuCb)
  VISIT(pfnSignalSynchronizationObjectFromGpuCb)
  VISIT(pfnCreatePagingQueueCb)
  VISIT(pfnDestroyPagingQueueCb)
  VISIT(pfnLock2Cb)
  VISIT(pfnUnlock2Cb)
  VISIT(pfnInvalidateCacheCb)
  VISIT(pfnReserveGpuVirtualAddressCb)
  VISIT(pfnMapGpuVirtualAddressCb)
  VISIT(pfnFreeGpuVirtualAddressCb)
  VISIT(pfnUpdateGpuVirtualAddressCb)
  VISIT(pfnCreateContextVirtualCb)
  VISIT(pfnSubmitCommandCb)
  VISIT(pfnDeallocate2Cb)
  VISIT(pfnSignalSynchronizationObjectFromGpu2Cb)
  VISIT(pfnReclaimAllocations2Cb)
  VISIT(pfnGetResourcePresentPrivateDriverDataCb)
  VISIT(pfnUpdateAllocationPropertyCb)
  VISIT(pfnOfferAllocations2Cb)
  VISIT(pfnReclaimAllocations3Cb)
  VISIT(pfnAcquireResourceCb)
  VISIT(pfnReleaseResourceCb)
  VISIT(pfnCreateHwContextCb)
  VISIT(pfnDestroyHwContextCb)
  VISIT(pfnCreateHwQueueCb)
  VISIT(pfnDestroyHwQueueCb)
  VISIT(pfnSubmitCommandToHwQueueCb)
  VISIT(pfnSubmitWaitForSyncObjectsToHwQueueCb)
  VISIT(pfnSubmitSignalSyncObjectsToHwQueueCb)
  VISIT(pfnSubmitPresentBltToHwQueueCb)
  VISIT(pfnSubmitPresentToHwQueueCb)
  VISIT(pfnSubmitHistorySequenceCb)
#undef VISIT
}

/// The HRESULT that the support table gives a refused callback. S_OK: it is none.
HRESULT refusal_of(std::string_view name) {
  for (const auto& row : umd::support()) {
    if (row.name != name || row.support != umd::Support::kRefused) continue;
    if (row.note.starts_with("E_FAIL: ")) return E_FAIL;
    EXPECT_TRUE(row.note.starts_with("D3DDDIERR_NOTAVAILABLE: ")) << row.note;
    return D3DDDIERR_NOTAVAILABLE;
  }
  return S_OK;
}

TEST_F(UmdTest, WrongHandlesAndPointersAreRefusedByEveryCallbackAndNothingChanges) {
  DXGKIT_COVERS("UMD-01", "UMD-03");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    umd::RuntimeResource resource(driver.device);
    HANDLE gone = nullptr;
    {
      umd::RuntimeDevice ended(driver.adapter, client.device);
      gone = ended.handle();
      EXPECT_EQ(umd::RuntimeDevice::find(gone), &ended);
    }
    const HANDLE wrong[] = {nullptr,
                            as_handle(client.device),
                            as_handle(0x10000),
                            driver.adapter.handle(),
                            resource.handle(),
                            gone};
    // Zeros that nobody can write outputs to: a context would be made without a way to say so.
    void* const only_readable = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(only_readable, MAP_FAILED);
    const Digest before = digest(stack, {&client});
    size_t visited = 1;  // pfnSetAsyncCallbacksCb has no structure
    for_each_device_callback(
        driver.table(), [&]<typename Args>(const char* name, HRESULT (*callback)(HANDLE, Args*)) {
          SCOPED_TRACE(name);
          ++visited;
          const HRESULT refusal = refusal_of(name);
          std::remove_const_t<Args> zeros{};
          if (refusal != S_OK) {
            EXPECT_EQ(driver.call(callback, &zeros), refusal);
            return;
          }
          const bool of_adapter = std::string_view(name) == "pfnEscapeCb";
          for (const HANDLE handle : wrong) {
            if (of_adapter && handle == driver.adapter.handle()) continue;
            EXPECT_EQ(driver.call_with(handle, callback, &zeros), E_INVALIDARG) << handle;
          }
          const HANDLE right = of_adapter ? driver.adapter.handle() : driver.handle();
          EXPECT_EQ(driver.call_with(right, callback, nullptr), E_INVALIDARG);
          EXPECT_EQ(driver.call_with(right, callback, nowhere<Args>()), E_INVALIDARG);
          if constexpr (!std::is_const_v<Args>) {
            EXPECT_EQ(driver.call_with(right, callback, static_cast<Args*>(only_readable)),
                      E_INVALIDARG);
          }
        });
    EXPECT_EQ(visited, kDeviceCallbacks);
    for (const HANDLE handle : wrong) {
      HRESULT result = S_OK;
      client.as_client([&] { result = driver.table().pfnSetAsyncCallbacksCb(handle, TRUE); });
      EXPECT_EQ(result, E_INVALIDARG);
    }
    client.as_client(
        [&] { EXPECT_EQ(driver.table().pfnSetAsyncCallbacksCb(driver.handle(), TRUE), S_OK); });

    const D3DDDI_ADAPTERCALLBACKS& asks = driver.adapter.callbacks();
    D3DDDICB_QUERYADAPTERINFO query{};
    D3DDDICB_QUERYADAPTERINFO2 query2{};
    D3DDDICB_GETMULTISAMPLEMETHODLIST methods{};
    for (const HANDLE handle : {HANDLE{nullptr}, driver.handle(), as_handle(0x10000)}) {
      EXPECT_EQ(driver.call_with(handle, asks.pfnQueryAdapterInfoCb, &query), E_INVALIDARG);
      EXPECT_EQ(driver.call_with(handle, asks.pfnQueryAdapterInfoCb2, &query2), E_INVALIDARG);
      EXPECT_EQ(driver.call_with(handle, asks.pfnGetMultisampleMethodListCb, &methods),
                E_INVALIDARG);
    }
    EXPECT_EQ(driver.ask(asks.pfnGetMultisampleMethodListCb, &methods), E_INVALIDARG)
        << "no display";
    EXPECT_EQ(digest(stack, {&client}), before);
    munmap(only_readable, 4096);
  });
}

TEST_F(UmdTest, AllocationsBelongToTheDeviceOrToAResource) {
  DXGKIT_COVERS("UMD-06");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    const size_t handles = client.handles();
    const D3DKMT_HANDLE alone = driver.make_allocation();
    EXPECT_EQ(client.handles(), handles + 1);

    // The kernel's resource comes with the first allocation; the second one joins it.
    umd::RuntimeResource resource(driver.device);
    ScriptedAllocation data{};
    D3DDDI_ALLOCATIONINFO infos[2]{};
    for (D3DDDI_ALLOCATIONINFO& info : infos) {
      info.pPrivateDriverData = &data;
      info.PrivateDriverDataSize = sizeof data;
    }
    D3DDDICB_ALLOCATE args{};
    args.hResource = resource.handle();
    args.NumAllocations = 2;
    args.pAllocationInfo = infos;
    ASSERT_EQ(driver.call(driver.table().pfnAllocateCb, &args), S_OK);
    EXPECT_NE(args.hKMResource, 0U);
    EXPECT_EQ(args.hKMResource, resource.kernel_handle());
    EXPECT_NE(infos[0].hAllocation, infos[1].hAllocation);
    const D3DKMT_HANDLE third = driver.make_allocation(resource.handle());
    EXPECT_EQ(args.hKMResource, resource.kernel_handle());
    EXPECT_EQ(client.handles(), handles + 5);

    // Residency, priority and offers by resource and by list.
    D3DDDI_RESIDENCYSTATUS status{};
    D3DDDICB_QUERYRESIDENCY residency{};
    residency.hResource = resource.handle();
    residency.pResidencyStatus = &status;
    EXPECT_EQ(driver.call(driver.table().pfnQueryResidencyCb, &residency), S_OK);
    EXPECT_EQ(status, D3DDDI_RESIDENCYSTATUS_NOTRESIDENT);
    const UINT priority = 0x78000000;
    D3DDDICB_SETPRIORITY set{};
    set.hResource = resource.handle();
    set.pPriorities = &priority;
    EXPECT_EQ(driver.call(driver.table().pfnSetPriorityCb, &set), S_OK);
    set = {};
    set.HandleList = &alone;
    set.NumAllocations = 1;
    set.pPriorities = &priority;
    EXPECT_EQ(driver.call(driver.table().pfnSetPriorityCb, &set), S_OK);
    const HANDLE resources[] = {resource.handle()};
    D3DDDICB_OFFERALLOCATIONS offer{};
    offer.pResources = resources;
    offer.NumAllocations = 1;
    offer.Priority = D3DDDI_OFFER_PRIORITY_NORMAL;
    EXPECT_EQ(driver.call(driver.table().pfnOfferAllocationsCb, &offer), S_OK);
    BOOL discarded = 77;
    D3DDDICB_RECLAIMALLOCATIONS reclaim{};
    reclaim.pResources = resources;
    reclaim.NumAllocations = 1;
    reclaim.pDiscarded = &discarded;
    EXPECT_EQ(driver.call(driver.table().pfnReclaimAllocationsCb, &reclaim), S_OK);
    EXPECT_EQ(discarded, FALSE);
    D3DDDICB_OFFERALLOCATIONS2 offer2{};
    offer2.HandleList = &alone;
    offer2.NumAllocations = 1;
    offer2.Priority = D3DDDI_OFFER_PRIORITY_LOW;
    offer2.Flags.AllowDecommit = 1;  // the bit of OfferImmediately in D3DKMT
    EXPECT_EQ(driver.call(driver.table().pfnOfferAllocations2Cb, &offer2), S_OK);
    reclaim = {};
    reclaim.HandleList = &alone;
    reclaim.NumAllocations = 1;
    reclaim.pDiscarded = &discarded;
    EXPECT_EQ(driver.call(driver.table().pfnReclaimAllocationsCb, &reclaim), S_OK);

    // A list goes one by one, a resource with all that it has; a list beside it is ignored.
    D3DDDICB_DEALLOCATE deallocate{};
    deallocate.HandleList = &alone;
    deallocate.NumAllocations = 1;
    EXPECT_EQ(driver.call(driver.table().pfnDeallocateCb, &deallocate), S_OK);
    deallocate.hResource = resource.handle();
    deallocate.HandleList = &third;
    EXPECT_EQ(driver.call(driver.table().pfnDeallocateCb, &deallocate), S_OK);
    stack.settle();
    EXPECT_EQ(client.handles(), handles);
    EXPECT_EQ(resource.kernel_handle(), 0U);
    EXPECT_EQ(driver.call(driver.table().pfnDeallocateCb, &deallocate), E_INVALIDARG);
    // The runtime's resource lives on, and can get allocations again.
    driver.make_allocation(resource.handle());
    D3DDDICB_DEALLOCATE2 deallocate2{};
    deallocate2.hResource = resource.handle();
    deallocate2.Flags.SynchronousDestroy = 1;
    EXPECT_EQ(driver.call(driver.table().pfnDeallocate2Cb, &deallocate2), S_OK);
    EXPECT_EQ(client.handles(), handles);
  });
}

TEST_F(UmdTest, WrongAllocationsAndResourcesAreRefused) {
  DXGKIT_COVERS("UMD-01", "UMD-07");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    umd::RuntimeDevice other(driver.adapter, client.make_device());
    umd::RuntimeResource foreign(other), empty(driver.device);
    const D3DKMT_HANDLE mine = driver.make_allocation();
    const Digest before = digest(stack, {&client});
    D3DKMT_HANDLE made = 0;
    EXPECT_EQ(driver.allocate(&made, foreign.handle()), E_INVALIDARG);
    EXPECT_EQ(driver.allocate(&made, as_handle(mine)), E_INVALIDARG);
    EXPECT_EQ(driver.allocate(&made, driver.handle()), E_INVALIDARG) << "no resource";
    EXPECT_EQ(empty.kernel_handle(), 0U);
    const UINT priority = 0x78000000;
    for (const HANDLE resource : {foreign.handle(), empty.handle(), driver.handle()}) {
      D3DDDICB_DEALLOCATE deallocate{};
      deallocate.hResource = resource;
      EXPECT_EQ(driver.call(driver.table().pfnDeallocateCb, &deallocate), E_INVALIDARG);
      D3DDDICB_SETPRIORITY set{};
      set.hResource = resource;
      set.pPriorities = &priority;
      EXPECT_EQ(driver.call(driver.table().pfnSetPriorityCb, &set), E_INVALIDARG);
      D3DDDI_RESIDENCYSTATUS status{};
      D3DDDICB_QUERYRESIDENCY query{};
      query.hResource = resource;
      query.pResidencyStatus = &status;
      EXPECT_EQ(driver.call(driver.table().pfnQueryResidencyCb, &query), E_INVALIDARG);
      D3DDDICB_OFFERALLOCATIONS offer{};
      offer.pResources = &resource;
      offer.NumAllocations = 1;
      offer.Priority = D3DDDI_OFFER_PRIORITY_LOW;
      EXPECT_EQ(driver.call(driver.table().pfnOfferAllocationsCb, &offer), E_INVALIDARG);
    }
    D3DDDICB_OFFERALLOCATIONS2 offer{};
    offer.HandleList = &mine;
    offer.NumAllocations = 1;
    offer.Priority = D3DDDI_OFFER_PRIORITY_LOW;
    offer.Flags.Reserved = 1;  // where D3DKMT has AllowDecommit
    EXPECT_EQ(driver.call(driver.table().pfnOfferAllocations2Cb, &offer), E_INVALIDARG);
    offer.Flags.Value = 0;
    offer.pResources = nowhere<HANDLE>();
    offer.HandleList = nullptr;
    EXPECT_EQ(driver.call(driver.table().pfnOfferAllocations2Cb, &offer), E_INVALIDARG);
    D3DDDICB_ALLOCATE args{};
    args.NumAllocations = 1;
    args.pAllocationInfo = nowhere<D3DDDI_ALLOCATIONINFO>();
    EXPECT_EQ(driver.call(driver.table().pfnAllocateCb, &args), E_INVALIDARG);
    EXPECT_EQ(digest(stack, {&client}), before);
    // The driver's kernel half may refuse for want of memory.
    stack.miniport.hooks.create_allocation = [](const DXGKARG_CREATEALLOCATION*) {
      return STATUS_NO_MEMORY;
    };
    EXPECT_EQ(driver.allocate(&made), E_OUTOFMEMORY);
    stack.miniport.hooks.create_allocation = nullptr;
    EXPECT_EQ(client.handles(), before.handles.front());
  });
}

TEST_F(UmdTest, ASharedResourceHasAGlobalHandle) {
  with_client([](Stack&, Client& client) {
    UserDriver driver(client);
    umd::RuntimeResource mine(driver.device),
        shared(driver.device, umd::RuntimeResource::Sharing::kShared);
    driver.make_allocation(mine.handle());
    driver.make_allocation(shared.handle());
    EXPECT_EQ(mine.global_share(), 0U);
    ASSERT_NE(shared.global_share(), 0U);
    D3DKMT_QUERYRESOURCEINFO query{};
    query.hDevice = client.device;
    query.hGlobalShare = shared.global_share();
    EXPECT_EQ(client.call([&] { return D3DKMTQueryResourceInfo(&query); }), STATUS_SUCCESS);
    EXPECT_EQ(query.NumAllocations, 1U);
  });
}

TEST_F(UmdTest, RenderHandsTheCommandsOverAndTheNextBuffersBack) {
  DXGKIT_COVERS("UMD-02", "UMD-05");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    const D3DKMT_HANDLE target = driver.make_allocation();
    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    ASSERT_NE(context.pCommandBuffer, nullptr);
    std::memset(context.pCommandBuffer, 0x42, 256);
    context.pAllocationList[0] = {};
    context.pAllocationList[0].hAllocation = target;
    context.pAllocationList[0].WriteOperation = 1;
    context.pPatchLocationList[0] = patch_at(0, 0);
    D3DDDICB_RENDER render{};
    render.hContext = context.hContext;
    render.CommandOffset = 16;
    render.CommandLength = 240;
    render.NumAllocations = 1;
    render.NumPatchLocations = 1;
    ASSERT_EQ(driver.call(driver.table().pfnRenderCb, &render), S_OK);
    EXPECT_NE(render.pNewCommandBuffer, nullptr);
    EXPECT_NE(render.NewCommandBufferSize, 0U);
    EXPECT_NE(render.pNewAllocationList, nullptr);
    EXPECT_NE(render.pNewPatchLocationList, nullptr);
    EXPECT_EQ(render.QueuedBufferCount, 1U);
    const testing::RenderCall call = stack.miniport.calls().renders.at(0);
    EXPECT_EQ(call.args.CommandLength, 240U);
    EXPECT_EQ(call.command, std::vector<std::byte>(240, std::byte{0x42}));
    EXPECT_EQ(call.allocations.size(), 1U);
    stack.drive();

    // The page names a result for each way in which the kernel half refuses a command buffer.
    const std::pair<NTSTATUS, HRESULT> refusals[] = {
        {STATUS_PRIVILEGED_INSTRUCTION, D3DDDIERR_PRIVILEGEDINSTRUCTION},
        {STATUS_ILLEGAL_INSTRUCTION, D3DDDIERR_INVALIDINSTRUCTION},
        {STATUS_INVALID_USER_BUFFER, D3DDDIERR_INVALIDUSERBUFFER},
        {STATUS_INVALID_HANDLE, D3DDDIERR_INVALIDHANDLE},
        {STATUS_INVALID_PARAMETER, E_INVALIDARG},
        {STATUS_NO_MEMORY, E_OUTOFMEMORY}};
    for (const auto& [status, result] : refusals) {
      stack.miniport.hooks.render = [answer = status](void*, DXGKARG_RENDER*) { return answer; };
      D3DDDICB_RENDER refused{};
      refused.hContext = context.hContext;
      refused.CommandLength = 64;
      EXPECT_EQ(driver.call(driver.table().pfnRenderCb, &refused), result);
      EXPECT_NE(refused.pNewCommandBuffer, nullptr) << "the next buffers come with refusals, too";
    }
    stack.miniport.hooks.render = nullptr;
    const D3DDDICB_DESTROYCONTEXT destroy{.hContext = context.hContext};
    EXPECT_EQ(driver.waiting(driver.table().pfnDestroyContextCb, &destroy), S_OK);
    EXPECT_EQ(driver.call(driver.table().pfnDestroyContextCb, &destroy), E_INVALIDARG);
  });
}

TEST_F(UmdTest, WrongRendersAreRefused) {
  DXGKIT_COVERS("UMD-01", "UMD-07");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    struct Row {
      const char* sentence;
      HRESULT result;
      std::function<void(D3DDDICB_RENDER&)> broken;
    };
    const Row rows[] = {
        {"no context", E_INVALIDARG, [](D3DDDICB_RENDER& args) { args.hContext = nullptr; }},
        {"a handle that only ends like one", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) {
           args.hContext =
               as_handle(reinterpret_cast<uintptr_t>(args.hContext) | uintptr_t{1} << 32);
         }},
        {"a broadcast to nothing", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) { args.BroadcastContextCount = 1; }},
        {"a broadcast handle that only ends like one", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) {
           args.BroadcastContextCount = 1;
           args.BroadcastContext[0] =
               as_handle(reinterpret_cast<uintptr_t>(args.hContext) | uintptr_t{1} << 32);
         }},
        {"more broadcasts than there is room for", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) { args.BroadcastContextCount = 65; }},
        {"RenderKm of D3DKMT, which is reserved here", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) { args.Flags.Value = 1U << 5; }},
        {"more commands than the buffer has", E_INVALIDARG,
         [](D3DDDICB_RENDER& args) { args.CommandLength = 1U << 30; }},
        {"a bad allocation in the list", D3DDDIERR_INVALIDHANDLE,
         [&](D3DDDICB_RENDER& args) {
           context.pAllocationList[0] = {};
           context.pAllocationList[0].hAllocation = 0x7FFFFFFF;
           args.NumAllocations = 1;
         }},
    };
    for (const Row& row : rows) {
      SCOPED_TRACE(row.sentence);
      D3DDDICB_RENDER args{};
      args.hContext = context.hContext;
      args.CommandLength = 64;
      row.broken(args);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(driver.call(driver.table().pfnRenderCb, &args), row.result);
      EXPECT_EQ(digest(stack, {&client}), before);
    }
  });
}

TEST_F(UmdTest, AnOlderDriversStructuresAreNotOverrun) {
  DXGKIT_COVERS("UMD-04");
  with_client([](Stack&, Client& client) {
    UserDriver driver(client, D3D_UMD_INTERFACE_VERSION_VISTA);
    EXPECT_EQ(driver.table().pfnOfferAllocationsCb, nullptr) << "of Windows 8";
    // 88 and 600 bytes as that driver was compiled.
    union {
      D3DDDICB_CREATECONTEXT args;
      std::array<std::byte, sizeof(D3DDDICB_CREATECONTEXT)> bytes;
    } context{};
    std::fill(context.bytes.begin() + 88, context.bytes.end(), kUntouched);
    ASSERT_EQ(driver.call(driver.table().pfnCreateContextCb, &context.args), S_OK);
    EXPECT_NE(context.args.hContext, nullptr);
    EXPECT_TRUE(std::all_of(context.bytes.begin() + 88, context.bytes.end(),
                            [](std::byte byte) { return byte == kUntouched; }));
    union {
      D3DDDICB_RENDER args;
      std::array<std::byte, sizeof(D3DDDICB_RENDER)> bytes;
    } render{};
    std::fill(render.bytes.begin() + 600, render.bytes.end(), kUntouched);
    render.args.hContext = context.args.hContext;
    render.args.CommandLength = 64;
    // Taken for the private data of a later version, these bytes would be a wild pointer.
    ASSERT_EQ(driver.call(driver.table().pfnRenderCb, &render.args), S_OK);
    EXPECT_NE(render.args.pNewCommandBuffer, nullptr);
    EXPECT_TRUE(std::all_of(render.bytes.begin() + 600, render.bytes.end(),
                            [](std::byte byte) { return byte == kUntouched; }));
  });
}

TEST_F(UmdTest, TheCpuReachesAnAllocationWhenTheGpuIsThroughWithIt) {
  DXGKIT_COVERS("UMD-02");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    ScriptedAllocation seen{};
    seen.size = 16 * kKibibyte;
    seen.supported_read = seen.supported_write = 1;
    seen.flags = 1;  // CpuVisible
    const D3DKMT_HANDLE handle = driver.make_allocation(nullptr, seen);
    D3DDDICB_LOCK2 lock2{};
    lock2.hAllocation = handle;
    ASSERT_EQ(driver.waiting(driver.table().pfnLock2Cb, &lock2), S_OK);
    std::memset(lock2.pData, 0x77, 64);
    const D3DDDICB_UNLOCK2 unlock2{.hAllocation = handle};
    EXPECT_EQ(driver.call(driver.table().pfnUnlock2Cb, &unlock2), S_OK);
    EXPECT_EQ(driver.call(driver.table().pfnUnlock2Cb, &unlock2), E_INVALIDARG);
    const D3DDDICB_INVALIDATECACHE inside{.hAllocation = handle, .Offset = 0, .Length = 64};
    EXPECT_EQ(driver.call(driver.table().pfnInvalidateCacheCb, &inside), S_OK);
    const D3DDDICB_INVALIDATECACHE outside{
        .hAllocation = handle, .Offset = 0, .Length = seen.size + 1};
    EXPECT_EQ(driver.call(driver.table().pfnInvalidateCacheCb, &outside), E_INVALIDARG);

    // Work on hardware: a lock that may not wait says so.
    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    context.pAllocationList[0] = {};
    context.pAllocationList[0].hAllocation = handle;
    context.pAllocationList[0].WriteOperation = 1;
    context.pPatchLocationList[0] = patch_at(0, 0);
    D3DDDICB_RENDER render{};
    render.hContext = context.hContext;
    render.CommandLength = 64;
    render.NumAllocations = render.NumPatchLocations = 1;
    ASSERT_EQ(driver.call(driver.table().pfnRenderCb, &render), S_OK);
    stack.settle();
    D3DDDICB_LOCK lock{};
    lock.hAllocation = handle;
    lock.Flags.LockEntire = 1;
    lock.Flags.DonotWait = 1;
    EXPECT_EQ(driver.call(driver.table().pfnLockCb, &lock), D3DDDIERR_WASSTILLDRAWING);
    EXPECT_EQ(lock.pData, nullptr);
    lock.Flags.DonotWait = 0;
    ASSERT_EQ(driver.waiting(driver.table().pfnLockCb, &lock), S_OK);
    EXPECT_EQ(lock.hAllocation, handle);
    EXPECT_NE(lock.pData, nullptr);
    const D3DDDICB_UNLOCK unlock{.NumAllocations = 1, .phAllocations = &handle};
    EXPECT_EQ(driver.call(driver.table().pfnUnlockCb, &unlock), S_OK);
    EXPECT_EQ(driver.call(driver.table().pfnUnlockCb, &unlock), E_INVALIDARG);
    lock.Flags.ReadOnly = lock.Flags.WriteOnly = 1;
    EXPECT_EQ(driver.call(driver.table().pfnLockCb, &lock), E_INVALIDARG);
  });
}

TEST_F(UmdTest, OldSynchronizationObjectsOrderContexts) {
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT create{};
    create.Info.Type = D3DDDI_SEMAPHORE;
    create.Info.Semaphore.MaxCount = 2;
    ASSERT_EQ(driver.call(driver.table().pfnCreateSynchronizationObjectCb, &create), S_OK);
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 create2{};
    create2.Info.Type = D3DDDI_FENCE;
    create2.Info.Fence.FenceValue = 5;
    ASSERT_EQ(driver.call(driver.table().pfnCreateSynchronizationObject2Cb, &create2), S_OK);

    // Work waits for the semaphore, which only the other context signals.
    const D3DDDICB_CREATECONTEXT other = driver.make_context();
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT wait{};
    wait.hContext = context.hContext;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray[0] = create.hSyncObject;
    ASSERT_EQ(driver.call(driver.table().pfnWaitForSynchronizationObjectCb, &wait), S_OK);
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2 wait2{};
    wait2.hContext = context.hContext;
    wait2.ObjectCount = 1;
    wait2.ObjectHandleArray[0] = create2.hSyncObject;
    wait2.FenceValue = 6;
    ASSERT_EQ(driver.call(driver.table().pfnWaitForSynchronizationObject2Cb, &wait2), S_OK);
    D3DDDICB_RENDER render{};
    render.hContext = context.hContext;
    render.CommandLength = 64;
    ASSERT_EQ(driver.call(driver.table().pfnRenderCb, &render), S_OK);
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().submits.size(), 0U) << "it waits for both";
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT signal{};
    signal.hContext = other.hContext;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray[0] = create.hSyncObject;
    EXPECT_EQ(driver.call(driver.table().pfnSignalSynchronizationObjectCb, &signal), S_OK);
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().submits.size(), 0U) << "it waits for the fence";
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2 signal2{};
    signal2.hContext = other.hContext;
    signal2.ObjectCount = 1;
    signal2.ObjectHandleArray[0] = create2.hSyncObject;
    signal2.FenceValue = 6;
    EXPECT_EQ(driver.call(driver.table().pfnSignalSynchronizationObject2Cb, &signal2), S_OK);
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().submits.size(), 1U);

    signal2.BroadcastContextCount = 1;
    signal2.BroadcastContext[0] = as_handle(uintptr_t{1} << 40);
    EXPECT_EQ(driver.call(driver.table().pfnSignalSynchronizationObject2Cb, &signal2),
              E_INVALIDARG);
    wait.ObjectHandleArray[0] = 0;
    EXPECT_EQ(driver.call(driver.table().pfnWaitForSynchronizationObjectCb, &wait), E_INVALIDARG);
    const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = create.hSyncObject};
    EXPECT_EQ(driver.call(driver.table().pfnDestroySynchronizationObjectCb, &destroy), S_OK);
    EXPECT_EQ(driver.call(driver.table().pfnDestroySynchronizationObjectCb, &destroy),
              E_INVALIDARG);
  });
}

TEST_F(UmdTest, TheAdapterAnswersAndEscapesReachTheKernelHalf) {
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
      if (args->Type != DXGKQAITYPE_UMDRIVERPRIVATE)
        return stack.miniport.default_query_adapter_info(args);
      std::memset(args->pOutputData, 0x31, args->OutputDataSize);
      return STATUS_SUCCESS;
    };
    std::array<char, 16> data{};
    const D3DDDICB_QUERYADAPTERINFO query{.pPrivateDriverData = data.data(),
                                          .PrivateDriverDataSize = data.size()};
    EXPECT_EQ(driver.ask(driver.adapter.callbacks().pfnQueryAdapterInfoCb, &query), S_OK);
    EXPECT_EQ(data.back(), 0x31);
    data.fill(0);
    D3DDDICB_QUERYADAPTERINFO2 query2{};
    query2.QueryType = D3DDDI_QUERYADAPTERTYPE_DRIVERPRIVATE;
    query2.pPrivateDriverData = data.data();
    query2.PrivateDriverDataSize = data.size();
    EXPECT_EQ(driver.ask(driver.adapter.callbacks().pfnQueryAdapterInfoCb2, &query2), S_OK);
    EXPECT_EQ(data.front(), 0x31);
    query2.QueryType = static_cast<D3DDDI_QUERYADAPTERTYPE>(7);
    EXPECT_EQ(driver.ask(driver.adapter.callbacks().pfnQueryAdapterInfoCb2, &query2), E_INVALIDARG);

    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    std::vector<std::pair<HANDLE, HANDLE>> escapes;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE* args) {
      escapes.emplace_back(args->hDevice, args->hContext);
      static_cast<char*>(args->pPrivateDriverData)[0] = 0x55;
      return STATUS_SUCCESS;
    };
    D3DDDICB_ESCAPE escape{};
    escape.pPrivateDriverData = data.data();
    escape.PrivateDriverDataSize = data.size();
    EXPECT_EQ(driver.ask(driver.table().pfnEscapeCb, &escape), S_OK);
    EXPECT_EQ(data.front(), 0x55);
    escape.hDevice = driver.handle();
    escape.hContext = context.hContext;
    EXPECT_EQ(driver.ask(driver.table().pfnEscapeCb, &escape), S_OK);
    ASSERT_EQ(escapes.size(), 2U);
    EXPECT_EQ(escapes[0].first, nullptr);
    EXPECT_NE(escapes[1].first, nullptr);
    EXPECT_NE(escapes[1].second, nullptr);
    // The device of another adapter object, and a context without its device.
    umd::RuntimeAdapter same(client.adapter, D3D_UMD_INTERFACE_VERSION);
    umd::RuntimeDevice elsewhere(same, client.device);
    escape.hDevice = elsewhere.handle();
    EXPECT_EQ(driver.ask(driver.table().pfnEscapeCb, &escape), E_INVALIDARG);
    escape.hDevice = as_handle(client.device);
    EXPECT_EQ(driver.ask(driver.table().pfnEscapeCb, &escape), E_INVALIDARG);
    EXPECT_EQ(escapes.size(), 2U);
    stack.miniport.hooks = {};
  });
}

TEST_F(UmdTest, AStoppedAdapterIsADeviceRemoved) {
  DXGKIT_COVERS("UMD-02");
  with_client([](Stack& stack, Client& client) {
    UserDriver driver(client);
    const D3DKMT_HANDLE handle = driver.make_allocation();
    const D3DDDICB_CREATECONTEXT context = driver.make_context();
    stack.blocking([&] { ASSERT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    D3DKMT_HANDLE made = 0;
    EXPECT_EQ(driver.allocate(&made), D3DDDIERR_DEVICEREMOVED);
    D3DDDICB_RENDER render{};
    render.hContext = context.hContext;
    render.CommandLength = 64;
    EXPECT_EQ(driver.call(driver.table().pfnRenderCb, &render), D3DDDIERR_DEVICEREMOVED);
    D3DDDICB_LOCK2 lock{};
    lock.hAllocation = handle;
    EXPECT_EQ(driver.call(driver.table().pfnLock2Cb, &lock), D3DDDIERR_DEVICEREMOVED);
    D3DDDICB_OFFERALLOCATIONS offer{};
    offer.HandleList = &handle;
    offer.NumAllocations = 1;
    offer.Priority = D3DDDI_OFFER_PRIORITY_LOW;
    EXPECT_EQ(driver.call(driver.table().pfnOfferAllocationsCb, &offer), D3DDDIERR_DEVICEREMOVED);
    // What was made can still be given back.
    D3DDDICB_DEALLOCATE deallocate{};
    deallocate.HandleList = &handle;
    deallocate.NumAllocations = 1;
    EXPECT_EQ(driver.call(driver.table().pfnDeallocateCb, &deallocate), S_OK);
    const D3DDDICB_DESTROYCONTEXT destroy{.hContext = context.hContext};
    EXPECT_EQ(driver.call(driver.table().pfnDestroyContextCb, &destroy), S_OK);
  });
}

}  // namespace
}  // namespace dxgkit::contract
