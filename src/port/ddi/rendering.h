// Building DMA buffers: DxgkDdiRender, DxgkDdiPresent, and the check before submission.
#pragma once

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs that turn what a client asks for into DMA buffers. Level zero: the caller's thread,
/// PASSIVE_LEVEL. kDeviceRemoved from a dead driver. What the driver may not answer or write is a
/// finding (REND-08, REND-16).
class RenderingPort {
 public:
  /// The core outlives it.
  explicit RenderingPort(PortCore& core) : core_(core) {}

  /// DxgkDdiRender or DxgkDdiRenderKm.
  RenderResult render(const RenderArgs& args);
  /// DxgkDdiPresent. As render(): bounds are checked, undocumented
  /// codes are a violation.
  RenderResult present(const PresentArgs& args);
  /// DxgkDdiValidateSubmitCommand (SUB-34): before the software queue, any thread, PASSIVE_LEVEL.
  /// The driver's refusal, or kSuccess; kNotSupported without the entry, which every driver below
  /// WDDM 2.5 is: then there is nothing to validate.
  Status validate_submit(const ValidateSubmitArgs& args);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
