// One run from power-on to power-off: machine, device, driver, kernel, job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dxgk/system.h"
#include "tools/dxgkit/job.h"
#include "tools/dxgkit/options.h"
#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::tool {

struct SessionConfig {
  std::string driver_path;  // ELF image
  std::string driver_name;  // for messages and names in the trace
  uint64_t vram_bytes = 0;  // multiple of the page
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  bool record = false;  // collect a trace
};

struct SessionOutcome {
  enum class Kind {
    kRan,          // the job ended; whether its result is right is the caller's to see
    kNotADriver,   // the image cannot be loaded at all: bad input
    kLoadRefused,  // DriverEntry or the table it gave: see findings
    kStartFailed,  // see findings
    kJobFailed,    // a client call was refused: `message`
  };
  Kind kind = Kind::kRan;
  std::string message;  // one sentence for everything but kRan
  JobResult job;
  dxgk::AdapterStatistics statistics;
  uint32_t interface_version = 0;
  std::vector<verifier::Finding> findings;
  trace::Recording recording;  // empty unless asked for
};

/// Blocks until everything is torn down again. Not from inside a runtime.
SessionOutcome run_session(const SessionConfig& config, const Plan& plan, const Picture& source,
                           const Progress& progress);

}  // namespace dxgkit::tool
