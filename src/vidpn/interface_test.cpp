// The interfaces as a driver meets them: what works, and every refusal with its exact status and
// nothing changed.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using Call = DdiCall;
constexpr Ddi kEnum = Ddi::kEnumVidPnCofuncModality;
constexpr Ddi kRecommend = Ddi::kRecommendFunctionalVidPn;

/// Source or target: the two interfaces are alike.
template <typename Mode>
struct Side;
template <>
struct Side<SourceMode> {
  static constexpr uint32_t kOwner = 0;
  static constexpr uint32_t kOther = 1;
  static constexpr Status kInvalidSet = kInvalidSourceModeSet;
  static constexpr Status kInvalidMode = kInvalidSourceMode;
  static constexpr Status kInvalidOwner = kInvalidSource;
  static constexpr Status kNotInTopology = kSourceNotInTopology;
  using Handle = D3DKMDT_HVIDPNSOURCEMODESET;
  using Interface = DXGK_VIDPNSOURCEMODESET_INTERFACE;
  using Abi = D3DKMDT_VIDPN_SOURCE_MODE;
  static auto acquire(const DXGK_VIDPN_INTERFACE& table) { return table.pfnAcquireSourceModeSet; }
  static auto release(const DXGK_VIDPN_INTERFACE& table) { return table.pfnReleaseSourceModeSet; }
  static auto create(const DXGK_VIDPN_INTERFACE& table) { return table.pfnCreateNewSourceModeSet; }
  static auto assign(const DXGK_VIDPN_INTERFACE& table) { return table.pfnAssignSourceModeSet; }
  static SourceMode good() { return good_source_mode(); }
  static SourceMode other() {
    SourceMode mode = good_source_mode();
    mode.surface = mode.visible = {1280, 720};
    mode.stride_bytes = 5120;
    return mode;
  }
};
template <>
struct Side<TargetMode> {
  static constexpr uint32_t kOwner = kTargetA;
  static constexpr uint32_t kOther = kTargetB;
  static constexpr Status kInvalidSet = kInvalidTargetModeSet;
  static constexpr Status kInvalidMode = kInvalidTargetMode;
  static constexpr Status kInvalidOwner = kInvalidTarget;
  static constexpr Status kNotInTopology = kTargetNotInTopology;
  using Handle = D3DKMDT_HVIDPNTARGETMODESET;
  using Interface = DXGK_VIDPNTARGETMODESET_INTERFACE;
  using Abi = D3DKMDT_VIDPN_TARGET_MODE;
  static auto acquire(const DXGK_VIDPN_INTERFACE& table) { return table.pfnAcquireTargetModeSet; }
  static auto release(const DXGK_VIDPN_INTERFACE& table) { return table.pfnReleaseTargetModeSet; }
  static auto create(const DXGK_VIDPN_INTERFACE& table) { return table.pfnCreateNewTargetModeSet; }
  static auto assign(const DXGK_VIDPN_INTERFACE& table) { return table.pfnAssignTargetModeSet; }
  static TargetMode good() { return good_target_mode(); }
  static TargetMode other() {
    TargetMode mode = good_target_mode();
    mode.signal.active = {1280, 720};
    mode.signal.total = {1650, 750};
    mode.signal.hsync = {45000, 1};
    mode.signal.pixel_rate = 74'250'000;
    return mode;
  }
};

template <typename Mode>
class ModeSets : public ::testing::Test {
 protected:
  using SideOf = Side<Mode>;
  using SetHandle = typename SideOf::Handle;
  using ModeInfo = typename SideOf::Abi;

  DriverSide driver_;
  const typename SideOf::Interface* functions_ = nullptr;

  SetHandle create(const Call& call, uint32_t owner = SideOf::kOwner) {
    SetHandle set = nullptr;
    EXPECT_EQ(as_status(SideOf::create(driver_.vidpn(call))(DriverSide::handle(call), owner, &set,
                                                            &functions_)),
              Status::kSuccess);
    return set;
  }
  SetHandle acquire(const Call& call, uint32_t owner = SideOf::kOwner) {
    SetHandle set = nullptr;
    EXPECT_EQ(as_status(SideOf::acquire(driver_.vidpn(call))(DriverSide::handle(call), owner, &set,
                                                             &functions_)),
              Status::kSuccess);
    return set;
  }
  Status release(const Call& call, SetHandle set) {
    return as_status(SideOf::release(driver_.vidpn(call))(DriverSide::handle(call), set));
  }
  Status assign(const Call& call, SetHandle set, uint32_t owner = SideOf::kOwner) {
    return as_status(SideOf::assign(driver_.vidpn(call))(DriverSide::handle(call), owner, set));
  }
  ModeInfo* fill(SetHandle set, const Mode& mode) {
    ModeInfo* info = nullptr;
    EXPECT_EQ(as_status(functions_->pfnCreateNewModeInfo(set, &info)), Status::kSuccess);
    const UINT id = info->Id;
    to_abi(mode, info);
    info->Id = id;
    return info;
  }
  Status add(SetHandle set, const Mode& mode) {
    ModeInfo* info = fill(set, mode);
    const Status status = as_status(functions_->pfnAddMode(set, info));
    if (!is_success(status)) {
      EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set, info)), Status::kSuccess);
    }
    return status;
  }
  size_t count(SetHandle set) {
    SIZE_T modes = 99;
    EXPECT_EQ(as_status(functions_->pfnGetNumModes(set, &modes)), Status::kSuccess);
    return modes;
  }
};
using Modes = ::testing::Types<SourceMode, TargetMode>;
TYPED_TEST_SUITE(ModeSets, Modes);

