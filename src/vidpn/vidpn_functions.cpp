// DXGK_VIDPN_INTERFACE: mode sets and topology of a VidPN.
#include <fmt/format.h>

#include "base/interface_versions.h"
#include "vidpn/mode_traits.h"
#include "vidpn/service.h"

namespace dxgkit::vidpn {
namespace {

constexpr const char* kInterface = "DXGK_VIDPN_INTERFACE";
constexpr size_t kMethodsMax = 256;

using verifier::Confidence;

/// The id exists on the adapter and is in the topology.
template <typename Mode>
Status check_owner(Service& service, const VidPnObject& object, uint32_t owner) {
  using T = ModeTraits<Mode>;
  const Profile& profile = service.manager.config.profile;
  if (!T::exists(profile, owner)) {
    return service.refuse(T::kInvalidOwner, "VIDPN-17",
                          fmt::format("{} {} is not there.", T::kOwner, owner), T::kOwners,
                          "Take the ids from the paths of the VidPN.", Confidence::kDocumented);
  }
  const bool inside = T::in_topology(object.network, owner);
  if (!inside) {
    return service.refuse(T::kNotInTopology, "VIDPN-18",
                          fmt::format("{} {} is in no path of this VidPN.", T::kOwner, owner),
                          "Mode sets belong to sources and targets of the topology.",
                          "Add the path first, or take the ids from the paths of the VidPN.");
  }
  return Status::kSuccess;
}

template <typename Mode>
Status acquire_set(Service& service, const void* vidpn, uint32_t owner,
                   typename ModeTraits<Mode>::Handle* handle,
                   const typename ModeTraits<Mode>::Interface** functions) {
  using T = ModeTraits<Mode>;
  uint32_t serial = 0;
  VidPnObject* object = service.vidpn(vidpn, &serial);
  if (object == nullptr) return kInvalidVidPn;
  if (!service.writable(handle, "The mode set handle's address") ||
      !service.writable(functions, "The interface's address"))
    return Status::kInvalidParameter;
  if (const Status status = check_owner<Mode>(service, *object, owner); !is_success(status))
    return status;
  const uint32_t set = T::assigned(*object).at(owner);
  ModeSetObject<Mode>& entry = service.manager.mode_sets<Mode>().at(set);
  ++entry.references;
  entry.given_by = service.where.function;
  Service::give(handle, T::to_handle(service.manager.handle(T::kKind, set)));
  Service::give(functions, &T::table(service.manager.tables));
  return Status::kSuccess;
}

template <typename Mode>
Status release_set(Service& service, const void* vidpn, const void* handle) {
  using T = ModeTraits<Mode>;
  uint32_t serial = 0;
  if (service.vidpn(vidpn, &serial) == nullptr) return kInvalidVidPn;
  uint32_t set = 0;
  ModeSetObject<Mode>* entry = service.mode_set<Mode>(handle, &set);
  if (entry == nullptr) return T::kInvalidSet;
  if (entry->vidpn != serial) {
    return service.refuse(kResourcesNotRelated, "VIDPN-08",
                          "The mode set belongs to another VidPN.",
                          "A mode set is released to the VidPN it came from.",
                          "Keep both handles together.", Confidence::kDocumented);
  }
  if (--entry->references > 0) return Status::kSuccess;
  service.drop_infos(T::kKind, set, "gone with the release of its mode set");
  if (entry->state != SetState::kAssigned) service.manager.mode_sets<Mode>().erase(set);
  service.manager.retire_handle(set, service.by_this_call("released"));
  return Status::kSuccess;
}

template <typename Mode>
Status create_set(Service& service, const void* vidpn, uint32_t owner,
                  typename ModeTraits<Mode>::Handle* handle,
                  const typename ModeTraits<Mode>::Interface** functions) {
  using T = ModeTraits<Mode>;
  uint32_t serial = 0;
  VidPnObject* object = service.vidpn(vidpn, &serial);
  if (object == nullptr) return kInvalidVidPn;
  if (!service.writable(handle, "The mode set handle's address") ||
      !service.writable(functions, "The interface's address"))
    return Status::kInvalidParameter;
  if (const Status status = check_owner<Mode>(service, *object, owner); !is_success(status))
    return status;
  for (const auto& [other, entry] : service.manager.mode_sets<Mode>()) {
    if (entry.vidpn == serial && entry.owner == owner && entry.state == SetState::kCreated) {
      return service.refuse(
          kUnassignedModeSetExists, "VIDPN-27",
          fmt::format("A new mode set of {} {} is there and not assigned.", T::kOwner, owner),
          "One new mode set of a source or target at a time.",
          "Assign or release the first one before creating another.");
    }
  }
  const uint32_t set = service.manager.new_serial();
  ModeSetObject<Mode>& entry = service.manager.mode_sets<Mode>()[set];
  entry.vidpn = serial;
  entry.owner = owner;
  entry.references = 1;
  entry.given_by = service.where.function;
  Service::give(handle, T::to_handle(service.manager.handle(T::kKind, set)));
  Service::give(functions, &T::table(service.manager.tables));
  return Status::kSuccess;
}

/// A created set ends without being assigned.
template <typename Mode>
void consume_set(Service& service, uint32_t set) {
  service.drop_infos(ModeTraits<Mode>::kKind, set, "gone with the assignment of its mode set");
  service.manager.mode_sets<Mode>().erase(set);
  service.manager.retire_handle(
      set, fmt::format("released by {}, which failed", service.where.function));
}

template <typename Mode>
Status assign_set(Service& service, const void* vidpn, uint32_t owner, const void* handle) {
  using T = ModeTraits<Mode>;
  Manager::Impl& manager = service.manager;
  uint32_t serial = 0;
  VidPnObject* object = service.vidpn(vidpn, &serial);
  if (object == nullptr) return kInvalidVidPn;
  if (!T::exists(manager.config.profile, owner)) return check_owner<Mode>(service, *object, owner);
  uint32_t set = 0;
  ModeSetObject<Mode>* entry = service.mode_set<Mode>(handle, &set);
  if (entry == nullptr) return T::kInvalidSet;
  if (entry->state != SetState::kCreated) {
    return service.refuse(T::kInvalidSet, "VIDPN-08",
                          "The mode set was acquired, not created: it is assigned already.",
                          fmt::format("{} makes the set that is assigned.", T::kCreateFunction),
                          "Create a new set, copy the modes that stay, assign that.",
                          Confidence::kDocumented);
  }
  if (entry->vidpn != serial) {
    return service.refuse(kResourcesNotRelated, "VIDPN-08",
                          "The mode set was created in another VidPN.",
                          "A mode set is assigned in the VidPN it was created in.",
                          "Keep both handles together.", Confidence::kDocumented);
  }
  if (const Status status = service.check_access(*object, Service::Change::kModeSets);
      !is_success(status))
    return status;
  if (const Status status = check_owner<Mode>(service, *object, owner); !is_success(status))
    return status;
  // From here on the kernel knows which objects to release, and releases them.
  if (entry->owner != owner) {
    const uint32_t made_for = entry->owner;
    consume_set<Mode>(service, set);
    return service.refuse(kResourcesNotRelated, "VIDPN-18",
                          fmt::format("The mode set was created for {} {}, and is assigned to {}.",
                                      T::kOwner, made_for, owner),
                          "A mode set goes to the one it was created for.", "Create one for each.",
                          Confidence::kDocumented);
  }
  if (entry->set.modes.empty()) {
    consume_set<Mode>(service, set);
    return service.refuse(Status::kInvalidParameter, "VIDPN-18", "The mode set has no mode.",
                          "An assigned mode set has at least one mode.",
                          "Add a mode first; fail the DDI when there is none that works.",
                          Confidence::kDocumented);
  }
  if (service.must_fail()) {
    entry->state = SetState::kUnowned;
    return Status::kNoMemory;
  }
  std::map<uint32_t, uint32_t>& assigned = T::assigned(*object);
  const uint32_t old_set = assigned.at(owner);
  ModeSetObject<Mode>& old_entry = manager.mode_sets<Mode>().at(old_set);
  if (const Mode* pinned = old_entry.set.pinned_mode()) {
    const Mode* kept = find_same(entry->set, *pinned);
    if (kept == nullptr) {
      const std::string lost = T::text(*pinned);
      consume_set<Mode>(service, set);
      return service.refuse(
          kPinnedModeMustRemain, "VIDPN-15",
          fmt::format("{} {} has {} pinned, which the new set lacks.", T::kOwner, owner, lost),
          "A new set contains the pinned mode.",
          "Leave sets with a pinned mode alone, or copy that mode.", Confidence::kDocumented);
    }
    if (!entry->set.pinned.has_value()) entry->set.pinned = kept->id;
  }
  service.drop_infos(T::kKind, set, "gone with the assignment of its mode set");
  entry->state = SetState::kAssigned;
  entry->references = 0;
  manager.retire_handle(set, service.by_this_call("assigned"));
  assigned[owner] = set;
  if (old_entry.references > 0) {
    old_entry.state = SetState::kReplaced;
  } else {
    manager.mode_sets<Mode>().erase(old_set);
  }
  return Status::kSuccess;
}

NTSTATUS NTAPI get_topology(D3DKMDT_HVIDPN vidpn, D3DKMDT_HVIDPNTOPOLOGY* handle,
                            const DXGK_VIDPNTOPOLOGY_INTERFACE** functions) {
  return serve({kInterface, "pfnGetTopology"}, vidpn, kInvalidVidPn, [=](Service& service) {
    uint32_t serial = 0;
    const VidPnObject* object = service.vidpn(vidpn, &serial);
    if (object == nullptr) return kInvalidVidPn;
    if (!service.writable(handle, "The topology handle's address") ||
        !service.writable(functions, "The interface's address"))
      return Status::kInvalidParameter;
    Service::give(handle, static_cast<D3DKMDT_HVIDPNTOPOLOGY>(
                              service.manager.handle(Kind::kTopology, object->topology)));
    Service::give(functions, &service.manager.tables.topology);
    return Status::kSuccess;
  });
}

template <typename Mode>
NTSTATUS NTAPI acquire_mode_set(D3DKMDT_HVIDPN vidpn, UINT owner,
                                typename ModeTraits<Mode>::Handle* handle,
                                const typename ModeTraits<Mode>::Interface** functions) {
  return serve({kInterface, ModeTraits<Mode>::kAcquireFunction}, vidpn, kInvalidVidPn,
               [=](Service& service) {
                 return acquire_set<Mode>(service, vidpn, owner, handle, functions);
               });
}

template <typename Mode>
NTSTATUS NTAPI release_mode_set(D3DKMDT_HVIDPN vidpn, typename ModeTraits<Mode>::Handle handle) {
  return serve({kInterface, ModeTraits<Mode>::kReleaseFunction}, vidpn, kInvalidVidPn,
               [=](Service& service) { return release_set<Mode>(service, vidpn, handle); });
}

template <typename Mode>
NTSTATUS NTAPI create_mode_set(D3DKMDT_HVIDPN vidpn, UINT owner,
                               typename ModeTraits<Mode>::Handle* handle,
                               const typename ModeTraits<Mode>::Interface** functions) {
  return serve(
      {kInterface, ModeTraits<Mode>::kCreateFunction}, vidpn, kInvalidVidPn,
      [=](Service& service) { return create_set<Mode>(service, vidpn, owner, handle, functions); });
}

template <typename Mode>
NTSTATUS NTAPI assign_mode_set(D3DKMDT_HVIDPN vidpn, UINT owner,
                               typename ModeTraits<Mode>::Handle handle) {
  return serve({kInterface, ModeTraits<Mode>::kAssignFunction}, vidpn, kInvalidVidPn,
               [=](Service& service) { return assign_set<Mode>(service, vidpn, owner, handle); });
}

Status assign_methods(Service& service, const void* vidpn, uint32_t source, size_t count,
                      const D3DDDI_MULTISAMPLINGMETHOD* methods) {
  uint32_t serial = 0;
  VidPnObject* object = service.vidpn(vidpn, &serial);
  if (object == nullptr) return kInvalidVidPn;
  if (const Status status = check_owner<SourceMode>(service, *object, source); !is_success(status))
    return status;
  if (const Status status = service.check_access(*object, Service::Change::kMultisampling);
      !is_success(status))
    return status;
  std::vector<D3DDDI_MULTISAMPLINGMETHOD> copy(count <= kMethodsMax ? count : 0);
  if (count > kMethodsMax || !guarded_copy(copy.data(), methods, count * sizeof *methods)) {
    return service.refuse(Status::kInvalidParameter, "VIDPN-24",
                          fmt::format("The array of {} methods at {} cannot be read.", count,
                                      methods == nullptr ? "NULL" : "its address"),
                          fmt::format("NumMethods elements are readable, at most {}.", kMethodsMax),
                          "Pass the number of elements, not of bytes.");
  }
  std::vector<MultisamplingMethod>& list = object->network.multisampling[source];
  list.clear();
  for (const D3DDDI_MULTISAMPLINGMETHOD& method : copy)
    list.push_back({method.NumSamples, method.NumQualityLevels});
  return Status::kSuccess;
}

NTSTATUS NTAPI assign_multisampling(D3DKMDT_HVIDPN vidpn, UINT source, SIZE_T count,
                                    const D3DDDI_MULTISAMPLINGMETHOD* methods) {
  return serve(
      {kInterface, "pfnAssignMultisamplingMethodSet"}, vidpn, kInvalidVidPn,
      [=](Service& service) { return assign_methods(service, vidpn, source, count, methods); });
}

}  // namespace

void fill_vidpn(const Door& door, Tables* tables) {
  DXGK_VIDPN_INTERFACE& v1 = tables->vidpn_v1;
  v1.Version = DXGK_VIDPN_INTERFACE_VERSION_V1;
  v1.pfnGetTopology = door("pfnGetTopology", get_topology);
  v1.pfnAcquireSourceModeSet = door("pfnAcquireSourceModeSet", acquire_mode_set<SourceMode>);
  v1.pfnReleaseSourceModeSet = door("pfnReleaseSourceModeSet", release_mode_set<SourceMode>);
  v1.pfnCreateNewSourceModeSet = door("pfnCreateNewSourceModeSet", create_mode_set<SourceMode>);
  v1.pfnAssignSourceModeSet = door("pfnAssignSourceModeSet", assign_mode_set<SourceMode>);
  v1.pfnAssignMultisamplingMethodSet =
      door("pfnAssignMultisamplingMethodSet", assign_multisampling);
  v1.pfnAcquireTargetModeSet = door("pfnAcquireTargetModeSet", acquire_mode_set<TargetMode>);
  v1.pfnReleaseTargetModeSet = door("pfnReleaseTargetModeSet", release_mode_set<TargetMode>);
  v1.pfnCreateNewTargetModeSet = door("pfnCreateNewTargetModeSet", create_mode_set<TargetMode>);
  v1.pfnAssignTargetModeSet = door("pfnAssignTargetModeSet", assign_mode_set<TargetMode>);
  tables->vidpn_v2 = v1;
  tables->vidpn_v2.Version = DXGK_VIDPN_INTERFACE_VERSION_V2;
}

Status Manager::query_vidpn_interface(const void* vidpn, uint32_t version, const void** table) {
  return from_ntstatus(serve(
      {"DXGKRNL_INTERFACE", "DxgkCbQueryVidPnInterface"}, vidpn, kInvalidVidPn,
      [=](Service& service) {
        uint32_t serial = 0;
        if (service.vidpn(vidpn, &serial) == nullptr) return kInvalidVidPn;
        const Tables& tables = service.manager.tables;
        const bool has_v2 = service.manager.config.profile.interface_version >= kInterfaceWddm29;
        const void* wanted = version == DXGK_VIDPN_INTERFACE_VERSION_V1 ? &tables.vidpn_v1
                             : version == DXGK_VIDPN_INTERFACE_VERSION_V2 && has_v2
                                 ? &tables.vidpn_v2
                                 : nullptr;
        if (wanted == nullptr) {
          return service.refuse(Status::kNotSupported, "VIDPN-24",
                                fmt::format("VidPnInterfaceVersion is {}.", version),
                                has_v2 ? "The versions are 1 and 2." : "The version is 1.",
                                "Ask for DXGK_VIDPN_INTERFACE_VERSION_V1.",
                                Confidence::kDocumented);
        }
        if (!service.writable(table, "ppVidPnInterface")) return Status::kInvalidParameter;
        Service::give(table, wanted);
        return Status::kSuccess;
      }));
}

}  // namespace dxgkit::vidpn
