#include "port/ddi/children.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"
#include "port/ddi/wire.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kQueryChildRelations{"DxgkDdiQueryChildRelations", nt::kPassiveLevel,
                                       DdiClass::kExclusive};
constexpr DdiInfo kQueryChildStatus{"DxgkDdiQueryChildStatus", nt::kPassiveLevel,
                                    DdiClass::kLevelZero, verifier::Situation::kMonitorStatus};
constexpr DdiInfo kQueryDeviceDescriptor{"DxgkDdiQueryDeviceDescriptor", nt::kPassiveLevel,
                                         DdiClass::kLevelZero,
                                         verifier::Situation::kMonitorDescriptor};
constexpr DdiInfo kGetContainerId{"DxgkDdiGetChildContainerId", nt::kPassiveLevel,
                                  DdiClass::kLevelZero};
constexpr Status kMonitorNoDescriptor{0xC01D0001};  // STATUS_MONITOR_NO_DESCRIPTOR
constexpr uint32_t kChildrenMax = 4096;
constexpr uint32_t kDescriptorBlock = 128;  // of an EDID
constexpr uint32_t kDescriptorBlocksMax = 256;

ChildInfo child_of(const DXGK_CHILD_DESCRIPTOR& descriptor) {
  ChildInfo child;
  child.uid = descriptor.ChildUid;
  child.acpi_uid = descriptor.AcpiUid;
  switch (descriptor.ChildDeviceType) {
    case TypeVideoOutput:
      child.kind = ChildInfo::Kind::kVideoOutput;
      child.technology =
          static_cast<uint32_t>(descriptor.ChildCapabilities.Type.VideoOutput.InterfaceTechnology);
      break;
    case TypeIntegratedDisplay:
      child.kind = ChildInfo::Kind::kIntegratedDisplay;
      child.technology = static_cast<uint32_t>(
          descriptor.ChildCapabilities.Type.IntegratedDisplayChild.InterfaceTechnology);
      break;
    default:
      break;
  }
  switch (descriptor.ChildCapabilities.HpdAwareness) {
    case HpdAwarenessAlwaysConnected:
      child.awareness = ChildInfo::Awareness::kAlwaysConnected;
      break;
    case HpdAwarenessPolled:
      child.awareness = ChildInfo::Awareness::kPolled;
      break;
    case HpdAwarenessInterruptible:
      child.awareness = ChildInfo::Awareness::kInterruptible;
      break;
    default:
      break;
  }
  return child;
}

}  // namespace

Status ChildPort::query_child_relations(uint32_t children, std::vector<ChildInfo>* out) {
  if (out != nullptr) out->clear();
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiQueryChildRelations == nullptr) return Status::kNotSupported;
  if (children > kChildrenMax) return Status::kInsufficientResources;
  std::vector<DXGK_CHILD_DESCRIPTOR> relations(size_t{children} + 1);
  std::memset(relations.data(), 0, relations.size() * sizeof(relations[0]));
  GuardedOutput array = GuardedOutput::of(std::span(relations));
  DdiCall call(core_, kQueryChildRelations);
  const Status status =
      call(core_.ddi.DxgkDdiQueryChildRelations, core_.context, array.as<DXGK_CHILD_DESCRIPTOR>(),
           static_cast<ULONG>(relations.size() * sizeof(relations[0])));
  static_cast<void>(array.finish(core_, kQueryChildRelations.name, "ChildRelations"));
  if (!call.completed()) return status;
  const DXGK_CHILD_DESCRIPTOR zero{};
  if (std::memcmp(&relations.back(), &zero, sizeof(zero)) != 0) {
    (void)core_.violation(
        "LIFE-10", kQueryChildRelations.name,
        fmt::format("Element {} is not zero any more.", children),
        fmt::format("{} elements may be filled; the last of the {} given stays zero.", children,
                    children + 1),
        "Fill NumberOfChildren elements, no more.", status);
  }
  if (is_success(status)) {
    for (uint32_t i = 0; i < children; ++i) {
      if (relations[i].ChildDeviceType != TypeVideoOutput) continue;
      const DXGK_CHILD_CAPABILITIES& says = relations[i].ChildCapabilities;
      std::string open;
      if (says.HpdAwareness == HpdAwarenessUninitialized) open = "HpdAwareness";
      if (says.Type.VideoOutput.MonitorOrientationAwareness == D3DKMDT_MOA_UNINITIALIZED)
        open += open.empty() ? "MonitorOrientationAwareness" : ", MonitorOrientationAwareness";
      if (open.empty()) continue;
      (void)core_.violation(
          "CAPS-08", kQueryChildRelations.name,
          fmt::format("Child {:#x}, a video output, leaves open: {}.", relations[i].ChildUid, open),
          "A video output says how it hears of monitors that are plugged, and of their "
          "orientation.",
          "Set both, to ...AlwaysConnected and ..._NONE where nothing is heard.", status);
    }
  }
  if (is_success(status) && out != nullptr) {
    // A driver may have fewer children than it said: the first untouched element ends the list.
    for (uint32_t i = 0; i < children; ++i) {
      if (relations[i].ChildDeviceType == TypeUninitialized) break;
      out->push_back(child_of(relations[i]));
    }
    if (core_.situations != nullptr) [[unlikely]]
      core_.situations->life.has(*out);
  }
  return status;
}

