// The MDLs a driver is given while it builds paging buffers.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "nt/kernel.h"

namespace dxgkit::nt {
struct Mdl;
}

namespace dxgkit::port {

/// Locked MDLs over pages of system memory, in reused storage. One lives, and stays mapped if the
/// driver mapped it, until the packet that needs it has left: they are released in order of issue.
///
/// Thread: the lane. The pool's end releases what is left.
class MdlPool {
 public:
  explicit MdlPool(nt::Kernel& kernel) : kernel_(kernel) {}
  ~MdlPool();
  MdlPool(const MdlPool&) = delete;
  MdlPool& operator=(const MdlPool&) = delete;

  /// A locked MDL over `pages`, page numbers. Its words stay where they are until it is released.
  nt::Mdl* make(std::span<const uint64_t> pages);
  /// MDLs given out so far.
  uint64_t issued() const { return issued_; }
  /// Unmaps and takes back the first `count` MDLs ever issued.
  void release(uint64_t count);

 private:
  nt::Kernel& kernel_;
  // In order of issue, the first of them number `released_`.
  std::deque<std::vector<uint64_t>> mdls_;
  std::vector<std::vector<uint64_t>> spare_;
  uint64_t issued_ = 0, released_ = 0;
};

}  // namespace dxgkit::port
