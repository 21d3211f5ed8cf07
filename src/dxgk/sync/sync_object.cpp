#include "dxgk/sync/sync_object.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/sync/client_event.h"
#include "dxgk/sync/cpu_events.h"
#include "dxgk/sync/device_sync.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/sync/protected_session.h"
#include "dxgk/sync/sync_addresses.h"
#include "dxgk/sync/sync_floor.h"
#include "runtime/descriptors.h"

namespace dxgkit::dxgk {

SharedSync::SharedSync(SyncFloor& floor)
    : Object(kType), floor_(floor), adapter_(floor.keep_adapter()) {}

SharedSync::~SharedSync() {
  page_apart.reset();
  if (has_page) floor_.core.machine().free_contiguous(page, native ? 2 : 1);
  if (event_fd_ >= 0) ::close(event_fd_);
}

Result<Ref<SharedSync>> SharedSync::create(SyncFloor& floor, const SyncRequest& request,
                                           vidsch::SyncDesc* desc) {
  Ref<SharedSync> shared = make_object<SharedSync>(floor);
  shared->kind = desc->kind = request.kind;
  shared->shared = request.shared;
  shared->nt_security = request.nt_security;
  shared->periodic = request.periodic;
  shared->target = request.target;
  shared->lead_ns = request.lead_ns;
  shared->no_gpu_access = request.use.no_gpu_access;
  shared->native = request.native;
  desc->initial = request.initial;
  desc->maximum = request.maximum;
  if (request.kind == vidsch::SyncKind::kMonitoredFence) {
    bus::Machine& machine = floor.core.machine();
    const uint64_t pages = request.native ? 2 : 1;
    DXGKIT_ASSIGN_OR_RETURN(shared->page, machine.allocate_contiguous(pages));
    shared->has_page = true;
    shared->page_apart = bus::PageApart::make(machine, shared->page);
    std::byte* const memory = machine.system_pointer(
        bus::PhysicalAddress{shared->page.value * kPageBytes}, pages * kPageBytes);
    if (request.native) {
      shared->monitored_page = bus::PageFrame{shared->page.value + 1};
      new (memory + kPageBytes) std::atomic<uint64_t>(std::numeric_limits<uint64_t>::max());
      NativeFences& natives = *floor.native_fences;
      desc->watched = [&natives, fence = shared.get()](uint64_t least)
                          DXGKIT_REQUIRES(on_lane) { natives.watch(*fence, least); };
      desc->store = [&natives, fence = shared.get()](uint64_t value)
                        DXGKIT_REQUIRES(on_lane) { natives.store(*fence, value); };
      DXGKIT_RETURN_ERROR_IF_FAILED(
          natives.create(*shared, request.intra_gpu, request.private_data));
    }
    // Paging fences are the kernel's: the hardware never writes them.
    shared->narrow = floor.core.caps().no_64bit_atomics && !request.use.no_gpu_access &&
                     !request.of_paging_queue && !request.native;
    if (shared->narrow) {
      desc->storage32 = new (memory) std::atomic<uint32_t>(static_cast<uint32_t>(request.initial));
    } else {
      desc->storage = shared->storage = new (memory) std::atomic<uint64_t>(request.initial);
    }
  }
  if (request.kind == vidsch::SyncKind::kCpuNotification) {
    DXGKIT_ASSIGN_OR_RETURN(const int fd, keep_event(request.event_fd));
    shared->event_fd_ = fd;
    if (request.signal_by_kmd) {
      DXGKIT_ASSIGN_OR_RETURN(shared->cpu_event,
                              floor.cpu_events->create(request.driver_device, fd));
    }
    desc->notify = [fd] { runtime::set_event(fd); };
  }
  return shared;
}

void SharedSync::drop_hold() {
  if (gone) return;
  DXGKIT_CHECK(holds > 0);
  --holds;
  end_if_unused();
}

void SharedSync::end_if_unused() {
  if (gone || !openings.empty() || holds != 0) return;
  gone = true;
  if (timer) static_cast<void>(timer->cancel());
  if (global != 0) floor_.core.global_shares().erase(global);
  floor_.core.scheduler().sync_objects().destroy(id);
  floor_.core.pump();
}

SyncObject::SyncObject() : Object(kType) {}
SyncObject::~SyncObject() = default;

Result<Ref<SyncObject>> SyncObject::open(Process& process, DeviceSync* device,
                                         const Ref<SharedSync>& shared, const SyncUse& use,
                                         vidsch::SyncDesc* first) {
  SyncFloor& floor = shared->floor();
  Ref<SyncObject> object = make_object<SyncObject>();
  object->shared = shared;
  object->device = Ref<DeviceSync>(device);
  object->process = &process;
  object->kind = shared->kind;
  object->use = use;
  if (shared->has_page && device != nullptr) {
    bus::Machine& machine = floor.core.machine();
    DXGKIT_ASSIGN_OR_RETURN(object->client_view, bus::CpuView::create(kPageBytes));
    const bus::MemoryWindow window =
        shared->page_apart
            ? shared->page_apart->window()
            : machine.window_of(bus::PhysicalAddress{shared->page.value * kPageBytes}, kPageBytes);
    DXGKIT_RETURN_ERROR_IF_FAILED(object->client_view->retarget(std::span(&window, 1)));
    DXGKIT_RETURN_ERROR_IF_FAILED(object->client_view->protect_read_only());  // SYNC-15
  }
  DXGKIT_ASSIGN_OR_RETURN(object->handle, process.handles().insert_hidden(object));
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device != nullptr && device->device().lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (first != nullptr) {
      shared->id = floor.core.new_sync_object_id();
      status = floor.core.scheduler().sync_objects().create(shared->id, std::move(*first));
      if (!is_success(status)) return;
      shared->gone = false;
      if (shared->native) floor.native_fences->made(*shared);
    }
    if (shared->gone) {
      status = Status::kInvalidParameter;
      return;
    }
    object->id = shared->id;
    shared->openings.push_back(object.get());
    if (device != nullptr) device->objects.push_back(object.get());
  });
  if (!is_success(status)) {
    process.handles().erase(object->handle);
    return Error(status);
  }
  return object;
}

