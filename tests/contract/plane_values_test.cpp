// Every member of every version of the calls with overlay planes: two planes that differ in all of
// them, their numbers against their places; then one of them wrong, at its limit and beyond.
#include <fmt/format.h>

#include <array>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/work/device.h"
#include "tests/contract/plane_fixture.h"

namespace dxgkit::contract {
namespace {

using Rules = std::vector<std::string>;

const auto kNotSupported = nt_status(Status::kNotSupported);
constexpr uint32_t k13 = DXGKDDI_INTERFACE_VERSION_WDDM1_3, k20 = DXGKDDI_INTERFACE_VERSION_WDDM2_0,
                   k22 = DXGKDDI_INTERFACE_VERSION_WDDM2_2, k30 = DXGKDDI_INTERFACE_VERSION_WDDM3_0;
constexpr int kCalls[] = {1, 2, 3};

template <typename Enum>
void put(Enum* to, UINT value) {
  *to = static_cast<Enum>(value);
}

/// Two planes in the structures of all versions. What belongs to plane 0 is `false` in pairs.
template <typename Old, typename Second>
struct Planes {
  std::vector<RECT> dirty[2] = {{rect(1, 2, 3, 4)}, {rect(0, 0, 64, 64), rect(5, 6, 7, 8)}};
  Old planes1[2]{};
  Second planes2[2]{};
  D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes3[2]{};

  Planes() {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      each(i, [&](auto& to) {
        to.Flags = i == 0 ? 1 : 2;
        to.SrcRect = i == 0 ? rect(2, 4, 34, 20) : rect(0, 1, 16, 9);
        to.DstRect = i == 0 ? rect(8, 9, 40, 25) : rect(16, 32, 64, 64);
        to.ClipRect = i == 0 ? rect(1, 2, 30, 14) : rect(0, 3, 48, 32);
        put(&to.Rotation, i == 0 ? 2 : 4);
        put(&to.Blend, i == 0 ? 1 : 0);
        put(&to.StretchQuality, i == 0 ? 1 : 2);
        if constexpr (requires { to.VideoFrameFormat; }) put(&to.VideoFrameFormat, i == 0 ? 1 : 2);
        if constexpr (requires { to.YCbCrFlags; }) to.YCbCrFlags = i == 0 ? 1 : 6;
        if constexpr (requires { to.ColorSpace; }) put(&to.ColorSpace, i == 0 ? 5 : 9);
        if constexpr (requires { to.SDRWhiteLevel; }) to.SDRWhiteLevel = i == 0 ? 203 : 80;
        to.DirtyRectCount = static_cast<UINT>(dirty[i].size());
        to.pDirtyRects = dirty[i].data();
      });
    }
  }
  Planes(const Planes&) = delete;
  Planes& operator=(const Planes&) = delete;

  /// `change` in each version.
  template <typename Change>
  void each(size_t plane, const Change& change) {
    change(planes1[plane].PlaneAttributes);
    change(planes2[plane].PlaneAttributes);
    change(attributes3[plane]);
  }
  /// What a driver with functions of one version sees when the client calls those of another.
  SeenAttributes seen(size_t i, int driver, int call) const {
    SeenAttributes seen{.flags = i == 0 ? 1U : 2U,
                        .rotation = i == 0 ? 2U : 4U,
                        .blend = i == 0 ? 1U : 0U,
                        .stretch = i == 0 ? 1U : 2U};
    const auto& a = attributes3[i];
    for (const RECT& one : {a.SrcRect, a.DstRect, a.ClipRect})
      SeenAttributes::add(one, &seen.rects);
    if (driver < 3 && call < 3) seen.video_format = i == 0 ? 1 : 2;
    if (driver == 1 && call == 1) seen.ycbcr = i == 0 ? 1 : 6;
    if (driver > 1 && call > 1) seen.color_space = i == 0 ? 5 : 9;
    if (driver == 3 && call == 3) seen.white = i == 0 ? 203 : 80;
    for (const RECT& one : dirty[i]) {
      if (driver == 3) SeenAttributes::add(one, &seen.dirty);
    }
    return seen;
  }
};

int functions_of(uint32_t version) { return version >= k22 ? 3 : version >= k20 ? 2 : 1; }

/// A present of both planes: layer 1 first.
struct Show : Planes<D3DKMT_MULTIPLANE_OVERLAY, D3DKMT_MULTIPLANE_OVERLAY2> {
  std::vector<D3DKMT_HANDLE> contexts, surfaces;
  std::vector<std::byte> bytes[2] = {{std::byte{1}, std::byte{2}, std::byte{3}}, {std::byte{9}}};
  D3DKMT_MULTIPLANE_OVERLAY3 planes3[2]{};
  std::vector<D3DKMT_MULTIPLANE_OVERLAY3*> pointers = {&planes3[0], &planes3[1]};
  D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION post{};
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY args1{};
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY2 args2{};
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY3 args3{};

