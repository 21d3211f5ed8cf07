// The owners of the addresses of a space. Private to the module.
#pragma once

#include <optional>

#include "base/tile_tree.h"
#include "gpuva/address_space.h"

namespace dxgkit::gpuva {

/// The owned layer of an AddressSpace, in pages. Free and owned ranges tile the space. Owned ranges
/// never join.
class OwnedLayer {
 public:
  explicit OwnedLayer(uint64_t end_page) : tiles_(end_page) {}

  OwnedRange at(uint64_t page) const { return range_of(tiles_.at(page)); }
  bool is_free(PageSpan span) const {
    const auto tile = tiles_.at(span.first_page);
    return tile.value == 0 && span.end_page() <= tile.end;
  }
  /// The lowest fit in [low, high).
  std::optional<uint64_t> find(uint64_t pages, uint64_t alignment_pages, uint64_t low,
                               uint64_t high) const {
    return tiles_.find(pages, alignment_pages, Fit::kLowest, low, high);
  }
  /// The number of free pages.
  void take(PageSpan span, RangeKind kind, uint64_t born) {
    tiles_.place(span.first_page, span.pages, packed(kind, born));
    ++owned_;
  }
  /// Frees pages that all have owners. The rest of a cut range keeps its kind and number.
  void release(PageSpan span);
  /// Calls visit(PageSpan, const OwnedRange&) for each range that meets a span, with their common
  /// pages, in order. Free ranges count too. The layer must not change.
  template <typename Visit>
  void for_each_in(PageSpan span, Visit visit) const {
    for (uint64_t page = span.first_page; page < span.end_page();) {
      const OwnedRange range = at(page);
      const uint64_t end = std::min(range.span.end_page(), span.end_page());
      visit(PageSpan{page, end - page}, range);
      page = end;
    }
  }
  uint64_t end_page() const { return tiles_.end(); }
  size_t size() const { return owned_; }
  size_t bytes() const { return tiles_.bytes(); }
  bool validate() const;

 private:
  using Tiles = TileTree<uint64_t, uint64_t>;
  static constexpr uint32_t kKindBits = 3;
  static uint64_t packed(RangeKind kind, uint64_t born) {
    return born << kKindBits | static_cast<uint64_t>(kind);
  }
  static OwnedRange range_of(const Tiles::Range& tile) {
    return {.span = {tile.begin, tile.size()},
            .kind = static_cast<RangeKind>(tile.value & ((1U << kKindBits) - 1)),
            .born = tile.value >> kKindBits};
  }
  Tiles tiles_;
  size_t owned_ = 0;
};

}  // namespace dxgkit::gpuva
