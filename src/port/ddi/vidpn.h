// Video present networks: what a driver can show, and what it should show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "port/types.h"
#include "vidpn/types.h"

namespace dxgkit::port {

struct PortCore;

/// The VidPN functions. PASSIVE_LEVEL. A VidPN is a handle of vidpn::Manager. An entry that the
/// driver does not have answers kNotSupported, a dead driver kDeviceRemoved; else the driver's own
/// status.
class VidPnPort {
 public:
  /// The core must outlive it.
  explicit VidPnPort(PortCore& core) : core_(core) {}

  // Level zero or one; the caller makes sure that calls of one class do not overlap.
  /// A driver that succeeds without an answer is in violation (CAPS-08), and the answer counts as
  /// no.
  Result<bool> is_supported_vidpn(void* vidpn);
  Status enum_cofunc_modality(void* vidpn, EnumPivot pivot, uint32_t source, uint32_t target);
  /// DXGKARG_QUERYVIDPNHWCAPABILITY::VidPnHWCaps.
  Result<uint32_t> query_vidpn_hw_capability(void* vidpn, uint32_t source, uint32_t target);

  // Inside level two (SyncLevels).
  /// The driver writes its proposal into the VidPN.
  /// @param private_data  a client's wish, in the driver's own format; the driver gets a copy
  Status recommend_functional_vidpn(void* vidpn, std::span<const uint32_t> targets,
                                    std::span<const std::byte> private_data = {});
  Status recommend_monitor_modes(uint32_t target, void* mode_set, const void* mode_set_interface);
  /// `affected_source`: UINT32_MAX - 2 (D3DDDI_ID_ALL) for all.
  Status commit_vidpn(void* vidpn, uint32_t affected_source, void* primary);
  Status update_active_present_path(const ::dxgkit::vidpn::Path& path);
  Status set_source_visibility(uint32_t source, bool visible);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
