#include "tools/dxgkit/softgpu_traits.h"

#include <d3dkmthk.h>

#include "miniports/softgpu/softgpu_umd.h"
#include "thunks/client.h"

namespace dxgkit::tool {

SoftGpuTraits softgpu_traits(dxgk::System& system, dxgk::Luid adapter) {
  dxgk::Process& process = system.create_process("probe");
  SgpuUmdAdapterInfo info{};
  {
    const thunks::ClientScope scope(system, process);
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid.LowPart = adapter.low;
    open.AdapterLuid.HighPart = adapter.high;
    if (is_success(from_ntstatus(D3DKMTOpenAdapterFromLuid(&open)))) {
      D3DKMT_QUERYADAPTERINFO query{};
      query.hAdapter = open.hAdapter;
      query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
      query.pPrivateDriverData = &info;
      query.PrivateDriverDataSize = sizeof(info);
      if (!is_success(from_ntstatus(D3DKMTQueryAdapterInfo(&query)))) info = {};
    }
  }
  system.end_process(process);
  if (info.magic != SGPU_UMD_ADAPTER_MAGIC) return {};
  return {.speaks = true, .gpu_addresses = (info.flags & SGPU_UMD_ADAPTER_GPU_VA) != 0};
}

}  // namespace dxgkit::tool
