// Power fails at each paging step of many scenarios: what was preserved or written back is intact,
// the rest is reported lost, and nothing is silently wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>

#include "tests/contract/power_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::PowerTarget;
using testing::PagingGpu;

constexpr uint64_t kScenariosDefault = 200;
constexpr uint64_t kNever = UINT64_MAX;

struct Sums {
  uint64_t scenarios = 0, steps = 0, checked = 0, preserved = 0, written_back = 0, lost = 0;
};

/// One scenario: segments, allocations and the target by the seed.
class Scenario {
 public:
  Scenario(uint64_t seed, Sums& sums) : seed_(seed), sums_(sums) {}

  /// Runs it with power failing before paging operation `fail_at`, counted from the beginning of
  /// the way down. Returns how many operations there were.
  uint64_t run(uint64_t fail_at);

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  void choose(ScriptedMiniport& miniport);
  void play(Stack& stack, PagingGpu& gpu, uint64_t fail_at);
  void check(Stack& stack, std::deque<Tagged>& all, const std::vector<bool>& must_live,
             std::vector<std::unique_ptr<Client>>& clients, std::vector<ContextBuffers>& contexts);
  uint64_t kept(size_t segment) const;

  const uint64_t seed_;
  Sums& sums_;
  std::mt19937_64 random_;  // the scenario's own: the same for every step
  PowerTarget target_ = PowerTarget::kStandby;
  std::vector<Preserved> bits_;
  uint64_t operations_ = 0;
};

void Scenario::choose(ScriptedMiniport& miniport) {
  constexpr PowerTarget kTargets[] = {PowerTarget::kStandby, PowerTarget::kHibernate,
                                      PowerTarget::kHybridSleep, PowerTarget::kD3};
  target_ = kTargets[pick(4)];
  // Small segments: some of it evicts some other of it.
  miniport.config.segments[0].size = 128 * kKibibyte;
  miniport.config.segments[1].size = 256 * kKibibyte;
  bits_.clear();
  for (size_t i = 0; i < 3; ++i) {
    Preserved bits;
    switch (pick(4)) {
      case 0:
        break;
      case 1:
        bits.standby = true;
        break;
      case 2:
        bits.standby = bits.hibernate = true;
        break;
      default:
        bits.standby = bits.partially = true;
        bits.end =
            std::min((1 + pick(64)) * PagingGpu::kPage, miniport.config.segments[i].size) - 1;
        break;
    }
    preserve(miniport, i, bits);
    bits_.push_back(bits);
  }
  miniport.config.paging_buffer_segment = pick(3) == 0 ? 3 : 0;
  // Sometimes one operation per packet, sometimes several.
  miniport.config.paging_buffer_bytes = pick(2) == 0 ? 16 * 1024 : 256 + 64;
}

uint64_t Scenario::kept(size_t segment) const {
  const Preserved& bits = bits_[segment];
  if (target_ == PowerTarget::kStandby || target_ == PowerTarget::kD3)
    return bits.standby ? UINT64_MAX : 0;
  if (bits.hibernate) return UINT64_MAX;
  return bits.partially ? bits.end + 1 : 0;
}

