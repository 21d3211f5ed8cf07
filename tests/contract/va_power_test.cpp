// Page tables across sleep: what the memory forgets is made again before anything is paged.
#include "dxgk/adapter/adapter.h"
#include "dxgk/exercise.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

class VaPowerTest : public GpuVaTest {
 protected:
  /// Standby, during which segments forget, and back.
  static void sleep_and_wake(GpuVaStack& stack) {
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    for (const dxgk::PowerTarget target : {dxgk::PowerTarget::kStandby, dxgk::PowerTarget::kD0}) {
      Status status = Status::kSuccess;
      stack.blocking([&] {
        const auto done = stack.system->set_power(stack.luid, target);
        if (!done.has_value()) status = done.error();
      });
      ASSERT_EQ(status, Status::kSuccess) << ::testing::PrintToString(stack.rules());
    }
    stack.miniport.hooks.set_power_state = nullptr;
    stack.drive();
  }
};

TEST_F(VaPowerTest, MappingsAndContentComeBack) {
  DXGKIT_COVERS("PAGE-02", "VA-29", "VA-06");
  running([](GpuVaStack& stack) {
    VaClient client(stack);
    VaClient other(stack, "other");
    const D3DKMT_HANDLE a = client.make_allocation(600 * kPage, kMemorySet);
    const D3DKMT_HANDLE away = client.make_allocation(kPage, kMemorySet);
    const D3DKMT_HANDLE theirs = other.make_allocation(kPage, kMemorySet);
    client.list({a});
    other.list({theirs});
    stack.drive();
    const uint64_t va = client.make_mapping(a, 600);
    const uint64_t nowhere = client.make_mapping(away, 1);
    const uint64_t at_theirs = other.make_mapping(theirs, 1);
    for (uint64_t page = 0; page < 600; page += 50)
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage, page + 1));
    ASSERT_TRUE(stack.gpu.write(other.process_handle(), at_theirs,
                                dxgkit::testing::gpu_commands({GpuCommand::read(at_theirs)})));
    for (int round = 0; round < 2; ++round) {
      sleep_and_wake(stack);
      if (HasFatalFailure()) return;
      // Lists are taken back as they are used.
      ASSERT_EQ(client.submit(client.context, va + 599 * kPage, 0), 0);
      ASSERT_EQ(other.submit(other.context, at_theirs, 24), 0);
      stack.drive();
      ASSERT_TRUE(client.walk(va).valid) << client.walk(va).why;
      for (uint64_t page = 0; page < 600; page += 50)
        EXPECT_EQ(stack.gpu.read(client.process_handle(), va + page * kPage), page + 1);
      EXPECT_FALSE(client.walk(nowhere).valid);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_TRUE(stack.gpu.faults().empty());
    }
    // And go on changing.
    EXPECT_EQ(client.free_va(va, 600 * kPage), 0);
    EXPECT_FALSE(client.walk(va).valid);
    EXPECT_NE(client.make_mapping(a, 10), 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// Tables in system memory keep it over sleep and resets: others may have taken the rest meanwhile.
TEST_F(VaPowerTest, TablesComeBackThoughNoMemoryIsFree) {
  DXGKIT_COVERS("PAGE-02", "VA-06");
  for (const GpuVaConfig& config :
       {GpuVaConfig::cpu_virtual_two_level(), GpuVaConfig::gpu_physical_four_level(0)}) {
    SCOPED_TRACE(config.levels.size());
    running(config, [](GpuVaStack& stack) {
      VaClient client(stack);
      const D3DKMT_HANDLE a = client.make_allocation(600 * kPage, kMemorySet);
      client.list({a});
      stack.drive();
      const uint64_t va = client.make_mapping(a, 600);
      ASSERT_TRUE(stack.gpu.write(client.process_handle(), va + 599 * kPage, 42));
      int refused = 0;
      stack.machine.set_page_fault([&](uint64_t) { return ++refused > 0; });
      sleep_and_wake(stack);
      stack.machine.set_page_fault(nullptr);
      if (HasFatalFailure()) return;
      ASSERT_EQ(client.submit(client.context, va, 0), 0);
      stack.drive();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(stack.gpu.read(client.process_handle(), va + 599 * kPage), 42U);
      EXPECT_TRUE(stack.gpu.faults().empty());
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    });
    if (HasFatalFailure()) return;
  }
}

/// Where entries may not stay behind, a process whose tables cannot be made again takes all devices
/// with it: none of them may run. A root that grows has the size its driver says each time.
TEST_F(VaPowerTest, WithoutTablesNobodyGoesOn) {
  DXGKIT_COVERS("PAGE-02");
  running(
      GpuVaConfig::two_level(port::PageTableUpdateMode::kGpuPhysical, 2),
      [](GpuVaStack& stack) {
        VaClient client(stack);
        VaClient other(stack, "other");
        const D3DKMT_HANDLE a = client.make_allocation(kPage, kMemorySet);
        client.list({a});
        stack.drive();
        client.make_mapping(a, 1);
        int asked = 0;
        stack.gpu.on_root_size = [&](const DXGKARG_GETROOTPAGETABLESIZE*) -> SIZE_T {
          // The first one asked for is paging's own; for the others there is no room.
          return ++asked == 1 ? kMebibyte : SIZE_T{4} * 1024 * kMebibyte - kPage;
        };
        sleep_and_wake(stack);
        stack.gpu.on_root_size = nullptr;
        EXPECT_GT(asked, 1);
        EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
        EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](GpuVaStack& stack) { stack.gpu.config.explicit_invalidation = true; });
}

/// Where tables are tried again later, a process that has none meanwhile has no root either.
TEST_F(VaPowerTest, WithoutTablesThereIsNoRoot) {
  DXGKIT_COVERS("PAGE-02");
  running(GpuVaConfig::two_level(port::PageTableUpdateMode::kGpuPhysical, 2),
          [](GpuVaStack& stack) {
            VaClient client(stack);
            const D3DKMT_HANDLE a = client.make_allocation(kPage, kMemorySet);
            client.list({a});
            stack.drive();
            const uint64_t va = client.make_mapping(a, 1);
            auto exercise = dxgk::Exercise::on(*stack.system, stack.luid);
            ASSERT_TRUE(exercise.has_value());
            EXPECT_TRUE(exercise->gpu_va_root(*client.process).has_value());
            int asked = 0;
            stack.gpu.on_root_size = [&](const DXGKARG_GETROOTPAGETABLESIZE*) -> SIZE_T {
              return ++asked == 1 ? kMebibyte : SIZE_T{4} * 1024 * kMebibyte - kPage;
            };
            sleep_and_wake(stack);
            stack.gpu.on_root_size = nullptr;
            EXPECT_GT(asked, 1);
            EXPECT_EQ(exercise->gpu_va_root(*client.process).error(), Status::kInvalidParameter);
            EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
            ASSERT_EQ(client.submit(client.context, va, 0), 0);
            stack.drive();
            EXPECT_TRUE(exercise->gpu_va_root(*client.process).has_value());
            EXPECT_TRUE(client.walk(va).valid);
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          });
}

/// A client whose pages each say who they are, mapped and used; and another one.
struct Marked {
  explicit Marked(GpuVaStack& stack) : client(stack), other(stack, "other") {
    a = client.make_allocation(kPages * kPage, kMemorySet);
    theirs = other.make_allocation(kPage, kMemorySet);
    client.list({a});
    other.list({theirs});
    stack.drive();
    va = client.make_mapping(a, kPages);
    at_theirs = other.make_mapping(theirs, 1);
    for (uint64_t page = 0; page < kPages; page += 50)
      EXPECT_TRUE(stack.gpu.write(client.process_handle(), va + page * kPage, page + 1));
    EXPECT_TRUE(stack.gpu.write(other.process_handle(), at_theirs,
                                dxgkit::testing::gpu_commands({GpuCommand::read(at_theirs)})));
  }
  /// Used again, which takes lists back; everything is where it was.
  void check(GpuVaStack& stack) {
    ASSERT_EQ(client.submit(client.context, va + (kPages - 1) * kPage, 0), 0);
    ASSERT_EQ(other.submit(other.context, at_theirs, 24), 0);
    stack.drive();
    ASSERT_TRUE(client.walk(va).valid) << client.walk(va).why;
    for (uint64_t page = 0; page < kPages; page += 50)
      EXPECT_EQ(stack.gpu.read(client.process_handle(), va + page * kPage), page + 1);
    EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_EQ(other.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    EXPECT_TRUE(stack.gpu.faults().empty());
  }
  static constexpr uint64_t kPages = 600;
  VaClient client, other;
  D3DKMT_HANDLE a = 0, theirs = 0;
  uint64_t va = 0, at_theirs = 0;
};

/// What the exerciser of drivers does, on a driver that forgets all its memory each time.
TEST_F(VaPowerTest, ExercisedPowerAndResetMakeTablesAgain) {
  DXGKIT_COVERS("PAGE-02", "VA-06", "VA-29");
  running([](GpuVaStack& stack) {
    Marked marked(stack);
    int slept = 0;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state == PowerDeviceD3) {
        ++slept;
        stack.gpu.lose_power();
      }
      return STATUS_SUCCESS;
    };
    int resets = 0;
    const auto reset = stack.miniport.hooks.reset_from_timeout;
    stack.miniport.hooks.reset_from_timeout = [&] {
      ++resets;
      stack.gpu.lose_power();
      return reset();
    };
    for (const bool power : {true, false, true, false}) {
      SCOPED_TRACE(power ? "power" : "reset");
      stack.blocking([&] {
        dxgk::Exercise by_hand = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
        EXPECT_EQ(power ? by_hand.power_cycle() : by_hand.reset(), Status::kSuccess);
      });
      stack.drive();
      marked.check(stack);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(slept, 2);
    EXPECT_EQ(resets, 2);
    stack.miniport.hooks.set_power_state = nullptr;
    stack.miniport.hooks.reset_from_timeout = reset;
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// A reset while memory is emptied puts page tables back into it, and they leave again.
TEST_F(VaPowerTest, MemoryIsEmptyAlsoIfTheAdapterWasResetOnTheWayDown) {
  DXGKIT_COVERS("PAGE-02", "PWR-08");
  running([](GpuVaStack& stack) {
    Marked marked(stack);
    int slept = 0;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
      if (state != PowerDeviceD3) return STATUS_SUCCESS;
      ++slept;
      const vidmm::MemoryManager& memory = stack.adapter().core().memory();
      for (const vidmm::SegmentDesc& segment : memory.segments()) {
        if (segment.kind == vidmm::SegmentKind::kMemory) {
          EXPECT_EQ(memory.usage(segment.id).allocations, 0U) << segment.id.value;
        }
      }
      stack.gpu.lose_power();
      return STATUS_SUCCESS;
    };
    // The GPU does not page, until the adapter has been reset.
    Status down = Status::kUnsuccessful;
    runtime::Runtime& runtime = runtime::Runtime::current();
    const auto power = runtime.spawn("power", [&] {
      const auto done = stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby);
      down = done.has_value() ? Status::kSuccess : done.error();
    });
    while (stack.statistics().adapter_resets == 0) runtime.sleep_for(runtime::kMillisecond);
    while (slept == 0) {
      stack.drive();
      runtime.sleep_for(runtime::kMillisecond);
    }
    power->join();
    EXPECT_EQ(down, Status::kSuccess);
    stack.miniport.hooks.set_power_state = nullptr;
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kD0).has_value());
    });
    stack.drive();
    EXPECT_EQ(marked.client.state(), D3DKMT_DEVICEEXECUTION_RESET);
    VaClient next(stack, "next");
    const D3DKMT_HANDLE b = next.make_allocation(kPage, kMemorySet);
    next.list({b});
    stack.drive();
    const uint64_t va = next.make_mapping(b, 1);
    EXPECT_TRUE(stack.gpu.write(next.process_handle(), va, 42));
    EXPECT_EQ(stack.gpu.read(next.process_handle(), va), 42U);
  });
}

