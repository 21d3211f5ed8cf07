// The callbacks of a user-mode driver with explicit residency, GPU virtual addresses and hardware
// queues, and its presents.
#include "tests/contract/flip_fixture.h"
#include "tests/contract/hw_fixture.h"
#include "tests/contract/umd_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgkit::testing::gpu_commands;
using UmdVaTest = GpuVaTest;
using UmdResidencyTest = ContractTest;
using UmdHwTest = HwTest;
using UmdFlipTest = FlipTest;

/// E_PENDING and S_OK say whether a fence is to be waited for, which the call has written.
void expect_done(HRESULT result, const UINT64& fence) {
  EXPECT_TRUE(result == S_OK || result == E_PENDING) << std::hex << result;
  EXPECT_EQ(result == E_PENDING, fence != 0);
}

TEST_F(UmdVaTest, ResidencyAnswersPendingUntilThePagingFenceIsReached) {
  DXGKIT_COVERS("UMD-02");
  running([](GpuVaStack& stack) {
    Client client(stack);
    UserDriver driver(client);
    const D3DDDI_DEVICECALLBACKS& table = driver.table();
    D3DDDICB_CREATEPAGINGQUEUE queue{};
    ASSERT_EQ(driver.call(table.pfnCreatePagingQueueCb, &queue), S_OK);
    ASSERT_NE(queue.hPagingQueue, 0U);
    ASSERT_NE(queue.FenceValueCPUVirtualAddress, nullptr);
    const auto reached = [&] {
      return *static_cast<const volatile UINT64*>(queue.FenceValueCPUVirtualAddress);
    };
    ScriptedAllocation described{};
    described.size = 4 * kPage;
    described.supported_read = described.supported_write = kMemorySet;
    const D3DKMT_HANDLE memory = driver.make_allocation(nullptr, described);

    D3DDDI_MAKERESIDENT resident{};
    resident.hPagingQueue = queue.hPagingQueue;
    resident.NumAllocations = 1;
    resident.AllocationList = &memory;
    ASSERT_EQ(driver.call(table.pfnMakeResidentCb, &resident), E_PENDING);
    EXPECT_LT(reached(), resident.PagingFenceValue);
    stack.drive();
    EXPECT_GE(reached(), resident.PagingFenceValue);
    resident.NumAllocations = 1;
    EXPECT_EQ(driver.call(table.pfnMakeResidentCb, &resident), S_OK) << "once more, it is there";
    D3DDDICB_EVICT evict{};
    evict.NumAllocations = 1;
    evict.AllocationList = &memory;
    EXPECT_EQ(driver.call(table.pfnEvictCb, &evict), S_OK);
    EXPECT_EQ(driver.call(table.pfnEvictCb, &evict), S_OK);
    EXPECT_EQ(driver.call(table.pfnEvictCb, &evict), E_INVALIDARG) << "more often than listed";

    // An offered allocation that was listed comes back through the queue.
    resident.NumAllocations = 1;
    expect_done(driver.call(table.pfnMakeResidentCb, &resident), resident.PagingFenceValue);
    stack.drive();
    D3DDDICB_OFFERALLOCATIONS2 offer{};
    offer.HandleList = &memory;
    offer.NumAllocations = 1;
    offer.Priority = D3DDDI_OFFER_PRIORITY_LOW;
    BOOL discarded = 77;
    D3DDDI_RECLAIM_RESULT outcome = D3DDDI_RECLAIM_RESULT_NOT_COMMITTED;
    D3DDDICB_RECLAIMALLOCATIONS2 reclaim2{};
    reclaim2.PagingQueue = queue.hPagingQueue;
    reclaim2.HandleList = &memory;
    reclaim2.NumAllocations = 1;
    reclaim2.pDiscarded = &discarded;
    ASSERT_EQ(driver.call(table.pfnOfferAllocations2Cb, &offer), S_OK);
    expect_done(driver.call(table.pfnReclaimAllocations2Cb, &reclaim2), reclaim2.PagingFenceValue);
    EXPECT_EQ(discarded, FALSE);
    stack.drive();
    D3DDDICB_RECLAIMALLOCATIONS3 reclaim3{};
    reclaim3.PagingQueue = queue.hPagingQueue;
    reclaim3.HandleList = &memory;
    reclaim3.NumAllocations = 1;
    reclaim3.pResults = &outcome;
    ASSERT_EQ(driver.call(table.pfnOfferAllocations2Cb, &offer), S_OK);
    expect_done(driver.call(table.pfnReclaimAllocations3Cb, &reclaim3), reclaim3.PagingFenceValue);
    EXPECT_EQ(outcome, D3DDDI_RECLAIM_RESULT_OK);
    stack.drive();
    reclaim3.PagingQueue = memory;
    EXPECT_EQ(driver.call(table.pfnReclaimAllocations3Cb, &reclaim3), E_INVALIDARG);

    const D3DDDI_DESTROYPAGINGQUEUE destroy{.hPagingQueue = queue.hPagingQueue};
    EXPECT_EQ(driver.waiting(table.pfnDestroyPagingQueueCb, &destroy), S_OK);
    EXPECT_EQ(driver.call(table.pfnDestroyPagingQueueCb, &destroy), E_INVALIDARG);
    EXPECT_EQ(driver.call(table.pfnMakeResidentCb, &resident), E_INVALIDARG);
  });
}

