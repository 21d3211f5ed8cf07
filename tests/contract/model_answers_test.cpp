// What each kind of adapter answers: with GPU addresses, with hardware queues, with native fences,
// with a screen alone, with none; and that an answer is whole, whatever was in the caller's buffer.
#include <cstring>

#include "tests/contract/display_fixture.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/hw_fixture.h"
#include "tests/contract/native_fixture.h"
#include "tests/contract/two_adapters.h"
#include "thunks/adapter_info.h"
#include "thunks/client.h"

namespace dxgkit::contract {
namespace {

using Rules = std::vector<std::string>;

NTSTATUS query(D3DKMT_HANDLE adapter, int type, void* data, size_t bytes) {
  D3DKMT_QUERYADAPTERINFO args{};
  args.hAdapter = adapter;
  args.Type = static_cast<KMTQUERYADAPTERINFOTYPE>(type);
  args.pPrivateDriverData = data;
  args.PrivateDriverDataSize = static_cast<UINT>(bytes);
  return D3DKMTQueryAdapterInfo(&args);
}

/// Inside a client's scope.
template <typename T>
T ask(D3DKMT_HANDLE adapter, int type, T in = {}) {
  EXPECT_EQ(query(adapter, type, &in, sizeof in), 0) << type;
  return in;
}

struct Expected {
  bool virtual_addresses = false, hw_queues = false, native_fences = false;
};

void answers_of(D3DKMT_HANDLE adapter, const Expected& has) {
  const auto type = ask<D3DKMT_ADAPTERTYPE>(adapter, KMTQAITYPE_ADAPTERTYPE);
  EXPECT_EQ(type.RenderSupported, 1U);
  EXPECT_EQ(type.DisplaySupported, 0U);
  EXPECT_EQ(type.PostDevice, 0U);
  EXPECT_EQ(type.HybridDiscrete, 0U);
  EXPECT_EQ(type.HybridIntegrated, 0U);
  EXPECT_EQ(type.SupportSetTimingsFromVidPn, 0U);
  EXPECT_EQ(type.RuntimePowerManagement, 0U);
  const auto va = ask<D3DKMT_VIRTUALADDRESSINFO>(adapter, KMTQAITYPE_VIRTUALADDRESSINFO);
  EXPECT_EQ(va.VirtualAddressFlags.VirtualAddressSupported, has.virtual_addresses ? 1U : 0U);
  const auto v20 = ask<D3DKMT_WDDM_2_0_CAPS>(adapter, KMTQAITYPE_WDDM_2_0_CAPS);
  EXPECT_EQ(v20.GpuMmuSupported, has.virtual_addresses ? 1U : 0U);
  EXPECT_EQ(v20.IoMmuSupported, 0U);
  const auto v27 = ask<D3DKMT_WDDM_2_7_CAPS>(adapter, KMTQAITYPE_WDDM_2_7_CAPS);
  EXPECT_EQ(v27.HwSchSupported, has.hw_queues ? 1U : 0U);
  EXPECT_EQ(v27.HwSchEnabled, has.hw_queues ? 1U : 0U);
  EXPECT_EQ(v27.HwSchEnabledByDefault, has.hw_queues ? 1U : 0U);
  const auto v29 = ask<D3DKMT_WDDM_2_9_CAPS>(adapter, KMTQAITYPE_WDDM_2_9_CAPS);
  EXPECT_EQ(v29.HwSchSupportState,
            has.hw_queues ? DXGK_FEATURE_SUPPORT_STABLE : DXGK_FEATURE_SUPPORT_ALWAYS_OFF);
  EXPECT_EQ(v29.HwSchEnabled, has.hw_queues ? 1U : 0U);
  EXPECT_EQ(v29.SelfRefreshMemorySupported, 0U);
  const auto v31 = ask<D3DKMT_WDDM_3_1_CAPS>(adapter, KMTQAITYPE_WDDM_3_1_CAPS);
  EXPECT_EQ(v31.NativeGpuFenceSupported, has.native_fences ? 1U : 0U);
  const auto flips = ask<D3DKMT_FLIPQUEUEINFO>(adapter, KMTQAITYPE_FLIPQUEUEINFO);
  EXPECT_EQ(flips.MaxSoftwareFlipQueueLength, 0U) << "it has no outputs";
  for (const auto& [id, on] : {std::pair{DXGK_FEATURE_HWSCH, has.hw_queues},
                               std::pair{DXGK_FEATURE_NATIVE_FENCE, has.native_fences}}) {
    D3DKMT_ISFEATUREENABLED feature{};
    feature.hAdapter = adapter;
    feature.FeatureId = id;
    EXPECT_EQ(D3DKMTIsFeatureEnabled(&feature), 0);
    EXPECT_EQ(feature.Result.KnownFeature, 1U);
    EXPECT_EQ(feature.Result.Enabled, on ? 1U : 0U) << id;
    EXPECT_EQ(feature.Result.SupportedByDriver, on ? 1U : 0U) << id;
    EXPECT_EQ(feature.Result.Version != 0, on) << id;
  }
}

/// Answers do not depend on what the buffer held. Where bytes of it are a question, they may.
void answers_are_whole(D3DKMT_HANDLE adapter) {
  for (const thunks::AdapterInfoType& type : thunks::adapter_info_types()) {
    if (type.answer == nullptr || type.type == KMTQAITYPE_QUERYREGISTRY) continue;
    SCOPED_TRACE(static_cast<int>(type.type));
    std::vector<std::byte> zeros(type.bytes), ones(type.bytes, std::byte{0xFF});
    if (query(adapter, type.type, zeros.data(), type.bytes) != 0) continue;
    if (query(adapter, type.type, ones.data(), type.bytes) != 0) continue;
    EXPECT_EQ(zeros, ones);
  }
}

TEST(ModelAnswers, AnAdapterWithoutAnythingMoreSaysSo) {
  DXGKIT_COVERS("THUNK-40");
  runtime::make_sim_runtime(1)->run_main([] {
    Stack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    client.as_client([&] {
      answers_of(client.adapter, {});
      answers_are_whole(client.adapter);
    });
  });
}

TEST_F(HwTest, AnAdapterWithHardwareQueuesSaysSo) {
  DXGKIT_COVERS("THUNK-40");
  running([](HwStack& stack) {
    Client client(stack);
    client.as_client([&] {
      answers_of(client.adapter, {.virtual_addresses = true, .hw_queues = true});
      answers_are_whole(client.adapter);
    });
  });
}

TEST(ModelAnswers, AnAdapterWithNativeFencesSaysSo) {
  DXGKIT_COVERS("THUNK-40");
  runtime::make_sim_runtime(
      {.seed = 1, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024})
      ->run_main([] {
        NativeStack stack;
        ASSERT_EQ(stack.start(), Status::kSuccess);
        Client client(stack);
        client.as_client([&] {
          answers_of(client.adapter, {.virtual_addresses = true, .native_fences = true});
        });
      });
}

// Outputs that are there, but what drivers say of them is not: a virtual mode, monitors at USB 4.
TEST(ModelAnswers, ADriversExtensionOfItsDisplayCapsIsPassedOn) {
  DXGKIT_COVERS("THUNK-40");
  for (const UINT set : {0U, 1U, 2U}) {
    SCOPED_TRACE(set);
    runtime::make_sim_runtime(1)->run_main([set] {
      Stack stack;
      stack.expect_leaks = true;
      stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_0;
      stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
        if (args->Type != DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION)
          return stack.miniport.default_query_adapter_info(args);
        auto* extension = static_cast<DXGK_DISPLAY_DRIVERCAPS_EXTENSION*>(args->pOutputData);
        extension->Value = 0;
        extension->VirtualModeSupport = set == 1 ? 1 : 0;
        extension->SupportUsb4Targets = set == 2 ? 1 : 0;
        return STATUS_SUCCESS;
      };
      FlipDriver driver(stack);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        Client client(stack);
        client.as_client([&] {
          const auto v13 = ask<D3DKMT_WDDM_1_3_CAPS>(client.adapter, KMTQAITYPE_WDDM_1_3_CAPS);
          EXPECT_EQ(v13.SupportVirtualModes, set == 1 ? 1U : 0U);
          const auto more = ask<D3DKMT_DRIVERCAPS_EXT>(client.adapter, KMTQAITYPE_DRIVERCAPS_EXT);
          EXPECT_EQ(more.VirtualModeSupport, set == 1 ? 1U : 0U);
          EXPECT_EQ(more.Usb4MonitorSupport, set == 2 ? 1U : 0U);
          answers_are_whole(client.adapter);
        });
      }
      stack.miniport.hooks = {};
    });
  }
}