  explicit Show(PlaneClient& client, size_t first = 1)
      : contexts{client.context.handle},
        surfaces{client.primaries[first], client.primaries[first + 1]} {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      planes1[i].LayerIndex = planes2[i].LayerIndex = planes3[i].LayerIndex = i == 0 ? 1 : 0;
      planes1[i].Enabled = planes2[i].Enabled = TRUE;
      planes1[i].hAllocation = planes2[i].hAllocation = surfaces[i];
      planes3[i].InputFlags.Enabled = 1;
      planes3[i].FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
      planes3[i].MaxImmediateFlipLine = i == 0 ? 11 : 23;
      planes3[i].AllocationCount = 1;
      planes3[i].pAllocationList = &surfaces[i];
      planes3[i].DriverPrivateDataSize = static_cast<UINT>(bytes[i].size());
      planes3[i].pDriverPrivateData = bytes[i].data();
      planes3[i].pPlaneAttributes = &attributes3[i];
    }
    post.Flags.Value = 1;
    post.SrcRect = rect(0, 1, 60, 61);
    post.DstRect = rect(2, 3, 62, 63);
    put(&post.Rotation, 3);
    const auto old = [&](auto* args, auto* planes) {
      args->hContext = contexts[0];
      args->FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
      args->Flags.Flip = 1;
      args->PresentPlaneCount = 2;
      args->pPresentPlanes = planes;
      args->Duration = 166667;
    };
    old(&args1, planes1);
    old(&args2, planes2);
    args2.hAdapter = args3.hAdapter = client.adapter;
    args3.ContextCount = 1;
    args3.pContextList = contexts.data();
    args3.PresentPlaneCount = 2;
    args3.ppPresentPlanes = pointers.data();
    args3.pPostComposition = &post;
    args3.Flags.DurationValid = 1;
    args3.Duration = 166667;
  }
  void add_context(D3DKMT_HANDLE handle) {
    args1.BroadcastContext[args1.BroadcastContextCount++] = handle;
    args2.BroadcastContext[args2.BroadcastContextCount++] = handle;
    contexts.push_back(handle);
    args3.ContextCount = static_cast<UINT>(contexts.size());
    args3.pContextList = contexts.data();
  }
  void set_surface(size_t plane, D3DKMT_HANDLE handle) {
    planes1[plane].hAllocation = planes2[plane].hAllocation = surfaces[plane] = handle;
  }
  NTSTATUS go(PlaneClient& client, int call) {
    const NTSTATUS status = client.call([&] {
      return call == 1   ? D3DKMTPresentMultiPlaneOverlay(&args1)
             : call == 2 ? D3DKMTPresentMultiPlaneOverlay2(&args2)
                         : D3DKMTPresentMultiPlaneOverlay3(&args3);
    });
    client.stack.settle();
    return status;
  }
};

TEST_F(PlaneTest, EachMemberOfAPresentReachesTheDriver) {
  DXGKIT_COVERS("DISP-07");
  for (const uint32_t version : {k13, k20, k22, k30}) {
    for (const int call : kCalls) {
      SCOPED_TRACE(fmt::format("{:#x}, call {}", version, call));
      with_planes(version, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        const ContextBuffers second = client.make_context();
        stack.miniport.clear_calls();
        std::vector<DXGK_PRESENTMULTIPLANEOVERLAYLIST> told;
        driver.flips.on_present = [&](DXGKARG_PRESENT* args) {
          const auto& info = *args->pPresentMultiPlaneOverlayInfo;
          EXPECT_EQ(info.VidPnSourceId, 0U);
          told.assign(info.pPlaneList, info.pPlaneList + info.PlaneListCount);
          return STATUS_SUCCESS;
        };
        Show show(client);
        show.add_context(second.handle);
        ASSERT_EQ(show.go(client, call), 0);
        ASSERT_EQ(driver.flips.presents.size(), 1U);
        EXPECT_EQ(driver.flips.presents[0].args.FlipInterval, D3DDDI_FLIPINTERVAL_ONE);
        EXPECT_EQ(driver.flips.presents[0].args.Flags.FlipWithNoWait, 1U);
        ASSERT_EQ(driver.sets.size(), 1U);
        const PlaneCall& set = driver.last();
        EXPECT_EQ(set.source, 0U);
        EXPECT_EQ(set.duration, 166667U);
        ASSERT_EQ(set.context_handles.size(), 2U);
        EXPECT_EQ(set.context_handles[0], driver.flips.presents[0].context)
            << "the originating one";
        EXPECT_NE(set.context_handles[1], set.context_handles[0]);
        ASSERT_EQ(set.planes.size(), 2U);
        ASSERT_EQ(told.size(), 2U);
        const int functions = functions_of(version);
        for (size_t i = 0; i < 2; ++i) {
          SCOPED_TRACE(i);
          const PlaneCall::Plane& plane = set.planes[i];
          EXPECT_EQ(plane.layer, i == 0 ? 1U : 0U);
          EXPECT_TRUE(plane.enabled);
          EXPECT_FALSE(plane.immediate);
          EXPECT_EQ(plane.segment, 1U);
          EXPECT_EQ(plane.attributes, show.seen(i, functions, call));
          EXPECT_EQ(told[i].LayerIndex, i == 0 ? 1U : 0U);
          EXPECT_EQ(told[i].Enabled, TRUE);
          EXPECT_NE(told[i].hDeviceSpecificAllocation, nullptr);
          EXPECT_EQ(told[i].SegmentId, 1U);
          EXPECT_EQ(static_cast<uint64_t>(told[i].PhysicalAddress.QuadPart), plane.address);
          if (functions < 3) continue;
          EXPECT_EQ(plane.max_flip_line, call < 3 ? ~0U : i == 0 ? 11U : 23U);
          EXPECT_EQ(plane.private_data, call < 3 ? std::vector<std::byte>{} : show.bytes[i]);
        }
        EXPECT_NE(set.planes[0].address, set.planes[1].address);
        EXPECT_NE(set.planes[0].allocation, set.planes[1].allocation);
        ASSERT_EQ(set.post.has_value(), functions == 3 && call == 3);
        if (set.post.has_value()) {
          EXPECT_EQ(set.post->Flags.Value, 1U);
          EXPECT_EQ(std::memcmp(&set.post->SrcRect, &show.post.SrcRect, sizeof(RECT)), 0);
          EXPECT_EQ(std::memcmp(&set.post->DstRect, &show.post.DstRect, sizeof(RECT)), 0);
          EXPECT_EQ(set.post->Rotation, 3);
        }
        driver.vsync();
        // A duration that is not valid is none.
        Show again(client, 3);
        again.args3.Flags.DurationValid = 0;
        ASSERT_EQ(again.go(client, call), 0);
        ASSERT_EQ(driver.sets.size(), 2U);
        EXPECT_EQ(driver.last().duration, call == 3 ? 0U : 166667U);
        EXPECT_EQ(driver.last().context_handles.size(), 1U);
        driver.vsync();
        EXPECT_EQ(stack.rules(), Rules{});
      });
    }
  }
}

