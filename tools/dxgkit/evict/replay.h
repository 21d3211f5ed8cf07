// What a trace pages in: by the memory manager's policy, by LRU, and at least.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/dxgkit/evict/trace.h"

namespace dxgkit::tool::evict {

/// The bytes all allocations have, divided by `oversubscription` (1 or more), rounded to the
/// nearest; at least what the hungriest submission names, which could not run otherwise.
uint64_t capacity_of(const Trace& trace, double oversubscription);

/// Every submission needs all it names in memory at once. Bytes that come in count, except at an
/// allocation's first use. Capacities are at least the trace's largest submission.

/// What no policy can undercut: any byte may leave alone, and those leave first that are used again
/// last (Belady, per submission). Cost: O(references * log allocations).
uint64_t bound_bytes(const Trace& trace, uint64_t capacity_bytes);

/// Whole allocations, least recently used first; within a submission in its order.
uint64_t lru_bytes(const Trace& trace, uint64_t capacity_bytes);

/// What knowing the future is worth to whole allocations, who is used again last leaving first. Not
/// a bound (sizes differ), but a schedule that exists: the bound is reachable that far.
uint64_t foreseen_bytes(const Trace& trace, uint64_t capacity_bytes);

/// Whole allocations, who is used least often in the whole trace leaving first: what knowing all
/// popularities, though no moment of use, is worth. Cost of both: O(references * log allocations).
uint64_t popular_bytes(const Trace& trace, uint64_t capacity_bytes);

struct PolicyRun {
  uint64_t page_in_bytes = 0;
  uint64_t decisions = 0;    // victims chosen
  uint64_t uses = 0;         // references told to the policy
  uint64_t decision_ns = 0;  // choosing victims, and comparing the experts for it
  uint64_t use_ns = 0;       // learning from uses
};
/// Whole allocations, as vidmm::EvictionPolicy says. Without `now_ns` nothing is timed.
PolicyRun run_policy(const Trace& trace, uint64_t capacity_bytes,
                     const std::function<uint64_t()>& now_ns);
/// Runs it up to `runs` times, and no more once `enough_ns` have passed. Times are sums over short
/// pieces of the trace, of the fastest run of each: whatever else the machine does only ever makes
/// a piece slower.
PolicyRun time_policy(const Trace& trace, uint64_t capacity_bytes,
                      const std::function<uint64_t()>& now_ns, uint32_t runs, uint64_t enough_ns);

}  // namespace dxgkit::tool::evict
