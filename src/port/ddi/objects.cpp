#include "port/ddi/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateProcess{"DxgkDdiCreateProcess", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyProcess{"DxgkDdiDestroyProcess", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCreateDevice{"DxgkDdiCreateDevice", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyDevice{"DxgkDdiDestroyDevice", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCreateContext{"DxgkDdiCreateContext", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyContext{"DxgkDdiDestroyContext", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kEscape{"DxgkDdiEscape", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kHardwareEscape{"DxgkDdiEscape", nt::kPassiveLevel, DdiClass::kLevelTwo};

/// SCHED-05: only lack of memory, or the client's private data (our choice), excuses a refused
/// device or context. `what` was to be made.
Status check_refusal(PortCore& core, const char* ddi, Status status, bool private_data,
                     const std::string& what) {
  constexpr Status kInsufficientResources{0xC000009A};
  if (status == Status::kNoMemory || status == kInsufficientResources) return status;
  if (status == Status::kGraphicsNoVideoMemory) return status;
  if (status == Status::kInvalidParameter && private_data) return status;
  // An answer that is no NTSTATUS has been reported as such (NT-22).
  if ((static_cast<uint32_t>(status) >> 30) != 3) return status;
  return core.violation(
      "SCHED-05", ddi,
      fmt::format("It returned 0x{:08X} for {}.", static_cast<uint32_t>(status), what),
      "A driver supports any number of devices and contexts: STATUS_NO_MEMORY is "
      "the only reason to refuse one.",
      "Find the check that refuses it, and hold it against what the caps allow. Allocate what the "
      "object needs when it is created; keep no fixed table.",
      status);
}

}  // namespace

Result<void*> ObjectsPort::create_process(uint32_t process_handle, bool system) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiCreateProcess == nullptr) return nullptr;  // as below 2.0
  DXGKARG_CREATEPROCESS arguments{};
  arguments.hDxgkProcess = handle_of(process_handle);
  arguments.Flags.SystemProcess = system ? 1 : 0;
  {
    runtime::MutexLock lock(core_.creating_lock);
    core_.creating.push_back(arguments.hDxgkProcess);
  }
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kCreateProcess, process_handle);
    status = call(core_.ddi.DxgkDdiCreateProcess, core_.context, &arguments);
  }
  {
    runtime::MutexLock lock(core_.creating_lock);
    core_.creating.erase(std::ranges::find(core_.creating, handle_of(process_handle)));
  }
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.process_made(system, status);
  if (!is_success(status)) return Error(status);
  return arguments.hKmdProcess;
}

Status ObjectsPort::destroy_process(void* process) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiDestroyProcess == nullptr) return Status::kSuccess;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.process_gone();
  DdiCall call(core_, kDestroyProcess);
  return call(core_.ddi.DxgkDdiDestroyProcess, core_.context, process);
}

Result<DeviceInfo> ObjectsPort::create_device(uint32_t device_handle, bool system, void* process) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  DXGKARG_CREATEDEVICE arguments{};
  arguments.hDevice = handle_of(device_handle);
  arguments.Flags.SystemDevice = system ? 1 : 0;
  if (core_.version >= kInterfaceWddm20) arguments.hKmdProcess = process;
  // Flags and pInfo share their place, so a value that the driver did not change is not a pointer.
  const DXGK_DEVICEINFO* const untouched = arguments.pInfo;
  DdiCall call(core_, kCreateDevice, device_handle);
  const Status status = call(core_.ddi.DxgkDdiCreateDevice, core_.context, &arguments);
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.device_made(status);
  if (!is_success(status))
    return Error(check_refusal(core_, kCreateDevice.name, status, false,
                               system ? "the system's device" : "a device"));
  DeviceInfo info;
  info.handle = arguments.hDevice;
  if (arguments.pInfo != untouched && arguments.pInfo != nullptr) {
    const DXGK_DEVICEINFO& given = *arguments.pInfo;
    info.dma_buffer_bytes = given.DmaBufferSize;
    info.dma_buffer_segment_set = given.DmaBufferSegmentSet;
    info.dma_private_bytes = given.DmaBufferPrivateDataSize;
    info.allocation_list_size = given.AllocationListSize;
    info.patch_list_size = given.PatchLocationListSize;
    info.guaranteed_contract = given.Flags.GuaranteedDmaBufferContract != 0;
  }
  return info;
}

Status ObjectsPort::destroy_device(void* device) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.device_gone();
  DdiCall call(core_, kDestroyDevice);
  return call(core_.ddi.DxgkDdiDestroyDevice, device);
}