/// One of the attributes of the second plane is wrong. `on_call` 0: in all versions that have it.
struct Wrong {
  const char* what;
  std::function<void(Show&)> spoil;
  NTSTATUS status = kInvalid;
  int on_call = 0;
};
template <typename Change>
std::function<void(Show&)> second(Change change) {
  return [change](Show& show) { show.each(1, change); };
}

TEST_F(PlaneTest, OneWrongMemberOfTheSecondPlaneRefusesBoth) {
  DXGKIT_COVERS("DISP-32");
  const std::vector<Wrong> rows = {
      {"flags", second([](auto& a) { a.Flags = 4; })},
      {"the highest flag", second([](auto& a) { a.Flags = 1U << 31; })},
      {"no rotation", second([](auto& a) { put(&a.Rotation, 0); })},
      {"rotation", second([](auto& a) { put(&a.Rotation, 5); })},
      {"blend", second([](auto& a) { put(&a.Blend, 2); })},
      {"no stretch quality", second([](auto& a) { put(&a.StretchQuality, 0); })},
      {"stretch quality", second([](auto& a) { put(&a.StretchQuality, 3); })},
      {"source left of 0", second([](auto& a) { a.SrcRect.left = -1; })},
      {"source above 0", second([](auto& a) { a.SrcRect.top = -1; })},
      {"no width of the source", second([](auto& a) { a.SrcRect.right = a.SrcRect.left; })},
      {"no height of the source", second([](auto& a) { a.SrcRect.bottom = a.SrcRect.top; })},
      {"source wider than the surface", second([](auto& a) { a.SrcRect.right = 65; })},
      {"source higher than the surface", second([](auto& a) { a.SrcRect.bottom = 65; })},
      {"no width of the destination", second([](auto& a) { a.DstRect.right = a.DstRect.left; })},
      {"no height of the destination", second([](auto& a) { a.DstRect.bottom = a.DstRect.top; })},
      {"destination left of 0", second([](auto& a) { a.DstRect.left = -1; })},
      {"destination above 0", second([](auto& a) { a.DstRect.top = -1; })},
      {"destination right of the screen", second([](auto& a) { a.DstRect.right = 65; })},
      {"destination below the screen", second([](auto& a) { a.DstRect.bottom = 65; })},
      {"no width of the clip", second([](auto& a) { a.ClipRect.right = 0; })},
      {"clip left of 0", second([](auto& a) { a.ClipRect.left = -1; })},
      {"clip wider than the destination", second([](auto& a) { a.ClipRect.right = 49; })},
      {"clip higher than the destination", second([](auto& a) { a.ClipRect.bottom = 33; })},
      {"a dirty rectangle", [](Show& s) { s.dirty[1][1].right = 5; }},
      {"dirty rectangles beyond memory", second([](auto& a) { a.pDirtyRects = nullptr; })},
      {"too many dirty rectangles",
       [](Show& s) {
         s.dirty[1].assign(4097, rect(0, 0, 1, 1));
         s.each(1, [&](auto& a) {
           a.pDirtyRects = s.dirty[1].data();
           a.DirtyRectCount = 4097;
         });
       }},
      {"video frame format",
       [](Show& s) { put(&s.planes1[1].PlaneAttributes.VideoFrameFormat, 3); }, kInvalid, 1},
      {"video frame format",
       [](Show& s) { put(&s.planes2[1].PlaneAttributes.VideoFrameFormat, 3); }, kInvalid, 2},
      {"YCbCr", [](Show& s) { s.planes1[1].PlaneAttributes.YCbCrFlags = 8; }, kInvalid, 1},
      {"stereo", [](Show& s) { put(&s.planes1[1].PlaneAttributes.StereoFormat, 1); }, kNotSupported,
       1},
      {"stereo", [](Show& s) { put(&s.planes2[1].PlaneAttributes.StereoFormat, 1); }, kNotSupported,
       2},
      {"stereo flips", [](Show& s) { put(&s.planes1[1].PlaneAttributes.StereoFlipMode, 1); },
       kNotSupported, 1},
      {"stereo flips", [](Show& s) { put(&s.planes2[1].PlaneAttributes.StereoFlipMode, 1); },
       kNotSupported, 2},
      {"one layer twice",
       [](Show& s) {
         s.planes1[1].LayerIndex = s.planes2[1].LayerIndex = s.planes3[1].LayerIndex = 1;
       }},
      {"layer beyond the caps",
       [](Show& s) {
         s.planes1[1].LayerIndex = s.planes2[1].LayerIndex = s.planes3[1].LayerIndex = 2;
       }},
      {"one surface twice", [](Show& s) { s.set_surface(1, s.surfaces[0]); }},
      {"no surface", [](Show& s) { s.set_surface(1, 0); }},
      {"a context is no surface", [](Show& s) { s.set_surface(1, s.contexts[0]); }},
      {"source",
       [](Show& s) { s.args1.VidPnSourceId = s.args2.VidPnSourceId = s.args3.VidPnSourceId = 1; }},
      {"no planes",
       [](Show& s) {
         s.args1.PresentPlaneCount = s.args2.PresentPlaneCount = s.args3.PresentPlaneCount = 0;
       }},
      {"too many planes",
       [](Show& s) {
         s.args1.PresentPlaneCount = s.args2.PresentPlaneCount = s.args3.PresentPlaneCount = 9;
       }},
      {"planes beyond memory",
       [](Show& s) {
         s.args1.pPresentPlanes = nullptr;
         s.args2.pPresentPlanes = nullptr;
         s.args3.ppPresentPlanes = nullptr;
       }},
      {"interval",
       [](Show& s) {
         put(&s.args1.FlipInterval, 5);
         put(&s.args2.FlipInterval, 5);
         put(&s.planes3[1].FlipInterval, 5);
       }},
      {"one context twice", [](Show& s) { s.add_context(s.contexts[0]); }},
      {"a second context that is none", [](Show& s) { s.add_context(s.surfaces[0]); }},
      {"too many contexts", [](Show& s) { s.args1.BroadcastContextCount = 65; }, kInvalid, 1},
      {"too many contexts", [](Show& s) { s.args2.BroadcastContextCount = 65; }, kInvalid, 2},
      {"too many contexts",
       [](Show& s) {
         s.contexts.resize(66, s.contexts[0]);
         s.args3.pContextList = s.contexts.data();
         s.args3.ContextCount = 66;
       },
       kInvalid, 3},
      {"no flip", [](Show& s) { s.args1.Flags.Flip = s.args2.Flags.Flip = 0; }, kInvalid, 1},
      {"no flip", [](Show& s) { s.args1.Flags.Flip = s.args2.Flags.Flip = 0; }, kInvalid, 2},
      {"a copy", [](Show& s) { s.args1.Flags.Blt = 1; }, kInvalid, 1},
      {"a colour", [](Show& s) { s.args2.Flags.ColorFill = 1; }, kInvalid, 2},
      {"reserved flags", [](Show& s) { s.args1.Flags.Reserved = 1; }, kInvalid, 1},
      {"reserved flags", [](Show& s) { s.args3.Flags.Reserved = 1; }, kInvalid, 3},
      {"an unknown flag", [](Show& s) { s.args2.Flags.FlipRestart = 1; }, kNotSupported, 2},
      {"flip restart", [](Show& s) { s.args3.Flags.FlipRestart = 1; }, kNotSupported, 3},
      {"no adapter", [](Show& s) { s.args2.hAdapter = s.contexts[0]; }, kInvalid, 2},
      {"no adapter", [](Show& s) { s.args3.hAdapter = s.contexts[0]; }, kInvalid, 3},
      {"no context", [](Show& s) { s.args2.hContext = s.surfaces[0]; }, kInvalid, 2},
      {"no context", [](Show& s) { s.args1.hContext = s.surfaces[0]; }, kInvalid, 1},
      {"flags of a plane", [](Show& s) { s.planes3[1].InputFlags.Value |= 2; }, kInvalid, 3},
      {"fence to wait for", [](Show& s) { s.planes3[1].hFlipToFence = 1; }, kNotSupported, 3},
      {"fence to signal", [](Show& s) { s.planes3[1].hFlipAwayFence = 1; }, kNotSupported, 3},
      {"no surfaces", [](Show& s) { s.planes3[1].AllocationCount = 0; }, kInvalid, 3},
      {"linked surfaces", [](Show& s) { s.planes3[1].AllocationCount = 2; }, kNotSupported, 3},
      {"surfaces beyond memory", [](Show& s) { s.planes3[1].pAllocationList = nullptr; }, kInvalid,
       3},
      {"private data beyond memory", [](Show& s) { s.planes3[1].pDriverPrivateData = nullptr; },
       kInvalid, 3},
      {"attributes beyond memory", [](Show& s) { s.planes3[1].pPlaneAttributes = nullptr; },
       kInvalid, 3},
      {"a pointer to no plane", [](Show& s) { s.pointers[1] = nullptr; }, kInvalid, 3},
      {"what comes after, beyond memory",
       [](Show& s) {
         s.args3.pPostComposition =
             reinterpret_cast<D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION*>(uintptr_t{8});
       },
       kInvalid, 3},
      {"flags of what comes after", [](Show& s) { s.post.Flags.Value = 4; }, kInvalid, 3},
      {"what comes after, without a destination", [](Show& s) { s.post.DstRect.right = 2; },
       kInvalid, 3},
      {"what comes after, without a source", [](Show& s) { s.post.SrcRect.bottom = 1; }, kInvalid,
       3},
      {"what comes after, turned wrongly", [](Show& s) { put(&s.post.Rotation, 5); }, kInvalid, 3},
      {"what comes after, not turned", [](Show& s) { put(&s.post.Rotation, 0); }, kInvalid, 3},
  };
  with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    const D3DKMT_HANDLE elsewhere = client.make_device();
    ContextBuffers foreign;
    ASSERT_EQ(client.create_context(&foreign, 0, elsewhere), 0);
    std::vector<Wrong> all = rows;
    all.push_back({"a context of another device", [&](Show& s) { s.add_context(foreign.handle); }});
    all.push_back(
        {"no primary", [handle = client.make_allocation()](Show& s) { s.set_surface(1, handle); }});
    all.push_back({"surfaces of another device", [&](Show& s) {
                     s.args1.hContext = s.args2.hContext = s.contexts[0] = foreign.handle;
                   }});
    for (const Wrong& row : all) {
      for (const int call : kCalls) {
        if (row.on_call != 0 && row.on_call != call) continue;
        SCOPED_TRACE(fmt::format("{}, call {}", row.what, call));
        Show show(client);
        row.spoil(show);
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(show.go(client, call), row.status);
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(driver.sets.size(), 0U);
        EXPECT_EQ(driver.flips.presents.size(), 0U);
      }
    }
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// A plane that is switched off has no surface and no attributes: they are not looked at.
TEST_F(PlaneTest, NothingIsAskedOfAPlaneThatIsSwitchedOff) {
  for (const int call : kCalls) {
    SCOPED_TRACE(call);
    with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      Show show(client);
      show.set_surface(1, 0);
      show.planes1[1].Enabled = show.planes2[1].Enabled = FALSE;
      show.planes3[1].InputFlags.Enabled = 0;
      show.planes3[1].pPlaneAttributes = nullptr;
      show.planes3[1].AllocationCount = 2;
      show.each(1, [](auto& a) { a.Flags = 4; });
      ASSERT_EQ(show.go(client, call), 0);
      ASSERT_EQ(driver.sets.size(), 1U);
      EXPECT_TRUE(driver.last().planes[0].enabled);
      EXPECT_FALSE(driver.last().planes[1].enabled);
      EXPECT_EQ(driver.last().planes[1].allocation, nullptr);
      driver.vsync();
      EXPECT_EQ(stack.rules(), Rules{});
    });
  }
}

