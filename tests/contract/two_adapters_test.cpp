// Two adapters side by side: each driver hears of its own, and what is of one is nothing to the
// other.
#include "tests/contract/two_adapters.h"

namespace dxgkit::contract {
namespace {

using TwoAdaptersTest = ContractTest;

TEST_F(TwoAdaptersTest, EachDriverHearsOfItsOwnWork) {
  DXGKIT_COVERS("LIFE-06");
  with_client([](Stack& stack, Client& client) {
    SecondAdapter second(stack);
    const D3DKMT_HANDLE there = second.make_device(client);
    ContextBuffers here = client.make_context(), over_there;
    ASSERT_EQ(client.create_context(&over_there, 1, there), 0);
    const size_t before = stack.miniport.count("DxgkDdiSubmitCommand");
    for (int i = 0; i < 3; ++i) ASSERT_EQ(client.render(over_there, work_on({})), 0);
    stack.settle();
    EXPECT_EQ(second.miniport.count("DxgkDdiSubmitCommand"), 3U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), before);
    ASSERT_EQ(client.render(here, work_on({})), 0);
    stack.drive();
    EXPECT_EQ(second.miniport.count("DxgkDdiSubmitCommand"), 3U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiSubmitCommand"), before + 1);
    ASSERT_EQ(client.destroy_device(there), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// Objects and contexts of one adapter are not signalled, waited for or broadcast to on the other.
TEST_F(TwoAdaptersTest, SyncObjectsAreOfTheirAdapter) {
  DXGKIT_COVERS("SYNC-32", "SYNC-06", "SUB-35");
  with_client([](Stack& stack, Client& client) {
    SecondAdapter second(stack);
    const D3DKMT_HANDLE there = second.make_device(client);
    ContextBuffers here = client.make_context(), over_there;
    ASSERT_EQ(client.create_context(&over_there, 0, there), 0);
    const auto create = [&](D3DKMT_HANDLE device) {
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
      args.hDevice = device;
      args.Info.Type = D3DDDI_MONITORED_FENCE;
      EXPECT_EQ(client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); }), 0);
      return args.hSyncObject;
    };
    const D3DKMT_HANDLE mine = create(client.device), theirs = create(there);
    const Digest before = digest(stack, {&client});
    EXPECT_EQ(client.signal_cpu(theirs, 3), kInvalid);
    EXPECT_EQ(client.wait_cpu(theirs, 0), kInvalid);
    EXPECT_EQ(client.signal_gpu(here, theirs, 3), kInvalid);
    EXPECT_EQ(client.wait_gpu(here, theirs, 0), kInvalid);
    EXPECT_EQ(client.signal_gpu(over_there, mine, 3), kInvalid);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 both{};
    both.hContext = here.handle;
    both.BroadcastContextCount = 1;
    both.BroadcastContext[0] = over_there.handle;
    both.ObjectCount = 1;
    both.ObjectHandleArray[0] = mine;
    both.Fence.FenceValue = 3;
    EXPECT_EQ(client.call([&] { return D3DKMTSignalSynchronizationObject2(&both); }), kInvalid);
    D3DKMT_RENDER render{};
    render.hContext = here.handle;
    render.CommandLength = 16;
    render.BroadcastContextCount = 1;
    render.BroadcastContext[0] = over_there.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTRender(&render); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(client.wait_cpu(mine, 0), 0);
    ASSERT_EQ(client.destroy_device(there), 0);
  });
}

// A submission is its first context's adapter's: whether that runs is what the caller hears first.
TEST_F(TwoAdaptersTest, ASubmissionIsOfTheFirstContextsAdapter) {
  DXGKIT_COVERS("SUB-35", "THUNK-07");
  with_client([](Stack& stack, Client& client) {
    SecondAdapter second(stack);
    const D3DKMT_HANDLE there = second.make_device(client);
    ContextBuffers here = client.make_context(), over_there;
    ASSERT_EQ(client.create_context(&over_there, 0, there), 0);
    second.miniport.hooks.submit = [](const DXGKARG_SUBMITCOMMAND*) { return STATUS_UNSUCCESSFUL; };
    static_cast<void>(client.render(over_there, work_on({})));
    stack.settle();
    const auto submit = [&](const ContextBuffers& first, const ContextBuffers& last) {
      D3DKMT_SUBMITCOMMAND args{};
      args.BroadcastContextCount = 2;
      args.BroadcastContext[0] = first.handle;
      args.BroadcastContext[1] = last.handle;
      return client.call([&] { return D3DKMTSubmitCommand(&args); });
    };
    EXPECT_EQ(submit(here, over_there), kInvalid);
    EXPECT_EQ(submit(over_there, here), nt_status(Status::kDeviceRemoved)) << "it has failed";
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"SUB-27"});
    second.miniport.hooks = {};
  });
}

// A driver cannot make memory for a device of another adapter.
TEST_F(TwoAdaptersTest, ContextAllocationsAreOfDevicesOfTheAdapter) {
  DXGKIT_COVERS("RES-31");
  with_client([](Stack& stack, Client& client) {
    SecondAdapter second(stack);
    HANDLE kernel_device = nullptr;
    second.miniport.hooks.create_device = [&](DXGKARG_CREATEDEVICE* args) {
      kernel_device = args->hDevice;
      return second.miniport.default_create_device(args);
    };
    const D3DKMT_HANDLE there = second.make_device(client);
    ASSERT_NE(kernel_device, nullptr);
    NTSTATUS status = 0;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      DXGKARGCB_CREATECONTEXTALLOCATION args{};
      args.hAdapter = stack.miniport.callbacks().DeviceHandle;
      args.hDevice = kernel_device;
      args.hDriverAllocation = reinterpret_cast<HANDLE>(uint64_t{0xC0DE});
      args.ContextAllocationFlags.SharedAcrossContexts = 1;
      args.Size = 64 * kKibibyte;
      args.SupportedSegmentSet = 2;
      status = stack.miniport.callbacks().DxgkCbCreateContextAllocation(&args);
      return NTSTATUS{0};
    };
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    ASSERT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(status, kInvalid);
    EXPECT_EQ(stack.only_finding().rule, "RES-31");
    stack.miniport.hooks.escape = nullptr;
    second.miniport.hooks.create_device = nullptr;
    ASSERT_EQ(client.destroy_device(there), 0);
  });
}

