// Frames that a program fetched to show them, as pictures, and the last of them for a report.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/runtime.h"
#include "tools/dxgkit/gl/session.h"
#include "tools/dxgkit/picture.h"

namespace dxgkit::gl {

/// What the frame shows now. Of a frame with more than `side_most` columns or rows each n-th pixel
/// of each n-th row. nullopt: it is in a format that windows do not have, or its memory is too
/// short.
std::optional<tool::Picture> picture_of(const Frame& frame, uint32_t side_most);

/// A frame at the time when the program got it.
struct KeptFrame {
  uint64_t number = 0;  // of the program's frames, from 1
  runtime::TimeNs time = 0;
  uint32_t width = 0, height = 0;  // in the window
  tool::Picture picture;           // with fewer pixels if the window is large
};

/// The last frames of one program. Not thread-safe.
class FrameLog {
 public:
  static constexpr size_t kKept = 4;
  static constexpr uint32_t kSideMost = 640;

  /// Copies the frame. One in another format is left out.
  void add(const Frame& frame, uint64_t number, runtime::TimeNs time);
  /// The last ones, the oldest first. The log is empty then.
  std::vector<KeptFrame> take();

 private:
  std::deque<KeptFrame> kept_;
};

}  // namespace dxgkit::gl
