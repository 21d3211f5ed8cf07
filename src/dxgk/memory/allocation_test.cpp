#include "dxgk/memory/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dxgk/memory/device_memory.h"

namespace dxgkit::dxgk {
namespace {

using ::testing::ElementsAre;

std::vector<OpenedAllocation*> all(const OpeningList& list) {
  std::vector<OpenedAllocation*> found;
  for (OpenedAllocation* opened : list) found.push_back(opened);
  return found;
}

// Openings are visited in the order they were made, whoever left meanwhile, from either end or from
// the middle; who left may come again.
TEST(OpeningList, KeepsTheOrderWhoeverLeaves) {
  const auto a = make_object<OpenedAllocation>();
  const auto b = make_object<OpenedAllocation>();
  const auto c = make_object<OpenedAllocation>();
  OpeningList list;
  EXPECT_TRUE(list.empty());
  for (const auto& one : {a, b, c}) list.push_back(one.get());
  EXPECT_THAT(all(list), ElementsAre(a.get(), b.get(), c.get()));
  list.erase(b.get());
  EXPECT_THAT(all(list), ElementsAre(a.get(), c.get()));
  list.erase(b.get());  // who is not on it is ignored
  EXPECT_THAT(all(list), ElementsAre(a.get(), c.get()));
  list.erase(a.get());
  list.push_back(b.get());
  EXPECT_THAT(all(list), ElementsAre(c.get(), b.get()));
  EXPECT_EQ(list.front(), c.get());
  list.erase(b.get());
  list.erase(c.get());
  EXPECT_TRUE(list.empty());
}

TEST(OpenedAllocation, WithoutARenameListItIsItsOwnFirstAndCurrentInstance) {
  const auto one = make_object<OpenedAllocation>();
  EXPECT_EQ(&one->first_instance(), one.get());
  EXPECT_EQ(&one->current_instance(), one.get());
  EXPECT_TRUE(one->instances().empty());
  EXPECT_FALSE(one->is_instance());
  EXPECT_EQ(one->cpu_if_any(), nullptr) << "asking makes nothing";
}

TEST(OpenedAllocation, InstancesKnowTheFirstAndTheCurrentOne) {
  const auto first = make_object<OpenedAllocation>();
  const auto second = make_object<OpenedAllocation>();
  second->cpu().original = first.get();
  first->cpu().instances.push_back(second);
  EXPECT_EQ(&second->current_instance(), first.get());
  second->make_current_instance();
  EXPECT_EQ(&first->current_instance(), second.get());
  EXPECT_EQ(&second->current_instance(), second.get());
  EXPECT_EQ(&second->first_instance(), first.get());
  EXPECT_TRUE(second->is_instance());
  EXPECT_FALSE(first->is_instance());
  first->make_current_instance();
  EXPECT_EQ(&second->current_instance(), first.get());
}

std::vector<bus::PageFrame> frames(uint64_t count) {
  std::vector<bus::PageFrame> made;
  for (uint64_t i = 0; i < count; ++i) made.emplace_back(100 + 7 * i);
  return made;
}

// One frame lies in the list itself, several on the heap: both are the same to those who read them,
// and after moves.
TEST(FrameList, HoldsNoneOneAndMany) {
  for (const uint64_t count : {0U, 1U, 2U, 300U}) {
    SCOPED_TRACE(count);
    const std::vector<bus::PageFrame> wanted = frames(count);
    FrameList list(wanted);
    FrameList moved(std::move(list));
    FrameList assigned(frames(3));
    assigned = std::move(moved);
    ASSERT_EQ(assigned.size(), count);
    EXPECT_EQ(assigned.empty(), count == 0);
    EXPECT_TRUE(std::ranges::equal(assigned.frames(), wanted));
    ASSERT_EQ(assigned.numbers().size(), count);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(assigned.numbers()[i], wanted[i].value);
    assigned = FrameList();
    EXPECT_TRUE(assigned.empty());
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
