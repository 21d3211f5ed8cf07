// Presents, flips, and clients' questions about the screens of full drivers.
#include <algorithm>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/flips.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"
#include "thunks/source_owners.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Context;
using dxgk::Device;
using dxgk::Display;
using dxgk::OpenedAllocation;
using dxgk::Process;
using dxgk::Ref;

/// STATUS_GRAPHICS_PRESENT_OCCLUDED.
constexpr Status kPresentOccluded{0xC01E0006};
constexpr uint32_t kMaxInterval = 4;  // D3DDDI_FLIPINTERVAL_FOUR

port::Rect rect_of(const RECT& rect) { return {rect.left, rect.top, rect.right, rect.bottom}; }

bool is_rect(const RECT& rect) { return rect.left < rect.right && rect.top < rect.bottom; }

/// Flags that only other kinds of present know: refused by name, not ignored.
bool other_kinds(const D3DKMT_PRESENTFLAGS& flags) {
  return flags.FlipStereo != 0 || flags.FlipStereoTemporaryMono != 0 ||
         flags.FlipStereoPreferRight != 0 || flags.BltStereoUseRight != 0 ||
         flags.PresentToBitmap != 0 || flags.RedirectedFlip != 0 || flags.RedirectedBlt != 0 ||
         flags.PresentHistoryTokenOnly != 0 || flags.PresentDDA != 0 || flags.CrossAdapter != 0 ||
         flags.PresentIndirect != 0 || flags.PresentHMD != 0 || flags.RemoteSession != 0 ||
         flags.FlipDoNotFlip != 0 || flags.FlipRestart != 0;
}

/// DISP-14, DISP-15, DISP-16: which flags, handles and rectangles go together.
Status check_combination(const D3DKMT_PRESENT& args) {
  const D3DKMT_PRESENTFLAGS& flags = args.Flags;
  if (flags.Reserved != 0) return Status::kInvalidParameter;  // THUNK-03
  const uint32_t kinds = flags.Blt + flags.ColorFill + flags.Flip;
  if (kinds != 1) return Status::kInvalidParameter;  // REND-19
  const bool keys = flags.SrcColorKey != 0 || flags.DstColorKey != 0;
  if (flags.SrcColorKey != 0 && flags.DstColorKey != 0) return Status::kInvalidParameter;
  if (flags.Flip != 0) {
    if (keys || flags.SrcRectValid != 0 || flags.DstRectValid != 0 || flags.Rotate != 0 ||
        flags.RestrictVidPnSource != 0)
      return Status::kInvalidParameter;
    if (args.hSource == 0 || args.hDestination != 0 || args.SubRectCnt != 0)
      return Status::kInvalidParameter;
    return static_cast<uint32_t>(args.FlipInterval) <= kMaxInterval ? Status::kSuccess
                                                                    : Status::kInvalidParameter;
  }
  if (flags.FlipDoNotWait != 0) return Status::kInvalidParameter;
  if (args.SubRectCnt == 0) return Status::kInvalidParameter;
  if (flags.ColorFill != 0) {
    if (keys || flags.SrcRectValid != 0 || args.hSource != 0) return Status::kInvalidParameter;
  } else if (args.hSource == 0) {
    return Status::kInvalidParameter;
  }
  if (args.hDestination != 0) {
    if (flags.SrcRectValid == 0) return Status::kInvalidParameter;  // which no fill has
    if (args.hSource == args.hDestination) return Status::kInvalidParameter;
  }
  return Status::kSuccess;
}

Result<Ref<OpenedAllocation>> find_surface(Process& process, Device& device, D3DKMT_HANDLE handle) {
  Result<Ref<OpenedAllocation>> opened = process.handles().find<OpenedAllocation>(handle);
  if (!opened.has_value()) return opened;
  if ((*opened)->device.get() != &device.memory()) return Error(Status::kInvalidParameter);
  return opened;
}