// Create, add, assign, enumerate, pin: the way every driver goes.
TYPED_TEST(ModeSets, TheUsualWay) {
  DXGKIT_COVERS("VIDPN-25", "VIDPN-26");
  using S = Side<TypeParam>;
  Call call(this->driver_.manager, kRecommend, one_path(full_profile()));
  auto set = this->create(call);
  const typename S::Abi* info = nullptr;
  EXPECT_EQ(as_status(this->functions_->pfnAcquireFirstModeInfo(set, &info)), kDataSetIsEmpty);
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  EXPECT_EQ(this->add(set, S::other()), Status::kSuccess);
  EXPECT_EQ(this->add(set, S::good()), kModeAlreadyInModeSet);
  EXPECT_EQ(this->count(set), 2U);
  EXPECT_EQ(as_status(this->functions_->pfnAcquirePinnedModeInfo(set, &info)), kModeNotPinned);
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(this->assign(call, set), Status::kSuccess);

  set = this->acquire(call);
  const typename S::Abi* first = nullptr;
  const typename S::Abi* second = nullptr;
  ASSERT_EQ(as_status(this->functions_->pfnAcquireFirstModeInfo(set, &first)), Status::kSuccess);
  ASSERT_EQ(as_status(this->functions_->pfnAcquireNextModeInfo(set, first, &second)),
            Status::kSuccess);
  EXPECT_EQ(as_status(this->functions_->pfnAcquireNextModeInfo(set, second, &info)),
            kNoMoreElements);
  EXPECT_EQ(info, nullptr);
  EXPECT_EQ(as_status(this->functions_->pfnPinMode(set, second->Id)), Status::kSuccess);
  const typename S::Abi* pinned = nullptr;
  ASSERT_EQ(as_status(this->functions_->pfnAcquirePinnedModeInfo(set, &pinned)), Status::kSuccess);
  EXPECT_EQ(pinned->Id, second->Id);
  for (const typename S::Abi* held : {first, second, pinned})
    EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(set, held)), Status::kSuccess);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  EXPECT_EQ(this->driver_.findings.total(), 0U) << this->driver_.texts();
  const Network after = call.finish(Status::kSuccess);
  if constexpr (std::is_same_v<TypeParam, SourceMode>) {
    EXPECT_EQ(after.pinned_source_mode(0)->surface, (Size{1280, 720}));
  } else {
    EXPECT_EQ(after.pinned_target_mode(kTargetA)->signal.active, (Size{1280, 720}));
  }
  // The other side has nothing pinned, and that is all there is to say.
  EXPECT_EQ(this->driver_.findings.total(), 1U);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-16"), 1U);
  EXPECT_EQ(this->driver_.manager.open_objects(), 0U);
}

TYPED_TEST(ModeSets, RefusesForeignStaleAndWrongHandles) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-31");
  using S = Side<TypeParam>;
  using Handle = typename S::Handle;
  Call call(this->driver_.manager, kRecommend, one_path(full_profile()));
  Handle set = this->create(call);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  SIZE_T modes = 99;
  int on_stack = 0;
  const std::array<Handle, 5> wrong = {
      nullptr, reinterpret_cast<Handle>(&on_stack), reinterpret_cast<Handle>(call.vidpn()),
      reinterpret_cast<Handle>(reinterpret_cast<uintptr_t>(set) + 7),
      reinterpret_cast<Handle>(uintptr_t{0x5D03FFFFF0000001})};
  for (const Handle bad : wrong) {
    const size_t before = this->driver_.findings.count("VIDPN-05");
    EXPECT_EQ(as_status(this->functions_->pfnGetNumModes(bad, &modes)), S::kInvalidSet);
    EXPECT_EQ(modes, 99U);
    EXPECT_EQ(this->driver_.findings.count("VIDPN-05"), before + 1);
    EXPECT_EQ(this->release(call, bad), S::kInvalidSet);
    EXPECT_EQ(this->assign(call, bad), S::kInvalidSet);
  }
  EXPECT_EQ(this->count(set), 1U);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-06"), 0U);
  EXPECT_EQ(as_status(this->functions_->pfnGetNumModes(set, &modes)), S::kInvalidSet);
  EXPECT_EQ(this->release(call, set), S::kInvalidSet);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-06"), 2U);

  const void* table = nullptr;
  EXPECT_EQ(Manager::query_vidpn_interface(set, 1, &table), kInvalidVidPn);
  EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 7, &table), Status::kNotSupported);
  EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 2, &table), Status::kNotSupported);
  EXPECT_EQ(Manager::query_vidpn_interface(call.vidpn(), 1, nullptr), Status::kInvalidParameter);
  EXPECT_EQ(table, nullptr);
}

