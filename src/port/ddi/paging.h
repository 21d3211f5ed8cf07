// DxgkDdiBuildPagingBuffer, and the MDLs it is given.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "port/ddi/mdl_pool.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDI of paging. Scheduler class: on the lane, PASSIVE_LEVEL. Paging cannot fail (PAGE-07):
/// what the driver may not answer or write is fatal, and kUnsuccessful; kDeviceRemoved from a dead
/// driver.
class PagingPort {
 public:
  /// The core outlives it.
  explicit PagingPort(PortCore& core);

  /// DxgkDdiBuildPagingBuffer for one operation. Lane.
  BuildPagingResult build_paging(const BuildPagingArgs& args);
  /// MDLs given to the driver so far. What it got stays valid until it is released, because drivers
  /// map an MDL while they build and use the mapping while the packet runs. Lane.
  uint64_t paging_mdls_issued() const;
  /// Unmaps and takes back the first `count` MDLs ever issued. Lane.
  void release_paging_mdls(uint64_t count);

 private:
  PortCore& core_;
  MdlPool mdls_;
};

}  // namespace dxgkit::port
