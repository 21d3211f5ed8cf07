#include "port/ddi/hw_scheduling.h"

#include <algorithm>
#include <cstring>

#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kSetupBands{"DxgkDdiSetupPriorityBands", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kSetProperties{"DxgkDdiSetContextSchedulingProperties", nt::kPassiveLevel,
                                 DdiClass::kScheduler};
constexpr DdiInfo kSuspendContext{"DxgkDdiSuspendContext", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kResumeContext{"DxgkDdiResumeContext", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kResetHwEngine{"DxgkDdiResetHwEngine", nt::kPassiveLevel, DdiClass::kScheduler};
constexpr DdiInfo kResumeHwEngine{"DxgkDdiResumeHwEngine", nt::kPassiveLevel, DdiClass::kScheduler};

template <typename Entry>
Status callable(const AdapterPort::Impl& port, Entry entry) {
  if (is_dead(port)) return Status::kDeviceRemoved;
  const bool known = port.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_4;
  return known && entry != nullptr ? Status::kSuccess : Status::kNotSupported;
}

uint16_t trace_node(NodeOrdinal node) { return static_cast<uint16_t>(node.value); }

}  // namespace

HwSchedulingPort::HwSchedulingPort(const AdapterPort& adapter)
    : impl_(*static_cast<AdapterPort::Impl*>(const_cast<void*>(adapter.device_handle()))) {}

bool HwSchedulingPort::supported() const { return has_hw_scheduling(impl_); }

bool has_hw_scheduling(const AdapterPort::Impl& adapter) {
  const DRIVER_INITIALIZATION_DATA& ddi = adapter.ddi;
  return adapter.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_4 &&
         ddi.DxgkDdiSetupPriorityBands != nullptr &&
         ddi.DxgkDdiSetContextSchedulingProperties != nullptr &&
         ddi.DxgkDdiSuspendContext != nullptr && ddi.DxgkDdiResumeContext != nullptr &&
         ddi.DxgkDdiResetHwEngine != nullptr && ddi.DxgkDdiResumeHwEngine != nullptr;
}

Status HwSchedulingPort::setup_priority_bands(const PriorityBands& bands) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiSetupPriorityBands));
  DXGKARG_SETUPPRIORITYBANDS arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  std::ranges::copy(bands.grace, arguments.gracePeriodForBand);
  std::ranges::copy(bands.process_quantum, arguments.processQuantumForBand);
  std::ranges::copy(bands.process_grace, arguments.processGracePeriodForBand);
  arguments.targetNormalBandPercentage = bands.normal_percentage;
  DdiCall call(impl_, kSetupBands, bands.normal_percentage);
  return call(impl_.ddi.DxgkDdiSetupPriorityBands, impl_.context,
              static_cast<const DXGKARG_SETUPPRIORITYBANDS*>(&arguments));
}

Status HwSchedulingPort::set_context_properties(void* context,
                                                const SchedulingProperties& properties) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiSetContextSchedulingProperties));
  DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  arguments.priorityBand = static_cast<DXGK_SCHEDULING_PRIORITY_BAND>(properties.band);
  arguments.realtimeBandPriorityLevel = properties.realtime_level;
  arguments.inProcessPriority = properties.in_process_priority;
  arguments.quantum = properties.quantum;
  arguments.gracePeriodSamePriority = properties.grace_same_priority;
  arguments.gracePeriodLowerPriority = properties.grace_lower_priority;
  DdiCall call(impl_, kSetProperties, static_cast<uint64_t>(properties.band));
  return call(impl_.ddi.DxgkDdiSetContextSchedulingProperties, impl_.context,
              static_cast<const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES*>(&arguments));
}

Status HwSchedulingPort::suspend(void* context, uint64_t fence) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiSuspendContext));
  DXGKARG_SUSPENDCONTEXT arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  arguments.contextSuspendFence = fence;
  DdiCall call(impl_, kSuspendContext, fence);
  return call(impl_.ddi.DxgkDdiSuspendContext, impl_.context,
              static_cast<const DXGKARG_SUSPENDCONTEXT*>(&arguments));
}

Status HwSchedulingPort::resume(void* context) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiResumeContext));
  DXGKARG_RESUMECONTEXT arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hContext = context;
  DdiCall call(impl_, kResumeContext);
  return call(impl_.ddi.DxgkDdiResumeContext, impl_.context,
              static_cast<const DXGKARG_RESUMECONTEXT*>(&arguments));
}

Status HwSchedulingPort::reset_engine(NodeOrdinal node) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiResetHwEngine));
  DXGKARG_RESETHWENGINE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NodeOrdinal = node.value;
  DdiCall call(impl_, kResetHwEngine, node.value, trace_node(node));
  const Status status = call(impl_.ddi.DxgkDdiResetHwEngine, impl_.context, &arguments);
  if (is_success(status)) impl_.engines_in_reset.fetch_or(uint64_t{1} << node.value);
  return status;
}

Status HwSchedulingPort::resume_engine(NodeOrdinal node) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_, impl_.ddi.DxgkDdiResumeHwEngine));
  // What the call itself starts may report before it returns.
  impl_.engines_in_reset.fetch_and(~(uint64_t{1} << node.value));
  DXGKARG_RESUMEHWENGINE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NodeOrdinal = node.value;
  DdiCall call(impl_, kResumeHwEngine, node.value, trace_node(node));
  return call(impl_.ddi.DxgkDdiResumeHwEngine, impl_.context, &arguments);
}

}  // namespace dxgkit::port
