// Completions that a driver reports only when it is asked.
#pragma once

#include <cstdint>

#include "verifier/findings.h"

namespace dxgkit::tool::verify {

class Bench;

/// How often that has happened since the adapter started. 0 where time is not the device's, or
/// interrupts are taken away.
uint64_t late_reports(Bench& bench);
/// INT-26.
void report_late(verifier::Findings& findings);

}  // namespace dxgkit::tool::verify
