// Findings in the formats other tools read: SARIF 2.1.0 and JUnit XML.
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
  bool ended = true;    // the run came to its end; false: a hang or a crash cut it short
  /// What went wrong without a finding, each a full sentence.
  std::vector<std::string> notes;
};

/// A SARIF 2.1.0 log with one run: the rules its results name, from the catalogue; a result per
/// finding with its DDI as logical location and, if the place is known, image and address or file
/// and line as physical location. The same findings give the same bytes. Texts from outside are
/// made valid UTF-8.
std::string to_sarif(std::span<const Finding> findings, const ReportedRun& run);

/// One test case of a JUnit file.
struct JunitCase {
  std::string name;
  enum class Outcome { kPassed, kSkipped, kFailed } outcome = Outcome::kPassed;
  std::string message;  // one line: why skipped or failed
  std::string text;     // what belongs to it: findings
};
/// A JUnit XML file with one suite. Characters XML cannot hold become '?'.
std::string to_junit(const std::string& suite, std::span<const JunitCase> cases);

}  // namespace dxgkit::verifier
