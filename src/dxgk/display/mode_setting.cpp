#include "dxgk/display/mode_setting.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/interface_versions.h"
#include "dxgk/display/display_level_two.h"

namespace dxgkit::dxgk {
namespace {

/// The answer to RecommendFunctionalVidPn of a driver that recommends nothing.
bool has_no_opinion(Status status) {
  return status == Status::kNotSupported || status == Status::kNotImplemented ||
         status == vidpn::kNoRecommendedFunctionalVidPn;
}

template <typename Modes, typename Wanted>
const auto* find_mode(const Modes& modes, const Wanted& wanted) {
  const auto found = std::ranges::find_if(modes, wanted);
  return found == modes.end() ? nullptr : &*found;
}

std::vector<DisplayMode> sizes_of(const vidpn::Network& network, uint32_t source) {
  std::vector<DisplayMode> sizes;
  const auto set = network.source_sets.find(source);
  if (set == network.source_sets.end()) return sizes;
  for (const vidpn::SourceMode& mode : set->second.modes) {
    const DisplayMode size{mode.surface.width, mode.surface.height};
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

DisplayMode lit_mode(const vidpn::Signal& signal) {
  const vidpn::Size lit = vidpn::lit_size(signal);
  return {lit.width, lit.height};
}

std::vector<DisplayTiming> timings_of(const vidpn::Network& network, uint32_t target) {
  std::vector<DisplayTiming> timings;
  const auto set = network.target_sets.find(target);
  if (set == network.target_sets.end()) return timings;
  for (const vidpn::TargetMode& mode : set->second.modes) {
    if (!mode.signal.vsync.specified()) continue;
    const DisplayTiming timing{.size = lit_mode(mode.signal),
                               .refresh_numerator = mode.signal.vsync.numerator,
                               .refresh_denominator = mode.signal.vsync.denominator,
                               .scanline_ordering = mode.signal.scanline_ordering};
    if (std::ranges::find(timings, timing) == timings.end()) timings.push_back(timing);
  }
  return timings;
}

/// Whether a commit of `after` changes what `source` shows in `before`.
bool differs(const vidpn::Network& before, const vidpn::Network& after, uint32_t source) {
  const auto paths_of = [&](const vidpn::Network& network) {
    std::vector<vidpn::Path> paths;
    for (const vidpn::Path& path : network.paths) {
      if (path.source == source) paths.push_back(path);
    }
    return paths;
  };
  const std::vector<vidpn::Path> old_paths = paths_of(before), new_paths = paths_of(after);
  if (old_paths.size() != new_paths.size()) return true;
  if (new_paths.empty()) return false;
  for (size_t i = 0; i < new_paths.size(); ++i) {
    if (!(old_paths[i] == new_paths[i])) return true;
    const vidpn::TargetMode* old_mode = before.pinned_target_mode(new_paths[i].target);
    const vidpn::TargetMode* new_mode = after.pinned_target_mode(new_paths[i].target);
    DXGKIT_CHECK(old_mode != nullptr &&
                 new_mode != nullptr);  // only functional VidPNs are committed
    if (!(old_mode->signal == new_mode->signal)) return true;
  }
  const vidpn::SourceMode* old_mode = before.pinned_source_mode(source);
  const vidpn::SourceMode* new_mode = after.pinned_source_mode(source);
  DXGKIT_CHECK(old_mode != nullptr && new_mode != nullptr);
  return !(old_mode->surface == new_mode->surface) ||
         old_mode->pixel_format != new_mode->pixel_format ||
         old_mode->stride_bytes != new_mode->stride_bytes;
}

/// The target mode for a source mode of this size: one of the same size as the rotated surface,
/// else any, which is scaled. Null: none has the order of scan lines.
const vidpn::TargetMode* signal_for(const std::vector<vidpn::TargetMode>& signals,
                                    const DisplayMode& size, const ModeWish& wish) {
  const bool turned = wish.rotation % 2 == 0 && wish.rotation != 0;  // by 90 or 270 degrees
  const DisplayMode lit = turned ? DisplayMode{size.height, size.width} : size;
  const auto is_ordered = [&](const vidpn::TargetMode& one) {
    return wish.scanline_ordering == 0 || one.signal.scanline_ordering == wish.scanline_ordering;
  };
  const auto* const same = find_mode(signals, [&](const vidpn::TargetMode& one) {
    return is_ordered(one) && lit_mode(one.signal) == lit;
  });
  return same != nullptr ? same : find_mode(signals, is_ordered);
}

size_t pinned_count(const vidpn::Network& network) {
  size_t count = 0;
  for (const auto& [id, set] : network.source_sets) count += set.pinned.has_value() ? 1 : 0;
  for (const auto& [id, set] : network.target_sets) count += set.pinned.has_value() ? 1 : 0;
  return count;
}

}  // namespace

ModeSetting::ModeSetting(DisplayCore& display, const Parts& parts)
    : display_(display),
      core_(display.core()),
      monitors_(parts.monitors),
      active_(parts.active),
      presents_(parts.presents),
      worker_(parts.worker),
      primaries_(parts.primaries),
      flips_(parts.flips),
      overlays_(parts.overlays) {}

void ModeSetting::describe() {
  for (uint32_t id = 0; id < display_.source_count(); ++id) offered_[id];
}

Result<vidpn::Network> ModeSetting::enumerate(vidpn::Network network, vidpn::Pivot pivot,
                                              const char** step) {
  *step = "DxgkDdiEnumVidPnCofuncModality";
  port::EnumPivot kind = port::EnumPivot::kNone;
  if (pivot.kind == vidpn::Pivot::Kind::kSource) kind = port::EnumPivot::kSource;
  if (pivot.kind == vidpn::Pivot::Kind::kTarget) kind = port::EnumPivot::kTarget;
  const size_t told = core_.findings().total();
  vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kEnumVidPnCofuncModality, std::move(network),
                      pivot);
  const Status status =
      core_.port().vidpn().enum_cofunc_modality(call.vidpn(), kind, pivot.source, pivot.target);
  vidpn::Network result = call.finish(status, core_.kernel().driver_is_dead());
  if (!is_success(status)) {
    // One of the driver's own calls was refused, with a finding: that is why it failed.
    return Error(core_.findings().total() != told ? status : display_.failed_call(*step, status));
  }
  return result;
}

Status ModeSetting::ask_supported(const vidpn::Network& network, const char** step) {
  *step = "DxgkDdiIsSupportedVidPn";
  const size_t told = core_.findings().total();
  vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kIsSupportedVidPn, network);
  const Result<bool> supported = core_.port().vidpn().is_supported_vidpn(call.vidpn());
  call.finish(supported.has_value() ? Status::kSuccess : supported.error(),
              core_.kernel().driver_is_dead());
  if (!supported.has_value()) {
    return core_.findings().total() != told ? supported.error()
                                            : display_.failed_call(*step, supported.error());
  }
  if (*supported) return Status::kSuccess;
  core_.findings().report(verifier::Finding{
      .rule = "DOD-03",
      .severity = verifier::Severity::kViolation,
      .ddi = *step,
      .actual = fmt::format("IsVidPnSupported is FALSE for a VidPN with {} path{} and {} pinned "
                            "mode{}.",
                            network.paths.size(), network.paths.size() == 1 ? "" : "s",
                            pinned_count(network), pinned_count(network) == 1 ? "" : "s"),
      .expected = "One source on one connected output is supported, and so is every mode that "
                  "DxgkDdiEnumVidPnCofuncModality offered.",
      .fix =
          "Check which path, mode or transformation the driver objects to; a VidPN may lack mode "
          "sets and pinned modes when this is asked.",
      .windows = "No VidPN is committed: the display stays black, the adapter runs.",
      .confidence = verifier::Confidence::kInferred});
  return vidpn::kVidPnTopologyNotSupported;
}

Result<vidpn::Network> ModeSetting::recommended(const std::vector<vidpn::SourceTarget>& paths,
                                                std::span<const std::byte> wish,
                                                const char** step) {
  *step = "DxgkDdiRecommendFunctionalVidPn";
  if (!core_.port().has_entry(*step)) return Error(vidpn::kNoRecommendedFunctionalVidPn);
  std::vector<uint32_t> targets;
  for (const vidpn::SourceTarget& path : paths) targets.push_back(path.target);
  const size_t told = core_.findings().total();
  vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kRecommendFunctionalVidPn, vidpn::Network{});
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().vidpn().recommend_functional_vidpn(call.vidpn(), targets, wish);
  });
  vidpn::Network network = call.finish(status, core_.kernel().driver_is_dead());
  if (is_success(status)) {
    // finish() has reported what is wrong. The kernel chooses a VidPN itself then.
    if (core_.findings().total() != told) return Error(vidpn::kInvalidVidPn);
    vidpn::pin_transformations(network);
    return network;
  }
  if (has_no_opinion(status)) return Error(status);
  return Error(display_.failed_call("DxgkDdiRecommendFunctionalVidPn", status));
}