/// Content that was not evicted before is gone, as after a timeout; the adapter goes on.
TEST_F(VaPowerTest, AnExercisedResetThatLosesContentLeavesNothingBehind) {
  DXGKIT_COVERS("PAGE-02");
  running([](GpuVaStack& stack) {
    Marked marked(stack);
    const auto reset = stack.miniport.hooks.reset_from_timeout;
    stack.miniport.hooks.reset_from_timeout = [&] {
      stack.gpu.lose_power();
      return reset();
    };
    stack.blocking([&] {
      dxgk::Exercise by_hand = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
      EXPECT_EQ(by_hand.reset_losing_content(), Status::kSuccess);
    });
    stack.drive();
    ASSERT_EQ(marked.client.submit(marked.client.context, marked.va, 0), 0);
    stack.drive();
    EXPECT_EQ(stack.gpu.read(marked.client.process_handle(), marked.va), 0U);
    stack.miniport.hooks.reset_from_timeout = reset;
    EXPECT_TRUE(stack.gpu.faults().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// Content of the kernel's own takes the same way as everybody's, without a driver's object.
TEST_F(VaPowerTest, TheKernelsOwnContentGoesThroughSegments) {
  DXGKIT_COVERS("PAGE-16", "PAGE-31");
  running([](GpuVaStack& stack) {
    std::vector<std::byte> content(3 * kPage);
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 7 + 3);
    Result<std::vector<std::byte>> moved = Error(Status::kUnsuccessful);
    Result<std::vector<std::byte>> filled = Error(Status::kUnsuccessful);
    Result<std::vector<std::byte>> nowhere = Error(Status::kUnsuccessful);
    stack.blocking([&] {
      dxgk::Exercise by_hand = std::move(*dxgk::Exercise::on(*stack.system, stack.luid));
      SegmentId memory;
      for (uint32_t i = 0; i < by_hand.segments().size(); ++i) {
        if ((by_hand.segments()[i].flags & 1U) == 0) memory = SegmentId{i + 1};
      }
      moved = by_hand.memory().through_segment(memory, content, 0);
      filled = by_hand.memory().through_segment(memory, {}, 2 * kPage);
      nowhere = by_hand.memory().through_segment(SegmentId{99}, content, 0);
    });
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(*moved, content);
    ASSERT_TRUE(filled.has_value());
    EXPECT_EQ(*filled, std::vector<std::byte>(2 * kPage));
    EXPECT_EQ(nowhere.error(), Status::kInvalidParameter);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// A call of a client, which waits while the adapter sleeps. What it writes back goes to `out`.
struct Waiting {
  const char* name;
  NTSTATUS (*call)(VaClient&, D3DKMT_HANDLE allocation, uint64_t* out);
};
const Waiting kWaiting[] = {
    {"D3DKMTMapGpuVirtualAddress",
     [](VaClient& client, D3DKMT_HANDLE allocation, uint64_t* out) {
       auto args = client.map_args(allocation, 1);
       const NTSTATUS status = client.map(args);
       *out = args.VirtualAddress;
       return status;
     }},
    {"D3DKMTReserveGpuVirtualAddress",
     [](VaClient& client, D3DKMT_HANDLE, uint64_t* out) {
       D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
       args.hPagingQueue = client.queue.handle;
       args.Size = 64 * kPage;
       const NTSTATUS status = client.reserve(args);
       *out = args.VirtualAddress;
       return status;
     }},
    {"D3DKMTCreateContextVirtual",
     [](VaClient& client, D3DKMT_HANDLE, uint64_t* out) {
       D3DKMT_CREATECONTEXTVIRTUAL args{};
       args.hDevice = client.device;
       const NTSTATUS status = client.call([&] { return D3DKMTCreateContextVirtual(&args); });
       *out = args.hContext;
       return status;
     }},
    {"D3DKMTCreateSynchronizationObject2",
     [](VaClient& client, D3DKMT_HANDLE, uint64_t* out) {
       D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
       args.hDevice = client.device;
       args.Info.Type = D3DDDI_MONITORED_FENCE;
       const NTSTATUS status =
           client.call([&] { return D3DKMTCreateSynchronizationObject2(&args); });
       *out = args.hSyncObject;
       return status;
     }},
    {"D3DKMTLock2",
     [](VaClient& client, D3DKMT_HANDLE allocation, uint64_t* out) {
       D3DKMT_LOCK2 args{};
       args.hDevice = client.device;
       args.hAllocation = allocation;
       const NTSTATUS status = client.call([&] { return D3DKMTLock2(&args); });
       *out = reinterpret_cast<uint64_t>(args.pData);
       return status;
     }},
};

// Who waits for an adapter to wake up is told when it goes instead, pulled out or stopped.
TEST_F(VaPowerTest, WhatWaitsInSleepReturnsWhenTheAdapterGoes) {
  DXGKIT_COVERS("LIFE-18", "PWR-01");
  for (const Waiting& one : kWaiting) {
    for (const bool pulled_out : {true, false}) {
      SCOPED_TRACE(std::string(one.name) + (pulled_out ? ", pulled out" : ", stopped"));
      running([&](GpuVaStack& stack) {
        VaClient client(stack);
        const D3DKMT_HANDLE allocation = client.make_allocation({.size = kPage,
                                                                 .supported_read = kMemorySet,
                                                                 .supported_write = kMemorySet,
                                                                 .flags = 1});
        stack.blocking([&] {
          EXPECT_TRUE(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby).has_value());
        });
        NTSTATUS status = 1;
        uint64_t out = 0;
        Stack::Background waiting(stack, [&] { status = one.call(client, allocation, &out); });
        ASSERT_FALSE(waiting.finished());
        stack.blocking([&] {
          EXPECT_EQ(pulled_out ? stack.system->remove_adapter(stack.luid)
                               : stack.system->stop_adapter(stack.luid),
                    Status::kSuccess);
        });
        waiting.finish();
        EXPECT_EQ(status, nt_status(Status::kDeviceRemoved));
        EXPECT_EQ(out, 0U);
      });
    }
  }
}

}  // namespace
}  // namespace dxgkit::contract
