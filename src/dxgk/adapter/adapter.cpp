#include "dxgk/adapter/adapter.h"

#include <fmt/format.h>

#include "dxgk/device.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

Adapter::Adapter(System& system, Luid luid, runtime::Runtime& runtime, bus::Machine& machine,
                 nt::Kernel& kernel, verifier::Findings& findings, port::Driver& driver,
                 bus::PciFunction& function, const AdapterOptions& options)
    : Object(kType),
      system_(system),
      luid_(luid),
      runtime_(runtime),
      machine_(machine),
      kernel_(kernel),
      findings_(findings),
      driver_(driver),
      function_(function),
      options_(options),
      lane_(runtime, fmt::format("adapter {}", luid.low)),
      power_(std::make_unique<Power>(*this)),
      timeout_(std::make_unique<Timeout>(*this)) {}

Adapter::~Adapter() { DXGKIT_CHECK(port_ == nullptr); }  // stopped, or never started

bool Adapter::block_until(const std::function<bool()>& ready) {
  blocked_.fetch_add(1);  // before the first look, so that progress() made after it wakes us
  bool done = false;
  bool hopeless = false;
  for (;;) {
    const uint32_t seen = progress_.load();
    lane_.run([&] {
      done = ready();
      hopeless = failed_;
    });
    if (done || hopeless) break;
    lane_.wait_helping(progress_, seen);
  }
  blocked_.fetch_sub(1);
  return done;
}

bool Adapter::block_until_awake(const std::function<bool()>& ready) {
  return block_until([&] { return power_->awake() && ready(); });
}

bool Adapter::run_with_idle_hardware(const std::function<void()>& work) {
  lane_.run([&] { ++holds_; });
  bool ran = false;
  static_cast<void>(block_until([&] {
    // What is on hardware may be what hangs.
    if (scheduler_->anything_on_hardware()) return timeout_->resetting_adapter();
    if (!failed_) {
      work();
      ran = true;
    }
    return true;
  }));
  lane_.run([&] {
    --holds_;
    pump();
  });
  return ran;
}

void Adapter::while_stable(const std::function<void()>& work) {
  if (GatePass pass(gate_); pass) {
    work();
    return;
  }
  stopped_.wait();
  work();
}

void Adapter::progress() {
  if (gpu_va_) gpu_va_->collect();
  if (residency_ && residency_->anybody_waits()) residency_->advance();
  if (residency_) residency_->look_when_quiet();
  if (!teardowns_.empty()) advance_teardowns();
  if (!pending_offers_.empty()) advance_offers();
  if (context_allocations_ && !context_allocations_->settled()) context_allocations_->advance();
  progress_.fetch_add(1);
  if (blocked_.load() != 0) runtime_.wake_all(progress_);
}

void Adapter::fail(verifier::Finding finding) {
  // After the first the machine would stand still; what comes then is its consequence.
  if (fatal_.exchange(true)) return;
  findings_.report(std::move(finding));
  lane_.post_from_interrupt([this] { stop_after_failure(); });
}

void Adapter::on_fatal(const verifier::Finding& finding) {
  static_cast<void>(finding);  // reported by the port already
  if (fatal_.exchange(true)) return;
  lane_.post_from_interrupt([this] { stop_after_failure(); });
}

void Adapter::stop_after_failure() {
  if (failed_) return;
  failed_ = true;
  trace::emit(trace::EventKind::kAdapterState, luid_.low, 2);
  if (paging_) paging_->halt();
  if (scheduler_) scheduler_->halt();
  if (display_) display_->on_adapter_failed();
  lose_devices(DeviceState::kStopped);
  advance_teardowns();
  progress();
}

void Adapter::lose_devices(DeviceState state) {
  for (Device* device : devices_) device->set_error(state);
}

AdapterStatistics Adapter::statistics() {
  AdapterStatistics sums;
  lane_.run([&] {
    sums = counters_;
    sums.engine_resets = timeout_->engine_resets();
    sums.adapter_resets = timeout_->adapter_resets();
    if (!memory_) return;
    const vidmm::Statistics& memory = memory_->statistics();
    sums.page_ins = memory.page_ins;
    sums.page_outs = memory.page_outs;
    sums.bytes_in = memory.bytes_in;
    sums.bytes_out = memory.bytes_out;
    sums.evictions = memory.evictions;
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

Status Adapter::enter_process(Process& process) {
  bool blocked = false;
  lane_.run([&] { blocked = timeout_->is_blocked(process.number()); });
  if (blocked) return Status::kDeviceRemoved;  // TDR-06
  runtime::MutexLock lock(process.mutex);
  Process::OnAdapter& here = process.on_adapters[luid_.low];
  if (here.devices++ != 0) return Status::kSuccess;
  if (gpu_va_) gpu_va_->process_begins(process.number());
  Result<void*> handle = port_->objects().create_process(process.number(), /*system=*/false);
  if (!handle.has_value()) {
    --here.devices;
    if (gpu_va_) gpu_va_->process_ends(process.number());
    return handle.error();
  }
  here.driver_process = *handle;
  if (gpu_va_) gpu_va_->process_made(process.number(), *handle);
  return Status::kSuccess;
}

void Adapter::leave_process(Process& process) {
  runtime::MutexLock lock(process.mutex);
  Process::OnAdapter& here = process.on_adapters[luid_.low];
  DXGKIT_CHECK(here.devices > 0);
  if (--here.devices != 0) return;
  if (gpu_va_) gpu_va_->process_ends(process.number());
  static_cast<void>(port_->objects().destroy_process(here.driver_process));
  here.driver_process = nullptr;
}

void* Adapter::driver_process(Process& process) const {
  runtime::MutexLock lock(process.mutex);
  return process.on_adapters[luid_.low].driver_process;
}

void Adapter::watch_for_quantum() {
  const std::optional<int64_t> due = scheduler_->quantum_deadline();
  // One that rings early finds nothing to do and is set again.
  if (!due || (quantum_due_ && *quantum_due_ <= *due)) return;
  quantum_due_ = due;
  quantum_timer_->arm(*due);
}

}  // namespace dxgkit::dxgk