/// Rectangles of a copy or fill: sub-rectangles inside the destination and the screen (REND-18).
Status fill_rects(const D3DKMT_PRESENT& args, const dxgk::DisplayMode& screen,
                  dxgk::PresentRequest* request) {
  const port::Rect whole{0, 0, static_cast<int32_t>(screen.width),
                         static_cast<int32_t>(screen.height)};
  if (args.Flags.DstRectValid != 0 && !is_rect(args.DstRect)) return Status::kInvalidParameter;
  if (args.Flags.SrcRectValid != 0 && !is_rect(args.SrcRect)) return Status::kInvalidParameter;
  request->destination_rect = args.Flags.DstRectValid != 0 ? rect_of(args.DstRect) : whole;
  request->source_rect =
      args.Flags.SrcRectValid != 0 ? rect_of(args.SrcRect) : request->destination_rect;
  std::vector<RECT> rects;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_PRESENT::pSrcSubRects>(args, &rects));
  const port::Rect& limit = request->destination_rect;
  for (const RECT& rect : rects) {
    if (!is_rect(rect)) return Status::kInvalidParameter;
    const port::Rect clipped{std::max({rect.left, limit.left, 0}),
                             std::max({rect.top, limit.top, 0}),
                             std::min({rect.right, limit.right, whole.right}),
                             std::min({rect.bottom, limit.bottom, whole.bottom})};
    if (clipped.left < clipped.right && clipped.top < clipped.bottom)
      request->sub_rects.push_back(clipped);
  }
  return Status::kSuccess;
}

Status present(Process& process, const D3DKMT_PRESENT& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  Device& device = context->device();
  Adapter& adapter = device.adapter();
  DXGKIT_ENTER(adapter);
  if (device.lost()) return Status::kDeviceRemoved;
  DXGKIT_RETURN_IF_FAILED(check_combination(args));
  if (other_kinds(args.Flags)) return Status::kInvalidParameter;
  Display* const display = adapter.floor().display;
  if (display == nullptr) return Status::kInvalidParameter;  // DISP-21
  if (args.BroadcastContextCount > std::size(args.BroadcastContext))
    return Status::kInvalidParameter;
  dxgk::PresentRequest request;
  request.vidpn_source = args.VidPnSourceId;
  request.color = args.Color;
  request.flags.blt = args.Flags.Blt != 0;
  request.flags.color_fill = args.Flags.ColorFill != 0;
  request.flags.flip = args.Flags.Flip != 0;
  request.flags.source_key = args.Flags.SrcColorKey != 0;
  request.flags.destination_key = args.Flags.DstColorKey != 0;
  request.flags.linear_to_srgb = args.Flags.LinearToSrgb != 0;
  request.flags.rotate = args.Flags.Rotate != 0;
  for (ULONG i = 0; i < args.BroadcastContextCount; ++i) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(Ref<Context> other,
                                   process.handles().find<Context>(args.BroadcastContext[i]));
    if (&other->device() != &device || other.get() == context.get())
      return Status::kInvalidParameter;
    request.broadcast.push_back(std::move(other));
  }
  std::vector<std::byte> private_data;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_PRESENT::pPrivateDriverData>(args, &private_data));
  request.private_data = private_data;
  if (args.hSource != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(request.source, find_surface(process, device, args.hSource));
  }
  if (request.flags.flip) {
    request.flip_interval = static_cast<uint32_t>(args.FlipInterval);
    if (request.flip_interval > 1 && !display->flips()->intervals())
      return Status::kInvalidParameter;  // DISP-04
    request.do_not_wait = args.Flags.FlipDoNotWait != 0;
    DXGKIT_RETURN_IF_FAILED(
        display->clients()->check_flip(device, args.VidPnSourceId, request.source, &request.mode));
    return context->presents().present(request);
  }
  if (!request.broadcast.empty()) return Status::kInvalidParameter;
  if (args.hDestination != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(request.destination,
                                   find_surface(process, device, args.hDestination));
    bool shown = false;
    adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      const auto is_primary = [](const OpenedAllocation& surface) DXGKIT_REQUIRES(on_lane) {
        return !surface.closing && surface.allocation->primary;
      };
      shown = is_primary(*request.destination) || is_primary(*request.source);
    });
    if (!shown) return Status::kInvalidParameter;  // DISP-16
  } else {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(request.destination,
                                   display->clients()->opened_screen(device, args.VidPnSourceId));
  }
  const dxgk::DisplayConfiguration shown = display->configuration();
  const auto source =
      std::ranges::find(shown.sources, args.VidPnSourceId, &dxgk::DisplaySource::id);
  if (source == shown.sources.end() || !source->mode.has_value()) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(fill_rects(args, *source->mode, &request));
  if (request.sub_rects.empty()) return Status::kSuccess;  // nothing of it is on the screen
  return context->presents().present(request);
}

