// Monitors as a driver sees them, hot-plug included; and the interfaces under a kernel: levels,
// places, bug checks.
#include <gtest/gtest.h>

#include <cstring>

#include "bus/machine.h"
#include "nt/kernel.h"
#include "runtime/runtime.h"
#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

class Monitors : public ::testing::Test {
 protected:
  Monitors() {
    driver_.manager.connect_monitor(kTargetA, *monitor_from_edid(build_edid(default_edid())));
  }

  DriverSide driver_;
  D3DKMDT_HMONITORSOURCEMODESET set_ = nullptr;
  const DXGK_MONITORSOURCEMODESET_INTERFACE* functions_ = nullptr;
  const D3DKMDT_MONITOR_SOURCE_MODE* info_ = nullptr;

  Status acquire(uint32_t target = kTargetA) {
    return as_status(
        driver_.monitor().pfnAcquireMonitorSourceModeSet(&driver_, target, &set_, &functions_));
  }
  Status release() {
    return as_status(driver_.monitor().pfnReleaseMonitorSourceModeSet(&driver_, set_));
  }
  Status add(const MonitorMode& mode) {
    D3DKMDT_MONITOR_SOURCE_MODE* made = nullptr;
    EXPECT_EQ(as_status(functions_->pfnCreateNewModeInfo(set_, &made)), Status::kSuccess);
    const UINT id = made->Id;
    to_abi(mode, made);
    if (mode.id == 0) made->Id = id;
    const Status status = as_status(functions_->pfnAddMode(set_, made));
    if (!is_success(status)) {
      EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, made)), Status::kSuccess);
    }
    return status;
  }
};

TEST_F(Monitors, ModesAreEnumeratedPreferredFirst) {
  DXGKIT_COVERS("VIDPN-25", "VIDPN-30");
  ASSERT_EQ(acquire(), Status::kSuccess);
  SIZE_T modes = 0;
  EXPECT_EQ(as_status(functions_->pfnGetNumModes(set_, &modes)), Status::kSuccess);
  EXPECT_EQ(modes, default_edid().timings.size());
  ASSERT_EQ(as_status(functions_->pfnAcquirePreferredModeInfo(set_, &info_)), Status::kSuccess);
  EXPECT_EQ(info_->VideoSignalInfo.ActiveSize.cx, 1920U);
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
  size_t seen = 0;
  Status status = as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_));
  while (status == Status::kSuccess) {
    ++seen;
    const D3DKMDT_MONITOR_SOURCE_MODE* next = nullptr;
    status = as_status(functions_->pfnAcquireNextModeInfo(set_, info_, &next));
    EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
    info_ = next;
  }
  EXPECT_EQ(status, kNoMoreElements);
  EXPECT_EQ(info_, nullptr);
  EXPECT_EQ(seen, modes);
  EXPECT_EQ(release(), Status::kSuccess);
  EXPECT_EQ(release(), kInvalidMonitorModeSet);
  EXPECT_EQ(driver_.findings.count("VIDPN-06"), 1U);
  EXPECT_EQ(driver_.findings.total(), 1U);
}