TEST(ModelAnswers, MemoryThatIsTheSystemsCountsAsTheSystems) {
  DXGKIT_COVERS("THUNK-40");
  runtime::make_sim_runtime(1)->run_main([] {
    Stack stack;
    stack.miniport.config.segments[1].flags.PopulatedFromSystemMemory = 1;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    client.as_client([&] {
      const auto& segments = stack.miniport.config.segments;
      const auto sizes = ask<D3DKMT_SEGMENTSIZEINFO>(client.adapter, KMTQAITYPE_GETSEGMENTSIZE);
      EXPECT_EQ(sizes.DedicatedVideoMemorySize, segments[0].size);
      EXPECT_EQ(sizes.DedicatedSystemMemorySize, segments[1].size);
      EXPECT_EQ(sizes.SharedSystemMemorySize, segments[2].size);
    });
  });
}

/// A client of an adapter that has a screen and nothing else.
class ScreenClient {
 public:
  explicit ScreenClient(DisplayStack& stack)
      : stack_(stack), process_(stack.system->create_process("client")) {
    D3DKMT_OPENADAPTERFROMLUID args{};
    args.AdapterLuid.LowPart = stack.luid.low;
    args.AdapterLuid.HighPart = stack.luid.high;
    call([&] { EXPECT_EQ(D3DKMTOpenAdapterFromLuid(&args), 0); });
    adapter = args.hAdapter;
  }
  ~ScreenClient() { stack_.system->end_process(process_); }
  void call(const std::function<void()>& body) {
    const thunks::ClientScope scope(*stack_.system, process_);
    body();
  }
  D3DKMT_HANDLE adapter = 0;

