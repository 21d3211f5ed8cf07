// What a driver writes outside a buffer that a DDI gives it damages nothing and is told (NT-33):
// the entry, the parameter, the place and the byte.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "port/adapter_port.h"
#include "port/core/core_world_test.h"
#include "port/core/guarded_output.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

/// Where the fake driver writes one byte, from the start of the buffer it was given.
ptrdiff_t g_at = 0;
void spoil(void* buffer) { static_cast<std::byte*>(buffer)[g_at] = std::byte{0x5A}; }
/// What a driver does right at a creation, and at an opening.
void create_each(DXGKARG_CREATEALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i) args->pAllocationInfo[i].hAllocation = args;
}
void open_each(const DXGKARG_OPENALLOCATION* args) {
  for (UINT i = 0; i < args->NumAllocations; ++i)
    args->pOpenAllocation[i].hDeviceSpecificAllocation = args->pOpenAllocation;
}

NTSTATUS NTAPI spoil_query(void*, const DXGKARG_QUERYADAPTERINFO* args) {
  if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) {
    auto* const out = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
    out->NbSegment = 2;
    if (out->pSegmentDescriptor != nullptr) spoil(out->pSegmentDescriptor);
    return 0;
  }
  spoil(args->pOutputData);
  return 0;
}

struct Row {
  const char* name;
  std::function<void(DRIVER_INITIALIZATION_DATA&)> fill;
  std::function<void(PortCore&)> call;
  const char* ddi;
  const char* what;
  size_t bytes;
  uint32_t version = kInterfaceWddm32;
};

/// What is written at that place.
std::string text_of(const Row& row, ptrdiff_t at) {
  const std::string of = std::string(row.what) + ", whose size is " + std::to_string(row.bytes);
  if (at < 0)
    return "It wrote before the start of " + of + ": " + std::to_string(-at) +
           " bytes before it is 0x5a.";
  return "It wrote bytes " + std::to_string(at) + " to " + std::to_string(at) + " of " + of +
         ": up to " + std::to_string(at - static_cast<ptrdiff_t>(row.bytes) + 1) +
         " bytes behind its end. The first of them is 0x5a.";
}

std::array<std::byte, 24> g_data;

