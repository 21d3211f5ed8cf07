// Mode sets and what a DDI call leaves behind: references, ids, pins, handles that ended, findings
// word for word.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using SetHandle = D3DKMDT_HVIDPNTARGETMODESET;
using AbiMode = D3DKMDT_VIDPN_TARGET_MODE;

TargetMode mode_of(uint32_t id) {
  TargetMode mode = good_target_mode();
  mode.id = id;
  mode.signal.active.width -= id;
  return mode;
}

/// Source 1 on A, source 0 on B; modes 3, 9 and 5 at B.
Network some_network() {
  const SourceTarget pairs[] = {{1, kTargetA}, {0, kTargetB}};
  Network network = constraining_network(full_profile(), pairs);
  network.target_sets[kTargetB].modes = {mode_of(3), mode_of(9), mode_of(5)};
  return network;
}

class TargetSets : public ::testing::Test {
 protected:
  DriverSide driver_;
  DdiCall call_{driver_.manager, Ddi::kRecommendFunctionalVidPn, some_network()};
  const DXGK_VIDPN_INTERFACE& table_ = driver_.vidpn(call_);
  const DXGK_VIDPNTARGETMODESET_INTERFACE* functions_ = nullptr;

  SetHandle acquire(uint32_t target = kTargetB) {
    SetHandle set = nullptr;
    EXPECT_EQ(as_status(table_.pfnAcquireTargetModeSet(DriverSide::handle(call_), target, &set,
                                                       &functions_)),
              Status::kSuccess);
    return set;
  }
  SetHandle create(uint32_t target = kTargetB) {
    SetHandle set = nullptr;
    EXPECT_EQ(as_status(table_.pfnCreateNewTargetModeSet(DriverSide::handle(call_), target, &set,
                                                         &functions_)),
              Status::kSuccess);
    return set;
  }
  Status release(SetHandle set) {
    return as_status(table_.pfnReleaseTargetModeSet(DriverSide::handle(call_), set));
  }
  Status assign(SetHandle set, uint32_t target = kTargetB) {
    return as_status(table_.pfnAssignTargetModeSet(DriverSide::handle(call_), target, set));
  }
  AbiMode* create_info(SetHandle set) {
    AbiMode* info = nullptr;
    EXPECT_EQ(as_status(functions_->pfnCreateNewModeInfo(set, &info)), Status::kSuccess);
    return info;
  }
  Status add(SetHandle set, const TargetMode& mode) {
    AbiMode* info = create_info(set);
    to_abi(mode, info);
    return as_status(functions_->pfnAddMode(set, info));
  }
  void expect_last(size_t total, const char* rule, Confidence confidence, const char* text) {
    EXPECT_EQ(driver_.findings.total(), total) << text;
    const verifier::Finding last = driver_.findings.all().back();
    EXPECT_EQ(last.rule, rule) << text;
    EXPECT_EQ(last.severity, verifier::Severity::kViolation);
    EXPECT_EQ(last.confidence, confidence) << text;
    EXPECT_NE(last.actual.find(text), std::string::npos) << last.actual;
  }
};

TEST_F(TargetSets, ModesAreWalkedInTheirOrder) {
  DXGKIT_COVERS("VIDPN-25");
  const SetHandle set = acquire();
  SIZE_T count = 0;
  EXPECT_EQ(as_status(functions_->pfnGetNumModes(set, &count)), Status::kSuccess);
  EXPECT_EQ(count, 3U);
  const AbiMode* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set, &info)), Status::kSuccess);
  for (const uint32_t id : {3U, 9U, 5U}) {
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(from_abi(driver_.manager.profile(), *info), mode_of(id));
    const AbiMode* next = info;
    EXPECT_EQ(as_status(functions_->pfnAcquireNextModeInfo(set, info, &next)),
              id == 5 ? kNoMoreElements : Status::kSuccess);
    EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set, info)), Status::kSuccess);
    info = next;
  }
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(driver_.findings.total(), 0U);
  AbiMode* created = create_info(set);
  EXPECT_EQ(as_status(functions_->pfnAcquireNextModeInfo(set, created, &info)), kInvalidTargetMode);
  expect_last(1, "VIDPN-05", Confidence::kInferred, "The mode info is new, in no set.");
}

