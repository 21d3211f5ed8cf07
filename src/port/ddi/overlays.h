// Overlays of WDDM 1.x: hardware that shows an allocation over the picture of a source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "port/display_types.h"

namespace dxgkit::port {

struct PortCore;

/// The allocation that an overlay shows, and where it is. It stays there meanwhile (OPT-02).
struct OverlaySurface {
  void* allocation = nullptr;  // the driver's: hAllocation of DxgkDdiCreateAllocation
  uint32_t segment = 0;
  uint64_t address = 0;
};

/// DXGK_OVERLAYINFO.
struct OverlayInfo {
  OverlaySurface surface;
  Rect destination, source;                 // pixels; of the screen and of the allocation
  std::span<const std::byte> private_data;  // the client's
};

/// The DDIs of overlays. PASSIVE_LEVEL; the caller makes sure that they do not overlap (IRQL-04).
/// An entry that the driver does not have answers kNotSupported, a dead driver kDeviceRemoved. What
/// the pages do not name is a violation, and kInvalidParameter (OPT-05).
class OverlayPort {
 public:
  /// The core must outlive it.
  explicit OverlayPort(PortCore& core) : core_(core) {}

  /// The driver has all four entries.
  bool complete() const;
  /// The driver's name of the overlay, which is not null (OPT-04).
  Result<void*> create(uint32_t source, const OverlayInfo& info);
  Status update(void* overlay, const OverlayInfo& info);
  Status flip(void* overlay, const OverlaySurface& surface,
              std::span<const std::byte> private_data);
  /// A failure is a violation: the hardware reads memory that is about to be used otherwise.
  Status destroy(void* overlay);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
