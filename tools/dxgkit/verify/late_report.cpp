#include "tools/dxgkit/verify/late_report.h"

#include <fmt/format.h>

#include "base/spelling.h"

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

void report_misuse(verifier::Findings& findings, const std::string& what) {
  findings.report(
      {.rule = "LIFE-35",
       .severity = verifier::Severity::kViolation,
       .ddi = "",
       .actual = "The device says of what it was asked: " + what + ".",
       .expected = "The driver asks the device for nothing that its manual forbids.",
       .fix = "Find the access or the command in the driver, and compare it with the manual.",
       .windows = "Real hardware may do anything then.",
       .confidence = verifier::Confidence::kInferred});
}

std::string report_untold_error(verifier::Findings& findings, uint32_t node) {
  std::string what = fmt::format("node {} met an error, and no packet failed", node);
  findings.report(
      {.rule = "INT-27",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkCbNotifyInterrupt",
       .actual = fmt::format("The engine of node {} met memory that has lost its content, and no "
                             "packet was reported as faulted.",
                             node),
       .expected = "The packet whose work the device could not do is reported as faulted.",
       .fix = "Look at the answer of each command, and at the error bits of the engine, before "
              "DMA_COMPLETED is said of its packet.",
       .why = "The device model was told what to do wrong, and when.",
       .windows = "The application goes on with results that nobody has computed.",
       .confidence = verifier::Confidence::kInferred});
  return what;
}

void report_disturbed_sleep(verifier::Findings& findings, uint64_t accesses) {
  findings.report(
      {.rule = "PWR-17",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiSetPowerState",
       .actual = fmt::format("The driver touched a register of the sleeping device {} time{}.",
                             accesses, accesses == 1 ? "" : "s"),
       .expected = "Between the calls for D1 to D3 and for D0 no register is touched.",
       .fix = "Stop what polls the device before DxgkDdiSetPowerState returns, and answer queries "
              "from memory.",
       .windows = "A sleeping device answers with ones, which look like causes of interrupts, or "
                  "not at all.",
       .confidence = verifier::Confidence::kInferred});
}

void report_stall(verifier::Findings& findings, const nt::Stall& stall) {
  constexpr runtime::DurationNs kMost = 50 * runtime::kMillisecond;
  if (stall.length_ns <= kMost) return;
  findings.report(
      {.rule = "NT-41",
       .severity = verifier::Severity::kViolation,
       .ddi = stall.call,
       .actual = fmt::format("It stalled the processor for {} ms altogether, and the device works.",
                             stall.length_ns / runtime::kMillisecond),
       .expected = fmt::format("A call polls a device that works for {} ms at most.",
                               kMost / runtime::kMillisecond),
       .fix = "Look at the condition of the loop around KeStallExecutionProcessor: what it waits "
              "for does not come, or is not noticed. What takes long by nature waits with "
              "KeDelayExecutionThread, or for an event.",
       .windows = "The processor does nothing else meanwhile: the desktop stands still.",
       .confidence = verifier::Confidence::kInferred});
}

void report_polling(verifier::Findings& findings, const nt::Polling& polling) {
  constexpr uint32_t kMost = 1000;
  if (polling.looks <= kMost) return;
  findings.report(
      {.rule = "NT-42",
       .severity = verifier::Severity::kViolation,
       .ddi = polling.call,
       .actual = fmt::format("It called DxgkCbSynchronizeExecution {}, one call behind the "
                             "other, and no time had passed.",
                             counted(polling.looks, "time")),
       .expected =
           fmt::format("A call looks {} in the same instant at most.", counted(kMost, "time")),
       .fix = "Let time pass between two looks, with KeStallExecutionProcessor for microseconds or "
              "KeDelayExecutionThread for more, and bound the time, not the number of looks.",
       .windows = "How long it waits depends on the processor, and the interrupt is locked out "
                  "meanwhile.",
       .confidence = verifier::Confidence::kInferred});
}

}  // namespace dxgkit::tool::verify
