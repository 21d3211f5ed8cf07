#include "vidpn/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "nt/kernel.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using verifier::Severity;

// A driver may hold as many retired structures as it likes; we remember the last ones.
constexpr size_t kRetiredMax = 512;

template <typename Map>
bool contains(const Map& map, uint32_t serial) {
  return map.contains(serial);
}

bool live(const Manager::Impl& manager, Kind kind, uint32_t serial) {
  switch (kind) {
    case Kind::kVidPn:
      return contains(manager.vidpns, serial);
    case Kind::kTopology:
      return contains(manager.topologies, serial);
    case Kind::kSourceSet: {
      const auto found = manager.source_sets.find(serial);
      return found != manager.source_sets.end() && found->second.references > 0;
    }
    case Kind::kTargetSet: {
      const auto found = manager.target_sets.find(serial);
      return found != manager.target_sets.end() && found->second.references > 0;
    }
    case Kind::kMonitorSet: {
      const auto found = manager.monitor_sets.find(serial);
      return found != manager.monitor_sets.end() &&
             (!found->second.references.empty() ||
              std::ranges::any_of(manager.calls, [&](const CallState* call) {
                return call->monitor_set == serial;
              }));
    }
    case Kind::kRangeSet:
      return contains(manager.range_sets, serial);
    case Kind::kDescriptorSet:
      return contains(manager.descriptor_sets, serial);
  }
  return false;
}

bool may_change(Ddi ddi, Service::Change change) {
  switch (ddi) {
    case Ddi::kRecommendFunctionalVidPn:
      return true;
    case Ddi::kRecommendVidPnTopology:
      return change == Service::Change::kPaths || change == Service::Change::kPathSupport;
    case Ddi::kEnumVidPnCofuncModality:
      return change != Service::Change::kPaths;
    default:
      return false;
  }
}

const char* change_text(Service::Change change) {
  switch (change) {
    case Service::Change::kPaths:
      return "the paths of";
    case Service::Change::kModeSets:
      return "a mode set of";
    case Service::Change::kPathSupport:
      return "the path support of";
    case Service::Change::kMultisampling:
      return "the multisampling methods of";
  }
  return "";
}

}  // namespace

Status Service::refuse(Status status, const char* rule, std::string actual, std::string expected,
                       std::string fix, Confidence confidence) {
  findings.push_back({.rule = rule,
                      .severity = Severity::kViolation,
                      .ddi = {},
                      .actual = std::move(actual),
                      .expected = std::move(expected),
                      .fix = std::move(fix),
                      .windows = fmt::format("The function answers {}.", status_text(status)),
                      .confidence = confidence});
  return status;
}

Status Service::apply(const Judgments& judgments) {
  for (const Judgment& judgment : judgments) {
    std::string windows = judgment.windows;
    if (windows.empty() && !is_success(judgment.status))
      windows = fmt::format("The function answers {}.", status_text(judgment.status));
    findings.push_back({.rule = judgment.rule,
                        .severity = judgment.severity,
                        .ddi = {},
                        .actual = judgment.actual,
                        .expected = judgment.expected,
                        .fix = judgment.fix,
                        .bugcheck_code = judgment.bugcheck_code,
                        .bugcheck_parameter = judgment.bugcheck_parameter,
                        .why = judgment.why,
                        .windows = std::move(windows),
                        .confidence = judgment.confidence});
  }
  return outcome(judgments);
}

