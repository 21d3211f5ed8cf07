// Sources: how they read what they show, and who owns them.
#include <algorithm>

#include "dxgk/display/display.h"
#include "dxgk/work/device.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Adapter;
using dxgk::Device;
using dxgk::Display;
using dxgk::Process;
using dxgk::Ref;

Status set_private_format(Process& process, const D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT& args) {
  DXGKIT_ENTER_DEVICE(device, process, args.hDevice);
  Display* const display = device->adapter().floor().display;
  if (display == nullptr) return Status::kInvalidParameter;  // DISP-21
  return display->clients()->set_private_format(*device, args.VidPnSourceId,
                                                args.PrivateDriverFormatAttribute);
}

Status multisample_methods(Process& process, D3DKMT_GETMULTISAMPLEMETHODLIST& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Adapter> adapter,
                                 process.handles().find<Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kInvalidParameter;
  const vidpn::Network network = display->active_network();
  if (!network.has_source(args.VidPnSourceId)) return Status::kInvalidParameter;
  std::vector<D3DKMT_MULTISAMPLEMETHOD> methods;
  const vidpn::SourceMode* const mode = network.pinned_source_mode(args.VidPnSourceId);
  const bool fits = mode != nullptr && mode->surface.width == args.Width &&
                    mode->surface.height == args.Height &&
                    mode->pixel_format == static_cast<uint32_t>(args.Format);
  if (const auto found = network.multisampling.find(args.VidPnSourceId);
      fits && found != network.multisampling.end()) {
    for (const vidpn::MultisamplingMethod& one : found->second)
      methods.push_back(
          {.NumSamples = one.samples, .NumQualityLevels = one.quality_levels, .Reserved = 0});
  }
  const auto count = static_cast<UINT>(methods.size());
  if (args.pMethodList != nullptr) {
    if (args.MethodCount < count) return Status::kInvalidParameter;
    if (!give<&D3DKMT_GETMULTISAMPLEMETHODLIST::pMethodList>(args, methods))
      return Status::kInvalidParameter;
  }
  args.MethodCount = count;
  return Status::kSuccess;
}

/// Whether a device of any process owns a source exclusively.
bool anybody_is_exclusive(Process& process) {
  for (const Ref<Adapter>& adapter : process.system().impl().running()) {
    dxgk::GatePass pass(adapter->core().gate());
    if (!pass || !adapter->core().running()) continue;
    Display* const display = adapter->floor().display;
    if (display == nullptr) continue;
    for (uint32_t id = 0; id < adapter->core().facts().start.video_present_sources; ++id) {
      if (display->is_exclusive(id)) return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;

extern "C" {

NTSTATUS APIENTRY
D3DKMTSetDisplayPrivateDriverFormat(const D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT* args) {
  return call<D3DKMTSetDisplayPrivateDriverFormat>(args, dxgkit::thunks::set_private_format);
}
NTSTATUS APIENTRY D3DKMTGetMultisampleMethodList(D3DKMT_GETMULTISAMPLEMETHODLIST* args) {
  return call<D3DKMTGetMultisampleMethodList>(args, dxgkit::thunks::multisample_methods);
}
BOOLEAN APIENTRY D3DKMTCheckExclusiveOwnership(void) {
  dxgkit::thunks::CallScope scope("D3DKMTCheckExclusiveOwnership");
  const bool exclusive =
      is_success(scope.admission()) && dxgkit::thunks::anybody_is_exclusive(*scope.process());
  static_cast<void>(scope.finish(scope.admission()));
  return exclusive ? TRUE : FALSE;
}

}  // extern "C"
