// Mutexes, semaphores and notifications: what is taken is taken whole, and what is refused leaves
// no trace.
#include <gmock/gmock.h>

#include "tests/support/covers.h"
#include "vidsch/sync_fixture_test.h"

namespace dxgkit::vidsch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SyncObjectId kMutex{1}, kSemaphore{2}, kFence{3}, kGone{9};

class SyncCountedTest : public NamedWaits {
 protected:
  void make(SyncObjectId id, SyncKind kind, uint64_t initial = 0, uint64_t maximum = 0) {
    ASSERT_EQ(sync_.create(id, {.kind = kind, .initial = initial, .maximum = maximum}),
              Status::kSuccess);
  }
};

TEST_F(SyncCountedTest, AWaitForAnyTakesTheFirstItCanHaveAndNothingElse) {
  DXGKIT_COVERS("SYNC-21");
  make(kMutex, SyncKind::kMutex, 1);
  make(kSemaphore, SyncKind::kSemaphore, 2, 2);
  wait(1, {{kMutex}, {kSemaphore}, {kSemaphore}}, WaitMode::kAny);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_EQ(sync_.value(kSemaphore), 1U);
  wait(2, {}, WaitMode::kAny);
  wait(3, {}, WaitMode::kAll);
  EXPECT_THAT(ended_, ElementsAre(1, 2, 3)) << "nothing to wait for";
}

// A mutex named twice cannot be had: not even what could be is kept meanwhile.
TEST_F(SyncCountedTest, WhatCannotBeHadWholeIsGivenBack) {
  DXGKIT_COVERS("SYNC-02");
  make(kMutex, SyncKind::kMutex);
  make(kSemaphore, SyncKind::kSemaphore, 1, 1);
  make(kFence, SyncKind::kFence, 1);
  EXPECT_FALSE(gpu_wait(10, {{kFence, 1}, {kGone}, {kSemaphore}, {kMutex}, {kMutex}}));
  EXPECT_EQ(sync_.value(kSemaphore), 1U);
  EXPECT_EQ(sync_.value(kMutex), 0U);
  EXPECT_EQ(sync_.waits().at(0).points.at(3).owner.value, 0U) << "nobody's";
  EXPECT_TRUE(gpu_wait(11, {{kMutex}, {kSemaphore}}));
}

TEST_F(SyncCountedTest, ARefusedSignalGivesBackWhatItHadTakenEffectOn) {
  DXGKIT_COVERS("SYNC-02", "SYNC-03");
  const SyncObjectId full{4};
  make(kMutex, SyncKind::kMutex);
  make(kSemaphore, SyncKind::kSemaphore, 0, 2);
  make(kFence, SyncKind::kFence);
  make(full, SyncKind::kSemaphore, 1, 1);
  ASSERT_TRUE(gpu_wait(10, {{kMutex}}));
  EXPECT_FALSE(gpu_wait(11, {{kMutex}}));
  EXPECT_FALSE(gpu_wait(12, {{kSemaphore}}));
  EXPECT_EQ(signal({{kFence, 3}, {kGone, 1}, {kMutex}, {kSemaphore}, {full}}),
            Status::kInvalidParameter);
  EXPECT_EQ(sync_.value(kMutex), 1U);
  EXPECT_EQ(sync_.value(kSemaphore), 0U);
  EXPECT_EQ(sync_.value(kFence), 0U);
  EXPECT_EQ(sync_.value(full), 1U);
  EXPECT_EQ(signal({{kSemaphore}, {kMutex}, {kMutex}}), Status::kInvalidParameter)
      << "free after the first";
  EXPECT_EQ(sync_.value(kSemaphore), 0U);
  EXPECT_THAT(woken_, IsEmpty());
  sync_.abandon(ContextId{10});
  EXPECT_THAT(woken_, ElementsAre(11)) << "10 had it all the time";
}

