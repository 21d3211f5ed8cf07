// Caps, versions and entry points that must agree; what refuses a display driver at its start.
#include <cstring>

#include "dxgk/adapter/adapter.h"
#include "tests/contract/display_fixture.h"
#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct RefusedDisplay {
  const char* sentence;
  const char* rule;
  void (*broken)(DisplayStack&);
  const char* actual;
};
class CapsRefusal : public DisplayTest, public ::testing::WithParamInterface<RefusedDisplay> {};
TEST_P(CapsRefusal, StopsAndRemovesAndSaysWhy) {
  DXGKIT_COVERS(GetParam().rule, "LIFE-12");
  bare([](DisplayStack& stack) {
    GetParam().broken(stack);
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, GetParam().rule);
    EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
    EXPECT_THAT(finding.actual, HasSubstr(GetParam().actual));
    EXPECT_FALSE(finding.expected.empty());
    EXPECT_FALSE(finding.fix.empty());
    const std::vector<std::string> order = stack.display.calls().order;
    ASSERT_GE(order.size(), 2U);
    EXPECT_EQ(order.back(), "DxgkDdiRemoveDevice");
    EXPECT_TRUE(stack.system->adapters().empty());
    EXPECT_EQ(stack.display.count("DxgkDdiCommitVidPn"), 0U);
    EXPECT_FALSE(stack.display.function().interrupt_line().connected());
  });
}
const RefusedDisplay kRefusedDisplays[] = {
    {"NoWddmVersion", "CAPS-02",
     [](DisplayStack& s) {
       s.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
         caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(0);
         caps.SupportSmoothRotation = FALSE;
       };
     },
     "WDDMVersion is 0x0, SupportNonVGA 1, SupportSmoothRotation 0"},
    {"WddmVersionOne", "CAPS-02",
     [](DisplayStack& s) {
       s.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
         caps.WDDMVersion = DXGKDDI_WDDMv1;
         caps.SupportNonVGA = FALSE;
       };
     },
     "WDDMVersion is 0x1000, SupportNonVGA 0, SupportSmoothRotation 1"},
    {"NoVideoOutput", "CAPS-07",
     [](DisplayStack& s) { s.display.config.children[0].type = TypeOther; },
     "0 of 1 children are video outputs; NumberOfVideoPresentSources is 1"},
    {"MoreSourcesThanOutputs", "CAPS-07", [](DisplayStack& s) { s.display.config.sources = 2; },
     "NumberOfVideoPresentSources is 2"},
    {"TwiceTheSameUid", "CAPS-07",
     [](DisplayStack& s) { s.display.config.children.push_back(ScriptedChild{}); },
     "Two children have ChildUid 1"},
    {"SeventeenSources", "LIFE-09", [](DisplayStack& s) { s.display.config.sources = 17; },
     "NumberOfVideoPresentSources is 17"},
    {"CapsBeyondMemory", "LIFE-14",
     [](DisplayStack& s) {
       s.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
         caps.HighestAcceptableAddress.QuadPart = 0xFFFFFFFF;
       };
     },
     "HighestAcceptableAddress is 0xFFFFFFFF"},
};
INSTANTIATE_TEST_SUITE_P(Rows, CapsRefusal, ::testing::ValuesIn(kRefusedDisplays),
                         [](const auto& row) { return std::string(row.param.sentence); });

using CapsTest = DisplayTest;

TEST_F(CapsTest, ABufferTooSmallNamesSizeVersionAndFix) {
  DXGKIT_COVERS("CAPS-01");
  bare([](DisplayStack& stack) {
    stack.display.config.version = 0x300E;
    stack.display.answers["DxgkDdiQueryAdapterInfo"] = STATUS_BUFFER_TOO_SMALL;
    EXPECT_EQ(stack.start(), Status::kBufferTooSmall);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "CAPS-01");
    EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
    EXPECT_THAT(finding.actual, HasSubstr("OutputDataSize 0x"));
    EXPECT_THAT(finding.expected, HasSubstr("0x300E"));
    EXPECT_THAT(finding.fix, HasSubstr("DXGKDDI_INTERFACE_VERSION"));
    EXPECT_THAT(finding.windows, HasSubstr("Code 43"));
    EXPECT_EQ(stack.display.count("DxgkDdiStopDevice"), 1U);
  });
}

