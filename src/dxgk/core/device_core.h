// What every part of a device stands on: whose it is, the driver's device, and whether it is lost.
#pragma once

#include <atomic>

#include "dxgk/core/device_state.h"
#include "dxgk/core/gate.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Process;

/// A client's device as the lower floors know it. The parts of a device (DeviceSync, DeviceMemory)
/// share one; who keeps a part keeps the device.
class DeviceCore : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kDevice;

  // --- any thread ---
  Process& process() const { return process_; }
  /// Constant once clients know the handle.
  void* driver_handle() const { return info_.handle; }
  const port::DeviceInfo& info() const { return info_; }
  /// Whoever hands the driver's device to the driver is inside; it is destroyed when nobody is.
  Gate& gate() { return gate_; }
  DeviceState state() const { return state_.load(std::memory_order_acquire); }
  bool lost() const { return state() != DeviceState::kActive; }

  /// First error wins; contexts fail, CPU waits end with kDeviceRemoved.
  void set_error(DeviceState state) DXGKIT_REQUIRES(on_lane);

  Handle handle = 0;

 protected:
  explicit DeviceCore(Process& process) : Object(kType), process_(process) {}
  /// The driver has made its device.
  void set_info(const port::DeviceInfo& info) { info_ = info; }
  /// The device is lost from now on: what runs or waits on it ends. Once.
  virtual void end_work(DeviceState state) DXGKIT_REQUIRES(on_lane) = 0;

 private:
  Process& process_;
  port::DeviceInfo info_;
  Gate gate_;
  // Written on the lane, read by thunks before they go there: release/acquire so that they see why.
  std::atomic<DeviceState> state_{DeviceState::kActive};
};

}  // namespace dxgkit::dxgk
