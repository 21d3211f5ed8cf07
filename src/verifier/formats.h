// Findings in the formats of other tools: SARIF 2.1.0 and JUnit XML.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "verifier/findings.h"

namespace dxgkit::verifier {

/// The run the findings come from.
struct ReportedRun {
  std::string driver;   // path as the user gave it
  std::string command;  // the command line, to repeat it
  bool ended = true;    // false: a hang or a crash cut the run short
  /// Problems without a finding, each a full sentence.
  std::vector<std::string> notes = {};
  /// What is no problem and worth knowing, each a full sentence.
  std::vector<std::string> remarks = {};
};

/// A SARIF 2.1.0 log with one run. It has the rules that its results name, from the catalogue, and
/// a result per finding. The DDI is the logical location. If the place is known, image and address
/// or file and line are the physical location. The same findings give the same bytes. Texts from
/// outside are made valid UTF-8.
std::string to_sarif(std::span<const Finding> findings, const ReportedRun& run);

/// One test case of a JUnit file.
struct JunitCase {
  std::string name;
  enum class Outcome { kPassed, kSkipped, kFailed } outcome = Outcome::kPassed;
  std::string message;  // one line: why the case was skipped or failed
  std::string text;     // the findings of the case
};
/// The case that says that the user ended the run. It failed: what is missing was not tested.
/// @param how_far  "after 3 steps"
JunitCase interrupted_case(const std::string& how_far);
/// A JUnit XML file with one suite. Characters that XML cannot hold become '?'.
std::string to_junit(const std::string& suite, std::span<const JunitCase> cases);

}  // namespace dxgkit::verifier
