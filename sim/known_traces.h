// The traces that seeds gave when somebody last looked, so that a change of the kernel's inside
// that alters what happens is seen. The text is known_traces.txt; README.md says how to renew it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dxgkit::sim {

/// Hash of the trace by seed, from the source folder. Throws std::runtime_error on a line that is
/// not "SEED HASH".
std::map<uint64_t, uint64_t> known_traces();
/// A line of the file, with its end.
std::string trace_line(uint64_t seed, uint64_t hash);
/// What a test says of a seed whose trace changed: how to see the change, how to keep it.
std::string another_trace(uint64_t seed);

}  // namespace dxgkit::sim
