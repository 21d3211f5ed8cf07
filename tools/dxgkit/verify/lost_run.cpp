#include "tools/dxgkit/verify/lost_run.h"

#include <fmt/format.h>

#include "tools/dxgkit/verify/verification.h"

namespace dxgkit::tool::verify {

std::string step_of(const StepLog::Content& found) {
  return found.running.empty() ? "begin" : found.running;
}

StepResult lost_step(const VerifyOptions& options, StepLog::Content found, const RunEnd& end,
                     Problem problem) {
  StepResult last{.name = step_of(found),
                  .title = {},
                  .outcome = {},
                  .calls = {},
                  .findings = std::move(found.of_running)};
  const std::string& step = last.name;
  if (end.hung || found.deadlocked) {
    last.outcome =
        Outcome::failed(found.deadlocked ? fmt::format("in step {} every thread waits", step)
                                         : fmt::format("step {} made no progress for {} s", step,
                                                       options.ddi_timeout_s));
    last.findings.push_back(
        {.rule = "NT-20",
         .severity = verifier::Severity::kBugCheck,
         .ddi = step,
         .actual =
             found.deadlocked
                 ? fmt::format("In step {} every thread waits, and nothing will wake one: an "
                               "interrupt, a DPC or an answer that the kernel waits for never "
                               "comes. stderr lists the threads.",
                               step)
                 : fmt::format("Step {} made no progress for {} s; the process was ended.", step,
                               options.ddi_timeout_s),
         .expected = "DriverEntry and every DDI return, and what the kernel waits for comes: "
                     "completions, answers to preemptions, objects that the driver signals.",
         .fix = fmt::format("Run it under a debugger: {} --step {} --in-process; interrupt it and "
                            "look at the stacks.",
                            command_line(options), step),
         .bugcheck_code = 0x133,
         .bugcheck_parameter = 0,
         .confidence = verifier::Confidence::kInferred,
         .waived = std::string(options.waivers.list.use("NT-20"))});
    return last;
  }
  problem.finding.fix = fmt::format(
      "Run it under a debugger: {} --step {} --in-process. If the fault is not in the driver or "
      "the client plug-in, it is a mistake of this tool.",
      command_line(options), step);
  problem.finding.waived = options.waivers.list.use(problem.finding.rule);
  last.outcome = Outcome::failed(fmt::format("the process was lost in step {}: {}", step, end.how));
  last.findings.push_back(std::move(problem.finding));
  return last;
}

}  // namespace dxgkit::tool::verify
