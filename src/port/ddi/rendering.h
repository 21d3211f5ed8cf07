// Building DMA buffers: DxgkDdiRender, DxgkDdiPresent, and the check before submission.
#pragma once

#include "base/status.h"
#include "port/types.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs that turn a client's request into DMA buffers. Level zero: the caller's thread,
/// PASSIVE_LEVEL. kDeviceRemoved from a dead driver. A forbidden answer or output of the driver is
/// a finding (REND-08, REND-16).
class RenderingPort {
 public:
  /// The core must outlive it.
  explicit RenderingPort(PortCore& core) : core_(core) {}

  /// DxgkDdiRender or DxgkDdiRenderKm.
  RenderResult render(const RenderArgs& args);
  /// DxgkDdiPresent. As in render(), bounds are checked and undocumented codes are a violation.
  RenderResult present(const PresentArgs& args);
  /// DxgkDdiValidateSubmitCommand (SUB-34): before the software queue, any thread, PASSIVE_LEVEL.
  /// Returns the driver's refusal, or kSuccess. kNotSupported without the entry, as with every
  /// driver below WDDM 2.5: then there is nothing to validate.
  Status validate_submit(const ValidateSubmitArgs& args);

 private:
  RenderResult call_render(const RenderArgs& args);
  PortCore& core_;
};

}  // namespace dxgkit::port
