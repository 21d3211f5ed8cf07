#include "miniports/softgpu/paging.h"

namespace softgpu {
namespace {

constexpr UINT64 kPageBytes = SGPU_PAGE_BYTES;
constexpr NTSTATUS kFull = STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;

UINT64 least(UINT64 a, UINT64 b) { return a < b ? a : b; }

/// Appends a command and the list of pages that it ends in, if it has one. kFull if it does not
/// fit; nothing is written then.
template <typename Command>
NTSTATUS append(PagingBuffer* buffer, SgpuU32 opcode, Command command,
                const PFN_NUMBER* pages = nullptr, UINT page_count = 0) {
  const UINT bytes = static_cast<UINT>(sizeof(command) + page_count * sizeof(SgpuU64));
  if (buffer->size - buffer->used < bytes) return kFull;
  command.header = {opcode, bytes};
  UCHAR* to = buffer->bytes + buffer->used;
  __builtin_memcpy(to, &command, sizeof(command));
  for (UINT i = 0; i < page_count; ++i) {
    const SgpuU64 page = pages[i] * kPageBytes;
    __builtin_memcpy(to + sizeof(command) + i * sizeof(page), &page, sizeof(page));
  }
  buffer->used += bytes;
  return STATUS_SUCCESS;
}

/// How many of `wanted` pages a command with a page list may have in the room that is left.
UINT pages_that_fit(const PagingBuffer& buffer, size_t command_bytes, UINT64 wanted) {
  const UINT room = buffer.size - buffer.used;
  if (room < command_bytes) return 0;
  return static_cast<UINT>(least(wanted, (room - command_bytes) / sizeof(SgpuU64)));
}

NTSTATUS append_copy(PagingBuffer* buffer, UINT64 source, UINT64 destination, UINT64 bytes) {
  return append(buffer, SGPU_OP_COPY, SgpuCopy{{}, source, destination, bytes});
}

}  // namespace

NTSTATUS build_transfer(PagingBuffer* buffer, const TransferSide& source,
                        const TransferSide& destination, UINT64 bytes, UINT* multipass_offset) {
  if (bytes == 0) return STATUS_SUCCESS;  // after a reset: content is gone
  if (source.pages == nullptr && destination.pages == nullptr) {
    return append_copy(buffer, source.address, destination.address, bytes);
  }
  UINT64 done = *multipass_offset * kPageBytes;
  while (done < bytes) {
    const UINT64 left = bytes - done;
    UINT64 moved;
    if (source.pages != nullptr && destination.pages != nullptr) {
      // The kernel moves system memory itself, but nothing forbids it to ask us.
      moved = least(left, kPageBytes);
      const NTSTATUS status = append_copy(buffer, source.pages[done / kPageBytes] * kPageBytes,
                                          destination.pages[done / kPageBytes] * kPageBytes, moved);
      if (!NT_SUCCESS(status)) return status;
    } else {
      const bool from_pages = source.pages != nullptr;
      const PFN_NUMBER* pages = (from_pages ? source.pages : destination.pages) + done / kPageBytes;
      const UINT count =
          pages_that_fit(*buffer, sizeof(SgpuCopyPages), (left + kPageBytes - 1) / kPageBytes);
      if (count == 0) return kFull;
      moved = least(left, count * kPageBytes);
      SgpuCopyPages copy = {};
      copy.linear = (from_pages ? destination.address : source.address) + done;
      copy.size = moved;
      copy.page_count = count;
      copy.direction = from_pages ? SGPU_COPY_FROM_PAGES : SGPU_COPY_TO_PAGES;
      append(buffer, SGPU_OP_COPY_PAGES, copy, pages, count);
    }
    done += moved;
    // Rounded up only by the last piece, and then nobody reads it again.
    *multipass_offset = static_cast<UINT>((done + kPageBytes - 1) / kPageBytes);
  }
  return STATUS_SUCCESS;
}

NTSTATUS build_fill(PagingBuffer* buffer, UINT64 address, UINT64 bytes, UINT pattern) {
  if (bytes == 0) return STATUS_SUCCESS;
  // The engine fills words. Allocations own whole pages, so rounding up stays inside.
  return append(buffer, SGPU_OP_FILL, SgpuFill{{}, address, (bytes + 3) & ~UINT64{3}, pattern, 0});
}

NTSTATUS build_touch(PagingBuffer* buffer, PHYSICAL_ADDRESS address, bool write) {
  constexpr UINT64 kWord = 4;
  const UINT64 word = static_cast<UINT64>(address.QuadPart) & ~(kWord - 1);
  return write ? build_fill(buffer, word, kWord, 0) : append_copy(buffer, word, word, kWord);
}

NTSTATUS build_map_aperture(PagingBuffer* buffer, UINT first_page, const PFN_NUMBER* pages,
                            UINT page_count, UINT* multipass_offset) {
  while (*multipass_offset < page_count) {
    const UINT done = *multipass_offset;
    const UINT count = pages_that_fit(*buffer, sizeof(SgpuMapAperture), page_count - done);
    if (count == 0) return kFull;
    append(buffer, SGPU_OP_MAP_APERTURE, SgpuMapAperture{{}, first_page + done, count},
           pages + done, count);
    *multipass_offset = done + count;
  }
  return STATUS_SUCCESS;
}

NTSTATUS build_unmap_aperture(PagingBuffer* buffer, UINT first_page, UINT page_count,
                              UINT64 dummy_page) {
  return append(buffer, SGPU_OP_UNMAP_APERTURE,
                SgpuUnmapAperture{{}, first_page, page_count, dummy_page});
}

}  // namespace softgpu
