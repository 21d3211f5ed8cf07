// Building, comparing and judging networks: pure functions on values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "vidpn/types.h"

namespace dxgkit::vidpn {

/// Display-only drivers may leave members open that a full driver must set, and the reverse.
enum class DriverKind { kDisplayOnly, kFull };

/// The driver's declarations, which decide which rules apply.
struct Profile {
  DriverKind kind = DriverKind::kFull;
  uint32_t interface_version = 0;  // DRIVER_INITIALIZATION_DATA.Version, e.g. 0x5023
  uint32_t source_count = 1;       // NumberOfVideoPresentSources, 1..kSourcesMax
  /// ChildUid of every video output, in the driver's order, unique.
  std::vector<uint32_t> targets = {};
  /// Display-only drivers: true if they have DxgkDdiControlInterrupt and DxgkDdiGetScanLine. Full
  /// drivers always control vertical sync, so the value is ignored for them.
  bool vsync_control = false;
  bool path_independent_rotation() const { return interface_version >= 0x4003; }
  bool has_target(uint32_t target) const;
};

struct SourceTarget {
  uint32_t source = 0, target = 0;
};

/// The network that EnumVidPnCofuncModality starts from: the paths, no pinned modes, empty mode
/// sets, scaling and rotation unpinned. Paths get importance 1, 2, ... in the given order. Pairs
/// that make no topology (the same target twice, unknown ids, more than kPathsMax) are our bug.
Network constraining_network(const Profile& profile, std::span<const SourceTarget> paths);
inline constexpr size_t kPathsMax = 16;

/// Pins a mode that is in the set of the source (target). kModeNotInModeSet otherwise, nothing
/// changed.
Status pin_source_mode(Network& network, uint32_t source, uint32_t mode_id);
Status pin_target_mode(Network& network, uint32_t target, uint32_t mode_id);
/// Unpinned scaling and rotation become identity, as a commit shows them.
void pin_transformations(Network& network);

/// Differences in words, "target 2: mode 3 (1920x1080@60) added"; empty when equal. In a fixed
/// order.
std::vector<std::string> differences(const Network& before, const Network& after);
/// Empty if the invariants of Network hold; otherwise the fault.
std::string validate(const Network& network);

/// "1024x768"; "1920x1080@60 (148500000 Hz, 2200x1125)"; "1024x768 pitch 4096 A8R8G8B8".
std::string to_text(const Size& size);
std::string to_text(const Signal& signal);
std::string to_text(const SourceMode& mode);

}  // namespace dxgkit::vidpn
