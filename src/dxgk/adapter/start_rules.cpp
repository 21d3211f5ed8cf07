#include "dxgk/adapter/start_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>
#include <utility>

#include "base/arithmetic.h"
#include "base/interface_versions.h"
#include "dxgk/adapter/segment_rules.h"
#include "port/ddi/caps_values.h"
#include "port/ddi/display_caps.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kMaxNodes = 64;  // DXGK_MAX_ASYMETRICAL_PROCESSING_NODES
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

Status StartRules::refuse(const char* rule, const char* ddi, std::string actual,
                          std::string expected, std::string fix) {
  core_.findings().report(verifier::Finding{.rule = rule,
                                            .severity = verifier::Severity::kStartFail,
                                            .ddi = ddi,
                                            .actual = std::move(actual),
                                            .expected = std::move(expected),
                                            .fix = std::move(fix)});
  return Status::kDeviceConfigurationError;  // one constant for every refusal (G-19)
}

void StartRules::explain_failure(const char* ddi, Status status) {
  if (core_.options().may_fail_to_start) return;
  for (const verifier::Finding& finding : core_.findings().all()) {
    const bool stops = finding.severity == verifier::Severity::kStartFail ||
                       finding.severity == verifier::Severity::kBugCheck;
    if (stops) return;  // the reason is told already
  }
  const std::string_view name = status_name(status);
  const std::string answer =
      name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status)) : std::string(name);
  if (std::string_view(ddi) == kStartOfPaging) {
    static_cast<void>(refuse(
        "LIFE-12", "DxgkDdiQueryAdapterInfo", fmt::format("Paging could not start: {}.", answer),
        "The segments and the address space have room for the kernel's paging buffers, and for its "
        "page tables and windows if the driver has page tables.",
        "Look at the answers to QUERYSEGMENT and GPUMMUCAPS: the segments of paging buffers and "
        "page tables, their sizes, and VirtualAddressBitCount."));
    return;
  }
  std::string collected;
  if (collected_.has_value()) {
    collected = fmt::format(" It collected {} bytes for \"{}\": {}", collected_->data.size(),
                            collected_->bucket, collected_->description);
  }
  const char* rule = "LIFE-12";
  if (std::string_view(ddi) == "DxgkDdiAddDevice") rule = "LIFE-07";
  if (std::string_view(ddi) == "DxgkDdiStartDevice") rule = "LIFE-11";
  static_cast<void>(refuse(
      rule, ddi, fmt::format("It answered {}.{}", answer, collected),
      "Success: an adapter whose driver fails a step of its start is stopped and removed.",
      "Find out why the driver refused this step; its own failure paths end with this status."));
}

Status StartRules::check_addressing() {
  const uint64_t last_page = core_.machine().highest_system_address().value;
  if (core_.caps().highest_acceptable_address == 0) {
    core_.findings().report(verifier::Finding{
        .rule = "LIFE-14",
        .severity = verifier::Severity::kViolation,
        .ddi = kCapsQuery,
        .actual = "HighestAcceptableAddress is 0.",
        .expected = fmt::format("It covers all installed memory, which ends at 0x{:X}.", last_page),
        .fix = "Report the highest address the device can reach: -1 if it reaches all.",
        .why = "Taken at its word the device reaches no page of system memory. Here it is taken as "
               "if nothing was said."});
  }
  if (core_.caps().highest_acceptable_address != 0 &&
      core_.caps().highest_acceptable_address < last_page) {
    return refuse(
        "LIFE-14", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        fmt::format("HighestAcceptableAddress is 0x{:X}.", core_.caps().highest_acceptable_address),
        fmt::format("It covers all installed memory, which ends at 0x{:X}.", last_page),
        fmt::format("Report the highest address the device can reach (at least {} bits), or "
                    "support remapping.",
                    std::bit_width(last_page)));
  }
  return Status::kSuccess;
}

