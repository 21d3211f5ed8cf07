// Sums of the sizes clients reserve for; descriptors that stand for shared objects.
#include "dxgk/memory/sharing.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

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

// The kernel's ends go with the table: whoever still has the other one sees that.
TEST(NtHandles, TheTablesEndsGoWithIt) {
  DXGKIT_COVERS("THUNK-24");
  std::array<int, 3> given{};
  const auto alone = [&](int fd) {
    pollfd state{fd, POLLOUT, 0};
    EXPECT_EQ(poll(&state, 1, 0), 1);
    return (state.revents & POLLERR) != 0;
  };
  {
    NtHandles handles;
    for (int& fd : given) {
      const Result<int> made = handles.create({}, {}, NtHandles::Case::kMatters);
      ASSERT_TRUE(made.has_value());
      fd = *made;
      EXPECT_FALSE(alone(fd));
    }
    EXPECT_EQ(handles.size(), given.size());
  }
  for (const int fd : given) {
    EXPECT_TRUE(alone(fd));
    close(fd);
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
