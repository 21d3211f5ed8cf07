// Overlays of WDDM 1.x.
#include <utility>

#include "dxgk/display/display.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Device;
using dxgk::Display;
using dxgk::OpenedAllocation;
using dxgk::Overlay;
using dxgk::Overlays;
using dxgk::Process;
using dxgk::Ref;

port::Rect overlay_rect(const D3DDDIRECT& rect) {
  return {rect.left, rect.top, rect.right, rect.bottom};
}

/// Empty rectangles are the driver's to judge.
bool is_overlay_rect(const D3DDDIRECT& rect) {
  return rect.left <= rect.right && rect.top <= rect.bottom;
}

/// A request, and the private data that it points to.
struct CapturedOverlay {
  std::vector<std::byte> private_data;
  dxgk::OverlayRequest request;
};

/// Data: the member for the driver's data.
template <auto Data>
Status capture_overlay_surface(Process& process, const Device& device, D3DKMT_HANDLE handle,
                               const StructureOf<Data>& args, CapturedOverlay* out) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(out->request.surface,
                                 process.handles().find<OpenedAllocation>(handle));
  if (&out->request.surface->device->device() != &device) return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(capture<Data>(args, &out->private_data));
  out->request.private_data = out->private_data;
  return Status::kSuccess;
}

Status capture_overlay_info(Process& process, const Device& device,
                            const D3DDDI_KERNELOVERLAYINFO& info, CapturedOverlay* out) {
  if (!is_overlay_rect(info.DstRect) || !is_overlay_rect(info.SrcRect))
    return Status::kInvalidParameter;
  DXGKIT_RETURN_IF_FAILED(capture_overlay_surface<&D3DDDI_KERNELOVERLAYINFO::pPrivateDriverData>(
      process, device, info.hAllocation, info, out));
  out->request.destination = overlay_rect(info.DstRect);
  out->request.source = overlay_rect(info.SrcRect);
  return Status::kSuccess;
}

/// The overlay of that device.
Result<Ref<Overlay>> find_overlay(Process& process, const Device& device, D3DKMT_HANDLE handle) {
  DXGKIT_ASSIGN_OR_RETURN(Ref<Overlay> overlay, process.handles().find<Overlay>(handle));
  if (overlay->device.get() != &device) return Error(Status::kInvalidParameter);
  return overlay;
}

/// The memory manager and the driver know failures that the pages do not name.
Status as_documented(Status status) {
  return status == Status::kGraphicsNoVideoMemory ? Status::kNoMemory : status;
}

Status create_overlay(Process& process, D3DKMT_CREATEOVERLAY& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  CapturedOverlay captured;
  DXGKIT_RETURN_IF_FAILED(capture_overlay_info(process, *device, args.OverlayInfo, &captured));
  Display* const display = device->adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;  // DISP-21
  const Result<dxgk::Handle> made =
      display->overlays()->create(*device, args.VidPnSourceId, captured.request);
  if (!made.has_value()) return as_documented(made.error());
  args.hOverlay = *made;
  return Status::kSuccess;
}

Status update_overlay(Process& process, const D3DKMT_UPDATEOVERLAY& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Overlay> overlay,
                                 find_overlay(process, *device, args.hOverlay));
  CapturedOverlay captured;
  DXGKIT_RETURN_IF_FAILED(capture_overlay_info(process, *device, args.OverlayInfo, &captured));
  Overlays& overlays = *device->adapter().floor().display->overlays();
  return as_documented(overlays.update(*overlay, captured.request));
}

Status flip_overlay(Process& process, const D3DKMT_FLIPOVERLAY& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Overlay> overlay,
                                 find_overlay(process, *device, args.hOverlay));
  CapturedOverlay captured;
  DXGKIT_RETURN_IF_FAILED(capture_overlay_surface<&D3DKMT_FLIPOVERLAY::pPrivateDriverData>(
      process, *device, args.hSource, args, &captured));
  Overlays& overlays = *device->adapter().floor().display->overlays();
  return as_documented(overlays.flip(*overlay, captured.request));
}

Status destroy_overlay(Process& process, const D3DKMT_DESTROYOVERLAY& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                 process.handles().find<Device>(args.hDevice));
  const Result<Ref<Overlay>> overlay = find_overlay(process, *device, args.hOverlay);
  if (!overlay.has_value()) return overlay.error();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Overlay> taken,
                                 process.handles().take<Overlay>(args.hOverlay));
  dxgk::Adapter& adapter = device->adapter();
  adapter.core().while_stable([&] {
    if (Display* const display = adapter.floor().display; display != nullptr)
      display->overlays()->destroy(*taken);
  });
  return Status::kSuccess;
}

Status overlay_state(Process& process, D3DKMT_GETOVERLAYSTATE& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Overlay> overlay,
                                 find_overlay(process, *device, args.hOverlay));
  Overlays& overlays = *device->adapter().floor().display->overlays();
  args.OverlayEnabled = overlays.is_on(*overlay) ? TRUE : FALSE;
  return Status::kSuccess;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY D3DKMTCreateOverlay(D3DKMT_CREATEOVERLAY* args) {
  return call<D3DKMTCreateOverlay>(args, dxgkit::thunks::create_overlay);
}
NTSTATUS APIENTRY D3DKMTUpdateOverlay(const D3DKMT_UPDATEOVERLAY* args) {
  return call<D3DKMTUpdateOverlay>(args, dxgkit::thunks::update_overlay);
}
NTSTATUS APIENTRY D3DKMTFlipOverlay(const D3DKMT_FLIPOVERLAY* args) {
  return call<D3DKMTFlipOverlay>(args, dxgkit::thunks::flip_overlay);
}
NTSTATUS APIENTRY D3DKMTDestroyOverlay(const D3DKMT_DESTROYOVERLAY* args) {
  return call<D3DKMTDestroyOverlay>(args, dxgkit::thunks::destroy_overlay);
}
NTSTATUS APIENTRY D3DKMTGetOverlayState(D3DKMT_GETOVERLAYSTATE* args) {
  return call<D3DKMTGetOverlayState>(args, dxgkit::thunks::overlay_state);
}

}  // extern "C"
