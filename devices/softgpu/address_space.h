// The meaning of a GPU physical address: system bus, VRAM, or a page of the aperture.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "bus/memory_object.h"
#include "devices/softgpu/softgpu_hw.h"

namespace dxgkit::softgpu {

/// The reason why an engine stops. reason is SGPU_FAULT_*; kNone means no fault.
struct Fault {
  uint32_t reason = SGPU_FAULT_NONE;
  uint64_t address = 0;
  uint32_t detail = 0;  // of SGPU_FAULT_PAGE, as in FAULT_DETAIL
  explicit operator bool() const { return reason != SGPU_FAULT_NONE; }
};

enum class Access { kRead, kWrite, kFetch };  // kFetch: reads commands

/// A resolved range of GPU addresses: host memory in one or more pieces. Its owner reuses it, so
/// that resolving allocates nothing after the first uses.
class Range {
 public:
  struct Piece {
    uint64_t offset = 0;  // from the start of the range
    std::byte* pointer = nullptr;
    uint64_t size = 0;
  };
  uint64_t size() const { return size_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// The whole range as one pointer; null if it is in pieces (or empty).
  std::byte* contiguous() const { return pieces_.size() == 1 ? pieces_[0].pointer : nullptr; }
  /// The piece that contains byte `offset` < size(). Cost: logarithmic in the pieces.
  size_t piece_at(uint64_t offset) const;
  /// @param offset  the caller makes sure that [offset, offset + count) lies inside the range.
  void read(uint64_t offset, std::byte* out, uint64_t count) const;
  void write(uint64_t offset, const std::byte* in, uint64_t count) const;

 private:
  friend class AddressSpace;
  friend class Mmu;
  void clear();
  void append(std::byte* pointer, uint64_t size);
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

/// VRAM, the aperture table, and access to system memory. Thread-safe.
class AddressSpace {
 public:
  /// @param vram_bytes  > 0, at most 64 GiB; the BAR is the next power of two.
  AddressSpace(bus::Machine& machine, uint64_t vram_bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;

  uint64_t vram_bytes() const { return vram_bytes_; }
  bus::MemoryWindow vram_window() const { return {vram_object_.fd, 0, bar_bytes_}; }

  /// Resolves [address, address + size). Size 0 gives an empty range at any address. On a fault
  /// nothing was accessed and `out` is empty. A write counts the DUMMY pages that it meets.
  Fault resolve(uint64_t address, uint64_t size, Access access, Range& out);
  /// Resolves `size` bytes that start `page_offset` into the first of a list of page-aligned bus
  /// addresses. The caller makes sure that the list is long enough.
  Fault resolve_pages(std::span<const uint64_t> pages, uint64_t page_offset, uint64_t size,
                      Range& out);
  /// One naturally aligned word of 4 or 8 bytes.
  Fault resolve_word(uint64_t address, uint32_t width, Access access, std::byte** out);
  /// As resolve(), for a range inside one page: then it is one piece.
  Fault resolve_in_page(uint64_t address, uint64_t size, Access access, std::byte** out);
  /// True if resolving gave a pointer into VRAM.
  bool is_vram(const std::byte* pointer) const {
    return std::bit_cast<uintptr_t>(pointer) - std::bit_cast<uintptr_t>(vram_) < bar_bytes_;
  }
  /// A run of bytes on the system bus, as in page lists.
  Fault resolve_system(uint64_t address, uint64_t size, std::byte** out);

  // --- aperture
  uint64_t entry(uint32_t index) const { return entries_[index].load(std::memory_order_acquire); }
  /// index < SGPU_APERTURE_PAGES. An entry that names no system page becomes invalid.
  void set_entry(uint32_t index, uint64_t entry);
  uint32_t dummy_writes() const { return dummy_writes_.load(std::memory_order_relaxed); }
  void clear_dummy_writes() { dummy_writes_.store(0, std::memory_order_relaxed); }

  /// Power was lost: aperture entries become 0, and VRAM from `kept_bytes` on becomes garbage. No
  /// thread may access either.
  void lose_power(uint64_t kept_bytes);

  /// Injection: accesses to VRAM offsets [begin, end) fault with SGPU_FAULT_MEMORY.
  void set_bad_vram(uint64_t begin, uint64_t end);

 private:
  /// Resolves system memory or VRAM: one piece of any size.
  Fault resolve_linear(uint64_t address, uint64_t size, std::byte** out);
  /// Resolves a range inside one page of the aperture.
  Fault resolve_aperture_page(uint64_t offset, uint64_t size, bool* dummy, std::byte** out);
  Fault resolve_aperture(uint64_t offset, uint64_t size, Access access, Range& out);

  bus::Machine& machine_;
  uint64_t vram_bytes_;
  uint64_t bar_bytes_;
  bus::MemoryObject vram_object_;
  std::byte* vram_ = nullptr;
  // Either engine and the registers write entries while the other engine reads them, so each entry
  // is atomic by itself.
  std::atomic<uint64_t>* entries_ = nullptr;
  std::atomic<uint32_t> dummy_writes_{0};
  std::atomic<uint64_t> bad_begin_{0};
  std::atomic<uint64_t> bad_end_{0};
};

}  // namespace dxgkit::softgpu
