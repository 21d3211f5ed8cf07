// Children of an adapter: connectors, monitors, their EDIDs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "port/display_types.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of child devices. PASSIVE_LEVEL. An entry that the driver does not have answers
/// kNotSupported, a dead driver kDeviceRemoved. The caller makes sure that calls of one class do
/// not overlap. query_child_relations: exclusively, as start.
class ChildPort {
 public:
  /// The core must outlive it.
  explicit ChildPort(PortCore& core) : core_(core) {}

  /// `out`: the children the driver described, at most `children`.
  Status query_child_relations(uint32_t children, std::vector<ChildInfo>* out = nullptr);
  /// Says whether a monitor is plugged in.
  Result<bool> query_child_status(uint32_t child, bool non_destructive_only);
  /// The EDID with its extension blocks, as the driver read it: hostile bytes, a multiple of 128.
  Result<std::vector<std::byte>> query_device_descriptor(uint32_t child);
  /// Asks for `bytes` of the descriptor from `offset` on, which need not be those of a block. A
  /// driver may refuse. If it does not, what it wrote is that part of `whole`, or CAPS-16 is
  /// reported. `bytes` is at most kDescriptorPartMax.
  Status query_descriptor_part(uint32_t child, uint32_t offset, uint32_t bytes,
                               std::span<const std::byte> whole);
  static constexpr uint32_t kDescriptorPartMax = 1024;
  /// DxgkDdiGetChildContainerId, from Windows 8 on. `id` in/out: the default, and what it is then.
  /// kNotSupported without the entry. A driver that takes the default leaves the structure as it
  /// is; else that is a violation (OPT-33), and the default stays.
  Status get_container_id(uint32_t child, const ContainerSource& source, ContainerId* id);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
