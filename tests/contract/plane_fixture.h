// A full driver with overlay planes in a test, in each version of the functions; the test is the
// display's clock.
#pragma once

#include <optional>

#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {

/// Attributes of a plane as the driver saw them. What its version does not have stays 0.
struct SeenAttributes {
  UINT flags = 0, rotation = 0, blend = 0, stretch = 0;
  UINT video_format = 0, ycbcr = 0, color_space = 0, white = 0;
  std::vector<LONG> rects = {};  // source, destination, clip
  std::vector<LONG> dirty = {};
  bool operator==(const SeenAttributes&) const = default;

  static void add(const RECT& rect, std::vector<LONG>* to) {
    to->insert(to->end(), {rect.left, rect.top, rect.right, rect.bottom});
  }
  template <typename Attributes>
  static SeenAttributes of(const Attributes& from) {
    SeenAttributes seen{.flags = from.Flags.Value,
                        .rotation = static_cast<UINT>(from.Rotation),
                        .blend = from.Blend.Value,
                        .stretch = static_cast<UINT>(from.StretchQuality)};
    for (const RECT& rect : {from.SrcRect, from.DstRect, from.ClipRect}) add(rect, &seen.rects);
    if constexpr (requires { from.VideoFrameFormat; })
      seen.video_format = static_cast<UINT>(from.VideoFrameFormat);
    if constexpr (requires { from.YCbCrFlags; }) seen.ycbcr = from.YCbCrFlags.Value;
    if constexpr (requires { from.ColorSpaceType; })
      seen.color_space = static_cast<UINT>(from.ColorSpaceType);
    if constexpr (requires { from.SDRWhiteLevel; }) seen.white = from.SDRWhiteLevel;
    if constexpr (requires { from.DirtyRectCnt; }) {
      for (UINT i = 0; i < from.DirtyRectCnt; ++i) add(from.pDirtyRects[i], &seen.dirty);
    }
    return seen;
  }
};
inline std::ostream& operator<<(std::ostream& out, const SeenAttributes& seen) {
  return out << ::testing::PrintToString(
                    std::vector<UINT>{seen.flags, seen.rotation, seen.blend, seen.stretch,
                                      seen.video_format, seen.ycbcr, seen.color_space, seen.white})
             << ::testing::PrintToString(seen.rects) << ::testing::PrintToString(seen.dirty);
}

/// A plane of a configuration that the driver was asked about.
struct CheckedPlane {
  HANDLE allocation = nullptr;
  UINT source = 0, layer = 0;  // version 1 has no layer
  SeenAttributes attributes = {};
  bool operator==(const CheckedPlane&) const = default;
};

/// What one call of DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay, 2 or 3 was given.
struct PlaneCall {
  struct Plane {
    SeenAttributes attributes = {};
    UINT segment = 0, max_flip_line = 0;
    std::vector<std::byte> private_data = {};
    UINT layer = 0;
    bool enabled = false, immediate = false;
    uint64_t address = 0, present_id = 0;
    HANDLE allocation = nullptr;
    RECT source{}, destination{}, clip{};
    bool blend = false;
  };
  nt::Irql irql = 0;
  UINT contexts = 0;
  bool at_lower_irql = false;  // RetryAtLowerIrql
  uint64_t target_time = 0;
  UINT source = 0, duration = 0;
  std::vector<HANDLE> context_handles = {};
  std::optional<DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION> post = {};
  std::vector<Plane> planes;
};

/// FlipDriver with planes. Made before the stack starts, one at a time.
class PlaneDriver {
 public:
  /// `version`: of the interface; it decides which functions the driver has.
  PlaneDriver(Stack& stack, uint32_t version, uint32_t sources = 1)
      : stack_(stack), version_(set_version(stack, version)), flips(stack, sources) {
    current = this;
    const auto before = stack.miniport.config.caps;
    stack.miniport.config.caps = [this, before](DXGK_DRIVERCAPS& raw) {
      before(raw);
      raw.FlipCaps.FlipOnVSyncWithNoWait = no_wait ? 1 : 0;
      raw.MaxOverlayPlanes = planes;
      if (version_ >= DXGKDDI_INTERFACE_VERSION_WDDM2_1)
        raw.SupportMultiPlaneOverlayImmediateFlip = immediate ? TRUE : FALSE;
      if (version_ >= DXGKDDI_INTERFACE_VERSION_WDDM3_0) raw.MaxHwQueuedFlips = hw_queued;
    };
    flips.more_table = [this](DRIVER_INITIALIZATION_DATA& table) { fill(table); };
  }
  ~PlaneDriver() { current = nullptr; }

  // --- what the driver is, before the start
  UINT planes = 2, hw_queued = 0;
  bool immediate = true, no_wait = true;
  bool has_entries = true;

