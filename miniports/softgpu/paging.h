// Paging operations turned into commands of the GPU, in as many passes as the buffers need.
//
// Pure functions, like commands.h. The GPU sees system memory one to one, so the frame numbers of
// an MDL times the page size are GPU addresses.
#pragma once

#include "miniports/softgpu/commands.h"

namespace softgpu {

/// What is left of a paging buffer. `used` bytes of it are written.
struct PagingBuffer {
  UCHAR* bytes;
  UINT size;
  UINT used;
};

/// One side of a transfer: GPU addresses from `address` on, or the pages from `pages[0]` on.
struct TransferSide {
  const PFN_NUMBER* pages;  // null: linear
  UINT64 address;
};

// Each appends whole commands for what is left of the operation, in pages from *multipass_offset
// on, which is 0 at first. STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER: submit what was written, then
// call again with a fresh buffer and the same arguments.

NTSTATUS build_transfer(PagingBuffer* buffer, const TransferSide& source,
                        const TransferSide& destination, UINT64 bytes, UINT* multipass_offset);
NTSTATUS build_fill(PagingBuffer* buffer, UINT64 address, UINT64 bytes, UINT pattern);
/// One word is written, or read and written as it is. Nobody needs what is there.
NTSTATUS build_touch(PagingBuffer* buffer, PHYSICAL_ADDRESS address, bool write);

/// `pages[i]` shows at aperture page `first_page + i`.
NTSTATUS build_map_aperture(PagingBuffer* buffer, UINT first_page, const PFN_NUMBER* pages,
                            UINT page_count, UINT* multipass_offset);

/// A straggler of the GPU hits the dummy page then, not a page that is somebody else's by now.
NTSTATUS build_unmap_aperture(PagingBuffer* buffer, UINT first_page, UINT page_count,
                              UINT64 dummy_page);

}  // namespace softgpu
