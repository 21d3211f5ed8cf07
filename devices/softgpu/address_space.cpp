#include "devices/softgpu/address_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"

namespace dxgkit::softgpu {
namespace {

constexpr uint64_t kTableBytes = SGPU_APERTURE_PAGES * sizeof(std::atomic<uint64_t>);
/// All of so little VRAM is written when it is given back, or loses its content.
constexpr uint64_t kSmallBytes = uint64_t{4} << 20;

}  // namespace

// --- Range

void Range::clear() {
  pieces_.clear();
  size_ = 0;
}

void Range::append(std::byte* pointer, uint64_t size) {
  if (!pieces_.empty() && pieces_.back().pointer + pieces_.back().size == pointer) {
    pieces_.back().size += size;
  } else {
    pieces_.push_back({size_, pointer, size});
  }
  size_ += size;
}

size_t Range::piece_at(uint64_t offset) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                       [](uint64_t wanted, const Piece& piece) { return wanted < piece.offset; });
  return static_cast<size_t>(after - pieces_.begin()) - 1;
}

void Range::read(uint64_t offset, std::byte* out, uint64_t count) const {
  for (size_t i = count == 0 ? 0 : piece_at(offset); count > 0; ++i) {
    const Piece& piece = pieces_[i];
    const uint64_t skip = offset - piece.offset;
    const uint64_t step = std::min(count, piece.size - skip);
    std::memcpy(out, piece.pointer + skip, step);
    out += step;
    offset += step;
    count -= step;
  }
}

void Range::write(uint64_t offset, const std::byte* in, uint64_t count) const {
  for (size_t i = count == 0 ? 0 : piece_at(offset); count > 0; ++i) {
    const Piece& piece = pieces_[i];
    const uint64_t skip = offset - piece.offset;
    const uint64_t step = std::min(count, piece.size - skip);
    std::memcpy(piece.pointer + skip, in, step);
    in += step;
    offset += step;
    count -= step;
  }
}

// --- AddressSpace

AddressSpace::AddressSpace(bus::Machine& machine, uint64_t vram_bytes)
    : machine_(machine), vram_bytes_(vram_bytes) {
  DXGKIT_CHECK(vram_bytes > 0);
  DXGKIT_CHECK(vram_bytes <= SGPU_APERTURE_BASE - SGPU_VRAM_BASE);
  bar_bytes_ = std::max<uint64_t>(std::bit_ceil(vram_bytes), kPageBytes);
  vram_object_ =
      bus::make_memory_object("dxgkit-softgpu-vram", bar_bytes_, 0, bus::MappedAt::kAnyAddress);
  vram_ = vram_object_.memory;
  // Most of the table is never used: pages of it cost nothing before that.
  void* const table = mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DXGKIT_CHECK(table != MAP_FAILED);
  entries_ = static_cast<std::atomic<uint64_t>*>(table);
}

AddressSpace::~AddressSpace() {
  munmap(entries_, kTableBytes);
  if (bar_bytes_ > kSmallBytes) {
    bus::end_memory_object(vram_object_, bus::MappedAt::kAnyAddress);
    return;
  }
  const std::pair<uint64_t, uint64_t> all{0, bar_bytes_};
  bus::give_back(vram_object_, bus::MappedAt::kAnyAddress, std::span(&all, 1));
}

Fault AddressSpace::resolve(uint64_t address, uint64_t size, Access access, Range& out) {
  out.clear();
  if (size == 0) return {};
  if (address < SGPU_APERTURE_BASE) {
    std::byte* pointer = nullptr;
    if (const Fault fault = resolve_linear(address, size, &pointer)) return fault;
    out.append(pointer, size);
    return {};
  }
  const uint64_t offset = address - SGPU_APERTURE_BASE;
  if (!range_within(offset, size, SGPU_APERTURE_BYTES)) return {SGPU_FAULT_ADDRESS, address};
  return resolve_aperture(offset, size, access, out);
}

Fault AddressSpace::resolve_linear(uint64_t address, uint64_t size, std::byte** out) {
  if (address < SGPU_SYSTEM_LIMIT) return resolve_system(address, size, out);
  const uint64_t offset = address - SGPU_VRAM_BASE;
  if (!range_within(offset, size, vram_bytes_)) return {SGPU_FAULT_ADDRESS, address};
  const uint64_t bad_begin = bad_begin_.load(std::memory_order_relaxed);
  const uint64_t bad_end = bad_end_.load(std::memory_order_relaxed);
  if (offset < bad_end && offset + size > bad_begin) {
    return {SGPU_FAULT_MEMORY, SGPU_VRAM_BASE + std::max(offset, bad_begin)};
  }
  *out = vram_ + offset;
  return {};
}

