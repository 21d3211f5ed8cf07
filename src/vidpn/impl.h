// Internals of Manager and DdiCall, for this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/sync.h"
#include "verifier/findings.h"
#include "vidpn/judge.h"
#include "vidpn/marshal.h"
#include "vidpn/tables.h"
#include "vidpn/vidpn.h"

namespace dxgkit::vidpn {

/// The kind of object that a handle names. Also the kind of owner of an info.
enum class Kind : uint32_t {
  kVidPn = 1,
  kTopology,
  kSourceSet,
  kTargetSet,
  kMonitorSet,
  kRangeSet,
  kDescriptorSet,
};
/// "a source mode set".
const char* noun(Kind kind);

// A handle: 0x5D and the kind in the top 16 bits, so that no handle is a usable address; then 20
// bits of manager, then a serial number that is never used again.
struct HandleParts {
  Kind kind{};
  uint32_t manager = 0;
  uint32_t serial = 0;
};
inline constexpr uint32_t kSerialMax = (1U << 28) - 1;
void* make_handle(Kind kind, uint32_t manager, uint32_t serial);
/// False if the value does not have the form of a handle.
bool split_handle(const void* handle, HandleParts* parts);

/// The state behind a DdiCall.
struct CallState {
  Manager::Impl* manager = nullptr;
  Ddi ddi = Ddi::kOther;
  uint64_t number = 0;
  uint32_t vidpn = 0;  // serial; 0: none
  Network before = {};
  Pivot pivot = {};
  std::optional<uint32_t> target = {};
  uint32_t monitor_set = 0;       // serial given to the driver by RecommendMonitorModes
  CallState* previous = nullptr;  // of this thread
  uint32_t failing = 0;           // DdiCall::fail_function; 0: none
  uint32_t fallible_calls = 0;    // of functions that can fail, so far
  const char* failed = nullptr;   // the function that was made to fail
};

struct VidPnObject {
  CallState* call = nullptr;
  uint32_t topology = 0;  // serial, made with the VidPN
  Network network;        // paths and multisampling; the mode sets are objects
  std::map<uint32_t, uint32_t> source_sets, target_sets;  // by owner: serial of the assigned set
};

enum class SetState {
  kCreated,   // made by the driver, not assigned
  kAssigned,  // assigned to the VidPN
  kReplaced,  // replaced by another set; lives while the driver holds it
  kUnowned,   // its assignment was made to fail: the driver may release it, or leave it
};

template <typename Mode>
struct ModeSetObject {
  uint32_t vidpn = 0;  // serial
  uint32_t owner = 0;  // source or target id
  SetState state = SetState::kCreated;
  uint32_t references = 0;  // acquired and not released; 1 while kCreated
  const char* given_by = "";
  uint32_t next_id = 1;
  ModeSet<Mode> set;
};

struct MonitorSetObject {
  uint32_t target = 0;
  bool stale = false;                       // its monitor left or changed
  std::vector<CallState*> references = {};  // one per acquire: the call it was made in, or null
};

/// Range and descriptor sets have no references; they end with the monitor.
struct MonitorDataObject {
  uint32_t target = 0;
};

struct MonitorSlot {
  Monitor monitor;
  uint32_t mode_set = 0, range_set = 0, descriptor_set = 0;  // serials
  uint32_t next_mode_id = 1;
};

/// A structure that the driver holds.
struct Info {
  Kind owner_kind{};
  uint32_t owner = 0;  // serial of the set or topology
  uint64_t number = 0;
  uint32_t mode_id = 0;                     // of an acquired mode, range index, descriptor index
  uint32_t source = kNoId, target = kNoId;  // of an acquired path
  bool created = false;                     // by CreateNew...; else acquired
  CallState* call = nullptr;
  const char* given_by = "";
  std::vector<std::byte> original;  // acquired: a copy as it was handed out
  std::vector<std::byte> attached;  // the bytes that the structure points to
  std::unique_ptr<std::byte[]> memory;
  size_t bytes = 0;
};

struct Manager::Impl {
  explicit Impl(ManagerConfig configuration);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const ManagerConfig config;
  const Tables tables;
  uint32_t id = 0;  // in the process-wide list

