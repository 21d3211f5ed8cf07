// The topology interface, refusal by refusal, on a VidPN whose sources and targets are out of
// order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using AbiPath = D3DKMDT_VIDPN_PRESENT_PATH;
constexpr uint32_t kTargetC = 0x300;

Profile wide_profile() {
  Profile profile = full_profile();
  profile.source_count = 3;
  profile.targets = {kTargetA, kTargetB, kTargetC};
  return profile;
}

/// Source 1 on A and C, source 2 on B between them.
Network wide_network() {
  const SourceTarget pairs[] = {{1, kTargetA}, {2, kTargetB}, {1, kTargetC}};
  Network network = constraining_network(wide_profile(), pairs);
  network.source_sets[1].modes = {good_source_mode()};
  network.multisampling[1] = {{4, 2}};
  network.multisampling[2] = {{8, 1}};
  return network;
}

class WideTopology : public ::testing::Test {
 protected:
  DriverSide driver_{wide_profile()};
  DdiCall call_{driver_.manager, Ddi::kRecommendFunctionalVidPn, wide_network()};
  D3DKMDT_HVIDPNTOPOLOGY handle_ = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* functions_ = nullptr;

  void SetUp() override { open(call_); }
  void open(const DdiCall& call) {
    ASSERT_EQ(as_status(driver_.vidpn(call).pfnGetTopology(DriverSide::handle(call), &handle_,
                                                           &functions_)),
              Status::kSuccess);
  }
  const AbiPath* acquire(uint32_t source, uint32_t target) {
    const AbiPath* info = nullptr;
    EXPECT_EQ(as_status(functions_->pfnAcquirePathInfo(handle_, source, target, &info)),
              Status::kSuccess);
    return info;
  }
  AbiPath* create(const Path& path) {
    AbiPath* info = nullptr;
    EXPECT_EQ(as_status(functions_->pfnCreateNewPathInfo(handle_, &info)), Status::kSuccess);
    std::vector<std::byte> none;
    to_abi(path, &none, info);
    return info;
  }
  Status add(AbiPath* info) { return as_status(functions_->pfnAddPath(handle_, info)); }
  Status release(const AbiPath* info) {
    return as_status(functions_->pfnReleasePathInfo(handle_, info));
  }
  Status remove(uint32_t source, uint32_t target) {
    return as_status(functions_->pfnRemovePath(handle_, source, target));
  }
  static Path good(uint32_t source, uint32_t target, uint32_t importance) {
    Path path;
    path.source = source;
    path.target = target;
    path.importance = importance;
    path.scaling = path.rotation = 1;
    return path;
  }
  /// One more finding came, the last, and it says this.
  void expect_finding(size_t before, const char* rule, Confidence confidence, const char* text,
                      const char* answer = nullptr) {
    EXPECT_EQ(driver_.findings.total(), before + 1) << text;
    const verifier::Finding last = driver_.findings.all().back();
    EXPECT_EQ(last.rule, rule) << text;
    EXPECT_EQ(last.severity, verifier::Severity::kViolation) << text;
    EXPECT_EQ(last.confidence, confidence) << text;
    EXPECT_NE(last.actual.find(text), std::string::npos) << last.actual;
    if (answer != nullptr) {
      EXPECT_EQ(last.windows, answer);
    }
  }
};

