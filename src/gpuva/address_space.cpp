#include "gpuva/address_space.h"

#include <algorithm>
#include <map>

#include "base/arithmetic.h"
#include "base/check.h"
#include "gpuva/mapped_layer.h"
#include "gpuva/owned_layer.h"

namespace dxgkit::gpuva {
namespace {

constexpr uint64_t kReserveGrain = uint64_t{64} << 10;  // VA-32
constexpr uint64_t kEndMost = uint64_t{1} << 63;

bool is_unique(uint64_t driver_protection) {
  return (driver_protection & kUniqueDriverProtection) != 0;
}
bool page_aligned(uint64_t bytes) { return bytes % kPageBytes == 0; }

/// VA-18, VA-21.
bool protection_fits(const Protection& protection, bool has_allocation) {
  const bool bare = protection.zero || protection.no_access;
  if (protection.zero && protection.no_access) return false;
  if (bare && (protection.write || protection.execute)) return false;
  return bare != has_allocation;
}

bool is_clients(RangeKind kind) {
  return kind == RangeKind::kReserved || kind == RangeKind::kMapped;
}

/// The pages of its allocation that a mapping shows.
PageSpan shown(const Mapping& mapping) {
  if (mapping.repeat_pages != 0) return {mapping.repeat_first, mapping.repeat_pages};
  return {mapping.offset_pages, mapping.span.pages};
}

bool meet(PageSpan a, PageSpan b) {
  return a.first_page < b.end_page() && b.first_page < a.end_page();
}

/// Removes `hole` from spans.
void subtract(PageSpans* spans, PageSpan hole) {
  PageSpans left;
  for (const PageSpan& span : *spans) {
    if (!meet(span, hole)) {
      left.push_back(span);
      continue;
    }
    if (span.first_page < hole.first_page)
      left.push_back({span.first_page, hole.first_page - span.first_page});
    if (hole.end_page() < span.end_page())
      left.push_back({hole.end_page(), span.end_page() - hole.end_page()});
  }
  spans->swap(left);
}

/// The mapping of a map operation of a batch, checked.
Mapping mapping_of(const UpdateOperation& operation) {
  Mapping mapping{.span = {operation.base_address / kPageBytes, operation.size_bytes / kPageBytes}};
  switch (operation.kind) {
    case UpdateOperation::Kind::kMap:
      mapping.protection = {.write = true};
      break;
    case UpdateOperation::Kind::kMapProtect:
      mapping.protection = operation.protection;
      mapping.driver_protection = operation.driver_protection;
      break;
    case UpdateOperation::Kind::kUnmap:
      mapping.protection = operation.protection;
      return mapping;
    case UpdateOperation::Kind::kCopy:
      return mapping;
  }
  mapping.allocation = operation.allocation;
  if (mapping.allocation == kNoAllocation) return mapping;
  mapping.offset_pages = operation.allocation_offset_bytes / kPageBytes;
  const uint64_t size = operation.allocation_size_bytes;
  if (size != 0 && size != operation.size_bytes) {
    mapping.repeat_first = mapping.offset_pages;
    mapping.repeat_pages = size / kPageBytes;
  }
  return mapping;
}

}  // namespace

Mapping clipped(const Mapping& mapping, PageSpan window) {
  const uint64_t first = std::max(mapping.span.first_page, window.first_page);
  const uint64_t end = std::min(mapping.span.end_page(), window.end_page());
  Mapping part = mapping;
  part.span = {first, end - first};
  if (mapping.allocation != kNoAllocation)
    part.offset_pages = mapping.allocation_page(first - mapping.span.first_page);
  return part;
}

void OwnedLayer::release(PageSpan span) {
  for (uint64_t page = span.first_page; page < span.end_page();) {
    const Tiles::Range tile = tiles_.at(page);
    DXGKIT_CHECK(tile.value != 0);
    const uint64_t end = std::min(tile.end, span.end_page());
    tiles_.release(tile.begin);
    --owned_;
    if (tile.begin < page) {
      tiles_.place(tile.begin, page - tile.begin, tile.value);
      ++owned_;
    }
    if (end < tile.end) {
      tiles_.place(end, tile.end - end, tile.value);
      ++owned_;
    }
    page = end;
  }
}

bool OwnedLayer::validate() const {
  size_t owned = 0;
  tiles_.for_each([&](const Tiles::Range& tile) { owned += tile.value != 0 ? 1 : 0; });
  return tiles_.validate() && owned == owned_;
}

struct AddressSpace::State {
  explicit State(const Options& options)
      : owned(options.end / kPageBytes), mapped(options.end / kPageBytes) {
    const uint64_t first = options.first / kPageBytes;
    if (first > 0) owned.take({0, first}, RangeKind::kDriver, 0);
  }

