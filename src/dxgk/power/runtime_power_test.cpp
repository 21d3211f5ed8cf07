// Components of every kind, each with a deepest F-state of its own, on four nodes.
#include "dxgk/power/runtime_power.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dxgkit::dxgk {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Event = port::AdapterHost::ComponentEvent;
using Kind = port::PowerComponent::Kind;

constexpr uint32_t kNodes = 4;
// Node 3 has no component.
constexpr uint32_t kSupply = 0, kCopy = 1, kMemory = 2, kRender = 3, kVideo = 4;
constexpr NodeOrdinal kRenderNode{0}, kCopyNode{1}, kVideoNode{2};

class Owner : public RuntimePower::Owner {
 public:
  Status set_component_f_state(uint32_t component, uint32_t f_state) override {
    log.push_back(fmt::format("{}->F{}", component, f_state));
    if (on_set) on_set(component, f_state);
    return Status::kSuccess;
  }
  void hold_node(NodeOrdinal node, bool held) override {
    log.push_back(fmt::format("{} {}", held ? "hold" : "free", node.value));
  }
  void unexpected_completion(uint32_t component) override {
    log.push_back(fmt::format("unexpected {}", component));
  }
  void runtime_power_changed() override { ++changes; }

  std::vector<std::string> take() { return std::exchange(log, {}); }
  std::vector<std::string> log;
  std::function<void(uint32_t, uint32_t)> on_set;
  int changes = 0;
};

port::PowerComponent component(Kind kind, uint32_t target, uint32_t states,
                               std::vector<uint32_t> providers = {}) {
  port::PowerComponent made;
  made.kind = kind;
  made.target = target;
  made.state_count = states;
  made.providers = std::move(providers);
  return made;
}

std::vector<port::PowerComponent> five() {
  return {component(Kind::kOther, 0, 5), component(Kind::kEngine, 1, 4, {kSupply}),
          component(Kind::kMemory, 2, 2), component(Kind::kEngine, 0, 3),
          component(Kind::kEngine, 2, 6)};
}

class RuntimePowerTest : public ::testing::Test {
 protected:
  RuntimePower& make(std::vector<port::PowerComponent> components = five()) {
    power_ = std::make_unique<RuntimePower>(owner_, std::move(components), kNodes);
    return *power_;
  }
  /// At rest, the log taken.
  RuntimePower& resting(std::vector<port::PowerComponent> components = five()) {
    RuntimePower& power = make(std::move(components));
    power.look();
    for (uint32_t i = 0; i < 5; ++i) EXPECT_NE(power.f_state(i), 0U) << i;
    static_cast<void>(owner_.take());
    return power;
  }
  Owner owner_;
  std::unique_ptr<RuntimePower> power_;
};

TEST_F(RuntimePowerTest, WithoutNeedEachGoesToItsDeepestState) {
  RuntimePower& power = make();
  EXPECT_FALSE(power.settled());
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(power.f_state(i), 0U) << i;
  power.look();
  // Before a component rests, its nodes get nothing more; a provider rests after whom it provides
  // for.
  EXPECT_THAT(owner_.take(), ElementsAre("hold 1", "1->F3", "hold 0", "hold 2", "hold 3", "2->F1",
                                         "3->F2", "4->F5", "0->F4"));
  const uint32_t deepest[] = {4, 3, 1, 2, 5};
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(power.f_state(i), deepest[i]) << i;
  EXPECT_TRUE(power.settled());
  EXPECT_EQ(owner_.changes, 1);
  power.look();
  EXPECT_THAT(owner_.take(), IsEmpty());
}

TEST_F(RuntimePowerTest, WorkWakesItsEngineItsProvidersAndMemory) {
  RuntimePower& power = resting();
  power.add_work(kCopyNode);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F0", "1->F0", "2->F0", "free 1", "free 3"));
  power.add_work(kVideoNode);
  EXPECT_THAT(owner_.take(), ElementsAre("4->F0", "free 2"));
  EXPECT_EQ(power.f_state(kRender), 2U);
  EXPECT_TRUE(power.settled());
  power.remove_work(kCopyNode);
  EXPECT_THAT(owner_.take(), IsEmpty()) << "it is looked at when nobody is in the middle of it";
  EXPECT_FALSE(power.settled());
  power.look();
  EXPECT_THAT(owner_.take(), ElementsAre("hold 1", "1->F3", "0->F4"))
      << "memory stays: another engine has work";
  power.remove_work(kVideoNode);
  power.look();
  EXPECT_THAT(owner_.take(), ElementsAre("hold 2", "hold 3", "2->F1", "4->F5"));
}