std::vector<Row> rows() {
  using Table = DRIVER_INITIALIZATION_DATA;
  const auto query = [](Table& table) {
    CoreWorld::set(table.DxgkDdiQueryAdapterInfo, &spoil_query);
  };
  const auto with_data = [](AllocationInfo info) {
    info.private_data = g_data;
    return info;
  };
  const auto create = [with_data](PortCore& core) {
    std::array infos = {AllocationInfo{}, with_data({})};
    static_cast<void>(AllocationsPort(core).create_allocations(infos, g_data, false, nullptr));
  };
  const auto open = [](PortCore& core) {
    std::array<OpenInfo, 2> infos;
    infos[1].private_data = g_data;
    static_cast<void>(AllocationsPort(core).open_allocations(&core, infos, g_data, true, 0, false));
  };
  const auto open_again = [](PortCore& core) {
    std::array<OpenInfo, 2> infos;
    infos[1].private_data = g_data;
    static_cast<void>(
        AllocationsPort(core).open_allocations(&core, infos, g_data, /*create=*/false, 0, false));
  };
  return {
      {"UserQuery", query,
       [](PortCore& core) { static_cast<void>(CapsPort(core).query_umd_private({}, g_data)); },
       "DxgkDdiQueryAdapterInfo", "pOutputData for query type 0", sizeof(g_data)},
      {"Caps", query,
       [](PortCore& core) {
         EXPECT_EQ(CapsPort(core).query_driver_caps().error(), Status::kDeviceConfigurationError);
       },
       "DxgkDdiQueryAdapterInfo", "pOutputData for query type 1", 552, 0x4002},
      {"Segments", query,
       [](PortCore& core) { static_cast<void>(CapsPort(core).query_segments()); },
       "DxgkDdiQueryAdapterInfo", "pSegmentDescriptor for query type 5 (2 elements)",
       2 * sizeof(DXGK_SEGMENTDESCRIPTOR3), 0x4002},
      {"NodeMetadata",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiGetNodeMetadata,
             +[](void*, UINT, DXGKARG_GETNODEMETADATA* out) NTAPI -> NTSTATUS {
               spoil(out);
               return 0;
             });
       },
       [](PortCore& core) {
         static_cast<void>(CapsPort(core).get_node_metadata(NodeOrdinal{0}, nullptr));
       },
       "DxgkDdiGetNodeMetadata", "pGetNodeMetadata", sizeof(DXGKARG_GETNODEMETADATA)},
      {"Escape",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiEscape, +[](void*, const DXGKARG_ESCAPE* args) NTAPI -> NTSTATUS {
               spoil(args->pPrivateDriverData);
               return 0;
             });
       },
       [](PortCore& core) {
         static_cast<void>(ObjectsPort(core).escape(nullptr, nullptr, 0, g_data));
       },
       "DxgkDdiEscape", "pPrivateDriverData", sizeof(g_data)},
      {"RecommendFunctionalVidPn",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiRecommendFunctionalVidPn,
             +[](void*, const DXGKARG_RECOMMENDFUNCTIONALVIDPN* args) NTAPI -> NTSTATUS {
               spoil(args->pPrivateDriverData);
               return 0;
             });
       },
       [](PortCore& core) {
         core.levels.enter_level_two();
         static_cast<void>(VidPnPort(core).recommend_functional_vidpn(nullptr, {}, g_data));
         core.levels.leave_level_two();
       },
       "DxgkDdiRecommendFunctionalVidPn", "pPrivateDriverData", sizeof(g_data)},
      {"CreateContext",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiCreateContext, +[](void*, DXGKARG_CREATECONTEXT* args) NTAPI -> NTSTATUS {
               spoil(args->pPrivateDriverData);
               return 0;
             });
       },
       [](PortCore& core) {
         static_cast<void>(
             ObjectsPort(core).create_context(&core, 1, NodeOrdinal{0}, 1, false, g_data, false));
       },
       "DxgkDdiCreateContext", "pPrivateDriverData", sizeof(g_data)},
      {"CreateAllocationElements",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiCreateAllocation,
             +[](void*, DXGKARG_CREATEALLOCATION* args) NTAPI -> NTSTATUS {
               create_each(args);
               spoil(args->pAllocationInfo);
               return 0;
             });
       },
       create, "DxgkDdiCreateAllocation", "pAllocationInfo", 2 * sizeof(DXGK_ALLOCATIONINFO)},
      {"CreateAllocationData",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiCreateAllocation,
             +[](void*, DXGKARG_CREATEALLOCATION* args) NTAPI -> NTSTATUS {
               create_each(args);
               EXPECT_EQ(args->pAllocationInfo[0].pPrivateDriverData, nullptr);
               spoil(args->pAllocationInfo[1].pPrivateDriverData);
               return 0;
             });
       },
       create, "DxgkDdiCreateAllocation", "pPrivateDriverData of element 1", sizeof(g_data)},
      {"CreateAllocationResource",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiCreateAllocation,
             +[](void*, DXGKARG_CREATEALLOCATION* args) NTAPI -> NTSTATUS {
               create_each(args);
               spoil(const_cast<void*>(args->pPrivateDriverData));
               return 0;
             });
       },
       create, "DxgkDdiCreateAllocation", "pPrivateDriverData of the resource", sizeof(g_data)},
      {"OpenAllocationElements",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiOpenAllocation,
             +[](void*, const DXGKARG_OPENALLOCATION* args) NTAPI -> NTSTATUS {
               open_each(args);
               spoil(args->pOpenAllocation);
               return 0;
             });
       },
       open, "DxgkDdiOpenAllocation", "pOpenAllocation", 2 * sizeof(DXGK_OPENALLOCATIONINFO)},
      {"OpenAllocationData",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiOpenAllocation,
             +[](void*, const DXGKARG_OPENALLOCATION* args) NTAPI -> NTSTATUS {
               open_each(args);
               spoil(args->pOpenAllocation[1].pPrivateDriverData);
               return 0;
             });
       },
       open, "DxgkDdiOpenAllocation", "pPrivateDriverData of element 1", sizeof(g_data)},
      {"OpenAllocationDataAgain",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiOpenAllocation,
             +[](void*, const DXGKARG_OPENALLOCATION* args) NTAPI -> NTSTATUS {
               open_each(args);
               spoil(args->pOpenAllocation[1].pPrivateDriverData);
               return 0;
             });
       },
       open_again, "DxgkDdiOpenAllocation", "pPrivateDriverData of element 1", sizeof(g_data)},
      {"OpenAllocationResource",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiOpenAllocation,
             +[](void*, const DXGKARG_OPENALLOCATION* args) NTAPI -> NTSTATUS {
               open_each(args);
               spoil(args->pPrivateDriverData);
               return 0;
             });
       },
       open, "DxgkDdiOpenAllocation", "pPrivateDriverData of the resource", sizeof(g_data)},
      {"ChildRelations",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiQueryChildRelations,
             +[](void*, DXGK_CHILD_DESCRIPTOR* out, ULONG) NTAPI -> NTSTATUS {
               spoil(out);
               return 0;
             });
       },
       [](PortCore& core) { static_cast<void>(ChildPort(core).query_child_relations(2, nullptr)); },
       "DxgkDdiQueryChildRelations", "ChildRelations", 3 * sizeof(DXGK_CHILD_DESCRIPTOR)},
      {"Descriptor",
       [](Table& table) {
         CoreWorld::set(
             table.DxgkDdiQueryDeviceDescriptor,
             +[](void*, ULONG, DXGK_DEVICE_DESCRIPTOR* args) NTAPI -> NTSTATUS {
               spoil(args->DescriptorBuffer);
               return 0;
             });
       },
       [](PortCore& core) { static_cast<void>(ChildPort(core).query_device_descriptor(0)); },
       "DxgkDdiQueryDeviceDescriptor", "DescriptorBuffer at offset 0", 128},
  };
}

