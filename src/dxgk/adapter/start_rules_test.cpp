// Rules of a start that need no entry of the driver.
#include "dxgk/adapter/start_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "dxgk/core/test_core.h"

namespace dxgkit::dxgk {
namespace {

std::string only_rule(const TestCore& test) {
  return test.findings.all().size() == 1 ? std::string(test.findings.all().front().rule) : "";
}

TEST(StartRules, AnAdapterHasAtLeastOneNode) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    test.core.learn().caps.node_count = 0;
    EXPECT_EQ(StartRules(test.core).check_caps(), Status::kDeviceConfigurationError);
    EXPECT_EQ(only_rule(test), "SCHED-03");
  });
}

TEST(StartRules, PreemptionNeedsSeveralEngines) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    test.core.learn().caps.node_count = 4;
    test.core.learn().caps.preemption_aware = true;
    EXPECT_EQ(StartRules(test.core).check_caps(), Status::kDeviceConfigurationError);
    EXPECT_EQ(only_rule(test), "PREEMPT-01");
    EXPECT_EQ(test.core.caps().node_count, 1U) << "without MultiEngineAware there is one node";
  });
}

TEST(StartRules, TheDeviceReachesAllMemory) {
  runtime::make_sim_runtime(1)->run_main([] {
    TestCore test;
    StartRules rules(test.core);
    test.core.learn().caps.highest_acceptable_address = 0;
    EXPECT_EQ(rules.check_addressing(), Status::kSuccess) << "taken as if nothing was said";
    EXPECT_EQ(only_rule(test), "LIFE-14");
    EXPECT_EQ(test.findings.all().front().severity, verifier::Severity::kViolation);
  });
  runtime::make_sim_runtime(1)->run_main([] {
    TestCore test;
    StartRules rules(test.core);
    test.core.learn().caps.highest_acceptable_address = test.machine.highest_system_address().value;
    EXPECT_EQ(rules.check_addressing(), Status::kSuccess);
    --test.core.learn().caps.highest_acceptable_address;
    EXPECT_EQ(rules.check_addressing(), Status::kDeviceConfigurationError);
    EXPECT_EQ(only_rule(test), "LIFE-14");
  });
}

TEST(StartRules, AFailedStepIsExplainedOnce) {
  const auto runtime = runtime::make_sim_runtime(1);
  runtime->run_main([] {
    TestCore test;
    StartRules rules(test.core);
    rules.explain_failure("DxgkDdiStartDevice", Status::kUnsuccessful);
    EXPECT_EQ(only_rule(test), "LIFE-11");
    rules.explain_failure("DxgkDdiAddDevice", Status::kUnsuccessful);
    EXPECT_EQ(only_rule(test), "LIFE-11") << "the reason is told already";
  });
}

}  // namespace
}  // namespace dxgkit::dxgk
