// Overlay planes: what a driver can show at once, and presents of several planes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/planes.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Context;
using dxgk::Device;
using dxgk::Display;
using dxgk::DisplayMode;
using dxgk::OpenedAllocation;
using dxgk::PlanePresent;
using dxgk::Process;
using dxgk::Ref;
using dxgk::Resource;

constexpr uint32_t kIntervalMost = 4;  // D3DDDI_FLIPINTERVAL_FOUR
constexpr UINT kRotationMost = D3DDDI_ROTATION_270;

port::Rect plane_rect(const RECT& rect) { return {rect.left, rect.top, rect.right, rect.bottom}; }

bool is_rect(const port::Rect& rect) {
  return rect.left < rect.right && rect.top < rect.bottom && rect.left >= 0 && rect.top >= 0;
}
bool inside(const port::Rect& rect, int64_t width, int64_t height) {
  return is_rect(rect) && rect.right <= width && rect.bottom <= height;
}

/// Attributes of any version. kNotSupported: stereo.
template <typename Attributes>
Status read_attributes(const Attributes& from, port::PlaneAttributes* to) {
  constexpr UINT kFlags = 3;  // vertical, horizontal flip
  if ((from.Flags & ~kFlags) != 0) return Status::kInvalidParameter;
  to->vertical_flip = (from.Flags & 1) != 0;
  to->horizontal_flip = (from.Flags & 2) != 0;
  to->source = plane_rect(from.SrcRect);
  to->destination = plane_rect(from.DstRect);
  to->clip = plane_rect(from.ClipRect);
  const auto rotation = static_cast<UINT>(from.Rotation), blend = static_cast<UINT>(from.Blend);
  if (rotation < D3DDDI_ROTATION_IDENTITY || rotation > kRotationMost || blend > 1)
    return Status::kInvalidParameter;
  to->rotation = rotation;
  to->alpha_blend = blend != 0;
  to->stretch_quality = static_cast<UINT>(from.StretchQuality);
  if (to->stretch_quality < 1 || to->stretch_quality > 2) return Status::kInvalidParameter;
  if constexpr (requires { from.VideoFrameFormat; }) {
    to->video_frame_format = static_cast<UINT>(from.VideoFrameFormat);
    if (to->video_frame_format > 2) return Status::kInvalidParameter;
    if (static_cast<UINT>(from.StereoFormat) != 0 || static_cast<UINT>(from.StereoFlipMode) != 0)
      return Status::kNotSupported;
  }
  if constexpr (requires { from.YCbCrFlags; }) {
    if ((from.YCbCrFlags & ~7U) != 0) return Status::kInvalidParameter;
    to->ycbcr_flags = from.YCbCrFlags;
  }
  if constexpr (requires { from.ColorSpace; }) to->color_space = static_cast<UINT>(from.ColorSpace);
  if constexpr (requires { from.SDRWhiteLevel; }) to->sdr_white_nits = from.SDRWhiteLevel;
  std::vector<RECT> dirty;
  DXGKIT_RETURN_IF_FAILED(capture<&Attributes::pDirtyRects>(from, &dirty));
  for (const RECT& rect : dirty) {
    to->dirty.push_back(plane_rect(rect));
    if (!is_rect(to->dirty.back())) return Status::kInvalidParameter;
  }
  if (!is_rect(to->source) || !is_rect(to->destination)) return Status::kInvalidParameter;
  return inside(to->clip, int64_t{to->destination.right} - to->destination.left,
                int64_t{to->destination.bottom} - to->destination.top)
             ? Status::kSuccess
             : Status::kInvalidParameter;
}

Status read_post_composition(const D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION& from,
                             port::PostComposition* to) {
  constexpr UINT kFlags = 3;
  if ((from.Flags.Value & ~kFlags) != 0) return Status::kInvalidParameter;
  to->vertical_flip = from.Flags.VerticalFlip != 0;
  to->horizontal_flip = from.Flags.HorizontalFlip != 0;
  to->source = plane_rect(from.SrcRect);
  to->destination = plane_rect(from.DstRect);
  to->rotation = static_cast<UINT>(from.Rotation);
  if (to->rotation < D3DDDI_ROTATION_IDENTITY || to->rotation > kRotationMost)
    return Status::kInvalidParameter;
  return is_rect(to->source) && is_rect(to->destination) ? Status::kSuccess
                                                         : Status::kInvalidParameter;
}

// --- D3DKMTCheckMultiPlaneOverlaySupport

