// What the runtime keeps with a shared resource.
#include "dxgk/memory/memory_floor.h"
#include "dxgk/memory/sharing.h"
#include "thunks/call.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Process;
using dxgk::Ref;
using dxgk::SharedResource;

/// Without opening the resource.
Status runtime_data(Process& process, const D3DKMT_GETRUNTIMEDATA& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<dxgk::Adapter> adapter,
                                 process.handles().find<dxgk::Adapter>(args.hAdapter));
  DXGKIT_ENTER(*adapter);
  process.system().impl().reap_nt_handles();
  DXGKIT_ASSIGN_OR_RETURN_STATUS(
      const Ref<SharedResource> shared,
      process.system().impl().global_shares.find<SharedResource>(args.hGlobalShare));
  if (&shared->floor().core != &adapter->core()) return Status::kInvalidParameter;
  const std::vector<std::byte>& data = shared->runtime_data;
  if (args.RuntimeDataSize < data.size()) return Status::kBufferTooSmall;
  return give<&D3DKMT_GETRUNTIMEDATA::pRuntimeData>(args, data) ? Status::kSuccess
                                                                : Status::kInvalidParameter;
}

}  // namespace
}  // namespace dxgkit::thunks

extern "C" {

NTSTATUS APIENTRY D3DKMTGetRuntimeData(const D3DKMT_GETRUNTIMEDATA* args) {
  return dxgkit::thunks::call<D3DKMTGetRuntimeData>(args, dxgkit::thunks::runtime_data);
}

}  // extern "C"