TYPED_TEST(ModeSets, HandlesDieWithTheCall) {
  DXGKIT_COVERS("VIDPN-06", "VIDPN-07");
  auto first = std::make_unique<Call>(this->driver_.manager, kRecommend, one_path(full_profile()));
  const auto set = this->create(*first);
  EXPECT_EQ(this->add(set, Side<TypeParam>::good()), Status::kSuccess);
  this->fill(set, Side<TypeParam>::other());
  const D3DKMDT_HVIDPN vidpn = DriverSide::handle(*first);
  const DXGK_VIDPN_INTERFACE& table = this->driver_.vidpn(*first);
  first->finish(Status::kUnsuccessful);
  // One for the created mode info, one for the created set.
  EXPECT_EQ(this->driver_.findings.count("VIDPN-07"), 2U) << this->driver_.texts();
  EXPECT_EQ(this->driver_.manager.open_objects(), 0U);
  SIZE_T modes = 99;
  EXPECT_EQ(as_status(this->functions_->pfnGetNumModes(set, &modes)), Side<TypeParam>::kInvalidSet);
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* paths = nullptr;
  EXPECT_EQ(as_status(table.pfnGetTopology(vidpn, &topology, &paths)), kInvalidVidPn);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-06"), 2U);
}

TYPED_TEST(ModeSets, InfosAreUsedOnceAndInTheirSet) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-08", "VIDPN-09", "VIDPN-22");
  using S = Side<TypeParam>;
  const SourceTarget pairs[] = {{0, kTargetA}, {1, kTargetB}};
  Call call(this->driver_.manager, kRecommend, constraining_network(full_profile(), pairs));
  auto set = this->create(call);
  auto other = this->create(call, S::kOther);
  typename S::Abi* info = this->fill(set, S::good());
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(other, info)), kResourcesNotRelated);
  EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(other, info)), kResourcesNotRelated);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-08"), 2U);
  typename S::Abi copy = *info;
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, &copy)), S::kInvalidMode);
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, nullptr)), S::kInvalidMode);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-05"), 2U);
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, info)), Status::kSuccess);
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, info)), S::kInvalidMode);
  EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(set, info)), S::kInvalidMode);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-06"), 2U);
  EXPECT_EQ(this->count(set), 1U);

  info = this->fill(set, S::other());
  info->Id = 1;
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, info)), kModeIdMustBeUnique);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-09"), 1U);
  EXPECT_EQ(this->count(set), 1U);
  EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(set, info)), Status::kSuccess);

  const typename S::Abi* acquired = nullptr;
  ASSERT_EQ(as_status(this->functions_->pfnAcquireFirstModeInfo(set, &acquired)), Status::kSuccess);
  EXPECT_EQ(as_status(this->functions_->pfnAddMode(set, const_cast<typename S::Abi*>(acquired))),
            S::kInvalidMode);
  const_cast<typename S::Abi*>(acquired)->Id = 77;
  EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(set, acquired)), Status::kSuccess);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-22"), 1U);
  EXPECT_EQ(as_status(this->functions_->pfnPinMode(set, 77)), S::kInvalidMode);
  EXPECT_EQ(as_status(this->functions_->pfnGetNumModes(set, nullptr)), Status::kInvalidParameter);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-24"), 1U);
}

