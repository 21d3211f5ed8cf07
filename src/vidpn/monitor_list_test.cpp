// The sets of two monitors side by side: what is given for each, what goes with a monitor that
// leaves, and every refusal alone.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using verifier::Confidence;
using AbiMode = D3DKMDT_MONITOR_SOURCE_MODE;
using AbiRange = D3DKMDT_MONITOR_FREQUENCY_RANGE;
using AbiDescriptor = D3DKMDT_MONITOR_DESCRIPTOR;

/// Modes 4, 12 and 7, two ranges, three descriptors; `odd` tells two monitors apart.
Monitor rich_monitor(uint32_t odd) {
  Monitor monitor;
  for (const uint32_t id : {4U, 12U, 7U}) {
    MonitorMode mode = good_monitor_mode();
    mode.id = id;
    mode.signal.active.width -= id + odd;
    mode.preference = id == 12 ? D3DKMDT_MP_PREFERRED : D3DKMDT_MP_NOTPREFERRED;
    monitor.modes.push_back(mode);
  }
  for (uint32_t i = 1; i < 3; ++i)
    monitor.ranges.push_back({.vsync_max = {i + odd, 1}, .pixel_rate_max = 7});
  for (uint32_t i = 0; i < 3; ++i)
    monitor.descriptors.push_back(
        {.id = i, .type = 255, .data = std::vector<std::byte>(3 + odd, std::byte(i + 1))});
  return monitor;
}

class TwoMonitors : public ::testing::Test {
 protected:
  TwoMonitors() {
    driver_.manager.connect_monitor(kTargetA, rich_monitor(0));
    driver_.manager.connect_monitor(kTargetB, rich_monitor(100));
  }
  DriverSide driver_;
  const DXGK_MONITOR_INTERFACE_V2& table_ = driver_.monitor();
  const DXGK_MONITORSOURCEMODESET_INTERFACE* modes_ = nullptr;
  const DXGK_MONITORFREQUENCYRANGESET_INTERFACE* ranges_ = nullptr;
  const DXGK_MONITORDESCRIPTORSET_INTERFACE* descriptors_ = nullptr;

  D3DKMDT_HMONITORSOURCEMODESET modes(uint32_t target) {
    D3DKMDT_HMONITORSOURCEMODESET set = nullptr;
    EXPECT_EQ(as_status(table_.pfnAcquireMonitorSourceModeSet(&driver_, target, &set, &modes_)),
              Status::kSuccess);
    return set;
  }
  D3DKMDT_HMONITORFREQUENCYRANGESET ranges(uint32_t target) {
    D3DKMDT_HMONITORFREQUENCYRANGESET set = nullptr;
    EXPECT_EQ(as_status(table_.pfnGetMonitorFrequencyRangeSet(&driver_, target, &set, &ranges_)),
              Status::kSuccess);
    return set;
  }
  D3DKMDT_HMONITORDESCRIPTORSET descriptors(uint32_t target) {
    D3DKMDT_HMONITORDESCRIPTORSET set = nullptr;
    EXPECT_EQ(as_status(table_.pfnGetMonitorDescriptorSet(&driver_, target, &set, &descriptors_)),
              Status::kSuccess);
    return set;
  }
  void expect_last(size_t total, const char* rule, Confidence confidence, const char* text) {
    EXPECT_EQ(driver_.findings.total(), total) << text;
    const verifier::Finding last = driver_.findings.all().back();
    EXPECT_EQ(last.rule, rule) << text;
    EXPECT_EQ(last.confidence, confidence) << text;
    EXPECT_NE(last.actual.find(text), std::string::npos) << last.actual;
  }
};

