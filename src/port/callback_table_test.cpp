// Every DxgkCb callback that does something: the level it may be called at, whether the ISR may,
// whose handle it takes, and how long it is the driver's.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "dxgkit/abi_versions.h"
#include "port/ddi/hw_scheduling.h"
#include "port/ddi/native_fence.h"
#include "port/port_world_test.h"
#include "port/support.h"

namespace dxgkit::port {
namespace {

using Table = const DXGKRNL_INTERFACE&;

enum class Names { kHandle, kNothing };           // how it says which adapter it is about
enum class Answers { kStatus, kZero, kNothing };  // a refusal: a status, 0 or NULL, or void

struct Row {
  const char* name;
  nt::Irql highest;
  bool in_isr;
  Names names;
  Answers answers;
  std::function<uint64_t(Table, void* handle)> call;
};

uint64_t number(NTSTATUS status) { return static_cast<uint32_t>(status); }
uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

DXGKARGCB_GETHANDLEDATA handle_data() {
  DXGKARGCB_GETHANDLEDATA args{};
  args.hObject = 0x40;
  args.Type = DXGK_HANDLE_ALLOCATION;
  return args;
}

std::vector<Row> rows() {
  constexpr nt::Irql kPassive = nt::kPassiveLevel, kApc = nt::kApcLevel,
                     kDispatch = nt::kDispatchLevel, kDevice = nt::kDeviceLevel,
                     kAny = nt::kHighLevel;
  constexpr Names kHandle = Names::kHandle, kNone = Names::kNothing;
  constexpr Answers kStatus = Answers::kStatus, kZero = Answers::kZero, kVoid = Answers::kNothing;
  return {
      {"DxgkCbEvalAcpiMethod", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         return number(t.DxgkCbEvalAcpiMethod(h, 0, nullptr, 0, nullptr, 0));
       }},
      {"DxgkCbGetDeviceInformation", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGK_DEVICE_INFO info;
         return number(t.DxgkCbGetDeviceInformation(h, &info));
       }},
      {"DxgkCbIndicateChildStatus", kDispatch, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGK_CHILD_STATUS status{};
         status.Type = StatusConnection;
         return number(t.DxgkCbIndicateChildStatus(h, &status));
       }},
      {"DxgkCbIndicateConnectorChange", kDispatch, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbIndicateConnectorChange(h)); }},
      {"DxgkCbMultiPlaneOverlayDisabled", kPassive, false, kHandle, kVoid,
       [](Table t, void* h) {
         t.DxgkCbMultiPlaneOverlayDisabled(h, 0);
         return uint64_t{0};
       }},
      {"DxgkCbMapMemory", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         PHYSICAL_ADDRESS address{};
         PVOID mapped = nullptr;
         return number(t.DxgkCbMapMemory(h, address, 4096, FALSE, FALSE, MmNonCached, &mapped));
       }},
      {"DxgkCbQueueDpc", kAny, true, kHandle, kZero,
       [](Table t, void* h) { return uint64_t{t.DxgkCbQueueDpc(h)}; }},
      {"DxgkCbQueryServices", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbQueryServices(h, DxgkServicesAgp, nullptr)); }},
      {"DxgkCbReadDeviceSpace", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         uint32_t word = 0;
         ULONG bytes = 0;
         return number(t.DxgkCbReadDeviceSpace(h, DXGK_WHICHSPACE_CONFIG, &word, 0, 4, &bytes));
       }},
      {"DxgkCbSynchronizeExecution", kDevice, false, kHandle, kStatus,
       [](Table t, void* h) {
         BOOLEAN result = FALSE;
         return number(t.DxgkCbSynchronizeExecution(
             h, [](PVOID) NTAPI { return static_cast<BOOLEAN>(TRUE); }, nullptr, 0, &result));
       }},
      {"DxgkCbUnmapMemory", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbUnmapMemory(h, nullptr)); }},
      {"DxgkCbWriteDeviceSpace", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         return number(t.DxgkCbWriteDeviceSpace(h, DXGK_WHICHSPACE_CONFIG, nullptr, 0, 4, nullptr));
       }},
      {"DxgkCbIsDevicePresent", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbIsDevicePresent(h, nullptr, nullptr)); }},
      {"DxgkCbGetHandleData", kApc, false, kNone, kZero,
       [](Table t, void*) {
         const DXGKARGCB_GETHANDLEDATA args = handle_data();
         return number(t.DxgkCbGetHandleData(&args));
       }},
      {"DxgkCbGetHandleParent", kApc, false, kNone, kZero,
       [](Table t, void*) { return uint64_t{t.DxgkCbGetHandleParent(0x40)}; }},
      {"DxgkCbEnumHandleChildren", kApc, false, kNone, kZero,
       [](Table t, void*) {
         DXGKARGCB_ENUMHANDLECHILDREN args{};
         args.hObject = 0x40;
         return uint64_t{t.DxgkCbEnumHandleChildren(&args)};
       }},
      {"DxgkCbAcquireHandleData", kApc, false, kNone, kZero,
       [](Table t, void*) {
         const DXGKARGCB_GETHANDLEDATA args = handle_data();
         DXGKARG_RELEASE_HANDLE release{};
         return number(t.DxgkCbAcquireHandleData(&args, &release));
       }},
      {"DxgkCbReleaseHandleData", kApc, false, kNone, kVoid,
       [](Table t, void*) {
         t.DxgkCbReleaseHandleData(DXGKARGCB_RELEASEHANDLEDATA{});
         return uint64_t{0};
       }},
      {"DxgkCbSignalEvent", kDispatch, false, kNone, kStatus,
       [](Table t, void*) { return number(t.DxgkCbSignalEvent(nullptr)); }},
      {"DxgkCbNotifyDpc", kDispatch, false, kHandle, kVoid,
       [](Table t, void* h) {
         t.DxgkCbNotifyDpc(h);
         return uint64_t{0};
       }},
      {"DxgkCbQueryVidPnInterface", kPassive, false, kNone, kStatus,
       [](Table t, void*) {
         const DXGK_VIDPN_INTERFACE* table = nullptr;
         return number(
             t.DxgkCbQueryVidPnInterface(nullptr, DXGK_VIDPN_INTERFACE_VERSION_V1, &table));
       }},
      {"DxgkCbQueryMonitorInterface", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         return number(
             t.DxgkCbQueryMonitorInterface(h, DXGK_MONITOR_INTERFACE_VERSION_V1, nullptr));
       }},
      {"DxgkCbExcludeAdapterAccess", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         return number(t.DxgkCbExcludeAdapterAccess(
             h, 0, [](PVOID, PVOID, NTSTATUS) NTAPI {}, nullptr));
       }},
      {"DxgkCbCreateContextAllocation", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGKARGCB_CREATECONTEXTALLOCATION args{};
         args.hAdapter = h;
         return number(t.DxgkCbCreateContextAllocation(&args));
       }},
      {"DxgkCbDestroyContextAllocation", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbDestroyContextAllocation(h, nullptr)); }},
      {"DxgkCbSetPowerComponentActive", kDispatch, false, kHandle, kVoid,
       [](Table t, void* h) {
         t.DxgkCbSetPowerComponentActive(h, 0);
         return uint64_t{0};
       }},
      {"DxgkCbSetPowerComponentIdle", kDispatch, false, kHandle, kVoid,
       [](Table t, void* h) {
         t.DxgkCbSetPowerComponentIdle(h, 0);
         return uint64_t{0};
       }},
      {"DxgkCbCompleteFStateTransition", kDispatch, false, kHandle, kVoid,
       [](Table t, void* h) {
         t.DxgkCbCompleteFStateTransition(h, 0);
         return uint64_t{0};
       }},
      {"DxgkCbAcquirePostDisplayOwnership", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGK_DISPLAY_INFORMATION info{};
         return number(t.DxgkCbAcquirePostDisplayOwnership(h, &info));
       }},
      {"DxgkCbAcquirePostDisplayOwnership2", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         return number(t.DxgkCbAcquirePostDisplayOwnership2(h, nullptr, nullptr));
       }},
      {"DxgkCbMapContextAllocation", kPassive, false, kHandle, kZero,
       [](Table t, void* h) { return uint64_t{t.DxgkCbMapContextAllocation(h, nullptr)}; }},
      {"DxgkCbUpdateContextAllocation", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbUpdateContextAllocation(h, nullptr)); }},
      {"DxgkCbReserveGpuVirtualAddressRange", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) { return number(t.DxgkCbReserveGpuVirtualAddressRange(h, nullptr)); }},
      {"DxgkCbInvalidateHwContext", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGKARGCB_INVALIDATEHWCONTEXT args{};
         args.hAdapter = h;
         return number(t.DxgkCbInvalidateHwContext(&args));
       }},
      {"DxgkCbIsFeatureEnabled", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGKARGCB_ISFEATUREENABLED args{};
         args.DeviceHandle = h;
         return number(t.DxgkCbIsFeatureEnabled(&args));
       }},
      {"DxgkCbQueryFeatureSupport", kPassive, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGKARGCB_QUERYFEATURESUPPORT args{};
         args.DeviceHandle = h;
         return number(t.DxgkCbQueryFeatureSupport(&args));
       }},
      {"DxgkCbSetProtectedSessionStatus", kPassive, false, kNone, kStatus,
       [](Table t, void*) {
         const DXGKARGCB_PROTECTEDSESSIONSTATUS args{};
         return number(t.DxgkCbSetProtectedSessionStatus(&args));
       }},
      {"DxgkCbReportDiagnostic", kDispatch, false, kHandle, kStatus,
       [](Table t, void* h) {
         DXGK_DIAGNOSTIC_HEADER header{};
         return number(t.DxgkCbReportDiagnostic(h, &header));
       }},
  };
}

