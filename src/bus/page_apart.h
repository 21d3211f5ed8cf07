// A system page that other processes can be given.
#pragma once

#include <memory>

#include "bus/machine.h"

namespace dxgkit::bus {

/// A system page whose content lies in a memory object of its own while this object lives. A
/// descriptor of it gives another process this page and nothing else, for reading only. Devices
/// that reach system memory through the machine's addresses notice nothing.
class PageApart {
 public:
  /// From now on `make` makes some, in this process: it gives memory to other processes. Any
  /// thread.
  static void allow();

  /// `page` has just been allocated, and nobody else knows it yet. Its content is kept. Null if
  /// nothing was allowed, or if the system refuses: the page stays where it is. Any thread.
  static std::unique_ptr<PageApart> make(Machine& machine, PageFrame page);
  /// Before the page is freed.
  ~PageApart();
  PageApart(const PageApart&) = delete;
  PageApart& operator=(const PageApart&) = delete;

  MemoryWindow window() const;

 private:
  PageApart(std::byte* address, const MemoryWindow& common, int descriptor)
      : address_(address), common_(common), descriptor_(descriptor) {}

  std::byte* const address_;
  const MemoryWindow common_;
  const int descriptor_;
};

}  // namespace dxgkit::bus
