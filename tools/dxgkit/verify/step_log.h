// What the steps have found so far, written where it survives the end of the process.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/dxgkit/verify/report.h"

namespace dxgkit::tool::verify {

/// Made before the processes that run the steps are forked, and shared by them. They write, each
/// under the seed of its run, and their parent reads. Without memory for it nothing is kept.
class StepLog {
 public:
  StepLog();
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// What this process adds from here on belongs to that seed.
  void begin_seed(uint64_t seed) { seed_ = seed; }
  void begin(const char* step);
  /// A finding of the step that runs. Any thread.
  void add(const verifier::Finding& finding);
  /// The step is over. Its findings are those of `step`.
  void add(const StepResult& step);
  /// The simulation ends because every thread waits.
  void add_deadlock();

  struct Content {
    std::vector<StepResult> steps;  // that ended
    std::string running;            // the one that has not ended; empty: none
    std::vector<verifier::Finding> of_running;
    bool deadlocked = false;
  };
  /// What was added by all processes, by seed.
  std::map<uint64_t, Content> read() const;
  /// Forgets all of it. No other process has the log then.
  void clear();

 private:
  void write_line(nlohmann::json line);

  int file_;
  uint64_t seed_ = 0;
};

}  // namespace dxgkit::tool::verify
