// Native fences: what the driver is told to monitor, and that no signal is lost over it.
#include <cstring>
#include <limits>
#include <optional>

#include "dxgk/adapter/adapter.h"
#include "dxgk/work/device.h"
#include "tests/contract/native_fixture.h"
#include "tests/contract/sync_fixture.h"
#include "tests/contract/va_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;

constexpr uint64_t kNobody = std::numeric_limits<uint64_t>::max();
constexpr NTSTATUS kRefused = nt_status(Status::kNotSupported);

class NativeFenceTest : public ::testing::Test {
 protected:
  using Body = std::function<void(NativeStack&)>;
  static void bare(const Body& body, uint64_t seed = 1) {
    const auto runtime = runtime::make_sim_runtime(
        {.seed = seed, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
    runtime->run_main([&] {
      NativeStack stack;
      body(stack);
    });
  }
  static void running(const Body& body) {
    bare([&](NativeStack& stack) {
      ASSERT_EQ(stack.start(), Status::kSuccess);
      body(stack);
    });
  }
};

NTSTATUS create(Client& client, D3DKMT_CREATENATIVEFENCE& args) {
  NTSTATUS status = 0;
  client.stack.blocking(
      [&] { status = client.call([&] { return D3DKMTCreateNativeFence(&args); }); });
  return status;
}

D3DKMT_CREATENATIVEFENCE creation(const Client& client, UINT flags = 0, uint64_t initial = 0) {
  D3DKMT_CREATENATIVEFENCE args{};
  args.hDevice = client.device;
  args.Info.InitialFenceValue = initial;
  args.Info.Flags.Value = flags;
  return args;
}

struct NativeFence {
  D3DKMT_HANDLE handle = 0;
  D3DDDI_NATIVEFENCEMAPPING mapping{};
};

NativeFence make_fence(Client& client, UINT flags = 0, uint64_t initial = 0) {
  D3DKMT_CREATENATIVEFENCE args = creation(client, flags, initial);
  EXPECT_EQ(create(client, args), 0);
  client.stack.drive();  // the addresses are in force
  return {args.hSyncObject, args.Info.NativeFenceMapping};
}

TEST_F(NativeFenceTest, TheMonitoredValueIsTheLeastThatIsWaitedForLessOne) {
  DXGKIT_COVERS("SYNC-30", "INT-24");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    const NativeFence fence = make_fence(client, 0, 5);
    ASSERT_EQ(gpu.openings.size(), 1U);
    EXPECT_EQ(gpu.openings[0]->args.CurrentValueGpuVa, fence.mapping.CurrentValueGpuVa);
    EXPECT_EQ(gpu.openings[0]->args.MonitoredValueGpuVa, fence.mapping.MonitoredValueGpuVa);
    EXPECT_EQ(gpu.current(*gpu.openings[0]), 5U);
    EXPECT_EQ(stack.gpu.read(client.process_of_driver, fence.mapping.MonitoredValueGpuVa), kNobody);
    ASSERT_EQ(client.wait_cpu(fence.handle, 5), 0) << "reached already";
    EXPECT_TRUE(gpu.monitored.empty()) << "nobody waits";

    NTSTATUS far = 1, near = 1;
    Stack::Background fifty(stack, [&] { far = client.wait_cpu(fence.handle, 50); });
    EXPECT_FALSE(fifty.finished());
    Stack::Background forty(stack, [&] { near = client.wait_cpu(fence.handle, 42); });
    EXPECT_FALSE(forty.finished());
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{49, 41}));
    EXPECT_EQ(stack.gpu.read(client.process_of_driver, fence.mapping.MonitoredValueGpuVa), 41U);