std::optional<DisplayMode> ModeSetting::favourite(const std::vector<DisplayMode>& offered,
                                                  uint32_t source, uint32_t target) const {
  const auto has = [&](const DisplayMode& mode) {
    return std::ranges::find(offered, mode) != offered.end();
  };
  // The mode that firmware has set needs no change.
  if (const auto post = core_.function().post_display(); post.has_value() && source == 0) {
    if (has({post->width, post->height})) return DisplayMode{post->width, post->height};
  }
  if (const vidpn::Monitor* monitor = monitors_.manager().monitor(target); monitor != nullptr) {
    for (const vidpn::MonitorMode& mode : monitor->modes) {
      const DisplayMode size = lit_mode(mode.signal);
      if (has(size)) return size;
    }
  }
  if (offered.empty()) return std::nullopt;
  return offered.front();
}

Result<vidpn::Network> ModeSetting::build(const std::vector<vidpn::SourceTarget>& paths,
                                          const std::map<uint32_t, ModeWish>& wanted,
                                          const char** step) {
  vidpn::Network network = vidpn::constraining_network(monitors_.manager().profile(), paths);
  DXGKIT_RETURN_ERROR_IF_FAILED(ask_supported(network, step));
  Result<vidpn::Network> enumerated = enumerate(std::move(network), {}, step);
  if (!enumerated.has_value()) return enumerated;
  enumerated = rotate(std::move(*enumerated), wanted, step);
  if (!enumerated.has_value()) return enumerated;
  network = std::move(*enumerated);
  for (const vidpn::SourceTarget& path : paths) {
    offered_[path.source] = sizes_of(network, path.source);
    timings_[path.source] = timings_of(network, path.target);
  }
  for (const vidpn::SourceTarget& path : paths) {
    const std::vector<DisplayMode> offered = sizes_of(network, path.source);
    std::optional<DisplayMode> mode = favourite(offered, path.source, path.target);
    ModeWish wish;
    if (const auto asked = wanted.find(path.source); asked != wanted.end()) {
      wish = asked->second;
      mode = wish.size;
      // The client asked for a mode that is not offered. The driver did nothing wrong.
      if (std::ranges::find(offered, *mode) == offered.end())
        return Error(vidpn::kInvalidSourceMode);
    }
    if (!mode.has_value())
      return Error(vidpn::kInvalidSourceModeSet);  // VIDPN-19 has been reported
    const auto* source_mode =
        find_mode(network.source_sets[path.source].modes, [&](const vidpn::SourceMode& one) {
          return DisplayMode{one.surface.width, one.surface.height} == *mode &&
                 (wish.pixel_format == 0 || same_pixels(wish.pixel_format, one.pixel_format));
        });
    if (source_mode == nullptr) return Error(vidpn::kInvalidSourceMode);
    DXGKIT_RETURN_ERROR_IF_FAILED(vidpn::pin_source_mode(network, path.source, source_mode->id));
    enumerated = enumerate(std::move(network),
                           {vidpn::Pivot::Kind::kSource, path.source, vidpn::kNoId}, step);
    if (!enumerated.has_value()) return enumerated;
    network = std::move(*enumerated);

    const std::vector<vidpn::TargetMode>& signals = network.target_sets[path.target].modes;
    if (signals.empty()) return Error(vidpn::kInvalidTargetModeSet);  // VIDPN-19 has been reported
    const vidpn::TargetMode* const target_mode = signal_for(signals, *mode, wish);
    if (target_mode == nullptr) return Error(vidpn::kInvalidTargetMode);
    DXGKIT_RETURN_ERROR_IF_FAILED(vidpn::pin_target_mode(network, path.target, target_mode->id));
    enumerated = enumerate(std::move(network),
                           {vidpn::Pivot::Kind::kTarget, vidpn::kNoId, path.target}, step);
    if (!enumerated.has_value()) return enumerated;
    network = std::move(*enumerated);
  }
  vidpn::pin_transformations(network);
  DXGKIT_RETURN_ERROR_IF_FAILED(ask_supported(network, step));
  return network;
}

