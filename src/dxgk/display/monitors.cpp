#include "dxgk/display/monitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "dxgk/display/display_level_two.h"

namespace dxgkit::dxgk {

Monitors::Monitors(DisplayCore& display, std::vector<port::ChildInfo> children)
    : display_(display), core_(display.core()), children_(std::move(children)) {}

Monitors::~Monitors() = default;

Status Monitors::refuse(std::string actual, std::string expected, std::string fix) {
  core_.findings().report(verifier::Finding{.rule = "CAPS-07",
                                            .severity = verifier::Severity::kStartFail,
                                            .ddi = "DxgkDdiQueryChildRelations",
                                            .actual = std::move(actual),
                                            .expected = std::move(expected),
                                            .fix = std::move(fix)});
  return Status::kDeviceConfigurationError;
}

Status Monitors::describe() {
  const uint32_t sources = display_.source_count();
  vidpn::Profile profile;
  profile.kind =
      display_.display_only() ? vidpn::DriverKind::kDisplayOnly : vidpn::DriverKind::kFull;
  profile.interface_version = core_.interface_version();
  profile.source_count = sources;
  profile.vsync_control = core_.port().has_entry("DxgkDdiControlInterrupt") &&
                          core_.port().has_entry("DxgkDdiGetScanLine");
  std::set<uint32_t> seen;
  for (const port::ChildInfo& child : children_) {
    if (!seen.insert(child.uid).second) {
      return refuse(fmt::format("Two children have ChildUid {}.", child.uid),
                    "Each child has a ChildUid of its own.",
                    "Number the children; the ChildUid of a video output is its VidPN target id.");
    }
    if (child.kind != port::ChildInfo::Kind::kOther) profile.targets.push_back(child.uid);
  }
  if (profile.targets.size() < sources) {
    return refuse(
        fmt::format("{} of {} children are video outputs; NumberOfVideoPresentSources is {}.",
                    profile.targets.size(), children_.size(), sources),
        "There are at least as many video outputs as video present sources.",
        "Describe each connector with ChildDeviceType TypeVideoOutput and count it in "
        "NumberOfChildren, or report fewer sources.");
  }
  vidpn::ManagerConfig config;
  config.profile = std::move(profile);
  config.findings = &core_.findings();
  config.kernel = &core_.kernel();
  config.adapter_handle = core_.port().device_handle();
  manager_ = std::make_unique<vidpn::Manager>(std::move(config));
  return Status::kSuccess;
}

bool Monitors::has_target(uint32_t target) const {
  return std::ranges::any_of(children_, [&](const port::ChildInfo& child) {
    return child.uid == target && child.kind != port::ChildInfo::Kind::kOther;
  });
}

void Monitors::report_leaks() {
  if (manager_ != nullptr) manager_->report_leaks();
}

Status Monitors::attach(uint32_t target, const char** step) {
  const auto child = std::ranges::find(children_, target, &port::ChildInfo::uid);
  bool connected = true;
  if (child->awareness == port::ChildInfo::Awareness::kInterruptible ||
      child->awareness == port::ChildInfo::Awareness::kPolled) {
    *step = "DxgkDdiQueryChildStatus";
    const Result<bool> status = core_.port().children().query_child_status(target, true);
    // If the driver cannot tell, the output counts as unplugged. It may indicate a monitor later.
    if (!status.has_value()) return display_.failed_call(*step, status.error());
    connected = *status;
  }
  connected_[target] = connected;
  return connected ? read(target, step) : Status::kSuccess;
}

Status Monitors::read(uint32_t target, const char** step) {
  *step = "DxgkDdiQueryDeviceDescriptor";
  const Result<std::vector<std::byte>> edid =
      core_.port().children().query_device_descriptor(target);
  if (!edid.has_value() && edid.error() == Status::kDeviceRemoved) return edid.error();
  // Without a descriptor that can be read, the monitor gets the default modes, as on Windows.
  vidpn::Monitor monitor = vidpn::default_monitor();
  has_descriptor_[target] = false;
  if (edid.has_value()) {
    Result<vidpn::Monitor> described = vidpn::monitor_from_edid(*edid);
    if (described.has_value()) {
      monitor = std::move(*described);
      has_descriptor_[target] = true;
    } else {
      report_bad_descriptor(target, *edid);
    }
  }
  manager_->connect_monitor(target, std::move(monitor));
  if (has_descriptor_[target]) ask_container(target, *edid);
  if (core_.port().has_entry("DxgkDdiRecommendMonitorModes")) {
    *step = "DxgkDdiRecommendMonitorModes";
    vidpn::DdiCall call(*manager_, vidpn::Ddi::kRecommendMonitorModes, target);
    const Status status = level_two(display_.floor(), [&] {
      return core_.port().vidpn().recommend_monitor_modes(target, call.monitor_mode_set(),
                                                          call.monitor_mode_set_interface());
    });
    call.finish(status, core_.kernel().driver_is_dead());
    if (!is_success(status)) return display_.failed_call(*step, status);
  }
  *step = "DxgkDdiUpdateMonitorLinkInfo";
  const auto link = core_.port().targets().update_monitor_link_info(target);
  if (link.has_value() || link.error() == Status::kNotSupported) return Status::kSuccess;
  return display_.failed_call(*step, link.error());
}

void Monitors::ask_container(uint32_t target, std::span<const std::byte> edid) {
  if (!core_.port().has_entry("DxgkDdiGetChildContainerId")) return;
  port::ContainerSource source{.port = target};
  std::memcpy(&source.manufacturer, edid.data() + 8, sizeof source.manufacturer);
  std::memcpy(&source.product, edid.data() + 10, sizeof source.product);
  // The default: what it is made of, so that the same monitor has the same one again.
  port::ContainerId id{};
  std::memcpy(id.data(), &source.port, sizeof source.port);
  std::memcpy(id.data() + 8, &source.manufacturer, sizeof source.manufacturer);
  std::memcpy(id.data() + 10, &source.product, sizeof source.product);
  static_cast<void>(core_.port().children().get_container_id(target, source, &id));
  containers_[target] = id;
}

void Monitors::report_bad_descriptor(uint32_t target, std::span<const std::byte> bytes) {
  std::string why;
  static_cast<void>(vidpn::parse_edid(bytes, &why));
  core_.findings().report(verifier::Finding{
      .rule = "CAPS-08",
      .severity = verifier::Severity::kWarning,
      .ddi = "DxgkDdiQueryDeviceDescriptor",
      .actual = fmt::format("The descriptor of child {} is no EDID: {}", target, why),
      .expected = "A monitor descriptor is an EDID, block by block of 128 bytes.",
      .fix =
          "Return STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED or STATUS_MONITOR_NO_DESCRIPTOR "
          "when there is none.",
      .windows = "The monitor gets the default modes."});
}

bool Monitors::change(uint32_t uid, bool connected) {
  const auto known = std::ranges::find(children_, uid, &port::ChildInfo::uid);
  if (known == children_.end() || known->kind == port::ChildInfo::Kind::kOther) {
    core_.findings().report(verifier::Finding{
        .rule = "CAPS-09",
        .severity = verifier::Severity::kViolation,
        .ddi = "DxgkCbIndicateChildStatus",
        .actual = fmt::format("ChildUid is {}, which is no video output of this adapter.", uid),
        .expected = "ChildUid names a video output that DxgkDdiQueryChildRelations described.",
        .fix = "Pass the ChildUid given in the child descriptor."});
    return false;
  }
  if (connected_[uid] == connected) return false;
  connected_[uid] = connected;
  if (connected) {
    const char* step = "";
    return is_success(read(uid, &step));
  }
  has_descriptor_[uid] = false;
  containers_.erase(uid);
  manager_->disconnect_monitor(uid);
  return true;
}

bool Monitors::connected(uint32_t target) const {
  const auto found = connected_.find(target);
  return found != connected_.end() && found->second;
}

std::vector<DisplayTarget> Monitors::targets() const {
  std::vector<DisplayTarget> targets;
  for (const uint32_t target : manager_->profile().targets) {
    const auto found = has_descriptor_.find(target);
    targets.push_back({.id = target,
                       .connected = connected(target),
                       .has_descriptor = found != has_descriptor_.end() && found->second});
    if (const auto id = containers_.find(target); id != containers_.end())
      targets.back().container = id->second;
  }
  return targets;
}

bool Monitors::take_changes() {
  constexpr uint32_t kChangesMost = 256;  // our choice: more than a driver has outputs for
  constexpr const char* kName = "DxgkDdiQueryConnectionChange";
  const auto report = [&](std::string actual, std::string expected, std::string fix) {
    core_.findings().report(verifier::Finding{.rule = "DISP-38",
                                              .severity = verifier::Severity::kViolation,
                                              .ddi = kName,
                                              .actual = std::move(actual),
                                              .expected = std::move(expected),
                                              .fix = std::move(fix)});
  };
  bool changed = false;
  for (uint32_t i = 0; i < kChangesMost; ++i) {
    const auto next = core_.port().targets().next_connection_change();
    if (!next.has_value()) {
      if (next.error() != Status::kNotSupported)
        static_cast<void>(display_.failed_call(kName, next.error()));
      return changed;
    }
    if (!next->has_value()) return changed;
    const port::ConnectionChange& told = **next;
    if (told.id <= last_change_) {
      report(fmt::format("ConnectionChangeId is {} after {}.", told.id, last_change_),
             "Each change of the adapter has a higher number than the one before.",
             "Count the changes, and hand out the oldest first.");
    }
    last_change_ = std::max(last_change_, told.id);
    if (!has_target(told.target)) {
      report(fmt::format("TargetId is {}.", told.target),
             "TargetId is the ChildUid of a video output of this adapter.",
             "Report the ChildUid given to DxgkDdiQueryChildRelations.");
      continue;
    }
    using Kind = port::ConnectionChange::Kind;
    if (told.kind == Kind::kOther) continue;
    if (change(told.target, told.kind == Kind::kMonitorConnected)) changed = true;
  }
  report(fmt::format("It went on after change number {}.", kChangesMost),
         "STATUS_ALREADY_COMPLETE when all changes have been told.",
         "Forget a change once it has been handed out.");
  return changed;
}

}  // namespace dxgkit::dxgk
