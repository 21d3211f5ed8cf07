#include "tools/dxgkit/verify/late_report.h"

namespace dxgkit::tool::verify {

void report_late(verifier::Findings& findings) {
  findings.report(
      {.rule = "INT-26",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiInterruptRoutine",
       .actual = "A node reported completed work only when it was asked for its fence, TdrDelay "
                 "after it was submitted.",
       .expected = "The device interrupts, and the driver reports each completion at once.",
       .fix = "Check that the interrupt is enabled in all states of the device, after a start, a "
              "reset and a sleep, and that what it reports is acknowledged.",
       .windows = "Each submission takes seconds.",
       .confidence = verifier::Confidence::kInferred});
}

}  // namespace dxgkit::tool::verify
