// The differences between source and target mode sets.
#pragma once

#include <string>

#include "vidpn/impl.h"

namespace dxgkit::vidpn {

template <typename Mode>
struct ModeTraits;

template <>
struct ModeTraits<SourceMode> {
  using Handle = D3DKMDT_HVIDPNSOURCEMODESET;
  using Interface = DXGK_VIDPNSOURCEMODESET_INTERFACE;
  using Abi = D3DKMDT_VIDPN_SOURCE_MODE;
  static constexpr Kind kKind = Kind::kSourceSet;
  static constexpr Status kInvalidSet = kInvalidSourceModeSet;
  static constexpr Status kInvalidMode = kInvalidSourceMode;
  static constexpr Status kInvalidOwner = kInvalidSource;
  static constexpr Status kNotInTopology = kSourceNotInTopology;
  static constexpr const char* kOwner = "source";
  static constexpr const char* kOwners = "Sources are 0 to NumberOfVideoPresentSources - 1.";
  static constexpr const char* kInterfaceName = "DXGK_VIDPNSOURCEMODESET_INTERFACE";
  static constexpr const char* kAcquireFunction = "pfnAcquireSourceModeSet";
  static constexpr const char* kReleaseFunction = "pfnReleaseSourceModeSet";
  static constexpr const char* kCreateFunction = "pfnCreateNewSourceModeSet";
  static constexpr const char* kAssignFunction = "pfnAssignSourceModeSet";
  static Handle to_handle(void* value) { return static_cast<Handle>(value); }
  static const Interface& table(const Tables& tables) { return tables.source_mode_set; }
  static std::map<uint32_t, uint32_t>& assigned(VidPnObject& object) { return object.source_sets; }
  static bool exists(const Profile& profile, uint32_t id) { return id < profile.source_count; }
  static bool in_topology(const Network& network, uint32_t id) { return network.has_source(id); }
  static std::string text(const SourceMode& mode) { return to_text(mode); }
  static SourceMode read(const Profile&, const Abi& abi) { return from_abi(abi); }
  static Judgments judge(const Profile& profile, const SourceMode& mode) {
    return judge_source_mode(profile, mode);
  }
  /// The initial content of a mode from pfnCreateNewModeInfo.
  static void prepare(uint32_t id, Abi* abi) {
    abi->Id = id;
    abi->Type = D3DKMDT_RMT_UNINITIALIZED;
  }
  static bool same(SourceMode left, const SourceMode& right) {
    left.id = right.id;
    return left == right;
  }
};

template <>
struct ModeTraits<TargetMode> {
  using Handle = D3DKMDT_HVIDPNTARGETMODESET;
  using Interface = DXGK_VIDPNTARGETMODESET_INTERFACE;
  using Abi = D3DKMDT_VIDPN_TARGET_MODE;
  static constexpr Kind kKind = Kind::kTargetSet;
  static constexpr Status kInvalidSet = kInvalidTargetModeSet;
  static constexpr Status kInvalidMode = kInvalidTargetMode;
  static constexpr Status kInvalidOwner = kInvalidTarget;
  static constexpr Status kNotInTopology = kTargetNotInTopology;
  static constexpr const char* kOwner = "target";
  static constexpr const char* kOwners =
      "Targets are the ChildUids of the video outputs of DxgkDdiQueryChildRelations.";
  static constexpr const char* kInterfaceName = "DXGK_VIDPNTARGETMODESET_INTERFACE";
  static constexpr const char* kAcquireFunction = "pfnAcquireTargetModeSet";
  static constexpr const char* kReleaseFunction = "pfnReleaseTargetModeSet";
  static constexpr const char* kCreateFunction = "pfnCreateNewTargetModeSet";
  static constexpr const char* kAssignFunction = "pfnAssignTargetModeSet";
  static Handle to_handle(void* value) { return static_cast<Handle>(value); }
  static const Interface& table(const Tables& tables) { return tables.target_mode_set; }
  static std::map<uint32_t, uint32_t>& assigned(VidPnObject& object) { return object.target_sets; }
  static bool exists(const Profile& profile, uint32_t id) { return profile.has_target(id); }
  static bool in_topology(const Network& network, uint32_t id) { return network.has_target(id); }
  static std::string text(const TargetMode& mode) { return to_text(mode.signal); }
  static TargetMode read(const Profile& profile, const Abi& abi) { return from_abi(profile, abi); }
  static Judgments judge(const Profile& profile, const TargetMode& mode) {
    return judge_target_mode(profile, mode);
  }
  static void prepare(uint32_t id, Abi* abi) { abi->Id = id; }
  /// Compares modes without their preference.
  static bool same(TargetMode left, const TargetMode& right) {
    left.id = right.id;
    left.preference = right.preference;
    return left == right;
  }
};

/// The mode of `set` that equals `wanted` except for its id; null if there is none.
template <typename Mode>
const Mode* find_same(const ModeSet<Mode>& set, const Mode& wanted) {
  for (const Mode& mode : set.modes)
    if (ModeTraits<Mode>::same(mode, wanted)) return &mode;
  return nullptr;
}

}  // namespace dxgkit::vidpn
