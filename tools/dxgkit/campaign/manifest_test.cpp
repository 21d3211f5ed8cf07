// The file that says what a campaign is: what was written reads back, and anything else is refused.
#include "tools/dxgkit/campaign/manifest.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tools/dxgkit/campaign/engine.h"

namespace dxgkit::tool::campaign {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.program = "dxgkit 0.1.0 (abc)";
  manifest.work = Work::kVerify;
  manifest.driver = "a \"b\".sys";
  manifest.driver_bytes = 77;
  manifest.driver_crc32 = 0xFFFFFFFF;
  manifest.options = {"--client", "mine.so"};
  manifest.folder = "/home";
  manifest.worlds = " verify a";
  manifest.seeds = {5, 14};
  manifest.shards = 3;
  return manifest;
}

std::string with(const std::string& old, const std::string& fresh) {
  std::string text = to_text(example());
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), fresh);
}

std::string why(const std::string& text) {
  const auto read = parse_manifest(text);
  return read.has_value() ? "accepted" : read.error();
}

TEST(CampaignManifest, WhatWasWrittenReadsBack) {
  const auto read = parse_manifest(to_text(example()));
  ASSERT_TRUE(read.has_value()) << read.error();
  EXPECT_EQ(to_text(*read), to_text(example()));
  EXPECT_EQ(read->seeds.last, 14U);
  EXPECT_EQ(read->work, Work::kVerify);
}

TEST(CampaignManifest, TextFromAnybodyIsRefusedWithItsReason) {
  EXPECT_EQ(why(""), "it is no object of JSON");
  EXPECT_EQ(why("[]"), "it is no object of JSON");
  EXPECT_EQ(why("{}"), "its format is '', and this program's is 'dxgkit campaign 1'");
  EXPECT_EQ(why(with("campaign 1", "campaign 2")),
            "its format is 'dxgkit campaign 2', and this program's is 'dxgkit campaign 1'");
  EXPECT_EQ(why(with("\"verify\"", "\"format\"")), "'format' is no work of a campaign");
  EXPECT_EQ(why(with("\"shards\": 3", "\"shards\": 0")), "'shards' is not a number from 1 to 10");
  EXPECT_EQ(why(with("\"shards\": 3", "\"shards\": 11")), "'shards' is not a number from 1 to 10");
  EXPECT_EQ(why(with("\"shards\": 3", "\"shards\": -3")), "'shards' is not a number from 1 to 10");
  EXPECT_EQ(why(with("\"last_seed\": 14", "\"last_seed\": 4")),
            "'last_seed' is not a number from 5 to 9223372036854775807");
  EXPECT_EQ(why(with("\"last_seed\": 14", "\"last_seed\": 9223372036854775808")),
            "'last_seed' is not a number from 5 to 9223372036854775807");
  EXPECT_EQ(why(with("\"mine.so\"", "7")), "'options' is not a list of texts");
  EXPECT_EQ(why(with("mine.so", "a\\u001bb")),
            "'options' is not a text of at most 4096 bytes in one line");
  EXPECT_EQ(why(with("\"folder\": ", "\"older\": ")), "'folder' is not a text");
  EXPECT_EQ(why(std::string(2 << 20, ' ')), "it has 2097152 bytes, and 1048576 are allowed");
  EXPECT_NE(why(std::string(100, '[')), "accepted");
}

TEST(CampaignManifest, AllSeedsOfNumbersCanBeAsked) {
  Manifest manifest = example();
  manifest.seeds = {0, kSeedMost};
  manifest.shards = kShardsMost;
  ASSERT_TRUE(parse_manifest(to_text(manifest)).has_value());
  EXPECT_TRUE(has_seed(manifest, 7, 100'007));
  EXPECT_FALSE(has_seed(manifest, 7, 100'008));
}

TEST(CampaignManifest, EachSeedIsInOneShard) {
  const Manifest manifest = example();
  uint64_t all = 0;
  for (uint32_t shard = 0; shard < manifest.shards; ++shard) {
    uint64_t of_it = 0;
    for (uint64_t seed = 0; seed < 30; ++seed) of_it += has_seed(manifest, shard, seed) ? 1 : 0;
    EXPECT_EQ(of_it, seeds_of(manifest, shard));
    all += of_it;
  }
  EXPECT_EQ(all, manifest.seeds.count());
}

TEST(CampaignManifest, AShardIsAPartOfAll) {
  ASSERT_TRUE(parse_shard("3/8").has_value());
  EXPECT_EQ(parse_shard("3/8")->index, 2U);
  EXPECT_EQ(parse_shard("3/8")->shards, 8U);
  for (const char* const text : {"", "3", "/", "0/8", "9/8", "3/8x", "-1/8", "3/", "3//8"})
    EXPECT_FALSE(parse_shard(text).has_value()) << text;
}

TEST(SlurmWords, ShardsAreRangesOfAnArray) {
  EXPECT_EQ(array_of({0}), "1");
  EXPECT_EQ(array_of({0, 1, 2, 3}), "1-4");
  EXPECT_EQ(array_of({2, 3, 6, 8, 9}), "3-4,7,9-10");
}

TEST(SlurmWords, AJobIsANumber) {
  EXPECT_EQ(job_of("4711\n"), 4711U);
  EXPECT_EQ(job_of("4711;cluster\n"), 4711U);
  for (const char* const text : {"", "0", "-1", "x", "12x", "99999999999999999999"})
    EXPECT_FALSE(job_of(text).has_value()) << text;
}

TEST(SlurmWords, TheScriptQuotesWhatAShellWouldTakeApart) {
  Manifest manifest = example();
  EXPECT_EQ(slurm_script("/usr/bin/dxgkit", {"/data/it's here"}, manifest, "/tmp"),
            "#!/bin/sh\n# A task of a campaign: the shard that Slurm asks for.\n"
            "exec /usr/bin/dxgkit campaign shard '/data/it'\\''s here' --shard "
            "\"$SLURM_ARRAY_TASK_ID/3\" --scratch /tmp\n");
}

}  // namespace
}  // namespace dxgkit::tool::campaign
