// One client process of the main job: its share of the tiles. It knows the kernel by D3DKMT
// functions only, so that a program without a kernel can run it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "tools/dxgkit/client.h"
#include "tools/dxgkit/plan.h"

namespace dxgkit::tool {

inline constexpr uint32_t kProcesses = 2;

/// The stages of a process, one after the other. Within a stage only GPU fences order the work.
enum class Stage : size_t { kUpload, kBlur, kEdges, kDownscale };
inline constexpr size_t kStages = 4;
inline constexpr std::array<const char*, kStages> kStageNames{"upload", "blur", "edges",
                                                              "downscale, checksum, read back"};

/// The picture that the passes make of the source.
constexpr uint32_t result_width(const Plan& plan) { return (plan.width + 1) / 2; }
constexpr uint32_t result_height(const Plan& plan) { return (plan.height + 1) / 2; }

struct ProcessWork {
  dxgk::Luid adapter;
  CallsMaker calls = make_d3dkmt_calls;
  const Plan* plan = nullptr;
  uint32_t process = 0;  // from 0
  bool whole = false;    // all tiles, not its share of them
  const uint8_t* source = nullptr;
  uint8_t* result = nullptr;
  uint64_t* checksums = nullptr;  // one for each tile of the plan
  std::function<void()> step_done;
  std::function<void(Stage)> stage_done;
};

/// Three steps per tile: its blur is queued, its edges are there, it is read back.
inline constexpr uint64_t kStepsOfTile = 3;

/// Blocks until the share is done. The thread can make D3DKMT calls.
ClientResult<void> run_process_job(const ProcessWork& work);

/// The memory of a process's staging buffers.
uint64_t staging_bytes_of_process(const Plan& plan);

}  // namespace dxgkit::tool
