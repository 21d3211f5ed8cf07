#include "port/ddi/planes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCheck1{"DxgkDdiCheckMultiPlaneOverlaySupport", nt::kPassiveLevel,
                          DdiClass::kLevelZero};
constexpr DdiInfo kCheck2{"DxgkDdiCheckMultiPlaneOverlaySupport2", nt::kPassiveLevel,
                          DdiClass::kLevelZero};
constexpr DdiInfo kCheck3{"DxgkDdiCheckMultiPlaneOverlaySupport3", nt::kPassiveLevel,
                          DdiClass::kLevelZero};
constexpr DdiInfo kSet1{"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", nt::kDeviceLevel,
                        DdiClass::kLevelZeroBeside};
constexpr DdiInfo kSet2{"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2", nt::kDeviceLevel,
                        DdiClass::kLevelZeroBeside};
constexpr DdiInfo kSet3{"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", nt::kDeviceLevel,
                        DdiClass::kLevelZeroBeside};
constexpr DdiInfo kSet3Passive{"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3",
                               nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kPostPresent{"DxgkDdiPostMultiPlaneOverlayPresent", nt::kPassiveLevel,
                               DdiClass::kLevelZero};
constexpr DdiInfo kCaps{"DxgkDdiGetMultiPlaneOverlayCaps", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kPostCaps{"DxgkDdiGetPostCompositionCaps", nt::kPassiveLevel,
                            DdiClass::kLevelZero};

RECT rect_of(const Rect& rect) { return {rect.left, rect.top, rect.right, rect.bottom}; }

/// The members that all versions have.
template <typename Attributes>
Attributes common_attributes(const PlaneAttributes& from) {
  Attributes to{};
  to.Flags.VerticalFlip = from.vertical_flip ? 1 : 0;
  to.Flags.HorizontalFlip = from.horizontal_flip ? 1 : 0;
  to.SrcRect = rect_of(from.source);
  to.DstRect = rect_of(from.destination);
  to.ClipRect = rect_of(from.clip);
  to.Rotation = static_cast<D3DDDI_ROTATION>(from.rotation);
  to.Blend.AlphaBlend = from.alpha_blend ? 1 : 0;
  to.StretchQuality = static_cast<DXGK_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(from.stretch_quality);
  return to;
}

DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES attributes1(const PlaneAttributes& from) {
  auto to = common_attributes<DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES>(from);
  to.VideoFrameFormat =
      static_cast<DXGK_MULTIPLANE_OVERLAY_VIDEO_FRAME_FORMAT>(from.video_frame_format);
  to.YCbCrFlags.Value = from.ycbcr_flags;
  return to;
}

DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES2 attributes2(const PlaneAttributes& from) {
  auto to = common_attributes<DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES2>(from);
  to.VideoFrameFormat =
      static_cast<DXGK_MULTIPLANE_OVERLAY_VIDEO_FRAME_FORMAT>(from.video_frame_format);
  to.ColorSpaceType = static_cast<D3DDDI_COLOR_SPACE_TYPE>(from.color_space);
  return to;
}

/// Later versions of the structure are longer, and drivers get pointers to single planes: a driver
/// for an older version does not see the rest. `dirty` has to live as long as the result.
DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes3(const PlaneAttributes& from,
                                                std::vector<RECT>* dirty) {
  auto to = common_attributes<DXGK_MULTIPLANE_OVERLAY_ATTRIBUTES3>(from);
  to.ColorSpaceType = static_cast<D3DDDI_COLOR_SPACE_TYPE>(from.color_space);
  to.SDRWhiteLevel = from.sdr_white_nits;
  for (const Rect& rect : from.dirty) dirty->push_back(rect_of(rect));
  to.DirtyRectCnt = static_cast<UINT>(dirty->size());
  to.pDirtyRects = dirty->empty() ? nullptr : dirty->data();
  return to;
}

DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION post_of(const PostComposition& from) {
  DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION to{};
  to.Flags.VerticalFlip = from.vertical_flip ? 1 : 0;
  to.Flags.HorizontalFlip = from.horizontal_flip ? 1 : 0;
  to.SrcRect = rect_of(from.source);
  to.DstRect = rect_of(from.destination);
  to.Rotation = static_cast<D3DDDI_ROTATION>(from.rotation);
  return to;
}

template <typename T>
std::vector<T*> pointers_to(std::vector<T>& list) {
  std::vector<T*> pointers;
  pointers.reserve(list.size());
  for (T& one : list) pointers.push_back(&one);
  return pointers;
}

/// What a driver answered in DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT of any version.
struct CheckAnswer {
  Status status;
  bool supported = false;
  DXGK_CHECK_MULTIPLANE_OVERLAY_SUPPORT_RETURN_INFO info{};
};

template <typename Arguments, typename Entry>
CheckAnswer ask(PortCore& core, const DdiInfo& info, Entry entry, Arguments* arguments) {
  fill_output(core, &arguments->Supported);
  fill_output(core, &arguments->ReturnInfo.Value);
  CheckAnswer answer{.status = Status::kSuccess};
  {
    DdiCall call(core, info, arguments->PlaneCount);
    answer.status = call(entry, core.context, arguments);
  }
  if (!is_success(answer.status)) return answer;
  UnwrittenMembers unwritten(core.output_fill);
  unwritten.look("Supported", &arguments->Supported);
  // ReturnInfo says why a configuration is not supported.
  if (arguments->Supported == FALSE) unwritten.look("ReturnInfo", &arguments->ReturnInfo.Value);
  unwritten.report(core, info.name, "DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT");
  answer.supported = arguments->Supported != FALSE;
  answer.info = arguments->ReturnInfo;
  return answer;
}

template <typename Arguments>
void fill_old_set(const PlaneSettings& settings, Arguments* to) {
  DXGKIT_CHECK(settings.contexts.size() <= SourceAddressArgs::kMaxContexts);
  to->ContextCount = static_cast<UINT>(settings.contexts.size());
  std::ranges::copy(settings.contexts, to->Context);
  // One of the two for all planes: below version 3 planes have no flags of their own.
  const bool immediate = std::ranges::any_of(settings.planes, &PlaneSetting::immediate);
  to->Flags.FlipImmediate = immediate ? 1 : 0;
  to->Flags.FlipOnNextVSync = immediate ? 0 : 1;
  to->VidPnSourceId = settings.source;
  to->PlaneCount = static_cast<UINT>(settings.planes.size());
  to->Duration = settings.duration_100ns;
}

template <typename Plane>
Plane old_plane(const PlaneSetting& from) {
  Plane to{};
  to.LayerIndex = from.layer;
  to.Enabled = from.enabled ? TRUE : FALSE;
  to.AllocationSegment = from.segment;
  to.AllocationAddress.QuadPart = static_cast<LONGLONG>(from.address);
  to.hAllocation = from.allocation;
  return to;
}

/// DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3 with all that it points to.
struct Set3 {
  explicit Set3(const PlaneSettings& settings)
      : dirty(settings.planes.size()),
        contexts(settings.planes.size()),
        context_pointers(settings.planes.size()) {
    planes.reserve(settings.planes.size());
    for (size_t i = 0; i < settings.planes.size(); ++i) {
      const PlaneSetting& from = settings.planes[i];
      DXGK_MULTIPLANE_OVERLAY_PLANE3 to{};
      to.LayerIndex = from.layer;
      to.PresentId = from.present_id;
      to.InputFlags.Enabled = from.enabled ? 1 : 0;
      to.InputFlags.FlipImmediate = from.immediate ? 1 : 0;
      to.InputFlags.FlipOnNextVSync = from.immediate ? 0 : 1;
      to.MaxImmediateFlipLine = from.max_flip_line;
      for (void* const context : settings.contexts) {
        DXGK_PRIMARYCONTEXTDATA data{};
        data.hContext = context;
        data.hAllocation = from.allocation;
        data.SegmentId = static_cast<WORD>(from.segment);
        data.SegmentAddress.QuadPart = static_cast<LONGLONG>(from.address);
        contexts[i].push_back(data);
      }
      context_pointers[i] = pointers_to(contexts[i]);
      to.ContextCount = static_cast<UINT>(contexts[i].size());
      to.ppContextData = context_pointers[i].data();
      to.DriverPrivateDataSize = static_cast<UINT>(from.private_data.size());
      to.pDriverPrivateData = data_of(from.private_data);
      to.PlaneAttributes = attributes3(from.attributes, &dirty[i]);
      planes.push_back(to);
    }
    plane_pointers = pointers_to(planes);
    arguments.VidPnSourceId = settings.source;
    arguments.PlaneCount = static_cast<UINT>(planes.size());
    arguments.ppPlanes = plane_pointers.data();
    if (settings.post_composition.has_value()) post = post_of(*settings.post_composition);
    arguments.pPostComposition = settings.post_composition.has_value() ? &post : nullptr;
    arguments.Duration = settings.duration_100ns;
    arguments.TargetFlipTime = settings.target_time;
  }
  Set3(const Set3&) = delete;
  Set3& operator=(const Set3&) = delete;

  std::vector<std::vector<RECT>> dirty;
  std::vector<std::vector<DXGK_PRIMARYCONTEXTDATA>> contexts;
  std::vector<std::vector<DXGK_PRIMARYCONTEXTDATA*>> context_pointers;
  std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE3> planes;
  std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE3*> plane_pointers;
  DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION post{};
  DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3 arguments{};
};

/// Calls `entry` at device level, excluding the ISR.
template <typename Entry, typename Arguments>
Status at_device_level(PortCore& core, const DdiInfo& info, uint32_t source, Entry entry,
                       Arguments* arguments) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  DdiCall call(core, info, source);
  core.interrupts.enter_lock();
  const Status status = call(entry, core.context, arguments);
  core.interrupts.leave_lock();
  return status;
}

/// The flags that a driver of this version can set.
PlaneAnswer answer_of(const Set3& set, uint32_t version) {
  const auto& flags = set.arguments.OutputFlags;
  PlaneAnswer answer;
  answer.at_passive_level = flags.PrePresentNeeded != 0;
  if (version >= kInterfaceWddm30) {
    answer.drain = flags.HwFlipQueueDrainNeeded != 0;
    answer.drain_all_planes = flags.HwFlipQueueDrainAllPlanes != 0;
    answer.drain_all_sources = flags.HwFlipQueueDrainAllSources != 0;
  }
  for (const DXGK_MULTIPLANE_OVERLAY_PLANE3& plane : set.planes) {
    answer.planes.push_back(
        {.at_once = plane.OutputFlags.FlipConvertedToImmediate != 0,
         .post_present = plane.OutputFlags.PostPresentNeeded != 0,
         .completes_by_report =
             version >= kInterfaceWddm22 && plane.OutputFlags.HsyncInterruptCompletion != 0});
  }
  return answer;
}

}  // namespace

