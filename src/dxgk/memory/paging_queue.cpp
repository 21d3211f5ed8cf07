#include "dxgk/memory/paging_queue.h"

#include "dxgk/core/process.h"
#include "dxgk/memory/device_memory.h"
#include "dxgk/sync/device_sync.h"

namespace dxgkit::dxgk {

PagingQueue::PagingQueue(DeviceMemory& device, int32_t priority)
    : Object(kType), device_(&device), priority_(priority) {}

PagingQueue::~PagingQueue() = default;

Result<Ref<PagingQueue>> PagingQueue::create(DeviceMemory& device, int32_t priority) {
  if (priority < -1 || priority > 1) return Error(Status::kInvalidParameter);
  Ref<PagingQueue> queue = make_object<PagingQueue>(device, priority);
  HandleTable& handles = device.device().process().handles();
  SyncRequest request;
  request.of_paging_queue = true;
  DXGKIT_ASSIGN_OR_RETURN(queue->fence_, device.sync().create_sync_object(request));
  const Result<Handle> handle = handles.insert_hidden(queue);
  Status status = handle.has_value() ? Status::kSuccess : handle.error();
  if (is_success(status)) {
    queue->handle = *handle;
    device.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (device.device().lost()) {
        status = Status::kDeviceRemoved;
      } else {
        device.paging_queues.push_back(queue.get());
      }
    });
  }
  if (is_success(status)) {
    handles.publish(queue->handle);
    return queue;
  }
  if (queue->handle != 0) handles.erase(queue->handle);
  handles.erase(queue->fence_->handle);
  queue->fence_->close();
  return Error(status);
}

void PagingQueue::destroy() {
  AdapterCore& core = device_->core();
  // False when the adapter fails meanwhile: then nothing of it will ever be done.
  static_cast<void>(core.block_until([&]() DXGKIT_REQUIRES(on_lane) { return idle(); }));
  core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { std::erase(device_->paging_queues, this); });
  device_->device().process().handles().erase(fence_->handle);
  // Its view goes with the last reference: whoever made the queue may be about to tell the address.
  fence_->close();
}

bool PagingQueue::device_lost() const { return device_->device().lost(); }

Process& PagingQueue::process() { return device_->device().process(); }

uint64_t PagingQueue::begin() {
  unfinished_.push_back(false);
  return ++last_begun_;
}

void PagingQueue::finish(uint64_t value) {
  const uint64_t reached = last_begun_ - unfinished_.size();
  DXGKIT_CHECK(value > reached && value <= last_begun_);
  unfinished_[value - reached - 1] = true;
  if (!unfinished_.front()) return;
  while (!unfinished_.empty() && unfinished_.front()) unfinished_.pop_front();
  const vidsch::SyncPoint point{.object = fence_->id, .value = last_begun_ - unfinished_.size()};
  vidsch::SyncObjects& objects = device_->core().scheduler().sync_objects();
  if (objects.contains(fence_->id)) static_cast<void>(objects.signal(std::span(&point, 1)));
  device_->core().progress();
}

}  // namespace dxgkit::dxgk
