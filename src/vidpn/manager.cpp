// Handles, the process-wide list of managers, DDI calls and their leaks, monitors.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "nt/kernel.h"
#include "vidpn/impl.h"
#include "vidpn/service.h"

namespace dxgkit::vidpn {
namespace {

constexpr uint64_t kHandleTag = 0x5D00;
constexpr uint32_t kManagerMax = (1U << 20) - 1;

/// Managers of this process by id: handles carry no pointer.
struct Directory {
  runtime::Mutex lock;
  std::map<uint32_t, Manager::Impl*> managers;
  uint32_t next = 1;
};

Directory& directory() {
  // Never destroyed: a kernel in a program that exits stops after the statics of functions ended.
  static Directory& instance = *new Directory;
  return instance;
}

void*& thread_slot(nt::Kernel& kernel) {
  return kernel.runtime().thread_slot(static_cast<size_t>(runtime::ThreadSlot::kVidPn));
}

verifier::Finding network_finding(const char* rule, const char* ddi, std::string actual,
                                  std::string expected, std::string fix, std::string windows) {
  return {.rule = rule,
          .severity = verifier::Severity::kViolation,
          .ddi = ddi,
          .actual = std::move(actual),
          .expected = std::move(expected),
          .fix = std::move(fix),
          .windows = std::move(windows),
          .confidence = verifier::Confidence::kDocumented};
}

/// The sets in `now` that were not there before. Values are serials.
std::set<uint32_t> replaced_sets(const std::map<uint32_t, uint32_t>& before,
                                 const std::map<uint32_t, uint32_t>& now) {
  std::set<uint32_t> owners;
  for (const auto& [owner, serial] : now) {
    const auto was = before.find(owner);
    if (was != before.end() && was->second != serial) owners.insert(owner);
  }
  return owners;
}

/// Same modes and same pin, whatever their ids.
template <typename Mode>
bool same_content(const ModeSet<Mode>& left, const ModeSet<Mode>& right) {
  if (left.modes.size() != right.modes.size()) return false;
  if (left.pinned.has_value() != right.pinned.has_value()) return false;
  for (size_t i = 0; i < left.modes.size(); ++i) {
    Mode mode = right.modes[i];
    mode.id = left.modes[i].id;
    if (!(mode == left.modes[i])) return false;
    if (left.pinned.has_value() &&
        (left.pinned == left.modes[i].id) != (right.pinned == right.modes[i].id))
      return false;
  }
  return true;
}

template <typename Mode>
size_t judge_sets(const char* owner, const std::map<uint32_t, ModeSet<Mode>>& before,
                  const std::map<uint32_t, ModeSet<Mode>>& after, uint32_t pivot,
                  verifier::Findings& findings) {
  size_t reported = 0;
  const auto say = [&](std::string actual, std::string expected, std::string fix) {
    ++reported;
    findings.report(
        network_finding("VIDPN-19", to_string(Ddi::kEnumVidPnCofuncModality), std::move(actual),
                        std::move(expected), std::move(fix),
                        "The mode set fails, and the desktop keeps its mode or stays black."));
  };
  for (const auto& [id, was] : before) {
    const auto found = after.find(id);
    if (found == after.end()) continue;
    const ModeSet<Mode>& is = found->second;
    if (id == pivot || was.pinned.has_value()) {
      if (!same_content(was, is)) {
        say(fmt::format("The mode set of {} {} changed, which {}.", owner, id,
                        id == pivot ? "is the pivot" : "has a pinned mode"),
            "The pivot and sets with a pinned mode stay as they are.",
            "Skip the pivot, and every set whose pfnAcquirePinnedModeInfo gives a mode.");
      }
      continue;
    }
    if (is.pinned.has_value()) {
      say(fmt::format("Mode {} of {} {} was pinned by the driver.", *is.pinned, owner, id),
          "The kernel pins modes; the driver enumerates them.", "Do not call pfnPinMode here.");
    }
    if (is.modes.empty()) {
      say(fmt::format("The mode set of {} {} is empty.", owner, id),
          "Every source and target in the topology has a mode that works with the pinned ones.",
          fmt::format("Create a mode set for {} {}, add modes and assign it.", owner, id));
    }
  }
  return reported;
}

/// `owners` got a new set. It has the modes of the one before, or judge_sets would have told.
template <typename Mode>
void judge_replaced(const char* owner, const std::map<uint32_t, ModeSet<Mode>>& before,
                    const std::set<uint32_t>& owners, uint32_t pivot,
                    verifier::Findings& findings) {
  for (const uint32_t id : owners) {
    if (id != pivot && !before.at(id).pinned.has_value()) continue;
    findings.report(network_finding(
        "VIDPN-19", to_string(Ddi::kEnumVidPnCofuncModality),
        fmt::format("The mode set of {} {} was replaced by an equal one, though it {}.", owner, id,
                    id == pivot ? "is the pivot" : "has a pinned mode"),
        "The pivot and sets with a pinned mode stay as they are.",
        "Skip the pivot, and every set whose pfnAcquirePinnedModeInfo gives a mode.",
        "Nothing, as long as the driver knows no other mode than the pinned one."));
  }
}

}  // namespace

const char* noun(Kind kind) {
  switch (kind) {
    case Kind::kVidPn:
      return "a VidPN";
    case Kind::kTopology:
      return "a topology";
    case Kind::kSourceSet:
      return "a source mode set";
    case Kind::kTargetSet:
      return "a target mode set";
    case Kind::kMonitorSet:
      return "a monitor source mode set";
    case Kind::kRangeSet:
      return "a monitor frequency range set";
    case Kind::kDescriptorSet:
      return "a monitor descriptor set";
  }
  return "";
}

void* make_handle(Kind kind, uint32_t manager, uint32_t serial) {
  const uint64_t value = (kHandleTag | static_cast<uint64_t>(kind)) << 48 |
                         static_cast<uint64_t>(manager) << 28 | serial;
  return reinterpret_cast<void*>(value);
}

bool split_handle(const void* handle, HandleParts* parts) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  const uint64_t top = value >> 48;
  if ((top & 0xFF00) != kHandleTag) return false;
  const uint64_t kind = top & 0xFF;
  if (kind < static_cast<uint64_t>(Kind::kVidPn) ||
      kind > static_cast<uint64_t>(Kind::kDescriptorSet))
    return false;
  parts->kind = static_cast<Kind>(kind);
  parts->manager = static_cast<uint32_t>(value >> 28) & kManagerMax;
  parts->serial = static_cast<uint32_t>(value) & kSerialMax;
  return parts->serial != 0;
}