  // --- what it answers
  /// Of the n-th call from 0 on: sets status and flags. Version 3 sees its arguments.
  std::function<NTSTATUS(size_t call, DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3*)> on_set;
  NTSTATUS check_answer = STATUS_SUCCESS, post_answer = STATUS_SUCCESS;
  BOOL supported = TRUE;
  UINT failing_plane = 0, try_again = 0;
  DXGKARG_GETMULTIPLANEOVERLAYCAPS caps{.VidPnSourceId = 0,
                                        .MaxPlanes = 2,
                                        .MaxRGBPlanes = 2,
                                        .MaxYUVPlanes = 1,
                                        .OverlayCaps = {{.Value = 0x30}},
                                        .MaxStretchFactor = 4.0F,
                                        .MaxShrinkFactor = 2.0F};

 private:
  Stack& stack_;
  const uint32_t version_;

 public:
  FlipDriver flips;

  // --- what happened
  std::vector<PlaneCall> sets;
  std::vector<UINT> checked;                 // planes of each check
  std::vector<CheckedPlane> checked_planes;  // of the last
  std::vector<DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE> posts_checked;  // of the last
  struct PostCall {
    UINT target = 0, layer = 0;
    uint64_t present_id = 0;
    nt::Irql irql = 0;
  };
  std::vector<PostCall> posts;

  bool version3() const { return version_ >= DXGKDDI_INTERFACE_VERSION_WDDM2_1; }
  const PlaneCall& last() const { return sets.back(); }

  struct Shown {
    UINT layer = 0;
    uint64_t address = 0, present_id = 0;
    bool enabled = true, post_present = false;
  };
  /// A vertical sync with the data of these planes.
  void vsync(const std::vector<Shown>& shown) {
    std::vector<DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO> infos;
    std::vector<DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO2> infos2;
    for (const Shown& one : shown) {
      DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO info{};
      info.LayerIndex = one.layer;
      info.Enabled = one.enabled ? TRUE : FALSE;
      info.PhysicalAddress.QuadPart = static_cast<LONGLONG>(one.address);
      infos.push_back(info);
      DXGK_MULTIPLANE_OVERLAY_VSYNC_INFO2 info2{};
      info2.LayerIndex = one.layer;
      info2.PresentId = one.present_id;
      info2.Flags.PostPresentNeeded = one.post_present ? 1 : 0;
      infos2.push_back(info2);
    }
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
    if (version3()) {
      data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2;
      data.CrtcVsyncWithMultiPlaneOverlay2.VidPnTargetId = kTarget;
      data.CrtcVsyncWithMultiPlaneOverlay2.MultiPlaneOverlayVsyncInfoCount =
          static_cast<UINT>(infos2.size());
      data.CrtcVsyncWithMultiPlaneOverlay2.pMultiPlaneOverlayVsyncInfo = infos2.data();
    } else {
      data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY;
      data.CrtcVsyncWithMultiPlaneOverlay.VidPnTargetId = kTarget;
      data.CrtcVsyncWithMultiPlaneOverlay.MultiPlaneOverlayVsyncInfoCount =
          static_cast<UINT>(infos.size());
      data.CrtcVsyncWithMultiPlaneOverlay.pMultiPlaneOverlayVsyncInfo = infos.data();
    }
    static_cast<void>(stack_.miniport.raise(data));
    stack_.settle();
  }
  /// One that shows the planes of a call.
  static std::vector<Shown> shown_by(const PlaneCall& call) {
    std::vector<Shown> shown;
    for (const PlaneCall::Plane& one : call.planes)
      shown.push_back({one.layer, one.address, one.present_id, one.enabled});
    return shown;
  }
  void vsync() { vsync(shown_by(last())); }

