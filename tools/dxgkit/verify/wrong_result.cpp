#include "tools/dxgkit/verify/wrong_result.h"

namespace dxgkit::tool::verify {

verifier::Finding wrong_result(const std::string& actual, bool addresses) {
  verifier::Finding finding{.rule = addresses ? "VA-47" : "REND-29",
                            .severity = verifier::Severity::kViolation,
                            .ddi = {},
                            .actual = {},
                            .expected = {},
                            .fix = {}};
  if (actual.contains(kLostDevice)) {
    finding.ddi = addresses ? "DxgkDdiSubmitCommandVirtual" : "DxgkDdiSubmitCommand";
    finding.actual = "A job of the client plug-in did not come to its end: " + actual + ".";
    finding.expected = "Work that is right is completed, and its device is kept.";
    finding.fix =
        "Find out what made the kernel give the device up, in the warnings and findings before "
        "this one or in the trace: a fault that the driver reported, or an engine that was reset. "
        "Then look at the commands that the engine ran at that time.";
    finding.why =
        "A device is lost after a reported fault, and after a reset that its work was blamed for.";
    finding.windows = "The application loses its device.";
  } else if (actual.contains(kNoLock)) {
    finding.ddi = "DxgkDdiBuildPagingBuffer";
    finding.actual = "The result of a job of the client plug-in could not be read: " + actual + ".";
    finding.expected = "An allocation that the CPU may read can be locked when the work is done.";
    finding.fix =
        "Look at what a lock asks of the driver: paging out of memory that the CPU does not see, "
        "and DxgkDdiAcquireSwizzlingRange for allocations with a swizzling range.";
    finding.why = "Nothing is said of the content, which nobody has seen.";
    finding.windows = "The application gets an error where it reads the result.";
  } else {
    finding.ddi = addresses ? "DxgkDdiBuildPagingBuffer" : "DxgkDdiRender";
    finding.actual = "A job of the client plug-in came out wrong: " + actual + ".";
    finding.expected = "The client plug-in finds the bytes its job must have made.";
    finding.fix =
        addresses ? "Compare the entries DXGK_OPERATION_UPDATE_PAGE_TABLE asks for with those in "
                    "memory, each level, then the root the engine has, then what FlushTlb flushes; "
                    "VA-28 tells of a fault what was mapped there."
                  : "If the same job alone is right, compare the addresses DxgkDdiPatch writes "
                    "with where the allocations are; else compare the translated commands with the "
                    "client's.";
    if (actual.contains(kPreempted)) {
      finding.fix =
          "It was preempted: compare where the engine stopped with what the driver keeps of that, "
          "and with where it goes on when the packet comes again, also for a part that starts "
          "behind byte 0 of its DMA buffer. " +
          finding.fix;
    }
    finding.why = "The plug-in checked the content of the allocations after the job was complete.";
    finding.windows = addresses ? "Wrong pictures, or lost devices." : "Wrong pictures.";
  }
  return finding;
}

}  // namespace dxgkit::tool::verify