struct World : PortWorld {
  World() {
    miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    start();
    table = miniport.callbacks();
  }
  uint64_t call(const Row& row, nt::Irql irql, void* handle) {
    uint64_t answer = 0;
    nt::with_frame(kernel, irql, [&] { answer = row.call(table, handle); });
    return answer;
  }
  DXGKRNL_INTERFACE table{};
};

void expect_refused(const Row& row, uint64_t answer) {
  if (row.answers == Answers::kNothing) return;
  EXPECT_EQ(answer, row.answers == Answers::kZero ? 0 : number(STATUS_INVALID_PARAMETER));
}

/// The finding of `rule`, which is the only one of it.
verifier::Finding only(const World& world, const char* rule) {
  verifier::Finding found;
  for (const verifier::Finding& finding : world.findings.all()) {
    if (finding.rule == rule) found = finding;
  }
  EXPECT_EQ(world.findings.count(rule), 1u) << world.findings_text();
  return found;
}

// The device is there if all that the flags name is its own; what they do not name does not count.
TEST(CallbackTable, IsDevicePresentComparesWhatTheFlagsName) {
  in_both_modes([] {
    World world;
    const nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
    const bus::PciIdentity& own = world.miniport.function().identity();
    const auto ask = [&](PCI_DEVICE_PRESENCE_PARAMETERS parameters) {
      BOOLEAN present = 0x7E;
      EXPECT_EQ(world.table.DxgkCbIsDevicePresent(world.table.DeviceHandle, &parameters, &present),
                STATUS_SUCCESS);
      return present;
    };
    PCI_DEVICE_PRESENCE_PARAMETERS right{};
    right.Size = sizeof right;
    right.VendorID = own.vendor_id;
    right.DeviceID = own.device_id;
    right.SubVendorID = own.subsystem_vendor_id;
    right.SubSystemID = own.subsystem_id;
    right.RevisionID = own.revision;
    right.BaseClass = own.base_class;
    right.SubClass = own.sub_class;
    using Parameters = PCI_DEVICE_PRESENCE_PARAMETERS;
    struct Member {
      ULONG flag;
      void (*change)(Parameters&);
    };
    constexpr ULONG kSubsystem = 1, kRevision = 2, kVendorDevice = 4, kClass = 8;
    const Member members[] = {
        {kVendorDevice, [](Parameters& p) { p.VendorID ^= 1; }},
        {kVendorDevice, [](Parameters& p) { p.DeviceID ^= 1; }},
        {kSubsystem, [](Parameters& p) { p.SubVendorID ^= 1; }},
        {kSubsystem, [](Parameters& p) { p.SubSystemID ^= 1; }},
        {kRevision, [](Parameters& p) { p.RevisionID ^= 1; }},
        {kClass, [](Parameters& p) { p.BaseClass ^= 1; }},
        {kClass, [](Parameters& p) { p.SubClass ^= 1; }},
    };
    for (ULONG flags = 0; flags < 16; ++flags) {
      right.Flags = flags;
      EXPECT_EQ(ask(right), TRUE) << flags;
      for (const Member& member : members) {
        Parameters other = right;
        member.change(other);
        EXPECT_EQ(ask(other), (flags & member.flag) == 0 ? TRUE : FALSE) << flags;
      }
      // A right member does not undo an earlier wrong one.
      Parameters all = right;
      for (const Member& member : members) {
        if (member.flag != kClass) member.change(all);
      }
      EXPECT_EQ(ask(all), (flags & ~kClass) == 0 ? TRUE : FALSE) << flags;
    }
    BOOLEAN present = 0x7E;
    EXPECT_EQ(world.table.DxgkCbIsDevicePresent(world.table.DeviceHandle, nullptr, &present),
              STATUS_INVALID_PARAMETER);
    EXPECT_EQ(present, 0x7E);
    EXPECT_EQ(world.table.DxgkCbIsDevicePresent(world.table.DeviceHandle, &right, nullptr),
              STATUS_INVALID_PARAMETER);
  });
}

