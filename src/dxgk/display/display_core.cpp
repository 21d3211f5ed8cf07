#include "dxgk/display/display_core.h"

#include <fmt/format.h>

namespace dxgkit::dxgk {

DisplayCore::DisplayCore(PowerFloor& floor, uint32_t sources)
    : floor_(floor),
      core_(floor.core),
      display_only_(floor.core.display_only()),
      source_count_(sources) {}

Status DisplayCore::failed_call(const char* ddi, Status status) {
  if (status == Status::kDeviceRemoved || !core_.running_or_starting()) return status;
  const bool no_memory = status == Status::kNoMemory || status == Status::kInsufficientResources;
  if (no_memory && core_.options().may_fail_to_start) return status;
  const std::string_view name = status_name(status);
  core_.findings().report(verifier::Finding{
      .rule = "DOD-03",
      .severity = verifier::Severity::kViolation,
      .ddi = ddi,
      .actual = name.empty() ? fmt::format("It answered 0x{:08X}.", static_cast<uint32_t>(status))
                             : fmt::format("It answered {}.", name),
      .expected = "Success for what the driver itself offered: its sources, targets and modes.",
      .fix = "Find out which path of this DDI ends with that status; a mode that cannot be set is "
             "not to be offered by DxgkDdiEnumVidPnCofuncModality.",
      .windows = "The mode is not set, and the display stays black or shows what it showed; the "
                 "adapter goes on without a message.",
      .confidence = verifier::Confidence::kInferred});
  return status;
}

}  // namespace dxgkit::dxgk
