// What a start asks beyond single caps: features of the declared version, host apertures that work.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using LifeCapsTest = ContractTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A WDDM 1.2 driver: entries of engine recovery that are never called here.
void with_engine_entries(DRIVER_INITIALIZATION_DATA& table) {
  table.DxgkDdiQueryDependentEngineGroup = [](void*, DXGKARG_QUERYDEPENDENTENGINEGROUP*)
                                               NTAPI { return STATUS_SUCCESS; };
  table.DxgkDdiQueryEngineStatus = [](void*, DXGKARG_QUERYENGINESTATUS*)
                                       NTAPI { return STATUS_SUCCESS; };
  table.DxgkDdiResetEngine = [](void*, DXGKARG_RESETENGINE*) NTAPI { return STATUS_SUCCESS; };
}
void whole(DXGK_DRIVERCAPS& caps) {
  caps.WDDMVersion = DXGKDDI_WDDMv1_2;
  caps.SupportPerEngineTDR = TRUE;
  caps.PresentationCaps.SupportKernelModeCommandBuffer = 1;
  caps.SupportNonVGA = caps.SupportSmoothRotation = caps.SupportDirectFlip = TRUE;
}

struct Row {
  const char* sentence;
  void (*change)(DXGK_DRIVERCAPS&);
  const char* said;                     // null: it starts
  std::vector<std::string> rules = {};  // if it starts
};

TEST_F(LifeCapsTest, FeaturesAreThoseOfTheDeclaredVersion) {
  DXGKIT_COVERS("LIFE-13");
  const Row rows[] = {
      {"WDDM 1.2, whole", [](DXGK_DRIVERCAPS&) {}, nullptr},
      {"WDDM 1.2 without engine recovery",
       [](DXGK_DRIVERCAPS& caps) { caps.SupportPerEngineTDR = FALSE; }, "SupportPerEngineTDR"},
      {"WDDM 1.2 without GDI acceleration",
       [](DXGK_DRIVERCAPS& caps) { caps.PresentationCaps.SupportKernelModeCommandBuffer = 0; },
       "SupportKernelModeCommandBuffer"},
      {"display features are not asked of a driver without displays",
       [](DXGK_DRIVERCAPS& caps) {
         caps.SupportNonVGA = caps.SupportSmoothRotation = caps.SupportDirectFlip = FALSE;
       },
       nullptr},
      {"WDDM 1.1 with one feature of 1.2",
       [](DXGK_DRIVERCAPS& caps) {
         caps.WDDMVersion = DXGKDDI_WDDMv1;
         caps.SupportNonVGA = caps.SupportSmoothRotation = FALSE;
         caps.SupportPerEngineTDR = FALSE;
       },
       "SupportDirectFlip"},
      {"nothing is said of the version",
       [](DXGK_DRIVERCAPS& caps) {
         caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(0);
         caps.SupportPerEngineTDR = FALSE;
       },
       nullptr,
       {"CAPS-11"}},
      {"of WDDM 1.3 the page says nothing",
       [](DXGK_DRIVERCAPS& caps) {
         caps.WDDMVersion = DXGKDDI_WDDMv1_3;
         caps.SupportPerEngineTDR = FALSE;
       },
       nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    bare([&](Stack& stack) {
      stack.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WIN8;
      stack.miniport.config.table = with_engine_entries;
      stack.miniport.config.caps = [&](DXGK_DRIVERCAPS& caps) {
        whole(caps);
        row.change(caps);
      };
      const Status status = stack.start();
      if (row.said == nullptr) {
        EXPECT_EQ(status, Status::kSuccess);
        EXPECT_EQ(stack.rules(), row.rules);
        return;
      }
      EXPECT_EQ(status, Status::kDeviceConfigurationError);
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "LIFE-13");
      EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
      EXPECT_THAT(finding.actual, HasSubstr(row.said));
      EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
      EXPECT_EQ(stack.miniport.count("DxgkDdiCreateDevice"), 0U);
    });
  }
}

