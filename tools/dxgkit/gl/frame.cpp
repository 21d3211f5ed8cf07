#include "tools/dxgkit/gl/frame.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dxgkit::gl {
namespace {

/// Of the formats that windows have.
constexpr uint32_t kFormatsBgr[] = {1, 2}, kFormatsRgb[] = {67, 134};

}  // namespace

std::optional<tool::Picture> picture_of(const Frame& frame, uint32_t side_most) {
  const auto& [resource, memory] = frame;
  const bool bgr = std::ranges::find(kFormatsBgr, resource.format) != std::end(kFormatsBgr);
  const bool rgb = std::ranges::find(kFormatsRgb, resource.format) != std::end(kFormatsRgb);
  if (!bgr && !rgb) return std::nullopt;
  if (resource.width == 0 || resource.height == 0) return std::nullopt;
  const auto bytes = memory->bytes();
  const uint64_t row_bytes = uint64_t{resource.width} * tool::kPixelBytes;
  if (bytes.size() / row_bytes < resource.height) return std::nullopt;
  const uint32_t side = std::max(resource.width, resource.height);
  const uint32_t step = (side - 1) / side_most + 1;
  tool::Picture picture{.width = (resource.width - 1) / step + 1,
                        .height = (resource.height - 1) / step + 1,
                        .pixels = {}};
  picture.pixels.reserve(picture.size_bytes());
  for (uint32_t y = 0; y < picture.height; ++y) {
    for (uint32_t x = 0; x < picture.width; ++x) {
      const auto pixel = bytes.subspan(
          y * step * row_bytes + uint64_t{x} * step * tool::kPixelBytes, tool::kPixelBytes);
      for (const size_t colour : {bgr ? 2U : 0U, 1U, bgr ? 0U : 2U})
        picture.pixels.push_back(static_cast<uint8_t>(pixel[colour]));
      picture.pixels.push_back(0xFF);
    }
  }
  return picture;
}

void FrameLog::add(const Frame& frame, uint64_t number, runtime::TimeNs time) {
  auto picture = picture_of(frame, kSideMost);
  if (!picture.has_value()) return;
  if (kept_.size() == kKept) kept_.pop_front();
  kept_.push_back({.number = number,
                   .time = time,
                   .width = frame.resource.width,
                   .height = frame.resource.height,
                   .picture = std::move(*picture)});
}

std::vector<KeptFrame> FrameLog::take() {
  std::deque<KeptFrame> taken = std::exchange(kept_, {});
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

}  // namespace dxgkit::gl
