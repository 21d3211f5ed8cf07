// Sources of pieces that change what another source says.
#include "dxgk/va/piece_sources.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace dxgkit::dxgk {
namespace {

using Kind = gpuva::PteSource::Kind;

/// Shows page N at N + 1000, except pages that a multiple of 8 begins: they are nowhere.
class Others final : public gpuva::PieceSource {
 public:
  void pieces_in(gpuva::PageSpan window, std::vector<gpuva::Piece>* out) const override {
    for (uint64_t page = window.first_page; page < window.end_page(); ++page) {
      gpuva::Piece piece;
      piece.span = {page, 1};
      if (page % 8 != 0) {
        piece.source = {.kind = Kind::kRun, .segment = SegmentId{1}, .first_page = page + 1000};
      }
      out->push_back(piece);
    }
  }
};

std::vector<uint64_t> pages_of(const gpuva::PieceSource& source, gpuva::PageSpan window) {
  std::vector<gpuva::Piece> pieces;
  source.pieces_in(window, &pieces);
  std::vector<uint64_t> pages;
  for (const gpuva::Piece& piece : pieces) {
    EXPECT_EQ(piece.span.pages, 1U);
    pages.push_back(piece.span.first_page);
  }
  return pages;
}

TEST(PieceSources, NothingIsSaidOfWhatIsHidden) {
  const Others others;
  const gpuva::PageSpans hidden{{10, 5}, {20, 1}, {30, 10}};
  const AllBut some(others, hidden);
  const auto expected = [&](gpuva::PageSpan window) {
    std::vector<uint64_t> pages;
    for (uint64_t page = window.first_page; page < window.end_page(); ++page) {
      bool is_hidden = false;
      for (const gpuva::PageSpan& span : hidden)
        is_hidden = is_hidden || (page >= span.first_page && page < span.end_page());
      if (!is_hidden) pages.push_back(page);
    }
    return pages;
  };
  // Windows that end before, at, in and behind each span, and begin there.
  for (uint64_t first = 0; first < 45; ++first) {
    for (uint64_t pages = 0; pages < 45; ++pages) {
      const gpuva::PageSpan window{first, pages};
      ASSERT_EQ(pages_of(some, window), expected(window)) << first << " " << pages;
    }
  }
}

TEST(PieceSources, WhatIsNowhereIsShownByTheKernelsPage) {
  const Others others;
  const AllThere all(others, 77);
  std::vector<gpuva::Piece> pieces(1);  // what is there already stays as it is
  all.pieces_in({7, 11}, &pieces);
  ASSERT_EQ(pieces.size(), 12U);
  EXPECT_EQ(pieces[0].source.kind, Kind::kInvalid);
  for (size_t i = 1; i < pieces.size(); ++i) {
    const uint64_t page = 6 + i;
    const bool nowhere = page % 8 == 0;
    EXPECT_EQ(pieces[i].span, (gpuva::PageSpan{page, 1}));
    EXPECT_EQ(pieces[i].source.kind, nowhere ? Kind::kSame : Kind::kRun);
    EXPECT_EQ(pieces[i].source.first_page, nowhere ? 77 : page + 1000);
  }
}

}  // namespace
}  // namespace dxgkit::dxgk