TEST_F(WideTopology, PathsAreCountedPerSource) {
  DXGKIT_COVERS("VIDPN-25");
  SIZE_T count = 99;
  EXPECT_EQ(as_status(functions_->pfnGetNumPaths(handle_, &count)), Status::kSuccess);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(as_status(functions_->pfnGetNumPathsFromSource(handle_, 1, &count)), Status::kSuccess);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(as_status(functions_->pfnGetNumPathsFromSource(handle_, 2, &count)), Status::kSuccess);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(as_status(functions_->pfnGetNumPathsFromSource(handle_, 0, &count)),
            kSourceNotInTopology);
  EXPECT_EQ(count, 1U);
  UINT id = 99;
  const auto targets = functions_->pfnEnumPathTargetsFromSource;
  EXPECT_EQ(as_status(targets(handle_, 1, 0, &id)), Status::kSuccess);
  EXPECT_EQ(id, kTargetA);
  EXPECT_EQ(as_status(targets(handle_, 1, 1, &id)), Status::kSuccess);
  EXPECT_EQ(id, kTargetC);
  EXPECT_EQ(as_status(targets(handle_, 2, 0, &id)), Status::kSuccess);
  EXPECT_EQ(id, kTargetB);
  EXPECT_EQ(as_status(targets(handle_, 0, 0, &id)), kSourceNotInTopology);
  EXPECT_EQ(driver_.findings.total(), 0U);
  EXPECT_EQ(as_status(targets(handle_, 1, 2, &id)), Status::kInvalidParameter);
  EXPECT_EQ(id, kTargetB);
  expect_finding(0, "VIDPN-24", Confidence::kDocumented,
                 "VidPnPresentPathIndex is 2, source 1 has 2 paths.",
                 "The function answers STATUS_INVALID_PARAMETER.");
  const std::pair<uint32_t, uint32_t> sources[] = {{kTargetA, 1}, {kTargetB, 2}, {kTargetC, 1}};
  for (const auto& [target, source] : sources) {
    EXPECT_EQ(as_status(functions_->pfnGetPathSourceFromTarget(handle_, target, &id)),
              Status::kSuccess);
    EXPECT_EQ(id, source);
  }
}

TEST_F(WideTopology, PathsAreWalkedInTheirOrder) {
  DXGKIT_COVERS("VIDPN-25");
  const AbiPath* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstPathInfo(handle_, &info)), Status::kSuccess);
  for (const auto& [source, target] : {std::pair{1U, kTargetA}, {2U, kTargetB}, {1U, kTargetC}}) {
    EXPECT_EQ(info->VidPnSourceId, source);
    EXPECT_EQ(info->VidPnTargetId, target);
    const AbiPath* next = info;
    const Status status = as_status(functions_->pfnAcquireNextPathInfo(handle_, info, &next));
    EXPECT_EQ(status, target == kTargetC ? kNoMoreElements : Status::kSuccess);
    EXPECT_EQ(release(info), Status::kSuccess);
    info = next;
  }
  EXPECT_EQ(info, nullptr);
  info = acquire(2, kTargetB);
  EXPECT_EQ(info->VidPnSourceId, 2U);
  EXPECT_EQ(info->VidPnTargetId, kTargetB);
  EXPECT_EQ(release(info), Status::kSuccess);
  for (const auto& [source, target] : {std::pair{2U, kTargetA}, {1U, kTargetB}})
    EXPECT_EQ(as_status(functions_->pfnAcquirePathInfo(handle_, source, target, &info)),
              kPathNotInTopology);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

TEST_F(WideTopology, EveryOutputMustBeWritable) {
  DXGKIT_COVERS("VIDPN-24");
  const AbiPath* info = acquire(1, kTargetA);
  size_t before = 0;
  const auto refused = [&](NTSTATUS status, const char* parameter) {
    EXPECT_EQ(as_status(status), Status::kInvalidParameter) << parameter;
    expect_finding(before++, "VIDPN-24", Confidence::kInferred, parameter,
                   "The function answers STATUS_INVALID_PARAMETER.");
  };
  refused(functions_->pfnGetNumPaths(handle_, nullptr), "pNumPaths is NULL.");
  refused(functions_->pfnGetNumPathsFromSource(handle_, 1, nullptr), "pNumPathsFromSource is NULL");
  refused(functions_->pfnEnumPathTargetsFromSource(handle_, 1, 0, nullptr),
          "pVidPnTargetId is NULL");
  refused(functions_->pfnGetPathSourceFromTarget(handle_, kTargetA, nullptr),
          "pVidPnSourceId is NULL");
  refused(functions_->pfnAcquirePathInfo(handle_, 1, kTargetA, nullptr),
          "ppVidPnPresentPathInfo is NULL");
  refused(functions_->pfnAcquireFirstPathInfo(handle_, nullptr),
          "ppFirstVidPnPresentPathInfo is NULL");
  refused(functions_->pfnAcquireNextPathInfo(handle_, info, nullptr),
          "ppNextVidPnPresentPathInfo is NULL");
  refused(functions_->pfnCreateNewPathInfo(handle_, nullptr), "ppNewVidPnPresentPathInfo is NULL");
  refused(functions_->pfnGetNumPaths(handle_, reinterpret_cast<SIZE_T*>(uintptr_t{0x10})),
          "pNumPaths is not writable.");
  EXPECT_EQ(driver_.manager.open_objects(), 2U);  // the VidPN and the acquired info
}

