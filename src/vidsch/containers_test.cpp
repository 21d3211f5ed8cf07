#include "vidsch/containers.h"

#include <gtest/gtest.h>

#include <vector>

namespace dxgkit::vidsch {
namespace {

// The table finds every present entry and no other one, whatever the number of entries and of
// removed ones.
TEST(IdTable, FindsWhatIsThere) {
  constexpr uint64_t kCount = 1000;
  std::vector<int> values(kCount);
  IdTable<int> table;
  EXPECT_EQ(table.find(0), nullptr);
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(table.insert(i * 7, &values[i]));
    EXPECT_EQ(table.size(), i + 1);
  }
  for (uint64_t i = 0; i < kCount; i += 3) table.erase(i * 7);
  for (uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(table.find(i * 7), i % 3 == 0 ? nullptr : &values[i]) << i;
    EXPECT_EQ(table.find(i * 7 + 1), nullptr);
  }
  EXPECT_EQ(table.size(), kCount - (kCount + 2) / 3);
}

TEST(IdTable, AnIdIsThereOnce) {
  IdTable<int> table;
  int first = 1, second = 2;
  EXPECT_TRUE(table.insert(5, &first));
  EXPECT_FALSE(table.insert(5, &second));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.find(5), &first);
  table.erase(5);
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_TRUE(table.insert(5, &second));
  EXPECT_EQ(table.find(5), &second);
}

struct Item {
  int value = 0;
  ListLink<Item> link;
};
using List = IntrusiveList<Item, &Item::link>;

std::vector<int> values_of(const List& list) {
  std::vector<int> values;
  for (const Item* item = list.front(); item != nullptr; item = List::next(item))
    values.push_back(item->value);
  std::vector<int> backwards;
  for (const Item* item = list.back(); item != nullptr; item = List::previous(item))
    backwards.insert(backwards.begin(), item->value);
  EXPECT_EQ(values, backwards);
  EXPECT_EQ(list.size(), values.size());
  EXPECT_EQ(list.empty(), values.empty());
  return values;
}

TEST(IntrusiveList, KeepsItsOrder) {
  Item items[5];
  for (int i = 0; i < 5; ++i) items[i].value = i;
  List list;
  list.push_back(&items[1]);
  list.push_back(&items[3]);
  list.push_front(&items[0]);
  list.insert_after(&items[1], &items[2]);
  list.insert_after(&items[3], &items[4]);
  EXPECT_EQ(values_of(list), (std::vector<int>{0, 1, 2, 3, 4}));
  list.erase(&items[2]);
  list.erase(&items[4]);
  EXPECT_FALSE(items[2].link.listed);
  EXPECT_TRUE(items[3].link.listed);
  EXPECT_EQ(values_of(list), (std::vector<int>{0, 1, 3}));
  list.insert_after(nullptr, &items[4]);  // at the front
  EXPECT_EQ(list.pop_front(), &items[4]);
  EXPECT_EQ(list.pop_front(), &items[0]);
  EXPECT_EQ(values_of(list), (std::vector<int>{1, 3}));
  list.erase(&items[1]);
  list.erase(&items[3]);
  EXPECT_EQ(list.pop_front(), nullptr);
  EXPECT_EQ(values_of(list), (std::vector<int>{}));
}

}  // namespace
}  // namespace dxgkit::vidsch
