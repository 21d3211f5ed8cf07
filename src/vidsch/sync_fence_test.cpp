// Fences whose value is in memory that the GPU writes: half-width storage, objects that hear of
// their waiters, stores by other code, and values that are read again.
#include <gmock/gmock.h>

#include <optional>
#include <utility>

#include "tests/support/covers.h"
#include "vidsch/sync_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kNobody = UINT64_MAX;
constexpr uint64_t kHalf = UINT32_MAX / 2;

class SyncFenceTest : public NamedWaits {
 protected:
  void make(SyncObjectId id, SyncDesc desc) {
    ASSERT_EQ(sync_.create(id, std::move(desc)), Status::kSuccess);
  }
  void make_narrow(uint64_t initial) { make(kX, {.initial = initial, .storage32 = &low_}); }
  /// A fence that notes in `told_` what is waited for.
  void make_watched(SyncObjectId id = kX) {
    make(id, {.storage = &storage_, .watched = [this](uint64_t least) {
                told_.push_back(least);
                if (written_when_told_) storage_.store(*written_when_told_);
              }});
  }
  std::vector<uint64_t> take_told() { return std::exchange(told_, {}); }

  std::atomic<uint64_t> storage_{0};
  std::atomic<uint32_t> low_{0};
  std::optional<uint64_t> written_when_told_;
  std::vector<uint64_t> told_;
};

// --- half-width storage ---

TEST_F(SyncFenceTest, HalfWidthStorageIsExtendedAcrossTheWrap) {
  DXGKIT_COVERS("SYNC-17");
  make_narrow(0xFFFFFFF0);
  EXPECT_EQ(low_.load(), 0xFFFFFFF0U) << "visible from creation";
  EXPECT_EQ(sync_.value(kX), 0xFFFFFFF0U);
  low_.store(5);  // the GPU went on
  EXPECT_EQ(sync_.value(kX), 0x1'0000'0005U);
  low_.store(0xFFFFFFFF);  // and was rewound
  EXPECT_EQ(sync_.value(kX), 0xFFFFFFFFU);
}

TEST_F(SyncFenceTest, HalfWidthStorageGetsTheLowHalfOfASignal) {
  DXGKIT_COVERS("SYNC-08", "SYNC-17", "SYNC-18");
  make_narrow(0xFFFFFFFE);
  wait(1, {{kX, 0x1'0000'0002}});
  EXPECT_EQ(signal({{kX, 0x1'0000'0001}}), Status::kSuccess);
  EXPECT_EQ(low_.load(), 1U);
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_EQ(signal({{kX, 0xFFFFFFFF}}), Status::kSuccess);
  EXPECT_EQ(low_.load(), 1U) << "a fence does not fall";
  EXPECT_EQ(signal({{kX, 0x1'0000'0001}}), Status::kSuccess) << "nor is the same value news";
  EXPECT_EQ(signal({{kX, 0xFFFFFFFF, true}}), Status::kSuccess);
  EXPECT_EQ(low_.load(), 0xFFFFFFFFU) << "unless it may";
  EXPECT_EQ(sync_.value(kX), 0xFFFFFFFFU);
  EXPECT_EQ(signal({{kX, 0x1'0000'0002}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(1));
}

// A write of the GPU before the CPU's signal counts, although it was not read yet.
TEST_F(SyncFenceTest, ASignalBelowWhatTheGpuWroteChangesNothing) {
  DXGKIT_COVERS("SYNC-08", "SYNC-17");
  make_narrow(0);
  low_.store(10);
  EXPECT_EQ(signal({{kX, 7}}), Status::kSuccess);
  EXPECT_EQ(low_.load(), 10U);
  EXPECT_EQ(sync_.value(kX), 10U);
}

TEST_F(SyncFenceTest, ReachIsHalfTheRangeToBothSides) {
  DXGKIT_COVERS("SYNC-17");
  const uint64_t start = 0x5'0000'0000;
  make_narrow(start);
  EXPECT_TRUE(sync_.in_reach({kX, start + kHalf}));
  EXPECT_FALSE(sync_.in_reach({kX, start + kHalf + 1}));
  EXPECT_TRUE(sync_.in_reach({kX, start - kHalf}));
  EXPECT_FALSE(sync_.in_reach({kX, start - kHalf - 1}));
  low_.store(1);
  EXPECT_TRUE(sync_.in_reach({kX, start + kHalf + 1})) << "from where it stands now";
  make(kY, {.storage = &storage_});
  EXPECT_TRUE(sync_.in_reach({kY, kNobody})) << "full width reaches everywhere";
  EXPECT_TRUE(sync_.in_reach({SyncObjectId{9}, kNobody})) << "nobody has the object";
}

TEST_F(SyncFenceTest, HalfWidthStorageIsRead) {
  DXGKIT_COVERS("SYNC-17", "SYNC-19");
  make_narrow(0xFFFFFFFF);
  EXPECT_FALSE(gpu_wait(10, {{kX, 0x1'0000'0000}}));
  low_.store(0);
  EXPECT_THAT(woken_, IsEmpty());
  sync_.reread();
  EXPECT_THAT(woken_, ElementsAre(10));
}

// --- objects that hear of their waiters ---

TEST_F(SyncFenceTest, TheLeastWaitedValueIsToldWhenItChanges) {
  DXGKIT_COVERS("SYNC-30");
  make_watched();
  EXPECT_THAT(take_told(), IsEmpty()) << "nobody waits";
  const CpuWaitId five = wait(5, {{kX, 5}});
  EXPECT_THAT(take_told(), ElementsAre(5));
  wait(8, {{kX, 8}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 5}}));
  EXPECT_THAT(take_told(), IsEmpty()) << "5 still is the least";
  wait(3, {{kX, 3}});
  EXPECT_THAT(take_told(), ElementsAre(3));
  EXPECT_EQ(signal({{kX, 4}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(3));
  EXPECT_THAT(take_told(), ElementsAre(5));
  EXPECT_TRUE(sync_.cancel_wait(five));
  EXPECT_THAT(take_told(), IsEmpty()) << "the GPU waits for it too";
  sync_.cancel_gpu_wait(ContextId{10});
  EXPECT_THAT(take_told(), ElementsAre(8));
  EXPECT_EQ(signal({{kX, 9}}), Status::kSuccess);
  EXPECT_THAT(take_told(), ElementsAre(kNobody));
  EXPECT_THAT(ended_, ElementsAre(3, 8));
}

// A value that was there before is reported in any case: who stays waits for the report, and can
// still be cancelled.
TEST_F(SyncFenceTest, CancellingAWaitWakesNobodyElse) {
  DXGKIT_COVERS("SYNC-30");
  make_watched();
  const CpuWaitId five = wait(5, {{kX, 5}});
  const CpuWaitId seven = wait(7, {{kX, 7}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 4}}));
  EXPECT_FALSE(gpu_wait(11, {{kX, 6}}));
  storage_.store(8);
  sync_.cancel_gpu_wait(ContextId{10});
  EXPECT_TRUE(sync_.cancel_wait(five));
  EXPECT_THAT(take_told(), ElementsAre(5, 4, 5, 6));
  EXPECT_EQ(sync_.waits().size(), 2U) << "7, and the context that waits for 6";
  EXPECT_TRUE(sync_.cancel_wait(seven));
  EXPECT_THAT(woken_, IsEmpty());
  sync_.reread();
  EXPECT_THAT(woken_, ElementsAre(11));
  EXPECT_THAT(ended_, IsEmpty());
}

