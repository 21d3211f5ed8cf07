// Bytes that a driver reads by a count of its own finding, with nothing behind them.
#pragma once

#include <cstddef>
#include <span>

#include "nt/kernel.h"

namespace dxgkit::port {

/// Bytes whose end is the end of a page, with an inaccessible page behind it. A driver that goes on
/// behind the end gets a finding at its own instruction, whatever would have lain there.
///
/// Cost: two system calls for an `assign` and its `clear`. For what a driver is given once in its
/// life. Thread: while no driver code can look at the bytes.
class BoundedBytes {
 public:
  /// @param kernel   outlives this
  /// @param behind   the finding; `start` and `size` are set here
  BoundedBytes(nt::Kernel& kernel, const nt::FaultRange& behind)
      : kernel_(kernel), behind_(behind) {}
  BoundedBytes(const BoundedBytes&) = delete;
  BoundedBytes& operator=(const BoundedBytes&) = delete;
  ~BoundedBytes() { clear(); }

  /// A copy of `bytes`; null after clear() and for none. Aligned as their number allows: four bytes
  /// for a multiple of four.
  std::byte* data() const { return data_; }
  void assign(std::span<const std::byte> bytes);
  void clear();

 private:
  nt::Kernel& kernel_;
  nt::FaultRange behind_;
  std::byte* pages_ = nullptr;
  size_t page_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace dxgkit::port
