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

namespace dxgkit::tool {

inline constexpr uint32_t kProcesses = 2;

/// What a process does, one stage after the other. Within a stage nothing but GPU fences orders the
/// work.
enum class Stage : size_t { kUpload, kBlur, kEdges, kDownscale };
inline constexpr size_t kStages = 4;
inline constexpr std::array<const char*, kStages> kStageNames{"upload", "blur", "edges",
                                                              "downscale, checksum, read back"};

struct JobResult {
  Picture picture;                                      // as read back
  std::vector<uint64_t> checksums;                      // by tile, as the GPU computed them
  std::array<runtime::DurationNs, kStages> stage_ns{};  // until the last process was through with
                                                        // the stage, from the end of the one before
  runtime::DurationNs total_ns = 0;
  std::string error;  // empty, or why a process gave up; then the rest means nothing
};

/// Called now and then by a client thread: tile steps done so far, of how many.
using Progress = std::function<void(uint64_t done, uint64_t of)>;

/// Runs the job on an adapter: `kProcesses` processes, each with a device, a context per node, and
/// every other tile. Blocks; call inside the runtime of `system`.
/// @param who  what processes and threads are called, with a number behind it
JobResult run_job(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                  const Plan& plan, const Picture& source, const Progress& progress,
                  const std::string& who = "client");

/// The same with every process drawing the whole picture; by process, each with an error of its
/// own.
std::vector<JobResult> run_whole_jobs(runtime::Runtime& runtime, dxgk::System& system,
                                      dxgk::Luid adapter, const Plan& plan, const Picture& source,
                                      const Progress& progress);

/// Host memory the job's allocations need, for sizing the machine: backing store of every surface
/// and of the staging buffers.
uint64_t job_system_bytes(const Plan& plan);

/// Video memory that page tables of the job take beside its surfaces.
uint64_t page_table_bytes(const Plan& plan, MemoryModel model);

}  // namespace dxgkit::tool
