#include "dxgk/work/device.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/memory/residency.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/hw_queue.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {

/// A CPU wait under way. Lives on the waiter's stack, or on the heap when an event is to be set
/// later.
struct Device::CpuWait {
  std::atomic<uint32_t> done{0};  // release by the lane, acquire by the waiter: publishes `status`
  Status status = Status::kSuccess;
  vidsch::CpuWaitId id = 0;
  int event_fd = -1;
  bool owned_by_callback = false;
};

Device::Device(Adapter& adapter, Process& process)
    : Object(kType),
      adapter_(adapter),
      floor_(adapter.floor()),
      core_(adapter.core()),
      adapter_reference_(&adapter),
      process_(process) {}

Device::~Device() = default;

Result<Ref<Device>> Device::create(Adapter& adapter, Process& process) {
  // A display-only driver has no devices: nothing renders on it, the kernel shows pictures itself.
  if (adapter.core().display_only()) return Error(Status::kNotSupported);
  DXGKIT_RETURN_ERROR_IF_FAILED(adapter.processes().enter(process));
  Ref<Device> device = make_object<Device>(adapter, process);
  const Result<Handle> handle = process.handles().insert_hidden(device);
  if (!handle.has_value()) {
    adapter.processes().leave(process);
    return Error(handle.error());
  }
  device->handle = *handle;
  Result<port::DeviceInfo> info = adapter.core().port().objects().create_device(
      *handle, /*system=*/false, adapter.processes().handle_of(process));
  if (!info.has_value()) {
    process.handles().erase(*handle);
    adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      device->closing_ = device->closed_ = true;
      adapter.context_allocations().owner_gone(*device);
      if (!adapter.core().failed()) adapter.core().pump();
    });
    adapter.processes().leave(process);
    return Error(info.error());
  }
  device->info_ = *info;
  adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    adapter.devices().push_back(device.get());
    adapter.residency().device_created(*device);
    if (!adapter.core().running()) device->set_error(DeviceState::kStopped);
  });
  process.handles().publish(*handle);
  return device;
}

void Device::set_error(DeviceState state) {
  if (lost()) return;  // THUNK-28
  state_.store(state, std::memory_order_release);
  for (Context* context : contexts) core_.scheduler().fail_context(context->id());
  for (CpuWait* wait : std::exchange(cpu_waits_, {})) {
    if (core_.scheduler().sync_objects().cancel_wait(wait->id))
      finish_wait(*wait, Status::kDeviceRemoved);
  }
  if (residency) adapter_.residency().device_lost(*this);
  // kStopped of a healthy adapter is the device's own end.
  if (state != DeviceState::kStopped || core_.failed()) {
    release_fences_of_lost(*this);
    if (adapter_.hw_queues() != nullptr) adapter_.hw_queues()->device_lost(*this);
  }
  core_.progress();
}

void Device::finish_wait(CpuWait& wait, Status status) {
  std::erase(cpu_waits_, &wait);
  if (wait.event_fd >= 0) {
    const uint64_t one = 1;
    static_cast<void>(
        !write(wait.event_fd, &one, sizeof one));  // a client that closed its end misses it
    close(wait.event_fd);
  }
  if (wait.owned_by_callback) {
    delete &wait;
    return;
  }
  wait.status = status;
  wait.done.store(1, std::memory_order_release);
  core_.runtime().wake_all(wait.done);  // an address only: the waiter may be gone by now
}

Status Device::wait_from_cpu(std::span<const vidsch::SyncPoint> points, vidsch::WaitMode mode,
                             int event_fd) {
  if (event_fd >= 0) {
    const int ours = dup(event_fd);
    if (ours < 0) return Status::kInvalidHandle;
    Status status = Status::kSuccess;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (lost()) {
        status = Status::kDeviceRemoved;
        close(ours);
        return;
      }
      if (!sync_in_reach(adapter_, points)) {
        status = Status::kInvalidParameter;
        close(ours);
        return;
      }
      auto* wait = new CpuWait;
      wait->event_fd = ours;
      wait->owned_by_callback = true;
      cpu_waits_.push_back(wait);
      const vidsch::CpuWaitId id = core_.scheduler().sync_objects().wait_cpu(
          points, mode,
          [this, wait](Status done) DXGKIT_REQUIRES(on_lane) { finish_wait(*wait, done); });
      // A wait that was satisfied at once is gone by now.
      if (std::ranges::find(cpu_waits_, wait) != cpu_waits_.end()) wait->id = id;
      core_.pump();
    });
    return status;
  }
  CpuWait wait;
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (!sync_in_reach(adapter_, points)) {
      status = Status::kInvalidParameter;
      return;
    }
    cpu_waits_.push_back(&wait);
    wait.id = core_.scheduler().sync_objects().wait_cpu(
        points, mode,
        [this, &wait](Status done) DXGKIT_REQUIRES(on_lane) { finish_wait(wait, done); });
    core_.pump();  // a mutex or semaphore this wait consumed may hold back contexts
  });
  if (status != Status::kSuccess) return status;
  while (wait.done.load(std::memory_order_acquire) == 0) core_.lane().wait_helping(wait.done, 0);
  return wait.status;
}

