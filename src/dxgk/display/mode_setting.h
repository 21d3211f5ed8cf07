// Mode setting: from connected monitors and clients' wishes to a committed VidPN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/display/active_vidpn.h"
#include "dxgk/display/display_core.h"
#include "dxgk/display/display_only_presents.h"
#include "dxgk/display/display_types.h"
#include "dxgk/display/display_worker.h"
#include "dxgk/display/gamma.h"
#include "dxgk/display/monitors.h"
#include "dxgk/display/overlays.h"
#include "dxgk/display/primaries.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// Chooses paths, has the driver enumerate modes, and commits. Display-only and full drivers are
/// treated alike. After a failure the screens show what they showed before.
///
/// Off the lane. `*step`: the DDI that is at work, for messages.
class ModeSetting {
 public:
  struct Parts {
    Monitors& monitors;
    ActiveVidPn& active;
    DisplayOnlyPresents& presents;
    DisplayWorker& worker;
    // Null for a display-only driver:
    Primaries* primaries;
    Flips* flips;
    Overlays* overlays;
  };
  ModeSetting(DisplayCore& display, const Parts& parts);

  /// Makes the sources known, before the first mode is set.
  void describe() DXGKIT_REQUIRES(display_mutex);
  /// Commits a VidPN for the monitors that are connected now, with the modes that clients asked
  /// for. It is no failure if no monitor is connected.
  Status follow_monitors(const char** step) DXGKIT_REQUIRES(display_mutex);
  /// Commits a VidPN without paths: nothing is shown until follow_monitors().
  Status clear(const char** step) DXGKIT_REQUIRES(display_mutex) {
    return commit(vidpn::Network{}, step);
  }
  /// Commits every source of the active VidPN once more.
  Status recommit(const char** step) DXGKIT_REQUIRES(display_mutex);
  /// Commits the VidPN that the driver recommends for the monitors that are connected, in place of
  /// modes that clients asked for. `wish`: what a client tells the driver of it, in the driver's
  /// own format. kNoRecommendedFunctionalVidPn: no monitor, or the driver recommends none.
  /// kNotSupported, kNotImplemented: the driver's answer.
  Status take_recommendation(std::span<const std::byte> wish, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// Sets a client's mode. The other sources keep theirs. See Displays::set_mode.
  /// kInvalidSourceMode: the driver offers no surface of that size and format.
  /// kInvalidTargetMode: it offers no signal with that order of scan lines.
  /// kInvalidTransformation: it does not rotate so.
  Status set(uint32_t source, const ModeWish& wish) DXGKIT_REQUIRES(display_mutex);
  Status make_visible(uint32_t source, bool visible, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// Has the driver commit what `source` shows once more, while the source is invisible and the
  /// `nth` interface function fails (vidpn::DdiCall::fail_function). Shows it again then, whatever
  /// the driver answered. The answer is no finding. `*failed`: the function that failed, or null.
  Status commit_with_failure(uint32_t source, uint32_t nth, const char** failed)
      DXGKIT_REQUIRES(display_mutex);
  /// See Displays::update_path. Takes the display mutex.
  Status update_path(const vidpn::Path& path);
  /// D3DKMTSetGammaRamp and D3DKMTAdjustFullscreenGamma: `change` changes the ramp that the source
  /// has. It lasts until the next change of the source's mode. kInvalidParameter: the source is not
  /// shown, the driver has no ramps, or it has refused this one (a finding). Takes the display
  /// mutex.
  Status set_gamma(uint32_t source, const std::function<void(Gamma*)>& change);
  /// By id.
  std::vector<DisplaySource> sources() const DXGKIT_REQUIRES(display_mutex);

 private:
  std::vector<vidpn::SourceTarget> choose_paths() DXGKIT_REQUIRES(display_mutex);
  /// `wanted`: the modes that clients asked for, by source.
  Status commit_for_connected(const std::map<uint32_t, ModeWish>& wanted, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// What the driver recommends for `paths`. See take_recommendation().
  Result<vidpn::Network> recommended(const std::vector<vidpn::SourceTarget>& paths,
                                     std::span<const std::byte> wish, const char** step);
  Status commit_recommended(const vidpn::Network& proposal, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  std::optional<DisplayMode> favourite(const std::vector<DisplayMode>& offered, uint32_t source,
                                       uint32_t target) const;
  Result<vidpn::Network> build(const std::vector<vidpn::SourceTarget>& paths,
                               const std::map<uint32_t, ModeWish>& wanted, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  /// Pins the rotations that are asked for, and has the driver enumerate the modes that go with
  /// them. kInvalidTransformation: it does not support one.
  Result<vidpn::Network> rotate(vidpn::Network network, const std::map<uint32_t, ModeWish>& wanted,
                                const char** step);
  Result<vidpn::Network> enumerate(vidpn::Network network, vidpn::Pivot pivot, const char** step);
  Status ask_supported(const vidpn::Network& network, const char** step);
  /// All or nothing: after a failure the screens show what they showed before. `again`: every
  /// source, changed or not.
  Status commit(const vidpn::Network& network, const char** step, bool again = false)
      DXGKIT_REQUIRES(display_mutex);
  Status commit_one(const vidpn::Network& network, uint32_t source, const char** step)
      DXGKIT_REQUIRES(display_mutex);
  void restore(const vidpn::Network& failed, const std::vector<uint32_t>& affected,
               size_t committed, const std::map<uint32_t, bool>& was_visible)
      DXGKIT_REQUIRES(display_mutex);
  /// The driver sets timings instead of committing (DISP-35).
  bool sets_timings() const;
  /// DxgkDdiSetTimingsFromVidPn, from `before` to the VidPN of `call`, which is `after`. The
  /// sources of `affected` have changed. kVidPnTopologyNotSupported: a path could not be set.
  Status set_timings(vidpn::DdiCall& call, const vidpn::Network& before,
                     const vidpn::Network& after, const std::vector<uint32_t>& affected)
      DXGKIT_REQUIRES(display_mutex);
  /// Tells the driver of a path that has changed from `before` to `after` (DISP-36).
  Status tell_path(const vidpn::Path& before, const vidpn::Path& after)
      DXGKIT_REQUIRES(display_mutex);
  /// The primary that DxgkDdiCommitVidPn names; null for a display-only driver.
  void* primary_of(uint32_t source) DXGKIT_REQUIRES(display_mutex);

  DisplayCore& display_;
  AdapterCore& core_;
  Monitors& monitors_;
  ActiveVidPn& active_;
  DisplayOnlyPresents& presents_;
  DisplayWorker& worker_;
  Primaries* const primaries_;
  Flips* const flips_;
  Overlays* const overlays_;
  // The modes that the driver offered at the last enumeration, by source.
  std::map<uint32_t, std::vector<DisplayMode>> offered_ DXGKIT_GUARDED_BY(display_mutex);
  std::map<uint32_t, std::vector<DisplayTiming>> timings_ DXGKIT_GUARDED_BY(display_mutex);
  std::map<uint32_t, ModeWish> wanted_ DXGKIT_GUARDED_BY(display_mutex);
  std::map<uint32_t, Gamma> gamma_
      DXGKIT_GUARDED_BY(display_mutex);  // by source, as clients set it
};

}  // namespace dxgkit::dxgk