TEST_F(TwoMonitors, ListsAreWalkedInTheirOrder) {
  DXGKIT_COVERS("VIDPN-25");
  for (const auto& [target, odd] : {std::pair{kTargetA, 0U}, {kTargetB, 100U}}) {
    const Monitor wanted = rich_monitor(odd);
    SIZE_T count = 0;
    const auto mode_set = modes(target);
    EXPECT_EQ(as_status(modes_->pfnGetNumModes(mode_set, &count)), Status::kSuccess);
    EXPECT_EQ(count, 3U);
    const AbiMode* mode = nullptr;
    ASSERT_EQ(as_status(modes_->pfnAcquirePreferredModeInfo(mode_set, &mode)), Status::kSuccess);
    EXPECT_EQ(mode->Id, 12U);
    EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(mode_set, mode)), Status::kSuccess);
    ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(mode_set, &mode)), Status::kSuccess);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(from_abi(full_profile(), *mode), wanted.modes[i]);
      const AbiMode* next = mode;
      EXPECT_EQ(as_status(modes_->pfnAcquireNextModeInfo(mode_set, mode, &next)),
                i == 2 ? kNoMoreElements : Status::kSuccess);
      EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(mode_set, mode)), Status::kSuccess);
      mode = next;
    }
    EXPECT_EQ(mode, nullptr);

    const auto range_set = ranges(target);
    EXPECT_EQ(as_status(ranges_->pfnGetNumFrequencyRanges(range_set, &count)), Status::kSuccess);
    EXPECT_EQ(count, 2U);
    const AbiRange* range = nullptr;
    ASSERT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_set, &range)),
              Status::kSuccess);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(range->RangeLimits.MaxVSyncFreq.Numerator, i + 1 + odd);
      const AbiRange* next = range;
      EXPECT_EQ(as_status(ranges_->pfnAcquireNextFrequencyRangeInfo(range_set, range, &next)),
                i == 1 ? kNoMoreElements : Status::kSuccess);
      EXPECT_EQ(as_status(ranges_->pfnReleaseFrequencyRangeInfo(range_set, range)),
                Status::kSuccess);
      range = next;
    }
    EXPECT_EQ(range, nullptr);

    const auto descriptor_set = descriptors(target);
    EXPECT_EQ(as_status(descriptors_->pfnGetNumDescriptors(descriptor_set, &count)),
              Status::kSuccess);
    EXPECT_EQ(count, 3U);
    const AbiDescriptor* descriptor = nullptr;
    ASSERT_EQ(as_status(descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_set, &descriptor)),
              Status::kSuccess);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(descriptor->Id, i);
      ASSERT_EQ(descriptor->DataSize, 3 + odd);
      EXPECT_EQ(std::memcmp(descriptor->pData, wanted.descriptors[i].data.data(), 3 + odd), 0);
      const AbiDescriptor* next = descriptor;
      EXPECT_EQ(
          as_status(descriptors_->pfnAcquireNextDescriptorInfo(descriptor_set, descriptor, &next)),
          i == 2 ? kNoMoreElements : Status::kSuccess);
      EXPECT_EQ(as_status(descriptors_->pfnReleaseDescriptorInfo(descriptor_set, descriptor)),
                Status::kSuccess);
      descriptor = next;
    }
    EXPECT_EQ(descriptor, nullptr);
    EXPECT_EQ(as_status(table_.pfnReleaseMonitorSourceModeSet(&driver_, mode_set)),
              Status::kSuccess);
  }
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
}

TEST_F(TwoMonitors, AMonitorThatSaysNothingHasEmptyLists) {
  driver_.manager.connect_monitor(kTargetA, Monitor{});
  const auto mode_set = modes(kTargetA);
  int place = 0;
  const auto* mode = reinterpret_cast<const AbiMode*>(&place);
  EXPECT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(mode_set, &mode)), kDataSetIsEmpty);
  EXPECT_EQ(mode, nullptr);
  mode = reinterpret_cast<const AbiMode*>(&place);
  EXPECT_EQ(as_status(modes_->pfnAcquirePreferredModeInfo(mode_set, &mode)), kNoPreferredMode);
  EXPECT_EQ(mode, nullptr);
  const auto* range = reinterpret_cast<const AbiRange*>(&place);
  const auto range_set = ranges(kTargetA);
  EXPECT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_set, &range)),
            kDataSetIsEmpty);
  EXPECT_EQ(range, nullptr);
  const auto descriptor_set = descriptors(kTargetA);
  const auto* descriptor = reinterpret_cast<const AbiDescriptor*>(&place);
  EXPECT_EQ(as_status(descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_set, &descriptor)),
            kDataSetIsEmpty);
  EXPECT_EQ(descriptor, nullptr);
}

