// Settings of video outputs that drivers for WDDM 2.2 and later have functions of their own for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "port/types.h"
#include "vidpn/types.h"

namespace dxgkit::port {

struct PortCore;

/// DXGK_CONNECTION_CHANGE, of the kinds that connect or disconnect a monitor.
struct ConnectionChange {
  uint64_t id = 0;  // rises with each change of the adapter
  uint32_t target = 0;
  enum class Kind { kMonitorConnected, kMonitorDisconnected, kOther } kind = Kind::kOther;
};

/// One path of DxgkDdiSetTimingsFromVidPn.
struct TimingPath {
  uint32_t target = 0;
  /// What has changed since the last successful call: DXGK_PATH_UPDATE.
  enum class Update { kUnmodified = 0, kAdded = 1, kModified = 2, kRemoved = 3 };
  Update update = Update::kUnmodified;
  bool active = true;  // false: the output is switched off
  // The driver's answer.
  bool recheck_planes = false;  // what overlay planes can show has changed
  bool failed = false;          // the link could not be set up, or nothing is connected
};

/// The DDIs of single video outputs. PASSIVE_LEVEL, level zero; the caller makes sure that calls of
/// one class do not overlap. kNotSupported: a driver for less than WDDM 2.2, or without the entry.
/// kDeviceRemoved: a dead driver. Else the driver's own status.
class TargetsPort {
 public:
  /// The core must outlive it.
  explicit TargetsPort(PortCore& core) : core_(core) {}

  /// DxgkDdiSetTargetGamma, with gamma_type and gamma of the path.
  Status set_gamma(const ::dxgkit::vidpn::Path& path);
  /// DxgkDdiSetTargetContentType, with content of the path.
  Status set_content_type(const ::dxgkit::vidpn::Path& path);
  /// DxgkDdiSetTargetAnalogCopyProtection, with copy_protection and aps_trigger_bits of the path.
  Status set_analog_copy_protection(const ::dxgkit::vidpn::Path& path);
  /// DxgkDdiUpdateMonitorLinkInfo: the capabilities of the monitor over the link, as the driver
  /// wrote them (DXGK_MONITORLINKINFO_CAPABILITIES).
  Result<uint32_t> update_monitor_link_info(uint32_t target);

  /// DxgkDdiSetTimingsFromVidPn, which takes the place of DxgkDdiCommitVidPn. Inside level two.
  /// `paths`: those of the VidPN, and those that it has lost. `*connection_changes`: monitors came
  /// or went, next_connection_change() tells which. An answer without the state of a target is a
  /// violation (DISP-34).
  Status set_timings(void* vidpn, std::span<TimingPath> paths, bool* connection_changes);

  /// DxgkDdiDisplayDetectControl. `target`: of kPollOne.
  enum class Detect { kPollOne = 1, kPollAll = 2, kEnableHotPlug = 3, kDisableHotPlug = 4 };
  Status detect(Detect what, uint32_t target, bool non_destructive_only);
  /// DxgkDdiQueryConnectionChange: the oldest change that the driver has not told. nullopt: there
  /// is none (STATUS_ALREADY_COMPLETE, which is no error).
  Result<std::optional<ConnectionChange>> next_connection_change();

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
