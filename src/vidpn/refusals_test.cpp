// The answers of the interfaces at their edges: the changes that a DDI allows, foreign handles and
// structures, the text of a finding, and the memory of ended objects.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

constexpr Ddi kEnum = Ddi::kEnumVidPnCofuncModality;
constexpr Ddi kRecommend = Ddi::kRecommendFunctionalVidPn;
using AbiPath = D3DKMDT_VIDPN_PRESENT_PATH;

/// A driver inside one DDI call, with the topology open.
class Edges : public ::testing::Test {
 protected:
  DriverSide driver_;
  D3DKMDT_HVIDPNTOPOLOGY topology_ = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths_ = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* source_modes_ = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* target_modes_ = nullptr;

  void open(const DdiCall& call) {
    ASSERT_EQ(as_status(driver_.vidpn(call).pfnGetTopology(DriverSide::handle(call), &topology_,
                                                           &paths_)),
              Status::kSuccess);
  }
  const AbiPath* acquire_path(uint32_t source, uint32_t target) {
    const AbiPath* info = nullptr;
    EXPECT_EQ(as_status(paths_->pfnAcquirePathInfo(topology_, source, target, &info)),
              Status::kSuccess);
    return info;
  }
  Status release(const AbiPath* info) {
    return as_status(paths_->pfnReleasePathInfo(topology_, info));
  }
  Status add(const Path& path) {
    AbiPath* info = nullptr;
    EXPECT_EQ(as_status(paths_->pfnCreateNewPathInfo(topology_, &info)), Status::kSuccess);
    std::vector<std::byte> gamma;
    to_abi(path, &gamma, info);
    const Status status = as_status(paths_->pfnAddPath(topology_, info));
    if (!is_success(status)) {
      EXPECT_EQ(release(info), Status::kSuccess);
    }
    return status;
  }
  D3DKMDT_HVIDPNSOURCEMODESET acquire_source(const DdiCall& call, uint32_t source) {
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    EXPECT_EQ(as_status(driver_.vidpn(call).pfnAcquireSourceModeSet(DriverSide::handle(call),
                                                                    source, &set, &source_modes_)),
              Status::kSuccess);
    return set;
  }
  D3DKMDT_HVIDPNTARGETMODESET acquire_target(const DdiCall& call, uint32_t target) {
    D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
    EXPECT_EQ(as_status(driver_.vidpn(call).pfnAcquireTargetModeSet(DriverSide::handle(call),
                                                                    target, &set, &target_modes_)),
              Status::kSuccess);
    return set;
  }
  std::string last() const {
    const std::vector<verifier::Finding> all = driver_.findings.all();
    return all.empty() ? "" : all.back().actual;
  }
  static Network three_paths() {
    const SourceTarget pairs[] = {{1, kTargetB}, {0, kTargetA}};
    return constraining_network(full_profile(), pairs);
  }
};

Path identity_path(uint32_t source, uint32_t target, uint32_t importance) {
  Path path;
  path.source = source, path.target = target, path.importance = importance;
  path.scaling = path.rotation = 1;
  return path;
}

// Which of the four changes each DDI may make.
TEST_F(Edges, EachDdiMayMakeItsChanges) {
  DXGKIT_COVERS("VIDPN-14");
  struct Row {
    Ddi ddi;
    bool paths, mode_sets, support, multisampling;
  };
  for (const Row& row : {Row{Ddi::kIsSupportedVidPn, false, false, false, false},
                         Row{Ddi::kRecommendFunctionalVidPn, true, true, true, true},
                         Row{Ddi::kRecommendVidPnTopology, true, false, true, false},
                         Row{Ddi::kEnumVidPnCofuncModality, false, true, true, true},
                         Row{Ddi::kCommitVidPn, false, false, false, false},
                         Row{Ddi::kSetTimingsFromVidPn, false, false, false, false},
                         Row{Ddi::kQueryVidPnHwCapability, false, false, false, false}}) {
    SCOPED_TRACE(to_string(row.ddi));
    Network network = one_path(full_profile());
    network.source_sets[0].modes = {good_source_mode()};
    network.target_sets[kTargetA].modes = {good_target_mode()};
    DdiCall call(driver_.manager, row.ddi, network);
    open(call);
    const auto wanted = [](bool allowed) {
      return allowed ? Status::kSuccess : Status::kAccessDenied;
    };
    EXPECT_EQ(add(identity_path(1, kTargetB, 2)), wanted(row.paths));
    EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, kTargetB)), wanted(row.paths));
    const D3DKMDT_HVIDPNSOURCEMODESET source = acquire_source(call, 0);
    EXPECT_EQ(as_status(source_modes_->pfnPinMode(source, 0)), wanted(row.mode_sets));
    EXPECT_EQ(
        as_status(driver_.vidpn(call).pfnReleaseSourceModeSet(DriverSide::handle(call), source)),
        Status::kSuccess);
    const D3DKMDT_HVIDPNTARGETMODESET target = acquire_target(call, kTargetA);
    EXPECT_EQ(as_status(target_modes_->pfnPinMode(target, 0)), wanted(row.mode_sets));
    EXPECT_EQ(
        as_status(driver_.vidpn(call).pfnReleaseTargetModeSet(DriverSide::handle(call), target)),
        Status::kSuccess);
    const AbiPath* info = acquire_path(0, kTargetA);
    AbiPath copy = *info;
    EXPECT_EQ(as_status(paths_->pfnUpdatePathSupportInfo(topology_, &copy)), wanted(row.support));
    EXPECT_EQ(release(info), Status::kSuccess);
    const D3DDDI_MULTISAMPLINGMETHOD method = {4, 1};
    EXPECT_EQ(as_status(driver_.vidpn(call).pfnAssignMultisamplingMethodSet(
                  DriverSide::handle(call), 0, 1, &method)),
              wanted(row.multisampling));
  }
}

