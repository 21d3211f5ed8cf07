// A client draws into its primary with the CPU, and brings parts of it to the screen by commands,
// on devices whose screen does not follow memory by itself.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/spelling.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/screen_owner.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
constexpr uint32_t kVariantsMax = 32;
constexpr size_t kRandomRects = 2;

struct Rect {
  uint32_t x, y, width, height;
};

/// Colors of X8R8G8B8, row by row.
using Colors = std::vector<uint32_t>;

/// Neighbours differ, and so do two pictures at each pixel.
Colors picture(const dxgk::DisplayMode& mode, uint32_t number) {
  Colors colors;
  colors.reserve(size_t{mode.width} * mode.height);
  for (uint32_t y = 0; y < mode.height; ++y) {
    for (uint32_t x = 0; x < mode.width; ++x)
      colors.push_back((number * 0x1F3D5BU + x * 0x010703U + y * 0x050B02U) & 0xFFFFFFU);
  }
  return colors;
}

std::vector<std::byte> bytes_of(const Colors& colors) {
  std::vector<std::byte> bytes(colors.size() * kPixelBytes);
  std::memcpy(bytes.data(), colors.data(), bytes.size());
  return bytes;
}

/// Empty: the screen shows these colors.
std::string compare(const bus::ScreenImage& image, const dxgk::DisplayMode& mode,
                    const Colors& colors) {
  if (image.width != mode.width || image.height != mode.height)
    return fmt::format("the screen shows {}x{} pixels", image.width, image.height);
  for (size_t i = 0; i < colors.size(); ++i) {
    const uint8_t* const pixel = &image.pixels[i * kPixelBytes];
    const uint32_t shown = uint32_t{pixel[0]} << 16 | uint32_t{pixel[1]} << 8 | pixel[2];
    if (shown != colors[i]) {
      return fmt::format("pixel ({}, {}) is {:06x}, not {:06x}", i % mode.width, i / mode.width,
                         shown, colors[i]);
    }
  }
  return {};
}

void copy_rect(const Colors& from, const Rect& rect, uint32_t width, Colors* to) {
  for (uint32_t y = rect.y; y < rect.y + rect.height; ++y) {
    for (uint32_t x = rect.x; x < rect.x + rect.width; ++x)
      (*to)[size_t{y} * width + x] = from[size_t{y} * width + x];
  }
}

std::vector<Rect> rects_of(Bench& bench, const dxgk::DisplayMode& mode) {
  std::vector<Rect> rects{{0, 0, mode.width, mode.height},
                          {mode.width - 1, mode.height - 1, 1, 1},
                          {mode.width / 3, mode.height / 5 + 1, mode.width / 2, mode.height / 4}};
  for (size_t i = 0; i < kRandomRects; ++i) {
    Rect rect{};
    rect.x = static_cast<uint32_t>(bench.random() % mode.width);
    rect.y = static_cast<uint32_t>(bench.random() % mode.height);
    rect.width = 1 + static_cast<uint32_t>(bench.random() % (mode.width - rect.x));
    rect.height = 1 + static_cast<uint32_t>(bench.random() % (mode.height - rect.y));
    rects.push_back(rect);
  }
  return rects;
}

void report_screen(Bench& bench, const DxgkitClientShow& show, const std::string& wrong) {
  bench.findings().report(
      {.rule = "REND-32",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiRender",
       .actual = fmt::format("After \"{}\" of {}x{} pixels at ({}, {}) {}.", show.what, show.width,
                             show.height, show.x, show.y, wrong),
       .expected = show.expected == DXGKIT_CLIENT_SHOW_NOTHING
                       ? "The screen stays as it was."
                       : "The rectangle of the primary is on the screen; all around it stays as it "
                         "was.",
       .fix = "Compare rectangle and offset of the hardware's command with user mode's, and the "
              "order of commands.",
       .windows = "Old pixels stay on the screen, or parts of a picture are somewhere else."});
}

class Updates {
 public:
  Updates(Bench& bench, const dxgk::DisplaySource& source)
      : bench_(bench), mode_(*source.mode), owner_(bench, source) {}

