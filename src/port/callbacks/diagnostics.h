// Reports of drivers for those who look for the cause of a failure.
#pragma once

#include <dispmprt.h>

namespace dxgkit::port {

/// DxgkCbReportDiagnostic, up to DISPATCH_LEVEL (our choice). The report goes to
/// AdapterHost::on_diagnostic. OPT-28 says what is wrong with one.
NTSTATUS NTAPI report_diagnostic(HANDLE device, IN_PDXGK_DIAGNOSTIC_HEADER report);

}  // namespace dxgkit::port
