// The pages of the machine's pool window that show in pool.
#pragma once

#include <cstdint>
#include <map>

#include "base/spin_lock.h"
#include "bus/machine.h"

namespace dxgkit::nt {

/// Memory at addresses of pool that has physical addresses too, as all pool but the paged one has
/// on Windows: drivers give devices the addresses of small blocks. Once the window is used up,
/// memory without one. Any thread; no scheduling point.
class PoolPages {
 public:
  /// `machine` outlives it.
  explicit PoolPages(bus::Machine& machine) : machine_(machine) {}
  ~PoolPages();
  PoolPages(const PoolPages&) = delete;
  PoolPages& operator=(const PoolPages&) = delete;

  /// `bytes` (whole pages) of zeros or of anything, readable and writable, at addresses of
  /// map_fixed. Null if there is no memory.
  std::byte* map(uint64_t bytes);
  /// What `map` returned for so many bytes.
  void unmap(std::byte* memory, uint64_t bytes);

  /// Makes inaccessible pages of an arena (map_fixed, private) readable and writable. False: the
  /// system has no more mappings to give.
  bool show(std::byte* first, uint64_t page_count);
  /// Drops what `show` showed there. The pages are inaccessible again.
  void hide(std::byte* first, uint64_t page_count);

  /// The physical address of a byte in pool; 0: it has none.
  uint64_t physical_of(const void* pointer) const;
  /// The byte of pool with this physical address; null: there is none.
  void* address_of(uint64_t physical) const;

 private:
  struct Run {
    uint64_t pages = 0;
    bus::PageFrame first;
  };
  void note(std::byte* at, const Run& run);
  /// The pages that show there, which nobody finds any more; none: they are no pages of the window.
  Run forget(std::byte* at);
  void give_back(const Run& run);

  bus::Machine& machine_;
  mutable SpinLock lock_;
  std::map<uint64_t, Run> runs_;         // by address
  std::map<uint64_t, uint64_t> places_;  // address by first frame
};

}  // namespace dxgkit::nt