// New infos have the next free id and nothing else.
TEST_F(TargetSets, NewInfosHaveTheNextId) {
  const std::pair<SetHandle, uint32_t> rows[] = {{acquire(), 10}, {create(kTargetA), 1}};
  for (const auto& [set, first] : rows) {
    for (uint32_t id = first; id < first + 3; ++id) {
      AbiMode wanted;
      std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
      wanted.Id = id;
      EXPECT_EQ(std::memcmp(create_info(set), &wanted, sizeof wanted), 0) << id;
    }
  }
  // The largest id has no next one.
  Network network = some_network();
  network.target_sets[kTargetB].modes[0].id = UINT32_MAX;
  DdiCall nested(driver_.manager, Ddi::kRecommendFunctionalVidPn, network);
  SetHandle set = nullptr;
  ASSERT_EQ(as_status(table_.pfnAcquireTargetModeSet(DriverSide::handle(nested), kTargetB, &set,
                                                     &functions_)),
            Status::kSuccess);
  EXPECT_EQ(create_info(set)->Id, 10U);
}

TEST_F(TargetSets, NewSourceInfosHaveTheNextId) {
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* functions = nullptr;
  ASSERT_EQ(
      as_status(table_.pfnCreateNewSourceModeSet(DriverSide::handle(call_), 1, &set, &functions)),
      Status::kSuccess);
  for (uint32_t id = 1; id < 3; ++id) {
    D3DKMDT_VIDPN_SOURCE_MODE* info = nullptr;
    ASSERT_EQ(as_status(functions->pfnCreateNewModeInfo(set, &info)), Status::kSuccess);
    D3DKMDT_VIDPN_SOURCE_MODE wanted;
    std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
    wanted.Id = id;
    EXPECT_EQ(std::memcmp(info, &wanted, sizeof wanted), 0) << id;
  }
}

TEST_F(TargetSets, PreferenceAndIdMakeNoOtherMode) {
  DXGKIT_COVERS("VIDPN-09");
  const SetHandle set = acquire();
  TargetMode mode = mode_of(9);
  mode.id = 77;
  mode.preference = D3DKMDT_MP_NOTPREFERRED;
  EXPECT_EQ(add(set, mode), kModeAlreadyInModeSet);
  mode.signal.active.height -= 1;
  EXPECT_EQ(add(set, mode), Status::kSuccess);
  mode.signal.active.height -= 1;
  EXPECT_EQ(add(set, mode), kModeIdMustBeUnique);
  expect_last(1, "VIDPN-09", Confidence::kDocumented,
              "Mode id 77 is taken by another mode of the set.");
}

TEST_F(TargetSets, OpenObjectsAreCounted) {
  EXPECT_EQ(driver_.manager.open_objects(), 1U);
  acquire();
  acquire();
  const SetHandle made = create();
  EXPECT_EQ(driver_.manager.open_objects(), 4U);
  create_info(made);
  EXPECT_EQ(driver_.manager.open_objects(), 5U);
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* functions = nullptr;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(
        as_status(table_.pfnAcquireSourceModeSet(DriverSide::handle(call_), 1, &set, &functions)),
        Status::kSuccess);
    EXPECT_EQ(driver_.manager.open_objects(), 6U + i);
  }
  // Another call's objects stay when one ends.
  DdiCall nested(driver_.manager, Ddi::kIsSupportedVidPn, some_network());
  EXPECT_EQ(driver_.manager.open_objects(), 8U);
  nested.finish(Status::kSuccess);
  EXPECT_EQ(driver_.manager.open_objects(), 7U);
  EXPECT_EQ(driver_.findings.total(), 0U);
}

