// What caps and node metadata say that cannot be so.
#include "port/ddi/caps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "port/core/core_world_test.h"
#include "port/ddi/caps_values.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

DriverCaps told(void (*change)(DXGK_DRIVERCAPS&)) {
  DXGK_DRIVERCAPS raw{};
  raw.WDDMVersion = DXGKDDI_WDDMv1_3;
  raw.PreemptionCaps.GraphicsPreemptionGranularity = D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY;
  raw.PreemptionCaps.ComputePreemptionGranularity = D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY;
  change(raw);
  DriverCaps caps;
  caps.raw.resize(sizeof(raw));
  std::memcpy(caps.raw.data(), &raw, sizeof(raw));
  return caps;
}
std::string odd_members(const DriverCaps& caps, uint32_t version = kInterfaceWddm13) {
  std::string names;
  for (const OddValue& odd : odd_values_of(caps, version)) names += std::string(odd.member) + " ";
  return names;
}

TEST(CapsValues, AreThoseOfTheirEnumerations) {
  DXGKIT_COVERS("CAPS-11");
  EXPECT_EQ(odd_members(told([](DXGK_DRIVERCAPS&) {})), "");
  EXPECT_EQ(odd_members(DriverCaps{}), "") << "a driver that was not asked";
  EXPECT_EQ(odd_members(told([](DXGK_DRIVERCAPS& caps) { caps = {}; })), "") << "nothing was said";
  const auto odd_version = [](DXGK_DRIVERCAPS& caps) {
    caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(DXGKDDI_WDDMv1_3 + 1);
  };
  EXPECT_EQ(odd_members(told(odd_version)), "WDDMVersion ");
  EXPECT_EQ(odd_members(told(odd_version), kInterfaceWin7 - 1), "") << "there is no such member";
  EXPECT_EQ(odd_members(told([](DXGK_DRIVERCAPS& caps) {
              caps.WDDMVersion = static_cast<DXGK_WDDMVERSION>(0x3300);
            })),
            "")
      << "of a newer kit";
  EXPECT_EQ(odd_members(told([](DXGK_DRIVERCAPS& caps) { caps.WDDMVersion = DXGKDDI_WDDMv3_2; })),
            "");
  const auto odd_granularities = [](DXGK_DRIVERCAPS& caps) {
    caps.PreemptionCaps.GraphicsPreemptionGranularity =
        static_cast<D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY>(2);
    caps.PreemptionCaps.ComputePreemptionGranularity =
        static_cast<D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY>(600);
  };
  EXPECT_EQ(odd_members(told(odd_granularities)),
            "PreemptionCaps.GraphicsPreemptionGranularity "
            "PreemptionCaps.ComputePreemptionGranularity ");
  EXPECT_EQ(odd_members(told(odd_granularities), kInterfaceWin7), "") << "before WDDM 1.2";
}

std::vector<UINT>* g_types = nullptr;  // by node; above 100: a name, and the type that remains
bool g_compute_only = false;

std::string engine_findings(std::vector<UINT> types, bool compute_only = false) {
  std::string found;
  with_core([&](CoreWorld& world) {
    g_types = &types;
    g_compute_only = compute_only;
    CoreWorld::set(
        world.table.table.DxgkDdiQueryAdapterInfo,
        +[](void*, const DXGKARG_QUERYADAPTERINFO* args) NTAPI -> NTSTATUS {
          DXGK_DRIVERCAPS caps{};
          caps.SchedulingCaps.MultiEngineAware = 1;
          caps.GpuEngineTopology.NbAsymetricProcessingNodes = static_cast<UINT>(g_types->size());
          caps.MiscCaps.ComputeOnly = g_compute_only ? 1 : 0;
          caps.MemoryManagementCaps.GpuMmuSupported = 1;
          std::memcpy(args->pOutputData, &caps, args->OutputDataSize);
          return 0;
        });
    CoreWorld::set(
        world.table.table.DxgkDdiGetNodeMetadata,
        +[](void*, UINT node, DXGKARG_GETNODEMETADATA* out) NTAPI -> NTSTATUS {
          const UINT type = (*g_types)[node];
          out->EngineType = static_cast<DXGK_ENGINE_TYPE>(type % 100);
          out->GpuMmuSupported = type % 100 == DXGK_ENGINE_TYPE_3D ? TRUE : FALSE;
          if (type >= 100) out->FriendlyName[0] = 'N';
          return 0;
        });
    CapsPort caps(world.core());
    ASSERT_TRUE(caps.query_driver_caps().has_value());
    // Asked twice, as the exerciser does: said once.
    for (const bool start : {true, false}) {
      for (uint32_t node = 0; node < types.size(); ++node) {
        NodeMetadata metadata;
        EXPECT_EQ(caps.get_node_metadata(NodeOrdinal{node}, start ? &metadata : nullptr),
                  Status::kSuccess);
      }
    }
    for (const verifier::Finding& finding : world.findings.all()) {
      EXPECT_EQ(finding.rule, "CAPS-12");
      if (finding.actual.find("nodes have") != std::string::npos) {
        EXPECT_EQ(finding.fix.starts_with("Say DXGK_ENGINE_TYPE_3D"),
                  finding.actual.starts_with("0 of"));
      }
      found += finding.severity == verifier::Severity::kWarning ? "warning: " : "";
      found += finding.actual + " ";
    }
  });
  return found;
}

