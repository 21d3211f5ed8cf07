// What the world around an adapter tells its driver: for a host, a tool or a test.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "dxgk/system.h"
#include "port/ddi/notices.h"
#include "port/diagnostic_types.h"

namespace dxgkit::dxgk {

/// Events and requests that come from outside of the graphics kernel. Any thread outside the
/// driver and off the lane; a call may block.
///
/// Every function answers kInvalidParameter for an adapter that is not there, kDeviceRemoved once
/// the adapter stopped, and kNotSupported if the driver does not have the entry.
class Notices {
 public:
  explicit Notices(System& system) : system_(system) {}

  /// An ACPI event: DxgkDdiNotifyAcpiEvent at level two. Then what the driver wishes is done
  /// (OPT-15): its outputs are asked for monitors, or a VidPN that it recommends is committed.
  /// Returns its wishes. Else the driver's failure, with nothing done.
  Result<port::AcpiWishes> acpi_event(Luid adapter, const port::AcpiEvent& event);
  /// An I/O control request for a source: DxgkDdiDispatchIoRequest at level two. Returns how many
  /// bytes of `request.out` are filled. kInvalidParameter: no such source, or a buffer of more than
  /// 1 MiB. Else the driver's failure.
  Result<uint32_t> io_request(Luid adapter, uint32_t source, const port::IoRequest& request);
  /// The diagnostics of a category that the driver can report (OPT-26).
  Result<port::DiagnosticTypes> diagnostic_types(Luid adapter, port::DiagnosticCategory category);
  /// The driver reports these types from now on, and no others of the category.
  /// kInvalidParameter: it does not have all of them. Else the driver's failure.
  Status enable_diagnostics(Luid adapter, port::DiagnosticCategory category, uint32_t types);
  /// What the driver has reported since the last call, in order.
  Result<std::vector<port::DiagnosticReport>> take_diagnostics(Luid adapter);
  /// A bug check of a driver without DxgkDdiSystemDisplayEnable: DxgkDdiResetDevice takes the
  /// screen to text. The adapter is of no use afterwards but to be stopped.
  Status reset_to_text(Luid adapter);

 private:
  System& system_;
};

}  // namespace dxgkit::dxgk