TEST_F(TwoMonitors, EveryOutputMustBeWritable) {
  DXGKIT_COVERS("VIDPN-24");
  const auto mode_set = modes(kTargetA);
  const auto range_set = ranges(kTargetA);
  const auto descriptor_set = descriptors(kTargetA);
  const AbiMode* mode = nullptr;
  const AbiRange* range = nullptr;
  const AbiDescriptor* descriptor = nullptr;
  ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(mode_set, &mode)), Status::kSuccess);
  ASSERT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_set, &range)),
            Status::kSuccess);
  ASSERT_EQ(as_status(descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_set, &descriptor)),
            Status::kSuccess);
  D3DKMDT_HMONITORSOURCEMODESET modes = nullptr;
  D3DKMDT_HMONITORFREQUENCYRANGESET ranges = nullptr;
  D3DKMDT_HMONITORDESCRIPTORSET descriptors = nullptr;
  UINT count = 99;
  DXGK_TARGETMODE_DETAIL_TIMING* timings = nullptr;
  const NTSTATUS rows[] = {
      modes_->pfnGetNumModes(mode_set, nullptr),
      modes_->pfnAcquirePreferredModeInfo(mode_set, nullptr),
      modes_->pfnAcquireFirstModeInfo(mode_set, nullptr),
      modes_->pfnAcquireNextModeInfo(mode_set, mode, nullptr),
      modes_->pfnCreateNewModeInfo(mode_set, nullptr),
      ranges_->pfnGetNumFrequencyRanges(range_set, nullptr),
      ranges_->pfnAcquireFirstFrequencyRangeInfo(range_set, nullptr),
      ranges_->pfnAcquireNextFrequencyRangeInfo(range_set, range, nullptr),
      descriptors_->pfnGetNumDescriptors(descriptor_set, nullptr),
      descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_set, nullptr),
      descriptors_->pfnAcquireNextDescriptorInfo(descriptor_set, descriptor, nullptr),
      table_.pfnAcquireMonitorSourceModeSet(&driver_, kTargetA, nullptr, &modes_),
      table_.pfnAcquireMonitorSourceModeSet(&driver_, kTargetA, &modes, nullptr),
      table_.pfnGetMonitorFrequencyRangeSet(&driver_, kTargetA, nullptr, &ranges_),
      table_.pfnGetMonitorFrequencyRangeSet(&driver_, kTargetA, &ranges, nullptr),
      table_.pfnGetMonitorDescriptorSet(&driver_, kTargetA, nullptr, &descriptors_),
      table_.pfnGetMonitorDescriptorSet(&driver_, kTargetA, &descriptors, nullptr),
      table_.pfnGetAdditionalMonitorModeSet(&driver_, kTargetA, nullptr, &timings),
      table_.pfnGetAdditionalMonitorModeSet(&driver_, kTargetA, &count, nullptr),
  };
  for (const NTSTATUS status : rows) EXPECT_EQ(as_status(status), Status::kInvalidParameter);
  EXPECT_EQ(driver_.findings.count("VIDPN-24"), std::size(rows));
  EXPECT_EQ(driver_.findings.total(), std::size(rows));
  EXPECT_EQ(modes, nullptr);
  EXPECT_EQ(ranges, nullptr);
  EXPECT_EQ(descriptors, nullptr);
  EXPECT_EQ(count, 99U);
  EXPECT_EQ(driver_.manager.open_objects(), 4U);
}