  runtime::Mutex lock;  // guards all that follows
  uint32_t next_serial = 1;
  uint64_t next_number = 1;
  std::map<uint32_t, VidPnObject> vidpns;
  std::map<uint32_t, uint32_t> topologies;  // serial -> VidPN serial
  std::map<uint32_t, ModeSetObject<SourceMode>> source_sets;
  std::map<uint32_t, ModeSetObject<TargetMode>> target_sets;
  std::map<uint32_t, MonitorSetObject> monitor_sets;
  std::map<uint32_t, MonitorDataObject> range_sets, descriptor_sets;
  std::map<uint32_t, MonitorSlot> monitors;  // by target
  std::map<const void*, Info> infos;         // looked up by address, never walked in its order

  /// How handles and infos ended, kept for a while. It tells "used after release" from "never
  /// ours".
  std::map<uint32_t, std::string> retired_handles;
  struct RetiredInfo {
    std::string how = {};
    std::unique_ptr<std::byte[]> memory;  // kept, so that the address has no other use yet
  };
  std::map<const void*, RetiredInfo> retired_infos;
  std::vector<const void*> retired_order;
  std::vector<CallState*> calls;  // open, oldest first
  /// A bug check to raise when no lock is held; see serve().
  std::unique_ptr<verifier::Finding> fatal;

  void* handle(Kind kind, uint32_t serial) const { return make_handle(kind, id, serial); }
  uint32_t new_serial();
  /// The call of this thread, or null.
  CallState* current_call();
  /// @param how  "released by pfnReleasePathInfo", "gone with its monitor"
  void retire_handle(uint32_t serial, std::string how);
  void retire_info(const void* address, std::string how);
  template <typename Mode>
  std::map<uint32_t, ModeSetObject<Mode>>& mode_sets();
  template <typename Mode>
  uint32_t add_assigned_set(uint32_t vidpn, uint32_t owner, ModeSet<Mode> set);
  /// The network of a VidPN with its assigned sets.
  Network collect(const VidPnObject& object) const;
  /// Takes back everything that belongs to `call`, and reports what the driver had not released.
  void close(CallState& call, std::vector<verifier::Finding>* leaks);
  void drop_monitor(uint32_t target);
  size_t open_objects() const;
};

template <>
inline std::map<uint32_t, ModeSetObject<SourceMode>>& Manager::Impl::mode_sets<SourceMode>() {
  return source_sets;
}
template <>
inline std::map<uint32_t, ModeSetObject<TargetMode>>& Manager::Impl::mode_sets<TargetMode>() {
  return target_sets;
}

template <typename Mode>
uint32_t Manager::Impl::add_assigned_set(uint32_t vidpn, uint32_t owner, ModeSet<Mode> set) {
  const uint32_t serial = new_serial();
  ModeSetObject<Mode>& object = mode_sets<Mode>()[serial];
  object.vidpn = vidpn;
  object.owner = owner;
  object.state = SetState::kAssigned;
  for (const Mode& mode : set.modes)
    if (mode.id >= object.next_id && mode.id != UINT32_MAX) object.next_id = mode.id + 1;
  object.set = std::move(set);
  return serial;
}

/// The manager of a handle. If the handle names none, the manager of the calling thread's driver,
/// or the only one there is. Null if there is none of these.
Manager::Impl* find_manager(const void* handle);
Manager::Impl* find_manager_of_adapter(const void* adapter_handle);

/// Raises manager->fatal. Does not return if the driver runs under a kernel.
void raise_fatal(Manager::Impl& manager);

}  // namespace dxgkit::vidpn
