// DXGK_VIDPNSOURCEMODESET_INTERFACE and DXGK_VIDPNTARGETMODESET_INTERFACE.
#include <fmt/format.h>

#include <algorithm>

#include "vidpn/mode_traits.h"
#include "vidpn/service.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;

/// Runs `body(service, set, serial)` for a live handle.
template <typename Mode, typename Body>
NTSTATUS serve_set(const char* function, typename ModeTraits<Mode>::Handle handle, Body body) {
  using T = ModeTraits<Mode>;
  return serve({T::kInterfaceName, function}, handle, T::kInvalidSet, [&](Service& service) {
    uint32_t serial = 0;
    ModeSetObject<Mode>* set = service.mode_set<Mode>(handle, &serial);
    return set == nullptr ? T::kInvalidSet : body(service, *set, serial);
  });
}

template <typename Mode>
Status give_mode(Service& service, const ModeSetObject<Mode>& set, uint32_t serial,
                 const Mode& mode, const typename ModeTraits<Mode>::Abi** out) {
  using Abi = typename ModeTraits<Mode>::Abi;
  Abi content;
  to_abi(mode, &content);
  Info fields;
  fields.mode_id = mode.id;
  CallState* call = service.manager.vidpns.at(set.vidpn).call;
  const Abi* given =
      service.new_info(ModeTraits<Mode>::kKind, serial, call, false, content, std::move(fields));
  Service::give(out, given);
  return Status::kSuccess;
}

/// A DDI that only reads may not change a set of the VidPN.
template <typename Mode>
Status check_set_access(Service& service, const ModeSetObject<Mode>& set) {
  if (set.state != SetState::kAssigned) return Status::kSuccess;
  return service.check_access(service.manager.vidpns.at(set.vidpn), Service::Change::kModeSets);
}

template <typename Mode>
NTSTATUS NTAPI get_num_modes(typename ModeTraits<Mode>::Handle handle, SIZE_T* count) {
  return serve_set<Mode>("pfnGetNumModes", handle,
                         [=](Service& service, ModeSetObject<Mode>& set, uint32_t) {
                           if (!service.writable(count, "The count's address"))
                             return Status::kInvalidParameter;
                           Service::give(count, SIZE_T{set.set.modes.size()});
                           return Status::kSuccess;
                         });
}

template <typename Mode>
NTSTATUS NTAPI acquire_first(typename ModeTraits<Mode>::Handle handle,
                             const typename ModeTraits<Mode>::Abi** out) {
  using Abi = typename ModeTraits<Mode>::Abi;
  return serve_set<Mode>("pfnAcquireFirstModeInfo", handle,
                         [=](Service& service, ModeSetObject<Mode>& set, uint32_t serial) {
                           if (!service.writable(out, "The mode info's address"))
                             return Status::kInvalidParameter;
                           if (set.set.modes.empty()) {
                             Service::give(out, static_cast<const Abi*>(nullptr));
                             return kDataSetIsEmpty;
                           }
                           return give_mode(service, set, serial, set.set.modes.front(), out);
                         });
}

template <typename Mode>
Status next_mode(Service& service, ModeSetObject<Mode>& set, uint32_t serial,
                 const typename ModeTraits<Mode>::Abi* current,
                 const typename ModeTraits<Mode>::Abi** out) {
  using T = ModeTraits<Mode>;
  if (!service.writable(out, "The mode info's address")) return Status::kInvalidParameter;
  Status status = Status::kSuccess;
  const Info* info = service.info(current, T::kKind, serial, T::kInvalidMode, &status);
  if (info == nullptr) return status;
  if (info->created) {
    return service.refuse(T::kInvalidMode, "VIDPN-05", "The mode info is new, in no set.",
                          "The current mode is one of the set.",
                          "Enumerate with infos from AcquireFirst and AcquireNext.");
  }
  const auto place = std::ranges::find(set.set.modes, info->mode_id, &Mode::id);
  if (place + 1 == set.set.modes.end()) {
    Service::give(out, static_cast<const typename T::Abi*>(nullptr));
    return kNoMoreElements;
  }
  return give_mode(service, set, serial, *(place + 1), out);
}

template <typename Mode>
NTSTATUS NTAPI acquire_next(typename ModeTraits<Mode>::Handle handle,
                            const typename ModeTraits<Mode>::Abi* current,
                            const typename ModeTraits<Mode>::Abi** out) {
  return serve_set<Mode>("pfnAcquireNextModeInfo", handle,
                         [=](Service& service, ModeSetObject<Mode>& set, uint32_t serial) {
                           return next_mode(service, set, serial, current, out);
                         });
}

template <typename Mode>
NTSTATUS NTAPI acquire_pinned(typename ModeTraits<Mode>::Handle handle,
                              const typename ModeTraits<Mode>::Abi** out) {
  using Abi = typename ModeTraits<Mode>::Abi;
  return serve_set<Mode>("pfnAcquirePinnedModeInfo", handle,
                         [=](Service& service, ModeSetObject<Mode>& set, uint32_t serial) {
                           if (!service.writable(out, "The mode info's address"))
                             return Status::kInvalidParameter;
                           const Mode* pinned = set.set.pinned_mode();
                           if (pinned == nullptr) {
                             // The page says STATUS_SUCCESS with NULL; drivers in the field look
                             // for this code too.
                             Service::give(out, static_cast<const Abi*>(nullptr));
                             return kModeNotPinned;
                           }
                           return give_mode(service, set, serial, *pinned, out);
                         });
}

