// The main job: client processes push a picture through the GPU tile by tile, with far less video
// memory than they use.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/picture.h"
#include "tools/dxgkit/plan.h"
#include "tools/dxgkit/process_job.h"

namespace dxgkit::tool {

struct JobResult {
  Picture picture;                                      // as read back
  std::vector<uint64_t> checksums;                      // by tile, as the GPU computed them
  std::array<runtime::DurationNs, kStages> stage_ns{};  // until the last process was through with
                                                        // the stage, from the end of the one before
  runtime::DurationNs total_ns = 0;
  std::string error;  // empty, or why a process gave up; then the other members have no meaning
};

/// An empty picture of the plan's result.
JobResult blank_result(const Plan& plan);

/// Called regularly by a client thread: finished tile steps, and the number of all.
using Progress = std::function<void(uint64_t done, uint64_t of)>;

/// Runs the job on an adapter: `kProcesses` processes, each with a device, a context per node, and
/// every other tile. Blocks; call it inside the runtime of `system`.
/// @param who  name of processes and threads; a number is added
JobResult run_job(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                  const Plan& plan, const Picture& source, const Progress& progress,
                  const std::string& who = "client", ClientApi api = ClientApi::kD3dkmt);

/// The same, but every process draws the whole picture. A result per process, each with its own
/// error.
std::vector<JobResult> run_whole_jobs(runtime::Runtime& runtime, dxgk::System& system,
                                      dxgk::Luid adapter, const Plan& plan, const Picture& source,
                                      const Progress& progress, ClientApi api = ClientApi::kD3dkmt);

/// True for the error of a client whose adapter is gone.
bool says_removed(const std::string& error);

/// The host memory that the job's allocations need, for sizing the machine: backing store of every
/// surface and of the staging buffers.
uint64_t job_system_bytes(const Plan& plan);

/// The video memory that page tables of the job need beside its surfaces.
uint64_t page_table_bytes(const Plan& plan, MemoryModel model);

}  // namespace dxgkit::tool