/// The surface of a resource: its first allocation.
Status find_resource(Process& process, Device& device, D3DKMT_HANDLE handle,
                     Ref<OpenedAllocation>* surface) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Resource> resource,
                                 process.handles().find<Resource>(handle));
  if (resource->device.get() != &device.memory()) return Status::kInvalidParameter;
  device.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!resource->closing && !resource->members.empty())
      *surface = Ref<OpenedAllocation>(resource->members.front());
  });
  return *surface ? Status::kSuccess : Status::kInvalidParameter;
}

struct PlaneQuestion {
  std::vector<port::PlaneCheck> planes;
  std::vector<Ref<OpenedAllocation>> surfaces;  // keep what `planes` names
  std::vector<port::PostComposition> post_compositions;
};

Status add_plane(Process& process, Device& device, D3DKMT_HANDLE resource, uint32_t source,
                 uint32_t layer, port::PlaneAttributes attributes, PlaneQuestion* question) {
  if (source >= device.core().facts().start.video_present_sources) return Status::kInvalidParameter;
  Ref<OpenedAllocation> surface;
  DXGKIT_RETURN_IF_FAILED(find_resource(process, device, resource, &surface));
  question->planes.push_back({surface->driver_allocation, source, layer, std::move(attributes)});
  question->surfaces.push_back(std::move(surface));
  return Status::kSuccess;
}

/// Asks the driver, and fills the outputs of any version.
template <typename Args>
Status answer_check(Device& device, const PlaneQuestion& question, Args* args) {
  Display* const display = device.adapter().floor().display;
  dxgk::Planes* const planes = dxgk::overlays_of(display);
  if (planes == nullptr || planes->most() == 0) return Status::kNotSupported;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const port::PlaneSupport support,
      device.core().port().planes().check_support(question.planes, question.post_compositions));
  args->Supported = support.supported ? TRUE : FALSE;
  args->ReturnInfo.Value = 0;
  if (!support.supported) {
    args->ReturnInfo.FailingPlane = support.failing_plane & 0xF;
    args->ReturnInfo.TryAgain = support.try_again ? 1 : 0;
    return Status::kSuccess;
  }
  device.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (const port::PlaneCheck& one : question.planes) planes->set_disabled(one.source, false);
  });
  return Status::kSuccess;
}

Status check_support1(Process& process, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  std::vector<D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE> list;
  if (args.PlaneCount == 0) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT::pOverlayPlanes>(args, &list));
  PlaneQuestion question;
  for (const D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE& one : list) {
    port::PlaneAttributes attributes;
    DXGKIT_RETURN_IF_FAILED(read_attributes(one.PlaneAttributes, &attributes));
    DXGKIT_RETURN_IF_FAILED(add_plane(process, *device, one.hResource, one.VidPnSourceId,
                                      static_cast<uint32_t>(question.planes.size()),
                                      std::move(attributes), &question));
  }
  return answer_check(*device, question, &args);
}

Status check_support2(Process& process, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (&device->adapter() != adapter.get() || args.PlaneCount == 0) return Status::kInvalidParameter;
  std::vector<D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2> list;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2::pOverlayPlanes>(args, &list));
  PlaneQuestion question;
  for (const D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2& one : list) {
    port::PlaneAttributes attributes;
    DXGKIT_RETURN_IF_FAILED(read_attributes(one.PlaneAttributes, &attributes));
    DXGKIT_RETURN_IF_FAILED(add_plane(process, *device, one.hResource, one.VidPnSourceId,
                                      one.LayerIndex, std::move(attributes), &question));
  }
  return answer_check(*device, question, &args);
}

Status check_support3(Process& process, D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (&device->adapter() != adapter.get() || args.PlaneCount == 0) return Status::kInvalidParameter;
  std::vector<D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3> list;
  std::vector<D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE> after;
  DXGKIT_RETURN_IF_FAILED(
      capture_each<&D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3::ppOverlayPlanes>(args, &list));
  DXGKIT_RETURN_IF_FAILED(
      capture_each<&D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3::ppPostComposition>(args, &after));
  PlaneQuestion question;
  for (const D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3& one : list) {
    D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 captured;
    DXGKIT_RETURN_IF_FAILED(
        capture_one<&D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE3::pPlaneAttributes>(one, &captured));
    port::PlaneAttributes attributes;
    DXGKIT_RETURN_IF_FAILED(read_attributes(captured, &attributes));
    DXGKIT_RETURN_IF_FAILED(add_plane(process, *device, one.hResource, one.VidPnSourceId,
                                      one.LayerIndex, std::move(attributes), &question));
  }
  for (const D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION_WITH_SOURCE& one : after) {
    port::PostComposition post;
    post.source_id = one.VidPnSourceId;
    if (post.source_id >= device->core().facts().start.video_present_sources)
      return Status::kInvalidParameter;
    DXGKIT_RETURN_IF_FAILED(read_post_composition(one.PostComposition, &post));
    question.post_compositions.push_back(post);
  }
  return answer_check(*device, question, &args);
}

