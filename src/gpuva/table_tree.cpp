#include "gpuva/table_tree.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace dxgkit::gpuva {
namespace {

bool aligned_to_unit(const Piece& piece) {
  return piece.span.first_page % kUnit == 0 && piece.span.pages % kUnit == 0;
}

}  // namespace

/// True if address and place are equal modulo 64 KiB, where 64 KiB pages are allowed (VA-43).
bool TableTree::run_may_be_64k(const Piece& piece) const {
  if (piece.source.kind != PteSource::Kind::kRun || !piece.pages_64k) return false;
  if (piece.source.segment == kSystemMemory && !geometry.system_64k_pages) return false;
  return piece.source.first_page % kUnit == piece.span.first_page % kUnit;
}

/// The whole 64 KiB pages in a piece; no pages if there are none, or it may not use such pages.
PageSpan TableTree::units_of(const Piece& piece) const {
  const uint64_t first = align_up(piece.span.first_page, kUnit);
  const uint64_t end = align_down(piece.span.end_page(), kUnit);
  if (!run_may_be_64k(piece) || first >= end) return {};
  return {first, end - first};
}

/// True if the piece may be mapped with 64 KiB pages only: it begins and ends at their borders.
bool TableTree::fits_64k(const Piece& piece) const {
  switch (piece.source.kind) {
    case PteSource::Kind::kInvalid:
      return true;
    case PteSource::Kind::kZero:
      return aligned_to_unit(piece);
    case PteSource::Kind::kRun:
      return run_may_be_64k(piece) && aligned_to_unit(piece);
    case PteSource::Kind::kFrames:
    case PteSource::Kind::kSame:
      return false;
  }
  return false;
}

}  // namespace dxgkit::gpuva
