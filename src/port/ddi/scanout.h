// The picture on the screen: source addresses, vertical sync, pointers, display-only presents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of scan-out. An entry that the driver does not have answers kNotSupported, a dead
/// driver kDeviceRemoved. PASSIVE_LEVEL and level zero unless a comment says otherwise. The caller
/// makes sure that calls of one class do not overlap.
class ScanoutPort {
 public:
  /// The core must outlive it.
  explicit ScanoutPort(PortCore& core) : core_(core) {}

  /// For a mode change, or for a flip of a driver without FlipOnVSyncMmIo (DISP-01). Inside level
  /// two.
  Status set_source_address(const SourceAddressArgs& args);
  /// For a flip of a driver with FlipOnVSyncMmIo: at device level, excluding the ISR (DISP-01).
  /// Lane.
  Status flip(const SourceAddressArgs& args);
  /// DxgkDdiControlInterrupt, 2 or 3, for the vertical sync of `source` (INT-23): the newest entry
  /// that the driver has. A failure of the driver is a violation. kNotSupported without any entry:
  /// then the driver always reports. Inside level two.
  Status control_vsync(uint32_t source, bool enabled);
  /// Asks DxgkDdiControlInterrupt to enable other interrupts than the vertical sync, which no
  /// kernel does. An answer other than STATUS_NOT_IMPLEMENTED is a violation (INT-23). Nothing
  /// without that entry. Inside level two.
  void ask_other_interrupts();
  /// Level zero. kNotSupported without the entry.
  Status get_scan_line(uint32_t target, bool* in_vertical_blank, uint32_t* line);
  /// DxgkDdiPresentDisplayOnly. kSuccess or kPending. After kPending, progress comes as an
  /// interrupt, and the pixels must stay until then.
  Status present_display_only(const PresentDisplayOnlyArgs& args);
  /// DxgkDdiSetDisplayPrivateDriverFormat: how the source reads what it shows. Inside level two.
  /// `primary`: the driver's allocation on the screen; null: the source is not visible. Anything
  /// but success and kUnsuccessful is a violation, and kUnsuccessful (OPT-14).
  Status set_private_format(uint32_t source, void* primary, uint32_t attribute);
  Status set_pointer_position(uint32_t source, int32_t x, int32_t y, bool visible);
  Status set_pointer_shape(const PointerShape& shape);
  // At HIGH_LEVEL, as in a bug check: the driver works alone, from any state.
  Status system_display_enable(uint32_t target, uint32_t* width, uint32_t* height,
                               uint32_t* format);
  /// Pixels of four bytes, blue first.
  Status system_display_write(std::span<const std::byte> pixels, uint32_t width, uint32_t height,
                              uint32_t stride_bytes, uint32_t x, uint32_t y);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