Result<vidpn::Network> ModeSetting::rotate(vidpn::Network network,
                                           const std::map<uint32_t, ModeWish>& wanted,
                                           const char** step) {
  const bool has_offsets = monitors_.manager().profile().path_independent_rotation();
  bool rotated = false;
  for (vidpn::Path& path : network.paths) {
    const auto wish = wanted.find(path.source);
    if (wish == wanted.end() || wish->second.rotation <= 1) continue;
    const uint32_t needed = 1U << (wish->second.rotation - 1);
    const uint32_t all = needed | (has_offsets ? vidpn::kRotationOffset0 : 0);
    if ((path.rotation_support & all) != all) return Error(vidpn::kInvalidTransformation);
    path.rotation = wish->second.rotation;
    rotated = true;
  }
  if (!rotated) return network;
  return enumerate(std::move(network), {}, step);
}

std::vector<vidpn::SourceTarget> ModeSetting::choose_paths() {
  std::vector<uint32_t> free_targets;
  for (const uint32_t target : monitors_.manager().profile().targets) {
    if (monitors_.connected(target)) free_targets.push_back(target);
  }
  std::map<uint32_t, uint32_t> chosen;  // by source
  for (const vidpn::Path& path :
       active_.network().paths) {  // a source that is shown keeps its target
    if (std::erase(free_targets, path.target) == 0) continue;
    chosen.emplace(path.source, path.target);
  }
  for (uint32_t source = 0; source < display_.source_count() && !free_targets.empty(); ++source) {
    if (chosen.contains(source)) continue;
    chosen[source] = free_targets.front();
    free_targets.erase(free_targets.begin());
  }
  std::vector<vidpn::SourceTarget> paths;
  for (const auto& [source, target] : chosen) paths.push_back({source, target});
  return paths;
}

