// Through which windows the CPU sees an allocation, and what the driver sets up before it does.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/status.h"
#include "bus/kept_views.h"
#include "bus/machine.h"
#include "dxgk/memory/allocation.h"
#include "dxgk/memory/swizzling_ranges.h"
#include "runtime/thread_annotations.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

class AdapterCore;
struct MemoryFloor;

/// A lock shows one of these; of an allocation with a permanent copy in system memory always that
/// copy (ALLOC-48). The driver is told before the window is mapped.
///
///   content in                    the CPU sees                      told by
///   ----------------------------  --------------------------------  ---------------------
///   system memory                 the backing pages
///   an aperture segment           the backing pages (SEG-20)
///   - a primary                   the segment's CPU address         AcquireSwizzlingRange
///   - with UseAlternateVA         where the driver says (ALLOC-55)  AcquireSwizzlingRange
///   a CpuVisible memory segment   the segment's CPU address
///   - with AcquireAperture        where the driver says (SEG-21)    AcquireSwizzlingRange
///   a segment with host aperture  pages of the aperture (ALLOC-41)  MapCpuHostAperture
///
/// From WDDM 2.0 on there are no swizzling ranges.
///
/// Lane: the adapter's.
class CpuWindows {
 public:
  using Windows = std::vector<bus::MemoryWindow>;
  explicit CpuWindows(MemoryFloor& floor);

  /// What shows `opened` at `place`; what it was shown through before is closed. kRetry: the CPU
  /// cannot see it there.
  Result<Windows> open(OpenedAllocation& opened, const CpuLook& look, const vidmm::Placement& place)
      DXGKIT_REQUIRES(on_lane);
  /// Of a locked one: the CPU sees the backing pages, until the last unlock (ALLOC-43).
  bool shows_backing(const OpenedAllocation& opened) const DXGKIT_REQUIRES(on_lane);
  /// ALLOC-48: the CPU may write these pages of a permanent copy; empty: all of them.
  void note_written(OpenedAllocation& opened, std::span<const uint32_t> pages)
      DXGKIT_REQUIRES(on_lane);
  /// What it may have written since it was locked goes to where the content is.
  void write_up(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  /// The CPU sees the windows at one address until put_away().
  Status show_at_one_address(OpenedAllocation& opened, Windows windows) DXGKIT_REQUIRES(on_lane);
  /// The last unlock. The view may be kept for the next lock, until the content leaves its place: a
  /// client that goes on using its address reaches nothing of others.
  void put_away(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  /// Nobody looks any more: host aperture pages go back, a swizzling range may serve another lock.
  void close(OpenedAllocation& opened) DXGKIT_REQUIRES(on_lane);
  /// Before an operation is queued: the driver takes down what shows content at the place it
  /// leaves.
  void leaving(const vidmm::PagingOp& op) DXGKIT_REQUIRES(on_lane);
  /// The allocation is about to be destroyed.
  void forget(const Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// What locks set up is taken down (TDR-24). Ranges of content that leaves go with leaving().
  void hardware_was_reset() DXGKIT_REQUIRES(on_lane);
  /// An address that was given out shows where the content is now, without a lock in between.
  void follow(OpenedAllocation& opened, const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);

 private:
  Windows backing(const Allocation& allocation) const DXGKIT_REQUIRES(on_lane);
  Result<Windows> in_aperture(OpenedAllocation& opened, const CpuLook& look,
                              const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);
  Result<Windows> in_memory(OpenedAllocation& opened, const CpuLook& look,
                            const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);
  /// `address`: where the CPU sees it without a range; 0: nowhere.
  Result<Windows> through_range(OpenedAllocation& opened, const CpuLook& look,
                                const vidmm::Placement& place, uint64_t address)
      DXGKIT_REQUIRES(on_lane);
  Result<Windows> through_host_aperture(OpenedAllocation& opened, const vidmm::Placement& place)
      DXGKIT_REQUIRES(on_lane);
  Result<Windows> plain(const Allocation& allocation, const vidmm::Placement& place)
      DXGKIT_REQUIRES(on_lane);
  /// The memory behind an address of a BAR.
  bus::MemoryWindow bar_window(uint64_t address, uint64_t bytes) DXGKIT_REQUIRES(on_lane);
  /// False, and said (SEG-50): the driver has no ranges.
  bool has_ranges(const vidmm::Placement& place) DXGKIT_REQUIRES(on_lane);
  void report_unmappable(const vidmm::Placement& place, uint64_t bytes, const char* ddi) const
      DXGKIT_REQUIRES(on_lane);
  /// As many pages as the view has: a driver may have chosen another size (ALLOC-50).
  void show(OpenedAllocation& opened, Windows windows) DXGKIT_REQUIRES(on_lane);
  /// Free pages of a segment's CPU host aperture; all or none.
  std::vector<uint32_t> take_host_pages(SegmentId segment, uint64_t count) DXGKIT_REQUIRES(on_lane);
  void drop_host_pages(SegmentId segment, std::span<const uint32_t> pages) DXGKIT_REQUIRES(on_lane);

  MemoryFloor& floor_;
  AdapterCore& core_;
  SwizzlingRanges ranges_;
  std::map<uint32_t, std::vector<bool>> host_apertures_;  // by segment id, page: taken
  bus::KeptViews kept_views_;
  std::map<const bus::CpuView*, Windows> shown_;  // by views of locks that may be kept
  std::set<int> lasting_;  // memory objects that stay as long as the adapter runs
};

}  // namespace dxgkit::dxgk
