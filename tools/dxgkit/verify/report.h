// The outcome of a run of the exerciser, and its written forms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/dxgkit/options.h"
#include "tools/dxgkit/verify/step.h"
#include "verifier/findings.h"
#include "verifier/situations.h"
#include "verifier/waivers.h"

namespace dxgkit::tool::verify {

struct StepResult {
  std::string name, title;
  Outcome outcome;
  std::map<std::string, uint64_t> calls;  // driver entries called during the step
  std::vector<verifier::Finding> findings;
  std::vector<verifier::Situation> situations = {};  // that came up
};

struct VerifyReport {
  std::string driver;  // path
  std::string command;
  uint32_t interface_version = 0;
  bool display_only = false;
  bool ended = true;        // false: its process ended in the last step
  std::string interrupted;  // by the user: how far it had got ("after 3 steps"); empty: it was not
  bool left_out = false;    // steps that a mistake, waived or not, would have ended, too
  bool written = true;      // false: an output of the run itself could not be written
  std::vector<std::string> chosen;  // steps that the user named; empty: all
  std::vector<StepResult> steps;
  std::vector<std::string> never_called;  // entries that the driver has and that no step called
  verifier::SituationReport situations;
  std::vector<verifier::Finding> findings;  // all, in order
  verifier::Waivers waivers;
};

/// Exit codes beside those of every command.
inline constexpr int kExitBugCheck = 3;  // Windows would have stopped
inline constexpr int kExitHang = 4;      // the driver did not come back

/// Findings with equal keys tell of the same mistake, in whatever run.
inline std::string key_of(const verifier::Finding& finding) {
  return finding.rule + " " + finding.ddi;
}
using verifier::is_mistake;
int exit_code(const VerifyReport& report);
/// The user named steps, and each of them was skipped: nothing can be said of the driver. Why.
/// Empty: something was exercised, or something else is wrong.
std::string not_exercised(const VerifyReport& report);
/// The last line: the overall outcome.
std::string verdict(const VerifyReport& report);

/// One line of a step, for the terminal.
std::string step_line(const StepResult& step);
std::string to_json_text(const VerifyReport& report);
std::string to_sarif_text(const VerifyReport& report);
std::string to_junit_text(const VerifyReport& report);

}  // namespace dxgkit::tool::verify
