// The steps of `dxgkit verify`, run one after the other on one driver.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tools/dxgkit/child.h"
#include "tools/dxgkit/shared.h"
#include "tools/dxgkit/verify/bench.h"
#include "tools/dxgkit/verify/mutator.h"
#include "tools/dxgkit/verify/negligence.h"
#include "tools/dxgkit/verify/report.h"
#include "tools/dxgkit/verify/step_log.h"
#include "trace/trace.h"

namespace dxgkit::tool::verify {

/// What of a verification survives the end of its process. Made before that is forked.
struct Board {
  Shared<verifier::SituationLog> situations;
  StepLog steps;
};

/// The command line that repeats the step.
std::string command_line(const VerifyOptions& options);

/// Runs the steps inside the runtime.
class Verification {
 public:
  Verification(const VerifyOptions& options, const std::string& driver_path,
               const nt::KernelConfig& kernel_config, const Plugin* plugin, Board& board,
               Heartbeat* heartbeat, std::FILE* out)
      : options_(options),
        driver_path_(driver_path),
        kernel_config_(kernel_config),
        plugin_(plugin),
        board_(board),
        heartbeat_(heartbeat),
        out_(out) {}

  /// The fault injector of every machine from here on.
  void set_mutator(Mutator* mutator) { mutator_ = mutator; }
  /// Stands before the fault injector of every machine from here on.
  void set_negligence(Negligence* negligence) { negligence_ = negligence; }
  /// The report. nullopt if the file is not a driver; then `message` says why.
  std::optional<VerifyReport> run(std::string* message);

 private:
  std::optional<std::string> why_not(Bench& bench, const Step& step) const;
  /// After a step in which the machine died: why another machine would tell nothing new. Empty: it
  /// may tell something. A driver whose every step waits for TdrDelay is not asked again.
  std::string why_over(const StepResult& step) const;
  void run_step(Bench& bench, const Step& step, runtime::Runtime& runtime,
                trace::Recorder& recorder);

  const VerifyOptions& options_;
  const std::string& driver_path_;
  const nt::KernelConfig& kernel_config_;
  const Plugin* plugin_;
  Board& board_;
  Heartbeat* heartbeat_;
  std::FILE* out_;
  verifier::Findings findings_;
  std::set<size_t> dismissed_;  // by number: findings that steps provoked
  Mutator* mutator_ = nullptr;
  Negligence* negligence_ = nullptr;
  VerifyReport report_;
};

}  // namespace dxgkit::tool::verify
