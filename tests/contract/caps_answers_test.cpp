// What clients are told of a driver's capabilities, one capability at a time: each decides its own
// answers and no other, from the version on that has it.
#include <cstring>
#include <optional>

#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

constexpr uint32_t kNewest = DXGKDDI_INTERFACE_VERSION_WDDM3_0;

/// Every answer that capabilities decide.
struct Answers {
  D3DKMT_ADAPTERTYPE type;
  D3DKMT_FLIPQUEUEINFO flips;
  D3DKMT_WDDM_1_2_CAPS v12;
  D3DKMT_WDDM_1_3_CAPS v13;
  D3DKMT_WDDM_2_0_CAPS v20;
  D3DKMT_WDDM_2_7_CAPS v27;
  D3DKMT_WDDM_2_9_CAPS v29;
  D3DKMT_WDDM_3_0_CAPS v30;
  D3DKMT_DISPLAY_CAPS display;
  D3DKMT_CROSSADAPTERRESOURCE_SUPPORT cross;
};

template <typename T>
void ask(Client& client, KMTQUERYADAPTERINFOTYPE type, T* out) {
  D3DKMT_QUERYADAPTERINFO args{};
  args.hAdapter = client.adapter;
  args.Type = type;
  args.pPrivateDriverData = out;
  args.PrivateDriverDataSize = sizeof *out;
  EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&args); }), 0) << type;
}

/// One driver; what it has beside the plainest one.
struct Driver {
  uint32_t version = kNewest;
  void (*caps)(DXGK_DRIVERCAPS&) = nullptr;
  void (*table)(DRIVER_INITIALIZATION_DATA&) = nullptr;
  bool kept_in_standby = false;  // a segment is
};

Answers answers_of(const Driver& has) {
  Answers out;
  std::memset(static_cast<void*>(&out), 0, sizeof out);
  runtime::make_sim_runtime({.seed = 1, .time_limit = 3600 * runtime::kSecond})->run_main([&] {
    Stack stack;
    stack.expect_leaks = true;
    stack.miniport.config.version = has.version;
    if (has.kept_in_standby) stack.miniport.config.segments[1].flags.PreservedDuringStandby = 1;
    // Drivers of before WDDM 1.3 render only here, and have the caps that Windows 8 asks for.
    const bool shows = has.version >= DXGKDDI_INTERFACE_VERSION_WDDM1_3;
    std::optional<FlipDriver> driver;
    if (shows) driver.emplace(stack).more_table = has.table;
    stack.miniport.config.caps = [&, before = stack.miniport.config.caps](DXGK_DRIVERCAPS& caps) {
      if (before) before(caps);
      if (shows) caps.SupportNonVGA = caps.SupportSmoothRotation = FALSE;
      if (has.caps != nullptr) has.caps(caps);
    };
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ask(client, KMTQAITYPE_ADAPTERTYPE, &out.type);
    ask(client, KMTQAITYPE_FLIPQUEUEINFO, &out.flips);
    ask(client, KMTQAITYPE_WDDM_1_2_CAPS, &out.v12);
    ask(client, KMTQAITYPE_WDDM_1_3_CAPS, &out.v13);
    ask(client, KMTQAITYPE_WDDM_2_0_CAPS, &out.v20);
    ask(client, KMTQAITYPE_WDDM_2_7_CAPS, &out.v27);
    ask(client, KMTQAITYPE_WDDM_2_9_CAPS, &out.v29);
    ask(client, KMTQAITYPE_WDDM_3_0_CAPS, &out.v30);
    ask(client, KMTQAITYPE_DISPLAY_CAPS, &out.display);
    ask(client, KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT, &out.cross);
  });
  return out;
}

using Tier = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER;

struct Row {
  const char* what;
  Driver has;
  void (*changes)(Answers&);  // beside the plain driver's answers
  uint32_t not_yet = 0;       // the last version that says nothing of it, if there is one
};
NTSTATUS NTAPI control2(const HANDLE, const DXGKARG_CONTROLINTERRUPT2) { return 0; }
NTSTATUS NTAPI control3(const HANDLE, const DXGKARG_CONTROLINTERRUPT3*) { return 0; }
NTSTATUS NTAPI control(const HANDLE, const DXGK_INTERRUPT_TYPE, BOOLEAN) { return 0; }
NTSTATUS NTAPI hw_capability(const HANDLE, DXGKARG_QUERYVIDPNHWCAPABILITY*) { return 0; }

