// Overlays of WDDM 1.x.
#include "umd/call.h"

namespace dxgkit::umd {
namespace {

/// Their pages have a result of its own for a lack of overlay hardware or bandwidth.
HRESULT overlay_result(NTSTATUS status) {
  return status == STATUS_INSUFFICIENT_RESOURCES ? D3DDDIERR_NOTAVAILABLE : to_hresult(status);
}

HRESULT create_overlay(const RuntimeDevice& device, D3DDDICB_CREATEOVERLAY& args) {
  D3DKMT_CREATEOVERLAY create{};
  create.VidPnSourceId = args.VidPnSourceId;
  create.hDevice = device.kernel_handle();
  create.OverlayInfo = args.OverlayInfo;
  const HRESULT result = overlay_result(D3DKMTCreateOverlay(&create));
  if (succeeded(result)) args.hKernelOverlay = create.hOverlay;
  return result;
}

HRESULT update_overlay(const RuntimeDevice& device, const D3DDDICB_UPDATEOVERLAY& args) {
  D3DKMT_UPDATEOVERLAY update{};
  update.hDevice = device.kernel_handle();
  update.hOverlay = args.hKernelOverlay;
  update.OverlayInfo = args.OverlayInfo;
  return overlay_result(D3DKMTUpdateOverlay(&update));
}

HRESULT flip_overlay(const RuntimeDevice& device, const D3DDDICB_FLIPOVERLAY& args) {
  D3DKMT_FLIPOVERLAY flip{};
  flip.hDevice = device.kernel_handle();
  flip.hOverlay = args.hKernelOverlay;
  flip.hSource = args.hSource;
  flip.pPrivateDriverData = args.pPrivateDriverData;
  flip.PrivateDriverDataSize = args.PrivateDriverDataSize;
  return overlay_result(D3DKMTFlipOverlay(&flip));
}

HRESULT destroy_overlay(const RuntimeDevice& device, const D3DDDICB_DESTROYOVERLAY& args) {
  D3DKMT_DESTROYOVERLAY destroy{};
  destroy.hDevice = device.kernel_handle();
  destroy.hOverlay = args.hKernelOverlay;
  return to_hresult(D3DKMTDestroyOverlay(&destroy));
}

}  // namespace

HRESULT APIENTRY CreateOverlayCb(HANDLE device, D3DDDICB_CREATEOVERLAY* args) {
  return device_call(device, args, Outputs::kOnSuccess, create_overlay);
}
HRESULT APIENTRY UpdateOverlayCb(HANDLE device, const D3DDDICB_UPDATEOVERLAY* args) {
  return device_call(device, args, Outputs::kNever, update_overlay);
}
HRESULT APIENTRY FlipOverlayCb(HANDLE device, const D3DDDICB_FLIPOVERLAY* args) {
  return device_call(device, args, Outputs::kNever, flip_overlay);
}
HRESULT APIENTRY DestroyOverlayCb(HANDLE device, const D3DDDICB_DESTROYOVERLAY* args) {
  return device_call(device, args, Outputs::kNever, destroy_overlay);
}

}  // namespace dxgkit::umd