// --- D3DKMTPresentMultiPlaneOverlay

Result<Ref<OpenedAllocation>> find_plane_surface(Process& process, Device& device,
                                                 D3DKMT_HANDLE handle) {
  Result<Ref<OpenedAllocation>> opened = process.handles().find<OpenedAllocation>(handle);
  if (!opened.has_value()) return opened;
  if ((*opened)->device.get() != &device.memory()) return Error(Status::kInvalidParameter);
  return opened;
}

/// The contexts of one device, each once.
Status find_contexts(Process& process, std::span<const D3DKMT_HANDLE> handles,
                     PlanePresent* request) {
  for (const D3DKMT_HANDLE handle : handles) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<Context> context, process.handles().find<Context>(handle));
    for (const Ref<Context>& other : request->contexts) {
      if (other.get() == context.get() || &other->device() != &context->device())
        return Status::kInvalidParameter;
    }
    request->contexts.push_back(std::move(context));
  }
  return request->contexts.empty() ? Status::kInvalidParameter : Status::kSuccess;
}

/// What all versions check of the planes (DISP-32), then the present.
Status show_planes(Device& device, PlanePresent* request) {
  if (device.lost()) return Status::kDeviceRemoved;
  Display* const display = device.adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  dxgk::Planes* const planes = dxgk::overlays_of(display);
  if (planes == nullptr || planes->most() == 0) return Status::kNotSupported;
  if (request->source >= device.core().facts().start.video_present_sources)
    return Status::kInvalidParameter;
  if (request->planes.empty()) return Status::kInvalidParameter;
  std::vector<Ref<OpenedAllocation>> surfaces;
  std::vector<uint32_t> layers;
  for (const PlanePresent::Plane& one : request->planes) {
    if (one.layer >= planes->most() || one.interval > kIntervalMost)
      return Status::kInvalidParameter;
    if (one.interval > 1 && !display->flips()->intervals())
      return Status::kInvalidParameter;  // DISP-04
    if (std::ranges::find(layers, one.layer) != layers.end()) return Status::kInvalidParameter;
    layers.push_back(one.layer);
    if (!one.surface) continue;
    // One surface for one plane: what is shown twice leaves the screen once.
    const bool twice = std::ranges::any_of(surfaces, [&](const Ref<OpenedAllocation>& other) {
      return other->allocation == one.surface->allocation;
    });
    if (twice) return Status::kInvalidParameter;
    surfaces.push_back(one.surface);
  }
  std::vector<DisplayMode> sizes;
  DisplayMode screen;
  DXGKIT_RETURN_IF_FAILED(display->clients()->check_planes(device, request->source, surfaces,
                                                           &sizes, &screen, &request->mode));
  for (size_t i = 0, surface = 0; i < request->planes.size(); ++i) {
    const PlanePresent::Plane& one = request->planes[i];
    if (!one.surface) continue;
    const DisplayMode& size = sizes[surface++];
    if (!inside(one.attributes.source, size.width, size.height) ||
        !inside(one.attributes.destination, screen.width, screen.height))
      return Status::kInvalidParameter;
  }
  return planes->present(*request);
}

/// Of D3DKMT_PRESENTFLAGS, which versions 1 and 2 have.
Status read_flags(const D3DKMT_PRESENTFLAGS& flags, PlanePresent* request) {
  if (flags.Reserved != 0 || flags.Flip == 0 || flags.Blt != 0 || flags.ColorFill != 0)
    return Status::kInvalidParameter;
  D3DKMT_PRESENTFLAGS known{};
  known.Flip = 1;
  known.FlipDoNotWait = flags.FlipDoNotWait;
  if (flags.Value != known.Value) return Status::kNotSupported;
  request->do_not_wait = flags.FlipDoNotWait != 0;
  return Status::kSuccess;
}