Manager::Impl* find_manager(const void* handle) {
  Directory& list = directory();
  const nt::CallFrame* frame = nt::CallFrame::current_or_null();
  runtime::MutexLock lock(list.lock);
  HandleParts parts;
  if (split_handle(handle, &parts)) {
    const auto found = list.managers.find(parts.manager);
    // Two drivers in one process do not share handles: the caller's manager decides.
    if (found != list.managers.end() &&
        (frame == nullptr || found->second->config.kernel == nullptr ||
         found->second->config.kernel == &frame->kernel()))
      return found->second;
  }
  if (frame != nullptr) {
    for (const auto& [id, manager] : list.managers)
      if (manager->config.kernel == &frame->kernel()) return manager;
  }
  return list.managers.size() == 1 ? list.managers.begin()->second : nullptr;
}

Manager::Impl* find_manager_of_adapter(const void* adapter_handle) {
  if (adapter_handle == nullptr) return nullptr;
  Directory& list = directory();
  runtime::MutexLock lock(list.lock);
  for (const auto& [id, manager] : list.managers)
    if (manager->config.adapter_handle == adapter_handle) return manager;
  return nullptr;
}

void raise_fatal(Manager::Impl& manager) {
  verifier::Finding& finding = *manager.fatal;
  // The catalogue and this function's name outlive the finding; the other texts are moved.
  manager.config.kernel->bug_check("VIDPN-04", "pfnUpdatePathSupportInfo", finding.bugcheck_code,
                                   finding.bugcheck_parameter, std::move(finding.actual),
                                   std::move(finding.expected), std::move(finding.fix));
}

Manager::Impl::Impl(ManagerConfig configuration)
    : config(std::move(configuration)),
      tables(make_tables(config.image_driver ? config.kernel : nullptr)) {
  DXGKIT_CHECK(!config.image_driver || config.kernel != nullptr);
  DXGKIT_CHECK(config.findings != nullptr);
  DXGKIT_CHECK(config.profile.source_count >= 1 && config.profile.source_count <= kSourcesMax);
  Directory& list = directory();
  runtime::MutexLock guard(list.lock);
  do {
    id = list.next;
    list.next = (list.next + 1) & kManagerMax;
  } while (list.managers.contains(id));
  list.managers[id] = this;
}

