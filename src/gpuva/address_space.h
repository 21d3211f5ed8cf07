// One process's GPU virtual addresses on one adapter: owners of addresses, and mappings.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "gpuva/types.h"

namespace dxgkit::gpuva {

/// The origin of a range.
enum class RangeKind : uint8_t {
  kFree,
  kReserved,  // by the client
  kMapped,    // by the client, with a mapping
  // Withheld by the driver when the process was created; no mapping is allowed (VA-09).
  kDriver,
  kDriverShared,  // the same, but clients may map there
  kSystem,        // the kernel's own
};

/// A range of owned (or free) addresses.
struct OwnedRange {
  PageSpan span;
  RangeKind kind = RangeKind::kFree;
  uint64_t born = 0;  // number of the call that obtained it
};

/// The arguments of D3DDDI_RESERVE... and the like, as the client gave them. Bytes.
struct ReserveRequest {
  uint64_t base = 0;     // 0: any
  uint64_t minimum = 0;  // bounds for "any"
  uint64_t maximum = 0;  // exclusive; 0: none
  uint64_t size = 0;
  bool zero = false;  // the range reads 0; else it may not be accessed (VA-33)
  uint64_t driver_protection = 0;
};

struct MapRequest {
  uint64_t base = 0;  // bytes; 0: any address in [minimum, maximum)
  uint64_t minimum = 0;
  uint64_t maximum = 0;  // exclusive; 0: none
  AllocationId allocation = kNoAllocation;
  uint64_t offset_pages = 0;
  uint64_t size_pages = 0;
  uint64_t allocation_pages = 0;  // the size of the allocation; from the kernel, not the client
  Protection protection = {};
  uint64_t driver_protection = 0;
  /// The alignment that the kernel wants for a chosen address: a power of two, at least 4096. The
  /// address and the byte offset inside the allocation then agree modulo this (VA-43). If there is
  /// no such room, 4096 is used.
  uint64_t alignment_bytes = kPageBytes;
  /// The kernel maps for itself: the range is kSystem, and clients can neither map there nor free
  /// it.
  bool system = false;
};

struct DriverReserveRequest {
  uint64_t base = 0;  // 0: any
  uint64_t size = 0;
  uint64_t alignment = 0;  // power of two; 0: one leaf table's coverage
  bool allow_user_mapping = false;
};

/// Lane: the adapter's. The space has two layers:
///
///   owned   the owner of each address. Changes at once when a client calls, so that a returned
///           address is taken, and a freed address can be had again.
///   mapped  the content of the page tables. Changes when a queued operation is executed (`apply`),
///           and when addresses are freed.
///
/// The kernel numbers the calls (`sequence`: from 1, strictly increasing over all calls that take
/// one). An operation carries the number of its call. If a later call freed some of its addresses,
/// or obtained them again, the operation leaves these addresses alone (VA-42).
///
/// A call that fails changes nothing. `changed`, where it is a parameter, may be null. Spans are
/// appended to it, in order and apart from each other. They hold all pages whose translation may
/// have changed, and no page that was unmapped before and still is. Costs are O(log ranges) per
/// range concerned unless a comment says otherwise.
class AddressSpace {
 public:
  struct Options {
    /// Exclusive end of all addresses, bytes: 2^VirtualAddressBitCount. Multiple of 4096, at most
    /// 2^63.
    uint64_t end = 0;
    /// [0, first) is never given out (VA-08): the coverage of one leaf table. Multiple of 4096.
    uint64_t first = 0;
  };
  explicit AddressSpace(const Options& options);
  ~AddressSpace();
  AddressSpace(AddressSpace&&) noexcept;
  AddressSpace& operator=(AddressSpace&&) noexcept;

  // --- calls.

  /// VA-09. The caller makes sure that the driver is creating the process. `coverage`: bytes of one
  /// leaf table. Returns the address.
  /// kInvalidParameter: size 0 or not a multiple of the coverage, alignment not a power of two,
  /// base not aligned, or not free. kNoMemory: no room.
  Result<uint64_t> reserve_for_driver(const DriverReserveRequest& request, uint64_t coverage);

  /// Reserves addresses without memory behind them (VA-32, VA-33). If the result has `needs_apply`,
  /// the operation must be queued.
  /// kInvalidParameter: a value is not a multiple of 64 KiB, the size is 0, the sum passes the end,
  /// minimum > maximum, or a given base meets a range. kNoMemory: no room between the bounds.
  Result<MapOperation> reserve(const ReserveRequest& request, uint64_t sequence);

