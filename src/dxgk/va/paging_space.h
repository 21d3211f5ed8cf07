// The paging process's address space: paging buffers, and windows through which content moves.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dxgk/memory/paging_executor.h"
#include "dxgk/va/gpu_space.h"
#include "dxgk/va/gpu_va_work.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct TableMemory;

/// Lane: the adapter's. Laid out once, from the bottom: the pages nobody has (VA-08), what the
/// driver reserved, the paging buffers, the tables of everybody where the driver writes them by
/// virtual address, the scratch area.
///
/// The scratch area has a few slots of two windows each. A transfer or fill goes window by window:
/// entries of a free slot are pointed at both sides, then the driver is asked for the copy
/// (PAGE-31). Where a unique driver protection begins or ends, so does a window's share (PAGE-36).
/// A slot is free again when the hardware has done that.
class PagingSpace {
 public:
  static constexpr uint64_t kWindowPages = 512;
  static constexpr size_t kSlots = 8;
  /// Room for tables by virtual address, pages.
  static constexpr uint64_t kTableAreaPages = uint64_t{1} << 16;

  PagingSpace(VaFloor& floor, const gpuva::Geometry& geometry);
  ~PagingSpace();

  /// Tables and entries, written by the CPU (PAGE-02); buffers get their addresses.
  /// kNoMemory, kNotSupported (tables the CPU cannot reach), or what the driver failed with.
  Status build(void* system_context, PagingExecutor& executor) DXGKIT_REQUIRES(on_lane);
  /// The tables' memory has been freed, or its content lost: builds them again, with everything
  /// where it was (PAGE-02).
  Status rebuild() DXGKIT_REQUIRES(on_lane);
  void forget_tables() DXGKIT_REQUIRES(on_lane);

  /// The virtual form of a content operation: a transfer or fill of `bytes`; `segment_side` names
  /// the place, `frames` the pages of the other side, or `backing` the place instead of them.
  std::unique_ptr<PagingWork> transfer(const vidmm::PagingOp& op, const PagingTarget& target)
      DXGKIT_REQUIRES(on_lane);

  /// DxgkCbUpdateContextAllocation (PAGE-43): shows all of a place of `bytes` in the scratch area
  /// and asks the driver to write what `data` means to it. A scratch range as large is kept from
  /// then on. kNoMemory: no tables for it, nothing happened.
  Result<std::unique_ptr<PagingWork>> update_context(const vidmm::Placement& place, uint64_t bytes,
                                                     std::vector<std::byte> data)
      DXGKIT_REQUIRES(on_lane);

  /// The driver writes tables by virtual address: gives the table one.
  Status show(gpuva::TableId table) DXGKIT_REQUIRES(on_lane);
  void hide(const TableMemory& table) DXGKIT_REQUIRES(on_lane);
  const std::shared_ptr<GpuSpace>& space() const DXGKIT_REQUIRES(on_lane) { return space_; }

 private:
  class MoveWork;
  class UpdateWork;
  class Pieces;
  struct Window {
    uint64_t first_page = 0;
    uint64_t used_pages = 0;  // that the last use pointed somewhere
  };
  struct Slot {
    std::array<Window, 2> windows = {};
    bool busy = false;
  };
  /// For what has to be seen whole: one window, of a power of two pages.
  struct LargeSlot {
    Window window;
    uint64_t pages = 0;
    bool busy = false;
  };

  uint64_t claim(uint64_t pages) DXGKIT_REQUIRES(on_lane);
  Status finish(gpuva::Plan plan) DXGKIT_REQUIRES(on_lane);
  /// Says what pages show from now on, and plans it.
  Status point(uint64_t first_page, uint64_t pages, const gpuva::PteSource& source,
               gpuva::Plan* plan, uint64_t driver_protection = 0) DXGKIT_REQUIRES(on_lane);
  /// Points a window at `parts`, which follow each other, and what is left of its last use at
  /// nothing. Its tables are there.
  void show_in(Window& window, std::span<const gpuva::Piece> parts, gpuva::Plan* plan)
      DXGKIT_REQUIRES(on_lane);
  /// The hardware has done what the slot was taken for.
  void give_back(Slot& slot) DXGKIT_REQUIRES(on_lane);
  Status write_now(gpuva::Plan plan) DXGKIT_REQUIRES(on_lane);
  Status show_new_tables() DXGKIT_REQUIRES(on_lane);

  VaFloor& floor_;
  const std::shared_ptr<GpuSpace> space_;
  void* system_context_ = nullptr;
  std::map<uint64_t, gpuva::Piece> pieces_;  // by first page
  std::vector<Slot> slots_;
  std::vector<LargeSlot> large_slots_;
  uint64_t table_area_ = 0;  // first page; 0: none
  std::vector<uint64_t> free_table_pages_;
  bool built_ = false;
};

}  // namespace dxgkit::dxgk