Status ModeSetting::commit_recommended(const vidpn::Network& proposal, const char** step) {
  for (const vidpn::Path& path : proposal.paths) {
    offered_[path.source] = sizes_of(proposal, path.source);
    timings_[path.source] = timings_of(proposal, path.target);
  }
  DXGKIT_RETURN_IF_FAILED(ask_supported(proposal, step));
  return commit(proposal, step);
}

Status ModeSetting::take_recommendation(std::span<const std::byte> wish, const char** step) {
  const std::vector<vidpn::SourceTarget> paths = choose_paths();
  if (paths.empty()) return vidpn::kNoRecommendedFunctionalVidPn;
  const Result<vidpn::Network> proposal = recommended(paths, wish, step);
  if (!proposal.has_value()) return proposal.error();
  DXGKIT_RETURN_IF_FAILED(commit_recommended(*proposal, step));
  wanted_.clear();
  return Status::kSuccess;
}

Status ModeSetting::commit_for_connected(const std::map<uint32_t, ModeWish>& wanted,
                                         const char** step) {
  const std::vector<vidpn::SourceTarget> paths = choose_paths();
  if (paths.empty()) {
    return active_.network().paths.empty() ? Status::kSuccess : commit(vidpn::Network{}, step);
  }
  if (wanted.empty() && active_.network().paths.empty()) {
    const Result<vidpn::Network> proposal = recommended(paths, {}, step);
    if (proposal.has_value()) return commit_recommended(*proposal, step);
    if (proposal.error() == Status::kDeviceRemoved) return proposal.error();
  }
  const Result<vidpn::Network> network = build(paths, wanted, step);
  if (!network.has_value()) return network.error();
  if (!vidpn::check_functional(*network, monitors_.manager().profile(), core_.findings(),
                               "DxgkDdiEnumVidPnCofuncModality")) {
    return vidpn::kInvalidVidPn;
  }
  return commit(*network, step);
}