  /// The error: a call was refused. A wrong screen is told by wrong().
  Answer<void> run() {
    DXGKIT_VERIFY_TRY(owner_.open());
    Colors memory = picture(mode_, 0);
    const std::vector<std::byte> content = bytes_of(memory);
    const Answer<ScreenOwner::Surface> made =
        owner_.make({.color = 0, .primary = true, .content = content});
    if (!made) return std::unexpected(made.error());
    primary_ = made->allocation;
    if (primary_ == 0) return {};
    DXGKIT_VERIFY_TRY(owner_.show(primary_));
    DXGKIT_VERIFY_TRY(owner_.settle());
    shown_ = memory;
    if (!is_shown()) {
      wrong_ = "the primary does not get to the screen by itself: see the step flips";
      return {};
    }
    for (const Rect& rect : rects_of(bench_, mode_)) {
      DXGKIT_VERIFY_TRY(update(rect, &memory));
      if (!wrong_.empty()) return {};
    }
    return owner_.close();
  }

  bool has_primary() const { return primary_ != 0; }
  const std::string& wrong() const { return wrong_; }
  size_t updates() const { return updates_; }

 private:
  bool is_shown() {
    return await_screen(bench_, [&](const bus::ScreenImage& image) {
      return compare(image, mode_, shown_).empty();
    });
  }

  /// All variants, one after the other, each with other content in memory.
  Answer<void> update(const Rect& rect, Colors* memory) {
    for (uint32_t variant = 0; variant < kVariantsMax; ++variant) {
      const Colors earlier = *memory;
      *memory = picture(mode_, static_cast<uint32_t>(updates_) + 1);
      DXGKIT_VERIFY_TRY(owner_.write(primary_, bytes_of(*memory)));
      DxgkitClientShow show{};
      show.x = rect.x;
      show.y = rect.y;
      show.width = rect.width;
      show.height = rect.height;
      const Answer<bool> done = owner_.update(primary_, variant, &show);
      if (!done) return std::unexpected(done.error());
      if (!*done) return {};
      ++updates_;
      if (show.expected != DXGKIT_CLIENT_SHOW_NOTHING)
        copy_rect(show.expected == DXGKIT_CLIENT_SHOW_MEMORY ? *memory : earlier, rect, mode_.width,
                  &shown_);
      if (is_shown()) continue;
      report_screen(bench_, show, compare(bench_.screen()->image(), mode_, shown_));
      wrong_ = fmt::format("after \"{}\" the screen is wrong", show.what);
      return {};
    }
    return {};
  }

  Bench& bench_;
  const dxgk::DisplayMode mode_;
  ScreenOwner owner_;
  D3DKMT_HANDLE primary_ = 0;
  Colors shown_;  // what the screen should show
  size_t updates_ = 0;
  std::string wrong_;
};

Outcome updates(Bench& bench) {
  if (bench.display_only())
    return Outcome::skipped("display-only drivers are presented to; primaries are of full ones");
  if (bench.plugin() == nullptr)
    return Outcome::skipped("it takes --client, whose user mode brings memory to the screen");
  if (!bench.plugin()->knows_shows() || bench.gpu_addresses())
    return Outcome::skipped("the client has no commands that bring memory to the screen");
  if (bench.screen() == nullptr) return Outcome::skipped("the device's screen cannot be seen");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  const auto source = std::ranges::find_if(*sources, &dxgk::DisplaySource::visible);
  if (source == sources->end())
    return Outcome::skipped("nothing is shown: no monitor is connected");
  Updates all(bench, *source);
  if (const Answer<void> done = all.run(); !done) return Outcome::failed(done.error());
  if (!all.has_primary())
    return Outcome::skipped("the client's user mode makes no primaries of this mode");
  if (!all.wrong().empty()) return Outcome::failed(all.wrong());
  return Outcome::ok(fmt::format("{}, all seen on the screen", counted(all.updates(), "update")));
}

constexpr Step kSteps[] = {
    {"updates", "a client brings parts of its primary to the screen", Step::Needs::kDisplay,
     updates},
};

}  // namespace

std::span<const Step> update_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
