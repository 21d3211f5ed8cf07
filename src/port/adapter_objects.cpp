// Processes, devices, contexts and allocations of a driver.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "port/adapter_impl.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCreateProcess{"DxgkDdiCreateProcess", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyProcess{"DxgkDdiDestroyProcess", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCreateDevice{"DxgkDdiCreateDevice", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyDevice{"DxgkDdiDestroyDevice", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCreateContext{"DxgkDdiCreateContext", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kDestroyContext{"DxgkDdiDestroyContext", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCreateAllocation{"DxgkDdiCreateAllocation", nt::kPassiveLevel,
                                    DdiClass::kLevelZero};
constexpr DdiInfo kDestroyAllocation{"DxgkDdiDestroyAllocation", nt::kPassiveLevel,
                                     DdiClass::kLevelZero};
constexpr DdiInfo kOpenAllocation{"DxgkDdiOpenAllocation", nt::kPassiveLevel, DdiClass::kLevelZero};
constexpr DdiInfo kCloseAllocation{"DxgkDdiCloseAllocation", nt::kPassiveLevel,
                                   DdiClass::kLevelZero};
constexpr DdiInfo kValidateUpdate{"DxgkDdiValidateUpdateAllocationProperty", nt::kPassiveLevel,
                                  DdiClass::kLevelZero};
constexpr DdiInfo kEscape{"DxgkDdiEscape", nt::kPassiveLevel, DdiClass::kLevelZero};

void* handle_of(uint32_t handle) { return reinterpret_cast<void*>(uint64_t{handle}); }
void* data_of(std::span<const std::byte> data) {
  return data.empty() ? nullptr : const_cast<std::byte*>(data.data());
}
uint32_t size_of(std::span<const std::byte> data) { return static_cast<uint32_t>(data.size()); }

}  // namespace

Result<void*> AdapterPort::create_process(uint32_t process_handle, bool system) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.version < kVersionWddm20 || port.ddi.DxgkDdiCreateProcess == nullptr) return nullptr;
  DXGKARG_CREATEPROCESS arguments{};
  arguments.hDxgkProcess = handle_of(process_handle);
  arguments.Flags.SystemProcess = system ? 1 : 0;
  {
    runtime::MutexLock lock(port.creating_lock);
    port.creating.push_back(arguments.hDxgkProcess);
  }
  Status status = Status::kSuccess;
  {
    DdiCall call(port, kCreateProcess, process_handle);
    status = call(port.ddi.DxgkDdiCreateProcess, port.context, &arguments);
  }
  {
    runtime::MutexLock lock(port.creating_lock);
    port.creating.erase(std::ranges::find(port.creating, handle_of(process_handle)));
  }
  if (!is_success(status)) return Error(status);
  return arguments.hKmdProcess;
}

Status AdapterPort::destroy_process(void* process) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.version < kVersionWddm20 || port.ddi.DxgkDdiDestroyProcess == nullptr)
    return Status::kSuccess;
  DdiCall call(port, kDestroyProcess);
  return call(port.ddi.DxgkDdiDestroyProcess, port.context, process);
}

namespace {

/// SCHED-05: only lack of memory excuses a refused device or context; or what the client's private
/// data say (our choice).
Status check_refusal(AdapterPort::Impl& port, const char* ddi, Status status, bool private_data) {
  constexpr Status kInsufficientResources{0xC000009A};
  if (status == Status::kNoMemory || status == kInsufficientResources) return status;
  if (status == Status::kGraphicsNoVideoMemory) return status;
  if (status == Status::kInvalidParameter && private_data) return status;
  // An answer that is no NTSTATUS has been reported as such (NT-22).
  if ((static_cast<uint32_t>(status) >> 30) != 3) return status;
  return port.violation(
      "SCHED-05", ddi, fmt::format("It returned 0x{:08X}.", static_cast<uint32_t>(status)),
      "A driver supports any number of devices and contexts: STATUS_NO_MEMORY is "
      "the only reason to refuse one.",
      "Allocate what the object needs when it is created; keep no fixed table.", status);
}

}  // namespace