TEST_F(Edges, PathsAreCountedAndEnumeratedPerSource) {
  DXGKIT_COVERS("VIDPN-25");
  Profile profile = full_profile();
  profile.source_count = 3;
  profile.targets = {11, 12, 13, 14};
  DriverSide driver(profile);
  const SourceTarget pairs[] = {{1, 14}, {2, 11}, {1, 12}, {2, 13}};
  DdiCall call(driver.manager, Ddi::kCommitVidPn, constraining_network(profile, pairs));
  ASSERT_EQ(
      as_status(driver.vidpn(call).pfnGetTopology(DriverSide::handle(call), &topology_, &paths_)),
      Status::kSuccess);
  SIZE_T count = 99;
  EXPECT_EQ(as_status(paths_->pfnGetNumPaths(topology_, &count)), Status::kSuccess);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(as_status(paths_->pfnGetNumPathsFromSource(topology_, 2, &count)), Status::kSuccess);
  EXPECT_EQ(count, 2U);
  UINT id = 99;
  const auto target = [&](UINT source, SIZE_T index) {
    EXPECT_EQ(as_status(paths_->pfnEnumPathTargetsFromSource(topology_, source, index, &id)),
              Status::kSuccess);
    return id;
  };
  EXPECT_EQ(target(1, 0), 14U);
  EXPECT_EQ(target(1, 1), 12U);
  EXPECT_EQ(target(2, 0), 11U);
  EXPECT_EQ(target(2, 1), 13U);
  EXPECT_EQ(as_status(paths_->pfnEnumPathTargetsFromSource(topology_, 0, 0, &id)),
            kSourceNotInTopology);
  EXPECT_EQ(as_status(paths_->pfnEnumPathTargetsFromSource(topology_, 2, 2, &id)),
            Status::kInvalidParameter);
  EXPECT_NE(driver.findings.all().back().actual.find("is 2, source 2 has 2 paths"),
            std::string::npos);
  for (const SourceTarget& pair : pairs) {
    EXPECT_EQ(as_status(paths_->pfnGetPathSourceFromTarget(topology_, pair.target, &id)),
              Status::kSuccess);
    EXPECT_EQ(id, pair.source);
  }
  const AbiPath* info = nullptr;
  ASSERT_EQ(as_status(paths_->pfnAcquireFirstPathInfo(topology_, &info)), Status::kSuccess);
  for (size_t i = 0; i < std::size(pairs); ++i) {
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->VidPnSourceId, pairs[i].source);
    EXPECT_EQ(info->VidPnTargetId, pairs[i].target);
    EXPECT_EQ(static_cast<uint32_t>(info->ImportanceOrdinal), i + 1);
    const AbiPath* next = info;
    EXPECT_EQ(as_status(paths_->pfnAcquireNextPathInfo(topology_, info, &next)),
              i + 1 < std::size(pairs) ? Status::kSuccess : kNoMoreElements);
    EXPECT_EQ(release(info), Status::kSuccess);
    info = next;
  }
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(as_status(paths_->pfnAcquirePathInfo(topology_, 1, 11, &info)), kPathNotInTopology);
  info = acquire_path(2, 13);
  EXPECT_EQ(info->VidPnSourceId, 2U);
  EXPECT_EQ(info->VidPnTargetId, 13U);
  EXPECT_EQ(release(info), Status::kSuccess);
}