TYPED_TEST(ModeSets, AssignmentConsumesExceptForWrongHandles) {
  DXGKIT_COVERS("VIDPN-08", "VIDPN-15", "VIDPN-18", "VIDPN-26", "VIDPN-27");
  using S = Side<TypeParam>;
  const SourceTarget pairs[] = {{0, kTargetA}, {1, kTargetB}};
  Call call(this->driver_.manager, kRecommend, constraining_network(full_profile(), pairs));
  auto set = this->create(call);
  // A second one is refused while the first is neither assigned nor released.
  typename S::Handle again = nullptr;
  EXPECT_EQ(as_status(S::create(this->driver_.vidpn(call))(DriverSide::handle(call), S::kOwner,
                                                           &again, &this->functions_)),
            kUnassignedModeSetExists);
  EXPECT_EQ(again, nullptr);
  // Wrong id: still the driver's.
  EXPECT_EQ(this->assign(call, set, 99), S::kInvalidOwner);
  EXPECT_EQ(this->count(set), 0U);
  // Empty: released.
  EXPECT_EQ(this->assign(call, set), Status::kInvalidParameter);
  EXPECT_EQ(this->release(call, set), S::kInvalidSet);
  // For another owner: released.
  set = this->create(call);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set, S::kOther), kResourcesNotRelated);
  EXPECT_EQ(this->release(call, set), S::kInvalidSet);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-18"), 2U);
  // Good, then once more: it is gone.
  set = this->create(call);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  EXPECT_EQ(as_status(this->functions_->pfnPinMode(set, 1)), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set), S::kInvalidSet);
  // An acquired set is no new one.
  set = this->acquire(call);
  EXPECT_EQ(this->assign(call, set), S::kInvalidSet);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-08"), 1U);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  // The pinned mode must stay; a set that has it inherits the pin.
  set = this->create(call);
  EXPECT_EQ(this->add(set, S::other()), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set), kPinnedModeMustRemain);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-15"), 1U);
  set = this->create(call);
  EXPECT_EQ(this->add(set, S::other()), Status::kSuccess);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set), Status::kSuccess);
  set = this->acquire(call);
  const typename S::Abi* pinned = nullptr;
  ASSERT_EQ(as_status(this->functions_->pfnAcquirePinnedModeInfo(set, &pinned)), Status::kSuccess);
  EXPECT_EQ(pinned->Id, 2U);
  EXPECT_EQ(as_status(this->functions_->pfnReleaseModeInfo(set, pinned)), Status::kSuccess);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
}

TYPED_TEST(ModeSets, OwnersMustBeInTheTopology) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-18");
  using S = Side<TypeParam>;
  Call call(this->driver_.manager, kRecommend, one_path(full_profile()));
  typename S::Handle set = nullptr;
  for (const auto function :
       {S::acquire(this->driver_.vidpn(call)), S::create(this->driver_.vidpn(call))}) {
    EXPECT_EQ(as_status(function(DriverSide::handle(call), 99, &set, &this->functions_)),
              S::kInvalidOwner);
    EXPECT_EQ(as_status(function(DriverSide::handle(call), S::kOther, &set, &this->functions_)),
              S::kNotInTopology);
    EXPECT_EQ(as_status(function(DriverSide::handle(call), S::kOwner, nullptr, &this->functions_)),
              Status::kInvalidParameter);
    EXPECT_EQ(as_status(function(nullptr, S::kOwner, &set, &this->functions_)), kInvalidVidPn);
  }
  EXPECT_EQ(set, nullptr);
  EXPECT_EQ(this->driver_.manager.open_objects(), 1U);  // the VidPN itself
}

TYPED_TEST(ModeSets, ReferencesAreCounted) {
  DXGKIT_COVERS("VIDPN-26");
  Call call(this->driver_.manager, kEnum, one_path(full_profile()));
  const auto set = this->acquire(call);
  EXPECT_EQ(this->acquire(call), set);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  EXPECT_EQ(this->count(set), 0U);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  EXPECT_EQ(this->release(call, set), Side<TypeParam>::kInvalidSet);
  EXPECT_EQ(this->acquire(call), set);
  EXPECT_EQ(this->release(call, set), Status::kSuccess);
  // A set of another VidPN is refused, and stays.
  Call nested(this->driver_.manager, kEnum, one_path(full_profile()));
  const auto foreign = this->acquire(nested);
  EXPECT_EQ(this->release(call, foreign), kResourcesNotRelated);
  EXPECT_EQ(this->release(nested, foreign), Status::kSuccess);
}

TYPED_TEST(ModeSets, AReplacedSetLivesWhileHeld) {
  DXGKIT_COVERS("VIDPN-26");
  using S = Side<TypeParam>;
  Call call(this->driver_.manager, kRecommend, one_path(full_profile()));
  const auto held = this->acquire(call);
  const auto set = this->create(call);
  EXPECT_EQ(this->add(set, S::good()), Status::kSuccess);
  EXPECT_EQ(this->assign(call, set), Status::kSuccess);
  EXPECT_EQ(this->count(held), 0U);
  EXPECT_EQ(this->release(call, held), Status::kSuccess);
  EXPECT_EQ(this->release(call, held), S::kInvalidSet);
}

