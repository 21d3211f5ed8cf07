#include "tools/dxgkit/evict/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tools/dxgkit/evict/generate.h"

namespace dxgkit::tool::evict {
namespace {

Trace trace_of(std::string_view text) {
  auto trace = parse_trace(text);
  EXPECT_TRUE(trace.has_value()) << trace.error();
  return trace.value_or(Trace{});
}

TEST(EvictReplay, CapacityIsAShareOfAllBytesAndHoldsEverySubmission) {
  const Trace trace = trace_of("alloc 1 100\nalloc 2 50\nalloc 3 51\nsubmit 0 1 2");
  EXPECT_EQ(capacity_of(trace, 1), 201U);
  EXPECT_EQ(capacity_of(trace, 1.1), 183U) << "182.7";
  EXPECT_EQ(capacity_of(trace, 2), 150U) << "what the submission needs";
  EXPECT_EQ(capacity_of(trace, 1e6), 150U);
}

// Three of one size in a loop, with room for two. Each use of the third takes the place of one of
// the others. LRU always evicts the one that is used next, so all nine later uses page in. Belady
// keeps that one: A B C(for B) A B(for A) C A(for C) B C(for B) A B(for A) C, that is uses 5, 7, 9
// and 11.
TEST(EvictReplay, ALoopByHand) {
  std::string text = "alloc 1 10\nalloc 2 10\nalloc 3 10\n";
  for (int i = 0; i < 4; ++i) text += "submit 0 1\nsubmit 0 2\nsubmit 0 3\n";
  const Trace trace = trace_of(text);
  EXPECT_EQ(lru_bytes(trace, 20), 90U);
  EXPECT_EQ(bound_bytes(trace, 20), 40U);
  EXPECT_EQ(bound_bytes(trace, 30), 0U);
  EXPECT_EQ(lru_bytes(trace, 30), 0U);
  EXPECT_EQ(run_policy(trace, 30, {}).page_in_bytes, 0U);
  EXPECT_EQ(run_policy(trace, 30, {}).decisions, 0U);
}

// The same loop: whole allocations evicted in Belady's order reach the bound. All are equally
// popular, so the order of use does not matter. Of two candidates the one with the larger number is
// evicted, C or B, and A stays. B C C->B B->C ...: all but the first uses of B and C page in.
TEST(EvictReplay, WhatKnowingMoreIsWorth) {
  std::string text = "alloc 1 10\nalloc 2 10\nalloc 3 10\n";
  for (int i = 0; i < 4; ++i) text += "submit 0 1\nsubmit 0 2\nsubmit 0 3\n";
  const Trace trace = trace_of(text);
  EXPECT_EQ(foreseen_bytes(trace, 20), 40U);
  EXPECT_EQ(popular_bytes(trace, 20), 60U);
  // One that is used often stays, whatever comes.
  const Trace steady = trace_of(
      "alloc 1 10\nalloc 2 10\nalloc 3 10\n"
      "submit 0 1\nsubmit 0 2\nsubmit 0 3\nsubmit 0 2\nsubmit 0 3\nsubmit 0 1\nsubmit 0 1\nsubmit "
      "0 1");
  EXPECT_EQ(popular_bytes(steady, 20), 20U);
  EXPECT_EQ(foreseen_bytes(steady, 20), 10U);
}

// Bytes leave one by one: the 4 of B push out only 4 of A's 10, where whole ones page in all 10.
TEST(EvictReplay, TheBoundMovesPartsOfAllocations) {
  const Trace trace = trace_of("alloc 1 10\nalloc 2 4\nsubmit 0 1\nsubmit 0 2\nsubmit 0 1\n");
  EXPECT_EQ(bound_bytes(trace, 10), 4U);
  EXPECT_EQ(lru_bytes(trace, 10), 10U);
  EXPECT_EQ(run_policy(trace, 10, {}).page_in_bytes, 10U);
  EXPECT_EQ(run_policy(trace, 10, {}).decisions, 2U);
}

// An allocation that a submission names stays while the submission's others are paged in, though it
// is the oldest.
TEST(EvictReplay, WhatASubmissionNamesDoesNotLeaveForIt) {
  const Trace trace = trace_of(
      "alloc 1 10\nalloc 2 10\nalloc 3 10\n"
      "submit 0 1\nsubmit 0 2\nsubmit 0 3 1\nsubmit 0 1 3\n");
  EXPECT_EQ(lru_bytes(trace, 20), 0U);
  EXPECT_EQ(bound_bytes(trace, 20), 0U);
  EXPECT_EQ(run_policy(trace, 20, {}).page_in_bytes, 0U);
}

/// The least page-in over every choice of what to keep, each byte on its own: `here[a]` bytes of a.
class BruteForce {
 public:
  BruteForce(const Trace& trace, uint64_t capacity) : trace_(trace), capacity_(capacity) {}
  uint64_t least() { return least(0, std::vector<uint64_t>(trace_.bytes.size(), 0), {}); }

