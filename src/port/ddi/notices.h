// What a driver is told of the world around it, and requests that the kernel only passes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// DXGK_EVENT_TYPE with an event number and, for events that have one, its argument.
struct AcpiEvent {
  enum class Type : uint32_t { kAcpi = 1, kPowerState = 2, kDocking = 3, kChained = 4 };
  Type type = Type::kAcpi;
  uint32_t event = 0;
  bool has_argument = false;
  uint32_t argument = 0;
};

/// What the driver wants to be done then: DXGK_ACPI_*, the bits that have a meaning.
struct AcpiWishes {
  bool poll_children = false, change_mode = false, change_topology = false, not_handled = false;
};

/// VIDEO_REQUEST_PACKET.
struct IoRequest {
  uint32_t code = 0;
  std::span<const std::byte> in{};
  std::span<std::byte> out{};
};

/// Notices and requests. An entry that the driver does not have answers kNotSupported, a dead
/// driver kDeviceRemoved. PASSIVE_LEVEL unless a comment says otherwise.
class NoticePort {
 public:
  /// The core must outlive it.
  explicit NoticePort(PortCore& core) : core_(core) {}

  /// DxgkDdiNotifyAcpiEvent. Inside level two. A failure of the driver passes through; bits of
  /// AcpiFlags without a meaning are a violation (OPT-16).
  Result<AcpiWishes> acpi_event(const AcpiEvent& event);
  /// DxgkDdiDispatchIoRequest. Inside level two. Returns how many bytes of `out` the driver has
  /// filled. Its failure passes through.
  Result<uint32_t> io_request(uint32_t source, const IoRequest& request);
  /// DxgkDdiControlEtwLogging. Level zero.
  Status control_etw_logging(bool on);
  /// DxgkDdiResetDevice: to VGA text, at HIGH_LEVEL as in a bug check, from any state.
  Status reset_device();
  /// DxgkDdiSetStablePowerState, from WDDM 2.0 on. Level zero.
  Status set_stable_power(bool on);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
