// Screens: modes, presents and their pictures, blanking, the pointer, power, the last picture.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dxgk/displays.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {
namespace {

constexpr size_t kModesTriedMax = 6;
constexpr size_t kPresents = 8;
constexpr uint32_t kPixelBytes = 4;

/// A picture no rectangle of which looks like another: blue, green, red, unused.
std::vector<std::byte> picture(const dxgk::DisplayMode& mode, uint64_t seed) {
  std::vector<std::byte> pixels(size_t{mode.width} * mode.height * kPixelBytes);
  for (uint32_t y = 0; y < mode.height; ++y) {
    for (uint32_t x = 0; x < mode.width; ++x) {
      std::byte* const pixel = pixels.data() + (size_t{y} * mode.width + x) * kPixelBytes;
      pixel[0] = static_cast<std::byte>(seed + x);
      pixel[1] = static_cast<std::byte>(seed * 7 + y);
      pixel[2] = static_cast<std::byte>(seed * 13 + (x ^ y) / 3);
      pixel[3] = std::byte{0};
    }
  }
  return pixels;
}

/// The place where the screen differs from the presented picture; empty if there is none.
std::string difference(const dxgk::Scanout& screen, const dxgk::DisplayMode& mode,
                       std::span<const std::byte> pixels) {
  if (screen.width != mode.width || screen.height != mode.height) {
    return fmt::format("the screen has {}x{} pixels, the mode {}x{}", screen.width, screen.height,
                       mode.width, mode.height);
  }
  size_t wrong = 0;
  size_t first = 0;
  const size_t count = size_t{mode.width} * mode.height;
  const auto color = [&](size_t i, size_t channel) {  // 0 red
    return static_cast<unsigned>(pixels[i * kPixelBytes + 2 - channel]);
  };
  for (size_t i = 0; i < count; ++i) {
    bool same = true;
    for (size_t channel = 0; channel < 3; ++channel)
      same = same && screen.pixels[i * kPixelBytes + channel] == color(i, channel);
    if (!same && wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  return fmt::format(
      "{} of {} pixels differ, first at ({}, {}): {:02x}{:02x}{:02x}, not {:02x}{:02x}{:02x}",
      wrong, count, first % mode.width, first / mode.width, screen.pixels[first * kPixelBytes],
      screen.pixels[first * kPixelBytes + 1], screen.pixels[first * kPixelBytes + 2],
      color(first, 0), color(first, 1), color(first, 2));
}

void report_screen(Bench& bench, const std::string& actual, const char* why) {
  bench.findings().report(
      {.rule = "DOD-10",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiPresentDisplayOnly",
       .actual = actual + ".",
       .expected =
           "After the present the screen shows the presented pixels, where they changed and "
           "where they moved.",
       .fix = "Copy every dirty rectangle with the pitch and the pixel size of the source; do the "
              "moves first, in order.",
       .why = why,
       .windows = "Stale or torn rectangles on the desktop."});
}

/// The sources that show something.
Answer<std::vector<dxgk::DisplaySource>> shown(Bench& bench) {
  const Result<dxgk::DisplayConfiguration> configuration =
      dxgk::Displays(bench.system()).configuration(bench.luid());
  if (!configuration.has_value())
    return std::unexpected("the configuration: " + status_text(configuration.error()));
  std::vector<dxgk::DisplaySource> sources;
  for (const dxgk::DisplaySource& source : configuration->sources) {
    if (source.mode.has_value()) sources.push_back(source);
  }
  return sources;
}

Outcome modes(Bench& bench) {
  dxgk::Displays displays(bench.system());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  size_t tried = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    for (size_t i = 0; i < source.modes.size() && i < kModesTriedMax; ++i) {
      const Status status = displays.set_mode(bench.luid(), source.id, source.modes[i]);
      if (!is_success(status)) {
        return Outcome::failed(fmt::format("source {} offered {}x{} and refused it: {}", source.id,
                                           source.modes[i].width, source.modes[i].height,
                                           status_text(status)));
      }
      ++tried;
    }
    if (const Status back = displays.set_mode(bench.luid(), source.id, *source.mode);
        !is_success(back))
      return Outcome::failed("back to the first mode: " + status_text(back));
  }
  return Outcome::ok(fmt::format("{} modes on {} sources", tried, sources->size()));
}

Outcome presents(Bench& bench) {
  if (!bench.display_only())
    return Outcome::skipped("a full driver shows primaries; presents are for display-only ones");
  dxgk::Displays displays(bench.system());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown(bench);
  if (!sources) return Outcome::failed(sources.error());
  if (sources->empty()) return Outcome::skipped("nothing is shown: no monitor is connected");
  size_t done = 0;
  size_t compared = 0;
  std::string wrong;
  for (const dxgk::DisplaySource& source : *sources) {
    const dxgk::DisplayMode mode = *source.mode;
    std::vector<std::byte> pixels = picture(mode, bench.random());
    for (size_t i = 0; i < kPresents; ++i) {
      dxgk::DisplayPresent present;
      present.source = source.id;
      present.pitch_bytes = mode.width * kPixelBytes;
      if (i != 0) {
        // A few rectangles change; one at a corner, one a single pixel.
        const std::vector<std::byte> next = picture(mode, bench.random());
        for (size_t rect = 0; rect < 3; ++rect) {
          port::Rect dirty;
          dirty.left = rect == 0 ? 0 : static_cast<int32_t>(bench.random() % mode.width);
          dirty.top = rect == 0 ? 0 : static_cast<int32_t>(bench.random() % mode.height);
          const uint64_t wide = rect == 1 ? 1 : 1 + bench.random() % mode.width;
          const uint64_t high = rect == 1 ? 1 : 1 + bench.random() % mode.height;
          dirty.right = static_cast<int32_t>(
              std::min<uint64_t>(mode.width, static_cast<uint64_t>(dirty.left) + wide));
          dirty.bottom = static_cast<int32_t>(
              std::min<uint64_t>(mode.height, static_cast<uint64_t>(dirty.top) + high));
          for (int32_t y = dirty.top; y < dirty.bottom; ++y) {
            const size_t at =
                (static_cast<size_t>(y) * mode.width + static_cast<size_t>(dirty.left)) *
                kPixelBytes;
            std::memcpy(pixels.data() + at, next.data() + at,
                        static_cast<size_t>(dirty.right - dirty.left) * kPixelBytes);
          }
          present.dirty.push_back(dirty);
        }
      }
      present.pixels = pixels;
      if (const Status status = displays.present(bench.luid(), present); !is_success(status))
        return Outcome::failed(fmt::format("present {}: {}", i, status_text(status)));
      ++done;
      const Result<dxgk::Scanout> screen = displays.scanout(bench.luid(), source.id);
      if (!screen.has_value()) continue;  // this screen cannot be read
      ++compared;
      const std::string text = difference(*screen, mode, pixels);
      if (text.empty()) continue;
      wrong = fmt::format("after present {} {}", i, text);
      report_screen(bench, "After present " + std::to_string(i) + " " + text,
                    i == 0 ? "The whole screen was presented."
                           : "Only the dirty rectangles are new; the rest was right before.");
      break;
    }
  }
  if (!wrong.empty()) return Outcome::failed(wrong);
  return Outcome::ok(fmt::format("{} presents, {} compared with the screen", done, compared));
}

Outcome pointer(Bench& bench) {
  dxgk::Displays displays(bench.system());
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown(bench);
  if (!sources) return Outcome::failed(sources.error());
  size_t shapes = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    std::vector<std::byte> pixels(size_t{32} * 32 * kPixelBytes, std::byte{0x80});
    port::PointerShape shape;
    shape.source = source.id;
    shape.format = port::PointerShape::Format::kColor;
    shape.width = shape.height = 32;
    shape.pitch_bytes = 32 * kPixelBytes;
    shape.pixels = pixels;
    const Status status = displays.set_pointer_shape(bench.luid(), shape);
    if (status == Status::kNotSupported) continue;
    if (!is_success(status)) return Outcome::failed("the shape: " + status_text(status));
    ++shapes;
    const auto right = static_cast<int32_t>(source.mode->width);
    const auto bottom = static_cast<int32_t>(source.mode->height);
    const std::pair<int32_t, int32_t> places[] = {
        {0, 0}, {-31, -31}, {right - 1, bottom - 1}, {right / 2, bottom / 2}};
    for (const auto& [x, y] : places) {
      for (const bool visible : {true, false}) {
        const Status moved = displays.set_pointer_position(bench.luid(), source.id, x, y, visible);
        if (!is_success(moved))
          return Outcome::failed(fmt::format("at ({}, {}): {}", x, y, status_text(moved)));
      }
    }
  }
  if (shapes == 0) return Outcome::skipped("its caps name no color pointer of 32x32");
  return Outcome::ok(fmt::format("{} pointers moved, also half outside", shapes));
}

Outcome blank(Bench& bench) {
  dxgk::Displays displays(bench.system());
  for (int i = 0; i < 2; ++i) {
    for (const port::PowerState state : {port::PowerState::kD3, port::PowerState::kD0}) {
      const Status status = displays.set_power(bench.luid(), state);
      if (status == Status::kNotSupported)
        return Outcome::skipped("screens of full drivers are not put to sleep here");
      if (!is_success(status)) return Outcome::failed(status_text(status));
    }
  }
  // The picture is right again afterwards.
  const Outcome after = presents(bench);
  if (after.kind == Outcome::Kind::kFailed) return after;
  return Outcome::ok("blanked and shown again, twice; " + after.text);
}

constexpr Step kSteps[] = {
    {"modes", "every offered mode is set", Step::Needs::kDisplay, modes},
    {"presents", "pictures and parts of them are presented", Step::Needs::kDisplay, presents},
    {"pointer", "the pointer moves", Step::Needs::kDisplay, pointer},
    {"blank", "screens go dark and come back", Step::Needs::kDisplay, blank},
};

}  // namespace

std::span<const Step> display_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
