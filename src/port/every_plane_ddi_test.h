// The rows of every_ddi_test.h about overlay planes and settings of single outputs.
#pragma once

#include <vector>

namespace dxgkit::port::every_ddi {

inline std::vector<Row> plane_rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel;
  constexpr auto kDevice = PlanesPort::Where::kDeviceLevel;
  const auto set = [](World& w, PlanesPort::Where where) {
    PlaneAnswer answer;
    PlaneSettings settings;
    settings.source = 1;
    settings.planes.emplace_back();
    return status_of(port(w).planes().set(settings, where, &answer));
  };
  const auto check = [](World& w) {
    const PlaneCheck plane;
    return status_of(port(w).planes().check_support(std::span(&plane, 1), {}));
  };
  return {
      {"DxgkDdiCheckMultiPlaneOverlaySupport", kPassive, Level::kZero, check,
       DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiCheckMultiPlaneOverlaySupport2", kPassive, Level::kZero, check,
       DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiCheckMultiPlaneOverlaySupport3", kPassive, Level::kZero, check},
      {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", nt::kDeviceLevel, Level::kBeside,
       [set](World& w) { return set(w, kDevice); }, DXGKDDI_INTERFACE_VERSION_WDDM1_3},
      {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2", nt::kDeviceLevel, Level::kBeside,
       [set](World& w) { return set(w, kDevice); }, DXGKDDI_INTERFACE_VERSION_WDDM2_0},
      {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", nt::kDeviceLevel, Level::kBeside,
       [set](World& w) { return set(w, kDevice); }},
      {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", kPassive, Level::kTwo,
       [set](World& w) { return set(w, PlanesPort::Where::kPassiveLevel); }},
      {"DxgkDdiPostMultiPlaneOverlayPresent", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).planes().post_present(1, 2, 3)); }},
      {"DxgkDdiGetMultiPlaneOverlayCaps", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).planes().caps(1)); }},
      {"DxgkDdiGetPostCompositionCaps", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).planes().post_composition_caps(1)); }},
      {"DxgkDdiSetTimingsFromVidPn", kPassive, Level::kTwo,
       [](World& w) {
         TimingPath path{.target = 2};
         bool changes = false;
         return status_of(port(w).targets().set_timings(kSome, std::span(&path, 1), &changes));
       }},
      {"DxgkDdiSetTargetGamma", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).targets().set_gamma({.source = 1, .target = 2})); }},
      {"DxgkDdiSetTargetContentType", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).targets().set_content_type({.source = 1, .target = 2}));
       }},
      {"DxgkDdiSetTargetAnalogCopyProtection", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).targets().set_analog_copy_protection({.source = 1, .target = 2}));
       }},
      {"DxgkDdiUpdateMonitorLinkInfo", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).targets().update_monitor_link_info(2)); }},
      {"DxgkDdiDisplayDetectControl", kPassive, Level::kZero,
       [](World& w) {
         return status_of(port(w).targets().detect(TargetsPort::Detect::kPollAll, 0, true));
       }},
      {"DxgkDdiQueryConnectionChange", kPassive, Level::kZero,
       [](World& w) { return status_of(port(w).targets().next_connection_change()); }},
  };
}

}  // namespace dxgkit::port::every_ddi