Result<DeviceInfo> AdapterPort::create_device(uint32_t device_handle, bool system, void* process) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  DXGKARG_CREATEDEVICE arguments{};
  arguments.hDevice = handle_of(device_handle);
  arguments.Flags.SystemDevice = system ? 1 : 0;
  if (port.version >= kVersionWddm20) arguments.hKmdProcess = process;
  // Flags and pInfo share their place: what the driver left alone is not a pointer.
  const DXGK_DEVICEINFO* const untouched = arguments.pInfo;
  DdiCall call(port, kCreateDevice, device_handle);
  const Status status = call(port.ddi.DxgkDdiCreateDevice, port.context, &arguments);
  if (!is_success(status)) return Error(check_refusal(port, kCreateDevice.name, status, false));
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

Status AdapterPort::destroy_device(void* device) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  DdiCall call(port, kDestroyDevice);
  return call(port.ddi.DxgkDdiDestroyDevice, device);
}

Result<ContextInfo> AdapterPort::create_context(void* device, uint32_t context_handle,
                                                NodeOrdinal node, uint32_t engine_affinity,
                                                bool system, std::span<std::byte> private_data,
                                                bool virtual_addressing) {
  Impl& port = *impl_;
  if (is_dead(port)) return Error(Status::kDeviceRemoved);
  if (port.ddi.DxgkDdiCreateContext == nullptr) return Error(Status::kNotSupported);
  DXGKARG_CREATECONTEXT arguments{};
  arguments.hContext = handle_of(context_handle);
  arguments.NodeOrdinal = node.value;
  arguments.EngineAffinity = engine_affinity;
  arguments.Flags.SystemContext = system ? 1 : 0;
  if (port.version >= kVersionWddm20)
    arguments.Flags.VirtualAddressing = virtual_addressing ? 1 : 0;
  arguments.pPrivateDriverData = data_of(private_data);
  arguments.PrivateDriverDataSize = size_of(private_data);
  DdiCall call(port, kCreateContext, context_handle, static_cast<uint16_t>(node.value));
  const Status status = call(port.ddi.DxgkDdiCreateContext, device, &arguments);
  if (!is_success(status))
    return Error(check_refusal(port, kCreateContext.name, status, !private_data.empty()));
  ContextInfo info;
  info.handle = arguments.hContext;
  info.dma_buffer_bytes = arguments.ContextInfo.DmaBufferSize;
  info.dma_buffer_segment_set = arguments.ContextInfo.DmaBufferSegmentSet;
  info.dma_private_bytes = arguments.ContextInfo.DmaBufferPrivateDataSize;
  info.allocation_list_size = arguments.ContextInfo.AllocationListSize;
  info.patch_list_size = arguments.ContextInfo.PatchLocationListSize;
  if (port.version >= kVersionWddm20) {
    info.no_patching = arguments.ContextInfo.Caps.NoPatchingRequired != 0;
    info.driver_manages_residency = arguments.ContextInfo.Caps.DriverManagesResidency != 0;
    info.use_io_mmu = arguments.ContextInfo.Caps.UseIoMmu != 0;
    info.paging_companion_node = arguments.ContextInfo.PagingCompanionNodeId;
  }
  return info;
}

Status AdapterPort::destroy_context(void* context) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiDestroyContext == nullptr) return Status::kNotSupported;
  DdiCall call(port, kDestroyContext);
  return call(port.ddi.DxgkDdiDestroyContext, context);
}

