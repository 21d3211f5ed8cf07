// Completions that a driver reports only when it is asked.
#pragma once

#include "verifier/findings.h"

namespace dxgkit::tool::verify {

/// INT-26. Bench::late_reports counts them.
void report_late(verifier::Findings& findings);

}  // namespace dxgkit::tool::verify