TEST_F(CapsTest, SixteenSourcesAreLegal) {
  DXGKIT_COVERS("LIFE-09");
  running(
      [](DisplayStack& stack) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        EXPECT_EQ(stack.display.count("DxgkDdiCommitVidPn"), 16U);
        EXPECT_EQ(stack.mode(15), (dxgk::DisplayMode{64, 48}));
      },
      [](DisplayStack& stack) {
        stack.display.config.sources = 16;
        stack.display.config.children.clear();
        for (uint32_t uid = 1; uid <= 16; ++uid)
          stack.display.config.children.push_back(ScriptedChild{.uid = uid});
      });
}

TEST_F(CapsTest, SupportNonVgaPromisesItsEntries) {
  DXGKIT_COVERS("CAPS-05");
  running(
      [](DisplayStack& stack) {
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "CAPS-05");
        EXPECT_THAT(finding.actual, HasSubstr("DxgkDdiSystemDisplayWrite"));
        EXPECT_TRUE(stack.visible()) << "the adapter goes on";
        EXPECT_EQ(stack.displays.show_bug_check(stack.luid, {}, 1, 1), Status::kNotSupported);
      },
      [](DisplayStack& stack) {
        stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
          table.DxgkDdiSystemDisplayEnable = nullptr;
          table.DxgkDdiSystemDisplayWrite = nullptr;
        };
      });
}

TEST_F(CapsTest, ADriverWithAScreenHasTheEntriesThatGiveAdvice) {
  DXGKIT_COVERS("CAPS-15");
  running(
      [](DisplayStack& stack) {
        const verifier::Finding finding = stack.only_finding();
        EXPECT_EQ(finding.rule, "CAPS-15");
        EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
        EXPECT_THAT(finding.actual, HasSubstr(": DxgkDdiRecommendMonitorModes, "
                                              "DxgkDdiUpdateActiveVidPnPresentPath."));
        EXPECT_TRUE(stack.visible()) << "the adapter goes on";
      },
      [](DisplayStack& stack) {
        stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
          table.DxgkDdiRecommendMonitorModes = nullptr;
          table.DxgkDdiUpdateActiveVidPnPresentPath = nullptr;
        };
      });
}

TEST_F(CapsTest, SmoothRotationIsMandatory) {
  DXGKIT_COVERS("CAPS-06");
  running([](DisplayStack& stack) { EXPECT_EQ(stack.only_finding().rule, "CAPS-06"); },
          [](DisplayStack& stack) {
            stack.display.config.caps = [](DXGK_DRIVERCAPS& caps) {
              caps.SupportSmoothRotation = FALSE;
            };
          });
}

TEST_F(CapsTest, AQueryThatSucceedsWritesItsAnswer) {
  DXGKIT_COVERS("CAPS-08");
  for (const char* ddi : {"DxgkDdiQueryChildStatus", "DxgkDdiIsSupportedVidPn"}) {
    bare([&](DisplayStack& stack) {
      stack.display.answers[ddi] = STATUS_SUCCESS;
      EXPECT_EQ(stack.start(), Status::kSuccess);
      ASSERT_FALSE(stack.rules().empty());
      EXPECT_EQ(stack.rules()[0], "CAPS-08");
      EXPECT_FALSE(stack.visible());
    });
  }
}

TEST_F(CapsTest, MissingDisplayEntriesFailInitialize) {
  DXGKIT_COVERS("LIFE-03");
  bare([](DisplayStack& stack) {
    stack.display.config.table = [](KMDDOD_INITIALIZATION_DATA& table) {
      table.DxgkDdiPresentDisplayOnly = nullptr;
    };
    EXPECT_EQ(stack.load(), Status::kInvalidParameter);
    ASSERT_FALSE(stack.rules().empty());
    EXPECT_EQ(stack.rules()[0], "LIFE-03");
  });
}

TEST_F(CapsTest, ADeviceThatIsNotThePostDeviceShowsNoDisplay) {
  DXGKIT_COVERS("LIFE-19");
  runtime::make_sim_runtime(1)->run_main([] {
    DisplayStack stack({.width = 64, .height = 48, .is_post_device = false});
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(stack.display.calls().post.Width, 0U);
    EXPECT_EQ(stack.displays.scanout(stack.luid, 0).error(), Status::kNotSupported);
    stack.display.clear_calls();
    stack.stop();
    EXPECT_THAT(stack.display.calls().order,
                ElementsAre("DxgkDdiStopDevice", "DxgkDdiRemoveDevice"));
  });
}

// --- full drivers

class FullTest : public ContractTest {};