TEST_F(Monitors, RefusesWrongAdaptersTargetsAndHandles) {
  DXGKIT_COVERS("VIDPN-05", "VIDPN-17", "VIDPN-24", "VIDPN-29");
  int other = 0;
  const auto acquire_function = driver_.monitor().pfnAcquireMonitorSourceModeSet;
  EXPECT_EQ(as_status(acquire_function(&other, kTargetA, &set_, &functions_)),
            kInvalidDisplayAdapter);
  EXPECT_EQ(as_status(acquire_function(nullptr, kTargetA, &set_, &functions_)),
            kInvalidDisplayAdapter);
  EXPECT_EQ(driver_.findings.count("VIDPN-05"), 2U);
  EXPECT_EQ(acquire(5), kInvalidTarget);
  EXPECT_EQ(acquire(kTargetB), kMonitorNotConnected);
  EXPECT_EQ(as_status(acquire_function(&driver_, kTargetA, nullptr, &functions_)),
            Status::kInvalidParameter);
  EXPECT_EQ(set_, nullptr);
  ASSERT_EQ(acquire(), Status::kSuccess);
  SIZE_T modes = 99;
  EXPECT_EQ(as_status(functions_->pfnGetNumModes(nullptr, &modes)), kInvalidMonitorModeSet);
  D3DKMDT_MONITOR_SOURCE_MODE mine;
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, &mine)), kInvalidTargetMode);
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(nullptr, &mine)), kInvalidMonitorModeSet);
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_)), Status::kSuccess);
  const size_t told = driver_.findings.total();
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(nullptr, info_)), kInvalidMonitorModeSet);
  EXPECT_EQ(driver_.findings.total(), told + 1) << driver_.texts();
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnAcquireNextModeInfo(set_, &mine, &info_)),
            kInvalidMonitorMode);
  EXPECT_EQ(as_status(functions_->pfnAddMode(set_, &mine)), kInvalidMonitorMode);
  EXPECT_EQ(release(), Status::kSuccess);
  const void* table = nullptr;
  EXPECT_EQ(Manager::query_monitor_interface(&driver_, 3, &table), Status::kNotSupported);
  EXPECT_EQ(Manager::query_monitor_interface(&driver_, 1, nullptr), Status::kInvalidParameter);
  EXPECT_EQ(Manager::query_monitor_interface(&other, 1, &table), kInvalidDisplayAdapter);
  EXPECT_EQ(table, nullptr);
  EXPECT_EQ(Manager::query_monitor_interface(&driver_, 1, &table), Status::kSuccess);
  EXPECT_EQ(static_cast<const DXGK_MONITOR_INTERFACE*>(table)->Version,
            DXGK_MONITOR_INTERFACE_VERSION_V1);
}

TEST_F(Monitors, ASetOfAMonitorThatLeftIsStale) {
  DXGKIT_COVERS("VIDPN-29");
  ASSERT_EQ(acquire(), Status::kSuccess);
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_)), Status::kSuccess);
  driver_.manager.disconnect_monitor(kTargetA);
  SIZE_T modes = 99;
  EXPECT_EQ(as_status(functions_->pfnGetNumModes(set_, &modes)), kStaleModeSet);
  EXPECT_EQ(modes, 99U);
  const D3DKMDT_MONITOR_SOURCE_MODE* next = nullptr;
  EXPECT_EQ(as_status(functions_->pfnAcquireNextModeInfo(set_, info_, &next)), kStaleModeSet);
  EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
  EXPECT_EQ(release(), Status::kSuccess);
  EXPECT_EQ(acquire(), kMonitorNotConnected);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
  driver_.manager.connect_monitor(kTargetA, default_monitor());
  ASSERT_EQ(acquire(), Status::kSuccess);
  EXPECT_EQ(as_status(functions_->pfnGetNumModes(set_, &modes)), Status::kSuccess);
  EXPECT_EQ(modes, default_monitor().modes.size());
  EXPECT_EQ(release(), Status::kSuccess);
}

