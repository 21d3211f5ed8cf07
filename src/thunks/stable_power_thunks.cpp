// Clocks that stay as they are, for measurements.
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Process;
using dxgk::Ref;

Status set_stable_power(Process& process, const D3DKMT_SETSTABLEPOWERSTATE& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::Adapter> adapter,
                                 process.handles().find<dxgk::Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  return adapter->core().port().notices().set_stable_power(args.Enabled != FALSE);
}

}  // namespace
}  // namespace dxgkit::thunks

extern "C" {

NTSTATUS APIENTRY D3DKMTSetStablePowerState(const D3DKMT_SETSTABLEPOWERSTATE* args) {
  return dxgkit::thunks::call<D3DKMTSetStablePowerState>(args, dxgkit::thunks::set_stable_power);
}

}  // extern "C"
