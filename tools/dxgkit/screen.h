// A client that shows a picture on softgpu's screen by flips, and what the screen then showed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bus/device.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::tool {

/// Vertical syncs per second of the screen that --scanout plugs in.
inline constexpr uint32_t kScreenRefreshHz = 60;
/// Into so many pictures the show is cut: each has a further part of the rows, from the top.
inline constexpr uint32_t kScreenFrames = 4;
/// Primaries at a time: the client's, the kernel's, and one that is made while another is shown.
inline constexpr uint32_t kScreenPrimaries = 4;

struct ScreenShow {
  std::vector<Picture> frames;  // every picture the screen took, oldest first
  std::optional<Picture> last;  // as it was read out of the screen after the last flip
  std::string error;            // empty, or what was refused: then the rest may be missing
};

/// A process of its own uploads `picture`, sets the mode with the first of two primaries, and flips
/// between them with FlipInterval 1 as more of the picture is there. Returns when the whole is on
/// the screen and the process has ended. Blocks; inside the runtime of `system`.
ScreenShow show_on_screen(dxgk::System& system, dxgk::Luid adapter, bus::DeviceScreen& screen,
                          const Picture& picture);

/// The same colours; what a screen does not show is not looked at.
bool same_colours(const Picture& a, const Picture& b);

}  // namespace dxgkit::tool