TEST(OutputGuards, TellWhatADriverWritesOutside) {
  DXGKIT_COVERS("NT-33", "LIFE-24");
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const auto size = static_cast<ptrdiff_t>(row.bytes);
    constexpr auto kLast = static_cast<ptrdiff_t>(GuardedOutput::kGuard) - 1;
    for (const ptrdiff_t at : {size, size + kLast, ptrdiff_t{-1}, ptrdiff_t{-64}}) {
      SCOPED_TRACE(at);
      with_core(
          [&](CoreWorld& world) {
            g_data.fill(std::byte{0x11});
            g_at = at;
            row.fill(world.table.table);
            row.call(world.core());
            ASSERT_EQ(world.rules(), "NT-33 ");
            const verifier::Finding finding = world.findings.all().at(0);
            EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
            EXPECT_EQ(finding.ddi, row.ddi);
            EXPECT_EQ(finding.actual, text_of(row, at));
            for (const std::byte byte : g_data) EXPECT_EQ(byte, std::byte{0x11});
          },
          row.version);
    }
  }
}

TEST(OutputGuards, LetThroughWhatIsWrittenInside) {
  DXGKIT_COVERS("NT-33");
  for (const ptrdiff_t at : {ptrdiff_t{0}, ptrdiff_t{23}}) {
    with_core([&](CoreWorld& world) {
      g_data.fill(std::byte{0x11});
      g_at = at;
      CoreWorld::set(world.table.table.DxgkDdiQueryAdapterInfo, &spoil_query);
      EXPECT_EQ(CapsPort(world.core()).query_umd_private({}, g_data), Status::kSuccess);
      EXPECT_EQ(g_data[static_cast<size_t>(at)], std::byte{0x5A});
      EXPECT_EQ(world.rules(), "");
    });
  }
}

