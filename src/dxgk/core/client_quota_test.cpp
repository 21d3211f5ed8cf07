// Counts of one user: a limit holds whatever threads do, and what is given back can be had again.
#include "dxgk/core/client_quota.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/host_thread.h"

namespace dxgkit::dxgk {
namespace {

TEST(ClientQuota, TheLastByteFitsAndOneMoreDoesNot) {
  ClientQuota quota({.memory_bytes = 100});
  EXPECT_TRUE(quota.take_memory(60));
  EXPECT_FALSE(quota.take_memory(41));
  EXPECT_FALSE(quota.take_memory(UINT64_MAX)) << "the sum wraps";
  EXPECT_EQ(quota.memory_bytes(), 60U);
  EXPECT_EQ(quota.refusals(), 2U);
  EXPECT_TRUE(quota.take_memory(40));
  quota.add_memory(5);
  EXPECT_FALSE(quota.take_memory(0)) << "it has too much already";
  quota.give_memory(105);
  EXPECT_TRUE(quota.take_memory(100));
}

TEST(ClientQuota, AChargeGivesBackOnce) {
  const auto quota = std::make_shared<ClientQuota>(ClientQuota::Limits{.memory_bytes = 10});
  {
    auto first = MemoryCharge::take(quota, 10);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(MemoryCharge::take(quota, 1).error(), Status::kNoMemory);
    MemoryCharge second = std::move(*first);
    EXPECT_TRUE(second.counts());
    EXPECT_EQ(quota->memory_bytes(), 10U);
    second = MemoryCharge();
    EXPECT_EQ(quota->memory_bytes(), 0U) << "nothing counts that nobody has";
  }
  EXPECT_EQ(quota->memory_bytes(), 0U);
  EXPECT_FALSE(MemoryCharge::take(nullptr, 10)->counts());
}

/// What a call has queued counts by itself, while the call still has its room.
TEST(ClientQuota, RoomOfACallIsForThatCall) {
  ClientQuota quota({.submissions = 2});
  ASSERT_TRUE(quota.enter(1));
  quota.queued();
  EXPECT_EQ(quota.submissions(), 1U);
  EXPECT_FALSE(quota.enter(1));
  quota.leave(1);
  ASSERT_TRUE(quota.enter(1));
  quota.queued();
  quota.leave(1);
  EXPECT_FALSE(quota.enter(1));
  quota.retired();
  EXPECT_TRUE(quota.enter(1));
  EXPECT_EQ(quota.submissions(), 1U);
}

TEST(ClientQuota, ThreadsNeverHaveMoreThanTheLimit) {
  constexpr uint64_t kMost = 3;
  ClientQuota quota({.memory_bytes = kMost});
  std::atomic<uint64_t> inside{0}, most{0};
  std::vector<std::unique_ptr<runtime::HostThread>> threads;
  for (int i = 0; i < 6; ++i) {
    threads.push_back(std::make_unique<runtime::HostThread>("user", [&] {
      for (int round = 0; round < 20'000; ++round) {
        if (!quota.take_memory(1)) continue;
        const uint64_t now = inside.fetch_add(1) + 1;
        for (uint64_t seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        inside.fetch_sub(1);
        quota.give_memory(1);
      }
    }));
  }
  for (const auto& thread : threads) thread->join();
  EXPECT_LE(most.load(), kMost);
  EXPECT_EQ(quota.memory_bytes(), 0U);
}

}  // namespace
}  // namespace dxgkit::dxgk
