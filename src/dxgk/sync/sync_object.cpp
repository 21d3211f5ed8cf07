#include "dxgk/sync/sync_object.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/sync/keyed_mutex.h"
#include "dxgk/sync/native_fences.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/device.h"

namespace dxgkit::dxgk {

SharedSync::SharedSync(Adapter& adapter) : Object(kType), adapter_(&adapter) {}

SharedSync::~SharedSync() {
  if (has_page) adapter_->core().machine().free_contiguous(page, native ? 2 : 1);
  if (event_fd_ >= 0) ::close(event_fd_);
}

Result<Ref<SharedSync>> SharedSync::create(Adapter& adapter, const SyncRequest& request,
                                           vidsch::SyncDesc* desc) {
  Ref<SharedSync> shared = make_object<SharedSync>(adapter);
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
    bus::Machine& machine = adapter.core().machine();
    const uint64_t pages = request.native ? 2 : 1;
    DXGKIT_ASSIGN_OR_RETURN(shared->page, machine.allocate_contiguous(pages));
    shared->has_page = true;
    std::byte* const memory = machine.system_pointer(
        bus::PhysicalAddress{shared->page.value * kPageBytes}, pages * kPageBytes);
    if (request.native) {
      shared->monitored_page = bus::PageFrame{shared->page.value + 1};
      new (memory + kPageBytes) std::atomic<uint64_t>(std::numeric_limits<uint64_t>::max());
      NativeFences& natives = *adapter.native_fences();
      desc->watched = [&natives, fence = shared.get()](uint64_t least)
                          DXGKIT_REQUIRES(on_lane) { natives.watch(*fence, least); };
      desc->store = [&natives, fence = shared.get()](uint64_t value)
                        DXGKIT_REQUIRES(on_lane) { natives.store(*fence, value); };
      DXGKIT_RETURN_ERROR_IF_FAILED(
          natives.create(*shared, request.intra_gpu, request.private_data));
    }
    // Paging fences are the kernel's: the hardware never writes them.
    shared->narrow = adapter.core().caps().no_64bit_atomics && !request.use.no_gpu_access &&
                     !request.of_paging_queue && !request.native;
    if (shared->narrow) {
      desc->storage32 = new (memory) std::atomic<uint32_t>(static_cast<uint32_t>(request.initial));
    } else {
      desc->storage = shared->storage = new (memory) std::atomic<uint64_t>(request.initial);
    }
  }
  if (request.kind == vidsch::SyncKind::kCpuNotification) {
    const int fd = request.event_fd < 0 ? -1 : dup(request.event_fd);
    if (fd < 0) return Error(Status::kInvalidHandle);
    shared->event_fd_ = fd;
    desc->notify = [fd] {
      const uint64_t one = 1;
      static_cast<void>(!write(fd, &one, sizeof one));
    };
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
  if (global != 0) adapter_->core().global_shares().erase(global);
  adapter_->core().scheduler().sync_objects().destroy(id);
  adapter_->core().pump();
}

SyncObject::SyncObject() : Object(kType) {}
SyncObject::~SyncObject() = default;

Result<Ref<SyncObject>> SyncObject::open(Process& process, Device* device,
                                         const Ref<SharedSync>& shared, const SyncUse& use,
                                         vidsch::SyncDesc* first) {
  Adapter& adapter = shared->adapter();
  Ref<SyncObject> object = make_object<SyncObject>();
  object->shared = shared;
  object->device = Ref<Device>(device);
  object->process = &process;
  object->kind = shared->kind;
  object->use = use;
  if (shared->has_page && device != nullptr) {
    bus::Machine& machine = adapter.core().machine();
    DXGKIT_ASSIGN_OR_RETURN(object->client_view, bus::CpuView::create(kPageBytes));
    const bus::MemoryWindow window =
        machine.window_of(bus::PhysicalAddress{shared->page.value * kPageBytes}, kPageBytes);
    DXGKIT_RETURN_ERROR_IF_FAILED(object->client_view->retarget(std::span(&window, 1)));
    DXGKIT_RETURN_ERROR_IF_FAILED(object->client_view->protect_read_only());  // SYNC-15
  }
  DXGKIT_ASSIGN_OR_RETURN(object->handle, process.handles().insert_hidden(object));
  Status status = Status::kSuccess;
  adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (device != nullptr && device->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    if (first != nullptr) {
      shared->id = adapter.core().new_sync_object_id();
      status = adapter.core().scheduler().sync_objects().create(shared->id, std::move(*first));
      if (!is_success(status)) return;
      shared->gone = false;
      if (shared->native) adapter.native_fences()->made(*shared);
    }
    if (shared->gone) {
      status = Status::kInvalidParameter;
      return;
    }
    object->id = shared->id;
    shared->openings.push_back(object.get());
    if (device != nullptr) device->sync_objects.push_back(object.get());
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
      adapter().floor().system_pages->unmap_system_page(space, *address, [kept = shared] {});
      *address = 0;
    }
  };
  uint32_t space = 0;
  bool native = false;
  adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (process == nullptr) return;
    space = process->number();
    native = shared->native;
    if (!native) unmap(space);
    process = nullptr;
    std::erase(shared->openings, this);
    if (device) std::erase(device->sync_objects, this);
    shared->end_if_unused();
  });
  if (!native) return;
  adapter().native_fences()->close(*this);  // first: the driver knows the addresses
  adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { unmap(space); });
}

