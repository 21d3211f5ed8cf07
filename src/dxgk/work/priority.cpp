// Priorities of contexts and processes, as clients set them.
#include "dxgk/work/priority.h"

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/system_impl.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"

namespace dxgkit::dxgk {

Status check_priority(const Process& process, int32_t priority) {
  if (priority < -vidsch::kPriorityMost) return Status::kInvalidParameter;
  if (priority > vidsch::kPriorityMost) return Status::kInvalidParameter;
  return priority > 0 && !process.base_priority_privilege() ? Status::kPrivilegeNotHeld
                                                            : Status::kSuccess;
}

Status Context::set_priority(int32_t priority) {
  DXGKIT_RETURN_IF_FAILED(check_priority(device_->process(), priority));
  Adapter& adapter = device_->adapter();
  Status status = Status::kSuccess;
  adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_ || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    status = adapter.core().scheduler().set_priority(id_, priority);
    if (is_success(status)) priority_ = priority;
    adapter.core().pump();
  });
  return status;
}

int32_t Context::priority() {
  int32_t priority = 0;
  device_->adapter().core().lane().run([&]() DXGKIT_REQUIRES(on_lane) { priority = priority_; });
  return priority;
}

Status Context::set_ahead_in_process(bool ahead) {
  Adapter& adapter = device_->adapter();
  Status status = Status::kSuccess;
  adapter.core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_ || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    adapter.core().scheduler().set_ahead_in_process(id_, ahead);
    ahead_in_process_ = ahead;
  });
  return status;
}

bool Context::ahead_in_process() {
  bool ahead = false;
  device_->adapter().core().lane().run([&]()
                                           DXGKIT_REQUIRES(on_lane) { ahead = ahead_in_process_; });
  return ahead;
}

Status Process::set_priority_class(vidsch::PriorityClass priority_class) {
  if (priority_class >= vidsch::PriorityClass::kHigh && !base_priority_privilege()) {
    return Status::kPrivilegeNotHeld;
  }
  // A context made from here on reads it in the lane, one made before is visited there.
  priority_class_.store(priority_class);
  for (const Ref<Adapter>& adapter : system_.impl().running()) {
    adapter->core().lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (adapter->core().failed()) return;
      for (Device* device : adapter->devices()) {
        if (&device->process() != this) continue;
        for (HwContext* context : device->hw_contexts) context->follow_process();
        for (Context* context : device->contexts) {
          // As it is now: another thread may have set it since.
          adapter->core().scheduler().set_priority_class(context->id(), priority_class_.load());
        }
      }
      adapter->core().pump();
    });
  }
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