const Row kRows[] = {
    {"nothing more", {}, [](Answers&) {}},
    {"HybridDiscrete",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.HybridDiscrete = TRUE; }},
     [](Answers& a) { a.type.HybridDiscrete = a.v13.IsHybridDiscreteGPU = 1; }},
    {"HybridIntegrated",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.HybridIntegrated = TRUE; }},
     [](Answers& a) { a.type.HybridIntegrated = a.v13.IsHybridIntegratedGPU = 1; }},
    {"Detachable",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MiscCaps.Detachable = 1; }},
     [](Answers& a) { a.type.Detachable = 1; },
     DXGKDDI_INTERFACE_VERSION_WDDM2_5},
    {"MaxQueuedFlipOnVSync",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MaxQueuedFlipOnVSync = 3; }},
     [](Answers& a) { a.flips.MaxHardwareFlipQueueLength = 3; }},
    {"FlipInterval",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.FlipCaps.FlipInterval = 1; }},
     [](Answers& a) { a.flips.FlipFlags.FlipInterval = 1; }},
    {"a gamma table",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.GammaRampCaps.Gamma_Rgb256x3x16 = 1; }},
     [](Answers& a) { a.v12.SupportGammaRamp = 1; }},
    {"the width of a pointer alone",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MaxPointerWidth = 64; }},
     [](Answers&) {}},
    {"the height of a pointer alone",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MaxPointerHeight = 64; }},
     [](Answers&) {}},
    {"a pointer",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MaxPointerWidth = caps.MaxPointerHeight = 64; }},
     [](Answers& a) { a.v12.SupportHWCursor = 1; }},
    {"DxgkDdiQueryVidPnHWCapability",
     {.table =
          [](DRIVER_INITIALIZATION_DATA& table) {
            table.DxgkDdiQueryVidPnHWCapability = hw_capability;
          }},
     [](Answers& a) { a.v12.SupportCCD = 1; }},
    {"DxgkDdiControlInterrupt",
     {.table = [](DRIVER_INITIALIZATION_DATA& table) { table.DxgkDdiControlInterrupt = control; }},
     [](Answers& a) { a.v12.SupportHWVSync = 1; }},
    {"DxgkDdiControlInterrupt2",
     {.table =
          [](DRIVER_INITIALIZATION_DATA& table) { table.DxgkDdiControlInterrupt2 = control2; }},
     [](Answers& a) { a.v12.SupportHWVSync = 1; }},
    {"DxgkDdiControlInterrupt3",
     {.table =
          [](DRIVER_INITIALIZATION_DATA& table) { table.DxgkDdiControlInterrupt3 = control3; }},
     [](Answers& a) { a.v12.SupportHWVSync = 1; }},
    {"SupportNonVGA",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportNonVGA = TRUE; }},
     [](Answers& a) { a.v12.SupportNonVGA = 1; },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"SupportSmoothRotation",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSmoothRotation = TRUE; }},
     [](Answers& a) { a.v12.SupportSmoothRotation = 1; },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"SupportKernelModeCommandBuffer",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) { caps.PresentationCaps.SupportKernelModeCommandBuffer = 1; }},
     [](Answers& a) { a.v12.SupportKernelModeCommandBuffer = 1; },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"SupportSoftwareDeviceBitmaps",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) { caps.PresentationCaps.SupportSoftwareDeviceBitmaps = 1; }},
     [](Answers& a) { a.v12.SupportSoftwareDeviceBitmaps = 1; },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"SupportSurpriseRemovalInHibernation",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemovalInHibernation = TRUE; }},
     [](Answers& a) { a.v12.SupportSurpriseRemovalInHibernation = 1; },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"SupportSurpriseRemoval",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportSurpriseRemoval = TRUE; }},
     [](Answers& a) { a.v20.SupportSurpriseRemoval = 1; },
     DXGKDDI_INTERFACE_VERSION_WDDM1_3},
    {"SupportRuntimePowerManagement",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportRuntimePowerManagement = TRUE; }},
     [](Answers& a) { a.type.RuntimePowerManagement = 1; }},
    {"a compute preemption granularity",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) {
            caps.PreemptionCaps.ComputePreemptionGranularity =
                D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY;
          }},
     [](Answers& a) {
       a.v12.PreemptionCaps.ComputePreemptionGranularity =
           D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY;
     },
     DXGKDDI_INTERFACE_VERSION_WIN7},
    {"CrossAdapterResource",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MemoryManagementCaps.CrossAdapterResource = 1; }},
     [](Answers& a) {
       a.v13.SupportCrossAdapterResource = 1;
       a.cross.SupportTier = Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_COPY;
     },
     DXGKDDI_INTERFACE_VERSION_WIN8},
    {"CrossAdapterResourceTexture",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) { caps.MemoryManagementCaps.CrossAdapterResourceTexture = 1; }},
     [](Answers& a) {
       a.cross.SupportTier = Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_TEXTURE;
     },
     DXGKDDI_INTERFACE_VERSION_WDDM2_8},
    {"all three kinds of cross-adapter resources",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) {
            caps.MemoryManagementCaps.CrossAdapterResource = 1;
            caps.MemoryManagementCaps.CrossAdapterResourceTexture = 1;
            caps.MemoryManagementCaps.CrossAdapterResourceScanout = 1;
          }},
     [](Answers& a) {
       a.v13.SupportCrossAdapterResource = 1;
       a.cross.SupportTier = Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_SCANOUT;
     }},
    {"SupportContextlessPresent",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MiscCaps.SupportContextlessPresent = 1; }},
     [](Answers& a) { a.v20.SupportContextlessPresent = 1; },
     DXGKDDI_INTERFACE_VERSION_WDDM1_3},
    {"IndependentVidPnVSyncControl",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MiscCaps.IndependentVidPnVSyncControl = 1; }},
     [](Answers& a) { a.v27.IndependentVidPnVSyncControl = 1; },
     DXGKDDI_INTERFACE_VERSION_WDDM2_5},
    {"DisplayableSupport",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.MiscCaps.DisplayableSupport = 1; }},
     [](Answers& a) { a.v30.DisplayableSupported = 1; },
     DXGKDDI_INTERFACE_VERSION_WDDM2_9},
    {"a pointer that is scaled with plane 0",
     {.caps = [](DXGK_DRIVERCAPS& caps) { caps.CursorScaledWithMultiPlaneOverlayPlane0 = TRUE; }},
     [](Answers& a) { a.display.CursorScaledWithMultiPlaneOverlayPlane0 = 1; }},
    {"a segment that is kept in standby",
     {.kept_in_standby = true},
     [](Answers& a) { a.v29.SelfRefreshMemorySupported = 1; }},
    {"one beside DisableSelfRefreshVRAMInS3",
     {.caps =
          [](DXGK_DRIVERCAPS& caps) { caps.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 = 1; },
      .kept_in_standby = true},
     [](Answers&) {}},
};

