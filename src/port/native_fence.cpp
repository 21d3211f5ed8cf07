#include "port/ddi/native_fence.h"

#include <cstring>

#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreate{"DxgkDdiCreateNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroy{"DxgkDdiDestroyNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kOpen{"DxgkDdiOpenNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kClose{"DxgkDdiCloseNativeFence", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kUpdateMonitored{"DxgkDdiUpdateMonitoredValues", nt::kDeviceLevel,
                                   DdiClass::kLevelZeroBeside};
constexpr DdiInfo kUpdateCurrent{"DxgkDdiUpdateCurrentValuesFromCpu", nt::kDeviceLevel,
                                 DdiClass::kLevelZeroBeside};

Status callable(const AdapterPort::Impl& port) {
  if (is_dead(port)) return Status::kDeviceRemoved;
  return has_native_fences(port) ? Status::kSuccess : Status::kNotSupported;
}

void* handle_of(uint32_t handle) { return reinterpret_cast<void*>(uint64_t{handle}); }

}  // namespace

bool has_native_fences(const AdapterPort::Impl& adapter) {
  const DRIVER_INITIALIZATION_DATA& ddi = adapter.ddi;
  return adapter.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_2 &&
         ddi.DxgkDdiCreateNativeFence != nullptr && ddi.DxgkDdiDestroyNativeFence != nullptr &&
         ddi.DxgkDdiOpenNativeFence != nullptr && ddi.DxgkDdiCloseNativeFence != nullptr &&
         ddi.DxgkDdiUpdateMonitoredValues != nullptr &&
         ddi.DxgkDdiUpdateCurrentValuesFromCpu != nullptr;
}

NativeFencePort::NativeFencePort(const AdapterPort& adapter)
    : impl_(*static_cast<AdapterPort::Impl*>(const_cast<void*>(adapter.device_handle()))) {}

bool NativeFencePort::supported() const { return has_native_fences(impl_); }

Result<NativeFenceCaps> NativeFencePort::query_caps() {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(impl_));
  DXGK_NATIVE_FENCE_CAPS caps;
  std::memset(&caps, 0, sizeof(caps));
  const Status status = impl_.query(DXGKQAITYPE_NATIVE_FENCE_CAPS, nullptr, 0, &caps, sizeof(caps));
  if (!is_success(status)) return Error(status);
  return NativeFenceCaps{.monitored_value_stride = caps.MonitoredValueStride,
                         .map_to_gpu_system_process = caps.MapToGpuSystemProcess != FALSE,
                         .minimum_address = caps.MinimumAddress,
                         .maximum_address = caps.MaximumAddress};
}

Result<void*> NativeFencePort::create(uint32_t handle, bool intra_gpu,
                                      std::span<std::byte> private_data) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(impl_));
  DXGKARG_CREATENATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = handle_of(handle);
  arguments.Type = intra_gpu ? D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU : D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
  static_assert(sizeof(arguments.pPrivateDriverData) == kNativeFencePrivateBytes);
  DXGKIT_CHECK(private_data.size() == kNativeFencePrivateBytes);
  std::memcpy(arguments.pPrivateDriverData, private_data.data(), private_data.size());
  DdiCall call(impl_, kCreate, handle);
  const Status status = call(impl_.ddi.DxgkDdiCreateNativeFence, impl_.context, &arguments);
  if (!is_success(status)) return Error(status);
  std::memcpy(private_data.data(), arguments.pPrivateDriverData, private_data.size());
  return arguments.hGlobalNativeFence;
}

Status NativeFencePort::destroy(void* global) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_));
  DXGKARG_DESTROYNATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = global;
  DdiCall call(impl_, kDestroy);
  return call(impl_.ddi.DxgkDdiDestroyNativeFence, &arguments);
}

Result<void*> NativeFencePort::open(void* global, uint32_t handle, void* device,
                                    uint64_t current_va, uint64_t monitored_va) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(impl_));
  DXGKARG_OPENNATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hGlobalNativeFence = global;
  arguments.hLocalNativeFence = handle_of(handle);
  arguments.hDevice = device;
  arguments.CurrentValueGpuVa = current_va;
  arguments.MonitoredValueGpuVa = monitored_va;
  DdiCall call(impl_, kOpen, handle);
  const Status status = call(impl_.ddi.DxgkDdiOpenNativeFence, impl_.context, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.hLocalNativeFence;
}

Status NativeFencePort::close(void* local) {
  DXGKIT_RETURN_IF_FAILED(callable(impl_));
  DXGKARG_CLOSENATIVEFENCE arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hLocalNativeFence = local;
  DdiCall call(impl_, kClose);
  return call(impl_.ddi.DxgkDdiCloseNativeFence, impl_.context, &arguments);
}

Status NativeFencePort::update_monitored(void* global, uint64_t value,
                                         void* cpu) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  DXGKIT_RETURN_IF_FAILED(callable(impl_));
  DXGKARG_UPDATEMONITOREDVALUES arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NativeFenceArray = &global;
  arguments.UpdatedValueArray = &value;
  arguments.MonitoredValueKernelCpuVa = &cpu;
  arguments.NumFences = 1;
  DdiCall call(impl_, kUpdateMonitored, value);
  impl_.enter_interrupt_lock();
  const Status status = call(impl_.ddi.DxgkDdiUpdateMonitoredValues,
                             static_cast<const DXGKARG_UPDATEMONITOREDVALUES*>(&arguments));
  impl_.leave_interrupt_lock();
  return status;
}

Status NativeFencePort::update_current(void* global, uint64_t value,
                                       void* cpu) DXGKIT_NO_THREAD_SAFETY_ANALYSIS {
  DXGKIT_RETURN_IF_FAILED(callable(impl_));
  DXGKARG_UPDATECURRENTVALUESFROMCPU arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.NativeFenceArray = &global;
  arguments.UpdatedValueArray = &value;
  arguments.CurrentValueKernelCpuVa = &cpu;
  arguments.NumFences = 1;
  DdiCall call(impl_, kUpdateCurrent, value);
  impl_.enter_interrupt_lock();
  const Status status = call(impl_.ddi.DxgkDdiUpdateCurrentValuesFromCpu,
                             static_cast<const DXGKARG_UPDATECURRENTVALUESFROMCPU*>(&arguments));
  impl_.leave_interrupt_lock();
  return status;
}

}  // namespace dxgkit::port
