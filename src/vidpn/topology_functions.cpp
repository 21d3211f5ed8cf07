// DXGK_VIDPNTOPOLOGY_INTERFACE: the paths of a VidPN.
#include <fmt/format.h>

#include <algorithm>

#include "vidpn/mode_traits.h"
#include "vidpn/service.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using Handle = D3DKMDT_HVIDPNTOPOLOGY;
using AbiPath = D3DKMDT_VIDPN_PRESENT_PATH;

constexpr const char* kInterface = "DXGK_VIDPNTOPOLOGY_INTERFACE";

template <typename Body>
NTSTATUS serve_topology(const char* function, Handle handle, Body body) {
  return serve({kInterface, function}, handle, kInvalidVidPnTopology, [&](Service& service) {
    uint32_t topology = 0;
    VidPnObject* object = service.vidpn_of_topology(handle, &topology);
    return object == nullptr ? kInvalidVidPnTopology : body(service, *object, topology);
  });
}

// Drivers ask for each of their sources in turn: "not in the topology" is an answer, not a mistake.

void give_path(Service& service, const VidPnObject& object, uint32_t topology, const Path& path,
               const AbiPath** out) {
  Info fields;
  fields.source = path.source;
  fields.target = path.target;
  AbiPath content;
  to_abi(path, &fields.attached, &content);
  // The table moves with the vector into the info; the pointer to it stays right.
  Service::give(out,
                static_cast<const AbiPath*>(service.new_info(Kind::kTopology, topology, object.call,
                                                             false, content, std::move(fields))));
}

NTSTATUS NTAPI get_num_paths(Handle handle, SIZE_T* count) {
  return serve_topology("pfnGetNumPaths", handle,
                        [=](Service& service, VidPnObject& object, uint32_t) {
                          if (!service.writable(count, "pNumPaths"))
                            return Status::kInvalidParameter;
                          Service::give(count, SIZE_T{object.network.paths.size()});
                          return Status::kSuccess;
                        });
}

NTSTATUS NTAPI get_num_paths_from_source(Handle handle, UINT source, SIZE_T* count) {
  return serve_topology(
      "pfnGetNumPathsFromSource", handle, [=](Service& service, VidPnObject& object, uint32_t) {
        if (!service.writable(count, "pNumPathsFromSource")) return Status::kInvalidParameter;
        if (!object.network.has_source(source)) return kSourceNotInTopology;
        const auto paths = std::ranges::count(object.network.paths, source, &Path::source);
        Service::give(count, static_cast<SIZE_T>(paths));
        return Status::kSuccess;
      });
}

NTSTATUS NTAPI enum_path_targets(Handle handle, UINT source, SIZE_T index, UINT* target) {
  return serve_topology(
      "pfnEnumPathTargetsFromSource", handle, [=](Service& service, VidPnObject& object, uint32_t) {
        if (!service.writable(target, "pVidPnTargetId")) return Status::kInvalidParameter;
        if (!object.network.has_source(source)) return kSourceNotInTopology;
        SIZE_T position = 0;
        for (const Path& path : object.network.paths) {
          if (path.source != source || position++ != index) continue;
          Service::give(target, path.target);
          return Status::kSuccess;
        }
        return service.refuse(Status::kInvalidParameter, "VIDPN-24",
                              fmt::format("VidPnPresentPathIndex is {}, source {} has {} paths.",
                                          index, source, position),
                              "The index counts the paths of the source, from 0.",
                              "Ask pfnGetNumPathsFromSource first.", Confidence::kDocumented);
      });
}

NTSTATUS NTAPI get_source_of_target(Handle handle, UINT target, UINT* source) {
  return serve_topology("pfnGetPathSourceFromTarget", handle,
                        [=](Service& service, VidPnObject& object, uint32_t) {
                          if (!service.writable(source, "pVidPnSourceId"))
                            return Status::kInvalidParameter;
                          for (const Path& path : object.network.paths) {
                            if (path.target != target) continue;
                            Service::give(source, path.source);
                            return Status::kSuccess;
                          }
                          return kTargetNotInTopology;
                        });
}

