// Shards, databases, shrinking, traces that part.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tools/dxgkit/files.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/sim/results.h"
#include "tools/dxgkit/sim/shrink.h"
#include "tools/dxgkit/sim/sim_options.h"
#include "tools/dxgkit/sim/trace_diff.h"

namespace dxgkit::tool {
namespace {

class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dxgkit-sim-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

/// Seed -> what is kept of it.
std::map<uint64_t, std::string> rows(const std::string& path) {
  std::map<uint64_t, std::string> rows;
  const auto results = Results::open(path);
  EXPECT_TRUE(results.has_value()) << results.error();
  if (!results.has_value()) return rows;
  EXPECT_FALSE(results
                   ->each([&](const sim::SeedResult& result) {
                     rows[result.seed] =
                         std::to_string(result.trace_hash) + " " + result.failure + " " +
                         std::string(reinterpret_cast<const char*>(&result.counters),
                                     sizeof(result.counters));
                   })
                   .has_value());
  return rows;
}

SimOptions small(const std::string& db) {
  SimOptions options;
  options.seeds = {1, 8};
  options.jobs = 2;
  options.twice_every = 4;
  options.quiet = true;
  options.db = db;
  options.worlds.changes.operations = 10;
  options.worlds.changes.clients = 1;
  return options;
}

using Sharded = InFolder;

TEST_F(Sharded, SeedsGiveTheSameResultsAsTogether) {
  ASSERT_EQ(sim_command(small(at("whole.db"))), kExitDone);
  std::vector<std::string> parts;
  for (uint32_t i = 0; i < 3; ++i) {
    SimOptions part = small(at("part" + std::to_string(i)));
    part.shard = i;
    part.shards = 3;
    part.jobs = i + 1;
    ASSERT_EQ(sim_command(part), kExitDone);
    parts.push_back(*part.db);
  }
  EXPECT_EQ(rows(parts[0]).size(), 3U);
  EXPECT_EQ(rows(parts[2]).size(), 2U);
  std::swap(parts[0], parts[2]);
  ASSERT_EQ(merge_command(at("merged.db"), parts), kExitDone);
  const auto whole = rows(at("whole.db"));
  EXPECT_EQ(whole.size(), 8U);
  EXPECT_EQ(rows(at("merged.db")), whole);
  // The same rows are the same bytes, however they came.
  ASSERT_EQ(merge_command(at("plain.db"), {at("whole.db")}), kExitDone);
  EXPECT_EQ(*read_file(at("plain.db")), *read_file(at("merged.db")));
  ASSERT_EQ(merge_command(at("plain.db"), {parts[1]}), kExitDone);  // into what is there
  EXPECT_EQ(*read_file(at("plain.db")), *read_file(at("merged.db")));
}

TEST_F(Sharded, AReplayIsHeldAgainstWhatWasKept) {
  ASSERT_EQ(sim_command(small(at("kept.db"))), kExitDone);
  ReplayOptions replay;
  replay.worlds = small("").worlds;
  replay.seed = 3;
  replay.db = at("kept.db");
  EXPECT_EQ(replay_command(replay), kExitDone);
  replay.worlds.changes.operations = 11;  // another run
  EXPECT_EQ(replay_command(replay), kExitFailed);
  replay.seed = 9;
  EXPECT_EQ(replay_command(replay), kExitFailed);  // not in there
}

TEST_F(Sharded, AReplayLeavesTheSameTraceEachTime) {
  ReplayOptions replay;
  replay.worlds = small("").worlds;
  replay.seed = 3;
  for (const char* const name : {"a.txt", "b.txt"}) {
    replay.trace = at(name);
    ASSERT_EQ(replay_command(replay), kExitDone);
  }
  EXPECT_EQ(diff_command(at("a.txt"), at("b.txt")), kExitDone);
  EXPECT_GT(read_file(at("a.txt"))->size(), 1000U);
  replay.worlds.changes.operations = 11;
  replay.trace = at("c.txt");
  ASSERT_EQ(replay_command(replay), kExitDone);
  EXPECT_EQ(diff_command(at("a.txt"), at("c.txt")), kExitFailed);
  EXPECT_EQ(diff_command(at("a.txt"), at("none.txt")), kExitBadInput);
}

TEST_F(Sharded, ReplayStopsAtAnEvent) {
  ReplayOptions replay;
  replay.worlds = small("").worlds;
  replay.seed = 3;
  replay.until = "no such text anywhere";
  EXPECT_EQ(replay_command(replay), kExitBadInput);
  replay.until = "D3DKMTCreateDevice";
  EXPECT_EXIT(replay_command(replay), ::testing::ExitedWithCode(kExitDone), "");
  replay.until = "100000000";  // it ends before that
  EXPECT_EQ(replay_command(replay), kExitFailed);
}

using Databases = InFolder;

TEST_F(Databases, OfOtherWorldsAreRefused) {
  ASSERT_TRUE(Results::open(at("a.db"), " --clients 1").has_value());
  EXPECT_FALSE(Results::open(at("a.db"), " --clients 2").has_value());
  EXPECT_TRUE(Results::open(at("a.db"), " --clients 1").has_value());
  ASSERT_TRUE(Results::open(at("b.db"), "").has_value());
  EXPECT_EQ(merge_command(at("m.db"), {at("a.db"), at("b.db")}), kExitBadInput);
}

TEST_F(Databases, ThatAreNoneOfOursAreRefused) {
  EXPECT_FALSE(Results::open(at("missing.db")).has_value());
  std::ofstream(at("text.db")) << std::string(5000, 'x');
  EXPECT_FALSE(Results::open(at("text.db")).has_value());
  EXPECT_FALSE(Results::open(at("text.db"), "").has_value());
  EXPECT_EQ(merge_command(at("m.db"), {at("text.db")}), kExitBadInput);
  SimOptions options = small(at("text.db"));
  EXPECT_EQ(sim_command(options), kExitBadInput);
}

TEST_F(Databases, TellOfRunsThatDiffer) {
  for (const char* const name : {"a.db", "b.db"}) {
    auto results = Results::open(at(name), "");
    sim::SeedResult result{.seed = 4, .counters = {}, .failure = ""};
    result.trace_hash = static_cast<uint64_t>(name[0]);
    ASSERT_FALSE(results->put(result).has_value());
    ASSERT_FALSE(results->flush().has_value());
  }
  EXPECT_EQ(merge_command(at("m.db"), {at("a.db"), at("b.db")}), kExitFailed);
}

TEST(Shrink, LeavesWhatTheFailureNeeds) {
  sim::WorldPlan plan;
  plan.client_count = 4;
  plan.operations = 100;
  plan.operations_healed = 20;
  const auto late = static_cast<size_t>(sim::FaultKind::kLateInterrupt);
  const auto pages = static_cast<size_t>(sim::FaultKind::kPages);
  plan.faults.rate[late] = 500;
  plan.faults.rate[pages] = 70;
  plan.faults.rate[0] = 1;
  const auto needs = [&](const sim::Changes& changes) {
    sim::FaultPlan faults = plan.faults;
    EXPECT_FALSE(faults.change(changes.faults).has_value());
    return faults.rate[late] == 500 && changes.clients.value_or(4) >= 2 &&
           changes.operations.value_or(100) >= 37;
  };
  const Shrunk shrunk = shrink(plan, {}, needs, [](const std::string&) {});
  EXPECT_TRUE(needs(shrunk.changes));
  EXPECT_EQ(shrunk.changes.faults, "none,late-interrupt=500");
  EXPECT_EQ(shrunk.changes.clients, 2U);
  EXPECT_EQ(shrunk.changes.operations, 37U);
  EXPECT_EQ(shrunk.changes.operations_healed, 0U);
  EXPECT_LT(shrunk.tries, 60U);
}

TEST(Shrink, TellsFailuresApartByTheirWordsNotTheirNumbers) {
  EXPECT_EQ(shape_of("client 1 after 20 calls: at 0x2a9 is 7\n more"),
            shape_of("client 3 after 5 calls: at 0x10ff is 12"));
  EXPECT_NE(shape_of("packet 3 ended twice"), shape_of("packet 3 never ended"));
}

TEST(TraceDiff, ShowsWhereTheyPart) {
  EXPECT_FALSE(diverge("a\nb\n", "a\nb\n").has_value());
  EXPECT_FALSE(diverge("", "").has_value());
  const auto found = diverge("a\nb\nc\n", "a\nx\nc\n");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->line, 2U);
  EXPECT_EQ(found->text, "  a\n- b\n- c\n+ x\n+ c\n");
  EXPECT_EQ(diverge("a\n", "a\nb\n")->text, "  a\n- (ends here)\n+ b\n");
}

TEST(FaultPlans, AreChangedByText) {
  sim::Random random(1);
  sim::FaultPlan plan = sim::FaultPlan::draw(random);
  const auto late = static_cast<size_t>(sim::FaultKind::kLateInterrupt);
  EXPECT_FALSE(plan.change("none,late interrupt=12").has_value());
  EXPECT_EQ(plan.text(), "none,late-interrupt=12");
  EXPECT_FALSE(plan.change("all,-late-interrupt").has_value());
  EXPECT_EQ(plan.rate[late], 0U);
  EXPECT_NE(plan.rate[0], 0U);
  EXPECT_FALSE(plan.change("late-interrupt").has_value());
  EXPECT_EQ(plan.rate[late], plan.drawn[late]);
  for (const char* const text : {"nonsense", "late interrupt=x", "late interrupt=1000001",
                                 "-late interrupt=4", "all,,none", "late interrupt="})
    EXPECT_TRUE(plan.change(text).has_value()) << text;
}

/// Memory beyond what seeds draw, in any kind of world; and no other change of the plan.
TEST(Worlds, HaveAtLeastTheMemoryThatIsAskedFor) {
  constexpr uint64_t kAsked = uint64_t{1} << 30;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    sim::SeedOptions options{.seed = seed};
    const sim::WorldPlan drawn = sim::WorldPlan::draw(options);
    EXPECT_LT(drawn.system_bytes, kAsked) << seed;
    options.changes.memory_bytes = kAsked;
    const sim::WorldPlan more = sim::WorldPlan::draw(options);
    EXPECT_EQ(more.system_bytes, kAsked) << seed;
    EXPECT_EQ(more.client_count, drawn.client_count) << seed;
    options.changes.memory_bytes = 1;
    EXPECT_EQ(sim::WorldPlan::draw(options).system_bytes, drawn.system_bytes) << seed;
  }
  Worlds worlds;
  worlds.changes = {.memory_bytes = kAsked, .processors = 4};
  EXPECT_EQ(worlds.as_options(), " --processors 4 --memory 1073741824");
}

}  // namespace
}  // namespace dxgkit::tool
