#include "dxgk/adapter/driver_callbacks.h"

#include <utility>

#include "dxgk/adapter/exclusive_checks.h"
#include "dxgk/core/diagnostic_reports.h"
#include "dxgk/core/driver_handles.h"
#include "dxgk/display/display.h"
#include "dxgk/power/component_power.h"
#include "dxgk/power/exclusions.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context.h"
#include "dxgk/work/context_allocation_calls.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/interrupt_reports.h"

namespace dxgkit::dxgk {

DriverCallbacks::DriverCallbacks(DisplayFloor& floor, ExclusiveChecks& exclusive_checks)
    : floor_(floor), core_(floor.core), exclusive_checks_(exclusive_checks) {}

void* DriverCallbacks::get_handle_data(uint32_t handle, HandleType type, bool device_specific) {
  if (device_specific && type != HandleType::kAllocation) return nullptr;  // ALLOC-33
  switch (type) {
    case HandleType::kAllocation: {
      const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(handle);
      if (!opened || &opened->device->core() != &core_) return nullptr;
      return device_specific ? opened->device_specific : opened->driver_allocation;
    }
    case HandleType::kResource: {
      const Ref<Resource> resource = find_for_driver<Resource>(handle);
      return resource && &resource->device->core() == &core_ ? resource->driver_handle : nullptr;
    }
    case HandleType::kContext:
    case HandleType::kDevice:
    case HandleType::kProcess:
      break;  // no callback asks for them
  }
  return nullptr;
}

uint32_t DriverCallbacks::get_handle_parent(uint32_t allocation) {
  const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(allocation);
  if (!opened || &opened->device->core() != &core_) return 0;
  return opened->resource ? opened->resource->handle : 0;
}

uint32_t DriverCallbacks::enum_handle_children(uint32_t resource, uint32_t index) {
  const Ref<Resource> found = find_for_driver<Resource>(resource);
  if (!found || &found->device->core() != &core_) return 0;
  uint32_t child = 0;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (index < found->members.size()) child = found->members[index]->handle;
  });
  return child;
}

void* DriverCallbacks::acquire_handle_data(uint32_t handle, HandleType type, bool device_specific,
                                           void** reference) {
  *reference = nullptr;
  if (type != HandleType::kAllocation)
    return nullptr;  // only allocations can be held (see the support table)
  const Ref<OpenedAllocation> opened = find_for_driver<OpenedAllocation>(handle);
  if (!opened || &opened->device->core() != &core_) return nullptr;
  bool held = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (opened->closing) return;
    ++opened->driver_references;
    opened->add_reference();
    held = true;
  });
  if (!held) return nullptr;
  *reference = opened.get();
  return device_specific ? opened->device_specific : opened->driver_allocation;
}

void DriverCallbacks::release_handle_data(void* reference) {
  if (reference == nullptr) return;
  auto* opened = static_cast<OpenedAllocation*>(reference);
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    DXGKIT_CHECK(opened->driver_references > 0);
    --opened->driver_references;
    core_.progress();
  });
  opened->drop_reference();
}

void DriverCallbacks::on_interrupts(std::span<const port::InterruptReport> reports) {
  floor_.reports->add(reports);
}

void DriverCallbacks::on_fatal(const verifier::Finding& finding) {
  static_cast<void>(finding);  // reported by the port already
  core_.fail_as_reported();
}

void DriverCallbacks::on_child_status(uint32_t child, bool connected) {
  if (floor_.display != nullptr) floor_.display->worker().add_hot_plug(child, connected);
}

void DriverCallbacks::on_connector_change() {
  if (floor_.display != nullptr)
    floor_.display->worker().add_hot_plug(DisplayWorker::kConnectors, true);
}

void DriverCallbacks::on_planes_disabled(uint32_t source) {
  core_.lane().post([this, source]() DXGKIT_REQUIRES(on_lane) {
    Planes* const planes = overlays_of(floor_.display);
    if (planes != nullptr) planes->set_disabled(source, true);
  });
}

Status DriverCallbacks::signal_cpu_event(uint64_t event) {
  CpuEvents* const events = floor_.cpu_events;
  return events == nullptr ? Status::kInvalidParameter : events->signal(event);
}

void DriverCallbacks::on_component(uint32_t component, ComponentEvent event) {
  floor_.component_power->on_event(component, event);
}

Result<uint64_t> DriverCallbacks::reserve_gpu_va(const port::GpuVaReservation& range) {
  AddressSpaces* const spaces = floor_.spaces;
  return spaces != nullptr ? spaces->reserve_for_driver(range) : Error(Status::kNotSupported);
}

Status DriverCallbacks::on_hw_context_invalid(void* context, bool collateral) {
  static_cast<void>(collateral);  // the device is lost either way
  HwQueues* const queues = floor_.hw_queues;
  return queues != nullptr ? queues->resets().invalidate(context) : Status::kNotSupported;
}

void DriverCallbacks::before_exclusive_ddi(const char* ddi, SyncLevel level) {
  exclusive_checks_.before(ddi, level);
}

Status DriverCallbacks::exclude_access(bool evict, std::function<void(Status)> call) {
  return floor_.exclusions->add(evict, std::move(call));
}

Status DriverCallbacks::set_protected_session_status(uint64_t session, bool valid) {
  return floor_.protected_sessions->set_status(session, valid);
}

Status DriverCallbacks::on_diagnostic(port::DiagnosticReport report) {
  return floor_.diagnostics->add(std::move(report));
}

Status DriverCallbacks::create_context_allocation(const port::ContextAllocationRequest& request,
                                                  uint64_t* handle) {
  return floor_.context_allocation_calls->create(request, handle);
}

Status DriverCallbacks::destroy_context_allocation(uint64_t handle) {
  return floor_.context_allocation_calls->destroy(handle);
}

bool DriverCallbacks::has_context_allocation(uint64_t handle) {
  return floor_.context_allocation_calls->contains(handle);
}

Status DriverCallbacks::update_context_allocation(uint64_t handle,
                                                  std::span<const std::byte> data) {
  return floor_.context_allocation_calls->update(handle, data);
}

}  // namespace dxgkit::dxgk
