#include "dxgk/power/runtime_power.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dxgkit::dxgk {

using ComponentKind = port::PowerComponent::Kind;

RuntimePower::RuntimePower(Owner& owner, std::vector<port::PowerComponent> components,
                           uint32_t nodes)
    : owner_(owner), work_(nodes), held_(nodes) {
  for (port::PowerComponent& component : components) {
    states_.push_back({});
    states_.back().info = std::move(component);
  }
}

bool RuntimePower::needed(size_t component) const {
  const State& state = states_[component];
  if (state.driver_references != 0 || state.for_device) return true;
  const bool any_work = std::ranges::any_of(work_, [](uint64_t count) { return count != 0; });
  if (state.info.kind == ComponentKind::kMemory && any_work) return true;
  if (state.info.kind == ComponentKind::kEngine && state.info.target < work_.size() &&
      work_[state.info.target] != 0)
    return true;
  // A provider that names itself, or a ring of them, needs nobody by that alone: what is needed or
  // not at rest yet counts.
  for (size_t i = 0; i < states_.size(); ++i) {
    if (i == component) continue;
    const State& other = states_[i];
    if (std::ranges::find(other.info.providers, component) == other.info.providers.end()) continue;
    if (other.driver_references != 0 || other.for_device) return true;
    if (other.info.kind == ComponentKind::kMemory && any_work) return true;
    if (other.info.kind == ComponentKind::kEngine && other.info.target < work_.size() &&
        work_[other.info.target] != 0)
      return true;
    if (other.f_state == 0 && other.info.state_count > 1) return true;
  }
  return false;
}

void RuntimePower::add_work(NodeOrdinal node) {
  if (work_[node.value]++ == 0) update();
}

void RuntimePower::remove_work(NodeOrdinal node) {
  DXGKIT_CHECK(work_[node.value] > 0);
  --work_[node.value];
}

void RuntimePower::look() { update(); }

bool RuntimePower::step(size_t component) {
  State& state = states_[component];
  if (state.transitioning || off_) return false;
  const uint32_t goal = wanted(state, component);
  if (goal == state.f_state) return false;
  // Who leaves F0 has kept its providers there.
  for (const uint32_t provider : state.info.providers) {
    const State& one = states_[provider];
    if (provider != component && (one.f_state != 0 || one.transitioning)) return false;
  }
  state.transitioning = true;
  state.going_to = goal;
  if (goal != 0) update_nodes();  // before the engine rests, nothing more is sent there
  static_cast<void>(owner_.set_component_f_state(static_cast<uint32_t>(component), goal));
  if (!state.info.driver_completes) arrived(state);
  return true;
}

void RuntimePower::arrived(State& state) {
  state.f_state = state.going_to;
  state.transitioning = false;
}

void RuntimePower::update() {
  again_ = true;
  if (updating_) return;
  updating_ = true;
  while (std::exchange(again_, false)) {
    update_nodes();
    for (size_t i = 0; i < states_.size(); ++i) again_ = step(i) || again_;
  }
  updating_ = false;
  owner_.runtime_power_changed();
}

/// A node works only while its engine and all memory are in F0 and stay there.
void RuntimePower::update_nodes() {
  for (uint32_t node = 0; node < held_.size(); ++node) {
    const bool held = std::ranges::any_of(states_, [&](const State& state) {
      const bool concerns =
          (state.info.kind == ComponentKind::kEngine && state.info.target == node) ||
          state.info.kind == ComponentKind::kMemory;
      return concerns && (state.f_state != 0 || state.transitioning);
    });
    if (held == held_[node]) continue;
    held_[node] = held;
    owner_.hold_node(NodeOrdinal{node}, held);
  }
}

void RuntimePower::on_event(uint32_t component, port::AdapterHost::ComponentEvent event) {
  if (component >= states_.size()) return;  // the port has said so
  State& state = states_[component];
  switch (event) {
    case port::AdapterHost::ComponentEvent::kActive:
      ++state.driver_references;
      break;
    case port::AdapterHost::ComponentEvent::kIdle:
      if (state.driver_references != 0) --state.driver_references;
      break;
    case port::AdapterHost::ComponentEvent::kTransitionDone:
      if (!state.transitioning || !state.info.driver_completes) {
        owner_.unexpected_completion(component);
        return;
      }
      arrived(state);
      break;
  }
  update();
}

void RuntimePower::begin_device_transition() {
  for (State& state : states_) state.for_device = state.info.f0_on_dx;
  update();
}

void RuntimePower::device_off() { off_ = true; }

void RuntimePower::end_device_transition() {
  off_ = false;
  for (State& state : states_) state.for_device = false;
  update();
}

bool RuntimePower::settled() const {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].transitioning) return false;
    if (!off_ && wanted(states_[i], i) != states_[i].f_state) return false;
  }
  return true;
}

}  // namespace dxgkit::dxgk