    EXPECT_FALSE(gpu.signal(*gpu.openings[0], 41)) << "nobody waits for it: no interrupt";
    EXPECT_FALSE(forty.finished());
    EXPECT_TRUE(gpu.signal(*gpu.openings[0], 43));
    EXPECT_TRUE(forty.finished());
    EXPECT_EQ(near, 0);
    EXPECT_FALSE(fifty.finished());
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{49, 41, 49}));
    EXPECT_TRUE(gpu.signal(*gpu.openings[0], 50));
    EXPECT_TRUE(fifty.finished());
    EXPECT_EQ(far, 0);
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{49, 41, 49, kNobody}));
    for (const uint8_t level : gpu.levels) EXPECT_EQ(level, nt::kDeviceLevel);
  });
}

TEST_F(NativeFenceTest, ASignalThatWentByTheOldMonitoredValueIsNotLost) {
  DXGKIT_COVERS("SYNC-30");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    const NativeFence fence = make_fence(client);
    // The engine writes after the kernel has looked, and compares before it is told anything.
    gpu.on_monitored = [&](dxgkit::testing::ScriptedNativeFence&, uint64_t value) {
      if (value != kNobody) {
        EXPECT_FALSE(gpu.signal(*gpu.openings[0], 7));
      }
      return NTSTATUS{0};
    };
    EXPECT_EQ(client.wait_cpu(fence.handle, 7), 0);
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{6, kNobody}));

    // The same for a context whose packets wait.
    gpu.monitored.clear();
    gpu.on_monitored = [&](dxgkit::testing::ScriptedNativeFence&, uint64_t value) {
      if (value != kNobody) {
        EXPECT_FALSE(gpu.signal(*gpu.openings[0], 9));
      }
      return NTSTATUS{0};
    };
    ContextBuffers context;
    context.handle = client.context;
    ASSERT_EQ(client.wait_gpu(context, fence.handle, 9), 0);
    const NativeFence after = make_fence(client);
    ASSERT_EQ(client.signal_gpu(context, after.handle, 1), 0);
    stack.drive();
    EXPECT_EQ(client.wait_cpu(after.handle, 1), 0);
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{8, kNobody}));
    gpu.on_monitored = nullptr;
  });
}

TEST_F(NativeFenceTest, WaitsThatAreWithdrawnAreMonitoredNoMore) {
  DXGKIT_COVERS("SYNC-30");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient keeper(stack, "keeper");
    const NativeFence kept = make_fence(keeper, kNt);
    SharedHandle shared;
    ASSERT_EQ(share(keeper, {kept.handle}, &shared.handle), 0);
    VaClient leaver(stack, "leaver");
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open{};
    open.hNtHandle = shared.handle;
    open.hDevice = leaver.device;
    stack.blocking([&] {
      EXPECT_EQ(leaver.call([&] { return D3DKMTOpenNativeFenceFromNtHandle(&open); }), 0);
    });
    stack.drive();
    NTSTATUS left = 1, stayed = 1;
    Stack::Background high(stack, [&] { stayed = keeper.wait_cpu(kept.handle, 100); });
    EXPECT_FALSE(high.finished());
    {
      Stack::Background low(stack, [&] { left = leaver.wait_cpu(open.hSyncObject, 10); });
      EXPECT_FALSE(low.finished());
      EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{99, 9}));
      stack.blocking([&] { EXPECT_EQ(leaver.destroy_device(leaver.device), 0); });
      EXPECT_TRUE(low.finished());
    }
    EXPECT_NE(left, 0);
    EXPECT_EQ(gpu.monitored, (std::vector<uint64_t>{99, 9, 99}));
    EXPECT_FALSE(high.finished());
    EXPECT_TRUE(gpu.signal(*gpu.openings[0], 100));
    EXPECT_TRUE(high.finished());
    EXPECT_EQ(stayed, 0);
  });
}