/// Versions 1 and 2.
template <typename Args, typename Plane>
Status present_old(Process& process, const Args& args, const std::vector<Plane>& list) {
  PlanePresent request;
  if (args.BroadcastContextCount > std::size(args.BroadcastContext))
    return Status::kInvalidParameter;
  std::vector<D3DKMT_HANDLE> handles = {args.hContext};
  handles.insert(handles.end(), args.BroadcastContext,
                 args.BroadcastContext + args.BroadcastContextCount);
  DXGKIT_RETURN_IF_FAILED(find_contexts(process, handles, &request));
  Device& device = request.contexts.front()->device();
  DXGKIT_ENTER(device.adapter());
  DXGKIT_RETURN_IF_FAILED(read_flags(args.Flags, &request));
  request.source = args.VidPnSourceId;
  request.duration_100ns = args.Duration;
  for (const Plane& one : list) {
    PlanePresent::Plane plane{.layer = one.LayerIndex,
                              .enabled = one.Enabled != FALSE,
                              .interval = static_cast<uint32_t>(args.FlipInterval)};
    if (plane.enabled) {
      DXGKIT_ASSIGN_OR_RETURN_STATUS(plane.surface,
                                     find_plane_surface(process, device, one.hAllocation));
      DXGKIT_RETURN_IF_FAILED(read_attributes(one.PlaneAttributes, &plane.attributes));
    }
    request.planes.push_back(std::move(plane));
  }
  return show_planes(device, &request);
}

Status present1(Process& process, const D3DKMT_PRESENT_MULTIPLANE_OVERLAY& args) {
  std::vector<D3DKMT_MULTIPLANE_OVERLAY> list;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY::pPresentPlanes>(args, &list));
  return present_old(process, args, list);
}

Status present2(Process& process, const D3DKMT_PRESENT_MULTIPLANE_OVERLAY2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  if (&context->device().adapter() != adapter.get()) return Status::kInvalidParameter;
  std::vector<D3DKMT_MULTIPLANE_OVERLAY2> list;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY2::pPresentPlanes>(args, &list));
  return present_old(process, args, list);
}

/// One plane of version 3.
Status read_plane3(Process& process, Device& device, const D3DKMT_MULTIPLANE_OVERLAY3& from,
                   PlanePresent* request) {
  if (from.InputFlags.Reserved != 0) return Status::kInvalidParameter;
  if (from.hFlipToFence != 0 || from.hFlipAwayFence != 0) return Status::kNotSupported;
  PlanePresent::Plane plane{.layer = from.LayerIndex,
                            .enabled = from.InputFlags.Enabled != 0,
                            .interval = static_cast<uint32_t>(from.FlipInterval)};
  plane.max_flip_line = from.MaxImmediateFlipLine;
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_MULTIPLANE_OVERLAY3::pDriverPrivateData>(from, &plane.private_data));
  if (plane.enabled) {
    if (from.AllocationCount == 0) return Status::kInvalidParameter;
    if (from.AllocationCount > 1) return Status::kNotSupported;  // of linked adapters
    std::vector<D3DKMT_HANDLE> allocations;
    DXGKIT_RETURN_IF_FAILED(
        capture<&D3DKMT_MULTIPLANE_OVERLAY3::pAllocationList>(from, &allocations));
    DXGKIT_ASSIGN_OR_RETURN_STATUS(plane.surface,
                                   find_plane_surface(process, device, allocations.front()));
    D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES3 attributes;
    DXGKIT_RETURN_IF_FAILED(
        capture_one<&D3DKMT_MULTIPLANE_OVERLAY3::pPlaneAttributes>(from, &attributes));
    DXGKIT_RETURN_IF_FAILED(read_attributes(attributes, &plane.attributes));
  }
  request->planes.push_back(std::move(plane));
  return Status::kSuccess;
}

Status present3(Process& process, const D3DKMT_PRESENT_MULTIPLANE_OVERLAY3& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  PlanePresent request;
  std::vector<D3DKMT_HANDLE> contexts;
  static_assert(kMostOf<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY3::pContextList> ==
                port::SourceAddressArgs::kMaxContexts);
  DXGKIT_RETURN_IF_FAILED(
      capture<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY3::pContextList>(args, &contexts));
  DXGKIT_RETURN_IF_FAILED(find_contexts(process, contexts, &request));
  Device& device = request.contexts.front()->device();
  if (&device.adapter() != adapter.get()) return Status::kInvalidParameter;
  DXGKIT_ENTER(device.adapter());
  if (args.Flags.Reserved != 0) return Status::kInvalidParameter;
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY_FLAGS known{};
  known.FlipDoNotWait = args.Flags.FlipDoNotWait;
  known.DurationValid = args.Flags.DurationValid;
  if (args.Flags.Value != known.Value) return Status::kNotSupported;
  request.do_not_wait = args.Flags.FlipDoNotWait != 0;
  request.duration_100ns = args.Flags.DurationValid != 0 ? args.Duration : 0;
  request.source = args.VidPnSourceId;
  std::vector<D3DKMT_MULTIPLANE_OVERLAY3> list;
  DXGKIT_RETURN_IF_FAILED(
      capture_each<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY3::ppPresentPlanes>(args, &list));
  for (const D3DKMT_MULTIPLANE_OVERLAY3& one : list)
    DXGKIT_RETURN_IF_FAILED(read_plane3(process, device, one, &request));
  if (args.pPostComposition != nullptr) {
    D3DKMT_MULTIPLANE_OVERLAY_POST_COMPOSITION post;
    DXGKIT_RETURN_IF_FAILED(
        capture_one<&D3DKMT_PRESENT_MULTIPLANE_OVERLAY3::pPostComposition>(args, &post));
    request.post_composition.emplace();
    request.post_composition->source_id = request.source;
    DXGKIT_RETURN_IF_FAILED(read_post_composition(post, &*request.post_composition));
  }
  return show_planes(device, &request);
}