Status StartRules::check_caps() {
  if (core_.caps().node_count == 0 || core_.caps().node_count > kMaxNodes) {
    return refuse(
        "SCHED-03", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        fmt::format("GpuEngineTopology.NbAsymetricProcessingNodes is {}.", core_.caps().node_count),
        fmt::format("1 to {} nodes.", kMaxNodes),
        "Report the number of nodes the scheduler may submit to.");
  }
  if (!core_.caps().multi_engine_aware) {  // SCHED-02: one node, PagingNode ignored
    core_.learn().caps.node_count = 1;
    core_.learn().caps.paging_node = 0;
  }
  if (core_.caps().paging_node >= core_.caps().node_count) {
    return refuse("SCHED-03", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                  fmt::format("MemoryManagementCaps.PagingNode is {}, there are {} nodes.",
                              core_.caps().paging_node, core_.caps().node_count),
                  "The paging node is one of the nodes.",
                  "Name a node below NbAsymetricProcessingNodes.");
  }
  if (core_.caps().preemption_aware && !core_.caps().multi_engine_aware) {
    return refuse("PREEMPT-01", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                  "SchedulingCaps.PreemptionAware is set, MultiEngineAware is not.",
                  "PreemptionAware needs MultiEngineAware.",
                  "Set MultiEngineAware (and implement contexts), or clear PreemptionAware.");
  }
  if (core_.caps().cancel_command_aware && !core_.caps().multi_engine_aware) {
    return refuse("CANCEL-02", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
                  "SchedulingCaps.CancelCommandAware is set, MultiEngineAware is not.",
                  "CancelCommandAware needs MultiEngineAware.",
                  "Set MultiEngineAware (and implement contexts), or clear CancelCommandAware.");
  }
  if (core_.caps().no_dma_patching &&
      !(core_.caps().preemption_aware && core_.caps().multi_engine_aware)) {
    return refuse(
        "PREEMPT-01", "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        "SchedulingCaps.NoDmaPatching is set without PreemptionAware and MultiEngineAware.",
        "NoDmaPatching needs both.", "Set both bits, or clear NoDmaPatching.");
  }
  if (core_.interface_version() >= kInterfaceWin8 && core_.interface_version() < kInterfaceWddm20) {
    const port::FlipCaps flips = port::flip_caps_of(core_.caps(), core_.interface_version());
    // A granularity of NONE is a value of its own: the driver cannot preempt. What it says of the
    // scheduler must agree.
    if (!flips.reports_preemption && core_.caps().preemption_aware) {
      core_.findings().report(
          {.rule = "PREEMPT-02",
           .severity = verifier::Severity::kWarning,
           .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
           .actual = "SchedulingCaps.PreemptionAware is set, and PreemptionCaps leaves a "
                     "granularity at 0 (NONE).",
           .expected = "A driver that answers DxgkDdiPreemptCommand says how finely graphics and "
                       "compute work can be preempted.",
           .fix = "Set GraphicsPreemptionGranularity and ComputePreemptionGranularity, at least to "
                  "the DMA buffer boundary, or clear PreemptionAware.",
           .confidence = verifier::Confidence::kInferred});
    }
    if (core_.facts().start.video_present_sources != 0 && !flips.on_vsync_mmio) {
      core_.findings().report(
          {.rule = "PREEMPT-02",
           .severity = verifier::Severity::kWarning,
           .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
           .actual = "FlipCaps.FlipOnVSyncMmIo is clear on an adapter with displays.",
           .expected = "From WDDM 1.2 on flips go through "
                       "DxgkDdiSetVidPnSourceAddress, as preemption happens with "
                       "flips pending.",
           .fix = "Set FlipOnVSyncMmIo and program the address there.",
           .windows = "Windows may refuse the driver."});
    }
  }
  if (core_.interface_version() >= kInterfaceWin8) check_preemption();
  report_odd_values();
  DXGKIT_RETURN_IF_FAILED(check_version_features());
  DXGKIT_RETURN_IF_FAILED(check_caps_entries());
  check_software_key();
  return check_addressing();
}

