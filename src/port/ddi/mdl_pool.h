// The MDLs that a driver gets while it builds paging buffers.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "nt/heap.h"
#include "nt/kernel.h"

namespace dxgkit::nt {
struct Mdl;
}

namespace dxgkit::port {

/// Locked MDLs over pages of system memory, in reused storage. An MDL lives, and stays mapped if
/// the driver mapped it, until the packet that needs it has retired. MDLs are released in order of
/// issue.
///
/// Thread: the lane. The destructor releases all MDLs.
class MdlPool {
 public:
  explicit MdlPool(nt::Kernel& kernel) : kernel_(kernel) {}
  ~MdlPool();
  MdlPool(const MdlPool&) = delete;
  MdlPool& operator=(const MdlPool&) = delete;

  /// A locked MDL over `pages`, page numbers. Its memory stays at its address until it is released.
  nt::Mdl* make(std::span<const uint64_t> pages);
  /// The number of MDLs given out so far.
  uint64_t issued() const { return issued_; }
  /// Unmaps and releases the first `count` MDLs ever issued.
  void release(uint64_t count);

 private:
  using Words = std::vector<uint64_t, nt::HeapAllocator<uint64_t>>;
  nt::Kernel& kernel_;
  // In order of issue; the first one has number `released_`.
  std::deque<Words> mdls_;
  std::vector<Words> spare_;
  uint64_t issued_ = 0, released_ = 0;
};

}  // namespace dxgkit::port
