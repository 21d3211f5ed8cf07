// What caps and node metadata say that cannot be so.
#include "port/ddi/caps.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dxgkit::port