TEST_F(Monitors, RangesAndDescriptorsAreReadOnlyLists) {
  DXGKIT_COVERS("VIDPN-25", "VIDPN-29", "VIDPN-07");
  D3DKMDT_HMONITORFREQUENCYRANGESET ranges = nullptr;
  const DXGK_MONITORFREQUENCYRANGESET_INTERFACE* range_functions = nullptr;
  ASSERT_EQ(as_status(driver_.monitor().pfnGetMonitorFrequencyRangeSet(&driver_, kTargetA, &ranges,
                                                                       &range_functions)),
            Status::kSuccess);
  SIZE_T count = 0;
  EXPECT_EQ(as_status(range_functions->pfnGetNumFrequencyRanges(ranges, &count)), Status::kSuccess);
  EXPECT_EQ(count, 1U);
  const D3DKMDT_MONITOR_FREQUENCY_RANGE* range = nullptr;
  const D3DKMDT_MONITOR_FREQUENCY_RANGE* end = nullptr;
  ASSERT_EQ(as_status(range_functions->pfnAcquireFirstFrequencyRangeInfo(ranges, &range)),
            Status::kSuccess);
  EXPECT_EQ(range->RangeLimits.MaxVSyncFreq.Numerator, 75U);
  EXPECT_EQ(range->Constraint.MaxPixelRate, 170'000'000U);
  EXPECT_EQ(as_status(range_functions->pfnAcquireNextFrequencyRangeInfo(ranges, range, &end)),
            kNoMoreElements);
  EXPECT_EQ(as_status(range_functions->pfnReleaseFrequencyRangeInfo(ranges, range)),
            Status::kSuccess);
  EXPECT_EQ(as_status(range_functions->pfnReleaseFrequencyRangeInfo(ranges, range)),
            kInvalidFrequencyRange);

  D3DKMDT_HMONITORDESCRIPTORSET descriptors = nullptr;
  const DXGK_MONITORDESCRIPTORSET_INTERFACE* functions = nullptr;
  ASSERT_EQ(as_status(driver_.monitor().pfnGetMonitorDescriptorSet(&driver_, kTargetA, &descriptors,
                                                                   &functions)),
            Status::kSuccess);
  EXPECT_EQ(as_status(functions->pfnGetNumDescriptors(
                reinterpret_cast<D3DKMDT_HMONITORDESCRIPTORSET>(ranges), &count)),
            kInvalidDescriptorSet);
  const D3DKMDT_MONITOR_DESCRIPTOR* descriptor = nullptr;
  ASSERT_EQ(as_status(functions->pfnAcquireFirstDescriptorInfo(descriptors, &descriptor)),
            Status::kSuccess);
  ASSERT_EQ(descriptor->DataSize, kEdidBlockBytes);
  EXPECT_EQ(std::memcmp(descriptor->pData, build_edid(default_edid()).data(), kEdidBlockBytes), 0);
  driver_.manager.disconnect_monitor(kTargetA);
  EXPECT_EQ(as_status(functions->pfnGetNumDescriptors(descriptors, &count)), kInvalidDescriptorSet);
  // The sets of a monitor that left are not a leak.
  EXPECT_EQ(driver_.manager.report_leaks(), 0U);
}

TEST_F(Monitors, AdditionalModesAreNone) {
  UINT count = 99;
  DXGK_TARGETMODE_DETAIL_TIMING before;
  DXGK_TARGETMODE_DETAIL_TIMING* modes = &before;
  EXPECT_EQ(as_status(driver_.monitor().pfnGetAdditionalMonitorModeSet(&driver_, kTargetA, &count,
                                                                       &modes)),
            Status::kSuccess);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(modes, nullptr);
  const auto release_function = driver_.monitor().pfnReleaseAdditionalMonitorModeSet;
  EXPECT_EQ(as_status(release_function(&driver_, kTargetA, nullptr)), Status::kSuccess);
  DXGK_TARGETMODE_DETAIL_TIMING mine;
  EXPECT_EQ(as_status(release_function(&driver_, kTargetA, &mine)), kInvalidMonitorModeSet);
}

TEST_F(Monitors, RecommendedModesJoinTheMonitor) {
  DXGKIT_COVERS("VIDPN-21", "VIDPN-09", "VIDPN-14");
  {
    DdiCall call(driver_.manager, Ddi::kRecommendMonitorModes, kTargetA);
    EXPECT_EQ(call.vidpn(), nullptr);
    set_ = static_cast<D3DKMDT_HMONITORSOURCEMODESET>(call.monitor_mode_set());
    functions_ =
        static_cast<const DXGK_MONITORSOURCEMODESET_INTERFACE*>(call.monitor_mode_set_interface());
    MonitorMode mode = good_monitor_mode();
    EXPECT_EQ(add(mode), kModeAlreadyInModeSet);
    mode.signal.active = mode.signal.total = {1366, 768};
    mode.signal.vsync = {kNotSpecified, kNotSpecified};
    EXPECT_EQ(add(mode), kInvalidFrequency);
    mode.signal.vsync = {60, 1};
    mode.signal.hsync = {kNotSpecified, kNotSpecified};
    mode.signal.pixel_rate = kNotSpecified;
    mode.preference = D3DKMDT_MP_PREFERRED;
    mode.id = 1;
    EXPECT_EQ(add(mode), kModeIdMustBeUnique);
    mode.id = 0;
    EXPECT_EQ(add(mode), Status::kSuccess);
    // Given by the DDI, not acquired.
    EXPECT_EQ(release(), kInvalidMonitorModeSet);
    call.finish(Status::kSuccess);
    EXPECT_EQ(driver_.findings.count("VIDPN-07"), 0U) << driver_.texts();
    SIZE_T modes = 0;
    EXPECT_EQ(as_status(functions_->pfnGetNumModes(set_, &modes)), kInvalidMonitorModeSet);
  }
  const Monitor* monitor = driver_.manager.monitor(kTargetA);
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(monitor->modes.size(), default_edid().timings.size() + 1);
  EXPECT_EQ(monitor->modes.back().preference, static_cast<uint32_t>(D3DKMDT_MP_PREFERRED));
  EXPECT_EQ(monitor->modes.front().preference, static_cast<uint32_t>(D3DKMDT_MP_NOTPREFERRED));
}