Manager::Impl::~Impl() {
  Directory& list = directory();
  runtime::MutexLock guard(list.lock);
  list.managers.erase(id);
}

uint32_t Manager::Impl::new_serial() {
  DXGKIT_CHECK(next_serial < kSerialMax);
  return next_serial++;
}

CallState* Manager::Impl::current_call() {
  if (config.kernel == nullptr) return calls.empty() ? nullptr : calls.back();
  auto* call = static_cast<CallState*>(thread_slot(*config.kernel));
  while (call != nullptr && call->manager != this) call = call->previous;
  return call;
}

Network Manager::Impl::collect(const VidPnObject& object) const {
  Network network = object.network;
  network.source_sets.clear();
  network.target_sets.clear();
  for (const auto& [source, serial] : object.source_sets)
    network.source_sets[source] = source_sets.at(serial).set;
  for (const auto& [target, serial] : object.target_sets)
    network.target_sets[target] = target_sets.at(serial).set;
  return network;
}

void Manager::Impl::close(CallState& call, std::vector<verifier::Finding>* leaks) {
  constexpr const char* kHow = "gone with the end of the DDI call";
  const char* ddi = to_string(call.ddi);
  std::vector<std::pair<uint64_t, const void*>> held;
  for (const auto& [address, info] : infos)
    if (info.call == &call) held.emplace_back(info.number, address);
  std::ranges::sort(held);
  for (const auto& [number, address] : held) {
    const Info& info = infos.at(address);
    leaks->push_back(leak_finding(ddi, describe(*this, info), info.given_by, "left to the end"));
    retire_info(address, kHow);
  }
  const auto close_sets = [&](auto& sets, const char* owner) {
    for (auto it = sets.begin(); it != sets.end();) {
      if (it->second.vidpn != call.vidpn || call.vidpn == 0) {
        ++it;
        continue;
      }
      if (it->second.references > 0 && it->second.state != SetState::kUnowned) {
        leaks->push_back(leak_finding(ddi,
                                      fmt::format("The mode set of {} {} ({} references)", owner,
                                                  it->second.owner, it->second.references),
                                      it->second.given_by, "left to the end"));
      }
      retire_handle(it->first, kHow);
      it = sets.erase(it);
    }
  };
  close_sets(source_sets, "source");
  close_sets(target_sets, "target");
  if (call.vidpn != 0) {
    const uint32_t topology = vidpns.at(call.vidpn).topology;
    retire_handle(topology, kHow);
    topologies.erase(topology);
    retire_handle(call.vidpn, kHow);
    vidpns.erase(call.vidpn);
  }
  for (auto it = monitor_sets.begin(); it != monitor_sets.end();) {
    std::vector<CallState*>& references = it->second.references;
    const auto mine = std::ranges::count(references, &call);
    if (mine > 0) {
      leaks->push_back(
          leak_finding(ddi,
                       fmt::format("The monitor source mode set of target {} ({} references)",
                                   it->second.target, mine),
                       "pfnAcquireMonitorSourceModeSet", "left to the end"));
      std::erase(references, &call);
    }
    if (it->second.stale && references.empty()) {
      retire_handle(it->first, kHow);
      it = monitor_sets.erase(it);
    } else {
      ++it;
    }
  }
}

void Manager::Impl::drop_monitor(uint32_t target) {
  const auto found = monitors.find(target);
  if (found == monitors.end()) return;
  constexpr const char* kHow = "gone with its monitor";
  MonitorSetObject& set = monitor_sets.at(found->second.mode_set);
  const bool given = std::ranges::any_of(
      calls, [&](const CallState* call) { return call->monitor_set == found->second.mode_set; });
  if (set.references.empty() && !given) {
    retire_handle(found->second.mode_set, kHow);
    monitor_sets.erase(found->second.mode_set);
  } else {
    set.stale = true;
  }
  // Their handles are gone, so the driver could not release their infos. A serial is of one kind
  // only.
  std::vector<const void*> orphans;
  for (const auto& [address, info] : infos) {
    if (info.owner == found->second.range_set || info.owner == found->second.descriptor_set)
      orphans.push_back(address);
  }
  for (const void* address : orphans) retire_info(address, kHow);
  retire_handle(found->second.range_set, kHow);
  range_sets.erase(found->second.range_set);
  retire_handle(found->second.descriptor_set, kHow);
  descriptor_sets.erase(found->second.descriptor_set);
  monitors.erase(found);
}