Status ModeSetting::make_visible(uint32_t source, bool visible, const char** step) {
  *step = "DxgkDdiSetVidPnSourceVisibility";
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().vidpn().set_source_visibility(source, visible);
  });
  if (!is_success(status)) return display_.failed_call(*step, status);
  active_.set_visible(source, visible);
  return Status::kSuccess;
}

void* ModeSetting::primary_of(uint32_t source) {
  return primaries_ == nullptr ? nullptr : primaries_->driver_handle(source);
}

Status ModeSetting::commit_one(const vidpn::Network& network, uint32_t source, const char** step) {
  void* const primary = primary_of(source);
  *step = "DxgkDdiCommitVidPn";
  const size_t told = core_.findings().total();
  vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kCommitVidPn, network);
  const Status status = level_two(display_.floor(), [&] {
    return core_.port().vidpn().commit_vidpn(call.vidpn(), source, primary);
  });
  call.finish(status, core_.kernel().driver_is_dead());
  if (is_success(status)) return Status::kSuccess;
  return core_.findings().total() != told ? status : display_.failed_call(*step, status);
}

bool ModeSetting::sets_timings() const {
  return core_.interface_version() >= kInterfaceWddm22 && !core_.display_only() &&
         core_.port().has_entry("DxgkDdiSetTimingsFromVidPn");
}

Status ModeSetting::set_timings(vidpn::DdiCall& call, const vidpn::Network& before,
                                const vidpn::Network& after,
                                const std::vector<uint32_t>& affected) {
  using Update = port::TimingPath::Update;
  std::vector<port::TimingPath> paths;
  std::vector<uint32_t> sources;  // of `paths`
  for (const vidpn::Path& path : after.paths) {
    const bool known = std::ranges::any_of(before.paths, [&](const vidpn::Path& old) {
      return old.source == path.source && old.target == path.target;
    });
    const bool changed = std::ranges::find(affected, path.source) != affected.end();
    paths.push_back({.target = path.target,
                     .update = !known    ? Update::kAdded
                               : changed ? Update::kModified
                                         : Update::kUnmodified});
    sources.push_back(path.source);
  }
  for (const vidpn::Path& path : before.paths) {
    if (std::ranges::find(paths, path.target, &port::TimingPath::target) != paths.end()) continue;
    paths.push_back({.target = path.target, .update = Update::kRemoved, .active = false});
  }
  bool connection_changes = false;
  Status status = level_two(display_.floor(), [&] {
    return core_.port().targets().set_timings(call.vidpn(), paths, &connection_changes);
  });
  if (connection_changes) worker_.add_hot_plug(DisplayWorker::kConnectors, true);
  if (!is_success(status)) return status;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (paths[i].failed) status = vidpn::kVidPnTopologyNotSupported;
    if (!paths[i].recheck_planes || flips_->overlays() == nullptr) continue;
    core_.lane().run(
        [&]() DXGKIT_REQUIRES(on_lane) { flips_->overlays()->set_disabled(sources[i], true); });
  }
  return status;
}

