// Priorities of contexts and processes.
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "thunks/call.h"
#include "thunks/process_argument.h"

namespace dxgkit::thunks {
namespace {

using dxgk::Context;
using dxgk::Process;
using dxgk::Ref;

static_assert(static_cast<int>(vidsch::PriorityClass::kIdle) ==
              D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
static_assert(static_cast<int>(vidsch::PriorityClass::kRealtime) ==
              D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME);

Status set_priority(Process& process, const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY& args) {
  if (const auto found = process.handles().find<dxgk::HwContext>(args.hContext)) {
    DXGKIT_ENTER((*found)->device().adapter());
    if ((*found)->device().lost()) return Status::kDeviceRemoved;
    return (*found)->set_priority(args.Priority);
  }
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ENTER(context->device().adapter());
  return context->priority().set(args.Priority);
}

Status get_priority(Process& process, D3DKMT_GETCONTEXTSCHEDULINGPRIORITY& args) {
  if (const auto found = process.handles().find<dxgk::HwContext>(args.hContext)) {
    DXGKIT_ENTER((*found)->device().adapter());
    if ((*found)->device().lost()) return Status::kDeviceRemoved;
    args.Priority = (*found)->priority();
    return Status::kSuccess;
  }
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ENTER(context->device().adapter());
  if (context->device().lost()) return Status::kDeviceRemoved;
  args.Priority = context->priority().value();
  return Status::kSuccess;
}

Status set_in_process(Process& process, const D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ENTER(context->device().adapter());
  if (context->device().lost()) return Status::kDeviceRemoved;
  if (args.Priority != 0 && args.Priority != 1) return Status::kInvalidParameter;  // SCHED-13
  return context->priority().set_ahead_in_process(args.Priority == 1);
}

Status get_in_process(Process& process, D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY& args) {
  DXGKIT_ASSIGN_OR_RETURN_STATUS(const Ref<Context> context,
                                 process.handles().find<Context>(args.hContext));
  DXGKIT_ENTER(context->device().adapter());
  if (context->device().lost()) return Status::kDeviceRemoved;
  args.Priority = context->priority().ahead_in_process() ? 1 : 0;
  return Status::kSuccess;
}

/// The pages of these calls name no other failure than a bad parameter.
Status set_class(Process& caller, HANDLE handle, D3DKMT_SCHEDULINGPRIORITYCLASS priority_class) {
  const ProcessArgument target(caller, handle, dxgk::process_access::kSetInformation);
  if (!is_success(target.status())) return Status::kInvalidParameter;
  const auto value = static_cast<int64_t>(priority_class);
  if (value < D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE) return Status::kInvalidParameter;
  if (value > D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME) return Status::kInvalidParameter;
  return caller.system().set_priority_class(caller, target.process(),
                                            static_cast<vidsch::PriorityClass>(value));
}

using GetClassArguments = arguments::D3DKMTGetProcessSchedulingPriorityClassArguments;
Status get_class(Process& caller, const GetClassArguments& args) {
  const ProcessArgument target(caller, args.a0, dxgk::process_access::kQueryInformation);
  if (!is_success(target.status())) return Status::kInvalidParameter;
  const auto value = static_cast<D3DKMT_SCHEDULINGPRIORITYCLASS>(target.process().priority_class());
  return give_one<&GetClassArguments::a1>(args, value) ? Status::kSuccess
                                                       : Status::kInvalidParameter;
}

}  // namespace
}  // namespace dxgkit::thunks

using dxgkit::thunks::call;
using dxgkit::thunks::CallScope;

extern "C" {

NTSTATUS APIENTRY
D3DKMTSetContextSchedulingPriority(const D3DKMT_SETCONTEXTSCHEDULINGPRIORITY* args) {
  return call<D3DKMTSetContextSchedulingPriority>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::set_priority>);
}
NTSTATUS APIENTRY D3DKMTGetContextSchedulingPriority(D3DKMT_GETCONTEXTSCHEDULINGPRIORITY* args) {
  return call<D3DKMTGetContextSchedulingPriority>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::get_priority>);
}
NTSTATUS APIENTRY D3DKMTSetContextInProcessSchedulingPriority(
    const D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY* args) {
  return call<D3DKMTSetContextInProcessSchedulingPriority>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::set_in_process>);
}
NTSTATUS APIENTRY
D3DKMTGetContextInProcessSchedulingPriority(D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY* args) {
  return call<D3DKMTGetContextInProcessSchedulingPriority>(
      args, dxgkit::thunks::without_removal<dxgkit::thunks::get_in_process>);
}
NTSTATUS APIENTRY D3DKMTSetProcessSchedulingPriorityClass(
    HANDLE process, D3DKMT_SCHEDULINGPRIORITYCLASS priority_class) {
  CallScope scope("D3DKMTSetProcessSchedulingPriorityClass");
  if (!is_success(scope.admission())) return scope.finish(scope.admission());
  return scope.finish(dxgkit::thunks::set_class(*scope.process(), process, priority_class));
}
NTSTATUS APIENTRY D3DKMTGetProcessSchedulingPriorityClass(
    HANDLE process, D3DKMT_SCHEDULINGPRIORITYCLASS* priority_class) {
  CallScope scope("D3DKMTGetProcessSchedulingPriorityClass");
  if (!is_success(scope.admission())) return scope.finish(scope.admission());
  return scope.finish(dxgkit::thunks::get_class(*scope.process(), {process, priority_class}));
}

}  // extern "C"
