// Where allocations are for plans: what counts as a move, and what is remembered of one that left.
#include "dxgk/va/resident_places.h"

#include <gtest/gtest.h>

namespace dxgkit::dxgk {
namespace {

constexpr AllocationId kOne{1}, kTwo{2};

vidmm::Placement at(uint64_t offset) {
  vidmm::Placement place;
  place.segment = SegmentId{1};
  place.offset_bytes = offset;
  return place;
}

TEST(ResidentPlaces, AnAllocationIsWhereItWasPutLast) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  ResidentPlaces places;
  EXPECT_EQ(places.find(kOne), nullptr);
  places.put(kOne, at(0));
  places.put(kOne, at(4096));
  ASSERT_NE(places.find(kOne), nullptr);
  EXPECT_EQ(places.find(kOne)->offset_bytes, 4096U);
  EXPECT_FALSE(places.contains(kTwo));
  EXPECT_EQ(places.moves(), 2U);
}

TEST(ResidentPlaces, TheTimeOfLeavingIsKnownUntilItComesBack) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  ResidentPlaces places;
  places.put(kOne, at(0));
  EXPECT_FALSE(places.left_ns(kOne).has_value());
  places.leave(kOne, 77);
  EXPECT_FALSE(places.contains(kOne));
  EXPECT_EQ(places.left_ns(kOne), 77);
  places.put(kOne, at(0));
  EXPECT_FALSE(places.left_ns(kOne).has_value());
}

TEST(ResidentPlaces, ForgettingWhatIsNowhereIsNoMove) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  ResidentPlaces places;
  places.put(kOne, at(0));
  places.leave(kOne, 77);
  const uint64_t moves = places.moves();
  places.forget(kOne);
  EXPECT_EQ(places.moves(), moves);
  EXPECT_FALSE(places.left_ns(kOne).has_value());
  places.put(kTwo, at(0));
  places.forget(kTwo);
  EXPECT_EQ(places.moves(), moves + 2);
}

TEST(ResidentPlaces, EntriesAreUnderWayUntilTheirWorkIsDone) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  ResidentPlaces places;
  EXPECT_FALSE(places.entries_under_way(kOne, 0));
  places.put(kOne, at(0));
  places.written_with(kOne, 5);
  places.written_with(kTwo, 5);
  EXPECT_TRUE(places.entries_under_way(kOne, 4));
  EXPECT_FALSE(places.entries_under_way(kOne, 5));
  places.forget(kOne);
  EXPECT_FALSE(places.entries_under_way(kOne, 4));
  EXPECT_TRUE(places.entries_under_way(kTwo, 4));
}

TEST(ResidentPlaces, WhatIsNotKeptIsNowhere) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  ResidentPlaces places;
  places.put(kOne, at(0));
  places.put(kTwo, at(4096));
  const uint64_t moves = places.moves();
  places.keep_if([](AllocationId id, const vidmm::Placement&) { return id == kTwo; });
  EXPECT_FALSE(places.contains(kOne));
  EXPECT_TRUE(places.contains(kTwo));
  EXPECT_GT(places.moves(), moves);
}

}  // namespace
}  // namespace dxgkit::dxgk