Status Device::signal_from_cpu(std::span<const vidsch::SyncPoint> points) {
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (!sync_in_reach(adapter_, points)) {
      status = Status::kInvalidParameter;
      return;
    }
    status = core_.scheduler().sync_objects().signal(points);
    if (is_success(status)) ++core_.counters().sync_signals;
    core_.pump();
  });
  return status;
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
  if (Display* display = adapter_.display(); display != nullptr) display->device_ends(*this);
  // Whatever is still queued has no owner any more: it is dropped, what is on hardware is waited
  // for.
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (!closed_) set_error(DeviceState::kStopped);
  });
  gate_.close();
  gate_.wait_empty();  // what other threads were making on it is there now, and goes with it
  std::vector<Ref<Context>> own_contexts;
  std::vector<Ref<SyncObject>> own_objects;
  std::vector<Ref<PagingQueue>> own_queues;
  std::vector<Handle> gone;
  if (residency) adapter_.residency().trim().remove_all(*this);  // THUNK-35
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (PagingQueue* queue : paging_queues) own_queues.emplace_back(queue);
  });
  for (const Ref<PagingQueue>& queue : own_queues) {
    process_.handles().erase(queue->handle);
    queue->destroy();
  }
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (Context* context : contexts) own_contexts.emplace_back(context);
    for (SyncObject* object : sync_objects) own_objects.emplace_back(object);
    for (const OpenedAllocation* opened : openings) {
      gone.push_back(opened->handle);
      for (const Ref<OpenedAllocation>& instance : opened->instances())
        gone.push_back(instance->handle);
    }
    for (const Resource* resource : resources) gone.push_back(resource->handle);
  });
  for (const Ref<Context>& context : own_contexts) {
    process_.handles().erase(context->handle);
    context->destroy();
  }
  std::vector<Ref<HwContext>> own_hw_contexts;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (HwContext* context : hw_contexts) own_hw_contexts.emplace_back(context);
  });
  for (const Ref<HwContext>& context : own_hw_contexts) {
    process_.handles().erase(context->handle);
    context->destroy();
  }
  for (const Ref<SyncObject>& object : own_objects) {
    process_.handles().erase(object->handle);
    object->close();
  }
  close_driver_side();
  for (const Handle one : gone) process_.handles().erase(one);
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
    closed_ = true;
    // Resources go whole, stand-alone allocations one by one: drivers are written for the groups
    // that clients make. Those being destroyed already are on their way.
    for (Resource* resource : resources.all()) {
      std::vector<Ref<OpenedAllocation>> members;
      for (OpenedAllocation* member : resource->members) {
        if (!member->closing) members.emplace_back(member);
      }
      if (!resource->closing) {
        resource->closing = true;
        adapter_.teardowns().begin(*this, std::move(members), Ref<Resource>(resource));
      }
    }
    std::vector<Ref<OpenedAllocation>> rest;
    for (OpenedAllocation* opened : openings.all()) {
      if (!opened->closing) rest.emplace_back(opened);
    }
    for (Ref<OpenedAllocation>& opened : rest) {
      std::vector<Ref<OpenedAllocation>> alone;
      alone.push_back(std::move(opened));
      adapter_.teardowns().begin(*this, std::move(alone), Ref<Resource>());
    }
  });
  static_cast<void>(core_.block_until([&]() DXGKIT_REQUIRES(on_lane) { return teardowns == 0; }));
  // Where the adapter stops, the client still has them.
  std::vector<Ref<SyncObject>> native;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    for (SyncObject* object : sync_objects) {
      if (object->shared->native) native.emplace_back(object);
    }
  });
  for (const Ref<SyncObject>& object : native) adapter_.native_fences()->close(*object);
  static_cast<void>(core_.port().objects().destroy_device(
      info_.handle));  // SCHED-23: its failure is recorded, and ignored
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    std::erase(adapter_.devices(), this);
    adapter_.residency().device_destroyed(*this);
    adapter_.context_allocations().owner_gone(*this);
    if (!core_.failed()) core_.pump();
  });
  adapter_.processes().leave(process_);
}

}  // namespace dxgkit::dxgk
