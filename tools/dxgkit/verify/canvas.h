// Pictures by which a screen is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dxgk/displays.h"
#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// The sources that show something.
Answer<std::vector<dxgk::DisplaySource>> shown_sources(Bench& bench);

/// Nothing can be seen on it: it is off, or black.
bool is_dark(const bus::ScreenImage& image);

/// Waits until the device's screen is as it should be, at most two seconds: a driver may give its
/// work to a queue, and a real screen is late where others compute. False: it never was. Returns at
/// once, and is no scheduling point, if it is right already. Bench::screen is not null.
template <typename Right>
bool await_screen(Bench& bench, const Right& right) {
  if (right(bench.screen()->image())) return true;
  const runtime::TimeNs deadline = bench.runtime().now() + 2 * runtime::kSecond;
  while (bench.runtime().now() < deadline) {
    bench.runtime().sleep_for(10 * runtime::kMillisecond);
    if (right(bench.screen()->image())) return true;
  }
  return false;
}

/// The picture that a source of a display-only driver should show, and presents of it.
///
/// Every present is compared with the screen, where that can be read. A difference is a finding
/// (DOD-10), and the error of the call.
class Canvas {
 public:
  Canvas(Bench& bench, uint32_t source, const dxgk::DisplayMode& mode);

  const dxgk::DisplayMode& mode() const { return mode_; }
  /// A new picture, presented whole.
  Answer<void> present_all();
  /// The rectangles get new content, and are presented from rows that are `padding_bytes` longer
  /// than the mode's.
  Answer<void> present_rects(std::span<const port::Rect> rects, uint32_t padding_bytes);
  /// The stretches move, one after the other; then the rectangles get new content.
  Answer<void> present_moves(std::span<const port::MoveRect> moves,
                             std::span<const port::Rect> rects);
  /// The same picture as a request, for a present that somebody else makes.
  dxgk::DisplayPresent whole() const;
  /// Compares the screen with the picture.
  Answer<void> compare(const std::string& when);

  size_t presents() const { return presents_; }
  size_t compared() const { return compared_; }

 private:
  /// The same with the device's screen, if it shows this source alone.
  Answer<void> compare_screen(const std::string& when);
  Answer<void> judge(const std::string& when, const std::string& difference);
  void draw(const port::Rect& rect);
  Answer<void> present(std::span<const port::MoveRect> moves, std::span<const port::Rect> rects,
                       uint32_t padding_bytes, const char* why);

  Bench& bench_;
  const uint32_t source_;
  const dxgk::DisplayMode mode_;
  std::vector<std::byte> pixels_;
  size_t presents_ = 0, compared_ = 0;
};

}  // namespace dxgkit::tool::verify