// One sentence for each object that is left, infos first; then silence.
TEST_F(TargetSets, TheEndOfACallNamesWhatIsLeft) {
  DXGKIT_COVERS("VIDPN-07");
  const SetHandle set = acquire();
  acquire();
  const AbiMode* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set, &info)), Status::kSuccess);
  const SetHandle made = create(kTargetA);
  create_info(made);
  const Network after = call_.finish(Status::kUnsuccessful);
  const std::vector<verifier::Finding> all = driver_.findings.all();
  const std::pair<const char*, const char*> wanted[] = {
      {"an acquired target mode info of target 512 (mode 3)", "pfnAcquireFirstModeInfo"},
      {"a new target mode info of target 256", "pfnCreateNewModeInfo"},
      {"The mode set of target 512 (2 references)", "pfnAcquireTargetModeSet"},
      {"The mode set of target 256 (1 references)", "pfnCreateNewTargetModeSet"},
  };
  ASSERT_EQ(all.size(), std::size(wanted));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].rule, "VIDPN-07");
    EXPECT_EQ(all[i].severity, verifier::Severity::kViolation);
    EXPECT_EQ(all[i].confidence, Confidence::kDocumented);
    EXPECT_EQ(all[i].ddi, "DxgkDdiRecommendFunctionalVidPn");
    EXPECT_EQ(all[i].actual, std::string(wanted[i].first) + ", from " + wanted[i].second +
                                 ", was still held when it was left to the end.");
  }
  EXPECT_EQ(after, some_network());
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
  // A second end is none.
  EXPECT_EQ(call_.finish(Status::kSuccess), some_network());
  EXPECT_EQ(driver_.findings.total(), 4U);
}

TEST_F(TargetSets, AnAbandonedCallIsNobodysLeak) {
  create_info(create());
  call_.finish(Status::kSuccess, /*abandoned=*/true);
  EXPECT_EQ(driver_.findings.total(), 0U);
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
}

TEST_F(TargetSets, InfosGoWithTheirSet) {
  DXGKIT_COVERS("VIDPN-06", "VIDPN-07", "VIDPN-26");
  const SetHandle set = acquire();
  acquire();
  const AbiMode* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set, &info)), Status::kSuccess);
  EXPECT_EQ(release(set), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 0U);  // still held once
  EXPECT_EQ(release(set), Status::kSuccess);
  expect_last(1, "VIDPN-07", Confidence::kDocumented,
              "held when it was gone with the release of its mode set.");
  EXPECT_EQ(release(set), kInvalidTargetModeSet);
  expect_last(2, "VIDPN-06", Confidence::kDocumented,
              "The handle is a target mode set that was released by pfnReleaseTargetModeSet.");
  const SetHandle made = create();
  create_info(made);
  EXPECT_EQ(add(made, mode_of(1)), Status::kSuccess);
  EXPECT_EQ(assign(made), Status::kSuccess);
  expect_last(
      3, "VIDPN-07", Confidence::kDocumented,
      "a new target mode info of target 512, from pfnCreateNewModeInfo, was still held when "
      "it was gone with the assignment of its mode set.");
  EXPECT_EQ(assign(made), kInvalidTargetModeSet);
  expect_last(4, "VIDPN-06", Confidence::kDocumented, "that was assigned by pfnAssign");
  EXPECT_EQ(driver_.manager.open_objects(), 1U);
}

