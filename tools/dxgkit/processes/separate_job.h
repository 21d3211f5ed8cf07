// The main job with each client in a process of its own, and the kernel in a third one.
#pragma once

#include <string>
#include <vector>

#include "tools/dxgkit/job.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/processes/kernel_process.h"

namespace dxgkit::tool {

struct SeparateConfig {
  std::string driver_path;
  DeviceChoice device;  // softgpu
  uint64_t vram_bytes = 0, memory_bytes = 0, page_bytes = 0;
  std::string registry;  // JSON text of the driver's keys; empty: none
  bool special_pool = false;
};

struct SeparateOutcome {
  JobResult job;
  std::vector<std::string> findings;  // as the server's process told them
  std::string server_end;             // how the kernel's process ended, if it did during the job
  KernelProcessFigures figures;
};

/// Blocks until all processes have ended. Not from inside a runtime, and with one thread only.
SeparateOutcome run_separate_job(const SeparateConfig& config, const Plan& plan,
                                 const Picture& source, const Progress& progress);

}  // namespace dxgkit::tool
