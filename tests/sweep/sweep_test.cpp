// Each story without a fault, and then with one fault at each point where that kind may strike.
//
//   DXGKIT_SWEEP="patching fails 17" dxgkit_sweep_test     one run
//   ... DXGKIT_TEST_TRACES=FOLDER                          and its trace and findings, as files
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/known_run.h"
#include "tests/sweep/known_lines.h"
#include "tests/sweep/story.h"
#include "trace/trace.h"

namespace dxgkit::sweep {
namespace {

/// The longest that a story and its recoveries take; later is a hang.
constexpr int64_t kTimeLimit = 300 * runtime::kSecond;
constexpr size_t kFailuresShown = 5;

/// What happened in one run.
struct StoryRun {
  std::string where;  // the point's name
  Ending ending = Ending::kNotStarted;
  uint64_t trace_hash = 0;
  size_t left_objects = 0;
  std::string findings;
  std::vector<Point> ddis, callbacks;
  bool struck = false;
};

/// Points that are left out, and why.
struct KnownGap {
  std::string_view story, kind, ddi, reason;
};
constexpr std::string_view kOrderIsChecked =
    "the scripted driver was not called, and checks that parts go before their whole";
constexpr std::string_view kNeverCompleted =
    "the driver completes no transition then, and calls wait for ever (point 14)";
constexpr std::array kKnownGaps = {
    KnownGap{"hw_queues", "fails", "DxgkDdiDestroyHwQueue", kOrderIsChecked},
    KnownGap{"hw_queues", "breaks", "DxgkDdiDestroyHwQueue", kOrderIsChecked},
    KnownGap{"native_fences", "fails", "DxgkDdiCloseNativeFence", kOrderIsChecked},
    KnownGap{"native_fences", "breaks", "DxgkDdiCloseNativeFence", kOrderIsChecked},
    KnownGap{"components", "fails", "DxgkDdiSetPowerComponentFState", kNeverCompleted},
    KnownGap{"components", "breaks", "DxgkDdiSetPowerComponentFState", kNeverCompleted},
    KnownGap{"components", "callback", "DxgkCbCompleteFStateTransition", kNeverCompleted},
};

/// What runs now, for a crash: a signal's handler may only write it.
std::array<char, 256> now_running{};

void write_files(const trace::Recorder& recorder, const StoryRun& run, const std::string& name) {
  const char* const folder = std::getenv("DXGKIT_TEST_TRACES");
  if (folder == nullptr || std::getenv("DXGKIT_SWEEP") == nullptr) return;
  std::filesystem::create_directories(folder);
  std::ofstream(fmt::format("{}/{}.trace.txt", folder, name))
      << trace::to_text({.events = recorder.events(), .names = recorder.names(), .threads = {}});
  std::ofstream(fmt::format("{}/{}.findings.txt", folder, name)) << run.findings;
}

/// Of the run that is under way, for one that is replayed and crashes.
const trace::Recorder* recording = nullptr;

void say_what_ran(int number) {
  std::signal(number, SIG_DFL);
  static_cast<void>(!write(STDERR_FILENO, now_running.data(), std::strlen(now_running.data())));
  if (recording != nullptr) write_files(*recording, {}, "crash");
  static_cast<void>(raise(number));
}

std::string replay_of(const Story& story, FaultKind kind, size_t at) {
  return fmt::format("DXGKIT_SWEEP=\"{} {} {}\"", story.name,
                     kFaultNames[static_cast<size_t>(kind)], at);
}

StoryRun run_story(const Story& story, std::optional<Striker::Strike> strike) {
  StoryRun run;
  const auto runtime =
      runtime::make_sim_runtime({.seed = 1, .time_limit = kTimeLimit, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    runtime::Runtime& current = runtime::Runtime::current();
    trace::Recorder recorder({.now_ns = [&current] { return current.now(); },
                              .thread = [&current] { return current.thread_number(); }});
    trace::set_current(&recorder);
    recording = &recorder;
    Scene scene(strike);
    scene.on_end = [&](const verifier::Findings& findings) {
      for (const verifier::Finding& finding : findings.all())
        run.findings += testing::text_of(finding);
    };
    story.tell(scene);
    trace::set_current(nullptr);
    recording = nullptr;
    run.where = scene.striker.where();
    run.struck = scene.striker.has_struck();
    run.ending = scene.ending;
    run.trace_hash = testing::hash_of(recorder);
    run.left_objects = scene.left_objects;
    run.ddis = scene.striker.ddis();
    run.callbacks = scene.striker.callbacks();
    for (const std::string& complaint : scene.complaints) ADD_FAILURE() << complaint;
    size_t inside = 0;
    for (const trace::Event& event : recorder.events()) {
      inside += event.kind == static_cast<uint16_t>(trace::EventKind::kThunkEnter) ? 1 : 0;
      inside -= event.kind == static_cast<uint16_t>(trace::EventKind::kThunkExit) ? 1 : 0;
    }
    EXPECT_EQ(inside, 0U) << "calls that did not come back";
    write_files(recorder, run,
                strike.has_value()
                    ? fmt::format("{}-{}-{}", story.name,
                                  kFaultNames[static_cast<size_t>(strike->kind)], strike->at)
                    : std::string(story.name));
  });
  return run;
}

/// Without a fault; the same run serves all kinds.
const StoryRun& plain_run(const Story& story) {
  static std::map<std::string_view, StoryRun> runs;
  const auto found = runs.find(story.name);
  if (found != runs.end()) return found->second;
  SCOPED_TRACE(fmt::format("{} without a fault", story.name));
  return runs[story.name] = run_story(story, std::nullopt);
}

/// Whether that kind of fault means something there.
bool may_strike(FaultKind kind, const Point& point) {
  if (kind == FaultKind::kExit) return point.client_lives;
  if (kind == FaultKind::kFails || kind == FaultKind::kBreaks) return point.answers;
  return true;
}

/// The gap that the point is in; null: it is in none.
const KnownGap* gap_of(const Story& story, FaultKind kind, const Point& point) {
  for (const KnownGap& gap : kKnownGaps) {
    const bool same_run =
        gap.story == story.name && gap.kind == kFaultNames[static_cast<size_t>(kind)];
    if (same_run && gap.ddi == point.name) return &gap;
  }
  return nullptr;
}

StoryRun run_point(const Story& story, FaultKind kind, size_t at, const Point& point) {
  const std::string replay = replay_of(story, kind, at);
  const std::string text =
      fmt::format("{}: {} at {}, call {}; {}\n", story.name, kFaultNames[static_cast<size_t>(kind)],
                  point.name, at, replay);
  now_running.fill(0);
  std::memcpy(now_running.data(), text.data(), std::min(text.size(), now_running.size() - 1));
  SCOPED_TRACE(text);
  StoryRun run = run_story(story, Striker::Strike{kind, at});
  EXPECT_TRUE(run.struck) << "the point was not reached";
  EXPECT_EQ(run.where, point.name) << "the point was another";
  return run;
}

class SweepTest : public ::testing::Test {
 public:
  SweepTest(const Story& story, FaultKind kind) : story_(story), kind_(kind) {}

