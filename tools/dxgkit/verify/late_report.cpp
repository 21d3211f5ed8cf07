#include "tools/dxgkit/verify/late_report.h"

#include "dxgk/inspection.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

uint64_t late_reports(Bench& bench) {
  if (!bench.simulated() || bench.mutated() || !bench.running()) return 0;
  const Result<dxgk::Inspection> inspection = dxgk::Inspection::of(bench.system(), bench.luid());
  return inspection.has_value() ? inspection->late_reports() : 0;
}

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