Fault AddressSpace::resolve_in_page(uint64_t address, uint64_t size, Access access,
                                    std::byte** out) {
  if (address < SGPU_APERTURE_BASE) return resolve_linear(address, size, out);
  const uint64_t offset = address - SGPU_APERTURE_BASE;
  if (!range_within(offset, size, SGPU_APERTURE_BYTES)) return {SGPU_FAULT_ADDRESS, address};
  bool dummy = false;
  if (const Fault fault = resolve_aperture_page(offset, size, &dummy, out)) return fault;
  if (access == Access::kWrite && dummy) dummy_writes_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Fault AddressSpace::resolve_aperture_page(uint64_t offset, uint64_t size, bool* dummy,
                                          std::byte** out) {
  const uint64_t value = entry(static_cast<uint32_t>(offset / SGPU_PAGE_BYTES));
  if ((value & SGPU_ENTRY_VALID) == 0) return {SGPU_FAULT_APERTURE, SGPU_APERTURE_BASE + offset};
  *dummy = (value & SGPU_ENTRY_DUMMY) != 0;
  return resolve_system((value & SGPU_ENTRY_ADDRESS_MASK) + offset % SGPU_PAGE_BYTES, size, out);
}

Fault AddressSpace::resolve_aperture(uint64_t offset, uint64_t size, Access access, Range& out) {
  const uint64_t end = offset + size;
  uint32_t dummies = 0;
  for (uint64_t at = offset; at < end;) {
    const uint64_t step = std::min<uint64_t>(SGPU_PAGE_BYTES - at % SGPU_PAGE_BYTES, end - at);
    bool dummy = false;
    std::byte* pointer = nullptr;
    if (const Fault fault = resolve_aperture_page(at, step, &dummy, &pointer)) {
      out.clear();
      return fault;
    }
    if (dummy) ++dummies;
    out.append(pointer, step);
    at += step;
  }
  if (access == Access::kWrite && dummies > 0) {
    dummy_writes_.fetch_add(dummies, std::memory_order_relaxed);
  }
  return {};
}

Fault AddressSpace::resolve_pages(std::span<const uint64_t> pages, uint64_t page_offset,
                                  uint64_t size, Range& out) {
  out.clear();
  uint64_t in_page = page_offset;
  for (size_t i = 0; size > 0; ++i) {
    if (pages[i] % SGPU_PAGE_BYTES != 0) {
      out.clear();
      return {SGPU_FAULT_ALIGNMENT, pages[i]};
    }
    const uint64_t step = std::min<uint64_t>(SGPU_PAGE_BYTES - in_page, size);
    std::byte* pointer = nullptr;
    if (const Fault fault = resolve_system(pages[i], SGPU_PAGE_BYTES, &pointer)) {
      out.clear();
      return fault;
    }
    out.append(pointer + in_page, step);
    size -= step;
    in_page = 0;
  }
  return {};
}

Fault AddressSpace::resolve_word(uint64_t address, uint32_t width, Access access, std::byte** out) {
  if (width != 4 && width != 8) return {SGPU_FAULT_ARGUMENT, address};
  if (address % width != 0) return {SGPU_FAULT_ALIGNMENT, address};
  if (address < SGPU_APERTURE_BASE) return resolve_linear(address, width, out);
  const uint64_t offset = address - SGPU_APERTURE_BASE;
  if (!range_within(offset, width, SGPU_APERTURE_BYTES)) return {SGPU_FAULT_ADDRESS, address};
  bool dummy = false;  // it is aligned, so never across pages
  if (const Fault fault = resolve_aperture_page(offset, width, &dummy, out)) return fault;
  if (dummy && access == Access::kWrite) dummy_writes_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Fault AddressSpace::resolve_system(uint64_t address, uint64_t size, std::byte** out) {
  std::byte* pointer = machine_.system_pointer(bus::PhysicalAddress{address}, size);
  if (pointer == nullptr) return {SGPU_FAULT_ADDRESS, address};
  *out = pointer;
  return {};
}

void AddressSpace::set_entry(uint32_t index, uint64_t entry) {
  std::byte* pointer = nullptr;
  const uint64_t page = entry & SGPU_ENTRY_ADDRESS_MASK;
  const bool usable =
      (entry & SGPU_ENTRY_VALID) != 0 && !resolve_system(page, SGPU_PAGE_BYTES, &pointer);
  const uint64_t kept = entry & (SGPU_ENTRY_ADDRESS_MASK | SGPU_ENTRY_VALID | SGPU_ENTRY_DUMMY);
  entries_[index].store(usable ? kept : 0, std::memory_order_release);
}

void AddressSpace::lose_power(uint64_t kept_bytes) {
  DXGKIT_CHECK(madvise(entries_, kTableBytes, MADV_DONTNEED) == 0);  // zeros from now on
  clear_dummy_writes();
  // Only pages that were ever written: the others cost no memory and stay that way. The rest of a
  // page whose beginning is kept is kept too.
  constexpr int kGarbage = 0xD7;
  auto at = static_cast<off_t>(align_up(std::min(kept_bytes, bar_bytes_), kPageBytes));
  if (bar_bytes_ <= kSmallBytes) {  // and its pages may have been another device's
    std::memset(vram_ + at, kGarbage, bar_bytes_ - static_cast<uint64_t>(at));
    return;
  }
  while ((at = lseek(vram_object_.fd, at, SEEK_DATA)) >= 0) {
    const off_t end = lseek(vram_object_.fd, at, SEEK_HOLE);
    if (end <= at) break;
    std::memset(vram_ + at, kGarbage, static_cast<size_t>(end - at));
    at = end;
  }
}

void AddressSpace::set_bad_vram(uint64_t begin, uint64_t end) {
  bad_end_.store(0, std::memory_order_relaxed);  // never a mixture of the old and the new range
  bad_begin_.store(begin, std::memory_order_relaxed);
  bad_end_.store(end, std::memory_order_relaxed);
}

}  // namespace dxgkit::softgpu