size_t Manager::Impl::open_objects() const {
  size_t held = infos.size() + vidpns.size();
  for (const auto& [serial, set] : source_sets) held += set.references;
  for (const auto& [serial, set] : target_sets) held += set.references;
  for (const auto& [serial, set] : monitor_sets) held += set.references.size();
  return held;
}

const char* to_string(Ddi ddi) {
  switch (ddi) {
    case Ddi::kIsSupportedVidPn:
      return "DxgkDdiIsSupportedVidPn";
    case Ddi::kRecommendFunctionalVidPn:
      return "DxgkDdiRecommendFunctionalVidPn";
    case Ddi::kRecommendVidPnTopology:
      return "DxgkDdiRecommendVidPnTopology";
    case Ddi::kEnumVidPnCofuncModality:
      return "DxgkDdiEnumVidPnCofuncModality";
    case Ddi::kCommitVidPn:
      return "DxgkDdiCommitVidPn";
    case Ddi::kSetTimingsFromVidPn:
      return "DxgkDdiSetTimingsFromVidPn";
    case Ddi::kQueryVidPnHwCapability:
      return "DxgkDdiQueryVidPnHWCapability";
    case Ddi::kRecommendMonitorModes:
      return "DxgkDdiRecommendMonitorModes";
    case Ddi::kOther:
      return "";
  }
  return "";
}

