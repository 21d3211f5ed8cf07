// One run from power-on to power-off: machine, device, driver, kernel, job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dxgk/system.h"
#include "nt/kernel.h"
#include "tools/dxgkit/job.h"
#include "tools/dxgkit/no_client.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/power.h"
#include "trace/trace.h"
#include "verifier/findings.h"

namespace dxgkit::tool {

struct SessionConfig {
  std::string driver_path;                // either form
  std::string driver_name;                // for messages and names in the trace
  uint64_t vram_bytes = 0;                // multiple of the page
  std::optional<MemoryModel> model = {};  // else the driver's own choice
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  bool record = false;                                     // collect a trace
  std::vector<DeviceChoice> devices = {default_device()};  // each is an adapter of the driver
  nt::KernelConfig kernel = {};
  PowerPlan power = {};  // softgpu only, and one device; so are the next two
  std::optional<SwitchChoice> verifier = {};
  std::optional<HangChoice> hang = {};  // each client then draws the whole picture
  bool show = false;                    // a client shows the result on the device's screen
};

/// What an adapter did where there are several, all at the same time.
struct AdapterOutcome {
  std::string device;   // as given
  bool speaks = false;  // it ran the job; else `no_client`
  JobResult job;
  NoClientOutcome no_client;
  dxgk::AdapterStatistics statistics;
  /// Empty, or what was refused.
  const std::string& error() const { return speaks ? job.error : no_client.error; }
};

struct SessionOutcome {
  enum class Kind {
    kRan,          // the job ended; whether its result is right is the caller's to see
    kNoClient,     // it ran, but its user mode is unknown here: see no_client
    kNotADriver,   // the image cannot be loaded at all: bad input
    kLoadRefused,  // DriverEntry or the table it gave: see findings
    kStartFailed,  // see findings
    kJobFailed,    // a client call was refused: `message`
  };
  Kind kind = Kind::kRan;
  std::string message;  // one sentence for everything but kRan
  JobResult job;
  std::vector<AdapterOutcome> adapters;  // with several: all of them; `job` is the first's then
  std::vector<JobResult> whole_jobs;     // with a hang: by client; `job` is of one that got through
  std::vector<dxgk::TimeoutReport> timeouts;  // report events, oldest first
  std::vector<PowerDone> power;               // what of the plan was done
  bool removed = false;                       // by the plan: clients were told, and that is right
  NoClientOutcome no_client;                  // kNoClient
  std::optional<Picture> screen;  // what the first source showed before the stop, if anything
  std::vector<Picture> frames;    // softgpu's screen: every picture it took, oldest first
  std::string show_error;         // what of the show was refused
  dxgk::AdapterStatistics statistics;
  uint32_t interface_version = 0;
  std::vector<verifier::Finding> findings;
  trace::Recording recording;  // empty unless asked for
};

/// Blocks until everything is torn down again. Not from inside a runtime.
SessionOutcome run_session(const SessionConfig& config, const Plan& plan, const Picture& source,
                           const Progress& progress);

}  // namespace dxgkit::tool
