// How far a campaign is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/dxgkit/campaign/shard_store.h"
#include "tools/dxgkit/campaign/task.h"

namespace dxgkit::tool::campaign {

struct Progress {
  uint64_t seeds = 0, ended = 0, failed = 0;  // ended: also in tasks at work
  uint32_t shards = 0, whole = 0;
  uint64_t per_hour = 0;       // seeds, of the tasks at work
  std::vector<Running> tasks;  // of shards that are not whole
  bool stopped = false;
};
/// A task that is silent for so long is taken for lost.
inline constexpr uint64_t kSilentMostS = 30;

Progress progress_of(const Folder& folder, const Manifest& manifest, ShardStore& store);
/// "[####....] 12 of 40 shards, 3100 of 10000 seeds, 0 failed, 280/s, 24 s left".
std::string line_of(const Progress& progress);
std::string text_of(const Progress& progress, const Manifest& manifest);
std::string json_of(const Progress& progress, const Manifest& manifest);

/// What came of the seeds, for people and programs.
std::string text_of(const Merged& merged, const Manifest& manifest);
std::string json_of(const Merged& merged, const Manifest& manifest);
/// All seeds ran, and all passed.
bool is_clean(const Merged& merged, const Manifest& manifest);

}  // namespace dxgkit::tool::campaign