PlaneVersion PlanesPort::version() const {
  const DRIVER_INITIALIZATION_DATA& table = core_.ddi;
  if (core_.version >= kInterfaceWddm21 &&
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3 != nullptr)
    return PlaneVersion::kThree;
  if (core_.version >= kInterfaceWddm20 &&
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2 != nullptr)
    return PlaneVersion::kTwo;
  if (core_.version >= kInterfaceWddm13 &&
      table.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay != nullptr)
    return PlaneVersion::kOne;
  return PlaneVersion::kNone;
}

Result<PlaneSupport> PlanesPort::check_support(std::span<const PlaneCheck> planes,
                                               std::span<const PostComposition> posts) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  CheckAnswer answer{.status = Status::kNotSupported};
  const char* name = kCheck3.name;
  if (core_.version >= kInterfaceWddm21 &&
      core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport3 != nullptr) {
    std::vector<std::vector<RECT>> dirty(planes.size());
    std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE_WITH_SOURCE2> list;
    for (size_t i = 0; i < planes.size(); ++i)
      list.push_back({planes[i].allocation, planes[i].source, planes[i].layer,
                      attributes3(planes[i].attributes, &dirty[i])});
    std::vector<DXGK_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE> after;
    for (const PostComposition& post : posts) after.push_back({post.source_id, post_of(post)});
    const auto list_pointers = pointers_to(list);
    const auto after_pointers = pointers_to(after);
    DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT3 arguments{};
    arguments.PlaneCount = static_cast<UINT>(list.size());
    arguments.ppPlanes = const_cast<decltype(arguments.ppPlanes)>(list_pointers.data());
    arguments.PostCompositionCount = static_cast<UINT>(after.size());
    arguments.ppPostComposition =
        after.empty() ? nullptr
                      : const_cast<decltype(arguments.ppPostComposition)>(after_pointers.data());
    answer = ask(core_, kCheck3, core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport3, &arguments);
  } else if (core_.version >= kInterfaceWddm20 &&
             core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport2 != nullptr) {
    name = kCheck2.name;
    std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE_WITH_SOURCE> list;
    for (const PlaneCheck& one : planes)
      list.push_back({one.allocation, one.source, one.layer, attributes2(one.attributes)});
    DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT2 arguments{};
    arguments.PlaneCount = static_cast<UINT>(list.size());
    arguments.pPlanes = list.data();
    answer = ask(core_, kCheck2, core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport2, &arguments);
  } else if (core_.version >= kInterfaceWddm13 &&
             core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport != nullptr) {
    name = kCheck1.name;
    std::vector<DXGK_CHECK_MULTIPLANE_OVERLAY_SUPPORT_PLANE> list;
    for (const PlaneCheck& one : planes)
      list.push_back({one.allocation, one.source, attributes1(one.attributes)});
    DXGKARG_CHECKMULTIPLANEOVERLAYSUPPORT arguments{};
    arguments.PlaneCount = static_cast<UINT>(list.size());
    arguments.pPlanes = list.data();
    answer = ask(core_, kCheck1, core_.ddi.DxgkDdiCheckMultiPlaneOverlaySupport, &arguments);
  } else {
    return Error(Status::kNotSupported);
  }
  if (answer.status == Status::kDeviceRemoved) return Error(answer.status);
  if (!is_success(answer.status)) {
    return Error(core_.violation(
        "DISP-27", name, fmt::format("It returned {}.", hex(answer.status)),
        "STATUS_SUCCESS. Supported says whether the planes can be shown.",
        "Set Supported to FALSE and name the first plane that cannot be shown in FailingPlane.",
        answer.status));
  }
  PlaneSupport support{.supported = answer.supported,
                       .failing_plane = answer.info.FailingPlane,
                       .try_again = answer.info.TryAgain != 0};
  if (!support.supported && support.failing_plane >= planes.size() && !planes.empty()) {
    (void)core_.violation(
        "DISP-27", name,
        fmt::format("FailingPlane is {}; it was asked about {} plane{}.", support.failing_plane,
                    planes.size(), planes.size() == 1 ? "" : "s"),
        "FailingPlane is the index of a plane in the list.",
        "Count from 0 in the order of the list.", Status::kSuccess);
    support.failing_plane = 0;
  }
  return support;
}