TEST_F(LifeCapsTest, AVersionOfZeroIsFromBeforeWddm12) {
  DXGKIT_COVERS("CAPS-11");
  for (const uint32_t version : {DXGKDDI_INTERFACE_VERSION_WIN7, DXGKDDI_INTERFACE_VERSION_WIN8,
                                 DXGKDDI_INTERFACE_VERSION_WDDM1_3}) {
    SCOPED_TRACE(version);
    bare([&](Stack& stack) {
      stack.miniport.config.version = version;
      stack.miniport.config.caps = [](DXGK_DRIVERCAPS& caps) {
        caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(0);
      };
      EXPECT_EQ(stack.start(), Status::kSuccess);
      if (version < DXGKDDI_INTERFACE_VERSION_WIN8) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        return;
      }
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "CAPS-11");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_THAT(finding.actual, HasSubstr("WDDMVersion is 0,"));
    });
  }
}

TEST_F(LifeCapsTest, WhoSaysHowFinelyItPreemptsIsAskedTo) {
  DXGKIT_COVERS("PREEMPT-19");
  for (const bool aware : {true, false}) {
    SCOPED_TRACE(aware);
    bare([&](Stack& stack) {
      stack.miniport.config.caps = [aware](DXGK_DRIVERCAPS& caps) {
        caps.SchedulingCaps.PreemptionAware = aware ? 1 : 0;
      };
      EXPECT_EQ(stack.start(), Status::kSuccess);
      if (aware) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        return;
      }
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "PREEMPT-19");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_THAT(finding.actual, HasSubstr("PreemptionAware is clear"));
    });
  }
}

// --- CPU host apertures at start ---

struct HostAperture {
  static inline NTSTATUS map_answer = STATUS_SUCCESS, unmap_answer = STATUS_SUCCESS;
  static inline std::vector<std::string> seen;
  static inline ScriptedMiniport* miniport = nullptr;
  static NTSTATUS NTAPI map(const HANDLE, const DXGKARG_MAPCPUHOSTAPERTURE* args) {
    EXPECT_EQ(args->hAllocation, nullptr);
    EXPECT_EQ(args->NumberOfPages, 1U);
    EXPECT_EQ(miniport->count("DxgkDdiCreateDevice"), 0U) << "before anything else";
    seen.push_back("map " + std::to_string(args->SegmentId) + " " +
                   std::to_string(args->pCpuHostAperturePages[0]) + " " +
                   std::to_string(args->pMemorySegmentPages[0]));
    return map_answer;
  }
  static NTSTATUS NTAPI unmap(const HANDLE, const DXGKARG_UNMAPCPUHOSTAPERTURE* args) {
    EXPECT_EQ(args->NumberOfPages, 1U);
    seen.push_back("unmap " + std::to_string(args->SegmentId) + " " +
                   std::to_string(args->pCpuHostAperturePages[0]));
    return unmap_answer;
  }
  static void prepare(ScriptedMiniport& m, bool has_map = true, bool has_unmap = true) {
    map_answer = unmap_answer = STATUS_SUCCESS;
    seen.clear();
    miniport = &m;
    m.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
    m.config.segments[0].flags.CpuVisible = 0;
    m.config.segments[0].flags.SupportsCpuHostAperture = 1;
    m.config.table = [=](DRIVER_INITIALIZATION_DATA& table) {
      table.DxgkDdiMapCpuHostAperture = has_map ? map : nullptr;
      table.DxgkDdiUnmapCpuHostAperture = has_unmap ? unmap : nullptr;
    };
    m.hooks.query_adapter_info = [&m](const DXGKARG_QUERYADAPTERINFO* args) {
      const NTSTATUS status = m.default_query_adapter_info(args);
      if (args->Type != DXGKQAITYPE_QUERYSEGMENT4) return status;
      auto* out = static_cast<DXGK_QUERYSEGMENTOUT4*>(args->pOutputData);
      if (out->pSegmentDescriptor == nullptr) return status;
      auto* first = reinterpret_cast<DXGK_SEGMENTDESCRIPTOR4*>(out->pSegmentDescriptor);
      first->CpuHostAperture.PhysicalAddress = m.function().bars()[1].base.value;
      first->CpuHostAperture.SizeInPages = 6;
      return status;
    };
  }
};