TEST(NodeMetadata, NamesEnginesThatAnAdapterCanHave) {
  DXGKIT_COVERS("CAPS-12");
  constexpr UINT k3d = DXGK_ENGINE_TYPE_3D;
  constexpr UINT kCopy = DXGK_ENGINE_TYPE_COPY;
  EXPECT_EQ(engine_findings({k3d}), "");
  EXPECT_EQ(engine_findings({kCopy, k3d + 100, DXGK_ENGINE_TYPE_MAX - 1}), "");
  const std::string without_mmu =
      "warning: The caps set GpuMmuSupported, and none of 2 nodes does. ";
  EXPECT_EQ(engine_findings({kCopy, kCopy}),
            without_mmu + "0 of 2 nodes have EngineType DXGK_ENGINE_TYPE_3D. ");
  EXPECT_EQ(engine_findings({kCopy, kCopy}, /*compute_only=*/true), without_mmu);
  EXPECT_EQ(engine_findings({k3d, k3d}),
            "warning: 2 of 2 nodes have EngineType DXGK_ENGINE_TYPE_3D. ");
  EXPECT_EQ(engine_findings({k3d, DXGK_ENGINE_TYPE_MAX}), "Node 1 has EngineType 10. ");
  EXPECT_EQ(engine_findings({k3d, DXGK_ENGINE_TYPE_OTHER}),
            "Node 1 has EngineType DXGK_ENGINE_TYPE_OTHER and no FriendlyName. ");
  EXPECT_EQ(engine_findings({k3d, DXGK_ENGINE_TYPE_OTHER + 100}), "");
}

DXGK_DRIVERCAPS g_caps;
NTSTATUS g_answer = 0;

NTSTATUS NTAPI answer_caps(void*, const DXGKARG_QUERYADAPTERINFO* args) {
  EXPECT_EQ(args->Type, DXGKQAITYPE_DRIVERCAPS);
  std::memcpy(args->pOutputData, &g_caps, std::min<size_t>(args->OutputDataSize, sizeof(g_caps)));
  return g_answer;
}

