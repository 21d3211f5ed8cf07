// Open files that a test did not open itself.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace dxgkit::testing {

/// Closes what the test's parent left open, before the first test. A hostile client draws numbers
/// for events, and whether such a number is an event must not depend on who runs the test.
class NoInheritedDescriptors : public ::testing::Environment {
 public:
  void SetUp() override { ASSERT_EQ(close_range(STDERR_FILENO + 1, ~0U, 0), 0); }
};

}  // namespace dxgkit::testing
