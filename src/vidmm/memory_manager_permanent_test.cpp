// Allocations whose copy in system memory the CPU goes on with, while a memory segment has another.
#include "vidmm/memory_manager_fixture_test.h"

namespace dxgkit::vidmm {
namespace {

class MemoryManagerPermanent : public MemoryManagerTest {
 protected:
  AllocationId add_permanent(uint64_t pages, SegmentSet set = bits({1})) {
    AllocationDesc described = desc(pages, set);
    described.cpu_visible = true;
    described.permanent_system_memory = true;
    const AllocationId id = add(described);
    memory_->mark_cpu_written(id);
    return id;
  }
};

TEST_F(MemoryManagerPermanent, WhatTheCpuWroteGoesUpToWhereTheCopyIs) {
  DXGKIT_COVERS("ALLOC-48");
  run(use(add(3)).operations);  // so that it is not at the start
  const AllocationId a = add_permanent(5);
  EXPECT_FALSE(memory_->write_up(a, {0, 5 * kPageBytes}).has_value()) << "in system memory";
  run(use(a).operations);
  const Placement place = memory_->placement(a);
  ASSERT_NE(place.offset_bytes, 0U);
  memory_->lock(a);
  const auto op = memory_->write_up(a, {2 * kPageBytes, kPageBytes});
  ASSERT_TRUE(op.has_value());
  EXPECT_EQ(op->kind, Kind::kWriteUp);
  EXPECT_EQ(op->allocation, a);
  EXPECT_EQ(op->place, place);
  EXPECT_EQ(op->content_offset_bytes, 2 * kPageBytes);
  EXPECT_EQ(op->size_bytes, kPageBytes);
  EXPECT_EQ(memory_->pending_operations(a), 1U);
  EXPECT_TRUE(memory_->unlock(a));
  EXPECT_TRUE(memory_->validate());
  run({*op});
  EXPECT_EQ(memory_->pending_operations(a), 0U);
  EXPECT_THAT(kinds(*memory_->evict(a)), ElementsAre(Kind::kDiscard)) << "both are the same";
}

TEST_F(MemoryManagerPermanent, OneInAnApertureIsNotCopied) {
  DXGKIT_COVERS("ALLOC-48");
  const AllocationId a = add_permanent(5, bits({3}));
  run(use(a).operations);
  memory_->lock(a);
  EXPECT_FALSE(memory_->write_up(a, {0, kPageBytes}).has_value());
  EXPECT_EQ(memory_->pending_operations(a), 0U);
}

TEST_F(MemoryManagerPermanent, ALockDoesNotMakeTheOtherCopyDirty) {
  DXGKIT_COVERS("ALLOC-48");
  const AllocationId kept = add_permanent(2);
  const AllocationId plain = add(2);
  memory_->mark_cpu_written(plain);
  for (const AllocationId id : {kept, plain}) {
    run(use(id).operations);
    memory_->lock(id);
    memory_->mark_cpu_written(id);
    EXPECT_TRUE(memory_->unlock(id));
    EXPECT_THAT(kinds(*memory_->evict(id)),
                ElementsAre(id == kept ? Kind::kDiscard : Kind::kTransferOut));
  }
}

TEST_F(MemoryManagerPermanent, WhatTheGpuWroteComesBackInPlace) {
  DXGKIT_COVERS("ALLOC-48");
  run(use(add(3)).operations);
  const AllocationId a = add_permanent(4);
  run(use(a).operations);
  EXPECT_FALSE(memory_->write_back(a).has_value()) << "clean";
  run(resident(a, true).operations);
  const Placement place = memory_->placement(a);
  const auto op = memory_->write_back(a);
  ASSERT_TRUE(op.has_value());
  EXPECT_EQ(op->kind, Kind::kWriteBack);
  EXPECT_EQ(op->allocation, a);
  EXPECT_EQ(op->place, place);
  EXPECT_EQ(op->size_bytes, 4 * kPageBytes);
  EXPECT_EQ(op->backing, Placement{});
  EXPECT_EQ(memory_->pending_operations(a), 1U);
  EXPECT_EQ(memory_->placement(a), place) << "it stays";
  EXPECT_FALSE(memory_->write_back(a).has_value()) << "once";
  run({*op});
  EXPECT_EQ(memory_->pending_operations(a), 0U);
  release(a, true);  // the packet that writes ends now
  EXPECT_TRUE(memory_->write_back(a).has_value()) << "again";
}

// Lost with the power, before its copy was made: the content is. What went up is not.
TEST_F(MemoryManagerPermanent, ACopyHalfMadeIsNone) {
  DXGKIT_COVERS("ALLOC-48", "RES-21");
  const AllocationId back = add_permanent(2);
  const AllocationId up = add_permanent(2);
  for (const AllocationId id : {back, up}) run(use(id, id == back).operations);
  ASSERT_TRUE(memory_->write_back(back).has_value());
  ASSERT_TRUE(memory_->write_up(up, {0, kPageBytes}).has_value());
  EXPECT_THAT(memory_->lose_power([](SegmentId) { return uint64_t{0}; }), ElementsAre(back));
  EXPECT_TRUE(memory_->validate());
  EXPECT_EQ(memory_->pending_operations(back), 0U);
  EXPECT_THAT(kinds(use(back).operations), ElementsAre(Kind::kFill));
  EXPECT_THAT(kinds(use(up).operations), ElementsAre(Kind::kTransferIn));
}

TEST_F(MemoryManagerPermanent, ACopyMadeSurvives) {
  DXGKIT_COVERS("ALLOC-48");
  const AllocationId a = add_permanent(2);
  run(use(a, true).operations);
  run({*memory_->write_back(a)});
  EXPECT_TRUE(memory_->lose_memory_segments().allocations == std::vector<AllocationId>{a});
  EXPECT_THAT(kinds(use(a).operations), ElementsAre(Kind::kTransferIn));
}

}  // namespace
}  // namespace dxgkit::vidmm
