// Worlds of hostile processes: some seeds, and what the fuzzer has found worth keeping.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/d3dkmt/world.h"
#include "tests/support/covers.h"
#include "tests/support/descriptors.h"
#include "tests/support/known_run.h"

namespace dxgkit::fuzz {
namespace {

const ::testing::Environment* const kNoInheritedDescriptors =
    ::testing::AddGlobalTestEnvironment(new testing::NoInheritedDescriptors);

WorldOptions options() {
  WorldOptions options;
  if (std::getenv("DXGKIT_FUZZ_SHOW") != nullptr)
    options.log = [](const std::string& line) { std::puts(line.c_str()); };
  return options;
}

TEST(HostileProcesses, SeedsLeaveNothingBehind) {
  // DXGKIT_FUZZ_SEEDS=A..B for others, DXGKIT_FUZZ_SHOW=1 to see the calls.
  DXGKIT_COVERS("THUNK-01", "THUNK-02", "THUNK-05");
  unsigned long first = 1, last = 100;
  if (const char* const text = std::getenv("DXGKIT_FUZZ_SEEDS")) {
    testing::hold_no_runs();
    ASSERT_EQ(std::sscanf(text, "%lu..%lu", &first, &last), 2);
  }
  WorldCounts sum;
  for (unsigned long seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const WorldCounts counts = run_world(testing::Choices(seed), options());
    sum.calls += counts.calls;
    sum.succeeded += counts.succeeded;
    sum.blocked += counts.blocked;
    sum.processes += counts.processes;
    if (HasFailure()) break;
  }
  std::printf(
      "%llu calls of %llu processes, %llu succeeded, %llu blocked\n",
      static_cast<unsigned long long>(sum.calls), static_cast<unsigned long long>(sum.processes),
      static_cast<unsigned long long>(sum.succeeded), static_cast<unsigned long long>(sum.blocked));
  // Hostile, but not hopeless: they get to work.
  EXPECT_GT(sum.succeeded * 10, sum.calls);
}

TEST(HostileProcesses, TheFuzzersInputsLeaveNothingBehind) {
  // DXGKIT_FUZZ_INPUT: one file in place of the corpus.
  std::vector<std::filesystem::path> paths;
  if (const char* const one = std::getenv("DXGKIT_FUZZ_INPUT")) {
    testing::hold_no_runs();
    paths.emplace_back(one);
  } else {
    for (const auto& entry : std::filesystem::directory_iterator(DXGKIT_FUZZ_CORPUS))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  ASSERT_FALSE(paths.empty());
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    run_world(
        testing::Choices(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())),
        options());
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace dxgkit::fuzz
