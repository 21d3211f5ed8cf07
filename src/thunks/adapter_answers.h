// The answers of D3DKMTQueryAdapterInfo, a function for each structure. Every one of them fills
// `out`, whose inputs are the client's, and may leave it half done on failure.
#pragma once

#include <d3dkmthk.h>

#include <span>

#include "thunks/adapter_info.h"

namespace dxgkit::thunks::answers {

// --- from the driver's capabilities
Status adapter_type(const AdapterQuestion& question, D3DKMT_ADAPTERTYPE& out);
Status driver_version(const AdapterQuestion& question, D3DKMT_DRIVERVERSION& out);
Status virtual_address(const AdapterQuestion& question, D3DKMT_VIRTUALADDRESSINFO& out);
Status flip_queue(const AdapterQuestion& question, D3DKMT_FLIPQUEUEINFO& out);
Status wddm_1_2(const AdapterQuestion& question, D3DKMT_WDDM_1_2_CAPS& out);
Status wddm_1_3(const AdapterQuestion& question, D3DKMT_WDDM_1_3_CAPS& out);
Status wddm_2_0(const AdapterQuestion& question, D3DKMT_WDDM_2_0_CAPS& out);
Status wddm_2_7(const AdapterQuestion& question, D3DKMT_WDDM_2_7_CAPS& out);
Status wddm_2_9(const AdapterQuestion& question, D3DKMT_WDDM_2_9_CAPS& out);
Status wddm_3_0(const AdapterQuestion& question, D3DKMT_WDDM_3_0_CAPS& out);
Status wddm_3_1(const AdapterQuestion& question, D3DKMT_WDDM_3_1_CAPS& out);
Status driver_caps_ext(const AdapterQuestion& question, D3DKMT_DRIVERCAPS_EXT& out);
Status display_caps(const AdapterQuestion& question, D3DKMT_DISPLAY_CAPS& out);
Status cross_adapter(const AdapterQuestion& question, D3DKMT_CROSSADAPTERRESOURCE_SUPPORT& out);
Status gpu_mmu(const AdapterQuestion& question, D3DKMT_QUERY_GPUMMU_CAPS& out);
Status node_metadata(const AdapterQuestion& question, D3DKMT_NODEMETADATA& out);

// --- asked of the driver
Status node_performance(const AdapterQuestion& question, D3DKMT_NODE_PERFDATA& out);
Status adapter_performance(const AdapterQuestion& question, D3DKMT_ADAPTER_PERFDATA& out);
Status adapter_performance_caps(const AdapterQuestion& question, D3DKMT_ADAPTER_PERFDATACAPS& out);
Status gpu_version(const AdapterQuestion& question, D3DKMT_GPUVERSION& out);

// --- memory
Status segment_size(const AdapterQuestion& question, D3DKMT_SEGMENTSIZEINFO& out);
Status segment_group_size(const AdapterQuestion& question, D3DKMT_SEGMENTGROUPSIZEINFO& out);

// --- who the adapter is
Status adapter_guid(const AdapterQuestion& question, GUID& out);
Status unique_guid(const AdapterQuestion& question, D3DKMT_QUERY_ADAPTER_UNIQUE_GUID& out);
Status address(const AdapterQuestion& question, D3DKMT_ADAPTERADDRESS& out);
Status physical_count(const AdapterQuestion& question, D3DKMT_PHYSICAL_ADAPTER_COUNT& out);
Status device_ids(const AdapterQuestion& question, D3DKMT_QUERY_DEVICE_IDS& out);

// --- from the registry
Status umd_name(const AdapterQuestion& question, D3DKMT_UMDFILENAMEINFO& out);
Status opengl(const AdapterQuestion& question, D3DKMT_OPENGLINFO& out);
Status registry_info(const AdapterQuestion& question, D3DKMT_ADAPTERREGISTRYINFO& out);
Status umd_version(const AdapterQuestion& question, D3DKMT_UMD_DRIVER_VERSION& out);
Status kmd_version(const AdapterQuestion& question, D3DKMT_KMD_DRIVER_VERSION& out);
Status description(const AdapterQuestion& question, D3DKMT_DRIVER_DESCRIPTION& out);
Status query_registry(const AdapterQuestion& question, std::span<std::byte> data);

// --- displays
Status current_mode(const AdapterQuestion& question, D3DKMT_CURRENTDISPLAYMODE& out);
Status duplications(const AdapterQuestion& question, D3DKMT_OUTPUTDUPLCONTEXTSCOUNT& out);
Status overlay_planes(const AdapterQuestion& question, D3DKMT_MULTIPLANEOVERLAY_SUPPORT& out);
Status overlay_planes3(const AdapterQuestion& question, D3DKMT_MPO3DDI_SUPPORT& out);
Status overlay_kernel_caps(const AdapterQuestion& question, D3DKMT_MPOKERNELCAPS_SUPPORT& out);
Status overlay_hud(const AdapterQuestion& question, D3DKMT_MULTIPLANEOVERLAY_HUD_SUPPORT& out);
Status overlay_stretch(const AdapterQuestion& question,
                       D3DKMT_MULTIPLANEOVERLAY_STRETCH_SUPPORT& out);
Status vidpn_ownership(const AdapterQuestion& question,
                       D3DKMT_GET_DEVICE_VIDPN_OWNERSHIP_INFO& out);
Status tracked_workload(const AdapterQuestion& question, D3DKMT_TRACKEDWORKLOAD_SUPPORT& out);

/// What this kernel never does: direct and independent flips, protected content,
/// driver updates under way. The whole structure is zeros, which say "no".
template <typename T>
Status no(const AdapterQuestion&, T& out) {
  out = {};
  return Status::kSuccess;
}

}  // namespace dxgkit::thunks::answers