// The set that a DDI was given is its own until it returns, also where it acquired it once more.
TEST_F(Monitors, TheSetOfADdiOutlivesItsRelease) {
  DXGKIT_COVERS("VIDPN-08");
  {
    DdiCall call(driver_.manager, Ddi::kRecommendMonitorModes, kTargetA);
    ASSERT_EQ(acquire(), Status::kSuccess);
    EXPECT_EQ(set_, call.monitor_mode_set());
    ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_)), Status::kSuccess);
    EXPECT_EQ(release(), Status::kSuccess);
    const D3DKMDT_MONITOR_SOURCE_MODE* next = nullptr;
    EXPECT_EQ(as_status(functions_->pfnAcquireNextModeInfo(set_, info_, &next)), Status::kSuccess);
    EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
    EXPECT_EQ(as_status(functions_->pfnReleaseModeInfo(set_, next)), Status::kSuccess);
    EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
    EXPECT_EQ(release(), kInvalidMonitorModeSet);
    call.finish(Status::kSuccess);
  }
  // One that no DDI was given goes with the release, and what is left of it with it.
  ASSERT_EQ(acquire(), Status::kSuccess);
  ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_)), Status::kSuccess);
  EXPECT_EQ(release(), Status::kSuccess);
  EXPECT_NE(as_status(functions_->pfnReleaseModeInfo(set_, info_)), Status::kSuccess);
}

TEST_F(Monitors, LeaksAreCountedPerCallAndAtTheEnd) {
  DXGKIT_COVERS("VIDPN-07");
  {
    DdiCall call(driver_.manager, Ddi::kOther);
    ASSERT_EQ(acquire(), Status::kSuccess);
    ASSERT_EQ(as_status(functions_->pfnAcquireFirstModeInfo(set_, &info_)), Status::kSuccess);
    call.finish(Status::kSuccess);
  }
  EXPECT_EQ(driver_.findings.count("VIDPN-07"), 2U);
  ASSERT_EQ(acquire(), Status::kSuccess);
  EXPECT_EQ(driver_.manager.report_leaks(), 1U);
  EXPECT_EQ(driver_.manager.open_objects(), 0U);
}

// Under a kernel: findings name the DDI, levels are checked, VIDPN-04 ends the driver call.
struct Script {
  const DXGK_VIDPN_INTERFACE* vidpn;
  D3DKMDT_HVIDPN handle;
  bool after = false;
};

NTSTATUS NTAPI identity_only(Script* script) {
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* functions = nullptr;
  const NTSTATUS status = script->vidpn->pfnGetTopology(script->handle, &topology, &functions);
  if (status < 0) return status;
  static D3DKMDT_VIDPN_PRESENT_PATH path;
  std::memset(&path, 0, sizeof path);
  path.VidPnSourceId = 0;
  path.VidPnTargetId = kTargetA;
  path.ContentTransformation.RotationSupport.Identity = 1;
  functions->pfnUpdatePathSupportInfo(topology, &path);
  script->after = true;
  return 0;
}

NTSTATUS NTAPI ask_topology(Script* script) {
  D3DKMDT_HVIDPNTOPOLOGY topology = nullptr;
  const DXGK_VIDPNTOPOLOGY_INTERFACE* functions = nullptr;
  return script->vidpn->pfnGetTopology(script->handle, &topology, &functions);
}

