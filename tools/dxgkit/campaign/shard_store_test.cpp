// Shards' results as files: in any order, twice, broken, forged, and with two results for a seed.
#include "tools/dxgkit/campaign/shard_store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/dxgkit/files.h"
#include "tools/dxgkit/sim/results.h"

namespace dxgkit::tool::campaign {
namespace {

namespace fs = std::filesystem;
using Commit = ShardStore::Commit;

sim::SeedResult result_of(uint64_t seed) {
  sim::SeedResult result;
  result.seed = seed;
  result.trace_hash = seed * 0x9e3779b97f4a7c15;
  result.counters.seeds = 1;
  result.counters.packets = seed;
  if (seed % 7 == 0) result.failure = "unlucky\n  the world: small";
  return result;
}

class ShardFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dxgkit-campaign-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    manifest_.worlds = " --clients 1";
    manifest_.seeds = {10, 39};
    manifest_.shards = 4;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string campaign(const std::string& name) const {
    fs::create_directories(folder_ + "/" + name + "/shards");
    return folder_ + "/" + name;
  }
  /// A database with a shard's rows, backwards if asked for, with one changed.
  std::string database(const Manifest& manifest, uint32_t shard, bool backwards = false,
                       uint64_t changed = 0) {
    const std::string path = folder_ + "/" + std::to_string(++made_) + ".sqlite";
    auto results = Results::open(path, manifest.worlds);
    EXPECT_TRUE(results.has_value()) << results.error();
    std::vector<uint64_t> seeds;
    for (uint64_t seed = manifest.seeds.first; seed <= manifest.seeds.last; ++seed)
      if (has_seed(manifest, shard, seed)) seeds.push_back(seed);
    if (backwards) seeds = {seeds.rbegin(), seeds.rend()};
    for (const uint64_t seed : seeds) {
      sim::SeedResult row = result_of(seed);
      if (seed == changed) row.trace_hash = 1;
      EXPECT_FALSE(results->put(row).has_value());
    }
    EXPECT_FALSE(results->flush().has_value());
    return path;
  }
  std::string bytes(const std::string& path) {
    const auto read = read_file(path);
    EXPECT_TRUE(read.has_value()) << read.error();
    return read.value_or("");
  }
  void execute(const std::string& path, const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  std::string folder_;
  Manifest manifest_;
  int made_ = 0;
};

TEST_F(ShardFiles, MergeToTheSameBytesWhateverShardsOrderAndDoubles) {
  Manifest one = manifest_;
  one.shards = 1;
  ShardStore whole(campaign("whole"), one);
  ASSERT_EQ(whole.commit(0, database(one, 0)), Commit::kKept);
  const auto together = whole.merge(folder_ + "/whole.out");
  ASSERT_TRUE(together.has_value()) << together.error();
  EXPECT_EQ(together->seeds, 30U);
  EXPECT_EQ(together->report.failures.size(), 4U);

  ShardStore store(campaign("parts"), manifest_);
  for (const uint32_t shard : {2U, 0U, 3U, 1U}) {
    EXPECT_FALSE(store.is_whole(shard));
    ASSERT_EQ(store.commit(shard, database(manifest_, shard, shard % 2 == 0)), Commit::kKept);
    EXPECT_EQ(store.commit(shard, database(manifest_, shard, shard % 2 == 1)), Commit::kSame);
    EXPECT_TRUE(store.is_whole(shard));
  }
  EXPECT_TRUE(store.missing().empty());
  const auto merged = store.merge(folder_ + "/parts.out");
  ASSERT_TRUE(merged.has_value()) << merged.error();
  EXPECT_EQ(bytes(folder_ + "/parts.out"), bytes(folder_ + "/whole.out"));
  ASSERT_TRUE(store.merge(folder_ + "/parts.out").has_value());  // again, over it
  EXPECT_EQ(bytes(folder_ + "/parts.out"), bytes(folder_ + "/whole.out"));
  EXPECT_EQ(merged->report.counters.packets, together->report.counters.packets);
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : fs::directory_iterator(folder_ + "/parts/shards"))
    ++files;
  EXPECT_EQ(files, 4U);  // nothing else is left
}

TEST_F(ShardFiles, TwoResultsOfASeedAreToldAndInNeitherForm) {
  ShardStore store(campaign("c"), manifest_);
  for (uint32_t shard = 0; shard < 4; ++shard)
    ASSERT_EQ(store.commit(shard, database(manifest_, shard)), Commit::kKept);
  const std::string before = bytes(store.path_of(1));
  EXPECT_EQ(store.commit(1, database(manifest_, 1, false, 15)), Commit::kDiffers);
  EXPECT_EQ(bytes(store.path_of(1)), before);
  const auto merged = store.merge(folder_ + "/out");
  ASSERT_TRUE(merged.has_value()) << merged.error();
  ASSERT_EQ(merged->conflicts.size(), 1U);
  EXPECT_EQ(merged->conflicts[0].seed, 15U);
  EXPECT_EQ(merged->conflicts[0].second, "trace 0000000000000001, passed");
  EXPECT_EQ(merged->seeds, 29U);
  const auto rows = Results::open(folder_ + "/out")->count();
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->rows, 29U);
}

