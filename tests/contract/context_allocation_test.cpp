// Context allocations: where the GPU saves the state of contexts it switches away from.
#include <cstring>

#include "dxgk/power/power.h"
#include "dxgk/work/context_allocations.h"
#include "tests/contract/memory_fixture.h"

namespace dxgkit::contract {
namespace {

using ContextAllocation = ContractTest;

/// A driver that makes a context allocation for contexts, as told, from inside
/// DxgkDdiCreateContext.
class Saver {
 public:
  explicit Saver(Stack& stack) : stack_(stack) {
    stack.miniport.hooks.create_context = [this](void* device, DXGKARG_CREATECONTEXT* args) {
      if (args->Flags.SystemContext == 0) {
        kernel_context = args->hContext;
        if (wanted) {
          EXPECT_EQ(create(arguments()), 0);
        }
      }
      return stack_.miniport.default_create_context(device, args);
    };
    stack.miniport.hooks.create_device = [this](DXGKARG_CREATEDEVICE* args) {
      if (args->Flags.SystemDevice == 0) kernel_device = args->hDevice;
      return stack_.miniport.default_create_device(args);
    };
  }
  DXGKARGCB_CREATECONTEXTALLOCATION arguments() {
    DXGKARGCB_CREATECONTEXTALLOCATION args{};
    args.hAdapter = stack_.miniport.callbacks().DeviceHandle;
    args.hDevice = kernel_device;
    args.hContext = kernel_context;
    args.hDriverAllocation = reinterpret_cast<HANDLE>(++last_object_);
    args.Size = size;
    args.SupportedSegmentSet = segments;
    args.Flags.Value = flags;
    return args;
  }
  /// As the driver, wherever it is called from.
  NTSTATUS create(DXGKARGCB_CREATECONTEXTALLOCATION args) {
    NTSTATUS status = stack_.miniport.callbacks().DxgkCbCreateContextAllocation(&args);
    if (status == 0) handles.push_back(args.hAllocation);
    return status;
  }
  NTSTATUS destroy(HANDLE handle) {
    return stack_.miniport.callbacks().DxgkCbDestroyContextAllocation(
        stack_.miniport.callbacks().DeviceHandle, handle);
  }
  AllocationId id(size_t index) const {
    return AllocationId{reinterpret_cast<uint64_t>(handles.at(index))};
  }
  vidmm::Placement place(size_t index) {
    vidmm::Placement place;
    stack_.adapter().core().lane().run(
        [&] { place = stack_.adapter().core().memory().placement(id(index)); });
    return place;
  }
  uint32_t pins(size_t index) {
    uint32_t pins = 0;
    stack_.adapter().core().lane().run(
        [&] { pins = stack_.adapter().core().memory().pin_count(id(index)); });
    return pins;
  }
  bool exists(size_t index) {
    bool exists = false;
    stack_.adapter().core().lane().run(
        [&] { exists = stack_.adapter().core().memory().contains(id(index)); });
    return exists;
  }

  bool wanted = true;
  uint64_t size = 64 * kKibibyte;
  uint32_t segments = kHidden, flags = 0;
  HANDLE kernel_context = nullptr, kernel_device = nullptr;
  std::vector<HANDLE> handles;

 private:
  Stack& stack_;
  uint64_t last_object_ = 0xC0DE0000;
};

/// The driver's work on a thread of its own, for nobody: a callback from there is in no process.
void in_driver(Stack& stack, Client& client, const std::function<void()>& body) {
  stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
    body();
    return nt_status(Status::kSuccess);
  };
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = client.adapter;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), 0);
  stack.miniport.hooks.escape = nullptr;
}

Status evict_all(Stack& stack) {
  Status status = Status::kUnsuccessful;
  stack.blocking([&] { status = dxgk::Exercise::on(*stack.system, stack.luid)->evict_all(); });
  return status;
}

