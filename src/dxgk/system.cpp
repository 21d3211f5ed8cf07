#include "dxgk/system.h"

#include <algorithm>

#include "dxgk/core/client_memory.h"
#include "dxgk/debug_text.h"
#include "dxgk/power/power.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_file.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/priority.h"
#include "dxgk/work/sync_report.h"
#include "dxgk/work/timeout.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

System::System(runtime::Runtime& runtime, bus::Machine& machine, nt::Kernel& kernel,
               verifier::Findings& findings)
    : impl_(std::make_unique<Impl>(runtime, machine, kernel, findings)) {
  show_to_debugger(*this);
}

System::~System() {
  hide_from_debugger(*this);
  while (!impl_->processes.empty()) end_process(*impl_->processes.front());
  for (const Ref<Adapter>& adapter : impl_->running()) adapter->stop();
}

Result<Luid> System::start_adapter(port::Driver& driver, bus::PciFunction& function,
                                   const AdapterOptions& options) {
  Luid luid;
  {
    runtime::MutexLock lock(impl_->mutex);
    luid.low = ++impl_->last_luid;
  }
  Ref<Adapter> adapter =
      make_object<Adapter>(*this, luid,
                           AdapterCore::Surroundings{.runtime = impl_->runtime,
                                                     .machine = impl_->machine,
                                                     .kernel = impl_->kernel,
                                                     .findings = impl_->findings,
                                                     .driver = &driver,
                                                     .function = function,
                                                     .global_shares = impl_->global_shares},
                           options);
  DXGKIT_RETURN_ERROR_IF_FAILED(adapter->start());
  runtime::MutexLock lock(impl_->mutex);
  impl_->screens.add(luid, adapter->core().facts().start.video_present_sources);
  impl_->adapters.push_back(std::move(adapter));
  return luid;
}

Status System::stop_adapter(Luid luid) {
  Ref<Adapter> found = impl_->take(luid);
  if (!found) return Status::kInvalidParameter;
  found->stop();
  return Status::kSuccess;
}

Result<PowerOutcome> System::set_power(Luid luid, PowerTarget target) {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  return adapter->floor().power->set(target);
}

Status System::power_failed(Luid luid, PowerTarget during) {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (!adapter) return Status::kInvalidParameter;
  return adapter->floor().power->fail(during);
}

bool System::wait_for_packets(Luid luid, uint64_t completed, const std::atomic<bool>& cancelled) {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (!adapter) return false;
  bool reached = false;
  const bool looked = adapter->core().block_until([&]() DXGKIT_REQUIRES(on_lane) {
    reached = adapter->core().counters().packets_completed >= completed;
    return reached || cancelled.load();
  });
  return looked && reached;
}

void System::nudge(Luid luid) {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (adapter)
    adapter->core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { adapter->core().progress(); });
}

Status System::remove_adapter(Luid luid) {
  Ref<Adapter> found = impl_->take(luid);
  if (!found) return Status::kInvalidParameter;
  found->remove();
  return Status::kSuccess;
}

std::vector<Luid> System::adapters() const {
  std::vector<Luid> luids;
  for (const Ref<Adapter>& adapter : impl_->running()) luids.push_back(adapter->core().luid());
  return luids;
}

Result<AdapterStatistics> System::statistics(Luid luid) const {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  return adapter->statistics();
}

Result<std::vector<TimeoutReport>> System::timeouts(Luid luid) const {
  const Ref<Adapter> adapter = impl_->find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  std::vector<TimeoutReport> reports;
  adapter->core().lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { reports = adapter->floor().timeout->log().reports(); });
  return reports;
}

Process& System::create_process(std::string name) {
  runtime::MutexLock lock(impl_->mutex);
  impl_->processes.push_back(std::make_shared<Process>(
      *this, std::move(name), ++impl_->last_process, impl_->kernel_number));
  Process& process = *impl_->processes.back();
  trace::emit_name(trace::ObjectClass::kProcess, process.number(), process.name());
  return process;
}

Status System::set_priority_class(const Process& caller, Process& process,
                                  vidsch::PriorityClass priority_class) {
  if (priority_class >= vidsch::PriorityClass::kHigh && !caller.base_priority_privilege())
    return Status::kInvalidParameter;
  // A context made from here on reads it in the lane, one made before is visited there.
  process.set_priority_class(priority_class);
  for (const Ref<Adapter>& adapter : impl_->running())
    follow_priority_class(adapter->floor(), process);
  return Status::kSuccess;
}

void System::end_process(Process& process) {
  Process::Scope scope(&process);
  impl_->reap_nt_handles();
  // THUNK-08: devices with all they own first, then what is left, which are open adapters.
  const auto destroy_devices = [&] {
    for (const auto& [handle, type] : process.handles().live()) {
      if (type != ObjectType::kDevice) continue;
      const Result<Ref<Device>> device = process.handles().find<Device>(handle);
      if (!device.has_value()) continue;
      // An adapter that is being stopped closes the driver's side itself: before, or after, not
      // beside it.
      (*device)->adapter().core().while_stable([&] {
        if (process.handles().take<Device>(handle).has_value()) (*device)->destroy();
      });
    }
    close_sync_of(process);
  };
  process.gate().close();
  destroy_devices();  // wakes whoever waits inside
  process.gate().wait_empty();
  destroy_devices();  // what those inside were making
  for (const auto& [handle, type] : process.handles().live()) process.handles().erase(handle);
  if (process.client_memory() != nullptr) process.client_memory()->end();
  runtime::MutexLock lock(impl_->mutex);
  impl_->process_handles.close_all(process);
  std::erase_if(impl_->processes, [&](const auto& owned) { return owned.get() == &process; });
}

void System::Impl::drop_holds(const NtHandles::Named& named) {
  if (named.resource) {
    MemoryFloor& floor = named.resource->floor();
    floor.core.lane().run(
        [&]() DXGKIT_REQUIRES(on_lane) { floor.teardowns->drop_hold(*named.resource); });
  }
  for (const Ref<SharedSync>& sync :
       {named.sync, named.file ? named.file->sync() : Ref<SharedSync>()}) {
    if (!sync) continue;
    SyncFloor& floor = sync->floor();
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { sync->drop_hold(); });
    if (sync->native) floor.native_fences->end(*sync);
  }
  if (named.mutex) named.mutex->drop_hold();
  if (named.session) {
    SyncFloor& floor = named.session->floor();
    floor.core.while_stable([&] { floor.protected_sessions->drop_hold(*named.session); });
  }
}

void System::Impl::reap_nt_handles() {
  for (const NtHandles::Named& named : nt_handles.take_closed()) drop_holds(named);
}

std::string System::Impl::describe_waits() const {
  std::string report;
  for (const Ref<Adapter>& adapter : adapters) report += dxgk::describe_waits(adapter->floor());
  return report;
}

}  // namespace dxgkit::dxgk
