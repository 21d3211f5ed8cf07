// Finds the work that makes tables agree with the mappings. Private to the module.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "gpuva/table_tree.h"

namespace dxgkit::gpuva {

/// The result of a draft for one leaf.
struct LeafWork {
  uint64_t number = 0;
  Leaf* leaf = nullptr;  // null: there is no such leaf
  PageSpan window;       // entries to be written
  size_t first_piece = 0, pieces = 0;
  Shape shape = Shape::kTable;
  bool falls_back = false;    // a table of 64 KiB pages becomes one of 4 KiB pages
  bool nothing_left = false;  // nothing is mapped in the whole leaf
  bool several = false;       // more than one changed span is in it
};

/// The content of a draft.
struct DraftWork {
  uint64_t version = 0;  // of the tables
  std::vector<TableNeed> needs;
  std::vector<TableKey> keys;  // of the needs
  std::vector<LeafWork> leaves;
  std::vector<Piece> pieces;
  // While it is made:
  PageSpans spans;
  std::vector<Piece> mapped;  // in the spans
};

struct PageTables::Draft::Body {
  DraftWork work;
};
struct PageTables::State : TableTree {
  using TableTree::TableTree;
  std::unique_ptr<Draft::Body> spare;  // memory of a draft that was committed
};

/// Finds the leaves that changed spans concern, and decides the fate of each.
class TableDrafter {
 public:
  TableDrafter(TableTree& tree, const PieceSource& source, DraftWork* work)
      : tree_(tree), source_(source), work_(*work) {}
  void make(std::span<const PageSpan> changed, bool with_root);

 private:
  void take_spans(std::span<const PageSpan> changed);
  void collect(const PageSpan& span);
  void add_leaf(uint64_t number, Leaf* leaf, const PageSpan& span);
  void size_root();
  void want_root();
  void read(LeafWork* work, PageSpan window);
  void take_known(LeafWork* work);
  bool decide(LeafWork* work);
  void decide_shape(LeafWork* work);
  bool is_large(const LeafWork& work) const;
  bool maps_nothing(const LeafWork& work) const;
  void want(const TableKey& key, TableNeed need);
  void want_directories(uint64_t leaf);
  void want_directory(const TableKey& key);
  void want_leaf(const LeafWork& work);

  std::span<const Piece> pieces_of(const LeafWork& work) const {
    return {work_.pieces.data() + work.first_piece, work.pieces};
  }

  TableTree& tree_;
  const PieceSource& source_;
  DraftWork& work_;
  size_t known_ = 0;           // the first mapped piece that may concern the next leaf
  uint64_t root_entries_ = 0;  // for a growing root
  std::set<TableKey> wanted_;
};

}  // namespace dxgkit::gpuva
