// Pages of system memory that the kernel shows to engines at addresses of a process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/status.h"
#include "bus/machine.h"
#include "dxgk/va/va_floor.h"
#include "gpuva/page_tables.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's.
class SystemPages {
 public:
  explicit SystemPages(VaFloor& floor) : floor_(floor) {}

  /// A page of system memory becomes readable and writable at an address of the process that its
  /// clients neither map nor free (SYNC-15); `then` (may be empty) runs when it can be used
  /// (SYNC-16). The page outlives `then` of the unmapping. kInvalidParameter: no such process here;
  /// kNoMemory: no address, or no tables. Nothing stays on failure.
  Result<uint64_t> map_system_page(uint32_t process, bus::PageFrame page,
                                   std::function<void()> then) DXGKIT_REQUIRES(on_lane);
  /// `then` runs when no engine reaches the page any more; on a failed adapter at once. The
  /// process's space may be gone already.
  void unmap_system_page(uint32_t process, uint64_t address, std::function<void()> then)
      DXGKIT_REQUIRES(on_lane);

  /// The allocation stands for such a page.
  bool contains(AllocationId allocation) const DXGKIT_REQUIRES(on_lane) {
    return pages_.contains(allocation.value);
  }
  /// What its mapping shows; nullopt: the allocation is no page of the kernel's.
  std::optional<gpuva::PteSource> source(AllocationId allocation) const DXGKIT_REQUIRES(on_lane);

 private:
  struct Page {
    bus::PageFrame page;
    uint32_t process = 0;
    uint64_t address = 0;
  };

  VaFloor& floor_;
  // By the id of the allocation that stands for it, which the memory manager has never heard of.
  std::map<uint64_t, Page> pages_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
