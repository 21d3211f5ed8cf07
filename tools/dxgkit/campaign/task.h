// One shard of a campaign, on whatever machine.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/campaign/manifest.h"
#include "tools/dxgkit/campaign/shard_store.h"

namespace dxgkit::tool::campaign {

/// The places in a campaign's folder.
struct Folder {
  std::string path;
  std::string manifest() const { return path + "/campaign.json"; }
  std::string shards() const { return path + "/shards"; }
  std::string running() const { return path + "/running"; }
  std::string logs() const { return path + "/logs"; }
  std::string log_of(uint32_t shard) const {
    return logs() + "/" + ShardStore::name_of(shard) + ".txt";
  }
  /// Reproducers that tasks with Work::kFuzz found, one for each problem: all tasks see them.
  std::string found() const { return path + "/found"; }
  std::string merged() const { return path + "/results.sqlite"; }
  std::string stop() const { return path + "/stop"; }  // is there: tasks end, and none begins
  std::string jobs() const { return path + "/slurm_jobs"; }
  std::string script() const { return path + "/slurm.sh"; }
};

/// A task that is at work, or was when it last told.
struct Running {
  uint32_t shard = 0;
  std::string where;               // HOST.PROCESS
  uint64_t ended = 0, failed = 0;  // seeds
  uint64_t rate_per_hour = 0;      // seeds
  uint64_t silent_s = 0;           // since it last told
};
/// What tasks tell in FOLDER/running. Everything there may come from anybody.
std::vector<Running> running_tasks(const Folder& folder, const Manifest& manifest);
/// Removes what tasks of whole shards, and of process `where`, left behind.
void remove_traces(const Folder& folder, uint32_t shard, const std::string& where);

/// The words of the command that runs the seeds of a shard and keeps what came of them in
/// `database`, behind the program's name: for Work::kSim.
std::vector<std::string> sim_words(const Manifest& manifest, uint32_t shard,
                                   const std::string& database);
/// The command that runs one seed again, for a reader.
std::string replay_of(const Manifest& manifest, uint64_t seed);

/// How running a shard's seeds ended.
enum class SeedsEnd { kDone, kStopped };
/// Runs the seeds of a shard and makes the database `scratch`.sqlite. The error is a sentence.
/// @param scratch  beginning of the paths of files that it makes.
/// @param log      takes what the commands print; "" for nowhere.
/// @param on_tick  is called about once a second. False: end.
struct SeedsRun {
  const Manifest& manifest;
  uint32_t shard = 0;
  std::string scratch, log;
  std::string found;  // where reproducers go, for Work::kFuzz
  std::function<bool(ShardStore::Count)> on_tick;
};
std::expected<SeedsEnd, std::string> run_shard_seeds(const SeedsRun& run);

struct ShardOptions {
  std::string shard;    // "I/N"
  std::string scratch;  // a folder for the database that is being written; "": the campaign's
  bool again = false;   // run it though it is there, and compare
};
/// Runs a shard and keeps its results in the campaign's folder. Prints a line. kExitDone: they are
/// there, whoever made them, and whether seeds failed or not. kExitFailed: they are not, or another
/// task had others. kExitBadInput: the campaign is none, or of another program or driver.
/// kExitInterrupted: it was ended, or the campaign is stopped.
/// @param program  this program's identity, as in Manifest::program.
int shard_command(const Folder& folder, const ShardOptions& options, const std::string& program);

/// The campaign in a folder, if it is one of this program and its driver is as it was.
std::expected<Manifest, std::string> open_campaign(const Folder& folder);
std::optional<std::string> why_not_here(const Manifest& manifest, const std::string& program);

/// The last line of a log that says something; may be empty.
std::string last_line(const std::string& path);

}  // namespace dxgkit::tool::campaign