// A feature is on where the driver has each entry of it; the answer is written either way.
TEST(CallbackTable, FeaturesAreOnWithAllTheirEntries) {
  using Entries = std::vector<std::string>;
  const Entries scheduling = {"DxgkDdiSetupPriorityBands", "DxgkDdiSetContextSchedulingProperties",
                              "DxgkDdiSuspendContext",     "DxgkDdiResumeContext",
                              "DxgkDdiResetHwEngine",      "DxgkDdiResumeHwEngine"};
  const Entries fences = {"DxgkDdiCreateNativeFence",     "DxgkDdiDestroyNativeFence",
                          "DxgkDdiOpenNativeFence",       "DxgkDdiCloseNativeFence",
                          "DxgkDdiUpdateMonitoredValues", "DxgkDdiUpdateCurrentValuesFromCpu"};
  const auto with = [](const Entries& entries, const std::function<void(PortWorld&)>& body) {
    PortWorld world;
    world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    world.miniport.config.table = [&](DRIVER_INITIALIZATION_DATA& table) {
      const auto code = reinterpret_cast<void*>(+[]() NTAPI -> NTSTATUS { return 0; });
      for (const abi::TableEntry& entry : abi::kDriverInitializationData) {
        if (std::ranges::find(entries, entry.name) != entries.end())
          std::memcpy(reinterpret_cast<std::byte*>(&table) + entry.offset_bytes, &code,
                      sizeof code);
      }
    };
    world.start();
    const nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
    body(world);
  };
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const auto& [feature, entries] :
         {std::pair{DXGK_FEATURE_HWSCH, scheduling},
          {DXGK_FEATURE_NATIVE_FENCE, fences},
          {DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT,
           Entries{"DxgkDdiCreateCpuEvent", "DxgkDdiDestroyCpuEvent"}}}) {
      for (size_t left_out = 0; left_out <= entries.size(); ++left_out) {
        Entries some = entries;
        if (left_out < entries.size()) some.erase(some.begin() + static_cast<ptrdiff_t>(left_out));
        const bool on = left_out == entries.size();
        SCOPED_TRACE(on ? "all" : entries[left_out]);
        with(some, [&](PortWorld& world) {
          const DXGKRNL_INTERFACE& table = world.miniport.callbacks();
          for (const BOOLEAN before : {BOOLEAN{FALSE}, BOOLEAN{TRUE}}) {
            DXGKARGCB_ISFEATUREENABLED args{};
            args.DeviceHandle = table.DeviceHandle;
            args.FeatureId = feature;
            args.Enabled = before;
            EXPECT_EQ(table.DxgkCbIsFeatureEnabled(&args), STATUS_SUCCESS);
            EXPECT_EQ(args.Enabled, on ? TRUE : FALSE);
            DXGKARGCB_QUERYFEATURESUPPORT support{};
            support.DeviceHandle = table.DeviceHandle;
            support.FeatureId = feature;
            for (int state = DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
                 state <= DXGK_FEATURE_SUPPORT_ALWAYS_ON; ++state) {
              support.DriverSupportState = static_cast<UINT>(state);
              support.Enabled = before;
              EXPECT_EQ(table.DxgkCbQueryFeatureSupport(&support), STATUS_SUCCESS);
              EXPECT_EQ(support.Enabled,
                        on && state != DXGK_FEATURE_SUPPORT_ALWAYS_OFF ? TRUE : FALSE);
            }
            support.DriverSupportState = DXGK_FEATURE_SUPPORT_ALWAYS_ON + 1;
            support.Enabled = before;
            EXPECT_EQ(table.DxgkCbQueryFeatureSupport(&support), STATUS_INVALID_PARAMETER);
            EXPECT_EQ(support.Enabled, before);
          }
          DXGK_FEATURE_INTERFACE features{};
          features.Size = sizeof features;
          features.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
          ASSERT_EQ(table.DxgkCbQueryServices(table.DeviceHandle, DxgkServicesFeature,
                                              reinterpret_cast<INTERFACE*>(&features)),
                    STATUS_SUCCESS);
          for (const DXGK_FEATURE_ID asked :
               {DXGK_FEATURE_HWSCH, DXGK_FEATURE_NATIVE_FENCE, DXGK_FEATURE_ID{0x7FFF}}) {
            const bool here = on && asked == feature, known = asked != DXGK_FEATURE_ID{0x7FFF};
            DXGKARGCB_ISFEATUREENABLED2 args{};
            args.FeatureId = asked;
            std::memset(&args.Result, 0xFF, sizeof args.Result);
            EXPECT_EQ(features.IsFeatureEnabled(table.DeviceHandle, &args), STATUS_SUCCESS);
            EXPECT_EQ(args.Result.Version, here ? 1 : 0);
            EXPECT_EQ(args.Result.Enabled, here ? 1 : 0);
            EXPECT_EQ(args.Result.KnownFeature, known ? 1 : 0);
            EXPECT_EQ(args.Result.SupportedByDriver, here ? 1 : 0);
            EXPECT_EQ(args.Result.SupportedOnCurrentConfig, known ? 1 : 0);
          }
          EXPECT_EQ(features.IsFeatureEnabled(table.DeviceHandle, nullptr),
                    STATUS_INVALID_PARAMETER);
          DXGKARGCB_QUERYFEATUREINTERFACE nowhere{};
          nowhere.FeatureId = feature;
          nowhere.Version = 1;
          nowhere.InterfaceSize = sizeof(DXGKCBINT_FEATURE_NATIVEFENCE_1);
          for (DXGKARGCB_QUERYFEATUREINTERFACE* const args : {&nowhere, decltype(&nowhere){}}) {
            EXPECT_EQ(features.QueryFeatureInterface(table.DeviceHandle, args),
                      STATUS_INVALID_PARAMETER);
          }
          EXPECT_EQ(world.adapter->hw_scheduling().supported(),
                    on && feature == DXGK_FEATURE_HWSCH);
          EXPECT_EQ(world.adapter->native_fences().supported(),
                    on && feature == DXGK_FEATURE_NATIVE_FENCE);
        });
      }
    }
  });
}

