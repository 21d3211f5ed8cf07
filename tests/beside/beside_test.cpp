// Each D3DKMT call, and a loss at each place inside it: its device is lost, its adapter fails or
// stops, another thread destroys what it works on. So every check that a call makes again, behind a
// copy or on the lane, decides an answer here. answers.txt keeps the answers, place by place.
//
//   DXGKIT_BESIDE="D3DKMTRender | device lost | 2" dxgkit_beside_test    one place of one call
//   DXGKIT_BESIDE_SEEDS=1..100 dxgkit_beside_test                       other interleavings
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/work/device.h"
#include "tests/beside/calls.h"
#include "tests/beside/strike.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"

namespace dxgkit::beside {
namespace {

using namespace contract;

/// What happens beside the call.
enum class Loss {
  kDevice,        // its device is lost
  kAdapter,       // its adapter fails
  kStop,          // its adapter is stopped
  kDestroyed,     // another thread destroys its device
  kGone,          // another thread destroys what else it names
  kEnd,           // another thread ends the process
  kSleepAndLoss,  // its adapter falls asleep, and its device is lost before it wakes
  kSleepAndFail,  // its adapter falls asleep, and fails
  kSleep,         // its adapter falls asleep, and wakes
};
constexpr std::array<std::string_view, 9> kLossNames = {
    "device lost",         "adapter failed",         "adapter stopped",
    "device destroyed",    "object destroyed",       "process ended",
    "asleep, device lost", "asleep, adapter failed", "asleep"};
std::string_view name_of(Loss loss) { return kLossNames[static_cast<size_t>(loss)]; }
bool falls_asleep(Loss loss) { return loss >= Loss::kSleepAndLoss; }

/// An answer as answers.txt has it.
std::string text_of(NTSTATUS status) {
  switch (from_ntstatus(status)) {
    case Status::kSuccess:
      return "SUCCESS";
    case Status::kDeviceRemoved:
      return "DEVICE_REMOVED";
    case Status::kInvalidParameter:
      return "INVALID_PARAMETER";
    case Status::kInvalidHandle:
      return "INVALID_HANDLE";
    default:
      return fmt::format("{:#x}", static_cast<uint32_t>(status));
  }
}
/// To threads of a process that has begun to end.
constexpr auto kProcessEnds = static_cast<NTSTATUS>(0xC000010A);

bool is_refusal(NTSTATUS status) { return status < 0; }

void lose_device(const World& world) {
  const auto device = world.client->process->handles().find<dxgk::Device>(world.client->device);
  if (!device.has_value()) return;  // the call destroys it
  world.stack->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    (*device)->set_error(dxgk::DeviceState::kErrorOutOfMemory);
  });
}

/// As a report that is a bug check does it, also where the device is off and reports nothing.
void fail_adapter(const World& world) {
  world.stack->adapter().core().fail({.rule = "INT-11",
                                      .severity = verifier::Severity::kBugCheck,
                                      .ddi = "DxgkCbNotifyInterrupt",
                                      .actual = "Made by this test.",
                                      .expected = "",
                                      .fix = "",
                                      .bugcheck_code = 0x119,
                                      .bugcheck_parameter = 1});
  world.stack->settle();
}

/// Another thread that does `what` until it has to wait for somebody.
std::unique_ptr<Stack::Background> beside(const World& world, std::function<void()> what) {
  auto other = std::make_unique<Stack::Background>(*world.stack, std::move(what));
  static_cast<void>(other->finished(40));
  return other;
}

std::unique_ptr<Stack::Background> strike(const World& world, Loss loss) {
  Client& client = *world.client;
  dxgk::System& system = *world.stack->system;
  switch (loss) {
    case Loss::kDevice:
      lose_device(world);
      return nullptr;
    case Loss::kAdapter:
      fail_adapter(world);
      return nullptr;
    case Loss::kStop:
      return beside(world, [&world, &system] {
        EXPECT_EQ(system.stop_adapter(world.stack->luid), Status::kSuccess);
      });
    case Loss::kDestroyed:
      return beside(world, [&client] {
        const D3DKMT_DESTROYDEVICE destroy{client.device};
        static_cast<void>(client.call([&] { return D3DKMTDestroyDevice(&destroy); }));
      });
    case Loss::kGone:
      return beside(world, world.destroy);
    case Loss::kEnd:
      return beside(world, [&client] { client.end(); });
    case Loss::kSleepAndLoss:
    case Loss::kSleepAndFail:
    case Loss::kSleep:
      return beside(world, [&world, &system] {
        static_cast<void>(system.set_power(world.stack->luid, dxgk::PowerTarget::kD3));
      });
  }
  return nullptr;
}

