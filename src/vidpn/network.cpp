#include "vidpn/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "vidpn/vidpn.h"

namespace dxgkit::vidpn {
namespace {

const char* format_name(uint32_t format) {
  switch (format) {
    case 20:
      return "R8G8B8";
    case 21:
      return "A8R8G8B8";
    case 22:
      return "X8R8G8B8";
    case 23:
      return "R5G6B5";
    case 24:
      return "X1R5G5B5";
    case 25:
      return "A1R5G5B5";
    case 31:
      return "A2B10G10R10";
    case 32:
      return "A8B8G8R8";
    case 33:
      return "X8B8G8R8";
    case 35:
      return "A2R10G10B10";
    case 41:
      return "P8";
    case 113:
      return "A16B16G16R16F";
    case 119:
      return "A2B10G10R10_XR_BIAS";
    default:
      return nullptr;
  }
}

std::string rational_text(const Rational& value) {
  if (!value.specified()) return "NOTSPECIFIED";
  if (value.denominator == 1) return fmt::format("{}", value.numerator);
  return fmt::format("{}/{}", value.numerator, value.denominator);
}

template <typename Mode>
std::string mode_text(const Mode& mode) {
  if constexpr (std::is_same_v<Mode, SourceMode>) {
    return to_text(mode);
  } else {
    return to_text(mode.signal);
  }
}

template <typename Mode>
void set_differences(const char* owner, const std::map<uint32_t, ModeSet<Mode>>& before,
                     const std::map<uint32_t, ModeSet<Mode>>& after,
                     std::vector<std::string>* out) {
  std::set<uint32_t> ids;
  for (const auto& [id, set] : before) ids.insert(id);
  for (const auto& [id, set] : after) ids.insert(id);
  static const ModeSet<Mode> kNone;
  for (const uint32_t id : ids) {
    const auto old_set = before.find(id);
    const auto new_set = after.find(id);
    const ModeSet<Mode>& was = old_set == before.end() ? kNone : old_set->second;
    const ModeSet<Mode>& is = new_set == after.end() ? kNone : new_set->second;
    for (const Mode& mode : was.modes) {
      const Mode* same = is.find(mode.id);
      if (same == nullptr) {
        out->push_back(
            fmt::format("{} {}: mode {} ({}) removed", owner, id, mode.id, mode_text(mode)));
      } else if (*same != mode) {
        out->push_back(
            fmt::format("{} {}: mode {} is now {}", owner, id, mode.id, mode_text(*same)));
      }
    }
    for (const Mode& mode : is.modes) {
      if (was.find(mode.id) == nullptr)
        out->push_back(
            fmt::format("{} {}: mode {} ({}) added", owner, id, mode.id, mode_text(mode)));
    }
    if (was.pinned != is.pinned) {
      out->push_back(is.pinned.has_value()
                         ? fmt::format("{} {}: mode {} pinned", owner, id, *is.pinned)
                         : fmt::format("{} {}: mode {} unpinned", owner, id, *was.pinned));
    }
  }
}

template <typename Mode>
std::string validate_sets(const char* owner, const std::map<uint32_t, ModeSet<Mode>>& sets,
                          const std::set<uint32_t>& in_topology) {
  for (const auto& [id, set] : sets) {
    if (!in_topology.contains(id))
      return fmt::format("{} {} has a mode set and no path", owner, id);
    std::set<uint32_t> ids;
    for (const Mode& mode : set.modes) {
      if (!ids.insert(mode.id).second)
        return fmt::format("{} {} has mode {} twice", owner, id, mode.id);
    }
    if (set.pinned.has_value() && set.pinned_mode() == nullptr)
      return fmt::format("{} {} has mode {} pinned, which it does not hold", owner, id,
                         *set.pinned);
  }
  return "";
}

template <typename Mode>
Status pin(std::map<uint32_t, ModeSet<Mode>>* sets, uint32_t owner, uint32_t mode_id) {
  const auto found = sets->find(owner);
  if (found == sets->end() || found->second.find(mode_id) == nullptr) return kModeNotInModeSet;
  found->second.pinned = mode_id;
  return Status::kSuccess;
}

}  // namespace

std::string to_text(const Size& size) {
  const auto side = [](uint32_t value) {
    if (value == kNotSpecified) return std::string("NOTSPECIFIED");
    if (value == kUninitialized) return std::string("UNINITIALIZED");
    return fmt::format("{}", value);
  };
  return side(size.width) + "x" + side(size.height);
}

const Path* Network::find_path(uint32_t source, uint32_t target) const {
  for (const Path& path : paths)
    if (path.source == source && path.target == target) return &path;
  return nullptr;
}

bool Network::has_source(uint32_t source) const {
  return std::ranges::any_of(paths, [&](const Path& path) { return path.source == source; });
}

bool Network::has_target(uint32_t target) const {
  return std::ranges::any_of(paths, [&](const Path& path) { return path.target == target; });
}

const SourceMode* Network::pinned_source_mode(uint32_t source) const {
  const auto found = source_sets.find(source);
  return found == source_sets.end() ? nullptr : found->second.pinned_mode();
}

const TargetMode* Network::pinned_target_mode(uint32_t target) const {
  const auto found = target_sets.find(target);
  return found == target_sets.end() ? nullptr : found->second.pinned_mode();
}

bool Profile::has_target(uint32_t target) const {
  return std::ranges::find(targets, target) != targets.end();
}

Network constraining_network(const Profile& profile, std::span<const SourceTarget> paths) {
  DXGKIT_CHECK(paths.size() <= kPathsMax);
  Network network;
  for (const SourceTarget& pair : paths) {
    DXGKIT_CHECK(pair.source < profile.source_count);
    DXGKIT_CHECK(profile.has_target(pair.target));
    DXGKIT_CHECK(!network.has_target(pair.target));
    Path path;
    path.source = pair.source;
    path.target = pair.target;
    path.importance = static_cast<uint32_t>(network.paths.size() + 1);
    network.paths.push_back(std::move(path));
    network.source_sets[pair.source];
    network.target_sets[pair.target];
  }
  return network;
}

Status pin_source_mode(Network& network, uint32_t source, uint32_t mode_id) {
  return pin(&network.source_sets, source, mode_id);
}

Status pin_target_mode(Network& network, uint32_t target, uint32_t mode_id) {
  return pin(&network.target_sets, target, mode_id);
}

void pin_transformations(Network& network) {
  for (Path& path : network.paths) {
    if (path.scaling == kTransformationUnpinned) path.scaling = 1;
    if (path.rotation == kTransformationUnpinned) path.rotation = 1;
  }
}

std::vector<std::string> differences(const Network& before, const Network& after) {
  std::vector<std::string> out;
  for (const Path& path : before.paths) {
    const Path* same = after.find_path(path.source, path.target);
    if (same == nullptr) {
      out.push_back(fmt::format("path {} -> {} removed", path.source, path.target));
      continue;
    }
    if (same->scaling_support != path.scaling_support)
      out.push_back(fmt::format("path {} -> {}: scaling support {:#x} -> {:#x}", path.source,
                                path.target, path.scaling_support, same->scaling_support));
    if (same->rotation_support != path.rotation_support)
      out.push_back(fmt::format("path {} -> {}: rotation support {:#x} -> {:#x}", path.source,
                                path.target, path.rotation_support, same->rotation_support));
    if (same->copy_protection_support != path.copy_protection_support)
      out.push_back(fmt::format("path {} -> {}: copy protection support {:#x} -> {:#x}",
                                path.source, path.target, path.copy_protection_support,
                                same->copy_protection_support));
    Path alike = *same;
    alike.scaling_support = path.scaling_support;
    alike.rotation_support = path.rotation_support;
    alike.copy_protection_support = path.copy_protection_support;
    if (alike != path)
      out.push_back(fmt::format("path {} -> {} is another one", path.source, path.target));
  }
  for (const Path& path : after.paths) {
    if (before.find_path(path.source, path.target) == nullptr)
      out.push_back(fmt::format("path {} -> {} added", path.source, path.target));
  }
  set_differences("source", before.source_sets, after.source_sets, &out);
  set_differences("target", before.target_sets, after.target_sets, &out);
  if (before.multisampling != after.multisampling) out.emplace_back("multisampling methods differ");
  if (out.empty() && before != after) out.emplace_back("the order of paths or modes differs");
  return out;
}

std::string validate(const Network& network) {
  std::set<uint32_t> sources;
  std::set<uint32_t> targets;
  std::set<uint32_t> importances;
  for (const Path& path : network.paths) {
    sources.insert(path.source);
    if (!targets.insert(path.target).second)
      return fmt::format("target {} is in two paths", path.target);
    if (!importances.insert(path.importance).second)
      return fmt::format("importance {} is given twice", path.importance);
  }
  if (std::string wrong = validate_sets("source", network.source_sets, sources); !wrong.empty())
    return wrong;
  if (std::string wrong = validate_sets("target", network.target_sets, targets); !wrong.empty())
    return wrong;
  for (const auto& [source, methods] : network.multisampling) {
    if (!sources.contains(source))
      return fmt::format("source {} has multisampling methods and no path", source);
  }
  return "";
}

std::string to_text(const Signal& signal) {
  std::string text = fmt::format("{}@{}", to_text(signal.active), rational_text(signal.vsync));
  if (signal.scanline_ordering == 2 || signal.scanline_ordering == 3) text += "i";
  std::string more;
  if (signal.pixel_rate != 0 && signal.pixel_rate != kNotSpecified)
    more = fmt::format("{} Hz", signal.pixel_rate);
  if (signal.total.width != kNotSpecified)
    more += (more.empty() ? "" : ", ") + to_text(signal.total);
  return more.empty() ? text : text + " (" + more + ")";
}

std::string to_text(const SourceMode& mode) {
  const char* name = format_name(mode.pixel_format);
  return fmt::format(
      "{} pitch {} {}", to_text(mode.surface), mode.stride_bytes,
      name != nullptr ? std::string(name) : fmt::format("format {:#x}", mode.pixel_format));
}

}  // namespace dxgkit::vidpn
