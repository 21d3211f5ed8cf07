// Memory that a driver has taken and not given back, while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nt/kernel.h"
#include "nt/pool.h"

namespace dxgkit::nt {

/// A point in the order in which a driver takes objects; later marks are greater. Any thread.
uint64_t memory_mark(const Kernel& kernel);

/// Sums up leaks of one kind. The first one in order of allocation names the code to blame.
struct LeakTotal {
  uint64_t count = 0, bytes = 0, first_sequence = UINT64_MAX;
  Origin first = {};
  void add(uint64_t size, uint64_t sequence, const Origin& origin, uint64_t times = 1) {
    count += times;
    bytes += size;
    if (sequence >= first_sequence) return;
    first_sequence = sequence;
    first = origin;
  }
};
Leak to_leak(const Kernel& kernel, const char* what, const std::string& tag,
             const LeakTotal& total);

struct TakenMemory {
  Leak leak;
  std::string ddi;  // the one in which the first was taken
};
/// The pool, contiguous memory, MDLs and mappings that the driver took between two marks and still
/// has, in a fixed order. It does not tell a leak from what the driver keeps on purpose.
std::vector<TakenMemory> memory_taken(const Kernel& kernel, uint64_t from, uint64_t to);

}  // namespace dxgkit::nt
