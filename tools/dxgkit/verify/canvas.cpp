#include "tools/dxgkit/verify/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
/// Between the rows of a source picture: no pixel of a picture.
constexpr std::byte kPadding{0xE5};

/// The place where the screen differs from the picture; empty if there is none.
template <typename Screen>
std::string difference(const Screen& screen, const dxgk::DisplayMode& mode,
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

}  // namespace

Answer<std::vector<dxgk::DisplaySource>> shown_sources(Bench& bench) {
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

bool is_dark(const bus::ScreenImage& image) {
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    if (i % kPixelBytes != 3 && image.pixels[i] != 0) return false;
  }
  return true;
}

Canvas::Canvas(Bench& bench, uint32_t source, const dxgk::DisplayMode& mode)
    : bench_(bench),
      source_(source),
      mode_(mode),
      pixels_(size_t{mode.width} * mode.height * kPixelBytes) {}

/// No two rectangles of a picture look alike: blue, green, red, unused.
void Canvas::draw(const port::Rect& rect) {
  const uint64_t seed = bench_.random();
  for (auto y = static_cast<uint32_t>(rect.top); y < static_cast<uint32_t>(rect.bottom); ++y) {
    for (auto x = static_cast<uint32_t>(rect.left); x < static_cast<uint32_t>(rect.right); ++x) {
      std::byte* const pixel = pixels_.data() + (size_t{y} * mode_.width + x) * kPixelBytes;
      pixel[0] = static_cast<std::byte>(seed + x);
      pixel[1] = static_cast<std::byte>(seed * 7 + y);
      pixel[2] = static_cast<std::byte>(seed * 13 + (x ^ y) / 3);
      pixel[3] = std::byte{0};
    }
  }
}

dxgk::DisplayPresent Canvas::whole() const {
  return {.source = source_, .pixels = pixels_, .pitch_bytes = mode_.width * kPixelBytes};
}

Answer<void> Canvas::compare(const std::string& when) {
  const Result<dxgk::Scanout> screen =
      dxgk::Displays(bench_.system()).scanout(bench_.luid(), source_);
  // Where the driver has no frame buffer for the kernel, the device may tell.
  if (!screen.has_value()) return compare_screen(when);
  ++compared_;
  return judge(when, difference(*screen, mode_, pixels_));
}

Answer<void> Canvas::compare_screen(const std::string& when) {
  if (bench_.screen() == nullptr) return {};  // this screen cannot be read
  const bus::ScreenImage image = bench_.screen()->image();
  if (image.width != mode_.width || image.height != mode_.height) return {};
  ++compared_;
  std::string text;
  static_cast<void>(await_screen(bench_, [&](const bus::ScreenImage& shown) {
    text = difference(shown, mode_, pixels_);
    return text.empty();
  }));
  return judge(when, text);
}

Answer<void> Canvas::judge(const std::string& when, const std::string& text) {
  if (text.empty()) return {};
  report_screen(bench_, fmt::format("After {} {}", when, text),
                "Only what was presented is new; the rest was right before.");
  return std::unexpected(fmt::format("after {} {}", when, text));
}

Answer<void> Canvas::present(std::span<const port::MoveRect> moves,
                             std::span<const port::Rect> rects, uint32_t padding_bytes,
                             const char* what) {
  const size_t row_bytes = size_t{mode_.width} * kPixelBytes;
  dxgk::DisplayPresent present = whole();
  present.moves.assign(moves.begin(), moves.end());
  present.dirty.assign(rects.begin(), rects.end());
  std::vector<std::byte> padded;
  if (padding_bytes != 0) {
    present.pitch_bytes += padding_bytes;
    padded.assign(size_t{present.pitch_bytes} * mode_.height, kPadding);
    for (size_t y = 0; y < mode_.height; ++y) {
      std::memcpy(padded.data() + y * present.pitch_bytes, pixels_.data() + y * row_bytes,
                  row_bytes);
    }
    present.pixels = padded;
  }
  const Status status = dxgk::Displays(bench_.system()).present(bench_.luid(), present);
  if (!is_success(status))
    return std::unexpected(fmt::format("a present of {}: {}", what, status_text(status)));
  ++presents_;
  return compare(fmt::format("a present of {}", what));
}

Answer<void> Canvas::present_all() {
  draw({0, 0, static_cast<int32_t>(mode_.width), static_cast<int32_t>(mode_.height)});
  return present({}, {}, 0, "the whole picture");
}

Answer<void> Canvas::present_rects(std::span<const port::Rect> rects, uint32_t padding_bytes) {
  for (const port::Rect& rect : rects) draw(rect);
  return present({}, rects, padding_bytes,
                 padding_bytes == 0 ? "rectangles" : "rectangles of a picture with longer rows");
}

Answer<void> Canvas::present_moves(std::span<const port::MoveRect> moves,
                                   std::span<const port::Rect> rects) {
  const size_t row_bytes = size_t{mode_.width} * kPixelBytes;
  for (const port::MoveRect& move : moves) {
    const port::Rect& to = move.destination;
    const std::vector<std::byte> before = pixels_;
    const size_t bytes = static_cast<size_t>(to.right - to.left) * kPixelBytes;
    for (int32_t y = 0; y < to.bottom - to.top; ++y) {
      std::memcpy(pixels_.data() + static_cast<size_t>(to.top + y) * row_bytes +
                      static_cast<size_t>(to.left) * kPixelBytes,
                  before.data() + static_cast<size_t>(move.source_y + y) * row_bytes +
                      static_cast<size_t>(move.source_x) * kPixelBytes,
                  bytes);
    }
  }
  for (const port::Rect& rect : rects) draw(rect);
  return present(moves, rects, 0, moves.size() == 1 ? "one move" : "several moves");
}

}  // namespace dxgkit::tool::verify
