// LIFE-29: a driver that succeeds and leaves its answer as the buffer was.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "port/core/core_world_test.h"
#include "port/ddi/allocations.h"
#include "port/ddi/scanout.h"
#include "port/ddi/submission.h"
#include "port/ddi/vidpn.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

struct Row {
  const char* ddi;
  const char* members;
  std::function<void(DRIVER_INITIALIZATION_DATA&)> fill;
  std::function<void(PortCore&)> call;
};

/// Succeeds, and touches nothing.
NTSTATUS NTAPI touch_nothing(void*, void*) { return 0; }
template <typename Entry>
void leave(Entry& entry) {
  CoreWorld::set(entry, touch_nothing);
}

std::vector<Row> rows() {
  using Table = DRIVER_INITIALIZATION_DATA;
  return {
      {"DxgkDdiQueryCurrentFence", "CurrentFence",
       [](Table& table) { leave(table.DxgkDdiQueryCurrentFence); },
       [](PortCore& core) {
         static_cast<void>(SubmissionPort(core).query_current_fence(NodeOrdinal{0}));
       }},
      {"DxgkDdiQueryVidPnHWCapability", "VidPnHWCaps",
       [](Table& table) { leave(table.DxgkDdiQueryVidPnHWCapability); },
       [](PortCore& core) {
         static_cast<void>(VidPnPort(core).query_vidpn_hw_capability(&core, 0, 0));
       }},
      {"DxgkDdiGetScanLine", "InVerticalBlank, ScanLine",
       [](Table& table) { leave(table.DxgkDdiGetScanLine); },
       [](PortCore& core) {
         bool blank = false;
         uint32_t line = 0;
         static_cast<void>(ScanoutPort(core).get_scan_line(0, &blank, &line));
         EXPECT_FALSE(blank);
         EXPECT_EQ(line, 0U);
       }},
      {"DxgkDdiDescribeAllocation",
       "Width, Height, Format, MultisampleMethod, RefreshRate, PrivateDriverFormatAttribute",
       [](Table& table) { leave(table.DxgkDdiDescribeAllocation); },
       [](PortCore& core) { static_cast<void>(AllocationsPort(core).describe_allocation(&core)); }},
      {"DxgkDdiGetStandardAllocationDriverData",
       "AllocationPrivateDriverDataSize, ResourcePrivateDriverDataSize",
       [](Table& table) { leave(table.DxgkDdiGetStandardAllocationDriverData); },
       [](PortCore& core) {
         static_cast<void>(AllocationsPort(core).describe_shared_primary({}));
       }},
  };
}

TEST(Unwritten, AnswersThatADriverLeavesAsTheyWere) {
  DXGKIT_COVERS("LIFE-29");
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.ddi);
    for (const std::byte fill : {std::byte{0xA5}, std::byte{0}}) {
      with_core([&](CoreWorld& world) {
        row.fill(world.table.table);
        world.core().output_fill = fill;
        row.call(world.core());
        if (fill == std::byte{0}) {
          EXPECT_EQ(world.rules(), "") << "0 is what a driver may have written";
          return;
        }
        ASSERT_EQ(world.rules(), "LIFE-29 ");
        const verifier::Finding finding = world.findings.all().at(0);
        EXPECT_EQ(finding.ddi, row.ddi);
        EXPECT_TRUE(finding.actual.ends_with(std::string(": ") + row.members + "."))
            << finding.actual;
      });
    }
  }
}

// A number may begin with the bytes that were there: it was written all the same.
TEST(Unwritten, AMemberIsWrittenIfAnyOfItsBytesIs) {
  DXGKIT_COVERS("LIFE-29");
  with_core([](CoreWorld& world) {
    CoreWorld::set(
        world.table.table.DxgkDdiQueryCurrentFence,
        +[](void*, DXGKARG_QUERYCURRENTFENCE* args) NTAPI -> NTSTATUS {
          args->CurrentFence = 0x010203A5;
          return 0;
        });
    world.core().output_fill = std::byte{0xA5};
    const auto fence = SubmissionPort(world.core()).query_current_fence(NodeOrdinal{0});
    ASSERT_TRUE(fence.has_value());
    EXPECT_EQ(*fence, 0x010203A5U);
    EXPECT_EQ(world.rules(), "");
  });
}

}  // namespace
}  // namespace dxgkit::port
