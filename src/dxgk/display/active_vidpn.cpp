#include "dxgk/display/active_vidpn.h"

#include <algorithm>

namespace dxgkit::dxgk {
namespace {

/// Without the offset that paths of a clone may have. 0: not rotated, or not specified.
uint32_t content_rotation(const vidpn::Path& path) {
  constexpr uint32_t kLastRotation = 16;  // D3DKMDT_VPPR_ROTATE270_OFFSET270
  const bool rotated = path.rotation >= 1 && path.rotation <= kLastRotation;
  return rotated && (path.rotation - 1) % 4 != 0 ? (path.rotation - 1) % 4 + 1 : 0;
}

}  // namespace

bool same_pixels(uint32_t one, uint32_t other) {
  // D3DDDIFORMAT: with and without alpha, four bytes per pixel.
  constexpr uint32_t kA8R8G8B8 = 21, kX8R8G8B8 = 22, kA8B8G8R8 = 32, kX8B8G8R8 = 33;
  const auto plain = [](uint32_t format) {
    if (format == kA8R8G8B8) return kX8R8G8B8;
    return format == kA8B8G8R8 ? kX8B8G8R8 : format;
  };
  return plain(one) == plain(other);
}

void ActiveVidPn::commit(const vidpn::Network& network) {
  network_ = network;
  post_target_.store(network_.paths.empty() ? vidpn::kNoId : network_.paths.front().target,
                     std::memory_order_relaxed);
}

vidpn::Path* ActiveVidPn::find_path(uint32_t source, uint32_t target) {
  const auto found = std::ranges::find_if(network_.paths, [&](const vidpn::Path& one) {
    return one.source == source && one.target == target;
  });
  return found == network_.paths.end() ? nullptr : &*found;
}

std::optional<uint32_t> ActiveVidPn::target_of(uint32_t source) const {
  for (const vidpn::Path& path : network_.paths) {
    if (path.source == source) return path.target;
  }
  return std::nullopt;
}

std::vector<uint32_t> ActiveVidPn::targets_of(uint32_t source) const {
  std::vector<uint32_t> targets;
  for (const vidpn::Path& path : network_.paths) {
    if (path.source == source) targets.push_back(path.target);
  }
  return targets;
}

std::optional<DisplayMode> ActiveVidPn::mode_of(uint32_t source) const {
  if (!network_.has_source(source)) return std::nullopt;
  const vidpn::SourceMode* mode = network_.pinned_source_mode(source);
  if (mode == nullptr) return std::nullopt;
  return DisplayMode{mode->surface.width, mode->surface.height};
}

uint32_t ActiveVidPn::pixel_format_of(uint32_t source) const {
  const vidpn::SourceMode* const mode =
      network_.has_source(source) ? network_.pinned_source_mode(source) : nullptr;
  return mode == nullptr ? 0 : mode->pixel_format;
}

uint32_t ActiveVidPn::rotation_of(uint32_t source) const {
  const auto found = std::ranges::find(network_.paths, source, &vidpn::Path::source);
  return found == network_.paths.end() ? 0 : content_rotation(*found);
}

bool ActiveVidPn::shows(uint32_t source, const ModeWish& wish) const {
  if (mode_of(source) != wish.size) return false;
  if (wish.pixel_format != 0 && !same_pixels(wish.pixel_format, pixel_format_of(source)))
    return false;
  return std::ranges::all_of(
      network_.paths, [&](const vidpn::Path& path) DXGKIT_REQUIRES(display_mutex) {
        if (path.source != source) return true;
        if (wish.rotation != 0 && wish.rotation != std::max(content_rotation(path), 1U))
          return false;
        const vidpn::TargetMode* const mode = network_.pinned_target_mode(path.target);
        return wish.scanline_ordering == 0 ||
               (mode != nullptr && mode->signal.scanline_ordering == wish.scanline_ordering);
      });
}

bool ActiveVidPn::visible(uint32_t source) const {
  const auto found = visible_.find(source);
  return found != visible_.end() && found->second;
}

}  // namespace dxgkit::dxgk
