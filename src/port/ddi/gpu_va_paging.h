// Paging operations of GPU virtual addresses in the form for DxgkDdiBuildPagingBuffer.
#pragma once

#include <dispmprt.h>

#include <vector>

#include "port/types.h"

namespace dxgkit::port {

/// Memory that a virtual paging operation points to during the call.
struct VirtualScratch {
  std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE> ranges;
};
/// Operation and its union member for the kinds from kTransferVirtual on.
void fill_virtual_operation(DXGKARG_BUILDPAGINGBUFFER& arguments, const PagingOperation& operation,
                            VirtualScratch* scratch);

D3DGPU_PHYSICAL_ADDRESS abi_address_of(const GpuPhysicalAddress& address);

}  // namespace dxgkit::port