// A DDI that is called inside another one is the thread's until it returns, and then the other is.
TEST(UnderKernel, ACallInsideAnotherGivesItBack) {
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    bus::Machine machine(1 << 20);
    verifier::Findings findings;
    nt::Kernel kernel(*runtime, machine, findings);
    Manager manager({.profile = full_profile(),
                     .findings = &findings,
                     .kernel = &kernel,
                     .adapter_handle = &kernel});
    manager.connect_monitor(kTargetA, *monitor_from_edid(build_edid(default_edid())));
    const void* table = nullptr;
    ASSERT_EQ(Manager::query_monitor_interface(&kernel, 2, &table), Status::kSuccess);
    const auto& monitor = *static_cast<const DXGK_MONITOR_INTERFACE_V2*>(table);
    // An acquired object belongs to the innermost call: it leaks with that call and not with the
    // others.
    const auto acquire = [&] {
      D3DKMDT_HMONITORSOURCEMODESET set = nullptr;
      const DXGK_MONITORSOURCEMODESET_INTERFACE* functions = nullptr;
      return as_status(monitor.pfnAcquireMonitorSourceModeSet(&kernel, kTargetA, &set, &functions));
    };
    DdiCall outer(manager, Ddi::kIsSupportedVidPn, one_path(full_profile()));
    {
      DdiCall middle(manager, Ddi::kOther);
      DdiCall inner(manager, Ddi::kOther);
      EXPECT_EQ(acquire(), Status::kSuccess);
      inner.finish(Status::kSuccess);
      EXPECT_EQ(findings.count("VIDPN-07"), 1U);
      middle.finish(Status::kSuccess);
      EXPECT_EQ(findings.count("VIDPN-07"), 1U);
    }
    EXPECT_EQ(acquire(), Status::kSuccess);
    outer.finish(Status::kSuccess);
    EXPECT_EQ(findings.count("VIDPN-07"), 2U);
    DdiCall after(manager, Ddi::kOther);
    after.finish(Status::kSuccess);
    EXPECT_EQ(findings.total(), 2U);
  });
}

TEST(UnderKernel, RotationWithoutOffsetStopsTheDriver) {
  DXGKIT_COVERS("VIDPN-04", "VIDPN-23");
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    bus::Machine machine(1 << 20);
    verifier::Findings findings;
    nt::Kernel kernel(*runtime, machine, findings);
    Manager manager({.profile = full_profile(),
                     .findings = &findings,
                     .kernel = &kernel,
                     .image_driver = true,
                     .adapter_handle = &kernel});
    DdiCall call(manager, Ddi::kEnumVidPnCofuncModality, one_path(full_profile()));
    const void* table = nullptr;
    ASSERT_EQ(Manager::query_vidpn_interface(call.vidpn(), 1, &table), Status::kSuccess);
    Script script{static_cast<const DXGK_VIDPN_INTERFACE*>(table), DriverSide::handle(call)};
    {
      nt::CallFrame frame(kernel, "DxgkDdiEnumVidPnCofuncModality", nt::kDispatchLevel);
      NTSTATUS status = -1;
      ASSERT_TRUE(frame.call(&ask_topology, &status, &script));
      EXPECT_EQ(status, 0);
      frame.restore_entry_irql();
    }
    ASSERT_EQ(findings.count("VIDPN-23"), 1U);
    EXPECT_NE(findings.all()[0].actual.find("DISPATCH_LEVEL"), std::string::npos);
    EXPECT_NE(findings.all()[0].actual.find("(inside DxgkDdiEnumVidPnCofuncModality)"),
              std::string::npos);
    {
      nt::CallFrame frame(kernel, "DxgkDdiEnumVidPnCofuncModality", nt::kPassiveLevel);
      NTSTATUS status = -1;
      EXPECT_FALSE(frame.call(&identity_only, &status, &script));
      EXPECT_TRUE(frame.abandoned());
    }
    EXPECT_FALSE(script.after);
    EXPECT_TRUE(kernel.driver_is_dead());
    call.finish(Status::kUnsuccessful, /*abandoned=*/true);
    EXPECT_EQ(findings.count("VIDPN-04"), 1U);
    EXPECT_EQ(findings.all().back().bugcheck_code, 0x113U);
    EXPECT_EQ(findings.all().back().bugcheck_parameter, 0x1CU);
    EXPECT_EQ(manager.open_objects(), 0U);
  });
}

}  // namespace
}  // namespace dxgkit::vidpn
