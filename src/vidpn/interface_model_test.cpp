// Random calls of the interfaces, good and hostile, against a slow model of what they may answer:
// same status for every call, the same network at the end, nothing left open. 120,000 calls per
// profile; the seed is printed on failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"
#include "vidpn/judge.h"

namespace dxgkit::vidpn {
namespace {

using SourceTable = DXGK_VIDPNSOURCEMODESET_INTERFACE;
using SourceHandle = D3DKMDT_HVIDPNSOURCEMODESET;
using SourceAbi = D3DKMDT_VIDPN_SOURCE_MODE;
using TargetTable = DXGK_VIDPNTARGETMODESET_INTERFACE;
using TargetHandle = D3DKMDT_HVIDPNTARGETMODESET;
using TargetAbi = D3DKMDT_VIDPN_TARGET_MODE;

bool alike(SourceMode left, const SourceMode& right) {
  left.id = right.id;
  return left == right;
}
bool alike(TargetMode left, const TargetMode& right) {
  left.id = right.id;
  left.preference = right.preference;
  return left == right;
}

/// The objects that the driver holds and the content of the network, in the plainest form.
template <typename Mode>
struct ModelSet {
  uint32_t owner = 0;
  enum { kNew, kAssigned, kOld, kGone } state = kNew;
  uint32_t references = 1;
  uint32_t next_id = 1;
  ModeSet<Mode> set;
  bool usable() const { return state != kGone && references > 0; }
};

template <typename Mode>
struct ModelInfo {
  size_t set = 0;
  bool created = false;
  bool alive = true;
  uint32_t mode_id = 0;
};

/// One side (source or target) of the run: real objects beside the model's.
template <typename Mode, typename Table, typename Handle, typename Abi>
class SideRun {
 public:
  SideRun(std::mt19937& random, DriverSide& driver, Ddi ddi, std::vector<uint32_t> owners,
          std::vector<uint32_t> in_topology, Status invalid_set, Status invalid_mode,
          Status invalid_owner, Status not_in_topology)
      : random_(random),
        driver_(driver),
        writes_(ddi == Ddi::kEnumVidPnCofuncModality || ddi == Ddi::kRecommendFunctionalVidPn),
        owners_(std::move(owners)),
        in_topology_(std::move(in_topology)),
        invalid_set_(invalid_set),
        invalid_mode_(invalid_mode),
        invalid_owner_(invalid_owner),
        not_in_topology_(not_in_topology) {
    for (const uint32_t owner : in_topology_) {
      ModelSet<Mode> set;
      set.owner = owner;
      set.state = ModelSet<Mode>::kAssigned;
      set.references = 0;
      assigned_[owner] = sets_.size();
      sets_.push_back(set);
      handles_.push_back(nullptr);
    }
  }

  std::map<uint32_t, ModeSet<Mode>> result() const {
    std::map<uint32_t, ModeSet<Mode>> out;
    for (const auto& [owner, index] : assigned_) out[owner] = sets_[index].set;
    return out;
  }

  size_t leaks() const {
    size_t held = 0;
    for (const ModelInfo<Mode>& info : infos_) held += info.alive ? 1 : 0;
    for (const ModelSet<Mode>& set : sets_) held += set.usable() ? 1 : 0;
    return held;
  }

