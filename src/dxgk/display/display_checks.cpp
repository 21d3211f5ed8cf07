// What caps, versions and entry points must agree on: CAPS.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/interface_versions.h"
#include "dxgk/adapter/adapter.h"

namespace dxgkit::dxgk {
namespace {

constexpr const char* kCapsQuery = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
constexpr const char* kUserModeDriver = "UserModeDriverName";

/// The names that are null, "A, B"; empty when the driver has them all.
std::string missing_entries(const port::AdapterPort& port, std::span<const char* const> names) {
  std::string missing;
  for (const char* name : names) {
    if (port.has_entry(name)) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  }
  return missing;
}

}  // namespace

Status Adapter::check_display_entries() {
  if (display_only()) return Status::kSuccess;  // DxgkInitializeDisplayOnlyDriver has seen to it
  const std::string missing = missing_entries(
      *port_, std::array{"DxgkDdiQueryChildRelations", "DxgkDdiQueryChildStatus",
                         "DxgkDdiIsSupportedVidPn", "DxgkDdiEnumVidPnCofuncModality",
                         "DxgkDdiCommitVidPn", "DxgkDdiSetVidPnSourceVisibility",
                         "DxgkDdiSetVidPnSourceAddress", "DxgkDdiGetStandardAllocationDriverData"});
  if (missing.empty()) return Status::kSuccess;
  return refuse_start(
      "CAPS-04", "DxgkDdiStartDevice",
      fmt::format("NumberOfVideoPresentSources is {}, and these entries are null: {}.",
                  start_info_.video_present_sources, missing),
      "A driver with video present sources has the entries of mode management.",
      "Fill them in DRIVER_INITIALIZATION_DATA, or report 0 sources for a render-only adapter.");
}

Status Adapter::check_display_only_caps() {
  const port::DisplayCaps caps = port::display_caps_of(caps_, interface_version());
  if (caps_.wddm_version < kModelWddm12) {
    findings_.report(verifier::Finding{
        .rule = "CAPS-02",
        .severity = verifier::Severity::kStartFail,
        .ddi = kCapsQuery,
        .actual = fmt::format("WDDMVersion is 0x{:X}, SupportNonVGA {}, SupportSmoothRotation {}.",
                              caps_.wddm_version, caps.support_non_vga ? 1 : 0,
                              caps.support_smooth_rotation ? 1 : 0),
        .expected = "A display-only driver reports DXGKDDI_WDDMv1_2 (0x1200) or later.",
        .fix = "Set pDriverCaps->WDDMVersion = DXGKDDI_WDDMv1_2, SupportNonVGA = TRUE and "
               "SupportSmoothRotation = TRUE, as the basic display driver does.",
        .why = "Display-only drivers exist since WDDM 1.2. Which of the three members a refusing "
               "build looks at first has not been isolated.",
        .windows = "Code 43: DRIVERCAPS succeeds, and no further DDI but StopDevice follows.",
        .confidence = verifier::Confidence::kMeasured});
    return Status::kDeviceConfigurationError;
  }
  if (!caps.support_non_vga || !caps.support_smooth_rotation) {
    findings_.report(verifier::Finding{
        .rule = "CAPS-06",
        .severity = verifier::Severity::kViolation,
        .ddi = kCapsQuery,
        .actual = fmt::format("SupportNonVGA is {}, SupportSmoothRotation is {}.",
                              caps.support_non_vga ? 1 : 0, caps.support_smooth_rotation ? 1 : 0),
        .expected = "A driver of WDDM 1.2 or later with a display sets both.",
        .fix = "Set both to TRUE in DXGK_DRIVERCAPS and provide the entries SupportNonVGA stands "
               "for.",
        .windows = "The driver may be refused, or the screen is lost when it stops.",
        .confidence = verifier::Confidence::kInferred});
  }
  if (!caps.support_non_vga) return Status::kSuccess;
  const std::string missing = missing_entries(
      *port_, std::array{"DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
                         "DxgkDdiSystemDisplayEnable", "DxgkDdiSystemDisplayWrite"});
  if (!missing.empty()) {
    findings_.report(verifier::Finding{
        .rule = "CAPS-05",
        .severity = verifier::Severity::kViolation,
        .ddi = kCapsQuery,
        .actual = fmt::format("SupportNonVGA is 1, and these entries are null: {}.", missing),
        .expected = "SupportNonVGA promises all three.",
        .fix = "Implement them: they keep the screen when the driver stops or the system crashes.",
        .windows = "No picture between this driver and the next, and none on a bug check."});
  }
  return Status::kSuccess;
}

Status Adapter::check_caps_entries() {
  if (!caps_.support_per_engine_tdr) return Status::kSuccess;
  const std::string missing =
      missing_entries(*port_, std::array{"DxgkDdiQueryDependentEngineGroup",
                                         "DxgkDdiQueryEngineStatus", "DxgkDdiResetEngine"});
  if (missing.empty()) return Status::kSuccess;
  findings_.report(verifier::Finding{
      .rule = "CAPS-04",
      .severity = verifier::Severity::kStartFail,
      .ddi = kCapsQuery,
      .actual = fmt::format("SupportPerEngineTDR is 1, and these entries are null: {}.", missing),
      .expected = "The cap promises QueryDependentEngineGroup, QueryEngineStatus and ResetEngine.",
      .fix = "Fill the entries in DRIVER_INITIALIZATION_DATA, or report SupportPerEngineTDR = "
             "FALSE.",
      .windows = "The start fails with 0xC000000D. Event 494: the driver reports the cap without "
                 "all of the required DDIs.",
      .confidence = verifier::Confidence::kEventText});
  return Status::kDeviceConfigurationError;
}

Status Adapter::check_gpu_va_entries(const port::GpuMmuCaps& caps) {
  std::vector<const char*> needed = {"DxgkDdiCreateProcess", "DxgkDdiDestroyProcess",
                                     "DxgkDdiSetRootPageTable", "DxgkDdiSubmitCommandVirtual"};
  if (caps.level_count == 2) needed.push_back("DxgkDdiGetRootPageTableSize");  // VA-05
  const std::string missing = missing_entries(*port_, needed);
  if (missing.empty()) return Status::kSuccess;
  return refuse_start(
      "CAPS-04", kCapsQuery,
      fmt::format("GpuMmuSupported is 1, PageTableLevelCount {}, and these entries are null: {}.",
                  caps.level_count, missing),
      "A driver with GPU virtual addresses has the entries of processes, root page tables and "
      "virtual submission; with two levels the size of the root too.",
      "Fill them in DRIVER_INITIALIZATION_DATA, or clear GpuMmuSupported.");
}

void Adapter::check_software_key() {
  const auto& registry = kernel_.config().registry;
  const auto key = registry.find(nt::KernelConfig::kDeviceKey);
  // Who gave no software key does not test its content.
  if (key == registry.end() || key->second.empty()) return;
  if (port::display_caps_of(caps_, interface_version()).compute_only) return;
  const bool named = std::ranges::any_of(key->second, [](const auto& value) {
    return std::ranges::equal(value.first, std::string_view(kUserModeDriver),
                              [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  });
  if (named) return;
  findings_.report(verifier::Finding{
      .rule = "CAPS-03",
      .severity = verifier::Severity::kWarning,
      .ddi = kCapsQuery,
      .actual = "The software key has no UserModeDriverName, and the adapter is not compute-only.",
      .expected = "The software key names the user-mode driver.",
      .fix = "Add UserModeDriverName to the INF's software section, or report ComputeOnly "
             "(WDDM 2.6).",
      .why = "The kernel looks it up right after DRIVERCAPS: it is not your caps.",
      .windows = "CM_PROB_FAILED_POST_START with status 0 and no event: the adapter object fails "
                 "with OBJECT_NAME_NOT_FOUND.",
      .confidence = verifier::Confidence::kInferred});
}

}  // namespace dxgkit::dxgk
