// A client owns the screen of a full driver: it shows primaries in turn, fills parts of the shown
// one, and copies into it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/spelling.h"
#include "dxgk/display_exercise.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/screen_look.h"
#include "tools/dxgkit/verify/screen_owner.h"

namespace dxgkit::tool::verify {
namespace {

constexpr uint32_t kPixelBytes = dxgk::kPixelBytes;
/// Colors of X8R8G8B8, no byte of which is that of another color. Pictures begin with them.
constexpr std::array<uint32_t, 2> kShown{0x00FF8040, 0x002060C0};
constexpr uint32_t kFilled = 0x00A0106E, kCopied = 0x0030D893;
constexpr D3DDDI_FLIPINTERVAL_TYPE kIntervals[] = {
    D3DDDI_FLIPINTERVAL_ONE, D3DDDI_FLIPINTERVAL_IMMEDIATE, D3DDDI_FLIPINTERVAL_ONE,
    D3DDDI_FLIPINTERVAL_TWO, D3DDDI_FLIPINTERVAL_IMMEDIATE, D3DDDI_FLIPINTERVAL_IMMEDIATE};
/// What is not on the screen by then never will be. A real screen may be late where others compute.
constexpr runtime::TimeNs kUntilShown = 2 * runtime::kSecond;
constexpr runtime::TimeNs kBetweenLooks = 10 * runtime::kMillisecond;
/// For a flip that waits for no vertical sync, where nothing but the device takes time. A period is
/// several times as long.
constexpr runtime::TimeNs kAtOnce = 3 * runtime::kMillisecond;
constexpr runtime::TimeNs kBetweenQuickLooks = runtime::kMillisecond / 4;

/// Of a picture in which each pixel has another color than its neighbours: only then a wrong pitch,
/// offset or size is seen.
uint32_t patterned(uint32_t base, uint32_t x, uint32_t y) {
  return (base + x * 0x010703U + y * 0x050B02U) & 0xFFFFFFU;
}

/// A color inside a rectangle, and another one around it.
struct Picture {
  uint32_t around = 0;
  bool pattern = false;  // of `around`
  RECT rect = {};        // empty: there is one color
  uint32_t inside = 0;
};

/// Empty: the screen shows that picture.
std::string compare(const bus::ScreenImage& image, const dxgk::DisplayMode& mode,
                    const Picture& picture) {
  if (image.width != mode.width || image.height != mode.height)
    return fmt::format("the screen shows {}x{} pixels", image.width, image.height);
  for (uint32_t y = 0; y < image.height; ++y) {
    for (uint32_t x = 0; x < image.width; ++x) {
      const RECT& rect = picture.rect;
      const auto column = static_cast<LONG>(x), row = static_cast<LONG>(y);
      const bool inside =
          column >= rect.left && column < rect.right && row >= rect.top && row < rect.bottom;
      const uint32_t around = picture.pattern ? patterned(picture.around, x, y) : picture.around;
      const uint32_t wanted = inside ? picture.inside : around;
      const uint8_t* const pixel = &image.pixels[(size_t{y} * image.width + x) * kPixelBytes];
      const uint32_t shown = uint32_t{pixel[0]} << 16 | uint32_t{pixel[1]} << 8 | pixel[2];
      if (shown != wanted)
        return fmt::format("pixel ({}, {}) is {:06x}, not {:06x}", x, y, shown, wanted);
    }
  }
  return {};
}

/// Compares, and reports under `rule`. False: it is wrong.
bool is_shown(Bench& bench, const dxgk::DisplayMode& mode, const Picture& picture, const char* rule,
              const char* ddi, const std::string& after, bool at_once = false) {
  const runtime::TimeNs deadline = bench.runtime().now() + (at_once ? kAtOnce : kUntilShown);
  std::string wrong = compare(bench.screen()->image(), mode, picture);
  while (!wrong.empty() && bench.runtime().now() < deadline) {
    bench.runtime().sleep_for(at_once ? kBetweenQuickLooks : kBetweenLooks);
    wrong = compare(bench.screen()->image(), mode, picture);
  }
  if (wrong.empty()) return true;
  bench.findings().report(
      {.rule = rule,
       .severity = verifier::Severity::kViolation,
       .ddi = ddi,
       .actual = fmt::format("After {} {}.", after, wrong),
       .expected = "The primary that was flipped to is on the screen, with what was filled and "
                   "copied into it.",
       .fix = "Follow the address of the primary into the hardware, for flips at once and at a "
              "vertical sync; of a fill or copy look at each rectangle, its offset and the pitch.",
       .windows = "The screen stands still, flickers, or shows other memory."});
  return false;
}

struct Shows {
  std::array<D3DKMT_HANDLE, 2> primaries{};
  D3DKMT_HANDLE surface = 0;  // to copy from
  size_t flips = 0, refused = 0, draws = 0;
  std::string wrong;
};

Answer<void> flip_in_turn(Bench& bench, ScreenOwner& owner, const dxgk::DisplayMode& mode,
                          Shows* shows) {
  for (const D3DDDI_FLIPINTERVAL_TYPE interval : kIntervals) {
    const size_t next = (shows->flips + 1) % shows->primaries.size();
    D3DKMT_PRESENT flip{};
    flip.Flags.Flip = 1;
    flip.hSource = shows->primaries[next];
    flip.FlipInterval = interval;
    const Status status = from_ntstatus(owner.present(flip));
    if (status == Status::kInvalidParameter && interval > D3DDDI_FLIPINTERVAL_ONE) {  // DISP-04
      ++shows->refused;
      continue;
    }
    if (!is_success(status)) return std::unexpected("D3DKMTPresent: " + status_text(status));
    DXGKIT_VERIFY_TRY(owner.settle());
    ++shows->flips;
    if (!is_shown(bench, mode, {.around = kShown[next], .pattern = true}, "DISP-26",
                  "DxgkDdiSetVidPnSourceAddress",
                  fmt::format("flip {} with the interval {}", shows->flips,
                              static_cast<unsigned>(interval)),
                  bench.simulated() && interval == D3DDDI_FLIPINTERVAL_IMMEDIATE)) {
      shows->wrong = "a flip shows another picture";
      return {};
    }
  }
  return {};
}

/// Shows each primary as a mode that is set, right before a vertical sync: what that reports must
/// be what was shown until the call has returned. Where time costs nothing.
Answer<void> set_at_vsync(Bench& bench, ScreenOwner& owner, const dxgk::DisplaySource& source,
                          Shows* shows) {
  constexpr int64_t kBefore[] = {150, 90, 40, 12, 6, 3};  // microseconds
  Result<dxgk::DisplayExercise> exercise = dxgk::DisplayExercise::on(bench.system(), bench.luid());
  if (!exercise.has_value() || !bench.simulated()) return {};
  const vidpn::Network active = exercise->active();
  const vidpn::TargetMode* const mode =
      source.target.has_value() ? active.pinned_target_mode(*source.target) : nullptr;
  if (mode == nullptr || !mode->signal.vsync.specified()) return {};
  const auto period =
      static_cast<runtime::DurationNs>(1e9 / std::max(1.0, mode->signal.vsync.hertz()));
  for (const int64_t before : kBefore) {
    const Status status = exercise->wait_for_vblank(source.id);
    if (status == Status::kNotSupported) return {};
    if (!is_success(status)) return std::unexpected("waiting for a vsync: " + status_text(status));
    bench.runtime().sleep_for(period - before * runtime::kMicrosecond);
    const size_t next = (shows->flips + 1) % shows->primaries.size();
    DXGKIT_VERIFY_TRY(owner.show(shows->primaries[next]));
    ++shows->flips;
    if (is_shown(bench, *source.mode, {.around = kShown[next], .pattern = true}, "DISP-26",
                 "DxgkDdiSetVidPnSourceAddress", "a mode was set at a vertical sync"))
      continue;
    shows->wrong = "a mode that is set at a vertical sync shows another picture";
    return {};
  }
  return {};
}

/// Fills and copies stretches of the primary that is shown.
Answer<void> draw(Bench& bench, ScreenOwner& owner, const dxgk::DisplayMode& mode, Shows* shows) {
  const uint32_t shown = kShown[shows->flips % shows->primaries.size()];
  const auto width = static_cast<LONG>(mode.width), height = static_cast<LONG>(mode.height);
  for (const bool copy : {false, true}) {
    const RECT rect = copy ? RECT{width / 4 + 1, 0, width, height / 2 + 1}
                           : RECT{3, 5, width / 2 + 1, height - 2};
    // Everything around has one color.
    const RECT whole{0, 0, width, height};
    D3DKMT_PRESENT clear{};
    clear.Flags.ColorFill = 1;
    clear.Color = shown;
    clear.SubRectCnt = 1;
    clear.pSrcSubRects = &whole;
    static_cast<void>(owner.present(clear));
    DXGKIT_VERIFY_TRY(owner.settle());
    D3DKMT_PRESENT present{};
    present.Flags.Blt = copy ? 1 : 0;
    present.Flags.ColorFill = copy ? 0 : 1;
    present.hSource = copy ? shows->surface : 0;
    present.Color = copy ? 0 : kFilled;
    present.SubRectCnt = 1;
    present.pSrcSubRects = &rect;
    const Status status = from_ntstatus(owner.present(present));
    // The driver leaves such presents to user mode, as the kernel does with GPU virtual addresses.
    if (status == Status::kIllegalInstruction || status == Status::kNotSupported) {
      ++shows->refused;
      continue;
    }
    if (!is_success(status)) return std::unexpected("D3DKMTPresent: " + status_text(status));
    DXGKIT_VERIFY_TRY(owner.settle());
    ++shows->draws;
    if (!is_shown(bench, mode, {.around = shown, .rect = rect, .inside = copy ? kCopied : kFilled},
                  "REND-29", "DxgkDdiPresent", copy ? "a copy" : "a fill")) {
      shows->wrong = copy ? "a copy to the screen is wrong" : "a fill of the screen is wrong";
      return {};
    }
  }
  return {};
}

std::vector<std::byte> picture_of(const dxgk::DisplayMode& mode, uint32_t base) {
  std::vector<uint32_t> pixels(size_t{mode.width} * mode.height);
  for (uint32_t y = 0; y < mode.height; ++y) {
    for (uint32_t x = 0; x < mode.width; ++x)
      pixels[size_t{y} * mode.width + x] = patterned(base, x, y);
  }
  std::vector<std::byte> bytes(pixels.size() * kPixelBytes);
  std::memcpy(bytes.data(), pixels.data(), bytes.size());
  return bytes;
}

Answer<std::string> run_owner(Bench& bench, const dxgk::DisplaySource& source, Shows* shows) {
  ScreenOwner owner(bench, source);
  DXGKIT_VERIFY_TRY(owner.open());
  for (size_t i = 0; i < kShown.size(); ++i) {
    const std::vector<std::byte> content = picture_of(*source.mode, kShown[i]);
    const Answer<ScreenOwner::Surface> made =
        owner.make({.color = kShown[i], .primary = true, .content = content});
    if (!made) return std::unexpected(made.error());
    if (made->allocation == 0)
      return std::string("the client's user mode makes no primaries of this mode");
    shows->primaries[i] = made->allocation;
  }
  const Answer<ScreenOwner::Surface> surface = owner.make({.color = kCopied, .primary = false});
  if (!surface) return std::unexpected(surface.error());
  shows->surface = surface->allocation;
  DXGKIT_VERIFY_TRY(owner.show(shows->primaries.front()));
  DXGKIT_VERIFY_TRY(owner.settle());
  if (!is_shown(bench, *source.mode, {.around = kShown.front(), .pattern = true}, "DISP-26",
                "DxgkDdiCommitVidPn", "a mode is set with a client's primary")) {
    shows->wrong = "the client's primary is not on the screen";
    return std::string();
  }
  DXGKIT_VERIFY_TRY(flip_in_turn(bench, owner, *source.mode, shows));
  if (shows->wrong.empty()) DXGKIT_VERIFY_TRY(set_at_vsync(bench, owner, source, shows));
  if (shows->wrong.empty() && shows->surface != 0)
    DXGKIT_VERIFY_TRY(draw(bench, owner, *source.mode, shows));
  DXGKIT_VERIFY_TRY(owner.close());
  return std::string();
}

}  // namespace

Outcome flips(Bench& bench) {
  if (bench.display_only())
    return Outcome::skipped("display-only drivers are presented to; primaries are of full ones");
  if (bench.plugin() == nullptr)
    return Outcome::skipped("it takes --client, whose user mode makes primaries");
  if (bench.screen() == nullptr) return Outcome::skipped("the device's screen cannot be seen");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  const auto source = std::ranges::find_if(*sources, &dxgk::DisplaySource::visible);
  if (source == sources->end())
    return Outcome::skipped("nothing is shown: no monitor is connected");
  Shows shows;
  const Answer<std::string> skipped = run_owner(bench, *source, &shows);
  if (!skipped) return Outcome::failed(skipped.error());
  if (!skipped->empty()) return Outcome::skipped(*skipped);
  if (!shows.wrong.empty()) return Outcome::failed(shows.wrong);
  return Outcome::ok(fmt::format("{}, {} and copies, all seen on the screen; {} refused",
                                 counted(shows.flips, "flip"), counted(shows.draws, "fill"),
                                 shows.refused));
}

namespace {

constexpr Step kSteps[] = {
    {"flips", "a client flips and draws on its screen", Step::Needs::kDisplay, flips},
};

}  // namespace

std::span<const Step> flip_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
