#include "port/ddi/life.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "nt/device_properties.h"
#include "port/callbacks/callbacks.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kAddDevice{"DxgkDdiAddDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kExchangePreStartInfo{"DxgkDdiExchangePreStartInfo", nt::kPassiveLevel,
                                        DdiClass::kExclusive};
constexpr DdiInfo kStartDevice{"DxgkDdiStartDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kStopDevice{"DxgkDdiStopDevice", nt::kPassiveLevel, DdiClass::kExclusive,
                              verifier::Situation::kStopPlain};
constexpr DdiInfo kRemoveDevice{"DxgkDdiRemoveDevice", nt::kPassiveLevel, DdiClass::kExclusive};
constexpr DdiInfo kStopAndRelease{"DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
                                  nt::kPassiveLevel, DdiClass::kExclusive,
                                  verifier::Situation::kStopRelease};

/// The bus gives memory and ports in the order of the BARs, then the interrupt.
std::vector<DeviceResource> resources_of(const bus::PciFunction& function) {
  using Kind = DeviceResource::Kind;
  std::vector<DeviceResource> resources;
  for (const bus::Bar& bar : function.bars()) {
    if (bar.kind == bus::BarKind::kNone) continue;
    const Kind kind = bar.kind == bus::BarKind::kPorts ? Kind::kPorts : Kind::kMemory;
    resources.push_back({kind, bar.base.value, bar.size});
  }
  resources.push_back({.kind = Kind::kInterrupt});
  return resources;
}

CM_PARTIAL_RESOURCE_DESCRIPTOR descriptor_of(const DeviceResource& resource) {
  using Kind = DeviceResource::Kind;
  constexpr USHORT kResourcePortIo = 1;        // CM_RESOURCE_PORT_IO
  constexpr USHORT kResourceMemory40 = 0x200;  // CM_RESOURCE_MEMORY_LARGE_40
  CM_PARTIAL_RESOURCE_DESCRIPTOR descriptor{};
  descriptor.ShareDisposition = 1;  // exclusive to the device
  // A range of ports, and three numbers of a private descriptor, have the members of a memory
  // range.
  if (resource.kind != Kind::kInterrupt)
    descriptor.u.Memory.Start.QuadPart = static_cast<LONGLONG>(resource.start);
  switch (resource.kind) {
    case Kind::kMemory:
      descriptor.Type = CmResourceTypeMemory;
      descriptor.u.Memory.Length =
          static_cast<ULONG>(std::min<uint64_t>(resource.bytes, UINT32_MAX));
      if (resource.bytes > UINT32_MAX) {
        // The length is in units of 256 bytes.
        descriptor.Type = CmResourceTypeMemoryLarge;
        descriptor.Flags = kResourceMemory40;
        descriptor.u.Memory.Length = static_cast<ULONG>(resource.bytes >> 8);
      }
      break;
    case Kind::kPorts:
      descriptor.Type = CmResourceTypePort;
      descriptor.Flags = kResourcePortIo;
      descriptor.u.Memory.Length = static_cast<ULONG>(resource.bytes);
      break;
    case Kind::kInterrupt:
      descriptor.Type = CmResourceTypeInterrupt;
      descriptor.ShareDisposition = 3;  // shared
      descriptor.u.Interrupt.Level = nt::kDeviceLevel;
      descriptor.u.Interrupt.Vector = 0x50;
      descriptor.u.Interrupt.Affinity = 1;
      break;
    case Kind::kPrivate:
      descriptor.Type = CmResourceTypeDevicePrivate;
      break;
  }
  return descriptor;
}

/// The resources of the function, as CM_RESOURCE_LIST, into `core`.
void build_resources(PortCore& core) {
  core.resources = resources_of(core.function);
  if (core.faults != nullptr) [[unlikely]]
    core.faults->shape_resources(&core.resources);
  core.resource_list.clear();
  if (core.resources.empty()) return;
  std::vector<CM_PARTIAL_RESOURCE_DESCRIPTOR> descriptors;
  for (const DeviceResource& resource : core.resources)
    descriptors.push_back(descriptor_of(resource));
  const size_t head = offsetof(CM_RESOURCE_LIST, List) +
                      offsetof(CM_FULL_RESOURCE_DESCRIPTOR, PartialResourceList) +
                      offsetof(CM_PARTIAL_RESOURCE_LIST, PartialDescriptors);
  std::vector<std::byte> bytes(head + descriptors.size() * sizeof(descriptors[0]));
  auto* list = reinterpret_cast<CM_RESOURCE_LIST*>(bytes.data());
  list->Count = 1;
  list->List[0].InterfaceType = PCIBus;
  list->List[0].PartialResourceList.Version = 1;
  list->List[0].PartialResourceList.Revision = 1;
  list->List[0].PartialResourceList.Count = static_cast<ULONG>(descriptors.size());
  std::memcpy(bytes.data() + head, descriptors.data(), descriptors.size() * sizeof(descriptors[0]));
  core.resource_list.assign(bytes);
}

}  // namespace