Status ModeSetting::commit_with_failure(uint32_t source, uint32_t nth, const char** failed) {
  if (!active_.visible(source)) return Status::kInvalidParameter;
  const char* step = "";
  DXGKIT_RETURN_IF_FAILED(make_visible(source, false, &step));
  const bool timings = sets_timings();
  vidpn::DdiCall call(monitors_.manager(),
                      timings ? vidpn::Ddi::kSetTimingsFromVidPn : vidpn::Ddi::kCommitVidPn,
                      active_.network());
  call.fail_function(nth);
  void* const primary = primary_of(source);
  const Status status =
      timings ? set_timings(call, active_.network(), active_.network(), {source})
              : level_two(display_.floor(), [&] {
                  return core_.port().vidpn().commit_vidpn(call.vidpn(), source, primary);
                });
  call.finish(status, core_.kernel().driver_is_dead());
  *failed = call.failed_function();
  // Failures on the way back are reported where they happen.
  if (primaries_ != nullptr && primaries_->has(source))
    static_cast<void>(primaries_->show_again(source, &step));
  static_cast<void>(make_visible(source, true, &step));
  return status;
}

Status ModeSetting::commit(const vidpn::Network& network, const char** step, bool again) {
  std::vector<uint32_t> affected;
  std::map<uint32_t, bool> was_visible;
  for (const auto& [id, modes] : offered_) {
    if (!(again ? network.has_source(id) : differs(active_.network(), network, id))) continue;
    affected.push_back(id);
    was_visible[id] = active_.visible(id);
  }
  for (const vidpn::Path& path : network.paths) {
    if (!was_visible.contains(path.source)) continue;
    if (!core_.port().has_entry("DxgkDdiQueryVidPnHWCapability")) break;
    *step = "DxgkDdiQueryVidPnHWCapability";
    vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kQueryVidPnHwCapability, network);
    const Result<uint32_t> caps =
        core_.port().vidpn().query_vidpn_hw_capability(call.vidpn(), path.source, path.target);
    call.finish(caps.has_value() ? Status::kSuccess : caps.error(),
                core_.kernel().driver_is_dead());
    if (!caps.has_value()) return display_.failed_call(*step, caps.error());
  }
  // Surfaces and primaries are made first: if that fails, nothing has been committed.
  Status status = Status::kSuccess;
  size_t committed = 0;
  for (const uint32_t source : affected) {
    const vidpn::SourceMode* mode =
        network.has_source(source) ? network.pinned_source_mode(source) : nullptr;
    if (mode == nullptr || !is_success(status)) continue;
    status = primaries_ == nullptr
                 ? presents_.prepare(source, {mode->surface.width, mode->surface.height})
                 : primaries_->make(source, *mode, step);
  }
  for (const uint32_t source : affected) {
    if (is_success(status) && overlays_ != nullptr) overlays_->turn_off(source);  // OPT-03
    if (is_success(status) && active_.visible(source)) status = make_visible(source, false, step);
  }
  if (is_success(status) && sets_timings() && !affected.empty()) {
    *step = "DxgkDdiSetTimingsFromVidPn";
    const size_t told = core_.findings().total();
    vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kSetTimingsFromVidPn, network);
    status = set_timings(call, active_.network(), network, affected);
    call.finish(status, core_.kernel().driver_is_dead());
    committed = affected.size();  // also a part of it is set back
    // A path that could not be set is no mistake of the driver.
    if (!is_success(status) && status != vidpn::kVidPnTopologyNotSupported &&
        core_.findings().total() == told)
      status = display_.failed_call(*step, status);
  }
  while (is_success(status) && committed < affected.size()) {
    const uint32_t source = affected[committed];
    status = commit_one(network, source, step);
    if (is_success(status)) ++committed;
  }
  if (!is_success(status)) {
    restore(network, affected, committed, was_visible);
    return status;
  }
  active_.commit(network);
  for (const uint32_t source : affected) {
    gamma_.erase(source);  // the ramp belonged to the mode
    if (!active_.network().has_source(source)) {
      presents_.release(source);
      if (primaries_ != nullptr) {
        core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { flips_->hide(source); });
        primaries_->drop(source);
      }
      continue;
    }
    if (primaries_ != nullptr) DXGKIT_RETURN_IF_FAILED(primaries_->show_next(source, step));
    DXGKIT_RETURN_IF_FAILED(make_visible(source, true, step));
  }
  return Status::kSuccess;
}