/// A member of DXGK_DRIVERCAPS, from when on it is read, and where it arrives.
struct Member {
  const char* name;
  uint32_t since;
  uint64_t value;
  void (*set)(DXGK_DRIVERCAPS& caps);
  uint64_t (*read)(const DriverCaps& caps, const PortCore& core);
};
const Member kMembers[] = {
    {"HighestAcceptableAddress", 0, 0x12'3456'7000,
     [](auto& c) { c.HighestAcceptableAddress.QuadPart = 0x12'3456'7000; },
     [](auto& c, auto&) { return c.highest_acceptable_address; }},
    {"ApertureSegmentCommitLimit", 0, 0x5'0000'1000,
     [](auto& c) { c.ApertureSegmentCommitLimit = 0x5'0000'1000; },
     [](auto& c, auto&) { return c.aperture_segment_commit_limit; }},
    {"MaxAllocationListSlotId", 0, 77, [](auto& c) { c.MaxAllocationListSlotId = 77; },
     [](auto& c, auto&) { return uint64_t{c.max_allocation_list_slot_id}; }},
    {"InterruptMessageNumber", 0, 6, [](auto& c) { c.InterruptMessageNumber = 6; },
     [](auto& c, auto&) { return uint64_t{c.interrupt_message_number}; }},
    {"NumberOfSwizzlingRanges", 0, 9, [](auto& c) { c.NumberOfSwizzlingRanges = 9; },
     [](auto& c, auto&) { return uint64_t{c.number_of_swizzling_ranges}; }},
    {"MultiEngineAware", 0, 1, [](auto& c) { c.SchedulingCaps.MultiEngineAware = 1; },
     [](auto& c, auto&) { return uint64_t{c.multi_engine_aware}; }},
    {"NbAsymetricProcessingNodes", 0, 5,
     [](auto& c) { c.GpuEngineTopology.NbAsymetricProcessingNodes = 5; },
     [](auto& c, auto&) { return uint64_t{c.node_count}; }},
    {"PagingNode", 0, 3, [](auto& c) { c.MemoryManagementCaps.PagingNode = 3; },
     [](auto& c, auto&) { return uint64_t{c.paging_node}; }},
    {"PreemptionAware", kInterfaceWin8, 1, [](auto& c) { c.SchedulingCaps.PreemptionAware = 1; },
     [](auto& c, auto&) { return uint64_t{c.preemption_aware}; }},
    {"NoDmaPatching", kInterfaceWin8, 1, [](auto& c) { c.SchedulingCaps.NoDmaPatching = 1; },
     [](auto& c, auto&) { return uint64_t{c.no_dma_patching}; }},
    {"CancelCommandAware", kInterfaceWin8, 1,
     [](auto& c) { c.SchedulingCaps.CancelCommandAware = 1; },
     [](auto& c, auto&) { return uint64_t{c.cancel_command_aware}; }},
    {"SupportPerEngineTDR", kInterfaceWin8, 1, [](auto& c) { c.SupportPerEngineTDR = 2; },
     [](auto& c, auto&) { return uint64_t{c.support_per_engine_tdr}; }},
    {"SupportRuntimePowerManagement", kInterfaceWin8, 1,
     [](auto& c) { c.SupportRuntimePowerManagement = TRUE; },
     [](auto& c, auto&) { return uint64_t{c.support_runtime_power_management}; }},
    {"SupportSurpriseRemovalInHibernation", kInterfaceWin8, 1,
     [](auto& c) { c.SupportSurpriseRemovalInHibernation = TRUE; },
     [](auto& c, auto&) { return uint64_t{c.support_surprise_removal_in_hibernation}; }},
    {"VirtualAddressingSupported", kInterfaceWddm20, 1,
     [](auto& c) { c.MemoryManagementCaps.VirtualAddressingSupported = 1; },
     [](auto& c, auto&) { return uint64_t{c.virtual_addressing_supported}; }},
    {"GpuMmuSupported", kInterfaceWddm20, 3,
     [](auto& c) { c.MemoryManagementCaps.GpuMmuSupported = 1; },
     [](auto& c, auto& core) {
       return uint64_t{c.gpu_mmu_supported} | uint64_t{core.gpu_mmu} << 1;
     }},
    {"IoMmuSupported", kInterfaceWddm20, 1,
     [](auto& c) { c.MemoryManagementCaps.IoMmuSupported = 1; },
     [](auto& c, auto&) { return uint64_t{c.io_mmu_supported}; }},
    {"NonCpuVisiblePrimary", kInterfaceWddm20, 1,
     [](auto& c) { c.MemoryManagementCaps.NonCpuVisiblePrimary = 1; },
     [](auto& c, auto&) { return uint64_t{c.non_cpu_visible_primary}; }},
    {"SupportSurpriseRemoval", kInterfaceWddm20, 1,
     [](auto& c) { c.SupportSurpriseRemoval = TRUE; },
     [](auto& c, auto&) { return uint64_t{c.support_surprise_removal}; }},
    {"No64BitAtomics", kInterfaceWddm20, 1, [](auto& c) { c.SchedulingCaps.No64BitAtomics = 1; },
     [](auto& c, auto&) { return uint64_t{c.no_64bit_atomics}; }},
    {"LowIrqlPreemptCommand", kInterfaceWddm20, 1,
     [](auto& c) { c.SchedulingCaps.LowIrqlPreemptCommand = 1; },
     [](auto&, auto& core) { return uint64_t{core.low_irql_preempt}; }},
    {"HwQueuePacketCap", kInterfaceWddm23, 11,
     [](auto& c) { c.SchedulingCaps.HwQueuePacketCap = 11; },
     [](auto& c, auto&) { return uint64_t{c.hw_queue_packet_cap}; }},
    {"DisableSelfRefreshVRAMInS3", kInterfaceWddm24, 1,
     [](auto& c) { c.MemoryManagementCaps.DisableSelfRefreshVRAMInS3 = 1; },
     [](auto& c, auto&) { return uint64_t{c.disable_self_refresh_vram_in_s3}; }},
    {"ComputeOnly", kInterfaceWddm26, 1, [](auto& c) { c.MiscCaps.ComputeOnly = 1; },
     [](auto&, auto& core) { return uint64_t{core.compute_only}; }},
    {"MapAperture2Supported", kInterfaceWddm29, 3,
     [](auto& c) { c.MemoryManagementCaps.MapAperture2Supported = 1; },
     [](auto& c, auto& core) {
       return uint64_t{c.map_aperture2_supported} | uint64_t{core.map_aperture2} << 1;
     }},
    {"NativeGpuFence", kInterfaceWddm31, 1, [](auto& c) { c.SchedulingCaps.NativeGpuFence = 1; },
     [](auto& c, auto&) { return uint64_t{c.native_gpu_fence}; }},
};