Result<Ref<SyncObject>> Device::create_sync_object(const SyncRequest& request) {
  vidsch::SyncDesc desc;
  DXGKIT_ASSIGN_OR_RETURN(const Ref<SharedSync> shared,
                          SharedSync::create(adapter_, request, &desc));
  GlobalShares& shares = core_.global_shares();
  if (request.shared && !request.nt_security) {
    DXGKIT_ASSIGN_OR_RETURN(shared->global, shares.insert(shared));
  }
  Result<Ref<SyncObject>> object = SyncObject::open(process_, this, shared, request.use, &desc);
  if (!object.has_value()) {
    if (shared->global != 0) shares.erase(shared->global);
    if (shared->native) adapter_.native_fences()->end(*shared);
    return object;
  }
  (*object)->of_paging_queue = request.of_paging_queue;
  DXGKIT_RETURN_ERROR_IF_FAILED(complete(*object));
  return object;
}

Result<Ref<SyncObject>> Device::open_sync_object(const Ref<SharedSync>& shared,
                                                 const SyncUse& use) {
  DXGKIT_ASSIGN_OR_RETURN(const Ref<SyncObject> object,
                          SyncObject::open(process_, this, shared, use));
  DXGKIT_RETURN_ERROR_IF_FAILED(complete(object));
  return object;
}

Status Device::complete(const Ref<SyncObject>& object) {
  const bool addressed = object->shared->has_page && adapter_.gpu_va() != nullptr &&
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
    const Result<uint64_t> address =
        floor_.system_pages->map_system_page(process_.number(), object->shared->page, nullptr);
    if (address.has_value()) object->gpu_address = *address;
    if (!address.has_value()) status = address.error();
    if (!object->shared->native || !is_success(status)) return true;
    const Result<uint64_t> monitored = floor_.system_pages->map_system_page(
        process_.number(), object->shared->monitored_page, nullptr);
    if (monitored.has_value()) object->monitored_gpu_address = *monitored;
    if (!monitored.has_value()) status = monitored.error();
    return true;
  };
  if (addressed && !core_.block_until_awake(map)) status = Status::kDeviceRemoved;
  if (is_success(status) && object->shared->native)
    status = adapter_.native_fences()->open(*object);
  if (is_success(status)) {
    process_.handles().publish(object->handle);
    return status;
  }
  process_.handles().erase(object->handle);
  object->close();
  return status;
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
  }
}

bool sync_in_reach(Adapter& adapter, std::span<const vidsch::SyncPoint> points) {
  const vidsch::SyncObjects& objects = adapter.core().scheduler().sync_objects();
  return std::ranges::all_of(
      points, [&](const vidsch::SyncPoint& point) { return objects.in_reach(point); });
}

void release_fences_of_lost(Device& device) {
  std::vector<vidsch::SyncPoint> points;
  for (const SyncObject* object : device.sync_objects) {
    if (object->kind != vidsch::SyncKind::kMonitoredFence || object->of_paging_queue) continue;
    if (object->use.no_signal || object->use.keeps_value_on_reset || object->shared->periodic)
      continue;
    points.push_back({.object = object->id, .value = std::numeric_limits<uint64_t>::max()});
  }
  static_cast<void>(device.adapter().core().scheduler().sync_objects().signal(points));
}

}  // namespace dxgkit::dxgk
