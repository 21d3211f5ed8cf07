#include "port/core/display_situations.h"

#include <algorithm>

namespace dxgkit::port {

void DisplaySituations::enumerated(EnumPivot pivot) {
  switch (pivot) {
    case EnumPivot::kNone:
      return reach(Situation::kVidpnPivotNone, true);
    case EnumPivot::kSource:
      return reach(Situation::kVidpnPivotSource, true);
    case EnumPivot::kTarget:
      return reach(Situation::kVidpnPivotTarget, true);
    case EnumPivot::kScaling:
      return reach(Situation::kVidpnPivotScaling, true);
    case EnumPivot::kRotation:
      return reach(Situation::kVidpnPivotRotation, true);
  }
}

void DisplaySituations::committed() {
  const SpinGuard guard(lock_);
  reach(was_committed_ ? Situation::kVidpnCommitSecond : Situation::kVidpnCommit, true);
  was_committed_ = true;
}

void DisplaySituations::visible(uint32_t source, bool visible) {
  reach(visible ? Situation::kVidpnShown : Situation::kVidpnHidden, true);
  const SpinGuard guard(lock_);
  sources_[source].hidden = !visible;
}

void DisplaySituations::presented(const PresentDisplayOnlyArgs& args) {
  const SpinGuard guard(lock_);
  Source& source = sources_[args.source];
  for (const Rect& rect : args.dirty) {
    source.width = std::max(source.width, rect.right);
    source.height = std::max(source.height, rect.bottom);
  }
  const bool whole = args.moves.empty() && args.dirty.size() == 1 &&
                     args.dirty.front() == Rect{0, 0, source.width, source.height};
  reach(Situation::kPresentDisplayOnlyWhole, whole);
  reach(Situation::kPresentDisplayOnlyPart, !whole && !args.dirty.empty());
  reach(Situation::kPresentDisplayOnlyMoves, !args.moves.empty());
  reach(Situation::kPresentDisplayOnlyMovesAndParts, !args.moves.empty() && !args.dirty.empty());
  const int64_t row = int64_t{source.width} * args.bytes_per_pixel;
  reach(Situation::kPresentDisplayOnlyPitch, source.width != 0 && args.pitch_bytes > row);
  reach(Situation::kPresentDisplayOnlyHidden, source.hidden);
}

void DisplaySituations::pointer_shaped(const PointerShape& shape) {
  reach(Situation::kPointerColor, shape.format == PointerShape::Format::kColor);
}

void DisplaySituations::pointer_moved(int32_t x, int32_t y, bool visible) {
  reach(Situation::kPointerMoved, true);
  reach(Situation::kPointerOutside, x < 0 || y < 0);
  reach(Situation::kPointerHidden, !visible);
}

void DisplaySituations::address_set(SourceAddressArgs::Kind kind) {
  using Kind = SourceAddressArgs::Kind;
  reach(Situation::kScanoutModeChange, kind == Kind::kModeChange);
  reach(Situation::kScanoutFlipImmediate, kind == Kind::kFlipImmediate);
  reach(Situation::kScanoutFlipVsync, kind == Kind::kFlipOnNextVsync);
}

}  // namespace dxgkit::port
