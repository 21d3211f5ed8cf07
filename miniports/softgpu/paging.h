// Paging operations turned into commands of the GPU, in as many passes as the buffers need.
//
// Pure functions, like commands.h. Page frame numbers are those of an MDL; the GPU sees system
// memory one to one, so a frame number times the page size is a GPU address.
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

// Each function appends commands for what is left of the operation, in pages from
// *multipass_offset on, which is 0 at first and belongs to these functions until the operation is
// done. STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER: what was written is to be submitted, then called
// again with a fresh buffer and the same arguments. What was written is always whole commands.

NTSTATUS build_transfer(PagingBuffer* buffer, const TransferSide& source,
                        const TransferSide& destination, UINT64 bytes, UINT* multipass_offset);

NTSTATUS build_fill(PagingBuffer* buffer, UINT64 address, UINT64 bytes, UINT pattern);

/// `pages[i]` shows at aperture page `first_page + i`.
NTSTATUS build_map_aperture(PagingBuffer* buffer, UINT first_page, const PFN_NUMBER* pages,
                            UINT page_count, UINT* multipass_offset);

/// Every page shows the dummy page afterwards: a straggler of the GPU hits that, not a page that
/// belongs to somebody else by now.
NTSTATUS build_unmap_aperture(PagingBuffer* buffer, UINT first_page, UINT page_count,
                              UINT64 dummy_page);

}  // namespace softgpu
