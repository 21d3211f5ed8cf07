// The results of a campaign's shards, as files in its folder.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/dxgkit/campaign/manifest.h"

namespace dxgkit::tool::campaign {

/// A seed for which a shard gave two results: something in it does not come from the seed.
struct Conflict {
  uint64_t seed = 0;
  std::string first, second;  // a line each
};

/// What came of the seeds.
struct Merged {
  uint64_t seeds = 0;                // in the merged database
  uint64_t shards = 0;               // that are whole
  sim::SeedsReport report;           // without replay commands
  std::vector<Conflict> conflicts;   // by seed; these seeds are left out
  std::vector<std::string> refused;  // files that are no results of their shard, a sentence each
};

/// FOLDER/shards. A shard's file appears at once and whole, and never changes. Many processes on
/// many machines may commit at the same time. Everything in the folder may come from anybody.
class ShardStore {
 public:
  ShardStore(std::string folder, const Manifest& manifest);

  /// "0000007": a shard's name in files, which counts from 1 as `--shard I/N` does.
  static std::string name_of(uint32_t shard);
  std::string path_of(uint32_t shard) const;

  /// There is a file, and it has every seed of the shard once, of this campaign's worlds, and no
  /// other. What was whole stays so, and is not looked at again by this object.
  bool is_whole(uint32_t shard);
  /// Why the shard's file is not whole; empty if there is none.
  std::string why_refused(uint32_t shard) const;
  std::vector<uint32_t> missing();
  /// Renames a shard's file that is not whole, so that the shard can run again. Its new path.
  std::expected<std::string, std::string> put_aside(uint32_t shard);

  enum class Commit {
    kKept,
    kSame,     // the shard was there, with the same results
    kDiffers,  // it was there with others: these are kept beside it, and merge() tells of them
  };
  /// Makes the rows of `database` the shard's result. On an error nothing has changed.
  /// @param database  closed; complete. It stays.
  std::expected<Commit, std::string> commit(uint32_t shard, const std::string& database);

  /// Seeds of a whole shard, and those of them that failed.
  struct Count {
    uint64_t seeds = 0, failed = 0;
  };
  Count count(uint32_t shard);

  /// Writes the results of all whole shards to `out`, whose bytes depend on these results only: not
  /// on the number of shards, their order, or on shards that ran twice. Replaces it as a whole.
  std::expected<Merged, std::string> merge(const std::string& out);

 private:
  /// Calls `take` for each row of a file, if it is whole. Otherwise the reason.
  std::optional<std::string> read(uint32_t shard, const std::string& path,
                                  const std::function<void(const sim::SeedResult&)>& take) const;
  std::vector<std::string> other_results(uint32_t shard) const;

  const std::string folder_;
  const Manifest& manifest_;
  std::vector<std::optional<Count>> whole_;  // by shard
};

/// Text from anybody, for a terminal: control characters become '?', but line breaks stay.
std::string printable(std::string_view text);

}  // namespace dxgkit::tool::campaign
