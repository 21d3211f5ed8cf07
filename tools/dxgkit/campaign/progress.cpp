#include "tools/dxgkit/campaign/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/spelling.h"

namespace dxgkit::tool::campaign {
namespace {

constexpr size_t kTasksShown = 32;
constexpr size_t kGroupsShown = 20;
constexpr size_t kSeedsShown = 8;

std::string time_text(uint64_t seconds) {
  if (seconds < 100) return fmt::format("{} s", seconds);
  return seconds < 6000 ? fmt::format("{} min", seconds / 60)
                        : fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string rate_text(uint64_t per_hour) {
  const double rate = static_cast<double>(per_hour) / 3600;
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : fmt::format("{:.0f}/s", rate);
}

std::string seeds_text(const Manifest& manifest) {
  return fmt::format("seeds {}..{}", manifest.seeds.first, manifest.seeds.last);
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Progress progress_of(const Folder& folder, const Manifest& manifest, ShardStore& store) {
  Progress progress;
  progress.seeds = manifest.seeds.count();
  progress.shards = manifest.shards;
  progress.stopped = access(folder.stop().c_str(), F_OK) == 0;
  for (uint32_t shard = 0; shard < manifest.shards; ++shard) {
    if (!store.is_whole(shard)) continue;
    const ShardStore::Count count = store.count(shard);
    ++progress.whole;
    progress.ended += count.seeds;
    progress.failed += count.failed;
  }
  std::map<uint32_t, const Running*> best;  // of two tasks for one shard, the one that is further
  progress.tasks = running_tasks(folder, manifest);
  std::erase_if(progress.tasks, [&](const Running& one) { return store.is_whole(one.shard); });
  for (const Running& one : progress.tasks) {
    if (one.silent_s > kSilentMostS) continue;
    const Running*& known = best[one.shard];
    if (known == nullptr || known->ended < one.ended) known = &one;
  }
  for (const auto& [shard, one] : best) {
    progress.ended += one->ended;
    progress.failed += one->failed;
    progress.per_hour += one->rate_per_hour;
  }
  return progress;
}

std::string line_of(const Progress& progress) {
  constexpr uint64_t kBar = 24;
  const double part = static_cast<double>(progress.ended) / static_cast<double>(progress.seeds);
  const auto full = std::min(kBar, static_cast<uint64_t>(part * kBar));
  std::string line =
      fmt::format("[{}{}] {} of {}, {} of {}, {} failed", std::string(full, '#'),
                  std::string(kBar - full, '.'), progress.whole, counted(progress.shards, "shard"),
                  progress.ended, counted(progress.seeds, "seed"), progress.failed);
  if (progress.per_hour == 0) return line;
  const double hours =
      static_cast<double>(progress.seeds - std::min(progress.seeds, progress.ended)) /
      static_cast<double>(progress.per_hour);
  return line + fmt::format(", {}, {} left", rate_text(progress.per_hour),
                            time_text(static_cast<uint64_t>(hours * 3600)));
}

std::string text_of(const Progress& progress, const Manifest& manifest) {
  std::string text =
      fmt::format("campaign: {}, {}\n{}\n", kWorkNames[static_cast<size_t>(manifest.work)],
                  seeds_text(manifest), line_of(progress));
  size_t shown = 0;
  for (const Running& one : progress.tasks) {
    if (++shown > kTasksShown) continue;
    text += fmt::format("  shard {} at {}: {} of {}, {} failed", one.shard + 1, one.where,
                        one.ended, counted(seeds_of(manifest, one.shard), "seed"), one.failed);
    text += one.silent_s > kSilentMostS
                ? fmt::format("; silent for {}, perhaps lost\n", time_text(one.silent_s))
                : fmt::format(", {}\n", rate_text(one.rate_per_hour));
  }
  if (shown > kTasksShown)
    text += fmt::format("  and {} more\n", counted(shown - kTasksShown, "task"));
  if (progress.stopped) text += "it is stopped: `dxgkit campaign run` goes on with it\n";
  return text;
}

std::string json_of(const Progress& progress, const Manifest& manifest) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const Running& one : progress.tasks)
    tasks.push_back({{"shard", one.shard + 1},
                     {"at", one.where},
                     {"seeds_ended", one.ended},
                     {"failed", one.failed},
                     {"seeds_per_hour", one.rate_per_hour},
                     {"silent_seconds", one.silent_s}});
  return dumped({{"work", kWorkNames[static_cast<size_t>(manifest.work)]},
                 {"first_seed", manifest.seeds.first},
                 {"last_seed", manifest.seeds.last},
                 {"seeds", progress.seeds},
                 {"seeds_ended", progress.ended},
                 {"failed", progress.failed},
                 {"shards", progress.shards},
                 {"shards_whole", progress.whole},
                 {"stopped", progress.stopped},
                 {"tasks", tasks}});
}

bool is_clean(const Merged& merged, const Manifest& manifest) {
  return merged.shards == manifest.shards && merged.report.failures.empty() &&
         merged.conflicts.empty() && merged.refused.empty();
}

std::string text_of(const Merged& merged, const Manifest& manifest) {
  std::string text;
  // Seeds that fail alike have the same first line.
  std::map<std::string, std::vector<uint64_t>> groups;
  for (const sim::SeedFailure& failure : merged.report.failures)
    groups[failure.what.substr(0, failure.what.find('\n'))].push_back(failure.seed);
  size_t shown = 0;
  for (const auto& [what, seeds] : groups) {
    if (++shown > kGroupsShown) continue;
    std::string numbers;
    for (size_t i = 0; i < std::min(seeds.size(), kSeedsShown); ++i)
      numbers += fmt::format("{}{}", i == 0 ? "" : ", ", seeds[i]);
    if (seeds.size() > kSeedsShown) numbers += ", ...";
    text += fmt::format("{} ({}): {}\n  replay: {}\n", counted(seeds.size(), "seed"), numbers, what,
                        replay_of(manifest, seeds.front()));
  }
  if (shown > kGroupsShown)
    text += fmt::format("and {} more\n", counted(shown - kGroupsShown, "failure"));
  for (const Conflict& conflict : merged.conflicts)
    text += fmt::format(
        "seed {} has two results, so something in it does not come from the seed:\n  {}\n  {}\n",
        conflict.seed, conflict.first, conflict.second);
  for (const std::string& why : merged.refused)
    text += fmt::format("refused: {}\n", printable(why));
  const uint64_t failed = merged.report.failures.size();
  text +=
      fmt::format("{}: {} passed, {} failed", seeds_text(manifest), merged.seeds - failed, failed);
  if (!merged.conflicts.empty())
    text += fmt::format(", {} left out for two results", merged.conflicts.size());
  if (merged.shards != manifest.shards)
    text += fmt::format("; {} of {} without results", manifest.shards - merged.shards,
                        counted(manifest.shards, "shard"));
  text += "\n";
  if (manifest.work != Work::kSim) return text;
  const sim::Counters& n = merged.report.counters;
  const auto struck = std::ranges::count_if(n.struck, [](uint64_t times) { return times != 0; });
  return text + fmt::format("  {}, {}, {} recovered from; kinds of faults that struck: {} of {}\n",
                            counted(n.packets, "packet"), counted(n.evictions, "eviction"),
                            counted(n.engine_timeouts, "timeout"), struck, sim::kFaultKinds);
}

std::string json_of(const Merged& merged, const Manifest& manifest) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const sim::SeedFailure& one : merged.report.failures)
    failures.push_back(
        {{"seed", one.seed}, {"text", one.what}, {"replay", replay_of(manifest, one.seed)}});
  nlohmann::ordered_json conflicts = nlohmann::ordered_json::array();
  for (const Conflict& one : merged.conflicts)
    conflicts.push_back({{"seed", one.seed}, {"results", {one.first, one.second}}});
  return dumped({{"first_seed", manifest.seeds.first},
                 {"last_seed", manifest.seeds.last},
                 {"seeds", manifest.seeds.count()},
                 {"seeds_ended", merged.seeds},
                 {"shards", manifest.shards},
                 {"shards_whole", merged.shards},
                 {"clean", is_clean(merged, manifest)},
                 {"failures", failures},
                 {"conflicts", conflicts},
                 {"refused", merged.refused}});
}

}  // namespace dxgkit::tool::campaign