// Nothing can be changed in a DDI that only looks.
TYPED_TEST(ModeSets, ReadOnlyCallsChangeNothing) {
  DXGKIT_COVERS("VIDPN-14", "VIDPN-31");
  using S = Side<TypeParam>;
  for (const Ddi ddi : {Ddi::kIsSupportedVidPn, Ddi::kCommitVidPn, Ddi::kSetTimingsFromVidPn,
                        Ddi::kQueryVidPnHwCapability}) {
    Network network = one_path(full_profile());
    if constexpr (std::is_same_v<TypeParam, SourceMode>) {
      network.source_sets[0].modes = {S::good()};
      network.source_sets[0].modes[0].id = 1;
    } else {
      network.target_sets[kTargetA].modes = {S::good()};
      network.target_sets[kTargetA].modes[0].id = 1;
    }
    Call call(this->driver_.manager, ddi, network);
    const auto set = this->acquire(call);
    EXPECT_EQ(as_status(this->functions_->pfnPinMode(set, 1)), Status::kAccessDenied);
    EXPECT_EQ(this->add(set, S::other()), Status::kAccessDenied);
    EXPECT_EQ(this->release(call, set), Status::kSuccess);
    const auto made = this->create(call);
    EXPECT_EQ(this->add(made, S::other()), Status::kSuccess);
    EXPECT_EQ(this->assign(call, made), Status::kAccessDenied);
    EXPECT_EQ(this->release(call, made), Status::kSuccess);
    EXPECT_EQ(call.finish(Status::kSuccess), network);
  }
  EXPECT_EQ(this->driver_.findings.count("VIDPN-14"), 12U);
  EXPECT_EQ(this->driver_.findings.count("VIDPN-07"), 0U);
}

// The wrong value never gets into the set, and the finding carries the author's sentence.
TEST(TargetModes, OpenFrequencyIsRefusedWithTheSentence) {
  DXGKIT_COVERS("VIDPN-01", "VIDPN-31");
  DriverSide driver;
  Call call(driver.manager, kEnum, one_path(full_profile()));
  D3DKMDT_HVIDPNTARGETMODESET set = nullptr;
  const DXGK_VIDPNTARGETMODESET_INTERFACE* functions = nullptr;
  ASSERT_EQ(as_status(driver.vidpn(call).pfnCreateNewTargetModeSet(DriverSide::handle(call),
                                                                   kTargetA, &set, &functions)),
            Status::kSuccess);
  D3DKMDT_VIDPN_TARGET_MODE* info = nullptr;
  ASSERT_EQ(as_status(functions->pfnCreateNewModeInfo(set, &info)), Status::kSuccess);
  const UINT id = info->Id;
  to_abi(TargetMode{.signal = open_signal(), .preference = D3DKMDT_MP_PREFERRED}, info);
  info->Id = id;
  EXPECT_EQ(as_status(functions->pfnAddMode(set, info)), kInvalidFrequency);
  const std::string text = driver.texts();
  EXPECT_NE(text.find("VIDPN-01"), std::string::npos);
  EXPECT_NE(text.find("DXGK_VIDPNTARGETMODESET_INTERFACE.pfnAddMode"), std::string::npos) << text;
  EXPECT_NE(text.find("(inside DxgkDdiEnumVidPnCofuncModality)"), std::string::npos) << text;
  EXPECT_NE(text.find("nominal timing (60/1)"), std::string::npos) << text;
  SIZE_T modes = 99;
  EXPECT_EQ(as_status(functions->pfnGetNumModes(set, &modes)), Status::kSuccess);
  EXPECT_EQ(modes, 0U);
  EXPECT_EQ(as_status(functions->pfnReleaseModeInfo(set, info)), Status::kSuccess);
  EXPECT_EQ(as_status(driver.vidpn(call).pfnReleaseTargetModeSet(DriverSide::handle(call), set)),
            Status::kSuccess);
}

class Topology : public ::testing::Test {
 protected:
  DriverSide driver_;
  D3DKMDT_HVIDPNTOPOLOGY handle_ = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* functions_ = nullptr;
  const D3DKMDT_VIDPN_PRESENT_PATH* info_ = nullptr;

  void open(const Call& call) {
    ASSERT_EQ(as_status(driver_.vidpn(call).pfnGetTopology(DriverSide::handle(call), &handle_,
                                                           &functions_)),
              Status::kSuccess);
    EXPECT_EQ(handle_, call.topology());
  }
  Status add(uint32_t source, uint32_t target, uint32_t importance) {
    D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
    EXPECT_EQ(as_status(functions_->pfnCreateNewPathInfo(handle_, &path)), Status::kSuccess);
    Path good;
    good.source = source;
    good.target = target;
    good.importance = importance;
    good.scaling = D3DKMDT_VPPS_IDENTITY;
    good.rotation = D3DKMDT_VPPR_IDENTITY;
    std::vector<std::byte> gamma;
    to_abi(good, &gamma, path);
    const Status status = as_status(functions_->pfnAddPath(handle_, path));
    if (!is_success(status)) {
      EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, path)), Status::kSuccess);
    }
    return status;
  }
};