TEST_F(TwoMonitors, EntriesAreThoseOfTheirList) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-08", "VIDPN-22");
  const auto here = modes(kTargetA);
  const auto there = modes(kTargetB);
  const AbiMode* acquired = nullptr;
  const AbiMode* next = nullptr;
  ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(here, &acquired)), Status::kSuccess);
  constexpr Confidence kSure = Confidence::kDocumented;
  EXPECT_EQ(as_status(modes_->pfnAddMode(here, const_cast<AbiMode*>(acquired))),
            kInvalidMonitorMode);
  expect_last(1, "VIDPN-08", kSure, "The mode info was acquired, not created.");
  EXPECT_EQ(as_status(modes_->pfnAcquireNextModeInfo(there, acquired, &next)),
            kResourcesNotRelated);
  expect_last(2, "VIDPN-08", kSure, "another one: an acquired monitor mode info");
  EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(there, acquired)), kResourcesNotRelated);
  AbiMode* created = nullptr;
  ASSERT_EQ(as_status(modes_->pfnCreateNewModeInfo(here, &created)), Status::kSuccess);
  EXPECT_EQ(as_status(modes_->pfnAcquireNextModeInfo(here, created, &next)), kInvalidMonitorMode);
  expect_last(4, "VIDPN-05", Confidence::kInferred, "The mode info is new, in no set.");
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(as_status(modes_->pfnAddMode(there, created)), kResourcesNotRelated);
  expect_last(5, "VIDPN-08", kSure, "another one: a new monitor mode info");
  const auto range_set = ranges(kTargetA);
  const AbiRange* range = nullptr;
  const AbiRange* next_range = nullptr;
  ASSERT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_set, &range)),
            Status::kSuccess);
  const auto other_ranges = ranges(kTargetB);
  EXPECT_EQ(as_status(ranges_->pfnAcquireNextFrequencyRangeInfo(other_ranges, range, &next_range)),
            kResourcesNotRelated);
  expect_last(6, "VIDPN-08", kSure, "another one: an acquired frequency range info");
  EXPECT_EQ(as_status(ranges_->pfnReleaseFrequencyRangeInfo(
                range_set, reinterpret_cast<const AbiRange*>(acquired))),
            kInvalidFrequencyRange);
  expect_last(7, "VIDPN-05", kSure, "an info of a monitor source mode set.");
  const auto descriptor_set = descriptors(kTargetA);
  EXPECT_EQ(as_status(descriptors_->pfnReleaseDescriptorInfo(
                descriptor_set, reinterpret_cast<const AbiDescriptor*>(range))),
            kInvalidDescriptor);
  expect_last(8, "VIDPN-05", kSure, "an info of a monitor frequency range set.");
  const_cast<AbiRange*>(range)->Constraint.MaxPixelRate = 8;
  EXPECT_EQ(as_status(ranges_->pfnReleaseFrequencyRangeInfo(range_set, range)), Status::kSuccess);
  expect_last(9, "VIDPN-22", Confidence::kInferred, "wrote into an acquired frequency range info");
  const_cast<AbiMode*>(acquired)->Id = 99;
  EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(here, acquired)), Status::kSuccess);
  expect_last(10, "VIDPN-22", Confidence::kInferred, "wrote into an acquired monitor mode info");
}

// New infos have the next free id; origin, preference and id make no other mode; the newest
// preferred mode is the only one.
TEST_F(TwoMonitors, AddedModesJoin) {
  DXGKIT_COVERS("VIDPN-09", "VIDPN-21");
  const auto set = modes(kTargetB);
  const auto create = [&](uint32_t id) {
    AbiMode* info = nullptr;
    EXPECT_EQ(as_status(modes_->pfnCreateNewModeInfo(set, &info)), Status::kSuccess);
    AbiMode wanted;
    std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
    wanted.Id = id;
    EXPECT_EQ(std::memcmp(info, &wanted, sizeof wanted), 0) << id;
    return info;
  };
  MonitorMode mode = rich_monitor(100).modes[2];
  mode.id = 50;
  mode.preference = D3DKMDT_MP_PREFERRED;
  AbiMode* info = create(13);
  to_abi(mode, info);
  EXPECT_EQ(as_status(modes_->pfnAddMode(set, info)), kModeAlreadyInModeSet);
  mode.signal.active.height = 700;
  mode.id = 7;
  to_abi(mode, info);
  EXPECT_EQ(as_status(modes_->pfnAddMode(set, info)), kModeIdMustBeUnique);
  expect_last(1, "VIDPN-09", Confidence::kDocumented, "Mode id 7 is taken by another mode");
  mode.color_basis = 0;
  to_abi(mode, info);
  EXPECT_EQ(as_status(modes_->pfnAddMode(set, info)), kInvalidMonitorMode);
  expect_last(2, "VIDPN-21", Confidence::kInferred, "has ColorBasis 0 and Preference 1");
  EXPECT_EQ(driver_.manager.monitor(kTargetB)->modes, rich_monitor(100).modes);
  mode.color_basis = D3DKMDT_CB_SRGB;
  mode.id = 50;
  to_abi(mode, info);
  EXPECT_EQ(as_status(modes_->pfnAddMode(set, info)), Status::kSuccess);
  std::vector<MonitorMode> wanted = rich_monitor(100).modes;
  wanted[1].preference = D3DKMDT_MP_NOTPREFERRED;
  wanted.push_back(mode);
  EXPECT_EQ(driver_.manager.monitor(kTargetB)->modes, wanted);
  EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(set, info)), kInvalidTargetMode);
  expect_last(3, "VIDPN-06", Confidence::kDocumented,
              "The structure was added by pfnAddMode before.");
  // One that is not preferred takes nothing away.
  mode.id = 51;
  mode.signal.active.height = 600;
  mode.preference = D3DKMDT_MP_NOTPREFERRED;
  info = create(14);
  to_abi(mode, info);
  EXPECT_EQ(as_status(modes_->pfnAddMode(set, info)), Status::kSuccess);
  wanted.push_back(mode);
  EXPECT_EQ(driver_.manager.monitor(kTargetB)->modes, wanted);
  EXPECT_EQ(driver_.manager.monitor(kTargetA)->modes, rich_monitor(0).modes);
}

