#include "dxgk/va/piece_sources.h"

#include <algorithm>
#include <optional>

#include "dxgk/core/adapter_core.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/va/resident_places.h"
#include "dxgk/va/stand_in_pages.h"
#include "dxgk/va/system_pages.h"

namespace dxgkit::dxgk {
namespace {

/// DXGK_ALLOCATIONINFOFLAGS_WDDM2_0.DisableLargePageMapping.
constexpr uint32_t kDisableLargePages = 1U << 7;

}  // namespace

void MappedPieces::pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const {
  const size_t before = out->size();
  space_.addresses.for_each_in(
      window, [&](const gpuva::Mapping& mapping) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {  // called here
        append(mapping, out);
      });
  if (space_.fixed.empty()) return;
  auto at = space_.fixed.upper_bound(window.first_page);
  if (at != space_.fixed.begin()) --at;
  for (; at != space_.fixed.end() && at->first < window.end_page(); ++at) {
    const gpuva::PageSpan whole = at->second.span;
    const uint64_t first = std::max(whole.first_page, window.first_page);
    const uint64_t end = std::min(whole.end_page(), window.end_page());
    if (first >= end) continue;
    gpuva::Piece piece = at->second;
    piece.source = piece.source.after(first - whole.first_page);
    piece.span = {first, end - first};
    out->push_back(piece);
  }
  std::sort(out->begin() + static_cast<std::ptrdiff_t>(before), out->end(),
            [](const gpuva::Piece& a, const gpuva::Piece& b) {
              return a.span.first_page < b.span.first_page;
            });
}

void MappedPieces::append(const gpuva::Mapping& mapping, std::vector<gpuva::Piece>* out) const {
  gpuva::Piece piece;
  piece.span = mapping.span;
  piece.driver_protection = mapping.driver_protection;
  piece.allocation = mapping.allocation;
  piece.offset_pages = mapping.offset_pages;
  if (mapping.protection.zero) {
    piece.source = floor_.stand_ins->zeros();
  } else if (const std::optional<gpuva::PteSource> system =
                 floor_.system_pages->source(mapping.allocation)) {
    piece.source = *system;
    piece.allocation = gpuva::kNoAllocation;  // no driver knows it
  } else if (mapping.allocation != gpuva::kNoAllocation) {
    const vidmm::Placement* const where = floor_.places->find(mapping.allocation);
    if (where != nullptr) {
      place(mapping, *where, out, piece);
      return;
    }
  }
  out->push_back(piece);
}

void MappedPieces::place(const gpuva::Mapping& mapping, const vidmm::Placement& where,
                         std::vector<gpuva::Piece>* out, gpuva::Piece piece) const {
  const gpuva::Geometry& geometry = floor_.spaces->geometry();
  vidmm::MemoryManager& memory = floor_.core.memory();
  const vidmm::SegmentDesc& segment = memory.segments()[where.segment.value - 1];
  const Allocation& allocation = floor_.allocations.at(mapping.allocation);
  piece.source.kind = gpuva::PteSource::Kind::kRun;
  piece.source.segment = where.segment;
  piece.source.read_only = !mapping.protection.write && geometry.read_only;
  piece.source.no_execute = !mapping.protection.execute && geometry.no_execute;
  piece.source.cache_coherent =
      allocation.cached && geometry.cache_coherent && segment.kind == vidmm::SegmentKind::kAperture;
  piece.pages_64k = segment.use_64kb_pages &&
                    memory.description(mapping.allocation).alignment_bytes % (16 * kPageBytes) == 0;
  piece.large_pages = geometry.large_pages && (allocation.info_flags & kDisableLargePages) == 0;
  const uint64_t base = where.offset_bytes / kPageBytes;
  gpuva::for_each_stretch(mapping, [&](gpuva::PageSpan span, uint64_t page) {  // VA-37
    piece.span = span;
    piece.offset_pages = page;
    piece.source.first_page = base + page;
    out->push_back(piece);
  });
}

void AllBut::pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const {
  uint64_t page = window.first_page;
  for (const gpuva::PageSpan& span : hidden_) {
    if (span.end_page() <= page) continue;
    if (span.first_page >= window.end_page()) break;
    if (page < span.first_page) others_.pieces_in({page, span.first_page - page}, out);
    page = span.end_page();
  }
  if (page < window.end_page()) others_.pieces_in({page, window.end_page() - page}, out);
}

void AllThere::pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const {
  const size_t before = out->size();
  others_.pieces_in(window, out);
  for (gpuva::Piece& piece : std::span(*out).subspan(before)) {
    if (piece.source.valid()) continue;
    piece.source.kind = gpuva::PteSource::Kind::kSame;
    piece.source.first_page = dummy_page_;
  }
}

}  // namespace dxgkit::dxgk