/// Limits themselves are allowed.
TEST_F(PlaneTest, LimitsAreAllowed) {
  const std::pair<const char*, std::function<void(Show&)>> rows[] = {
      {"both flips", second([](auto& a) { a.Flags = 3; })},
      {"turned once", second([](auto& a) { put(&a.Rotation, 1); })},
      {"blended", second([](auto& a) { put(&a.Blend, 1); })},
      {"all of the surface and the screen",
       second([](auto& a) { a.SrcRect = a.DstRect = a.ClipRect = rect(0, 0, 64, 64); })},
      {"a pixel", second([](auto& a) {
         a.SrcRect = a.DstRect = rect(63, 63, 64, 64);
         a.ClipRect = rect(0, 0, 1, 1);
       })},
      {"YCbCr", [](Show& s) { s.planes1[1].PlaneAttributes.YCbCrFlags = 7; }},
      {"no dirty rectangles", second([](auto& a) {
         a.DirtyRectCount = 0;
         a.pDirtyRects = nullptr;
       })},
      {"most dirty rectangles",
       [](Show& s) {
         s.dirty[1].assign(4096, rect(0, 0, 1, 1));
         s.each(1, [&](auto& a) {
           a.pDirtyRects = s.dirty[1].data();
           a.DirtyRectCount = 4096;
         });
       }},
      {"a pixel after the planes",
       [](Show& s) {
         s.post.SrcRect = s.post.DstRect = rect(0, 0, 1, 1);
         s.post.Flags.Value = 3;
         put(&s.post.Rotation, 4);
       }},
      {"nothing after the planes", [](Show& s) { s.args3.pPostComposition = nullptr; }},
  };
  with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    for (const auto& [what, change] : rows) {
      for (const int call : kCalls) {
        SCOPED_TRACE(fmt::format("{}, call {}", what, call));
        const size_t before = driver.sets.size();
        Show show(client, before % 2 == 0 ? 1 : 3);
        change(show);
        EXPECT_EQ(show.go(client, call), 0);
        ASSERT_EQ(driver.sets.size(), before + 1);
        driver.vsync();
      }
    }
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

// What a present waits for may never come: then it is over, and nothing of it is shown.
TEST_F(PlaneTest, APresentWhoseWorkIsLostIsOver) {
  DXGKIT_COVERS("DISP-02");
  for (const bool one_is_there : {false, true}) {
    SCOPED_TRACE(one_is_there);
    with_planes(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
      ContextBuffers second = client.make_context();
      ASSERT_EQ(client.render(second, work_on({})), 0);
      if (!one_is_there) {
        ASSERT_EQ(client.render(client.context, work_on({})), 0);
      }
      Show show(client);
      show.add_context(second.handle);
      ASSERT_EQ(show.go(client, 3), 0);
      EXPECT_EQ(driver.sets.size(), 0U);
      dxgk::Ref<dxgk::Device> device;
      client.as_client(
          [&] { device = *client.process->handles().find<dxgk::Device>(client.device); });
      const auto pending = [&] {
        uint32_t count = 0;
        stack.adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
          count = stack.adapter().floor().display->flips()->pending(*device);
        });
        return count;
      };
      EXPECT_EQ(pending(), 1U);
      stack.miniport.faulted(0, stack.miniport.outstanding(0).at(0),
                             nt_status(Status::kUnsuccessful));
      stack.drive();
      EXPECT_EQ(pending(), 0U);
      EXPECT_EQ(driver.sets.size(), 0U);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
      const Digest before = digest(stack, {&client});
      EXPECT_EQ(Show(client).go(client, 3), nt_status(Status::kDeviceRemoved));
      EXPECT_EQ(digest(stack, {&client}), before);
    });
  }
}