/// The second half of a loss that begins with sleep; the call may wait for it.
void after_sleep(const World& world, Loss loss, Stack::Background& call) {
  if (loss == Loss::kSleepAndLoss) lose_device(world);
  dxgk::System& system = *world.stack->system;
  if (loss == Loss::kSleepAndFail) {
    fail_adapter(world);
    static_cast<void>(call.finished(100));
    // Who has not entered yet waits for it to wake.
    world.stack->blocking(
        [&] { EXPECT_EQ(system.stop_adapter(world.stack->luid), Status::kSuccess); });
    return;
  }
  world.stack->blocking(
      [&] { static_cast<void>(system.set_power(world.stack->luid, dxgk::PowerTarget::kD0)); });
}

bool has_more_to_lose(const Row& row) {
  bool more = false;
  with_world(row, 1, [&](World& world) { more = static_cast<bool>(world.destroy); });
  return more;
}

struct Outcome {
  NTSTATUS status = -1;
  size_t places = 0;
  bool asked = false;  // the driver was asked in the device's name after the loss
  Digest after;
  std::vector<std::string> late;  // see asked_since(): since the driver destroyed the device
};

/// Calls of the driver in the name of a device or its objects, from call number `first` on.
std::vector<std::string> asked_since(const World& world, size_t first) {
  std::vector<std::string> asked;
  for (const std::string& ddi : world.stack->miniport.calls().order) {
    if (first != 0) {
      --first;
      continue;
    }
    const bool names_device = ddi.starts_with("DxgkDdiCreate") || ddi.starts_with("DxgkDdiOpen") ||
                              ddi == "DxgkDdiRender" || ddi == "DxgkDdiPresent" ||
                              ddi == "DxgkDdiDescribeAllocation" || ddi == "DxgkDdiEscape";
    // These two name none.
    const bool of_adapter = ddi == "DxgkDdiCreateDevice" || ddi == "DxgkDdiCreateNativeFence";
    if (names_device && !of_adapter) asked.push_back(ddi);
  }
  return asked;
}

size_t calls_so_far(const World& world) { return world.stack->miniport.calls().order.size(); }

/// The number of the call that destroyed the device; of the next one if it lives.
size_t destroyed_at(const World& world) {
  const std::vector<std::string> order = world.stack->miniport.calls().order;
  return static_cast<size_t>(std::ranges::find(order, "DxgkDdiDestroyDevice") - order.begin());
}

/// The call with the loss at place `at`; 0: without. No loss has no place.
Outcome run(const Row& row, std::optional<Loss> loss, size_t at, uint64_t seed, bool calls = true) {
  Outcome outcome;
  with_world(row, seed, [&](World& world) {
    std::unique_ptr<Stack::Background> other;
    bool struck = false;
    size_t first = SIZE_MAX;
    const auto act = [&] {
      other = strike(world, *loss);
      first = calls_so_far(world);
      struck = true;
    };
    Stack::Background call(*world.stack, [&] {
      world.client->as_client([&] {
        if (!calls) return loss.has_value() ? act() : void();
        const Strike strike(at, act);
        outcome.status = world.call();
        outcome.places = strike.places();
        outcome.asked = !asked_since(world, first).empty();
      });
    });
    // It may wait for the engines on its way to the place.
    while (!struck && !call.finished(1)) continue;
    static_cast<void>(call.finished(100));
    if (struck && falls_asleep(*loss)) {
      if (other != nullptr) static_cast<void>(other->finished(200));
      after_sleep(world, *loss, call);
    }
    call.finish();
    if (other != nullptr) other->finish();
    world.stack->drive();
    outcome.after = digest(*world.stack, {world.client});
    outcome.late = asked_since(world, destroyed_at(world));
  });
  return outcome;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows = rendering_rows();
    for (const auto& more : {memory_rows(), screen_rows()})
      rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return all;
}

/// An answer, and whether the driver was asked after the loss.
using Answer = std::pair<NTSTATUS, bool>;

/// "DEVICE_REMOVED x3, asked SUCCESS x2": with the loss at the first place, the second, ...
std::string text_of(const std::vector<Answer>& answers) {
  std::string text;
  for (size_t i = 0; i < answers.size();) {
    size_t same = i;
    while (same < answers.size() && answers[same] == answers[i]) ++same;
    text += fmt::format("{}{}{} x{}", text.empty() ? "" : ", ", answers[i].second ? "asked " : "",
                        text_of(answers[i].first), same - i);
    i = same;
  }
  return text;
}

/// Lines of answers.txt, by "call | loss".
using Lines = std::map<std::string, std::string>;

/// Those of one loss; of all if it is empty.
Lines kept_lines(std::string_view loss = {}) {
  Lines lines;
  const std::string ending = fmt::format(" | {}", loss);
  std::ifstream file(DXGKIT_BESIDE_FOLDER "/answers.txt");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  if (!loss.empty())
    std::erase_if(lines, [&](const auto& line) { return !line.first.ends_with(ending); });
  return lines;
}