TEST_F(FullTest, PerEngineTdrNeedsItsEntries) {
  DXGKIT_COVERS("CAPS-04");
  bare([](Stack& stack) {
    stack.miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportPerEngineTDR = TRUE; };
    stack.miniport.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiResetEngine = nullptr;
      table.DxgkDdiQueryEngineStatus = nullptr;
      table.DxgkDdiQueryDependentEngineGroup = nullptr;
    };
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "CAPS-04");
    EXPECT_THAT(finding.actual, HasSubstr("DxgkDdiQueryEngineStatus"));
    EXPECT_THAT(finding.actual, HasSubstr("DxgkDdiResetEngine"));
    EXPECT_EQ(finding.confidence, verifier::Confidence::kEventText);
    EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    EXPECT_EQ(stack.miniport.count("DxgkDdiRemoveDevice"), 1U);
  });
}

TEST_F(FullTest, SourcesNeedTheEntriesOfModeManagement) {
  DXGKIT_COVERS("CAPS-04");
  bare([](Stack& stack) {
    stack.miniport.config.video_present_sources = 1;
    stack.miniport.config.children = 1;
    EXPECT_EQ(stack.start(), Status::kDeviceConfigurationError);
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "CAPS-04");
    EXPECT_THAT(finding.actual, HasSubstr("DxgkDdiCommitVidPn"));
  });
}

struct SoftwareKey {
  const char* sentence;
  std::map<std::string, nt::RegistryValue> values;
  bool compute_only = false;
  std::vector<std::string> rules;
};
TEST(SoftwareKeyTest, AUserModeDriverIsNamedUnlessTheAdapterIsComputeOnly) {
  DXGKIT_COVERS("CAPS-03");
  const SoftwareKey keys[] = {
      {"no key at all", {}, false, {}},
      {"a key without the name", {{"Other", nt::RegistryValue::dword(1)}}, false, {"CAPS-03"}},
      {"the name, in other letters",
       {{"usermodedrivername", nt::RegistryValue::string(u"umd.dll")}},
       false,
       {}},
      {"compute only", {{"Other", nt::RegistryValue::dword(1)}}, true, {}},
  };
  for (const SoftwareKey& key : keys) {
    SCOPED_TRACE(key.sentence);
    runtime::make_sim_runtime(1)->run_main([&] {
      ScriptedMiniport miniport;
      miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_6;
      miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
        caps.MiscCaps.ComputeOnly = key.compute_only ? 1 : 0;
      };
      bus::Machine machine(64 * kMebibyte);
      verifier::Findings findings;
      const testing::KnownRun known_run(findings);
      nt::KernelConfig config;
      if (!key.values.empty()) config.registry[nt::KernelConfig::kDeviceKey] = key.values;
      nt::Kernel kernel(runtime::Runtime::current(), machine, findings, config);
      ASSERT_EQ(machine.add_function(miniport.function()), Status::kSuccess);
      std::string message;
      auto driver = port::Driver::load(kernel, findings, miniport.source(), &message);
      ASSERT_TRUE(driver.has_value()) << message;
      {
        dxgk::System system(runtime::Runtime::current(), machine, kernel, findings);
        EXPECT_TRUE(system.start_adapter(**driver, miniport.function()).has_value());
      }
      std::vector<std::string> rules;
      for (const verifier::Finding& finding : findings.all()) {
        rules.push_back(finding.rule);
        EXPECT_EQ(finding.severity, verifier::Severity::kWarning);
        EXPECT_EQ(finding.confidence, verifier::Confidence::kInferred);
      }
      EXPECT_EQ(rules, key.rules);
      driver->reset();
      machine.remove_function(miniport.function());
    });
  }
}

