// Clone: one source on two outputs, as the driver's functional VidPN proposes.
#include <climits>
#include <vector>

#include "tests/contract/flip_fixture.h"
#include "vidpn/vidpn.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kSecond = 2;

struct Interfaces {
  D3DKMDT_HVIDPN vidpn = nullptr;
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
};

void pin_source(const Interfaces& on, UINT source = 0, UINT size = kWidth,
                D3DDDIFORMAT pixels = D3DDDIFMT_A8R8G8B8) {
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  ASSERT_EQ(on.functions->pfnCreateNewSourceModeSet(on.vidpn, source, &set, &modes), 0);
  D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
  ASSERT_EQ(modes->pfnCreateNewModeInfo(set, &mode), 0);
  mode->Type = D3DKMDT_RMT_GRAPHICS;
  D3DKMDT_GRAPHICS_RENDERING_FORMAT& format = mode->Format.Graphics;
  format.PrimSurfSize.cx = format.VisibleRegionSize.cx = size;
  format.PrimSurfSize.cy = format.VisibleRegionSize.cy = size;
  format.Stride = size * 4;
  format.PixelFormat = pixels;
  format.ColorBasis = D3DKMDT_CB_SCRGB;
  format.PixelValueAccessMode = D3DKMDT_PVAM_DIRECT;
  const auto id = mode->Id;
  ASSERT_EQ(modes->pfnAddMode(set, mode), 0);
  ASSERT_EQ(modes->pfnPinMode(set, id), 0);
  ASSERT_EQ(on.functions->pfnAssignSourceModeSet(on.vidpn, source, set), 0);
}

void pin_target(const Interfaces& on, UINT target) {
  D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
  ASSERT_EQ(on.functions->pfnCreateNewTargetModeSet(on.vidpn, target, &set, &modes), 0);
  D3DKMDT_VIDPN_TARGET_MODE* mode = nullptr;
  ASSERT_EQ(modes->pfnCreateNewModeInfo(set, &mode), 0);
  D3DKMDT_VIDEO_SIGNAL_INFO& signal = mode->VideoSignalInfo;
  signal.VideoStandard = D3DKMDT_VSS_OTHER;
  signal.TotalSize.cx = signal.ActiveSize.cx = kWidth;
  signal.TotalSize.cy = signal.ActiveSize.cy = kHeight;
  signal.VSyncFreq.Numerator = 60;
  signal.HSyncFreq.Numerator = 60 * kHeight;
  signal.VSyncFreq.Denominator = signal.HSyncFreq.Denominator = 1;
  signal.PixelRate = 60 * kWidth * kHeight;
  signal.ScanLineOrdering = D3DDDI_VSSLO_PROGRESSIVE;
  mode->Preference = D3DKMDT_MP_PREFERRED;
  const auto id = mode->Id;
  ASSERT_EQ(modes->pfnAddMode(set, mode), 0);
  ASSERT_EQ(modes->pfnPinMode(set, id), 0);
  ASSERT_EQ(on.functions->pfnAssignTargetModeSet(on.vidpn, target, set), 0);
}

class CloneTest : public FlipTest {
 protected:
  static inline ScriptedMiniport* driver_side = nullptr;
  // What the driver recommends: one source on both outputs, or one for each.
  static inline bool clones = true;
  static inline UINT second_size = 0;  // of the second of two sources, which is square
  static inline D3DDDIFORMAT pixels = D3DDDIFMT_A8R8G8B8;

  // What clients told it of their wishes, and what it answers to the next.
  struct Wish {
    bool has_data = false;
    std::vector<std::byte> bytes;
    bool operator==(const Wish&) const = default;
  };
  static inline std::vector<Wish> wishes;
  static inline NTSTATUS answer = STATUS_SUCCESS;

  void SetUp() override {
    clones = true;
    second_size = kWidth / 2;
    pixels = D3DDDIFMT_A8R8G8B8;
    wishes.clear();
    answer = STATUS_SUCCESS;
  }