// --- capabilities

/// Declares `adapter`, which has the source, and enters it.
#define DXGKIT_ENTER_SOURCE(adapter, process, args)                                   \
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,                          \
                                 (process).handles().find<Adapter>((args).hAdapter)); \
  DXGKIT_ENTER(*adapter);                                                             \
  if (adapter->floor().display == nullptr ||                                          \
      (args).VidPnSourceId >= adapter->core().facts().start.video_present_sources)    \
  return Status::kInvalidParameter

Status get_caps(Process& process, D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS& args) {
  constexpr UINT kVersion3 = 1U << 11;  // Version3DDISupport, which drivers do not report
  DXGKIT_ENTER_SOURCE(adapter, process, args);
  port::PlanesPort& planes = adapter->core().port().planes();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const port::PlaneCaps caps, planes.caps(args.VidPnSourceId));
  args.MaxPlanes = caps.planes;
  args.MaxRGBPlanes = caps.rgb_planes;
  args.MaxYUVPlanes = caps.yuv_planes;
  args.OverlayCaps.Value = caps.flags & (kVersion3 - 1);
  if (planes.version() == port::PlaneVersion::kThree) args.OverlayCaps.Value |= kVersion3;
  args.MaxStretchFactor = caps.stretch_most;
  args.MaxShrinkFactor = caps.shrink_most;
  return Status::kSuccess;
}

Status get_post_composition_caps(Process& process, D3DKMT_GET_POST_COMPOSITION_CAPS& args) {
  DXGKIT_ENTER_SOURCE(adapter, process, args);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const port::PostCompositionCaps caps,
      adapter->core().port().planes().post_composition_caps(args.VidPnSourceId));
  args.MaxStretchFactor = caps.stretch_most;
  args.MaxShrinkFactor = caps.shrink_most;
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCheckMultiPlaneOverlaySupport(D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT* args) {
  return call<D3DKMTCheckMultiPlaneOverlaySupport>(args, dxgkit::thunks::check_support1);
}
NTSTATUS APIENTRY
D3DKMTCheckMultiPlaneOverlaySupport2(D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2* args) {
  return call<D3DKMTCheckMultiPlaneOverlaySupport2>(args, dxgkit::thunks::check_support2);
}
NTSTATUS APIENTRY
D3DKMTCheckMultiPlaneOverlaySupport3(D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3* args) {
  return call<D3DKMTCheckMultiPlaneOverlaySupport3>(args, dxgkit::thunks::check_support3);
}
NTSTATUS APIENTRY D3DKMTPresentMultiPlaneOverlay(const D3DKMT_PRESENT_MULTIPLANE_OVERLAY* args) {
  return call<D3DKMTPresentMultiPlaneOverlay>(args, dxgkit::thunks::present1);
}
NTSTATUS APIENTRY D3DKMTPresentMultiPlaneOverlay2(const D3DKMT_PRESENT_MULTIPLANE_OVERLAY2* args) {
  return call<D3DKMTPresentMultiPlaneOverlay2>(args, dxgkit::thunks::present2);
}
NTSTATUS APIENTRY D3DKMTPresentMultiPlaneOverlay3(const D3DKMT_PRESENT_MULTIPLANE_OVERLAY3* args) {
  return call<D3DKMTPresentMultiPlaneOverlay3>(args, dxgkit::thunks::present3);
}
NTSTATUS APIENTRY D3DKMTGetMultiPlaneOverlayCaps(D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS* args) {
  return call<D3DKMTGetMultiPlaneOverlayCaps>(args, dxgkit::thunks::get_caps);
}
NTSTATUS APIENTRY D3DKMTGetPostCompositionCaps(D3DKMT_GET_POST_COMPOSITION_CAPS* args) {
  return call<D3DKMTGetPostCompositionCaps>(args, dxgkit::thunks::get_post_composition_caps);
}

}  // extern "C"