NTSTATUS NTAPI acquire_path(Handle handle, UINT source, UINT target, const AbiPath** out) {
  return serve_topology("pfnAcquirePathInfo", handle,
                        [=](Service& service, VidPnObject& object, uint32_t topology) {
                          if (!service.writable(out, "ppVidPnPresentPathInfo"))
                            return Status::kInvalidParameter;
                          const Path* path = object.network.find_path(source, target);
                          if (path == nullptr) return kPathNotInTopology;
                          give_path(service, object, topology, *path, out);
                          return Status::kSuccess;
                        });
}

NTSTATUS NTAPI acquire_first(Handle handle, const AbiPath** out) {
  return serve_topology("pfnAcquireFirstPathInfo", handle,
                        [=](Service& service, VidPnObject& object, uint32_t topology) {
                          if (!service.writable(out, "ppFirstVidPnPresentPathInfo"))
                            return Status::kInvalidParameter;
                          if (object.network.paths.empty()) {
                            Service::give(out, static_cast<const AbiPath*>(nullptr));
                            return kDataSetIsEmpty;
                          }
                          give_path(service, object, topology, object.network.paths.front(), out);
                          return Status::kSuccess;
                        });
}

NTSTATUS NTAPI acquire_next(Handle handle, const AbiPath* current, const AbiPath** out) {
  return serve_topology(
      "pfnAcquireNextPathInfo", handle,
      [=](Service& service, VidPnObject& object, uint32_t topology) {
        if (!service.writable(out, "ppNextVidPnPresentPathInfo")) return Status::kInvalidParameter;
        Status status = Status::kSuccess;
        const Info* info = service.info(current, Kind::kTopology, topology, kInvalidPath, &status);
        if (info == nullptr) return status;
        const std::vector<Path>& paths = object.network.paths;
        const auto place = std::ranges::find_if(paths, [&](const Path& path) {
          return path.source == info->source && path.target == info->target;
        });
        if (place == paths.end()) {  // no path has the ids of a new info
          return service.refuse(kInvalidPath, "VIDPN-05",
                                info->created ? "The path info is new, in no topology."
                                              : "The path of this info was removed.",
                                "The current path is one of the topology.",
                                info->created
                                    ? "Enumerate with infos from AcquireFirst and AcquireNext."
                                    : "Acquire the next path before pfnRemovePath, or begin anew "
                                      "with AcquireFirst.");
        }
        if (place + 1 == paths.end()) {
          Service::give(out, static_cast<const AbiPath*>(nullptr));
          return kNoMoreElements;
        }
        give_path(service, object, topology, *(place + 1), out);
        return Status::kSuccess;
      });
}

Status update_support(Service& service, VidPnObject& object, const AbiPath* update) {
  if (const Status status = service.check_access(object, Service::Change::kPathSupport);
      !is_success(status))
    return status;
  AbiPath abi;
  if (!guarded_copy(&abi, update, sizeof abi)) {
    return service.refuse(
        Status::kInvalidParameter, "VIDPN-24",
        fmt::format("i_pVidPnPresentPathInfo is {}.", update == nullptr ? "NULL" : "not readable"),
        "The structure is readable; a copy of an acquired one will do.",
        "Copy the acquired path info, set the support bits, pass the copy.");
  }
  const Path wanted = from_abi(abi);
  const auto place = std::ranges::find_if(object.network.paths, [&](const Path& path) {
    return path.source == wanted.source && path.target == wanted.target;
  });
  if (place == object.network.paths.end()) {
    return service.refuse(
        kPathNotInTopology, "VIDPN-17",
        fmt::format("Path {} -> {} is not in the topology.", wanted.source, wanted.target),
        "VidPnSourceId and VidPnTargetId name the path to update.",
        "Copy the acquired path info, its ids included.");
  }
  const Status status = service.apply(judge_path_support(
      service.manager.config.profile, *place, wanted, service.manager.config.test_signing));
  if (!is_success(status)) return status;
  place->scaling_support = wanted.scaling_support;
  place->rotation_support = wanted.rotation_support;
  place->copy_protection_support = wanted.copy_protection_support;
  return Status::kSuccess;
}

