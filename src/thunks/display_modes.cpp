#include "thunks/display_modes.h"

#include <algorithm>

namespace dxgkit::thunks {
namespace {

/// D3DKMDT_VPPR_*, of a path that is shown, to D3DDDI_ROTATION: the kernel pins 1 to 4, and these
/// numbers agree.
D3DDDI_ROTATION rotation_of(uint32_t rotation) { return static_cast<D3DDDI_ROTATION>(rotation); }

/// `rate`: of a mode in a set, so its denominator is not 0 (VIDPN-02).
uint32_t whole_hertz(const vidpn::Rational& rate) {
  return (rate.numerator + rate.denominator / 2) / rate.denominator;
}

D3DKMT_DISPLAYMODE mode_of_size(const dxgk::DisplayMode& size) {
  D3DKMT_DISPLAYMODE mode = {};
  mode.Width = size.width;
  mode.Height = size.height;
  mode.Format = D3DDDIFMT_A8R8G8B8;
  mode.ScanLineOrdering = D3DDDI_VSSLO_UNINITIALIZED;
  mode.DisplayOrientation = D3DDDI_ROTATION_IDENTITY;
  return mode;
}

bool is_same(const D3DKMT_DISPLAYMODE& a, const D3DKMT_DISPLAYMODE& b) {
  return a.Width == b.Width && a.Height == b.Height &&
         a.RefreshRate.Numerator == b.RefreshRate.Numerator &&
         a.RefreshRate.Denominator == b.RefreshRate.Denominator &&
         a.ScanLineOrdering == b.ScanLineOrdering;
}

}  // namespace

std::optional<D3DKMT_DISPLAYMODE> display_mode_of(dxgk::Display& display, uint32_t source) {
  const vidpn::Network network = display.active_network();
  const vidpn::SourceMode* const set = network.pinned_source_mode(source);
  if (set == nullptr) return std::nullopt;
  D3DKMT_DISPLAYMODE mode = mode_of_size({set->visible.width, set->visible.height});
  mode.Format = static_cast<D3DDDIFORMAT>(set->pixel_format);
  const auto path = std::ranges::find(network.paths, source, &vidpn::Path::source);
  if (path == network.paths.end()) return mode;
  mode.DisplayOrientation = rotation_of(path->rotation);
  if (const vidpn::TargetMode* const target = network.pinned_target_mode(path->target)) {
    const vidpn::Rational& rate = target->signal.vsync;
    if (rate.specified()) {
      mode.RefreshRate = {rate.numerator, rate.denominator};
      mode.IntegerRefreshRate = whole_hertz(rate);
    }
    mode.ScanLineOrdering =
        static_cast<D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING>(target->signal.scanline_ordering);
  }
  return mode;
}

std::vector<D3DKMT_DISPLAYMODE> display_modes_of(dxgk::Display& display, uint32_t source) {
  const dxgk::DisplayConfiguration shown = display.configuration();
  const auto found = std::ranges::find(shown.sources, source, &dxgk::DisplaySource::id);
  std::vector<D3DKMT_DISPLAYMODE> modes;
  if (found == shown.sources.end()) return modes;
  const std::optional<D3DKMT_DISPLAYMODE> current = display_mode_of(display, source);
  if (current.has_value()) modes.push_back(*current);
  for (const dxgk::DisplayMode& size : found->modes) {
    bool listed =
        current.has_value() && current->Width == size.width && current->Height == size.height;
    for (const dxgk::DisplayTiming& timing : found->timings) {
      if (!(timing.size == size)) continue;
      D3DKMT_DISPLAYMODE mode = mode_of_size(size);
      mode.RefreshRate = {timing.refresh_numerator, timing.refresh_denominator};
      mode.IntegerRefreshRate = whole_hertz({timing.refresh_numerator, timing.refresh_denominator});
      mode.ScanLineOrdering =
          static_cast<D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING>(timing.scanline_ordering);
      listed = true;
      if (current.has_value() && is_same(*current, mode)) continue;
      modes.push_back(mode);
    }
    // Scaled: no signal has this size.
    if (!listed) modes.push_back(mode_of_size(size));
  }
  return modes;
}

}  // namespace dxgkit::thunks
