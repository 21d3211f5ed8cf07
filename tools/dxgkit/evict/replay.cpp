#include "tools/dxgkit/evict/replay.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <queue>
#include <set>
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
  // By next use, latest first. Outdated entries are dropped when found.
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
      // The next use of an allocation named now is now, before all others, so it is evicted last.
      // Its entry is invalid from here on.
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
  // A ring through `none`: the oldest comes after it, the youngest before it. An element outside
  // the ring is its own neighbour.
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

namespace {

/// Whole allocations. `key(reference)`: the eviction order of the named allocation from then on,
/// the largest first.
template <typename Key>
uint64_t ordered_bytes(const Trace& trace, uint64_t capacity_bytes, Key key) {
  const size_t count = trace.bytes.size();
  std::vector<size_t> keys(count, 0);
  std::vector<bool> here(count, false);
  std::vector<bool> used(count, false);
  std::set<std::pair<size_t, uint32_t>> may_leave;  // here, and not named by the submission
  uint64_t resident = 0;
  uint64_t paged_in = 0;
  for (const Trace::Submission& submission : trace.submissions) {
    for (const uint32_t a : trace.of(submission)) {
      may_leave.erase({keys[a], a});
      if (here[a]) continue;
      here[a] = true;
      resident += trace.bytes[a];
      if (used[a]) paged_in += trace.bytes[a];
      used[a] = true;
    }
    while (resident > capacity_bytes) {
      DXGKIT_CHECK(!may_leave.empty());
      const auto victim = std::prev(may_leave.end());
      here[victim->second] = false;
      resident -= trace.bytes[victim->second];
      may_leave.erase(victim);
    }
    for (size_t i = submission.first; i < submission.first + submission.count; ++i) {
      const uint32_t a = trace.references[i];
      keys[a] = key(i);
      may_leave.emplace(keys[a], a);
    }
  }
  return paged_in;
}

}  // namespace

uint64_t foreseen_bytes(const Trace& trace, uint64_t capacity_bytes) {
  const std::vector<size_t> next = next_uses(trace);
  return ordered_bytes(trace, capacity_bytes, [&](size_t i) { return next[i]; });
}

uint64_t popular_bytes(const Trace& trace, uint64_t capacity_bytes) {
  std::vector<size_t> uses(trace.bytes.size(), 0);
  for (const uint32_t a : trace.references) ++uses[a];
  return ordered_bytes(trace, capacity_bytes,
                       [&](size_t i) { return kNever - uses[trace.references[i]]; });
}

namespace {

/// Times of a piece of the trace.
struct Piece {
  uint64_t decision_ns = 0, use_ns = 0;
};
constexpr size_t kPieceSubmissions = 64;

PolicyRun replay(const Trace& trace, uint64_t capacity_bytes,
                 const std::function<uint64_t()>& now_ns, std::vector<Piece>* pieces) {
  using Policy = vidmm::EvictionPolicy;
  constexpr uint32_t kPriority = 1;
  const size_t count = trace.bytes.size();
  Policy policy(capacity_bytes, 1);
  for (uint32_t a = 0; a < count; ++a) policy.add(a, trace.bytes[a], kPriority);
  std::vector<bool> used(count, false);
  std::vector<size_t> named(count, kNever);
  PolicyRun run;
  uint64_t resident = 0;
  // The usual cost of reading the clock is not a cost of the policy.
  std::vector<uint64_t> reads(now_ns ? 1001 : 1);
  for (uint64_t& read : reads) {
    if (!now_ns) break;
    const uint64_t begin = now_ns();
    read = now_ns() - begin;
  }
  std::ranges::nth_element(reads, reads.begin() + static_cast<std::ptrdiff_t>(reads.size() / 2));
  const uint64_t clock_ns = reads[reads.size() / 2];
  uint64_t since = 0;
  const auto start = [&] {
    if (now_ns) since = now_ns();
  };
  const auto stop = [&](uint64_t* sum) {
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
    if (pieces != nullptr && s % kPieceSubmissions == 0) pieces->emplace_back();
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
    if (now_ns) stop(&pieces->back().decision_ns);
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
    if (now_ns) stop(&pieces->back().use_ns);
    run.uses += list.size();
  }
  return run;
}

}  // namespace

PolicyRun run_policy(const Trace& trace, uint64_t capacity_bytes,
                     const std::function<uint64_t()>& now_ns) {
  return time_policy(trace, capacity_bytes, now_ns, 1, 0);
}

PolicyRun time_policy(const Trace& trace, uint64_t capacity_bytes,
                      const std::function<uint64_t()>& now_ns, uint32_t runs, uint64_t enough_ns) {
  if (!now_ns) return replay(trace, capacity_bytes, now_ns, nullptr);
  const uint64_t begin = now_ns();
  std::vector<Piece> fastest;
  PolicyRun run = replay(trace, capacity_bytes, now_ns, &fastest);
  for (uint32_t i = 1; i < runs && now_ns() - begin < enough_ns; ++i) {
    std::vector<Piece> pieces;
    static_cast<void>(replay(trace, capacity_bytes, now_ns, &pieces));
    for (size_t piece = 0; piece < pieces.size(); ++piece) {
      fastest[piece].decision_ns = std::min(fastest[piece].decision_ns, pieces[piece].decision_ns);
      fastest[piece].use_ns = std::min(fastest[piece].use_ns, pieces[piece].use_ns);
    }
  }
  for (const Piece& piece : fastest) {
    run.decision_ns += piece.decision_ns;
    run.use_ns += piece.use_ns;
  }
  return run;
}

}  // namespace dxgkit::tool::evict