// A resource of several adapters' processes is opened on the adapter that has it.
TEST_F(TwoAdaptersTest, AResourceIsOfItsAdapter) {
  DXGKIT_COVERS("ALLOC-25", "THUNK-05");
  with_client([](Stack& stack, Client& client) {
    SecondAdapter second(stack);
    D3DDDI_ALLOCATIONINFO2 info{};
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = client.device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation2(&create); }), 0);
    D3DDDI_OPENALLOCATIONINFO2 opened{};
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = second.make_device(client);
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &opened;
    const Digest before = digest(stack, {&client});
    const size_t calls = second.miniport.calls().order.size();
    EXPECT_EQ(client.call([&] { return D3DKMTOpenResource2(&open); }), kInvalid);
    EXPECT_EQ(open.hResource, 0U);
    EXPECT_EQ(opened.hAllocation, 0U);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(second.miniport.calls().order.size(), calls);
  });
}

// A driver is told of its own objects, by their own type, and holds allocations only.
TEST_F(TwoAdaptersTest, HandlesAreAnsweredByTheirOwnAdapter) {
  DXGKIT_COVERS("ALLOC-33", "ALLOC-32");
  with_client(
      [](Stack& stack, Client& client) {
        SecondAdapter second(stack);
        const D3DKMT_HANDLE there = second.make_device(client);
        const D3DKMT_HANDLE allocation = client.make_allocation();
        ScriptedAllocation description{.size = 4096, .supported_read = 1, .supported_write = 1};
        D3DDDI_ALLOCATIONINFO info{};
        info.pPrivateDriverData = &description;
        info.PrivateDriverDataSize = sizeof description;
        D3DKMT_CREATEALLOCATION create{};
        create.hDevice = there;
        create.NumAllocations = 1;
        create.pAllocationInfo = &info;
        create.Flags.CreateResource = 1;
        ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);

        const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
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
          for (const D3DKMT_HANDLE object : {info.hAllocation, create.hResource}) {
            for (const DXGK_HANDLE_TYPE type : {DXGK_HANDLE_ALLOCATION, DXGK_HANDLE_RESOURCE}) {
              for (const bool device_specific : {false, true}) {
                args.hObject = object;
                args.Type = type;
                args.Flags.DeviceSpecific = device_specific ? 1 : 0;
                EXPECT_EQ(callbacks.DxgkCbGetHandleData(&args), nullptr) << type;
                DXGKARG_RELEASE_HANDLE reference{};
                EXPECT_EQ(callbacks.DxgkCbAcquireHandleData(&args, &reference), nullptr) << type;
              }
            }
          }
          args.hObject = allocation;
          args.Type = DXGK_HANDLE_ALLOCATION;
          args.Flags.DeviceSpecific = 0;
          EXPECT_NE(callbacks.DxgkCbGetHandleData(&args), nullptr);
          EXPECT_EQ(callbacks.DxgkCbGetHandleParent(info.hAllocation), 0U);
          DXGKARGCB_ENUMHANDLECHILDREN children{};
          children.hObject = create.hResource;
          EXPECT_EQ(callbacks.DxgkCbEnumHandleChildren(&children), 0U);
        });
        // Its own: a resource and what is in it know each other; an allocation alone has no parent.
        ScriptedAllocation descriptions[2] = {description, description};
        D3DDDI_ALLOCATIONINFO members[2]{};
        for (size_t i = 0; i < 2; ++i) {
          members[i].pPrivateDriverData = &descriptions[i];
          members[i].PrivateDriverDataSize = sizeof descriptions[i];
        }
        create.hDevice = client.device;
        create.hResource = 0;
        create.NumAllocations = 2;
        create.pAllocationInfo = members;
        ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
        inside_the_driver([&] {
          EXPECT_EQ(callbacks.DxgkCbGetHandleParent(allocation), 0U);
          DXGKARGCB_ENUMHANDLECHILDREN children{};
          children.hObject = create.hResource;
          for (UINT i = 0; i < 2; ++i) {
            EXPECT_EQ(callbacks.DxgkCbGetHandleParent(members[i].hAllocation), create.hResource);
            children.Index = i;
            EXPECT_EQ(callbacks.DxgkCbEnumHandleChildren(&children), members[i].hAllocation);
          }
          children.Index = 2;
          EXPECT_EQ(callbacks.DxgkCbEnumHandleChildren(&children), 0U);
          children.Index = 0;
          children.hObject = allocation;
          EXPECT_EQ(callbacks.DxgkCbEnumHandleChildren(&children), 0U);
          EXPECT_EQ(callbacks.DxgkCbGetHandleParent(create.hResource), 0U);
          EXPECT_EQ(callbacks.DxgkCbGetHandleParent(client.device), 0U);
          EXPECT_EQ(callbacks.DxgkCbGetHandleParent(0), 0U);
        });
        ASSERT_EQ(client.destroy_device(there), 0);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

}  // namespace
}  // namespace dxgkit::contract