TEST_F(ContextAllocation, IsInitialisedAndResidentBeforeACommandOfItsContextEntersTheQueue) {
  DXGKIT_COVERS("RES-29", "PAGE-42");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(saver.handles.size(), 1U);
    EXPECT_EQ(saver.place(0).segment, kSystemMemory) << "nothing needs it yet";
    EXPECT_EQ(count(stack, DXGK_OPERATION_INIT_CONTEXT_RESOURCE), 0U);

    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.settle();
    const std::vector<testing::PagingCall> paging = stack.miniport.calls().paging;
    ASSERT_EQ(paging.size(), 1U);
    EXPECT_EQ(paging[0].args.Operation, DXGK_OPERATION_INIT_CONTEXT_RESOURCE);
    EXPECT_EQ(paging[0].args.InitContextResource.hAllocation, saver.handles[0]);
    EXPECT_EQ(paging[0].args.InitContextResource.Destination.VirtualAddress, nullptr);
    EXPECT_EQ(paging[0].args.InitContextResource.Destination.SegmentId, 2U);
    EXPECT_TRUE(stack.miniport.outstanding(0).empty()) << "not before it has been initialised";
    ASSERT_TRUE(stack.miniport.complete_next(1));
    stack.settle();
    EXPECT_EQ(stack.miniport.outstanding(0).size(), 1U);
    EXPECT_EQ(saver.place(0).segment, SegmentId{2});
    EXPECT_EQ(gpu.inits, 1U);
    stack.drive();
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ContextAllocation, TheCpuSeesWhatIsVisibleProtectedAndNeverInAMemorySegment) {
  DXGKIT_COVERS("PAGE-42");
  struct Row {
    uint32_t segments;
    bool visible, is_protected, seen;
  };
  for (const Row& row :
       {Row{kAperture, true, true, true}, Row{kAperture, true, false, false},
        Row{kAperture, false, true, false}, Row{kAperture | kHidden, true, true, false}}) {
    with_client([&](Stack& stack, Client& client) {
      MemoryGpu gpu(stack);
      Saver saver(stack);
      saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
      saver.wanted = false;
      ContextBuffers context = client.make_context(0);
      in_driver(stack, client, [&] {
        DXGKARGCB_CREATECONTEXTALLOCATION args = saver.arguments();
        args.SupportedSegmentSet = row.segments;
        args.PreferredSegment.SegmentId0 = 3;
        args.Flags.CpuVisible = row.visible ? 1 : 0;
        args.Flags.Protected = row.is_protected ? 1 : 0;
        EXPECT_EQ(saver.create(args), 0);
      });
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      const std::vector<testing::PagingCall> paging = stack.miniport.calls().paging;
      const auto init = std::ranges::find_if(paging, [](const testing::PagingCall& call) {
        return call.args.Operation == DXGK_OPERATION_INIT_CONTEXT_RESOURCE;
      });
      ASSERT_NE(init, paging.end());
      auto* const seen =
          static_cast<std::byte*>(init->args.InitContextResource.Destination.VirtualAddress);
      ASSERT_EQ(seen != nullptr, row.seen);
      if (!row.seen) return;
      for (uint64_t page = 0; page < saver.size / 4096; ++page) {
        seen[page * 4096 + 9] = static_cast<std::byte>(page + 1);
        EXPECT_EQ(*gpu.at(saver.place(0).gpu_address + page * 4096 + 9),
                  static_cast<std::byte>(page + 1));
      }
    });
  }
}

TEST_F(ContextAllocation, StaysUntilAnotherContextsCommandEntersTheSameQueue) {
  DXGKIT_COVERS("RES-29");
  with_client([](Stack& stack, Client& client) {
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    ContextBuffers saved = client.make_context(0);
    saver.wanted = false;
    ContextBuffers same_node = client.make_context(0);
    ContextBuffers other_node = client.make_context(1);
    ASSERT_EQ(client.render(saved, Work{}), 0);
    stack.drive();
    EXPECT_EQ(saver.pins(0), 1U) << "its packet has retired, its state is still on the GPU";
    ASSERT_EQ(client.render(other_node, Work{}), 0);
    stack.drive();
    EXPECT_EQ(saver.pins(0), 1U) << "another node switches nothing here";
    ASSERT_EQ(client.render(saved, Work{}), 0);
    stack.settle();
    EXPECT_EQ(saver.pins(0), 2U);
    ASSERT_EQ(client.render(same_node, Work{}), 0);
    stack.settle();
    EXPECT_EQ(saver.pins(0), 1U) << "the packet's own, which is still running";
    stack.drive();
    EXPECT_EQ(saver.pins(0), 0U);
  });
}

