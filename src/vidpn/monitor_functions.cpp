// DXGK_MONITOR_INTERFACE and the interfaces of the sets it gives.
#include <fmt/format.h>

#include <algorithm>

#include "vidpn/service.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using ModeSetHandle = D3DKMDT_HMONITORSOURCEMODESET;
using RangeSetHandle = D3DKMDT_HMONITORFREQUENCYRANGESET;
using DescriptorSetHandle = D3DKMDT_HMONITORDESCRIPTORSET;
using AbiMode = D3DKMDT_MONITOR_SOURCE_MODE;
using AbiRange = D3DKMDT_MONITOR_FREQUENCY_RANGE;
using AbiDescriptor = D3DKMDT_MONITOR_DESCRIPTOR;

constexpr const char* kMonitor = "DXGK_MONITOR_INTERFACE";
constexpr const char* kModeSet = "DXGK_MONITORSOURCEMODESET_INTERFACE";

Status find_slot(Service& service, uint32_t target, MonitorSlot** slot) {
  if (!service.manager.config.profile.has_target(target)) {
    return service.refuse(kInvalidTarget, "VIDPN-17",
                          fmt::format("Target {} is not there.", target),
                          "Targets are the ChildUids of the video outputs of "
                          "DxgkDdiQueryChildRelations.",
                          "Use the ids given there.", Confidence::kDocumented);
  }
  const auto found = service.manager.monitors.find(target);
  if (found == service.manager.monitors.end()) return kMonitorNotConnected;
  *slot = &found->second;
  return Status::kSuccess;
}

/// Set handle and table of the monitor at a target. `serial(slot)` names the set.
template <typename Handle, typename Interface, typename Serial>
Status give_set(Service& service, uint32_t target, Handle* handle, const Interface** functions,
                Kind kind, const Interface* table, Serial serial) {
  if (!service.writable(handle, "The set handle's address") ||
      !service.writable(functions, "The interface's address"))
    return Status::kInvalidParameter;
  MonitorSlot* slot = nullptr;
  if (const Status status = find_slot(service, target, &slot); !is_success(status)) return status;
  Service::give(handle, static_cast<Handle>(service.manager.handle(kind, serial(*slot))));
  Service::give(functions, table);
  return Status::kSuccess;
}

NTSTATUS NTAPI acquire_mode_set(D3DKMDT_ADAPTER adapter, UINT target, ModeSetHandle* handle,
                                const DXGK_MONITORSOURCEMODESET_INTERFACE** functions) {
  return serve_adapter(
      {kMonitor, "pfnAcquireMonitorSourceModeSet"}, adapter, [=](Service& service) {
        Manager::Impl& manager = service.manager;
        const Status status = give_set(service, target, handle, functions, Kind::kMonitorSet,
                                       &manager.tables.monitor_source_mode_set,
                                       [](const MonitorSlot& slot) { return slot.mode_set; });
        if (!is_success(status)) return status;
        manager.monitor_sets.at(manager.monitors.at(target).mode_set)
            .references.push_back(manager.current_call());
        return Status::kSuccess;
      });
}

Status release_set(Service& service, ModeSetHandle handle) {
  Manager::Impl& manager = service.manager;
  const uint32_t serial = service.resolve(handle, Kind::kMonitorSet);
  if (serial == 0) return kInvalidMonitorModeSet;
  MonitorSetObject& set = manager.monitor_sets.at(serial);
  if (set.references.empty()) {
    return service.refuse(kInvalidMonitorModeSet, "VIDPN-08",
                          "The mode set came with the DDI and was not acquired.",
                          "What was not acquired is not released.",
                          "Drop the release of DXGKARG_RECOMMENDMONITORMODES' mode set.");
  }
  auto mine = std::ranges::find(set.references, manager.current_call());
  if (mine == set.references.end()) mine = set.references.begin();
  set.references.erase(mine);
  if (!set.references.empty()) return Status::kSuccess;
  const bool given = std::ranges::any_of(
      manager.calls, [&](const CallState* call) { return call->monitor_set == serial; });
  if (given) return Status::kSuccess;
  service.drop_infos(Kind::kMonitorSet, serial, "gone with the release of its mode set");
  if (set.stale) manager.monitor_sets.erase(serial);
  manager.retire_handle(serial, service.by_this_call("released"));
  return Status::kSuccess;
}