// The faults of a handle, from none at all to one that has ended.
TEST_F(TargetSets, HandlesAreToldApart) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06");
  const SetHandle set = acquire();
  DriverSide other;
  DdiCall foreign(other.manager, Ddi::kIsSupportedVidPn, some_network());
  SetHandle theirs = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* functions = nullptr;
  ASSERT_EQ(as_status(other.vidpn(foreign).pfnAcquireTargetModeSet(DriverSide::handle(foreign),
                                                                   kTargetB, &theirs, &functions)),
            Status::kSuccess);
  const auto value = reinterpret_cast<uint64_t>(set);
  const SetHandle made = create();  // has the last serial there is
  const std::pair<SetHandle, const char*> rows[] = {
      {reinterpret_cast<SetHandle>(reinterpret_cast<uint64_t>(made) + 1),
       "The handle was never given out."},
      {nullptr, "The handle is NULL."},
      {reinterpret_cast<SetHandle>(&other), "The handle is a value that no interface function"},
      {reinterpret_cast<SetHandle>(value & ~(uint64_t{0xFF} << 48)), "no interface function"},
      {reinterpret_cast<SetHandle>((value & ~(uint64_t{0xFF} << 48)) | uint64_t{8} << 48),
       "no interface function"},
      {reinterpret_cast<SetHandle>(value & ~uint64_t{0xFFFFFFF}), "no interface function"},
      {theirs, "The handle belongs to another adapter."},
      {reinterpret_cast<SetHandle>(call_.vidpn()), "The handle is a VidPN."},
      {reinterpret_cast<SetHandle>(call_.topology()), "The handle is a topology."},
      {reinterpret_cast<SetHandle>((value & ~(uint64_t{0xFF} << 48)) | uint64_t{3} << 48),
       "The handle is a source mode set."},
      {reinterpret_cast<SetHandle>((value & ~(uint64_t{0xFF} << 48)) | uint64_t{5} << 48),
       "The handle is a monitor source mode set."},
      {reinterpret_cast<SetHandle>((value & ~(uint64_t{0xFF} << 48)) | uint64_t{6} << 48),
       "The handle is a monitor frequency range set."},
      {reinterpret_cast<SetHandle>((value & ~(uint64_t{0xFF} << 48)) | uint64_t{7} << 48),
       "The handle is a monitor descriptor set."},
  };
  size_t total = 0;
  for (const auto& [handle, text] : rows) {
    EXPECT_EQ(release(handle), kInvalidTargetModeSet) << text;
    const verifier::Finding last = driver_.findings.all().back();
    EXPECT_EQ(driver_.findings.total(), ++total);
    EXPECT_EQ(last.rule, "VIDPN-05") << text;
    EXPECT_EQ(last.confidence, Confidence::kDocumented);
    EXPECT_NE(last.actual.find(text), std::string::npos) << last.actual;
    EXPECT_EQ(last.expected,
              "The parameter takes a target mode set that is open in this DDI call.");
  }
  EXPECT_EQ(release(set), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnPinMode(set, 9)), kInvalidTargetModeSet);
  EXPECT_EQ(driver_.findings.all().back().rule, "VIDPN-06");
}

// How the last 512 handles ended is remembered; of older ones it is known that they were there.
TEST_F(TargetSets, HandlesThatEndedAreRememberedForAWhile) {
  DXGKIT_COVERS("VIDPN-06");
  SetHandle first = nullptr;
  for (int i = 0; i < 512; ++i) {
    const SetHandle set = create();
    if (i == 0) first = set;
    EXPECT_EQ(release(set), Status::kSuccess);
  }
  EXPECT_EQ(release(first), kInvalidTargetModeSet);
  expect_last(1, "VIDPN-06", Confidence::kDocumented,
              "The handle is a target mode set that was released by pfnReleaseTargetModeSet.");
  EXPECT_EQ(release(create()), Status::kSuccess);
  EXPECT_EQ(release(first), kInvalidTargetModeSet);
  expect_last(2, "VIDPN-06", Confidence::kDocumented,
              "The handle is a target mode set that was given back.");
}

