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
  return priority > 0 && !process.base_priority_privilege() ? Status::kInvalidParameter
                                                            : Status::kSuccess;
}

Status ContextPriority::set(int32_t priority) {
  DXGKIT_RETURN_IF_FAILED(check_priority(context_.device().process(), priority));
  WorkFloor& floor = context_.device().floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (context_.closed() || context_.device().lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    status = floor.core.scheduler().set_priority(context_.id(), priority);
    if (is_success(status)) priority_ = priority;
    floor.core.pump();
  });
  return status;
}

int32_t ContextPriority::value() {
  int32_t priority = 0;
  context_.device().floor().core.lane().run([&]()
                                                DXGKIT_REQUIRES(on_lane) { priority = priority_; });
  return priority;
}

Status ContextPriority::set_ahead_in_process(bool ahead) {
  WorkFloor& floor = context_.device().floor();
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (context_.closed() || context_.device().lost()) {
      status = Status::kDeviceRemoved;
      return;
    }
    floor.core.scheduler().set_ahead_in_process(context_.id(), ahead);
    ahead_in_process_ = ahead;
  });
  return status;
}

bool ContextPriority::ahead_in_process() {
  bool ahead = false;
  context_.device().floor().core.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { ahead = ahead_in_process_; });
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
