// Waiting and failing, as every part of an adapter does it.
#include "dxgk/core/adapter_core.h"

#include <gtest/gtest.h>

#include <memory>

#include "dxgk/core/late_selection.h"
#include "dxgk/core/test_core.h"

namespace dxgkit::dxgk {
namespace {

template <typename Body>
void on_simulated_runtime(Body body) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    TestCore test;
    body(test, test.core);
  });
}

verifier::Finding fatal(const char* rule) {
  return {.rule = rule,
          .severity = verifier::Severity::kBugCheck,
          .ddi = "DxgkDdiPatch",
          .actual = "",
          .expected = "",
          .fix = ""};
}

TEST(AdapterCore, BlockUntilLooksAgainAtEachProgress) {
  on_simulated_runtime([](TestCore& test, AdapterCore& core) {
    bool there = false;
    const auto other = core.runtime().spawn("other", [&] {
      core.lane().run([&] { core.progress(); });
      core.lane().run([&] {
        there = true;
        core.progress();
      });
    });
    EXPECT_TRUE(core.block_until([&] {
      core.lane().assert_current();
      return there;
    }));
    other->join();
    EXPECT_EQ(test.looks, 2) << "what waits on the lane looks first";
  });
}

TEST(AdapterCore, NobodyWaitsForAnAdapterThatHasFailed) {
  on_simulated_runtime([](TestCore&, AdapterCore& core) {
    const auto other = core.runtime().spawn("other", [&] { core.fail(fatal("TDR-02")); });
    EXPECT_FALSE(core.block_until([] { return false; }));
    other->join();
    int asked = 0;
    EXPECT_FALSE(core.block_until([&] { return ++asked > 1; }));
    EXPECT_EQ(asked, 1);
  });
}

TEST(AdapterCore, WhoWantsMemoryWaitsForPower) {
  on_simulated_runtime([](TestCore&, AdapterCore& core) {
    core.lane().run([&] { core.power_phase().phase = PowerPhase::Phase::kAsleep; });
    const auto other = core.runtime().spawn("other", [&] {
      core.lane().run([&] {
        core.power_phase().phase = PowerPhase::Phase::kAwake;
        core.progress();
      });
    });
    EXPECT_TRUE(core.block_until_awake([&] {
      EXPECT_TRUE(core.power_phase().awake());
      return true;
    }));
    other->join();
  });
}

TEST(AdapterCore, OnlyTheFirstFailureIsTold) {
  on_simulated_runtime([](TestCore& test, AdapterCore& core) {
    EXPECT_TRUE(core.running());
    core.fail(fatal("TDR-02"));
    core.fail(fatal("TDR-05"));
    core.fail_as_reported();
    EXPECT_FALSE(core.block_until([] { return false; }));
    ASSERT_EQ(test.findings.all().size(), 1U);
    EXPECT_EQ(test.findings.all().front().rule, "TDR-02");
    EXPECT_EQ(test.stops, 1);
    EXPECT_FALSE(core.running());
    EXPECT_FALSE(core.running_or_starting());
  });
}

TEST(AdapterCore, WhoComesAfterTheStopBeganWaitsForItsEnd) {
  on_simulated_runtime([](TestCore&, AdapterCore& core) {
    int ran = 0;
    core.while_stable([&] { ++ran; });
    EXPECT_EQ(ran, 1);
    ASSERT_TRUE(core.gate().close());
    bool stopped = false;
    const auto other = core.runtime().spawn("other", [&] {
      stopped = true;
      core.set_stopped();
    });
    core.while_stable([&] { EXPECT_TRUE(stopped); });
    other->join();
  });
}

void queue_a_packet(TestCore& test) {
  test.core.lane().run([&] { select_after_call(test.core, *test.adapter); });
}

TEST(AdapterCore, ACallSelectsAtOnceIfNobodyAnswersForIt) {
  on_simulated_runtime([](TestCore& test, AdapterCore&) {
    LateSelection late;
    queue_a_packet(test);
    EXPECT_EQ(test.pumps, 1);
    late.run();
    EXPECT_EQ(test.pumps, 1);
  });
}

TEST(AdapterCore, WhoAnswersForACallSelectsAfterwards) {
  on_simulated_runtime([](TestCore& test, AdapterCore&) {
    {
      LateSelection late;
      {
        const LateSelection::Offer offer(late);
        queue_a_packet(test);
        queue_a_packet(test);
      }
      EXPECT_EQ(test.pumps, 0);
      late.run();
      EXPECT_EQ(test.pumps, 1) << "once for all";
      late.run();
      EXPECT_EQ(test.pumps, 1);
      const LateSelection::Offer offer(late);
      queue_a_packet(test);
      EXPECT_EQ(test.pumps, 1);
    }
    EXPECT_EQ(test.pumps, 2) << "not lost with who forgot it";
    queue_a_packet(test);
    EXPECT_EQ(test.pumps, 3) << "nobody offers it any more";
  });
}

TEST(AdapterCore, WhoWaitsSelectsFirst) {
  on_simulated_runtime([](TestCore& test, AdapterCore& core) {
    LateSelection late;
    const LateSelection::Offer offer(late);
    queue_a_packet(test);
    EXPECT_TRUE(core.block_until([&] { return test.pumps == 1; }));
  });
}

TEST(AdapterCore, TheSelectionOfASecondAdapterIsNotLeft) {
  on_simulated_runtime([](TestCore& test, AdapterCore&) {
    TestCore second;
    LateSelection late;
    const LateSelection::Offer offer(late);
    queue_a_packet(test);
    queue_a_packet(second);
    EXPECT_EQ(test.pumps, 0);
    EXPECT_EQ(second.pumps, 1);
    late.run();
    EXPECT_EQ(test.pumps, 1);
    EXPECT_EQ(second.pumps, 1);
  });
}

TEST(AdapterCore, NothingIsSelectedOnAnAdapterThatStoppedMeanwhile) {
  on_simulated_runtime([](TestCore& test, AdapterCore& core) {
    LateSelection late;
    {
      const LateSelection::Offer offer(late);
      queue_a_packet(test);
    }
    ASSERT_TRUE(core.gate().close());
    late.run();
    EXPECT_EQ(test.pumps, 0);
  });
}

TEST(AdapterCore, AVerifierSwitchIsCountedWhereItStrikes) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    AdapterOptions options;
    options.verifier.set(VerifierSwitch::kAlwaysRepatch);
    TestCore test(options);
    EXPECT_TRUE(test.core.strikes(VerifierSwitch::kAlwaysRepatch));
    EXPECT_FALSE(test.core.strikes(VerifierSwitch::kNeverPrepatch));
    const auto& strikes = test.core.counters().verifier_strikes;
    EXPECT_EQ(strikes[static_cast<size_t>(VerifierSwitch::kAlwaysRepatch)], 1U);
    EXPECT_EQ(strikes[static_cast<size_t>(VerifierSwitch::kNeverPrepatch)], 0U);
  });
}

TEST(PowerPhase, TheHardwareIsOffAsleepAndAfterAPowerFailure) {
  PowerPhase power;
  EXPECT_TRUE(power.awake());
  EXPECT_FALSE(power.off());
  power.phase = PowerPhase::Phase::kFalling;
  EXPECT_FALSE(power.awake());
  EXPECT_FALSE(power.off());
  power.lost = true;
  EXPECT_TRUE(power.off());
  power = {.phase = PowerPhase::Phase::kAsleep, .lost = false};
  EXPECT_TRUE(power.asleep());
  EXPECT_TRUE(power.off());
}

}  // namespace
}  // namespace dxgkit::dxgk