Manager::Manager(ManagerConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Manager::~Manager() { DXGKIT_CHECK(impl_->calls.empty()); }

const Profile& Manager::profile() const { return impl_->config.profile; }

void Manager::connect_monitor(uint32_t target, Monitor monitor) {
  Impl& state = *impl_;
  DXGKIT_CHECK(state.config.profile.has_target(target));
  runtime::MutexLock guard(state.lock);
  state.drop_monitor(target);
  MonitorSlot& slot = state.monitors[target];
  for (const MonitorMode& mode : monitor.modes)
    if (mode.id >= slot.next_mode_id) slot.next_mode_id = mode.id + 1;
  slot.monitor = std::move(monitor);
  slot.mode_set = state.new_serial();
  state.monitor_sets[slot.mode_set] = {.target = target};
  slot.range_set = state.new_serial();
  state.range_sets[slot.range_set] = {.target = target};
  slot.descriptor_set = state.new_serial();
  state.descriptor_sets[slot.descriptor_set] = {.target = target};
}

void Manager::disconnect_monitor(uint32_t target) {
  DXGKIT_CHECK(impl_->config.profile.has_target(target));
  runtime::MutexLock guard(impl_->lock);
  impl_->drop_monitor(target);
}

const Monitor* Manager::monitor(uint32_t target) const {
  runtime::MutexLock guard(impl_->lock);
  const auto found = impl_->monitors.find(target);
  return found == impl_->monitors.end() ? nullptr : &found->second.monitor;
}

size_t Manager::report_leaks() {
  std::vector<verifier::Finding> leaks;
  {
    runtime::MutexLock guard(impl_->lock);
    std::vector<std::pair<uint64_t, const void*>> held;
    for (const auto& [address, info] : impl_->infos)
      if (info.call == nullptr) held.emplace_back(info.number, address);
    std::ranges::sort(held);
    for (const auto& [number, address] : held) {
      const Info& info = impl_->infos.at(address);
      leaks.push_back(leak_finding("DxgkDdiStopDevice", describe(*impl_, info), info.given_by,
                                   "left to the end of the device"));
      impl_->retire_info(address, "gone with the device");
    }
    for (auto& [serial, set] : impl_->monitor_sets) {
      const auto lost = std::erase(set.references, nullptr);
      if (lost == 0) continue;
      leaks.push_back(leak_finding(
          "DxgkDdiStopDevice",
          fmt::format("The monitor source mode set of target {} ({} references)", set.target, lost),
          "pfnAcquireMonitorSourceModeSet", "left to the end of the device"));
    }
  }
  for (verifier::Finding& leak : leaks) impl_->config.findings->report(leak);
  return leaks.size();
}

size_t Manager::open_objects() const {
  runtime::MutexLock guard(impl_->lock);
  return impl_->open_objects();
}

struct DdiCall::Impl : CallState {
  bool finished = false;
  Network after;
  std::map<uint32_t, uint32_t> source_sets, target_sets;  // as in the VidPN at first
};

namespace {

void open_call(Manager::Impl& manager, CallState* call, Ddi ddi) {
  call->manager = &manager;
  call->ddi = ddi;
  if (manager.config.kernel != nullptr) {
    void*& slot = thread_slot(*manager.config.kernel);
    call->previous = static_cast<CallState*>(slot);
    slot = call;
  }
  runtime::MutexLock guard(manager.lock);
  call->number = manager.next_number++;
  manager.calls.push_back(call);
}

}  // namespace

DdiCall::DdiCall(Manager& manager, Ddi ddi, Network network, Pivot pivot)
    : impl_(std::make_unique<Impl>()) {
  DXGKIT_CHECK(validate(network).empty());
  DXGKIT_CHECK(ddi != Ddi::kRecommendMonitorModes);
  Manager::Impl& state = manager.impl();
  open_call(state, impl_.get(), ddi);
  impl_->pivot = pivot;
  impl_->before = network;
  runtime::MutexLock guard(state.lock);
  impl_->vidpn = state.new_serial();
  VidPnObject& object = state.vidpns[impl_->vidpn];
  object.call = impl_.get();
  object.topology = state.new_serial();
  state.topologies[object.topology] = impl_->vidpn;
  for (const Path& path : network.paths) {
    if (!object.source_sets.contains(path.source))
      object.source_sets[path.source] =
          state.add_assigned_set(impl_->vidpn, path.source, network.source_sets[path.source]);
    object.target_sets[path.target] =
        state.add_assigned_set(impl_->vidpn, path.target, network.target_sets[path.target]);
  }
  impl_->source_sets = object.source_sets;
  impl_->target_sets = object.target_sets;
  object.network.paths = std::move(network.paths);
  object.network.multisampling = std::move(network.multisampling);
}

DdiCall::DdiCall(Manager& manager, Ddi ddi, std::optional<uint32_t> target)
    : impl_(std::make_unique<Impl>()) {
  Manager::Impl& state = manager.impl();
  open_call(state, impl_.get(), ddi);
  impl_->target = target;
  if (ddi != Ddi::kRecommendMonitorModes) return;
  DXGKIT_CHECK(target.has_value());
  runtime::MutexLock guard(state.lock);
  const auto found = state.monitors.find(*target);
  DXGKIT_CHECK(found != state.monitors.end());
  impl_->monitor_set = found->second.mode_set;
}

DdiCall::~DdiCall() {
  if (!impl_->finished) finish(Status::kSuccess, /*abandoned=*/true);
}

void* DdiCall::vidpn() const {
  return impl_->vidpn == 0 ? nullptr : impl_->manager->handle(Kind::kVidPn, impl_->vidpn);
}

void* DdiCall::topology() const {
  if (impl_->vidpn == 0) return nullptr;
  runtime::MutexLock guard(impl_->manager->lock);
  return impl_->manager->handle(Kind::kTopology, impl_->manager->vidpns.at(impl_->vidpn).topology);
}

void* DdiCall::monitor_mode_set() const {
  return impl_->monitor_set == 0 ? nullptr
                                 : impl_->manager->handle(Kind::kMonitorSet, impl_->monitor_set);
}

const void* DdiCall::monitor_mode_set_interface() const {
  return impl_->monitor_set == 0 ? nullptr : &impl_->manager->tables.monitor_source_mode_set;
}

void DdiCall::fail_function(uint32_t nth) { impl_->failing = nth; }

const char* DdiCall::failed_function() const { return impl_->failed; }

Network DdiCall::finish(Status status, bool abandoned) {
  if (impl_->finished) return impl_->after;
  impl_->finished = true;
  Manager::Impl& manager = *impl_->manager;
  std::vector<verifier::Finding> leaks;
  const Ddi ddi = impl_->ddi;
  const bool has_network = impl_->vidpn != 0;
  std::set<uint32_t> new_sources, new_targets;
  {
    runtime::MutexLock guard(manager.lock);
    if (has_network) {
      const VidPnObject& object = manager.vidpns.at(impl_->vidpn);
      impl_->after = manager.collect(object);
      new_sources = replaced_sets(impl_->source_sets, object.source_sets);
      new_targets = replaced_sets(impl_->target_sets, object.target_sets);
    }
    std::erase(manager.calls, impl_.get());
    manager.close(*impl_, &leaks);
  }
  if (manager.config.kernel != nullptr) {
    void*& slot = thread_slot(*manager.config.kernel);
    DXGKIT_CHECK(slot == impl_.get());
    slot = impl_->previous;
  }
  if (abandoned) return impl_->after;
  for (verifier::Finding& leak : leaks) manager.config.findings->report(std::move(leak));
  if (!is_success(status)) return impl_->after;
  DXGKIT_CHECK(validate(impl_->after).empty());
  if (ddi == Ddi::kEnumVidPnCofuncModality) {
    const bool right = check_cofunctional(impl_->before, impl_->after, impl_->pivot,
                                          manager.config.profile, *manager.config.findings);
    if (right) {
      const Pivot& pivot = impl_->pivot;
      const bool by_source = pivot.kind == Pivot::Kind::kSource;
      const bool by_target = pivot.kind == Pivot::Kind::kTarget;
      judge_replaced("source", impl_->before.source_sets, new_sources,
                     by_source ? pivot.source : kNoId, *manager.config.findings);
      judge_replaced("target", impl_->before.target_sets, new_targets,
                     by_target ? pivot.target : kNoId, *manager.config.findings);
    }
  } else if (ddi == Ddi::kRecommendFunctionalVidPn) {
    check_functional(impl_->after, manager.config.profile, *manager.config.findings,
                     to_string(ddi));
  }
  return impl_->after;
}

bool check_functional(const Network& network, const Profile& profile, verifier::Findings& findings,
                      const char* ddi) {
  size_t reported = 0;
  const auto say = [&](const char* rule, std::string actual, std::string expected,
                       std::string fix) {
    ++reported;
    findings.report(network_finding(rule, ddi, std::move(actual), std::move(expected),
                                    std::move(fix),
                                    "The VidPN is not committed; the screen stays as it is."));
  };
  if (network.paths.empty()) {
    say("VIDPN-16", "The VidPN has no path.", "A functional VidPN has at least one path.",
        "Add a path, or answer STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN.");
  }
  std::map<uint32_t, bool> seen;
  for (const Path& path : network.paths) {
    if (path.source >= profile.source_count || !profile.has_target(path.target)) {
      say("VIDPN-17",
          fmt::format("Path {} -> {} names a source or target that is not there.", path.source,
                      path.target),
          "Paths join sources and targets of the adapter.", "Use the ids the driver reported.");
    }
    if (!seen[path.source] && network.pinned_source_mode(path.source) == nullptr) {
      say("VIDPN-16", fmt::format("Source {} has no pinned mode.", path.source),
          "Every source in the topology has a pinned mode.",
          "Pin one with pfnPinMode before pfnAssignSourceModeSet.");
    }
    seen[path.source] = true;
    if (network.pinned_target_mode(path.target) == nullptr) {
      say("VIDPN-16", fmt::format("Target {} has no pinned mode.", path.target),
          "Every target in the topology has a pinned mode.",
          "Pin one with pfnPinMode before pfnAssignTargetModeSet.");
    }
    const bool scaling_lacks = path.scaling >= 1 && path.scaling <= 5 &&
                               path.scaling_support != 0 &&
                               (path.scaling_support >> (path.scaling - 1) & 1U) == 0;
    const bool rotation_lacks = path.rotation >= 1 && path.rotation <= 16 &&
                                (path.rotation_support & 0xFU) != 0 &&
                                (path.rotation_support >> (path.rotation - 1) % 4 & 1U) == 0;
    if (scaling_lacks || rotation_lacks) {
      say("VIDPN-20",
          fmt::format("Path {} -> {} shows scaling {} of support {:#x} and rotation {} of {:#x}.",
                      path.source, path.target, path.scaling, path.scaling_support, path.rotation,
                      path.rotation_support),
          "What is shown is supported.", "Name it in pfnUpdatePathSupportInfo.");
    }
  }
  if (const std::string wrong = validate(network); !wrong.empty())
    say("VIDPN-17", wrong + ".", "Targets are in one path; importance is unique.", "Correct it.");
  return reported == 0;
}

bool check_cofunctional(const Network& before, const Network& after, const Pivot& pivot,
                        const Profile& profile, verifier::Findings& findings) {
  static_cast<void>(profile);
  const uint32_t source = pivot.kind == Pivot::Kind::kSource ? pivot.source : kNoId;
  const uint32_t target = pivot.kind == Pivot::Kind::kTarget ? pivot.target : kNoId;
  const size_t reported =
      judge_sets("source", before.source_sets, after.source_sets, source, findings) +
      judge_sets("target", before.target_sets, after.target_sets, target, findings);
  return reported == 0;
}

}  // namespace dxgkit::vidpn