  template <typename Acquire, typename Release, typename Create, typename Assign>
  void step(const DdiCall& call, Acquire acquire, Release release, Create create, Assign assign) {
    const D3DKMDT_HVIDPN vidpn = random_() % 16 == 0 ? nullptr : DriverSide::handle(call);
    const bool bad_vidpn = vidpn == nullptr;
    switch (random_() % 12) {
      case 0: {  // acquire
        const uint32_t owner = pick_owner();
        Handle handle = nullptr;
        Status wanted = bad_vidpn ? kInvalidVidPn : owner_status(owner);
        const Status got = as_status(acquire(vidpn, owner, &handle, &table_));
        ASSERT_EQ(got, wanted);
        if (!is_success(wanted)) break;
        const size_t index = assigned_.at(owner);
        ++sets_[index].references;
        if (handles_[index] != nullptr) {
          ASSERT_EQ(handles_[index], handle);
        }
        handles_[index] = handle;
        break;
      }
      case 1: {  // create
        const uint32_t owner = pick_owner();
        Handle handle = nullptr;
        Status wanted = bad_vidpn ? kInvalidVidPn : owner_status(owner);
        if (is_success(wanted)) {
          for (const ModelSet<Mode>& set : sets_) {
            if (set.state == ModelSet<Mode>::kNew && set.owner == owner)
              wanted = kUnassignedModeSetExists;
          }
        }
        ASSERT_EQ(as_status(create(vidpn, owner, &handle, &table_)), wanted);
        if (!is_success(wanted)) break;
        ModelSet<Mode> set;
        set.owner = owner;
        sets_.push_back(set);
        handles_.push_back(handle);
        break;
      }
      case 2: {  // release
        const size_t index = pick_set();
        if (index == kNone) break;
        ModelSet<Mode>& set = sets_[index];
        const Status wanted = bad_vidpn      ? kInvalidVidPn
                              : set.usable() ? Status::kSuccess
                                             : invalid_set_;
        ASSERT_EQ(as_status(release(vidpn, handles_[index])), wanted);
        if (!is_success(wanted) || --set.references > 0) break;
        kill_infos(index);
        if (set.state != ModelSet<Mode>::kAssigned) set.state = ModelSet<Mode>::kGone;
        break;
      }
      case 3: {  // assign
        const size_t index = pick_set();
        if (index == kNone) break;
        const uint32_t owner = random_() % 3 == 0 ? pick_owner() : sets_[index].owner;
        ASSERT_EQ(as_status(assign(vidpn, owner, handles_[index])),
                  assign_in_model(bad_vidpn, index, owner));
        break;
      }
      case 4:
        modify(/*add=*/true);
        break;
      case 5:
        modify(/*add=*/false);
        break;
      case 6:
        create_info();
        break;
      case 7:
        enumerate();
        break;
      case 8:
        acquire_pinned();
        break;
      default:
        give_back();
        break;
    }
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  uint32_t pick_owner() { return owners_[random_() % owners_.size()]; }

  Status owner_status(uint32_t owner) const {
    if (owner == owners_.back()) return invalid_owner_;  // the last one is always unknown
    return assigned_.contains(owner) ? Status::kSuccess : not_in_topology_;
  }

  size_t pick_set() {
    if (table_ == nullptr) return kNone;
    for (int tries = 0; tries < 4; ++tries) {
      // Recent sets are the interesting ones; old ones come up as stale handles.
      const size_t window = random_() % 8 == 0 ? sets_.size() : std::min<size_t>(sets_.size(), 6);
      const size_t index = sets_.size() - 1 - random_() % window;
      // A handle that the driver has never seen cannot be passed. Two names of one retired
      // object would only repeat themselves.
      if (handles_[index] != nullptr) return index;
    }
    return kNone;
  }

  Status assign_in_model(bool bad_vidpn, size_t index, uint32_t owner) {
    ModelSet<Mode>& set = sets_[index];
    if (bad_vidpn) return kInvalidVidPn;
    if (owner_status(owner) == invalid_owner_) return invalid_owner_;
    if (!set.usable() || set.state != ModelSet<Mode>::kNew) return invalid_set_;
    if (!writes_) return Status::kAccessDenied;
    if (const Status status = owner_status(owner); !is_success(status)) return status;
    const auto consume = [&] {
      kill_infos(index);
      set.state = ModelSet<Mode>::kGone;
    };
    if (set.owner != owner) return consume(), kResourcesNotRelated;
    if (set.set.modes.empty()) return consume(), Status::kInvalidParameter;
    ModelSet<Mode>& old = sets_[assigned_.at(owner)];
    if (old.set.pinned.has_value()) {
      const Mode pinned = *old.set.find(*old.set.pinned);
      const Mode* kept = nullptr;
      for (const Mode& mode : set.set.modes)
        if (kept == nullptr && alike(mode, pinned)) kept = &mode;
      if (kept == nullptr) return consume(), kPinnedModeMustRemain;
      if (!set.set.pinned.has_value()) set.set.pinned = kept->id;
    }
    kill_infos(index);
    set.state = ModelSet<Mode>::kAssigned;
    set.references = 0;
    old.state = old.references > 0 ? ModelSet<Mode>::kOld : ModelSet<Mode>::kGone;
    assigned_[owner] = index;
    return Status::kSuccess;
  }

  void kill_infos(size_t set) {
    for (ModelInfo<Mode>& info : infos_)
      if (info.set == set) info.alive = false;
  }

  Mode random_mode();

  void create_info() {
    const size_t index = pick_set();
    if (index == kNone) return;
    Abi* info = nullptr;
    const Status wanted = sets_[index].usable() ? Status::kSuccess : invalid_set_;
    ASSERT_EQ(as_status(table_->pfnCreateNewModeInfo(handles_[index], &info)), wanted);
    if (!is_success(wanted)) return;
    ASSERT_EQ(info->Id, sets_[index].next_id++);
    remember(info, {.set = index, .created = true});
  }

  void remember(const Abi* address, ModelInfo<Mode> info) {
    infos_.push_back(info);
    addresses_.push_back(address);
    if (infos_.size() > 200) {  // both sides drop objects that are dead for long
      if (!infos_.front().alive) {
        infos_.erase(infos_.begin());
        addresses_.erase(addresses_.begin());
      }
    }
  }

  /// An info, alive more often than not; the set to use it with, mostly its own.
  bool pick_info(size_t* info, size_t* set) {
    if (infos_.empty()) return false;
    *info = infos_.size() - 1 - random_() % std::min<size_t>(infos_.size(), 8);
    *set = infos_[*info].set;
    if (random_() % 6 == 0) {
      if (const size_t other = pick_set(); other != kNone) *set = other;
    }
    return handles_[*set] != nullptr;
  }

  /// Status of an info used with a set, before anything else of the call.
  Status info_status(size_t info, size_t set) const {
    if (!sets_[set].usable()) return invalid_set_;
    if (!infos_[info].alive) return invalid_mode_;
    return infos_[info].set == set ? Status::kSuccess : kResourcesNotRelated;
  }

  Status set_access(size_t set) const {
    const bool assigned = sets_[set].state == ModelSet<Mode>::kAssigned;
    return assigned && !writes_ ? Status::kAccessDenied : Status::kSuccess;
  }

  void modify(bool add) {
    if (!add) {
      const size_t index = pick_set();
      if (index == kNone) return;
      ModelSet<Mode>& set = sets_[index];
      const auto id = static_cast<UINT>(random_() % 4);
      Status wanted = set.usable() ? set_access(index) : invalid_set_;
      if (is_success(wanted) && set.set.find(id) == nullptr) wanted = invalid_mode_;
      ASSERT_EQ(as_status(table_->pfnPinMode(handles_[index], id)), wanted);
      if (is_success(wanted)) set.set.pinned = id;
      return;
    }
    size_t info = 0;
    size_t index = 0;
    if (!pick_info(&info, &index)) return;
    ModelSet<Mode>& set = sets_[index];
    Status wanted = set.usable() ? set_access(index) : invalid_set_;
    if (is_success(wanted)) wanted = info_status(info, index);
    if (is_success(wanted) && !infos_[info].created) wanted = invalid_mode_;
    auto* address = const_cast<Abi*>(addresses_[info]);
    Mode mode = random_mode();
    if (infos_[info].alive && infos_[info].created) {
      mode.id = random_() % 5 == 0 ? static_cast<uint32_t>(random_() % 4) : address->Id;
      to_abi(mode, address);
      if (is_success(wanted)) {
        wanted = judge(mode);
        if (is_success(wanted) && std::ranges::any_of(set.set.modes, [&](const Mode& other) {
              return alike(other, mode);
            }))
          wanted = kModeAlreadyInModeSet;
        if (is_success(wanted) && set.set.find(mode.id) != nullptr) wanted = kModeIdMustBeUnique;
      }
    }
    ASSERT_EQ(as_status(table_->pfnAddMode(handles_[index], address)), wanted);
    if (!is_success(wanted)) return;
    set.set.modes.push_back(mode);
    infos_[info].alive = false;
  }

  Status judge(const Mode& mode) const;

  void enumerate() {
    const size_t index = pick_set();
    if (index == kNone) return;
    const ModelSet<Mode>& set = sets_[index];
    const Abi* given = nullptr;
    size_t info = 0;
    size_t with = 0;
    if (random_() % 2 == 0 && pick_info(&info, &with)) {
      Status wanted = info_status(info, with);
      if (is_success(wanted) && infos_[info].created) wanted = invalid_mode_;
      const std::vector<Mode>& modes = sets_[with].set.modes;
      size_t next = 0;
      if (is_success(wanted)) {
        while (modes[next].id != infos_[info].mode_id) ++next;
        if (++next == modes.size()) wanted = kNoMoreElements;
      }
      ASSERT_EQ(as_status(table_->pfnAcquireNextModeInfo(handles_[with], addresses_[info], &given)),
                wanted);
      if (wanted == Status::kSuccess) took(given, with, modes[next].id);
      return;
    }
    const Status wanted = !set.usable()           ? invalid_set_
                          : set.set.modes.empty() ? kDataSetIsEmpty
                                                  : Status::kSuccess;
    ASSERT_EQ(as_status(table_->pfnAcquireFirstModeInfo(handles_[index], &given)), wanted);
    if (wanted == Status::kSuccess) took(given, index, set.set.modes.front().id);
    SIZE_T count = 0;
    ASSERT_EQ(as_status(table_->pfnGetNumModes(handles_[index], &count)),
              set.usable() ? Status::kSuccess : invalid_set_);
    if (set.usable()) {
      ASSERT_EQ(count, set.set.modes.size());
    }
  }

  void took(const Abi* given, size_t set, uint32_t id) {
    ASSERT_NE(given, nullptr);
    ASSERT_EQ(given->Id, id);
    remember(given, {.set = set, .mode_id = id});
  }

  void acquire_pinned() {
    const size_t index = pick_set();
    if (index == kNone) return;
    const ModelSet<Mode>& set = sets_[index];
    const Abi* given = nullptr;
    const Status wanted = !set.usable()                ? invalid_set_
                          : set.set.pinned.has_value() ? Status::kSuccess
                                                       : kModeNotPinned;
    ASSERT_EQ(as_status(table_->pfnAcquirePinnedModeInfo(handles_[index], &given)), wanted);
    if (wanted == Status::kSuccess) took(given, index, *set.set.pinned);
  }

  void give_back() {
    size_t info = 0;
    size_t set = 0;
    if (!pick_info(&info, &set)) return;
    const Status wanted = info_status(info, set);
    ASSERT_EQ(as_status(table_->pfnReleaseModeInfo(handles_[set], addresses_[info])), wanted);
    if (is_success(wanted)) infos_[info].alive = false;
  }

  std::mt19937& random_;
  DriverSide& driver_;
  bool writes_;
  std::vector<uint32_t> owners_, in_topology_;
  Status invalid_set_, invalid_mode_, invalid_owner_, not_in_topology_;
  const Table* table_ = nullptr;
  std::vector<ModelSet<Mode>> sets_;
  std::vector<Handle> handles_;
  std::map<uint32_t, size_t> assigned_;
  std::vector<ModelInfo<Mode>> infos_;
  std::vector<const Abi*> addresses_;
};

using SourceRun = SideRun<SourceMode, SourceTable, SourceHandle, SourceAbi>;
using TargetRun = SideRun<TargetMode, TargetTable, TargetHandle, TargetAbi>;

template <>
SourceMode SourceRun::random_mode() {
  SourceMode mode = good_source_mode();
  mode.surface.width = 640 + 160 * static_cast<uint32_t>(random_() % 6);
  mode.visible = mode.surface;
  if (random_() % 8 == 0) mode.stride_bytes = 0;
  if (random_() % 8 == 0) mode.pixel_format = D3DDDIFMT_X8R8G8B8;
  if (random_() % 16 == 0) mode.type = 0;
  return mode;
}
template <>
TargetMode TargetRun::random_mode() {
  TargetMode mode = good_target_mode();
  if (driver_.manager.profile().kind == DriverKind::kDisplayOnly) mode.signal = open_signal();
  mode.signal.active.width = 640 + 160 * static_cast<uint32_t>(random_() % 6);
  if (random_() % 8 == 0) mode.signal.vsync = open_signal().vsync;
  if (random_() % 16 == 0) mode.signal.total.width = 10;
  if (random_() % 16 == 0) mode.signal.scanline_ordering = 0;
  return mode;
}
// The slow model does not judge again: values have their own tests. Here the question is where a
// mode goes.
template <>
Status SourceRun::judge(const SourceMode& mode) const {
  return outcome(judge_source_mode(driver_.manager.profile(), mode));
}
template <>
Status TargetRun::judge(const TargetMode& mode) const {
  return outcome(judge_target_mode(driver_.manager.profile(), mode));
}

void run(const Profile& profile, uint32_t seed) {
  constexpr int kCalls = 120'000;
  constexpr int kCallsPerDdi = 400;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  DriverSide driver(profile);
  size_t assigned_networks = 0;
  for (int done = 0; done < kCalls; done += kCallsPerDdi) {
    constexpr Ddi kDdis[] = {Ddi::kEnumVidPnCofuncModality, Ddi::kRecommendFunctionalVidPn,
                             Ddi::kEnumVidPnCofuncModality, Ddi::kIsSupportedVidPn};
    const Ddi ddi = kDdis[random() % std::size(kDdis)];
    const bool both = random() % 2 == 0;
    const Network before = both ? clone_paths(profile) : one_path(profile);
    DdiCall call(driver.manager, ddi, before);
    const DXGK_VIDPN_INTERFACE& table = driver.vidpn(call);
    SourceRun sources(random, driver, ddi, {0, 0, 1, 99}, {0}, kInvalidSourceModeSet,
                      kInvalidSourceMode, kInvalidSource, kSourceNotInTopology);
    TargetRun targets(random, driver, ddi, {kTargetA, kTargetB, 7},
                      both ? std::vector{kTargetA, kTargetB} : std::vector{kTargetA},
                      kInvalidTargetModeSet, kInvalidTargetMode, kInvalidTarget,
                      kTargetNotInTopology);
    for (int i = 0; i < kCallsPerDdi; ++i) {
      SCOPED_TRACE("call " + std::to_string(done + i));
      if (random() % 2 == 0) {
        sources.step(call, table.pfnAcquireSourceModeSet, table.pfnReleaseSourceModeSet,
                     table.pfnCreateNewSourceModeSet, table.pfnAssignSourceModeSet);
      } else {
        targets.step(call, table.pfnAcquireTargetModeSet, table.pfnReleaseTargetModeSet,
                     table.pfnCreateNewTargetModeSet, table.pfnAssignTargetModeSet);
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    const size_t leaks_before = driver.findings.count("VIDPN-07");
    const size_t held = sources.leaks() + targets.leaks();
    // A failure status: the driver's result is not judged, its leaks are.
    const Network after = call.finish(Status::kUnsuccessful);
    ASSERT_EQ(driver.findings.count("VIDPN-07"), leaks_before + held);
    ASSERT_EQ(after.source_sets, sources.result());
    ASSERT_EQ(after.target_sets, targets.result());
    ASSERT_EQ(after.paths, before.paths);
    ASSERT_EQ(validate(after), "");
    ASSERT_EQ(driver.manager.open_objects(), 0U);
    assigned_networks += after == before ? 0 : 1;
  }
  EXPECT_GT(assigned_networks, 20U);
}

TEST(InterfaceModel, FullDriver) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-07", "VIDPN-25", "VIDPN-26", "VIDPN-31");
  run(full_profile(), 0x5EED);
}

TEST(InterfaceModel, DisplayOnlyDriver) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-06", "VIDPN-07", "VIDPN-25", "VIDPN-26", "VIDPN-31");
  run(display_only_profile(), 0xD0D);
}

}  // namespace
}  // namespace dxgkit::vidpn
