// The report of a run whose process ended.
#pragma once

#include <string>

#include "tools/dxgkit/last_words.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/step_log.h"

namespace dxgkit::tool::verify {

/// How the process of a run ended.
struct RunEnd {
  bool hung = false;  // it made no progress, and was ended for that
  std::string how;    // else: "it ended by signal 9"
};

/// The step that was running, with what had been found in it and the finding that tells of the end
/// (NT-01, NT-20). `problem`: the process's last words; not used if the run hung or waits for ever.
StepResult lost_step(const VerifyOptions& options, StepLog::Content found, const RunEnd& end,
                     Problem problem);

/// The name of the step that was running, for LastWords::of.
std::string step_of(const StepLog::Content& found);

}  // namespace dxgkit::tool::verify