void StartRules::check_preemption() {
  const port::FlipCaps flips = port::flip_caps_of(core_.caps(), core_.interface_version());
  if (core_.caps().preemption_aware || !flips.reports_preemption) return;
  core_.findings().report(
      {.rule = "PREEMPT-19",
       .severity = verifier::Severity::kViolation,
       .ddi = kCapsQuery,
       .actual = "PreemptionCaps say how finely work is preempted, and "
                 "SchedulingCaps.PreemptionAware is clear.",
       .expected = "Since WDDM 1.2 a driver that renders supports preemption: it sets "
                   "PreemptionAware.",
       .fix =
           "Set SchedulingCaps.PreemptionAware and MultiEngineAware. A driver that cannot preempt "
           "leaves both granularities at NONE.",
       .why = "The kernel never calls DxgkDdiPreemptCommand. Work of high priority waits until all "
              "that is queued has run.",
       .windows = "Windows keeps to the rules of Windows 7 for this driver. Its logo tests ask for "
                  "preemption.",
       .confidence = verifier::Confidence::kInferred});
}

Status StartRules::check_version_features() {
  const uint32_t declared = core_.caps().wddm_version;
  if (declared == 0 && core_.interface_version() >= kInterfaceWin8) {
    core_.findings().report(
        {.rule = "CAPS-11",
         .severity = verifier::Severity::kViolation,
         .ddi = kCapsQuery,
         .actual =
             fmt::format("WDDMVersion is 0, and the driver declared interface version 0x{:X}.",
                         core_.interface_version()),
         .expected = "WDDMVersion holds a value of DXGK_WDDMVERSION.",
         .fix = "Set it to the constant of the version that the driver is written for.",
         .why = "The kernel takes the driver for one of WDDM 1.0 and chooses older paths."});
  }
  // The page knows WDDM 1.2 drivers and those of before; of later versions nothing is said.
  if (declared == 0 || declared > kModelWddm12) return Status::kSuccess;
  const bool older = declared < kModelWddm12;
  std::string wrong;
  for (const port::FeatureCap& feature :
       port::features_of_wddm12(core_.caps(), core_.interface_version())) {
    const bool asked = !feature.of_display || core_.facts().start.video_present_sources != 0;
    // PREEMPT-02 says more about this one.
    const bool missing =
        !older && !feature.set && asked && std::string_view(feature.name) != "PreemptionCaps";
    const bool early = older && feature.set && feature.is_new;
    if (missing || early) wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", feature.name);
  }
  if (wrong.empty()) return Status::kSuccess;
  core_.findings().report(verifier::Finding{
      .rule = "LIFE-13",
      .severity = verifier::Severity::kStartFail,
      .ddi = kCapsQuery,
      .actual = older
                    ? fmt::format("WDDMVersion is 0x{:X}, and features of WDDM 1.2 are set: {}.",
                                  declared, wrong)
                    : fmt::format("WDDMVersion is 0x{:X}, and mandatory features are not set: {}.",
                                  declared, wrong),
      .expected =
          "A driver that calls itself WDDM 1.2 sets all mandatory features of that version; "
          "one that does not sets none of them.",
      .fix = older ? "Declare DXGKDDI_WDDMv1_2 in WDDMVersion, or leave these members 0."
                   : "Implement the features and set the members, or declare the WDDM version the "
                     "driver is of.",
      .why =
          "The kernel takes the version at its word: it chooses paths by it, and asks no further.",
      .windows = "The adapter is not created, and the basic display driver takes its place."});
  return Status::kDeviceConfigurationError;  // G-19
}