TEST_F(WideTopology, NewInfosNameNothing) {
  AbiPath* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnCreateNewPathInfo(handle_, &info)), Status::kSuccess);
  AbiPath wanted;
  std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
  wanted.VidPnSourceId = UINT32_MAX;
  wanted.VidPnTargetId = UINT32_MAX;
  EXPECT_EQ(std::memcmp(info, &wanted, sizeof wanted), 0);
  EXPECT_EQ(release(info), Status::kSuccess);
}

TEST_F(WideTopology, InfosAreThoseOfThisTopology) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-08", "VIDPN-22");
  AbiPath* created = create(good(0, kTargetA, 9));
  const AbiPath* acquired = acquire(1, kTargetA);
  const AbiPath* next = nullptr;
  size_t before = 0;
  const auto refused = [&](Status status, Status wanted, const char* rule, Confidence confidence,
                           const char* text) {
    EXPECT_EQ(status, wanted) << text;
    expect_finding(before++, rule, confidence, text);
    EXPECT_EQ(next, nullptr);
  };
  constexpr Confidence kSure = Confidence::kDocumented;
  refused(as_status(functions_->pfnAcquireNextPathInfo(handle_, created, &next)), kInvalidPath,
          "VIDPN-05", Confidence::kInferred, "The path info is new");
  refused(add(const_cast<AbiPath*>(acquired)), kInvalidPath, "VIDPN-08", kSure,
          "The path info was acquired");
  AbiPath copy = *created;
  refused(add(&copy), kInvalidPath, "VIDPN-05", kSure, "did not come from this interface");
  refused(add(nullptr), kInvalidPath, "VIDPN-05", kSure, "is NULL");
  refused(release(nullptr), kInvalidPath, "VIDPN-05", kSure, "is NULL");
  // Of another VidPN's topology.
  const D3DKMDT_HVIDPNTOPOLOGY mine = handle_;
  DdiCall nested(driver_.manager, Ddi::kRecommendFunctionalVidPn, wide_network());
  open(nested);
  refused(add(created), kResourcesNotRelated, "VIDPN-08", kSure,
          "The structure came from another one: a new path info");
  refused(release(acquired), kResourcesNotRelated, "VIDPN-08", kSure,
          "another one: an acquired path info (1 -> 256)");
  handle_ = mine;
  // Of a mode set.
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  ASSERT_EQ(as_status(driver_.vidpn(call_).pfnAcquireSourceModeSet(DriverSide::handle(call_), 1,
                                                                   &set, &modes)),
            Status::kSuccess);
  const D3DKMDT_VIDPN_SOURCE_MODE* mode = nullptr;
  ASSERT_EQ(as_status(modes->pfnAcquireFirstModeInfo(set, &mode)), Status::kSuccess);
  refused(release(reinterpret_cast<const AbiPath*>(mode)), kInvalidPath, "VIDPN-05", kSure,
          "The structure is an info of a source mode set.");
  // Of a path that went.
  EXPECT_EQ(remove(1, kTargetA), Status::kSuccess);
  refused(as_status(functions_->pfnAcquireNextPathInfo(handle_, acquired, &next)), kInvalidPath,
          "VIDPN-05", Confidence::kInferred, "The path of this info was removed.");
  // Writing into an acquired path is reported when it is released. The driver may write into a
  // created path.
  const_cast<AbiPath*>(acquired)->GammaRamp.DataSize ^= 1;
  EXPECT_EQ(release(acquired), Status::kSuccess);
  expect_finding(before++, "VIDPN-22", Confidence::kInferred,
                 "The driver wrote into an acquired path info (1 -> 256).");
  EXPECT_EQ(release(created), Status::kSuccess);
  refused(release(created), kInvalidPath, "VIDPN-06", kSure,
          "The structure was released by pfnReleasePathInfo before.");
  created = create(good(0, kTargetA, 9));
  EXPECT_EQ(add(created), Status::kSuccess);
  refused(release(created), kInvalidPath, "VIDPN-06", kSure,
          "The structure was added by pfnAddPath before.");
}

