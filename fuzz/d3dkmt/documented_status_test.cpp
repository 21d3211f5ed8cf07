// The answers of all functions to hostile processes, held against the statuses that the page of
// each function names. A status outside of them needs a line in a table, with a source; a line that
// nothing needs any more fails the test, so that the table can only shrink.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "dxgk/memory/sharing.h"
#include "dxgk/sync/keyed_mutex.h"
#include "fuzz/d3dkmt/world.h"
#include "tests/support/covers.h"
#include "tests/support/descriptors.h"
#include "tests/support/known_run.h"
#include "thunks/call.h"

namespace dxgkit::fuzz {
namespace {

const ::testing::Environment* const kNoInheritedDescriptors =
    ::testing::AddGlobalTestEnvironment(new testing::NoInheritedDescriptors);

using Statuses = std::map<std::string, std::set<std::string>, std::less<>>;

std::vector<std::vector<std::string>> lines_of(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, '\t');) cells.push_back(cell);
    lines.push_back(std::move(cells));
  }
  return lines;
}

Statuses documented() {
  Statuses sets;
  for (const std::vector<std::string>& line : lines_of(DXGKIT_DOCUMENTED_STATUSES)) {
    EXPECT_GE(line.size(), 2U) << line.front();
    std::istringstream names(line.size() < 2 ? "" : line[1]);
    for (std::string name; names >> name;) sets[line.front()].insert(name);
  }
  return sets;
}

/// Function and status of each exception, all of which have a reason and a source.
Statuses exceptions() {
  Statuses sets;
  for (const std::vector<std::string>& line : lines_of(DXGKIT_STATUS_EXCEPTIONS)) {
    EXPECT_EQ(line.size(), 4U) << line.front();
    if (line.size() != 4) continue;
    EXPECT_FALSE(line[2].empty() || line[3].empty()) << line[0] << " " << line[1];
    EXPECT_TRUE(sets[line[0]].insert(line[1]).second) << line[0] << " " << line[1] << ": twice";
  }
  return sets;
}

std::string name_of(NTSTATUS status) {
  // Statuses that base has no name for.
  static const std::map<Status, const char*> more = {
      {dxgk::kAbandoned, "ABANDONED"},
      {dxgk::kObjectTypeMismatch, "OBJECT_TYPE_MISMATCH"},
      {Status{0xC01E0002}, "GRAPHICS_INVALID_DISPLAY_ADAPTER"},
      {Status{0xC01E0006}, "GRAPHICS_PRESENT_OCCLUDED"},
      {Status{0xC01E0304}, "GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE"},
      {Status{0xC01E0323}, "GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN"},
      {Status{0xC01E0342}, "GRAPHICS_VIDPN_SOURCE_IN_USE"},
      {Status{0xC01E0355}, "GRAPHICS_INCOMPATIBLE_PRIVATE_FORMAT"}};
  constexpr NTSTATUS kLastWait = 8;  // STATUS_WAIT_8: the last place of an object
  if (status > 0 && status <= kLastWait) return "WAIT";
  if (const auto found = more.find(from_ntstatus(status)); found != more.end())
    return found->second;
  constexpr std::string_view kPrefix = "STATUS_";
  const std::string_view name = status_name(from_ntstatus(status));
  if (name.starts_with(kPrefix)) return std::string(name.substr(kPrefix.size()));
  char number[16];
  std::snprintf(number, sizeof number, "0x%08X", static_cast<uint32_t>(status));
  return number;
}

TEST(DocumentedStatuses, NoOtherAnswerComesButForTheExceptions) {
  DXGKIT_COVERS("THUNK-55");
  testing::hold_no_runs();  // the other worlds' traces are kept
  Statuses answers;
  WorldOptions options;
  options.calls_most = 1200;
  options.repeats = true;
  options.answered = [&answers](std::string_view call, NTSTATUS status) {
    // The process of the thread ended under its call.
    if (from_ntstatus(status) == thunks::kProcessIsTerminating) return;
    answers[std::string(call)].insert(name_of(status));
  };
  unsigned long first = 1, last = 60;
  if (const char* const text = std::getenv("DXGKIT_FUZZ_SEEDS")) {
    ASSERT_EQ(std::sscanf(text, "%lu..%lu", &first, &last), 2);
  }
  uint64_t calls = 0;
  for (unsigned long seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const auto later : {WorldOptions::Later::kNothing, WorldOptions::Later::kLost,
                             WorldOptions::Later::kStopped}) {
      for (const bool with_screen : {false, true}) {
        options.later = later;
        options.with_screen = with_screen;
        calls += run_world(testing::Choices(seed), options).calls;
      }
    }
  }
  const Statuses pages = documented(), excused = exceptions();
  Statuses unused = excused;
  size_t functions = 0, inside = 0;
  for (const hostile::Call& call : hostile::calls()) {
    const auto page = pages.find(call.name);
    if (page == pages.end()) continue;
    ++functions;
    bool leaves = false;
    EXPECT_FALSE(answers[call.name].empty()) << call.name << " was never called";
    for (const std::string& status : answers[call.name]) {
      if (page->second.contains(status)) continue;
      leaves = true;
      const auto exception = excused.find(call.name);
      EXPECT_TRUE(exception != excused.end() && exception->second.contains(status))
          << call.name << " answers " << status << ", which its page does not name";
      unused[call.name].erase(status);
    }
    inside += leaves ? 0 : 1;
  }
  for (const auto& [function, statuses] : unused) {
    for (const std::string& status : statuses)
      ADD_FAILURE() << function << " never answers " << status << ": take the exception out";
  }
  std::printf("%llu calls: %zu of %zu functions stay inside their documented statuses\n",
              static_cast<unsigned long long>(calls), inside, functions);
  EXPECT_GE(inside, 60U);
}

}  // namespace
}  // namespace dxgkit::fuzz
