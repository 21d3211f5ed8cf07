#include "port/support.h"

#include "dxgkit/abi_versions.h"

namespace dxgkit::port {
namespace {

struct Used {
  std::string_view name;
  Support support;
  std::string_view note;
};

/// Entries the port calls. support_test.cpp compares it with the calls in the sources of this
/// folder.
constexpr Used kUsed[] = {
    {"DxgkDdiAddDevice", Support::kSupported, ""},
    {"DxgkDdiBuildPagingBuffer", Support::kPartial,
     "no fences, no memory management units of display engines, no special lock"},
    {"DxgkDdiCalibrateGpuClock", Support::kPartial, "when a client asks; engine 0"},
    {"DxgkDdiCancelCommand", Support::kSupported, ""},
    {"DxgkDdiCloseAllocation", Support::kSupported, ""},
    {"DxgkDdiControlInterrupt", Support::kSupported, ""},
    {"DxgkDdiControlInterrupt2", Support::kPartial, "enable and disable; the phase is not kept"},
    {"DxgkDdiControlInterrupt3", Support::kPartial, "enable and disable; the phase is not kept"},
    {"DxgkDdiCollectDbgInfo", Support::kPartial, "timeouts; the data is counted, not kept"},
    {"DxgkDdiCollectDbgInfo2", Support::kPartial, "timeouts; no payload"},
    {"DxgkDdiCreateAllocation", Support::kSupported, ""},
    {"DxgkDdiCreateContext", Support::kPartial, "no protected or GDI contexts"},
    {"DxgkDdiCreateDevice", Support::kSupported, ""},
    {"DxgkDdiCreateHwContext", Support::kSupported, ""},
    {"DxgkDdiCreateHwQueue", Support::kPartial, "no user-mode submission"},
    {"DxgkDdiDestroyHwContext", Support::kSupported, ""},
    {"DxgkDdiDestroyHwQueue", Support::kSupported, ""},
    {"DxgkDdiSubmitCommandToHwQueue", Support::kSupported, ""},
    {"DxgkDdiResetHwEngine", Support::kSupported, ""},
    {"DxgkDdiResumeContext", Support::kSupported, ""},
    {"DxgkDdiResumeHwEngine", Support::kSupported, ""},
    {"DxgkDdiSetContextSchedulingProperties", Support::kPartial, "realtime level 0 only"},
    {"DxgkDdiSetupPriorityBands", Support::kSupported, ""},
    {"DxgkDdiSuspendContext", Support::kSupported, ""},
    {"DxgkDdiCreateCpuEvent", Support::kSupported, ""},
    {"DxgkDdiDestroyCpuEvent", Support::kSupported, ""},
    {"DxgkDdiCreateNativeFence", Support::kPartial, "not mapped to the system process"},
    {"DxgkDdiDestroyNativeFence", Support::kSupported, ""},
    {"DxgkDdiOpenNativeFence", Support::kSupported, ""},
    {"DxgkDdiCloseNativeFence", Support::kSupported, ""},
    {"DxgkDdiUpdateMonitoredValues", Support::kPartial, "one fence at a time"},
    {"DxgkDdiUpdateCurrentValuesFromCpu", Support::kPartial, "one fence at a time"},
    {"DxgkDdiCreateProcess", Support::kPartial, "no address-space identifiers"},
    {"DxgkDdiDescribeAllocation", Support::kPartial, "primaries the kernel shows"},
    {"DxgkDdiDestroyAllocation", Support::kSupported, ""},
    {"DxgkDdiDestroyContext", Support::kSupported, ""},
    {"DxgkDdiDestroyDevice", Support::kSupported, ""},
    {"DxgkDdiDestroyProcess", Support::kSupported, ""},
    {"DxgkDdiAcquireSwizzlingRange", Support::kSupported, ""},
    {"DxgkDdiDpcRoutine", Support::kSupported, ""},
    {"DxgkDdiEscape", Support::kSupported, ""},
    {"DxgkDdiGetNodeMetadata", Support::kSupported, ""},
    {"DxgkDdiGetRootPageTableSize", Support::kSupported, ""},
    {"DxgkDdiGetScanLine", Support::kSupported, ""},
    {"DxgkDdiInterruptRoutine", Support::kPartial, "one line interrupt"},
    {"DxgkDdiMapCpuHostAperture", Support::kPartial, "locks, and once at start"},
    {"DxgkDdiOpenAllocation", Support::kSupported, ""},
    {"DxgkDdiCreateOverlay", Support::kSupported, ""},
    {"DxgkDdiCreateProtectedSession", Support::kSupported, ""},
    {"DxgkDdiDestroyProtectedSession", Support::kSupported, ""},
    {"DxgkDdiDestroyOverlay", Support::kSupported, ""},
    {"DxgkDdiFlipOverlay", Support::kSupported, ""},
    {"DxgkDdiSetStablePowerState", Support::kSupported, ""},
    {"DxgkDdiSetDisplayPrivateDriverFormat", Support::kSupported, ""},
    {"DxgkDdiNotifyAcpiEvent", Support::kSupported, ""},
    {"DxgkDdiDispatchIoRequest", Support::kSupported, ""},
    {"DxgkDdiControlEtwLogging", Support::kPartial, "a recording that runs at the adapter's start"},
    {"DxgkDdiResetDevice", Support::kSupported, ""},
    {"DxgkDdiCollectDiagnosticInfo", Support::kPartial, "after a failed start; no black screens"},
    {"DxgkDdiQueryDiagnosticTypesSupport", Support::kSupported, ""},
    {"DxgkDdiControlDiagnosticReporting", Support::kSupported, ""},
    {"DxgkDdiExchangePreStartInfo", Support::kPartial, "the answer is judged, not used"},
    {"DxgkDdiGetChildContainerId", Support::kSupported, ""},
    {"DxgkDdiPowerRuntimeControlRequest", Support::kPartial, "the kernel's own notices"},
    {"DxgkDdiStopCapture", Support::kSupported, ""},
    {"DxgkDdiUpdateOverlay", Support::kSupported, ""},
    {"DxgkDdiPatch", Support::kSupported, ""},
    {"DxgkDdiPreemptCommand", Support::kSupported, ""},
    {"DxgkDdiPresent", Support::kPartial, "with virtual addressing flips only"},
    {"DxgkDdiQueryAdapterInfo", Support::kPartial,
     "caps, segments 1/3/4, early caps, GPU MMU, performance, UMD private"},
    {"DxgkDdiQueryChildRelations", Support::kPartial, "video outputs and integrated displays"},
    {"DxgkDdiQueryCurrentFence", Support::kSupported, ""},
    {"DxgkDdiQueryInterface", Support::kPartial,
     "at start: I2C, output protection, brightness; none is used"},
    {"DxgkDdiQueryDependentEngineGroup", Support::kSupported, ""},
    {"DxgkDdiQueryEngineStatus", Support::kSupported, ""},
    {"DxgkDdiResetEngine", Support::kSupported, ""},
    {"DxgkDdiReleaseSwizzlingRange", Support::kSupported, ""},
    {"DxgkDdiRemoveDevice", Support::kSupported, ""},
    {"DxgkDdiRender", Support::kSupported, ""},
    {"DxgkDdiRenderKm", Support::kSupported, ""},
    {"DxgkDdiResetFromTimeout", Support::kSupported, ""},
    {"DxgkDdiRestartFromTimeout", Support::kSupported, ""},
    {"DxgkDdiNotifySurpriseRemoval", Support::kSupported, ""},
    {"DxgkDdiSetPowerComponentFState", Support::kPartial, "engines and memory segments"},
    {"DxgkDdiSetPowerState", Support::kSupported, ""},
    {"DxgkDdiSetRootPageTable", Support::kSupported, ""},
    {"DxgkDdiStartDevice", Support::kSupported, ""},
    {"DxgkDdiStopDevice", Support::kSupported, ""},
    {"DxgkDdiSubmitCommand", Support::kSupported, ""},
    {"DxgkDdiSubmitCommandVirtual", Support::kPartial, "no flips"},
    {"DxgkDdiValidateSubmitCommand", Support::kSupported, ""},
    {"DxgkDdiValidateUpdateAllocationProperty", Support::kSupported, ""},
    {"DxgkDdiCommitVidPn", Support::kPartial, "no power transition of paths"},
    {"DxgkDdiEnumVidPnCofuncModality", Support::kSupported, ""},
    {"DxgkDdiGetStandardAllocationDriverData", Support::kPartial,
     "shared primaries, existing system memory"},
    {"DxgkDdiIsSupportedVidPn", Support::kSupported, ""},
    {"DxgkDdiQueryChildStatus", Support::kPartial, "connection"},
    {"DxgkDdiQueryDeviceDescriptor", Support::kSupported, ""},
    {"DxgkDdiQueryVidPnHWCapability", Support::kSupported, ""},
    {"DxgkDdiRecommendFunctionalVidPn", Support::kSupported, ""},
    {"DxgkDdiRecommendMonitorModes", Support::kSupported, ""},
    {"DxgkDdiSetPointerPosition", Support::kSupported, ""},
    {"DxgkDdiSetPointerShape", Support::kSupported, ""},
    {"DxgkDdiSetVidPnSourceAddress", Support::kPartial, "no stereo"},
    {"DxgkDdiCheckMultiPlaneOverlaySupport", Support::kSupported, ""},
    {"DxgkDdiCheckMultiPlaneOverlaySupport2", Support::kSupported, ""},
    {"DxgkDdiCheckMultiPlaneOverlaySupport3", Support::kSupported, ""},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay", Support::kPartial, "no stereo"},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2", Support::kPartial, "no stereo"},
    {"DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3", Support::kPartial,
     "no stereo, no HDR metadata, no shared primaries"},
    {"DxgkDdiSetTimingsFromVidPn", Support::kPartial,
     "8-bit RGB links; nothing inherited from firmware, no synchronized displays"},
    {"DxgkDdiSetTargetGamma", Support::kPartial, "tables of 256 entries; no colour matrices"},
    {"DxgkDdiSetTargetContentType", Support::kSupported, ""},
    {"DxgkDdiSetTargetAnalogCopyProtection", Support::kSupported, ""},
    {"DxgkDdiUpdateMonitorLinkInfo", Support::kPartial, "no usage hints; the answer is not used"},
    {"DxgkDdiDisplayDetectControl", Support::kPartial, "all outputs at once"},
    {"DxgkDdiQueryConnectionChange", Support::kPartial,
     "monitors; targets stay those of the start"},
    {"DxgkDdiPostMultiPlaneOverlayPresent", Support::kSupported, ""},
    {"DxgkDdiGetMultiPlaneOverlayCaps", Support::kSupported, ""},
    {"DxgkDdiGetPostCompositionCaps", Support::kSupported, ""},
    {"DxgkDdiSetVidPnSourceVisibility", Support::kSupported, ""},
    {"DxgkDdiStopDeviceAndReleasePostDisplayOwnership", Support::kSupported, ""},
    {"DxgkDdiSystemDisplayEnable", Support::kSupported, ""},
    {"DxgkDdiSystemDisplayWrite", Support::kSupported, ""},
    {"DxgkDdiUpdateActiveVidPnPresentPath", Support::kSupported, ""},
    {"DxgkDdiUnmapCpuHostAperture", Support::kPartial, "locks, and once at start"},
    {"DxgkDdiUnload", Support::kSupported, ""},
};

}  // namespace

const std::vector<SupportEntry>& ddi_support() {
  static const std::vector<SupportEntry> table = [] {
    std::vector<SupportEntry> all;
    for (const abi::TableEntry& entry : abi::kDriverInitializationData) {
      if (!entry.name.starts_with("DxgkDdi")) continue;
      SupportEntry line{entry.name, entry.since, Support::kRefused, "never called"};
      for (const Used& used : kUsed) {
        if (used.name == entry.name) {
          line.support = used.support;
          line.note = used.note;
        }
      }
      all.push_back(line);
    }
    // The only entry that full drivers do not have.
    for (const abi::TableEntry& entry : abi::kKmddodInitializationData) {
      if (entry.name == "DxgkDdiPresentDisplayOnly")
        all.push_back({entry.name, entry.since, Support::kPartial, "no rotation"});
    }
    return all;
  }();
  return table;
}

}  // namespace dxgkit::port