uint32_t Service::resolve(const void* handle, Kind kind) {
  const auto wrong = [&](const char* rule, std::string actual, std::string fix) {
    static_cast<void>(
        refuse(Status::kInvalidHandle, rule, std::move(actual),
               fmt::format("The parameter takes {} that is open in this DDI call.", noun(kind)),
               std::move(fix), Confidence::kDocumented));
    // The caller knows the exact status; the text above would name a different one.
    findings.back().windows = "The function fails, or the machine stops with a bad reference.";
    return 0U;
  };
  HandleParts parts;
  if (handle == nullptr)
    return wrong("VIDPN-05", "The handle is NULL.", "Check the call that should have given it.");
  if (!split_handle(handle, &parts)) {
    return wrong("VIDPN-05", "The handle is a value that no interface function gave out.",
                 "Pass the handle itself, not a pointer to it or to a structure.");
  }
  if (parts.manager != manager.id) {
    return wrong("VIDPN-05", "The handle belongs to another adapter.",
                 "Keep handles in the context of the adapter they came from.");
  }
  if (parts.kind != kind) {
    return wrong("VIDPN-05", fmt::format("The handle is {}.", noun(parts.kind)),
                 "Pass the handle the function's interface came with.");
  }
  if (live(manager, kind, parts.serial)) return parts.serial;
  const auto retired = manager.retired_handles.find(parts.serial);
  const bool known = parts.serial < manager.next_serial;
  const std::string how = retired != manager.retired_handles.end() ? retired->second
                          : known                                  ? "given back"
                                                                   : "";
  if (how.empty()) {
    return wrong("VIDPN-05", "The handle was never given out.",
                 "Pass the handle as it was received.");
  }
  return wrong("VIDPN-06", fmt::format("The handle is {} that was {}.", noun(kind), how),
               "Do not use a handle after that; acquire a new one.");
}

VidPnObject* Service::vidpn(const void* handle, uint32_t* serial) {
  *serial = resolve(handle, Kind::kVidPn);
  return *serial == 0 ? nullptr : &manager.vidpns.at(*serial);
}

VidPnObject* Service::vidpn_of_topology(const void* handle, uint32_t* topology) {
  *topology = resolve(handle, Kind::kTopology);
  return *topology == 0 ? nullptr : &manager.vidpns.at(manager.topologies.at(*topology));
}

template <>
ModeSetObject<SourceMode>* Service::mode_set<SourceMode>(const void* handle, uint32_t* serial) {
  *serial = resolve(handle, Kind::kSourceSet);
  return *serial == 0 ? nullptr : &manager.source_sets.at(*serial);
}

template <>
ModeSetObject<TargetMode>* Service::mode_set<TargetMode>(const void* handle, uint32_t* serial) {
  *serial = resolve(handle, Kind::kTargetSet);
  return *serial == 0 ? nullptr : &manager.target_sets.at(*serial);
}

Status Service::check_access(const VidPnObject& object, Change change) {
  const Ddi ddi = object.call->ddi;
  if (may_change(ddi, change)) return Status::kSuccess;
  return refuse(Status::kAccessDenied, "VIDPN-14",
                fmt::format("The driver changes {} a VidPN that it got in {}.", change_text(change),
                            to_string(ddi)),
                ddi == Ddi::kEnumVidPnCofuncModality
                    ? "EnumVidPnCofuncModality updates mode sets and path support; the topology "
                      "is given."
                    : "This DDI only reads its VidPN.",
                "Make the change in the DDI that asks for it, on the VidPN given there.",
                Confidence::kDocumented);
}

void Service::bad_output(const char* parameter, bool null) {
  static_cast<void>(refuse(Status::kInvalidParameter, "VIDPN-24",
                           fmt::format("{} is {}.", parameter, null ? "NULL" : "not writable"),
                           "Every output pointer of the function is writable.",
                           "Pass the address of a variable."));
}

