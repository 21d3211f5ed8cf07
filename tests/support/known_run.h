// What happened in each test that has a driver, kept: what its author was told, word by word, and a
// hash of the trace. tests/known/ has both, a pair of files for each program.
#pragma once

#include <memory>

#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::testing {

/// Stands beside the kernel of a simulated test, made before it and gone after it. At its end it
/// compares findings and trace with those the test gave before, and fails the test if they differ:
/// a call more or less, another order, status, address, word or number.
///
/// The program writes both files anew where DXGKIT_KEEP_RUNS is in the environment (`make known`),
/// with --gtest_filter only what concerns the tests that ran. A new test fails until it was kept
/// so. The texts are for a reviewer: the difference is what authors will read. Of a trace the hash
/// says only that it changed: DXGKIT_TEST_TRACES=FOLDER writes the trace of every test there, to be
/// compared with that of the commit before.
///
/// In texts, numbers that can be addresses of this process are left out, since they differ from run
/// to run. With threads of the operating system, whose order is theirs, it does nothing. Where the
/// test has a recorder of its own, that one gets the events, and no trace is kept.
class KnownRun {
 public:
  /// `findings` stays the caller's and outlives this. Call inside Runtime::run_main.
  explicit KnownRun(const verifier::Findings& findings);
  ~KnownRun();
  KnownRun(const KnownRun&) = delete;
  KnownRun& operator=(const KnownRun&) = delete;

 private:
  const verifier::Findings& findings_;
  std::unique_ptr<trace::Recorder> recorder_;  // null: somebody else records
};

/// From here on nothing is compared: for a test whose seed or input the caller chose.
void hold_no_runs();

/// The findings alone, for tests below the kernel.
class KnownFindings {
 public:
  explicit KnownFindings(const verifier::Findings& findings) : findings_(findings) {}
  ~KnownFindings();
  KnownFindings(const KnownFindings&) = delete;
  KnownFindings& operator=(const KnownFindings&) = delete;

 private:
  const verifier::Findings& findings_;
};

}  // namespace dxgkit::testing
