// Content that is lost, or saved, when power or the adapter goes away.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerLoss : public MemoryManagerTest {};

TEST_F(MemoryManagerLoss, ResetLosesWhatOnlyMemorySegmentsHeld) {
  const AllocationId dirty = add(2);
  const AllocationId clean = add(2);
  const AllocationId mapped = add(2, bits({3}));
  const AllocationId leaving = add(2);
  use(dirty, true);
  memory_->mark_cpu_written(clean);
  resident(clean);
  use(mapped, true);
  use(leaving, true);
  const auto out = memory_->evict(leaving);  // planned, not executed
  const LostContent lost = memory_->lose_memory_segments();
  EXPECT_THAT(lost.allocations, ElementsAre(dirty, clean, leaving));
  EXPECT_THAT(kinds(lost.operations), ElementsAre(Kind::kContentLost, Kind::kContentLost));
  EXPECT_EQ(lost.operations[1].allocation, clean);
  EXPECT_EQ(lost.operations[1].place.segment, kVram) << "where it was";
  EXPECT_TRUE(memory_->validate());
  EXPECT_EQ(memory_->placement(clean), Placement{});
  EXPECT_EQ(memory_->placement(mapped).segment, kAperture);
  release(clean);
  EXPECT_THAT(kinds(use(dirty).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(clean).operations), ElementsAre(Kind::kTransferIn));
  EXPECT_THAT(kinds(use(leaving).operations), ElementsAre(Kind::kFill));
}

}  // namespace
}  // namespace dxgkit::vidmm