// An info is of the path it came from: not of another one to the same target, nor from the same
// source.
TEST_F(WideTopology, AnInfoIsNotOfThePathThatTookItsPlace) {
  DXGKIT_COVERS("VIDPN-05");
  const AbiPath* old = acquire(1, kTargetA);
  EXPECT_EQ(remove(1, kTargetA), Status::kSuccess);
  EXPECT_EQ(add(create(good(0, kTargetA, 9))), Status::kSuccess);
  const AbiPath* next = nullptr;
  EXPECT_EQ(as_status(functions_->pfnAcquireNextPathInfo(handle_, old, &next)), kInvalidPath);
  expect_finding(0, "VIDPN-05", Confidence::kInferred, "The path of this info was removed.");
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(remove(0, kTargetA), Status::kSuccess);
  // The very same path is last now.
  EXPECT_EQ(add(create(good(1, kTargetA, 9))), Status::kSuccess);
  next = old;
  EXPECT_EQ(as_status(functions_->pfnAcquireNextPathInfo(handle_, old, &next)), kNoMoreElements);
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(release(old), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 1U);
}

// The last 512 structures that went are remembered as such.
TEST_F(WideTopology, StructuresThatWentAreRememberedForAWhile) {
  DXGKIT_COVERS("VIDPN-06");
  std::vector<const AbiPath*> gone;
  const auto one_more = [&] {
    gone.push_back(acquire(2, kTargetB));
    EXPECT_EQ(release(gone.back()), Status::kSuccess);
  };
  while (gone.size() < 512) one_more();
  EXPECT_EQ(std::set<const void*>(gone.begin(), gone.end()).size(), 512U);
  EXPECT_EQ(gone[0]->VidPnSourceId, 0xDDDDDDDDU);  // a read after release shows the pattern
  EXPECT_EQ(release(gone[0]), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
  one_more();
  EXPECT_EQ(release(gone[0]), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-05"), 1U);
  EXPECT_EQ(release(gone[1]), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 2U);
}

TEST_F(WideTopology, PathsAreAddedWhole) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-28");
  EXPECT_EQ(remove(1, kTargetA), Status::kSuccess);
  Path path = good(1, kTargetA, 4);
  path.scaling_support = 5;
  path.rotation_support = 0x33;
  path.visible_from_active_top_left = {6, 7};
  path.visible_from_active_bottom_right = {8, 9};
  path.color_basis = 2;
  path.color_ranges = {10, 11, 12, 13};
  path.content = 2;
  path.copy_protection = 3;
  path.aps_trigger_bits = 14;
  path.copy_protection_support = 6;
  EXPECT_EQ(add(create(path)), Status::kSuccess);
  EXPECT_EQ(add(create(good(1, kTargetA, 5))), kPathAlreadyInTopology);
  EXPECT_EQ(driver_.findings.count("VIDPN-17"), 1U);
  const Network after = call_.finish(Status::kUnsuccessful);
  ASSERT_EQ(after.paths.size(), 3U);
  EXPECT_EQ(after.paths.back(), path);
  // A source that was there keeps its modes; the target's set is a new one.
  EXPECT_EQ(after.source_sets.at(1), wide_network().source_sets.at(1));
  EXPECT_EQ(after.target_sets.at(kTargetA), TargetModeSet{});
  EXPECT_EQ(after.target_sets.size(), 3U);
}

TEST_F(WideTopology, GammaRampsHaveTheTableOfTheirType) {
  DXGKIT_COVERS("VIDPN-17");
  struct Row {
    uint32_t type;
    size_t bytes;
    int table;  // 0: null, 1: readable, 2: not readable
    bool fine;
  };
  const size_t rgb = sizeof(D3DDDI_GAMMA_RAMP_RGB256x3x16);
  const size_t matrix = sizeof(D3DKMDT_3x4_COLORSPACE_TRANSFORM);
  const Row rows[] = {
      {1, 0, 0, true},      {1, rgb, 2, true},  {2, rgb, 1, true},      {2, rgb, 0, false},
      {2, rgb, 2, false},   {2, 0, 1, false},   {2, rgb - 1, 1, false}, {2, rgb + 1, 1, false},
      {4, matrix, 1, true}, {4, rgb, 1, false}, {6, 0, 1, false},       {6, rgb, 1, false},
  };
  std::vector<std::byte> table(matrix + rgb);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(i * 7);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.type * 10000 + row.bytes);
    AbiPath* info = create(good(0, kTargetA, 9));
    EXPECT_EQ(remove(1, kTargetA), Status::kSuccess);
    const auto number = static_cast<int32_t>(row.type);
    std::memcpy(static_cast<void*>(&info->GammaRamp.Type), &number, sizeof number);
    info->GammaRamp.DataSize = row.bytes;
    info->GammaRamp.Data.pRaw = row.table == 0   ? nullptr
                                : row.table == 1 ? table.data()
                                                 : reinterpret_cast<void*>(uintptr_t{0x10});
    const size_t before = driver_.findings.total();
    if (row.fine) {
      EXPECT_EQ(add(info), Status::kSuccess);
      EXPECT_EQ(driver_.findings.total(), before);
      const AbiPath* read = acquire(0, kTargetA);
      const size_t wanted = row.type == 1 ? 0 : row.bytes;
      EXPECT_EQ(read->GammaRamp.DataSize, wanted);
      if (wanted != 0) {
        EXPECT_EQ(std::memcmp(read->GammaRamp.Data.pRaw, table.data(), wanted), 0);
      }
      EXPECT_EQ(release(read), Status::kSuccess);
      EXPECT_EQ(remove(0, kTargetA), Status::kSuccess);
    } else {
      EXPECT_EQ(add(info), kInvalidGammaRamp);
      expect_finding(before, "VIDPN-17", Confidence::kInferred,
                     row.table == 0 ? "and no table." : "and a table.",
                     "The function answers STATUS_GRAPHICS_INVALID_GAMMA_RAMP.");
      EXPECT_EQ(release(info), Status::kSuccess);
    }
    EXPECT_EQ(add(create(good(1, kTargetA, 1))), Status::kSuccess);
  }
}