TEST_F(TargetSets, SetsGoToTheirVidPnAndOwner) {
  DXGKIT_COVERS("VIDPN-08", "VIDPN-18", "VIDPN-27");
  DdiCall nested(driver_.manager, Ddi::kRecommendFunctionalVidPn, one_path(full_profile()));
  const SetHandle set = create();
  // The other VidPN may have a new one of the same target, and the same VidPN one of another.
  create(kTargetA);
  SetHandle theirs = nullptr;
  ASSERT_EQ(as_status(table_.pfnCreateNewTargetModeSet(DriverSide::handle(nested), kTargetA,
                                                       &theirs, &functions_)),
            Status::kSuccess);
  EXPECT_EQ(assign(theirs, kTargetA), kResourcesNotRelated);
  expect_last(1, "VIDPN-08", Confidence::kDocumented, "was created in another VidPN.");
  EXPECT_EQ(release(theirs), kResourcesNotRelated);
  expect_last(2, "VIDPN-08", Confidence::kDocumented, "belongs to another VidPN.");
  EXPECT_EQ(as_status(table_.pfnAssignTargetModeSet(DriverSide::handle(nested), kTargetB, theirs)),
            kTargetNotInTopology);
  expect_last(3, "VIDPN-18", Confidence::kInferred, "target 512 is in no path of this VidPN.");
  EXPECT_EQ(assign(set, 7), kInvalidTarget);
  expect_last(4, "VIDPN-17", Confidence::kDocumented, "target 7 is not there.");
  EXPECT_EQ(add(set, mode_of(1)), Status::kSuccess);
  EXPECT_EQ(assign(set, kTargetA), kResourcesNotRelated);
  expect_last(5, "VIDPN-18", Confidence::kDocumented,
              "The mode set was created for target 512, and is assigned to 256.");
  EXPECT_EQ(assign(set), kInvalidTargetModeSet);
  expect_last(6, "VIDPN-06", Confidence::kDocumented,
              "released by pfnAssignTargetModeSet, which failed");
  EXPECT_EQ(assign(create()), Status::kInvalidParameter);
  expect_last(7, "VIDPN-18", Confidence::kDocumented, "The mode set has no mode.");
  SetHandle again = nullptr;
  EXPECT_EQ(as_status(table_.pfnCreateNewTargetModeSet(DriverSide::handle(call_), kTargetA, &again,
                                                       &functions_)),
            kUnassignedModeSetExists);
  expect_last(8, "VIDPN-27", Confidence::kInferred, "A new mode set of target 256 is there");
  EXPECT_EQ(again, nullptr);
}

TEST_F(TargetSets, APinIsInheritedOrReplaced) {
  DXGKIT_COVERS("VIDPN-15");
  const SetHandle old = acquire();
  EXPECT_EQ(as_status(functions_->pfnPinMode(old, 9)), Status::kSuccess);
  SetHandle set = create();
  for (const uint32_t id : {1U, 2U}) EXPECT_EQ(add(set, mode_of(id)), Status::kSuccess);
  EXPECT_EQ(assign(set), kPinnedModeMustRemain);
  expect_last(1, "VIDPN-15", Confidence::kDocumented,
              "target 512 has 1911x1080@60 (148500000 Hz, 2200x1125) pinned, which the new set");
  // The same mode under another id inherits; a pin of its own stays.
  for (const bool own : {false, true}) {
    set = create();
    TargetMode kept = mode_of(9);
    kept.id = own ? 33 : 22;
    for (const TargetMode& mode : {mode_of(1), kept, mode_of(2)})
      EXPECT_EQ(add(set, mode), Status::kSuccess);
    if (own) {
      EXPECT_EQ(as_status(functions_->pfnPinMode(set, 2)), Status::kSuccess);
    }
    EXPECT_EQ(assign(set), Status::kSuccess);
    const SetHandle now = acquire();
    const AbiMode* pinned = nullptr;
    EXPECT_EQ(as_status(functions_->pfnAcquirePinnedModeInfo(now, &pinned)), Status::kSuccess);
    EXPECT_EQ(pinned->Id, own ? 2U : 22U);
    EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(now, pinned)), Status::kSuccess);
    EXPECT_EQ(release(now), Status::kSuccess);
  }
  // The set that was replaced is still held, as it was.
  const AbiMode* pinned = nullptr;
  EXPECT_EQ(as_status(functions_->pfnAcquirePinnedModeInfo(old, &pinned)), Status::kSuccess);
  EXPECT_EQ(pinned->Id, 9U);
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(old, pinned)), Status::kSuccess);
  EXPECT_EQ(release(old), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 1U) << driver_.texts();
}

