// One call of an interface function by a driver: finds its objects, refuses, answers.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded_copy.h"
#include "vidpn/impl.h"

namespace dxgkit::vidpn {

/// The function that the driver called, for findings: "DXGK_VIDPN_INTERFACE", "pfnGetTopology".
struct Where {
  const char* interface_name;
  const char* function;
};

/// A Service lives while the manager's lock is held. It keeps findings until the lock is free.
class Service {
 public:
  Service(Manager::Impl& manager_state, const Where& place)
      : manager(manager_state), where(place) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  Manager::Impl& manager;
  const Where& where;
  std::vector<verifier::Finding> findings;

  /// Records a finding with the refusal's status, and returns that status.
  Status refuse(Status status, const char* rule, std::string actual, std::string expected,
                std::string fix, verifier::Confidence confidence = verifier::Confidence::kInferred);
  /// Reports all judgments. Returns the refusal's status, or success.
  Status apply(const Judgments& judgments);

  /// The serial of a live handle of that kind. 0, with a finding, otherwise.
  uint32_t resolve(const void* handle, Kind kind);
  /// Null, with a finding, if `handle` is not such a handle.
  VidPnObject* vidpn(const void* handle, uint32_t* serial);
  VidPnObject* vidpn_of_topology(const void* handle, uint32_t* topology);
  template <typename Mode>
  ModeSetObject<Mode>* mode_set(const void* handle, uint32_t* serial);

  /// Counts a call of the function, and says whether it has to fail now
  /// (DdiCall::fail_function).
  bool must_fail();

  /// kAccessDenied, with a finding, if the DDI for which the VidPN is open does not allow this
  /// change.
  enum class Change { kPaths, kModeSets, kPathSupport, kMultisampling };
  Status check_access(const VidPnObject& object, Change change);

  /// False, with a finding, if `out` is null or not writable.
  template <typename T>
  bool writable(T* out, const char* parameter) {
    T value;
    if (guarded_copy(&value, out, sizeof value) && guarded_copy(out, &value, sizeof value))
      return true;
    bad_output(parameter, out == nullptr);
    return false;
  }
  /// The caller has checked that `out` is writable.
  template <typename T>
  static void give(T* out, T value) {
    static_cast<void>(guarded_copy(out, &value, sizeof value));
  }

  /// A structure for the driver: acquired (`original` remembers its content), or to be filled.
  template <typename Abi>
  Abi* new_info(Kind owner_kind, uint32_t owner, CallState* call, bool created, const Abi& content,
                Info fields);
  /// The live info at `address` that was given out for `owner`. Otherwise null with a finding and
  /// `*status`: `invalid`, or kResourcesNotRelated for an info of another set.
  Info* info(const void* address, Kind owner_kind, uint32_t owner, Status invalid, Status* status);
  /// "released by pfnReleasePathInfo": how something ended, for a later finding.
  std::string by_this_call(const char* how) const;
  /// The driver has released the info.
  void end_info(const void* address, const char* how);
  /// A set ends while the driver holds infos of it: one VIDPN-07 each.
  void drop_infos(Kind owner_kind, uint32_t owner, const char* how);

 private:
  void bad_output(const char* parameter, bool null);
};

/// The finding for an object that the driver did not release.
verifier::Finding leak_finding(const char* ddi, std::string what, const char* given_by,
                               const char* how);
std::string describe(const Manager::Impl& manager, const Info& info);

struct Served {
  Status status;
  Manager::Impl* fatal;  // a bug check is waiting to be raised
};

/// Run before the body of every interface function. kSuccess, or the status with which the function
/// has to fail without its body.
Status begin_service(Service& service);
/// Run after it.
/// Takes over the findings. Returns true if a bug check is among them.
bool end_service(Manager::Impl& manager, const Where& where,
                 std::vector<verifier::Finding> findings);
const char* current_ddi(const Manager::Impl& manager);

template <typename Body>
[[gnu::noinline]] Served serve_inner(const Where& where, Manager::Impl* manager, Status unknown,
                                     Body& body) {
  if (manager == nullptr) return {unknown, nullptr};
  std::vector<verifier::Finding> findings;
  Status status = unknown;
  {
    runtime::MutexLock lock(manager->lock);
    Service service(*manager, where);
    status = begin_service(service);
    if (is_success(status)) status = body(service);
    findings = std::move(service.findings);
  }
  const bool fatal = end_service(*manager, where, std::move(findings));
  return {status, fatal ? manager : nullptr};
}

/// Runs `body` (Service& -> Status) for the manager of `handle`. Returns `unknown` if there is no
/// manager. No object on this frame has a destructor, because raise_fatal may leave it by longjmp.
template <typename Body>
NTSTATUS serve(const Where& where, const void* handle, Status unknown, Body body) {
  const Served served = serve_inner(where, find_manager(handle), unknown, body);
  if (served.fatal != nullptr) raise_fatal(*served.fatal);
  return to_ntstatus(served.status);
}

/// The same for functions that name the adapter.
template <typename Body>
NTSTATUS serve_adapter(const Where& where, const void* adapter, Body body) {
  Manager::Impl* const named = find_manager_of_adapter(adapter);
  if (named == nullptr) {
    return serve(where, nullptr, kInvalidDisplayAdapter, [](Service& service) {
      return service.refuse(kInvalidDisplayAdapter, "VIDPN-05",
                            "hAdapter is not the DeviceHandle of an adapter.",
                            "hAdapter is DXGKRNL_INTERFACE::DeviceHandle of DxgkDdiStartDevice.",
                            "Keep the interface structure and pass its DeviceHandle.",
                            verifier::Confidence::kDocumented);
    });
  }
  const Served served = serve_inner(where, named, kInvalidDisplayAdapter, body);
  if (served.fatal != nullptr) raise_fatal(*served.fatal);
  return to_ntstatus(served.status);
}

template <typename Abi>
Abi* Service::new_info(Kind owner_kind, uint32_t owner, CallState* call, bool created,
                       const Abi& content, Info fields) {
  fields.owner_kind = owner_kind;
  fields.owner = owner;
  fields.number = manager.next_number++;
  fields.created = created;
  fields.call = call;
  fields.given_by = where.function;
  fields.bytes = sizeof(Abi);
  fields.memory = std::make_unique<std::byte[]>(sizeof(Abi));
  std::memcpy(fields.memory.get(), &content, sizeof(Abi));
  if (!created) fields.original.assign(fields.memory.get(), fields.memory.get() + sizeof(Abi));
  auto* address = reinterpret_cast<Abi*>(fields.memory.get());
  manager.infos.emplace(address, std::move(fields));
  return address;
}

}  // namespace dxgkit::vidpn