// A caller that asks for the screen of firmware must give places for both outputs.
TEST(CallbackTable, PostDisplayNeedsBothOutputs) {
  in_both_modes([] {
    World world;
    const nt::CallFrame frame(world.kernel, "host", nt::kPassiveLevel);
    HANDLE const handle = world.table.DeviceHandle;
    const auto ask = world.table.DxgkCbAcquirePostDisplayOwnership2;
    DXGK_DISPLAY_INFORMATION information;
    DXGK_DISPLAY_OWNERSHIP_FLAGS flags;
    std::memset(&information, 0x5A, sizeof information);
    flags.Value = 0x5A;
    EXPECT_EQ(ask(handle, nullptr, &flags), STATUS_INVALID_PARAMETER);
    EXPECT_EQ(flags.Value, 0x5AU);
    EXPECT_EQ(ask(handle, &information, nullptr), STATUS_INVALID_PARAMETER);
    EXPECT_EQ(information.Width, 0x5A5A5A5AU);
    EXPECT_EQ(ask(handle, nullptr, nullptr), STATUS_INVALID_PARAMETER);
    EXPECT_EQ(world.table.DxgkCbAcquirePostDisplayOwnership(handle, nullptr),
              STATUS_INVALID_PARAMETER);
    EXPECT_EQ(ask(handle, &information, &flags), STATUS_SUCCESS);
    EXPECT_EQ(flags.Value, 0U);
    EXPECT_EQ(information.Width, 0U) << "it is no POST device";
    EXPECT_EQ(information.TargetId, D3DDDI_ID_UNINITIALIZED);
  });
}

