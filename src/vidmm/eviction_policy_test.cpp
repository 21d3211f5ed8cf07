#include "vidmm/eviction_policy.h"

#include <gmock/gmock.h>

#include <random>

namespace dxgkit::vidmm {
namespace {

using ::testing::ElementsAre;
using Index = EvictionPolicy::Index;
using Expert = EvictionPolicy::Expert;

constexpr uint32_t kNormal = 0x78000000;

std::vector<Index> order(EvictionPolicy& policy, uint32_t group = 0) {
  std::vector<Index> found;
  policy.begin_choice(group);
  for (Index index = policy.next(); index != EvictionPolicy::kNone; index = policy.next()) {
    found.push_back(index);
  }
  return found;
}

Index add(EvictionPolicy& policy, Index index, uint64_t bytes, uint64_t priority) {
  policy.add(index, bytes, priority);
  return index;
}

void submit(EvictionPolicy& policy, std::initializer_list<Index> list) {
  policy.begin_submission();
  for (const Index index : list) {
    if (!policy.is_in_group(index)) policy.enter(index, 0);
    policy.use(index);
  }
}

TEST(EvictionPolicy, KnowingNothingElseTheLeastRecentlyUsedLeavesFirst) {
  EvictionPolicy policy(1000, 1);
  const Index a = add(policy, 0, 10, kNormal);
  const Index b = add(policy, 1, 10, kNormal);
  const Index c = add(policy, 2, 10, kNormal);
  submit(policy, {a});
  submit(policy, {b, c});
  submit(policy, {a});
  EXPECT_THAT(order(policy), ElementsAre(b, c, a));
  EXPECT_THAT(order(policy), ElementsAre(b, c, a)) << "asking changes nothing";
  policy.leave(b);
  EXPECT_THAT(order(policy), ElementsAre(c, a));
  policy.enter(b, 0);
  EXPECT_THAT(order(policy), ElementsAre(c, a, b));
  policy.remove(c);
  EXPECT_THAT(order(policy), ElementsAre(a, b));
  policy.add(c, 20, kNormal);
  EXPECT_THAT(order(policy), ElementsAre(a, b));
}

// Who comes in is the youngest, used or not, also among those whose uses nobody has sorted yet.
TEST(EvictionPolicy, WhoEntersIsTheYoungest) {
  EvictionPolicy policy(1000, 1);
  const Index a = add(policy, 0, 10, kNormal);
  const Index b = add(policy, 1, 10, kNormal);
  const Index c = add(policy, 2, 10, kNormal);
  submit(policy, {c});
  policy.leave(c);
  submit(policy, {a});
  submit(policy, {b});
  submit(policy, {a});
  policy.enter(c, 0);
  EXPECT_THAT(order(policy), ElementsAre(b, a, c));
}

TEST(EvictionPolicy, WhoAsksAfterManyUsesFindsThemInOrder) {
  constexpr Index kCount = 200;
  EvictionPolicy policy(1'000'000, 1);
  std::vector<Index> expected;  // by last use
  const auto use = [&](Index index) {
    submit(policy, {index});
    std::erase(expected, index);
    expected.push_back(index);
  };
  for (Index index = 0; index < kCount; ++index) add(policy, index, 10, kNormal);
  std::minstd_rand chance(3);
  for (Index index = 0; index < kCount; ++index) use(index);
  // Between two queries: many uses, few, and so many that another query is not expected.
  for (const uint32_t uses : {5'000U, 3U, 300U, 6'000U, 1U, 10'000U}) {
    for (uint32_t i = 0; i < uses; ++i) use(static_cast<Index>(chance() % kCount));
    ASSERT_EQ(order(policy), expected) << "after " << uses;
  }
  for (uint32_t i = 0; i < 6'000; ++i) use(static_cast<Index>(chance() % kCount));
  policy.set_priority(expected.front(), kNormal + 1);
  std::rotate(expected.begin(), expected.begin() + 1, expected.end());
  EXPECT_EQ(order(policy), expected);
  const Index moved = expected.back();
  for (uint32_t i = 0; i < 6'000; ++i) {
    const auto index = static_cast<Index>(chance() % kCount);
    if (index != moved) use(index);
  }
  std::erase(expected, moved);
  expected.push_back(moved);
  policy.set_priority(moved, kNormal);  // the last use decides where it comes in: before all others
  std::rotate(expected.begin(), expected.end() - 1, expected.end());
  EXPECT_EQ(order(policy), expected);
}

TEST(EvictionPolicy, LowerPriorityLeavesFirstWhateverTheExpertSays) {
  EvictionPolicy policy(1000, 1);
  const Index high = add(policy, 0, 10, 0xA0000000);
  const Index old = add(policy, 1, 10, kNormal);
  const Index young = add(policy, 2, 10, kNormal);
  const Index low = add(policy, 3, 10, 0x28000000);
  for (const Index index : {high, old, young, low}) submit(policy, {index});
  EXPECT_THAT(order(policy), ElementsAre(low, old, young, high));
  policy.set_priority(low, kNormal + 1);
  EXPECT_THAT(order(policy), ElementsAre(old, young, low, high));
  policy.set_priority(high, kNormal);
  EXPECT_THAT(order(policy), ElementsAre(high, old, young, low)) << "by last use among the new";
}

TEST(EvictionPolicy, GroupsAreApart) {
  EvictionPolicy policy(1000, 2);
  const Index a = add(policy, 0, 10, kNormal);
  const Index b = add(policy, 1, 10, kNormal);
  policy.enter(a, 1);
  policy.enter(b, 0);
  EXPECT_THAT(order(policy, 0), ElementsAre(b));
  EXPECT_THAT(order(policy, 1), ElementsAre(a));
  policy.enter(a, 0);
  EXPECT_THAT(order(policy, 0), ElementsAre(b, a));
  EXPECT_THAT(order(policy, 1), ElementsAre());
}

/// Replays uses with a memory of `room` allocations of one byte; how often one came in again.
uint64_t replay(EvictionPolicy& policy, const std::vector<Index>& uses, size_t room) {
  std::vector<bool> used(1 + *std::ranges::max_element(uses), false);
  size_t here = 0;
  uint64_t again = 0;
  for (const Index index : uses) {
    if (!policy.is_in_group(index)) {
      again += used[index] ? 1 : 0;
      if (here == room) {
        policy.begin_choice(0);
        policy.leave(policy.next());
        --here;
      }
      ++here;
    }
    used[index] = true;
    submit(policy, {index});
  }
  return again;
}

TEST(EvictionPolicy, ALoopWiderThanMemoryIsKeptInPart) {
  constexpr uint32_t kWide = 300;
  constexpr size_t kRoom = 200;
  EvictionPolicy policy(kRoom, 1);
  for (uint32_t i = 0; i < kWide; ++i) policy.add(i, 1, kNormal);
  std::vector<Index> uses;
  for (uint32_t i = 0; i < 40 * kWide; ++i) uses.push_back(i % kWide);
  const uint64_t again = replay(policy, uses, kRoom);
  // The least is a third of the 39 rounds; least recently used pages in all.
  EXPECT_LT(again, 39 * kWide / 2);
  EXPECT_NE(policy.expert(), Expert::kRecency);
}

TEST(EvictionPolicy, WhenRecencyIsAllThereIsItIsFollowed) {
  constexpr uint32_t kMany = 400;
  constexpr size_t kRoom = 250;
  EvictionPolicy policy(kRoom, 1);
  std::vector<Index> stack;
  for (uint32_t i = 0; i < kMany; ++i) {
    policy.add(i, 1, kNormal);
    stack.push_back(i);
  }
  std::mt19937 random(7);
  std::vector<Index> uses;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const double u = static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
    const auto depth = static_cast<std::ptrdiff_t>(std::min(kMany - 1.0, u * u * u * kMany));
    std::rotate(stack.begin(), stack.begin() + depth, stack.begin() + depth + 1);
    uses.push_back(stack.front());
  }
  std::vector<Index> recent;
  uint64_t lru = 0;
  std::vector<bool> used(kMany, false);
  for (const Index index : uses) {
    const auto at = std::ranges::find(recent, index);
    if (at != recent.end()) {
      recent.erase(at);
    } else {
      lru += used[index] ? 1 : 0;
      if (recent.size() == kRoom) recent.erase(recent.begin());
    }
    recent.push_back(index);
    used[index] = true;
  }
  EXPECT_LE(static_cast<double>(replay(policy, uses, kRoom)), 1.05 * static_cast<double>(lru));
  EXPECT_EQ(policy.expert(), Expert::kRecency);
}

TEST(EvictionPolicy, EachMemberIsNamedOnceByEveryExpertAndInEveryState) {
  constexpr uint32_t kMany = 200;
  EvictionPolicy policy(kMany / 2, 1);
  for (uint32_t i = 0; i < kMany; ++i) policy.add(i, 1, kNormal + i % 3);
  std::mt19937 random(3);
  std::vector<bool> experts(EvictionPolicy::kExperts, false);
  for (uint32_t i = 0; i < 6000; ++i) {
    submit(policy, {i % kMany});
    if (random() % 2 == 0) policy.leave(static_cast<Index>(random() % kMany));
    if (random() % 50 == 0)
      policy.set_priority(i % kMany, kNormal + static_cast<uint32_t>(random() % 3));
    if (random() % 100 == 0) {
      const auto index = static_cast<Index>(random() % kMany);
      policy.remove(index);
      policy.add(index, 1, kNormal);
    }
    if (i % 97 != 0) continue;
    experts[static_cast<size_t>(policy.expert())] = true;
    std::vector<Index> named = order(policy);
    std::ranges::sort(named);
    std::vector<Index> members;
    for (Index index = 0; index < kMany; ++index) {
      if (policy.is_in_group(index)) members.push_back(index);
    }
    ASSERT_EQ(named, members) << i;
  }
  EXPECT_TRUE(experts[static_cast<size_t>(Expert::kRecency)]);
  EXPECT_TRUE(experts[static_cast<size_t>(Expert::kModel)]);
}

TEST(EvictionPolicy, ADriftingSetAmongStraysIsTheModelsToKeep) {
  // Most uses are of a set that moves on slowly, the others of any allocation: recency keeps the
  // strays.
  constexpr uint32_t kMany = 400;
  constexpr size_t kRoom = 250;
  EvictionPolicy policy(kRoom, 1);
  for (uint32_t i = 0; i < kMany; ++i) policy.add(i, 1, kNormal);
  std::mt19937 random(11);
  std::vector<Index> uses;
  for (uint32_t i = 0; i < 9000; ++i) {
    const bool stray = random() % 100 >= 70;
    const auto which = static_cast<uint32_t>(random());
    uses.push_back(stray ? which % kMany : (i / 100 + which % 120) % kMany);
  }
  EXPECT_EQ(policy.expert(), Expert::kRecency) << "nothing is known at first";
  replay(policy, uses, kRoom);
  EXPECT_EQ(policy.expert(), Expert::kModel);
}

TEST(EvictionPolicy, EndlessNewPrioritiesTakeNoMemory) {
  EvictionPolicy policy(1000, 1);
  const Index a = add(policy, 0, 1, 1);
  for (uint32_t i = 1; i < 10'000; ++i) {
    policy.set_priority(a, i);
    policy.enter(a, 0);
    policy.leave(a);
  }
  EXPECT_LE(policy.classes(0), 65U);
}

TEST(EvictionPolicy, NorDoTheyWhereUsesWereNotInOrder) {
  // While everything fits, uses leave a class unordered; the next query orders it.
  EvictionPolicy policy(1000, 1);
  const Index a = add(policy, 0, 1, 1);
  const Index b = add(policy, 1, 1, 1);
  for (uint32_t i = 2; i < 200; ++i) {
    for (const Index index : {a, b}) {
      policy.set_priority(index, i);
      policy.enter(index, 0);
    }
    for (int use = 0; use < 4200; ++use) submit(policy, {use % 3 == 0 ? a : b});
    submit(policy, {a});
    ASSERT_THAT(order(policy), ElementsAre(b, a));
    policy.leave(a);
    policy.leave(b);
  }
  EXPECT_LE(policy.classes(0), 65U);
}

}  // namespace
}  // namespace dxgkit::vidmm