  uint64_t end() const { return owned.end_page() * kPageBytes; }

  /// The lowest fit between bounds in bytes; `high` 0: the end.
  std::optional<uint64_t> find(uint64_t pages, uint64_t alignment_pages, uint64_t low,
                               uint64_t high) const {
    const uint64_t last = high == 0 ? owned.end_page() : high / kPageBytes;
    return owned.find(pages, alignment_pages, low / kPageBytes, last);
  }

  Status check_map(const MapRequest& request) const;
  Result<PageSpan> place_map(const MapRequest& request) const;
  bool breaks_uniqueness(AllocationId allocation, PageSpan pages, uint64_t driver_protection) const;
  Status check_map_update(const UpdateOperation& operation) const;
  void remember(MapOperation* operation);
  void forget(const MapOperation& operation) {
    if (!operation.tracked || pending.erase(operation.sequence) == 0) return;
    if (is_unique(operation.mapping.driver_protection)) --pending_unique;
  }
  Status release(uint64_t base, uint64_t size, bool system, uint64_t sequence, PageSpans* changed);
  void copy(const UpdateOperation& operation, uint64_t sequence, PageSpans* changed);

  /// Calls visit(PageSpan) for the parts of a span that are as they were at call `sequence`: owned,
  /// and not obtained later (VA-42).
  template <typename Visit>
  void for_each_valid(PageSpan span, uint64_t sequence, Visit visit) const {
    if (sequence > last_freed) return visit(span);
    owned.for_each_in(span, [&](PageSpan part, const OwnedRange& range) {
      if (range.kind != RangeKind::kFree && range.born <= sequence) visit(part);
    });
  }
  void map_valid(const Mapping& mapping, uint64_t sequence, PageSpans* changed) {
    if (sequence > last_freed) return mapped.map(mapping, changed);
    for_each_valid(mapping.span, sequence,
                   [&](PageSpan part) { mapped.map(clipped(mapping, part), changed); });
  }

