// The traces of simulated worlds stay as they were, to the last event: fences, addresses, segments,
// statuses, and the order of all events. A refactoring alters no trace.
#include "sim/known_traces.h"

#include <gtest/gtest.h>

#include "sim/world.h"

namespace dxgkit::sim {
namespace {

/// The first seeds one by one, so that a change is met within a second; Simulation compares the
/// others on its way.
class KnownTraces : public ::testing::TestWithParam<uint64_t> {};
TEST_P(KnownTraces, SeedGivesTheTraceItGave) {
  const SeedOutcome outcome = run_seed({.seed = GetParam(), .trace = true});
  ASSERT_TRUE(outcome.passed()) << outcome.failure;
  EXPECT_EQ(outcome.trace_hash, known_traces().at(GetParam())) << another_trace(GetParam());
}
INSTANTIATE_TEST_SUITE_P(All, KnownTraces, ::testing::Range(uint64_t{1}, uint64_t{101}));

}  // namespace
}  // namespace dxgkit::sim