void ModeSetting::restore(const vidpn::Network& failed, const std::vector<uint32_t>& affected,
                          size_t committed, const std::map<uint32_t, bool>& was_visible) {
  // The failure has been reported. Failures on the way back are not.
  const bool timings = sets_timings();
  Status again = Status::kSuccess;
  if (timings && committed != 0 && core_.running_or_starting()) {
    vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kSetTimingsFromVidPn, active_.network());
    again = set_timings(call, failed, active_.network(), affected);
    call.finish(again, core_.kernel().driver_is_dead());
    if (again == vidpn::kVidPnTopologyNotSupported) again = Status::kSuccess;
  }
  for (size_t i = 0; i < affected.size(); ++i) {
    const uint32_t source = affected[i];
    if (primaries_ != nullptr) {
      primaries_->drop_next(source);
    } else {
      const std::optional<DisplayMode> mode = active_.mode_of(source);
      if (!mode.has_value() || !is_success(presents_.prepare(source, *mode)))
        presents_.release(source);
    }
    if (!core_.running_or_starting()) continue;
    Status status = again;
    if (i < committed && !timings) {
      vidpn::DdiCall call(monitors_.manager(), vidpn::Ddi::kCommitVidPn, active_.network());
      void* const primary = primary_of(source);
      status = level_two(display_.floor(), [&] {
        return core_.port().vidpn().commit_vidpn(call.vidpn(), source, primary);
      });
      call.finish(status, core_.kernel().driver_is_dead());
    }
    if (is_success(status) && was_visible.at(source) && !active_.visible(source)) {
      status = level_two(display_.floor(),
                         [&] { return core_.port().vidpn().set_source_visibility(source, true); });
      active_.set_visible(source, is_success(status));
    }
  }
}

Status ModeSetting::follow_monitors(const char** step) {
  return commit_for_connected(wanted_, step);
}

Status ModeSetting::recommit(const char** step) {
  if (active_.network().paths.empty()) return follow_monitors(step);
  return commit(vidpn::Network(active_.network()), step, /*again=*/true);
}

Status ModeSetting::set(uint32_t source, const ModeWish& wish) {
  if (!core_.running()) return Status::kDeviceRemoved;
  if (display_.power() != port::PowerState::kD0) return Status::kInvalidParameter;
  if (!active_.network().has_source(source)) return Status::kInvalidParameter;
  if (active_.shows(source, wish)) return Status::kSuccess;
  std::map<uint32_t, ModeWish> wanted = wanted_;
  // The other sources keep their modes, whatever the driver offers now.
  for (const auto& [id, modes] : offered_) {
    if (const std::optional<DisplayMode> shown = active_.mode_of(id); shown.has_value())
      wanted[id] = {.size = *shown,
                    .rotation = active_.rotation_of(id),
                    .pixel_format = active_.pixel_format_of(id)};
  }
  wanted[source] = wish;
  const char* step = "";
  DXGKIT_RETURN_IF_FAILED(commit_for_connected(wanted, &step));
  wanted_[source] = wish;
  return Status::kSuccess;
}