void keep(std::string_view loss, const Lines& news) {
  Lines lines = kept_lines();
  const std::string ending = fmt::format(" | {}", loss);
  std::erase_if(lines, [&](const auto& line) { return line.first.ends_with(ending); });
  lines.insert(news.begin(), news.end());
  std::ofstream file(DXGKIT_BESIDE_FOLDER "/answers.txt");
  for (const auto& [key, answers] : lines) file << key << ": " << answers << "\n";
}

/// The seed whose answers are kept. Where another thread acts, the others may differ.
constexpr uint64_t kKeptSeed = 1;

std::pair<uint64_t, uint64_t> seeds() {
  const char* const asked = std::getenv("DXGKIT_BESIDE_SEEDS");
  unsigned long first = kKeptSeed, last = 3;
  if (asked != nullptr) {
    EXPECT_EQ(std::sscanf(asked, "%lu..%lu", &first, &last), 2) << asked;
  }
  return {first, last};
}

class BesideTest : public ::testing::TestWithParam<Loss> {
 protected:
  void SetUp() override { testing::hold_no_runs(); }

  /// What must hold of one answer, whatever it is.
  static void check(const Row& row, const Outcome& outcome, const Outcome& without_call) {
    const Status status = from_ntstatus(outcome.status);
    EXPECT_TRUE(!is_refusal(outcome.status) || status == Status::kDeviceRemoved ||
                status == Status::kInvalidParameter || status == Status::kInvalidHandle ||
                status == Status::kGraphicsNotExclusiveModeOwner ||
                status == Status::kGraphicsAllocationInvalid || outcome.status == kProcessEnds)
        << text_of(outcome.status);
    EXPECT_EQ(outcome.late, std::vector<std::string>{});
    if (!is_refusal(outcome.status)) return;
    // THUNK-05: as if there had been no call.
    EXPECT_EQ(outcome.after.handles, without_call.after.handles);
    EXPECT_LE(outcome.after.driver_objects, without_call.after.driver_objects + row.leaves);
    EXPECT_EQ(outcome.after.findings, without_call.after.findings);
  }

  static std::vector<Answer> answers_of(const Row& row, Loss loss, uint64_t seed) {
    const Outcome plain = run(row, std::nullopt, 0, seed);
    EXPECT_FALSE(is_refusal(plain.status)) << text_of(plain.status);
    const Outcome without_call = run(row, loss, 0, seed, /*calls=*/false);
    const Outcome idle = run(row, std::nullopt, 0, seed, /*calls=*/false);
    const size_t made = plain.after.driver_objects -
                        std::min(idle.after.driver_objects, plain.after.driver_objects);
    std::vector<Answer> answers;
    for (size_t at = 1; at <= plain.places; ++at) {
      const std::string where = fmt::format("{} | {} | {}", row.name, name_of(loss), at);
      const char* const only = std::getenv("DXGKIT_BESIDE");
      if (only != nullptr && where != only) continue;
      SCOPED_TRACE(fmt::format("DXGKIT_BESIDE=\"{}\", seed {}", where, seed));
      const Outcome outcome = run(row, loss, at, seed);
      check(row, outcome, without_call);
      // What was destroyed beside the call is gone, and the call made no more than it does.
      EXPECT_LE(outcome.after.driver_objects,
                without_call.after.driver_objects + made + row.leaves);
      answers.emplace_back(outcome.status, outcome.asked);
    }
    return answers;
  }
};

TEST_P(BesideTest, EachCallAnswersAsKept) {
  DXGKIT_COVERS("THUNK-04", "THUNK-05", "THUNK-07", "ALLOC-27");
  const Loss loss = GetParam();
  const auto [first, last] = seeds();
  Lines lines;
  for (const Row& row : rows()) {
    if (loss == Loss::kGone && !has_more_to_lose(row)) continue;
    for (uint64_t seed = first; seed <= last; ++seed) {
      const std::vector<Answer> answers = answers_of(row, loss, seed);
      if (seed == first) lines[fmt::format("{} | {}", row.name, name_of(loss))] = text_of(answers);
    }
    if (HasFatalFailure()) return;
  }
  if (std::getenv("DXGKIT_BESIDE") != nullptr || first != kKeptSeed) return;
  if (std::getenv("DXGKIT_KEEP_RUNS") != nullptr) return keep(name_of(loss), lines);
  EXPECT_EQ(lines, kept_lines(name_of(loss)))
      << "answers.txt says something else; DXGKIT_KEEP_RUNS=1 rewrites it if that is meant";
}

INSTANTIATE_TEST_SUITE_P(Losses, BesideTest,
                         ::testing::Values(Loss::kDevice, Loss::kAdapter, Loss::kStop,
                                           Loss::kDestroyed, Loss::kGone, Loss::kEnd,
                                           Loss::kSleepAndLoss, Loss::kSleepAndFail, Loss::kSleep),
                         [](const auto& one) {
                           std::string name(name_of(one.param));
                           std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
                           return name;
                         });

}  // namespace
}  // namespace dxgkit::beside