TEST_F(UmdResidencyTest, MoreThanFitsIsOutOfMemoryAndNothingIsListed) {
  DXGKIT_COVERS("UMD-02");
  running(
      [](Stack& stack) {
        Client client(stack);
        UserDriver driver(client);
        D3DDDICB_CREATEPAGINGQUEUE queue{};
        ASSERT_EQ(driver.call(driver.table().pfnCreatePagingQueueCb, &queue), S_OK);
        // Each fits alone, all together do not.
        ScriptedAllocation half{};
        half.size = kMemoryUnits / 2 * kUnit;
        half.supported_read = half.supported_write = kMemorySet;
        std::vector<D3DKMT_HANDLE> all;
        for (int i = 0; i < 3; ++i) all.push_back(driver.make_allocation(nullptr, half));
        D3DDDI_MAKERESIDENT resident{};
        resident.hPagingQueue = queue.hPagingQueue;
        resident.NumAllocations = static_cast<UINT>(all.size());
        resident.AllocationList = all.data();
        EXPECT_EQ(driver.call(driver.table().pfnMakeResidentCb, &resident), E_OUTOFMEMORY);
        EXPECT_NE(resident.NumBytesToTrim, 0U);
        D3DDDICB_EVICT evict{};
        evict.NumAllocations = 1;
        evict.AllocationList = all.data();
        EXPECT_EQ(driver.call(driver.table().pfnEvictCb, &evict), E_INVALIDARG);
        resident.NumAllocations = 2;
        resident.AllocationList = all.data();
        EXPECT_EQ(driver.call(driver.table().pfnMakeResidentCb, &resident), E_PENDING);
        stack.drive();
      },
      explicit_residency);
}

TEST_F(UmdVaTest, AddressesAreReservedMappedUpdatedAndFreed) {
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    UserDriver driver(client);
    const D3DDDI_DEVICECALLBACKS& table = driver.table();
    const D3DKMT_HANDLE memory = client.make_allocation(4 * kPage, kMemorySet);
    client.list({memory});
    stack.drive();
    D3DDDI_RESERVEGPUVIRTUALADDRESS reserve{};
    reserve.hPagingQueue = client.queue.handle;
    reserve.Size = 64 * kKibibyte;
    reserve.ReservationType = D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS;
    const HRESULT reserved = driver.call(table.pfnReserveGpuVirtualAddressCb, &reserve);
    EXPECT_TRUE(reserved == S_OK || reserved == E_PENDING);
    ASSERT_NE(reserve.VirtualAddress, 0U);
    stack.drive();
    D3DDDI_MAPGPUVIRTUALADDRESS map = client.map_args(memory, 4, reserve.VirtualAddress);
    ASSERT_EQ(driver.call(table.pfnMapGpuVirtualAddressCb, &map), E_PENDING);
    EXPECT_EQ(map.VirtualAddress, reserve.VirtualAddress);
    stack.drive();
    EXPECT_TRUE(client.walk(map.VirtualAddress).valid);

    // An update is work of a context: it waits for the fence and signals the value after.
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 fence{};
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    ASSERT_EQ(driver.call(table.pfnCreateSynchronizationObject2Cb, &fence), S_OK);
    EXPECT_NE(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress, nullptr);
    UpdateOperation operation = unmap_op(map.VirtualAddress, kPage);
    D3DDDICB_UPDATEGPUVIRTUALADDRESS update{};
    update.hContext = as_handle(client.context);
    update.hFenceObject = fence.hSyncObject;
    update.NumOperations = 1;
    update.Operations = &operation;
    update.Flags.DoNotWait = 1;
    EXPECT_EQ(driver.call(table.pfnUpdateGpuVirtualAddressCb, &update), S_OK);
    stack.drive();
    EXPECT_FALSE(client.walk(map.VirtualAddress).valid);
    EXPECT_TRUE(client.walk(map.VirtualAddress + kPage).valid);
    update.hContext = as_handle(uintptr_t{1} << 33);
    EXPECT_EQ(driver.call(table.pfnUpdateGpuVirtualAddressCb, &update), E_INVALIDARG);

    const D3DDDICB_FREEGPUVIRTUALADDRESS free{.BaseAddress = reserve.VirtualAddress,
                                              .Size = 64 * kKibibyte};
    EXPECT_EQ(driver.waiting(table.pfnFreeGpuVirtualAddressCb, &free), S_OK);
    EXPECT_FALSE(client.walk(map.VirtualAddress + kPage).valid);
    EXPECT_EQ(driver.waiting(table.pfnFreeGpuVirtualAddressCb, &free), E_INVALIDARG);
    map.hAllocation = 0x7FFFFFFF;
    EXPECT_EQ(driver.call(table.pfnMapGpuVirtualAddressCb, &map), E_INVALIDARG);
  });
}

