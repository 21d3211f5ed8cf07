#include "port/ddi/overlays.h"

#include <fmt/format.h>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

// Level one, class of overlays.
constexpr DdiInfo kCreateOverlay{"DxgkDdiCreateOverlay", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kUpdateOverlay{"DxgkDdiUpdateOverlay", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kFlipOverlay{"DxgkDdiFlipOverlay", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyOverlay{"DxgkDdiDestroyOverlay", nt::kPassiveLevel, DdiClass::kLevelZero};

RECT overlay_rect(const Rect& rect) { return {rect.left, rect.top, rect.right, rect.bottom}; }

DXGK_OVERLAYINFO overlay_info(const OverlayInfo& info) {
  DXGK_OVERLAYINFO result{};
  result.hAllocation = info.surface.allocation;
  result.PhysicalAddress.QuadPart = static_cast<LONGLONG>(info.surface.address);
  result.SegmentId = info.surface.segment;
  result.DstRect = overlay_rect(info.destination);
  result.SrcRect = overlay_rect(info.source);
  result.pPrivateDriverData = data_of(info.private_data);
  result.PrivateDriverDataSize = size_of(info.private_data);
  return result;
}

/// OPT-05. `bandwidth`: the page names a lack of hardware or bandwidth.
Status checked_overlay(PortCore& core, const char* ddi, Status status, bool bandwidth) {
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  if (status == Status::kInvalidParameter || status == Status::kNoMemory ||
      status == Status::kGraphicsDriverMismatch)
    return status;
  if (bandwidth && status == Status::kInsufficientResources) return status;
  return core.violation(
      "OPT-05", ddi, fmt::format("It answered {}.", hex(status)),
      fmt::format("STATUS_SUCCESS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY, {}or "
                  "STATUS_GRAPHICS_DRIVER_MISMATCH.",
                  bandwidth ? "STATUS_INSUFFICIENT_RESOURCES " : ""),
      "Answer with a status of the page: clients tell a lack of bandwidth from wrong arguments by "
      "it.",
      Status::kInvalidParameter);
}

}  // namespace

bool OverlayPort::complete() const {
  return core_.ddi.DxgkDdiCreateOverlay != nullptr && core_.ddi.DxgkDdiUpdateOverlay != nullptr &&
         core_.ddi.DxgkDdiFlipOverlay != nullptr && core_.ddi.DxgkDdiDestroyOverlay != nullptr;
}

Result<void*> OverlayPort::create(uint32_t source, const OverlayInfo& info) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiCreateOverlay));
  DXGKARG_CREATEOVERLAY arguments{};
  fill_output(core_, &arguments.hOverlay);
  arguments.VidPnSourceId = source;
  arguments.OverlayInfo = overlay_info(info);
  DdiCall call(core_, kCreateOverlay, source);
  const Status status =
      checked_overlay(core_, kCreateOverlay.name,
                      call(core_.ddi.DxgkDdiCreateOverlay, core_.context, &arguments), true);
  if (!is_success(status)) return Error(status);
  report_unwritten(core_, kCreateOverlay.name, "DXGKARG_CREATEOVERLAY", "hOverlay",
                   &arguments.hOverlay);
  if (arguments.hOverlay != nullptr) return arguments.hOverlay;
  return Error(core_.violation(
      "OPT-04", kCreateOverlay.name, "It succeeded with a null hOverlay.",
      "hOverlay names the overlay in all later calls, which have no other argument for it.",
      "Set hOverlay to the address of what the driver keeps of the overlay.",
      Status::kInvalidParameter));
}

Status OverlayPort::update(void* overlay, const OverlayInfo& info) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiUpdateOverlay));
  DXGKARG_UPDATEOVERLAY arguments{};
  arguments.OverlayInfo = overlay_info(info);
  DdiCall call(core_, kUpdateOverlay);
  return checked_overlay(core_, kUpdateOverlay.name,
                         call(core_.ddi.DxgkDdiUpdateOverlay, overlay,
                              static_cast<const DXGKARG_UPDATEOVERLAY*>(&arguments)),
                         true);
}

Status OverlayPort::flip(void* overlay, const OverlaySurface& surface,
                         std::span<const std::byte> private_data) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiFlipOverlay));
  DXGKARG_FLIPOVERLAY arguments{};
  arguments.hSource = surface.allocation;
  arguments.SrcPhysicalAddress.QuadPart = static_cast<LONGLONG>(surface.address);
  arguments.SrcSegmentId = surface.segment;
  arguments.pPrivateDriverData = data_of(private_data);
  arguments.PrivateDriverDataSize = size_of(private_data);
  DdiCall call(core_, kFlipOverlay);
  return checked_overlay(core_, kFlipOverlay.name,
                         call(core_.ddi.DxgkDdiFlipOverlay, overlay,
                              static_cast<const DXGKARG_FLIPOVERLAY*>(&arguments)),
                         false);
}

Status OverlayPort::destroy(void* overlay) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, 0, core_.ddi.DxgkDdiDestroyOverlay));
  DdiCall call(core_, kDestroyOverlay);
  const Status status = call(core_.ddi.DxgkDdiDestroyOverlay, overlay);
  if (is_success(status) || status == Status::kDeviceRemoved) return status;
  return core_.violation(
      "OPT-06", kDestroyOverlay.name, fmt::format("It answered {}.", hex(status)),
      "The overlay is off when it returns: its allocation may be moved or freed from then on.",
      "Turn the overlay off by whatever means, and return STATUS_SUCCESS.", status);
}

}  // namespace dxgkit::port