NTSTATUS NTAPI update_path_support(Handle handle, const AbiPath* update) {
  return serve_topology("pfnUpdatePathSupportInfo", handle,
                        [=](Service& service, VidPnObject& object, uint32_t) {
                          return update_support(service, object, update);
                        });
}

NTSTATUS NTAPI release_path(Handle handle, const AbiPath* path) {
  return serve_topology(
      "pfnReleasePathInfo", handle, [=](Service& service, VidPnObject&, uint32_t topology) {
        Status status = Status::kSuccess;
        if (service.info(path, Kind::kTopology, topology, kInvalidPath, &status) == nullptr)
          return status;
        service.end_info(path, "released");
        return Status::kSuccess;
      });
}

NTSTATUS NTAPI create_path(Handle handle, AbiPath** out) {
  return serve_topology("pfnCreateNewPathInfo", handle,
                        [=](Service& service, VidPnObject& object, uint32_t topology) {
                          if (!service.writable(out, "ppNewVidPnPresentPathInfo"))
                            return Status::kInvalidParameter;
                          AbiPath content;
                          std::memset(&content, 0, sizeof content);
                          content.VidPnSourceId = kNoId;
                          content.VidPnTargetId = kNoId;
                          Service::give(out, service.new_info(Kind::kTopology, topology,
                                                              object.call, true, content, Info{}));
                          return Status::kSuccess;
                        });
}

Status add_new_path(Service& service, VidPnObject& object, uint32_t topology, AbiPath* address) {
  Manager::Impl& manager = service.manager;
  if (const Status status = service.check_access(object, Service::Change::kPaths);
      !is_success(status))
    return status;
  Status status = Status::kSuccess;
  const Info* info = service.info(address, Kind::kTopology, topology, kInvalidPath, &status);
  if (info == nullptr) return status;
  if (!info->created) {
    return service.refuse(kInvalidPath, "VIDPN-08", "The path info was acquired, not created.",
                          "pfnCreateNewPathInfo makes the path that is added.",
                          "Create a new path info and fill it.", Confidence::kDocumented);
  }
  AbiPath abi;
  std::memcpy(&abi, address, sizeof abi);
  Path path = from_abi(abi);
  status = service.apply(judge_new_path(manager.config.profile, object.network, path));
  if (!is_success(status)) return status;
  const size_t table_bytes = gamma_bytes(path.gamma_type);
  if (path.gamma_type > 1) {
    path.gamma.resize(table_bytes);
    const bool sized = table_bytes != 0 && abi.GammaRamp.DataSize == table_bytes;
    if (!sized || !guarded_copy(path.gamma.data(), abi.GammaRamp.Data.pRaw, table_bytes)) {
      return service.refuse(
          kInvalidGammaRamp, "VIDPN-17",
          fmt::format("GammaRamp has Type {}, DataSize {} and {}.", path.gamma_type,
                      abi.GammaRamp.DataSize,
                      abi.GammaRamp.Data.pRaw == nullptr ? "no table" : "a table"),
          fmt::format("A table of {} bytes, or D3DDDI_GAMMARAMP_DEFAULT.", table_bytes),
          "Set D3DDDI_GAMMARAMP_DEFAULT with a null table.");
    }
  }
  const uint32_t vidpn = manager.topologies.at(topology);
  if (!object.source_sets.contains(path.source))
    object.source_sets[path.source] = manager.add_assigned_set<SourceMode>(vidpn, path.source, {});
  object.target_sets[path.target] = manager.add_assigned_set<TargetMode>(vidpn, path.target, {});
  object.network.paths.push_back(std::move(path));
  manager.retire_info(address, service.by_this_call("added"));
  return Status::kSuccess;
}

