// Seeds, and the proof that a seed which should fail does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "sim/content.h"
#include "sim/known_traces.h"
#include "sim/process_pool.h"
#include "sim/seeds.h"
#include "sim/world.h"
#include "tests/support/covers.h"
#include "tests/support/descriptors.h"

namespace dxgkit::sim {
namespace {

const ::testing::Environment* const kNoInheritedDescriptors =
    ::testing::AddGlobalTestEnvironment(new testing::NoInheritedDescriptors);

/// The seeds of `make test`.
constexpr SeedRange kUsual{1, 1000};
constexpr uint32_t kReplayEvery = 25;

std::function<std::string(uint64_t)> replay(Canary canary) {
  return [canary](uint64_t seed) {
    std::string command = "DXGKIT_SIM_SEEDS=" + std::to_string(seed) + " ";
    if (canary != Canary::kNone)
      command +=
          "DXGKIT_SIM_CANARY=" + std::string(kCanaryNames[static_cast<size_t>(canary)]) + " ";
    return command + DXGKIT_SIM_PROGRAM + " --gtest_filter=Simulation.*";
  };
}

uint32_t workers() {
  const char* const text = std::getenv("DXGKIT_SIM_WORKERS");
  return text == nullptr ? 2 : static_cast<uint32_t>(std::atoi(text));
}

TEST(Simulation, SeedsKeepEveryByteAndDrain) {
  DXGKIT_COVERS("THUNK-08", "REND-21", "PAGE-12");
  RunSeeds options;
  options.seeds = kUsual;
  options.workers = workers();
  options.replay_every = kReplayEvery;
  if (const char* const path = std::getenv("DXGKIT_SIM_TRACE"); path != nullptr)
    options.trace_path = path;
  if (const char* const text = std::getenv("DXGKIT_SIM_SEEDS"); text != nullptr) {
    const auto seeds = parse_seeds(text);
    ASSERT_TRUE(seeds.has_value()) << "DXGKIT_SIM_SEEDS is first..last, not " << text;
    options.seeds = *seeds;
  }
  if (const char* const text = std::getenv("DXGKIT_SIM_CANARY"); text != nullptr) {
    for (size_t i = 0; i < kCanaryNames.size(); ++i) {
      if (kCanaryNames[i] == text) options.canary = static_cast<Canary>(i);
    }
  }
  if (std::getenv("DXGKIT_SIM_STOP") != nullptr) options.failures_most = 1;
  if (const char* const text = std::getenv("DXGKIT_SIM_SECONDS"); text != nullptr)
    options.seconds_most = static_cast<uint32_t>(std::atoi(text));
  options.replay = replay(options.canary);
  const char* const kept = std::getenv("DXGKIT_SIM_KEEP_TRACES");
  const std::map<uint64_t, uint64_t> known = known_traces();
  std::map<uint64_t, uint64_t> traces;
  options.on_seed = [&](const SeedResult& result) {
    if (!result.failure.empty() || options.canary != Canary::kNone) return;
    traces[result.seed] = result.trace_hash;
    const auto before = known.find(result.seed);
    if (kept == nullptr && before != known.end() && before->second != result.trace_hash)
      ADD_FAILURE() << another_trace(result.seed);
  };
  const SeedsReport report = run_seeds(options);
  if (kept != nullptr) {
    std::ofstream file(kept);
    for (const auto& [seed, hash] : traces) file << trace_line(seed, hash);
    EXPECT_TRUE(file.good()) << kept;
  }
  const std::string numbers = summary(
      report, std::to_string(options.seeds.first) + ".." + std::to_string(options.seeds.last));
  std::fputs(numbers.c_str(), stdout);
  if (const char* const path = std::getenv("DXGKIT_SIM_SUMMARY"); path != nullptr) {
    if (std::FILE* const file = std::fopen(path, "w"); file != nullptr) {
      std::fputs(numbers.c_str(), file);
      std::fclose(file);
    }
  }
  for (const SeedFailure& failure : report.failures)
    ADD_FAILURE() << "seed " << failure.seed << ": " << failure.what
                  << "\n  replay: " << failure.replay;
  if (options.seeds.count() < 200 || !report.failures.empty()) return;
  // A kind of fault that is never injected proves nothing.
  for (size_t i = 0; i < kFaultKinds; ++i)
    EXPECT_GT(report.counters.struck[i], 0U) << kFaultNames[i];
  // Some thunks are called by few clients: all of them take more seeds.
  const auto spared = std::ranges::count(report.counters.deaths, uint64_t{0});
  if (options.seeds.count() >= 1000) {
    EXPECT_LE(spared, options.seeds.count() >= 10'000 ? 0 : 8) << "thunks nobody died in";
  }
  EXPECT_GT(report.counters.evictions, 0U);
  EXPECT_GT(report.counters.multipass_paging, 0U);
  EXPECT_GT(report.counters.multipass_renders, 0U);
  EXPECT_GT(report.counters.splits, 0U);
  EXPECT_GT(report.counters.replays, 0U);
  EXPECT_GT(report.counters.openings, 0U);
  EXPECT_GT(report.counters.updates, 0U);
  EXPECT_GT(report.counters.common_uses, 0U);
  EXPECT_GT(report.counters.idle_ns, report.counters.simulated_ns / 4);
  EXPECT_GT(report.counters.window_uses, 0U);
  EXPECT_GT(report.counters.pages_walked, 0U);
}

/// A planted bug is found, and the report says how to see it again.
class CanaryTest : public ::testing::TestWithParam<Canary> {};
TEST_P(CanaryTest, DiesAndSaysWhere) {
  RunSeeds options;
  options.seeds = {1, 400};  // the rarest shows in one of 40
  options.canary = GetParam();
  options.workers = workers();
  options.replay = replay(GetParam());
  options.failures_most = 1;
  const SeedsReport report = run_seeds(options);
  ASSERT_FALSE(report.failures.empty());
  const SeedFailure& failure = report.failures.front();
  EXPECT_NE(failure.replay.find("DXGKIT_SIM_SEEDS=" + std::to_string(failure.seed)),
            std::string::npos)
      << failure.replay;
  // The command says all of it: the same seed alone fails the same way.
  const SeedOutcome again = run_seed({.seed = failure.seed, .canary = GetParam()});
  EXPECT_FALSE(again.passed());
  EXPECT_EQ(failure.what.substr(0, again.failure.size()), again.failure);
}
INSTANTIATE_TEST_SUITE_P(All, CanaryTest,
                         ::testing::Values(Canary::kModelLie, Canary::kDropTransfer, Canary::kLeak),
                         [](const auto& instance) {
                           return std::string(kCanaryNames[static_cast<size_t>(instance.param)]);
                         });

/// A world that loops forever is one that fails, and its worker does not outlive it.
TEST(Pool, KillsAWorkerThatDoesNotEnd) {
  std::vector<std::string> answers(4), deaths(4);
  PoolJob job;
  job.count = 4;
  job.workers = 2;
  job.seconds_most = 1;
  job.work = [](uint64_t index) {
    for (volatile bool forever = index == 1; forever;) {
    }
    return "done " + std::to_string(index);
  };
  job.done = [&](uint64_t index, std::string_view answer) {
    answers[index] = answer;
    return true;
  };
  job.died = [&](uint64_t index, std::string_view how) {
    deaths[index] = how;
    return true;
  };
  ASSERT_TRUE(run_pool(job));
  EXPECT_EQ(answers, (std::vector<std::string>{"done 0", "", "done 2", "done 3"}));
  EXPECT_EQ(deaths,
            (std::vector<std::string>{"", "it did not end within 1 s of real time", "", ""}));
}

TEST(Seeds, AreWrittenAsANumberOrARange) {
  EXPECT_EQ(parse_seeds("7")->last, 7U);
  EXPECT_EQ(parse_seeds("7..9")->count(), 3U);
  for (const char* const text : {"", "9..7", "x", "1..", "..1", "1...2", "-1"})
    EXPECT_FALSE(parse_seeds(text).has_value()) << text;
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

TEST(Content, FollowsFillsCopiesAndWrites) {
  Content content(16);
  EXPECT_FALSE(content.compare(0, std::vector<std::byte>(16)).has_value());  // zeros at first
  content.fill(4, 8, 0x04030201);
  EXPECT_FALSE(content.compare(4, bytes({1, 2, 3, 4, 1, 2, 3, 4})).has_value());
  content.copy(content, 4, 6, 4);  // onto itself
  EXPECT_FALSE(content.compare(4, bytes({1, 2, 1, 2, 3, 4, 3, 4})).has_value());
  content.write(0, bytes({9}));
  EXPECT_TRUE(content.compare(0, bytes({8})).has_value());
}

TEST(Content, LooksAtOpenBytesInPassing) {
  Content content(8);
  content.open(2, 2);
  EXPECT_FALSE(content.compare_in_passing(0, bytes({0, 0, 1, 2, 0, 0, 0, 0})).has_value());
  EXPECT_TRUE(content.compare_in_passing(0, bytes({0, 0, 1, 2, 3, 0, 0, 0})).has_value());
  EXPECT_FALSE(content.compare(0, bytes({0, 0, 5, 6, 0, 0, 0, 0})).has_value());
  EXPECT_TRUE(content.compare_in_passing(2, bytes({4})).has_value());
}

TEST(Content, AcceptsOpenBytesOnceAndKeepsThem) {
  Content content(8);
  content.open(2, 4);
  Content other(8);
  other.copy(content, 0, 1, 7);  // openness moves along
  EXPECT_TRUE(other.compare(0, bytes({0, 0, 7, 7, 7, 7, 7, 0})).has_value());  // byte 2 is not open
  EXPECT_FALSE(content.compare(0, bytes({0, 0, 5, 6, 7, 8, 0, 0})).has_value());
  EXPECT_TRUE(content.compare(2, bytes({4})).has_value());
  content.open(0, 8);
  content.fill(0, 4, 0);  // written for certain
  EXPECT_TRUE(content.compare(0, bytes({1})).has_value());
  EXPECT_FALSE(content.compare(4, bytes({1, 2, 3, 4})).has_value());
}

}  // namespace
}  // namespace dxgkit::sim
