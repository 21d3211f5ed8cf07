#include "port/ddi/native_fence.h"

#include <cstring>

#include "base/check.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreate{"DxgkDdiCreateNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero,
                          verifier::Situation::kNativeFenceCreated};
constexpr DdiInfo kDestroy{"DxgkDdiDestroyNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kOpen{"DxgkDdiOpenNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kClose{"DxgkDdiCloseNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kUpdateMonitored{"DxgkDdiUpdateMonitoredValues", nt::kDeviceLevel,
                                   DdiClass::kLevelZeroBeside};
constexpr DdiInfo kUpdateCurrent{"DxgkDdiUpdateCurrentValuesFromCpu", nt::kDeviceLevel,
                                 DdiClass::kLevelZeroBeside,
                                 verifier::Situation::kNativeFenceFromCpu};

Status callable(const PortCore& core) {
  if (is_dead(core)) return Status::kDeviceRemoved;
  return has_native_fences(core) ? Status::kSuccess : Status::kNotSupported;
}

}  // namespace

bool NativeFencePort::supported() const { return has_native_fences(core_); }

Result<NativeFenceCaps> NativeFencePort::query_caps() {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_));
  DXGK_NATIVE_FENCE_CAPS caps;
  std::memset(&caps, 0, sizeof(caps));
  const Status status = core_.query(DXGKQAITYPE_NATIVE_FENCE_CAPS, nullptr, 0, &caps, sizeof(caps));
  if (!is_success(status)) return Error(status);
  return NativeFenceCaps{.monitored_value_stride = caps.MonitoredValueStride,
                         .map_to_gpu_system_process = caps.MapToGpuSystemProcess != FALSE,
                         .minimum_address = caps.MinimumAddress,
                         .maximum_address = caps.MaximumAddress};
}

Result<void*> NativeFencePort::create(uint32_t handle, bool intra_gpu,
                                      std::span<std::byte> private_data) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_));
  DXGKARG_CREATENATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = handle_of(handle);
  arguments.Type = intra_gpu ? D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU : D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
  static_assert(sizeof(arguments.pPrivateDriverData) == kNativeFencePrivateBytes);
  DXGKIT_CHECK(private_data.size() == kNativeFencePrivateBytes);
  std::memcpy(arguments.pPrivateDriverData, private_data.data(), private_data.size());
  DdiCall call(core_, kCreate, handle);
  const Status status = call(core_.ddi.DxgkDdiCreateNativeFence, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  std::memcpy(private_data.data(), arguments.pPrivateDriverData, private_data.size());
  return arguments.hGlobalNativeFence;
}

Status NativeFencePort::destroy(void* global) {
  DXGKIT_RETURN_IF_FAILED(callable(core_));
  DXGKARG_DESTROYNATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = global;
  DdiCall call(core_, kDestroy);
  return call(core_.ddi.DxgkDdiDestroyNativeFence, &arguments);
}

Result<void*> NativeFencePort::open(void* global, uint32_t handle, void* device,
                                    uint64_t current_va, uint64_t monitored_va) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_));
  DXGKARG_OPENNATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = global;
  arguments.hLocalNativeFence = handle_of(handle);
  arguments.hDevice = device;
  arguments.CurrentValueGpuVa = current_va;
  arguments.MonitoredValueGpuVa = monitored_va;
  DdiCall call(core_, kOpen, handle);
  const Status status = call(core_.ddi.DxgkDdiOpenNativeFence, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.hLocalNativeFence;
}

Status NativeFencePort::close(void* local) {
  DXGKIT_RETURN_IF_FAILED(callable(core_));
  DXGKARG_CLOSENATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hLocalNativeFence = local;
  DdiCall call(core_, kClose);
  return call(core_.ddi.DxgkDdiCloseNativeFence, core_.context, &arguments);
}

Status NativeFencePort::update_monitored(void* global, uint64_t value,
                                         void* cpu) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  DXGKIT_RETURN_IF_FAILED(callable(core_));
  DXGKARG_UPDATEMONITOREDVALUES arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NativeFenceArray = &global;
  arguments.UpdatedValueArray = &value;
  arguments.MonitoredValueKernelCpuVa = &cpu;
  arguments.NumFences = 1;
  DdiCall call(core_, kUpdateMonitored, value);
  core_.interrupts.enter_lock();
  const Status status = call(core_.ddi.DxgkDdiUpdateMonitoredValues,
                             static_cast<const DXGKARG_UPDATEMONITOREDVALUES*>(&arguments));
  core_.interrupts.leave_lock();
  return status;
}

Status NativeFencePort::update_current(void* global, uint64_t value,
                                       void* cpu) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  DXGKIT_RETURN_IF_FAILED(callable(core_));
  DXGKARG_UPDATECURRENTVALUESFROMCPU arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NativeFenceArray = &global;
  arguments.UpdatedValueArray = &value;
  arguments.CurrentValueKernelCpuVa = &cpu;
  arguments.NumFences = 1;
  DdiCall call(core_, kUpdateCurrent, value);
  core_.interrupts.enter_lock();
  const Status status = call(core_.ddi.DxgkDdiUpdateCurrentValuesFromCpu,
                             static_cast<const DXGKARG_UPDATECURRENTVALUESFROMCPU*>(&arguments));
  core_.interrupts.leave_lock();
  return status;
}

}  // namespace dxgkit::port
