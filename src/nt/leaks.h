// Memory that a driver has taken and not given back, while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nt/kernel.h"

namespace dxgkit::nt {

/// A point in the order in which a driver takes objects; later marks are greater. Any thread.
uint64_t memory_mark(const Kernel& kernel);

struct TakenMemory {
  Leak leak;
  std::string ddi;  // the one in which the first was taken
};
/// The pool, contiguous memory, MDLs and mappings that the driver took between two marks and still
/// has, in a fixed order. It does not tell a leak from what the driver keeps on purpose.
std::vector<TakenMemory> memory_taken(const Kernel& kernel, uint64_t from, uint64_t to);

}  // namespace dxgkit::nt
