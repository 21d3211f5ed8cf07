// Which page tables may lie where, segment by segment.
#include "dxgk/va/gpu_va_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "dxgk/core/segment_flags.h"
#include "tests/support/covers.h"

namespace dxgkit::dxgk {
namespace {

/// Two levels of one page each, in this segment, of an adapter with 32 segments of these flags.
std::optional<GpuVaRefusal> refusal(uint32_t segment, uint32_t flags,
                                    port::PageTableUpdateMode mode) {
  port::GpuMmuCaps caps;
  caps.update_mode = mode;
  caps.va_bits = 30;
  caps.level_count = 2;
  for (int level = 0; level < 2; ++level) {
    caps.levels.push_back({.index_bits = 9,
                           .segment = segment,
                           .paging_process_segment = 0,
                           .table_bytes = 4096,
                           .table_alignment_bytes = 4096});
  }
  port::SegmentsInfo segments;
  segments.segments.resize(32);
  for (port::SegmentInfo& one : segments.segments) one.flags = kSegmentPopulatedFromSystemMemory;
  if (segment != 0) segments.segments[segment - 1].flags = flags;
  gpuva::Geometry geometry;
  return check_gpu_mmu(caps, segments, &geometry);
}

// Tables that the processor writes are not in the device's own memory, whichever segment that is.
TEST(GpuVaRules, TablesOfTheProcessorLieWhereItSeesThem) {
  DXGKIT_COVERS("VA-03");
  for (const uint32_t segment : {1U, 2U, 31U, 32U}) {
    SCOPED_TRACE(segment);
    const auto said = refusal(segment, 0, port::PageTableUpdateMode::kCpuVirtual);
    ASSERT_TRUE(said.has_value());
    EXPECT_EQ(std::string(said->rule), "VA-03");
    EXPECT_FALSE(
        refusal(segment, kSegmentPopulatedFromSystemMemory, port::PageTableUpdateMode::kCpuVirtual)
            .has_value());
    EXPECT_FALSE(refusal(segment, kSegmentReservedSysMem, port::PageTableUpdateMode::kCpuVirtual)
                     .has_value());
    EXPECT_FALSE(refusal(segment, 0, port::PageTableUpdateMode::kGpuPhysical).has_value());
  }
  EXPECT_FALSE(refusal(0, 0, port::PageTableUpdateMode::kCpuVirtual).has_value());
}

}  // namespace
}  // namespace dxgkit::dxgk
