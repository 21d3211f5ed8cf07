// Locked allocations that a client process has by descriptor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "dxgk/core/process.h"
#include "runtime/sync.h"
#include "wire/unique_fd.h"
#include "wire/walk.h"

namespace dxgkit::wire {

/// A locked allocation whose content lies in system pages of its process alone needs no copies: the
/// client maps a part of the memory object itself. It keeps the mapping after the unlock, as the
/// next lock shows the same, until it is told that the allocation has gone.
///
/// Any thread of the kernel's runtime but the lane.
class GivenMemory {
 public:
  /// The allocation has been locked. False: it has to be copied (Windows). A client that has the
  /// window `note->id` already needs no descriptor, and gets one all the same: which of its threads
  /// has which reply cannot be known here.
  bool locked(dxgk::Process& process, uint32_t device, uint32_t allocation, WindowNote* note,
              UniqueFd* descriptor);
  /// A call has destroyed these allocations, the members of a resource, or those of a device; 0:
  /// none. What goes with them is added to `ended`.
  void destroyed(std::span<const uint32_t> allocations, uint32_t resource, uint32_t device,
                 std::vector<WindowNote>* ended);
  /// How many windows the client has.
  size_t count() const;

 private:
  struct Window {
    uint64_t id = 0;
    uint64_t object = 0, offset = 0, bytes = 0;  // where it is
    uint32_t device = 0, original = 0, resource = 0;
  };
  mutable runtime::Mutex mutex_;
  std::map<uint32_t, Window> windows_ DXGKIT_GUARDED_BY(mutex_);  // by allocation
  uint64_t last_id_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dxgkit::wire
