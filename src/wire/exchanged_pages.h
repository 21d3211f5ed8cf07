// Pages of this process that the kernel in another process uses as an allocation.
#pragma once

#include <cstdint>
#include <map>

#include "base/spin_lock.h"
#include "wire/unique_fd.h"
#include "wire/walk.h"

namespace dxgkit::wire {

/// The content of whole pages of the program moves to a memory object of the kernel, which is
/// mapped in their place. Both sides see the same bytes then. When the kernel has given the object
/// up, the program gets private memory with the content back. One for all threads of a process.
///
/// No other thread may write to the pages during an exchange: the write could be lost.
class ExchangedPages {
 public:
  /// @param note  of the object: id, size and place of the pages
  /// False, and nothing has changed: the pages are not mapped readable, writable and privately
  /// everywhere, not aligned, or the system refuses.
  bool begin(const WindowNote& note, UniqueFd object, void* address);
  /// Nothing but the program uses the object any more. Pages that the program has unmapped or
  /// replaced meanwhile stay as they are.
  void end(const WindowNote& note);

 private:
  struct Pages {
    uintptr_t start = 0;
    uint64_t bytes = 0, inode = 0, offset = 0;
  };
  SpinLock lock_;
  std::map<uint64_t, Pages> all_;  // by id
};

}  // namespace dxgkit::wire
