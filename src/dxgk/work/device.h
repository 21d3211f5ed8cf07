// A device: a client's container of contexts, allocations and sync objects on one adapter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dxgk/core/device_core.h"
#include "dxgk/memory/device_lock.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/memory/device_offer.h"
#include "dxgk/sync/device_sync.h"
#include "dxgk/work/context.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Adapter;
class AdapterCore;
class HwContext;
class Process;
struct WorkFloor;

/// Who owns video present sources and has overlays: the display, as a device knows it.
class SourceOwners {
 public:
  virtual ~SourceOwners() = default;
  /// What the device shows gives way to the kernel's own picture, and it owns no source any more.
  /// Not on the lane.
  virtual void device_ends(Device& device) = 0;
  /// Nothing can be made on the device any more, and its allocations are about to go: its overlays
  /// end, and no capture writes them. Not on the lane.
  virtual void before_memory_ends(Device& device) = 0;
};

class Device : public DeviceCore {
 public:
  Device(Adapter& adapter, WorkFloor& floor, Process& process);
  ~Device() override;

  /// DxgkDdiCreateProcess if it is the process's first here (LIFE-16), then DxgkDdiCreateDevice.
  /// kNotSupported: a display-only adapter.
  /// The driver's failure passes through; nothing stays.
  static Result<Ref<Device>> create(Adapter& adapter, WorkFloor& floor, Process& process);

  /// Waits until nothing of the device is queued or on hardware (THUNK-31).
  Status wait_for_idle();
  /// Everything below goes, then DxgkDdiDestroyDevice (SCHED-23). The handle is gone already. Any
  /// thread but the lane.
  void destroy();

  /// Contexts, allocations, device in the driver; idempotent. When the device or the adapter ends.
  void close_driver_side();

  Adapter& adapter() { return adapter_; }
  /// What the device and all below it work with.
  WorkFloor& floor() { return floor_; }
  AdapterCore& core() { return core_; }
  DeviceSync& sync() { return sync_; }
  DeviceMemory& memory() { return memory_; }
  DeviceLocks& locks() { return locks_; }
  DeviceOffers& offers() { return offers_; }

  // Lane:
  std::vector<Context*> contexts DXGKIT_GUARDED_BY(on_lane);  // creation order
  std::vector<HwContext*> hw_contexts
      DXGKIT_GUARDED_BY(on_lane);  // creation order; their queues are in `contexts`
  std::vector<vidmm::Use> shared_memory
      DXGKIT_GUARDED_BY(on_lane);  // context allocations of all contexts (RES-29)
  std::optional<port::InterruptReport> page_fault
      DXGKIT_GUARDED_BY(on_lane);  // the one that cost it (INT-19)
  // SCHED-16: presents that have not run, and how many there may be; the same of flips.
  static constexpr uint32_t kPresentLimit = 3, kFlipLimit = 1;
  uint32_t queued_presents = 0, present_limit = kPresentLimit, flip_limit = kFlipLimit;

 private:
  void end_work(DeviceState state) override DXGKIT_REQUIRES(on_lane);

  Adapter& adapter_;
  WorkFloor& floor_;
  AdapterCore& core_;
  const Ref<Object> adapter_reference_;  // kept
  DeviceSync sync_;
  DeviceMemory memory_;
  DeviceLocks locks_;
  DeviceOffers offers_;
  bool closing_ DXGKIT_GUARDED_BY(on_lane) = false;  // the driver side goes
};

}  // namespace dxgkit::dxgk