Status PlanesPort::set(const PlaneSettings& settings, Where where, PlaneAnswer* answer) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  answer->planes.assign(settings.planes.size(), {});
  switch (version()) {
    case PlaneVersion::kNone:
      return Status::kNotSupported;
    case PlaneVersion::kOne: {
      DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY arguments{};
      fill_old_set(settings, &arguments);
      std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE> planes;
      for (const PlaneSetting& one : settings.planes) {
        planes.push_back(old_plane<DXGK_MULTIPLANE_OVERLAY_PLANE>(one));
        planes.back().PlaneAttributes = attributes1(one.attributes);
      }
      arguments.pPlanes = planes.data();
      return at_device_level(core_, kSet1, settings.source,
                             core_.ddi.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay,
                             static_cast<decltype(arguments) const*>(&arguments));
    }
    case PlaneVersion::kTwo: {
      DXGKARG_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY2 arguments{};
      fill_old_set(settings, &arguments);
      std::vector<DXGK_MULTIPLANE_OVERLAY_PLANE2> planes;
      for (const PlaneSetting& one : settings.planes) {
        planes.push_back(old_plane<DXGK_MULTIPLANE_OVERLAY_PLANE2>(one));
        planes.back().PlaneAttributes = attributes2(one.attributes);
      }
      arguments.pPlanes = planes.data();
      return at_device_level(core_, kSet2, settings.source,
                             core_.ddi.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2,
                             static_cast<decltype(arguments) const*>(&arguments));
    }
    case PlaneVersion::kThree:
      break;
  }
  Set3 set(settings);
  const auto entry = core_.ddi.DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3;
  Status status = Status::kSuccess;
  if (where == Where::kDeviceLevel) {
    status = at_device_level(core_, kSet3, settings.source, entry, &set.arguments);
  } else {
    set.arguments.InputFlags.RetryAtLowerIrql = 1;
    DdiCall call(core_, kSet3Passive, settings.source);
    status = call(entry, core_.context, &set.arguments);
  }
  if (is_success(status) || status == Status::kRetry) *answer = answer_of(set, core_.version);
  return status;
}

