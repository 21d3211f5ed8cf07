// Sums of the sizes clients reserve for; descriptors that stand for shared objects.
#include "dxgk/memory/sharing.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>

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

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// A process may have so many descriptors and no more: what was made until then goes again.
TEST(NtHandles, WithoutRoomForADescriptorNothingIsLeft) {
  DXGKIT_COVERS("THUNK-24");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const size_t before = open_descriptors();
  for (const bool is_pair : {false, true}) {
    for (rlim_t room = 0; room <= 3; ++room) {
      SCOPED_TRACE(room);
      NtHandles handles;
      const int lowest = dup(0);
      ASSERT_GE(lowest, 0);
      close(lowest);
      rlimit less = limit;
      less.rlim_cur = static_cast<rlim_t>(lowest) + room;
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
      Result<int> given = Error(Status::kSuccess);
      if (is_pair) {
        const Result<NtHandles::Pair> pair = handles.create_pair({});
        given = pair.has_value() ? Result<int>(pair->given) : Result<int>(Error(pair.error()));
      } else {
        given = handles.create({}, {}, NtHandles::Case::kMatters);
      }
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
      ASSERT_EQ(given.has_value(), room == 3) << "two ends, and the number that is given";
      EXPECT_EQ(handles.size(), room == 3 ? 1U : 0U);
      if (given.has_value()) {
        EXPECT_EQ(open_descriptors(), before + 2);
        close(*given);
      } else {
        EXPECT_EQ(given.error(), Status::kNoMemory);
        EXPECT_EQ(open_descriptors(), before);
      }
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

// Letters from A to Z may be told apart or not; nothing beside them is a letter.
TEST(NtHandles, NamesAreSpelledAsTheCallSays) {
  DXGKIT_COVERS("THUNK-24");
  using Case = NtHandles::Case;
  NtHandles handles;
  const Result<int> given = handles.create({}, u"AmZ@[`{", Case::kMatters);
  ASSERT_TRUE(given.has_value());
  struct Row {
    const char16_t* name;
    bool as_it_is, in_any_case;
  };
  for (const auto& [name, as_it_is, in_any_case] :
       {Row{u"AmZ@[`{", true, true}, Row{u"aMz@[`{", false, true}, Row{u"amz@[`{", false, true},
        Row{u"AMZ@[`{", false, true}, Row{u"AmZ`[`{", false, false}, Row{u"AmZ@{`{", false, false},
        Row{u"AmZ@[@{", false, false}, Row{u"AmZ@[`[", false, false}, Row{u"AmZ@[`", false, false},
        Row{u"BmZ@[`{", false, false}, Row{u"AmY@[`{", false, false}, Row{u"", false, false}}) {
    EXPECT_EQ(handles.find(name, Case::kMatters).has_value(), as_it_is);
    EXPECT_EQ(handles.find(name, Case::kIgnored).has_value(), in_any_case);
  }
  close(*given);
}

}  // namespace
}  // namespace dxgkit::dxgk
