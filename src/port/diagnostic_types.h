// Our types for what drivers report of themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dxgkit::port {

/// DXGK_DIAGNOSTIC_CATEGORIES, one of its bits.
enum class DiagnosticCategory : uint32_t { kNotifications = 1, kProgressions = 2 };

/// Types of one category: bits of DXGK_DIAGNOSTIC_TYPES.
struct DiagnosticTypes {
  uint32_t noninvasive = 0, invasive = 0;
};

/// A report of DxgkCbReportDiagnostic.
struct DiagnosticReport {
  DiagnosticCategory category{};
  uint32_t type = 0;            // one bit
  uint32_t sequence = 0;        // as the driver counted
  uint32_t id = 0;              // of a target or a source, as the type has it
  std::vector<std::byte> data;  // behind the header
};

/// The bits that types of the category have.
constexpr uint32_t known_types(DiagnosticCategory category) {
  return category == DiagnosticCategory::kNotifications ? 3 : 1;
}

}  // namespace dxgkit::port
