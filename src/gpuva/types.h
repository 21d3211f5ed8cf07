// Vocabulary of GPU virtual addresses. Addresses from clients are bytes; inside, they are pages of
// 4 KiB.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arithmetic.h"
#include "base/ids.h"

namespace dxgkit::gpuva {

/// Pages of a GPU virtual address space: the ones whose byte addresses are
/// [first_page * 4096, end_page() * 4096).
struct PageSpan {
  uint64_t first_page = 0, pages = 0;
  constexpr uint64_t end_page() const { return first_page + pages; }
  constexpr uint64_t address() const { return first_page * kPageBytes; }
  constexpr uint64_t size_bytes() const { return pages * kPageBytes; }
  constexpr uint64_t end_address() const { return end_page() * kPageBytes; }
  bool operator==(const PageSpan&) const = default;
};
/// In the order in which they changed. A span that touches the last one of the list joins it.
using PageSpans = std::vector<PageSpan>;

/// No allocation: none has this id.
inline constexpr AllocationId kNoAllocation{0};

/// The rights of GPU code in a range (VA-21). Reading is always allowed, except with `no_access`.
struct Protection {
  bool write = false;
  bool execute = false;
  bool zero = false;       // reads give 0, writes vanish
  bool no_access = false;  // every access faults
  bool operator==(const Protection&) const = default;
};

/// Driver protection with this bit is unique: all mappings of an allocation range have the same one
/// (VA-24).
inline constexpr uint64_t kUniqueDriverProtection = uint64_t{1} << 63;

/// A stretch of mapped pages, all of one allocation, or all zero. Its page `k` (from 0) shows the
/// allocation's page `allocation_page(k)`.
struct Mapping {
  PageSpan span;
  AllocationId allocation = kNoAllocation;  // kNoAllocation: zero, or no access
  uint64_t offset_pages = 0;                // of the first page, inside the allocation
  Protection protection = {};
  uint64_t driver_protection = 0;
  // 0: the allocation's pages follow each other. Else pages [repeat_first, repeat_first +
  // repeat_pages) of the allocation come again and again; `offset_pages` is one of them (VA-37).
  uint64_t repeat_first = 0, repeat_pages = 0;

  constexpr uint64_t allocation_page(uint64_t k) const {
    if (repeat_pages == 0) return offset_pages + k;
    return repeat_first + (offset_pages - repeat_first + k) % repeat_pages;
  }
  /// True if the span needs no record: it has no mapping.
  constexpr bool leaves_nothing() const { return protection.no_access && driver_protection == 0; }
  bool operator==(const Mapping&) const = default;
};

/// Calls visit(PageSpan, uint64_t allocation_page) for each stretch of a mapping whose pages follow
/// each other in the allocation. There is one stretch, unless the mapping repeats.
template <typename Visit>
void for_each_stretch(const Mapping& mapping, Visit visit) {
  if (mapping.repeat_pages == 0) return visit(mapping.span, mapping.offset_pages);
  const uint64_t repeat_end = mapping.repeat_first + mapping.repeat_pages;
  for (uint64_t k = 0; k < mapping.span.pages;) {
    const uint64_t page = mapping.allocation_page(k);
    const uint64_t left = mapping.span.pages - k;
    const uint64_t pages = repeat_end - page < left ? repeat_end - page : left;
    visit(PageSpan{mapping.span.first_page + k, pages}, page);
    k += pages;
  }
}

/// The page-table work that a client's call left to do. AddressSpace makes it, the kernel keeps it
/// in the order of the paging queue, and `AddressSpace::apply` gets it when its turn comes.
struct MapOperation {
  Mapping mapping;        // no_access without driver protection: the span loses its mappings
  uint64_t sequence = 0;  // number of the call
  bool claimed = false;   // the call took free space, which stays taken until it is freed
  bool tracked = false;   // for AddressSpace
};

/// One operation of an update batch, not checked yet. Bytes, as the client gave them.
struct UpdateOperation {
  enum class Kind : uint8_t { kMap, kMapProtect, kUnmap, kCopy };
  Kind kind = Kind::kMap;
  uint64_t base_address = 0;  // destination
  uint64_t size_bytes = 0;
  uint64_t source_address = 0;  // kCopy
  // kMap, kMapProtect:
  AllocationId allocation = kNoAllocation;
  uint64_t allocation_offset_bytes = 0;
  uint64_t allocation_size_bytes = 0;  // 0: size_bytes; smaller: repeated (VA-37)
  // The size of the allocation; from the kernel, not the client.
  uint64_t whole_allocation_pages = 0;
  // kMapProtect: as asked. kUnmap: only `zero` or `no_access`. kMap: ignored; read and write.
  Protection protection = {};
  uint64_t driver_protection = 0;  // kMapProtect
};

}  // namespace dxgkit::gpuva