TEST_F(LifeCapsTest, AHostApertureWorksRightAfterTheSegmentsAreKnown) {
  DXGKIT_COVERS("LIFE-15");
  bare([](Stack& stack) {
    HostAperture::prepare(stack.miniport);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    EXPECT_THAT(HostAperture::seen, ElementsAre("map 1 0 0", "unmap 1 0"));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// The first sound page is tried, in whatever order the bad ones are told; and behind them only
// where the segment begins with one.
TEST_F(LifeCapsTest, AHostApertureIsTriedOnASoundPage) {
  DXGKIT_COVERS("LIFE-15", "SEG-45");
  struct Pages {
    std::vector<port::MemoryRange> bad;
    const char* mapped;
  };
  for (const Pages& row : {Pages{{{0, 3 * 4096}}, "map 1 0 3"}, Pages{{{4096, 4096}}, "map 1 0 0"},
                           Pages{{{2 * 4096, 2 * 4096}, {0, 2 * 4096}}, "map 1 0 4"},
                           Pages{{{0, 4 * 4096}, {4096, 4096}}, "map 1 0 4"},
                           Pages{{{0, 2 * 4096}, {3 * 4096, 4096}}, "map 1 0 2"}}) {
    bare([&](Stack& stack) {
      HostAperture::prepare(stack.miniport);
      stack.miniport.config.segments[0].bad_ranges = row.bad;
      stack.miniport.config.segments[0].invalid_ranges = static_cast<uint32_t>(row.bad.size());
      ASSERT_EQ(stack.start(), Status::kSuccess);
      EXPECT_THAT(HostAperture::seen, ElementsAre(row.mapped, "unmap 1 0"));
    });
  }
}

TEST_F(LifeCapsTest, AHostApertureThatDoesNotWorkYetStopsTheStart) {
  DXGKIT_COVERS("LIFE-15");
  struct Fault {
    const char* sentence;
    bool has_map, has_unmap;
    NTSTATUS map, unmap;
    const char* ddi;
    uint32_t parameter;
    const char* said;
  };
  const Fault faults[] = {
      {"mapping fails", true, true, STATUS_UNSUCCESSFUL, STATUS_SUCCESS,
       "DxgkDdiMapCpuHostAperture", 0x2D, "0xC0000001"},
      {"unmapping fails", true, true, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
       "DxgkDdiUnmapCpuHostAperture", 0x2E, "0xC0000001"},
      {"mapping goes on for ever", true, true, STATUS_PENDING, STATUS_SUCCESS,
       "DxgkDdiMapCpuHostAperture", 0x2D, "0x00000103"},
      {"no entry to map", false, true, 0, 0, "DxgkDdiMapCpuHostAperture", 0x2D, "NULL"},
      {"no entry to unmap", true, false, 0, 0, "DxgkDdiUnmapCpuHostAperture", 0x2E, "NULL"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.sentence);
    bare([&](Stack& stack) {
      HostAperture::prepare(stack.miniport, fault.has_map, fault.has_unmap);
      HostAperture::map_answer = fault.map;
      HostAperture::unmap_answer = fault.unmap;
      EXPECT_FALSE(is_success(stack.start()));
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "LIFE-15");
      EXPECT_EQ(finding.severity, verifier::Severity::kBugCheck);
      EXPECT_EQ(finding.bugcheck_code, 0x10EU);
      EXPECT_EQ(finding.bugcheck_parameter, fault.parameter);
      EXPECT_EQ(finding.ddi, fault.ddi);
      EXPECT_THAT(finding.actual, HasSubstr(fault.said));
      EXPECT_EQ(stack.miniport.count("DxgkDdiCreateDevice"), 0U);
      EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    });
  }
}

}  // namespace
}  // namespace dxgkit::contract
