// A driver's description of itself and its memory, mostly during start.
#pragma once

#include <cstddef>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// Questions of DxgkDdiQueryAdapterInfo and DxgkDdiGetNodeMetadata. Level zero, also beside level
/// three (IRQL-09); PASSIVE_LEVEL, any thread. Questions at start change what the core knows, so
/// they come before the adapter runs. kDeviceRemoved from a dead driver.
class CapsPort {
 public:
  /// The core must outlive it.
  explicit CapsPort(PortCore& core) : core_(core) {}

  /// PHYSICAL_MEMORY_CAPS / IOMMU_CAPS for 2.9 and up; a no-op success below (LIFE-07).
  Status query_early_caps();
  Result<DriverCaps> query_driver_caps();
  /// The two passes with the type of the driver's model (SEG-01..04). Checks the structure only;
  /// dxgk checks the meaning.
  Result<SegmentsInfo> query_segments();
  /// @param out  may be null; unchanged on failure.
  Status get_node_metadata(NodeOrdinal node, NodeMetadata* out = nullptr);
  /// D3DKMTQueryAdapterInfo(UMDRIVERPRIVATE) with buffers that are already captured.
  Status query_umd_private(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
