// The children of an adapter, and the monitors on its video outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/display_types.h"
#include "port/display_types.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// Asks the driver for monitors, and tells the VidPN manager of them. Off the lane.
class Monitors {
 public:
  /// `children`: as the driver described them.
  Monitors(DisplayCore& display, std::vector<port::ChildInfo> children);
  ~Monitors();
  Monitors(const Monitors&) = delete;
  Monitors& operator=(const Monitors&) = delete;

  /// Checks that the children fit each other and the sources (CAPS-07). Makes the VidPN manager.
  /// kDeviceConfigurationError: a finding says why.
  Status describe();

  // --- any thread
  std::span<const port::ChildInfo> children() const { return children_; }
  /// There is a video output with this ChildUid.
  bool has_target(uint32_t target) const;
  /// Only after describe() has succeeded.
  vidpn::Manager& manager() { return *manager_; }
  /// Reports the monitor references that the driver still holds. When the adapter stops.
  void report_leaks();

  /// Asks the driver whether a monitor is connected, and for its descriptor. If the driver fails,
  /// the output counts as unplugged. `*step` names the DDI.
  Status attach(uint32_t target, const char** step) DXGKIT_REQUIRES(display_mutex);
  /// The driver has indicated a child's status. True: a monitor came or went. False: nothing has
  /// changed, the monitor could not be read, or there is no such output (CAPS-09).
  bool change(uint32_t child, bool connected) DXGKIT_REQUIRES(display_mutex);
  /// Takes the changes that the driver has to tell (DISP-38). True: a monitor came or went.
  bool take_changes() DXGKIT_REQUIRES(display_mutex);
  bool connected(uint32_t target) const DXGKIT_REQUIRES(display_mutex);
  /// In the driver's order.
  std::vector<DisplayTarget> targets() const DXGKIT_REQUIRES(display_mutex);

 private:
  Status refuse(std::string actual, std::string expected, std::string fix);
  Status read(uint32_t target, const char** step) DXGKIT_REQUIRES(display_mutex);
  /// OPT-32.
  void ask_container(uint32_t target, std::span<const std::byte> edid)
      DXGKIT_REQUIRES(display_mutex);
  void report_bad_descriptor(uint32_t target, std::span<const std::byte> bytes);

  DisplayCore& display_;
  AdapterCore& core_;
  const std::vector<port::ChildInfo> children_;
  std::unique_ptr<vidpn::Manager> manager_;
  std::map<uint32_t, bool> connected_ DXGKIT_GUARDED_BY(display_mutex);
  uint64_t last_change_ DXGKIT_GUARDED_BY(display_mutex) = 0;
  std::map<uint32_t, bool> has_descriptor_ DXGKIT_GUARDED_BY(display_mutex);
  std::map<uint32_t, port::ContainerId> containers_ DXGKIT_GUARDED_BY(display_mutex);
};

}  // namespace dxgkit::dxgk
