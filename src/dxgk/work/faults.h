// Packets that fault on hardware.
#pragma once

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/device_state.h"
#include "dxgk/work/packet.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"
#include "vidsch/scheduler.h"

namespace dxgkit::dxgk {

class FaultExplainer;
class Timeout;

/// Says what a faulted packet costs: its device, or, if it was the kernel's paging, the adapter.
///
/// Lane: the adapter's.
class Faults {
 public:
  /// `gpu_va` is null in the patch model.
  Faults(AdapterCore& core, FaultExplainer* explainer, Timeout& timeout)
      : core_(core), explainer_(explainer), timeout_(timeout) {}

  /// DMA_FAULTED or DMA_PAGE_FAULTED. The packet it names ends, and the reset it asks for begins
  /// (INT-18). Answers what the scheduler said of the fence; kAccepted also where the report itself
  /// was fatal.
  vidsch::FenceReport handle(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// A packet faulted on hardware: its device is lost; paging is fatal for the adapter (PAGE-49).
  void blame(const Packet& packet) DXGKIT_REQUIRES(on_lane);
  /// What the device of the next packet to blame is in from then on.
  void set_device_state(DeviceState state) DXGKIT_REQUIRES(on_lane) { state_ = state; }

 private:
  void reset_after_fault(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);
  /// Says why a page fault came about, as far as the kernel knows (VA-28).
  void explain_page_fault(const Packet& packet) DXGKIT_REQUIRES(on_lane);

  AdapterCore& core_;
  FaultExplainer* const explainer_;
  Timeout& timeout_;
  DeviceState state_ = DeviceState::kErrorDmaFault;
  const port::InterruptReport* report_ = nullptr;  // of the page fault being handled
};

}  // namespace dxgkit::dxgk