TEST_F(TargetSets, EveryOutputMustBeWritable) {
  DXGKIT_COVERS("VIDPN-24");
  const SetHandle set = acquire();
  const AbiMode* info = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set, &info)), Status::kSuccess);
  SetHandle handle = nullptr;
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
  const auto vidpn = DriverSide::handle(call_);
  const NTSTATUS rows[] = {
      functions_->pfnGetNumModes(set, nullptr),
      functions_->pfnAcquireFirstModeInfo(set, nullptr),
      functions_->pfnAcquireNextModeInfo(set, info, nullptr),
      functions_->pfnAcquirePinnedModeInfo(set, nullptr),
      functions_->pfnCreateNewModeInfo(set, nullptr),
      table_.pfnAcquireTargetModeSet(vidpn, kTargetB, nullptr, &functions_),
      table_.pfnAcquireTargetModeSet(vidpn, kTargetB, &handle, nullptr),
      table_.pfnCreateNewTargetModeSet(vidpn, kTargetB, nullptr, &functions_),
      table_.pfnCreateNewTargetModeSet(vidpn, kTargetB, &handle, nullptr),
      table_.pfnGetTopology(vidpn, nullptr, &paths),
      table_.pfnGetTopology(vidpn, &topology, nullptr),
  };
  for (const NTSTATUS status : rows) EXPECT_EQ(as_status(status), Status::kInvalidParameter);
  EXPECT_EQ(driver_.findings.count("VIDPN-24"), std::size(rows));
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(topology, nullptr);
  EXPECT_EQ(driver_.manager.open_objects(), 3U);
}

TEST(VidPnInterface, VersionTwoBeginsWithWddm29) {
  DXGKIT_COVERS("VIDPN-24");
  for (const uint32_t version :
       {DXGKDDI_INTERFACE_VERSION_WDDM2_9 - 1, DXGKDDI_INTERFACE_VERSION_WDDM2_9}) {
    Profile profile = full_profile();
    profile.interface_version = version;
    DriverSide driver(profile);
    const DdiCall call(driver.manager, Ddi::kIsSupportedVidPn, some_network());
    const bool has_v2 = version == DXGKDDI_INTERFACE_VERSION_WDDM2_9;
    const DXGK_VIDPN_INTERFACE& first = driver.vidpn(call);
    EXPECT_EQ(first.Version, DXGK_VIDPN_INTERFACE_VERSION_V1);
    const void* table = nullptr;
    EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 2, &table),
              has_v2 ? Status::kSuccess : Status::kNotSupported);
    ASSERT_EQ(table != nullptr, has_v2);
    if (has_v2) {
      DXGK_VIDPN_INTERFACE second = *static_cast<const DXGK_VIDPN_INTERFACE*>(table);
      EXPECT_EQ(second.Version, DXGK_VIDPN_INTERFACE_VERSION_V2);
      second.Version = first.Version;
      EXPECT_EQ(std::memcmp(&second, &first, sizeof first), 0);
    }
    EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 0, &table), Status::kNotSupported);
    EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 3, &table), Status::kNotSupported);
    EXPECT_EQ(driver.findings.all().back().confidence, Confidence::kDocumented);
  }
}

// Shown transformations are among the supported ones, where any is named.
TEST(Functional, WhatIsShownIsSupported) {
  DXGKIT_COVERS("VIDPN-20");
  const Profile profile = full_profile();
  Network good = one_path(profile);
  good.source_sets[0].modes = {good_source_mode()};
  good.source_sets[0].pinned = 0;
  good.target_sets[kTargetA].modes = {good_target_mode()};
  good.target_sets[kTargetA].pinned = 0;
  const auto count = [&](const Network& network, const char* rule) {
    verifier::Findings findings;
    const bool fine = check_functional(network, profile, findings, "D");
    EXPECT_EQ(fine, findings.total() == 0);
    EXPECT_EQ(findings.count(rule), findings.total());
    for (const verifier::Finding& finding : findings.all()) {
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.confidence, Confidence::kDocumented);
      EXPECT_EQ(finding.ddi, "D");
    }
    return findings.total();
  };
  for (uint32_t scaling = 0; scaling < 8; ++scaling) {
    for (const uint32_t support : {0U, 1U, 2U, 4U, 8U, 16U, 32U, 31U}) {
      Network network = good;
      network.paths[0].scaling = scaling;
      network.paths[0].scaling_support = support;
      const uint32_t bits[] = {0, 1, 2, 4, 8, 16};
      const bool lacks =
          scaling >= 1 && scaling <= 5 && support != 0 && (support & bits[scaling]) == 0;
      EXPECT_EQ(count(network, "VIDPN-20"), lacks ? 1U : 0U) << scaling << " " << support;
    }
  }
  for (uint32_t rotation = 0; rotation < 20; ++rotation) {
    for (uint32_t support = 0; support < 32; ++support) {
      Network network = good;
      network.paths[0].rotation = rotation;
      network.paths[0].rotation_support = support;
      const bool lacks = rotation >= 1 && rotation <= 16 && (support & 15) != 0 &&
                         (support & 1U << (rotation + 3) % 4) == 0;
      EXPECT_EQ(count(network, "VIDPN-20"), lacks ? 1U : 0U) << rotation << " " << support;
    }
  }
  // Ids of the adapter, each alone.
  for (int member = 0; member < 2; ++member) {
    Network network = good;
    if (member == 0) network.paths[0].source = 2;
    if (member == 1) network.paths[0].target = 7;
    verifier::Findings findings;
    EXPECT_FALSE(check_functional(network, profile, findings, "D"));
    EXPECT_NE(findings.all()[0].actual.find("names a source or target that is not there"),
              std::string::npos);
  }
  // A source that is shown twice is asked for its mode once.
  Network clone = clone_paths(profile);
  clone.target_sets[kTargetA].modes = clone.target_sets[kTargetB].modes = {good_target_mode()};
  clone.target_sets[kTargetA].pinned = clone.target_sets[kTargetB].pinned = 0;
  EXPECT_EQ(count(clone, "VIDPN-16"), 1U);
}