Status check_exclusive(Process& process, const D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  if (args.VidPnSourceId >= adapter->core().facts().start.video_present_sources)
    return Status::kInvalidParameter;
  return display->is_exclusive(args.VidPnSourceId) ? kPresentOccluded : Status::kSuccess;
}

/// D3DDDI_VSSLO_*. 0, UNINITIALIZED: the caller does not mind (our choice).
bool is_scanline_ordering(UINT value) {
  return value <= D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST || value == D3DDDI_VSSLO_OTHER;
}

/// `private_format`: the client's, written if its primary has another than the source.
Status set_display_mode(Process& process, const D3DKMT_SETDISPLAYMODE& args, UINT* private_format) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Display* const display = device->adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<OpenedAllocation> primary,
                                 find_surface(process, *device, args.hPrimaryAllocation));
  const dxgk::ClientPrimaries::ModeOptions options{
      .scanline_ordering = static_cast<UINT>(args.ScanLineOrdering),
      .rotation = static_cast<UINT>(args.DisplayOrientation),  // 0 as above
      .preserve_vidpn = args.Flags.PreserveVidPn != 0};
  if (!is_scanline_ordering(options.scanline_ordering) ||
      options.rotation > static_cast<UINT>(D3DDDI_ROTATION_270) || args.Flags.Reserved != 0)
    return Status::kInvalidParameter;
  uint32_t format = 0;
  const Status status = display->clients()->set_display_mode(*device, primary, options, &format);
  if (status != dxgk::ClientPrimaries::kIncompatiblePrivateFormat) return status;
  return guarded_copy(private_format, &format, sizeof format) ? status : Status::kInvalidParameter;
}

/// The structure is the caller's also where the prototype says const: GET writes into it.
Status set_queued_limit(Process& process, D3DKMT_SETQUEUEDLIMIT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  if (args.Type != D3DKMT_SET_QUEUEDLIMIT_PRESENT && args.Type != D3DKMT_GET_QUEUEDLIMIT_PRESENT)
    return Status::kInvalidParameter;
  device->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (args.Type == D3DKMT_SET_QUEUEDLIMIT_PRESENT) {  // SCHED-16: 0 resets
      device->present_limit =
          args.QueuedPresentLimit == 0 ? Device::kPresentLimit : args.QueuedPresentLimit;
      device->flip_limit =
          args.QueuedPendingFlipLimit == 0 ? Device::kFlipLimit : args.QueuedPendingFlipLimit;
      device->adapter().core().progress();
      return;
    }
    args.QueuedPresentLimit = device->present_limit;
    args.QueuedPendingFlipLimit = device->flip_limit;
  });
  return Status::kSuccess;
}

