// A driver's view of the interfaces, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/known_run.h"
#include "verifier/findings.h"
#include "vidpn/marshal.h"
#include "vidpn/tables.h"
#include "vidpn/vidpn.h"

namespace dxgkit::vidpn {

inline constexpr uint32_t kTargetA = 0x100, kTargetB = 0x200;

inline Profile full_profile() {
  Profile profile;
  profile.kind = DriverKind::kFull;
  profile.interface_version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
  profile.source_count = 2;
  profile.targets = {kTargetA, kTargetB};
  return profile;
}

inline Profile display_only_profile() {
  Profile profile = full_profile();
  profile.kind = DriverKind::kDisplayOnly;
  profile.interface_version = DXGKDDI_INTERFACE_VERSION_WIN8;
  return profile;
}

/// A manager and what a driver calls on it. Statuses are ours, so that failures print names.
struct DriverSide {
  explicit DriverSide(Profile profile = full_profile())
      : manager({.profile = std::move(profile), .findings = &findings, .adapter_handle = this}) {}

  verifier::Findings findings;
  testing::KnownFindings known{findings};
  Manager manager;

  const DXGK_VIDPN_INTERFACE& vidpn(const DdiCall& call) {
    const void* table = nullptr;
    EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 1, &table), Status::kSuccess);
    return *static_cast<const DXGK_VIDPN_INTERFACE*>(table);
  }
  const DXGK_MONITOR_INTERFACE_V2& monitor() {
    const void* table = nullptr;
    EXPECT_EQ(Manager::query_monitor_interface(this, 2, &table), Status::kSuccess);
    return *static_cast<const DXGK_MONITOR_INTERFACE_V2*>(table);
  }
  static D3DKMDT_HVIDPN handle(const DdiCall& call) {
    return static_cast<D3DKMDT_HVIDPN>(call.vidpn());
  }
  std::string texts() const {
    std::string all;
    for (const verifier::Finding& finding : findings.all()) all += verifier::to_text(finding);
    return all;
  }
};

inline Network one_path(const Profile& profile) {
  const SourceTarget pair{0, kTargetA};
  return constraining_network(profile, std::span(&pair, 1));
}
inline Network clone_paths(const Profile& profile) {
  const SourceTarget pairs[] = {{0, kTargetA}, {0, kTargetB}};
  return constraining_network(profile, pairs);
}

/// A good full driver's description of 1920x1080 at 60 Hz.
inline SourceMode good_source_mode() {
  return {.type = D3DKMDT_RMT_GRAPHICS,
          .surface = {1920, 1080},
          .visible = {1920, 1080},
          .stride_bytes = 7680,
          .pixel_format = D3DDDIFMT_A8R8G8B8,
          .color_basis = D3DKMDT_CB_SCRGB,
          .access_mode = D3DKMDT_PVAM_DIRECT};
}
inline Signal good_signal() {
  return {.standard = D3DKMDT_VSS_OTHER,
          .total = {2200, 1125},
          .active = {1920, 1080},
          .vsync = {60, 1},
          .hsync = {67500, 1},
          .pixel_rate = 148'500'000,
          .scanline_ordering = D3DDDI_VSSLO_PROGRESSIVE};
}
inline Signal open_signal() {
  return {.standard = D3DKMDT_VSS_OTHER,
          .total = {1920, 1080},
          .active = {1920, 1080},
          .vsync = {kNotSpecified, kNotSpecified},
          .hsync = {kNotSpecified, kNotSpecified},
          .pixel_rate = kNotSpecified,
          .scanline_ordering = D3DDDI_VSSLO_PROGRESSIVE};
}
inline TargetMode good_target_mode() {
  return {.signal = good_signal(), .preference = D3DKMDT_MP_PREFERRED};
}
inline MonitorMode good_monitor_mode() {
  return {.signal = good_signal(), .origin = D3DKMDT_MCO_DRIVER};
}

inline Status as_status(NTSTATUS status) { return from_ntstatus(status); }

}  // namespace dxgkit::vidpn