TEST_F(Edges, EveryOutputPointerIsChecked) {
  DXGKIT_COVERS("VIDPN-24");
  DdiCall call(driver_.manager, kEnum, three_paths());
  open(call);
  const AbiPath* info = acquire_path(1, kTargetB);
  const auto unreadable = uintptr_t{0x10};
  const auto refused = [&](auto function, auto... before) {
    const size_t findings = driver_.findings.count("VIDPN-24");
    EXPECT_EQ(as_status(function(topology_, before..., nullptr)), Status::kInvalidParameter);
    EXPECT_EQ(driver_.findings.count("VIDPN-24"), findings + 1);
    EXPECT_NE(last().find("is NULL"), std::string::npos) << last();
  };
  refused(paths_->pfnGetNumPaths);
  refused(paths_->pfnGetNumPathsFromSource, 1U);
  refused(paths_->pfnEnumPathTargetsFromSource, 1U, SIZE_T{0});
  refused(paths_->pfnGetPathSourceFromTarget, kTargetB);
  refused(paths_->pfnAcquirePathInfo, 1U, kTargetB);
  refused(paths_->pfnAcquireFirstPathInfo);
  refused(paths_->pfnAcquireNextPathInfo, info);
  refused(paths_->pfnCreateNewPathInfo);
  EXPECT_EQ(as_status(paths_->pfnGetNumPaths(topology_, reinterpret_cast<SIZE_T*>(unreadable))),
            Status::kInvalidParameter);
  EXPECT_NE(last().find("is not writable"), std::string::npos) << last();
  EXPECT_EQ(release(info), Status::kSuccess);
  EXPECT_EQ(driver_.manager.open_objects(), 1U);
}

TEST_F(Edges, OnlyPathsOfTheTopologyHaveANext) {
  DXGKIT_COVERS("VIDPN-05");
  DdiCall call(driver_.manager, kRecommend, three_paths());
  open(call);
  const AbiPath* next = nullptr;
  AbiPath* made = nullptr;
  ASSERT_EQ(as_status(paths_->pfnCreateNewPathInfo(topology_, &made)), Status::kSuccess);
  EXPECT_EQ(made->VidPnSourceId, kNoId);
  EXPECT_EQ(made->VidPnTargetId, kNoId);
  EXPECT_EQ(as_status(paths_->pfnAcquireNextPathInfo(topology_, made, &next)), kInvalidPath);
  EXPECT_NE(last().find("is new"), std::string::npos) << last();
  EXPECT_EQ(release(made), Status::kSuccess);
  const AbiPath* info = acquire_path(0, kTargetA);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 0, kTargetA)), Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnAcquireNextPathInfo(topology_, info, &next)), kInvalidPath);
  EXPECT_NE(last().find("was removed"), std::string::npos) << last();
  EXPECT_EQ(next, nullptr);
  // An acquired path is not added.
  const AbiPath* other = acquire_path(1, kTargetB);
  EXPECT_EQ(as_status(paths_->pfnAddPath(topology_, const_cast<AbiPath*>(other))), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-08"), 1U);
  EXPECT_EQ(release(info), Status::kSuccess);
  EXPECT_EQ(release(other), Status::kSuccess);
}

// The set of a source lives as long as one path of it; that of a target goes with its path.
TEST_F(Edges, RemovingAPathTakesItsOwnSetsOnly) {
  DXGKIT_COVERS("VIDPN-28");
  Profile profile = full_profile();
  profile.targets = {11, 12, 13};
  DriverSide driver(profile);
  const SourceTarget pairs[] = {{0, 11}, {1, 12}, {1, 13}};
  Network network = constraining_network(profile, pairs);
  for (const uint32_t source : {0U, 1U}) {
    network.source_sets[source].modes = {good_source_mode()};
    network.source_sets[source].modes[0].id = source + 5;
    network.multisampling[source] = {{4, source}};
  }
  for (const uint32_t target : {11U, 12U, 13U}) {
    network.target_sets[target].modes = {good_target_mode()};
    network.target_sets[target].modes[0].id = target;
  }
  DdiCall call(driver.manager, kRecommend, network);
  ASSERT_EQ(
      as_status(driver.vidpn(call).pfnGetTopology(DriverSide::handle(call), &topology_, &paths_)),
      Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, 11)), kPathNotInTopology);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 0, 12)), kPathNotInTopology);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, 12)), Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, 13)), Status::kSuccess);
  Network wanted = network;
  wanted.paths.resize(1);
  wanted.source_sets.erase(1);
  wanted.target_sets.erase(12);
  wanted.target_sets.erase(13);
  wanted.multisampling.erase(1);
  EXPECT_EQ(call.finish(Status::kUnsuccessful), wanted);

  // The other way: one path of two goes, and all of source 1 stays but that target.
  DdiCall again(driver.manager, kRecommend, network);
  ASSERT_EQ(
      as_status(driver.vidpn(again).pfnGetTopology(DriverSide::handle(again), &topology_, &paths_)),
      Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, 13)), Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 0, 11)), Status::kSuccess);
  // A path added to a source that has one finds the source's modes there, and an empty target.
  EXPECT_EQ(add(identity_path(1, 11, 7)), Status::kSuccess);
  wanted = network;
  wanted.paths = {network.paths[1], identity_path(1, 11, 7)};
  wanted.source_sets.erase(0);
  wanted.multisampling.erase(0);
  wanted.target_sets.erase(13);
  wanted.target_sets[11] = {};
  EXPECT_EQ(again.finish(Status::kUnsuccessful), wanted);
  EXPECT_EQ(driver.manager.open_objects(), 0U);
}