TEST_F(SyncCountedTest, AbandoningFreesEveryMutexOfTheOwnerAndOfNobodyElse) {
  DXGKIT_COVERS("SYNC-27");
  const SyncObjectId second{5}, third{6}, unowned{7};
  make(third, SyncKind::kMutex);
  make(second, SyncKind::kMutex);
  make(kMutex, SyncKind::kMutex);
  make(unowned, SyncKind::kMutex, 1);
  make(kSemaphore, SyncKind::kSemaphore, 0, 1);
  ASSERT_TRUE(gpu_wait(10, {{third}, {second}}));
  ASSERT_TRUE(gpu_wait(11, {{kMutex}}));
  EXPECT_FALSE(gpu_wait(13, {{third}}));
  EXPECT_FALSE(gpu_wait(12, {{second}}));
  sync_.abandon(ContextId{10});
  EXPECT_THAT(woken_, ElementsAre(12, 13)) << "in the order of the objects' ids";
  sync_.abandon(ContextId{10});
  sync_.abandon(ContextId{});
  EXPECT_EQ(sync_.value(kMutex), 1U);
  EXPECT_EQ(sync_.value(unowned), 1U) << "created owned, by nobody that could die";
  EXPECT_TRUE(sync_.validate());
}

// A signalled mutex has no owner: the death of its last owner has no effect, whether the mutex was
// created owned or taken by a CPU.
TEST_F(SyncCountedTest, AMutexTakenByACpuOutlivesItsFormerOwner) {
  DXGKIT_COVERS("SYNC-27");
  make(kMutex, SyncKind::kMutex);
  ASSERT_TRUE(gpu_wait(10, {{kMutex}}));
  ASSERT_EQ(signal({{kMutex}}), Status::kSuccess);
  wait(1, {{kMutex}});
  EXPECT_THAT(ended_, ElementsAre(1));
  sync_.abandon(ContextId{10});
  EXPECT_EQ(sync_.value(kMutex), 1U);
}

TEST_F(SyncCountedTest, ANotificationMayBeWaitedForAndNeedsNobodyToCall) {
  ASSERT_EQ(sync_.create(kFence, {.kind = SyncKind::kCpuNotification, .initial = 7}),
            Status::kSuccess);
  wait(1, {{kFence}});
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_EQ(signal({{kFence}}), Status::kSuccess);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_THAT(woken_, IsEmpty()) << "nor any context";
  EXPECT_EQ(sync_.value(kFence), 1U);
  EXPECT_EQ(sync_.kind(kFence), SyncKind::kCpuNotification);
}

// Storage is for fences: a counted object leaves it alone.
TEST_F(SyncCountedTest, CountsAreNotPublished) {
  std::atomic<uint64_t> storage{77};
  std::atomic<uint32_t> low{78};
  ASSERT_EQ(sync_.create(kSemaphore, {.kind = SyncKind::kSemaphore,
                                      .initial = 1,
                                      .maximum = 2,
                                      .storage = &storage,
                                      .storage32 = &low}),
            Status::kSuccess);
  EXPECT_EQ(signal({{kSemaphore}}), Status::kSuccess);
  EXPECT_EQ(sync_.value(kSemaphore), 2U);
  EXPECT_EQ(storage.load(), 77U);
  EXPECT_EQ(low.load(), 78U);
}

TEST_F(SyncCountedTest, DestructionTakesAnObjectThatIsNamedTwice) {
  DXGKIT_COVERS("SYNC-28");
  make(kSemaphore, SyncKind::kSemaphore, 1, 2);
  make(kFence, SyncKind::kFence);
  make(kMutex, SyncKind::kMutex, 1);
  EXPECT_FALSE(gpu_wait(10, {{kSemaphore}, {kFence, 1}, {kSemaphore}}));
  EXPECT_FALSE(gpu_wait(11, {{kMutex}, {kSemaphore}}));
  EXPECT_FALSE(gpu_wait(12, {{kSemaphore}, {kSemaphore}}));
  sync_.destroy(kSemaphore);
  EXPECT_TRUE(sync_.validate());
  EXPECT_THAT(woken_, ElementsAre(12));
  EXPECT_EQ(signal({{kFence, 1}}), Status::kSuccess);
  EXPECT_EQ(signal({{kMutex}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(12, 10, 11));
  EXPECT_EQ(sync_.value(kMutex), 1U) << "11 has it";
}

TEST_F(SyncCountedTest, WithdrawingAWaitThatIsNotThereDoesNothing) {
  make(kFence, SyncKind::kFence);
  EXPECT_FALSE(gpu_wait(10, {{kFence, 1}}));
  sync_.cancel_gpu_wait(ContextId{11});
  EXPECT_EQ(signal({{kFence, 1}}), Status::kSuccess);
  EXPECT_THAT(woken_, ElementsAre(10));
}

}  // namespace
}  // namespace dxgkit::vidsch