Result<bool> ChildPort::query_child_status(uint32_t child, bool non_destructive_only) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiQueryChildStatus == nullptr) return Error(Status::kNotSupported);
  DXGK_CHILD_STATUS answer{};
  answer.Type = StatusConnection;
  answer.ChildUid = child;
  answer.HotPlug.Connected = kPoisonByte;
  DdiCall call(core_, kQueryChildStatus, child);
  const Status status = call(core_.ddi.DxgkDdiQueryChildStatus, core_.context, &answer,
                             static_cast<BOOLEAN>(non_destructive_only ? TRUE : FALSE));
  if (!is_success(status)) return Error(status);
  if (answer.HotPlug.Connected == kPoisonByte) {
    (void)core_.violation(
        "CAPS-08", kQueryChildStatus.name,
        fmt::format("It succeeded for child {} without writing HotPlug.Connected.", child),
        "With Type StatusConnection it writes HotPlug.Connected.",
        "Set ChildStatus->HotPlug.Connected to TRUE or FALSE.", Status::kSuccess);
    return false;
  }
  return answer.HotPlug.Connected != FALSE;
}

Result<std::vector<std::byte>> ChildPort::query_device_descriptor(uint32_t child) {
  if (is_dead(core_)) return Error(Status::kDeviceRemoved);
  if (core_.ddi.DxgkDdiQueryDeviceDescriptor == nullptr) return Error(Status::kNotSupported);
  std::vector<std::byte> descriptor;
  uint32_t blocks = 1;
  for (uint32_t block = 0; block < blocks && block < kDescriptorBlocksMax; ++block) {
    std::vector<std::byte> buffer(kDescriptorBlock, std::byte{kPoisonByte});
    DXGK_DEVICE_DESCRIPTOR arguments{};
    arguments.DescriptorOffset = block * kDescriptorBlock;
    arguments.DescriptorLength = kDescriptorBlock;
    GuardedOutput output = GuardedOutput::of(std::span(buffer));
    arguments.DescriptorBuffer = output.data();
    Status status = Status::kSuccess;
    {
      DdiCall call(core_, kQueryDeviceDescriptor, child);
      status = call(core_.ddi.DxgkDdiQueryDeviceDescriptor, core_.context,
                    static_cast<ULONG>(child), &arguments);
    }
    const bool written = output.is_changed();
    const bool inside = output.finish(core_, kQueryDeviceDescriptor.name,
                                      "DescriptorBuffer at offset", block * kDescriptorBlock);
    if (is_success(status) && inside && !written) {
      status = core_.violation(
          "CAPS-08", kQueryDeviceDescriptor.name,
          fmt::format("It succeeded for child {} at offset {} without writing DescriptorBuffer.",
                      child, block * kDescriptorBlock),
          "A success has written the descriptor from DescriptorOffset on.",
          "Copy the descriptor, or answer STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED.",
          Status::kNotSupported);
    }
    if (!is_success(status)) {
      if (block == 0) return Error(status);
      break;  // an extension the driver cannot read is one the monitor does not have
    }
    descriptor.insert(descriptor.end(), buffer.begin(), buffer.end());
    // Byte 126 of the first block counts the extension blocks.
    if (block == 0) blocks += static_cast<uint32_t>(buffer[126]);
  }
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.has_descriptor();
  return descriptor;
}