TEST(CallbackTable, HasEveryCallbackThatDoesSomething) {
  std::set<std::string> known, done;
  for (const Row& row : rows()) known.insert(row.name);
  for (const SupportEntry& entry : callback_support()) {
    if (entry.support != Support::kRefused) done.insert(std::string(entry.name));
  }
  known.erase("DxgkCbEvalAcpiMethod");        // it refuses, after the same checks
  known.erase("DxgkCbMapContextAllocation");  // as it
  done.erase("DxgkCbNotifyInterrupt");        // INT-01, INT-02 say where it is called
  done.erase("DxgkCbLogEtwEvent");            // of no adapter
  EXPECT_EQ(known, done);
}

TEST(CallbackTable, EachIsTakenAtOrBelowItsLevel) {
  DXGKIT_COVERS("IRQL-12");
  in_both_modes([] {
    for (const Row& row : rows()) {
      for (const nt::Irql irql : {nt::kPassiveLevel, nt::kApcLevel, nt::kDispatchLevel,
                                  nt::kDeviceLevel, nt::kHighLevel}) {
        SCOPED_TRACE(std::string(row.name) + " at " + std::to_string(irql));
        World world;
        world.call(row, irql, world.table.DeviceHandle);
        if (irql <= row.highest) {
          EXPECT_EQ(world.findings.count("IRQL-12"), 0u) << world.findings_text();
        } else {
          const verifier::Finding finding = only(world, "IRQL-12");
          EXPECT_EQ(finding.ddi, row.name);
          EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        }
        world.stop();
      }
    }
  });
}

