#include "dxgk/work/device.h"

#include <utility>

#include "dxgk/core/process.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/residency_budget.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/driver_processes.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

Device::Device(Adapter& adapter, WorkFloor& floor, Process& process)
    : DeviceCore(process),
      adapter_(adapter),
      floor_(floor),
      core_(floor.core),
      adapter_reference_(floor.keep_adapter()),
      sync_(floor, *this),
      memory_(floor, *this, sync_),
      locks_(memory_),
      offers_(memory_) {}

Device::~Device() = default;

Result<Ref<Device>> Device::create(Adapter& adapter, WorkFloor& floor, Process& process) {
  AdapterCore& core = floor.core;
  // A display-only driver has no devices: nothing renders on it, the kernel shows pictures itself.
  if (core.display_only()) return Error(Status::kNotSupported);
  DXGKIT_RETURN_ERROR_IF_FAILED(floor.processes->enter(process));
  Ref<Device> device = make_object<Device>(adapter, floor, process);
  const Result<Handle> handle = process.handles().insert_hidden(device);
  if (!handle.has_value()) {
    floor.processes->leave(process);
    return Error(handle.error());
  }
  device->handle = *handle;
  Result<port::DeviceInfo> info = core.port().objects().create_device(
      *handle, /*system=*/false, floor.processes->handle_of(process));
  if (!info.has_value()) {
    process.handles().erase(*handle);
    core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      device->closing_ = true;
      device->memory_.close();
      floor.context_allocations->owner_gone(*device);
      if (!core.failed()) core.pump();
    });
    floor.processes->leave(process);
    return Error(info.error());
  }
  device->set_info(*info);
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    floor.devices.push_back(device.get());
    floor.residency->device_created(device->memory_);
    if (!core.running()) device->set_error(DeviceState::kStopped);
  });
  process.handles().publish(*handle);
  return device;
}

void Device::end_work(DeviceState state) {
  for (Context* context : contexts) core_.scheduler().fail_context(context->id());
  sync_.cancel_waits();
  if (memory_.residency) floor_.residency->device_lost(memory_);
  // kStopped of a healthy adapter is the device's own end.
  if (state != DeviceState::kStopped || core_.failed()) {
    sync_.release_fences_of_lost();
    if (floor_.hw_queues != nullptr) floor_.hw_queues->device_lost(*this);
  }
  core_.progress();
}

Status Device::wait_for_idle() {
  const bool idle = core_.block_until([&]() DXGKIT_REQUIRES(on_lane) {
    for (const Context* context : contexts) {
      if (core_.scheduler().packets_of(context->id()) != 0) return false;
    }
    return true;
  });
  return idle && !lost() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Device::destroy() {
  if (floor_.source_owners != nullptr) floor_.source_owners->device_ends(*this);
  // Whatever is still queued has no owner any more: it is dropped, what is on hardware is waited
  // for.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!memory_.closed()) set_error(DeviceState::kStopped);
  });
  gate().close();
  gate().wait_empty();  // what other threads were making on it is there now, and goes with it
  if (floor_.source_owners != nullptr) {
    floor_.source_owners->device_ends(*this);  // they may have shown something, too
    floor_.source_owners->before_memory_ends(*this);
  }
  floor_.protected_sessions->device_ends(*this);
  std::vector<Ref<Context>> own_contexts;
  std::vector<Ref<SyncObject>> own_objects;
  std::vector<Ref<PagingQueue>> own_queues;
  std::vector<Handle> gone;
  if (memory_.residency) floor_.budgets->trim().remove_all(memory_);  // THUNK-35
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (PagingQueue* queue : memory_.paging_queues) own_queues.emplace_back(queue);
  });
  for (const Ref<PagingQueue>& queue : own_queues) {
    process().handles().erase(queue->handle);
    queue->destroy();
  }
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (Context* context : contexts) own_contexts.emplace_back(context);
    for (SyncObject* object : sync_.objects) own_objects.emplace_back(object);
    for (const OpenedAllocation* opened : memory_.openings) {
      gone.push_back(opened->handle);
      for (const Ref<OpenedAllocation>& instance : opened->instances())
        gone.push_back(instance->handle);
    }
    for (const Resource* resource : memory_.resources) gone.push_back(resource->handle);
  });
  for (const Ref<Context>& context : own_contexts) {
    process().handles().erase(context->handle);
    context->destroy();
  }
  std::vector<Ref<HwContext>> own_hw_contexts;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (HwContext* context : hw_contexts) own_hw_contexts.emplace_back(context);
  });
  for (const Ref<HwContext>& context : own_hw_contexts) {
    process().handles().erase(context->handle);
    context->destroy();
  }
  for (const Ref<SyncObject>& object : own_objects) {
    process().handles().erase(object->handle);
    object->close();
  }
  close_driver_side();
  for (const Handle one : gone) process().handles().erase(one);
}

void Device::close_driver_side() {
  bool first = false;
  std::vector<Ref<Context>> own_contexts;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    first = !std::exchange(closing_, true);
    if (!first) return;
    for (Context* context : contexts) own_contexts.emplace_back(context);
  });
  if (!first) return;
  for (const Ref<Context>& context : own_contexts) context->close_driver_side();
  std::vector<Ref<HwContext>> own_hw_contexts;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (HwContext* context : hw_contexts) own_hw_contexts.emplace_back(context);
  });
  for (const Ref<HwContext>& context : own_hw_contexts) context->close_driver_side();
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    // Not before: another thread that destroys an allocation would only drop the handle, and leave
    // what is listed here without anybody who holds it.
    memory_.close();
  });
  static_cast<void>(
      core_.block_until([&]() DXGKIT_REQUIRES(on_lane) { return memory_.teardowns == 0; }));
  // Where the adapter stops, the client still has them.
  std::vector<Ref<SyncObject>> native;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (SyncObject* object : sync_.objects) {
      if (object->shared->native) native.emplace_back(object);
    }
  });
  for (const Ref<SyncObject>& object : native) floor_.native_fences->close(*object);
  static_cast<void>(core_.port().objects().destroy_device(
      driver_handle()));  // SCHED-23: its failure is recorded, and ignored
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    std::erase(floor_.devices, this);
    floor_.residency->device_destroyed(memory_);
    floor_.context_allocations->owner_gone(*this);
    if (!core_.failed()) core_.pump();
  });
  floor_.processes->leave(process());
}

}  // namespace dxgkit::dxgk