NTSTATUS NTAPI release_mode_set(D3DKMDT_ADAPTER adapter, ModeSetHandle handle) {
  return serve_adapter({kMonitor, "pfnReleaseMonitorSourceModeSet"}, adapter,
                       [=](Service& service) { return release_set(service, handle); });
}

NTSTATUS NTAPI get_range_set(D3DKMDT_ADAPTER adapter, UINT target, RangeSetHandle* handle,
                             const DXGK_MONITORFREQUENCYRANGESET_INTERFACE** functions) {
  return serve_adapter({kMonitor, "pfnGetMonitorFrequencyRangeSet"}, adapter,
                       [=](Service& service) {
                         return give_set(service, target, handle, functions, Kind::kRangeSet,
                                         &service.manager.tables.monitor_frequency_range_set,
                                         [](const MonitorSlot& slot) { return slot.range_set; });
                       });
}

NTSTATUS NTAPI get_descriptor_set(D3DKMDT_ADAPTER adapter, UINT target, DescriptorSetHandle* handle,
                                  const DXGK_MONITORDESCRIPTORSET_INTERFACE** functions) {
  return serve_adapter({kMonitor, "pfnGetMonitorDescriptorSet"}, adapter, [=](Service& service) {
    return give_set(service, target, handle, functions, Kind::kDescriptorSet,
                    &service.manager.tables.monitor_descriptor_set,
                    [](const MonitorSlot& slot) { return slot.descriptor_set; });
  });
}

// No timings beyond the mode set are known for a monitor: the answer is always none.
NTSTATUS NTAPI get_additional_modes(D3DKMDT_ADAPTER adapter, UINT target, UINT* count,
                                    DXGK_TARGETMODE_DETAIL_TIMING** modes) {
  return serve_adapter(
      {kMonitor, "pfnGetAdditionalMonitorModeSet"}, adapter, [=](Service& service) {
        if (!service.writable(count, "pNumberModes") ||
            !service.writable(modes, "ppAdditionalModesSet"))
          return Status::kInvalidParameter;
        MonitorSlot* slot = nullptr;
        if (const Status status = find_slot(service, target, &slot); !is_success(status))
          return status;
        Service::give(count, 0U);
        Service::give(modes, static_cast<DXGK_TARGETMODE_DETAIL_TIMING*>(nullptr));
        return Status::kSuccess;
      });
}

NTSTATUS NTAPI release_additional_modes(D3DKMDT_ADAPTER adapter, UINT target,
                                        const DXGK_TARGETMODE_DETAIL_TIMING* modes) {
  return serve_adapter(
      {kMonitor, "pfnReleaseAdditionalMonitorModeSet"}, adapter, [=](Service& service) {
        MonitorSlot* slot = nullptr;
        if (const Status status = find_slot(service, target, &slot); !is_success(status))
          return status;
        if (modes == nullptr) return Status::kSuccess;
        return service.refuse(kInvalidMonitorModeSet, "VIDPN-05",
                              "The array did not come from pfnGetAdditionalMonitorModeSet.",
                              "The pointer is the one received, NULL for no modes.",
                              "Keep the pointer as it was received.", Confidence::kDocumented);
      });
}

// DXGK_MONITORSOURCEMODESET_INTERFACE

/// Runs `body(service, slot, serial)` for a live set of a monitor that is still there.
template <typename Body>
NTSTATUS serve_modes(const char* function, ModeSetHandle handle, Body body) {
  return serve({kModeSet, function}, handle, kInvalidMonitorModeSet, [&](Service& service) {
    const uint32_t serial = service.resolve(handle, Kind::kMonitorSet);
    if (serial == 0) return kInvalidMonitorModeSet;
    const MonitorSetObject& set = service.manager.monitor_sets.at(serial);
    // Hot-plug is not the driver's fault: the driver releases the set and asks again.
    if (set.stale) return kStaleModeSet;
    return body(service, service.manager.monitors.at(set.target), serial);
  });
}

Status give_mode(Service& service, uint32_t serial, const MonitorMode& mode, const AbiMode** out) {
  AbiMode content;
  to_abi(mode, &content);
  Info fields;
  fields.mode_id = mode.id;
  const AbiMode* given = service.new_info(Kind::kMonitorSet, serial, service.manager.current_call(),
                                          false, content, std::move(fields));
  Service::give(out, given);
  return Status::kSuccess;
}