Status StartRules::check_host_apertures(const char** step) {
  for (size_t i = 0; i < core_.segment_infos().segments.size(); ++i) {
    const port::SegmentInfo& segment = core_.segment_infos().segments[i];
    if (segment.host_aperture_pages == 0) continue;
    const SegmentId id{static_cast<uint32_t>(i + 1)};
    std::vector<port::MemoryRange> ranges = segment.invalid_ranges;  // as told, of whole pages
    std::ranges::sort(ranges, {}, &port::MemoryRange::offset);
    uint64_t page = 0;  // the first that may be used (SEG-45)
    for (const port::MemoryRange& bad : ranges) {
      if (page * kPageBytes >= bad.offset)
        page = std::max(page, (bad.offset + bad.size) / kPageBytes);
    }
    const std::array<uint32_t, 1> shown{0};
    const std::array<uint64_t, 1> memory{page};
    const auto refuse = [&](const char* ddi, uint32_t parameter, Status status) {
      *step = ddi;
      if (status == Status::kDeviceRemoved) return status;
      core_.fail(
          {.rule = "LIFE-15",
           .severity = verifier::Severity::kBugCheck,
           .ddi = ddi,
           .actual =
               status == Status::kNotSupported && !core_.port().has_entry(ddi)
                   ? fmt::format("The entry is NULL; segment {} has a CPU host aperture of {} "
                                 "pages.",
                                 id.value, segment.host_aperture_pages)
                   : fmt::format("It answered 0x{:08X} for page {} of segment {}, right after the "
                                 "segments were described.",
                                 static_cast<uint32_t>(to_ntstatus(status)), page, id.value),
           .expected = "From the description of the segments on both entries work: the kernel "
                       "reaches page tables through the aperture before anything else runs.",
           .fix = "Set up the tables behind the aperture in DxgkDdiStartDevice, without an "
                  "allocation (hAllocation is NULL), or clear SupportsCpuHostAperture.",
           .bugcheck_code = 0x10E,
           .bugcheck_parameter = parameter});
      return is_success(status) ? Status::kUnsuccessful : status;
    };
    if (const Status status =
            core_.port().cpu_access().map_cpu_host_aperture(nullptr, id, shown, memory);
        status != Status::kSuccess)
      return refuse("DxgkDdiMapCpuHostAperture", 0x2D, status);
    if (const Status status = core_.port().cpu_access().unmap_cpu_host_aperture(id, shown);
        status != Status::kSuccess)
      return refuse("DxgkDdiUnmapCpuHostAperture", 0x2E, status);
  }
  return Status::kSuccess;
}

Status StartRules::check_segments(std::vector<vidmm::SegmentDesc>* segments) {
  SegmentSurroundings around;
  // A type-4 query has no AGP members: nothing was told (SEG-10).
  if (core_.interface_version() < kInterfaceWddm20)
    around.agp = core_.machine().agp_aperture(core_.function());
  for (const bus::Bar& bar : core_.function().bars()) {
    if (bar.kind == bus::BarKind::kMemory)
      around.largest_memory_bar_bytes = std::max(around.largest_memory_bar_bytes, bar.size);
  }
  std::optional<SegmentRefusal> refusal =
      check_segment_rules(core_.segment_infos(), core_.caps(), core_.interface_version(), around,
                          core_.findings(), segments);
  if (!refusal.has_value()) return Status::kSuccess;
  core_.findings().report(verifier::Finding{
      .rule = refusal->rule,
      .severity = verifier::Severity::kStartFail,
      .ddi = "DxgkDdiQueryAdapterInfo(QUERYSEGMENT)",
      .actual = std::move(refusal->actual),
      .expected = std::move(refusal->expected),
      .fix = std::move(refusal->fix),
      .why = why_segments_break(refusal->rule),
      .windows = "The device does not start (Code 43): DxgkDdiStopDevice and "
                 "DxgkDdiRemoveDevice follow. Which descriptions it refuses is not documented one "
                 "by one."});
  return Status::kDeviceConfigurationError;  // G-19
}

Status StartRules::check_gpu_va_model(std::optional<GpuVaModel>* model_out) {
  const char* ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";
  std::optional<GpuVaRefusal> refusal = check_addressing_model(core_.caps());
  if (!refusal.has_value() && !core_.caps().gpu_mmu_supported) return Status::kSuccess;
  if (!refusal.has_value()) {
    GpuVaModel model;
    DXGKIT_ASSIGN_OR_RETURN_STATUS(model.caps, core_.port().gpu_va().query_gpu_mmu());
    DXGKIT_RETURN_IF_FAILED(check_gpu_va_entries(model.caps));
    ddi = "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)";
    refusal = check_gpu_mmu(model.caps, core_.segment_infos(), &model.geometry);
    if (!refusal.has_value()) {
      *model_out = std::move(model);
      core_.learn().virtual_addresses = true;
      return Status::kSuccess;
    }
  }
  core_.findings().report(verifier::Finding{.rule = refusal->rule,
                                            .severity = verifier::Severity::kStartFail,
                                            .ddi = ddi,
                                            .actual = std::move(refusal->actual),
                                            .expected = std::move(refusal->expected),
                                            .fix = std::move(refusal->fix),
                                            .why = std::move(refusal->why)});
  return refusal->status;
}

