// What tasks tell in the campaign's folder, and what a run of verify is as a seed's result.
#include "tools/dxgkit/campaign/task.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/dxgkit/campaign/progress.h"
#include "tools/dxgkit/campaign/seed_report.h"

namespace dxgkit::tool::campaign {
namespace {

namespace fs = std::filesystem;

class Notes : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dxgkit-campaign-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_.path = name;
    fs::create_directories(folder_.running());
    fs::create_directories(folder_.shards());
    manifest_.seeds = {1, 100};
    manifest_.shards = 4;
  }
  void TearDown() override { fs::remove_all(folder_.path); }
  void note(const std::string& name, const std::string& text) {
    std::ofstream(folder_.running() + "/" + name) << text;
  }

  Folder folder_;
  Manifest manifest_;
};

TEST_F(Notes, TellWhatIsAtWork) {
  note("0000002.host.77.json", R"({"ended": 10, "failed": 1, "per_hour": 7200})");
  note("0000002.other.78.json", R"({"ended": 4, "failed": 0, "per_hour": 3600})");
  note("0000004.host.79.json", R"({"ended": 5, "failed": 0, "per_hour": 3600})");
  const auto tasks = running_tasks(folder_, manifest_);
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks[0].shard, 1U);
  EXPECT_EQ(tasks[0].where, "host.77");
  EXPECT_EQ(tasks[2].ended, 5U);
  ShardStore store(folder_.path, manifest_);
  const Progress progress = progress_of(folder_, manifest_, store);
  EXPECT_EQ(progress.ended, 15U);  // of two tasks for one shard, one counts
  EXPECT_EQ(progress.failed, 1U);
  EXPECT_EQ(progress.per_hour, 10'800U);
  EXPECT_EQ(
      line_of(progress),
      "[###.....................] 0 of 4 shards, 15 of 100 seeds, 1 failed, 3.0/s, 28 s left");
}

TEST_F(Notes, FromAnybodyDoNoHarm) {
  note("0000000.host.1.json", "{}");
  note("0000005.host.1.json", "{}");
  note("00000x1.host.1.json", "{}");
  note("0000001.json", "{}");
  note(".json", "{}");
  note("0000001.host.1.json", "no JSON");
  note("0000001.host.2.json", std::string(100'000, ' ') + "{}");
  note("0000001.host.3.json", R"({"ended": 1e99, "failed": -1, "per_hour": 18446744073709551615})");
  note("0000001.\x1b[2J.4.json", R"({"ended": 999999, "failed": 999999})");
  fs::create_directory(folder_.running() + "/0000001.host.5.json");
  const auto tasks = running_tasks(folder_, manifest_);
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0].where, "?[2J.4");
  EXPECT_EQ(tasks[0].ended, 25U);  // no more than the shard has
  EXPECT_EQ(tasks[1].ended, 0U);
  EXPECT_EQ(tasks[1].rate_per_hour, uint64_t{1} << 40);
}

TEST_F(Notes, OfATaskCanBeRemoved) {
  note("0000002.host.77.json", "{}");
  note("0000002.host.77.sqlite", "");
  note("0000002.host.78.json", "{}");
  remove_traces(folder_, 1, "host.77");
  EXPECT_FALSE(fs::exists(folder_.running() + "/0000002.host.77.json"));
  EXPECT_FALSE(fs::exists(folder_.running() + "/0000002.host.77.sqlite"));
  EXPECT_TRUE(fs::exists(folder_.running() + "/0000002.host.78.json"));
}

TEST(VerifiedSeed, HasTheFindingsOfItsReport) {
  const std::string json = R"({"verdict": "1 finding", "steps": [
    {"name": "load", "outcome": "ok", "text": "", "findings": []},
    {"name": "work", "outcome": "failed", "text": "late",
     "findings": [{"rule": "PAGE-05", "ddi": "DxgkDdiX", "actual": "Wrong."}]}]})";
  const auto result = verified_seed(7, 3, json);
  ASSERT_TRUE(result.has_value()) << result.error();
  EXPECT_EQ(result->seed, 7U);
  EXPECT_EQ(result->failure, "1 finding\n  step work failed: late\n  PAGE-05 in DxgkDdiX: Wrong.");
  EXPECT_NE(result->trace_hash, verified_seed(7, 3, json + " ")->trace_hash);
  const auto clean = verified_seed(8, 0, json);
  ASSERT_TRUE(clean.has_value());
  EXPECT_EQ(clean->failure, "");
}

TEST(VerifiedSeed, IsNoneIfTheCommandDidNotWork) {
  EXPECT_EQ(verified_seed(7, 2, "{}").error(), "verify ended with code 2 for seed 7");
  EXPECT_EQ(verified_seed(7, 130, R"({"steps": []})").error(),
            "verify ended with code 130 for seed 7");
  for (const char* const text : {"", "[]", "{}", R"({"steps": 3})"})
    EXPECT_EQ(verified_seed(7, 1, text).error(), "verify left no report for seed 7") << text;
  EXPECT_EQ(verified_seed(7, 1, R"({"steps": [3, {"findings": [3]}]})")->failure, "exit code 1");
}

TEST(FuzzedSeed, HasTheProblemsOfItsReport) {
  const std::string json = R"({"problems": [
    {"key": "NT-1 in A", "reproducer": "/x/NT-1-in-A.fuzz"}, {"key": "hang in B", "reproducer": "B.fuzz"}, 3,
    {"key": "c", "reproducer": "a/.."}, {"key": "d", "reproducer": "a/"}, {"key": "e", "reproducer": "a/b c"}]})";
  const auto fuzzed = fuzzed_seed(7, 3, json);
  ASSERT_TRUE(fuzzed.has_value()) << fuzzed.error();
  EXPECT_EQ(fuzzed->result.failure, "NT-1 in A\nhang in B\nc\nd\ne");
  EXPECT_EQ(fuzzed->files, (std::vector<std::string>{"NT-1-in-A.fuzz", "B.fuzz"}));
  EXPECT_EQ(fuzzed_seed(7, 0, R"({"problems": []})")->result.failure, "");
  EXPECT_EQ(fuzzed_seed(7, 4, R"({"problems": []})")->result.failure, "exit code 4");
  EXPECT_EQ(fuzzed_seed(7, 2, json).error(), "fuzz ended with code 2 for seed 7");
  EXPECT_EQ(fuzzed_seed(7, 1, "{}").error(), "fuzz left no report for seed 7");
}

}  // namespace
}  // namespace dxgkit::tool::campaign