/// A full driver with displays: the scripted miniport with the display's entries.
struct FullDisplay {
  explicit FullDisplay(ScriptedMiniport& miniport_in, uint32_t sources) : miniport(miniport_in) {
    display.config.refresh_hz = 60;
    display.config.version = miniport.config.version;
    display.config.sizes = {{64, 64}, {32, 32}};
    miniport.config.video_present_sources = sources;
    miniport.config.children = 1;
    miniport.config.table = [this](DRIVER_INITIALIZATION_DATA& table) {
      display.lend_entries(&table, miniport.adapter_context(), &miniport.callbacks());
      table.DxgkDdiGetStandardAllocationDriverData = describe;
      table.DxgkDdiDescribeAllocation = describe_one;
    };
  }
  static NTSTATUS NTAPI describe(const HANDLE, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA* args) {
    ++described;
    if (args->pAllocationPrivateDriverData == nullptr) {
      args->AllocationPrivateDriverDataSize = sizeof(ScriptedAllocation);
      args->ResourcePrivateDriverDataSize = 0;
      return STATUS_SUCCESS;
    }
    const D3DKMDT_SHAREDPRIMARYSURFACEDATA& data = *args->pCreateSharedPrimarySurfaceData;
    asked = data;
    const ScriptedAllocation allocation{
        .size = uint64_t{data.Width} * data.Height * 4 - missing_bytes,
        .supported_read = 1,
        .supported_write = 1,
        .flags = 1};  // CpuVisible, in the visible memory segment
    std::memcpy(args->pAllocationPrivateDriverData, &allocation, sizeof allocation);
    return STATUS_SUCCESS;
  }
  static NTSTATUS NTAPI describe_one(const HANDLE, DXGKARG_DESCRIBEALLOCATION* args) {
    descriptions.push_back(args->hAllocation);
    args->Width = asked.Width - (wrong_width ? 1 : 0);
    args->Height = asked.Height;
    args->Format = asked.Format;
    args->MultisampleMethod.NumSamples = samples;
    return answer;
  }
  static inline std::vector<HANDLE> descriptions;
  static inline bool wrong_width = false;
  static inline NTSTATUS answer = STATUS_SUCCESS;
  static inline D3DKMDT_SHAREDPRIMARYSURFACEDATA asked{};
  static inline int described = 0;
  static inline UINT samples = 0;            // what is answered to DescribeAllocation
  static inline uint32_t missing_bytes = 0;  // that a primary is too small
  ScriptedMiniport& miniport;
  ScriptedDisplay display;
};

TEST_F(FullTest, ARenderOnlyAdapterGetsNoneOfTheDisplayEntries) {
  DXGKIT_COVERS("DISP-21");
  bare([](Stack& stack) {
    FullDisplay full(stack.miniport, 0);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    std::vector<std::string> order = full.display.calls().order;
    EXPECT_THAT(order, ElementsAre("DxgkDdiQueryChildRelations"));
    dxgk::Displays displays(*stack.system);
    EXPECT_EQ(displays.configuration(stack.luid).error(), Status::kNotSupported);
    EXPECT_EQ(displays.set_mode(stack.luid, 0, {64, 64}), Status::kNotSupported);
    EXPECT_EQ(full.display.calls().order.size(), 1U);
  });
}

