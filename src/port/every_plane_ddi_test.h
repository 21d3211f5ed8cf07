// The rows of every_ddi_test.h about overlay planes.
#pragma once

#include <vector>

namespace dxgkit::port::every_ddi {

inline std::vector<Row> plane_rows() {
  constexpr auto kDevice = PlanesPort::Where::kDeviceLevel;
  const auto set = [](World& w, PlanesPort::Where where) {
    PlaneAnswer answer;
    return status_of(
        port(w).planes().set({.source = 1, .planes = {PlaneSetting{}}}, where, &answer));
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
  };
}

}  // namespace dxgkit::port::every_ddi
