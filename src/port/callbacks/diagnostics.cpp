#include "port/callbacks/diagnostics.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "port/callbacks/callback_trace.h"
#include "port/diagnostic_types.h"

namespace dxgkit::port {
namespace {

constexpr const char* kReportDiagnostic = "DxgkCbReportDiagnostic";

/// What is wrong with a report, and the answer to it.
struct ReportFault {
  Status status;
  std::string actual, expected;
};

std::optional<ReportFault> judge_report(const PortCore& core,
                                        const DXGK_DIAGNOSTIC_HEADER& header) {
  const UINT category = header.Category.Value, type = header.Type.Value;
  if (category != static_cast<UINT>(DiagnosticCategory::kNotifications) &&
      category != static_cast<UINT>(DiagnosticCategory::kProgressions)) {
    return ReportFault{Status::kInvalidParameter, fmt::format("Category is 0x{:X}.", category),
                       "Exactly one bit of a category that exists."};
  }
  const uint32_t known = known_types(static_cast<DiagnosticCategory>(category));
  if (!std::has_single_bit(type) || (type & ~known) != 0) {
    return ReportFault{Status::kInvalidParameter,
                       fmt::format("Type is 0x{:X} in category {}.", type, category),
                       "Exactly one bit of a type of that category."};
  }
  const size_t least = category == static_cast<UINT>(DiagnosticCategory::kNotifications)
                           ? sizeof(DXGK_DIAGNOSTIC_PSR)
                           : sizeof(DXGK_DIAGNOSTIC_SYNCLOCK_ENABLESYNC);
  if (header.Size < least) {
    return ReportFault{Status::kBufferTooSmall, fmt::format("Size is {}.", UINT{header.Size}),
                       fmt::format("At least the {} bytes of the structure of that type.", least)};
  }
  if ((core.reported_types[category - 1].load() & type) == 0) {
    return ReportFault{Status::kInvalidParameter,
                       fmt::format("Type 0x{:X} of category {} is not enabled.", type, category),
                       "Types that DxgkDdiControlDiagnosticReporting has asked for."};
  }
  return std::nullopt;
}

}  // namespace

NTSTATUS NTAPI report_diagnostic(HANDLE device, IN_PDXGK_DIAGNOSTIC_HEADER report) {
  DXGKIT_CALLBACK(kReportDiagnostic, device, nt::kDispatchLevel, false,
                  done(Status::kInvalidParameter));
  if (report == nullptr) return done(Status::kInvalidParameter);
  if (std::optional<ReportFault> fault = judge_report(*adapter, *report)) {
    return done(adapter->violation("OPT-28", kReportDiagnostic, std::move(fault->actual),
                                   std::move(fault->expected),
                                   "Fill the header for each report, and report a type only while "
                                   "it is enabled.",
                                   fault->status));
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(report);
  DiagnosticReport taken{.category = static_cast<DiagnosticCategory>(report->Category.Value),
                         .type = report->Type.Value,
                         .sequence = report->SequenceNumber,
                         .id = report->Id,
                         .data = {bytes + sizeof(*report), bytes + report->Size}};
  return done(adapter->host.on_diagnostic(std::move(taken)));
}

}  // namespace dxgkit::port
