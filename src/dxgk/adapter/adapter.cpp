#include "dxgk/adapter/adapter.h"

#include <utility>

#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/display/flips.h"
#include "dxgk/display/periodic_fences.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/residency_budget.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Adapter::Adapter(System& system, Luid luid, const AdapterCore::Surroundings& around,
                 const AdapterOptions& options)
    : Object(kType),
      system_(system),
      core_(*this, luid, around, options),
      floor_(core_, *this),
      rules_(core_),
      callbacks_(floor_, exclusive_checks_),
      paging_steps_(floor_),
      upward_(floor_),
      reset_effects_(floor_),
      exclusive_checks_(core_, *this),
      power_(std::make_unique<Power>(floor_)),
      timeout_(std::make_unique<Timeout>(floor_, reset_effects_)),
      selection_(core_, *timeout_),
      reports_(core_, *this, *timeout_),
      exclusions_(core_, *power_),
      component_power_(core_),
      context_allocation_calls_(core_),
      backing_pages_(core_),
      protected_sessions_(floor_) {
  floor_.backing_pages = &backing_pages_;
  floor_.component_power = &component_power_;
  floor_.diagnostics = &diagnostics_;
  floor_.context_allocation_calls = &context_allocation_calls_;
  floor_.exclusions = &exclusions_;
  floor_.power = power_.get();
  floor_.protected_sessions = &protected_sessions_;
  floor_.reports = &reports_;
  floor_.selection = &selection_;
  floor_.shown = &upward_;
  floor_.source_owners = &upward_;
  floor_.timeout = timeout_.get();
}

Adapter::~Adapter() { DXGKIT_CHECK(!core_.has_port()); }  // stopped, or never started

void Adapter::advance_waiting() {
  // What was shown or mapped and is not needed any more makes room first. Then lists that wait for
  // room, and packets that wait for paging to be quiet. What became idle by that closes, is offered
  // and is freed last: each of these plans paging of its own.
  if (gpu_va_) floor_.plan_effects->collect();
  if (residency_ && residency_->anybody_waits()) residency_->advance();
  if (residency_) residency_->look_when_quiet();
  if (teardowns_ && !teardowns_->empty()) teardowns_->advance();
  if (offers_ && !offers_->empty()) offers_->advance();
  if (context_allocations_ && !context_allocations_->settled()) context_allocations_->advance();
}

void Adapter::stop_after_failure() {
  if (core_.failed()) return;
  core_.set_failed();
  trace::emit(trace::EventKind::kAdapterState, core_.luid().low, 2);
  if (paging_) paging_->halt();
  if (core_.has_scheduler()) core_.scheduler().halt();
  if (display_) display_->on_adapter_failed();
  lose_devices(DeviceState::kStopped);
  if (teardowns_) teardowns_->advance();
  core_.progress();
}

void Adapter::lose_devices(DeviceState state) {
  for (Device* device : floor_.devices) device->set_error(state);
}

AdapterStatistics Adapter::statistics() {
  AdapterStatistics sums;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    sums = core_.counters();
    sums.engine_resets = timeout_->counts().engine_resets;
    sums.adapter_resets = timeout_->adapter_reset().resets();
    sums.watch_preemptions = timeout_->counts().watch_preemptions;
    if (!core_.has_memory()) return;
    const vidmm::Statistics& memory = core_.memory().statistics();
    sums.page_ins = memory.page_ins;
    sums.page_outs = memory.page_outs;
    sums.bytes_in = memory.bytes_in;
    sums.bytes_out = memory.bytes_out;
    sums.evictions = memory.evictions;
    sums.returns = memory.returns;
    sums.fills = memory.fills;
    sums.aperture_maps = memory.aperture_maps;
    const auto strikes = [&](VerifierSwitch which) -> uint64_t& {
      return sums.verifier_strikes[static_cast<size_t>(which)];
    };
    strikes(VerifierSwitch::kNeverDiscardOffer) = memory.offers_kept;
    strikes(VerifierSwitch::kNoDemotion) = memory.demotions_prevented;
    strikes(VerifierSwitch::kFailDefragPass) = memory.compactions_failed;
  });
  return sums;
}

void Adapter::allocation_closes(AllocationId allocation) {
  if (gpu_va_) floor_.updates->let_go(allocation);
}

void Adapter::process_has_closed(AllocationId allocation, Process& process) {
  gpu_va_->forget(allocation, process);
}

void Adapter::allocation_ends(AllocationId allocation) {
  if (gpu_va_) gpu_va_->forget(allocation);
}

void Adapter::on_present_progress(const port::InterruptReport& report) {
  if (display_) display_->presents().on_progress(report);
}

bool Adapter::on_vsync(const port::InterruptReport& report) {
  signal_periodic_fences(floor_, report.source);
  if (!display_) return false;
  display_->on_vsync(report);
  return true;
}

void Adapter::engine_work(NodeOrdinal node, bool comes) {
  component_power_.engine_work(node, comes);
}

void Adapter::flip_reached(uint32_t source, uint64_t flip, bool shown) {
  display_->flips()->reached(source, flip, shown);
}

bool Adapter::must_be_empty(SegmentId segment) const { return power_->empties(segment); }

std::unique_ptr<Process> Adapter::make_process(std::string name, uint32_t number) {
  return std::make_unique<Process>(system_, std::move(name), number);
}

Result<Ref<Device>> Adapter::make_device(Process& process) {
  return Device::create(*this, floor_, process);
}

}  // namespace dxgkit::dxgk