// Each member alone arrives where it belongs from its version on, and nowhere else.
TEST(DriverCapsMembers, EachIsReadFromItsVersionOn) {
  DXGKIT_COVERS("CAPS-01");
  for (const uint32_t since : {kInterfaceWin8, kInterfaceWddm20, kInterfaceWddm23, kInterfaceWddm24,
                               kInterfaceWddm26, kInterfaceWddm29, kInterfaceWddm31}) {
    for (const uint32_t version : {since - 1, since}) {
      for (const Member& member : kMembers) {
        SCOPED_TRACE(std::string(member.name) + " " + std::to_string(version));
        with_core(
            [&](CoreWorld& world) {
              std::memset(&g_caps, 0, sizeof(g_caps));
              g_answer = 0;
              member.set(g_caps);
              CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &answer_caps);
              CapsPort caps(world.core());
              const Result<DriverCaps> read = caps.query_driver_caps();
              ASSERT_TRUE(read.has_value());
              for (const Member& other : kMembers) {
                const bool here = &other == &member && version >= member.since;
                EXPECT_EQ(other.read(*read, world.core()), here ? member.value : 0) << other.name;
              }
              EXPECT_EQ(world.core().node_count, member.set == kMembers[5].set ? 0U : 1U);
              EXPECT_EQ(world.rules(), "");
            },
            version);
      }
    }
  }
}

// A driver that is aware of engines has as many nodes as it says; another has one. The message of
// its interrupt is what it says.
TEST(DriverCapsMembers, NodesCountForDriversThatKnowThem) {
  DXGKIT_COVERS("SCHED-02", "INT-02");
  for (const bool aware : {false, true}) {
    with_core([&](CoreWorld& world) {
      std::memset(&g_caps, 0, sizeof(g_caps));
      g_answer = 0;
      g_caps.GpuEngineTopology.NbAsymetricProcessingNodes = 5;
      g_caps.SchedulingCaps.MultiEngineAware = aware ? 1 : 0;
      g_caps.InterruptMessageNumber = 4;
      g_caps.WDDMVersion = DXGKDDI_WDDMv2;
      CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &answer_caps);
      const Result<DriverCaps> read = CapsPort(world.core()).query_driver_caps();
      ASSERT_TRUE(read.has_value());
      EXPECT_EQ(read->node_count, 5U);
      EXPECT_EQ(world.core().node_count, aware ? 5U : 1U);
      EXPECT_EQ(read->wddm_version, static_cast<uint32_t>(DXGKDDI_WDDMv2));
      EXPECT_EQ(world.core().wddm_model, static_cast<uint32_t>(DXGKDDI_WDDMv2));
      Interrupts& interrupts = world.core().interrupts;
      interrupts.connect();
      nt::CallFrame frame(world.kernel, "caller", nt::kPassiveLevel);
      constexpr auto routine = +[](void*) NTAPI -> BOOLEAN { return TRUE; };
      EXPECT_EQ(interrupts.synchronize(routine, nullptr, 4, nullptr), Status::kSuccess);
      EXPECT_EQ(world.rules(), "");
      interrupts.disconnect();
    });
  }
}

// What refuses the size is told what the size is; another refusal speaks for itself.
TEST(DriverCapsMembers, ADriverThatRefusesTheSizeIsTold) {
  DXGKIT_COVERS("CAPS-01");
  for (const Status status : {Status::kBufferTooSmall, Status::kNoMemory}) {
    with_core([&](CoreWorld& world) {
      g_answer = to_ntstatus(status);
      CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &answer_caps);
      EXPECT_EQ(CapsPort(world.core()).query_driver_caps().error(), status);
      EXPECT_EQ(world.rules(), status == Status::kBufferTooSmall ? "CAPS-01 " : "");
    });
  }
}

}  // namespace
}  // namespace dxgkit::port
