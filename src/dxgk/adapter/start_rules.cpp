// What a start asks of caps and entries beyond single values: features of a version, entries that
// have to work already.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "dxgk/adapter/adapter.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kWddm12 = 0x1200;  // DXGKDDI_WDDMv1_2
constexpr const char* kCapsQuery = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)";

}  // namespace

Status Adapter::check_version_features() {
  const uint32_t declared = caps_.wddm_version;
  // The page knows WDDM 1.2 drivers and those of before; of later versions nothing is said.
  if (declared == 0 || declared > kWddm12) return Status::kSuccess;
  const bool older = declared < kWddm12;
  std::string wrong;
  for (const port::FeatureCap& feature : port::features_of_wddm12(caps_, interface_version())) {
    const bool asked = !feature.of_display || video_present_sources() != 0;
    // PREEMPT-02 says more about this one.
    const bool missing =
        !older && !feature.set && asked && std::string_view(feature.name) != "PreemptionCaps";
    const bool early = older && feature.set && feature.is_new;
    if (missing || early) wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", feature.name);
  }
  if (wrong.empty()) return Status::kSuccess;
  findings_.report(verifier::Finding{
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

Status Adapter::check_host_apertures(const char** step) {
  for (size_t i = 0; i < segment_infos_.segments.size(); ++i) {
    const port::SegmentInfo& segment = segment_infos_.segments[i];
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
      fail({.rule = "LIFE-15",
            .severity = verifier::Severity::kBugCheck,
            .ddi = ddi,
            .actual =
                status == Status::kNotSupported && !port_->has_entry(ddi)
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
    if (const Status status = port_->cpu_access().map_cpu_host_aperture(nullptr, id, shown, memory);
        status != Status::kSuccess)
      return refuse("DxgkDdiMapCpuHostAperture", 0x2D, status);
    if (const Status status = port_->cpu_access().unmap_cpu_host_aperture(id, shown);
        status != Status::kSuccess)
      return refuse("DxgkDdiUnmapCpuHostAperture", 0x2E, status);
  }
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
