// The kept traces of seeds. A refactoring that changes behaviour is seen here. The text is
// known_traces.txt; README.md says how to renew it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dxgkit::sim {

/// Hash of the trace by seed, from the source folder. Throws std::runtime_error on a line that is
/// not "SEED HASH".
std::map<uint64_t, uint64_t> known_traces();
/// A line of the file, with its line end.
std::string trace_line(uint64_t seed, uint64_t hash);
/// The message of a test about a seed whose trace changed: how to see the change, how to keep it.
std::string another_trace(uint64_t seed);

}  // namespace dxgkit::sim
