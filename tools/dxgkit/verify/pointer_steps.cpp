// The hardware pointer: shapes and places, compared with the screen where the screen shows it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ranges>

#include "base/spelling.h"
#include "bus/device.h"
#include "port/ddi/display_caps.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/pointer_look.h"
#include "tools/dxgkit/verify/screen_owner.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
/// What is not on the screen by then never will be. A real screen may be late where others compute.
constexpr runtime::TimeNs kUntilShown = 2 * runtime::kSecond;
constexpr runtime::TimeNs kBetweenLooks = 10 * runtime::kMillisecond;

/// Rows may be longer than the pointer.
struct Size {
  uint32_t width, height, pitch_pixels;
};
/// The second one is smaller, so that nothing may be left of the first one.
constexpr std::array<Size, 2> kSizes{{{32, 32, 32}, {17, 9, 24}}};
/// Of a pointer that is as large as the caps allow; no driver is asked for more.
constexpr uint32_t kSideMost = 256;

/// Clear, half transparent, and opaque.
uint32_t alpha_of(uint32_t x, uint32_t y) {
  const uint32_t kind = (x + 2 * y) % 5;
  return kind == 0 ? 0 : kind == 1 ? 0x80 : 0xFF;
}
/// What is behind the pointer, if a client can show it: no color is 0.
constexpr uint32_t kBehind = 0x0050'9030;
/// Hardware may round a blended color as it likes, and once more.
constexpr int kBlendedMost = 2;

/// A8R8G8B8; each pixel has another color than its neighbours. What is clear is black.
std::vector<std::byte> draw(const Size& size, uint32_t base) {
  std::vector<uint32_t> pixels(size_t{size.pitch_pixels} * size.height, 0xFF5A5A5AU);
  for (uint32_t y = 0; y < size.height; ++y) {
    for (uint32_t x = 0; x < size.width; ++x) {
      const uint32_t color = (base + x * 0x010703U + y * 0x050B02U) & 0xFFFFFFU;
      const uint32_t alpha = alpha_of(x, y);
      pixels[size_t{y} * size.pitch_pixels + x] = alpha != 0 ? alpha << 24 | color : 0;
    }
  }
  std::vector<std::byte> bytes(pixels.size() * kPixelBytes);
  std::memcpy(bytes.data(), pixels.data(), bytes.size());
  return bytes;
}

/// A pointer on a picture.
struct Scene {
  bus::ScreenImage bare;  // without the pointer
  Size size{};
  std::vector<std::byte> pixels;
  int32_t x = 0, y = 0;
  bool visible = false;
};

/// Empty: the screen shows it.
std::string compare(const bus::ScreenImage& image, const Scene& scene) {
  if (image.width != scene.bare.width || image.height != scene.bare.height)
    return fmt::format("the screen shows {}x{} pixels", image.width, image.height);
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      const size_t at = (size_t{y} * image.width + x) * kPixelBytes;
      std::array<uint8_t, 3> wanted{};
      std::memcpy(wanted.data(), &scene.bare.pixels[at], wanted.size());
      int most = 0;
      const int64_t column = int64_t{x} - scene.x, row = int64_t{y} - scene.y;
      if (scene.visible && column >= 0 && column < scene.size.width && row >= 0 &&
          row < scene.size.height) {
        const auto in = static_cast<size_t>(row * scene.size.pitch_pixels + column) * kPixelBytes;
        const std::byte* const pixel = &scene.pixels[in];
        const auto alpha = std::to_integer<uint32_t>(pixel[3]);
        if (alpha != 0 && alpha != 0xFF) most = kBlendedMost;
        for (size_t i = 0; i < wanted.size(); ++i) {  // blue first in memory
          const uint32_t color = std::to_integer<uint32_t>(pixel[2 - i]) * alpha;
          wanted[i] = static_cast<uint8_t>((color + wanted[i] * (0xFF - alpha) + 0x7F) / 0xFF);
        }
      }
      const uint8_t* const seen = &image.pixels[at];
      const bool differs =
          std::ranges::any_of(std::views::iota(size_t{0}, wanted.size()),
                              [&](size_t i) { return std::abs(wanted[i] - seen[i]) > most; });
      if (differs) {
        return fmt::format("pixel ({}, {}) is {:02x}{:02x}{:02x}, not {:02x}{:02x}{:02x}", x, y,
                           seen[0], seen[1], seen[2], wanted[0], wanted[1], wanted[2]);
      }
    }
  }
  return {};
}

/// Moves the pointer of one source, and looks.
class Pointer {
 public:
  Pointer(Bench& bench, const dxgk::DisplaySource& source)
      : bench_(bench), displays_(bench.system()), source_(source) {}

