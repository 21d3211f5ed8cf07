#include "tools/dxgkit/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "runtime/sync.h"
#include "thunks/client.h"
#include "tools/dxgkit/client_calls.h"

namespace dxgkit::tool {
namespace {

/// When each process ended each stage.
struct StageEnds {
  std::array<std::array<runtime::TimeNs, kStages>, kProcesses> at{};
};

/// One process per element of `results`, which may name one result several times.
void run_processes(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                   ClientApi api, const Plan& plan, const Picture& source, bool whole,
                   const std::array<JobResult*, kProcesses>& results, const Progress& progress,
                   const std::string& who = "client") {
  const uint64_t steps = plan.tiles.size() * kStepsOfTile * (whole ? kProcesses : 1);
  runtime::Mutex mutex;  // for `done` and the callback
  uint64_t done = 0;
  const auto step_done = [&] {
    runtime::MutexLock lock(mutex);
    ++done;
    if (progress) progress(done, steps);
  };

  StageEnds ends;
  std::array<std::string, kProcesses> errors;
  const runtime::TimeNs began = runtime.now();
  std::vector<std::unique_ptr<runtime::Thread>> threads;
  threads.reserve(kProcesses);
  for (uint32_t i = 0; i < kProcesses; ++i) {
    threads.push_back(runtime.spawn(fmt::format("{} {}", who, i + 1), [&, i] {
      dxgk::Process& process = system.create_process(fmt::format("{} {}", who, i + 1));
      {
        const thunks::ClientScope scope(system, process);
        const auto stage_done = [&, i](Stage stage) {
          ends.at[i][static_cast<size_t>(stage)] = runtime.now();
        };
        // Each process writes the parts of its own tiles only.
        const ClientResult<void> outcome =
            run_process_job({.adapter = adapter,
                             .calls = maker_of(api),
                             .plan = &plan,
                             .process = i,
                             .whole = whole,
                             .source = source.pixels.data(),
                             .result = results[i]->picture.pixels.data(),
                             .checksums = results[i]->checksums.data(),
                             .step_done = step_done,
                             .stage_done = stage_done});
        if (!outcome) {
          errors[i] = fmt::format("{} {}: {}", who, i + 1, outcome.error().text);
        }
      }
      system.end_process(process);
    }));
  }
  for (const std::unique_ptr<runtime::Thread>& thread : threads) thread->join();
  for (uint32_t i = 0; i < kProcesses; ++i) {
    JobResult& result = *results[i];
    result.total_ns = runtime.now() - began;
    if (result.error.empty()) result.error = errors[i];
    runtime::TimeNs previous = began;
    for (size_t stage = 0; stage < kStages; ++stage) {
      runtime::TimeNs end = previous;
      for (uint32_t k = 0; k < kProcesses; ++k) {
        if (!whole || k == i) end = std::max(end, ends.at[k][stage]);
      }
      result.stage_ns[stage] = end - previous;
      previous = end;
    }
  }
}

}  // namespace

JobResult blank_result(const Plan& plan) {
  JobResult result;
  result.picture.width = result_width(plan);
  result.picture.height = result_height(plan);
  result.picture.pixels.resize(result.picture.size_bytes());
  result.checksums.resize(plan.tiles.size());
  return result;
}

JobResult run_job(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
                  const Plan& plan, const Picture& source, const Progress& progress,
                  const std::string& who, ClientApi api) {
  JobResult result = blank_result(plan);
  std::array<JobResult*, kProcesses> results;
  results.fill(&result);
  run_processes(runtime, system, adapter, api, plan, source, /*whole=*/false, results, progress,
                who);
  return result;
}

std::vector<JobResult> run_whole_jobs(runtime::Runtime& runtime, dxgk::System& system,
                                      dxgk::Luid adapter, const Plan& plan, const Picture& source,
                                      const Progress& progress, ClientApi api) {
  std::vector<JobResult> all;
  for (uint32_t i = 0; i < kProcesses; ++i) all.push_back(blank_result(plan));
  std::array<JobResult*, kProcesses> results{};
  for (uint32_t i = 0; i < kProcesses; ++i) results[i] = &all[i];
  run_processes(runtime, system, adapter, api, plan, source, /*whole=*/true, results, progress);
  return all;
}

bool says_removed(const std::string& error) {
  return error.contains("STATUS_DEVICE_REMOVED") || error.contains("D3DDDIERR_DEVICEREMOVED");
}

uint64_t job_system_bytes(const Plan& plan) {
  return plan.working_set_bytes + kProcesses * staging_bytes_of_process(plan);
}

uint64_t page_table_bytes(const Plan& plan, MemoryModel model) {
  if (model != MemoryModel::kFourLevels) return 0;  // in system memory
  constexpr uint64_t kLeafCoverBytes = uint64_t{2} << 20;
  constexpr uint64_t kUpperTables = 3;
  // Each process maps all at most. One more leaf, because an allocation need not begin with one.
  const uint64_t leaves = job_system_bytes(plan) / kLeafCoverBytes + 2;
  return kProcesses * (kUpperTables + leaves) * kPageBytes;
}

}  // namespace dxgkit::tool