TEST_F(Edges, ASetThatWentWithItsPathIsUsableWhileHeld) {
  DXGKIT_COVERS("VIDPN-28", "VIDPN-06");
  Network network = three_paths();
  network.source_sets[1].modes = {good_source_mode()};
  network.target_sets[kTargetB].modes = {good_target_mode()};
  DdiCall call(driver_.manager, kRecommend, network);
  open(call);
  const D3DKMDT_HVIDPNSOURCEMODESET source = acquire_source(call, 1);
  const D3DKMDT_HVIDPNTARGETMODESET target = acquire_target(call, kTargetB);
  const D3DKMDT_HVIDPNTARGETMODESET released = acquire_target(call, kTargetA);
  EXPECT_EQ(driver_.manager.open_objects(), 4U);
  EXPECT_EQ(
      as_status(driver_.vidpn(call).pfnReleaseTargetModeSet(DriverSide::handle(call), released)),
      Status::kSuccess);
  EXPECT_EQ(acquire_source(call, 1), source);
  EXPECT_EQ(acquire_target(call, kTargetB), target);
  EXPECT_EQ(driver_.manager.open_objects(), 5U);  // two references each, and the VidPN
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 1, kTargetB)), Status::kSuccess);
  EXPECT_EQ(as_status(paths_->pfnRemovePath(topology_, 0, kTargetA)), Status::kSuccess);
  SIZE_T modes = 99;
  EXPECT_EQ(as_status(source_modes_->pfnGetNumModes(source, &modes)), Status::kSuccess);
  EXPECT_EQ(modes, 1U);
  EXPECT_EQ(as_status(target_modes_->pfnGetNumModes(target, &modes)), Status::kSuccess);
  EXPECT_EQ(modes, 1U);
  // It is no longer the VidPN's: nothing is asked before a pin.
  EXPECT_EQ(as_status(source_modes_->pfnPinMode(source, 0)), Status::kSuccess);
  EXPECT_EQ(as_status(target_modes_->pfnGetNumModes(released, &modes)), kInvalidTargetModeSet);
  EXPECT_NE(last().find("gone with its path"), std::string::npos) << last();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        as_status(driver_.vidpn(call).pfnReleaseSourceModeSet(DriverSide::handle(call), source)),
        Status::kSuccess);
    EXPECT_EQ(
        as_status(driver_.vidpn(call).pfnReleaseTargetModeSet(DriverSide::handle(call), target)),
        Status::kSuccess);
  }
  EXPECT_EQ(driver_.manager.open_objects(), 1U);
  EXPECT_EQ(call.finish(Status::kUnsuccessful), Network{});
  EXPECT_EQ(driver_.findings.count("VIDPN-07"), 0U) << driver_.texts();
}

TEST_F(Edges, AnUpdateChangesTheSupportOfItsPath) {
  DXGKIT_COVERS("VIDPN-31", "VIDPN-24");
  const Network network = three_paths();
  DdiCall call(driver_.manager, kEnum, network);
  open(call);
  const AbiPath* info = acquire_path(0, kTargetA);
  AbiPath copy = *info;
  Path update = network.paths[1];
  update.scaling_support = 0x13;
  update.rotation_support = 0x31;
  update.copy_protection_support = 5;
  std::vector<std::byte> none;
  to_abi(update, &none, &copy);
  EXPECT_EQ(as_status(paths_->pfnUpdatePathSupportInfo(topology_, &copy)), Status::kSuccess);
  copy.VidPnSourceId = 1;  // the other path's source, this path's target
  EXPECT_EQ(as_status(paths_->pfnUpdatePathSupportInfo(topology_, &copy)), kPathNotInTopology);
  const auto* hole = reinterpret_cast<const AbiPath*>(uintptr_t{0x10});
  EXPECT_EQ(as_status(paths_->pfnUpdatePathSupportInfo(topology_, hole)),
            Status::kInvalidParameter);
  EXPECT_NE(last().find("not readable"), std::string::npos) << last();
  EXPECT_EQ(as_status(paths_->pfnUpdatePathSupportInfo(topology_, nullptr)),
            Status::kInvalidParameter);
  EXPECT_NE(last().find("NULL"), std::string::npos) << last();
  EXPECT_EQ(release(info), Status::kSuccess);
  Network wanted = network;
  wanted.paths[1] = update;
  EXPECT_EQ(call.finish(Status::kUnsuccessful), wanted);
}

