#include "sim/known_traces.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dxgkit::sim {

std::map<uint64_t, uint64_t> known_traces() {
  std::ifstream file(DXGKIT_KNOWN_TRACES);
  std::map<uint64_t, uint64_t> traces;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uint64_t seed = 0, hash = 0;
    if (!(words >> std::dec >> seed >> std::hex >> hash))
      throw std::runtime_error("known_traces.txt: not a seed and a hash: " + line);
    traces[seed] = hash;
  }
  return traces;
}

std::string trace_line(uint64_t seed, uint64_t hash) {
  return fmt::format("{} {:016x}\n", seed, hash);
}

std::string another_trace(uint64_t seed) {
  return fmt::format(
      "seed {}: the kernel or the world does something else than known_traces.txt says.\n"
      "  What: DXGKIT_SIM_TRACE=t.txt DXGKIT_SIM_SEEDS={} dxgkit_sim_test "
      "--gtest_filter=Simulation.*, here and in the commit before, and compare.\n"
      "  If it is meant: make traces",
      seed, seed);
}

}  // namespace dxgkit::sim
