#include "dxgk/core/arrival_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace dxgkit::dxgk {
namespace {

using ::testing::ElementsAre;

struct Guest {
  int name = 0;
  uint32_t arrival = 0;
};

std::vector<int> names(const ArrivalList<Guest>& list) {
  std::vector<int> names;
  for (const Guest* guest : list) names.push_back(guest->name);
  return names;
}

TEST(ArrivalList, KeepsTheOrderOfArrivalWhoeverLeaves) {
  std::array<Guest, 5> guests;
  ArrivalList<Guest> list;
  EXPECT_TRUE(list.empty());
  for (int i = 0; i < 5; ++i) {
    guests[static_cast<size_t>(i)].name = i;
    list.push_back(&guests[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(list.size(), 5U);
  list.erase(&guests[0]);
  list.erase(&guests[2]);
  list.erase(&guests[4]);
  EXPECT_THAT(names(list), ElementsAre(1, 3));
  EXPECT_THAT(list.all(), ElementsAre(&guests[1], &guests[3]));
  EXPECT_EQ(list.size(), 2U);
  list.push_back(&guests[2]);
  EXPECT_THAT(names(list), ElementsAre(1, 3, 2));
  EXPECT_FALSE(list.empty());
}

// Who has left, and who never came, though somebody is or was at the place that its number names.
TEST(ArrivalList, IgnoresWhoIsNotOnIt) {
  std::array<Guest, 2> guests;
  Guest stranger, far{.name = 9, .arrival = 2}, farther{.name = 9, .arrival = 77};
  ArrivalList<Guest> list;
  list.erase(&stranger);
  EXPECT_TRUE(list.empty());
  for (Guest& guest : guests) list.push_back(&guest);
  list.erase(&guests[0]);
  list.erase(&guests[0]);
  stranger.arrival = 1;
  list.erase(&stranger);
  list.erase(&far);
  list.erase(&farther);
  EXPECT_EQ(list.size(), 1U);
  EXPECT_THAT(list.all(), ElementsAre(&guests[1]));
}

// Many come and most leave, again and again: the list closes its gaps, and all that are left can
// still be found and leave.
TEST(ArrivalList, ClosesItsGapsUnseen) {
  std::array<Guest, 200> guests;
  ArrivalList<Guest> list;
  std::vector<Guest*> expected;
  int name = 0;
  for (int round = 0; round < 4; ++round) {
    for (Guest& guest : guests) {
      if (std::ranges::find(expected, &guest) != expected.end()) continue;
      guest.name = ++name;
      list.push_back(&guest);
      expected.push_back(&guest);
    }
    for (size_t i = 0; i < guests.size(); ++i) {
      if (i % 13 == static_cast<size_t>(round)) continue;
      list.erase(&guests[i]);
      std::erase(expected, &guests[i]);
      ASSERT_EQ(list.size(), expected.size());
      ASSERT_EQ(list.all(), expected);
    }
    uint32_t most = 0;
    for (const Guest* guest : expected) most = std::max(most, guest->arrival);
    EXPECT_LT(most, 2 * expected.size() + 16) << "places do not grow with all who ever came";
  }
  for (Guest* guest : expected) list.erase(guest);
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace dxgkit::dxgk
