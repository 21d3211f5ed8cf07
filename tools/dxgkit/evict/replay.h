// The bytes that a trace pages in: under the memory manager's policy, under LRU, and at least.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/dxgkit/evict/trace.h"

namespace dxgkit::tool::evict {

/// The bytes of all allocations, divided by `oversubscription` (1 or more), rounded to the nearest.
/// At least the size of the largest submission, which could not run otherwise.
uint64_t capacity_of(const Trace& trace, double oversubscription);

/// Every submission needs all its allocations in memory at once. Bytes that are paged in count,
/// except at an allocation's first use. Capacities are at least the trace's largest submission.

/// The lower bound for every policy: any byte may be evicted alone, and bytes whose next use is
/// furthest away are evicted first (Belady, per submission). Cost: O(references * log allocations).
uint64_t bound_bytes(const Trace& trace, uint64_t capacity_bytes);

/// Whole allocations, least recently used first; within a submission in its order.
uint64_t lru_bytes(const Trace& trace, uint64_t capacity_bytes);

/// Whole allocations with the future known: the one whose next use is furthest away is evicted
/// first. Not a bound, because sizes differ, but a schedule that exists: so close can the bound be
/// reached.
uint64_t foreseen_bytes(const Trace& trace, uint64_t capacity_bytes);

/// Whole allocations with all popularities known, but no moment of use: the one with the fewest
/// uses in the whole trace is evicted first. Cost of both: O(references * log allocations).
uint64_t popular_bytes(const Trace& trace, uint64_t capacity_bytes);

struct PolicyRun {
  uint64_t page_in_bytes = 0;
  uint64_t decisions = 0;    // victims chosen
  uint64_t uses = 0;         // references told to the policy
  uint64_t decision_ns = 0;  // choosing victims, and comparing the experts for it
  uint64_t use_ns = 0;       // learning from uses
};
/// Whole allocations in the order of vidmm::EvictionPolicy. Without `now_ns` nothing is timed.
PolicyRun run_policy(const Trace& trace, uint64_t capacity_bytes,
                     const std::function<uint64_t()>& now_ns);
/// Runs the replay up to `runs` times, and no more once `enough_ns` have passed. Times are sums
/// over short pieces of the trace, of the fastest run of each piece, because other work of the
/// machine can only make a piece slower.
PolicyRun time_policy(const Trace& trace, uint64_t capacity_bytes,
                      const std::function<uint64_t()>& now_ns, uint32_t runs, uint64_t enough_ns);

}  // namespace dxgkit::tool::evict
