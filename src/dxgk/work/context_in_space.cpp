#include "dxgk/work/context_in_space.h"

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {
namespace {

/// Null: an ordinary context.
HwContext* hw_context_of(Context& context) {
  return context.of_hw_queue() ? &static_cast<HwQueue&>(context).hw_context() : nullptr;
}

}  // namespace

ContextInSpace::ContextInSpace(Context& context)
    : SpaceUser({.id = context.id(),
                 .process = context.device().process().number(),
                 .driver_handle = context.driver_handle(),
                 .driver_device = context.device().driver_handle(),
                 .handle = context.handle,
                 .of_hw_queue = context.of_hw_queue()}),
      context_(context) {}

bool ContextInSpace::device_lost() const { return context_.device().lost(); }

void ContextInSpace::fail_device(DeviceState state) { context_.device().set_error(state); }

void ContextInSpace::keep_off(bool off) {
  WorkFloor& floor = context_.device().floor();
  floor.core.scheduler().set_suspended(context_.id(), off);
  HwContext* const on_engine = hw_context_of(context_);
  if (on_engine == nullptr) return;
  if (off) {
    floor.hw_queues->suspension().take_off(*on_engine);
  } else {
    floor.hw_queues->suspension().let_go(*on_engine);
  }
}

bool ContextInSpace::off_engines() const {
  WorkFloor& floor = context_.device().floor();
  const HwContext* const on_engine = hw_context_of(context_);
  if (on_engine != nullptr && floor.hw_queues->scheduling())
    return floor.hw_queues->suspension().off(*on_engine);
  return !floor.core.scheduler().on_hardware(context_.id());
}

bool ContextInSpace::knows_root(const port::RootPageTable& root) const {
  const HwContext* const on_engine = hw_context_of(context_);
  if (on_engine == nullptr) return false;
  const std::optional<port::RootPageTable>& told = on_engine->root;
  return told.has_value() && told->address == root.address && told->entry_count == root.entry_count;
}

void ContextInSpace::root_was_set(const port::RootPageTable& root) {
  if (HwContext* const on_engine = hw_context_of(context_)) on_engine->root = root;
}

}  // namespace dxgkit::dxgk
