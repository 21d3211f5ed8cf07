// Clients' settings of what their sources are shown on.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/display/gamma.h"
#include "dxgk/work/device.h"
#include "runtime/descriptor_watch.h"
#include "thunks/call.h"
#include "thunks/sync_support.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Colour;
using dxgk::Device;
using dxgk::Display;
using dxgk::Gamma;
using dxgk::Process;
using dxgk::Ref;

Colour colour_of(const D3DDDI_DXGI_RGB& rgb) { return {rgb.Red, rgb.Green, rgb.Blue}; }

bool is_finite(const Colour& colour) {
  return std::isfinite(colour[0]) && std::isfinite(colour[1]) && std::isfinite(colour[2]);
}

Status read_ramp(const D3DKMT_SETGAMMARAMP& args, Gamma* gamma) {
  switch (args.Type) {
    case D3DDDI_GAMMARAMP_DEFAULT:
      return Status::kSuccess;  // as it is made
    case D3DDDI_GAMMARAMP_RGB256x3x16: {
      D3DDDI_GAMMA_RAMP_RGB256x3x16 ramp;
      if (args.Size != sizeof ramp) return Status::kInvalidParameter;
      DXGKIT_RETURN_IF_FAILED(
          capture_one<&D3DKMT_SETGAMMARAMP::pGammaRampRgb256x3x16>(args, &ramp));
      static_assert(sizeof ramp == sizeof gamma->ramp.colours);
      std::memcpy(&gamma->ramp.colours, &ramp, sizeof ramp);
      gamma->is_default = false;
      return Status::kSuccess;
    }
    case D3DDDI_GAMMARAMP_DXGI_1: {
      D3DDDI_GAMMA_RAMP_DXGI_1 ramp;
      if (args.Size != sizeof ramp) return Status::kInvalidParameter;
      DXGKIT_RETURN_IF_FAILED(capture_one<&D3DKMT_SETGAMMARAMP::pGammaRampDXGI1>(args, &ramp));
      std::vector<Colour> curve;
      for (const D3DDDI_DXGI_RGB& point : ramp.GammaCurve) curve.push_back(colour_of(point));
      gamma->ramp = dxgk::table_of_curve(colour_of(ramp.Scale), colour_of(ramp.Offset),
                                         curve.data(), curve.size());
      gamma->is_default = false;
      return Status::kSuccess;
    }
    default:
      return Status::kInvalidParameter;
  }
}

Status set_gamma_ramp(Process& process, const D3DKMT_SETGAMMARAMP& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Display* const display = device->adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  if (!display->clients()->owns(*device, args.VidPnSourceId)) return Status::kInvalidParameter;
  Gamma ramp;
  DXGKIT_RETURN_IF_FAILED(read_ramp(args, &ramp));
  return display->modes().set_gamma(args.VidPnSourceId, [&](Gamma* gamma) {
    gamma->is_default = ramp.is_default;
    gamma->ramp = ramp.ramp;
  });
}

Status adjust_gamma(Process& process, D3DKMT_ADJUSTFULLSCREENGAMMA& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  const Colour scale = colour_of(args.Scale), offset = colour_of(args.Offset);
  if (!is_finite(scale) || !is_finite(offset)) return Status::kInvalidParameter;
  // Full screen: the caller shows itself alone on the source.
  const auto owned = display->owned_by(process);
  const bool alone = std::ranges::any_of(owned, [&](const auto& one) {
    return one.first == args.VidPnSourceId && one.second == dxgk::SourceOwnership::kExclusive;
  });
  if (!alone) return Status::kInvalidParameter;
  return display->modes().set_gamma(args.VidPnSourceId, [&](Gamma* gamma) {
    gamma->scale = scale;
    gamma->offset = offset;
  });
}

/// A source that is shown has a monitor whose power is on: this kernel has no other state of a
/// single monitor.
Status check_monitor_power(Process& process, const D3DKMT_CHECKMONITORPOWERSTATE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  for (const dxgk::DisplaySource& source : display->configuration().sources) {
    if (source.id == args.VidPnSourceId)
      return source.visible ? Status::kSuccess : Status::kInvalidParameter;
  }
  return Status::kInvalidParameter;
}

/// The other objects are events of the client: eventfds, as in other calls. They are like events
/// that the client resets itself: a wait leaves their counts alone (our choice).
Status wait_for_vblank2(Process& process, const D3DKMT_WAITFORVERTICALBLANKEVENT2& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  if (args.hDevice != 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Device> device,
                                   process.handles().find<Device>(args.hDevice));
    if (&device->adapter() != adapter.get() || device->lost()) return Status::kInvalidParameter;
  }
  Display* const display = adapter->floor().display;
  if (display == nullptr || args.NumObjects > std::size(args.ObjectHandleArray))
    return Status::kInvalidParameter;
  // All handles are looked up before the first copy is made: a copy may get the number that a
  // handle names by mistake.
  std::vector<int> events;
  for (const HANDLE handle : std::span(args.ObjectHandleArray).first(args.NumObjects))
    events.push_back(event_descriptor(handle));
  runtime::DescriptorWatch objects(adapter->core().runtime());
  for (const int event : events) {
    if (!objects.add(event)) return Status::kInvalidParameter;
  }
  const Result<size_t> came = display->wait_for_vblank(args.VidPnSourceId, &objects);
  // Its page names no other failure, whatever the reason.
  if (!came.has_value()) return Status::kInvalidParameter;
  return Status{static_cast<uint32_t>(*came)};  // STATUS_WAIT_0 to STATUS_WAIT_8
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::without_removal;

extern "C" {

NTSTATUS APIENTRY D3DKMTSetGammaRamp(const D3DKMT_SETGAMMARAMP* args) {
  return call<D3DKMTSetGammaRamp>(args, dxgkit::thunks::set_gamma_ramp);
}
NTSTATUS APIENTRY D3DKMTAdjustFullscreenGamma(D3DKMT_ADJUSTFULLSCREENGAMMA* args) {
  return call<D3DKMTAdjustFullscreenGamma>(args, dxgkit::thunks::adjust_gamma);
}
NTSTATUS APIENTRY D3DKMTCheckMonitorPowerState(const D3DKMT_CHECKMONITORPOWERSTATE* args) {
  return call<D3DKMTCheckMonitorPowerState>(args,
                                            without_removal<dxgkit::thunks::check_monitor_power>);
}
NTSTATUS APIENTRY D3DKMTWaitForVerticalBlankEvent2(const D3DKMT_WAITFORVERTICALBLANKEVENT2* args) {
  return call<D3DKMTWaitForVerticalBlankEvent2>(args,
                                                without_removal<dxgkit::thunks::wait_for_vblank2>);
}

}  // extern "C"
