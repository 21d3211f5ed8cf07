// Overlay planes: DxgkDdi...MultiPlaneOverlay... in the version that the driver has.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "port/plane_types.h"

namespace dxgkit::port {

struct PortCore;

/// Which functions a driver has: 1 from WDDM 1.3 on, 2 from 2.0 on, 3 from 2.1 on. The newest that
/// it has counts, and its structures.
enum class PlaneVersion { kNone, kOne, kTwo, kThree };

/// The DDIs of overlay planes. Level zero at PASSIVE_LEVEL, any thread, unless a comment says
/// otherwise. An entry that the driver does not have answers kNotSupported, a dead driver
/// kDeviceRemoved.
class PlanesPort {
 public:
  /// The core must outlive it.
  explicit PlanesPort(PortCore& core) : core_(core) {}

  /// Of the functions that set planes.
  PlaneVersion version() const;
  /// DxgkDdiCheckMultiPlaneOverlaySupport, 2 or 3. A failing driver breaks a rule (DISP-27), and so
  /// does one that names a plane that is not in the list.
  Result<PlaneSupport> check_support(std::span<const PlaneCheck> planes,
                                     std::span<const PostComposition> post_compositions);
  /// Where DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay is called.
  enum class Where {
    kDeviceLevel,   // excluding the ISR; lane
    kPassiveLevel,  // after the driver has asked for it (version 3); inside level two
  };
  /// Returns the driver's status as it is. `*answer` is that of kSuccess or kRetry.
  Status set(const PlaneSettings& settings, Where where, PlaneAnswer* answer);
  /// DxgkDdiPostMultiPlaneOverlayPresent, for a plane that asked for it. A failure is a violation
  /// (DISP-30).
  Status post_present(uint32_t target, uint32_t layer, uint64_t present_id);
  /// DxgkDdiGetMultiPlaneOverlayCaps. Answers that contradict themselves are a violation (DISP-31);
  /// they are returned as they are.
  Result<PlaneCaps> caps(uint32_t source);
  /// DxgkDdiGetPostCompositionCaps.
  Result<PostCompositionCaps> post_composition_caps(uint32_t source);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
