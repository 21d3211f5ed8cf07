// The power components of an adapter, if its driver has any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dxgk/core/adapter_core.h"
#include "dxgk/power/runtime_power.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Joins RuntimePower with the driver and the scheduler. Lane, except where a call says otherwise.
class ComponentPower : private RuntimePower::Owner {
 public:
  explicit ComponentPower(AdapterCore& core) : core_(core) {}

  void start(std::vector<port::PowerComponent> components) DXGKIT_REQUIRES(on_lane);
  /// Null: the driver has no power components.
  RuntimePower* components() DXGKIT_REQUIRES(on_lane) { return components_.get(); }
  /// A packet that needs the node's engine was queued; or such a packet has left.
  void engine_work(NodeOrdinal node, bool comes) DXGKIT_REQUIRES(on_lane);
  void look() DXGKIT_REQUIRES(on_lane);
  /// Any context.
  void on_event(uint32_t component, port::AdapterHost::ComponentEvent event);

 private:
  Status set_component_f_state(uint32_t component, uint32_t f_state) override
      DXGKIT_REQUIRES(on_lane);
  void hold_node(NodeOrdinal node, bool held) override DXGKIT_REQUIRES(on_lane);
  void unexpected_completion(uint32_t component) override DXGKIT_REQUIRES(on_lane);
  void runtime_power_changed() override DXGKIT_REQUIRES(on_lane) { core_.progress(); }

  AdapterCore& core_;
  std::unique_ptr<RuntimePower> components_;
  bool rest_posted_ = false;  // a look for idle components is on its way
};

}  // namespace dxgkit::dxgk