template <typename Mode>
NTSTATUS NTAPI release_mode(typename ModeTraits<Mode>::Handle handle,
                            const typename ModeTraits<Mode>::Abi* info) {
  using T = ModeTraits<Mode>;
  return serve_set<Mode>(
      "pfnReleaseModeInfo", handle, [=](Service& service, ModeSetObject<Mode>&, uint32_t serial) {
        Status status = Status::kSuccess;
        if (service.info(info, T::kKind, serial, T::kInvalidMode, &status) == nullptr)
          return status;
        service.end_info(info, "released");
        return Status::kSuccess;
      });
}

template <typename Mode>
NTSTATUS NTAPI create_mode(typename ModeTraits<Mode>::Handle handle,
                           typename ModeTraits<Mode>::Abi** out) {
  using T = ModeTraits<Mode>;
  return serve_set<Mode>(
      "pfnCreateNewModeInfo", handle,
      [=](Service& service, ModeSetObject<Mode>& set, uint32_t serial) {
        if (!service.writable(out, "The mode info's address")) return Status::kInvalidParameter;
        typename T::Abi content;
        std::memset(&content, 0, sizeof content);
        T::prepare(set.next_id++, &content);
        CallState* call = service.manager.vidpns.at(set.vidpn).call;
        Service::give(out, service.new_info(T::kKind, serial, call, true, content, Info{}));
        return Status::kSuccess;
      });
}

template <typename Mode>
Status add(Service& service, ModeSetObject<Mode>& set, uint32_t serial,
           typename ModeTraits<Mode>::Abi* address) {
  using T = ModeTraits<Mode>;
  if (const Status status = check_set_access(service, set); !is_success(status)) return status;
  Status status = Status::kSuccess;
  const Info* info = service.info(address, T::kKind, serial, T::kInvalidMode, &status);
  if (info == nullptr) return status;
  if (!info->created) {
    return service.refuse(T::kInvalidMode, "VIDPN-08", "The mode info was acquired, not created.",
                          "pfnCreateNewModeInfo makes the mode that is added.",
                          "Create a new mode info and fill it.", Confidence::kDocumented);
  }
  typename T::Abi abi;
  std::memcpy(&abi, address, sizeof abi);
  const Mode mode = T::read(service.manager.config.profile, abi);
  status = service.apply(T::judge(service.manager.config.profile, mode));
  if (!is_success(status)) return status;
  // Drivers that offer every mode they know meet this often; they release the info and go on.
  if (find_same(set.set, mode) != nullptr) return kModeAlreadyInModeSet;
  if (set.set.find(mode.id) != nullptr) {
    return service.refuse(kModeIdMustBeUnique, "VIDPN-09",
                          fmt::format("Mode id {} is taken by another mode of the set.", mode.id),
                          "Ids are unique in a set.",
                          "Leave the generated ids alone, or overwrite them all.",
                          Confidence::kDocumented);
  }
  set.set.modes.push_back(mode);
  service.manager.retire_info(address, service.by_this_call("added"));
  return Status::kSuccess;
}

template <typename Mode>
NTSTATUS NTAPI add_mode(typename ModeTraits<Mode>::Handle handle,
                        typename ModeTraits<Mode>::Abi* info) {
  return serve_set<Mode>("pfnAddMode", handle,
                         [=](Service& service, ModeSetObject<Mode>& set, uint32_t serial) {
                           return add(service, set, serial, info);
                         });
}

template <typename Mode>
NTSTATUS NTAPI pin_mode(typename ModeTraits<Mode>::Handle handle, UINT mode_id) {
  using T = ModeTraits<Mode>;
  return serve_set<Mode>(
      "pfnPinMode", handle, [=](Service& service, ModeSetObject<Mode>& set, uint32_t) {
        if (const Status status = check_set_access(service, set); !is_success(status))
          return status;
        if (set.set.find(mode_id) == nullptr) {
          return service.refuse(
              T::kInvalidMode, "VIDPN-05",
              fmt::format("Mode {} is not in the set of {} {}.", mode_id, T::kOwner, set.owner),
              "The mode to pin is a member of the set.",
              "Add the mode first, and pin the Id of its structure.", Confidence::kDocumented);
        }
        set.set.pinned = mode_id;
        return Status::kSuccess;
      });
}

template <typename Mode>
void fill(const Door& door, typename ModeTraits<Mode>::Interface* table) {
  table->pfnGetNumModes = door("pfnGetNumModes", get_num_modes<Mode>);
  table->pfnAcquireFirstModeInfo = door("pfnAcquireFirstModeInfo", acquire_first<Mode>);
  table->pfnAcquireNextModeInfo = door("pfnAcquireNextModeInfo", acquire_next<Mode>);
  table->pfnAcquirePinnedModeInfo = door("pfnAcquirePinnedModeInfo", acquire_pinned<Mode>);
  table->pfnReleaseModeInfo = door("pfnReleaseModeInfo", release_mode<Mode>);
  table->pfnCreateNewModeInfo = door("pfnCreateNewModeInfo", create_mode<Mode>);
  table->pfnAddMode = door("pfnAddMode", add_mode<Mode>);
  table->pfnPinMode = door("pfnPinMode", pin_mode<Mode>);
}

}  // namespace

void fill_mode_sets(const Door& door, Tables* tables) {
  fill<SourceMode>(door, &tables->source_mode_set);
  fill<TargetMode>(door, &tables->target_mode_set);
}

}  // namespace dxgkit::vidpn