TEST_F(WideTopology, WhatBelongsToAPathGoesWithIt) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-28", "VIDPN-06");
  D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* modes = nullptr;
  const auto& table = driver_.vidpn(call_);
  ASSERT_EQ(
      as_status(table.pfnAcquireTargetModeSet(DriverSide::handle(call_), kTargetB, &set, &modes)),
      Status::kSuccess);
  EXPECT_EQ(as_status(table.pfnReleaseTargetModeSet(DriverSide::handle(call_), set)),
            Status::kSuccess);
  EXPECT_EQ(remove(2, kTargetB), Status::kSuccess);
  SIZE_T count = 0;
  EXPECT_EQ(as_status(modes->pfnGetNumModes(set, &count)), kInvalidTargetModeSet);
  expect_finding(0, "VIDPN-06", Confidence::kDocumented,
                 "The handle is a target mode set that was gone with its path.",
                 "The function fails, or the machine stops with a bad reference.");
  EXPECT_EQ(remove(1, kTargetA), Status::kSuccess);
  const Network after = call_.finish(Status::kUnsuccessful);
  ASSERT_EQ(after.paths.size(), 1U);
  EXPECT_EQ(after.paths[0].target, kTargetC);
  // Source 1 is still shown; source 2 is not.
  EXPECT_EQ(after.source_sets.size(), 1U);
  EXPECT_TRUE(after.source_sets.contains(1));
  EXPECT_EQ(after.target_sets.size(), 1U);
  EXPECT_EQ(after.multisampling.size(), 1U);
  EXPECT_TRUE(after.multisampling.contains(1));
}