Result<ContextInfo> ObjectsPort::create_context(void* device, uint32_t context_handle,
                                                NodeOrdinal node, uint32_t engine_affinity,
                                                bool system, std::span<std::byte> private_data,
                                                bool virtual_addressing) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiCreateContext == nullptr) return Error(Status::kNotSupported);
  DXGKARG_CREATECONTEXT arguments{};
  arguments.hContext = handle_of(context_handle);
  arguments.NodeOrdinal = node.value;
  arguments.EngineAffinity = engine_affinity;
  arguments.Flags.SystemContext = system ? 1 : 0;
  if (core_.version >= kInterfaceWddm20)
    arguments.Flags.VirtualAddressing = virtual_addressing ? 1 : 0;
  // What the other members of ContextInfo mean depends on versions and addressing.
  const bool fills = core_.output_fill != std::byte{0} && !virtual_addressing;
  if (fills) [[unlikely]] {
    std::memset(&arguments.ContextInfo, std::to_integer<int>(core_.output_fill),
                offsetof(DXGK_CONTEXTINFO, PatchLocationListSize) + sizeof(UINT));
  }
  GuardedOutput output(private_data);
  arguments.pPrivateDriverData = private_data.empty() ? nullptr : output.data();
  arguments.PrivateDriverDataSize = size_of(private_data);
  DdiCall call(core_, kCreateContext, context_handle, static_cast<uint16_t>(node.value));
  const Status status = call(core_.ddi.DxgkDdiCreateContext, device, &arguments);
  static_cast<void>(output.finish(core_, kCreateContext.name, "pPrivateDriverData"));
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.context_made(arguments.hContext, node, system, status);
  if (!is_success(status)) {
    return Error(check_refusal(core_, kCreateContext.name, status, !private_data.empty(),
                               fmt::format("{} on node {} with {} bytes of private data",
                                           system               ? "the system's context"
                                           : virtual_addressing ? "a context with VirtualAddressing"
                                                                : "a context",
                                           node.value, private_data.size())));
  }
  if (fills) [[unlikely]] {
    UnwrittenMembers unwritten(core_.output_fill);
    unwritten.look("DmaBufferSize", &arguments.ContextInfo.DmaBufferSize);
    unwritten.look("DmaBufferSegmentSet", &arguments.ContextInfo.DmaBufferSegmentSet);
    unwritten.look("DmaBufferPrivateDataSize", &arguments.ContextInfo.DmaBufferPrivateDataSize);
    unwritten.look("AllocationListSize", &arguments.ContextInfo.AllocationListSize);
    unwritten.look("PatchLocationListSize", &arguments.ContextInfo.PatchLocationListSize);
    unwritten.report(core_, kCreateContext.name, "ContextInfo");
  }
  ContextInfo info;
  info.handle = arguments.hContext;
  info.dma_buffer_bytes = arguments.ContextInfo.DmaBufferSize;
  info.dma_buffer_segment_set = arguments.ContextInfo.DmaBufferSegmentSet;
  info.dma_private_bytes = arguments.ContextInfo.DmaBufferPrivateDataSize;
  info.allocation_list_size = arguments.ContextInfo.AllocationListSize;
  info.patch_list_size = arguments.ContextInfo.PatchLocationListSize;
  if (core_.version >= kInterfaceWddm20) {
    info.no_patching = arguments.ContextInfo.Caps.NoPatchingRequired != 0;
    info.driver_manages_residency = arguments.ContextInfo.Caps.DriverManagesResidency != 0;
    info.use_io_mmu = arguments.ContextInfo.Caps.UseIoMmu != 0;
    info.paging_companion_node = arguments.ContextInfo.PagingCompanionNodeId;
  }
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.made_context(info, virtual_addressing);
  return info;
}

Status ObjectsPort::destroy_context(void* context) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiDestroyContext == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.context_gone(context);
  DdiCall call(core_, kDestroyContext);
  return call(core_.ddi.DxgkDdiDestroyContext, context);
}

Status ObjectsPort::escape(void* device, void* context, uint32_t flags, std::span<std::byte> data) {
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiEscape == nullptr) return Status::kNotSupported;
  DXGKARG_ESCAPE arguments{};
  arguments.hDevice = device;
  std::memcpy(&arguments.Flags, &flags, sizeof(arguments.Flags));
  GuardedOutput output(data);
  arguments.pPrivateDriverData = data.empty() ? nullptr : output.data();
  arguments.PrivateDriverDataSize = size_of(data);
  arguments.hContext = context;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->objects.escaped(data.size());
  DdiCall call(core_, arguments.Flags.HardwareAccess != 0 ? kHardwareEscape : kEscape);
  const Status status = call(core_.ddi.DxgkDdiEscape, core_.context, &arguments);
  static_cast<void>(output.finish(core_, kEscape.name, "pPrivateDriverData"));
  return status;
}

}  // namespace dxgkit::port
