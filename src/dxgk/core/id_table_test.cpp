#include "dxgk/core/id_table.h"

#include <gtest/gtest.h>

#include <set>

#include "base/ids.h"

namespace dxgkit::dxgk {
namespace {

struct Item {
  PacketId id;
  int payload = 0;
  void recycle() { *this = Item{}; }
};
using Table = IdTable<Item, PacketId>;

TEST(IdTable, FindsWhatItMadeByIdAndStartsItBlank) {
  Table table;
  Item& first = table.create();
  first.payload = 7;
  Item& second = table.create();
  EXPECT_NE(first.id, second.id);
  EXPECT_NE(first.id, PacketId{});
  EXPECT_EQ(&table.at(first.id), &first);
  EXPECT_EQ(&table.at(second.id), &second);
  EXPECT_EQ(table.at(first.id).payload, 7);
  EXPECT_EQ(second.payload, 0);
  EXPECT_EQ(table.live(), 2U);
}

TEST(IdTable, NeverGivesAnIdTwiceThoughSlotsAreReused) {
  Table table;
  std::set<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) {
    Item& item = table.create();
    EXPECT_TRUE(ids.insert(item.id.value).second);
    item.payload = i;
    const PacketId id = item.id;
    EXPECT_TRUE(table.contains(id));
    table.destroy(item);
    EXPECT_FALSE(table.contains(id));
  }
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.create().payload, 0) << "recycled";
}

TEST(IdTable, ObjectsKeepTheirAddressWhileOthersComeAndGo) {
  Table table;
  Item& kept = table.create();
  for (int i = 0; i < 500; ++i) static_cast<void>(table.create());
  EXPECT_EQ(&table.at(kept.id), &kept);
}

TEST(IdTable, KnowsNothingOfIdsFromElsewhere) {
  Table table;
  EXPECT_FALSE(table.contains(PacketId{})) << "of an empty table";
  static_cast<void>(table.create());
  EXPECT_FALSE(table.contains(PacketId{}));
  EXPECT_FALSE(table.contains(PacketId{UINT64_MAX}));
}

TEST(IdTableDeathTest, StopsOnAnIdWhoseObjectIsGone) {
  Table table;
  Item& item = table.create();
  const PacketId id = item.id;
  table.destroy(item);
  EXPECT_DEATH(static_cast<void>(table.at(id)), "");
}

}  // namespace
}  // namespace dxgkit::dxgk