 protected:
  void SetUp() override {
    testing::hold_no_runs();
    previous_ = std::signal(SIGABRT, say_what_ran);
  }
  void TearDown() override { std::signal(SIGABRT, previous_); }

  void TestBody() override {
    const StoryRun& plain = plain_run(story_);
    const std::vector<Point>& points = kind_ == FaultKind::kCallback ? plain.callbacks : plain.ddis;
    if (const char* const asked = std::getenv("DXGKIT_SWEEP"); asked != nullptr) {
      replay(asked, points);
      return;
    }
    KnownLines lines;
    std::map<const KnownGap*, size_t> left_out;
    size_t failed = 0;
    for (size_t at = 0; at < points.size() && failed < kFailuresShown; ++at) {
      if (!may_strike(kind_, points[at])) continue;
      if (const KnownGap* const gap = gap_of(story_, kind_, points[at]); gap != nullptr) {
        ++left_out[gap];
        continue;
      }
      const int failures = failure_count();
      const StoryRun run = run_point(story_, kind_, at, points[at]);
      if (failure_count() != failures) ++failed;
      KnownLine& line = lines[prefix() + points[at].name];
      line.count(run.ending == Ending::kRunning);
      line.add(run.trace_hash);
      line.add(run.left_objects);
      line.add(run.findings);
    }
    for (const auto& [gap, count] : left_out) {
      fmt::print("known gap: {}{}, {} points: {}\n", prefix(), gap->ddi, count, gap->reason);
    }
    if (failed == 0) compare_lines(prefix(), lines);
  }

 private:
  static int failure_count() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }
  std::string prefix() const {
    return fmt::format("{} {} ", story_.name, kFaultNames[static_cast<size_t>(kind_)]);
  }
  /// One point, if it is one of ours.
  void replay(std::string_view asked, const std::vector<Point>& points) {
    if (!asked.starts_with(prefix())) GTEST_SKIP() << "DXGKIT_SWEEP asks for another";
    asked.remove_prefix(prefix().size());
    size_t at = 0;
    std::from_chars(asked.data(), asked.data() + asked.size(), at);
    ASSERT_LT(at, points.size()) << "no such point";
    const StoryRun run = run_point(story_, kind_, at, points[at]);
    fmt::print("{}\n{}", now_running.data(), run.findings);
  }

  const Story& story_;
  const FaultKind kind_;
  void (*previous_)(int) = nullptr;
};

[[maybe_unused]] const bool kRegistered = [] {
  for (const Story& story : stories()) {
    for (size_t i = 0; i < kFaultNames.size(); ++i) {
      const auto kind = static_cast<FaultKind>(i);
      const std::string name = fmt::format("{}_{}", story.name, kFaultNames[i]);
      ::testing::RegisterTest(
          "SweepTest", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
          [&story, kind]() -> ::testing::Test* { return new SweepTest(story, kind); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace dxgkit::sweep
