#include "dxgk/work/priority.h"

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "dxgk/work/work_floor.h"

namespace dxgkit::dxgk {

Status check_priority(const Process& process, int32_t priority) {
  if (priority < -vidsch::kPriorityMost) return Status::kInvalidParameter;
  if (priority > vidsch::kPriorityMost) return Status::kInvalidParameter;
  return priority > 0 && !process.base_priority_privilege() ? Status::kPrivilegeNotHeld
                                                            : Status::kSuccess;
}

Status Context::set_priority(int32_t priority) {
  DXGKIT_RETURN_IF_FAILED(check_priority(device_->process(), priority));
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_ || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    status = floor.core.scheduler().set_priority(id_, priority);
    if (is_success(status)) priority_ = priority;
    floor.core.pump();
  });
  return status;
}

int32_t Context::priority() {
  int32_t priority = 0;
  device_->floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { priority = priority_; });
  return priority;
}

Status Context::set_ahead_in_process(bool ahead) {
  WorkFloor& floor = device_->floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (closed_ || device_->lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    floor.core.scheduler().set_ahead_in_process(id_, ahead);
    ahead_in_process_ = ahead;
  });
  return status;
}

bool Context::ahead_in_process() {
  bool ahead = false;
  device_->floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { ahead = ahead_in_process_; });
  return ahead;
}

void follow_priority_class(WorkFloor& floor, const Process& process) {
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    for (Device* device : floor.devices) {
      if (&device->process() != &process) continue;
      for (HwContext* context : device->hw_contexts) context->follow_process();
      for (Context* context : device->contexts) {
        // As it is now: another thread may have set it since.
        floor.core.scheduler().set_priority_class(context->id(), process.priority_class());
      }
    }
    floor.core.pump();
  });
}

}  // namespace dxgkit::dxgk