void SyncObject::close() {
  const auto unmap = [this](uint32_t space) DXGKIT_REQUIRES(on_lane) {
    for (uint64_t* address : {&gpu_address, &monitored_gpu_address}) {
      if (*address == 0) continue;  // the page stays until no engine reaches it
      floor().addresses->unmap_system_page(space, *address, [kept = shared] {});
      *address = 0;
    }
  };
  uint32_t space = 0;
  bool native = false;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (process == nullptr) return;
    space = process->number();
    native = shared->native;
    if (!native) unmap(space);
    process = nullptr;
    std::erase(shared->openings, this);
    if (device) std::erase(device->objects, this);
    shared->end_if_unused();
  });
  // It has no other opening: nobody shares it.
  if (shared->cpu_event != 0) floor().cpu_events->end(shared->cpu_event);
  if (!native) return;
  floor().native_fences->close(*this);  // first: the driver knows the addresses
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { unmap(space); });
}

void close_sync_of(Process& process) {
  for (const auto& [handle, type] : process.handles().live()) {
    if (type == ObjectType::kKeyedMutex) {
      const Result<Ref<KeyedMutex>> mutex = process.handles().take<KeyedMutex>(handle);
      if (mutex.has_value()) (*mutex)->close();
    }
    if (type == ObjectType::kSyncObject) {  // those of devices went with them
      const Result<Ref<SyncObject>> object = process.handles().take<SyncObject>(handle);
      if (object.has_value()) (*object)->close();
    }
    if (type == ObjectType::kProtectedSession) {
      const Result<Ref<ProtectedSession>> session =
          process.handles().take<ProtectedSession>(handle);
      if (!session.has_value()) continue;
      SyncFloor& floor = (*session)->shared->floor();
      floor.core.while_stable([&] { floor.protected_sessions->close(**session); });
    }
  }
}

bool sync_in_reach(AdapterCore& core, std::span<const vidsch::SyncPoint> points) {
  const vidsch::SyncObjects& objects = core.scheduler().sync_objects();
  return std::ranges::all_of(
      points, [&](const vidsch::SyncPoint& point) { return objects.in_reach(point); });
}

}  // namespace dxgkit::dxgk