  /// All shapes at all places. *count: of shapes that the driver takes.
  Answer<void> move_all(size_t* count);
  /// Shows a shape on whatever picture there is, and leaves it there. False: the driver takes none.
  Answer<bool> show();
  /// A pointer that something has happened to, which a kernel gives its shape and place again. It
  /// is hidden in the end.
  Answer<void> show_again(const char* behind);

 private:
  Answer<void> move(int32_t x, int32_t y, bool visible);
  Status set(const Size& size, uint32_t base);
  Answer<void> move_one(const Size& size, size_t* count);
  std::pair<int32_t, int32_t> middle() const {
    return {static_cast<int32_t>(source_.mode->width / 2),
            static_cast<int32_t>(source_.mode->height / 2)};
  }
  Answer<void> look(const char* ddi, const std::string& after);
  /// A screen of several sources may show them anywhere.
  bool can_look() const {
    return bench_.screen() != nullptr && bench_.screen()->shows_pointer() &&
           scene_.bare.width == source_.mode->width && scene_.bare.height == source_.mode->height;
  }

  Bench& bench_;
  dxgk::Displays displays_;
  const dxgk::DisplaySource& source_;
  Scene scene_;
  std::string behind_;  // what came before all this; empty: nothing
};

Answer<void> Pointer::look(const char* ddi, const std::string& after) {
  if (!can_look()) return {};
  const runtime::TimeNs deadline = bench_.runtime().now() + kUntilShown;
  std::string wrong = compare(bench_.screen()->image(), scene_);
  while (!wrong.empty() && bench_.runtime().now() < deadline) {
    bench_.runtime().sleep_for(kBetweenLooks);
    wrong = compare(bench_.screen()->image(), scene_);
  }
  if (wrong.empty()) return {};
  bench_.findings().report(
      {.rule = "DISP-40",
       .severity = verifier::Severity::kViolation,
       .ddi = ddi,
       .actual =
           fmt::format("After {}{} {}.", behind_.empty() ? "" : behind_ + " and ", after, wrong),
       .expected = "The screen shows the whole shape with its upper left corner at X, Y, which may "
                   "be negative, and nothing of it where its alpha is 0 or while it is hidden.",
       .fix =
           "Copy each row of the shape by Pitch, clear what an earlier shape has left, and write "
           "place and visibility into the hardware with each call.",
       .windows = "The pointer is somewhere else than the clicks, or has a wrong picture."});
  return std::unexpected("the pointer on the screen is wrong");
}

Answer<void> Pointer::move(int32_t x, int32_t y, bool visible) {
  const std::string place = fmt::format("({}, {})", x, y);
  const Status moved = displays_.set_pointer_position(bench_.luid(), source_.id, x, y, visible);
  if (!is_success(moved))
    return std::unexpected(fmt::format("at {}: {}", place, status_text(moved)));
  scene_.x = x;
  scene_.y = y;
  scene_.visible = visible;
  return look("DxgkDdiSetPointerPosition",
              visible ? "a move to " + place : "the pointer was hidden at " + place);
}

Status Pointer::set(const Size& size, uint32_t base) {
  const std::vector<std::byte> pixels = draw(size, base);
  port::PointerShape shape;
  shape.source = source_.id;
  shape.format = port::PointerShape::Format::kColor;
  shape.width = size.width;
  shape.height = size.height;
  shape.pitch_bytes = size.pitch_pixels * kPixelBytes;
  shape.pixels = pixels;
  const Status status = displays_.set_pointer_shape(bench_.luid(), shape);
  if (is_success(status)) {
    scene_.size = size;
    scene_.pixels = pixels;
  }
  return status;
}

Answer<void> Pointer::move_one(const Size& size, size_t* count) {
  const auto right = static_cast<int32_t>(source_.mode->width);
  const auto bottom = static_cast<int32_t>(source_.mode->height);
  const std::pair<int32_t, int32_t> places[] = {
      {0, 0}, {-31, -31}, {-5, 7}, {right - 1, bottom - 1}, middle()};
  Status status = set(size, 0x204060);
  if (status == Status::kNotSupported) return {};
  if (!is_success(status)) return std::unexpected("the shape: " + status_text(status));
  ++*count;
  DXGKIT_VERIFY_TRY(look("DxgkDdiSetPointerShape", "a shape for a hidden pointer"));
  for (const auto& [x, y] : places) {
    for (const bool visible : {true, true, false}) DXGKIT_VERIFY_TRY(move(x, y, visible));
  }
  // It moves while it is shown.
  for (const auto& [x, y] : places) DXGKIT_VERIFY_TRY(move(x, y, true));
  // The shape changes where the pointer is.
  status = set(size, 0xC09030);
  if (is_success(status))
    DXGKIT_VERIFY_TRY(look("DxgkDdiSetPointerShape", "a new shape of the pointer that is shown"));
  return move(middle().first, middle().second, false);
}

