// Worlds of the simulation, over the switches of fibers that they cannot do without.
#include <boost/context/fiber.hpp>
#include <utility>

#include "base/check.h"
#include "bench/harness.h"
#include "bus/memory_object.h"
#include "sim/world.h"

namespace dxgkit::bench {
namespace {

// Any ten are as good, but they are always the same ones.
constexpr uint64_t kFirstSeed = 1, kSeeds = 10;

sim::Counters run_worlds() {
  sim::Counters all;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    const sim::SeedOutcome outcome = sim::run_seed({.seed = seed, .trace = true});
    DXGKIT_CHECK(outcome.passed());
    all.add(outcome.counters);
  }
  return all;
}

/// There and back counts as two.
void switch_bare(uint64_t switches) {
  boost::context::fiber other([switches](boost::context::fiber&& back) {
    for (uint64_t i = 0; i < switches / 2; ++i) back = std::move(back).resume();
    return std::move(back);
  });
  for (uint64_t i = 0; i < switches / 2; ++i) other = std::move(other).resume();
  other = std::move(other).resume();  // lets it return
}

Line world_line() {
  Line line;
  line.name = "sim.world_vs_switches";
  line.what = "a world, seeds 1 to 10 in turn / as many bare fiber switches as it makes";
  bus::keep_memory_objects();  // as workers do
  const uint64_t switches = run_worlds().switches;
  line.ours.operations = static_cast<double>(kSeeds);
  line.ours.batch = [] { keep(run_worlds()); };
  line.reference = Side{.batch = [switches] { switch_bare(switches); },
                        .operations = static_cast<double>(kSeeds)};
  return line;
}

Line events_line() {
  Line line;
  line.name = "sim.events_per_second";
  line.what = "events of these worlds' traces / bare fiber switches";
  line.unit = Unit::kMillionsPerSecond;
  line.goal = Goal::kOursAtLeast;
  line.target = 5;
  const sim::Counters counters = run_worlds();
  line.ours.operations = static_cast<double>(counters.events);
  line.ours.batch = [] { keep(run_worlds()); };
  line.reference = Side{.batch = [switches = counters.switches] { switch_bare(switches); },
                        .operations = static_cast<double>(counters.switches)};
  return line;
}

}  // namespace

void add_sim_lines(std::vector<Maker>& lines) {
  lines.push_back({"sim.world_vs_switches", [] { return world_line(); }});
  lines.push_back({"sim.events_per_second", [] { return events_line(); }});
}

}  // namespace dxgkit::bench
