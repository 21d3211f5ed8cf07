// The page tables of one address space: which tables exist, and which entries to write.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpuva/geometry.h"
#include "gpuva/pte.h"
#include "gpuva/types.h"

namespace dxgkit::gpuva {

/// A table, numbered by the kernel, which owns its memory. Not 0.
using TableId = StrongId<struct TableIdTag, uint64_t>;
inline constexpr TableId kNoTable{0};

/// Consecutive pages that are mapped the same way.
struct Piece {
  PageSpan span;
  PteSource source;
  uint64_t driver_protection = 0;
  AllocationId allocation = kNoAllocation;  // for information
  uint64_t offset_pages = 0;                // inside the allocation, likewise
  /// kRun: 64 KiB pages are allowed: the allocation is aligned to 64 KiB in a segment that uses
  /// them (VA-43). The pages need not fit; the planner looks.
  bool pages_64k = false;
  /// kRun: large pages are allowed for the allocation (VA-46).
  bool large_pages = false;
};

/// Tells the planner about mappings. The planner asks for the pages that changed, and for
/// neighbouring pages where it must know them.
class PieceSource {
 public:
  virtual ~PieceSource() = default;
  /// Appends the pieces that meet a window, cut to it, in order. A mapped page that is not resident
  /// is in a piece with an invalid source. An unmapped page is in no piece.
  virtual void pieces_in(PageSpan window, std::vector<Piece>* pieces) const = 0;
};

/// A table that must be allocated before a draft can be committed.
struct TableNeed {
  uint32_t level = 0;
  bool of_64k_pages = false;  // a leaf of 64 KiB pages; indices count 4 KiB all the same
  bool grows_root = false;    // replaces the root; two levels only (VA-05)
  PageSpan span;              // the pages that it covers; a root: from 0
  uint64_t entries = 0;       // a growing root: the least number
  uint32_t bytes = 0;         // a growing root: 0, because the driver says the size
  uint32_t alignment_bytes = 0;
};
/// The answer to a need. Grants are in the order of the needs.
struct TableGrant {
  TableId table;
  uint64_t entries = 0;  // a growing root: its number of entries; else ignored
};

/// The target of a directory entry. Without a table the entry is invalid.
struct ChildTables {
  TableId table = kNoTable;
  TableId table_64k = kNoTable;  // dual entries: the leaf of 64 KiB pages
  bool of_64k_pages = false;     // single entries: `table` is a leaf of 64 KiB pages (VA-44)
  bool operator==(const ChildTables&) const = default;
};

/// One step of a plan. Steps are executed in order.
struct Step {
  enum class Kind : uint8_t {
    kInvalidate,    // write all `count` entries of a table invalid; `initial`: it is new (PAGE-33)
    kWriteEntries,  // entries [start_index, + count) of a leaf (or, with LargePage, of level 1)
    kWriteDirectory,  // entries [start_index, + count) of a directory: `children` of the plan
    kSetRoot,         // contexts use `table` with `count` entries as root from now on (VA-06)
    kFlush,           // forget translations of `span` (PAGE-37)
    kFree,            // no entry refers to the table any more
  };
  Kind kind = Kind::kFlush;
  TableId table = kNoTable;
  uint32_t level = 0;
  uint64_t start_index = 0;
  uint64_t count = 0;
  bool repeat = false;        // kWriteEntries, kInvalidate: one entry for all (PAGE-34)
  bool initial = false;       // kInvalidate
  bool of_64k_pages = false;  // the leaf is one of 64 KiB pages; indices still count 4 KiB (VA-04)
  bool large_page = false;    // kWriteEntries at level 1: pages as large as a leaf covers
  PageSpan span;              // the pages that the entries cover; kFlush: the pages to flush
  PteSource source;           // kWriteEntries, from its first entry on
  uint64_t driver_protection = 0;  // 0 except at level 0 (PAGE-35)
  AllocationId allocation = kNoAllocation;
  uint64_t offset_pages = 0;
  size_t first_child = 0;  // kWriteDirectory: the first of `count` elements of Plan::children
};

struct Plan {
  std::vector<Step> steps;
  std::vector<ChildTables> children;
  /// All contexts of the address space must be idle from before the first step until after the last
  /// (PAGE-38, VA-44).
  bool contexts_idle = false;
  /// Empties the plan and keeps its memory.
  void clear() {
    steps.clear();
    children.clear();
    contexts_idle = false;
  }
};

/// The entries of a kWriteEntries or kInvalidate step from the `first`-th on; one if the step
/// repeats. `leaf_pages`: Geometry::leaf_pages().
void fill_step(const Step& step, uint64_t first, std::span<Pte> entries, uint64_t leaf_pages);
/// A directory entry with the place of the child's memory, in pages of its segment (0: system
/// address).
Pte directory_pte(SegmentId segment, uint64_t page, bool of_64k_pages);

/// Lane: the adapter's. Knows which tables exist and which of their entries are valid. The kernel
/// allocates and frees the memory of tables, and executes plans in the order in which they were
/// made.
class PageTables {
 public:
  /// @param geometry  has been checked.
  explicit PageTables(const Geometry& geometry);
  ~PageTables();
  PageTables(PageTables&&) noexcept;
  PageTables& operator=(PageTables&&) noexcept;

  const Geometry& geometry() const;

  /// The work that makes the tables agree with `source` for the `changed` pages. It belongs to the
  /// present state of the tables and of the source.
  class Draft {
   public:
    /// Makes an empty draft, to be assigned to.
    Draft();
    ~Draft();
    Draft(Draft&&) noexcept;
    Draft& operator=(Draft&&) noexcept;
    /// Tables that must be allocated first. Empty if entries only become invalid.
    const std::vector<TableNeed>& needs() const;

   private:
    friend class PageTables;
    struct Body;
    std::unique_ptr<Body> body_;
  };
  /// Changes nothing. Spans may overlap and come in any order. If tables change before `commit`, or
  /// the source's answers for the spans do (allocating tables may evict an allocation), throw the
  /// draft away and draft again.
  /// `with_root`: a root is wanted even if nothing is mapped yet. A root stays once it is there.
  Draft draft(std::span<const PageSpan> changed, const PieceSource& source,
              bool with_root = false) const;
  /// Appends the steps, and assumes that they will be executed. `grants` answers `draft.needs()`. A
  /// growing root has at least the entries asked for.
  void commit(Draft&& draft, std::span<const TableGrant> grants, Plan* plan);

  /// Removes all tables: the steps needed before their memory is freed, and kFree for each.
  void destroy(Plan* plan);

  /// True if it is one of these tables.
  bool contains(TableId table) const;
  /// The translation of a page, from the root down to the entry that is invalid, or to the leaf's
  /// entry. With dual entries it uses the leaf of 4 KiB pages, unless the entry of the other leaf
  /// is valid.
  struct WalkStep {
    uint32_t level = 0;
    TableId table;
    uint64_t index = 0;
    bool valid = false;
    bool large_page = false;    // valid, and the end of the walk
    bool of_64k_pages = false;  // level 0
  };
  std::vector<WalkStep> walk(uint64_t page) const;
  /// kNoTable: none yet.
  TableId root() const;
  uint64_t root_entries() const;
  size_t table_count() const;

  /// One stretch of entries to copy, as CopyPageTableEntries takes it (PAGE-40).
  struct CopyRange {
    TableId from, to;
    uint64_t from_index = 0, to_index = 0, count = 0;
  };
  bool validate() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dxgkit::gpuva