Info* Service::info(const void* address, Kind owner_kind, uint32_t owner, Status invalid,
                    Status* status) {
  const auto found = manager.infos.find(address);
  if (found == manager.infos.end()) {
    const auto retired = manager.retired_infos.find(address);
    if (retired != manager.retired_infos.end()) {
      *status = refuse(
          invalid, "VIDPN-06", fmt::format("The structure was {} before.", retired->second.how),
          "A structure is not touched after it was released or added.",
          "Drop the pointer with the call that gives the structure back.", Confidence::kDocumented);
      return nullptr;
    }
    const bool null = address == nullptr;
    *status = refuse(
        invalid, "VIDPN-05",
        null ? "The pointer to the structure is NULL."
             : "The structure did not come from this interface.",
        "The structure is one that Acquire or CreateNew of the same set gave.",
        null
            ? "Check the status of the call that should have given it: an empty set, or the end of "
              "one, is a success without a structure."
            : "Pass that pointer while the structure is the driver's: not a copy, and not after it "
              "was given back.",
        Confidence::kDocumented);
    return nullptr;
  }
  Info& entry = found->second;
  if (entry.owner_kind != owner_kind) {
    *status = refuse(invalid, "VIDPN-05",
                     fmt::format("The structure is an info of {}.", noun(entry.owner_kind)),
                     fmt::format("The structure is an info of {}.", noun(owner_kind)),
                     "Pass each structure to the interface that gave it.", Confidence::kDocumented);
    return nullptr;
  }
  if (entry.owner != owner) {
    *status =
        refuse(kResourcesNotRelated, "VIDPN-08",
               fmt::format("The structure came from another one: {}.", describe(manager, entry)),
               "A structure is used with the set or topology it came from.",
               "Keep the handle beside the pointer.", Confidence::kDocumented);
    return nullptr;
  }
  return &entry;
}

std::string Service::by_this_call(const char* how) const {
  return fmt::format("{} by {}", how, where.function);
}

void Service::end_info(const void* address, const char* how) {
  const auto found = manager.infos.find(address);
  if (found == manager.infos.end()) return;
  const Info& entry = found->second;
  if (!entry.created && std::memcmp(entry.memory.get(), entry.original.data(), entry.bytes) != 0) {
    findings.push_back(
        {.rule = "VIDPN-22",
         .severity = Severity::kViolation,
         .ddi = {},
         .actual = fmt::format("The driver wrote into {}.", describe(manager, entry)),
         .expected = "A structure that was acquired is read only.",
         .fix = "Copy the structure before changing it.",
         .windows = "The kernel's own copy changes.",
         .confidence = Confidence::kInferred});
  }
  manager.retire_info(address, by_this_call(how));
}

void Service::drop_infos(Kind owner_kind, uint32_t owner, const char* how) {
  std::vector<std::pair<uint64_t, const void*>> mine;
  for (const auto& [address, entry] : manager.infos) {
    if (entry.owner_kind == owner_kind && entry.owner == owner)
      mine.emplace_back(entry.number, address);
  }
  std::ranges::sort(mine);
  for (const auto& [number, address] : mine) {
    const Info& entry = manager.infos.at(address);
    findings.push_back(leak_finding("", describe(manager, entry), entry.given_by, how));
    manager.retire_info(address, by_this_call(how));
  }
}

verifier::Finding leak_finding(const char* ddi, std::string what, const char* given_by,
                               const char* how) {
  return {.rule = "VIDPN-07",
          .severity = Severity::kViolation,
          .ddi = ddi,
          .actual = fmt::format("{}, from {}, was still held when it was {}.", what, given_by, how),
          .expected = "What is acquired or created is released, added or assigned before that.",
          .fix = "Release it on every way out of the function, error paths included.",
          .windows = "The object leaks with every call; checked builds assert.",
          .confidence = Confidence::kDocumented};
}

std::string describe(const Manager::Impl& manager, const Info& info) {
  const char* made = info.created ? "a new" : "an acquired";
  switch (info.owner_kind) {
    case Kind::kSourceSet: {
      const auto set = manager.source_sets.find(info.owner);
      const std::string owner =
          set == manager.source_sets.end() ? "" : fmt::format(" of source {}", set->second.owner);
      return info.created
                 ? fmt::format("a new source mode info{}", owner)
                 : fmt::format("an acquired source mode info{} (mode {})", owner, info.mode_id);
    }
    case Kind::kTargetSet: {
      const auto set = manager.target_sets.find(info.owner);
      const std::string owner =
          set == manager.target_sets.end() ? "" : fmt::format(" of target {}", set->second.owner);
      return info.created
                 ? fmt::format("a new target mode info{}", owner)
                 : fmt::format("an acquired target mode info{} (mode {})", owner, info.mode_id);
    }
    case Kind::kTopology:
      return info.created
                 ? "a new path info"
                 : fmt::format("an acquired path info ({} -> {})", info.source, info.target);
    case Kind::kMonitorSet:
      return fmt::format("{} monitor mode info", made);
    case Kind::kRangeSet:
      return fmt::format("{} frequency range info", made);
    case Kind::kDescriptorSet:
      return fmt::format("{} monitor descriptor info", made);
    case Kind::kVidPn:
      break;
  }
  return "an info";
}