// The signal comes just before the hardware hears of the waiter, so no interrupt will come.
TEST_F(SyncFenceTest, ASignalThatWentByWhileTellingIsNotLost) {
  DXGKIT_COVERS("SYNC-30");
  make_watched();
  written_when_told_ = 5;
  wait(1, {{kX, 5}});
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_THAT(take_told(), ElementsAre(5, kNobody));
  written_when_told_ = 7;
  EXPECT_TRUE(gpu_wait(10, {{kX, 6}}));
  EXPECT_THAT(take_told(), ElementsAre(6, kNobody));
  EXPECT_THAT(sync_.waits(), IsEmpty());
}

// It may come when the mark moves up, too: a satisfied waiter is woken at once.
TEST_F(SyncFenceTest, ASignalThatWentByWhenTheMarkRoseIsNotLost) {
  DXGKIT_COVERS("SYNC-30");
  make_watched();
  wait(3, {{kX, 3}});
  wait(6, {{kX, 6}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 9}}));
  written_when_told_ = 7;
  EXPECT_EQ(signal({{kX, 4}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(3, 6));
  EXPECT_THAT(take_told(), ElementsAre(3, 6, 9));
  EXPECT_THAT(woken_, IsEmpty());
}

// A latched point waits no more: of {x >= 2, y >= 1} only y is left once x was there.
TEST_F(SyncFenceTest, WhatIsLatchedIsNotWaitedFor) {
  DXGKIT_COVERS("SYNC-23", "SYNC-30");
  make_watched();
  make(kY, {.kind = SyncKind::kFence});
  storage_.store(2);
  wait(1, {{kX, 2}, {kY, 1}});
  EXPECT_THAT(take_told(), IsEmpty());
  wait(2, {{kX, 4}, {kY, 1}});
  EXPECT_THAT(take_told(), ElementsAre(4));
  EXPECT_EQ(signal({{kX, 4}}), Status::kSuccess);
  EXPECT_THAT(take_told(), ElementsAre(kNobody));
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_EQ(signal({{kX, 0, true}, {kY, 1}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(1, 2));
}

TEST_F(SyncFenceTest, AnObjectThatIsGoneIsToldNothing) {
  DXGKIT_COVERS("SYNC-28", "SYNC-30");
  make_watched();
  make(kY, {.kind = SyncKind::kFence});
  wait(1, {{kX, 5}});
  EXPECT_FALSE(gpu_wait(10, {{kX, 5}, {kY, 1}}));
  take_told();
  sync_.destroy(kX);
  EXPECT_THAT(take_told(), IsEmpty());
  EXPECT_THAT(failed_, ElementsAre(1));
  EXPECT_THAT(woken_, IsEmpty());
  EXPECT_EQ(signal({{kX, 5}, {kY, 1}}), Status::kSuccess) << "a queued signal may name it still";
  EXPECT_THAT(woken_, ElementsAre(10));
  EXPECT_TRUE(gpu_wait(11, {{kX, 5}}));
  EXPECT_FALSE(gpu_wait(12, {{kX, 5}, {kY, 2}}));
}

// --- stores by other code ---

TEST_F(SyncFenceTest, AStoreOfItsOwnGetsWhatIsHigherOrMayRewind) {
  DXGKIT_COVERS("SYNC-08");
  std::vector<uint64_t> stored;
  make(kX, {.initial = 5, .storage = &storage_, .store = [&](uint64_t value) {
              stored.push_back(value);
              storage_.store(value);
            }});
  EXPECT_FALSE(gpu_wait(10, {{kX, 6}}));
  EXPECT_EQ(signal({{kX, 4}}), Status::kSuccess);
  EXPECT_EQ(signal({{kX, 5}}), Status::kSuccess);
  EXPECT_THAT(stored, IsEmpty());
  EXPECT_EQ(signal({{kX, 6}}), Status::kSuccess);
  EXPECT_THAT(stored, ElementsAre(6));
  EXPECT_THAT(woken_, ElementsAre(10));
  EXPECT_EQ(signal({{kX, 2, true}}), Status::kSuccess);
  EXPECT_THAT(stored, ElementsAre(6, 2));
  EXPECT_EQ(sync_.value(kX), 2U);
}

// --- reading again ---

TEST_F(SyncFenceTest, NamedObjectsAreReadAgainAndNoOthers) {
  DXGKIT_COVERS("SYNC-19");
  std::atomic<uint64_t> other{0};
  make(kX, {.storage = &storage_});
  make(kY, {.storage = &other});
  wait(1, {{kX, 1}});
  wait(2, {{kY, 1}});
  storage_.store(1);
  other.store(1);
  sync_.reread(std::vector<SyncObjectId>{SyncObjectId{9}, kX});
  EXPECT_THAT(ended_, ElementsAre(1));
  sync_.reread(std::vector<SyncObjectId>{kY});
  EXPECT_THAT(ended_, ElementsAre(1, 2));
}

// A wait may end while the list of objects is gone through, and take the last waiter of another.
TEST_F(SyncFenceTest, ReadingAgainSurvivesObjectsThatLoseTheirWaiters) {
  DXGKIT_COVERS("SYNC-19");
  std::atomic<uint64_t> other{0};
  make(kX, {.storage = &storage_});
  make(kY, {.storage = &other});
  make(SyncObjectId{3}, {.kind = SyncKind::kSemaphore, .maximum = 1});
  wait(1, {{kX, 1}, {kY, 1}}, WaitMode::kAny);
  wait(2, {{SyncObjectId{3}}});
  storage_.store(1);
  other.store(1);
  sync_.reread();
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_TRUE(sync_.validate());
}

// --- reports ---

TEST_F(SyncFenceTest, WaitsUnderWayAreToldWithWhereTheyStand) {
  const SyncObjectId mutex{3};
  make(kX, {.initial = 2, .storage = &storage_});
  make(kY, {.kind = SyncKind::kFence});
  make(mutex, {.kind = SyncKind::kMutex});
  ASSERT_TRUE(gpu_wait(10, {{mutex}}));
  EXPECT_THAT(sync_.waits(), IsEmpty());
  wait(1, {{kX, 2}, {kX, 4}}, WaitMode::kAll);
  EXPECT_FALSE(gpu_wait(11, {{mutex}, {kY, 1}}));
  wait(2, {{kX, 9}, {mutex}}, WaitMode::kAny);
  sync_.destroy(kY);
  const std::vector<WaitInfo> waits = sync_.waits();
  ASSERT_EQ(waits.size(), 3U);
  EXPECT_EQ(waits[0].context.value, 0U) << "a CPU";
  EXPECT_EQ(waits[0].mode, WaitMode::kAll);
  ASSERT_EQ(waits[0].points.size(), 2U);
  EXPECT_TRUE(waits[0].points[0].reached);
  EXPECT_FALSE(waits[0].points[1].reached);
  EXPECT_EQ(waits[0].points[1].object, kX);
  EXPECT_EQ(waits[0].points[1].kind, SyncKind::kMonitoredFence);
  EXPECT_EQ(waits[0].points[1].value, 4U);
  EXPECT_EQ(waits[0].points[1].current, 2U);
  EXPECT_EQ(waits[1].context.value, 11U);
  EXPECT_EQ(waits[1].points[0].owner.value, 10U) << "who has the mutex";
  EXPECT_FALSE(waits[1].points[0].reached);
  EXPECT_EQ(waits[1].points[1].object.value, 0U) << "destroyed since";
  EXPECT_TRUE(waits[1].points[1].reached);
  EXPECT_EQ(waits[2].mode, WaitMode::kAny);
}

}  // namespace
}  // namespace dxgkit::vidsch