Status wait_for_vblank(Process& process, const D3DKMT_WAITFORVERTICALBLANKEVENT& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  if (args.hDevice != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                   process.handles().find<Device>(args.hDevice));
    if (&device->adapter() != adapter.get()) return Status::kInvalidParameter;
    if (device->lost()) return Status::kDeviceRemoved;
  }
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  const Result<size_t> came = display->wait_for_vblank(args.VidPnSourceId);
  return came.has_value() ? Status::kSuccess : came.error();
}

Status get_scan_line(Process& process, D3DKMT_GETSCANLINE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  bool in_vertical_blank = false;
  uint32_t line = 0;
  DXGKIT_RETURN_IF_FAILED(display->scan_line(args.VidPnSourceId, &in_vertical_blank, &line));
  args.InVerticalBlank = in_vertical_blank ? TRUE : FALSE;
  args.ScanLine = line;
  return Status::kSuccess;
}

}  // namespace

Status set_source_owners(Process& process, const D3DKMT_SETVIDPNSOURCEOWNER& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Display* const display = device->adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  if (args.VidPnSourceCount == 0) {
    if (args.pType != nullptr || args.pVidPnSourceId != nullptr) return Status::kInvalidParameter;
    return display->clients()->set_owners(*device, {}, {});
  }
  std::vector<D3DKMT_VIDPNSOURCEOWNER_TYPE> types;
  std::vector<D3DDDI_VIDEO_PRESENT_SOURCE_ID> sources;
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_SETVIDPNSOURCEOWNER::pType>(args, &types));
  DXGKIT_RETURN_IF_FAILED(capture<&D3DKMT_SETVIDPNSOURCEOWNER::pVidPnSourceId>(args, &sources));
  std::vector<dxgk::SourceOwnership> ownerships;
  for (const D3DKMT_VIDPNSOURCEOWNER_TYPE type : types) {
    if (static_cast<uint32_t>(type) > D3DKMT_VIDPNSOURCEOWNER_EMULATED)
      return Status::kInvalidParameter;
    ownerships.push_back(static_cast<dxgk::SourceOwnership>(type));
  }
  return display->clients()->set_owners(*device, sources, ownerships);
}

}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTPresent(D3DKMT_PRESENT* args) {
  return call<D3DKMTPresent>(args, dxgkit::thunks::present);
}
NTSTATUS APIENTRY D3DKMTSetVidPnSourceOwner(const D3DKMT_SETVIDPNSOURCEOWNER* args) {
  return call<D3DKMTSetVidPnSourceOwner>(args, dxgkit::thunks::set_source_owners);
}
NTSTATUS APIENTRY
D3DKMTCheckVidPnExclusiveOwnership(const D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP* args) {
  return call<D3DKMTCheckVidPnExclusiveOwnership>(args, dxgkit::thunks::check_exclusive);
}
NTSTATUS APIENTRY D3DKMTSetDisplayMode(const D3DKMT_SETDISPLAYMODE* args) {
  // The prototype says const, and the page [in, out].
  return call<D3DKMTSetDisplayMode>(
      args, [args](dxgkit::dxgk::Process& process, const D3DKMT_SETDISPLAYMODE& captured) {
        return dxgkit::thunks::set_display_mode(
            process, captured, const_cast<UINT*>(&args->PrivateDriverFormatAttribute));
      });
}
NTSTATUS APIENTRY D3DKMTSetQueuedLimit(const D3DKMT_SETQUEUEDLIMIT* args) {
  return call<D3DKMTSetQueuedLimit>(args, dxgkit::thunks::set_queued_limit);
}
NTSTATUS APIENTRY D3DKMTWaitForVerticalBlankEvent(const D3DKMT_WAITFORVERTICALBLANKEVENT* args) {
  return call<D3DKMTWaitForVerticalBlankEvent>(args, dxgkit::thunks::wait_for_vblank);
}
NTSTATUS APIENTRY D3DKMTGetScanLine(D3DKMT_GETSCANLINE* args) {
  return call<D3DKMTGetScanLine>(args, dxgkit::thunks::get_scan_line);
}

}  // extern "C"
