// Would a set of allocations fit into segments that hold nothing but what is fixed? Private to the
// module.
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
  std::vector<uint32_t> segments;  // where it may go (indices), best first
  std::optional<Placement> fixed;  // cannot be moved from there
};

/// A way to pack: placing `order` one by one, each at the lowest fit of its segment, works in empty
/// segments.
struct Packing {
  std::vector<size_t> order;       // of items that are not fixed
  std::vector<uint32_t> segments;  // by item
};

/// Tries the given order with each item's preferences, then the most constrained and largest first,
/// then, for up to 12 items, a bounded search over segments. Exact for one segment and for one
/// item; for several segments a "no" is exact up to the bound of that search (bin packing).
std::optional<Packing> pack(std::span<const Segment* const> segments,
                            std::span<const PackItem> items);

}  // namespace dxgkit::vidmm
