#include "tools/dxgkit/evict/replay.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "vidmm/eviction_policy.h"

namespace dxgkit::tool::evict {
namespace {

constexpr size_t kNever = ~size_t{0};

/// For each reference the submission that names its allocation next.
std::vector<size_t> next_uses(const Trace& trace) {
  std::vector<size_t> next(trace.references.size());
  std::vector<size_t> seen(trace.bytes.size(), kNever);
  for (size_t s = trace.submissions.size(); s-- > 0;) {
    const Trace::Submission& submission = trace.submissions[s];
    for (size_t i = submission.first; i < submission.first + submission.count; ++i) {
      next[i] = std::exchange(seen[trace.references[i]], s);
    }
  }
  return next;
}

}  // namespace

uint64_t capacity_of(const Trace& trace, double oversubscription) {
  DXGKIT_CHECK(oversubscription >= 1);
  const auto share =
      static_cast<long double>(trace.total_bytes()) / static_cast<long double>(oversubscription);
  return std::max(static_cast<uint64_t>(std::llround(share)), trace.largest_submission_bytes());
}

uint64_t bound_bytes(const Trace& trace, uint64_t capacity_bytes) {
  const std::vector<size_t> next = next_uses(trace);
  const size_t count = trace.bytes.size();
  std::vector<uint64_t> here(count, 0);
  std::vector<bool> used(count, false);
  std::vector<size_t> next_of(count, kNever);
  // By next use, latest first; entries that are no longer true are dropped when met.
  std::priority_queue<std::pair<size_t, uint32_t>> queue;
  uint64_t resident = 0;
  uint64_t paged_in = 0;
  for (size_t s = 0; s < trace.submissions.size(); ++s) {
    const Trace::Submission& submission = trace.submissions[s];
    uint64_t missing = 0;
    for (const uint32_t a : trace.of(submission)) {
      const uint64_t bytes = trace.bytes[a] - here[a];
      missing += bytes;
      if (used[a]) paged_in += bytes;
      used[a] = true;
      // What is named now is its own next use: before all others, so it leaves last. Its entry is
      // false from here on.
      next_of[a] = s;
    }
    while (resident + missing > capacity_bytes) {
      DXGKIT_CHECK(!queue.empty());
      const auto [when, victim] = queue.top();
      if (next_of[victim] != when || when == s || here[victim] == 0) {
        queue.pop();
        continue;
      }
      const uint64_t bytes = std::min(here[victim], resident + missing - capacity_bytes);
      here[victim] -= bytes;
      resident -= bytes;
    }
    for (size_t i = submission.first; i < submission.first + submission.count; ++i) {
      const uint32_t a = trace.references[i];
      resident += trace.bytes[a] - here[a];
      here[a] = trace.bytes[a];
      next_of[a] = next[i];
      queue.emplace(next[i], a);
    }
  }
  return paged_in;
}

uint64_t lru_bytes(const Trace& trace, uint64_t capacity_bytes) {
  const size_t count = trace.bytes.size();
  const auto none = static_cast<uint32_t>(count);
  // A ring through `none`: after it the oldest, before it the youngest. Out of it: own neighbour.
  std::vector<uint32_t> after(count + 1);
  std::vector<uint32_t> before(count + 1);
  for (uint32_t a = 0; a <= none; ++a) after[a] = before[a] = a;
  std::vector<bool> here(count, false);
  std::vector<bool> used(count, false);
  std::vector<size_t> named(count, kNever);
  const auto unlink = [&](uint32_t a) {
    after[before[a]] = after[a];
    before[after[a]] = before[a];
  };
  uint64_t resident = 0;
  uint64_t paged_in = 0;
  for (size_t s = 0; s < trace.submissions.size(); ++s) {
    uint64_t missing = 0;
    for (const uint32_t a : trace.of(trace.submissions[s])) {
      named[a] = s;
      if (!here[a]) missing += trace.bytes[a];
    }
    for (uint32_t a = after[none]; resident + missing > capacity_bytes;) {
      DXGKIT_CHECK(a != none);
      const uint32_t following = after[a];
      if (named[a] != s) {
        unlink(a);
        here[a] = false;
        resident -= trace.bytes[a];
      }
      a = following;
    }
    for (const uint32_t a : trace.of(trace.submissions[s])) {
      if (here[a]) {
        unlink(a);
      } else {
        here[a] = true;
        resident += trace.bytes[a];
        if (used[a]) paged_in += trace.bytes[a];
      }
      used[a] = true;
      before[a] = before[none];
      after[a] = none;
      after[before[a]] = a;
      before[none] = a;
    }
  }
  return paged_in;
}

PolicyRun run_policy(const Trace& trace, uint64_t capacity_bytes,
                     const std::function<uint64_t()>& now_ns) {
  using Policy = vidmm::EvictionPolicy;
  constexpr uint32_t kPriority = 1;
  const size_t count = trace.bytes.size();
  Policy policy(capacity_bytes, 1);
  for (size_t a = 0; a < count; ++a) {
    DXGKIT_CHECK(policy.add(trace.bytes[a], kPriority) == a);
  }
  std::vector<bool> used(count, false);
  std::vector<size_t> named(count, kNever);
  PolicyRun run;
  uint64_t resident = 0;
  // What reading the clock costs is no cost of the policy.
  uint64_t clock_ns = ~uint64_t{0};
  for (int i = 0; now_ns && i < 100; ++i) {
    const uint64_t begin = now_ns();
    clock_ns = std::min(clock_ns, now_ns() - begin);
  }
  uint64_t since = 0;
  const auto start = [&] {
    if (now_ns) since = now_ns();
  };
  const auto stop = [&](uint64_t* sum) {
    if (!now_ns) return;
    const uint64_t passed = now_ns() - since;
    *sum += passed - std::min(passed, clock_ns);
  };
  for (size_t s = 0; s < trace.submissions.size(); ++s) {
    const std::span<const uint32_t> list = trace.of(trace.submissions[s]);
    uint64_t missing = 0;
    for (const uint32_t a : list) {
      named[a] = s;
      if (!policy.is_in_group(a)) missing += trace.bytes[a];
    }
    start();
    if (resident + missing > capacity_bytes) {
      policy.begin_choice(0);
      while (resident + missing > capacity_bytes) {
        const Policy::Index victim = policy.next();
        DXGKIT_CHECK(victim != Policy::kNone);
        if (named[victim] == s) continue;
        policy.leave(victim);
        resident -= trace.bytes[victim];
        ++run.decisions;
      }
    }
    policy.begin_submission();
    stop(&run.decision_ns);
    start();
    for (const uint32_t a : list) {
      if (!policy.is_in_group(a)) {
        policy.enter(a, 0);
        resident += trace.bytes[a];
        if (used[a]) run.page_in_bytes += trace.bytes[a];
      }
      used[a] = true;
      policy.use(a);
    }
    stop(&run.use_ns);
    run.uses += list.size();
  }
  return run;
}

}  // namespace dxgkit::tool::evict