  static NTSTATUS NTAPI recommend(const HANDLE,
                                  const DXGKARG_RECOMMENDFUNCTIONALVIDPN* const args) {
    const auto* const data = static_cast<const std::byte*>(args->pPrivateDriverData);
    wishes.push_back({.has_data = data != nullptr, .bytes = {}});
    wishes.back().bytes.assign(data, data + args->PrivateDriverDataSize);
    if (answer != STATUS_SUCCESS) return answer;
    Interfaces on{args->hRecommendedFunctionalVidPn, nullptr};
    EXPECT_EQ(driver_side->callbacks().DxgkCbQueryVidPnInterface(
                  on.vidpn, DXGK_VIDPN_INTERFACE_VERSION_V1, &on.functions),
              0);
    D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
    const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
    EXPECT_EQ(on.functions->pfnGetTopology(on.vidpn, &topology, &paths), 0);
    for (const UINT target : {kTarget, kSecond}) {
      D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
      EXPECT_EQ(paths->pfnCreateNewPathInfo(topology, &path), 0);
      path->VidPnSourceId = clones || target == kTarget ? 0 : 1;
      path->VidPnTargetId = target;
      path->ImportanceOrdinal = target == kTarget ? D3DKMDT_VPPI_PRIMARY : D3DKMDT_VPPI_SECONDARY;
      // What the driver leaves open on the second output the kernel pins.
      path->ContentTransformation.Scaling =
          target == kTarget ? D3DKMDT_VPPS_IDENTITY : D3DKMDT_VPPS_UNPINNED;
      path->ContentTransformation.ScalingSupport.Identity = 1;
      path->ContentTransformation.Rotation =
          target == kTarget ? D3DKMDT_VPPR_IDENTITY : D3DKMDT_VPPR_UNPINNED;
      path->ContentTransformation.RotationSupport.Identity = 1;
      path->ContentTransformation.RotationSupport.Offset0 = 1;
      path->VidPnTargetColorBasis = D3DKMDT_CB_SRGB;
      path->Content = D3DKMDT_VPPC_GRAPHICS;
      path->CopyProtection.CopyProtectionType = D3DKMDT_VPPMT_NOPROTECTION;
      path->GammaRamp.Type = D3DDDI_GAMMARAMP_DEFAULT;
      EXPECT_EQ(paths->pfnAddPath(topology, path), 0);
    }
    pin_source(on, 0, kWidth, pixels);
    if (!clones) pin_source(on, 1, second_size, pixels);
    pin_target(on, kTarget);
    pin_target(on, kSecond);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI supported(const HANDLE, DXGKARG_ISSUPPORTEDVIDPN* args) {
    args->IsVidPnSupported = TRUE;
    return STATUS_SUCCESS;
  }

  /// As flipping(), on two outputs.
  static void cloned(const std::function<void(Stack&, FlipDriver&, FlipClient&)>& body,
                     const std::function<void(FlipDriver&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      driver_side = &stack.miniport;
      FlipDriver driver(stack);
      stack.miniport.config.children = 2;
      driver.display.config.children = {{.uid = kTarget}, {.uid = kSecond}};
      driver.display.answers["DxgkDdiCommitVidPn"] = STATUS_SUCCESS;
      driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiRecommendFunctionalVidPn = recommend;
        table.DxgkDdiIsSupportedVidPn = supported;
      };
      if (prepare) prepare(driver);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        FlipClient client(stack, driver);
        body(stack, driver, client);
      }
      driver_side = nullptr;
    });
  }
};

TEST_F(CloneTest, OpenTransformationsOfTheDriversProposalBecomeIdentity) {
  DXGKIT_COVERS("VIDPN-20");
  cloned([](Stack& stack, FlipDriver&, FlipClient&) {
    const auto network = dxgk::Displays(*stack.system).active_network(stack.luid);
    ASSERT_TRUE(network.has_value());
    ASSERT_EQ(network->paths.size(), 2U);
    for (const vidpn::Path& path : network->paths) {
      EXPECT_EQ(path.scaling, static_cast<uint32_t>(D3DKMDT_VPPS_IDENTITY));
      EXPECT_EQ(path.rotation, static_cast<uint32_t>(D3DKMDT_VPPR_IDENTITY));
    }
  });
}

