// CPU views that nobody looks through, ready to be used again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "bus/machine.h"

namespace dxgkit::bus {

/// A client locks the same content again and again. A view that is made anew costs system calls,
/// and a fault for each of its pages. One that still shows the same memory costs nothing.
///
/// Not thread-safe. Address space and mappings are bounded: the view that was kept first goes
/// first.
class KeptViews {
 public:
  /// A view that shows the windows, as CpuView::retarget shows them: one that was kept and shows
  /// the same, or a new one. If the system is short of mappings, it gets those of kept views first.
  Result<std::unique_ptr<CpuView>> show(std::span<const MemoryWindow> windows);
  /// Keeps a view from `show` that shows `windows` still. Their descriptors must stay open until
  /// the view is let go.
  /// @param owner  a number of the caller's choice for what lies there
  void keep(std::unique_ptr<CpuView> view, std::vector<MemoryWindow> windows, uint64_t owner);
  /// Lets go of the views of one owner, for example because it leaves that place. O(views kept).
  void drop(uint64_t owner);
  /// Lets go of all of them.
  void clear();
  size_t count() const { return kept_.size(); }

  static constexpr size_t kViewsMost = 64;
  static constexpr uint64_t kBytesMost = uint64_t{256} << 20;  // of address space
  static constexpr size_t kWindowsMost = 1024;

 private:
  struct Kept {
    std::unique_ptr<CpuView> view;
    std::vector<MemoryWindow> windows;
    uint64_t owner = 0;
  };
  Kept take(size_t index);

  std::vector<Kept> kept_;  // the one kept first is in front
  uint64_t bytes_ = 0;
  size_t windows_ = 0;
};

}  // namespace dxgkit::bus