void StartRules::check_advising_entries() {
  constexpr std::array kNames = {"DxgkDdiQueryDeviceDescriptor", "DxgkDdiRecommendMonitorModes",
                                 "DxgkDdiRecommendFunctionalVidPn",
                                 "DxgkDdiUpdateActiveVidPnPresentPath",
                                 "DxgkDdiQueryVidPnHWCapability"};  // the last since WDDM 1.1
  const size_t known =
      core_.interface_version() < kInterfaceWin7 ? kNames.size() - 1 : kNames.size();
  const std::string missing = missing_entries(core_.port(), std::span(kNames).first(known));
  if (missing.empty()) return;
  core_.findings().report(
      {.rule = "CAPS-15",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiStartDevice",
       .actual = fmt::format("NumberOfVideoPresentSources is {}, and these entries are null: {}.",
                             core_.facts().start.video_present_sources, missing),
       .expected = "A driver with video present sources has the entries by which mode management "
                   "asks it for advice. No page calls them optional.",
       .fix = "Fill them in the initialization data. A driver that has nothing to add answers with "
              "the status that the entry has for it, or changes nothing and succeeds.",
       .why = "Here they are not called. Nobody knows what Windows does without them.",
       .confidence = verifier::Confidence::kInferred});
}

Status StartRules::check_display_entries() {
  if (core_.display_only()) {  // DxgkInitializeDisplayOnlyDriver has seen to the others
    check_advising_entries();
    return Status::kSuccess;
  }
  const std::string missing = missing_entries(
      core_.port(),
      std::array{"DxgkDdiQueryChildRelations", "DxgkDdiQueryChildStatus", "DxgkDdiIsSupportedVidPn",
                 "DxgkDdiEnumVidPnCofuncModality", "DxgkDdiCommitVidPn",
                 "DxgkDdiSetVidPnSourceVisibility", "DxgkDdiSetVidPnSourceAddress",
                 "DxgkDdiGetStandardAllocationDriverData"});
  if (missing.empty()) {
    check_advising_entries();
    return Status::kSuccess;
  }
  return refuse(
      "CAPS-04", "DxgkDdiStartDevice",
      fmt::format("NumberOfVideoPresentSources is {}, and these entries are null: {}.",
                  core_.facts().start.video_present_sources, missing),
      "A driver with video present sources has the entries of mode management.",
      "Fill them in DRIVER_INITIALIZATION_DATA, or report 0 sources for a render-only adapter.");
}

