#include "dxgk/display/active_vidpn.h"

#include <algorithm>

namespace dxgkit::dxgk {

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

bool ActiveVidPn::visible(uint32_t source) const {
  const auto found = visible_.find(source);
  return found != visible_.end() && found->second;
}

}  // namespace dxgkit::dxgk