TEST_F(RuntimePowerTest, AnEngineRestsWhenTheLastOfItsWorkHasLeft) {
  RuntimePower& power = resting();
  power.add_work(kRenderNode);
  const int changes = owner_.changes;
  power.add_work(kRenderNode);
  EXPECT_EQ(owner_.changes, changes) << "what is awake is not looked at";
  static_cast<void>(owner_.take());
  power.remove_work(kRenderNode);
  power.look();
  EXPECT_THAT(owner_.take(), IsEmpty());
  EXPECT_EQ(power.f_state(kRender), 0U);
  power.remove_work(kRenderNode);
  power.look();
  EXPECT_EQ(power.f_state(kRender), 2U);
  power.add_work(kRenderNode);
  EXPECT_EQ(power.f_state(kRender), 0U);
}

// The driver says when a transition is over: who needs it waits, and so do its nodes.
TEST_F(RuntimePowerTest, WhatTheDriverCompletesTakesItsTime) {
  std::vector<port::PowerComponent> components = five();
  for (const uint32_t one : {kSupply, kCopy, kMemory}) components[one].driver_completes = true;
  RuntimePower& power = make(components);
  power.look();
  EXPECT_THAT(owner_.take(), ElementsAre("hold 1", "1->F3", "hold 0", "hold 2", "hold 3", "2->F1",
                                         "3->F2", "4->F5"));
  EXPECT_FALSE(power.settled());
  EXPECT_EQ(power.f_state(kCopy), 0U) << "not there yet";
  power.on_event(kCopy, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F4"));
  EXPECT_EQ(power.f_state(kCopy), 3U);
  power.on_event(kMemory, Event::kTransitionDone);
  EXPECT_FALSE(power.settled());
  // Work comes while the provider is on its way down: it turns round when it has arrived.
  power.add_work(kCopyNode);
  EXPECT_THAT(owner_.take(), ElementsAre("2->F0"));
  power.on_event(kMemory, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("free 3"));
  power.on_event(kSupply, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F0"));
  EXPECT_EQ(power.f_state(kSupply), 4U);
  power.on_event(kSupply, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("1->F0"));
  EXPECT_FALSE(power.settled());
  power.on_event(kCopy, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("free 1"));
  EXPECT_TRUE(power.settled());
}

TEST_F(RuntimePowerTest, TheDriverCountsItsOwnNeed) {
  RuntimePower& power = resting();
  power.on_event(kSupply, Event::kActive);
  power.on_event(kSupply, Event::kActive);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F0"));
  power.on_event(kSupply, Event::kIdle);
  EXPECT_THAT(owner_.take(), IsEmpty());
  power.on_event(kSupply, Event::kIdle);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F4"));
  power.on_event(kSupply, Event::kIdle);  // once too often is as often enough
  power.on_event(kSupply, Event::kActive);
  EXPECT_THAT(owner_.take(), ElementsAre("0->F0"));
  power.on_event(kCopy, Event::kActive);
  power.on_event(kSupply, Event::kIdle);
  EXPECT_THAT(owner_.take(), ElementsAre("1->F0")) << "a node works with memory only";
  EXPECT_EQ(power.f_state(kSupply), 0U) << "for whom it provides";
  power.on_event(kCopy, Event::kIdle);
  EXPECT_THAT(owner_.take(), ElementsAre("1->F3", "0->F4"));
  // Of a component that there is none the port has said so.
  for (const Event event : {Event::kActive, Event::kIdle, Event::kTransitionDone}) {
    power.on_event(5, event);
    EXPECT_THAT(owner_.take(), IsEmpty());
  }
}

TEST_F(RuntimePowerTest, CompletionsNobodyWaitsForAreToldOn) {
  std::vector<port::PowerComponent> components = five();
  components[kVideo].driver_completes = true;
  RuntimePower& power = make(components);
  power.on_event(kVideo, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), ElementsAre("unexpected 4")) << "nothing is under way";
  // Under way, but over when the call returns.
  owner_.on_set = [&](uint32_t which, uint32_t) {
    if (which == kRender) power.on_event(kRender, Event::kTransitionDone);
  };
  power.look();
  EXPECT_THAT(owner_.take(), ElementsAre("hold 1", "1->F3", "hold 0", "hold 2", "hold 3", "2->F1",
                                         "3->F2", "unexpected 3", "4->F5", "0->F4"));
  power.on_event(kVideo, Event::kTransitionDone);
  EXPECT_THAT(owner_.take(), IsEmpty());
  EXPECT_EQ(power.f_state(kVideo), 5U);
}

// Whom a component provides for, by each reason that it may have.
TEST_F(RuntimePowerTest, AProviderIsUpForEachReasonOfAnother) {
  struct Row {
    const char* sentence;
    port::PowerComponent dependant;
    std::function<void(RuntimePower&)> begins;
    uint32_t f_state;  // of the provider
  };
  const Row rows[] = {
      {"the driver has it active", component(Kind::kOther, 0, 2, {1, kSupply}),
       [](RuntimePower& power) { power.on_event(5, Event::kActive); }, 0},
      {"memory, and an engine works", component(Kind::kMemory, 3, 2, {kSupply}),
       [](RuntimePower& power) { power.add_work(NodeOrdinal{3}); }, 0},
      {"another engine works", component(Kind::kEngine, 3, 2, {kSupply}),
       [](RuntimePower& power) { power.add_work(kRenderNode); }, 4},
      {"its own engine works", component(Kind::kEngine, 3, 2, {kSupply}),
       [](RuntimePower& power) { power.add_work(NodeOrdinal{3}); }, 0},
      {"an engine of no node", component(Kind::kEngine, kNodes, 2, {kSupply}),
       [](RuntimePower& power) { power.add_work(NodeOrdinal{3}); }, 4},
      {"it cannot rest", component(Kind::kOther, 0, 1, {kSupply}), [](RuntimePower&) {}, 4},
      {"the device changes its state",
       [] {
         port::PowerComponent made = component(Kind::kOther, 0, 2, {kSupply});
         made.f0_on_dx = true;
         return made;
       }(),
       [](RuntimePower& power) { power.begin_device_transition(); }, 0},
      {"it names somebody else", component(Kind::kEngine, 3, 2, {kRender}),
       [](RuntimePower& power) { power.add_work(NodeOrdinal{3}); }, 4},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    std::vector<port::PowerComponent> components = five();
    components.push_back(row.dependant);
    RuntimePower& power = make(components);
    power.look();
    EXPECT_EQ(power.f_state(kSupply), 4U);
    row.begins(power);
    EXPECT_EQ(power.f_state(kSupply), row.f_state);
    EXPECT_TRUE(power.settled());
  }
}

// Those who name each other, or themselves, need nobody by that alone.
TEST_F(RuntimePowerTest, RingsRest) {
  std::vector<port::PowerComponent> components = five();
  components[kSupply].providers = {kSupply};
  components[kRender].providers = {kRender};
  RuntimePower& power = resting(components);
  power.add_work(kRenderNode);
  EXPECT_EQ(power.f_state(kRender), 0U) << "nor does it wait for itself";
  power.on_event(kSupply, Event::kActive);
  EXPECT_EQ(power.f_state(kSupply), 0U);
}

TEST_F(RuntimePowerTest, AroundDeviceStatesNothingMovesWhileTheDeviceIsOff) {
  std::vector<port::PowerComponent> components = five();
  components[kVideo].f0_on_dx = true;
  RuntimePower& power = resting(components);
  power.begin_device_transition();
  EXPECT_THAT(owner_.take(), ElementsAre("4->F0"));
  EXPECT_TRUE(power.settled());
  power.device_off();
  power.add_work(kRenderNode);
  EXPECT_THAT(owner_.take(), IsEmpty());
  EXPECT_TRUE(power.settled()) << "nothing is due meanwhile";
  power.end_device_transition();
  EXPECT_THAT(owner_.take(), ElementsAre("2->F0", "3->F0", "free 0", "free 3", "4->F5"));
  EXPECT_TRUE(power.settled());
}

// On its way down a component is wanted up again: it is where it should be, and will not be.
TEST_F(RuntimePowerTest, ATransitionUnderWayIsNotSettled) {
  for (const bool off : {false, true}) {
    std::vector<port::PowerComponent> components = five();
    components[kVideo].driver_completes = true;
    RuntimePower& power = make(components);
    power.look();
    power.add_work(kVideoNode);
    EXPECT_EQ(power.f_state(kVideo), 0U);
    if (off) power.device_off();
    EXPECT_FALSE(power.settled());
    power.on_event(kVideo, Event::kTransitionDone);
    EXPECT_EQ(power.settled(), off) << "now it goes up again, unless the device is off";
  }
}

// What the driver calls from inside a transition is looked at before that is over.
TEST_F(RuntimePowerTest, CallsFromInsideATransitionCount) {
  RuntimePower& power = make();
  owner_.on_set = [&](uint32_t which, uint32_t f_state) {
    if (which == kVideo && f_state != 0) power.on_event(kCopy, Event::kActive);
  };
  power.look();
  EXPECT_EQ(power.f_state(kCopy), 0U);
  EXPECT_EQ(power.f_state(kSupply), 0U);
  EXPECT_EQ(power.f_state(kVideo), 5U);
  EXPECT_EQ(owner_.changes, 1);
}

}  // namespace
}  // namespace dxgkit::dxgk
