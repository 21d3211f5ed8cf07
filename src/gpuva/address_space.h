// One process's GPU virtual addresses on one adapter: who owns what, and what is mapped where.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "gpuva/types.h"

namespace dxgkit::gpuva {

/// How a range came to be.
enum class RangeKind : uint8_t {
  kFree,
  kReserved,      // by the client
  kMapped,        // by the client, with a mapping
  kDriver,        // withheld by the driver when the process was created; nobody maps there (VA-09)
  kDriverShared,  // the same, but clients may map there
  kSystem,        // the kernel's own
};

/// A range of owned (or free) addresses.
struct OwnedRange {
  PageSpan span;
  RangeKind kind = RangeKind::kFree;
  uint64_t born = 0;  // number of the call that obtained it
};

/// D3DDDI_RESERVE... and the like, as the client gave them. Bytes.
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
  uint64_t allocation_pages = 0;  // how large the allocation is; from the kernel, not the client
  Protection protection = {};
  uint64_t driver_protection = 0;
  /// A wish of the kernel for a chosen address: power of two, at least 4096. The address and the
  /// byte offset inside the allocation then agree modulo this (VA-43). Where there is no such
  /// room, 4096.
  uint64_t alignment_bytes = kPageBytes;
  /// The kernel maps for itself: the range is kSystem; clients neither map there nor free it.
  bool system = false;
};

struct DriverReserveRequest {
  uint64_t base = 0;  // 0: any
  uint64_t size = 0;
  uint64_t alignment = 0;  // power of two; 0: one leaf table's coverage
  bool allow_user_mapping = false;
};

/// Lane: the adapter's. Two layers:
///
///   owned   who may use which addresses. Changes at once when a client calls, so that an address
///           returned is taken, and a freed one can be had again.
///   mapped  what the page tables say. Changes when a queued operation is executed (`apply`), and
///           when addresses are freed.
///
/// Calls are numbered by the kernel (`sequence`: from 1, strictly increasing over all calls that
/// take one). An operation carries the number of its call; what it would map is left alone
/// wherever the addresses were freed, or freed and obtained again, by a later call (VA-42).
///
/// Calls that fail change nothing. `changed`, where it is a parameter, may be null; spans are
/// appended to it, in order and apart from each other: all pages whose translation may have
/// changed, and none that was neither mapped before nor is now. Costs O(log ranges) per range
/// concerned unless it says otherwise.
class AddressSpace {
 public:
  struct Options {
    /// Exclusive end of all addresses, bytes: 2^VirtualAddressBitCount. Multiple of 4096, at most
    /// 2^63.
    uint64_t end = 0;
    /// [0, first) is nobody's (VA-08): what one leaf table covers. Multiple of 4096.
    uint64_t first = 0;
  };
  explicit AddressSpace(const Options& options);
  ~AddressSpace();
  AddressSpace(AddressSpace&&) noexcept;
  AddressSpace& operator=(AddressSpace&&) noexcept;

  // --- calls.

  /// While the driver creates the process (the caller sees to that). `coverage`: bytes of one leaf
  /// table. Returns the address. VA-09.
  /// kInvalidParameter: size 0 or not a multiple of the coverage, alignment not a power of two,
  /// base not aligned, or not free; kNoMemory: no room.
  Result<uint64_t> reserve_for_driver(const DriverReserveRequest& request, uint64_t coverage);

  /// Takes addresses without memory behind them (VA-32, VA-33). If `needs_apply` of the result,
  /// the operation has to be queued.
  /// kInvalidParameter: something is not a multiple of 64 KiB, size 0, the sum passes the end,
  /// minimum > maximum, a given base meets a range; kNoMemory: no room between the bounds.
  Result<MapOperation> reserve(const ReserveRequest& request, uint64_t sequence);

  /// Checks a Map call and takes addresses for it (VA-11 to VA-24, VA-26). The operation has to be
  /// queued, and is applied while its allocation lives.
  /// kInvalidParameter: what the rules say, and minimum > maximum, and allocations of 2^42 pages
  /// or more; kNoMemory: no free range between the bounds. VA-24 is judged by what is mapped and
  /// by claimed operations that were not applied yet.
  Result<MapOperation> claim(const MapRequest& request, uint64_t sequence);

  /// Gives addresses back and takes the mappings there away at once (VA-41, VA-42).
  /// kInvalidParameter: misaligned, size 0, past the end, or a page is free or not the client's.
  Status free(uint64_t base, uint64_t size, uint64_t sequence, PageSpans* changed);
  /// The same for ranges of kind kSystem.
  Status free_system(uint64_t base, uint64_t size, uint64_t sequence, PageSpans* changed);

  /// All or nothing, at the call (VA-35, VA-37, and VA-18 to VA-21, VA-24 by what is mapped and
  /// claimed). kInvalidParameter as the rules say. Changes nothing.
  Status check_update(std::span<const UpdateOperation> operations) const;

  // --- execution.

  static bool needs_apply(const MapOperation& operation) {
    return !operation.claimed || !operation.mapping.leaves_nothing();
  }
  /// Carries out a queued operation. The allocation is alive.
  void apply(const MapOperation& operation, PageSpans* changed);
  /// Carries out a batch that `check_update` accepted at call `sequence`, in array order (VA-36).
  /// Allocations are alive: replace operations on others by unmaps.
  void apply_update(std::span<const UpdateOperation> operations, uint64_t sequence,
                    PageSpans* changed);

  /// Takes all mappings of an allocation away, as its destruction does (ALLOC-30), before another
  /// one with an id of the same slot is mapped. The addresses stay owned.
  void drop_allocation(AllocationId allocation, PageSpans* changed);

  // --- questions.

  /// The range that covers an address below the end; free ones are ranges too.
  OwnedRange owned_at(uint64_t address) const;
  /// The whole mapping that covers an address; nullopt: none, an access faults. What continues a
  /// mapping in every respect may be part of it; borders at multiples of 4 TiB always show.
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
  /// Appends all mappings of an allocation, by address. Cost: those mappings times O(log ranges),
  /// amortised over what was mapped since the last call.
  void mappings_of(AllocationId allocation, std::vector<Mapping>* mappings) const;
  /// O(1).
  uint64_t mapping_count(AllocationId allocation) const;

  uint64_t end() const;
  size_t mapped_ranges() const;
  size_t owned_ranges() const;
  /// Everything this object holds.
  size_t bytes() const;
  /// Of these, what is in large pages, which are not from the heap.
  size_t outside_heap() const;
  /// All invariants; slow.
  bool validate() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The part of a mapping inside a window it meets.
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
