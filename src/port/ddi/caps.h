// A driver's description of itself and its memory, mostly during start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

  /// Before DxgkDdiStartDevice: WDDMDEVICECAPS for 2.6 and up, PHYSICAL_MEMORY_CAPS and IOMMU_CAPS
  /// for 2.9 and up (LIFE-07). A driver that does not know a type refuses it.
  Status query_early_caps();
  /// @pre query_early_caps, whose answer is compared with this one (CAPS-14).
  Result<DriverCaps> query_driver_caps();
  struct Extensions {
    bool display = false;  // DISPLAY_DRIVERCAPS_EXTENSION: the adapter has outputs
    bool render = false;   // PHYSICALADAPTERCAPS of the one physical adapter: it is a full driver
  };
  /// What Windows asks of drivers for WDDM 2.0 and up at their start. A driver that does not know a
  /// type refuses it. kDeviceConfigurationError: it wrote where it must not.
  Status query_extensions(Extensions wanted);
  /// The two passes with the type of the driver's model (SEG-01..04). Checks the structure only;
  /// dxgk checks the meaning.
  Result<SegmentsInfo> query_segments();
  /// @param out  may be null; unchanged on failure.
  Status get_node_metadata(NodeOrdinal node, NodeMetadata* out = nullptr);
  /// DXGK_DISPLAY_DRIVERCAPS_EXTENSION.Value as the driver answered query_extensions; 0 if it was
  /// not asked, or refused.
  uint32_t display_extension() const { return display_extension_; }
  /// The questions that clients ask of a running driver for WDDM 2.4 and up: what a node or the
  /// adapter does now, its limits, its versions. `index`: the node, or the physical adapter.
  /// kNotSupported: an older driver. Else the driver's own status.
  enum class Performance { kNode, kAdapter, kAdapterCaps, kVersion };
  Status query_performance(Performance what, uint32_t index, std::span<std::byte> out);
  /// D3DKMTQueryAdapterInfo(UMDRIVERPRIVATE) with buffers that are already captured.
  Status query_umd_private(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  Status query_device_caps();

  PortCore& core_;
  uint32_t display_extension_ = 0;
  std::optional<uint32_t> announced_model_;  // WDDMDEVICECAPS; none if it was refused
};

}  // namespace dxgkit::port
