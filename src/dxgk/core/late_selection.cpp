#include "dxgk/core/late_selection.h"

#include <utility>

#include "dxgk/core/adapter_core.h"
#include "runtime/runtime.h"

namespace dxgkit::dxgk {
namespace {

constexpr auto kSlot = static_cast<size_t>(runtime::ThreadSlot::kLateSelection);

LateSelection* offered() {
  void** const slots = runtime::detail::t_thread_slots;
  return slots == nullptr ? nullptr : static_cast<LateSelection*>(slots[kSlot]);
}

}  // namespace

LateSelection::Offer::Offer(LateSelection& late)
    : previous_(std::exchange(runtime::Runtime::current().thread_slot(kSlot), &late)) {}

LateSelection::Offer::~Offer() { runtime::Runtime::current().thread_slot(kSlot) = previous_; }

bool leaves_selection(AdapterCore& core, Object& adapter) {
  LateSelection* const late = offered();
  if (late == nullptr || (late->core_ != nullptr && late->core_ != &core)) return false;
  if (late->core_ == nullptr) late->adapter_ = Ref<Object>(&adapter);
  late->core_ = &core;
  return true;
}

void select_after_call(AdapterCore& core, Object& adapter) {
  core.lane().assert_current();
  if (!leaves_selection(core, adapter)) core.pump();
}

void select_what_is_left() {
  if (LateSelection* const late = offered(); late != nullptr) late->run();
}

void LateSelection::run() {
  AdapterCore* const core = std::exchange(core_, nullptr);
  if (core == nullptr) return;
  const Ref<Object> adapter = std::exchange(adapter_, {});
  // Beside a transition: the client has its answer, and its next call need not be one that waits.
  if (const GatePass pass(core->gate(), GatePass::Transitions::kBeside); pass)
    core->lane().run([&]() DXGKIT_REQUIRES(on_lane) { core->pump(); });
}

}  // namespace dxgkit::dxgk