void Scenario::play(Stack& stack, PagingGpu& gpu, uint64_t fail_at) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<ContextBuffers> contexts;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(stack));
    contexts.push_back(clients.back()->make_context());
  }
  std::deque<Tagged> all;
  std::vector<size_t> owner;
  const uint64_t count = 3 + pick(8);
  for (uint64_t i = 0; i < count; ++i) {
    constexpr uint32_t kSets[] = {kVisible, kHidden, kVisible | kHidden, kHidden, kAperture};
    owner.push_back(pick(clients.size()));
    all.emplace_back(stack, gpu, *clients[owner.back()], (1 + pick(16)) * PagingGpu::kPage,
                     kSets[pick(std::size(kSets))]);
    all.back().write(contexts[owner.back()], (i + 1) << 20 | 1);
  }
  // Some are brought back clean, some stay where evictions put them.
  for (uint64_t i = 0; i < count / 2; ++i) {
    const uint64_t which = pick(count);
    all[which].use(contexts[owner[which]]);
  }
  for (Tagged& one : all) ASSERT_TRUE(one.intact());

  const uint64_t start = gpu.executed();
  bool failing = false;
  std::unique_ptr<runtime::Thread> messenger;
  std::vector<bool> must_live(count, false);
  const auto fail = [&] {
    // What no transition touches, and what has arrived in system memory, may not suffer.
    for (uint64_t i = 0; i < count; ++i) {
      vidmm::MemoryManager& memory = stack.adapter().core().memory();
      const vidmm::Placement place = all[i].placement();
      const bool quiet = memory.pending_operations(all[i].id()) == 0;
      const bool home = place.segment == kSystemMemory || place.segment == SegmentId{3};
      const bool safe =
          place.segment != kSystemMemory && !home &&
          place.offset_bytes + stack.adapter().floor().allocations.at(all[i].id()).size_bytes <=
              kept(place.segment.value - 1);
      must_live[i] = quiet && (home || safe);
      if (!must_live[i]) continue;
      ++(home ? sums_.written_back : sums_.preserved);
    }
    gpu.lose_power({kept(0), kept(1), kept(2)});
    stack.miniport.forget_outstanding();
  };
  gpu.before_operation = [&](uint64_t at) {
    if (failing || at - start != fail_at) return false;
    failing = true;
    // This is inside the driver, on the lane: the platform's word comes from elsewhere.
    messenger = runtime::Runtime::current().spawn("platform", [&] {
      stack.adapter().core().lane().run(fail);
      EXPECT_EQ(stack.system->power_failed(stack.luid, target_), Status::kSuccess);
    });
    return true;
  };
  stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
    if (state == PowerDeviceD0) gpu.power_on();
    if (state != PowerDeviceD0) {
      EXPECT_TRUE(gpu.dead() || stack.miniport.outstanding(0).empty());
      gpu.lose_power({kept(0), kept(1), kept(2)});
      stack.miniport.forget_outstanding();
    }
    return nt_status(Status::kSuccess);
  };
  const auto meet = [&] {
    if (messenger) messenger->join();
    messenger.reset();
  };
  stack.blocking([&] { EXPECT_TRUE(stack.system->set_power(stack.luid, target_).has_value()); });
  meet();
  for (int tries = 0; tries < 3; ++tries) {
    Status status = Status::kSuccess;
    stack.blocking([&] {
      const auto woken = stack.system->set_power(stack.luid, PowerTarget::kD0);
      status = woken.has_value() ? Status::kSuccess : woken.error();
    });
    meet();
    if (status == Status::kSuccess) break;
    if (status != Status::kRetry) {
      for (const verifier::Finding& finding : stack.findings.all())
        ADD_FAILURE() << verifier::to_text(finding);
    }
    ASSERT_EQ(status, Status::kRetry);
    ASSERT_TRUE(failing);
  }
  // Everything is used once more: here the power may fail in the middle of work.
  for (uint64_t i = 0; i < count; ++i) {
    if (clients[owner[i]]->state() != D3DKMT_DEVICEEXECUTION_ACTIVE) continue;
    Work work = work_on({all[i].handle()});
    work.allocations[0].write = false;
    static_cast<void>(clients[owner[i]]->render(contexts[owner[i]], work));
    stack.drive();
    if (messenger) {
      // The failure puts the adapter to sleep; somebody has to wake it.
      meet();
      stack.blocking(
          [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value()); });
    }
  }
  operations_ = gpu.executed() - start;
  EXPECT_EQ(failing, fail_at != kNever);
  gpu.before_operation = nullptr;
  ASSERT_TRUE(stack.adapter().core().running());
  check(stack, all, must_live, clients, contexts);
  stack.miniport.hooks.set_power_state = nullptr;
  for (std::unique_ptr<Client>& client : clients) client->end();
}

void Scenario::check(Stack& stack, std::deque<Tagged>& all, const std::vector<bool>& must_live,
                     std::vector<std::unique_ptr<Client>>& clients,
                     std::vector<ContextBuffers>& contexts) {
  bool any_lost = false;
  for (size_t i = 0; i < all.size(); ++i) {
    ++sums_.checked;
    EXPECT_TRUE(!must_live[i] || all[i].intact()) << "allocation " << i << " was safe";
    if (all[i].client().state() != D3DKMT_DEVICEEXECUTION_ACTIVE) {
      any_lost = true;
      continue;
    }
    EXPECT_TRUE(all[i].intact()) << "allocation " << i << " is silently wrong";
    for (size_t k = 0; k < clients.size(); ++k) {
      if (clients[k].get() != &all[i].client()) continue;
      all[i].use(contexts[k]);
      EXPECT_TRUE(all[i].intact()) << "allocation " << i << " came back wrong";
    }
  }
  sums_.lost += any_lost ? 1 : 0;
  EXPECT_TRUE(stack.adapter().core().memory().validate());
  EXPECT_TRUE(stack.adapter().core().scheduler().validate());
  EXPECT_EQ(stack.rules(), std::vector<std::string>{});
}

uint64_t Scenario::run(uint64_t fail_at) {
  const auto runtime = runtime::make_sim_runtime(
      {.seed = seed_, .time_limit = 3600 * runtime::kSecond, .stack_bytes = 512 * 1024});
  runtime->run_main([&] {
    random_.seed(seed_);
    Stack stack;
    choose(stack.miniport);
    PagingGpu gpu(stack.miniport, stack.machine);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    play(stack, gpu, fail_at);
    stack.miniport.hooks = {};
  });
  return operations_;
}

uint64_t scenario_count() {
  const char* given = std::getenv("DXGKIT_POWER_SCENARIOS");
  return given == nullptr ? kScenariosDefault : std::strtoull(given, nullptr, 10);
}

TEST(PowerFailure, AtEachPagingStepNothingIsSilentlyWrong) {
  DXGKIT_COVERS("PWR-05", "PWR-10");
  Sums sums;
  const uint64_t count = scenario_count();
  for (uint64_t seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed) {
    Scenario scenario(seed, sums);
    const uint64_t steps = scenario.run(kNever);
    ++sums.scenarios;
    for (uint64_t step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(fmt::format("seed {}, power fails at step {} of {}", seed, step, steps));
      scenario.run(step);
      ++sums.steps;
    }
  }
  fmt::print(
      "{} scenarios, power failed at each of {} steps: {} allocations checked, {} preserved "
      "and {} written back intact, {} runs reported losses\n",
      sums.scenarios, sums.steps, sums.checked, sums.preserved, sums.written_back, sums.lost);
  EXPECT_GT(sums.preserved, 0U);
  EXPECT_GT(sums.written_back, 0U);
  EXPECT_GT(sums.lost, 0U);
}

}  // namespace
}  // namespace dxgkit::contract
