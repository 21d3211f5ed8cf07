// Displays of the adapters of a System, for the tool and for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "dxgk/display/display_types.h"
#include "dxgk/display/scanout.h"
#include "dxgk/system.h"
#include "port/adapter_port.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// What clients ask of a display. The adapter is found by its LUID and kept from stopping
/// meanwhile. Any thread outside the driver.
///
/// Every function answers kInvalidParameter for an adapter that is not there, kNotSupported for one
/// without video present sources (DISP-21), kDeviceRemoved once the adapter stopped.
class Displays {
 public:
  explicit Displays(System& system) : system_(system) {}

  Result<DisplayConfiguration> configuration(Luid adapter);
  /// The mode is one of DisplaySource::modes. kInvalidParameter: no such source, or it is shown
  /// nowhere. STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE: the driver does not offer it. Else
  /// what the driver answered (with a finding); the mode before is shown then.
  Status set_mode(Luid adapter, uint32_t source, const DisplayMode& mode);
  /// Returns when the driver has taken the picture: for a STATUS_PENDING driver, at its progress
  /// interrupt. kInvalidParameter: a source that shows nothing, a rectangle outside the mode, a
  /// pitch that is too small or above INT32_MAX, a span too small. kNotSupported: not a
  /// display-only adapter. A progress that does not come within TdrDelay stops the adapter
  /// (DOD-01): kDeviceRemoved. Else the driver's failure.
  Status present(Luid adapter, const DisplayPresent& request);
  /// The screen as the CPU can see it: the POST frame buffer of a display-only adapter, the primary
  /// of a full one. kNotSupported: neither can be read; a device model may know more.
  Result<Scanout> scanout(Luid adapter, uint32_t source);
  /// kNotSupported: by the caps the driver has no such pointer. kInvalidParameter: larger than
  /// MaxPointerWidth x MaxPointerHeight, or pixels missing.
  Status set_pointer_shape(Luid adapter, const port::PointerShape& shape);
  Status set_pointer_position(Luid adapter, uint32_t source, int32_t x, int32_t y, bool visible);
  /// DxgkDdiUpdateActiveVidPnPresentPath for a path of the active VidPN. kInvalidParameter: no such
  /// path.
  Status update_path(Luid adapter, const vidpn::Path& path);
  /// D3: sources go invisible, then children, then the adapter. D0: adapter, children, the mode is
  /// committed again and shown. Display-only adapters (kNotSupported otherwise).
  /// `action`: why, for the driver.
  Status set_power(Luid adapter, port::PowerState state,
                   port::PowerAction action = port::PowerAction::kSleep);
  /// What a bug check does: SystemDisplayEnable, SystemDisplayWrite at HIGH_LEVEL. The adapter is
  /// of no use afterwards but to be stopped. kNotSupported: no such entries.
  Status show_bug_check(Luid adapter, std::span<const std::byte> pixels, uint32_t width,
                        uint32_t height);
  /// The committed VidPN; no paths: nothing is shown.
  Result<vidpn::Network> active_network(Luid adapter);
  /// Returns when every DxgkCbIndicateChildStatus so far has been acted on.
  Status wait_for_hot_plug(Luid adapter);

 private:
  template <typename Call>
  Status with(Luid adapter, const Call& call);
  System& system_;
};

}  // namespace dxgkit::dxgk
