#include "tools/dxgkit/no_client.h"

#include <fmt/format.h>

#include "dxgk/displays.h"
#include "tools/dxgkit/seeds.h"

namespace dxgkit::tool {
namespace {

/// Long enough for timers and worker threads of a driver to run.
constexpr runtime::DurationNs kIdle = 200 * runtime::kMillisecond;

std::string status_text(Status status) {
  const std::string_view name = status_name(status);
  return name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status)) : std::string(name);
}

}  // namespace

std::string no_work_line(const std::string& driver) {
  return fmt::format(
      "{0}: only its user mode knows its commands, so it got no work here; `dxgkit verify {0} "
      "--client PLUGIN.so` gives it some, and `dxgkit new-client FOLDER` writes a plug-in",
      driver);
}

NoClientOutcome run_without_client(runtime::Runtime& runtime, dxgk::System& system,
                                   dxgk::Luid adapter) {
  NoClientOutcome out;
  runtime.sleep_for(kIdle);
  out.text = fmt::format("started, idled for {} ms", kIdle / runtime::kMillisecond);
  dxgk::Displays displays(system);
  const Result<dxgk::DisplayConfiguration> configuration = displays.configuration(adapter);
  if (!configuration.has_value()) return out;
  for (const dxgk::DisplaySource& source : configuration->sources) {
    if (!source.mode.has_value()) continue;
    const dxgk::DisplayMode mode = *source.mode;
    out.text += fmt::format(", source {} shows {}x{}", source.id, mode.width, mode.height);
    const Picture drawn = draw_picture(mode.width, mode.height, kDrawnPictureSeed);
    if (configuration->display_only) {
      // The screen wants blue first and no alpha.
      std::vector<std::byte> pixels(drawn.size_bytes());
      for (size_t at = 0; at < pixels.size(); at += kPixelBytes) {
        pixels[at] = std::byte{drawn.pixels[at + 2]};
        pixels[at + 1] = std::byte{drawn.pixels[at + 1]};
        pixels[at + 2] = std::byte{drawn.pixels[at]};
      }
      dxgk::DisplayPresent present;
      present.source = source.id;
      present.pixels = pixels;
      present.pitch_bytes = mode.width * kPixelBytes;
      if (const Status status = displays.present(adapter, present); !is_success(status)) {
        out.error = "the present was refused: " + status_text(status);
        return out;
      }
      out.text += ", presented";
    }
    Result<dxgk::Scanout> screen = displays.scanout(adapter, source.id);
    if (!screen.has_value()) return out;
    out.screen = Picture{screen->width, screen->height, std::move(screen->pixels)};
    if (configuration->display_only) {
      Picture opaque = drawn;
      for (size_t at = 3; at < opaque.pixels.size(); at += kPixelBytes) opaque.pixels[at] = 255;
      out.compared = true;
      if (*out.screen == opaque) {
        out.text += ", the screen is identical";
      } else {
        out.error = "the screen differs from what was presented";
      }
    }
    return out;
  }
  return out;
}

}  // namespace dxgkit::tool
