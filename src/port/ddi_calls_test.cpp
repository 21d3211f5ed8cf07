// The common part of every DDI call: its trace, and when the call is not made.
#include <map>
#include <set>

#include "port/every_ddi_test.h"
#include "trace/trace.h"

namespace dxgkit::port {
namespace {

using namespace every_ddi;

/// The trace of a call, beside name and level.
struct Noted {
  uint64_t argument = 0;
  uint16_t node = trace::kNoNode;
};
const std::map<std::string_view, Noted> kNoted = {
    {"DxgkDdiAcquireSwizzlingRange", {3}},
    {"DxgkDdiBuildPagingBuffer", {DXGK_OPERATION_FILL}},
    {"DxgkDdiCancelCommand", {0x31}},
    {"DxgkDdiCloseAllocation", {4}},
    {"DxgkDdiCollectDbgInfo", {0x141}},
    {"DxgkDdiCollectDbgInfo2", {0x141}},
    {"DxgkDdiCommitVidPn", {1}},
    {"DxgkDdiControlInterrupt", {1}},
    {"DxgkDdiControlInterrupt2", {1}},
    {"DxgkDdiControlInterrupt3", {1}},
    {"DxgkDdiCreateAllocation", {2}},
    {"DxgkDdiCalibrateGpuClock", {0, 2}},
    {"DxgkDdiCreateContext", {0x80, 4}},
    {"DxgkDdiCreateOverlay", {2}},
    {"DxgkDdiCollectDiagnosticInfo", {DXGK_DI_STARTDEVICE}},
    {"DxgkDdiControlDiagnosticReporting", {1}},
    {"DxgkDdiControlEtwLogging", {1}},
    {"DxgkDdiGetChildContainerId", {3}},
    {"DxgkDdiPowerRuntimeControlRequest", {1}},
    {"DxgkDdiQueryDiagnosticTypesSupport", {2}},
    {"DxgkDdiDispatchIoRequest", {0x23}},
    {"DxgkDdiNotifyAcpiEvent", {0x81}},
    {"DxgkDdiSetDisplayPrivateDriverFormat", {1}},
    {"DxgkDdiSetStablePowerState", {1}},
    {"DxgkDdiCreateProtectedSession", {0x6F}},
    {"DxgkDdiCreateCpuEvent", {0x4C}},
    {"DxgkDdiCreateDevice", {0x60}},
    {"DxgkDdiCreateHwContext", {0x84, 6}},
    {"DxgkDdiCreateHwQueue", {0x88}},
    {"DxgkDdiCreateNativeFence", {0x44}},
    {"DxgkDdiCreateProcess", {0x40}},
    {"DxgkDdiDestroyAllocation", {5}},
    {"DxgkDdiEnumVidPnCofuncModality", {static_cast<uint64_t>(EnumPivot::kSource)}},
    {"DxgkDdiGetNodeMetadata", {1}},
    {"DxgkDdiGetRootPageTableSize", {8}},
    {"DxgkDdiGetScanLine", {2}},
    {"DxgkDdiMapCpuHostAperture", {2}},
    {"DxgkDdiNotifySurpriseRemoval", {1}},
    {"DxgkDdiOpenAllocation", {3}},
    {"DxgkDdiOpenNativeFence", {0x48}},
    {"DxgkDdiPatch", {0x31}},
    {"DxgkDdiPreemptCommand", {0x34, 2}},
    {"DxgkDdiPresentDisplayOnly", {2}},
    {"DxgkDdiQueryAdapterInfo", {DXGKQAITYPE_QUERYSEGMENT4}},
    {"DxgkDdiQueryChildStatus", {2}},
    {"DxgkDdiQueryCurrentFence", {0, 3}},
    {"DxgkDdiQueryDependentEngineGroup", {0, 2}},
    {"DxgkDdiQueryDeviceDescriptor", {2}},
    {"DxgkDdiQueryEngineStatus", {0, 4}},
    {"DxgkDdiRecommendMonitorModes", {2}},
    {"DxgkDdiReleaseSwizzlingRange", {2}},
    {"DxgkDdiRender", {24}},
    {"DxgkDdiRenderKm", {40}},
    {"DxgkDdiResetEngine", {0, 5}},
    {"DxgkDdiResetHwEngine", {7, 7}},
    {"DxgkDdiResumeHwEngine", {8, 8}},
    {"DxgkDdiSetContextSchedulingProperties", {static_cast<uint64_t>(PriorityBand::kRealtime)}},
    {"DxgkDdiSetPointerPosition", {1}},
    {"DxgkDdiSetPointerShape", {3}},
    {"DxgkDdiSetPowerComponentFState", {uint64_t{3} << 32 | 1}},
    {"DxgkDdiSetPowerState", {static_cast<uint64_t>(PowerState::kD3)}},
    {"DxgkDdiSetRootPageTable", {0x7000}},
    {"DxgkDdiSetVidPnSourceAddress", {1}},
    {"DxgkDdiSetVidPnSourceVisibility", {1}},
    {"DxgkDdiSetupPriorityBands", {10}},
    {"DxgkDdiStopDeviceAndReleasePostDisplayOwnership", {1}},
    {"DxgkDdiSubmitCommand", {0x32, 5}},
    {"DxgkDdiSubmitCommandToHwQueue", {0x1'0000'0002}},
    {"DxgkDdiSubmitCommandVirtual", {0x33, 6}},
    {"DxgkDdiSuspendContext", {7}},
    {"DxgkDdiSystemDisplayEnable", {1}},
    {"DxgkDdiUnmapCpuHostAperture", {3}},
    {"DxgkDdiUpdateCurrentValuesFromCpu", {6}},
    {"DxgkDdiUpdateMonitoredValues", {5}},
    {"DxgkDdiValidateSubmitCommand", {3}},
    {"DxgkDdiCheckMultiPlaneOverlaySupport", {1}},
    {"DxgkDdiCheckMultiPlaneOverlaySupport2", {1}},
    {"DxgkDdiCheckMultiPlaneOverlaySupport3", {1}},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", {1}},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2", {1}},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", {1}},
    {"DxgkDdiPostMultiPlaneOverlayPresent", {2}},
    {"DxgkDdiGetMultiPlaneOverlayCaps", {1}},
    {"DxgkDdiGetPostCompositionCaps", {1}},
    {"DxgkDdiSetTimingsFromVidPn", {1}},
    {"DxgkDdiSetTargetGamma", {2}},
    {"DxgkDdiSetTargetContentType", {2}},
    {"DxgkDdiSetTargetAnalogCopyProtection", {2}},
    {"DxgkDdiUpdateMonitorLinkInfo", {2}},
    {"DxgkDdiDisplayDetectControl", {DXGK_DDCT_POLLALL}},
};
/// Entries that answer no NTSTATUS.
const std::set<std::string_view> kOtherAnswers = {
    "DxgkDdiControlEtwLogging",         "DxgkDdiDpcRoutine",         "DxgkDdiGetRootPageTableSize",
    "DxgkDdiInterruptRoutine",          "DxgkDdiResetDevice",        "DxgkDdiSetRootPageTable",
    "DxgkDdiSetStablePowerState",       "DxgkDdiSystemDisplayWrite", "DxgkDdiUpdateMonitoredValues",
    "DxgkDdiUpdateCurrentValuesFromCpu"};

/// The result of a call for which the driver's STATUS_INVALID_PARAMETER is not passed on.
const std::map<std::string_view, Status> kRefused = {
    {"DxgkDdiBuildPagingBuffer", Status::kUnsuccessful},
    {"DxgkDdiCollectDbgInfo", Status::kSuccess},
    {"DxgkDdiCollectDbgInfo2", Status::kSuccess},
    {"DxgkDdiQueryDependentEngineGroup", Status::kUnsuccessful},
    {"DxgkDdiReleaseSwizzlingRange", Status::kSuccess},
    {"DxgkDdiSetDisplayPrivateDriverFormat", Status::kUnsuccessful},
    {"DxgkDdiSetPowerState", Status::kSuccess},
};
/// The same of its STATUS_PENDING: of what gives a value, the value counts.
const std::map<std::string_view, Status> kPended = {
    {"DxgkDdiBuildPagingBuffer", Status::kUnsuccessful},
    {"DxgkDdiCalibrateGpuClock", Status::kSuccess},
    {"DxgkDdiCancelCommand", Status::kUnsuccessful},
    {"DxgkDdiCollectDbgInfo", Status::kSuccess},
    {"DxgkDdiCollectDbgInfo2", Status::kSuccess},
    {"DxgkDdiCreateAllocation", Status::kInvalidParameter},
    {"DxgkDdiCreateContext", Status::kSuccess},
    {"DxgkDdiCreateCpuEvent", Status::kSuccess},
    {"DxgkDdiCreateDevice", Status::kSuccess},
    {"DxgkDdiCreateHwContext", Status::kSuccess},
    {"DxgkDdiCreateHwQueue", Status::kSuccess},
    {"DxgkDdiCreateNativeFence", Status::kSuccess},
    {"DxgkDdiCreateOverlay", Status::kInvalidParameter},
    {"DxgkDdiCreateProtectedSession", Status::kSuccess},
    {"DxgkDdiCreateProcess", Status::kSuccess},
    {"DxgkDdiDescribeAllocation", Status::kSuccess},
    {"DxgkDdiDispatchIoRequest", Status::kSuccess},
    {"DxgkDdiGetStandardAllocationDriverData", Status::kSuccess},
    {"DxgkDdiIsSupportedVidPn", Status::kSuccess},
    {"DxgkDdiNotifyAcpiEvent", Status::kSuccess},
    {"DxgkDdiOpenAllocation", Status::kInvalidParameter},
    {"DxgkDdiOpenNativeFence", Status::kSuccess},
    {"DxgkDdiPatch", Status::kUnsuccessful},
    {"DxgkDdiPreemptCommand", Status::kUnsuccessful},
    {"DxgkDdiPresent", Status::kInvalidParameter},
    {"DxgkDdiCollectDiagnosticInfo", Status::kSuccess},
    {"DxgkDdiQueryDiagnosticTypesSupport", Status::kSuccess},
    {"DxgkDdiQueryChildStatus", Status::kSuccess},
    {"DxgkDdiQueryCurrentFence", Status::kSuccess},
    {"DxgkDdiQueryDependentEngineGroup", Status::kUnsuccessful},
    {"DxgkDdiQueryDeviceDescriptor", Status::kNotSupported},  // it wrote none
    {"DxgkDdiQueryEngineStatus", Status::kUnsuccessful},
    {"DxgkDdiQueryVidPnHWCapability", Status::kSuccess},
    {"DxgkDdiReleaseSwizzlingRange", Status::kSuccess},
    {"DxgkDdiRender", Status::kInvalidParameter},
    {"DxgkDdiRenderKm", Status::kInvalidParameter},
    {"DxgkDdiResetEngine", Status::kUnsuccessful},
    {"DxgkDdiSubmitCommand", Status::kUnsuccessful},
    {"DxgkDdiSubmitCommandVirtual", Status::kUnsuccessful},
    {"DxgkDdiCheckMultiPlaneOverlaySupport", Status::kSuccess},
    {"DxgkDdiCheckMultiPlaneOverlaySupport2", Status::kSuccess},
    {"DxgkDdiCheckMultiPlaneOverlaySupport3", Status::kSuccess},
    {"DxgkDdiGetMultiPlaneOverlayCaps", Status::kSuccess},
    {"DxgkDdiGetPostCompositionCaps", Status::kSuccess},
    {"DxgkDdiUpdateMonitorLinkInfo", Status::kSuccess},
    {"DxgkDdiQueryConnectionChange", Status::kSuccess},
};
/// The same with a dead driver, where it is not kDeviceRemoved.
const std::map<std::string_view, Status> kDead = {
    {"DxgkDdiQueryAdapterInfo", Status::kDeviceConfigurationError},
    {"DxgkDdiCollectDbgInfo", Status::kSuccess},
    {"DxgkDdiCollectDbgInfo2", Status::kSuccess},
    {"DxgkDdiReleaseSwizzlingRange", Status::kSuccess},
};
/// Entries that are done without, or whose older form is called instead.
const std::set<std::string_view> kDispensable = {
    "DxgkDdiCollectDbgInfo",
    "DxgkDdiCollectDbgInfo2",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiControlInterrupt2",
    "DxgkDdiControlInterrupt3",
    "DxgkDdiReleaseSwizzlingRange",
    "DxgkDdiCheckMultiPlaneOverlaySupport2",
    "DxgkDdiCheckMultiPlaneOverlaySupport3",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3",
};

bool may_fail(const Row& row) {
  return row.call && !kScripted.contains(row.entry) && !kOtherAnswers.contains(row.entry);
}

// A refusal comes back as the driver gave it, and a success that is none is not taken for one where
// the answer decides.
TEST(DdiCalls, WhatTheDriverAnswersComesBack) {
  runtime::make_sim_runtime(1)->run_main([] {
    for (const Status answer : {Status::kInvalidParameter, Status::kPending}) {
      const auto& others = answer == Status::kPending ? kPended : kRefused;
      for (const Row& row : all_rows()) {
        if (!may_fail(row)) continue;
        SCOPED_TRACE(row.entry);
        World world(row.version);
        prepare(world, row);
        world.noted.fails = row.entry;
        world.noted.answer = to_ntstatus(answer);
        world.up();
        make(world, row);
        const auto other = others.find(row.entry);
        EXPECT_EQ(world.last, other == others.end() ? answer : other->second);
      }
    }
  });
}

// Each call is in the trace twice: what was called at what level and about what, and what the
// driver answered.
TEST(DdiCalls, EachCallIsInTheTraceWithWhatItIsAboutAndItsAnswer) {
  for (const Row& row : all_rows()) {
    if (!row.call) continue;
    SCOPED_TRACE(row.entry);
    trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
    trace::set_current(&recorder);
    const bool fails = may_fail(row);
    runtime::make_sim_runtime(1)->run_main([&] {
      World world(row.version);
      prepare(world, row);
      if (fails) world.noted.fails = row.entry;
      world.up();
      make(world, row);
    });
    trace::set_current(nullptr);
    const auto known = kNoted.find(row.entry);
    const Noted noted = known == kNoted.end() ? Noted{} : known->second;
    const std::vector<std::string> names = recorder.names();
    std::vector<trace::Event> enters, exits;
    for (const trace::Event& event : recorder.events()) {
      const auto kind = static_cast<trace::EventKind>(event.kind);
      if (kind == trace::EventKind::kDdiEnter && names.at(event.a) == row.entry)
        enters.push_back(event);
      if (kind == trace::EventKind::kDdiExit && names.at(event.a) == row.entry)
        exits.push_back(event);
    }
    ASSERT_FALSE(enters.empty());
    EXPECT_EQ(enters.size(), exits.size());
    EXPECT_EQ(enters.back().b, row.irql);
    EXPECT_EQ(enters.back().c, noted.argument);
    EXPECT_EQ(enters.back().node, noted.node);
    const bool claims = std::string_view(row.entry) == "DxgkDdiInterruptRoutine";
    EXPECT_EQ(exits.back().b, fails ? static_cast<uint32_t>(to_ntstatus(Status::kInvalidParameter))
                              : claims ? 1U
                                       : 0U);
    EXPECT_EQ(exits.back().c, row.irql);
    EXPECT_EQ(exits.back().node, noted.node);
  }
}

// After a bug check in any of its entries no other is called again, whatever is asked for.
TEST(DdiCalls, ADriverThatStoppedTheMachineIsNeverCalledAgain) {
  runtime::make_sim_runtime(1)->run_main([] {
    for (const Row& row : all_rows()) {
      if (!row.call) continue;
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.up();
      world.noted.stops_the_machine = "DxgkDdiEscape";
      if (row.entry == kPresentDisplayOnly) world.noted.stops_the_machine = "DxgkDdiSetPowerState";
      if (row.entry == kPresentDisplayOnly) {
        EXPECT_EQ(port(world).power().set_power_state(std::nullopt, PowerState::kD3),
                  Status::kDeviceRemoved);
      } else {
        EXPECT_EQ(port(world).objects().escape(kSome, kSome, 0, {}), Status::kDeviceRemoved);
      }
      world.noted.calls.clear();
      const size_t told = world.findings.total();
      make(world, row);
      EXPECT_EQ(world.noted.calls.size(), 0U);
      // Segments that cannot be asked for are no segments, whatever the reason.
      const bool asks_segments = std::string_view(row.entry) == "DxgkDdiQueryAdapterInfo";
      EXPECT_EQ(world.findings.total(), told + (asks_segments ? 1 : 0)) << world.findings_text();
      const auto other = kDead.find(row.entry);
      EXPECT_EQ(world.last, other == kDead.end() ? Status::kDeviceRemoved : other->second);
    }
  });
}

// An entry that the driver does not have is not called; where it may be missing, the caller is
// told.
TEST(DdiCalls, AnEntryThatIsMissingIsNotSupported) {
  runtime::make_sim_runtime(1)->run_main([] {
    for (const Row& row : all_rows()) {
      if (!row.call || row.entry == kPresentDisplayOnly) continue;
      SCOPED_TRACE(row.entry);
      World world(row.version);
      prepare(world, row);
      world.noted.without = row.entry;
      if (world.load() != Status::kSuccess) continue;  // mandatory: a test of its own
      world.adapter.reset();
      world.driver.reset();
      world.up();
      make(world, row);
      EXPECT_EQ(world.seen(row.entry).size(), 0U);
      EXPECT_EQ(world.last,
                kDispensable.contains(row.entry) ? Status::kSuccess : Status::kNotSupported);
      world.down();
    }
  });
}

}  // namespace
}  // namespace dxgkit::port