TEST_F(UmdVaTest, CommandsRunOnAVirtualContextBehindItsFences) {
  DXGKIT_COVERS("UMD-07");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    UserDriver driver(client);
    const D3DDDI_DEVICECALLBACKS& table = driver.table();
    D3DDDICB_CREATECONTEXTVIRTUAL context{};
    HRESULT made = driver.waiting(table.pfnCreateContextVirtualCb, &context);
    ASSERT_EQ(made, S_OK);
    const D3DKMT_HANDLE memory = client.make_allocation(4 * kPage, kMemorySet);
    client.list({memory});
    stack.drive();
    const uint64_t va = client.make_mapping(memory, 4);
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 fence{};
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    ASSERT_EQ(driver.call(table.pfnCreateSynchronizationObject2Cb, &fence), S_OK);
    const auto value = [&] {
      return *static_cast<const volatile UINT64*>(
          fence.Info.MonitoredFence.FenceValueCPUVirtualAddress);
    };
    ASSERT_TRUE(stack.gpu.write(client.process_handle(), va,
                                gpu_commands({GpuCommand::write(va + kPage, 7)})));
    UINT64 wanted = 1;
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = context.hContext;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence.hSyncObject;
    wait.MonitoredFenceValueArray = &wanted;
    ASSERT_EQ(driver.call(table.pfnWaitForSynchronizationObjectFromGpuCb, &wait), S_OK);
    D3DDDICB_SUBMITCOMMAND submit{};
    submit.Commands = va;
    submit.CommandLength = sizeof(GpuCommand);
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = context.hContext;
    ASSERT_EQ(driver.call(table.pfnSubmitCommandCb, &submit), S_OK);
    UINT64 next = 2;
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal{};
    signal.hContext = context.hContext;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence.hSyncObject;
    signal.MonitoredFenceValueArray = &next;
    ASSERT_EQ(driver.call(table.pfnSignalSynchronizationObjectFromGpuCb, &signal), S_OK);
    stack.drive();
    EXPECT_EQ(value(), 0U) << "the context waits";
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU from_cpu{};
    from_cpu.ObjectCount = 1;
    from_cpu.ObjectHandleArray = &fence.hSyncObject;
    from_cpu.FenceValueArray = &wanted;
    ASSERT_EQ(driver.call(table.pfnSignalSynchronizationObjectFromCpuCb, &from_cpu), S_OK);
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait_cpu{};
    wait_cpu.ObjectCount = 1;
    wait_cpu.ObjectHandleArray = &fence.hSyncObject;
    wait_cpu.FenceValueArray = &next;
    EXPECT_EQ(driver.waiting(table.pfnWaitForSynchronizationObjectFromCpuCb, &wait_cpu), S_OK);
    EXPECT_EQ(value(), 2U);
    UINT64 last = 3;
    const HANDLE contexts[] = {context.hContext};
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 signal2{};
    signal2.ObjectCount = 1;
    signal2.ObjectHandleArray = &fence.hSyncObject;
    signal2.BroadcastContextCount = 1;
    signal2.BroadcastContextArray = contexts;
    signal2.MonitoredFenceValueArray = &last;
    ASSERT_EQ(driver.call(table.pfnSignalSynchronizationObjectFromGpu2Cb, &signal2), S_OK);
    stack.drive();
    EXPECT_EQ(value(), 3U);

    struct Row {
      const char* sentence;
      HRESULT result;
      std::function<void(D3DDDICB_SUBMITCOMMAND&)> broken;
    };
    const Row rows[] = {
        {"no context", E_INVALIDARG,
         [](D3DDDICB_SUBMITCOMMAND& args) { args.BroadcastContextCount = 0; }},
        {"more contexts than there is room for", E_INVALIDARG,
         [](D3DDDICB_SUBMITCOMMAND& args) { args.BroadcastContextCount = 65; }},
        {"a handle that only ends like one", E_INVALIDARG,
         [](D3DDDICB_SUBMITCOMMAND& args) {
           args.BroadcastContext[0] = as_handle(
               reinterpret_cast<uintptr_t>(args.BroadcastContext[0]) | uintptr_t{1} << 32);
         }},
        {"PresentRedirected of D3DKMT, which is reserved here", E_INVALIDARG,
         [](D3DDDICB_SUBMITCOMMAND& args) { args.Flags.Value = 2; }},
        {"history buffers", D3DDDIERR_NOTAVAILABLE,
         [](D3DDDICB_SUBMITCOMMAND& args) { args.NumHistoryBuffers = 1; }},
        {"more primaries than there is room for", E_INVALIDARG,
         [](D3DDDICB_SUBMITCOMMAND& args) { args.NumPrimaries = 17; }},
    };
    for (const Row& row : rows) {
      SCOPED_TRACE(row.sentence);
      D3DDDICB_SUBMITCOMMAND args = submit;
      row.broken(args);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(driver.call(table.pfnSubmitCommandCb, &args), row.result);
      EXPECT_EQ(digest(stack, {&client}), before);
    }
    signal2.BroadcastContextArray = nowhere<const HANDLE>();
    EXPECT_EQ(driver.call(table.pfnSignalSynchronizationObjectFromGpu2Cb, &signal2), E_INVALIDARG);
    wait.hContext = as_handle(uintptr_t{1} << 40);
    EXPECT_EQ(driver.call(table.pfnWaitForSynchronizationObjectFromGpuCb, &wait), E_INVALIDARG);
  });
}

