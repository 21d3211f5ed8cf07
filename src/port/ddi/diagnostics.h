// What a driver collects and reports for those who look for the cause of a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "port/diagnostic_types.h"

namespace dxgkit::port {

struct PortCore;

/// DXGKARG_COLLECTDIAGNOSTICINFO, as the driver filled it.
struct CollectedInfo {
  std::string bucket, description;
  std::vector<std::byte> data;
};

/// PASSIVE_LEVEL, level zero, any thread. An entry that the driver does not have answers
/// kNotSupported, a dead driver kDeviceRemoved.
class DiagnosticPort {
 public:
  /// The core must outlive it.
  explicit DiagnosticPort(PortCore& core) : core_(core) {}

  /// DxgkDdiCollectDiagnosticInfo, from WDDM 2.6 on: after one of these has failed. The driver's
  /// failure passes through. A length that cannot be is a violation (OPT-25), and cut.
  enum class After { kAddDevice, kStartDevice };
  Result<CollectedInfo> collect(After after);
  /// DxgkDdiQueryDiagnosticTypesSupport, from WDDM 2.4 on. Bits that no type has are a violation
  /// (OPT-27), and left out.
  Result<DiagnosticTypes> query_types(DiagnosticCategory category);
  /// DxgkDdiControlDiagnosticReporting: these types are reported from now on, and no others of the
  /// category.
  Status control(DiagnosticCategory category, uint32_t types);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