// A gamma table has the size of its type, and is read from where the driver says.
TEST_F(Edges, WhatIsSaidOfAGammaTable) {
  DXGKIT_COVERS("VIDPN-17");
  DdiCall call(driver_.manager, kRecommend, Network{});
  open(call);
  AbiPath* info = nullptr;
  ASSERT_EQ(as_status(paths_->pfnCreateNewPathInfo(topology_, &info)), Status::kSuccess);
  std::vector<std::byte> none;
  to_abi(identity_path(0, kTargetA, 1), &none, info);
  std::vector<std::byte> table(gamma_bytes(D3DDDI_GAMMARAMP_MATRIX_3x4));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(i);
  const auto refused = [&](D3DDDI_GAMMARAMP_TYPE type, size_t bytes, void* data,
                           const char* words) {
    info->GammaRamp.Type = type;
    info->GammaRamp.DataSize = bytes;
    info->GammaRamp.Data.pRaw = data;
    EXPECT_EQ(as_status(paths_->pfnAddPath(topology_, info)), kInvalidGammaRamp);
    EXPECT_NE(last().find(words), std::string::npos) << last();
  };
  refused(D3DDDI_GAMMARAMP_MATRIX_3x4, table.size(), nullptr, "and no table");
  refused(D3DDDI_GAMMARAMP_MATRIX_3x4, table.size() + 1, table.data(), "and a table");
  refused(static_cast<D3DDDI_GAMMARAMP_TYPE>(9), 0, table.data(), "");
  // The default ramp has no table, whatever stands there.
  info->GammaRamp.Type = D3DDDI_GAMMARAMP_DEFAULT;
  info->GammaRamp.DataSize = 3;
  EXPECT_EQ(as_status(paths_->pfnAddPath(topology_, info)), Status::kSuccess);
  ASSERT_EQ(as_status(paths_->pfnCreateNewPathInfo(topology_, &info)), Status::kSuccess);
  to_abi(identity_path(1, kTargetB, 2), &none, info);
  info->GammaRamp.Type = D3DDDI_GAMMARAMP_MATRIX_3x4;
  info->GammaRamp.DataSize = table.size();
  info->GammaRamp.Data.pRaw = table.data();
  EXPECT_EQ(as_status(paths_->pfnAddPath(topology_, info)), Status::kSuccess);
  const Network after = call.finish(Status::kUnsuccessful);
  ASSERT_EQ(after.paths.size(), 2U);
  EXPECT_TRUE(after.paths[0].gamma.empty());
  EXPECT_EQ(after.paths[1].gamma, table);
  EXPECT_EQ(after.paths[1].gamma_type, static_cast<uint32_t>(D3DDDI_GAMMARAMP_MATRIX_3x4));
}

TEST_F(Edges, MultisamplingMethodsReplaceEachOther) {
  DXGKIT_COVERS("VIDPN-24");
  DdiCall call(driver_.manager, kEnum, three_paths());
  const auto assign = driver_.vidpn(call).pfnAssignMultisamplingMethodSet;
  std::vector<D3DDDI_MULTISAMPLINGMETHOD> methods(257);
  for (uint32_t i = 0; i < methods.size(); ++i) methods[i] = {i + 1, i + 1000};
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 1, 256, methods.data())), Status::kSuccess);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 1, 257, methods.data())),
            Status::kInvalidParameter);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, 2, methods.data())), Status::kSuccess);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, 1, methods.data() + 5)),
            Status::kSuccess);
  const std::map<uint32_t, std::vector<MultisamplingMethod>> said =
      call.finish(Status::kUnsuccessful).multisampling;
  ASSERT_EQ(said.size(), 2U);
  ASSERT_EQ(said.at(1).size(), 256U);
  EXPECT_EQ(said.at(1).back(), (MultisamplingMethod{256, 1255}));
  EXPECT_EQ(said.at(0), (std::vector<MultisamplingMethod>{{6, 1005}}));
  // None at all is an answer too.
  DdiCall none(driver_.manager, kEnum, three_paths());
  EXPECT_EQ(as_status(assign(DriverSide::handle(none), 1, 0, nullptr)), Status::kSuccess);
  EXPECT_EQ(none.finish(Status::kUnsuccessful).multisampling.at(1).size(), 0U);
}

