// Prints what one submission costs in transfers between processors: see README.md.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "bench/harness.h"
#include "bench/null_world.h"
#include "bench/packets.h"
#include "bench/transfers/counter.h"

namespace dxgkit::bench {
namespace {

void print(const char* what, uint32_t operations) {
  const Counts counts = counted();
  fmt::print("{} {}\n", what, operations);
  for (size_t i = 0; i < counts.threads.size(); ++i)
    fmt::print("thread {} {}\n", i, counts.threads[i]);
  for (const SiteCounts& site : counts.sites) {
    fmt::print("site {:x} {} {} {} {} {} {} {} {}\n", site.address, site.thread, site.reads,
               site.writes, site.locked, site.fetched, site.claimed, site.entries,
               site.allocations);
  }
}

template <typename Work>
void measure(const char* what, uint32_t operations, const Work& work) {
  for (int i = 0; i < 4; ++i) work();
  begin_counting();
  work();
  print(what, operations);
}

int run(runtime::Runtime& os) {
  const OnFirstCore pinned;
  constexpr uint32_t kTimes = 2048;
  {
    SpinPair pair(os);
    pair.warm();
    measure("spin", kTimes, [&] { pair.round_trips(kTimes); });
  }
  {
    RoundTrips trips(os);
    if (!trips.world.error().empty()) return fmt::print(stderr, "{}\n", trips.world.error()), 1;
    measure("roundtrip", kTimes, [&] {
      for (uint32_t i = 0; i < kTimes; ++i) trips.one();
    });
  }
  {
    Pipeline pipeline(os);
    if (!pipeline.world.error().empty())
      return fmt::print(stderr, "{}\n", pipeline.world.error()), 1;
    measure("packets", kTimes, [&] {
      for (uint32_t i = 0; i < kTimes / kPackets; ++i) pipeline.run(kPackets);
    });
  }
  return 0;
}

}  // namespace
}  // namespace dxgkit::bench

int main() {
  const auto os = dxgkit::runtime::make_os_runtime();
  int status = 1;
  os->run_main([&] { status = dxgkit::bench::run(*os); });
  return status;
}