TEST_F(CloneTest, TheFirstOutputIsInTimeAndTheOthersFollowAtOnce) {
  DXGKIT_COVERS("DISP-09");
  cloned(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        const uint64_t before = driver.last_address();
        const size_t calls = driver.addresses().size();
        ASSERT_EQ(client.flip(client.primaries[1]), 0);
        stack.settle();
        ASSERT_EQ(driver.addresses().size(), calls + 1);
        EXPECT_EQ(driver.addresses().back().Flags.FlipOnNextVSync, 1U);
        EXPECT_EQ(driver.addresses().back().Flags.FlipImmediate, 0U);
        const uint64_t next = driver.last_address();
        EXPECT_NE(next, before);
        Stack::Background more(stack, [&] { EXPECT_EQ(client.flip(client.primaries[2]), 0); });

        // The other output says that it shows the new surface already: nobody follows it.
        driver.vsync(next, kSecond);
        EXPECT_EQ(driver.addresses().size(), calls + 1);
        EXPECT_FALSE(more.finished()) << "the old primary is on the first output still";
        driver.vsync(before, kTarget);
        EXPECT_EQ(driver.addresses().size(), calls + 1);

        driver.vsync(next, kTarget);
        EXPECT_TRUE(more.finished());
        const std::vector<DXGKARG_SETVIDPNSOURCEADDRESS> all = driver.addresses();
        ASSERT_GE(all.size(), calls + 2);
        const DXGKARG_SETVIDPNSOURCEADDRESS& others = all[calls + 1];
        EXPECT_EQ(others.Flags.FlipImmediate, 1U);
        EXPECT_EQ(others.Flags.FlipOnNextVSync, 0U);
        EXPECT_EQ(static_cast<uint64_t>(others.PrimaryAddress.QuadPart), next);
        EXPECT_EQ(others.VidPnSourceId, 0U);
        EXPECT_EQ(others.ContextCount, 1U);
        EXPECT_THAT(std::vector(driver.irqls.end() - 1, driver.irqls.end()),
                    ::testing::Each(::testing::Gt(nt::kDispatchLevel)));
        stack.settle();
        driver.vsync();
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](FlipDriver& driver) { driver.immediate_mmio = true; });
}