TEST_F(ContextAllocation, AnIdleNodeDoesNotKeepOthersFromMemoryForEver) {
  DXGKIT_COVERS("RES-29", "PAGE-42");
  for (const UINT node : {0U, 2U}) {
    with_client(
        [&](Stack& stack, Client& client) {
          MemoryGpu gpu(stack);
          Saver saver(stack);
          saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
          ContextBuffers saved = client.make_context(node);
          saver.wanted = false;
          ContextBuffers other = client.make_context(1);
          const D3DKMT_HANDLE all = client.make_allocation(256 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(saved, Work{}), 0);
          stack.settle();
          ASSERT_TRUE(stack.miniport.complete_next(1));  // its initialisation
          stack.settle();
          ASSERT_EQ(client.render(other, work_on({all})), 0);
          stack.settle();
          EXPECT_EQ(saver.place(0).segment, SegmentId{2}) << "its command is on hardware";
          EXPECT_TRUE(stack.miniport.outstanding(1).empty());
          stack.drive();
          EXPECT_EQ(saver.place(0).segment, kSystemMemory);
          EXPECT_EQ(stack.miniport.calls().submits.back().args.NodeOrdinal, 1U);
          EXPECT_EQ(gpu.transfers_out, 1U) << "what the GPU saved is content";
          // And back, without another initialisation.
          ASSERT_EQ(client.render(saved, Work{}), 0);
          stack.drive();
          EXPECT_EQ(saver.place(0).segment, SegmentId{2});
          EXPECT_EQ(gpu.inits, 1U);
          EXPECT_EQ(*gpu.at(saver.place(0).gpu_address), MemoryGpu::kInitial);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](ScriptedMiniport& miniport) {
          miniport.config.nodes = 3;
          miniport.config.segments[1].size = 256 * kKibibyte;
        });
  }
}

TEST_F(ContextAllocation, OfADeviceIsResidentForEachOfItsContextsAndForNoOthers) {
  DXGKIT_COVERS("RES-29");
  with_client([](Stack& stack, Client& client) {
    Saver saver(stack);
    saver.wanted = false;
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    in_driver(stack, client, [&] {
      DXGKARGCB_CREATECONTEXTALLOCATION args = saver.arguments();
      args.ContextAllocationFlags.SharedAcrossContexts = 1;
      args.hContext = nullptr;
      EXPECT_EQ(saver.create(args), 0);
    });
    ASSERT_EQ(saver.handles.size(), 1U);
    const D3DKMT_HANDLE other_device = client.make_device();
    ContextBuffers foreign;
    ASSERT_EQ(client.create_context(&foreign, 0, other_device), 0);
    ASSERT_EQ(client.render(foreign, Work{}), 0);
    stack.drive();
    EXPECT_EQ(saver.place(0).segment, kSystemMemory);
    for (const UINT node : {0U, 1U}) {
      ContextBuffers context = client.make_context(node);
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      EXPECT_EQ(saver.place(0).segment, SegmentId{2});
      EXPECT_GE(saver.pins(0), 1U);
      ASSERT_EQ(evict_all(stack), Status::kSuccess);
      EXPECT_EQ(saver.place(0).segment, kSystemMemory);
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      EXPECT_EQ(saver.place(0).segment, SegmentId{2}) << node;
    }
    EXPECT_EQ(count(stack, DXGK_OPERATION_INIT_CONTEXT_RESOURCE), 1U);
  });
}

