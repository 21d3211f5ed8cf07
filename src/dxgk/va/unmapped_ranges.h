// What an address space mapped and maps no more: for the explanation of a fault.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "gpuva/address_space.h"
#include "runtime/runtime.h"

namespace dxgkit::dxgk {

/// Remembers the latest ranges only. Lane: the adapter's.
class UnmappedRanges {
 public:
  /// How many ranges are remembered.
  static constexpr size_t kMost = 256;

  struct Range {
    gpuva::PageSpan span;
    AllocationId allocation;    // of the first page; kNoAllocation: zeros
    uint64_t offset_pages = 0;  // likewise
    const char* how = "";       // "by D3DKMT..."
    int64_t when_ns = 0;
  };

  /// What is first mapped in a span that is about to lose it; nullopt: nothing. The caller notes it
  /// once the span has lost it.
  static std::optional<Range> going(const gpuva::AddressSpace& addresses, gpuva::PageSpan span,
                                    const char* how, runtime::Runtime& runtime) {
    const std::optional<gpuva::Mapping> mapping = addresses.mapping_behind(span.first_page);
    if (!mapping.has_value() || mapping->span.first_page >= span.end_page()) return std::nullopt;
    const gpuva::Mapping first = gpuva::clipped(*mapping, span);
    return Range{.span = span,
                 .allocation = first.allocation,
                 .offset_pages = first.offset_pages,
                 .how = how,
                 .when_ns = runtime.now()};
  }
  void note(const std::optional<Range>& range) {
    if (!range.has_value()) return;
    ranges_.push_back(*range);
    if (ranges_.size() > kMost) ranges_.pop_front();
  }
  /// The range that was unmapped last of those that have the page; null: none is remembered.
  const Range* find(uint64_t page) const {
    for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
      if (range->span.first_page <= page && page < range->span.end_page()) return &*range;
    }
    return nullptr;
  }

 private:
  std::deque<Range> ranges_;  // the latest last
};

}  // namespace dxgkit::dxgk