TEST_F(FullTest, ClientsOpenThePrimaryThatIsShown) {
  DXGKIT_COVERS("ALLOC-34", "ALLOC-25", "ALLOC-04", "THUNK-04");
  bare([](Stack& stack) {
    FullDisplay full(stack.miniport, 1);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    D3DKMT_GETSHAREDPRIMARYHANDLE primary{};
    primary.hAdapter = client.adapter;
    const auto get = [&] {
      return client.call([&] { return D3DKMTGetSharedPrimaryHandle(&primary); });
    };
    ASSERT_EQ(get(), 0);
    EXPECT_EQ(primary.hSharedPrimary & 0x3FU, 2U);
    const D3DKMT_HANDLE first = primary.hSharedPrimary;
    const Digest before = digest(stack, {&client});
    for (const UINT source : {1U, 16U, UINT32_MAX}) {
      primary.VidPnSourceId = source;
      EXPECT_EQ(get(), nt_status(Status::kInvalidParameter));
    }
    primary.VidPnSourceId = 0;
    for (const D3DKMT_HANDLE adapter : {0U, UINT32_MAX, client.device, client.adapter | 1}) {
      primary.hAdapter = adapter;
      EXPECT_EQ(get(), nt_status(Status::kInvalidParameter));
    }
    EXPECT_EQ(client.call([] { return D3DKMTGetSharedPrimaryHandle(nullptr); }),
              nt_status(Status::kInvalidParameter));
    primary.hAdapter = client.adapter;
    EXPECT_EQ(primary.hSharedPrimary, first);
    EXPECT_EQ(digest(stack, {&client}), before);

    D3DDDI_OPENALLOCATIONINFO opened{};
    std::byte total[sizeof(ScriptedAllocation)];
    D3DKMT_OPENRESOURCE open{};
    open.hDevice = client.device;
    open.hGlobalShare = first;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo = &opened;
    open.pTotalPrivateDriverDataBuffer = total;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    ASSERT_EQ(client.call([&] { return D3DKMTOpenResource(&open); }), 0);
    // The old Lock takes a primary in any process, while it is shown.
    D3DKMT_LOCK lock{};
    lock.hDevice = client.device;
    lock.hAllocation = opened.hAllocation;
    lock.Flags.DonotWait = lock.Flags.Discard = 1;
    ASSERT_EQ(client.call([&] { return D3DKMTLock(&lock); }), 0);
    EXPECT_EQ(lock.hAllocation, opened.hAllocation) << "it is not renamed";
    std::memset(lock.pData, 0x42, 16);
    D3DKMT_UNLOCK unlock{};
    unlock.hDevice = client.device;
    unlock.NumAllocations = 1;
    unlock.phAllocations = &opened.hAllocation;
    ASSERT_EQ(client.call([&] { return D3DKMTUnlock(&unlock); }), 0);
    dxgk::Displays displays(*stack.system);
    stack.blocking([&] {
      const auto picture = displays.scanout(stack.luid, 0);
      ASSERT_TRUE(picture.has_value());
      EXPECT_EQ(picture->pixels[0], 0x42) << "that is what is shown";
    });
    // Another mode has another primary; who has the old one open keeps it.
    stack.blocking([&] {
      EXPECT_EQ(displays.set_mode(stack.luid, 0, {32, 32}), Status::kSuccess);
    });
    ASSERT_EQ(get(), 0);
    EXPECT_NE(primary.hSharedPrimary, first);
    void* address = nullptr;
    ASSERT_EQ(client.lock(opened.hAllocation, &address), 0);
    EXPECT_EQ(*static_cast<const uint8_t*>(address), 0x42);
    EXPECT_EQ(client.unlock(opened.hAllocation), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(FullTest, OnlyThePrimaryIsDescribedAndWhatIsWrongIsTold) {
  DXGKIT_COVERS("ALLOC-31", "ALLOC-51");
  struct Row {
    bool wrong_width;
    NTSTATUS answer;
    size_t told;
    UINT samples = 0;
  };
  for (const Row& row :
       {Row{false, STATUS_SUCCESS, 0}, Row{true, STATUS_SUCCESS, 1},
        Row{false, nt_status(Status::kInvalidParameter), 1}, Row{false, STATUS_NOT_SUPPORTED, 0},
        Row{false, STATUS_SUCCESS, 0, 1}, Row{false, STATUS_SUCCESS, 1, 2}}) {
    bare([&](Stack& stack) {
      FullDisplay full(stack.miniport, 1);
      FullDisplay::descriptions.clear();
      FullDisplay::wrong_width = row.wrong_width;
      FullDisplay::answer = row.answer;
      FullDisplay::samples = row.samples;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      EXPECT_EQ(stack.findings.count("ALLOC-51"), row.told);
      const DisplayCalls calls = full.display.calls();
      ASSERT_EQ(calls.commits.size(), 1U) << "it is shown all the same";
      EXPECT_THAT(FullDisplay::descriptions, ElementsAre(calls.commits[0].hPrimaryAllocation));
      {
        Client client(stack);
        ContextBuffers context = client.make_context();
        const D3DKMT_HANDLE texture = client.make_allocation();
        EXPECT_EQ(client.render(context, work_on({texture})), 0);
        stack.drive();
        void* address = nullptr;
        EXPECT_EQ(client.lock(texture, &address), 0);
        EXPECT_EQ(client.unlock(texture), 0);
      }
      EXPECT_EQ(FullDisplay::descriptions.size(), 1U) << "no other allocation is";
    });
  }
  FullDisplay::wrong_width = false;
  FullDisplay::answer = STATUS_SUCCESS;
  FullDisplay::samples = 0;
}

TEST_F(FullTest, AModeThatIsNotCommittedLeavesNoPrimary) {
  DXGKIT_COVERS("DOD-03", "DISP-11");
  bare([](Stack& stack) {
    FullDisplay full(stack.miniport, 1);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    dxgk::Displays displays(*stack.system);
    const size_t before = stack.miniport.live_objects();
    const size_t pages = stack.machine.free_page_count();
    full.display.answers["DxgkDdiCommitVidPn"] = STATUS_NO_MEMORY;
    Status changed = Status::kPending;
    stack.blocking([&] { changed = displays.set_mode(stack.luid, 0, {32, 32}); });
    EXPECT_EQ(changed, Status::kNoMemory);
    EXPECT_EQ(stack.miniport.live_objects(), before);
    EXPECT_EQ(stack.machine.free_page_count(), pages);
    EXPECT_EQ(displays.configuration(stack.luid)->sources[0].mode, (dxgk::DisplayMode{64, 64}));
  });
}

// What the driver made of the primary is read to its last byte, or not at all.
TEST_F(FullTest, APrimaryTooSmallForItsModeIsNotRead) {
  DXGKIT_COVERS("DOD-05");
  for (const uint32_t missing : {0U, 4096U}) {
    bare([&](Stack& stack) {
      FullDisplay full(stack.miniport, 1);
      FullDisplay::missing_bytes = missing;
      ASSERT_EQ(stack.start(), Status::kSuccess);
      dxgk::Displays displays(*stack.system);
      stack.blocking([&] {
        const auto picture = displays.scanout(stack.luid, 0);
        EXPECT_EQ(picture.has_value(), missing == 0);
        if (missing != 0) {
          EXPECT_EQ(picture.error(), Status::kNotSupported);
        }
      });
      FullDisplay::missing_bytes = 0;
    });
  }
}

TEST_F(FullTest, AFullDriverShowsAPinnedPrimary) {
  DXGKIT_COVERS("DISP-02", "DISP-03", "DISP-11", "DOD-05");
  bare([](Stack& stack) {
    FullDisplay full(stack.miniport, 1);
    FullDisplay::described = 0;
    stack.miniport.config.segments[0].size = 32 * kMebibyte;  // full with one of the client's
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(FullDisplay::described, 2) << "sizes, then data";
    const DisplayCalls calls = full.display.calls();
    ASSERT_EQ(calls.commits.size(), 1U);
    ASSERT_EQ(calls.addresses.size(), 1U);
    EXPECT_NE(calls.commits[0].hPrimaryAllocation, nullptr);
    const DXGKARG_SETVIDPNSOURCEADDRESS& address = calls.addresses[0];
    EXPECT_EQ(address.hAllocation, calls.commits[0].hPrimaryAllocation);
    EXPECT_EQ(address.ContextCount, 0U);
    EXPECT_EQ(address.Flags.ModeChange, 1U);
    EXPECT_EQ(address.Flags.Value, 1U);
    EXPECT_EQ(address.PrimarySegment, 1U);
    EXPECT_THAT(std::vector<std::string>(calls.order.end() - 3, calls.order.end()),
                ElementsAre("DxgkDdiCommitVidPn", "DxgkDdiSetVidPnSourceAddress",
                            "DxgkDdiSetVidPnSourceVisibility"));
    dxgk::Displays displays(*stack.system);
    EXPECT_EQ(displays.configuration(stack.luid)->sources[0].mode, (dxgk::DisplayMode{64, 64}));
    EXPECT_EQ(displays.present(stack.luid, {}), Status::kNotSupported);

    // A client that fills the segment cannot push it out.
    const AllocationId primary{uint64_t{1} << 22};  // the first one made on this adapter
    const auto place_of_primary = [&] {
      vidmm::Placement place;
      stack.adapter().core().lane().run([&] {
        EXPECT_EQ(stack.adapter().floor().allocations.at(primary).driver_handle,
                  address.hAllocation);
        place = stack.adapter().core().memory().placement(primary);
      });
      return place;
    };
    const vidmm::Placement shown = place_of_primary();
    EXPECT_EQ(shown.gpu_address, static_cast<uint64_t>(address.PrimaryAddress.QuadPart));
    {
      Client client(stack);
      ContextBuffers context = client.make_context();
      // It needs the segment but less than the primary takes: there is no room, and it waits.
      const D3DKMT_HANDLE greedy = client.make_allocation(32 * kMebibyte - 8 * kKibibyte, 1);
      EXPECT_EQ(client.render(context, work_on({greedy})), STATUS_SUCCESS);
      stack.drive();
    }
    EXPECT_EQ(place_of_primary(), shown);
    const size_t before = full.display.calls().addresses.size();
    Status changed = Status::kPending;
    stack.blocking([&] { changed = displays.set_mode(stack.luid, 0, {32, 32}); });
    EXPECT_EQ(changed, Status::kSuccess);
    EXPECT_EQ(full.display.calls().addresses.size(), before + 1);
    EXPECT_NE(full.display.calls().addresses.back().hAllocation, address.hAllocation);
    const auto picture = displays.scanout(stack.luid, 0);
    ASSERT_TRUE(picture.has_value());
    EXPECT_EQ(picture->width, 32U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

}  // namespace
}  // namespace dxgkit::contract
