// A display miniport driver, loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dxgkit/result.h"

namespace dxgkit {

/// Made by Stack::load; unloaded (DxgkDdiUnload) when it goes, or with its stack. Its adapters are
/// stopped by then.
class Driver {
 public:
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// File name without its folder.
  const std::string& name() const;
  /// DXGKDDI_INTERFACE_VERSION that it declared (LIFE-01).
  uint32_t interface_version() const;
  /// A KMDOD: it called DxgkInitializeDisplayOnlyDriver.
  bool display_only() const;

 private:
  friend class Stack;
  struct Impl;
  explicit Driver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Where a driver that comes with dxgkit lies: "softgpu", "softgpu_wddm2", "framebuffer" ... The
/// failure (STATUS_OBJECT_NAME_NOT_FOUND): no such file is installed. Any thread.
Expected<std::string> bundled_driver(std::string_view name);

}  // namespace dxgkit