TEST_F(ShardFiles, ThatLackSeedsAreNotTaken) {
  ShardStore store(campaign("c"), manifest_);
  const std::string path = database(manifest_, 2);
  execute(path, "DELETE FROM seed WHERE seed = 16");
  const auto kept = store.commit(2, path);
  ASSERT_FALSE(kept.has_value());
  EXPECT_NE(kept.error().find("it has 6 of 7 seeds"), std::string::npos) << kept.error();
  EXPECT_FALSE(store.is_whole(2));
  EXPECT_TRUE(fs::is_empty(folder_ + "/c/shards"));
  const auto other = store.commit(2, database(manifest_, 1));
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().find("seed 11 is not one of shard 3"), std::string::npos)
      << other.error();
}

TEST_F(ShardFiles, FromAnybodyAreRefusedWithTheirReason) {
  const std::string folder = campaign("c");
  const auto refused = [&](const std::string& wanted) {
    ShardStore store(folder, manifest_);
    EXPECT_FALSE(store.is_whole(0)) << wanted;
    const std::string why = store.why_refused(0);
    EXPECT_NE(why.find(wanted), std::string::npos) << why;
    const auto merged = store.merge(folder_ + "/out");
    ASSERT_TRUE(merged.has_value()) << merged.error();
    EXPECT_EQ(merged->seeds, 0U);
    EXPECT_EQ(merged->refused.size(), 1U);
    ASSERT_TRUE(store.put_aside(0).has_value());
    EXPECT_EQ(store.why_refused(0), "");
  };
  const ShardStore store(folder, manifest_);
  const auto forge = [&](const char* sql) {
    fs::copy_file(database(manifest_, 0), store.path_of(0));
    execute(store.path_of(0), sql);
  };
  std::ofstream(store.path_of(0)) << std::string(10'000, 'x');
  refused("file is not a database");
  std::ofstream(store.path_of(0)) << "";
  refused("tables are missing");
  fs::create_directory(store.path_of(0));
  refused("disk I/O error");
  forge("DELETE FROM seed");
  refused("it has 0 of 8 seeds");
  forge("UPDATE seed SET seed = 11 WHERE seed = 10");
  refused("seed 11 is not one of shard 1");
  forge("UPDATE seed SET seed = -1 WHERE seed = 10");
  refused("is not one of shard 1");
  forge("UPDATE seed SET trace_hash = 'zzzzzzzzzzzzzzzz' WHERE seed = 14");
  refused("the hash of seed 14 is none");
  forge("UPDATE seed SET counters = x'00' WHERE seed = 14");
  refused("the numbers of seed 14 are of another size");
  forge("UPDATE run SET value = ' --clients 2' WHERE key = 'worlds'");
  refused("its worlds are ' --clients 2'");
  forge("UPDATE run SET value = 'other' WHERE key = 'format'");
  refused("its format is 'other'");
  forge("DELETE FROM run");
  refused("it does not say its format");
  // Without end, if it were read.
  forge(
      "DROP TABLE seed; CREATE VIEW seed AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
      " FROM n) SELECT i AS seed, 0 AS died, '' AS trace_hash, '' AS failure, '' AS counters FROM "
      "n");
  refused("it has other tables");
  forge("CREATE TRIGGER t AFTER INSERT ON seed BEGIN DELETE FROM seed; END");
  refused("it has other tables");
}

TEST_F(ShardFiles, EveryChangedByteIsSeenOrHarmless) {
  // A shard file with a byte changed is refused, or it is read as rows of the shard: it never ends
  // the program. Which of both is SQLite's business.
  ShardStore source(campaign("source"), manifest_);
  ASSERT_EQ(source.commit(0, database(manifest_, 0)), Commit::kKept);
  const std::string good = bytes(source.path_of(0));
  const std::string folder = campaign("c");
  uint64_t refusals = 0;
  for (size_t at = 0; at < good.size(); at += 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0xA5);
    ShardStore store(folder, manifest_);
    ASSERT_TRUE(write_file(store.path_of(0), bad).has_value());
    if (store.is_whole(0)) {
      EXPECT_EQ(store.count(0).seeds, 8U);
    } else {
      ++refusals;
      EXPECT_NE(store.why_refused(0), "");
    }
  }
  EXPECT_GT(refusals, 10U);
}

TEST_F(ShardFiles, ABrokenOneIsPutAsideAndRunsAgain) {
  ShardStore store(campaign("c"), manifest_);
  std::ofstream(store.path_of(0)) << "broken";
  const auto kept = store.commit(0, database(manifest_, 0));
  EXPECT_FALSE(kept.has_value());  // nobody overwrites it by accident
  EXPECT_EQ(bytes(store.path_of(0)), "broken");
  const auto aside = store.put_aside(0);
  ASSERT_TRUE(aside.has_value()) << aside.error();
  EXPECT_EQ(bytes(*aside), "broken");
  EXPECT_EQ(store.commit(0, database(manifest_, 0)), Commit::kKept);
}

TEST(Printable, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a?[2Jb\nc?");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m \xC3\xA4"),
            "\xC2?1m \xC3\xA4");
}

}  // namespace
}  // namespace dxgkit::tool::campaign