Answer<void> Pointer::move_all(size_t* count) {
  if (bench_.screen() != nullptr) scene_.bare = bench_.screen()->image();
  for (const Size& size : kSizes) DXGKIT_VERIFY_TRY(move_one(size, count));
  const port::DisplayCaps caps =
      port::display_caps_of(bench_.exercise().caps(), bench_.interface_version());
  const Size largest{.width = std::min(caps.max_pointer_width, kSideMost),
                     .height = std::min(caps.max_pointer_height, kSideMost),
                     .pitch_pixels = std::min(caps.max_pointer_width, kSideMost)};
  const bool is_larger = largest.width > kSizes[0].width || largest.height > kSizes[0].height;
  return *count != 0 && is_larger ? move_one(largest, count) : Answer<void>();
}

Answer<bool> Pointer::show() {
  const Status status = set(kSizes[0], 0x204060);
  if (!is_success(status)) return false;
  DXGKIT_VERIFY_TRY(move(middle().first, middle().second, true));
  return true;
}

Answer<void> Pointer::show_again(const char* behind) {
  behind_ = behind;
  const auto [x, y] = middle();
  const Status hidden = displays_.set_pointer_position(bench_.luid(), source_.id, x, y, false);
  if (hidden == Status::kNotSupported) return {};
  bench_.runtime().sleep_for(kBetweenLooks);
  if (bench_.screen() != nullptr) scene_.bare = bench_.screen()->image();
  const Status status = set(kSizes[0], 0xC09030);
  if (!is_success(status)) return std::unexpected("the shape: " + status_text(status));
  for (const int32_t step : {0, 40}) {
    if (const Answer<void> moved = move(x + step, y - step, true); !moved)
      return std::unexpected(fmt::format("after {} {}", behind, moved.error()));
  }
  return move(x, y, false);
}

/// Has the owner show one color, if its user mode makes primaries and the screen can be seen.
Answer<void> show_behind(Bench& bench, ScreenOwner& owner) {
  DXGKIT_VERIFY_TRY(owner.open());
  const Answer<ScreenOwner::Surface> made = owner.make({.color = kBehind});
  if (!made) return std::unexpected(made.error());
  if (made->allocation == 0) return {};
  DXGKIT_VERIFY_TRY(owner.show(made->allocation));
  DXGKIT_VERIFY_TRY(owner.settle());
  const runtime::TimeNs deadline = bench.runtime().now() + kUntilShown;
  while (is_dark(bench.screen()->image()) && bench.runtime().now() < deadline)
    bench.runtime().sleep_for(kBetweenLooks);
  return {};
}

}  // namespace

Answer<bool> show_pointers(Bench& bench) {
  if (bench.exercise().video_present_sources() == 0) return false;
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return std::unexpected(sources.error());
  bool shown = false;
  for (const dxgk::DisplaySource& source : *sources) {
    const Answer<bool> one = Pointer(bench, source).show();
    if (!one) return one;
    shown = shown || *one;
  }
  return shown;
}

Answer<void> show_pointers_again(Bench& bench, const char* behind) {
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return std::unexpected(sources.error());
  for (const dxgk::DisplaySource& source : *sources)
    DXGKIT_VERIFY_TRY(Pointer(bench, source).show_again(behind));
  return {};
}

namespace {

Outcome pointer(Bench& bench) {
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  size_t shapes = 0;
  for (const dxgk::DisplaySource& source : *sources) {
    const bool seen = bench.screen() != nullptr && bench.screen()->shows_pointer();
    std::optional<ScreenOwner> owner;
    if (seen && bench.plugin() != nullptr && !bench.display_only()) {
      owner.emplace(bench, source);
      if (const Answer<void> shown = show_behind(bench, *owner); !shown)
        return Outcome::failed(shown.error());
    }
    Pointer pointer(bench, source);
    if (const Answer<void> moved = pointer.move_all(&shapes); !moved)
      return Outcome::failed(moved.error());
    if (!owner) continue;
    if (const Answer<void> closed = owner->close(); !closed) return Outcome::failed(closed.error());
  }
  if (shapes == 0) return Outcome::skipped("its caps name no color pointer of 32x32");
  return Outcome::ok(fmt::format("{} moved, also half outside{}", counted(shapes, "pointer"),
                                 bench.screen() != nullptr && bench.screen()->shows_pointer()
                                     ? ", and seen on the screen"
                                     : ""));
}

constexpr Step kSteps[] = {
    {"pointer", "the pointer moves", Step::Needs::kDisplay, pointer},
};

}  // namespace

std::span<const Step> pointer_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