// The sets of the monitor that leaves end with it; the other monitor's sets stay.
TEST_F(TwoMonitors, OnlyTheListsOfTheOneThatLeftGo) {
  DXGKIT_COVERS("VIDPN-06", "VIDPN-29");
  const auto range_a = ranges(kTargetA);
  const auto range_b = ranges(kTargetB);
  const auto descriptor_a = descriptors(kTargetA);
  const auto descriptor_b = descriptors(kTargetB);
  const auto modes_b = modes(kTargetB);
  const AbiRange* of_a = nullptr;
  const AbiRange* of_b = nullptr;
  const AbiDescriptor* data_a = nullptr;
  const AbiDescriptor* data_b = nullptr;
  const AbiMode* mode_b = nullptr;
  ASSERT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_a, &of_a)),
            Status::kSuccess);
  ASSERT_EQ(as_status(ranges_->pfnAcquireFirstFrequencyRangeInfo(range_b, &of_b)),
            Status::kSuccess);
  ASSERT_EQ(as_status(descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_a, &data_a)),
            Status::kSuccess);
  ASSERT_EQ(as_status(descriptors_->pfnAcquireFirstDescriptorInfo(descriptor_b, &data_b)),
            Status::kSuccess);
  ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(modes_b, &mode_b)), Status::kSuccess);
  EXPECT_EQ(driver_.manager.open_objects(), 6U);
  driver_.manager.disconnect_monitor(kTargetA);
  EXPECT_EQ(driver_.manager.open_objects(), 4U);
  EXPECT_EQ(driver_.manager.monitor(kTargetA), nullptr);
  EXPECT_NE(driver_.manager.monitor(kTargetB), nullptr);
  SIZE_T count = 99;
  EXPECT_EQ(as_status(ranges_->pfnGetNumFrequencyRanges(range_a, &count)),
            kInvalidFrequencyRangeSet);
  expect_last(1, "VIDPN-06", Confidence::kDocumented,
              "The handle is a monitor frequency range set that was gone with its monitor.");
  EXPECT_EQ(as_status(descriptors_->pfnGetNumDescriptors(descriptor_a, &count)),
            kInvalidDescriptorSet);
  expect_last(2, "VIDPN-06", Confidence::kDocumented,
              "The handle is a monitor descriptor set that was gone with its monitor.");
  EXPECT_EQ(as_status(ranges_->pfnReleaseFrequencyRangeInfo(range_b, of_a)),
            kInvalidFrequencyRange);
  expect_last(3, "VIDPN-06", Confidence::kDocumented, "was gone with its monitor before.");
  EXPECT_EQ(as_status(descriptors_->pfnReleaseDescriptorInfo(descriptor_b, data_a)),
            kInvalidDescriptor);
  EXPECT_EQ(as_status(ranges_->pfnReleaseFrequencyRangeInfo(range_b, of_b)), Status::kSuccess);
  EXPECT_EQ(as_status(descriptors_->pfnReleaseDescriptorInfo(descriptor_b, data_b)),
            Status::kSuccess);
  EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(modes_b, mode_b)), Status::kSuccess);
  EXPECT_EQ(as_status(table_.pfnReleaseMonitorSourceModeSet(&driver_, modes_b)), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 4U);
  // A set without a reference ends at once.
  const auto modes_again = modes(kTargetB);
  EXPECT_EQ(as_status(table_.pfnReleaseMonitorSourceModeSet(&driver_, modes_again)),
            Status::kSuccess);
  driver_.manager.disconnect_monitor(kTargetB);
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(modes_again, &count)), kInvalidMonitorModeSet);
  expect_last(5, "VIDPN-06", Confidence::kDocumented, "gone with its monitor");
  driver_.manager.disconnect_monitor(kTargetB);  // once more is nothing
}

