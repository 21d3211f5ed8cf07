#include "miniports/modes/output.h"

namespace modes {

NTSTATUS NTAPI query_child_relations(IN_CONST_PVOID, PDXGK_CHILD_DESCRIPTOR relations, ULONG) {
  relations[0].ChildDeviceType = TypeVideoOutput;
  relations[0].ChildCapabilities.HpdAwareness = HpdAwarenessAlwaysConnected;
  relations[0].ChildCapabilities.Type.VideoOutput.InterfaceTechnology = D3DKMDT_VOT_OTHER;
  relations[0].ChildCapabilities.Type.VideoOutput.MonitorOrientationAwareness = D3DKMDT_MOA_NONE;
  relations[0].ChildUid = kOutput;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI query_child_status(IN_CONST_PVOID, INOUT_PDXGK_CHILD_STATUS status, IN_BOOLEAN) {
  if (status->Type != StatusConnection) return STATUS_NOT_SUPPORTED;
  status->HotPlug.Connected = TRUE;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI query_device_descriptor(IN_CONST_PVOID, IN_ULONG, INOUT_PDXGK_DEVICE_DESCRIPTOR) {
  return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED;
}

NTSTATUS NTAPI recommend_functional_vidpn(IN_CONST_HANDLE,
                                          IN_CONST_PDXGKARG_RECOMMENDFUNCTIONALVIDPN_CONST) {
  return STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN;
}

NTSTATUS NTAPI update_active_path(IN_CONST_HANDLE,
                                  IN_CONST_PDXGKARG_UPDATEACTIVEVIDPNPRESENTPATH_CONST args) {
  const D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION& wanted =
      args->VidPnPresentPathInfo.ContentTransformation;
  if (wanted.Scaling != D3DKMDT_VPPS_IDENTITY || wanted.Rotation != D3DKMDT_VPPR_IDENTITY)
    return STATUS_GRAPHICS_VIDPN_MODALITY_NOT_SUPPORTED;
  return STATUS_SUCCESS;
}

NTSTATUS NTAPI query_vidpn_hw_capability(IN_CONST_HANDLE,
                                         INOUT_PDXGKARG_QUERYVIDPNHWCAPABILITY args) {
  args->VidPnHWCaps = {};
  return STATUS_SUCCESS;
}

}  // namespace modes