NTSTATUS NTAPI get_num_modes(ModeSetHandle handle, SIZE_T* count) {
  return serve_modes("pfnGetNumModes", handle, [=](Service& service, MonitorSlot& slot, uint32_t) {
    if (!service.writable(count, "pNumMonitorSourceModes")) return Status::kInvalidParameter;
    Service::give(count, SIZE_T{slot.monitor.modes.size()});
    return Status::kSuccess;
  });
}

NTSTATUS NTAPI acquire_preferred(ModeSetHandle handle, const AbiMode** out) {
  return serve_modes("pfnAcquirePreferredModeInfo", handle,
                     [=](Service& service, MonitorSlot& slot, uint32_t serial) {
                       if (!service.writable(out, "The mode info's address"))
                         return Status::kInvalidParameter;
                       for (const MonitorMode& mode : slot.monitor.modes)
                         if (mode.preference == D3DKMDT_MP_PREFERRED)
                           return give_mode(service, serial, mode, out);
                       Service::give(out, static_cast<const AbiMode*>(nullptr));
                       return kNoPreferredMode;
                     });
}

NTSTATUS NTAPI acquire_first(ModeSetHandle handle, const AbiMode** out) {
  return serve_modes("pfnAcquireFirstModeInfo", handle,
                     [=](Service& service, MonitorSlot& slot, uint32_t serial) {
                       if (!service.writable(out, "The mode info's address"))
                         return Status::kInvalidParameter;
                       if (slot.monitor.modes.empty()) {
                         Service::give(out, static_cast<const AbiMode*>(nullptr));
                         return kDataSetIsEmpty;
                       }
                       return give_mode(service, serial, slot.monitor.modes.front(), out);
                     });
}

NTSTATUS NTAPI acquire_next(ModeSetHandle handle, const AbiMode* current, const AbiMode** out) {
  return serve_modes(
      "pfnAcquireNextModeInfo", handle, [=](Service& service, MonitorSlot& slot, uint32_t serial) {
        if (!service.writable(out, "The mode info's address")) return Status::kInvalidParameter;
        Status status = Status::kSuccess;
        const Info* info =
            service.info(current, Kind::kMonitorSet, serial, kInvalidMonitorMode, &status);
        if (info == nullptr) return status;
        if (info->created) {
          return service.refuse(kInvalidMonitorMode, "VIDPN-05", "The mode info is new, in no set.",
                                "The current mode is one of the set.",
                                "Enumerate with infos from AcquireFirst and AcquireNext.");
        }
        const std::vector<MonitorMode>& modes = slot.monitor.modes;
        const auto place = std::ranges::find(modes, info->mode_id, &MonitorMode::id);
        if (place + 1 == modes.end()) {
          Service::give(out, static_cast<const AbiMode*>(nullptr));
          return kNoMoreElements;
        }
        return give_mode(service, serial, *(place + 1), out);
      });
}

NTSTATUS NTAPI create_mode(ModeSetHandle handle, AbiMode** out) {
  return serve_modes(
      "pfnCreateNewModeInfo", handle, [=](Service& service, MonitorSlot& slot, uint32_t serial) {
        if (!service.writable(out, "The mode info's address")) return Status::kInvalidParameter;
        AbiMode content;
        std::memset(&content, 0, sizeof content);
        content.Id = slot.next_mode_id++;
        Service::give(out, service.new_info(Kind::kMonitorSet, serial,
                                            service.manager.current_call(), true, content, Info{}));
        return Status::kSuccess;
      });
}

bool same_mode(MonitorMode left, const MonitorMode& right) {
  left.id = right.id;
  left.origin = right.origin;
  left.preference = right.preference;
  return left == right;
}