TEST_F(UmdHwTest, HardwareQueuesRunCommandsAndTheirFences) {
  running([](HwStack& stack) {
    HwClient client(stack);
    UserDriver driver(client);
    const D3DDDI_DEVICECALLBACKS& table = driver.table();
    D3DDDICB_CREATEHWCONTEXT context{};
    ASSERT_EQ(driver.waiting(table.pfnCreateHwContextCb, &context), S_OK);
    D3DDDICB_CREATEHWQUEUE queue{};
    queue.hHwContext = context.hHwContext;
    ASSERT_EQ(driver.waiting(table.pfnCreateHwQueueCb, &queue), S_OK);
    ASSERT_NE(queue.hHwQueue, nullptr);
    ASSERT_NE(queue.hHwQueueProgressFence, 0U);
    const auto progress = [&] {
      return *static_cast<const volatile UINT64*>(queue.HwQueueProgressFenceCPUVirtualAddress);
    };
    const D3DKMT_HANDLE fence = client.make_sync(D3DDDI_MONITORED_FENCE);
    UINT64 one = 1, two = 2;
    D3DDDICB_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait{};
    wait.hHwQueue = queue.hHwQueue;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &one;
    ASSERT_EQ(driver.call(table.pfnSubmitWaitForSyncObjectsToHwQueueCb, &wait), S_OK);
    client.write({GpuCommand::write(client.va + kPage, 7)});
    D3DDDICB_SUBMITCOMMANDTOHWQUEUE submit{};
    submit.hHwQueue = queue.hHwQueue;
    submit.HwQueueProgressFenceId = 1;
    submit.Commands = client.va;
    submit.CommandLength = sizeof(GpuCommand);
    ASSERT_EQ(driver.call(table.pfnSubmitCommandToHwQueueCb, &submit), S_OK);
    const HANDLE queues[] = {queue.hHwQueue};
    D3DDDICB_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal{};
    signal.BroadcastHwQueueCount = 1;
    signal.BroadcastHwQueueArray = queues;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = &two;
    ASSERT_EQ(driver.call(table.pfnSubmitSignalSyncObjectsToHwQueueCb, &signal), S_OK);
    stack.drive();
    EXPECT_EQ(progress(), 0U) << "the queue waits";
    ASSERT_EQ(client.signal_cpu(fence, 1), 0);
    stack.drive();
    EXPECT_EQ(progress(), 1U);
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait_cpu{};
    wait_cpu.ObjectCount = 1;
    wait_cpu.ObjectHandleArray = &fence;
    wait_cpu.FenceValueArray = &two;
    EXPECT_EQ(driver.waiting(table.pfnWaitForSynchronizationObjectFromCpuCb, &wait_cpu), S_OK);

    const Digest before = digest(stack, {&client});
    submit.Flags.Value = 1;
    EXPECT_EQ(driver.call(table.pfnSubmitCommandToHwQueueCb, &submit), E_INVALIDARG);
    submit.Flags.Value = 0;
    EXPECT_EQ(driver.call(table.pfnSubmitCommandToHwQueueCb, &submit), E_INVALIDARG)
        << "a progress value that it had";
    const HANDLE wild = as_handle(uintptr_t{1} << 35);
    submit.hHwQueue = wait.hHwQueue = wild;
    EXPECT_EQ(driver.call(table.pfnSubmitCommandToHwQueueCb, &submit), E_INVALIDARG);
    EXPECT_EQ(driver.call(table.pfnSubmitWaitForSyncObjectsToHwQueueCb, &wait), E_INVALIDARG);
    signal.BroadcastHwQueueArray = &wild;
    EXPECT_EQ(driver.call(table.pfnSubmitSignalSyncObjectsToHwQueueCb, &signal), E_INVALIDARG);
    signal.BroadcastHwQueueArray = queues;
    signal.Flags.EnqueueCpuEvent = 1;
    EXPECT_EQ(driver.call(table.pfnSubmitSignalSyncObjectsToHwQueueCb, &signal), E_INVALIDARG);
    D3DDDICB_CREATEHWQUEUE other{};
    other.hHwContext = wild;
    EXPECT_EQ(driver.call(table.pfnCreateHwQueueCb, &other), E_INVALIDARG);
    EXPECT_EQ(digest(stack, {&client}), before);

    const D3DDDICB_DESTROYHWQUEUE destroy_queue{.hHwQueue = queue.hHwQueue};
    EXPECT_EQ(driver.waiting(table.pfnDestroyHwQueueCb, &destroy_queue), S_OK);
    EXPECT_EQ(driver.call(table.pfnDestroyHwQueueCb, &destroy_queue), E_INVALIDARG);
    const D3DDDICB_DESTROYHWCONTEXT destroy_context{.hHwContext = context.hHwContext};
    EXPECT_EQ(driver.waiting(table.pfnDestroyHwContextCb, &destroy_context), S_OK);
    EXPECT_EQ(driver.call(table.pfnDestroyHwContextCb, &destroy_context), E_INVALIDARG);
  });
}