TEST(OutputGuards, TakeAFloodOfBytesAsTheyTakeOne) {
  DXGKIT_COVERS("NT-33");
  with_core([](CoreWorld& world) {
    std::array<std::byte, 40> first{}, second{};
    GuardedOutput one{std::span<const std::byte>(first)};
    GuardedOutput other{std::span<const std::byte>(second)};
    // As a driver that clears a page where 40 bytes were given.
    std::memset(other.data(), 0x5A, 16 * 1024);
    EXPECT_TRUE(one.finish(world.core(), "DxgkDdiOne", "pFirst"));
    EXPECT_FALSE(other.finish(world.core(), "DxgkDdiOther", "pSecond"));
    EXPECT_EQ(world.rules(), "NT-33 ");
    EXPECT_EQ(first, (std::array<std::byte, 40>{}));
    EXPECT_EQ(second.back(), std::byte{0x5A});
  });
}

TEST(OutputGuards, KeepManyBuffersApartAndGiveTheirMemoryBack) {
  with_core([](CoreWorld& world) {
    const std::array<std::byte, 24> bytes{};
    for (int round = 0; round < 3; ++round) {
      std::vector<GuardedOutput> many;
      for (size_t i = 0; i < 200; ++i) many.emplace_back(std::span<const std::byte>(bytes));
      for (size_t i = 0; i < many.size(); ++i)
        std::memset(many[i].data(), static_cast<int>(i), bytes.size());
      for (size_t i = 0; i < many.size(); ++i) {
        EXPECT_EQ(many[i].data()[0], std::byte(i));
        EXPECT_TRUE(many[i].check(world.core(), "DxgkDdiMany", "pData", i));
      }
      GuardedOutput last = std::move(many.back());
      many.clear();
      EXPECT_EQ(last.data()[bytes.size() - 1], std::byte{199});
    }
    EXPECT_EQ(world.rules(), "");
  });
}

/// Succeeds and writes nothing; the three entries stand for a group.
template <typename Arguments>
NTSTATUS NTAPI write_nothing(void*, Arguments*) {
  return 0;
}

TEST(OutputGuards, TellWhichAnswersOfARecoveryWereLeftOut) {
  DXGKIT_COVERS("LIFE-29");
  for (const std::byte fill : {std::byte{0}, std::byte{0x5A}}) {
    with_core([&](CoreWorld& world) {
      DRIVER_INITIALIZATION_DATA& table = world.table.table;
      CoreWorld::set(table.DxgkDdiQueryCurrentFence, &write_nothing<DXGKARG_QUERYCURRENTFENCE>);
      CoreWorld::set(table.DxgkDdiQueryDependentEngineGroup,
                     &write_nothing<DXGKARG_QUERYDEPENDENTENGINEGROUP>);
      CoreWorld::set(table.DxgkDdiQueryEngineStatus, &write_nothing<DXGKARG_QUERYENGINESTATUS>);
      CoreWorld::set(table.DxgkDdiResetEngine, &write_nothing<DXGKARG_RESETENGINE>);
      PortCore& core = world.core();
      core.output_fill = fill;
      const bool filled = fill != std::byte{0};
      // What was left out is 0 to the kernel, whatever was there.
      EXPECT_EQ(SubmissionPort(core).query_current_fence(NodeOrdinal{0}).value_or(1), 0U);
      EXPECT_EQ(world.rules(), filled ? "LIFE-29 " : "");
      TimeoutPort timeouts(core);
      EXPECT_EQ(timeouts.reset_engine(NodeOrdinal{0}).value_or(1), 0U);
      EXPECT_EQ(world.rules(), filled ? "LIFE-29 LIFE-29 " : "");
      EXPECT_EQ(timeouts.query_engine_status(NodeOrdinal{0}).value_or(true), false);
      EXPECT_FALSE(timeouts.query_dependent_engines(NodeOrdinal{0}, 1).has_value());
      EXPECT_EQ(world.rules(), filled ? "LIFE-29 LIFE-29 LIFE-29 TDR-12 " : "TDR-12 ");
      if (!filled) return;
      const std::vector<verifier::Finding> all = world.findings.all();
      const char* const kNames[] = {
          "DXGKARG_QUERYCURRENTFENCE as they were before the call: CurrentFence",
          "LastAbortedFenceId", "DependentNodeOrdinalMask"};
      for (size_t i = 0; i < std::size(kNames); ++i)
        EXPECT_NE(all[i].actual.find(kNames[i]), std::string::npos) << all[i].actual;
    });
  }
}

}  // namespace
}  // namespace dxgkit::port