Status LifePort::add_device() {
  DXGKIT_CHECK(!core_.added);
  if (is_dead(core_)) return Status::kDeviceRemoved;
  nt::describe_device(core_.kernel, core_.function.identity());
  void* context = nullptr;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.added(core_);
  DdiCall call(core_, kAddDevice);
  const Status status = call(core_.ddi.DxgkDdiAddDevice, &core_.device.object, &context);
  if (!is_success(status)) return status;
  if (context == nullptr) return Status::kNotSupported;  // LIFE-05: not a device of this driver
  core_.context = context;
  core_.added = true;
  return Status::kSuccess;
}

Status LifePort::exchange_pre_start(PreStartAnswer* out) {
  DXGKIT_CHECK(core_.added && !core_.started);
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWddm22, core_.ddi.DxgkDdiExchangePreStartInfo));
  DXGK_PRE_START_INFO info{};
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kExchangePreStartInfo);
    status = call(core_.ddi.DxgkDdiExchangePreStartInfo, core_.context, &info);
  }
  if (!is_success(status)) return status;
  if (info.ReservedOut != 0 || info.Input != 0) {
    (void)core_.violation(
        "OPT-31", kExchangePreStartInfo.name,
        fmt::format("Input is 0x{:X} afterwards, Output 0x{:X}.", info.Input, info.Output),
        "Input is as it was, 0, and of Output only the two bits that have a name are set.",
        "Set SupportPreserveBootDisplay and IsUEFIFrameBufferCpuAccessibleDuringStartup by name.",
        Status::kSuccess);
  }
  *out = {.preserves_boot_display = info.SupportPreserveBootDisplay != 0,
          .keeps_frame_buffer_mapped = info.IsUEFIFrameBufferCpuAccessibleDuringStartup != 0};
  return status;
}

Result<StartInfo> LifePort::start_device() {
  DXGKIT_CHECK(core_.added && !core_.started);
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  fill_callbacks(core_);
  build_resources(core_);
  core_.start_info = {};
  ULONG sources = kPoison, children = kPoison;
  core_.interrupts.connect();
  Status status = Status::kSuccess;
  bool completed = false;
  {
    DdiCall call(core_, kStartDevice);
    status = call(core_.ddi.DxgkDdiStartDevice, core_.context, &core_.start_info, &core_.callbacks,
                  &sources, &children);
    completed = call.completed();
  }
  core_.interrupts.end_start();
  if (completed && is_success(status) && (sources == kPoison || children == kPoison)) {
    core_.findings.report({.rule = "LIFE-09",
                           .severity = verifier::Severity::kStartFail,
                           .ddi = kStartDevice.name,
                           .actual = fmt::format("It succeeded without writing {}.",
                                                 sources == kPoison ? "NumberOfVideoPresentSources"
                                                                    : "NumberOfChildren"),
                           .expected = "Both numbers are written; 0 is a value too.",
                           .fix = "Set both outputs before returning success."});
    status = Status::kDeviceConfigurationError;
    core_.started = true;  // the driver thinks so: StopDevice is owed
    (void)stop_device();
  }
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->life.started(core_, status, sources);
  if (!is_success(status)) {
    core_.interrupts.disconnect();
    return Error(status);
  }
  core_.started = true;
  return StartInfo{static_cast<uint32_t>(sources), static_cast<uint32_t>(children)};
}

Status LifePort::stop_device() {
  DXGKIT_CHECK(core_.started);
  core_.started = false;
  Status status = Status::kDeviceRemoved;
  if (!is_dead(core_)) {
    DdiCall call(core_, kStopDevice);
    status = call(core_.ddi.DxgkDdiStopDevice, core_.context);
  }
  // The driver disables its device in StopDevice, with interrupts still working (LIFE-08).
  core_.interrupts.disconnect();
  return status;
}

Status LifePort::remove_device() {
  DXGKIT_CHECK(core_.added && !core_.started);
  core_.added = false;
  if (is_dead(core_)) return Status::kDeviceRemoved;
  DdiCall call(core_, kRemoveDevice);
  return call(core_.ddi.DxgkDdiRemoveDevice, core_.context);
}

Status LifePort::stop_device_and_release(uint32_t target, DisplayInformation* out) {
  DXGKIT_CHECK(core_.started);
  *out = {};
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiStopDeviceAndReleasePostDisplayOwnership == nullptr)
    return Status::kNotSupported;
  DXGK_DISPLAY_INFORMATION information{};
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kStopAndRelease, target);
    status = call(core_.ddi.DxgkDdiStopDeviceAndReleasePostDisplayOwnership, core_.context,
                  static_cast<D3DDDI_VIDEO_PRESENT_TARGET_ID>(target), &information);
  }
  if (!is_success(status)) return status;  // LIFE-19: StopDevice follows
  core_.started = false;
  core_.interrupts.disconnect();
  *out = {.width = information.Width,
          .height = information.Height,
          .pitch_bytes = information.Pitch,
          .format = static_cast<uint32_t>(information.ColorFormat),
          .address = static_cast<uint64_t>(information.PhysicAddress.QuadPart),
          .target_id = information.TargetId,
          .acpi_id = information.AcpiId};
  return status;
}

}  // namespace dxgkit::port
