#include "miniports/modes/commit.h"

namespace modes {

NTSTATUS read_commit(const ModeTable& table, const DXGKARG_COMMITVIDPN* args, Shown* shown) {
  *shown = {};
  const DXGK_VIDPN_INTERFACE* functions = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
  NTSTATUS status = table.dxgk->DxgkCbQueryVidPnInterface(
      args->hFunctionalVidPn, DXGK_VIDPN_INTERFACE_VERSION_V1, &functions);
  if (!NT_SUCCESS(status)) return status;
  status = functions->pfnGetTopology(args->hFunctionalVidPn, &topology, &paths);
  if (!NT_SUCCESS(status)) return status;
  const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = args->AffectedVidPnSourceId;
  SIZE_T count = 0;
  status = paths->pfnGetNumPathsFromSource(topology, source, &count);
  if (status == STATUS_GRAPHICS_SOURCE_NOT_IN_TOPOLOGY) return STATUS_SUCCESS;
  if (!NT_SUCCESS(status)) return status;
  if (count == 0) return STATUS_SUCCESS;
  D3DDDI_VIDEO_PRESENT_TARGET_ID target = 0;
  status = paths->pfnEnumPathTargetsFromSource(topology, source, 0, &target);
  if (!NT_SUCCESS(status)) return status;

  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  status = functions->pfnAcquireSourceModeSet(args->hFunctionalVidPn, source, &set, &modes);
  if (!NT_SUCCESS(status)) return status;
  const D3DKMDT_VIDPN_SOURCE_MODE* pinned = nullptr;
  status = modes->pfnAcquirePinnedModeInfo(set, &pinned);
  if (NT_SUCCESS(status) && pinned != nullptr) {
    const D3DKMDT_GRAPHICS_RENDERING_FORMAT& format = pinned->Format.Graphics;
    bool known = false;
    for (UINT i = 0; i < table.size_count; ++i) {
      known = known || (table.sizes[i].width == format.PrimSurfSize.cx &&
                        table.sizes[i].height == format.PrimSurfSize.cy);
    }
    if (known) {
      *shown = {format.PrimSurfSize.cx, format.PrimSurfSize.cy, target};
    } else {
      status = STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE;
    }
    (void)modes->pfnReleaseModeInfo(set, pinned);
  }
  (void)functions->pfnReleaseSourceModeSet(args->hFunctionalVidPn, set);
  return NT_SUCCESS(status) ? STATUS_SUCCESS : status;
}

}  // namespace modes