TEST_F(WideTopology, RemovalIsOfWhatCanBe) {
  DXGKIT_COVERS("VIDPN-17");
  const std::tuple<uint32_t, uint32_t, Status> rows[] = {
      {3, kTargetA, kInvalidSource}, {1, 7, kInvalidTarget}, {3, 7, kInvalidSource}};
  size_t before = 0;
  for (const auto& [source, target, wanted] : rows) {
    EXPECT_EQ(remove(source, target), wanted);
    expect_finding(before++, "VIDPN-17", Confidence::kDocumented, "cannot be.");
  }
  EXPECT_EQ(remove(2, kTargetA), kPathNotInTopology);
  EXPECT_EQ(remove(1, kTargetB), kPathNotInTopology);
  EXPECT_EQ(remove(0, kTargetA), kPathNotInTopology);
  EXPECT_EQ(driver_.findings.total(), before);
  EXPECT_EQ(call_.finish(Status::kUnsuccessful), wide_network());
}

TEST_F(WideTopology, SupportOfTheNamedPathIsUpdated) {
  DXGKIT_COVERS("VIDPN-14", "VIDPN-24");
  AbiPath update;
  std::memset(static_cast<void*>(&update), 0x5A, sizeof update);
  update.VidPnSourceId = 2;
  update.VidPnTargetId = kTargetB;
  const auto number = [](auto* member, uint32_t value) {
    std::memcpy(static_cast<void*>(member), &value, sizeof value);
  };
  number(&update.ContentTransformation.ScalingSupport, 0x15);
  number(&update.ContentTransformation.RotationSupport, 0x2A);
  number(&update.CopyProtection.CopyProtectionSupport, 6);
  const auto function = functions_->pfnUpdatePathSupportInfo;
  EXPECT_EQ(as_status(function(handle_, &update)), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
  update.VidPnSourceId = 1;
  EXPECT_EQ(as_status(function(handle_, &update)), kPathNotInTopology);
  expect_finding(0, "VIDPN-17", Confidence::kInferred, "Path 1 -> 512 is not in the topology.");
  update.VidPnSourceId = 2;
  update.VidPnTargetId = kTargetC;
  EXPECT_EQ(as_status(function(handle_, &update)), kPathNotInTopology);
  EXPECT_EQ(as_status(function(handle_, nullptr)), Status::kInvalidParameter);
  expect_finding(2, "VIDPN-24", Confidence::kInferred, "i_pVidPnPresentPathInfo is NULL.");
  EXPECT_EQ(as_status(function(handle_, reinterpret_cast<const AbiPath*>(uintptr_t{0x10}))),
            Status::kInvalidParameter);
  expect_finding(3, "VIDPN-24", Confidence::kInferred, "i_pVidPnPresentPathInfo is not readable.");
  Network wanted = wide_network();
  wanted.paths[1].scaling_support = 0x15;
  wanted.paths[1].rotation_support = 0x2A;
  wanted.paths[1].copy_protection_support = 6;
  EXPECT_EQ(call_.finish(Status::kUnsuccessful), wanted);
}

// The changes that each DDI may make in its VidPN.
TEST(Access, EachDdiChangesWhatItIsAskedFor) {
  DXGKIT_COVERS("VIDPN-14");
  struct Row {
    Ddi ddi;
    bool paths, mode_sets, support, multisampling;
  };
  const Row rows[] = {
      {Ddi::kIsSupportedVidPn, false, false, false, false},
      {Ddi::kRecommendFunctionalVidPn, true, true, true, true},
      {Ddi::kRecommendVidPnTopology, true, false, true, false},
      {Ddi::kEnumVidPnCofuncModality, false, true, true, true},
      {Ddi::kCommitVidPn, false, false, false, false},
      {Ddi::kSetTimingsFromVidPn, false, false, false, false},
      {Ddi::kQueryVidPnHwCapability, false, false, false, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(to_string(row.ddi));
    DriverSide driver(wide_profile());
    DdiCall call(driver.manager, row.ddi, wide_network());
    const auto& table = driver.vidpn(call);
    size_t refused = 0;
    const auto expect = [&](NTSTATUS status, bool allowed, const char* text) {
      EXPECT_EQ(as_status(status), allowed ? Status::kSuccess : Status::kAccessDenied) << text;
      if (allowed) return;
      ++refused;
      const verifier::Finding last = driver.findings.all().back();
      EXPECT_EQ(last.confidence, Confidence::kDocumented);
      EXPECT_NE(last.actual.find(text), std::string::npos) << last.actual;
    };
    D3DKMDT_HVIDPNTOPOLOGY handle = nullptr;
    const DXGK_VIDPNTOPOLOGY_INTERFACE* functions = nullptr;
    ASSERT_EQ(as_status(table.pfnGetTopology(DriverSide::handle(call), &handle, &functions)),
              Status::kSuccess);
    const AbiPath* first = nullptr;
    ASSERT_EQ(as_status(functions->pfnAcquireFirstPathInfo(handle, &first)), Status::kSuccess);
    expect(functions->pfnUpdatePathSupportInfo(handle, first), row.support,
           "changes the path support of a VidPN");
    D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
    const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
    ASSERT_EQ(as_status(table.pfnAcquireSourceModeSet(DriverSide::handle(call), 1, &set, &modes)),
              Status::kSuccess);
    expect(modes->pfnPinMode(set, 0), row.mode_sets, "changes a mode set of a VidPN");
    const D3DDDI_MULTISAMPLINGMETHOD method = {4, 2};
    expect(table.pfnAssignMultisamplingMethodSet(DriverSide::handle(call), 1, 1, &method),
           row.multisampling, "changes the multisampling methods of a VidPN");
    expect(functions->pfnRemovePath(handle, 2, kTargetB), row.paths,
           "changes the paths of a VidPN");
    EXPECT_EQ(driver.findings.total(), refused) << driver.texts();
    EXPECT_EQ(driver.findings.count("VIDPN-14"), refused);
    call.finish(Status::kUnsuccessful, /*abandoned=*/true);
  }
}

TEST(Multisampling, ListsAreBounded) {
  DXGKIT_COVERS("VIDPN-24");
  DriverSide driver(wide_profile());
  DdiCall call(driver.manager, Ddi::kEnumVidPnCofuncModality, wide_network());
  const auto assign = driver.vidpn(call).pfnAssignMultisamplingMethodSet;
  std::vector<D3DDDI_MULTISAMPLINGMETHOD> methods(257);
  for (UINT i = 0; i < 257; ++i) methods[i] = {i + 1, 1000 + i};
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 1, 257, methods.data())),
            Status::kInvalidParameter);
  EXPECT_NE(driver.findings.all().back().actual.find("257 methods at its address"),
            std::string::npos);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 1, 2, nullptr)), Status::kInvalidParameter);
  EXPECT_NE(driver.findings.all().back().actual.find("2 methods at NULL"), std::string::npos);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, 1, methods.data())),
            kSourceNotInTopology);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 1, 256, methods.data())), Status::kSuccess);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 2, 0, nullptr)), Status::kSuccess);
  const Network after = call.finish(Status::kUnsuccessful);
  ASSERT_EQ(after.multisampling.at(1).size(), 256U);
  for (uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(after.multisampling.at(1)[i], (MultisamplingMethod{i + 1, 1000 + i}));
  EXPECT_TRUE(after.multisampling.at(2).empty());
}

}  // namespace
}  // namespace dxgkit::vidpn