Status AdapterPort::create_allocations(std::span<AllocationInfo> infos,
                                       std::span<const std::byte> private_data,
                                       bool creates_resource, void** resource) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  std::vector<DXGK_ALLOCATIONINFO> elements(infos.size());
  if (!elements.empty())  // a resource may be empty
    std::memset(elements.data(), 0, elements.size() * sizeof(elements[0]));
  for (size_t i = 0; i < infos.size(); ++i) {
    elements[i].pPrivateDriverData = data_of(infos[i].private_data);
    elements[i].PrivateDriverDataSize = size_of(infos[i].private_data);
  }
  DXGKARG_CREATEALLOCATION arguments{};
  arguments.pPrivateDriverData = data_of(private_data);
  arguments.PrivateDriverDataSize = size_of(private_data);
  arguments.NumAllocations = static_cast<UINT>(infos.size());
  arguments.pAllocationInfo = elements.data();
  arguments.hResource = resource == nullptr ? nullptr : *resource;
  arguments.Flags.Resource = creates_resource ? 1 : 0;
  DdiCall call(port, kCreateAllocation, infos.size());
  const Status status = call(port.ddi.DxgkDdiCreateAllocation, port.context, &arguments);
  if (!call.completed()) return status;
  constexpr std::array kDocumented = {Status::kSuccess, Status::kInvalidParameter,
                                      Status::kNoMemory, Status::kGraphicsDriverMismatch};
  if (std::ranges::find(kDocumented, status) == kDocumented.end()) {
    const Status answer = is_success(status) ? Status::kInvalidParameter : status;
    return port.violation("ALLOC-03", kCreateAllocation.name,
                          fmt::format("It returned {}.", hex(status)),
                          "STATUS_SUCCESS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY or "
                          "STATUS_GRAPHICS_DRIVER_MISMATCH.",
                          "Map the failure to one of these.", answer);
  }
  if (status != Status::kSuccess) return status;
  std::string missing;
  for (size_t i = 0; i < infos.size(); ++i) {
    const DXGK_ALLOCATIONINFO& element = elements[i];
    AllocationInfo& info = infos[i];
    info.handle = element.hAllocation;
    info.size = element.Size;
    info.pitch_aligned_size = element.PitchAlignedSize;
    info.alignment = element.Alignment;
    info.supported_read = element.SupportedReadSegmentSet;
    info.supported_write = element.SupportedWriteSegmentSet;
    info.eviction = element.EvictionSegmentSet;
    std::memcpy(&info.preferred, &element.PreferredSegment, sizeof(info.preferred));
    std::memcpy(&info.bank_hints, &element.HintedBank, sizeof(info.bank_hints));
    info.maximum_renaming = element.MaximumRenamingListLength;
    std::memcpy(&info.flags, &element.Flags, sizeof(info.flags));
    info.priority = element.AllocationPriority;
    if (port.version >= kVersionWddm30)
      std::memcpy(&info.flags2, &element.Flags2, sizeof(info.flags2));
    if (info.handle == nullptr) missing += fmt::format(" {}", i);
  }
  if (resource != nullptr) *resource = arguments.hResource;
  if (!missing.empty()) {
    // The caller destroys the elements that do have a handle.
    return port.violation(
        "ALLOC-02", kCreateAllocation.name,
        fmt::format("It succeeded with a null hAllocation in element{}.", missing),
        "On success every element has a non-null hAllocation.", "Set hAllocation of each element.",
        Status::kInvalidParameter);
  }
  return status;
}

Status AdapterPort::destroy_allocations(std::span<void* const> handles, void* resource,
                                        bool destroy_resource) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  DXGKARG_DESTROYALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(handles.size());
  arguments.pAllocationList = handles.empty() ? nullptr : handles.data();
  arguments.hResource = resource;
  arguments.Flags.DestroyResource = destroy_resource ? 1 : 0;
  DdiCall call(port, kDestroyAllocation, handles.size());
  return call(port.ddi.DxgkDdiDestroyAllocation, port.context, &arguments);
}

namespace {

/// ALLOC-24: what DxgkDdiOpenAllocation may only read, as it was before the call. A driver that
/// writes it is told; the next driver sees what it was given.
class PrivateDataBefore {
 public:
  PrivateDataBefore(std::span<const OpenInfo> infos, std::span<const std::byte> resource,
                    bool create)
      : resource_(resource), resource_copy_(resource.begin(), resource.end()) {
    if (create) return;  // then the data of each allocation may change
    for (const OpenInfo& info : infos) {
      allocations_.push_back(info.private_data);
      copies_.emplace_back(info.private_data.begin(), info.private_data.end());
    }
  }
  void check(AdapterPort::Impl& port) const {
    restore(port, "the private data of the resource", resource_, resource_copy_);
    for (size_t i = 0; i < copies_.size(); ++i) {
      restore(port, fmt::format("the private data of element {}, without Flags.Create", i),
              allocations_[i], copies_[i]);
    }
  }