  OwnedLayer owned;
  MappedLayer mapped;
  uint64_t last_freed = 0;  // number of the latest call that freed anything
  // Claims whose operations were not applied yet, by number. VA-24 needs them.
  std::map<uint64_t, Mapping> pending;
  uint64_t pending_unique = 0;  // mappings with a unique driver protection
};

AddressSpace::AddressSpace(const Options& options) {
  DXGKIT_CHECK(options.end % kPageBytes == 0 && options.end > 0 && options.end <= kEndMost);
  DXGKIT_CHECK(options.first % kPageBytes == 0 && options.first < options.end);
  state_ = std::make_unique<State>(options);
}
AddressSpace::~AddressSpace() = default;
AddressSpace::AddressSpace(AddressSpace&&) noexcept = default;
AddressSpace& AddressSpace::operator=(AddressSpace&&) noexcept = default;

Result<uint64_t> AddressSpace::reserve_for_driver(const DriverReserveRequest& request,
                                                  uint64_t coverage) {
  DXGKIT_CHECK(is_power_of_two(coverage) && coverage >= kPageBytes);
  const uint64_t alignment = request.alignment == 0 ? coverage : request.alignment;
  if (request.size == 0 || request.size % coverage != 0) return Error(Status::kInvalidParameter);
  if (!is_power_of_two(alignment)) return Error(Status::kInvalidParameter);
  const RangeKind kind = request.allow_user_mapping ? RangeKind::kDriverShared : RangeKind::kDriver;
  State& state = *state_;
  const uint64_t pages = request.size / kPageBytes;
  // Whole leaf tables, so at least aligned to one.
  const uint64_t wide = std::max(alignment, coverage);
  uint64_t first = request.base / kPageBytes;
  if (request.base != 0) {
    if (request.base % wide != 0) return Error(Status::kInvalidParameter);
    if (!range_within(request.base, request.size, state.end()))
      return Error(Status::kInvalidParameter);
    if (!state.owned.is_free({first, pages})) return Error(Status::kInvalidParameter);
  } else {
    const auto found = state.find(pages, wide / kPageBytes, 0, 0);
    if (!found.has_value()) return Error(Status::kNoMemory);
    first = *found;
  }
  state.owned.take({first, pages}, kind, 0);
  return first * kPageBytes;
}

Result<MapOperation> AddressSpace::reserve(const ReserveRequest& request, uint64_t sequence) {
  for (const uint64_t bytes : {request.base, request.minimum, request.maximum, request.size}) {
    if (bytes % kReserveGrain != 0) return Error(Status::kInvalidParameter);
  }
  if (request.size == 0) return Error(Status::kInvalidParameter);
  if (request.maximum != 0 && request.minimum > request.maximum)
    return Error(Status::kInvalidParameter);
  State& state = *state_;
  const uint64_t pages = request.size / kPageBytes;
  uint64_t first = request.base / kPageBytes;
  if (request.base != 0) {
    if (!range_within(request.base, request.size, state.end()))
      return Error(Status::kInvalidParameter);
    if (!state.owned.is_free({first, pages})) return Error(Status::kInvalidParameter);
  } else {
    const auto found =
        state.find(pages, kReserveGrain / kPageBytes, request.minimum, request.maximum);
    if (!found.has_value()) return Error(Status::kNoMemory);
    first = *found;
  }
  MapOperation operation{
      .mapping = {.span = {first, pages},
                  .protection = {.zero = request.zero, .no_access = !request.zero},
                  .driver_protection = request.driver_protection},
      .sequence = sequence,
      .claimed = true};
  state.owned.take(operation.mapping.span, RangeKind::kReserved, sequence);
  state.remember(&operation);
  return operation;
}

/// All that does not depend on addresses.
Status AddressSpace::State::check_map(const MapRequest& request) const {
  if (request.size_pages == 0) return Status::kInvalidParameter;  // VA-20
  if (request.size_pages > owned.end_page()) return Status::kInvalidParameter;
  const bool has_allocation = request.allocation != kNoAllocation;
  if (!protection_fits(request.protection, has_allocation)) return Status::kInvalidParameter;
  if (!has_allocation) return Status::kSuccess;
  if (request.allocation_pages >= MappedLayer::kAllocationPagesMost)
    return Status::kInvalidParameter;
  if (!range_within(request.offset_pages, request.size_pages, request.allocation_pages))
    return Status::kInvalidParameter;  // VA-19
  if (breaks_uniqueness(request.allocation, {request.offset_pages, request.size_pages},
                        request.driver_protection))
    return Status::kInvalidParameter;  // VA-24
  return Status::kSuccess;
}

/// The address for a mapping.
Result<PageSpan> AddressSpace::State::place_map(const MapRequest& request) const {
  const uint64_t pages = request.size_pages;
  if (request.base != 0) {
    if (!page_aligned(request.base)) return Error(Status::kInvalidParameter);  // VA-14
    const PageSpan span{request.base / kPageBytes, pages};
    if (!range_within(span.first_page, pages, owned.end_page()))
      return Error(Status::kInvalidParameter);
    const OwnedRange range = owned.at(span.first_page);
    // VA-12: free, or wholly inside one range.
    if (span.end_page() > range.span.end_page()) return Error(Status::kInvalidParameter);
    if (range.kind == RangeKind::kFree) return span;
    if (request.system) {
      if (range.kind != RangeKind::kSystem) return Error(Status::kInvalidParameter);
      return span;
    }
    if (!is_clients(range.kind) && range.kind != RangeKind::kDriverShared)
      return Error(Status::kInvalidParameter);
    const bool bare = request.allocation == kNoAllocation;
    if (bare && range.kind == RangeKind::kMapped) return Error(Status::kInvalidParameter);  // VA-13
    return span;
  }
  if (!page_aligned(request.minimum)) return Error(Status::kInvalidParameter);  // VA-16
  if (!page_aligned(request.maximum)) return Error(Status::kInvalidParameter);  // VA-17
  if (request.maximum != 0 && request.minimum > request.maximum)
    return Error(Status::kInvalidParameter);
  const uint64_t grain = request.alignment_bytes / kPageBytes;
  if (grain > 1) {
    // Room for the pages before the first one, so that page 0 of the allocation is aligned.
    const uint64_t before = request.offset_pages & (grain - 1);
    const auto found = find(pages + before, grain, request.minimum, request.maximum);
    if (found.has_value()) return PageSpan{*found + before, pages};
  }
  const auto found = find(pages, 1, request.minimum, request.maximum);
  if (!found.has_value()) return Error(Status::kNoMemory);
  return PageSpan{*found, pages};
}

Result<MapOperation> AddressSpace::claim(const MapRequest& request, uint64_t sequence) {
  DXGKIT_CHECK(is_power_of_two(request.alignment_bytes) && request.alignment_bytes >= kPageBytes);
  State& state = *state_;
  DXGKIT_RETURN_ERROR_IF_FAILED(state.check_map(request));
  DXGKIT_ASSIGN_OR_RETURN(const PageSpan span, state.place_map(request));
  MapOperation operation{
      .mapping = {.span = span,
                  .allocation = request.allocation,
                  .offset_pages = request.allocation != kNoAllocation ? request.offset_pages : 0,
                  .protection = request.protection,
                  .driver_protection = request.driver_protection},
      .sequence = sequence};
  if (state.owned.is_free(span)) {
    operation.claimed = true;
    state.owned.take(span, request.system ? RangeKind::kSystem : RangeKind::kMapped, sequence);
  }
  state.remember(&operation);
  return operation;
}

void AddressSpace::State::remember(MapOperation* operation) {
  if (!needs_apply(*operation)) return;
  operation->tracked = true;
  const bool fresh = pending.emplace(operation->sequence, operation->mapping).second;
  DXGKIT_CHECK(fresh);  // numbers do not come twice
  if (is_unique(operation->mapping.driver_protection)) ++pending_unique;
}

Status AddressSpace::State::release(uint64_t base, uint64_t size, bool system, uint64_t sequence,
                                    PageSpans* changed) {
  if (size == 0 || !page_aligned(base) || !page_aligned(size)) return Status::kInvalidParameter;
  if (!range_within(base, size, end())) return Status::kInvalidParameter;
  const PageSpan span{base / kPageBytes, size / kPageBytes};
  bool whole = true;
  owned.for_each_in(span, [&](PageSpan, const OwnedRange& range) {
    const bool own = system ? range.kind == RangeKind::kSystem : is_clients(range.kind);
    whole = whole && own;
  });
  if (!whole) return Status::kInvalidParameter;
  const size_t first_change = changed != nullptr ? changed->size() : 0;
  owned.release(span);
  mapped.unmap(span, changed);
  if (changed != nullptr) normalise(changed, first_change);
  last_freed = std::max(last_freed, sequence);
  return Status::kSuccess;
}

Status AddressSpace::free(uint64_t base, uint64_t size, uint64_t sequence, PageSpans* changed) {
  return state_->release(base, size, false, sequence, changed);
}

Status AddressSpace::free_system(uint64_t base, uint64_t size, uint64_t sequence,
                                 PageSpans* changed) {
  return state_->release(base, size, true, sequence, changed);
}

/// True if pages of an allocation are, or will be, mapped with another driver protection, and one
/// of the two is unique.
bool AddressSpace::State::breaks_uniqueness(AllocationId allocation, PageSpan pages,
                                            uint64_t driver_protection) const {
  if (!is_unique(driver_protection) && !mapped.has_unique() && pending_unique == 0) return false;
  // A mapping conflicts unless a later call replaced or freed it.
  const auto conflicts = [&](const Mapping& mapping, uint64_t sequence, bool applied) {
    if (mapping.allocation != allocation || mapping.driver_protection == driver_protection)
      return false;
    if (!is_unique(driver_protection) && !is_unique(mapping.driver_protection)) return false;
    PageSpans left;
    if (applied) {
      left.push_back(mapping.span);
    } else {
      for_each_valid(mapping.span, sequence, [&](PageSpan part) { left.push_back(part); });
    }
    for (const auto& [later, replacement] : pending) {
      if (later > sequence) subtract(&left, replacement.span);
    }
    return std::any_of(left.begin(), left.end(), [&](const PageSpan& part) {
      return meet(shown(clipped(mapping, part)), pages);
    });
  };
  for (const auto& [sequence, mapping] : pending) {
    if (conflicts(mapping, sequence, false)) return true;
  }
  std::vector<Mapping> mappings;
  mapped.mappings_of(allocation, &mappings);
  return std::any_of(mappings.begin(), mappings.end(),
                     [&](const Mapping& mapping) { return conflicts(mapping, 0, true); });
}

Status AddressSpace::State::check_map_update(const UpdateOperation& operation) const {
  const bool has_allocation = operation.allocation != kNoAllocation;
  const bool plain = operation.kind == UpdateOperation::Kind::kMap;
  const Protection protection = plain ? Protection{.write = true} : operation.protection;
  if (!protection_fits(protection, has_allocation)) return Status::kInvalidParameter;
  if (!has_allocation) return Status::kSuccess;
  const uint64_t offset = operation.allocation_offset_bytes;
  const uint64_t size =
      operation.allocation_size_bytes == 0 ? operation.size_bytes : operation.allocation_size_bytes;
  if (!page_aligned(offset) || !page_aligned(size)) return Status::kInvalidParameter;
  if (size > operation.size_bytes) return Status::kInvalidParameter;
  if (operation.size_bytes % size != 0) return Status::kInvalidParameter;  // VA-37
  if (operation.whole_allocation_pages >= MappedLayer::kAllocationPagesMost)
    return Status::kInvalidParameter;
  const PageSpan pages{offset / kPageBytes, size / kPageBytes};
  if (!range_within(pages.first_page, pages.pages, operation.whole_allocation_pages))
    return Status::kInvalidParameter;
  if (breaks_uniqueness(operation.allocation, pages, plain ? 0 : operation.driver_protection))
    return Status::kInvalidParameter;
  return Status::kSuccess;
}

Status AddressSpace::check_update(std::span<const UpdateOperation> operations) const {
  const State& state = *state_;
  std::optional<PageSpan> destination;
  std::optional<PageSpan> source;
  // VA-35: inside one reservation, the same for all operations.
  const auto inside = [&](uint64_t base, uint64_t size, std::optional<PageSpan>* reservation) {
    if (size == 0 || !page_aligned(base) || !page_aligned(size)) return false;
    if (!range_within(base, size, state.end())) return false;
    const PageSpan span{base / kPageBytes, size / kPageBytes};
    if (!reservation->has_value()) {
      const OwnedRange range = state.owned.at(span.first_page);
      if (range.kind != RangeKind::kReserved) return false;
      *reservation = range.span;
    }
    return span.first_page >= (*reservation)->first_page &&
           span.end_page() <= (*reservation)->end_page();
  };
  for (const UpdateOperation& operation : operations) {
    if (!inside(operation.base_address, operation.size_bytes, &destination))
      return Status::kInvalidParameter;
    switch (operation.kind) {
      case UpdateOperation::Kind::kMap:
      case UpdateOperation::Kind::kMapProtect:
        DXGKIT_RETURN_IF_FAILED(state.check_map_update(operation));
        break;
      case UpdateOperation::Kind::kUnmap:
        if (!protection_fits(operation.protection, false)) return Status::kInvalidParameter;
        break;
      case UpdateOperation::Kind::kCopy:
        if (!inside(operation.source_address, operation.size_bytes, &source))
          return Status::kInvalidParameter;
        break;
    }
  }
  return Status::kSuccess;
}

void AddressSpace::apply(const MapOperation& operation, PageSpans* changed) {
  State& state = *state_;
  state.forget(operation);
  const size_t first_change = changed != nullptr ? changed->size() : 0;
  state.map_valid(operation.mapping, operation.sequence, changed);
  if (changed != nullptr) normalise(changed, first_change);
}

/// The source is read before the destination is written, so they may overlap (VA-36). Addresses
/// that the client no longer owns read as unmapped.
void AddressSpace::State::copy(const UpdateOperation& operation, uint64_t sequence,
                               PageSpans* changed) {
  const PageSpan to{operation.base_address / kPageBytes, operation.size_bytes / kPageBytes};
  const PageSpan from{operation.source_address / kPageBytes, to.pages};
  std::vector<Mapping> content;
  for_each_valid(from, sequence, [&](PageSpan part) {
    for (uint64_t page = part.first_page; page < part.end_page();) {
      const std::optional<Mapping> mapping = mapped.behind(page);
      if (!mapping.has_value() || mapping->span.first_page >= part.end_page()) return;
      content.push_back(clipped(*mapping, part));
      page = mapping->span.end_page();
    }
  });
  for_each_valid(to, sequence, [&](PageSpan part) { mapped.unmap(part, changed); });
  for (Mapping& mapping : content) {
    mapping.span.first_page += to.first_page - from.first_page;
    map_valid(mapping, sequence, changed);
  }
}

void AddressSpace::apply_update(std::span<const UpdateOperation> operations, uint64_t sequence,
                                PageSpans* changed) {
  const size_t first_change = changed != nullptr ? changed->size() : 0;
  for (const UpdateOperation& operation : operations) {
    if (operation.kind == UpdateOperation::Kind::kCopy) {
      state_->copy(operation, sequence, changed);
    } else {
      state_->map_valid(mapping_of(operation), sequence, changed);
    }
  }
  if (changed != nullptr) normalise(changed, first_change);
}

void AddressSpace::drop_allocation(AllocationId allocation, PageSpans* changed) {
  const size_t first_change = changed != nullptr ? changed->size() : 0;
  state_->mapped.drop_allocation(allocation, changed);
  if (changed != nullptr) normalise(changed, first_change);
}

OwnedRange AddressSpace::owned_at(uint64_t address) const {
  return state_->owned.at(address / kPageBytes);
}

std::optional<Mapping> AddressSpace::lookup(uint64_t address) const {
  return state_->mapped.at(address / kPageBytes);
}

std::optional<Mapping> AddressSpace::mapping_behind(uint64_t page) const {
  return state_->mapped.behind(page);
}

void AddressSpace::mappings_of(AllocationId allocation, std::vector<Mapping>* mappings) const {
  state_->mapped.mappings_of(allocation, mappings);
}

uint64_t AddressSpace::mapping_count(AllocationId allocation) const {
  return state_->mapped.count_of(allocation);
}

uint64_t AddressSpace::end() const { return state_->end(); }
size_t AddressSpace::mapped_ranges() const { return state_->mapped.size(); }
size_t AddressSpace::owned_ranges() const { return state_->owned.size(); }

size_t AddressSpace::bytes() const {
  constexpr size_t kMapNode = 4 * sizeof(void*) + sizeof(uint64_t) + sizeof(Mapping);
  return sizeof(State) + state_->owned.bytes() + state_->mapped.bytes() +
         state_->pending.size() * kMapNode;
}

size_t AddressSpace::outside_heap() const { return state_->mapped.outside_heap(); }

bool AddressSpace::validate() const {
  return state_->owned.validate() && state_->mapped.validate();
}

}  // namespace dxgkit::gpuva
