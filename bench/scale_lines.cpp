// What one client pays for others that do nothing: adapters, client processes, contexts.
#include <algorithm>
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/null_world.h"

namespace dxgkit::bench {
namespace {

constexpr double kGrowthMost = 1.5;
constexpr uint64_t kManyContextsBytes = uint64_t{8} << 30;  // only what is touched costs memory

/// Round trips, and who is beside them.
struct Beside : RoundTrips {
  explicit Beside(runtime::Runtime& os, uint64_t system_bytes = kSystemBytes)
      : RoundTrips(os, system_bytes) {}
  ~Beside() { world.stop(); }  // before the other GPUs go
  std::vector<std::unique_ptr<NullGpu>> gpus;
};

using Fill = void (*)(runtime::Runtime& os, Beside& beside, uint32_t count);

void add_adapters(runtime::Runtime& os, Beside& beside, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    // The miniport finds the GPU that was made last.
    beside.gpus.push_back(std::make_unique<NullGpu>(os));
    if (!beside.world.start_another(beside.gpus.back()->function())) return;
  }
}

/// Each with a device, a context and a fence; the last one makes the round trips.
void add_clients(runtime::Runtime&, Beside& beside, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!beside.world.next_client()) return;
    beside.value = 0;
    beside.begin();
  }
}

void add_contexts(runtime::Runtime&, Beside& beside, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    World::Context context;
    if (!beside.world.create_context(0, &context)) return;
  }
}

/// Nanoseconds of a round trip: the best of several medians. Where two threads of the path share a
/// processor for a while, they sleep at each hand-off, which is 30 times as long and nobody's
/// growth.
double round_trip_ns(runtime::Runtime& os, RoundTrips& trips) {
  constexpr size_t kPhases = 12, kSamples = 801;
  double best = 0;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    std::vector<double> samples;
    for (size_t i = 0; i < kSamples && trips.world.error().empty(); ++i) {
      const runtime::TimeNs begin = os.now();
      trips.one();
      samples.push_back(static_cast<double>(os.now() - begin));
    }
    if (samples.empty()) return 0;
    const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    best = phase == 0 ? *middle : std::min(best, *middle);
  }
  return best;
}

/// In one world: first beside few, then beside many.
Line growth_line(runtime::Runtime& os, const char* what, Fill fill, uint32_t few, uint32_t many,
                 uint64_t system_bytes) {
  Line line;
  line.what = what;
  line.goal = Goal::kAtMost;
  line.target = kGrowthMost;
  Beside beside(os, system_bytes);
  if (beside.world.error().empty()) fill(os, beside, few);
  round_trip_ns(os, beside);
  line.reference = Side{.figure = round_trip_ns(os, beside)};
  if (beside.world.error().empty()) fill(os, beside, many - few);
  round_trip_ns(os, beside);
  line.ours.figure = round_trip_ns(os, beside);
  line.unavailable = beside.world.error();
  return line;
}

}  // namespace

void add_scale_lines(runtime::Runtime& os, std::vector<Maker>& lines) {
  lines.push_back({"scale.adapters_64", [&os] {
                     return growth_line(os, "a round trip beside 63 adapters / beside none",
                                        add_adapters, 0, 63, kSystemBytes);
                   }});
  lines.push_back({"scale.clients_1000", [&os] {
                     return growth_line(os, "a round trip beside 1,000 client processes / beside 1",
                                        add_clients, 1, 1000, kSystemBytes);
                   }});
  lines.push_back({"scale.contexts_1e4", [&os] {
                     return growth_line(os, "a round trip beside 10,000 contexts / beside 100",
                                        add_contexts, 100, 10'000, kManyContextsBytes);
                   }});
}

}  // namespace dxgkit::bench
