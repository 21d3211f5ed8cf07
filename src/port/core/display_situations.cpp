#include "port/core/display_situations.h"

#include <algorithm>

namespace dxgkit::port {
namespace {

constexpr uint32_t kDescriptorBlock = 128;  // as the kernel asks for them

}  // namespace

void DisplaySituations::enumerated(EnumPivot pivot) {
  switch (pivot) {
    case EnumPivot::kNone:
      return log_.reach(Situation::kVidpnPivotNone);
    case EnumPivot::kSource:
      return log_.reach(Situation::kVidpnPivotSource);
    case EnumPivot::kTarget:
      return log_.reach(Situation::kVidpnPivotTarget);
    case EnumPivot::kScaling:
      return log_.reach(Situation::kVidpnPivotScaling);
    case EnumPivot::kRotation:
      return log_.reach(Situation::kVidpnPivotRotation);
  }
}

void DisplaySituations::committed() {
  const SpinGuard guard(lock_);
  log_.reach(was_committed_ ? Situation::kVidpnCommitSecond : Situation::kVidpnCommit);
  was_committed_ = true;
}

void DisplaySituations::visible(uint32_t source, bool visible) {
  log_.reach(visible ? Situation::kVidpnShown : Situation::kVidpnHidden);
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
  log_.reach(Situation::kPresentDisplayOnlyWhole, whole);
  log_.reach(Situation::kPresentDisplayOnlyPart, !whole && !args.dirty.empty());
  log_.reach(Situation::kPresentDisplayOnlyMoves, !args.moves.empty());
  log_.reach(Situation::kPresentDisplayOnlyMovesAndParts,
             !args.moves.empty() && !args.dirty.empty());
  const int64_t row = int64_t{source.width} * args.bytes_per_pixel;
  log_.reach(Situation::kPresentDisplayOnlyPitch, source.width != 0 && args.pitch_bytes > row);
  log_.reach(Situation::kPresentDisplayOnlyHidden, source.hidden);
}

void DisplaySituations::pointer_shaped(const PointerShape& shape) {
  log_.reach(Situation::kPointerColor, shape.format == PointerShape::Format::kColor);
}

void DisplaySituations::pointer_moved(int32_t x, int32_t y, bool visible) {
  log_.reach(Situation::kPointerMoved);
  log_.reach(Situation::kPointerOutside, x < 0 || y < 0);
  log_.reach(Situation::kPointerHidden, !visible);
}

void DisplaySituations::address_set(SourceAddressArgs::Kind kind) {
  using Kind = SourceAddressArgs::Kind;
  log_.reach(Situation::kScanoutModeChange, kind == Kind::kModeChange);
  log_.reach(Situation::kScanoutFlipImmediate, kind == Kind::kFlipImmediate);
  log_.reach(Situation::kScanoutFlipVsync, kind == Kind::kFlipOnNextVsync);
}

void DisplaySituations::descriptor_asked(uint32_t offset, uint32_t bytes, size_t size) {
  const size_t left = offset < size ? size - offset : 0;
  log_.reach(Situation::kMonitorDescriptorPart, bytes < kDescriptorBlock && bytes <= left);
  log_.reach(Situation::kMonitorDescriptorEnd, bytes > left);
}

void DisplaySituations::has_descriptor() {
  log_.add(verifier::SituationFact::kMonitorDescriptor, true);
}

}  // namespace dxgkit::port
