// A loaded display miniport driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dxgkit/result.h"

namespace dxgkit {

/// A driver that Stack::load has loaded. The stack owns it. When the stack ends, it stops the
/// driver's adapters and then unloads the driver (DxgkDdiUnload).
class Driver {
 public:
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// File name without its folder.
  const std::string& name() const;
  /// The DXGKDDI_INTERFACE_VERSION that the driver declared (LIFE-01).
  uint32_t interface_version() const;
  /// True for a display-only driver (KMDOD), one that called DxgkInitializeDisplayOnlyDriver.
  bool display_only() const;

 private:
  friend class Stack;
  struct Impl;
  explicit Driver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The path of a driver that comes with dxgkit: "softgpu", "softgpu_wddm2", "framebuffer" ... Fails
/// with STATUS_OBJECT_NAME_NOT_FOUND if no such driver is installed. Any thread.
Expected<std::string> bundled_driver(std::string_view name);

}  // namespace dxgkit
