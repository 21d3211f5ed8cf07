#include "port/callbacks/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

PortCore* of_frame() {
  const nt::CallFrame* const innermost = &nt::CallFrame::current();
  for (const nt::CallFrame* frame = innermost; frame != nullptr; frame = frame->previous()) {
    if (frame->owner != nullptr) return static_cast<PortCore*>(frame->owner);
  }
  // A thread of the driver's own. These callbacks name no adapter, so the adapter is the only one,
  // or the first.
  return static_cast<PortCore*>(innermost->kernel().default_owner());
}

PortCore* refuse_caller(const char* callback, std::string actual) {
  nt::CallFrame::current().kernel().violation(
      "LIFE-08", callback, std::move(actual),
      "It is the DeviceHandle of the DXGKRNL_INTERFACE given to DxgkDdiStartDevice, until "
      "DxgkDdiStopDevice returns.",
      "Keep a copy of that structure and pass its DeviceHandle, while the device is started.");
  return nullptr;
}

}  // namespace

PortCore* of_caller(const char* callback) {
  PortCore* const adapter = of_frame();
  if (adapter == nullptr || adapter->interrupts.connected()) [[likely]]
    return adapter;
  return refuse_caller(callback, "It was called while the device is not started.");
}

PortCore* known_handle(const char* callback, const void* handle) {
  PortCore* found = of_frame();
  if (found != nullptr && handle != found) [[unlikely]] {
    DriverTable& driver = found->driver;
    runtime::MutexLock lock(driver.adapters_lock);
    const auto other = std::ranges::find(driver.adapters, handle);
    found = other == driver.adapters.end() ? nullptr : static_cast<PortCore*>(*other);
  }
  if (found == nullptr) return refuse_caller(callback, fmt::format("DeviceHandle is {}.", handle));
  return found;
}

PortCore* of_handle(const char* callback, const void* handle) {
  PortCore* const found = known_handle(callback, handle);
  if (found == nullptr || found->interrupts.connected()) [[likely]]
    return found;
  return refuse_caller(callback,
                       fmt::format("DeviceHandle is {}, of a device that is not started.", handle));
}

void check_callback(PortCore& core, const char* callback, nt::Irql highest, bool legal_in_isr) {
  const nt::Irql irql = nt::CallFrame::current().irql();
  if (irql > highest) [[unlikely]] {
    (void)core.violation("IRQL-12", callback,
                         fmt::format("It was called at {} in {}.", nt::irql_name(irql),
                                     nt::CallFrame::current().name()),
                         fmt::format("It may be called at {} or below.", nt::irql_name(highest)),
                         "Call it before the level is raised, or from a thread.", Status::kSuccess);
  }
  if (!legal_in_isr && irql >= nt::kDeviceLevel && core.interrupts.in_isr()) [[unlikely]] {
    (void)core.violation(
        "INT-07", callback, "It was called by DxgkDdiInterruptRoutine.",
        "The ISR calls no other callback than DxgkCbQueueDpc and DxgkCbNotifyInterrupt.",
        "Move the call to the DPC routine.", Status::kSuccess);
  }
}

}  // namespace dxgkit::port