// The set a DDI hands over is stale when its monitor leaves, and ends with the call.
TEST_F(TwoMonitors, TheSetOfADdiGoesStaleWithItsMonitor) {
  DXGKIT_COVERS("VIDPN-29");
  DdiCall call(driver_.manager, Ddi::kRecommendMonitorModes, kTargetA);
  EXPECT_EQ(call.vidpn(), nullptr);
  EXPECT_EQ(call.topology(), nullptr);
  const auto set = static_cast<D3DKMDT_HMONITORSOURCEMODESET>(call.monitor_mode_set());
  modes_ =
      static_cast<const DXGK_MONITORSOURCEMODESET_INTERFACE*>(call.monitor_mode_set_interface());
  SIZE_T count = 0;
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(set, &count)), Status::kSuccess);
  EXPECT_EQ(count, 3U);
  // Acquired beside it, and released: the DDI's hold remains.
  EXPECT_EQ(modes(kTargetA), set);
  EXPECT_EQ(as_status(table_.pfnReleaseMonitorSourceModeSet(&driver_, set)), Status::kSuccess);
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(set, &count)), Status::kSuccess);
  driver_.manager.disconnect_monitor(kTargetA);
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(set, &count)), kStaleModeSet);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
  call.finish(Status::kSuccess);
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(set, &count)), kInvalidMonitorModeSet);
  expect_last(1, "VIDPN-06", Confidence::kDocumented, "gone with the end of the DDI call");
  const DdiCall other(driver_.manager, Ddi::kOther);
  EXPECT_EQ(other.monitor_mode_set(), nullptr);
  EXPECT_EQ(other.monitor_mode_set_interface(), nullptr);
  EXPECT_EQ(other.vidpn(), nullptr);
  EXPECT_EQ(other.topology(), nullptr);
}

// A stale set stays for the DDI that still holds it, whatever other DDIs end meanwhile.
TEST_F(TwoMonitors, AStaleSetStaysWhileADdiHoldsIt) {
  DXGKIT_COVERS("VIDPN-29");
  DdiCall holder(driver_.manager, Ddi::kOther);
  const auto set = modes(kTargetA);
  DdiCall inner(driver_.manager, Ddi::kOther);
  driver_.manager.disconnect_monitor(kTargetA);
  inner.finish(Status::kSuccess);
  SIZE_T count = 0;
  EXPECT_EQ(as_status(modes_->pfnGetNumModes(set, &count)), kStaleModeSet);
  EXPECT_EQ(as_status(table_.pfnReleaseMonitorSourceModeSet(&driver_, set)), Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
  holder.finish(Status::kSuccess);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

TEST_F(TwoMonitors, LeaksNameTheirTargetAndNumber) {
  DXGKIT_COVERS("VIDPN-07");
  // Outside any call: said at the end of the device.
  const auto set = modes(kTargetB);
  modes(kTargetB);
  const AbiMode* mode = nullptr;
  ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(set, &mode)), Status::kSuccess);
  {
    DdiCall call(driver_.manager, Ddi::kCommitVidPn, one_path(full_profile()));
    modes(kTargetB);
    modes(kTargetA);
    modes(kTargetA);
    ASSERT_EQ(as_status(modes_->pfnAcquireFirstModeInfo(set, &mode)), Status::kSuccess);
    EXPECT_EQ(driver_.manager.open_objects(), 8U);
    call.finish(Status::kUnsuccessful);
  }
  EXPECT_EQ(driver_.manager.open_objects(), 3U);
  EXPECT_EQ(driver_.manager.report_leaks(), 2U);
  EXPECT_EQ(driver_.manager.report_leaks(), 0U);
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
  const std::pair<const char*, const char*> wanted[] = {
      {"DxgkDdiCommitVidPn",
       "an acquired monitor mode info, from pfnAcquireFirstModeInfo, was still held when it was "
       "left to the end."},
      {"DxgkDdiCommitVidPn",
       "The monitor source mode set of target 256 (2 references), from "
       "pfnAcquireMonitorSourceModeSet, was still held when it was left to the end."},
      {"DxgkDdiCommitVidPn",
       "The monitor source mode set of target 512 (1 references), from "
       "pfnAcquireMonitorSourceModeSet, was still held when it was left to the end."},
      {"DxgkDdiStopDevice",
       "an acquired monitor mode info, from pfnAcquireFirstModeInfo, was still held when it was "
       "left to the end of the device."},
      {"DxgkDdiStopDevice",
       "The monitor source mode set of target 512 (2 references), from "
       "pfnAcquireMonitorSourceModeSet, was still held when it was left to the end of the "
       "device."},
  };
  // A repeat of the same sentence is counted, whatever its numbers.
  EXPECT_EQ(driver_.findings.count("VIDPN-07"), std::size(wanted));
  const std::vector<verifier::Finding> all = driver_.findings.all();
  for (const verifier::Finding& finding : all) {
    bool known = false;
    for (const auto& [ddi, text] : wanted) known |= finding.ddi == ddi && finding.actual == text;
    EXPECT_TRUE(known) << finding.ddi << ": " << finding.actual;
    EXPECT_EQ(finding.confidence, Confidence::kDocumented);
  }
}

