#include "runtime/secret.h"

#include <gtest/gtest.h>

#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace {

TEST(Secret, IsAnotherEachTime) { EXPECT_NE(secret_bytes(), secret_bytes()); }

// A simulation that had one would not come again.
TEST(SecretDeathTest, IsNotForSimulations) {
  EXPECT_DEATH(make_sim_runtime(1)->run_main([] { static_cast<void>(secret_bytes()); }), "");
}

}  // namespace
}  // namespace dxgkit::runtime