bool Service::must_fail() {
  CallState* const call = manager.current_call();
  if (call == nullptr || call->failing == 0) return false;
  const bool of_monitor = std::string_view(where.interface_name).starts_with("DXGK_MONITOR") ||
                          std::string_view(where.function) == "DxgkCbQueryMonitorInterface";
  if (of_monitor && call->ddi != Ddi::kRecommendMonitorModes) return false;
  if (++call->fallible_calls != call->failing) return false;
  call->failed = where.function;
  return true;
}

Status begin_service(Service& service) {
  const std::string_view function = service.where.function;
  // A mode set needs to know that its assignment failed, so assign_set asks itself.
  const bool asks_itself =
      function == "pfnAssignSourceModeSet" || function == "pfnAssignTargetModeSet";
  const bool fails = !asks_itself && !function.starts_with("pfnRelease") && service.must_fail();
  const Status status = fails ? Status::kNoMemory : Status::kSuccess;
  const nt::CallFrame* frame = nt::CallFrame::current_or_null();
  if (frame == nullptr || frame->irql() == nt::kPassiveLevel) return status;
  service.findings.push_back(
      {.rule = "VIDPN-23",
       .severity = Severity::kViolation,
       .ddi = {},
       .actual = fmt::format("The function is called at {}.", nt::irql_name(frame->irql())),
       .expected = "It runs at PASSIVE_LEVEL.",
       .fix = "Call it from the DDI itself, holding no spin lock.",
       .windows = "The function is pageable: bug check 0xA or 0xD1.",
       .confidence = Confidence::kDocumented});
  return status;
}

const char* current_ddi(const Manager::Impl& manager) {
  if (const nt::CallFrame* frame = nt::CallFrame::current_or_null()) return frame->name();
  return manager.calls.empty() ? "" : to_string(manager.calls.back()->ddi);
}

bool end_service(Manager::Impl& manager, const Where& where,
                 std::vector<verifier::Finding> findings) {
  if (findings.empty()) return false;
  const std::string inside = current_ddi(manager);
  const nt::CallFrame* frame = nt::CallFrame::current_or_null();
  bool fatal = false;
  for (verifier::Finding& finding : findings) {
    finding.ddi = fmt::format("{}.{}", where.interface_name, where.function);
    if (!inside.empty()) finding.actual += fmt::format(" (inside {})", inside);
    if (frame != nullptr) finding.place = frame->kernel().place_of(frame->caller());
    if (finding.severity == Severity::kBugCheck && manager.config.kernel != nullptr &&
        frame != nullptr) {
      runtime::MutexLock lock(manager.lock);
      manager.fatal = std::make_unique<verifier::Finding>(std::move(finding));
      fatal = true;
    } else {
      manager.config.findings->report(std::move(finding));
    }
  }
  return fatal;
}

void Manager::Impl::retire_handle(uint32_t serial, std::string how) {
  retired_handles[serial] = std::move(how);
  if (retired_handles.size() > kRetiredMax) retired_handles.erase(retired_handles.begin());
}

void Manager::Impl::retire_info(const void* address, std::string how) {
  auto node = infos.extract(address);
  if (node.empty()) return;
  Info& info = node.mapped();
  // Reads after this show the pattern; the address is not given out again for a while.
  std::memset(info.memory.get(), 0xDD, info.bytes);
  retired_infos[address] = {std::move(how), std::move(info.memory)};
  retired_order.push_back(address);
  if (retired_order.size() > kRetiredMax) {
    retired_infos.erase(retired_order.front());
    retired_order.erase(retired_order.begin());
  }
}

}  // namespace dxgkit::vidpn