 private:
  uint64_t least(size_t s, std::vector<uint64_t> here, std::vector<bool> used) {
    if (s == trace_.submissions.size()) return 0;
    used.resize(trace_.bytes.size(), false);
    const auto key = std::pair(s, here);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    uint64_t paid = 0;
    std::vector<bool> named(trace_.bytes.size(), false);
    for (const uint32_t a : trace_.of(trace_.submissions[s])) {
      named[a] = true;
      if (used[a]) paid += trace_.bytes[a] - here[a];
      used[a] = true;
      here[a] = trace_.bytes[a];
    }
    uint64_t best = ~uint64_t{0};
    keep(s, here, used, named, 0, &best);
    known_[key] = best + paid;
    return best + paid;
  }
  /// All ways to let bytes of the others go until it fits.
  void keep(size_t s, std::vector<uint64_t>& here, const std::vector<bool>& used,
            const std::vector<bool>& named, size_t a, uint64_t* best) {
    if (a == here.size()) {
      uint64_t sum = 0;
      for (const uint64_t bytes : here) sum += bytes;
      if (sum <= capacity_) *best = std::min(*best, least(s + 1, here, used));
      return;
    }
    const uint64_t most = here[a];
    for (uint64_t bytes = named[a] ? most : 0; bytes <= most; ++bytes) {
      here[a] = bytes;
      keep(s, here, used, named, a + 1, best);
    }
    here[a] = most;
  }
  const Trace& trace_;
  uint64_t capacity_;
  std::map<std::pair<size_t, std::vector<uint64_t>>, uint64_t> known_;
};

TEST(EvictReplay, TheBoundIsWhatBruteForceFindsAndNobodyIsBelowIt) {
  size_t with_paging = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string text;
    for (int a = 0; a < 4; ++a)
      text += "alloc " + std::to_string(a) + " " + std::to_string(1 + random() % 3) + "\n";
    for (int s = 0; s < 8; ++s) {
      text += "submit 0";
      for (uint32_t n = 1 + random() % 2; n-- > 0;) text += " " + std::to_string(random() % 4);
      text += "\n";
    }
    const Trace trace = trace_of(text);
    const uint64_t capacity = capacity_of(trace, 1.3 + 0.2 * static_cast<double>(seed % 5));
    const uint64_t bound = bound_bytes(trace, capacity);
    EXPECT_EQ(bound, BruteForce(trace, capacity).least()) << text;
    EXPECT_GE(lru_bytes(trace, capacity), bound);
    EXPECT_GE(foreseen_bytes(trace, capacity), bound);
    EXPECT_GE(popular_bytes(trace, capacity), bound);
    EXPECT_GE(run_policy(trace, capacity, {}).page_in_bytes, bound);
    with_paging += bound > 0 ? 1 : 0;
  }
  EXPECT_GT(with_paging, 20U);
}

TEST(EvictReplay, OneTraceIsOneRun) {
  const Trace trace = *generate("mixed", 5);
  const uint64_t capacity = capacity_of(trace, 1.5);
  const PolicyRun one = run_policy(trace, capacity, {});
  const PolicyRun other = run_policy(trace, capacity, {});
  EXPECT_EQ(one.page_in_bytes, other.page_in_bytes);
  EXPECT_EQ(one.decisions, other.decisions);
}

}  // namespace
}  // namespace dxgkit::tool::evict