TEST_F(NativeFenceTest, InterruptsThatMeanNobodyAreHarmlessAndNullMeansAnybody) {
  DXGKIT_COVERS("SYNC-30", "SYNC-34");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    const NativeFence one = make_fence(client), two = make_fence(client);
    const MonitoredFence legacy = create_fence(client, 0);
    stack.drive();
    NTSTATUS status = 1, old = 1;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(two.handle, 3); });
    Stack::Background legacy_wait(stack, [&] { old = client.wait_cpu(legacy.handle, 3); });
    EXPECT_FALSE(wait.finished());
    void* const first = gpu.fences[0].get();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(gpu.interrupt(&first, 1));
      EXPECT_TRUE(gpu.interrupt(nullptr, 0));
    }
    EXPECT_FALSE(wait.finished());
    ASSERT_TRUE(stack.gpu.write(client.process_of_driver, two.mapping.CurrentValueGpuVa, 3));
    ASSERT_TRUE(stack.gpu.write(client.process_of_driver, legacy.gpu, 3));
    EXPECT_TRUE(gpu.interrupt(&first, 1));
    EXPECT_FALSE(wait.finished()) << "the other was named";
    EXPECT_TRUE(gpu.interrupt(nullptr, 0));
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(legacy_wait.finished()) << "monitored fences are not looked at";
    EXPECT_TRUE(gpu.interrupt(nullptr, 0, /*legacy_too=*/true));
    EXPECT_TRUE(legacy_wait.finished());
    EXPECT_EQ(old, 0);
    EXPECT_TRUE(stack.rules().empty());
    EXPECT_EQ(client.wait_cpu(one.handle, 0), 0);
  });
}

TEST_F(NativeFenceTest, AFenceThatDoesNotExistMustNotBeNamed) {
  DXGKIT_COVERS("SYNC-34");
  for (const bool destroyed : {false, true}) {
    running([&](NativeStack& stack) {
      ScriptedNativeFences& gpu = *stack.native;
      stack.expect_leaks = true;
      VaClient client(stack);
      const NativeFence fence = make_fence(client);
      void* handle = gpu.fences[0].get();
      if (destroyed) {
        stack.blocking([&] { EXPECT_EQ(destroy_sync(client, fence.handle), 0); });
        stack.drive();
        EXPECT_EQ(gpu.order, (std::vector<std::string>{"create", "open", "close", "destroy"}));
      } else {
        handle = nullptr;
      }
      gpu.interrupt(&handle, 1);
      stack.settle();
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "SYNC-34");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.bugcheck_code, 0x119U);
    });
  }
}

TEST_F(NativeFenceTest, ADriverThatFailsTheUpdateIsStopped) {
  DXGKIT_COVERS("SYNC-30");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    stack.expect_leaks = true;
    VaClient client(stack);
    const NativeFence fence = make_fence(client);
    gpu.on_monitored = [](dxgkit::testing::ScriptedNativeFence&, uint64_t) {
      return nt_status(Status::kUnsuccessful);
    };
    NTSTATUS status = 0;
    Stack::Background wait(stack, [&] { status = client.wait_cpu(fence.handle, 1); });
    EXPECT_TRUE(wait.finished());
    EXPECT_EQ(status, kRemoved);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "SYNC-30");
    EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(finding.bugcheck_code, 0x119U);
    EXPECT_EQ(finding.bugcheck_parameter, 0x12U);
  });
}

TEST_F(NativeFenceTest, SignalsOfTheCpuGoThroughTheDriver) {
  DXGKIT_COVERS("SYNC-33", "SYNC-18", "SYNC-08");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    const NativeFence fence = make_fence(client);
    ContextBuffers context;
    context.handle = client.context;
    ASSERT_EQ(client.signal_cpu(fence.handle, 4), 0);
    ASSERT_EQ(client.signal_gpu(context, fence.handle, 6), 0);
    stack.drive();
    ASSERT_EQ(client.signal_cpu(fence.handle, 5), nt_status(Status::kInvalidParameter)) << "lower";
    EXPECT_EQ(gpu.currents, (std::vector<uint64_t>{4, 6}));
    EXPECT_EQ(gpu.current(*gpu.openings[0]), 6U);
    EXPECT_TRUE(stack.rules().empty());
    for (const uint8_t level : gpu.levels) EXPECT_EQ(level, nt::kDeviceLevel);

    gpu.forgets_current = true;
    ASSERT_EQ(client.signal_cpu(fence.handle, 8), 0);
    EXPECT_EQ(client.wait_cpu(fence.handle, 8), 0) << "whoever waits is not the one to suffer";
    EXPECT_EQ(stack.only_finding().rule, "SYNC-33");
  });
}

