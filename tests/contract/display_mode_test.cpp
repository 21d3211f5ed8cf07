// What D3DKMTSetDisplayMode says beside the primary: the order of scan lines, the orientation, the
// private format. The driver offers a screen that it can rotate and drive interlaced.
#include <algorithm>
#include <functional>
#include <ranges>
#include <vector>

#include "dxgk/core/process.h"
#include "dxgk/memory/allocation.h"
#include "tests/contract/flip_fixture.h"
#include "vidpn/vidpn.h"

namespace dxgkit::contract {
namespace {

constexpr NTSTATUS kIncompatible = static_cast<NTSTATUS>(0xC01E0355);

struct Size {
  UINT width = 0, height = 0;
  bool operator==(const Size&) const = default;
};
constexpr Size kSquare{kWidth, kHeight}, kWide{kWidth, kHeight / 2};
Size turned(const Size& size) { return {size.height, size.width}; }

/// What the driver offers beside these two, and how often its interlaced signals draw a field.
std::vector<Size> more_sizes;
D3DDDI_RATIONAL rate_of_fields{60, 1};

/// Whether the driver describes primaries, and what happens instead.
NTSTATUS described = STATUS_SUCCESS;
bool stops_machine = false;
void stop_machine() {
  reinterpret_cast<void(NTAPI*)(uint32_t)>(
      const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
}

/// Drivers in use leave ActiveSize of their signals out.
bool says_active_size = true;

/// The VidPN of one call, and what the driver does with it.
class OpenVidPn {
 public:
  OpenVidPn(const DXGKRNL_INTERFACE& callbacks, D3DKMDT_HVIDPN vidpn) : vidpn_(vidpn) {
    EXPECT_EQ(
        callbacks.DxgkCbQueryVidPnInterface(vidpn, DXGK_VIDPN_INTERFACE_VERSION_V1, &functions_),
        0);
    EXPECT_EQ(functions_->pfnGetTopology(vidpn, &topology_, &paths_), 0);
  }
  /// The only path.
  D3DKMDT_VIDPN_PRESENT_PATH path() const {
    const D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
    EXPECT_EQ(paths_->pfnAcquireFirstPathInfo(topology_, &path), 0);
    const D3DKMDT_VIDPN_PRESENT_PATH copy = *path;
    EXPECT_EQ(paths_->pfnReleasePathInfo(topology_, path), 0);
    return copy;
  }
  void set_support(const D3DKMDT_VIDPN_PRESENT_PATH& path) const {
    EXPECT_EQ(paths_->pfnUpdatePathSupportInfo(topology_, &path), 0);
  }
  /// The size of the pinned source mode; 0 without one.
  Size source() const {
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
    EXPECT_EQ(functions_->pfnAcquireSourceModeSet(vidpn_, 0, &set, &modes), 0);
    const D3DKMDT_VIDPN_SOURCE_MODE* pinned = nullptr;
    Size size;
    if (modes->pfnAcquirePinnedModeInfo(set, &pinned) == 0 && pinned != nullptr) {
      size = {pinned->Format.Graphics.PrimSurfSize.cx, pinned->Format.Graphics.PrimSurfSize.cy};
      EXPECT_EQ(modes->pfnReleaseModeInfo(set, pinned), 0);
    }
    EXPECT_EQ(functions_->pfnReleaseSourceModeSet(vidpn_, set), 0);
    return size;
  }
  bool target_is_pinned() const {
    D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
    const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
    EXPECT_EQ(functions_->pfnAcquireTargetModeSet(vidpn_, kTarget, &set, &modes), 0);
    const D3DKMDT_VIDPN_TARGET_MODE* pinned = nullptr;
    const bool is = modes->pfnAcquirePinnedModeInfo(set, &pinned) == 0 && pinned != nullptr;
    if (is) {
      EXPECT_EQ(modes->pfnReleaseModeInfo(set, pinned), 0);
    }
    EXPECT_EQ(functions_->pfnReleaseTargetModeSet(vidpn_, set), 0);
    return is;
  }
  /// Each size in the first format, and the first size in the others too.
  void offer_sources(const std::vector<Size>& sizes,
                     const std::vector<D3DDDIFORMAT>& pixel_formats) const {
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
    ASSERT_EQ(functions_->pfnCreateNewSourceModeSet(vidpn_, 0, &set, &modes), 0);
    const auto offer = [&](const Size& size, D3DDDIFORMAT pixel_format) {
      D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
      ASSERT_EQ(modes->pfnCreateNewModeInfo(set, &mode), 0);
      mode->Type = D3DKMDT_RMT_GRAPHICS;
      D3DKMDT_GRAPHICS_RENDERING_FORMAT& format = mode->Format.Graphics;
      format.PrimSurfSize.cx = format.VisibleRegionSize.cx = size.width;
      format.PrimSurfSize.cy = format.VisibleRegionSize.cy = size.height;
      format.Stride = size.width * 4;
      format.PixelFormat = pixel_format;
      format.ColorBasis = D3DKMDT_CB_SCRGB;
      format.PixelValueAccessMode = D3DKMDT_PVAM_DIRECT;
      ASSERT_EQ(modes->pfnAddMode(set, mode), 0);
    };
    for (const Size& size : sizes) offer(size, pixel_formats.front());
    for (const D3DDDIFORMAT other : pixel_formats | std::views::drop(1))
      offer(sizes.front(), other);
    ASSERT_EQ(functions_->pfnAssignSourceModeSet(vidpn_, 0, set), 0);
  }
  void offer_target(const std::vector<Size>& sizes,
                    const std::vector<D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING>& orders) const {
    D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
    const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
    ASSERT_EQ(functions_->pfnCreateNewTargetModeSet(vidpn_, kTarget, &set, &modes), 0);
    for (const Size& size : sizes) {
      for (const D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING order : orders) {
        D3DKMDT_VIDPN_TARGET_MODE* mode = nullptr;
        ASSERT_EQ(modes->pfnCreateNewModeInfo(set, &mode), 0);
        D3DKMDT_VIDEO_SIGNAL_INFO& signal = mode->VideoSignalInfo;
        signal.VideoStandard = D3DKMDT_VSS_OTHER;
        signal.TotalSize = {size.width, size.height};
        signal.ActiveSize = says_active_size ? signal.TotalSize : D3DKMDT_2DREGION{};
        const bool has_fields = order != D3DDDI_VSSLO_PROGRESSIVE;
        signal.VSyncFreq = has_fields ? rate_of_fields : D3DDDI_RATIONAL{60, 1};
        signal.HSyncFreq = signal.VSyncFreq;
        signal.HSyncFreq.Numerator *= size.height;
        if (has_fields) signal.HSyncFreq.Numerator /= 2;  // two fields make a frame
        signal.PixelRate =
            SIZE_T{signal.HSyncFreq.Numerator} * size.width / signal.HSyncFreq.Denominator;
        signal.ScanLineOrdering = order;
        mode->Preference = D3DKMDT_MP_PREFERRED;
        ASSERT_EQ(modes->pfnAddMode(set, mode), 0);
      }
    }
    ASSERT_EQ(functions_->pfnAssignTargetModeSet(vidpn_, kTarget, set), 0);
  }

 private:
  D3DKMDT_HVIDPN vidpn_;
  const DXGK_VIDPN_INTERFACE* functions_ = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology_ = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths_ = nullptr;
};

class DisplayModeTest : public FlipTest {
 protected:
  static inline ScriptedMiniport* driver_side = nullptr;
  static inline Size surface = kSquare;  // of all primaries that the driver is asked about
  static inline UINT format = 0;         // the private one of the client's primary
  static inline D3DDDIFORMAT pixels = D3DDDIFMT_A8R8G8B8;  // of all primaries
  static inline void* clients_primary = nullptr;           // as the driver knows it

  static NTSTATUS NTAPI enumerate(const HANDLE, const DXGKARG_ENUMVIDPNCOFUNCMODALITY* const args) {
    const OpenVidPn on(driver_side->callbacks(), args->hConstrainingVidPn);
    D3DKMDT_VIDPN_PRESENT_PATH path = on.path();
    D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& how = path.ContentTransformation;
    const bool is_turned = how.Rotation == D3DKMDT_VPPR_ROTATE90;
    const Size source = on.source();
    if (source == Size{} && args->EnumPivotType != D3DKMDT_EPT_VIDPNSOURCE) {
      std::vector<Size> sizes = {kSquare, is_turned ? turned(kWide) : kWide};
      sizes.insert(sizes.end(), more_sizes.begin(), more_sizes.end());
      on.offer_sources(sizes, {D3DDDIFMT_A8R8G8B8, D3DDDIFMT_A8B8G8R8});
    }
    if (!on.target_is_pinned() && args->EnumPivotType != D3DKMDT_EPT_VIDPNTARGET) {
      on.offer_target({kSquare, kWide},
                      {D3DDDI_VSSLO_PROGRESSIVE, D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST});
    }
    how.ScalingSupport = {};
    how.ScalingSupport.Identity = 1;
    how.RotationSupport = {};
    how.RotationSupport.Identity = how.RotationSupport.Rotate90 = 1;
    how.RotationSupport.Offset0 = 1;
    on.set_support(path);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI supported(const HANDLE, DXGKARG_ISSUPPORTEDVIDPN* args) {
    args->IsVidPnSupported = TRUE;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI describe(const HANDLE, DXGKARG_DESCRIBEALLOCATION* args) {
    if (stops_machine) stop_machine();
    if (described != STATUS_SUCCESS) return described;
    args->Width = surface.width;
    args->Height = surface.height;
    args->Format = pixels;
    args->MultisampleMethod = {};
    args->RefreshRate = {};
    args->PrivateDriverFormatAttribute = args->hAllocation == clients_primary ? format : 5;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set_format(const HANDLE, DXGKARG_SETDISPLAYPRIVATEDRIVERFORMAT*) {
    return STATUS_SUCCESS;
  }

  /// A client that owns the source and has one primary, which is not shown yet.
  static void with_modes(const std::function<void(Stack&, FlipDriver&, FlipClient&)>& body) {
    surface = kSquare;
    format = 5;
    pixels = D3DDDIFMT_A8R8G8B8;
    bare([&](Stack& stack) {
      driver_side = &stack.miniport;
      FlipDriver driver(stack);
      driver.display.answers["DxgkDdiCommitVidPn"] = STATUS_SUCCESS;
      driver.more_table = [](DRIVER_INITIALIZATION_DATA& table) {
        table.DxgkDdiEnumVidPnCofuncModality = enumerate;
        table.DxgkDdiIsSupportedVidPn = supported;
        table.DxgkDdiDescribeAllocation = describe;
        table.DxgkDdiSetDisplayPrivateDriverFormat = set_format;
      };
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        FlipClient client(stack, driver, 1, false);
        clients_primary =
            (*client.process->handles().find<dxgk::OpenedAllocation>(client.primaries[0]))
                ->driver_allocation;
        ASSERT_EQ(client.own(D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE), 0);
        body(stack, driver, client);
      }
      clients_primary = nullptr;
      driver_side = nullptr;
    });
  }
  static D3DKMT_SETDISPLAYMODE mode_of(FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args{};
    args.hDevice = client.device;
    args.hPrimaryAllocation = client.primaries[0];
    return args;
  }
  static NTSTATUS set(FlipClient& client, const D3DKMT_SETDISPLAYMODE& args) {
    NTSTATUS status = -1;
    client.stack.blocking(
        [&] { status = client.call([&] { return D3DKMTSetDisplayMode(&args); }); });
    return status;
  }
  /// What is on the screen.
  struct Shown {
    Size source, target;
    uint32_t order = 0, rotation = 0;
    uint32_t pixels = D3DDDIFMT_A8R8G8B8;
    bool operator==(const Shown&) const = default;
  };
  static Shown shown(Stack& stack) {
    const auto network = *dxgk::Displays(*stack.system).active_network(stack.luid);
    const vidpn::SourceMode& source = *network.pinned_source_mode(0);
    const vidpn::Signal& signal = network.pinned_target_mode(kTarget)->signal;
    return {.source = {source.surface.width, source.surface.height},
            .target = {signal.active.width, signal.active.height},
            .order = signal.scanline_ordering,
            .rotation = network.paths.front().rotation,
            .pixels = source.pixel_format};
  }
};

TEST_F(DisplayModeTest, TheOrderOfScanLinesIsThatOfTheSignal) {
  DXGKIT_COVERS("THUNK-63");
  with_modes([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    const auto commits = [&] { return driver.display.calls().commits.size(); };
    const size_t before = commits();
    EXPECT_EQ(set(client, args), 0);
    args.ScanLineOrdering = D3DDDI_VSSLO_PROGRESSIVE;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(commits(), before) << "it is shown already";
    args.ScanLineOrdering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(commits(), before + 1);
    const Shown interlaced{.source = kSquare, .target = kSquare, .order = 2, .rotation = 1};
    EXPECT_EQ(shown(stack), interlaced);
    args.ScanLineOrdering = D3DDDI_VSSLO_UNINITIALIZED;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(shown(stack), interlaced) << "any order will do";
    surface = kWide;
    args.ScanLineOrdering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(shown(stack), (Shown{.source = kWide, .target = kWide, .order = 2, .rotation = 1}));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayModeTest, ASignalWithoutActiveSizeIsOfItsTotalSize) {
  DXGKIT_COVERS("VIDPN-03");
  says_active_size = false;
  with_modes([](Stack& stack, FlipDriver&, FlipClient& client) {
    const auto total = [&] {
      const auto network = *dxgk::Displays(*stack.system).active_network(stack.luid);
      const vidpn::Size size = network.pinned_target_mode(kTarget)->signal.total;
      return Size{size.width, size.height};
    };
    surface = kWide;
    EXPECT_EQ(set(client, mode_of(client)), 0);
    EXPECT_EQ(total(), kWide) << "the signal that fits, and not the first one";
    surface = kSquare;
    EXPECT_EQ(set(client, mode_of(client)), 0);
    EXPECT_EQ(total(), kSquare);
    const std::vector<std::string> rules = stack.rules();
    EXPECT_FALSE(rules.empty());
    EXPECT_TRUE(std::ranges::all_of(rules, [](const auto& rule) { return rule == "VIDPN-03"; }));
  });
  says_active_size = true;
}

TEST_F(DisplayModeTest, TheOrientationIsThatOfThePath) {
  DXGKIT_COVERS("THUNK-63");
  with_modes([](Stack& stack, FlipDriver&, FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    args.DisplayOrientation = D3DDDI_ROTATION_90;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(shown(stack),
              (Shown{.source = kSquare, .target = kSquare, .order = 1, .rotation = 2}));
    surface = turned(kWide);
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(shown(stack),
              (Shown{.source = turned(kWide), .target = kWide, .order = 1, .rotation = 2}))
        << "the signal is as wide as the surface is high";
    surface = kSquare;
    args.DisplayOrientation = D3DDDI_ROTATION_IDENTITY;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(shown(stack),
              (Shown{.source = kSquare, .target = kSquare, .order = 1, .rotation = 1}));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayModeTest, WhatTheDriverDoesNotOfferIsRefused) {
  DXGKIT_COVERS("THUNK-63", "THUNK-05", "THUNK-03");
  with_modes([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    const D3DKMT_SETDISPLAYMODE right = mode_of(client);
    EXPECT_EQ(set(client, right), 0);
    const Shown before = shown(stack);
    const size_t commits = driver.display.calls().commits.size();
    const auto refused = [&](const std::function<void(D3DKMT_SETDISPLAYMODE&)>& spoil) {
      D3DKMT_SETDISPLAYMODE args = right;
      spoil(args);
      EXPECT_EQ(set(client, args), kInvalid);
      EXPECT_EQ(shown(stack), before);
      EXPECT_EQ(driver.display.calls().commits.size(), commits);
    };
    for (const UINT order : {3U, 255U, 4U, 254U, UINT_MAX}) {
      SCOPED_TRACE(order);
      refused([&](auto& args) {
        args.ScanLineOrdering = static_cast<D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING>(order);
      });
    }
    for (const UINT rotation : {3U, 4U, 5U, UINT_MAX}) {
      SCOPED_TRACE(rotation);
      refused(
          [&](auto& args) { args.DisplayOrientation = static_cast<D3DDDI_ROTATION>(rotation); });
    }
    refused([](auto& args) { args.Flags.Reserved = 1; });
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// What the driver does not describe cannot be shown: whatever it answers, and if it fails
// meanwhile.
TEST_F(DisplayModeTest, APrimaryThatIsNotDescribedIsRefused) {
  DXGKIT_COVERS("DISP-14", "THUNK-07");
  for (const bool stops : {false, true}) {
    SCOPED_TRACE(stops);
    with_modes([stops](Stack& stack, FlipDriver&, FlipClient& client) {
      stack.expect_leaks = stops;
      const Shown before = shown(stack);
      stops_machine = stops;
      described = nt_status(Status::kInsufficientResources);
      EXPECT_EQ(set(client, mode_of(client)),
                nt_status(stops ? Status::kDeviceRemoved : Status::kInvalidParameter));
      stops_machine = false;
      described = STATUS_SUCCESS;
      if (stops) return;
      EXPECT_EQ(shown(stack), before);
      EXPECT_EQ(set(client, mode_of(client)), 0);
    });
  }
}

TEST_F(DisplayModeTest, TheModeHasThePixelFormatOfThePrimary) {
  DXGKIT_COVERS("THUNK-63", "THUNK-05");
  with_modes([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    EXPECT_EQ(set(client, args), 0);
    const Shown first = shown(stack);
    const auto commits = [&] { return driver.display.calls().commits.size(); };
    const size_t before = commits();
    pixels = D3DDDIFMT_X8R8G8B8;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(commits(), before) << "the screen ignores alpha";

    const auto refused = [&](D3DDDIFORMAT asked, const Size& size) {
      pixels = asked;
      surface = size;
      const size_t addresses = driver.addresses().size();
      EXPECT_EQ(set(client, args), kInvalid);
      EXPECT_EQ(shown(stack), first) << "the screen shows what it showed";
      EXPECT_EQ(commits(), before);
      EXPECT_EQ(driver.addresses().size(), addresses);
    };
    refused(D3DDDIFMT_R5G6B5, kSquare);
    refused(D3DDDIFMT_A8B8G8R8, kWide);  // offered for the other size only
    args.Flags.PreserveVidPn = 1;
    refused(D3DDDIFMT_A8B8G8R8, kSquare);
    args.Flags.PreserveVidPn = 0;

    pixels = D3DDDIFMT_A8B8G8R8;
    surface = kSquare;
    EXPECT_EQ(set(client, args), 0);
    Shown other = first;
    other.pixels = D3DDDIFMT_A8B8G8R8;
    EXPECT_EQ(shown(stack), other) << "the driver offers this size in this format too";
    EXPECT_EQ(commits(), before + 1);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayModeTest, TheVidPnIsPreservedIfTheClientAsksForThat) {
  DXGKIT_COVERS("THUNK-63", "THUNK-05");
  with_modes([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    args.Flags.PreserveVidPn = 1;
    const size_t commits = driver.display.calls().commits.size();
    EXPECT_EQ(set(client, args), 0) << "the mode is shown already";
    args.DisplayOrientation = D3DDDI_ROTATION_90;
    EXPECT_EQ(set(client, args), kInvalid);
    args.DisplayOrientation = D3DDDI_ROTATION_IDENTITY;
    surface = kWide;
    EXPECT_EQ(set(client, args), kInvalid);
    EXPECT_EQ(driver.display.calls().commits.size(), commits);
    args.Flags.PreserveVidPn = 0;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(driver.display.calls().commits.size(), commits + 1);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(DisplayModeTest, AnotherPrivateFormatIsRefusedAndTheClientLearnsTheRightOne) {
  DXGKIT_COVERS("THUNK-63");
  with_modes([](Stack& stack, FlipDriver& driver, FlipClient& client) {
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    format = 7;
    args.PrivateDriverFormatAttribute = 99;
    const size_t addresses = driver.addresses().size();
    EXPECT_EQ(set(client, args), kIncompatible);
    EXPECT_EQ(args.PrivateDriverFormatAttribute, 5U) << "that of the kernel's primary";
    EXPECT_EQ(driver.addresses().size(), addresses) << "it is not shown";
    surface = kWide;
    args.PrivateDriverFormatAttribute = 99;
    const Shown before = shown(stack);
    EXPECT_EQ(set(client, args), kInvalid) << "no mode is set for a surface in another format";
    EXPECT_EQ(args.PrivateDriverFormatAttribute, 99U);
    EXPECT_EQ(shown(stack), before);
    surface = kSquare;
    // The client converts its surface, or changes the format of the source.
    format = 5;
    EXPECT_EQ(set(client, args), 0);
    const D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT change{
        .hDevice = client.device, .VidPnSourceId = 0, .PrivateDriverFormatAttribute = 7};
    NTSTATUS status = -1;
    stack.blocking([&] {
      status = client.call([&] { return D3DKMTSetDisplayPrivateDriverFormat(&change); });
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(set(client, args), kIncompatible);
    EXPECT_EQ(args.PrivateDriverFormatAttribute, 7U);
    format = 7;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

/// A mode as a test compares it.
struct Listed {
  Size size;
  UINT hertz = 0;
  D3DDDI_RATIONAL rate{};
  int order = 0, rotation = 1;
  uint32_t pixels = D3DDDIFMT_A8R8G8B8;
  bool operator==(const Listed& other) const {
    return size == other.size && hertz == other.hertz && rate.Numerator == other.rate.Numerator &&
           rate.Denominator == other.rate.Denominator && order == other.order &&
           rotation == other.rotation && pixels == other.pixels;
  }
};
std::ostream& operator<<(std::ostream& out, const Listed& one) {
  return out << one.size.width << "x" << one.size.height << " at " << one.hertz << " ("
             << one.rate.Numerator << "/" << one.rate.Denominator << ") order " << one.order
             << " rotation " << one.rotation << " format " << one.pixels;
}
std::vector<Listed> listed(FlipClient& client) {
  std::vector<D3DKMT_DISPLAYMODE> modes(16);
  D3DKMT_GETDISPLAYMODELIST args{};
  args.hAdapter = client.adapter;
  args.ModeCount = 16;
  args.pModeList = modes.data();
  EXPECT_EQ(client.call([&] { return D3DKMTGetDisplayModeList(&args); }), 0);
  std::vector<Listed> out;
  for (UINT i = 0; i < args.ModeCount; ++i) {
    out.push_back({.size = {modes[i].Width, modes[i].Height},
                   .hertz = modes[i].IntegerRefreshRate,
                   .rate = modes[i].RefreshRate,
                   .order = static_cast<int>(modes[i].ScanLineOrdering),
                   .rotation = static_cast<int>(modes[i].DisplayOrientation),
                   .pixels = static_cast<uint32_t>(modes[i].Format)});
  }
  return out;
}

constexpr Size kLow{kWidth / 2, kHeight / 4};                  // no signal is of this size
constexpr D3DDDI_RATIONAL kSixty{60, 1}, kFilm{119880, 2002};  // 59.88, which are 60 fields
constexpr Listed kSquareLines{.size = kSquare, .hertz = 60, .rate = kSixty, .order = 1},
    kSquareFields{.size = kSquare, .hertz = 60, .rate = kFilm, .order = 2},
    kWideLines{.size = kWide, .hertz = 60, .rate = kSixty, .order = 1},
    kWideFields{.size = kWide, .hertz = 60, .rate = kFilm, .order = 2}, kLowAlone{.size = kLow};

// The mode that is shown comes first, then every size with each of its signals, once.
TEST_F(DisplayModeTest, TheListHasEachSignalOnceAndTheShownOneFirst) {
  DXGKIT_COVERS("THUNK-47");
  more_sizes = {kLow};
  rate_of_fields = kFilm;
  with_modes([](Stack& stack, FlipDriver&, FlipClient& client) {
    using ::testing::ElementsAre;
    D3DKMT_SETDISPLAYMODE args = mode_of(client);
    EXPECT_THAT(listed(client),
                ElementsAre(kSquareLines, kSquareFields, kWideLines, kWideFields, kLowAlone));
    args.ScanLineOrdering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_THAT(listed(client),
                ElementsAre(kSquareFields, kSquareLines, kWideLines, kWideFields, kLowAlone));
    surface = kWide;
    EXPECT_EQ(set(client, args), 0);
    EXPECT_THAT(listed(client),
                ElementsAre(kWideFields, kSquareLines, kSquareFields, kWideLines, kLowAlone));
    // One that is scaled is shown with a signal of another size.
    surface = kLow;
    args.ScanLineOrdering = D3DDDI_VSSLO_PROGRESSIVE;
    EXPECT_EQ(set(client, args), 0);
    Listed low = kSquareLines;
    low.size = kLow;
    EXPECT_THAT(listed(client),
                ElementsAre(low, kSquareLines, kSquareFields, kWideLines, kWideFields));
    pixels = D3DDDIFMT_A8B8G8R8;
    surface = kSquare;
    EXPECT_EQ(set(client, args), 0);
    Listed other = kSquareLines;
    other.pixels = D3DDDIFMT_A8B8G8R8;
    EXPECT_THAT(listed(client),
                ElementsAre(other, kSquareFields, kWideLines, kWideFields, kLowAlone));
    pixels = D3DDDIFMT_A8R8G8B8;
    args.DisplayOrientation = D3DDDI_ROTATION_90;
    surface = turned(kWide);
    EXPECT_EQ(set(client, args), 0);
    Listed upright = kWideLines;
    upright.size = turned(kWide);
    upright.rotation = 2;
    EXPECT_THAT(listed(client), ElementsAre(upright, kSquareLines, kSquareFields, kLowAlone));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  more_sizes = {};
  rate_of_fields = kSixty;
}

}  // namespace
}  // namespace dxgkit::contract
