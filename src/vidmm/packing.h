// Decides whether a set of allocations would fit into segments that hold only fixed allocations.
// Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vidmm/segment.h"

namespace dxgkit::vidmm {

/// One allocation to be packed.
struct PackItem {
  Shape desc;
  std::vector<uint32_t> segments;  // segments (indices) it may go to, best first
  std::optional<Placement> fixed;  // set if it cannot be moved from there
};

/// A way to pack that works in empty segments: place `order` one by one, each at the lowest fit of
/// its segment.
struct Packing {
  std::vector<size_t> order;       // of items that are not fixed
  std::vector<uint32_t> segments;  // by item
};

/// Tries the given order with each item's preferences, then the most constrained and largest first,
/// then, for up to 12 items, a bounded search over segments. Exact for one segment and for one
/// item. For several segments a "no" is exact up to the bound of that search (bin packing).
std::optional<Packing> pack(std::span<const Segment* const> segments,
                            std::span<const PackItem> items);

}  // namespace dxgkit::vidmm
