// Overlay planes of a full driver: a client shows several surfaces at once, moves, clips,
// stretches, turns and blends them, and each picture is compared with the screen.
#include <d3dkmddi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ranges>

#include "base/interface_versions.h"
#include "base/spelling.h"
#include "port/ddi/display_caps.h"
#include "tools/dxgkit/verify/canvas.h"
#include "tools/dxgkit/verify/screen_owner.h"

namespace dxgkit::tool::verify {
namespace {

/// Each pixel of these has a color of its own.
constexpr size_t kFirst = 0, kSecond = 1, kThird = 2, kDrawn = 3;
/// One color, and pixels of which nothing is seen where they are blended.
constexpr size_t kPlain = 3, kClear = 4, kSurfaces = 5;
constexpr uint32_t kPlainColor = 0xFF40'90E0, kOpaque = 0xFF00'0000, kColorBits = 0x00FF'FFFF;
/// Odd, so that the colors of the words of a surface are all different.
constexpr uint32_t kScatter = 0x009E'3779;
constexpr LONG kFarAway = 70'000;
/// What is not on the screen by then never will be. A real screen may be late where others compute.
constexpr runtime::TimeNs kUntilShown = 2 * runtime::kSecond;
constexpr runtime::TimeNs kBetweenLooks = 10 * runtime::kMillisecond;

uint32_t color_of(size_t surface, uint32_t word) {
  return ((word + 1) * kScatter + static_cast<uint32_t>(surface) * 0x0035'5555) & kColorBits;
}
/// The word of that surface with this color.
uint32_t word_of(size_t surface, uint32_t color) {
  uint32_t inverse = 1;  // of kScatter, by Newton's steps
  for (int i = 0; i < 5; ++i) inverse *= 2 - kScatter * inverse;
  return (inverse * (color - static_cast<uint32_t>(surface) * 0x0035'5555) - 1) & kColorBits;
}

/// Colors row by row, without alpha.
using Picture = std::vector<uint32_t>;

/// Empty if the screen has another size.
Picture colors(const bus::ScreenImage& image, const dxgk::DisplayMode& mode) {
  Picture all;
  if (image.width != mode.width || image.height != mode.height) return all;
  for (size_t at = 0; at < image.pixels.size(); at += dxgk::kPixelBytes) {
    const uint8_t* const pixel = &image.pixels[at];
    all.push_back(uint32_t{pixel[0]} << 16 | uint32_t{pixel[1]} << 8 | pixel[2]);
  }
  return all;
}

/// How a plane is shown. kPlain and kClear may be stretched: all of their pixels are the same.
struct View {
  size_t surface = 0;
  RECT source{}, destination{};
  RECT clip{};  // inside the destination, whose corner is (0, 0)
  bool blend = false;
  bool mirrored = false, upside_down = false;
  D3DDDI_ROTATION rotation = D3DDDI_ROTATION_IDENTITY;
};
/// By layer, 0 on top; nullopt: the plane is off.
using Scene = std::vector<std::optional<View>>;

RECT inside(const RECT& rect) { return {0, 0, rect.right - rect.left, rect.bottom - rect.top}; }
View placed(size_t surface, const RECT& source, LONG left, LONG top) {
  View view{.surface = surface, .source = source};
  view.destination = {left, top, left + source.right - source.left,
                      top + source.bottom - source.top};
  view.clip = inside(view.destination);
  return view;
}
View stretched(size_t surface, const RECT& source, const RECT& destination) {
  return {.surface = surface,
          .source = source,
          .destination = destination,
          .clip = inside(destination)};
}

/// Both versions of the attributes.
template <typename Attributes>
Attributes attributes_of(const View& view) {
  Attributes to{};
  to.Flags = (view.upside_down ? 1U : 0U) | (view.mirrored ? 2U : 0U);
  to.SrcRect = view.source;
  to.DstRect = view.destination;
  to.ClipRect = view.clip;
  to.Rotation = view.rotation;
  to.Blend = view.blend ? D3DKMT_MULTIPLANE_OVERLAY_BLEND_ALPHABLEND
                        : D3DKMT_MULTIPLANE_OVERLAY_BLEND_OPAQUE;
  to.StretchQuality = static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(1);
  return to;
}

/// What the pixel of a view shows that is so far from the corner of its destination; a rotation by
/// 90 or 270 degrees goes `clockwise` or not.
uint32_t pixel_of(const View& view, const Picture& picture, const dxgk::DisplayMode& mode, LONG x,
                  LONG y, bool clockwise) {
  if (view.surface == kPlain) return kPlainColor & kColorBits;
  if (view.surface == kClear) return 0;
  LONG right = x, down = y;
  const LONG width = view.source.right - view.source.left;
  const LONG height = view.source.bottom - view.source.top;
  const bool quarter = view.rotation == D3DDDI_ROTATION_90 || view.rotation == D3DDDI_ROTATION_270;
  if (view.rotation == D3DDDI_ROTATION_180) {
    right = width - 1 - x;
    down = height - 1 - y;
  } else if (quarter) {  // of a square
    const bool to_right = clockwise == (view.rotation == D3DDDI_ROTATION_90);
    right = to_right ? y : width - 1 - y;
    down = to_right ? height - 1 - x : x;
  }
  if (view.mirrored) right = width - 1 - right;
  if (view.upside_down) down = height - 1 - down;
  return picture[static_cast<size_t>(view.source.top + down) * mode.width +
                 static_cast<size_t>(view.source.left + right)];
}

/// A client that shows planes, and what it has seen.
class Planes {
 public:
  Planes(Bench& bench, const dxgk::DisplaySource& source, uint32_t most)
      : bench_(bench), mode_(*source.mode), owner_(bench, source), now_(most) {}

  /// An error: a call was refused that may not be. Nothing is wrong if wrong() is empty.
  Answer<void> run();
  const std::string& wrong() const { return wrong_; }
  /// Why nothing could be shown; empty: something was.
  const std::string& skipped() const { return skipped_; }
  size_t shown() const { return shown_; }
  size_t refused() const { return refused_; }

 private:
  Answer<void> make_surfaces();
  Answer<void> take_pictures();
  Answer<void> flip_to(size_t surface);
  Answer<void> ask_too_much();
  /// Shows the scene if the driver says that it can. False: it cannot, or is wrong.
  Answer<bool> show(const Scene& scene, const char* what);
  Answer<void> ask_outside();
  Answer<void> show_turned();
  Answer<bool> can_show(const Scene& scene);
  Answer<void> set(const Scene& scene, const char* what);
  Picture compose(const Scene& scene, bool clockwise) const;
  /// Waits for one of the pictures. What is wrong; empty: nothing.
  std::string await(const std::vector<Picture>& pictures);
  void report(const char* rule, const char* ddi, std::string actual);
  std::vector<Scene> scenes() const;

  Bench& bench_;
  const dxgk::DisplayMode mode_;
  ScreenOwner owner_;
  std::array<ScreenOwner::Surface, kSurfaces> surfaces_{};
  std::array<Picture, kDrawn> pictures_{};
  Scene now_;
  std::string wrong_, skipped_;
  size_t shown_ = 0, refused_ = 0;
};

Answer<void> Planes::make_surfaces() {
  for (size_t i = 0; i < kSurfaces; ++i) {
    std::vector<uint32_t> words;
    if (i < kDrawn) {
      words.resize(size_t{mode_.width} * mode_.height);
      for (uint32_t word = 0; word < words.size(); ++word)
        words[word] = kOpaque | color_of(i, word);
    }
    const Answer<ScreenOwner::Surface> made =
        owner_.make({.color = i == kPlain ? kPlainColor : 0,
                     .primary = true,
                     .as_resource = true,
                     .content = std::as_bytes(std::span(words))});
    if (!made) return std::unexpected(made.error());
    surfaces_[i] = *made;
    if (made->allocation != 0) continue;
    skipped_ = "the client's user mode makes no primaries of this mode";
    return {};
  }
  return {};
}

Answer<void> Planes::flip_to(size_t surface) {
  D3DKMT_PRESENT flip{};
  flip.Flags.Flip = 1;
  flip.hSource = surfaces_[surface].allocation;
  flip.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTPresent", owner_.present(flip)));
  return owner_.settle();
}

/// Flips show where the rows of a surface are, which is the driver's own affair: each surface as
/// the only picture, from which planes are composed.
Answer<void> Planes::take_pictures() {
  DXGKIT_VERIFY_TRY(owner_.show(surfaces_[kPlain].allocation));
  DXGKIT_VERIFY_TRY(owner_.settle());
  for (size_t i = 0; i < kDrawn; ++i) {
    DXGKIT_VERIFY_TRY(flip_to(i));
    const runtime::TimeNs deadline = bench_.runtime().now() + kUntilShown;
    const uint32_t words = mode_.width * mode_.height * 2;  // rows may be longer than the mode's
    const auto of_this = [&](uint32_t color) { return word_of(i, color) < words; };
    do {
      pictures_[i] = colors(bench_.screen()->image(), mode_);
      if (!pictures_[i].empty() && std::ranges::all_of(pictures_[i], of_this)) break;
      pictures_[i].clear();
      bench_.runtime().sleep_for(kBetweenLooks);
    } while (bench_.runtime().now() < deadline);
    Picture sorted = pictures_[i];
    std::ranges::sort(sorted);
    if (!sorted.empty() && std::ranges::adjacent_find(sorted) == sorted.end()) continue;
    // Not a screen of pixels of four bytes, or one that the step `flips` is about.
    skipped_ = "a flip shows no picture of pixels of four bytes that could be compared";
    return {};
  }
  return {};
}

void Planes::report(const char* rule, const char* ddi, std::string actual) {
  const bool asked = std::string_view(rule) == "DISP-27";
  bench_.findings().report(
      {.rule = rule,
       .severity = verifier::Severity::kViolation,
       .ddi = ddi,
       .actual = std::move(actual),
       .expected = asked ? "Supported says whether the hardware can show these planes together."
                         : "Each plane that is enabled shows its source rectangle in its "
                           "destination, inside the clip rectangle; layer 0 is on top, and what no "
                           "plane covers is black.",
       .fix = asked
                  ? "Compare the number of planes with MaxOverlayPlanes, and every attribute with "
                    "what the hardware can do."
                  : "Follow one plane into the hardware: LayerIndex, Enabled, address and pitch "
                    "of the surface, SrcRect, DstRect, ClipRect, Blend, Rotation and the flags. "
                    "Refuse in the check what the hardware cannot do.",
       .windows = "Videos and windows are in the wrong place, or show other memory."});
}

Picture Planes::compose(const Scene& scene, bool clockwise) const {
  Picture screen(size_t{mode_.width} * mode_.height);
  for (size_t layer = scene.size(); layer-- > 0;) {
    if (!scene[layer].has_value()) continue;
    const View& view = *scene[layer];
    const Picture& picture = pictures_[std::min(view.surface, kDrawn - 1)];
    for (LONG y = view.clip.top; y < view.clip.bottom; ++y) {
      for (LONG x = view.clip.left; x < view.clip.right; ++x) {
        if (view.blend && view.surface == kClear) continue;
        screen[static_cast<size_t>(view.destination.top + y) * mode_.width +
               static_cast<size_t>(view.destination.left + x)] =
            pixel_of(view, picture, mode_, x, y, clockwise);
      }
    }
  }
  return screen;
}

std::string Planes::await(const std::vector<Picture>& pictures) {
  const runtime::TimeNs deadline = bench_.runtime().now() + kUntilShown;
  Picture seen;
  for (;;) {
    seen = colors(bench_.screen()->image(), mode_);
    if (std::ranges::find(pictures, seen) != pictures.end()) return {};
    if (bench_.runtime().now() >= deadline) break;
    bench_.runtime().sleep_for(kBetweenLooks);
  }
  if (seen.empty()) return "the screen has another size";
  const Picture& expected = pictures.front();
  const size_t at = static_cast<size_t>(std::ranges::mismatch(seen, expected).in1 - seen.begin());
  const auto others = std::ranges::count_if(std::views::iota(size_t{0}, seen.size()),
                                            [&](size_t i) { return seen[i] != expected[i]; });
  return fmt::format("{} of {} differ; ({}, {}) is {:06x}, not {:06x}", others,
                     counted(seen.size(), "pixel"), at % mode_.width, at / mode_.width, seen[at],
                     expected[at]);
}

Answer<bool> Planes::can_show(const Scene& scene) {
  std::vector<D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2> list;
  for (uint32_t layer = 0; layer < scene.size(); ++layer) {
    if (!scene[layer].has_value()) continue;
    D3DKMT_CHECK_MULTIPLANE_OVERLAY_PLANE2 plane{};
    plane.LayerIndex = layer;
    plane.hResource = surfaces_[scene[layer]->surface].resource;
    plane.PlaneAttributes = attributes_of<D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES2>(*scene[layer]);
    list.push_back(plane);
  }
  if (list.empty()) return true;
  D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2 check{};
  check.PlaneCount = static_cast<UINT>(list.size());
  check.pOverlayPlanes = list.data();
  DXGKIT_VERIFY_TRY(check_answer("D3DKMTCheckMultiPlaneOverlaySupport2", owner_.check(&check)));
  return check.Supported != FALSE;
}

Answer<void> Planes::set(const Scene& scene, const char* what) {
  std::vector<D3DKMT_MULTIPLANE_OVERLAY> list;
  for (uint32_t layer = 0; layer < scene.size(); ++layer) {
    if (!scene[layer].has_value() && !now_[layer].has_value()) continue;
    D3DKMT_MULTIPLANE_OVERLAY plane{};
    plane.LayerIndex = layer;
    plane.Enabled = scene[layer].has_value() ? TRUE : FALSE;
    if (scene[layer].has_value()) {
      plane.hAllocation = surfaces_[scene[layer]->surface].allocation;
      plane.PlaneAttributes = attributes_of<D3DKMT_MULTIPLANE_OVERLAY_ATTRIBUTES>(*scene[layer]);
      // What stays as it is is not named.
      const auto same = [&](const View& was, const View& is) {
        return std::memcmp(&was.source, &is.source, 3 * sizeof(RECT)) == 0 &&
               was.surface == is.surface && was.blend == is.blend && was.mirrored == is.mirrored &&
               was.upside_down == is.upside_down && was.rotation == is.rotation;
      };
      if (now_[layer].has_value() && same(*now_[layer], *scene[layer])) continue;
    }
    list.push_back(plane);
  }
  if (list.empty()) return {};  // it is shown already
  D3DKMT_PRESENT_MULTIPLANE_OVERLAY present{};
  present.Flags.Flip = 1;
  present.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
  present.PresentPlaneCount = static_cast<UINT>(list.size());
  present.pPresentPlanes = list.data();
  const Status status = from_ntstatus(owner_.present(present));
  if (!is_success(status)) {
    wrong_ =
        fmt::format("D3DKMTPresentMultiPlaneOverlay answered {} for {}", status_text(status), what);
    if (bench_.running()) report("DISP-39", "DxgkDdiPresent", wrong_ + ", which can be shown.");
    return {};
  }
  now_ = scene;
  return owner_.settle();
}

Answer<bool> Planes::show(const Scene& scene, const char* what) {
  const Answer<bool> can = can_show(scene);
  if (!can) return can;
  if (!*can) {
    ++refused_;
    return false;
  }
  DXGKIT_VERIFY_TRY(set(scene, what));
  if (!wrong_.empty()) return false;
  ++shown_;
  const std::string wrong = await({compose(scene, true), compose(scene, false)});
  if (wrong.empty()) return true;
  wrong_ = fmt::format("Of {} {}", what, wrong);
  report("DISP-39", "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", wrong_ + ".");
  return false;
}

/// Caps and checks have to go together.
Answer<void> Planes::ask_too_much() {
  const RECT all{0, 0, static_cast<LONG>(mode_.width), static_cast<LONG>(mode_.height)};
  if (now_.size() >= kSurfaces) return {};
  Scene scene;
  for (size_t layer = 0; layer <= now_.size(); ++layer)
    scene.emplace_back(placed(layer, all, 0, 0));
  const Answer<bool> can = can_show(scene);
  if (!can) return std::unexpected(can.error());
  if (!*can) return {};
  wrong_ = fmt::format("{} are called supported, and MaxOverlayPlanes is {}",
                       counted(scene.size(), "plane"), now_.size());
  report("DISP-27", "DxgkDdiCheckMultiPlaneOverlaySupport", wrong_ + ".");
  return {};
}

/// A surface has nothing beyond its edges.
Answer<void> Planes::ask_outside() {
  const auto width = static_cast<LONG>(mode_.width), height = static_cast<LONG>(mode_.height);
  const RECT outside[] = {{width, 0, 2 * width, height},
                          {0, height, width, 2 * height},
                          {0, 0, 4 * kFarAway, height},
                          {0, 0, width, 4 * kFarAway}};
  const RECT all{0, 0, width, height};
  for (const RECT& source : outside) {
    Scene scene(now_.size());
    scene.back() = stretched(kFirst, source, all);
    const Answer<bool> can = can_show(scene);
    if (!can) return std::unexpected(can.error());
    if (!*can) continue;
    wrong_ = fmt::format("the source rectangle ({}, {})-({}, {}) of a surface of {}x{} is called "
                         "supported",
                         source.left, source.top, source.right, source.bottom, width, height);
    report("DISP-27", "DxgkDdiCheckMultiPlaneOverlaySupport", wrong_ + ".");
    return {};
  }
  return {};
}

/// Surfaces that are turned, which hardware may be unable to do.
Answer<void> Planes::show_turned() {
  const auto side = static_cast<LONG>(std::min(mode_.width, mode_.height) / 2);
  const RECT square{1, 2, 1 + side, 2 + side};
  for (int i = 0; i < 5 && wrong_.empty(); ++i) {
    View view = placed(kSecond, square, 3, 1);
    view.mirrored = i == 0;
    view.upside_down = i == 1;
    if (i > 1) view.rotation = static_cast<D3DDDI_ROTATION>(D3DDDI_ROTATION_IDENTITY + i - 1);
    Scene scene(now_.size());
    scene.back() = view;
    const Answer<bool> shown = show(scene, "a plane that is turned");
    if (!shown) return std::unexpected(shown.error());
  }
  return {};
}

/// Of the two planes the lower one is as large as the screen, if there are two.
std::vector<Scene> Planes::scenes() const {
  const auto width = static_cast<LONG>(mode_.width), height = static_cast<LONG>(mode_.height);
  const RECT all{0, 0, width, height};
  const RECT part{width / 8, height / 16, width / 2 + 1, height / 3 + 1};
  const RECT wide{2, height / 4, width - 5, height - 7};
  const std::optional<View> first = placed(kFirst, all, 0, 0);
  const std::optional<View> third = placed(kThird, all, 0, 0);
  View clipped = placed(kSecond, part, width / 5, height / 5);
  clipped.clip = {3, 2, clipped.clip.right - 5, clipped.clip.bottom - 4};
  View clear = stretched(kClear, all, wide);
  View seen_through = clear;
  seen_through.blend = true;
  // Farther than the screen, and than a register of 16 bits. The clip rectangle is on the screen.
  View far_right = stretched(kPlain, all, {3, 5, kFarAway, height - 2});
  far_right.clip = {1, 2, width / 2, height / 3};
  View far_down = stretched(kPlain, all, {3, 5, width - 4, kFarAway});
  far_down.clip = {1, 2, width / 2, height / 3};
  View blended = placed(kSecond, part, 5, height / 2);
  blended.blend = true;
  struct Two {
    std::optional<View> above, below;
  };
  const Two all_scenes[] = {
      {placed(kSecond, part, part.left, part.top), first},
      {placed(kSecond, part, width - part.right + part.left, height - part.bottom + part.top),
       first},
      {placed(kSecond, part, 0, 0), third},
      {clipped, third},
      {stretched(kPlain, part, wide), third},
      {stretched(kPlain, all, part), third},
      {blended, third},
      {clear, third},
      {seen_through, third},
      {far_right, third},
      {far_down, third},
      {placed(kFirst, part, 7, 9), stretched(kPlain, part, wide)},
      {placed(kThird, part, 7, 9), std::nullopt},
      {std::nullopt, std::nullopt},
      {std::nullopt, placed(kSecond, part, 1, 1)},
  };
  std::vector<Scene> result;
  for (const Two& two : all_scenes) {
    Scene scene(now_.size());
    if (scene.size() > 1) scene.back() = two.below;
    scene.front() = two.above;
    result.push_back(std::move(scene));
  }
  return result;
}

Answer<void> Planes::run() {
  DXGKIT_VERIFY_TRY(owner_.open());
  DXGKIT_VERIFY_TRY(make_surfaces());
  if (skipped_.empty()) DXGKIT_VERIFY_TRY(take_pictures());
  if (!skipped_.empty()) return owner_.close();
  DXGKIT_VERIFY_TRY(ask_too_much());
  const RECT all{0, 0, static_cast<LONG>(mode_.width), static_cast<LONG>(mode_.height)};
  Scene whole(now_.size());
  whole.back() = placed(kFirst, all, 0, 0);
  if (wrong_.empty()) {
    const Answer<bool> shown = show(whole, "one plane as large as the screen");
    if (!shown) return std::unexpected(shown.error());
    if (!*shown && wrong_.empty()) {
      wrong_ = fmt::format(
          "MaxOverlayPlanes is {}, and a primary cannot be shown as the only plane", now_.size());
      report("DISP-27", "DxgkDdiCheckMultiPlaneOverlaySupport", wrong_ + ".");
    }
  }
  for (const Scene& scene : scenes()) {
    if (!wrong_.empty()) break;
    const Answer<bool> shown = show(scene, "several planes");
    if (!shown) return std::unexpected(shown.error());
  }
  if (wrong_.empty()) DXGKIT_VERIFY_TRY(ask_outside());
  if (wrong_.empty()) DXGKIT_VERIFY_TRY(show_turned());
  if (wrong_.empty()) {
    DXGKIT_VERIFY_TRY(owner_.show(surfaces_[kThird].allocation));
    DXGKIT_VERIFY_TRY(owner_.settle());
    if (std::string wrong = await({pictures_[kThird]}); !wrong.empty()) {
      wrong_ = "After the mode is set again " + wrong;
      report("DISP-39", "DxgkDdiSetVidPnSourceAddress",
             wrong_ + ": planes are off then, and the primary is shown alone.");
    }
  }
  return owner_.close();
}

/// CAPS-17. False: reported.
bool judge_caps(Bench& bench, uint32_t most) {
  if (bench.interface_version() < kInterfaceWddm13) return true;
  DXGK_DRIVERCAPS raw{};  // what the declared version does not have is 0
  const std::span<const std::byte> told = bench.exercise().caps().raw;
  std::memcpy(&raw, told.data(), std::min(told.size(), sizeof(raw)));
  if (raw.SupportMultiPlaneOverlay == FALSE || most != 0) return true;
  bench.findings().report(
      {.rule = "CAPS-17",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
       .actual = "SupportMultiPlaneOverlay is set, and MaxOverlayPlanes is 0.",
       .expected = "A driver that shows overlay planes says how many.",
       .fix = "Set both members where the driver has the entries for planes, or none of them."});
  return false;
}

Outcome planes(Bench& bench) {
  if (bench.display_only()) return Outcome::skipped("display-only drivers have no planes");
  const uint32_t most =
      port::flip_caps_of(bench.exercise().caps(), bench.interface_version()).max_overlay_planes;
  if (!judge_caps(bench, most)) return Outcome::failed("the caps of planes contradict each other");
  if (most == 0) return Outcome::skipped("its caps have no overlay planes: MaxOverlayPlanes is 0");
  if (bench.plugin() == nullptr)
    return Outcome::skipped("it takes --client, whose user mode makes primaries");
  if (bench.screen() == nullptr) return Outcome::skipped("the device's screen cannot be seen");
  const Answer<std::vector<dxgk::DisplaySource>> sources = shown_sources(bench);
  if (!sources) return Outcome::failed(sources.error());
  const auto source = std::ranges::find_if(*sources, &dxgk::DisplaySource::visible);
  if (source == sources->end())
    return Outcome::skipped("nothing is shown: no monitor is connected");
  Planes planes(bench, *source, most);
  const Answer<void> done = planes.run();
  if (!done) return Outcome::failed(done.error());
  if (!planes.skipped().empty()) return Outcome::skipped(planes.skipped());
  if (!planes.wrong().empty()) return Outcome::failed(planes.wrong());
  return Outcome::ok(fmt::format("{} of {} seen on the screen; {} refused",
                                 counted(planes.shown(), "picture"), counted(most, "plane"),
                                 planes.refused()));
}

constexpr Step kSteps[] = {
    {"planes", "a client shows overlay planes", Step::Needs::kDisplay, planes},
};

}  // namespace

std::span<const Step> plane_steps() { return kSteps; }

}  // namespace dxgkit::tool::verify
