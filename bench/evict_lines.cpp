// evict.: the eviction policy on reference traces.
#include <algorithm>
#include <array>
#include <cmath>

#include "bench/harness.h"
#include "tools/dxgkit/evict/generate.h"
#include "tools/dxgkit/evict/replay.h"

namespace dxgkit::bench {
namespace {

using tool::evict::Trace;

constexpr std::array<double, 3> kOversubscriptions{1.1, 1.5, 2.0};
constexpr uint64_t kSeed = 1;

struct Case {
  double ours = 0, lru = 0, bound = 0;  // bytes
};

/// The standard traces at every oversubscription; nothing is timed.
std::vector<Case> standard_cases() {
  std::vector<Case> cases;
  for (const tool::evict::Family& family : tool::evict::families()) {
    if (!family.standard) continue;
    const Trace trace = family.make(kSeed);
    for (const double oversubscription : kOversubscriptions) {
      const uint64_t capacity = tool::evict::capacity_of(trace, oversubscription);
      cases.push_back(
          {.ours = static_cast<double>(tool::evict::run_policy(trace, capacity, {}).page_in_bytes),
           .lru = static_cast<double>(tool::evict::lru_bytes(trace, capacity)),
           .bound = static_cast<double>(tool::evict::bound_bytes(trace, capacity))});
    }
  }
  return cases;
}

Line geomean_line() {
  Line line;
  line.name = "evict.geomean_vs_bound";
  line.what =
      "page-in bytes of 3 traces at 1.1x, 1.5x, 2x, geometric mean / fractional Belady per "
      "submission";
  line.unit = Unit::kBytes;
  line.goal = Goal::kAtMost;
  line.target = 1.45;
  double ours = 0;
  double bound = 0;
  const std::vector<Case> cases = standard_cases();
  for (const Case& one : cases) {
    ours += std::log(one.ours);
    bound += std::log(one.bound);
  }
  const auto count = static_cast<double>(cases.size());
  line.ours.figure = std::exp(ours / count);
  line.reference.emplace().figure = std::exp(bound / count);
  return line;
}

Line worst_line() {
  Line line;
  line.name = "evict.worst_vs_lru";
  line.what = "page-in bytes of the worst of these cases / least recently used";
  line.unit = Unit::kBytes;
  line.goal = Goal::kAtMost;
  line.target = 1.05;
  const std::vector<Case> cases = standard_cases();
  const Case worst = *std::ranges::max_element(
      cases, {}, [](const Case& one) { return one.ours / std::max(one.lru, 1.0); });
  line.ours.figure = worst.ours;
  line.reference.emplace().figure = worst.lru;
  return line;
}

Line decision_line(runtime::Runtime& os) {
  Line line;
  line.name = "evict.ns_per_decision_1e5";
  line.what = "one victim of 1e5 allocations used at random, twice what fits";
  line.goal = Goal::kOursAtMost;
  line.target = 200;
  const Trace trace = tool::evict::churn(100'000, 1'000'000, kSeed);
  const tool::evict::PolicyRun run = tool::evict::time_policy(
      trace, tool::evict::capacity_of(trace, 2), [&] { return static_cast<uint64_t>(os.now()); }, 5,
      ~uint64_t{0});
  line.ours.figure = static_cast<double>(run.decision_ns) / static_cast<double>(run.decisions);
  return line;
}

}  // namespace

void add_evict_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"evict.geomean_vs_bound", geomean_line});
  lines.push_back({"evict.worst_vs_lru", worst_line});
  lines.push_back({"evict.ns_per_decision_1e5", [&os] { return decision_line(os); }});
}

}  // namespace dxgkit::bench