TEST_F(Edges, FindingsSayWhoseHandleItIsAndHowItEnded) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06");
  DdiCall call(driver_.manager, kRecommend, three_paths());
  open(call);
  SIZE_T count = 0;
  const auto said = [&](const void* handle) {
    EXPECT_EQ(as_status(paths_->pfnGetNumPaths(
                  static_cast<D3DKMDT_HVIDPNTOPOLOGY>(const_cast<void*>(handle)), &count)),
              kInvalidVidPnTopology);
    const verifier::Finding finding = driver_.findings.all().back();
    EXPECT_EQ(finding.windows, "The function fails, or the machine stops with a bad reference.");
    EXPECT_EQ(finding.ddi, "DXGK_VIDPNTOPOLOGY_INTERFACE.pfnGetNumPaths");
    EXPECT_EQ(finding.expected, "The parameter takes a topology that is open in this DDI call.");
    return finding.actual;
  };
  const std::string inside = " (inside DxgkDdiRecommendFunctionalVidPn)";
  EXPECT_EQ(said(nullptr), "The handle is NULL." + inside);
  EXPECT_EQ(said(&count), "The handle is a value that no interface function gave out." + inside);
  EXPECT_EQ(said(call.vidpn()), "The handle is a VidPN." + inside);
  const auto number = [](const void* handle) { return reinterpret_cast<uintptr_t>(handle); };
  const auto handle = [](uintptr_t value) { return reinterpret_cast<const void*>(value); };
  EXPECT_EQ(said(handle(number(topology_) + 100)), "The handle was never given out." + inside);
  // A sentence that was said before is counted, not kept.
  const auto no_handle = [&](uintptr_t value) {
    const size_t kept = driver_.findings.all().size();
    const size_t told = driver_.findings.count("VIDPN-05");
    said(handle(value));
    EXPECT_EQ(driver_.findings.all().size(), kept);
    EXPECT_EQ(driver_.findings.count("VIDPN-05"), told + 1);
  };
  no_handle(number(topology_) & ~uintptr_t{0xFFF'FFFF});  // serials begin at 1
  // Kinds are numbered 1 to 7, beside a tag of eight bits.
  const uintptr_t no_kind = number(topology_) & ~(uintptr_t{0xFF} << 48);
  no_handle(no_kind);
  no_handle(no_kind | uintptr_t{8} << 48);
  EXPECT_EQ(said(handle(no_kind | uintptr_t{7} << 48)),
            "The handle is a monitor descriptor set." + inside);
  no_handle(number(topology_) ^ uintptr_t{1} << 56);
  const D3DKMDT_HVIDPNTOPOLOGY old = topology_;
  call.finish(Status::kUnsuccessful);
  EXPECT_EQ(said(old), "The handle is a topology that was gone with the end of the DDI call.");
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
}

// A handle of one adapter has no effect at another. If there are two adapters, a value that belongs
// to none reaches neither.
TEST_F(Edges, AdaptersDoNotShareHandles) {
  DXGKIT_COVERS("VIDPN-05");
  DriverSide other;
  DdiCall mine(driver_.manager, kRecommend, three_paths());
  DdiCall foreign(other.manager, kRecommend, three_paths());
  open(mine);
  const D3DKMDT_HVIDPNTOPOLOGY my_topology = topology_;
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  EXPECT_EQ(as_status(other.vidpn(foreign).pfnAcquireSourceModeSet(DriverSide::handle(foreign), 1,
                                                                   &set, &source_modes_)),
            Status::kSuccess);
  EXPECT_EQ(as_status(driver_.vidpn(mine).pfnReleaseSourceModeSet(DriverSide::handle(mine), set)),
            kInvalidSourceModeSet);
  EXPECT_NE(last().find("belongs to another adapter"), std::string::npos) << last();
  EXPECT_EQ(
      as_status(other.vidpn(foreign).pfnReleaseSourceModeSet(DriverSide::handle(foreign), set)),
      Status::kSuccess);
  const size_t before = driver_.findings.total() + other.findings.total();
  SIZE_T count = 99;
  EXPECT_EQ(as_status(paths_->pfnGetNumPaths(nullptr, &count)), kInvalidVidPnTopology);
  EXPECT_EQ(driver_.findings.total() + other.findings.total(), before);
  EXPECT_EQ(as_status(paths_->pfnGetNumPaths(my_topology, &count)), Status::kSuccess);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(other.findings.total(), 0U) << other.texts();
}

TEST_F(Edges, FindingsSayWhatStructureItIs) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-08", "VIDPN-22");
  DdiCall call(driver_.manager, kRecommend, three_paths());
  open(call);
  const auto said = [&](const AbiPath* info, Status wanted) {
    EXPECT_EQ(release(info), wanted);
    const verifier::Finding finding = driver_.findings.all().back();
    if (!is_success(wanted)) {
      EXPECT_EQ(finding.windows, "The function answers " +
                                     std::string(wanted == kInvalidPath
                                                     ? "STATUS_GRAPHICS_INVALID_VIDPN_PRESENT_PATH."
                                                     : "STATUS_GRAPHICS_RESOURCES_NOT_RELATED."));
    }
    return finding.actual.substr(0, finding.actual.find(" (inside"));
  };
  EXPECT_EQ(said(nullptr, kInvalidPath), "The pointer to the structure is NULL.");
  const AbiPath mine = {};
  EXPECT_EQ(said(&mine, kInvalidPath), "The structure did not come from this interface.");
  const D3DKMDT_HVIDPNSOURCEMODESET set = acquire_source(call, 1);
  D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
  ASSERT_EQ(as_status(source_modes_->pfnCreateNewModeInfo(set, &mode)), Status::kSuccess);
  EXPECT_EQ(said(reinterpret_cast<const AbiPath*>(mode), kInvalidPath),
            "The structure is an info of a source mode set.");
  EXPECT_EQ(as_status(source_modes_->pfnReleaseModeInfo(set, mode)), Status::kSuccess);
  const AbiPath* info = acquire_path(1, kTargetB);
  DdiCall nested(driver_.manager, kRecommend, three_paths());
  const D3DKMDT_HVIDPNTOPOLOGY outer = topology_;
  open(nested);
  EXPECT_EQ(said(info, kResourcesNotRelated),
            "The structure came from another one: an acquired path info (1 -> 512).");
  nested.finish(Status::kUnsuccessful);
  topology_ = outer;
  // Read only means every byte.
  auto* bytes = reinterpret_cast<std::byte*>(const_cast<AbiPath*>(info));
  bytes[sizeof(AbiPath) - 1] ^= std::byte{1};
  EXPECT_EQ(said(info, Status::kSuccess),
            "The driver wrote into an acquired path info (1 -> 512).");
  EXPECT_EQ(driver_.findings.count("VIDPN-22"), 1U);
  EXPECT_EQ(said(info, kInvalidPath), "The structure was released by pfnReleasePathInfo before.");
  // The driver may write into an info that it created.
  AbiPath* made = nullptr;
  ASSERT_EQ(as_status(paths_->pfnCreateNewPathInfo(topology_, &made)), Status::kSuccess);
  made->VidPnSourceId = 1;
  EXPECT_EQ(release(made), Status::kSuccess);
  EXPECT_EQ(driver_.findings.count("VIDPN-22"), 1U);
}

