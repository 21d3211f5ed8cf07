// DxgkDdiBuildPagingBuffer and its MDLs.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "port/ddi/mdl_pool.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDI of paging. Scheduler class: on the lane, PASSIVE_LEVEL. Paging cannot fail (PAGE-07): a
/// forbidden answer or output of the driver is fatal, and gives kUnsuccessful. kDeviceRemoved from
/// a dead driver.
class PagingPort {
 public:
  /// The core must outlive it.
  explicit PagingPort(PortCore& core);

  /// DxgkDdiBuildPagingBuffer for one operation. Lane.
  BuildPagingResult build_paging(const BuildPagingArgs& args);
  /// The number of MDLs given to the driver so far. An MDL stays valid until it is released,
  /// because drivers map an MDL while they build and use the mapping while the packet runs. Lane.
  uint64_t paging_mdls_issued() const;
  /// Unmaps and releases the first `count` MDLs ever issued. Lane.
  void release_paging_mdls(uint64_t count);

 private:
  BuildPagingResult call_build(const BuildPagingArgs& args);
  PortCore& core_;
  MdlPool mdls_;
};

}  // namespace dxgkit::port