Status StartRules::check_display_only_caps() {
  report_odd_values();
  const port::DisplayCaps caps = port::display_caps_of(core_.caps(), core_.interface_version());
  if (core_.caps().wddm_version < kModelWddm12) {
    core_.findings().report(verifier::Finding{
        .rule = "CAPS-02",
        .severity = verifier::Severity::kStartFail,
        .ddi = kCapsQuery,
        .actual = fmt::format("WDDMVersion is 0x{:X}, SupportNonVGA {}, SupportSmoothRotation {}.",
                              core_.caps().wddm_version, caps.support_non_vga ? 1 : 0,
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
    core_.findings().report(verifier::Finding{
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
      core_.port(), std::array{"DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
                               "DxgkDdiSystemDisplayEnable", "DxgkDdiSystemDisplayWrite"});
  if (!missing.empty()) {
    core_.findings().report(verifier::Finding{
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

void StartRules::check_promised_entries() {
  const port::AdapterPort& port = core_.port();
  const port::DriverCaps& caps = core_.caps();
  const uint32_t version = core_.interface_version();
  const port::DisplayCaps display = port::display_caps_of(caps, version);
  const bool shows = core_.facts().start.video_present_sources != 0;
  const bool saves_power = shows && port::flip_caps_of(caps, version).vsync_power_save_aware;
  const bool controls =
      port.has_entry("DxgkDdiControlInterrupt2") || port.has_entry("DxgkDdiControlInterrupt3");
  struct Promise {
    const char* cap;
    bool made;
    const char* entry;
  };
  const bool has_pointer = shows && display.max_pointer_width != 0;
  for (const Promise& one : {
           Promise{"CancelCommandAware", caps.cancel_command_aware, "DxgkDdiCancelCommand"},
           Promise{"SupportRuntimePowerManagement", caps.support_runtime_power_management,
                   "DxgkDdiSetPowerComponentFState"},
           Promise{"SupportSurpriseRemoval", caps.support_surprise_removal,
                   "DxgkDdiNotifySurpriseRemoval"},
           Promise{"SupportSurpriseRemovalInHibernation",
                   caps.support_surprise_removal_in_hibernation, "DxgkDdiNotifySurpriseRemoval"},
           Promise{"VSyncPowerSaveAware", saves_power && !controls, "DxgkDdiControlInterrupt"},
           Promise{"MaxPointerWidth", has_pointer, "DxgkDdiSetPointerPosition"},
           Promise{"MaxPointerWidth", has_pointer, "DxgkDdiSetPointerShape"},
       }) {
    if (!one.made || port.has_entry(one.entry)) continue;
    core_.findings().report(verifier::Finding{
        .rule = "CAPS-04",
        .severity = verifier::Severity::kViolation,
        .ddi = kCapsQuery,
        .actual = fmt::format("{} is set, and {} is null.", one.cap, one.entry),
        .expected = "The cap says that the driver has the entry.",
        .fix =
            fmt::format("Fill {} in the initialization data, or leave {} 0.", one.entry, one.cap),
        .confidence = verifier::Confidence::kInferred});
  }
}

void StartRules::report_odd_values() {
  for (const port::OddValue& odd : port::odd_values_of(core_.caps(), core_.interface_version())) {
    core_.findings().report(verifier::Finding{
        .rule = "CAPS-11",
        .severity = verifier::Severity::kViolation,
        .ddi = kCapsQuery,
        .actual = fmt::format("{} is 0x{:X}.", odd.member, odd.value),
        .expected = fmt::format("A value of {}.", odd.enumeration),
        .fix = odd.fix,
        .why = "The kernel compares such a value with the constants, and may take it for an older "
               "or a coarser one."});
  }
}

Status StartRules::check_caps_entries() {
  check_promised_entries();
  if (!core_.caps().support_per_engine_tdr) return Status::kSuccess;
  const std::string missing =
      missing_entries(core_.port(), std::array{"DxgkDdiQueryDependentEngineGroup",
                                               "DxgkDdiQueryEngineStatus", "DxgkDdiResetEngine"});
  if (missing.empty()) return Status::kSuccess;
  core_.findings().report(verifier::Finding{
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

Status StartRules::check_gpu_va_entries(const port::GpuMmuCaps& caps) {
  std::vector<const char*> needed = {"DxgkDdiCreateProcess", "DxgkDdiDestroyProcess",
                                     "DxgkDdiSetRootPageTable", "DxgkDdiSubmitCommandVirtual"};
  if (caps.level_count == 2) needed.push_back("DxgkDdiGetRootPageTableSize");  // VA-05
  const std::string missing = missing_entries(core_.port(), needed);
  if (missing.empty()) return Status::kSuccess;
  return refuse(
      "CAPS-04", kCapsQuery,
      fmt::format("GpuMmuSupported is 1, PageTableLevelCount {}, and these entries are null: {}.",
                  caps.level_count, missing),
      "A driver with GPU virtual addresses has the entries of processes, root page tables and "
      "virtual submission; with two levels the size of the root too.",
      "Fill them in DRIVER_INITIALIZATION_DATA, or clear GpuMmuSupported.");
}

void StartRules::check_software_key() {
  const auto& registry = core_.kernel().config().registry;
  const auto key = registry.find(nt::KernelConfig::kDeviceKey);
  // Who gave no software key does not test its content.
  if (key == registry.end() || key->second.empty()) return;
  if (port::display_caps_of(core_.caps(), core_.interface_version()).compute_only) return;
  const bool named = std::ranges::any_of(key->second, [](const auto& value) {
    return std::ranges::equal(value.first, std::string_view(kUserModeDriver),
                              [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  });
  if (named) return;
  core_.findings().report(verifier::Finding{
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