/// A question about both planes, the second on the source with the higher number.
struct Check
    : Planes<D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE, D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2> {
  D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3 planes3[2]{};
  D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3* pointers[2] = {&planes3[0], &planes3[1]};
  D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT args1{};
  D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2 args2{};
  D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3 args3{};

  Check(PlaneClient& client, const std::array<D3DKMT_HANDLE, 2>& resources) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto fill = [&](auto& to) {
        to.hResource = resources[i];
        to.VidPnSourceId = static_cast<UINT>(i);
        if constexpr (requires { to.LayerIndex; }) to.LayerIndex = i == 0 ? 1 : 0;
      };
      fill(planes1[i]);
      fill(planes2[i]);
      fill(planes3[i]);
      planes3[i].pPlaneAttributes = &attributes3[i];
    }
    args1.hDevice = args2.hDevice = args3.hDevice = client.device;
    args2.hAdapter = args3.hAdapter = client.adapter;
    args1.PlaneCount = args2.PlaneCount = args3.PlaneCount = 2;
    args1.pOverlayPlanes = planes1;
    args2.pOverlayPlanes = planes2;
    args3.ppOverlayPlanes = pointers;
  }
  struct Answer {
    NTSTATUS status = 0;
    BOOL supported = 0;
    UINT info = 0;
    bool operator==(const Answer&) const = default;
  };
  Answer ask(PlaneClient& client, int call) {
    const auto with = [&](auto& args, auto function) {
      args.Supported = 77;
      args.ReturnInfo.Value = 0xABCD;
      const NTSTATUS status = client.call([&] { return function(&args); });
      return Answer{status, args.Supported, args.ReturnInfo.Value};
    };
    return call == 1   ? with(args1, D3DKMTCheckMultiPlaneOverlaySupport)
           : call == 2 ? with(args2, D3DKMTCheckMultiPlaneOverlaySupport2)
                       : with(args3, D3DKMTCheckMultiPlaneOverlaySupport3);
  }
};
std::ostream& operator<<(std::ostream& out, const Check::Answer& answer) {
  return out << fmt::format("{:#x} {} {:#x}", static_cast<uint32_t>(answer.status),
                            answer.supported, answer.info);
}