TEST_F(TwoMonitors, TargetsAndAdaptersAreChecked) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-17", "VIDPN-29");
  driver_.manager.disconnect_monitor(kTargetB);
  D3DKMDT_HMONITORSOURCEMODESET set = nullptr;
  UINT count = 99;
  DXGK_TARGETMODE_DETAIL_TIMING* timings = nullptr;
  const auto refused = [&](uint32_t target, Status wanted) {
    EXPECT_EQ(as_status(table_.pfnAcquireMonitorSourceModeSet(&driver_, target, &set, &modes_)),
              wanted);
    EXPECT_EQ(as_status(table_.pfnGetAdditionalMonitorModeSet(&driver_, target, &count, &timings)),
              wanted);
    EXPECT_EQ(as_status(table_.pfnReleaseAdditionalMonitorModeSet(&driver_, target, nullptr)),
              wanted);
    EXPECT_EQ(count, 99U);
  };
  refused(kTargetB, kMonitorNotConnected);
  EXPECT_EQ(driver_.findings.total(), 0U);
  refused(7, kInvalidTarget);
  expect_last(3, "VIDPN-17", Confidence::kDocumented, "Target 7 is not there.");
  DXGK_TARGETMODE_DETAIL_TIMING mine;
  EXPECT_EQ(as_status(table_.pfnReleaseAdditionalMonitorModeSet(&driver_, kTargetA, &mine)),
            kInvalidMonitorModeSet);
  expect_last(4, "VIDPN-05", Confidence::kDocumented, "did not come from");
  int other = 0;
  EXPECT_EQ(as_status(table_.pfnReleaseAdditionalMonitorModeSet(&other, kTargetA, nullptr)),
            kInvalidDisplayAdapter);
  expect_last(5, "VIDPN-05", Confidence::kDocumented, "hAdapter is not the DeviceHandle");
  EXPECT_EQ(set, nullptr);
}

TEST_F(TwoMonitors, BothVersionsOfTheInterfaceAreTheSame) {
  const void* table = nullptr;
  ASSERT_EQ(Manager::query_monitor_interface(&driver_, 1, &table), Status::kSuccess);
  const auto& first = *static_cast<const DXGK_MONITOR_INTERFACE*>(table);
  EXPECT_EQ(first.Version, DXGK_MONITOR_INTERFACE_VERSION_V1);
  EXPECT_EQ(table_.Version, DXGK_MONITOR_INTERFACE_VERSION_V2);
  EXPECT_EQ(first.pfnAcquireMonitorSourceModeSet, table_.pfnAcquireMonitorSourceModeSet);
  EXPECT_EQ(first.pfnReleaseMonitorSourceModeSet, table_.pfnReleaseMonitorSourceModeSet);
  EXPECT_EQ(first.pfnGetMonitorFrequencyRangeSet, table_.pfnGetMonitorFrequencyRangeSet);
  EXPECT_EQ(first.pfnGetMonitorDescriptorSet, table_.pfnGetMonitorDescriptorSet);
  for (const uint32_t version : {0U, 3U})
    EXPECT_EQ(Manager::query_monitor_interface(&driver_, version, &table), Status::kNotSupported);
}

}  // namespace
}  // namespace dxgkit::vidpn