// The last 512 structures and handles are remembered, to say how they ended.
TEST_F(Edges, WhatEndedLongAgoIsForgotten) {
  DXGKIT_COVERS("VIDPN-06");
  DdiCall call(driver_.manager, kRecommend, three_paths());
  open(call);
  const AbiPath* first = acquire_path(1, kTargetB);
  EXPECT_EQ(release(first), Status::kSuccess);
  for (int i = 0; i < 511; ++i) EXPECT_EQ(release(acquire_path(1, kTargetB)), Status::kSuccess);
  EXPECT_EQ(release(first), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
  EXPECT_EQ(driver_.findings.count("VIDPN-05"), 0U);
  EXPECT_EQ(release(acquire_path(1, kTargetB)), Status::kSuccess);
  EXPECT_EQ(release(first), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
  EXPECT_EQ(driver_.findings.count("VIDPN-05"), 1U);

  const auto create = driver_.vidpn(call).pfnCreateNewSourceModeSet;
  const auto end = driver_.vidpn(call).pfnReleaseSourceModeSet;
  D3DKMDT_HVIDPNSOURCEMODESET oldest = nullptr;
  for (int i = 0; i < 512; ++i) {
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    EXPECT_EQ(as_status(create(DriverSide::handle(call), 1, &set, &source_modes_)),
              Status::kSuccess);
    EXPECT_EQ(as_status(end(DriverSide::handle(call), set)), Status::kSuccess);
    if (oldest == nullptr) oldest = set;
  }
  SIZE_T count = 0;
  EXPECT_EQ(as_status(source_modes_->pfnGetNumModes(oldest, &count)), kInvalidSourceModeSet);
  EXPECT_NE(last().find("that was released"), std::string::npos) << last();
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  EXPECT_EQ(as_status(create(DriverSide::handle(call), 1, &set, &source_modes_)), Status::kSuccess);
  EXPECT_EQ(as_status(end(DriverSide::handle(call), set)), Status::kSuccess);
  EXPECT_EQ(as_status(source_modes_->pfnGetNumModes(oldest, &count)), kInvalidSourceModeSet);
  EXPECT_NE(last().find("that was given back"), std::string::npos) << last();
}

TEST_F(Edges, NewIdsFollowTheModesThatAreThere) {
  DXGKIT_COVERS("VIDPN-09");
  Network network = three_paths();
  network.source_sets[1].modes = {good_source_mode(), good_source_mode(), good_source_mode()};
  network.source_sets[1].modes[0].id = 41;
  network.source_sets[1].modes[1].id = 7;
  network.source_sets[1].modes[2].id = UINT32_MAX;
  DdiCall call(driver_.manager, kRecommend, network);
  const D3DKMDT_HVIDPNSOURCEMODESET set = acquire_source(call, 1);
  D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
  for (const UINT wanted : {42U, 43U}) {
    ASSERT_EQ(as_status(source_modes_->pfnCreateNewModeInfo(set, &mode)), Status::kSuccess);
    EXPECT_EQ(mode->Id, wanted);
    EXPECT_EQ(mode->Type, D3DKMDT_RMT_UNINITIALIZED);
  }
  const D3DKMDT_HVIDPNTARGETMODESET empty = acquire_target(call, kTargetA);
  D3DKMDT_VIDPN_TARGET_MODE* target = nullptr;
  ASSERT_EQ(as_status(target_modes_->pfnCreateNewModeInfo(empty, &target)), Status::kSuccess);
  EXPECT_EQ(target->Id, 1U);
}

// Leftovers of a call are reported object by object, in the order of the objects. Objects of an
// outer call are not touched.
TEST_F(Edges, LeaksAreNamedInTheirOrder) {
  DXGKIT_COVERS("VIDPN-07");
  DdiCall outer(driver_.manager, kRecommend, three_paths());
  open(outer);
  const AbiPath* kept = acquire_path(0, kTargetA);
  const D3DKMDT_HVIDPNTOPOLOGY outer_topology = topology_;
  const D3DKMDT_HVIDPNSOURCEMODESET kept_set = acquire_source(outer, 0);
  Network network = three_paths();
  network.source_sets[1].modes = {good_source_mode()};
  network.source_sets[1].modes[0].id = 31;
  network.target_sets[kTargetB].modes = {good_target_mode()};
  network.target_sets[kTargetB].modes[0].id = 32;
  DdiCall call(driver_.manager, kEnum, network);
  open(call);
  acquire_path(1, kTargetB);
  const D3DKMDT_HVIDPNSOURCEMODESET source = acquire_source(call, 1);
  acquire_source(call, 1);
  const D3DKMDT_VIDPN_SOURCE_MODE* source_mode = nullptr;
  ASSERT_EQ(as_status(source_modes_->pfnAcquireFirstModeInfo(source, &source_mode)),
            Status::kSuccess);
  const D3DKMDT_HVIDPNTARGETMODESET target = acquire_target(call, kTargetB);
  const D3DKMDT_VIDPN_TARGET_MODE* target_mode = nullptr;
  ASSERT_EQ(as_status(target_modes_->pfnAcquireFirstModeInfo(target, &target_mode)),
            Status::kSuccess);
  D3DKMDT_VIDPN_TARGET_MODE* made = nullptr;
  ASSERT_EQ(as_status(target_modes_->pfnCreateNewModeInfo(target, &made)), Status::kSuccess);
  call.finish(Status::kUnsuccessful);
  std::vector<std::string> said;
  for (const verifier::Finding& finding : driver_.findings.all()) {
    EXPECT_EQ(finding.rule, "VIDPN-07");
    EXPECT_EQ(finding.ddi, "DxgkDdiEnumVidPnCofuncModality");
    said.push_back(finding.actual.substr(0, finding.actual.find(", was still")));
  }
  EXPECT_EQ(said, (std::vector<std::string>{
                      "an acquired path info (1 -> 512), from pfnAcquirePathInfo",
                      "an acquired source mode info of source 1 (mode 31), from "
                      "pfnAcquireFirstModeInfo",
                      "an acquired target mode info of target 512 (mode 32), from "
                      "pfnAcquireFirstModeInfo",
                      "a new target mode info of target 512, from pfnCreateNewModeInfo",
                      "The mode set of source 1 (2 references), from pfnAcquireSourceModeSet",
                      "The mode set of target 512 (1 references), from pfnAcquireTargetModeSet"}));
  topology_ = outer_topology;
  EXPECT_EQ(release(kept), Status::kSuccess);
  EXPECT_EQ(
      as_status(driver_.vidpn(outer).pfnReleaseSourceModeSet(DriverSide::handle(outer), kept_set)),
      Status::kSuccess);
  // An abandoned call is cleaned up without a word.
  const size_t before = driver_.findings.total();
  acquire_path(0, kTargetA);
  outer.finish(Status::kSuccess, /*abandoned=*/true);
  EXPECT_EQ(driver_.findings.total(), before);
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
}

TEST_F(Edges, OnlyASuccessfulResultIsJudged) {
  DXGKIT_COVERS("VIDPN-16", "VIDPN-19");
  const auto findings = [&](Ddi ddi, Status status) {
    const size_t before = driver_.findings.total();
    DdiCall call(driver_.manager, ddi, three_paths());
    EXPECT_EQ(call.finish(status), three_paths());
    EXPECT_EQ(call.finish(Status::kSuccess), three_paths());  // finished already
    return driver_.findings.total() - before;
  };
  EXPECT_EQ(findings(kEnum, Status::kUnsuccessful), 0U);
  EXPECT_EQ(findings(kRecommend, Status::kUnsuccessful), 0U);
  EXPECT_EQ(findings(Ddi::kIsSupportedVidPn, Status::kSuccess), 0U);
  EXPECT_EQ(findings(Ddi::kCommitVidPn, Status::kSuccess), 0U);
  EXPECT_EQ(findings(kEnum, Status::kSuccess), 4U);
  EXPECT_EQ(findings(kRecommend, Status::kSuccess), 4U);
  EXPECT_EQ(driver_.findings.count("VIDPN-19"), 4U);
  EXPECT_EQ(driver_.findings.count("VIDPN-16"), 4U);
  { DdiCall dropped(driver_.manager, kEnum, three_paths()); }
  EXPECT_EQ(driver_.findings.total(), 8U);
}

}  // namespace
}  // namespace dxgkit::vidpn
