#include "miniports/softgpu/paging.h"

namespace softgpu {
namespace {

constexpr UINT64 kPageBytes = SGPU_PAGE_BYTES;

UINT64 least(UINT64 a, UINT64 b) { return a < b ? a : b; }

UINT room(const PagingBuffer& buffer) { return buffer.size - buffer.used; }

/// False if it does not fit; nothing is written then.
template <typename Command>
bool append(PagingBuffer* buffer, const Command& command) {
  if (room(*buffer) < sizeof(command)) return false;
  __builtin_memcpy(buffer->bytes + buffer->used, &command, sizeof(command));
  buffer->used += static_cast<UINT>(sizeof(command));
  return true;
}

/// Appends a command that ends in a list of pages. The caller has made sure that it fits.
template <typename Command>
void append_with_pages(PagingBuffer* buffer, const Command& command, const PFN_NUMBER* pages,
                       UINT page_count) {
  append(buffer, command);
  for (UINT i = 0; i < page_count; ++i) append(buffer, UINT64{pages[i]} * kPageBytes);
}

/// How many pages a command with a page list may have in the room that is left.
UINT pages_that_fit(const PagingBuffer& buffer, size_t command_bytes) {
  if (room(buffer) < command_bytes) return 0;
  return static_cast<UINT>((room(buffer) - command_bytes) / sizeof(SgpuU64));
}

SgpuCommandHeader header_of(SgpuU32 opcode, size_t bytes) {
  return {opcode, static_cast<SgpuU32>(bytes)};
}

bool append_copy(PagingBuffer* buffer, UINT64 source, UINT64 destination, UINT64 bytes) {
  SgpuCopy copy = {};
  copy.header = header_of(SGPU_OP_COPY, sizeof(copy));
  copy.source = source;
  copy.destination = destination;
  copy.size = bytes;
  return append(buffer, copy);
}

}  // namespace

NTSTATUS build_transfer(PagingBuffer* buffer, const TransferSide& source,
                        const TransferSide& destination, UINT64 bytes, UINT* multipass_offset) {
  if (source.pages == nullptr && destination.pages == nullptr) {
    return append_copy(buffer, source.address, destination.address, bytes)
               ? STATUS_SUCCESS
               : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
  }
  UINT64 done = *multipass_offset * kPageBytes;
  while (done < bytes) {
    const UINT64 left = bytes - done;
    UINT64 moved;
    if (source.pages != nullptr && destination.pages != nullptr) {
      // The kernel moves system memory itself, but nothing forbids it to ask us.
      moved = least(left, kPageBytes);
      if (!append_copy(buffer, source.pages[done / kPageBytes] * kPageBytes,
                       destination.pages[done / kPageBytes] * kPageBytes, moved)) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
      }
    } else {
      const bool from_pages = source.pages != nullptr;
      const PFN_NUMBER* pages = (from_pages ? source.pages : destination.pages) + done / kPageBytes;
      const UINT count = static_cast<UINT>(least((left + kPageBytes - 1) / kPageBytes,
                                                 pages_that_fit(*buffer, sizeof(SgpuCopyPages))));
      if (count == 0) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
      moved = least(left, count * kPageBytes);
      SgpuCopyPages copy = {};
      copy.header = header_of(SGPU_OP_COPY_PAGES, sizeof(copy) + count * sizeof(SgpuU64));
      copy.linear = (from_pages ? destination.address : source.address) + done;
      copy.size = moved;
      copy.page_count = count;
      copy.direction = from_pages ? SGPU_COPY_FROM_PAGES : SGPU_COPY_TO_PAGES;
      append_with_pages(buffer, copy, pages, count);
    }
    done += moved;
    // Rounded up only by the last piece, and then nobody reads it again.
    *multipass_offset = static_cast<UINT>((done + kPageBytes - 1) / kPageBytes);
  }
  return STATUS_SUCCESS;
}

NTSTATUS build_fill(PagingBuffer* buffer, UINT64 address, UINT64 bytes, UINT pattern) {
  SgpuFill fill = {};
  fill.header = header_of(SGPU_OP_FILL, sizeof(fill));
  fill.destination = address;
  // The engine fills words. Allocations own whole pages, so rounding up stays inside.
  fill.size = (bytes + 3) & ~UINT64{3};
  fill.pattern = pattern;
  return append(buffer, fill) ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

NTSTATUS build_map_aperture(PagingBuffer* buffer, UINT first_page, const PFN_NUMBER* pages,
                            UINT page_count, UINT* multipass_offset) {
  while (*multipass_offset < page_count) {
    const UINT done = *multipass_offset;
    const UINT count = static_cast<UINT>(
        least(page_count - done, pages_that_fit(*buffer, sizeof(SgpuMapAperture))));
    if (count == 0) return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    SgpuMapAperture map = {};
    map.header = header_of(SGPU_OP_MAP_APERTURE, sizeof(map) + count * sizeof(SgpuU64));
    map.first_page = first_page + done;
    map.page_count = count;
    append_with_pages(buffer, map, pages + done, count);
    *multipass_offset = done + count;
  }
  return STATUS_SUCCESS;
}

NTSTATUS build_unmap_aperture(PagingBuffer* buffer, UINT first_page, UINT page_count,
                              UINT64 dummy_page) {
  SgpuUnmapAperture unmap = {};
  unmap.header = header_of(SGPU_OP_UNMAP_APERTURE, sizeof(unmap));
  unmap.first_page = first_page;
  unmap.page_count = page_count;
  unmap.dummy_page = dummy_page;
  return append(buffer, unmap) ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

}  // namespace softgpu
