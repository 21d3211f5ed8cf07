#include "vidmm/packing.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/arithmetic.h"
#include "base/check.h"

namespace dxgkit::vidmm {
namespace {

constexpr size_t kSearchItemsMost = 12;
constexpr uint32_t kSearchStepsMost = 4096;

/// One empty segment being filled from the bottom.
class Shelf {
 public:
  explicit Shelf(const Segment& segment) : segment_(&segment) {
    for (const ByteRange& hole : segment.usable)
      free_.push_back({hole.offset_bytes, hole.offset_bytes + hole.size_bytes});
  }

  bool take_at(uint64_t offset, uint64_t bytes) {
    for (size_t i = 0; i < free_.size(); ++i) {
      if (offset < free_[i].begin || !range_within(offset, bytes, free_[i].end)) continue;
      cut(i, offset, bytes);
      return true;
    }
    return false;
  }
  bool take(const Shape& desc) {
    const uint64_t bytes = segment_->bytes_of(desc);
    const uint64_t alignment = segment_->alignment_of(desc);
    if (!range_within(committed_, bytes, segment_->most_bytes())) return false;
    for (size_t i = 0; i < free_.size(); ++i) {
      uint64_t start = std::max(free_[i].begin, segment_->lowest_offset(desc));
      if (!checked_align_up(start, alignment, &start)) return false;
      if (!range_within(start, bytes, free_[i].end)) continue;
      cut(i, start, bytes);
      return true;
    }
    return false;
  }
  const Segment& segment() const { return *segment_; }

 private:
  struct Hole {
    uint64_t begin, end;
  };
  void cut(size_t i, uint64_t offset, uint64_t bytes) {
    committed_ += bytes;
    const Hole hole = free_[i];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    if (offset + bytes < hole.end) {
      free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(i), {offset + bytes, hole.end});
    }
    if (hole.begin < offset) {
      free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(i), {hole.begin, offset});
    }
  }
  const Segment* segment_;
  std::vector<Hole> free_;
  uint64_t committed_ = 0;
};

struct Search {
  std::span<const PackItem> items;
  std::span<const size_t> order;
  std::vector<uint32_t> chosen;
  uint32_t steps = 0;

  bool place_from(size_t position, const std::vector<Shelf>& shelves) {
    if (position == order.size()) return true;
    const PackItem& item = items[order[position]];
    for (const uint32_t segment : item.segments) {
      if (++steps > kSearchStepsMost) return false;
      std::vector<Shelf> next = shelves;
      if (!next[segment].take(item.desc)) continue;
      chosen[order[position]] = segment;
      if (place_from(position + 1, next)) return true;
    }
    return false;
  }
};

bool place_greedily(std::span<const PackItem> items, std::span<const size_t> order,
                    std::vector<Shelf> shelves, std::vector<uint32_t>* chosen) {
  for (const size_t i : order) {
    const auto taken = std::ranges::find_if(
        items[i].segments, [&](uint32_t segment) { return shelves[segment].take(items[i].desc); });
    if (taken == items[i].segments.end()) return false;
    (*chosen)[i] = *taken;
  }
  return true;
}

}  // namespace

std::optional<Packing> pack(std::span<const Segment* const> segments,
                            std::span<const PackItem> items) {
  std::vector<Shelf> shelves;
  for (const Segment* segment : segments) shelves.emplace_back(*segment);
  Packing packing;
  packing.segments.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].fixed.has_value()) {
      packing.order.push_back(i);
      continue;
    }
    const Placement& place = *items[i].fixed;
    packing.segments[i] = place.segment.value;
    const auto shelf = std::ranges::find_if(
        shelves, [&](const Shelf& s) { return s.segment().desc.id == place.segment; });
    DXGKIT_CHECK(shelf != shelves.end());
    DXGKIT_CHECK(shelf->take_at(place.offset_bytes, shelf->segment().bytes_of(items[i].desc)));
  }
  if (place_greedily(items, packing.order, shelves, &packing.segments)) return packing;
  std::ranges::sort(packing.order, [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      return std::tuple(items[i].segments.size(), ~items[i].desc.alignment_bytes,
                        ~items[i].desc.size_bytes, i);
    };
    return key(a) < key(b);
  });
  if (place_greedily(items, packing.order, shelves, &packing.segments)) return packing;
  std::ranges::sort(packing.order, [&](size_t a, size_t b) {
    return std::tuple(~items[a].desc.size_bytes, a) < std::tuple(~items[b].desc.size_bytes, b);
  });
  if (place_greedily(items, packing.order, shelves, &packing.segments)) return packing;
  if (packing.order.size() > kSearchItemsMost) return std::nullopt;
  Search search{.items = items, .order = packing.order, .chosen = packing.segments};
  if (!search.place_from(0, shelves)) return std::nullopt;
  packing.segments = std::move(search.chosen);
  return packing;
}

}  // namespace dxgkit::vidmm