/// A resource of two allocations, of which the first is the surface.
D3DKMT_HANDLE make_surface(PlaneClient& client, D3DKMT_HANDLE* surface, D3DKMT_HANDLE device = 0) {
  ScriptedAllocation data{.size = uint64_t{kWidth} * kHeight * 4,
                          .supported_read = 1,
                          .supported_write = 1,
                          .flags = 1};
  D3DDDI_ALLOCATIONINFO infos[2]{};
  for (D3DDDI_ALLOCATIONINFO& info : infos) {
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
  }
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device != 0 ? device : client.device;
  create.NumAllocations = 2;
  create.pAllocationInfo = infos;
  create.Flags.CreateResource = 1;
  EXPECT_EQ(client.call([&] { return D3DKMTCreateAllocation(&create); }), 0);
  *surface = infos[0].hAllocation;
  return create.hResource;
}

class PlaneQuestionTest : public PlaneTest {
 protected:
  /// A driver with two sources.
  static void asking(uint32_t version,
                     const std::function<void(Stack&, PlaneDriver&, PlaneClient&)>& body) {
    bare([&](Stack& stack) {
      PlaneDriver driver(stack, version, 2);
      stack.miniport.config.children = 2;
      driver.flips.display.config.children = {{.uid = kTarget}, {.uid = 2}};
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        PlaneClient client(stack, driver);
        body(stack, driver, client);
      }
    });
  }
};

