// A client that shows a picture on softgpu's screen by flips, and the pictures that the screen
// showed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bus/device.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/options.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::tool {

/// Vertical syncs per second of the screen that --scanout plugs in.
inline constexpr uint32_t kScreenRefreshHz = 60;
/// The show has so many pictures. Each has a further part of the rows, from the top.
inline constexpr uint32_t kScreenFrames = 4;
/// The most primaries at a time: the client's, the kernel's, and one that is made while another is
/// shown.
inline constexpr uint32_t kScreenPrimaries = 4;

struct ScreenShow {
  std::vector<Picture> frames;       // every picture that the screen showed, oldest first
  std::vector<int64_t> frame_times;  // of each, by the runtime's clock
  std::optional<Picture> last;       // as it was read out of the screen after the last flip
  // Empty, or the refused call: then the other members may be incomplete.
  std::string error;
};

/// A process of its own uploads `picture`, sets the mode with the first of two primaries, and flips
/// between them with FlipInterval 1. Each flip shows more of the picture. Returns when the whole
/// picture is on the screen and the process has ended. Blocks; inside the runtime of `system`.
ScreenShow show_on_screen(dxgk::System& system, dxgk::Luid adapter, bus::DeviceScreen& screen,
                          const Picture& picture, ClientApi api = ClientApi::kD3dkmt);

/// Compares colours, and ignores what a screen does not show.
bool same_colours(const Picture& a, const Picture& b);

}  // namespace dxgkit::tool
