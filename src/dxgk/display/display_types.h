// Words of displays: modes, sources, targets, pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "port/display_types.h"

namespace dxgkit::dxgk {

/// A mode of a source as clients choose it. Pixels are always four bytes, blue in the lowest.
struct DisplayMode {
  uint32_t width = 0, height = 0;  // pixels
  bool operator==(const DisplayMode&) const = default;
};

/// What a client asks of a source.
struct ModeWish {
  DisplayMode size;                // of the surface, before it is rotated
  uint32_t scanline_ordering = 0;  // D3DDDI_VSSLO_* of the signal; 0: any
  uint32_t rotation = 0;      // D3DKMDT_VPPR_*, 1 (none) to 4 (270 degrees); 0: none is asked for
  uint32_t pixel_format = 0;  // D3DDDIFORMAT of the surface; 0: any
  bool operator==(const ModeWish&) const = default;
};

/// A surface of one D3DDDIFORMAT can be shown in a mode of the other: they are the same, but for
/// alpha, which screens ignore.
bool same_pixels(uint32_t one, uint32_t other);

/// A signal that the driver offered for the output of a source.
struct DisplayTiming {
  DisplayMode size;  // pixels that are lit
  uint32_t refresh_numerator = 0, refresh_denominator = 0;
  uint32_t scanline_ordering = 0;  // D3DDDI_VSSLO_*
  bool operator==(const DisplayTiming&) const = default;
};

struct DisplaySource {
  uint32_t id = 0;
  std::optional<DisplayMode> mode;  // none: not in the active VidPN
  std::optional<uint32_t> target;   // the first it is shown on
  bool visible = false;
  std::vector<DisplayMode> modes;  // what the driver offered for it at the last enumeration
  std::vector<DisplayTiming> timings = {};  // the same of the output, each once
};

struct DisplayTarget {
  uint32_t id = 0;  // ChildUid
  bool connected = false;
  bool has_descriptor = false;                      // an EDID that could be read
  std::optional<port::ContainerId> container = {};  // of its monitor, if the driver was asked
};

struct DisplayConfiguration {
  bool display_only = false;
  std::vector<DisplaySource> sources;  // by id
  std::vector<DisplayTarget> targets;  // in the driver's order
};

/// One present of a display-only adapter: the whole new picture, and what changed of it.
struct DisplayPresent {
  uint32_t source = 0;
  std::span<const std::byte> pixels;  // rows of the mode's size, four bytes per pixel
  uint32_t pitch_bytes = 0;           // at least width * 4
  std::vector<port::MoveRect> moves =
      {};                              // stretches of the screen that moved; done before `dirty`
  std::vector<port::Rect> dirty = {};  // empty and no moves: all
};

}  // namespace dxgkit::dxgk