TEST_F(Topology, Enumerates) {
  DXGKIT_COVERS("VIDPN-25");
  Call call(driver_.manager, Ddi::kIsSupportedVidPn, clone_paths(full_profile()));
  open(call);
  SIZE_T paths = 0;
  EXPECT_EQ(as_status(functions_->pfnGetNumPaths(handle_, &paths)), Status::kSuccess);
  EXPECT_EQ(paths, 2U);
  EXPECT_EQ(as_status(functions_->pfnGetNumPathsFromSource(handle_, 0, &paths)), Status::kSuccess);
  EXPECT_EQ(paths, 2U);
  EXPECT_EQ(as_status(functions_->pfnGetNumPathsFromSource(handle_, 1, &paths)),
            kSourceNotInTopology);
  UINT id = 0;
  EXPECT_EQ(as_status(functions_->pfnEnumPathTargetsFromSource(handle_, 0, 1, &id)),
            Status::kSuccess);
  EXPECT_EQ(id, kTargetB);
  EXPECT_EQ(as_status(functions_->pfnEnumPathTargetsFromSource(handle_, 0, 2, &id)),
            Status::kInvalidParameter);
  EXPECT_EQ(as_status(functions_->pfnGetPathSourceFromTarget(handle_, kTargetB, &id)),
            Status::kSuccess);
  EXPECT_EQ(id, 0U);
  EXPECT_EQ(as_status(functions_->pfnGetPathSourceFromTarget(handle_, 5, &id)),
            kTargetNotInTopology);
  EXPECT_EQ(as_status(functions_->pfnAcquirePathInfo(handle_, 0, 5, &info_)), kPathNotInTopology);
  const D3DKMDT_VIDPN_PRESENT_PATH* next = nullptr;
  const D3DKMDT_VIDPN_PRESENT_PATH* end = nullptr;
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstPathInfo(handle_, &info_)), Status::kSuccess);
  EXPECT_EQ(info_->VidPnTargetId, kTargetA);
  EXPECT_EQ(info_->ContentTransformation.Scaling, D3DKMDT_VPPS_UNPINNED);
  ASSERT_EQ(as_status(functions_->pfnAcquireNextPathInfo(handle_, info_, &next)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnAcquireNextPathInfo(handle_, next, &end)), kNoMoreElements);
  EXPECT_EQ(end, nullptr);
  EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, info_)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, next)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, next)), kInvalidPath);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
  EXPECT_EQ(driver_.findings.total(), 2U) << driver_.texts();
}

TEST_F(Topology, PathsComeAndGoWithTheirModeSets) {
  DXGKIT_COVERS("VIDPN-17", "VIDPN-28", "VIDPN-31", "VIDPN-16");
  Call call(driver_.manager, kRecommend, Network{});
  open(call);
  EXPECT_EQ(as_status(functions_->pfnAcquireFirstPathInfo(handle_, &info_)), kDataSetIsEmpty);
  EXPECT_EQ(add(0, kTargetA, 1), Status::kSuccess);
  EXPECT_EQ(add(0, kTargetA, 2), kPathAlreadyInTopology);
  EXPECT_EQ(add(1, kTargetA, 2), kInvalidVidPnTopology);
  EXPECT_EQ(add(9, kTargetB, 2), kInvalidSource);
  EXPECT_EQ(add(0, 9, 2), kInvalidTarget);
  EXPECT_EQ(add(0, kTargetB, 1), kInvalidImportance);
  EXPECT_EQ(add(0, kTargetB, 2), Status::kSuccess);
  SIZE_T paths = 0;
  EXPECT_EQ(as_status(functions_->pfnGetNumPaths(handle_, &paths)), Status::kSuccess);
  EXPECT_EQ(paths, 2U);
  D3DKMDT_HVIDPNSOURCEMODESET set = nullptr;
  const DXGK_VIDPNSOURCEMODESET_INTERFACE* modes = nullptr;
  EXPECT_EQ(as_status(driver_.vidpn(call).pfnAcquireSourceModeSet(DriverSide::handle(call), 0, &set,
                                                                  &modes)),
            Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 0, kTargetA)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 0, kTargetA)), kPathNotInTopology);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 9, kTargetA)), kInvalidSource);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 0, 9)), kInvalidTarget);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 0, kTargetB)), Status::kSuccess);
  EXPECT_EQ(as_status(driver_.vidpn(call).pfnReleaseSourceModeSet(DriverSide::handle(call), set)),
            Status::kSuccess);
  EXPECT_EQ(as_status(driver_.vidpn(call).pfnAcquireSourceModeSet(DriverSide::handle(call), 0, &set,
                                                                  &modes)),
            kSourceNotInTopology);
  const Network after = call.finish(Status::kSuccess);
  EXPECT_EQ(after, Network{});
  EXPECT_EQ(driver_.findings.count("VIDPN-16"), 1U);
}

TEST_F(Topology, IsGivenInEnumVidPnCofuncModality) {
  DXGKIT_COVERS("VIDPN-14");
  const Network network = one_path(full_profile());
  Call call(driver_.manager, kEnum, network);
  open(call);
  EXPECT_EQ(add(1, kTargetB, 2), Status::kAccessDenied);
  EXPECT_EQ(as_status(functions_->pfnRemovePath(handle_, 0, kTargetA)), Status::kAccessDenied);
  EXPECT_EQ(driver_.findings.count("VIDPN-14"), 2U);
  EXPECT_EQ(call.finish(Status::kUnsuccessful), network);
}