 private:
  static inline PlaneDriver* current = nullptr;
  static uint32_t set_version(Stack& stack, uint32_t version) {
    stack.miniport.config.version = version;
    return version;
  }
  void fill(DRIVER_INITIALIZATION_DATA& table) {
    if (!has_entries) return;
    if (version3()) {
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3 = set3;
      table.DxgkDdiCheckMultiPlaneOverlaySupport3 = check<DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT3>;
      table.DxgkDdiPostMultiPlaneOverlayPresent = post;
    } else if (version_ >= DXGKDDI_INTERFACE_VERSION_WDDM2_0) {
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2 =
          old_set<DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY2>;
      table.DxgkDdiCheckMultiPlaneOverlaySupport2 = check<DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT2>;
    } else {
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay =
          old_set<DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY>;
      table.DxgkDdiCheckMultiPlaneOverlaySupport = check<DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT>;
    }
    if (version_ < DXGKDDI_INTERFACE_VERSION_WDDM2_2) return;
    table.DxgkDdiGetMultiPlaneOverlayCaps = get_caps;
    table.DxgkDdiGetPostCompositionCaps = get_post_caps;
  }
  template <typename Attributes>
  static void note(const Attributes& from, PlaneCall::Plane* to) {
    to->attributes = SeenAttributes::of(from);
    to->source = from.SrcRect;
    to->destination = from.DstRect;
    to->clip = from.ClipRect;
    to->blend = from.Blend.AlphaBlend != 0;
  }
  template <typename Arguments>
  static NTSTATUS NTAPI old_set(const HANDLE, const Arguments* args) {
    PlaneCall call{.irql = nt::CallFrame::current().irql(),
                   .contexts = args->ContextCount,
                   .source = args->VidPnSourceId,
                   .duration = args->Duration,
                   .context_handles = {args->Context, args->Context + args->ContextCount},
                   .planes = {}};
    for (UINT i = 0; i < args->PlaneCount; ++i) {
      const auto& from = args->pPlanes[i];
      PlaneCall::Plane plane{.layer = from.LayerIndex,
                             .enabled = from.Enabled != FALSE,
                             .immediate = args->Flags.FlipImmediate != 0,
                             .address = static_cast<uint64_t>(from.AllocationAddress.QuadPart),
                             .allocation = from.hAllocation};
      plane.segment = from.AllocationSegment;
      note(from.PlaneAttributes, &plane);
      call.planes.push_back(plane);
    }
    current->sets.push_back(call);
    return current->on_set ? current->on_set(current->sets.size() - 1, nullptr) : STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI set3(const HANDLE,
                             DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3* args) {
    PlaneCall call{.irql = nt::CallFrame::current().irql(),
                   .at_lower_irql = args->InputFlags.RetryAtLowerIrql != 0,
                   .source = args->VidPnSourceId,
                   .duration = args->Duration,
                   .planes = {}};
    if (args->pPostComposition != nullptr) call.post = *args->pPostComposition;
    if (current->version_ >= DXGKDDI_INTERFACE_VERSION_WDDM2_9)
      call.target_time = args->TargetFlipTime;
    for (UINT i = 0; i < args->PlaneCount; ++i) {
      const DXGK_MULTIPLANE_OVERLAY_PLANE3& from = *args->ppPlanes[i];
      PlaneCall::Plane plane{.layer = from.LayerIndex,
                             .enabled = from.InputFlags.Enabled != 0,
                             .immediate = from.InputFlags.FlipImmediate != 0,
                             .present_id = from.PresentId};
      EXPECT_NE(from.InputFlags.FlipImmediate, from.InputFlags.FlipOnNextVSync);
      plane.max_flip_line = from.MaxImmediateFlipLine;
      const auto* bytes = static_cast<const std::byte*>(from.pDriverPrivateData);
      plane.private_data.assign(bytes, bytes + from.DriverPrivateDataSize);
      call.context_handles.clear();
      for (UINT c = 0; c < from.ContextCount; ++c)
        call.context_handles.push_back(from.ppContextData[c]->hContext);
      if (from.ContextCount != 0) {
        plane.segment = from.ppContextData[0]->SegmentId;
        plane.address = static_cast<uint64_t>(from.ppContextData[0]->SegmentAddress.QuadPart);
        plane.allocation = from.ppContextData[0]->hAllocation;
      }
      call.contexts = from.ContextCount;
      note(from.PlaneAttributes, &plane);
      call.planes.push_back(plane);
    }
    current->sets.push_back(call);
    return current->on_set ? current->on_set(current->sets.size() - 1, args) : STATUS_SUCCESS;
  }
  template <typename Arguments>
  static const auto& plane_at(const Arguments& args, UINT index) {
    if constexpr (requires { args.ppPlanes; }) {
      return *args.ppPlanes[index];
    } else {
      return args.pPlanes[index];
    }
  }
  template <typename Arguments>
  static NTSTATUS NTAPI check(const HANDLE, Arguments* args) {
    EXPECT_EQ(nt::CallFrame::current().irql(), nt::kPassiveLevel);
    current->checked.push_back(args->PlaneCount);
    current->checked_planes.clear();
    for (UINT i = 0; i < args->PlaneCount; ++i) {
      const auto& plane = plane_at(*args, i);
      CheckedPlane seen{plane.hAllocation, plane.VidPnSourceId, 0,
                        SeenAttributes::of(plane.PlaneAttributes)};
      if constexpr (requires { plane.LayerIndex; }) seen.layer = plane.LayerIndex;
      current->checked_planes.push_back(seen);
    }
    if constexpr (requires { args->ppPostComposition; }) {
      current->posts_checked.clear();
      for (UINT i = 0; i < args->PostCompositionCount; ++i)
        current->posts_checked.push_back(*args->ppPostComposition[i]);
    }
    args->Supported = current->supported;
    args->ReturnInfo.Value = 0;
    args->ReturnInfo.FailingPlane = current->failing_plane & 0xF;
    args->ReturnInfo.TryAgain = current->try_again & 1;
    return current->check_answer;
  }
  static NTSTATUS NTAPI post(const HANDLE, const DXGKARG_POSTMULTIPLANEOVERLAYPRESENT* args) {
    current->posts.push_back(
        {args->VidPnTargetId, args->LayerIndex, args->PresentID, nt::CallFrame::current().irql()});
    return current->post_answer;
  }
  static NTSTATUS NTAPI get_caps(const HANDLE, DXGKARG_GETMULTIPLANEOVERLAYCAPS* args) {
    const UINT source = args->VidPnSourceId;
    *args = current->caps;
    args->VidPnSourceId = source;
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI get_post_caps(const HANDLE, DXGKARG_GETPOSTCOMPOSITIONCAPS* args) {
    args->MaxStretchFactor = 1.5F;
    args->MaxShrinkFactor = 1.25F;
    return STATUS_SUCCESS;
  }
};

inline RECT rect(LONG left, LONG top, LONG right, LONG bottom) {
  return {left, top, right, bottom};
}

/// Attributes of a plane that shows `destination` of the screen from the same part of its surface.
inline D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes_of(const RECT& destination) {
  D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes{};
  attributes.SrcRect = attributes.DstRect = destination;
  attributes.ClipRect =
      rect(0, 0, destination.right - destination.left, destination.bottom - destination.top);
  attributes.Rotation = D3DDDI_ROTATION_IDENTITY;
  attributes.StretchQuality = static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(1);
  return attributes;
}

/// One plane of a present: a handle, or 0 to switch the plane off.
struct ClientPlane {
  UINT layer = 0;
  D3DKMT_HANDLE allocation = 0;
  RECT where = rect(0, 0, kWidth, kHeight);
  UINT interval = 1;
};

/// The calls of a client, in the structures of version 3.
class PlaneClient : public FlipClient {
 public:
  PlaneClient(Stack& stack_in, PlaneDriver& driver_in, size_t count = 5)
      : FlipClient(stack_in, driver_in.flips, count) {
    limit(0, 16);
  }
  struct Args {
    std::vector<D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3> attributes;
    std::vector<D3DKMT_HANDLE> allocations;
    std::vector<D3DKMT_MULTIPLANE_OVERLAY3> planes;
    std::vector<D3DKMT_MULTIPLANE_OVERLAY3*> pointers;
    D3DKMT_PRESENT_MULTIPLANE_OVERLAY3 args{};
  };
  void fill(const std::vector<ClientPlane>& planes, Args* to) const {
    for (const ClientPlane& one : planes) {
      to->attributes.push_back(attributes_of(one.where));
      to->allocations.push_back(one.allocation);
    }
    for (size_t i = 0; i < planes.size(); ++i) {
      D3DKMT_MULTIPLANE_OVERLAY3 plane{};
      plane.LayerIndex = planes[i].layer;
      plane.InputFlags.Enabled = planes[i].allocation != 0 ? 1 : 0;
      plane.FlipInterval = static_cast<D3DDDI_FLIPINTERVAL_TYPE>(planes[i].interval);
      plane.MaxImmediateFlipLine = ~0U;
      plane.AllocationCount = planes[i].allocation != 0 ? 1 : 0;
      plane.pAllocationList = &to->allocations[i];
      plane.pPlaneAttributes = &to->attributes[i];
      to->planes.push_back(plane);
    }
    for (D3DKMT_MULTIPLANE_OVERLAY3& plane : to->planes) to->pointers.push_back(&plane);
    to->args.hAdapter = adapter;
    to->args.ContextCount = 1;
    to->args.pContextList = const_cast<D3DKMT_HANDLE*>(&context.handle);
    to->args.PresentPlaneCount = static_cast<UINT>(planes.size());
    to->args.ppPresentPlanes = to->pointers.data();
  }
  NTSTATUS show(const std::vector<ClientPlane>& planes) {
    Args args;
    fill(planes, &args);
    return show_args(args);
  }
  NTSTATUS show_args(const Args& args) {
    const NTSTATUS status = call([&] { return D3DKMTPresentMultiPlaneOverlay3(&args.args); });
    stack.settle();
    return status;
  }
};

class PlaneTest : public ContractTest {
 protected:
  /// A driver of this version and a client that shows its first primary.
  static void with_planes(uint32_t version,
                          const std::function<void(Stack&, PlaneDriver&, PlaneClient&)>& body,
                          const std::function<void(PlaneDriver&)>& prepare = nullptr) {
    bare([&](Stack& stack) {
      PlaneDriver driver(stack, version);
      if (prepare) prepare(driver);
      ASSERT_EQ(stack.start(), Status::kSuccess);
      {
        PlaneClient client(stack, driver);
        body(stack, driver, client);
      }
    });
  }
};

}  // namespace dxgkit::contract
