#include "dxgk/power/component_power.h"

#include <fmt/format.h>

#include <utility>

namespace dxgkit::dxgk {

void ComponentPower::start(std::vector<port::PowerComponent> components) {
  if (components.empty()) return;
  components_ = std::make_unique<RuntimePower>(static_cast<RuntimePower::Owner&>(*this),
                                               std::move(components), core_.caps().node_count);
}

void ComponentPower::engine_work(NodeOrdinal node, bool comes) {
  if (!components_) return;
  if (comes) {
    components_->add_work(node);
    return;
  }
  components_->remove_work(node);
  // Not from here: the scheduler is in the middle of something.
  if (std::exchange(rest_posted_, true)) return;
  core_.lane().post([this]() DXGKIT_REQUIRES(on_lane) {
    rest_posted_ = false;
    if (components_ && !core_.failed()) components_->look();
  });
}

void ComponentPower::look() {
  if (components_) components_->look();
}

void ComponentPower::on_event(uint32_t component, port::AdapterHost::ComponentEvent event) {
  core_.lane().post_from_interrupt([this, component, event]() DXGKIT_REQUIRES(on_lane) {
    if (components_ && !core_.failed()) components_->on_event(component, event);
  });
}

Status ComponentPower::set_component_f_state(uint32_t component, uint32_t f_state) {
  return core_.failed() ? Status::kDeviceRemoved
                        : core_.port().power().set_component_f_state(component, f_state);
}

void ComponentPower::hold_node(NodeOrdinal node, bool held) {
  core_.scheduler().hold_node(node, held);
}

void ComponentPower::unexpected_completion(uint32_t component) {
  core_.findings().report(
      {.rule = "PWR-12",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkCbCompleteFStateTransition",
       .actual = fmt::format("It was called for component {}, which has no "
                             "transition to complete.",
                             component),
       .expected = "Once per DxgkDdiSetPowerComponentFState, for components with "
                   "DriverCompletesFStateTransition.",
       .fix = "Complete each transition once; clear the flag if the transition ends "
              "with the DDI."});
}

}  // namespace dxgkit::dxgk