 private:
  DisplayStack& stack_;
  dxgk::Process& process_;
};

class ScreenAnswers : public DisplayTest {};

TEST_F(ScreenAnswers, AScreenAloneHasNoMemoryAndNoEngines) {
  DXGKIT_COVERS("THUNK-40", "THUNK-43");
  running([](DisplayStack& stack) {
    ScreenClient client(stack);
    client.call([&] {
      const auto type = ask<D3DKMT_ADAPTERTYPE>(client.adapter, KMTQAITYPE_ADAPTERTYPE);
      EXPECT_EQ(type.RenderSupported, 0U);
      EXPECT_EQ(type.DisplaySupported, 1U);
      const auto flips = ask<D3DKMT_FLIPQUEUEINFO>(client.adapter, KMTQAITYPE_FLIPQUEUEINFO);
      EXPECT_EQ(flips.MaxHardwareFlipQueueLength, 0U);
      EXPECT_EQ(flips.MaxSoftwareFlipQueueLength, 0U);
      const auto sizes = ask<D3DKMT_SEGMENTSIZEINFO>(client.adapter, KMTQAITYPE_GETSEGMENTSIZE);
      EXPECT_EQ(sizes.DedicatedVideoMemorySize, 0U);
      answers_are_whole(client.adapter);
      D3DKMT_QUERYSTATISTICS args{};
      args.AdapterLuid.LowPart = stack.luid.low;
      args.AdapterLuid.HighPart = stack.luid.high;
      args.hProcess = reinterpret_cast<HANDLE>(intptr_t{-1});
      const auto get = [&](D3DKMT_QUERYSTATISTICS_TYPE what, NTSTATUS status) {
        args.Type = what;
        EXPECT_EQ(D3DKMTQueryStatistics(&args), status) << what;
      };
      get(D3DKMT_QUERYSTATISTICS_ADAPTER, 0);
      EXPECT_EQ(args.QueryResult.AdapterInformation.NodeCount, 0U);
      EXPECT_EQ(args.QueryResult.AdapterInformation.NbSegments, 0U);
      EXPECT_EQ(args.QueryResult.AdapterInformation.VidPnSourceCount, 1U);
      EXPECT_EQ(args.QueryResult.AdapterInformation.Flags.NumberOfMemoryGroups, 0U);
      get(D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, 0);
      EXPECT_EQ(args.QueryResult.VidPnSourceInformation.GlobalInformation.Frame, 0U);
      get(D3DKMT_QUERYSTATISTICS_SEGMENT, kInvalid);
      get(D3DKMT_QUERYSTATISTICS_NODE, kInvalid);
      get(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, kInvalid);
      get(D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, kInvalid);
      D3DKMT_FLUSHHEAPTRANSITIONS flush{client.adapter};
      EXPECT_EQ(D3DKMTFlushHeapTransitions(&flush), 0);
      D3DKMT_QUERYCLOCKCALIBRATION clock{};
      clock.hAdapter = client.adapter;
      EXPECT_EQ(D3DKMTQueryClockCalibration(&clock), nt_status(Status::kNotSupported));
      D3DKMT_ENUMADAPTERS3 list{};
      EXPECT_EQ(D3DKMTEnumAdapters3(&list), 0);
      EXPECT_EQ(list.NumAdapters, 0U) << "for those who ask for it";
      list = {};
      list.Filter.IncludeDisplayOnly = 1;
      EXPECT_EQ(D3DKMTEnumAdapters3(&list), 0);
      EXPECT_EQ(list.NumAdapters, 1U);
      D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS planes{};
      planes.hAdapter = client.adapter;
      EXPECT_EQ(D3DKMTGetMultiPlaneOverlayCaps(&planes), nt_status(Status::kNotSupported));
      D3DKMT_ADJUSTFULLSCREENGAMMA gamma{};
      gamma.hAdapter = client.adapter;
      EXPECT_EQ(D3DKMTAdjustFullscreenGamma(&gamma), kInvalid);
    });
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// Two adapters: what belongs to one is not the other's, in whatever member it is named.
TEST(ModelAnswers, WhatBelongsToOneAdapterIsNotTheOthers) {
  DXGKIT_COVERS("THUNK-05");
  runtime::make_sim_runtime(1)->run_main([] {
    Stack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    const SecondAdapter second(stack);
    Client client(stack);
    D3DKMT_HANDLE other = 0;
    const D3DKMT_HANDLE device = second.make_device(client, &other);
    ContextBuffers theirs, ours = client.make_context();
    ASSERT_EQ(client.create_context(&theirs, 0, device), 0);
    const Digest before = digest(stack, {&client});
    D3DKMT_GET_DEVICE_VIDPN_OWNERSHIP_INFO owner{};
    owner.hDevice = device;
    client.as_client([&] {
      EXPECT_EQ(
          query(client.adapter, KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO, &owner, sizeof owner),
          kInvalid);
      owner.bFailedDwmAcquireVidPn = TRUE;
      EXPECT_EQ(query(other, KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO, &owner, sizeof owner), 0);
      EXPECT_EQ(owner.bFailedDwmAcquireVidPn, FALSE);
    });
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.hDevice = device;
    const auto refused = [&](const char* what) {
      EXPECT_EQ(client.call([&] { return D3DKMTEscape(&escape); }), kInvalid) << what;
    };
    refused("another adapter's device");
    escape.hDevice = client.device;
    escape.hContext = theirs.handle;
    refused("another device's context");
    escape.hDevice = 0;
    escape.hContext = ours.handle;
    refused("a context without its device");
    escape.hContext = 0;
    for (const int type : {1, 2, -1}) {
      escape.Type = static_cast<D3DKMT_ESCAPETYPE>(type);
      refused("another kind of escape");
    }
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    for (UINT bit = 0; bit < 32; ++bit) {
      escape.Flags.Value = 1U << bit;
      if (bit != 0 && bit != 6) refused("a flag");
    }
    D3DKMT_RENDER render{};
    render.hContext = ours.handle;
    render.BroadcastContextCount = 1;
    render.BroadcastContext[0] = theirs.handle;
    EXPECT_EQ(client.call([&] { return D3DKMTRender(&render); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// Whoever asks an adapter without outputs about them is told that there are none.
TEST(ModelAnswers, WithoutOutputsNothingIsAnsweredAboutThem) {
  DXGKIT_COVERS("DISP-21", "THUNK-05");
  runtime::make_sim_runtime(1)->run_main([] {
    Stack stack;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    const D3DKMT_HANDLE allocation = client.make_allocation();
    const ContextBuffers context = client.make_context();
    const Digest before = digest(stack, {&client});
    const auto none = [&](const char* what, auto args, auto function, NTSTATUS status = kInvalid) {
      if constexpr (requires { args.hAdapter; }) args.hAdapter = client.adapter;
      if constexpr (requires { args.hDevice; }) args.hDevice = client.device;
      if constexpr (requires { args.hContext; }) args.hContext = context.handle;
      EXPECT_EQ(client.call([&] { return function(&args); }), status) << what;
      EXPECT_EQ(digest(stack, {&client}), before) << what;
    };
#define DXGKIT_NONE(name, type) none(#name, type{}, name)
    DXGKIT_NONE(D3DKMTCheckVidPnExclusiveOwnership, D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP);
    DXGKIT_NONE(D3DKMTGetScanLine, D3DKMT_GETSCANLINE);
    DXGKIT_NONE(D3DKMTWaitForVerticalBlankEvent, D3DKMT_WAITFORVERTICALBLANKEVENT);
    DXGKIT_NONE(D3DKMTWaitForVerticalBlankEvent2, D3DKMT_WAITFORVERTICALBLANKEVENT2);
    DXGKIT_NONE(D3DKMTCheckMonitorPowerState, D3DKMT_CHECKMONITORPOWERSTATE);
    DXGKIT_NONE(D3DKMTGetDisplayModeList, D3DKMT_GETDISPLAYMODELIST);
    DXGKIT_NONE(D3DKMTSetDisplayPrivateDriverFormat, D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT);
    DXGKIT_NONE(D3DKMTGetMultisampleMethodList, D3DKMT_GETMULTISAMPLEMETHODLIST);
    DXGKIT_NONE(D3DKMTGetSharedPrimaryHandle, D3DKMT_GETSHAREDPRIMARYHANDLE);
    DXGKIT_NONE(D3DKMTAdjustFullscreenGamma, D3DKMT_ADJUSTFULLSCREENGAMMA);
    DXGKIT_NONE(D3DKMTGetMultiPlaneOverlayCaps, D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS);
    DXGKIT_NONE(D3DKMTGetPostCompositionCaps, D3DKMT_GET_POST_COMPOSITION_CAPS);
#undef DXGKIT_NONE
    D3DKMT_SETVIDPNSOURCEOWNER owner{};
    none("SetVidPnSourceOwner", owner, D3DKMTSetVidPnSourceOwner);
    D3DKMT_SETDISPLAYMODE mode{};
    mode.hPrimaryAllocation = allocation;
    none("SetDisplayMode", mode, D3DKMTSetDisplayMode);
    D3DKMT_SETGAMMARAMP ramp{};
    ramp.Type = D3DDDI_GAMMARAMP_DEFAULT;
    none("SetGammaRamp", ramp, D3DKMTSetGammaRamp);
    D3DKMT_CREATEOVERLAY overlay{};
    overlay.OverlayInfo.hAllocation = allocation;
    none("CreateOverlay", overlay, D3DKMTCreateOverlay);
    D3DKMT_PRESENT present{};
    present.Flags.Flip = 1;
    present.hSource = allocation;
    none("Present", present, D3DKMTPresent);
    D3DKMT_GETDEVICESTATE state{};
    state.StateType = D3DKMT_DEVICESTATE_PRESENT;
    none("GetDeviceState", state, D3DKMTGetDeviceState);
    client.as_client([&] { EXPECT_EQ(D3DKMTCheckExclusiveOwnership(), FALSE); });
    // To poll outputs of an adapter without any is no mistake.
    D3DKMT_POLLDISPLAYCHILDREN poll{};
    poll.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTPollDisplayChildren(&poll); }), 0);
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

// The second screen has modes of its own.
TEST(ModelAnswers, EachScreenSaysItsOwnModes) {
  DXGKIT_COVERS("THUNK-47", "THUNK-41");
  runtime::make_sim_runtime(1)->run_main([] {
    Stack stack;
    FlipDriver driver(stack, 2);
    stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = 2}};
    ASSERT_EQ(stack.start(), Status::kSuccess);
    {
      FlipClient client(stack, driver, 0, false);
      driver.made = 32;
      dxgk::Displays displays(*stack.system);
      stack.blocking([&] {
        EXPECT_EQ(displays.set_mode(stack.luid, 1, {32, 32}), Status::kSuccess);
      });
      for (const UINT source : {0U, 1U}) {
        SCOPED_TRACE(source);
        D3DKMT_DISPLAYMODE modes[4] = {};
        D3DKMT_GETDISPLAYMODELIST list{};
        list.hAdapter = client.adapter;
        list.VidPnSourceId = source;
        list.ModeCount = 4;
        list.pModeList = modes;
        ASSERT_EQ(client.call([&] { return D3DKMTGetDisplayModeList(&list); }), 0);
        ASSERT_EQ(list.ModeCount, 2U);
        const UINT now = source == 0 ? kWidth : 32;
        for (const size_t i : {size_t{0}, size_t{1}}) {
          const UINT size = i == 0 ? now : 32 + kWidth - now;
          EXPECT_EQ(modes[i].Width, size);
          EXPECT_EQ(modes[i].Height, size);
          EXPECT_EQ(modes[i].DisplayOrientation, D3DDDI_ROTATION_IDENTITY);
          EXPECT_EQ(modes[i].IntegerRefreshRate, 60U);
          EXPECT_EQ(modes[i].RefreshRate.Numerator / modes[i].RefreshRate.Denominator, 60U);
          EXPECT_EQ(modes[i].ScanLineOrdering, D3DDDI_VSSLO_PROGRESSIVE);
          EXPECT_EQ(modes[i].Format, D3DDDIFMT_A8R8G8B8);
        }
        D3DKMT_CURRENTDISPLAYMODE current{};
        current.VidPnSourceId = source;
        client.as_client(
            [&] { current = ask(client.adapter, KMTQAITYPE_CURRENTDISPLAYMODE, current); });
        EXPECT_EQ(std::memcmp(&current.DisplayMode, &modes[0], sizeof modes[0]), 0);
        EXPECT_EQ(current.VidPnSourceId, source);
      }
    }
  });
}

}  // namespace
}  // namespace dxgkit::contract