TEST(CallbackTable, TheIsrCallsTwoOfThemOnly) {
  DXGKIT_COVERS("INT-07");
  in_both_modes([] {
    for (const Row& row : rows()) {
      SCOPED_TRACE(row.name);
      World world;
      world.miniport.hooks.interrupt = [&](ULONG) {
        row.call(world.table, world.table.DeviceHandle);
        world.miniport.hooks.interrupt = nullptr;
        return world.miniport.default_interrupt(0);
      };
      DXGKARGCB_NOTIFY_INTERRUPT_DATA data{};
      data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
      static_cast<void>(world.miniport.raise(data));
      if (row.in_isr) {
        EXPECT_EQ(world.findings.count("INT-07"), 0u) << world.findings_text();
      } else {
        EXPECT_EQ(only(world, "INT-07").ddi, row.name);
      }
      world.stop();
    }
  });
}

TEST(CallbackTable, EachTakesTheHandleItWasGiven) {
  DXGKIT_COVERS("LIFE-08");
  in_both_modes([] {
    for (const Row& row : rows()) {
      SCOPED_TRACE(row.name);
      World world;
      world.call(row, nt::kPassiveLevel, world.table.DeviceHandle);
      EXPECT_EQ(world.findings.count("LIFE-08"), 0u);
      int wrong = 0;
      const uint64_t answer = world.call(row, nt::kPassiveLevel, &wrong);
      if (row.names == Names::kHandle) {
        expect_refused(row, answer);
        EXPECT_EQ(only(world, "LIFE-08").ddi, row.name);
        EXPECT_EQ(only(world, "LIFE-08").severity, verifier::Severity::kViolation);
      } else {
        EXPECT_EQ(world.findings.count("LIFE-08"), 0u);
      }
      world.stop();
    }
  });
}

