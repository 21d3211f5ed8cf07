// System pages of allocations on their way back.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bus/machine.h"
#include "bus/user_memory.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/core/client_quota.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

struct Allocation;

/// Returns pages to the machine. After a fatal failure the hardware may still write to them: they
/// are kept then, until the device has stopped.
///
/// Lane: the adapter's.
class BackingPages {
 public:
  explicit BackingPages(AdapterCore& core) : core_(core) {}

  void release(std::span<const bus::PageFrame> pages) DXGKIT_REQUIRES(on_lane);
  /// The backing of an allocation, the client's or ours.
  void release(Allocation& allocation) DXGKIT_REQUIRES(on_lane);
  /// The backing of an allocation counts for a user, until it is released.
  void charge(const Allocation& allocation, MemoryCharge charge) DXGKIT_REQUIRES(on_lane);
  /// The device has stopped.
  void return_kept() DXGKIT_REQUIRES(on_lane);

 private:
  AdapterCore& core_;
  std::vector<bus::PageFrame> kept_;
  std::vector<std::unique_ptr<bus::UserMemory>> kept_of_clients_;
  std::map<AllocationId, MemoryCharge> charges_;
};

}  // namespace dxgkit::dxgk