  /// Checks a Map call and takes addresses for it (VA-11 to VA-24, VA-26). The operation must be
  /// queued, and is applied while its allocation lives.
  /// kInvalidParameter: as the rules say, and for minimum > maximum and allocations of 2^42 pages
  /// or more. kNoMemory: no free range between the bounds. VA-24 is judged by current mappings and
  /// by claimed operations that were not applied yet.
  Result<MapOperation> claim(const MapRequest& request, uint64_t sequence);

  /// Frees addresses and removes the mappings there at once (VA-41, VA-42).
  /// kInvalidParameter: misaligned, size 0, past the end, or a page is free or not the client's.
  Status free(uint64_t base, uint64_t size, uint64_t sequence, PageSpans* changed);
  /// The same for ranges of kind kSystem.
  Status free_system(uint64_t base, uint64_t size, uint64_t sequence, PageSpans* changed);

  /// Checks an update batch at the call, all or nothing (VA-35, VA-37, and VA-18 to VA-21; VA-24 by
  /// current and claimed mappings). kInvalidParameter as the rules say. Changes nothing.
  Status check_update(std::span<const UpdateOperation> operations) const;

  // --- execution.

  static bool needs_apply(const MapOperation& operation) {
    return !operation.claimed || !operation.mapping.leaves_nothing();
  }
  /// Carries out a queued operation. Its allocation must be alive.
  void apply(const MapOperation& operation, PageSpans* changed);
  /// Carries out a batch that `check_update` accepted at call `sequence`, in array order (VA-36).
  /// All allocations must be alive: the caller replaces operations on destroyed ones by unmaps.
  void apply_update(std::span<const UpdateOperation> operations, uint64_t sequence,
                    PageSpans* changed);

  /// Removes all mappings of an allocation, as its destruction does (ALLOC-30). Must happen before
  /// an allocation with an id of the same slot is mapped. The addresses keep their owner.
  void drop_allocation(AllocationId allocation, PageSpans* changed);

  // --- questions.

  /// The range that covers an address below the end. Free ranges count too.
  OwnedRange owned_at(uint64_t address) const;
  /// The whole mapping that covers an address. nullopt if there is none; then an access faults.
  /// Neighbours that continue a mapping in every respect may be part of it. Borders at multiples of
  /// 4 TiB always show.
  std::optional<Mapping> lookup(uint64_t address) const;
  /// The first mapping that ends behind a page.
  std::optional<Mapping> mapping_behind(uint64_t page) const;
  /// Calls visit(const Mapping&) for each mapping that meets the window, cut to it, in order. The
  /// space must not change meanwhile.
  template <typename Visit>
  void for_each_in(PageSpan window, Visit visit) const;
  /// Calls visit(const OwnedRange&) for each range of the space that is not free, in order.
  template <typename Visit>
  void for_each_owned(Visit visit) const;
  /// Appends all mappings of an allocation, by address. Cost: their number times O(log ranges),
  /// amortised over the mappings made since the last call.
  void mappings_of(AllocationId allocation, std::vector<Mapping>* mappings) const;
  /// O(1).
  uint64_t mapping_count(AllocationId allocation) const;

  uint64_t end() const;
  size_t mapped_ranges() const;
  size_t owned_ranges() const;
  /// The bytes that this object holds.
  size_t bytes() const;
  /// Of these, the bytes in large pages, which are not from the heap.
  size_t outside_heap() const;
  /// Checks all invariants; slow.
  bool validate() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The part of a mapping inside a window that it meets.
Mapping clipped(const Mapping& mapping, PageSpan window);

template <typename Visit>
void AddressSpace::for_each_in(PageSpan window, Visit visit) const {
  for (uint64_t page = window.first_page; page < window.end_page();) {
    const std::optional<Mapping> mapping = mapping_behind(page);
    if (!mapping.has_value() || mapping->span.first_page >= window.end_page()) return;
    visit(clipped(*mapping, window));
    page = mapping->span.end_page();
  }
}

template <typename Visit>
void AddressSpace::for_each_owned(Visit visit) const {
  for (uint64_t address = 0; address < end();) {
    const OwnedRange range = owned_at(address);
    if (range.kind != RangeKind::kFree) visit(range);
    address = range.span.end_address();
  }
}

}  // namespace dxgkit::gpuva
