#include "port/ddi/cpu_event.h"

#include <cstring>

#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreate{"DxgkDdiCreateCpuEvent", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroy{"DxgkDdiDestroyCpuEvent", nt::kPassiveLevel, DdiClass::kLevelZero};

Status callable(const PortCore& core) {
  if (is_dead(core)) return Status::kDeviceRemoved;
  return has_cpu_events(core) ? Status::kSuccess : Status::kNotSupported;
}

}  // namespace

bool CpuEventPort::supported() const { return has_cpu_events(core_); }

Result<void*> CpuEventPort::create(void* device, uint64_t event) {
  DXGKIT_RETURN_ERROR_IF_FAILED(callable(core_));
  DXGKARG_CREATECPUEVENT arguments;
  std::memset(&arguments, 0, sizeof(arguments));
  arguments.hKmdDevice = device;
  arguments.hDxgCpuEvent = reinterpret_cast<HANDLE>(uintptr_t{event});
  DdiCall call(core_, kCreate, event);
  const Status status = call(core_.ddi.DxgkDdiCreateCpuEvent, core_.context, &arguments);
  if (!is_success(status)) return Error(status);
  return arguments.hKmdCpuEvent;
}

Status CpuEventPort::destroy(void* driver_event) {
  DXGKIT_RETURN_IF_FAILED(callable(core_));
  DdiCall call(core_, kDestroy);
  return call(core_.ddi.DxgkDdiDestroyCpuEvent, core_.context, driver_event);
}

}  // namespace dxgkit::port