Status ChildPort::query_descriptor_part(uint32_t child, uint32_t offset, uint32_t bytes,
                                        std::span<const std::byte> whole) {
  DXGKIT_CHECK(bytes <= kDescriptorPartMax);
  if (is_dead(core_)) return Status::kDeviceRemoved;
  if (core_.ddi.DxgkDdiQueryDeviceDescriptor == nullptr) return Status::kNotSupported;
  if (core_.situations != nullptr) [[unlikely]]
    core_.situations->display.descriptor_asked(offset, bytes, whole.size());
  const std::span<const std::byte> part =
      whole.subspan(std::min<size_t>(offset, whole.size()))
          .first(offset < whole.size() ? std::min<size_t>(bytes, whole.size() - offset) : 0);
  // No byte is right by chance.
  std::vector<std::byte> buffer(bytes);
  for (size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = i < part.size() ? ~part[i] : std::byte{kPoisonByte};
  DXGK_DEVICE_DESCRIPTOR arguments{};
  arguments.DescriptorOffset = offset;
  arguments.DescriptorLength = bytes;
  GuardedOutput output = GuardedOutput::of(std::span(buffer));
  arguments.DescriptorBuffer = output.data();
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kQueryDeviceDescriptor, child);
    status = call(core_.ddi.DxgkDdiQueryDeviceDescriptor, core_.context, static_cast<ULONG>(child),
                  &arguments);
  }
  const bool inside =
      output.finish(core_, kQueryDeviceDescriptor.name, "DescriptorBuffer at offset", offset);
  if (!is_success(status) || !inside) return status;
  const auto report = [&](std::string actual) {
    return core_.violation(
        "CAPS-16", kQueryDeviceDescriptor.name, std::move(actual),
        "The bytes of the descriptor from DescriptorOffset on, as many as DescriptorLength and "
        "the descriptor have, or an error status.",
        "Copy min(DescriptorLength, size - DescriptorOffset) bytes from DescriptorOffset on; "
        "answer STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA behind the end.",
        Status::kSuccess);
  };
  if (part.empty()) {
    return report(
        fmt::format("It succeeded for {} bytes at offset {} of child {}, whose "
                    "descriptor has {} bytes.",
                    bytes, offset, child, whole.size()));
  }
  const auto [is, was] = std::mismatch(
      buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(part.size()), part.begin());
  if (was == part.end()) return status;
  const auto at = static_cast<size_t>(was - part.begin());
  return report(
      fmt::format("Asked for {} bytes at offset {} of child {}, it wrote {:#04x} as "
                  "byte {}; asked block by block, byte {} of the descriptor is {:#04x}.",
                  bytes, offset, child, std::to_integer<unsigned>(*is), at, offset + at,
                  std::to_integer<unsigned>(*was)));
}

Status ChildPort::get_container_id(uint32_t child, const ContainerSource& source, ContainerId* id) {
  DXGKIT_RETURN_IF_FAILED(callable(core_, kInterfaceWin8, core_.ddi.DxgkDdiGetChildContainerId));
  DXGK_CHILD_CONTAINER_ID arguments{};
  static_assert(sizeof arguments.ContainerId == sizeof *id);
  std::memcpy(&arguments.ContainerId, id->data(), id->size());
  arguments.EldInfo.PortId = source.port;
  arguments.EldInfo.ManufacturerName = source.manufacturer;
  arguments.EldInfo.ProductCode = source.product;
  const DXGK_CHILD_CONTAINER_ID before = arguments;
  Status status = Status::kSuccess;
  {
    DdiCall call(core_, kGetContainerId, child);
    status = call(core_.ddi.DxgkDdiGetChildContainerId, core_.context, static_cast<ULONG>(child),
                  &arguments);
  }
  if (is_success(status)) {
    std::memcpy(id->data(), &arguments.ContainerId, id->size());
    return status;
  }
  if (status == kMonitorNoDescriptor && std::memcmp(&arguments, &before, sizeof before) != 0) {
    (void)core_.violation(
        "OPT-33", kGetContainerId.name,
        fmt::format("It answered STATUS_MONITOR_NO_DESCRIPTOR for child {} and changed the "
                    "structure.",
                    child),
        "With that status the default counts, and the structure is as it was.",
        "Return STATUS_SUCCESS with an id of the hardware's own, or leave the structure alone.",
        status);
  }
  return status;
}

}  // namespace dxgkit::port