Status add(Service& service, MonitorSlot& slot, uint32_t serial, AbiMode* address) {
  const Profile& profile = service.manager.config.profile;
  Status status = Status::kSuccess;
  const Info* info = service.info(address, Kind::kMonitorSet, serial, kInvalidMonitorMode, &status);
  if (info == nullptr) return status;
  if (!info->created) {
    return service.refuse(kInvalidMonitorMode, "VIDPN-08",
                          "The mode info was acquired, not created.",
                          "pfnCreateNewModeInfo makes the mode that is added.",
                          "Create a new mode info and fill it.", Confidence::kDocumented);
  }
  AbiMode abi;
  std::memcpy(&abi, address, sizeof abi);
  const MonitorMode mode = from_abi(profile, abi);
  status = service.apply(judge_monitor_mode(profile, mode));
  if (!is_success(status)) return status;
  std::vector<MonitorMode>& modes = slot.monitor.modes;
  if (std::ranges::any_of(modes, [&](const MonitorMode& other) { return same_mode(other, mode); }))
    return kModeAlreadyInModeSet;
  if (std::ranges::find(modes, mode.id, &MonitorMode::id) != modes.end()) {
    return service.refuse(kModeIdMustBeUnique, "VIDPN-09",
                          fmt::format("Mode id {} is taken by another mode of the set.", mode.id),
                          "Ids are unique in a set.",
                          "Leave the generated ids alone, or overwrite them all.",
                          Confidence::kDocumented);
  }
  // The newest preferred mode is the preferred one.
  if (mode.preference == D3DKMDT_MP_PREFERRED)
    for (MonitorMode& other : modes) other.preference = D3DKMDT_MP_NOTPREFERRED;
  modes.push_back(mode);
  service.manager.retire_info(address, service.by_this_call("added"));
  return Status::kSuccess;
}

NTSTATUS NTAPI add_mode(ModeSetHandle handle, AbiMode* info) {
  return serve_modes("pfnAddMode", handle,
                     [=](Service& service, MonitorSlot& slot, uint32_t serial) {
                       return add(service, slot, serial, info);
                     });
}

NTSTATUS NTAPI release_mode(ModeSetHandle handle, const AbiMode* info) {
  // Also for a stale set: an acquired info can always be released.
  return serve(
      {kModeSet, "pfnReleaseModeInfo"}, handle, kInvalidMonitorModeSet, [=](Service& service) {
        const uint32_t serial = service.resolve(handle, Kind::kMonitorSet);
        if (serial == 0) return kInvalidMonitorModeSet;
        Status status = Status::kSuccess;
        // This one page names the target mode's code for a bad pointer.
        if (service.info(info, Kind::kMonitorSet, serial, kInvalidTargetMode, &status) == nullptr)
          return status;
        service.end_info(info, "released");
        return Status::kSuccess;
      });
}

// Frequency ranges and descriptors: lists that are only read.

template <typename Value>
struct ListTraits;

template <>
struct ListTraits<FrequencyRange> {
  using Handle = RangeSetHandle;
  using Abi = AbiRange;
  static constexpr Kind kKind = Kind::kRangeSet;
  static constexpr Status kInvalidSet = kInvalidFrequencyRangeSet;
  static constexpr Status kInvalidEntry = kInvalidFrequencyRange;
  static constexpr const char* kInterface = "DXGK_MONITORFREQUENCYRANGESET_INTERFACE";
  static constexpr const char* kCount = "pfnGetNumFrequencyRanges";
  static constexpr const char* kFirst = "pfnAcquireFirstFrequencyRangeInfo";
  static constexpr const char* kNext = "pfnAcquireNextFrequencyRangeInfo";
  static constexpr const char* kRelease = "pfnReleaseFrequencyRangeInfo";
  static const std::vector<FrequencyRange>& list(const Manager::Impl& manager, uint32_t serial) {
    return manager.monitors.at(manager.range_sets.at(serial).target).monitor.ranges;
  }
  static void write(const FrequencyRange& value, std::vector<std::byte>*, Abi* abi) {
    to_abi(value, abi);
  }
};

template <>
struct ListTraits<MonitorDescriptor> {
  using Handle = DescriptorSetHandle;
  using Abi = AbiDescriptor;
  static constexpr Kind kKind = Kind::kDescriptorSet;
  static constexpr Status kInvalidSet = kInvalidDescriptorSet;
  static constexpr Status kInvalidEntry = kInvalidDescriptor;
  static constexpr const char* kInterface = "DXGK_MONITORDESCRIPTORSET_INTERFACE";
  static constexpr const char* kCount = "pfnGetNumDescriptors";
  static constexpr const char* kFirst = "pfnAcquireFirstDescriptorInfo";
  static constexpr const char* kNext = "pfnAcquireNextDescriptorInfo";
  static constexpr const char* kRelease = "pfnReleaseDescriptorInfo";
  static const std::vector<MonitorDescriptor>& list(const Manager::Impl& manager, uint32_t serial) {
    return manager.monitors.at(manager.descriptor_sets.at(serial).target).monitor.descriptors;
  }
  static void write(const MonitorDescriptor& value, std::vector<std::byte>* data, Abi* abi) {
    to_abi(value, data, abi);
  }
};