TEST_F(NativeFenceTest, LocalHandlesGoBeforeTheGlobalOne) {
  DXGKIT_COVERS("SYNC-32");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient maker(stack, "maker");
    const NativeFence mine = make_fence(maker, kNt, 2);
    SharedHandle shared;
    ASSERT_EQ(share(maker, {mine.handle}, &shared.handle), 0);
    VaClient user(stack, "user");
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open{};
    open.hNtHandle = shared.handle;
    open.hDevice = user.device;
    stack.blocking(
        [&] { ASSERT_EQ(user.call([&] { return D3DKMTOpenNativeFenceFromNtHandle(&open); }), 0); });
    stack.drive();
    shared.close();
    ASSERT_EQ(gpu.openings.size(), 2U);
    EXPECT_EQ(gpu.openings[1]->args.hGlobalNativeFence, gpu.fences[0].get());
    EXPECT_NE(open.NativeFenceMapping.CurrentValueCpuVa, mine.mapping.CurrentValueCpuVa);
    EXPECT_EQ(*static_cast<const uint64_t*>(open.NativeFenceMapping.CurrentValueCpuVa), 2U);
    EXPECT_FALSE(gpu.signal(*gpu.openings[1], 12));
    EXPECT_EQ(maker.wait_cpu(mine.handle, 12), 0);
    stack.blocking([&] { EXPECT_EQ(destroy_sync(maker, mine.handle), 0); });
    EXPECT_EQ(gpu.order, (std::vector<std::string>{"create", "open", "open", "close"}));
    EXPECT_EQ(user.wait_cpu(open.hSyncObject, 12), 0);
    stack.blocking([&] { EXPECT_EQ(destroy_sync(user, open.hSyncObject), 0); });
    EXPECT_EQ(gpu.order,
              (std::vector<std::string>{"create", "open", "open", "close", "close", "destroy"}));
    stack.drive();
  });
}

TEST_F(NativeFenceTest, PrivateDataGoesBothWaysAndFailuresLeaveNothing) {
  DXGKIT_COVERS("SYNC-30");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    D3DKMT_CREATENATIVEFENCE args = creation(client);
    args.Info.Type = D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;
    args.PrivateDriverData[63] = 0x5A;
    gpu.on_create = [](DXGKARG_CREATENATIVEFENCE* given) {
      EXPECT_EQ(given->Type, D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU);
      EXPECT_EQ(given->pPrivateDriverData[63], 0x5A);
      given->pPrivateDriverData[0] = 0xA5;
      return NTSTATUS{0};
    };
    ASSERT_EQ(create(client, args), 0);
    EXPECT_EQ(args.PrivateDriverData[0], 0xA5);
    stack.drive();
    Digest before = digest(stack, {&client});
    ++before.driver_calls;  // the one that fails
    D3DKMT_CREATENATIVEFENCE again = creation(client);
    gpu.on_create = [](DXGKARG_CREATENATIVEFENCE*) { return nt_status(Status::kNoMemory); };
    EXPECT_EQ(create(client, again), nt_status(Status::kNoMemory));
    EXPECT_EQ(digest(stack, {&client}), before);
    gpu.on_create = nullptr;
    gpu.on_open = [](DXGKARG_OPENNATIVEFENCE*) { return nt_status(Status::kNoMemory); };
    EXPECT_EQ(create(client, again), nt_status(Status::kNoMemory));
    stack.drive();
    EXPECT_EQ(again.hSyncObject, 0U);
    EXPECT_TRUE(gpu.fences.back()->gone) << "made, and destroyed again";
    EXPECT_EQ(gpu.live(), 2U) << "the first, and its opening";
    gpu.on_open = nullptr;
  });
}