TEST(CapsAnswers, EachCapabilityDecidesItsOwn) {
  DXGKIT_COVERS("THUNK-40");
  const Answers plain = answers_of({});
  EXPECT_EQ(plain.type.RenderSupported, 1U);
  EXPECT_EQ(plain.type.DisplaySupported, 1U);
  EXPECT_EQ(plain.v20.Support64BitAtomics, 1U);
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    Answers expected = plain;
    row.changes(expected);
    const Answers found = answers_of(row.has);
    EXPECT_EQ(std::memcmp(&found, &expected, sizeof found), 0);
    if (row.not_yet == 0) continue;
    Driver older = row.has, old_and_plain;
    older.version = old_and_plain.version = row.not_yet;
    const Answers before = answers_of(older), nothing = answers_of(old_and_plain);
    EXPECT_EQ(std::memcmp(&before, &nothing, sizeof before), 0) << "before its version";
  }
}

// The model a driver names is the version that clients see; one that names none, or the first, has
// that of its interface.
TEST(CapsAnswers, TheVersionIsThatOfTheModel) {
  DXGKIT_COVERS("THUNK-40");
  struct VersionRow {
    uint32_t interface, model;
    D3DKMT_DRIVERVERSION seen;
  };
  for (const VersionRow& row :
       {VersionRow{DXGKDDI_INTERFACE_VERSION_VISTA_SP1, 0, KMT_DRIVERVERSION_WDDM_1_0},
        VersionRow{DXGKDDI_INTERFACE_VERSION_WIN7, DXGKDDI_WDDMv1, KMT_DRIVERVERSION_WDDM_1_1},
        VersionRow{DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_WDDMv1_3, KMT_DRIVERVERSION_WDDM_1_3},
        VersionRow{DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_WDDMv2, KMT_DRIVERVERSION_WDDM_2_0},
        VersionRow{kNewest, DXGKDDI_WDDMv2_9, KMT_DRIVERVERSION_WDDM_2_9}}) {
    SCOPED_TRACE(row.model);
    runtime::make_sim_runtime({.seed = 1, .time_limit = 3600 * runtime::kSecond})->run_main([&] {
      Stack stack;
      stack.miniport.config.version = row.interface;
      stack.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
        if (row.model != 0) caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(row.model);
      };
      ASSERT_EQ(stack.start(), Status::kSuccess);
      Client client(stack);
      D3DKMT_DRIVERVERSION seen{};
      ask(client, KMTQAITYPE_DRIVERVERSION, &seen);
      EXPECT_EQ(seen, row.seen);
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
