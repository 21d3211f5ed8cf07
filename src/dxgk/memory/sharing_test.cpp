// Sums of the sizes clients reserve for.
#include "dxgk/memory/sharing.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

TEST(TotalPrivateBytes, IsCheckedForOverflow) {
  DXGKIT_COVERS("THUNK-21");
  struct Row {
    std::array<uint64_t, 3> sizes;
    uint64_t total;  // above what a UINT holds: refused
  };
  for (const Row& row :
       {Row{{0, 0, 0}, 0}, Row{{1, 2, 3}, 6}, Row{{UINT32_MAX, 0, 0}, UINT32_MAX},
        Row{{UINT32_MAX, 1, 0}, uint64_t{1} << 32}, Row{{UINT64_MAX, 1, 0}, uint64_t{1} << 32},
        Row{{UINT64_MAX, UINT64_MAX, 2}, uint64_t{1} << 32}}) {
    const Result<uint32_t> total = total_private_bytes(row.sizes);
    if (row.total > UINT32_MAX) {
      ASSERT_FALSE(total.has_value());
      EXPECT_EQ(total.error(), Status::kIntegerOverflow);
    } else {
      ASSERT_TRUE(total.has_value());
      EXPECT_EQ(*total, row.total);
    }
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
