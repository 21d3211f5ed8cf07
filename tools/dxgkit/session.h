// One run from power-on to power-off: machine, device, driver, kernel, job.
#pragma once

#include <cstdint>
#include <functional>
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
#include "verifier/waivers.h"

namespace dxgkit::tool {

struct SessionConfig {
  std::string driver_path;                // either form
  std::string driver_name;                // for messages and names in the trace
  uint64_t vram_bytes = 0;                // multiple of the page
  uint64_t memory_bytes = 0;              // of the machine: at least memory_of_job
  std::optional<MemoryModel> model = {};  // else the driver's own choice
  Mode mode = Mode::kOs;
  uint64_t seed = 1;
  bool record = false;                                     // collect a trace
  std::vector<DeviceChoice> devices = {default_device()};  // each is an adapter of the driver
  nt::KernelConfig kernel = {};
  PowerPlan power = {};  // softgpu only, and one device; so are the next two
  std::optional<SwitchChoice> verifier = {};
  std::optional<HangChoice> hang = {};  // each client then draws the whole picture
  verifier::Waivers waivers = {};
  ClientApi client_api = ClientApi::kD3dkmt;
  bool show = false;  // a client shows the result on the device's screen
  /// Called with each finding when it is reported. Any thread. May be empty.
  std::function<void(const verifier::Finding&)> on_finding = {};
};

/// The outcome of one of several adapters, which all ran at the same time.
struct AdapterOutcome {
  std::string device;   // as given
  bool speaks = false;  // it ran the job; else `no_client`
  JobResult job;
  NoClientOutcome no_client;
  dxgk::AdapterStatistics statistics;
  /// Empty, or the refused call.
  const std::string& error() const { return speaks ? job.error : no_client.error; }
};

struct SessionOutcome {
  enum class Kind {
    kRan,          // the job ended; the caller checks whether its result is right
    kNoClient,     // it ran, but its user mode is unknown here: see no_client
    kNotADriver,   // the image cannot be loaded: bad input
    kLoadRefused,  // DriverEntry failed, or its table was refused: see findings
    kStartFailed,  // see findings
    kJobFailed,    // a client call was refused: `message`
  };
  Kind kind = Kind::kRan;
  std::string message;              // one sentence, except for kRan
  std::vector<std::string> before;  // of a failed start, beside the findings: see start_story.h
  JobResult job;
  std::vector<AdapterOutcome> adapters;  // with several: all of them; then `job` is the first one's
  // With a hang: by client; then `job` is of a client that succeeded.
  std::vector<JobResult> whole_jobs;
  std::vector<dxgk::TimeoutReport> timeouts;  // report events, oldest first
  std::vector<PowerDone> power;               // the executed steps of the plan
  // The plan removed the device: the clients got an error, which is right.
  bool removed = false;
  std::string lost;           // why a device left by itself; empty: none did
  NoClientOutcome no_client;  // kNoClient
  // The picture of the first source before the stop, if there was one.
  std::optional<Picture> screen;
  std::vector<Picture> frames;       // softgpu's screen: every picture that it showed, oldest first
  std::vector<int64_t> frame_times;  // of each, by the runtime's clock
  std::string show_error;            // the refused call of the show
  dxgk::AdapterStatistics statistics;
  uint32_t interface_version = 0;
  std::vector<verifier::Finding> findings;
  trace::Recording recording;  // empty unless asked for
};

/// The bytes of the machine that the job on these devices needs.
uint64_t memory_of_job(const SessionConfig& config, const Plan& plan);

/// Blocks until everything is torn down again. Not from inside a runtime.
SessionOutcome run_session(const SessionConfig& config, const Plan& plan, const Picture& source,
                           const Progress& progress);

}  // namespace dxgkit::tool
