// Notices and questions to drivers as allocations come and go.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerNotices : public MemoryManagerTest {};

TEST_F(MemoryManagerNotices, ApertureMappingsShowThePlainSizeOfAPitchedAllocation) {
  DXGKIT_COVERS("SEG-39");
  std::vector<SegmentDesc> segments = usual_segments();
  segments[0].pitch_alignment = segments[2].pitch_alignment = true;
  start(segments);
  for (const SegmentId where : {kVram, kAperture}) {
    AllocationDesc pitched = desc(3, segment_bit(where));
    pitched.pitch_aligned_size_bytes = 5 * kPageBytes;
    const AllocationId id = add(pitched);
    const ResidencyPlan plan = use(id, true);
    EXPECT_EQ(memory_->usage(where).committed_bytes, 5 * kPageBytes);
    EXPECT_EQ(plan.operations[0].size_bytes, (where == kVram ? 5 : 3) * kPageBytes);
    const auto out = memory_->evict(id);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ((*out)[0].size_bytes, 3 * kPageBytes) << "the backing store has the plain size";
  }
}

TEST_F(MemoryManagerNotices, ResidencyNoticesFollowArrivalAndPrecedeDeparture) {
  DXGKIT_COVERS("PAGE-41");
  AllocationDesc told = desc(2, bits({1, 3}));
  told.preferred[0].segment = kVram;
  told.notify_residency = true;
  const AllocationId id = add(told);
  const ResidencyPlan plan = use(id, true);
  EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kFill, Kind::kNotifyResident));
  EXPECT_EQ(plan.operations[1].place, memory_->placement(id));
  EXPECT_THAT(use(id, true).operations, IsEmpty()) << "once per commit";
  const auto out = memory_->evict(id);
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(kinds(*out), ElementsAre(Kind::kNotifyNotResident, Kind::kTransferOut));
  use(id);
  run(plan.operations);
  run(*out);
  EXPECT_THAT(kinds(memory_->lose_memory_segments().operations),
              ElementsAre(Kind::kNotifyNotResident, Kind::kContentLost));
}

TEST_F(MemoryManagerNotices, AnEvictionNoticePrecedesTheUnmapping) {
  DXGKIT_COVERS("PAGE-48");
  AllocationDesc told = desc(2, bits({1, 3}));
  told.preferred[0].segment = kAperture;
  told.notify_eviction = true;
  const AllocationId id = add(told);
  EXPECT_THAT(kinds(use(id, true).operations), ElementsAre(Kind::kMapAperture));
  const auto out = memory_->evict(id);
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(kinds(*out), ElementsAre(Kind::kNotifyEviction, Kind::kUnmapAperture));
}

TEST_F(MemoryManagerNotices, TheDriverWritesTheFirstContentOfAContextResourceOnce) {
  DXGKIT_COVERS("PAGE-42");
  for (const uint32_t segment : {1U, 3U}) {
    AllocationDesc context = desc(2, bits({segment}));
    context.context_resource = true;
    const AllocationId id = add(context);
    const ResidencyPlan plan = use(id, true);
    if (segment == 1) {
      EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kInitContext));
    } else {
      EXPECT_THAT(kinds(plan.operations), ElementsAre(Kind::kMapAperture, Kind::kInitContext));
    }
    const auto out = memory_->evict(id);
    ASSERT_TRUE(out.has_value());
    EXPECT_THAT(kinds(*out), ElementsAre(segment == 1 ? Kind::kTransferOut : Kind::kUnmapAperture));
    EXPECT_THAT(kinds(use(id, true).operations),
                ElementsAre(segment == 1 ? Kind::kTransferIn : Kind::kMapAperture))
        << "its content is kept";
  }
}

// With the last report of a dead allocation nothing is left to change.
TEST_F(MemoryManagerNotices, ReportsForTheDestroyedAreForTheTraceOnly) {
  const AllocationId a = add(2);
  run(use(a, true).operations);
  const auto ops = memory_->destroy(a);
  ASSERT_TRUE(ops.has_value());
  run(*ops);
  EXPECT_FALSE(memory_->contains(a));
  EXPECT_TRUE(memory_->validate());
}

TEST_F(MemoryManagerNotices, EveryNoticeIsAwaited) {
  DXGKIT_COVERS("PAGE-41", "PAGE-48");
  AllocationDesc told = desc(2, bits({3}));
  told.notify_residency = told.notify_eviction = true;
  const AllocationId id = add(told);
  const ResidencyPlan in = use(id);
  EXPECT_EQ(memory_->pending_operations(id), 2U);
  run(in.operations);
  const auto out = memory_->evict(id);
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(kinds(*out),
              ElementsAre(Kind::kNotifyNotResident, Kind::kNotifyEviction, Kind::kUnmapAperture));
  EXPECT_EQ(memory_->pending_operations(id), 3U);
  run(*out);
  EXPECT_EQ(memory_->pending_operations(id), 0U);
}

}  // namespace
}  // namespace dxgkit::vidmm