Status PlanesPort::post_present(uint32_t target, uint32_t layer, uint64_t present_id) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm21, core_.ddi.DxgkDdiPostMultiPlaneOverlayPresent));
  DXGKARG_POSTMULTIPLANEOVERLAYPRESENT arguments{};
  arguments.VidPnTargetId = target;
  arguments.PhysicalAdapterMask = 1;  // there are no linked adapters
  arguments.LayerIndex = layer;
  arguments.PresentID = present_id;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kPostPresent, layer);
    status = call(core_.ddi.DxgkDdiPostMultiPlaneOverlayPresent, core_.context,
                  static_cast<const DXGKARG_POSTMULTIPLANEOVERLAYPRESENT*>(&arguments));
  }
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return core_.violation("DISP-30", kPostPresent.name, fmt::format("It returned {}.", hex(status)),
                         "STATUS_SUCCESS: the planes are on the screen, and nothing is left to do "
                         "but to save power.",
                         "Leave the hardware as it is where it cannot be optimized, and return "
                         "STATUS_SUCCESS.",
                         status);
}

Result<PlaneCaps> PlanesPort::caps(uint32_t source) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiGetMultiPlaneOverlayCaps));
  DXGKARG_GETMULTIPLANEOVERLAYCAPS arguments;
  std::memset(&arguments, std::to_integer<int>(core_.output_fill), sizeof arguments);
  arguments.VidPnSourceId = source;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kCaps, source);
    status = call(core_.ddi.DxgkDdiGetMultiPlaneOverlayCaps, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  UnwrittenMembers unwritten(core_.output_fill);
  unwritten.look("MaxPlanes", &arguments.MaxPlanes);
  unwritten.look("MaxRGBPlanes", &arguments.MaxRGBPlanes);
  unwritten.look("MaxYUVPlanes", &arguments.MaxYUVPlanes);
  unwritten.look("OverlayCaps", &arguments.OverlayCaps.Value);
  unwritten.look("MaxStretchFactor", &arguments.MaxStretchFactor);
  unwritten.look("MaxShrinkFactor", &arguments.MaxShrinkFactor);
  unwritten.report(core_, kCaps.name, "DXGKARG_GETMULTIPLANEOVERLAYCAPS");
  const auto& flags = arguments.OverlayCaps;
  if (flags.Rotation != 0 && flags.RotationWithoutIndependentFlip != 0) {
    (void)core_.violation("DISP-31", kCaps.name,
                          "Rotation and RotationWithoutIndependentFlip are both set.",
                          "At most one of the two: they say opposite things of independent flips.",
                          "Set Rotation if rotated planes can flip independently, else "
                          "RotationWithoutIndependentFlip.",
                          Status::kSuccess);
  }
  if (arguments.MaxRGBPlanes > arguments.MaxPlanes ||
      arguments.MaxYUVPlanes > arguments.MaxPlanes) {
    (void)core_.violation(
        "DISP-31", kCaps.name,
        fmt::format("MaxPlanes is {}, MaxRGBPlanes is {} and MaxYUVPlanes is {}.",
                    arguments.MaxPlanes, arguments.MaxRGBPlanes, arguments.MaxYUVPlanes),
        "MaxPlanes counts planes of every kind.",
        "Report in MaxPlanes how many planes there are in all.", Status::kSuccess);
  }
  return PlaneCaps{.planes = arguments.MaxPlanes,
                   .rgb_planes = arguments.MaxRGBPlanes,
                   .yuv_planes = arguments.MaxYUVPlanes,
                   .flags = arguments.OverlayCaps.Value,
                   .stretch_most = arguments.MaxStretchFactor,
                   .shrink_most = arguments.MaxShrinkFactor};
}

Result<PostCompositionCaps> PlanesPort::post_composition_caps(uint32_t source) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiGetPostCompositionCaps));
  DXGKARG_GETPOSTCOMPOSITIONCAPS arguments;
  std::memset(&arguments, std::to_integer<int>(core_.output_fill), sizeof arguments);
  arguments.VidPnSourceId = source;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kPostCaps, source);
    status = call(core_.ddi.DxgkDdiGetPostCompositionCaps, core_.context, &arguments);
  }
  if (!is_success(status)) return Error(status);
  UnwrittenMembers unwritten(core_.output_fill);
  unwritten.look("MaxStretchFactor", &arguments.MaxStretchFactor);
  unwritten.look("MaxShrinkFactor", &arguments.MaxShrinkFactor);
  unwritten.report(core_, kPostCaps.name, "DXGKARG_GETPOSTCOMPOSITIONCAPS");
  return PostCompositionCaps{.stretch_most = arguments.MaxStretchFactor,
                             .shrink_most = arguments.MaxShrinkFactor};
}

}  // namespace dxgkit::port