NTSTATUS NTAPI add_path(Handle handle, AbiPath* path) {
  return serve_topology("pfnAddPath", handle,
                        [=](Service& service, VidPnObject& object, uint32_t topology) {
                          return add_new_path(service, object, topology, path);
                        });
}

/// The set of a source or target that is no longer in the topology.
template <typename Mode>
void drop_set(Manager::Impl& manager, VidPnObject& object, uint32_t owner) {
  std::map<uint32_t, uint32_t>& assigned = ModeTraits<Mode>::assigned(object);
  const uint32_t set = assigned.at(owner);
  assigned.erase(owner);
  ModeSetObject<Mode>& entry = manager.mode_sets<Mode>().at(set);
  if (entry.references > 0) {
    entry.state = SetState::kReplaced;
  } else {
    manager.mode_sets<Mode>().erase(set);
    manager.retire_handle(set, "gone with its path");
  }
}

Status remove_one_path(Service& service, VidPnObject& object, uint32_t source, uint32_t target) {
  if (const Status status = service.check_access(object, Service::Change::kPaths);
      !is_success(status))
    return status;
  const Profile& profile = service.manager.config.profile;
  if (source >= profile.source_count || !profile.has_target(target)) {
    return service.refuse(source >= profile.source_count ? kInvalidSource : kInvalidTarget,
                          "VIDPN-17", fmt::format("Path {} -> {} cannot be.", source, target),
                          "Paths join sources and targets of the adapter.",
                          "Take the ids from the paths of the topology.", Confidence::kDocumented);
  }
  const auto place = std::ranges::find_if(object.network.paths, [&](const Path& path) {
    return path.source == source && path.target == target;
  });
  if (place == object.network.paths.end()) return kPathNotInTopology;
  object.network.paths.erase(place);
  drop_set<TargetMode>(service.manager, object, target);
  if (!object.network.has_source(source)) {
    drop_set<SourceMode>(service.manager, object, source);
    object.network.multisampling.erase(source);
  }
  return Status::kSuccess;
}

NTSTATUS NTAPI remove_path(Handle handle, UINT source, UINT target) {
  return serve_topology("pfnRemovePath", handle,
                        [=](Service& service, VidPnObject& object, uint32_t) {
                          return remove_one_path(service, object, source, target);
                        });
}

}  // namespace

void fill_topology(const Door& door, Tables* tables) {
  DXGK_VIDPNTOPOLOGY_INTERFACE& table = tables->topology;
  table.pfnGetNumPaths = door("pfnGetNumPaths", get_num_paths);
  table.pfnGetNumPathsFromSource = door("pfnGetNumPathsFromSource", get_num_paths_from_source);
  table.pfnEnumPathTargetsFromSource = door("pfnEnumPathTargetsFromSource", enum_path_targets);
  table.pfnGetPathSourceFromTarget = door("pfnGetPathSourceFromTarget", get_source_of_target);
  table.pfnAcquirePathInfo = door("pfnAcquirePathInfo", acquire_path);
  table.pfnAcquireFirstPathInfo = door("pfnAcquireFirstPathInfo", acquire_first);
  table.pfnAcquireNextPathInfo = door("pfnAcquireNextPathInfo", acquire_next);
  table.pfnUpdatePathSupportInfo = door("pfnUpdatePathSupportInfo", update_path_support);
  table.pfnReleasePathInfo = door("pfnReleasePathInfo", release_path);
  table.pfnCreateNewPathInfo = door("pfnCreateNewPathInfo", create_path);
  table.pfnAddPath = door("pfnAddPath", add_path);
  table.pfnRemovePath = door("pfnRemovePath", remove_path);
}

}  // namespace dxgkit::vidpn