Status ModeSetting::update_path(const vidpn::Path& path) {
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  vidpn::Path* const found = active_.find_path(path.source, path.target);
  if (found == nullptr) return Status::kInvalidParameter;
  const Status status = tell_path(*found, path);
  if (status == Status::kNotSupported) return status;
  if (!is_success(status))
    return display_.failed_call("DxgkDdiUpdateActiveVidPnPresentPath", status);
  *found = path;
  return Status::kSuccess;
}

Status ModeSetting::tell_path(const vidpn::Path& before, const vidpn::Path& after) {
  const auto is_all = [&](const auto& copy) {
    vidpn::Path same = before;
    copy(&same);
    return same == after && !(before == after);
  };
  port::TargetsPort& targets = core_.port().targets();
  Status status = Status::kNotSupported;
  if (is_all([&](vidpn::Path* to) {
        to->gamma_type = after.gamma_type;
        to->gamma = after.gamma;
      })) {
    status = targets.set_gamma(after);
  } else if (is_all([&](vidpn::Path* to) { to->content = after.content; })) {
    status = targets.set_content_type(after);
  } else if (is_all([&](vidpn::Path* to) {
               to->copy_protection = after.copy_protection;
               to->aps_trigger_bits = after.aps_trigger_bits;
             })) {
    status = targets.set_analog_copy_protection(after);
  }
  if (status != Status::kNotSupported) return status;
  return level_two(display_.floor(),
                   [&] { return core_.port().vidpn().update_active_present_path(after); });
}

Status ModeSetting::set_gamma(uint32_t source, const std::function<void(Gamma*)>& change) {
  constexpr uint32_t kDefault = 1, kTable = 2;  // D3DDDI_GAMMARAMP_DEFAULT, _RGB256x3x16
  const DisplayLock lock(display_);
  if (!core_.running()) return Status::kDeviceRemoved;
  if (display_.power() != port::PowerState::kD0 || !active_.network().has_source(source))
    return Status::kInvalidParameter;
  Gamma gamma = gamma_[source];
  change(&gamma);
  const bool has_ramps = port::display_caps_of(core_.caps(), core_.interface_version()).gamma_table;
  if (!has_ramps && !gamma.changes_nothing()) return Status::kInvalidParameter;
  const std::vector<vidpn::Path> paths = active_.network().paths;
  for (const vidpn::Path& path : paths) {
    if (path.source != source) continue;
    vidpn::Path changed = path;
    changed.gamma_type = gamma.changes_nothing() ? kDefault : kTable;
    changed.gamma.clear();
    if (!gamma.changes_nothing())
      changed.gamma = adjusted(gamma.ramp, gamma.scale, gamma.offset).bytes();
    if (changed == path) continue;
    const Status status = tell_path(path, changed);
    if (status == Status::kDeviceRemoved) return status;
    if (!is_success(status)) {
      if (status != Status::kNotSupported)
        static_cast<void>(display_.failed_call("DxgkDdiSetTargetGamma", status));
      return Status::kInvalidParameter;
    }
    *active_.find_path(path.source, path.target) = changed;
  }
  gamma_[source] = gamma;
  return Status::kSuccess;
}

std::vector<DisplaySource> ModeSetting::sources() const {
  std::vector<DisplaySource> sources;
  for (const auto& [id, modes] : offered_) {
    const auto timings = timings_.find(id);
    sources.push_back(
        {.id = id,
         .mode = active_.mode_of(id),
         .target = active_.target_of(id),
         .visible = active_.visible(id),
         .modes = modes,
         .timings = timings != timings_.end() ? timings->second : std::vector<DisplayTiming>()});
  }
  return sources;
}

}  // namespace dxgkit::dxgk
