#include "port/ddi/hw_scheduling.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetupBands{"DxgkDdiSetupPriorityBands", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kSetProperties{"DxgkDdiSetContextSchedulingProperties", nt::kPassiveLevel,
                                 DdiClass::kScheduler};
constexpr DdiInfo kSuspendContext{"DxgkDdiSuspendContext", nt::kPassiveLevel, DdiClass::kScheduler,
                                  verifier::Situation::kHwQueueSuspend};
constexpr DdiInfo kResumeContext{"DxgkDdiResumeContext", nt::kPassiveLevel, DdiClass::kScheduler,
                                 verifier::Situation::kHwQueueResume};
constexpr DdiInfo kResetHwEngine{"DxgkDdiResetHwEngine", nt::kPassiveLevel, DdiClass::kScheduler,
                                 verifier::Situation::kHwQueueReset};
constexpr DdiInfo kResumeHwEngine{"DxgkDdiResumeHwEngine", nt::kPassiveLevel, DdiClass::kScheduler};

uint16_t trace_node(NodeOrdinal node) { return static_cast<uint16_t>(node.value); }

}  // namespace

bool HwSchedulingPort::supported() const { return has_hw_scheduling(core_); }

Status HwSchedulingPort::setup_priority_bands(const PriorityBands& bands) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiSetupPriorityBands));
  DXGKARG_SETUPPRIORITYBANDS arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  std::ranges::copy(bands.grace, arguments.gracePeriodForBand);
  std::ranges::copy(bands.process_quantum, arguments.processQuantumForBand);
  std::ranges::copy(bands.process_grace, arguments.processGracePeriodForBand);
  arguments.targetNormalBandPercentage = bands.normal_percentage;
  DdiCall call(core_, kSetupBands, bands.normal_percentage);
  return call(core_.ddi.DxgkDdiSetupPriorityBands, core_.context,
              static_cast<const DXGKARG_SETUPPRIORITYBANDS*>(&arguments));
}

Status HwSchedulingPort::set_context_properties(void* context,
                                                const SchedulingProperties& properties) {
  DXGKIT_RETURN_IF_FAILED(
      callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiSetContextSchedulingProperties));
  DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  arguments.priorityBand = static_cast<DXGK_SCHEDULING_PRIORITY_BAND>(properties.band);
  arguments.realtimeBandPriorityLevel = properties.realtime_level;
  arguments.inProcessPriority = properties.in_process_priority;
  arguments.quantum = properties.quantum;
  arguments.gracePeriodSamePriority = properties.grace_same_priority;
  arguments.gracePeriodLowerPriority = properties.grace_lower_priority;
  DdiCall call(core_, kSetProperties, static_cast<uint64_t>(properties.band));
  return call(core_.ddi.DxgkDdiSetContextSchedulingProperties, core_.context,
              static_cast<const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES*>(&arguments));
}

Status HwSchedulingPort::suspend(void* context, uint64_t fence) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiSuspendContext));
  DXGKARG_SUSPENDCONTEXT arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  arguments.contextSuspendFence = fence;
  DdiCall call(core_, kSuspendContext, fence);
  return call(core_.ddi.DxgkDdiSuspendContext, core_.context,
              static_cast<const DXGKARG_SUSPENDCONTEXT*>(&arguments));
}

Status HwSchedulingPort::resume(void* context) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiResumeContext));
  DXGKARG_RESUMECONTEXT arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  DdiCall call(core_, kResumeContext);
  return call(core_.ddi.DxgkDdiResumeContext, core_.context,
              static_cast<const DXGKARG_RESUMECONTEXT*>(&arguments));
}

Status HwSchedulingPort::reset_engine(NodeOrdinal node) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiResetHwEngine));
  DXGKARG_RESETHWENGINE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NodeOrdinal = node.value;
  DdiCall call(core_, kResetHwEngine, node.value, trace_node(node));
  const Status status = call(core_.ddi.DxgkDdiResetHwEngine, core_.context, &arguments);
  if (is_success(status)) core_.interrupts.enter_engine_reset(node);
  return status;
}

Status HwSchedulingPort::resume_engine(NodeOrdinal node) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm24, core_.ddi.DxgkDdiResumeHwEngine));
  // Work that the call starts may be reported before the call returns.
  core_.interrupts.leave_engine_reset(node);
  DXGKARG_RESUMEHWENGINE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NodeOrdinal = node.value;
  DdiCall call(core_, kResumeHwEngine, node.value, trace_node(node));
  return call(core_.ddi.DxgkDdiResumeHwEngine, core_.context, &arguments);
}

}  // namespace dxgkit::port