TEST_F(PlaneQuestionTest, EachMemberOfAQuestionReachesTheDriver) {
  DXGKIT_COVERS("DISP-27");
  for (const uint32_t version : {k13, k20, k22, k30}) {
    for (const int call : kCalls) {
      SCOPED_TRACE(fmt::format("{:#x}, call {}", version, call));
      asking(version, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
        D3DKMT_HANDLE surfaces[2] = {};
        Check check(client,
                    {make_surface(client, &surfaces[0]), make_surface(client, &surfaces[1])});
        EXPECT_EQ(check.ask(client, call), (Check::Answer{0, TRUE, 0}));
        ASSERT_EQ(driver.checked_planes.size(), 2U);
        const int functions = functions_of(version);
        for (size_t i = 0; i < 2; ++i) {
          SCOPED_TRACE(i);
          const CheckedPlane& seen = driver.checked_planes[i];
          HANDLE expected = nullptr;
          client.as_client([&] {
            const auto opened = client.process->handles().find<dxgk::OpenedAllocation>(surfaces[i]);
            if (opened.has_value()) expected = (*opened)->driver_allocation;
          });
          EXPECT_EQ(seen.allocation, expected) << "the first of the resource's";
          EXPECT_EQ(seen.source, i);
          EXPECT_EQ(seen.layer, functions == 1 ? 0U : (i == 1) == (call == 1) ? 1U : 0U);
          EXPECT_EQ(seen.attributes, check.seen(i, functions, call));
        }
        driver.supported = FALSE;
        driver.failing_plane = 1;
        EXPECT_EQ(check.ask(client, call), (Check::Answer{0, FALSE, 1}));
        driver.failing_plane = 0;
        driver.try_again = 1;
        EXPECT_EQ(check.ask(client, call), (Check::Answer{0, FALSE, 0x10}));
        // Of planes that can be shown none fails, whatever the member holds.
        driver.supported = TRUE;
        driver.failing_plane = 9;
        EXPECT_EQ(check.ask(client, call).supported, TRUE);
        EXPECT_EQ(stack.rules(), Rules{});
      });
    }
  }
}

TEST_F(PlaneQuestionTest, OneWrongMemberOfTheSecondPlaneIsNoQuestion) {
  DXGKIT_COVERS("DISP-27");
  struct Row {
    const char* what;
    std::function<void(Check&)> spoil;
    NTSTATUS status = kInvalid;
    int on_call = 0;
  };
  asking(k22, [&](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    D3DKMT_HANDLE surface = 0;
    const D3DKMT_HANDLE first = make_surface(client, &surface);
    const D3DKMT_HANDLE elsewhere = client.make_device();
    const D3DKMT_HANDLE foreign = make_surface(client, &surface, elsewhere);
    const auto resource = [](D3DKMT_HANDLE handle) {
      return [handle](Check& c) {
        c.planes1[1].hResource = c.planes2[1].hResource = c.planes3[1].hResource = handle;
      };
    };
    const auto second_attributes = [](auto change) {
      return [change](Check& c) { c.each(1, change); };
    };
    const std::vector<Row> rows = {
        {"an allocation is no resource", resource(surface)},
        {"no resource", resource(0)},
        {"another device's", resource(foreign)},
        {"source",
         [](Check& c) {
           c.planes1[1].VidPnSourceId = c.planes2[1].VidPnSourceId = c.planes3[1].VidPnSourceId = 2;
         }},
        {"attributes", second_attributes([](auto& a) { put(&a.Rotation, 5); })},
        {"no planes",
         [](Check& c) { c.args1.PlaneCount = c.args2.PlaneCount = c.args3.PlaneCount = 0; }},
        {"too many planes",
         [](Check& c) { c.args1.PlaneCount = c.args2.PlaneCount = c.args3.PlaneCount = 9; }},
        {"planes beyond memory",
         [](Check& c) {
           c.args1.pOverlayPlanes = nullptr;
           c.args2.pOverlayPlanes = nullptr;
           c.args3.ppOverlayPlanes = nullptr;
         }},
        {"no device", [](Check& c) { c.args1.hDevice = c.args2.hDevice = c.args3.hDevice = 0; }},
        {"an adapter that is none", [](Check& c) { c.args2.hAdapter = c.args2.hDevice; }, kInvalid,
         2},
        {"an adapter that is none", [](Check& c) { c.args3.hAdapter = c.args3.hDevice; }, kInvalid,
         3},
        {"attributes beyond memory", [](Check& c) { c.planes3[1].pPlaneAttributes = nullptr; },
         kInvalid, 3},
        {"a pointer to no plane", [](Check& c) { c.pointers[1] = nullptr; }, kInvalid, 3},
        {"stereo", [](Check& c) { put(&c.planes1[1].PlaneAttributes.StereoFormat, 1); },
         kNotSupported, 1},
        {"stereo", [](Check& c) { put(&c.planes2[1].PlaneAttributes.StereoFormat, 1); },
         kNotSupported, 2},
    };
    for (const Row& row : rows) {
      for (const int call : kCalls) {
        if (row.on_call != 0 && row.on_call != call) continue;
        SCOPED_TRACE(fmt::format("{}, call {}", row.what, call));
        Check check(client, {first, first});
        row.spoil(check);
        const Digest before = digest(stack, {&client});
        EXPECT_EQ(check.ask(client, call), (Check::Answer{row.status, 77, 0xABCD}));
        EXPECT_EQ(digest(stack, {&client}), before);
        EXPECT_EQ(driver.checked.size(), 0U);
      }
    }
    // A resource without allocations has no surface.
    D3DKMT_CREATEALLOCATION empty{};
    empty.hDevice = client.device;
    empty.Flags.CreateResource = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTCreateAllocation(&empty); }), 0);
    for (const int call : kCalls) {
      Check check(client, {first, empty.hResource});
      EXPECT_EQ(check.ask(client, call), (Check::Answer{kInvalid, 77, 0xABCD}));
    }
    EXPECT_EQ(driver.checked.size(), 0U);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