TEST(CallbackTable, EachIsTheDriversUntilStopDeviceReturns) {
  DXGKIT_COVERS("LIFE-08");
  in_both_modes([] {
    for (const Row& row : rows()) {
      SCOPED_TRACE(row.name);
      World world;
      world.miniport.hooks.stop_device = [&] {
        row.call(world.table, world.table.DeviceHandle);
        return STATUS_SUCCESS;
      };
      EXPECT_EQ(world.adapter->life().stop_device(), Status::kSuccess);
      EXPECT_EQ(world.findings.count("LIFE-08"), 0u) << world.findings_text();
      uint64_t answer = 0;
      world.miniport.hooks.remove_device = [&] {
        answer = row.call(world.table, world.table.DeviceHandle);
        return STATUS_SUCCESS;
      };
      EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
      if (std::string_view(row.name) == "DxgkCbSynchronizeExecution") {  // IRQL-10
        EXPECT_EQ(answer, number(STATUS_UNSUCCESSFUL));
        EXPECT_EQ(world.findings.count("LIFE-08"), 0u);
        continue;
      }
      expect_refused(row, answer);
      EXPECT_EQ(only(world, "LIFE-08").ddi, row.name);
    }
  });
}

// A StartDevice that fails leaves the driver with nothing to call, and one that is entered gives it
// everything.
TEST(CallbackTable, AStartThatFailsEndsTheInterface) {
  DXGKIT_COVERS("LIFE-08");
  in_both_modes([] {
    PortWorld world;
    DXGKRNL_INTERFACE table{};
    DXGK_DEVICE_INFO info;
    world.miniport.hooks.start_device = [&](DXGK_START_INFO*, DXGKRNL_INTERFACE* callbacks, ULONG*,
                                            ULONG*) {
      table = *callbacks;
      EXPECT_EQ(table.DxgkCbGetDeviceInformation(table.DeviceHandle, &info), STATUS_SUCCESS);
      return STATUS_UNSUCCESSFUL;
    };
    world.miniport.hooks.remove_device = [&] {
      EXPECT_EQ(table.DxgkCbGetDeviceInformation(table.DeviceHandle, &info),
                STATUS_INVALID_PARAMETER);
      return STATUS_SUCCESS;
    };
    ASSERT_EQ(world.load(), Status::kSuccess);
    ASSERT_EQ(world.adapter->life().add_device(), Status::kSuccess);
    EXPECT_FALSE(world.adapter->life().start_device().has_value());
    EXPECT_EQ(world.findings.count("LIFE-08"), 0u);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
    EXPECT_EQ(world.findings.count("LIFE-08"), 1u);
  });
}

}  // namespace
}  // namespace dxgkit::port
