// What only shows when a step has ended: completions that a driver reports only when it is asked,
// and what it has asked of its device.
#pragma once

#include <string>

#include "verifier/findings.h"

namespace dxgkit::tool::verify {

/// INT-26. Bench::late_reports counts them.
void report_late(verifier::Findings& findings);
/// LIFE-35. `what` is of Bench::take_misuses.
void report_misuse(verifier::Findings& findings, const std::string& what);

}  // namespace dxgkit::tool::verify
