#include "thunks/adapter_info.h"

#include <array>
#include <cstring>
#include <vector>

#include "thunks/adapter_answers.h"

namespace dxgkit::thunks {
namespace {

/// An answer in the type of its structure.
template <typename T, Status (*kAnswer)(const AdapterQuestion&, T&)>
Status typed(const AdapterQuestion& question, std::span<std::byte> data) {
  T value;
  std::memcpy(&value, data.data(), sizeof value);
  DXGKIT_RETURN_IF_FAILED(kAnswer(question, value));
  std::memcpy(data.data(), &value, sizeof value);
  return Status::kSuccess;
}

#define DXGKIT_ANSWERED(type, structure, function)                    \
  AdapterInfoType {                                                   \
    type, {#type, Support::kSupported, ""}, sizeof(structure), false, \
        typed<structure, answers::function>                           \
  }
#define DXGKIT_PARTLY(type, structure, function, note)                \
  AdapterInfoType {                                                   \
    type, {#type, Support::kPartial, note}, sizeof(structure), false, \
        typed<structure, answers::function>                           \
  }
#define DXGKIT_NO(type, structure, note)                                \
  AdapterInfoType {                                                     \
    type, {#type, Support::kSupported, note}, sizeof(structure), false, \
        typed<structure, answers::no<structure>>                        \
  }
#define DXGKIT_UNANSWERED(type, note)        \
  AdapterInfoType {                          \
    type, { #type, Support::kRefused, note } \
  }

constexpr const char* kNoOverlays = "no: overlay planes are not used for that";

constexpr auto kTypes = std::to_array<AdapterInfoType>({
    DXGKIT_ANSWERED(KMTQAITYPE_UMDRIVERNAME, D3DKMT_UMDFILENAMEINFO, umd_name),
    DXGKIT_ANSWERED(KMTQAITYPE_UMOPENGLINFO, D3DKMT_OPENGLINFO, opengl),
    DXGKIT_ANSWERED(KMTQAITYPE_GETSEGMENTSIZE, D3DKMT_SEGMENTSIZEINFO, segment_size),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERGUID, GUID, adapter_guid),
    DXGKIT_ANSWERED(KMTQAITYPE_FLIPQUEUEINFO, D3DKMT_FLIPQUEUEINFO, flip_queue),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERADDRESS, D3DKMT_ADAPTERADDRESS, address),
    DXGKIT_UNANSWERED(KMTQAITYPE_SETWORKINGSETINFO, "no working sets"),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERREGISTRYINFO, D3DKMT_ADAPTERREGISTRYINFO, registry_info),
    DXGKIT_ANSWERED(KMTQAITYPE_CURRENTDISPLAYMODE, D3DKMT_CURRENTDISPLAYMODE, current_mode),
    DXGKIT_UNANSWERED(KMTQAITYPE_MODELIST, "names no source; D3DKMTGetDisplayModeList does"),
    DXGKIT_NO(KMTQAITYPE_CHECKDRIVERUPDATESTATUS, BOOL,
              "no: a driver is never exchanged while it runs"),
    DXGKIT_ANSWERED(KMTQAITYPE_VIRTUALADDRESSINFO, D3DKMT_VIRTUALADDRESSINFO, virtual_address),
    DXGKIT_ANSWERED(KMTQAITYPE_DRIVERVERSION, D3DKMT_DRIVERVERSION, driver_version),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERTYPE, D3DKMT_ADAPTERTYPE, adapter_type),
    DXGKIT_ANSWERED(KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT, D3DKMT_OUTPUTDUPLCONTEXTSCOUNT,
                    duplications),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_1_2_CAPS, D3DKMT_WDDM_1_2_CAPS, wddm_1_2),
    DXGKIT_ANSWERED(KMTQAITYPE_UMD_DRIVER_VERSION, D3DKMT_UMD_DRIVER_VERSION, umd_version),
    DXGKIT_NO(KMTQAITYPE_DIRECTFLIP_SUPPORT, D3DKMT_DIRECTFLIP_SUPPORT,
              "no: the kernel makes no direct flips"),
    DXGKIT_ANSWERED(KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT, D3DKMT_MULTIPLANEOVERLAY_SUPPORT,
                    overlay_planes),
    DXGKIT_UNANSWERED(KMTQAITYPE_DLIST_DRIVER_NAME, "no hybrid systems"),
    DXGKIT_PARTLY(KMTQAITYPE_WDDM_1_3_CAPS, D3DKMT_WDDM_1_3_CAPS, wddm_1_3,
                  "no Miracast, no P-states"),
    DXGKIT_ANSWERED(KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT, D3DKMT_MULTIPLANEOVERLAY_HUD_SUPPORT,
                    overlay_hud),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_2_0_CAPS, D3DKMT_WDDM_2_0_CAPS, wddm_2_0),
    DXGKIT_ANSWERED(KMTQAITYPE_NODEMETADATA, D3DKMT_NODEMETADATA, node_metadata),
    DXGKIT_UNANSWERED(KMTQAITYPE_CPDRIVERNAME, "no content protection"),
    DXGKIT_NO(KMTQAITYPE_XBOX, D3DKMT_XBOX, "no"),
    DXGKIT_NO(KMTQAITYPE_INDEPENDENTFLIP_SUPPORT, D3DKMT_INDEPENDENTFLIP_SUPPORT,
              "no: the kernel makes no independent flips"),
    DXGKIT_UNANSWERED(KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME, "no Miracast"),
    DXGKIT_ANSWERED(KMTQAITYPE_PHYSICALADAPTERCOUNT, D3DKMT_PHYSICAL_ADAPTER_COUNT, physical_count),
    DXGKIT_ANSWERED(KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, D3DKMT_QUERY_DEVICE_IDS, device_ids),
    DXGKIT_ANSWERED(KMTQAITYPE_DRIVERCAPS_EXT, D3DKMT_DRIVERCAPS_EXT, driver_caps_ext),
    DXGKIT_NO(KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE, D3DKMT_QUERY_MIRACAST_DRIVER_TYPE, "none"),
    DXGKIT_ANSWERED(KMTQAITYPE_QUERY_GPUMMU_CAPS, D3DKMT_QUERY_GPUMMU_CAPS, gpu_mmu),
    DXGKIT_NO(KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT,
              D3DKMT_MULTIPLANEOVERLAY_DECODE_SUPPORT, kNoOverlays),
    DXGKIT_NO(KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT, UINT32, "0: no protected content"),
    DXGKIT_NO(KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED,
              D3DKMT_ISBADDRIVERFORHWPROTECTIONDISABLED, "no"),
    DXGKIT_NO(KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT,
              D3DKMT_MULTIPLANEOVERLAY_SECONDARY_SUPPORT, kNoOverlays),
    DXGKIT_NO(KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT,
              D3DKMT_INDEPENDENTFLIP_SECONDARY_SUPPORT,
              "no: the kernel makes no independent flips"),
    DXGKIT_NO(KMTQAITYPE_PANELFITTER_SUPPORT, D3DKMT_PANELFITTER_SUPPORT, kNoOverlays),
    DXGKIT_UNANSWERED(KMTQAITYPE_PHYSICALADAPTERPNPKEY, "keys are not opened from outside"),
    DXGKIT_ANSWERED(KMTQAITYPE_GETSEGMENTGROUPSIZE, D3DKMT_SEGMENTGROUPSIZEINFO,
                    segment_group_size),
    DXGKIT_ANSWERED(KMTQAITYPE_MPO3DDI_SUPPORT, D3DKMT_MPO3DDI_SUPPORT, overlay_planes3),
    DXGKIT_NO(KMTQAITYPE_HWDRM_SUPPORT, D3DKMT_HWDRM_SUPPORT, "no: no protected content"),
    DXGKIT_ANSWERED(KMTQAITYPE_MPOKERNELCAPS_SUPPORT, D3DKMT_MPOKERNELCAPS_SUPPORT,
                    overlay_kernel_caps),
    DXGKIT_ANSWERED(KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT,
                    D3DKMT_MULTIPLANEOVERLAY_STRETCH_SUPPORT, overlay_stretch),
    DXGKIT_ANSWERED(KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO,
                    D3DKMT_GET_DEVICE_VIDPN_OWNERSHIP_INFO, vidpn_ownership),
    AdapterInfoType{
        KMTQAITYPE_QUERYREGISTRY,
        {"KMTQAITYPE_QUERYREGISTRY", Support::kPartial, "values of the two keys; no file paths"},
        sizeof(D3DDDI_QUERYREGISTRY_INFO),
        true,
        answers::query_registry},
    DXGKIT_ANSWERED(KMTQAITYPE_KMD_DRIVER_VERSION, D3DKMT_KMD_DRIVER_VERSION, kmd_version),
    DXGKIT_UNANSWERED(KMTQAITYPE_BLOCKLIST_KERNEL, "no block list"),
    DXGKIT_UNANSWERED(KMTQAITYPE_BLOCKLIST_RUNTIME, "no block list"),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERGUID_RENDER, GUID, adapter_guid),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERADDRESS_RENDER, D3DKMT_ADAPTERADDRESS, address),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER, D3DKMT_ADAPTERREGISTRYINFO,
                    registry_info),
    DXGKIT_NO(KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER, BOOL,
              "no: a driver is never exchanged while it runs"),
    DXGKIT_ANSWERED(KMTQAITYPE_DRIVERVERSION_RENDER, D3DKMT_DRIVERVERSION, driver_version),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERTYPE_RENDER, D3DKMT_ADAPTERTYPE, adapter_type),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_1_2_CAPS_RENDER, D3DKMT_WDDM_1_2_CAPS, wddm_1_2),
    DXGKIT_PARTLY(KMTQAITYPE_WDDM_1_3_CAPS_RENDER, D3DKMT_WDDM_1_3_CAPS, wddm_1_3,
                  "no Miracast, no P-states"),
    DXGKIT_ANSWERED(KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID, D3DKMT_QUERY_ADAPTER_UNIQUE_GUID,
                    unique_guid),
    DXGKIT_ANSWERED(KMTQAITYPE_NODEPERFDATA, D3DKMT_NODE_PERFDATA, node_performance),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERPERFDATA, D3DKMT_ADAPTER_PERFDATA, adapter_performance),
    DXGKIT_ANSWERED(KMTQAITYPE_ADAPTERPERFDATA_CAPS, D3DKMT_ADAPTER_PERFDATACAPS,
                    adapter_performance_caps),
    DXGKIT_ANSWERED(KMTQUITYPE_GPUVERSION, D3DKMT_GPUVERSION, gpu_version),
    DXGKIT_ANSWERED(KMTQAITYPE_DRIVER_DESCRIPTION, D3DKMT_DRIVER_DESCRIPTION, description),
    DXGKIT_ANSWERED(KMTQAITYPE_DRIVER_DESCRIPTION_RENDER, D3DKMT_DRIVER_DESCRIPTION, description),
    DXGKIT_UNANSWERED(KMTQAITYPE_SCANOUT_CAPS, "the driver is not asked"),
    DXGKIT_NO(KMTQAITYPE_PARAVIRTUALIZATION_RENDER, D3DKMT_PARAVIRTUALIZATION,
              "no: no virtual machines"),
    DXGKIT_UNANSWERED(KMTQAITYPE_SERVICENAME, "its structure is not documented"),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_2_7_CAPS, D3DKMT_WDDM_2_7_CAPS, wddm_2_7),
    DXGKIT_UNANSWERED(KMTQAITYPE_DISPLAY_UMDRIVERNAME, "no indirect displays"),
    DXGKIT_ANSWERED(KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT, D3DKMT_TRACKEDWORKLOAD_SUPPORT,
                    tracked_workload),
    DXGKIT_NO(KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT, D3DKMT_HYBRID_DLIST_DLL_SUPPORT,
              "no: no hybrid systems"),
    DXGKIT_PARTLY(KMTQAITYPE_DISPLAY_CAPS, D3DKMT_DISPLAY_CAPS, display_caps,
                  "PreferPhysicallyContiguous is never set"),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_2_9_CAPS, D3DKMT_WDDM_2_9_CAPS, wddm_2_9),
    DXGKIT_ANSWERED(KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT, D3DKMT_CROSSADAPTERRESOURCE_SUPPORT,
                    cross_adapter),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_3_0_CAPS, D3DKMT_WDDM_3_0_CAPS, wddm_3_0),
    DXGKIT_UNANSWERED(KMTQAITYPE_WSAUMDIMAGENAME, "no subsystem for Android"),
    DXGKIT_UNANSWERED(KMTQAITYPE_VGPUINTERFACEID, "no virtual machines"),
    DXGKIT_ANSWERED(KMTQAITYPE_WDDM_3_1_CAPS, D3DKMT_WDDM_3_1_CAPS, wddm_3_1),
    DXGKIT_UNANSWERED(KMTQAITYPE_HYBRID_DLIST_DLL_MUX_SUPPORT, "its structure is not documented"),
});

}  // namespace

std::span<const AdapterInfoType> adapter_info_types() { return kTypes; }

std::span<const ThunkSupport> adapter_info_support() {
  static const std::vector<ThunkSupport> table = [] {
    std::vector<ThunkSupport> rows = {
        {"KMTQAITYPE_UMDRIVERPRIVATE", Support::kSupported, "asked of the driver"}};
    for (const AdapterInfoType& type : kTypes) rows.push_back(type.support);
    return rows;
  }();
  return table;
}

}  // namespace dxgkit::thunks
