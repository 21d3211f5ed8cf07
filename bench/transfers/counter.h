// Counts what a program's threads do to memory, as processors with caches would see it.
//
// The program is compiled with -fsanitize=thread and linked without that sanitizer's runtime: the
// compiler then calls a function before each access, and counter.cpp has these functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dxgkit::bench {

/// What one thread did at one place of the code.
struct SiteCounts {
  uint64_t address = 0;  // of the access, from the start of the program's image
  uint32_t thread = 0;   // index into `Counts::threads`
  uint64_t reads = 0, writes = 0;
  uint64_t locked = 0;   // atomic operations that read and write, and full barriers
  uint64_t fetched = 0;  // lines that another thread had
  uint64_t claimed = 0;  // lines held already, whose copies of other threads became invalid
  uint64_t entries = 0;  // system calls
  uint64_t allocations = 0;
};

struct Counts {
  std::vector<std::string> threads;  // names
  std::vector<SiteCounts> sites;
};

/// Forgets the counts, not which thread has which line.
void begin_counting();
/// All counts since. Other threads may go on: what they do meanwhile is in it or not.
Counts counted();

}  // namespace dxgkit::bench