TEST_F(UmdFlipTest, APresentIsTheApplicationsWithTheDriversAllocations) {
  DXGKIT_COVERS("UMD-08");
  flipping([](Stack& stack, FlipDriver& kernel_half, FlipClient& client) {
    UserDriver driver(client);
    D3DDDICB_PRESENT present{};
    present.hContext = as_handle(client.context.handle);
    present.hSrcAllocation = client.primaries[1];
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), E_INVALIDARG)
        << "no application presents";
    EXPECT_EQ(digest(stack, {&client}), before);

    D3DKMT_PRESENT wanted{};
    wanted.Flags.Flip = 1;
    wanted.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
    wanted.hSource = client.primaries[2];  // the driver's choice counts
    driver.device.begin_present(wanted);
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), S_OK);
    driver.device.end_present();
    stack.drive();
    kernel_half.vsync();
    ASSERT_FALSE(kernel_half.addresses().empty());
    const uint64_t shown = kernel_half.last_address();
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), E_INVALIDARG) << "it is over";

    driver.device.begin_present(wanted);
    present.hSrcAllocation = client.primaries[2];
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), S_OK);
    stack.drive();
    kernel_half.vsync();
    EXPECT_NE(kernel_half.last_address(), shown);
    // The driver's own interval, a bad one.
    present.SyncIntervalOverrideValid = TRUE;
    present.SyncIntervalOverride = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(99);
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), E_INVALIDARG);
    present.SyncIntervalOverrideValid = FALSE;
    present.hContext = as_handle(uintptr_t{1} << 36);
    EXPECT_EQ(driver.call(driver.table().pfnPresentCb, &present), E_INVALIDARG);
    driver.device.end_present();
  });
}

TEST_F(UmdFlipTest, TheDisplayModeIsThatOfAPrimary) {
  flipping([](Stack&, FlipDriver& kernel_half, FlipClient& client) {
    UserDriver driver(client);
    D3DDDICB_SETDISPLAYMODE set{};
    set.hPrimaryAllocation = client.primaries[1];
    EXPECT_EQ(driver.waiting(driver.table().pfnSetDisplayModeCb, &set), S_OK);
    EXPECT_FALSE(kernel_half.addresses().empty());
    set.hPrimaryAllocation = client.make_allocation();
    EXPECT_EQ(driver.waiting(driver.table().pfnSetDisplayModeCb, &set), E_INVALIDARG);
  });
}

}  // namespace
}  // namespace dxgkit::contract