TEST_F(Topology, SupportIsUpdatedFromACopy) {
  DXGKIT_COVERS("VIDPN-04", "VIDPN-14", "VIDPN-24", "VIDPN-31");
  const Network network = one_path(full_profile());
  Call call(driver_.manager, kEnum, network);
  open(call);
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstPathInfo(handle_, &info_)), Status::kSuccess);
  D3DKMDT_VIDPN_PRESENT_PATH copy = *info_;
  copy.ContentTransformation.ScalingSupport.Identity = 1;
  copy.ContentTransformation.RotationSupport.Identity = 1;
  EXPECT_EQ(as_status(functions_->pfnUpdatePathSupportInfo(handle_, &copy)),
            Status::kInvalidParameter);
  ASSERT_EQ(driver_.findings.all().size(), 1U);
  EXPECT_EQ(driver_.findings.all()[0].severity, verifier::Severity::kBugCheck);
  EXPECT_EQ(driver_.findings.all()[0].bugcheck_code, 0x113U);
  EXPECT_EQ(as_status(functions_->pfnUpdatePathSupportInfo(handle_, nullptr)),
            Status::kInvalidParameter);
  copy.VidPnTargetId = kTargetB;
  EXPECT_EQ(as_status(functions_->pfnUpdatePathSupportInfo(handle_, &copy)), kPathNotInTopology);
  copy.VidPnTargetId = kTargetA;
  copy.ContentTransformation.RotationSupport.Offset0 = 1;
  copy.ImportanceOrdinal = D3DKMDT_VPPI_DENARY;  // not part of an update
  EXPECT_EQ(as_status(functions_->pfnUpdatePathSupportInfo(handle_, &copy)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, info_)), Status::kSuccess);
  const Network after = call.finish(Status::kUnsuccessful);
  Network wanted = network;
  wanted.paths[0].scaling_support = kScalingIdentity;
  wanted.paths[0].rotation_support = kRotationIdentity | kRotationOffset0;
  EXPECT_EQ(after, wanted);

  Call looking(driver_.manager, Ddi::kCommitVidPn, network);
  open(looking);
  EXPECT_EQ(as_status(functions_->pfnUpdatePathSupportInfo(handle_, &copy)), Status::kAccessDenied);
}

TEST_F(Topology, GammaTablesAreCopiedWholeOrRefused) {
  DXGKIT_COVERS("VIDPN-17");
  Call call(driver_.manager, kRecommend, Network{});
  open(call);
  D3DKMDT_VIDPN_PRESENT_PATH* path = nullptr;
  ASSERT_EQ(as_status(functions_->pfnCreateNewPathInfo(handle_, &path)), Status::kSuccess);
  Path good;
  good.source = 0;
  good.target = kTargetA;
  good.scaling = good.rotation = 1;
  std::vector<std::byte> none;
  to_abi(good, &none, path);
  std::vector<std::byte> table(sizeof(D3DDDI_GAMMA_RAMP_RGB256x3x16), std::byte{7});
  path->GammaRamp.Type = D3DDDI_GAMMARAMP_RGB256x3x16;
  path->GammaRamp.DataSize = table.size();
  EXPECT_EQ(as_status(functions_->pfnAddPath(handle_, path)), kInvalidGammaRamp);
  path->GammaRamp.Data.pRaw = reinterpret_cast<void*>(uintptr_t{0x10});
  EXPECT_EQ(as_status(functions_->pfnAddPath(handle_, path)), kInvalidGammaRamp);
  path->GammaRamp.Data.pRaw = table.data();
  path->GammaRamp.DataSize = table.size() - 1;
  EXPECT_EQ(as_status(functions_->pfnAddPath(handle_, path)), kInvalidGammaRamp);
  path->GammaRamp.DataSize = table.size();
  EXPECT_EQ(as_status(functions_->pfnAddPath(handle_, path)), Status::kSuccess);
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstPathInfo(handle_, &info_)), Status::kSuccess);
  EXPECT_NE(info_->GammaRamp.Data.pRaw, table.data());
  EXPECT_EQ(std::memcmp(info_->GammaRamp.Data.pRaw, table.data(), table.size()), 0);
  EXPECT_EQ(as_status(functions_->pfnReleasePathInfo(handle_, info_)), Status::kSuccess);
}

TEST(Multisampling, IsCopiedPerSource) {
  DXGKIT_COVERS("VIDPN-24", "VIDPN-17");
  DriverSide driver;
  Call call(driver.manager, kEnum, one_path(full_profile()));
  const auto assign = driver.vidpn(call).pfnAssignMultisamplingMethodSet;
  const D3DDDI_MULTISAMPLINGMETHOD methods[] = {{1, 1}, {4, 2}};
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, 2, methods)), Status::kSuccess);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, 2, nullptr)), Status::kInvalidParameter);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 0, SIZE_MAX, methods)),
            Status::kInvalidParameter);
  EXPECT_EQ(as_status(assign(DriverSide::handle(call), 9, 2, methods)), kInvalidSource);
  EXPECT_EQ(as_status(assign(nullptr, 0, 2, methods)), kInvalidVidPn);
  const Network after = call.finish(Status::kUnsuccessful);
  ASSERT_EQ(after.multisampling.at(0).size(), 2U);
  EXPECT_EQ(after.multisampling.at(0)[1], (MultisamplingMethod{4, 2}));
}

