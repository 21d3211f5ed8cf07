// What is on the screens: the VidPN that is committed, and which of its sources are visible.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dxgk/display/display_core.h"
#include "dxgk/display/display_types.h"
#include "runtime/thread_annotations.h"
#include "vidpn/vidpn.h"

namespace dxgkit::dxgk {

/// State only: it makes no calls. A source without a path in the VidPN shows nothing.
class ActiveVidPn {
 public:
  const vidpn::Network& network() const DXGKIT_REQUIRES(display_mutex) { return network_; }
  void commit(const vidpn::Network& network) DXGKIT_REQUIRES(display_mutex);
  /// Null: the VidPN has no such path.
  vidpn::Path* find_path(uint32_t source, uint32_t target) DXGKIT_REQUIRES(display_mutex);

  /// The first target that shows the source.
  std::optional<uint32_t> target_of(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  std::vector<uint32_t> targets_of(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  std::optional<DisplayMode> mode_of(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  /// D3DDDIFORMAT of the source's mode. 0: it has none.
  uint32_t pixel_format_of(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  /// How the first path of the source is rotated, as in ModeWish. 0: not, or there is no path.
  uint32_t rotation_of(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  /// The source is shown as wished, on all its targets.
  bool shows(uint32_t source, const ModeWish& wish) const DXGKIT_REQUIRES(display_mutex);
  bool visible(uint32_t source) const DXGKIT_REQUIRES(display_mutex);
  void set_visible(uint32_t source, bool visible) DXGKIT_REQUIRES(display_mutex) {
    visible_[source] = visible;
  }
  void hide_all() DXGKIT_REQUIRES(display_mutex) { visible_.clear(); }

  /// The target of the first path; vidpn::kNoId without one. Any context: a bug check reads it
  /// whatever mutex is held. It is a plain id, and no other state has to fit it.
  uint32_t post_target() const { return post_target_.load(std::memory_order_relaxed); }

 private:
  vidpn::Network network_ DXGKIT_GUARDED_BY(display_mutex);
  std::map<uint32_t, bool> visible_ DXGKIT_GUARDED_BY(display_mutex);
  std::atomic<uint32_t> post_target_{vidpn::kNoId};
};

}  // namespace dxgkit::dxgk
