// What only shows when a step has ended: completions that a driver reports only when it is asked,
// what it has asked of its device, and waits in vain.
#pragma once

#include <string>

#include "nt/polls.h"
#include "nt/stalls.h"
#include "verifier/findings.h"

namespace dxgkit::tool::verify {

/// INT-26. Bench::late_reports counts them.
void report_late(verifier::Findings& findings);
/// LIFE-35. `what` is of Bench::take_misuses.
void report_misuse(verifier::Findings& findings, const std::string& what);
/// INT-27, of one packet on the node. Says it in short.
std::string report_untold_error(verifier::Findings& findings, uint32_t node);
/// PWR-17.
void report_disturbed_sleep(verifier::Findings& findings, uint64_t accesses);
/// NT-41, if the call has stalled for longer than a device takes that works.
void report_stall(verifier::Findings& findings, const nt::Stall& stall);
/// NT-42, if the call has looked more often in one instant than any pause would let it.
void report_polling(verifier::Findings& findings, const nt::Polling& polling);

}  // namespace dxgkit::tool::verify