// States that EnumVidPnCofuncModality may not leave behind, one mistake at a time.
TEST(Cofunctional, EachMistakeIsNamed) {
  DXGKIT_COVERS("VIDPN-19");
  const Profile profile = full_profile();
  Network before = one_path(profile);
  Network good = before;
  good.source_sets[0].modes = {good_source_mode()};
  good.target_sets[kTargetA].modes = {good_target_mode()};
  const auto findings_of = [&](const Network& from, const Network& to, const Pivot& pivot) {
    verifier::Findings findings;
    const bool fine = check_cofunctional(from, to, pivot, profile, findings);
    EXPECT_EQ(fine, findings.total() == 0);
    EXPECT_EQ(findings.total(), findings.count("VIDPN-19"));
    return findings.total();
  };
  EXPECT_EQ(findings_of(before, good, {}), 0U);
  EXPECT_EQ(findings_of(before, before, {}), 2U);
  EXPECT_EQ(findings_of(before, good, {.kind = Pivot::Kind::kSource, .source = 0}), 1U);
  EXPECT_EQ(findings_of(before, good, {.kind = Pivot::Kind::kTarget, .target = kTargetA}), 1U);
  Network pinned = good;
  pinned.source_sets[0].pinned = 0;
  EXPECT_EQ(findings_of(before, pinned, {}), 1U);
  EXPECT_EQ(findings_of(pinned, pinned, {}), 0U);
  Network renumbered = pinned;
  renumbered.source_sets[0].modes[0].id = 5;
  renumbered.source_sets[0].pinned = 5;
  EXPECT_EQ(findings_of(pinned, renumbered, {}), 0U);
  Network changed = pinned;
  changed.source_sets[0].modes[0].stride_bytes = 8192;
  EXPECT_EQ(findings_of(pinned, changed, {}), 1U);
}

TEST(Functional, EverySourceAndTargetHasAPinnedMode) {
  DXGKIT_COVERS("VIDPN-16", "VIDPN-17", "VIDPN-20");
  const Profile profile = full_profile();
  const auto findings_of = [&](const Network& network) {
    verifier::Findings findings;
    const bool fine = check_functional(network, profile, findings, "DxgkDdiCommitVidPn");
    EXPECT_EQ(fine, findings.total() == 0);
    return findings.total();
  };
  Network network = clone_paths(profile);
  EXPECT_EQ(findings_of(Network{}), 1U);
  EXPECT_EQ(findings_of(network), 3U);
  network.source_sets[0].modes = {good_source_mode()};
  for (const uint32_t target : {kTargetA, kTargetB})
    network.target_sets[target].modes = {good_target_mode()};
  EXPECT_EQ(pin_source_mode(network, 0, 9), kModeNotInModeSet);
  EXPECT_EQ(pin_source_mode(network, 1, 0), kModeNotInModeSet);
  EXPECT_EQ(pin_source_mode(network, 0, 0), Status::kSuccess);
  EXPECT_EQ(pin_target_mode(network, kTargetA, 0), Status::kSuccess);
  EXPECT_EQ(findings_of(network), 1U);
  EXPECT_EQ(pin_target_mode(network, kTargetB, 0), Status::kSuccess);
  EXPECT_EQ(findings_of(network), 0U);
  pin_transformations(network);
  EXPECT_EQ(network.paths[0].scaling, static_cast<uint32_t>(D3DKMDT_VPPS_IDENTITY));
  network.paths[0].scaling_support = kScalingCentered;
  EXPECT_EQ(findings_of(network), 1U);
  network.paths[0].scaling_support = kScalingIdentity;
  network.paths[1].importance = network.paths[0].importance;
  EXPECT_EQ(findings_of(network), 1U);
}

TEST(Differences, NameWhatChanged) {
  const Network before = one_path(full_profile());
  EXPECT_TRUE(differences(before, before).empty());
  Network after = before;
  after.source_sets[0].modes = {good_source_mode()};
  after.source_sets[0].pinned = 0;
  after.paths[0].scaling_support = 3;
  const std::vector<std::string> said = differences(before, after);
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[0], "path 0 -> 256: scaling support 0x0 -> 0x3");
  EXPECT_EQ(said[1], "source 0: mode 0 (1920x1080 pitch 7680 A8R8G8B8) added");
  EXPECT_EQ(said[2], "source 0: mode 0 pinned");
  EXPECT_EQ(to_text(good_signal()), "1920x1080@60 (148500000 Hz, 2200x1125)");
}

}  // namespace
}  // namespace dxgkit::vidpn