template <typename Value, typename Body>
NTSTATUS serve_list(const char* function, typename ListTraits<Value>::Handle handle, Body body) {
  using T = ListTraits<Value>;
  return serve({T::kInterface, function}, handle, T::kInvalidSet, [&](Service& service) {
    const uint32_t serial = service.resolve(handle, T::kKind);
    return serial == 0 ? T::kInvalidSet : body(service, T::list(service.manager, serial), serial);
  });
}

template <typename Value>
Status give_entry(Service& service, uint32_t serial, const std::vector<Value>& list, size_t index,
                  Status at_end, const typename ListTraits<Value>::Abi** out) {
  using T = ListTraits<Value>;
  if (index >= list.size()) {
    Service::give(out, static_cast<const typename T::Abi*>(nullptr));
    return at_end;
  }
  Info fields;
  fields.mode_id = static_cast<uint32_t>(index);
  typename T::Abi content;
  T::write(list[index], &fields.attached, &content);
  const typename T::Abi* given = service.new_info(T::kKind, serial, service.manager.current_call(),
                                                  false, content, std::move(fields));
  Service::give(out, given);
  return Status::kSuccess;
}

template <typename Value>
NTSTATUS NTAPI get_count(typename ListTraits<Value>::Handle handle, SIZE_T* count) {
  return serve_list<Value>(ListTraits<Value>::kCount, handle,
                           [=](Service& service, const std::vector<Value>& list, uint32_t) {
                             if (!service.writable(count, "The count's address"))
                               return Status::kInvalidParameter;
                             Service::give(count, SIZE_T{list.size()});
                             return Status::kSuccess;
                           });
}

template <typename Value>
NTSTATUS NTAPI first_entry(typename ListTraits<Value>::Handle handle,
                           const typename ListTraits<Value>::Abi** out) {
  return serve_list<Value>(ListTraits<Value>::kFirst, handle,
                           [=](Service& service, const std::vector<Value>& list, uint32_t serial) {
                             if (!service.writable(out, "The info's address"))
                               return Status::kInvalidParameter;
                             return give_entry(service, serial, list, 0, kDataSetIsEmpty, out);
                           });
}

template <typename Value>
NTSTATUS NTAPI next_entry(typename ListTraits<Value>::Handle handle,
                          const typename ListTraits<Value>::Abi* current,
                          const typename ListTraits<Value>::Abi** out) {
  using T = ListTraits<Value>;
  return serve_list<Value>(
      T::kNext, handle, [=](Service& service, const std::vector<Value>& list, uint32_t serial) {
        if (!service.writable(out, "The info's address")) return Status::kInvalidParameter;
        Status status = Status::kSuccess;
        const Info* info = service.info(current, T::kKind, serial, T::kInvalidEntry, &status);
        if (info == nullptr) return status;
        return give_entry(service, serial, list, size_t{info->mode_id} + 1, kNoMoreElements, out);
      });
}

template <typename Value>
NTSTATUS NTAPI release_entry(typename ListTraits<Value>::Handle handle,
                             const typename ListTraits<Value>::Abi* entry) {
  using T = ListTraits<Value>;
  return serve_list<Value>(
      T::kRelease, handle, [=](Service& service, const std::vector<Value>&, uint32_t serial) {
        Status status = Status::kSuccess;
        if (service.info(entry, T::kKind, serial, T::kInvalidEntry, &status) == nullptr)
          return status;
        service.end_info(entry, "released");
        return Status::kSuccess;
      });
}

}  // namespace