// The pivot, and sets with a pin, may be renumbered and nothing else.
TEST(Cofunctional, SetsThatStayAreComparedWhole) {
  DXGKIT_COVERS("VIDPN-19");
  const Profile profile = full_profile();
  Network before = some_network();
  for (const uint32_t source : {0U, 1U}) before.source_sets[source].modes = {good_source_mode()};
  before.target_sets[kTargetA].modes = {good_target_mode()};
  before.target_sets[kTargetB].pinned = 9;
  const auto count = [&](const Network& after, const Pivot& pivot) {
    verifier::Findings findings;
    const bool fine = check_cofunctional(before, after, pivot, profile, findings);
    EXPECT_EQ(fine, findings.total() == 0);
    EXPECT_EQ(findings.count("VIDPN-19"), findings.total());
    return findings.total();
  };
  const auto with = [&](auto change) {
    Network after = before;
    change(after.target_sets[kTargetB]);
    return count(after, {});
  };
  EXPECT_EQ(count(before, {}), 0U);
  EXPECT_EQ(with([](TargetModeSet& set) {
              set.modes[1].id = 40;
              set.modes[2].id = 41;
              set.pinned = 40;
            }),
            0U);
  EXPECT_EQ(with([](TargetModeSet& set) { set.pinned = 5; }), 1U);
  EXPECT_EQ(with([](TargetModeSet& set) { set.pinned.reset(); }), 1U);
  EXPECT_EQ(with([](TargetModeSet& set) { set.modes.pop_back(); }), 1U);
  EXPECT_EQ(with([](TargetModeSet& set) { set.modes[2].preference = 2; }), 1U);
  EXPECT_EQ(with([](TargetModeSet& set) { std::swap(set.modes[0], set.modes[2]); }), 1U);
  // Others may change, but are not pinned and not empty.
  Network after = before;
  after.target_sets[kTargetA].modes = {mode_of(1), mode_of(2)};
  EXPECT_EQ(count(after, {}), 0U);
  EXPECT_EQ(count(after, {.kind = Pivot::Kind::kTarget, .target = kTargetA}), 1U);
  EXPECT_EQ(count(after, {.kind = Pivot::Kind::kSource, .source = 1, .target = kTargetA}), 0U);
  after.target_sets[kTargetA].pinned = 2;
  EXPECT_EQ(count(after, {}), 1U);
  after = before;
  after.source_sets[1].modes[0].stride_bytes = 8192;
  EXPECT_EQ(count(after, {.kind = Pivot::Kind::kSource, .source = 1}), 1U);
  EXPECT_EQ(count(after, {.kind = Pivot::Kind::kTarget, .source = 1, .target = kTargetB}), 0U);
  after.source_sets[1].modes.clear();
  EXPECT_EQ(count(after, {}), 1U);
}

}  // namespace
}  // namespace dxgkit::vidpn