TEST_F(CloneTest, WithoutImmediateRegistersTheDriverSeesToTheOthers) {
  DXGKIT_COVERS("DISP-09");
  cloned([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(client.flip(client.primaries[1]), 0);
    stack.settle();
    const size_t calls = driver.addresses().size();
    driver.vsync();
    EXPECT_EQ(driver.addresses().size(), calls);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(CloneTest, AFlipAtOnceIsOneForAllOutputs) {
  DXGKIT_COVERS("DISP-09");
  cloned(
      [](Stack& stack, FlipDriver& driver, FlipClient& client) {
        const size_t calls = driver.addresses().size();
        ASSERT_EQ(client.flip(client.primaries[1], 0), 0);
        stack.settle();
        ASSERT_EQ(driver.addresses().size(), calls + 1);
        EXPECT_EQ(driver.addresses().back().Flags.FlipImmediate, 1U);
        driver.vsync();
        EXPECT_EQ(driver.addresses().size(), calls + 1);
      },
      [](FlipDriver& driver) { driver.immediate_mmio = true; });
}

TEST_F(CloneTest, EachSourceOfTheDriversProposalHasItsOwnModes) {
  DXGKIT_COVERS("VIDPN-20", "DOD-05");
  bare([&](Stack& stack) {
    driver_side = &stack.miniport;
    clones = false;
    FlipDriver driver(stack, 2);
    stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = kSecond}};
    driver.display.answers["DxgkDdiCommitVidPn"] = STATUS_SUCCESS;
    driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiRecommendFunctionalVidPn = recommend;
      table.DxgkDdiIsSupportedVidPn = supported;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    const auto configuration = dxgk::Displays(*stack.system).configuration(stack.luid);
    ASSERT_TRUE(configuration.has_value());
    ASSERT_EQ(configuration->sources.size(), 2U);
    for (uint32_t source = 0; source < 2; ++source) {
      SCOPED_TRACE(source);
      const uint32_t size = source == 0 ? kWidth : kWidth / 2;
      EXPECT_EQ(configuration->sources[source].mode, (dxgk::DisplayMode{size, size}));
      EXPECT_THAT(configuration->sources[source].modes, ElementsAre(dxgk::DisplayMode{size, size}));
    }
    clones = true;
    driver_side = nullptr;
  });
}

// A driver before WDDM 1.1: a client's wish reaches it as the client wrote it, and its proposal
// takes the place of what is shown.
TEST_F(CloneTest, AClientsWishReachesTheDriver) {
  DXGKIT_COVERS("THUNK-61", "THUNK-01", "THUNK-05");
  bare([&](Stack& stack) {
    driver_side = &stack.miniport;
    clones = false;
    second_size = kWidth;
    stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_VISTA;
    stack.miniport.config.nodes = 1;
    stack.miniport.config.paging_node = 0;
    stack.miniport.config.preemption_aware = false;
    stack.miniport.config.cancel_command_aware = false;
    FlipDriver driver(stack, 2);
    stack.miniport.config.children = 2;
    driver.display.config.children = {{.uid = kTarget}, {.uid = kSecond}};
    driver.display.answers["DxgkDdiCommitVidPn"] = STATUS_SUCCESS;
    driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiRecommendFunctionalVidPn = recommend;
      table.DxgkDdiIsSupportedVidPn = supported;
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    wishes.clear();
    {
      FlipClient client(stack, driver, 0, false);
      D3DKMT_INVALIDATEACTIVEVIDPN args{};
      args.hAdapter = client.adapter;
      const auto invalidate = [&] {
        NTSTATUS status = -1;
        stack.blocking(
            [&] { status = client.call([&] { return D3DKMTInvalidateActiveVidPn(&args); }); });
        return status;
      };
      const auto shown = [&] {
        return dxgk::Displays(*stack.system).active_network(stack.luid)->paths;
      };
      ASSERT_EQ(shown().size(), 2U);
      ASSERT_NE(shown()[0].source, shown()[1].source);
      // The size is all that says whether there is data.
      std::byte unused{1};
      args.pPrivateDriverData = &unused;
      clones = true;
      EXPECT_EQ(invalidate(), 0);
      EXPECT_EQ(wishes, std::vector<Wish>{Wish{}});
      EXPECT_EQ(shown()[0].source, shown()[1].source) << "its proposal is shown";
      for (const size_t size : {size_t{1}, size_t{13}, size_t{1} << 20}) {
        SCOPED_TRACE(size);
        std::vector<std::byte> bytes(size);
        for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
        args.pPrivateDriverData = bytes.data();
        args.PrivateDriverDataSize = static_cast<UINT>(size);
        wishes.clear();
        EXPECT_EQ(invalidate(), 0);
        EXPECT_EQ(wishes, (std::vector<Wish>{{.has_data = true, .bytes = bytes}}));
      }

      // What it refuses changes nothing, and the client learns why.
      wishes.clear();
      clones = false;
      const auto before = shown();
      args.pPrivateDriverData = &unused;
      args.PrivateDriverDataSize = 1;
      for (const NTSTATUS refusal :
           {nt_status(Status::kNotSupported), nt_status(vidpn::kNoRecommendedFunctionalVidPn)}) {
        answer = refusal;
        EXPECT_EQ(invalidate(), refusal);
      }
      answer = nt_status(Status::kNotImplemented);
      EXPECT_EQ(invalidate(), nt_status(vidpn::kNoRecommendedFunctionalVidPn));
      answer = STATUS_SUCCESS;
      EXPECT_EQ(wishes.size(), 3U);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      const Digest state = digest(stack, {&client});
      std::vector<std::byte> large((size_t{1} << 20) + 1);
      for (const auto& [data, size] : {std::pair<void*, size_t>{nullptr, 1},
                                       {reinterpret_cast<void*>(uintptr_t{0x10}), 1},
                                       {large.data(), large.size()},
                                       {&unused, UINT_MAX}}) {
        args.pPrivateDriverData = data;
        args.PrivateDriverDataSize = static_cast<UINT>(size);
        EXPECT_EQ(invalidate(), nt_status(Status::kInvalidParameter));
      }
      EXPECT_EQ(digest(stack, {&client}), state);
      EXPECT_EQ(wishes.size(), 3U) << "the driver was not asked";
      EXPECT_EQ(shown(), before);
    }
    clones = true;
    driver_side = nullptr;
  });
}

// With and without alpha, in the order of the screen's colours.
TEST_F(CloneTest, AFlipHasTheColoursOfTheScreenInTheirOrder) {
  DXGKIT_COVERS("DISP-03");
  pixels = D3DDDIFMT_A8B8G8R8;
  cloned([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    ASSERT_EQ(driver.format, D3DDDIFMT_A8B8G8R8);
    for (const D3DDDIFORMAT format :
         {D3DDDIFMT_A8R8G8B8, D3DDDIFMT_X8R8G8B8, D3DDDIFMT_A8B8G8R8, D3DDDIFMT_X8B8G8R8}) {
      SCOPED_TRACE(format);
      const bool twin = format == D3DDDIFMT_A8B8G8R8 || format == D3DDDIFMT_X8B8G8R8;
      driver.format = format;
      EXPECT_EQ(client.flip(client.primaries[1]),
                twin ? 0 : nt_status(Status::kGraphicsAllocationInvalid));
      stack.settle();
      if (twin) driver.vsync();
    }
    driver.format = D3DDDIFMT_A8B8G8R8;
  });
  pixels = D3DDDIFMT_A8R8G8B8;
}

}  // namespace
}  // namespace dxgkit::contract