void fill_monitor(const Door& door, Tables* tables) {
  DXGK_MONITOR_INTERFACE_V2& v2 = tables->monitor_v2;
  v2.Version = DXGK_MONITOR_INTERFACE_VERSION_V2;
  v2.pfnAcquireMonitorSourceModeSet = door("pfnAcquireMonitorSourceModeSet", acquire_mode_set);
  v2.pfnReleaseMonitorSourceModeSet = door("pfnReleaseMonitorSourceModeSet", release_mode_set);
  v2.pfnGetMonitorFrequencyRangeSet = door("pfnGetMonitorFrequencyRangeSet", get_range_set);
  v2.pfnGetMonitorDescriptorSet = door("pfnGetMonitorDescriptorSet", get_descriptor_set);
  v2.pfnGetAdditionalMonitorModeSet = door("pfnGetAdditionalMonitorModeSet", get_additional_modes);
  v2.pfnReleaseAdditionalMonitorModeSet =
      door("pfnReleaseAdditionalMonitorModeSet", release_additional_modes);

  DXGK_MONITOR_INTERFACE& v1 = tables->monitor_v1;
  v1.Version = DXGK_MONITOR_INTERFACE_VERSION_V1;
  v1.pfnAcquireMonitorSourceModeSet = v2.pfnAcquireMonitorSourceModeSet;
  v1.pfnReleaseMonitorSourceModeSet = v2.pfnReleaseMonitorSourceModeSet;
  v1.pfnGetMonitorFrequencyRangeSet = v2.pfnGetMonitorFrequencyRangeSet;
  v1.pfnGetMonitorDescriptorSet = v2.pfnGetMonitorDescriptorSet;

  DXGK_MONITORSOURCEMODESET_INTERFACE& modes = tables->monitor_source_mode_set;
  modes.pfnGetNumModes = door("pfnGetNumModes", get_num_modes);
  modes.pfnAcquirePreferredModeInfo = door("pfnAcquirePreferredModeInfo", acquire_preferred);
  modes.pfnAcquireFirstModeInfo = door("pfnAcquireFirstModeInfo", acquire_first);
  modes.pfnAcquireNextModeInfo = door("pfnAcquireNextModeInfo", acquire_next);
  modes.pfnCreateNewModeInfo = door("pfnCreateNewModeInfo", create_mode);
  modes.pfnAddMode = door("pfnAddMode", add_mode);
  modes.pfnReleaseModeInfo = door("pfnReleaseModeInfo", release_mode);

  DXGK_MONITORFREQUENCYRANGESET_INTERFACE& ranges = tables->monitor_frequency_range_set;
  ranges.pfnGetNumFrequencyRanges = door("pfnGetNumFrequencyRanges", get_count<FrequencyRange>);
  ranges.pfnAcquireFirstFrequencyRangeInfo =
      door("pfnAcquireFirstFrequencyRangeInfo", first_entry<FrequencyRange>);
  ranges.pfnAcquireNextFrequencyRangeInfo =
      door("pfnAcquireNextFrequencyRangeInfo", next_entry<FrequencyRange>);
  ranges.pfnReleaseFrequencyRangeInfo =
      door("pfnReleaseFrequencyRangeInfo", release_entry<FrequencyRange>);

  DXGK_MONITORDESCRIPTORSET_INTERFACE& descriptors = tables->monitor_descriptor_set;
  descriptors.pfnGetNumDescriptors = door("pfnGetNumDescriptors", get_count<MonitorDescriptor>);
  descriptors.pfnAcquireFirstDescriptorInfo =
      door("pfnAcquireFirstDescriptorInfo", first_entry<MonitorDescriptor>);
  descriptors.pfnAcquireNextDescriptorInfo =
      door("pfnAcquireNextDescriptorInfo", next_entry<MonitorDescriptor>);
  descriptors.pfnReleaseDescriptorInfo =
      door("pfnReleaseDescriptorInfo", release_entry<MonitorDescriptor>);
}

Status Manager::query_monitor_interface(const void* adapter, uint32_t version, const void** table) {
  return from_ntstatus(serve_adapter(
      {"DXGKRNL_INTERFACE", "DxgkCbQueryMonitorInterface"}, adapter, [=](Service& service) {
        const Tables& tables = service.manager.tables;
        const void* wanted = version == DXGK_MONITOR_INTERFACE_VERSION_V1
                                 ? static_cast<const void*>(&tables.monitor_v1)
                             : version == DXGK_MONITOR_INTERFACE_VERSION_V2 ? &tables.monitor_v2
                                                                            : nullptr;
        if (wanted == nullptr) {
          return service.refuse(Status::kNotSupported, "VIDPN-24",
                                fmt::format("MonitorInterfaceVersion is {}.", version),
                                "The versions are 1 and 2.",
                                "Ask for DXGK_MONITOR_INTERFACE_VERSION_V2.");
        }
        if (!service.writable(table, "ppMonitorInterface")) return Status::kInvalidParameter;
        Service::give(table, wanted);
        return Status::kSuccess;
      }));
}

}  // namespace dxgkit::vidpn