// Behind a coherent aperture it is mapped as the driver asked for it.
TEST_F(ContextAllocation, IsMappedAsCachedWhereTheDriverSaysSo) {
  DXGKIT_COVERS("PAGE-42", "RES-29");
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached);
    with_client(
        [&](Stack& stack, Client& client) {
          Saver saver(stack);
          saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
          saver.segments = kAperture;
          saver.flags = cached ? 1U | 1U << 2 : 0;  // CpuVisible, Cached
          ContextBuffers context = client.make_context(0);
          ASSERT_EQ(saver.handles.size(), 1U);
          ASSERT_EQ(client.render(context, Work{}), 0);
          stack.drive();
          const auto maps = operations(stack, DXGK_OPERATION_MAP_APERTURE_SEGMENT);
          ASSERT_EQ(maps.size(), 1U);
          EXPECT_EQ(maps[0].args.MapApertureSegment.Flags.CacheCoherent, cached ? 1U : 0U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](ScriptedMiniport& miniport) { miniport.config.segments[2].flags.CacheCoherent = 1; });
  }
}

/// Content written by a GPU survives eviction and return, in memory segments and apertures.
void keeps_its_content(Stack& stack) {
  for (const uint32_t segments : {kHidden, kAperture}) {
    MemoryGpu gpu(stack);
    Client client(stack);
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    saver.segments = segments;
    ContextBuffers context = client.make_context(0);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      const vidmm::Placement place = saver.place(0);
      ASSERT_NE(place.segment, kSystemMemory);
      for (uint64_t page = 0; page < saver.size / 4096; ++page) {
        std::byte* const at = gpu.at(place.gpu_address + page * 4096);
        const int before = round == 0 ? (page == 0 ? 0xC7 : 0) : round * 16 + int(page) % 16;
        ASSERT_EQ(std::to_integer<int>(*at), before) << "round " << round << " page " << page;
        *at = static_cast<std::byte>((round + 1) * 16 + int(page) % 16);
      }
      ASSERT_EQ(evict_all(stack), Status::kSuccess);
      ASSERT_EQ(saver.place(0).segment, kSystemMemory);
    }
    EXPECT_EQ(gpu.inits, 1U);
    client.end();
    stack.miniport.hooks = {};
  }
  EXPECT_EQ(stack.rules(), std::vector<std::string>{});
}

TEST_F(ContextAllocation, KeepsItsContentThroughEvictions) {
  DXGKIT_COVERS("PAGE-42");
  running([](Stack& stack) { keeps_its_content(stack); });
}

TEST(ContextAllocationOnThreads, KeepsItsContentThroughEvictions) {
  DXGKIT_COVERS("PAGE-42");
  const auto runtime = runtime::make_os_runtime();
  runtime->run_main([] {
    Stack stack;
    stack.miniport.config.preemption_aware = false;  // nobody would answer where quanta end
    ASSERT_EQ(stack.start(), Status::kSuccess);
    keeps_its_content(stack);
  });
}

TEST_F(ContextAllocation, MemoryThatIsLostIsInitialisedAgain) {
  DXGKIT_COVERS("PAGE-42");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    stack.blocking([&] {
      EXPECT_EQ(dxgk::Exercise::on(*stack.system, stack.luid)->reset_losing_content(),
                Status::kSuccess);
    });
    EXPECT_EQ(saver.place(0).segment, kSystemMemory);
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    EXPECT_EQ(gpu.inits, 2U);
    EXPECT_EQ(gpu.transfers_in, 0U);
  });
}