 private:
  static void restore(AdapterPort::Impl& port, const std::string& what,
                      std::span<const std::byte> now, const std::vector<std::byte>& before) {
    const auto changed = std::ranges::mismatch(now, before);
    if (changed.in1 == now.end()) return;
    (void)port.violation(
        "ALLOC-24", kOpenAllocation.name,
        fmt::format("It changed byte {} of {}.", changed.in1 - now.begin(), what),
        "Private data of a resource is never written there, that of an allocation only with "
        "Flags.Create.",
        "Keep what you must remember behind hDeviceSpecificAllocation.", Status::kSuccess);
    std::memcpy(const_cast<std::byte*>(now.data()), before.data(), before.size());
  }
  std::span<const std::byte> resource_;
  std::vector<std::byte> resource_copy_;
  std::vector<std::span<const std::byte>> allocations_;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace

Status AdapterPort::open_allocations(void* device, std::span<OpenInfo> infos,
                                     std::span<const std::byte> private_data, bool create, uint32_t,
                                     bool read_only) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  std::vector<DXGK_OPENALLOCATIONINFO> elements(infos.size());
  std::memset(elements.data(), 0, elements.size() * sizeof(elements[0]));
  for (size_t i = 0; i < infos.size(); ++i) {
    elements[i].hAllocation = infos[i].allocation_handle;
    elements[i].pPrivateDriverData = data_of(infos[i].private_data);
    elements[i].PrivateDriverDataSize = size_of(infos[i].private_data);
  }
  DXGKARG_OPENALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(infos.size());
  arguments.pOpenAllocation = elements.data();
  arguments.pPrivateDriverData = data_of(private_data);
  arguments.PrivateDriverSize = size_of(private_data);
  arguments.Flags.Create = create ? 1 : 0;
  arguments.Flags.ReadOnly = read_only ? 1 : 0;
  const PrivateDataBefore before(infos, private_data, create);
  DdiCall call(port, kOpenAllocation, infos.size());
  const Status status = call(port.ddi.DxgkDdiOpenAllocation, device, &arguments);
  if (!call.completed()) return status;
  before.check(port);
  if (!is_success(status)) return status;
  std::string missing;
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].device_specific = elements[i].hDeviceSpecificAllocation;
    if (infos[i].device_specific == nullptr) missing += fmt::format(" {}", i);
  }
  if (!missing.empty()) {
    return port.violation(
        "ALLOC-02", kOpenAllocation.name,
        fmt::format("It succeeded with a null hDeviceSpecificAllocation in element{}.", missing),
        "On success every element has a non-null hDeviceSpecificAllocation.",
        "Set hDeviceSpecificAllocation of each element.", Status::kInvalidParameter);
  }
  return status;
}

Status AdapterPort::close_allocations(void* device, std::span<void* const> device_specific) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  DXGKARG_CLOSEALLOCATION arguments{};
  arguments.NumAllocations = static_cast<UINT>(device_specific.size());
  arguments.pOpenHandleList = device_specific.empty() ? nullptr : device_specific.data();
  DdiCall call(port, kCloseAllocation, device_specific.size());
  return call(port.ddi.DxgkDdiCloseAllocation, device, &arguments);
}

Status AdapterPort::validate_property_update(void* allocation, const PropertyUpdate& update) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiValidateUpdateAllocationProperty == nullptr) return Status::kNotSupported;
  DXGKARG_VALIDATEUPDATEALLOCPROPERTY arguments{};
  arguments.hAllocation = allocation;
  arguments.SupportedSegmentSet = update.supported.value_or(0);
  arguments.PreferredSegment.Value = update.preferred.value_or(0);
  arguments.Flags.AccessedPhysically = update.accessed_physically.value_or(false) ? 1 : 0;
  arguments.Flags.Unmoveable = update.unmoveable.value_or(false) ? 1 : 0;
  arguments.SetSupportedSegmentSet = update.supported.has_value() ? 1 : 0;
  arguments.SetPreferredSegment = update.preferred.has_value() ? 1 : 0;
  arguments.SetAccessedPhysically = update.accessed_physically.has_value() ? 1 : 0;
  DdiCall call(port, kValidateUpdate);
  return call(port.ddi.DxgkDdiValidateUpdateAllocationProperty, port.context,
              static_cast<const DXGKARG_VALIDATEUPDATEALLOCPROPERTY*>(&arguments));
}

Status AdapterPort::escape(void* device, void* context, uint32_t flags, std::span<std::byte> data) {
  Impl& port = *impl_;
  if (is_dead(port)) return Status::kDeviceRemoved;
  if (port.ddi.DxgkDdiEscape == nullptr) return Status::kNotSupported;
  DXGKARG_ESCAPE arguments{};
  arguments.hDevice = device;
  std::memcpy(&arguments.Flags, &flags, sizeof(arguments.Flags));
  arguments.pPrivateDriverData = data_of(data);
  arguments.PrivateDriverDataSize = size_of(data);
  arguments.hContext = context;
  DdiCall call(port, kEscape);
  return call(port.ddi.DxgkDdiEscape, port.context, &arguments);
}

}  // namespace dxgkit::port
