#include "dxgk/sync/device_sync.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "dxgk/core/client_memory.h"
#include "dxgk/core/process.h"
#include "dxgk/sync/client_event.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/sync_addresses.h"
#include "runtime/descriptors.h"

namespace dxgkit::dxgk {
namespace {

/// SYNC-35: a signal would take a monitored fence back and may not.
bool lowers_a_fence(const vidsch::SyncObjects& objects, std::span<const vidsch::SyncPoint> points) {
  return std::ranges::any_of(points, [&](const vidsch::SyncPoint& point) {
    return !point.allow_rewind && objects.contains(point.object) &&
           objects.kind(point.object) == vidsch::SyncKind::kMonitoredFence &&
           point.value < objects.value(point.object);
  });
}

}  // namespace

/// A CPU wait under way. Lives on the waiter's stack, or on the heap when an event is to be set
/// later.
struct DeviceSync::CpuWait {
  std::atomic<uint32_t> done{0};  // release by the lane, acquire by the waiter: publishes `status`
  Status status = Status::kSuccess;
  vidsch::CpuWaitId id = 0;
  int event_fd = -1;
  bool owned_by_callback = false;
};

Result<Ref<SyncObject>> DeviceSync::create_sync_object(const SyncRequest& request) {
  vidsch::SyncDesc desc;
  MemoryCharge charge;
  if (request.kind == vidsch::SyncKind::kMonitoredFence) {
    const uint64_t bytes = (request.native ? 2 : 1) * kPageBytes;
    DXGKIT_ASSIGN_OR_RETURN(charge, MemoryCharge::take(quota_of(device_.process()), bytes));
  }
  DXGKIT_ASSIGN_OR_RETURN(const Ref<SharedSync> shared, SharedSync::create(floor_, request, &desc));
  shared->charge = std::move(charge);
  GlobalShares& shares = core_.global_shares();
  if (request.shared && !request.nt_security) {
    DXGKIT_ASSIGN_OR_RETURN(shared->global, shares.insert(shared));
  }
  Result<Ref<SyncObject>> object =
      SyncObject::open(device_.process(), this, shared, request.use, &desc);
  if (!object.has_value()) {
    if (shared->global != 0) shares.erase(shared->global);
    if (shared->native) floor_.native_fences->end(*shared);
    if (shared->cpu_event != 0) floor_.cpu_events->end(shared->cpu_event);
    return object;
  }
  (*object)->of_paging_queue = request.of_paging_queue;
  DXGKIT_RETURN_ERROR_IF_FAILED(complete(*object));
  return object;
}

Result<Ref<SyncObject>> DeviceSync::open_sync_object(const Ref<SharedSync>& shared,
                                                     const SyncUse& use) {
  DXGKIT_ASSIGN_OR_RETURN(const Ref<SyncObject> object,
                          SyncObject::open(device_.process(), this, shared, use));
  DXGKIT_RETURN_ERROR_IF_FAILED(complete(object));
  return object;
}

Status DeviceSync::complete(const Ref<SyncObject>& object) {
  const bool addressed = object->shared->has_page && floor_.addresses != nullptr &&
                         !object->use.no_gpu_access && !object->shared->no_gpu_access &&
                         !object->of_paging_queue;
  Status status = Status::kSuccess;
  const auto map = [&]() DXGKIT_REQUIRES(on_lane) {
    if (object->process == nullptr) {  // another thread ended the device meanwhile
      status = Status::kDeviceRemoved;
      return true;
    }
    // Queued behind what was queued so far, and ahead of what any later paging fence value stands
    // for (SYNC-16).
    const Result<uint64_t> address = floor_.addresses->map_system_page(
        device_.process().number(), object->shared->page, nullptr);
    if (address.has_value()) object->gpu_address = *address;
    if (!address.has_value()) status = address.error();
    if (!object->shared->native || !is_success(status)) return true;
    const Result<uint64_t> monitored = floor_.addresses->map_system_page(
        device_.process().number(), object->shared->monitored_page, nullptr);
    if (monitored.has_value()) object->monitored_gpu_address = *monitored;
    if (!monitored.has_value()) status = monitored.error();
    return true;
  };
  if (addressed && !core_.block_until_awake(map)) status = Status::kDeviceRemoved;
  if (is_success(status) && object->shared->native) status = floor_.native_fences->open(*object);
  if (is_success(status)) {
    device_.process().handles().publish(object->handle);
    return status;
  }
  device_.process().handles().erase(object->handle);
  object->close();
  return status;
}

void DeviceSync::finish_wait(CpuWait& wait, Status status) {
  std::erase(cpu_waits_, &wait);
  if (wait.event_fd >= 0) {
    runtime::set_event(wait.event_fd);
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

Status DeviceSync::check(std::span<const vidsch::SyncPoint> points) const {
  if (device_.lost()) return Status::kDeviceRemoved;
  return sync_in_reach(core_, points) ? Status::kSuccess : Status::kInvalidParameter;
}

Status DeviceSync::wait_from_cpu(std::span<const vidsch::SyncPoint> points, vidsch::WaitMode mode,
                                 int event_fd) {
  if (event_fd >= 0) {
    DXGKIT_ASSIGN_OR_RETURN_STATUS(const int ours, keep_event(event_fd));
    Status status = Status::kSuccess;
    core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      status = check(points);
      if (!is_success(status)) {
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
    status = check(points);
    if (!is_success(status)) return;
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

Status DeviceSync::signal_from_cpu(std::span<const vidsch::SyncPoint> points) {
  Status status = Status::kSuccess;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    status = check(points);
    if (is_success(status) && lowers_a_fence(core_.scheduler().sync_objects(), points))
      status = Status::kInvalidParameter;
    if (!is_success(status)) return;
    status = core_.scheduler().sync_objects().signal(points);
    if (is_success(status)) ++core_.counters().sync_signals;
    core_.pump();
  });
  return status;
}

void DeviceSync::cancel_waits() {
  for (CpuWait* wait : std::exchange(cpu_waits_, {})) {
    if (core_.scheduler().sync_objects().cancel_wait(wait->id))
      finish_wait(*wait, Status::kDeviceRemoved);
  }
}

void DeviceSync::release_fences_of_lost() {
  std::vector<vidsch::SyncPoint> points;
  for (const SyncObject* object : objects) {
    if (object->kind != vidsch::SyncKind::kMonitoredFence || object->of_paging_queue) continue;
    if (object->use.no_signal || object->use.keeps_value_on_reset || object->shared->periodic)
      continue;
    points.push_back({.object = object->id, .value = std::numeric_limits<uint64_t>::max()});
  }
  static_cast<void>(core_.scheduler().sync_objects().signal(points));
}

}  // namespace dxgkit::dxgk
