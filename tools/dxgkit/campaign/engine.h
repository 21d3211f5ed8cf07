// Where the tasks of a campaign run.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/campaign/manifest.h"
#include "tools/dxgkit/campaign/task.h"

namespace dxgkit::tool::campaign {

/// Runs a task for each of some shards, each `dxgkit campaign shard`. It promises nothing: a task
/// may be lost, or run twice. One thread.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Begins with these shards, when nothing of it is at work.
  virtual std::expected<void, std::string> begin(const std::vector<uint32_t>& shards) = 0;
  /// Call it several times a second. False: no task is at work or will be.
  virtual std::expected<bool, std::string> at_work() = 0;
  /// Ends its tasks and begins none.
  virtual void stop() = 0;
  /// What happens to the tasks when this process ends.
  virtual bool lives_on() const = 0;
};

struct EngineOptions {
  const Folder& folder;
  const Manifest& manifest;
  uint32_t jobs = 0;                       // tasks at once; 0: the engine's own choice
  std::string scratch;                     // of the tasks
  std::vector<std::string> slurm_options;  // of sbatch
};
/// Processes on this machine.
std::unique_ptr<Engine> local_engine(const EngineOptions& options);
/// An array job of Slurm: sbatch, squeue and scancel. If one of this campaign is there, it goes on.
std::unique_ptr<Engine> slurm_engine(const EngineOptions& options);
/// Cancels the campaign's jobs. How many; 0: there is none.
std::expected<size_t, std::string> cancel_slurm_jobs(const Folder& folder);

/// "1-3,7": numbers of shards, from 1 on, as sbatch wants them. `shards` rises.
std::string array_of(const std::vector<uint32_t>& shards);
/// The job's number in what `sbatch --parsable` prints: "4711" or "4711;cluster".
std::optional<uint64_t> job_of(std::string_view text);
/// The script of the array job.
std::string slurm_script(const std::string& program, const Folder& folder, const Manifest& manifest,
                         const std::string& scratch);

/// The words of a shard's task.
std::vector<std::string> task_words(const Folder& folder, const Manifest& manifest, uint32_t shard,
                                    const std::string& scratch);

}  // namespace dxgkit::tool::campaign
