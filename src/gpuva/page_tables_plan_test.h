// Helpers of the tests of single plans: shapes of tables, pieces by hand, a plan as text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpuva/page_tables.h"
#include "gpuva/table_memory_test.h"

namespace dxgkit::gpuva {

inline Geometry four_levels() {
  Geometry geometry;
  geometry.level_count = 4;
  geometry.va_bits = 48;
  for (uint32_t level = 0; level < 4; ++level)
    geometry.levels[level] = {.index_bits = 9, .table_bytes = 4096, .alignment_bytes = 4096};
  geometry.invalid_entries_not_cached = true;
  return geometry;
}
inline Geometry two_levels() {
  Geometry geometry = four_levels();
  geometry.level_count = 2;
  geometry.va_bits = 40;
  geometry.levels[1] = {.index_bits = 0, .table_bytes = 0, .alignment_bytes = 4096};
  return geometry;
}

/// Pieces by hand.
class Pieces : public PieceSource {
 public:
  void pieces_in(PageSpan window, std::vector<Piece>* pieces) const override {
    for (const Piece& piece : all) {
      const uint64_t first = std::max(piece.span.first_page, window.first_page);
      const uint64_t end = std::min(piece.span.end_page(), window.end_page());
      if (first >= end) continue;
      Piece part = piece;
      part.span = {first, end - first};
      part.source = piece.source.after(first - piece.span.first_page);
      part.offset_pages += first - piece.span.first_page;
      pieces->push_back(part);
    }
    ++reads;
  }
  std::vector<Piece> all;
  mutable size_t reads = 0;
};

class PageTablesTest : public ::testing::Test {
 protected:
  void use(const Geometry& geometry) {
    tables_ = std::make_unique<PageTables>(geometry);
    memory_ = std::make_unique<TableMemory>(geometry);
  }
  static PteSource run(uint64_t first, uint32_t segment = 1) {
    return {.kind = PteSource::Kind::kRun, .segment = SegmentId{segment}, .first_page = first};
  }
  /// Plans and carries out; the plan as text, one word per step.
  std::string update(std::vector<PageSpan> changed, uint64_t spare_root = 0) {
    PageTables::Draft draft = tables_->draft(changed, pieces_);
    needs_ = draft.needs();
    plan_.clear();
    tables_->commit(std::move(draft), memory_->allocate(needs_, spare_root), &plan_);
    memory_->execute(plan_);
    EXPECT_TRUE(tables_->validate());
    return text();
  }
  std::string text() const {
    std::string text;
    for (const Step& step : plan_.steps) {
      if (!text.empty()) text += " ";
      switch (step.kind) {
        case Step::Kind::kInvalidate:
          text += step.initial ? "init" : "invalidate";
          break;
        case Step::Kind::kWriteEntries:
          text += step.large_page ? "large" : step.source.valid() ? "write" : "clear";
          break;
        case Step::Kind::kWriteDirectory:
          text += plan_.children[step.first_child].table == kNoTable &&
                          plan_.children[step.first_child].table_64k == kNoTable
                      ? "cut"
                      : "link";
          break;
        case Step::Kind::kSetRoot:
          text += "root";
          break;
        case Step::Kind::kFlush:
          text += "flush";
          break;
        case Step::Kind::kFree:
          text += "free";
          break;
      }
      if (step.kind != Step::Kind::kFlush) text += std::to_string(step.level);
      if (step.of_64k_pages) text += "k";
    }
    return text;
  }

  std::unique_ptr<PageTables> tables_;
  std::unique_ptr<TableMemory> memory_;
  Pieces pieces_;
  Plan plan_;
  std::vector<TableNeed> needs_;
};

}  // namespace dxgkit::gpuva
