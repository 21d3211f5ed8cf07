// Power components of a running adapter: engines and memory idle while nobody needs them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "port/adapter_port.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Lane: the adapter's. A component is in F0 while somebody needs it, else in its deepest F-state
/// (our choice: no latency tolerances, no debouncing): an engine while its node has packets queued
/// or on hardware, memory while any engine has, any component while the driver has it active or a
/// component that names it as provider is. Providers reach F0 first. One transition per component
/// at a time, always from or to F0 (PWR-12).
class RuntimePower {
 public:
  /// What it asks of the adapter.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Status set_component_f_state(uint32_t component, uint32_t f_state)
        DXGKIT_REQUIRES(on_lane) = 0;
    /// Nothing goes to the node while held (PWR-14).
    virtual void hold_node(NodeOrdinal node, bool held) DXGKIT_REQUIRES(on_lane) = 0;
    /// The driver completed a transition that nobody asked for.
    virtual void unexpected_completion(uint32_t component) DXGKIT_REQUIRES(on_lane) = 0;
    virtual void runtime_power_changed() DXGKIT_REQUIRES(on_lane) = 0;
  };

  /// All components are in F0 at first.
  RuntimePower(Owner& owner, std::vector<port::PowerComponent> components, uint32_t nodes);

  /// A packet that needs the node's engine was queued; or such a packet has left.
  void add_work(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  void remove_work(NodeOrdinal node) DXGKIT_REQUIRES(on_lane);
  /// Components without need go to rest. After work, when nobody is in the middle of anything.
  void look() DXGKIT_REQUIRES(on_lane);
  void on_event(uint32_t component, port::AdapterHost::ComponentEvent event)
      DXGKIT_REQUIRES(on_lane);

  /// Around device power transitions: those that ask for it are in F0 meanwhile, no transition
  /// starts while the device is off.
  void begin_device_transition() DXGKIT_REQUIRES(on_lane);
  void device_off() DXGKIT_REQUIRES(on_lane);
  void end_device_transition() DXGKIT_REQUIRES(on_lane);
  /// No transition is under way or due.
  bool settled() const DXGKIT_REQUIRES(on_lane);
  uint32_t f_state(uint32_t component) const DXGKIT_REQUIRES(on_lane) {
    return states_[component].f_state;
  }

 private:
  struct State {
    port::PowerComponent info;
    uint32_t f_state = 0;
    uint32_t driver_references = 0;
    bool transitioning = false;
    uint32_t going_to = 0;
    bool for_device = false;  // kept in F0 for a device transition
  };
  bool needed(size_t component) const DXGKIT_REQUIRES(on_lane);
  uint32_t wanted(const State& state, size_t component) const DXGKIT_REQUIRES(on_lane) {
    return needed(component) ? 0 : state.info.state_count - 1;
  }
  /// Starts the transition that is due and possible. True if one was made.
  bool step(size_t component) DXGKIT_REQUIRES(on_lane);
  void update() DXGKIT_REQUIRES(on_lane);
  void arrived(State& state) DXGKIT_REQUIRES(on_lane);
  void update_nodes() DXGKIT_REQUIRES(on_lane);

  Owner& owner_;
  std::vector<State> states_;
  std::vector<uint64_t> work_;  // packets by node
  std::vector<bool> held_;      // by node
  bool off_ = false;
  bool updating_ = false, again_ = false;  // calls out may call back
};

}  // namespace dxgkit::dxgk