// The device is lost while the driver makes its fence: nobody opens it, and the driver has it back.
TEST_F(NativeFenceTest, WhatTheDriverMadeForALostDeviceIsDestroyed) {
  DXGKIT_COVERS("SYNC-30");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    gpu.on_create = [&](DXGKARG_CREATENATIVEFENCE*) {
      stack.adapter().core().lane().run([&] {
        for (dxgk::Device* device : stack.adapter().floor().devices)
          device->set_error(dxgk::DeviceState::kHung);
      });
      return NTSTATUS{0};
    };
    D3DKMT_CREATENATIVEFENCE args = creation(client);
    EXPECT_EQ(create(client, args), nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(args.hSyncObject, 0U);
    ASSERT_EQ(gpu.fences.size(), 1U);
    EXPECT_TRUE(gpu.fences.back()->gone);
    EXPECT_TRUE(gpu.openings.empty());
    gpu.on_create = nullptr;
  });
}

// Native fences have 64 bits on every engine, whatever other fences have.
TEST_F(NativeFenceTest, TheirValueIsWideWhereOthersAreNarrow) {
  DXGKIT_COVERS("SYNC-17", "SYNC-30");
  bare([](NativeStack& stack) {
    stack.miniport.config.caps = [before = stack.miniport.config.caps](DXGK_DRIVERCAPS& caps) {
      before(caps);
      caps.SchedulingCaps.No64BitAtomics = 1;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    constexpr uint64_t kStart = 0x5'0000'0007;
    VaClient client(stack);
    const NativeFence fence = make_fence(client, 0, kStart);
    EXPECT_EQ(stack.native->current(*stack.native->openings.at(0)), kStart);
    ASSERT_EQ(client.wait_cpu(fence.handle, kStart), 0);
    EXPECT_LT(create_fence(client, 0, kStart).value(), kStart) << "an ordinary one is narrow";
  });
}

TEST_F(NativeFenceTest, BadArgumentsAreRefused) {
  DXGKIT_COVERS("SYNC-01", "SYNC-09", "SYNC-10", "THUNK-03");
  running([](NativeStack& stack) {
    ScriptedNativeFences& gpu = *stack.native;
    VaClient client(stack);
    const MonitoredFence plain = create_fence(client, kNt);
    SharedHandle shared;
    ASSERT_EQ(share(client, {plain.handle}, &shared.handle), 0);
    stack.drive();
    const Digest before = digest(stack, {&client});
    const auto with = [&](const std::function<void(D3DKMT_CREATENATIVEFENCE&)>& change) {
      D3DKMT_CREATENATIVEFENCE args = creation(client);
      change(args);
      return create(client, args);
    };
    EXPECT_EQ(with([](auto& args) { args.Flags.Value = 1; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Type = static_cast<D3DDDI_NATIVEFENCE_TYPE>(2); }),
              kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.EngineAffinity = 2; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Flags.Value = kShared; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Flags.Value = kNtSharing; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Flags.Value = kNoSignal | kNoWait; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Flags.Value = kNoGpuAccess; }), kInvalid);
    EXPECT_EQ(with([](auto& args) { args.Info.Flags.Value = 4; }), kRefused) << "cross adapter";
    EXPECT_EQ(with([](auto& args) { args.hDevice = 0; }), kInvalid);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open{};
    open.hNtHandle = shared.handle;
    open.hDevice = client.device;
    EXPECT_EQ(client.call([&] { return D3DKMTOpenNativeFenceFromNtHandle(&open); }), kInvalid)
        << "a monitored fence";
    EXPECT_TRUE(gpu.order.empty());
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(NativeFenceTest, TheyAreReportedOnlyWhereTheKernelHasEnabledThem) {
  DXGKIT_COVERS("SYNC-31");
  struct Row {
    const char* what;
    std::function<void(NativeStack&)> change;
    bool starts, enabled;
  };
  const Row rows[] = {
      {"all there", [](NativeStack&) {}, true, true},
      {"not reported", [](NativeStack& stack) { stack.native->reported = false; }, true, true},
      {"no entries", [](NativeStack& stack) { stack.native->entries = false; }, false, false},
      {"no entries, not reported",
       [](NativeStack& stack) { stack.native->entries = stack.native->reported = false; }, true,
       false},
      {"a system process", [](NativeStack& stack) { stack.native->system_process = true; }, false,
       true},
      {"no caps",
       [](NativeStack& stack) { stack.native->caps_answer = nt_status(Status::kNotSupported); },
       false, true},
  };
  for (const Row& row : rows) {
    bare([&](NativeStack& stack) {
      row.change(stack);
      UINT16 version = 0;
      bool enabled = false, os_caps = false;
      stack.miniport.hooks.start_device = [&](DXGK_START_INFO* info, DXGKRNL_INTERFACE* kernel,
                                              ULONG* sources, ULONG* children) {
        DXGK_FEATURE_INTERFACE features{};
        features.Size = sizeof features;
        features.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
        EXPECT_EQ(kernel->DxgkCbQueryServices(kernel->DeviceHandle, DxgkServicesFeature,
                                              reinterpret_cast<PINTERFACE>(&features)),
                  0);
        DXGKARGCB_ISFEATUREENABLED2 args{};
        args.FeatureId = DXGK_FEATURE_NATIVE_FENCE;
        EXPECT_EQ(features.IsFeatureEnabled(kernel->DeviceHandle, &args), 0);
        EXPECT_EQ(args.Result.KnownFeature, 1U);
        enabled = args.Result.Enabled != 0;
        version = args.Result.Version;
        DXGKCBINT_FEATURE_NATIVEFENCE_1 table{};
        DXGKARGCB_QUERYFEATUREINTERFACE query{};
        query.FeatureId = DXGK_FEATURE_NATIVE_FENCE;
        query.Version = version;
        query.InterfaceSize = sizeof table;
        query.Interface = &table;
        os_caps = features.QueryFeatureInterface(kernel->DeviceHandle, &query) == 0;
        if (os_caps) {
          DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 caps{};
          EXPECT_EQ(table.GetOSCaps(&caps), 0);
          EXPECT_EQ(caps.SupportIntraGpuFenceType, 1U);
          query.Version = static_cast<DXGK_FEATURE_VERSION>(version + 1);
          EXPECT_NE(features.QueryFeatureInterface(kernel->DeviceHandle, &query), 0);
        }
        args.FeatureId = DXGK_FEATURE_SAMPLE;
        EXPECT_EQ(features.IsFeatureEnabled(kernel->DeviceHandle, &args), 0);
        EXPECT_EQ(args.Result.Enabled, 0U);
        EXPECT_EQ(args.Result.KnownFeature, 0U);
        return stack.miniport.default_start_device(info, kernel, sources, children);
      };
      const Status status = stack.start();
      EXPECT_EQ(is_success(status), row.starts) << row.what;
      EXPECT_EQ(enabled, row.enabled) << row.what;
      EXPECT_EQ(os_caps, row.enabled) << row.what;
      EXPECT_EQ(version, row.enabled ? 1U : 0U) << row.what;
      if (!row.starts) {
        EXPECT_EQ(stack.only_finding().rule, "SYNC-31") << row.what;
        EXPECT_EQ(stack.only_finding().severity, verifier::Severity::kStartFail) << row.what;
      }
      stack.miniport.hooks.start_device = nullptr;
    });
  }
}

TEST_F(NativeFenceTest, WithoutThemTheThunksRefuse) {
  DXGKIT_COVERS("SYNC-31");
  bare([](NativeStack& stack) {
    stack.native->reported = false;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    VaClient client(stack);
    const Digest before = digest(stack, {&client});
    D3DKMT_CREATENATIVEFENCE args = creation(client);
    EXPECT_EQ(create(client, args), kRefused);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open{};
    open.hDevice = client.device;
    EXPECT_EQ(client.call([&] { return D3DKMTOpenNativeFenceFromNtHandle(&open); }), kRefused);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.native->live(), 0U);
  });
}

}  // namespace
}  // namespace dxgkit::contract