/// What happens behind the planes, of two sources.
TEST_F(PlaneQuestionTest, TheSecondSourceHasItsOwnPostComposition) {
  DXGKIT_COVERS("DISP-27");
  asking(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    D3DKMT_HANDLE surface = 0;
    const D3DKMT_HANDLE resource = make_surface(client, &surface);
    Check check(client, {resource, resource});
    D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE sent[2]{};
    decltype(&sent[0]) pointers[17] = {&sent[1], &sent[0]};
    for (UINT i = 0; i < 2; ++i) {
      sent[i].VidPnSourceId = i;
      sent[i].PostComposition.Flags.Value = i == 0 ? 1 : 2;
      sent[i].PostComposition.SrcRect = sent[i].PostComposition.DstRect = rect(0, 0, 8, 8);
      put(&sent[i].PostComposition.Rotation, i + 2);
    }
    check.args3.PostCompositionCount = 2;
    check.args3.ppPostComposition = pointers;
    EXPECT_EQ(check.ask(client, 3), (Check::Answer{0, TRUE, 0}));
    ASSERT_EQ(driver.posts_checked.size(), 2U);
    EXPECT_EQ(driver.posts_checked[0].VidPnSourceId, 1U);
    EXPECT_EQ(driver.posts_checked[0].PostComposition.Flags.Value, 2U);
    EXPECT_EQ(driver.posts_checked[0].PostComposition.Rotation, 3);
    EXPECT_EQ(driver.posts_checked[1].VidPnSourceId, 0U);
    EXPECT_EQ(driver.posts_checked[1].PostComposition.Flags.Value, 1U);
    // As many as there can be sources, and no more.
    std::fill(std::begin(pointers), std::end(pointers), &sent[1]);
    check.args3.PostCompositionCount = 16;
    EXPECT_EQ(check.ask(client, 3), (Check::Answer{0, TRUE, 0}));
    EXPECT_EQ(driver.posts_checked.size(), 16U);
    const Digest before = digest(stack, {&client});
    check.args3.PostCompositionCount = 17;
    EXPECT_EQ(check.ask(client, 3), (Check::Answer{kInvalid, 77, 0xABCD}));
    check.args3.PostCompositionCount = 2;
    sent[1].VidPnSourceId = 2;
    EXPECT_EQ(check.ask(client, 3), (Check::Answer{kInvalid, 77, 0xABCD}));
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

TEST_F(PlaneQuestionTest, CapabilitiesAreThoseOfTheSource) {
  DXGKIT_COVERS("DISP-31");
  asking(k22, [](Stack& stack, PlaneDriver& driver, PlaneClient& client) {
    driver.caps.MaxPlanes = 3;
    driver.caps.MaxRGBPlanes = 2;
    driver.caps.MaxYUVPlanes = 1;
    driver.caps.OverlayCaps.Value = 0x7FF & ~3U;
    D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS caps{};
    caps.hAdapter = client.adapter;
    caps.VidPnSourceId = 1;
    const auto ask = [&] {
      return client.call([&] { return D3DKMTGetMultiPlaneOverlayCaps(&caps); });
    };
    ASSERT_EQ(ask(), 0);
    EXPECT_EQ(caps.MaxPlanes, 3U);
    EXPECT_EQ(caps.MaxRGBPlanes, 2U);
    EXPECT_EQ(caps.MaxYUVPlanes, 1U);
    EXPECT_EQ(caps.OverlayCaps.Value, 0xFFCU);
    D3DKMT_GET_POST_COMPOSITION_CAPS post{};
    post.hAdapter = client.adapter;
    post.VidPnSourceId = 1;
    EXPECT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), 0);
    const Digest before = digest(stack, {&client});
    caps.VidPnSourceId = post.VidPnSourceId = 2;
    EXPECT_EQ(ask(), kInvalid);
    EXPECT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), kInvalid);
    caps.VidPnSourceId = post.VidPnSourceId = 1;
    caps.hAdapter = post.hAdapter = client.device;
    EXPECT_EQ(ask(), kInvalid);
    EXPECT_EQ(client.call([&] { return D3DKMTGetPostCompositionCaps(&post); }), kInvalid);
    EXPECT_EQ(digest(stack, {&client}), before);
    EXPECT_EQ(stack.rules(), Rules{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