TEST_F(ContextAllocation, WhatTheDriverDestroysGoesWhenNothingUsesIt) {
  DXGKIT_COVERS("RES-29", "RES-31");
  with_client([](Stack& stack, Client& client) {
    MemoryGpu gpu(stack);
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    ContextBuffers context = client.make_context(0);
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.settle();
    const uint64_t pages = stack.machine.free_page_count();
    ASSERT_TRUE(stack.miniport.complete_next(1));
    stack.settle();
    ASSERT_EQ(stack.miniport.outstanding(0).size(), 1U);
    stack.miniport.clear_calls();
    in_driver(stack, client, [&] { EXPECT_EQ(saver.destroy(saver.handles[0]), 0); });
    EXPECT_TRUE(saver.exists(0)) << "a packet is on hardware that saves into it";
    EXPECT_EQ(stack.machine.free_page_count(), pages);
    stack.drive();
    EXPECT_FALSE(saver.exists(0));
    EXPECT_EQ(stack.machine.free_page_count(), pages + 16);
    for (const testing::PagingCall& call : stack.miniport.calls().paging) {
      ASSERT_EQ(call.args.Operation, DXGK_OPERATION_DISCARD_CONTENT);
      EXPECT_EQ(call.args.DiscardContent.hAllocation, nullptr) << "the driver's object is gone";
    }
    // Its context works on without.
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    EXPECT_EQ(gpu.inits, 1U);
    // An idle one goes at once, and the driver hears of it by the name it gave.
    in_driver(stack, client, [&] { EXPECT_EQ(saver.create(saver.arguments()), 0); });
    ASSERT_EQ(client.render(context, Work{}), 0);
    stack.drive();
    stack.miniport.clear_calls();
    in_driver(stack, client, [&] { EXPECT_EQ(saver.destroy(saver.handles[1]), 0); });
    const std::vector<testing::PagingCall> last = stack.miniport.calls().paging;
    ASSERT_EQ(last.size(), 1U);
    EXPECT_EQ(last[0].args.Operation, DXGK_OPERATION_DISCARD_CONTENT);
    EXPECT_EQ(last[0].args.DiscardContent.hAllocation,
              reinterpret_cast<HANDLE>(uint64_t{0xC0DE0002}));
    stack.drive();
    EXPECT_FALSE(saver.exists(1));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(ContextAllocation, WhatIsLeftGoesWithItsContextOrDevice) {
  DXGKIT_COVERS("RES-29");
  running([](Stack& stack) {
    const uint64_t pages = stack.machine.free_page_count();
    {
      Client client(stack);
      Saver saver(stack);
      saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
      ContextBuffers context = client.make_context(0);
      in_driver(stack, client, [&] {
        DXGKARGCB_CREATECONTEXTALLOCATION args = saver.arguments();
        args.ContextAllocationFlags.SharedAcrossContexts = 1;
        args.hContext = nullptr;
        EXPECT_EQ(saver.create(args), 0);
      });
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      stack.blocking([&] { EXPECT_EQ(client.destroy_context(context.handle), 0); });
      stack.drive();
      EXPECT_FALSE(saver.exists(0));
      EXPECT_TRUE(saver.exists(1));
      stack.blocking([&] { EXPECT_EQ(client.destroy_device(client.device), 0); });
      stack.drive();
      EXPECT_FALSE(saver.exists(1));
      stack.miniport.hooks = {};
      client.end();
    }
    EXPECT_EQ(stack.machine.free_page_count(), pages);
    // A driver that fails after it has made one.
    Client client(stack);
    Saver saver(stack);
    saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
    stack.miniport.hooks.create_context = [&](void*, DXGKARG_CREATECONTEXT* args) {
      saver.kernel_context = args->hContext;
      EXPECT_EQ(saver.create(saver.arguments()), 0);
      return nt_status(Status::kNoMemory);
    };
    const size_t free = stack.machine.free_page_count();
    ContextBuffers none;
    EXPECT_EQ(client.create_context(&none), nt_status(Status::kNoMemory));
    stack.drive();
    EXPECT_FALSE(saver.exists(0));
    EXPECT_EQ(stack.machine.free_page_count(), free);
    stack.miniport.hooks = {};
  });
}

TEST_F(ContextAllocation, IsThereAgainAfterSleepAndItsDeviceIsLostWithItsContent) {
  DXGKIT_COVERS("PAGE-42");
  for (const bool fails : {false, true}) {
    with_client([&](Stack& stack, Client& client) {
      MemoryGpu gpu(stack);
      Saver saver(stack);
      saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
      ContextBuffers context = client.make_context(0);
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      *gpu.at(saver.place(0).gpu_address) = std::byte{0x42};
      if (fails) {
        stack.blocking([&] {
          EXPECT_EQ(stack.system->power_failed(stack.luid, dxgk::PowerTarget::kD3),
                    Status::kSuccess);
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
        });
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_RESET);
        return;
      }
      stack.blocking([&] {
        EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD3).has_value());
      });
      EXPECT_EQ(saver.place(0).segment, kSystemMemory);
      stack.blocking([&] {
        EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
      });
      ASSERT_EQ(client.render(context, Work{}), 0);
      stack.drive();
      EXPECT_EQ(gpu.inits, 1U);
      EXPECT_EQ(*gpu.at(saver.place(0).gpu_address), std::byte{0x42});
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
  }
}

TEST_F(ContextAllocation, WrongOnesAreRefusedAndNothingChanges) {
  DXGKIT_COVERS("RES-31");
  using Args = DXGKARGCB_CREATECONTEXTALLOCATION;
  struct Row {
    const char* what;
    std::function<void(Args&)> change;
    NTSTATUS status;
    const char* rule;  // null: none
  };
  const NTSTATUS kBad = nt_status(Status::kInvalidParameter);
  running(
      [&](Stack& stack) {
        Client client(stack);
        Client stranger(stack, "stranger");
        Saver saver(stack);
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        const auto as_handle = [](uint64_t value) { return reinterpret_cast<HANDLE>(value); };
        const D3DKMT_HANDLE second = client.make_device();
        saver.wanted = false;
        ContextBuffers other;
        ASSERT_EQ(client.create_context(&other, 0, second), 0);
        const HANDLE other_context = saver.kernel_context;
        static_cast<void>(client.make_context(0));
        saver.kernel_device = reinterpret_cast<HANDLE>(uint64_t{client.device});
        const std::vector<Row> rows = {
            {"no device", [](Args& a) { a.hDevice = nullptr; }, kBad, "RES-31"},
            {"no handle of a device", [&](Args& a) { a.hDevice = as_handle(0x123450); }, kBad,
             "RES-31"},
            {"more bits than a handle has",
             [&](Args& a) {
               a.hDevice = as_handle(reinterpret_cast<uint64_t>(a.hDevice) | 1ULL << 40);
             },
             kBad, "RES-31"},
            {"the context for the device", [](Args& a) { a.hDevice = a.hContext; }, kBad, "RES-31"},
            {"no context", [](Args& a) { a.hContext = nullptr; }, kBad, "RES-31"},
            {"another device's context", [&](Args& a) { a.hContext = other_context; }, kBad,
             "RES-31"},
            {"a context beside SharedAcrossContexts",
             [](Args& a) { a.ContextAllocationFlags.SharedAcrossContexts = 1; }, kBad, "RES-31"},
            {"reserved flags", [](Args& a) { a.ContextAllocationFlags.Value = 4; }, kBad, "RES-31"},
            {"no driver object", [](Args& a) { a.hDriverAllocation = nullptr; }, kBad, "RES-31"},
            {"a second physical adapter", [](Args& a) { a.PhysicalAdapterIndex = 1; }, kBad,
             "RES-31"},
            {"existing memory", [](Args& a) { a.Flags.ExistingKernelSysMem = 1; }, kBad, "RES-31"},
            {"an overlay", [](Args& a) { a.Flags.Overlay = 1; }, kBad, "RES-31"},
            {"no size", [](Args& a) { a.Size = 0; }, kBad, "ALLOC-06"},
            {"the largest size", [](Args& a) { a.Size = UINT64_MAX; }, kBad, "ALLOC-06"},
            {"more than any segment", [](Args& a) { a.Size = uint64_t{1} << 40; },
             nt_status(Status::kNoMemory), nullptr},
            {"a bad alignment", [](Args& a) { a.Alignment = 3 * 4096; }, kBad, "ALLOC-06"},
            {"no segment", [](Args& a) { a.SupportedSegmentSet = 0; }, kBad, "ALLOC-07"},
            {"an unknown segment", [](Args& a) { a.SupportedSegmentSet = 1U << 7; }, kBad,
             "ALLOC-07"},
            {"a preference that is not supported",
             [](Args& a) { a.PreferredSegment.SegmentId0 = 1; }, kBad, "ALLOC-07"},
            {"eviction to a memory segment", [](Args& a) { a.EvictionSegmentSet = kHidden; }, kBad,
             "ALLOC-09"},
            {"cached, invisible", [](Args& a) { a.Flags.Cached = 1; }, kBad, "ALLOC-15"},
            {"a GPU virtual address",
             [](Args& a) { a.ContextAllocationFlags.MapGpuVirtualAddress = 1; },
             nt_status(Status::kNotSupported), nullptr},
        };
        for (const Row& row : rows) {
          Args args = saver.arguments();
          row.change(args);
          args.hAllocation = as_handle(0xBEEF);
          const auto told = [&] {
            return row.rule == nullptr ? 0 : stack.findings.count(row.rule);
          };
          const size_t before_told = told();
          const size_t all = stack.rules().size();
          const Digest before = digest(stack, {&client, &stranger});
          NTSTATUS status = 0;
          in_driver(stack, client, [&] {
            status = stack.miniport.callbacks().DxgkCbCreateContextAllocation(&args);
          });
          Digest after = digest(stack, {&client, &stranger});
          EXPECT_EQ(status, row.status) << row.what;
          EXPECT_EQ(args.hAllocation, as_handle(0xBEEF)) << row.what;
          EXPECT_EQ(told(), before_told + (row.rule == nullptr ? 0 : 1)) << row.what;
          if (row.rule == nullptr) {
            EXPECT_EQ(stack.rules().size(), all) << row.what;
          }
          after.findings = before.findings;
          after.driver_calls = before.driver_calls;  // the escape that carried it
          EXPECT_EQ(before, after) << row.what;
        }
        // Another process's device, from this process.
        in_driver(stack, stranger, [&] {
          EXPECT_EQ(saver.create(saver.arguments()), kBad) << "a handle is a process's own";
        });
        in_driver(stack, client, [&] {
          const DXGKRNL_INTERFACE& kernel = stack.miniport.callbacks();
          EXPECT_EQ(kernel.DxgkCbCreateContextAllocation(nullptr), kBad);
          ASSERT_EQ(saver.create(saver.arguments()), 0);
          const HANDLE made = saver.handles.back();
          const size_t findings = stack.findings.count("RES-31");
          for (const uint64_t wrong : std::initializer_list<uint64_t>{
                   0, reinterpret_cast<uint64_t>(made) + 1,
                   reinterpret_cast<uint64_t>(made) ^ 1ULL << 32, UINT64_MAX}) {
            EXPECT_EQ(saver.destroy(as_handle(wrong)), kBad);
            DXGKARGCB_UPDATECONTEXTALLOCATION update{};
            update.hAllocation = as_handle(wrong);
            EXPECT_EQ(kernel.DxgkCbUpdateContextAllocation(kernel.DeviceHandle, &update), kBad);
          }
          EXPECT_EQ(kernel.DxgkCbUpdateContextAllocation(kernel.DeviceHandle, nullptr), kBad);
          EXPECT_EQ(stack.findings.count("RES-31"), findings + 9);
          // Without GPU virtual addresses there is nothing to map it at.
          DXGKARGCB_UPDATECONTEXTALLOCATION update{};
          update.hAllocation = made;
          EXPECT_EQ(kernel.DxgkCbUpdateContextAllocation(kernel.DeviceHandle, &update),
                    nt_status(Status::kNotSupported));
          DXGKARGCB_MAPCONTEXTALLOCATION map{};
          map.hAllocation = made;
          EXPECT_EQ(kernel.DxgkCbMapContextAllocation(kernel.DeviceHandle, &map), 0U);
          EXPECT_EQ(stack.findings.count("RES-31"), findings + 9);
          EXPECT_TRUE(saver.exists(0));
          EXPECT_EQ(saver.destroy(made), 0);
          EXPECT_EQ(saver.destroy(made), kBad) << "once";
        });
        for (const verifier::Finding& finding : stack.findings.all())
          EXPECT_TRUE(finding.ddi.ends_with("ContextAllocation")) << finding.ddi;
        stack.miniport.hooks = {};
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

}  // namespace
}  // namespace dxgkit::contract
