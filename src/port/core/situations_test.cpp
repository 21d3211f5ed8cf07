// Which situation each call is. No driver is needed: the classes look at arguments and reports.
#include <gtest/gtest.h>

#include "port/core/situation_tables_test.h"

namespace dxgkit::port {
namespace {

class SituationsTest : public ::testing::Test, protected SituationWorld {
 protected:
  void complete(uint32_t node, uint32_t fence) {
    InterruptReport report;
    report.type = InterruptReport::Type::kDmaCompleted;
    report.node = node;
    report.fence = fence;
    all.work.reported(report);
  }
  void preempted(uint32_t node, uint32_t last_completed) {
    InterruptReport report;
    report.type = InterruptReport::Type::kDmaPreempted;
    report.node = node;
    report.last_completed = last_completed;
    all.work.reported(report);
  }

  int one_ = 0, two_ = 0;  // contexts
};

TEST_F(SituationsTest, ASubmissionMeetsAnIdleOrABusyNode) {
  submit(0, 1, &one_);
  EXPECT_EQ(reached(), Ids{"submit.idle-node"});
  submit(0, 2, &one_);
  EXPECT_EQ(reached(), Ids{"submit.busy-node"});
  submit(1, 1, &two_);
  EXPECT_EQ(reached(), (Ids{"submit.idle-node", "submit.other-node-busy", "submit.second-node"}));
  complete(0, 2);
  EXPECT_EQ(reached(), (Ids{"interrupt.completed", "interrupt.several-completed"}));
  complete(1, 1);
  EXPECT_EQ(reached(), (Ids{"interrupt.completed", "interrupt.other-node"}));
  submit(0, 3, &two_);
  EXPECT_EQ(reached(), (Ids{"submit.idle-node", "submit.other-context"}));
  complete(0, 3);
  complete(0, 3);  // again: it completes nothing
  EXPECT_EQ(reached(), Ids{"interrupt.completed"});
}

TEST_F(SituationsTest, PreemptionFindsWhatIsOpenAndTheAnswerSaysWhatComesBack) {
  all.work.preempt(NodeOrdinal{0}, true);
  EXPECT_EQ(reached(), Ids{"preempt.idle"});
  preempted(0, 0);
  EXPECT_EQ(reached(), Ids{});
  submit(0, 1, &one_);
  submit(0, 2, &one_);
  reached();
  all.work.preempt(NodeOrdinal{0}, false);
  EXPECT_EQ(reached(), Ids{"preempt.several"});
  preempted(0, 1);
  EXPECT_EQ(reached(), Ids{"preempt.some-given-back"});
  submit(0, 3, &one_, {.resubmission = true});
  EXPECT_EQ(reached(), (Ids{"submit.idle-node", "submit.resubmission"}));
  all.work.preempt(NodeOrdinal{0}, false);
  EXPECT_EQ(reached(), (Ids{"preempt.again", "preempt.one"}));
  preempted(0, 1);
  EXPECT_EQ(reached(), Ids{"preempt.all-given-back"});
  submit(0, 4, &one_);
  all.work.preempt(NodeOrdinal{0}, false);
  reached();
  complete(0, 4);
  reached();
  preempted(0, 4);
  EXPECT_EQ(reached(), Ids{"preempt.all-done"});
}

TEST_F(SituationsTest, ResetsAndPowerMarkTheNextSubmissionOfEachNode) {
  submit(0, 1, &one_);
  submit(0, 2, &one_);
  submit(1, 1, &one_);
  reached();
  all.work.reset_engine(NodeOrdinal{0});
  EXPECT_EQ(reached(),
            (Ids{"timeout.engine-busy", "timeout.engine-other-busy", "timeout.engine-several"}));
  submit(0, 3, &one_);
  EXPECT_EQ(reached(), (Ids{"submit.after-reset", "submit.idle-node", "submit.other-node-busy"}));
  all.work.reset_adapter();
  EXPECT_EQ(reached(), Ids{"timeout.adapter-busy"});
  all.work.reset_adapter();
  EXPECT_EQ(reached(), Ids{"timeout.adapter-idle"});
  all.work.power_is_back();
  submit(1, 2, &one_);
  EXPECT_EQ(reached(), (Ids{"submit.after-power", "submit.after-reset", "submit.idle-node",
                            "submit.second-node"}));
  all.work.removed();
  EXPECT_EQ(reached(), (Ids{"removal.busy", "removal.surprise"}));
}

TEST_F(SituationsTest, PatchesLookAtThePartAndAtEachOfItsElements) {
  std::array<SegmentInfo, 2> segments;
  segments[1].flags = 1;  // Aperture
  std::array<AllocationListEntry, 3> entries;
  entries[0].device_handle = &one_;
  entries[0].set(true, SegmentId{1}, 0x1000);
  entries[1].device_handle = &two_;
  entries[1].set(false, SegmentId{2}, 0x2000);
  std::array<PatchLocation, 4> elements;
  elements[1].allocation_index = 1;
  elements[2].allocation_index = 2;
  elements[3].allocation_offset = 16;
  PatchArgs args;
  args.context = &one_;
  args.buffer.size_bytes = 64;
  args.buffer.private_size_bytes = 8;
  args.slice = {.start = 0, .end = 64};
  args.allocations = entries.data();
  args.allocation_count = entries.size();
  args.patches = elements.data();
  args.patch_count = args.patch_length = 1;
  all.work.patched(args, segments);
  EXPECT_EQ(reached(), (Ids{"patch.memory-address", "patch.written"}));
  args.slice = {.start = 16, .end = 32, .private_start = 4};
  args.patch_count = 4;
  args.patch_start = 1;
  args.patch_length = 2;
  all.work.patched(args, segments);
  EXPECT_EQ(reached(), (Ids{"patch.aperture-address", "patch.elements-behind-end",
                            "patch.elements-behind-start", "patch.null-entry",
                            "patch.part-before-end", "patch.part-behind-start",
                            "patch.private-behind-start", "patch.several-allocations"}));
  args.slice = {.start = 0, .end = 64};
  args.patch_start = 3;
  args.patch_length = 1;
  args.context = &two_;
  all.work.patched(args, segments);
  EXPECT_EQ(reached(), (Ids{"patch.allocation-offset", "patch.elements-behind-start",
                            "patch.memory-address", "patch.other-context", "patch.written"}));
  // Only what comes again is patched again: another buffer may lie at the same place.
  all.work.patched(args, segments);
  EXPECT_FALSE(reached().contains("patch.again"));
  args.flags.resubmission = true;
  all.work.patched(args, segments);
  EXPECT_TRUE(reached().contains("patch.again"));
  entries[0].set(true, SegmentId{1}, 0x5000);
  all.work.patched(args, segments);
  const Ids moved = reached();
  EXPECT_TRUE(moved.contains("patch.again-moved"));
  EXPECT_FALSE(moved.contains("patch.again"));
}

TEST_F(SituationsTest, PagingLooksAtTheOperationTheRoomAndTheAnswer) {
  std::array<uint64_t, 3> pages{7, 8, 9};
  PagingOperation operation;
  operation.kind = PagingOperation::Kind::kTransfer;
  operation.allocation = &one_;
  operation.source.pages = pages;
  operation.destination.segment = SegmentId{1};
  operation.size_bytes = 3 * 4096;
  std::array<std::byte, 8> buffer;
  BuildPagingArgs args;
  args.buffer = buffer.data();
  args.operation = &operation;
  BuildPagingResult result;
  result.room_bytes = 4096;
  all.paging.built(args, result);
  EXPECT_EQ(reached(), (Ids{"transfer.contiguous-pages", "transfer.not-idle", "transfer.odd-pages",
                            "transfer.to-segment"}));
  pages[1] = 20;
  operation.transfer_offset = 4096;
  operation.mdl_offset_pages = 1;
  operation.transfer_start = operation.transfer_end = false;
  args.multipass_offset = 1;
  args.buffer_offset = 64;
  result.room_bytes = 100;
  result.status = Status::kGraphicsInsufficientDmaBuffer;
  all.paging.built(args, result);
  EXPECT_EQ(reached(),
            (Ids{"paging.behind-other-work", "paging.insufficient", "transfer.behind-start",
                 "transfer.little-room", "transfer.mdl-behind-start", "transfer.middle",
                 "transfer.not-idle", "transfer.odd-pages", "transfer.scattered-pages",
                 "transfer.second-pass", "transfer.to-segment"}));
  std::array<PageTableEntry, 2> entries{{{.flags = 0}, {.flags = 1 | 8 | 1 << 5}}};
  operation = {};
  operation.kind = PagingOperation::Kind::kUpdatePageTable;
  operation.page_table.entries = entries.data();
  operation.page_table.count = 2;
  operation.page_table.start_index = 5;
  operation.page_table.process = &one_;
  args = {};
  args.operation = &operation;
  result = {};
  all.paging.built(args, result);
  EXPECT_EQ(reached(),
            (Ids{"page-table.behind-start", "page-table.by-cpu", "page-table.invalid",
                 "page-table.leaf", "page-table.memory-segment", "page-table.read-only"}));
  operation.page_table = {};
  operation.page_table.level = 1;
  operation.page_table.mode = PageTableUpdateMode::kGpuPhysical;
  operation.page_table.process = &two_;
  all.paging.built(args, result);
  EXPECT_EQ(reached(), (Ids{"page-table.by-cpu", "page-table.by-physical-address",
                            "page-table.directory", "page-table.second-process"}));
  all.paging.root_set(&one_, {});
  EXPECT_EQ(reached(), Ids{"root.set"});
  all.paging.root_set(&one_, {});
  EXPECT_EQ(reached(), (Ids{"root.again", "root.set"}));
}

TEST_F(SituationsTest, ObjectsAreCountedAndKeptByAge) {
  all.objects.device_made(Status::kSuccess);
  EXPECT_EQ(reached(), Ids{});
  all.objects.device_made(Status::kNoMemory);
  EXPECT_EQ(reached(), Ids{"device.no-memory"});
  all.objects.device_made(Status::kSuccess);
  EXPECT_EQ(reached(), Ids{"device.second"});
  all.objects.device_gone();
  all.objects.device_gone();
  all.objects.device_made(Status::kSuccess);
  EXPECT_EQ(reached(), Ids{});
  all.objects.context_made(&one_, NodeOrdinal{0}, true, Status::kSuccess);
  EXPECT_EQ(reached(), Ids{"context.system"});
  all.objects.context_made(&two_, NodeOrdinal{1}, false, Status::kSuccess);
  EXPECT_EQ(reached(), (Ids{"context.first", "context.second-node"}));
  all.objects.context_gone(&one_);
  EXPECT_EQ(reached(), Ids{"context.destroyed-out-of-order"});
  all.objects.context_gone(&two_);
  EXPECT_EQ(reached(), Ids{});
  std::array<std::byte, 4> data;
  std::array<AllocationInfo, 2> infos;
  infos[0].private_data = data;
  all.objects.allocations_made(std::span(infos).first(1), false, Status::kInvalidParameter);
  EXPECT_EQ(reached(), Ids{"allocation.refused"});
  all.objects.allocations_made(infos, true, Status::kSuccess);
  EXPECT_EQ(reached(),
            (Ids{"allocation.no-private-data", "allocation.resource", "allocation.several"}));
  all.objects.opened(1, true);
  EXPECT_EQ(reached(), Ids{"open.creator"});
  all.objects.opened(2, false);
  EXPECT_EQ(reached(), (Ids{"open.other-device", "open.several"}));
  all.objects.escaped(0);
  EXPECT_EQ(reached(), (Ids{"escape.any", "escape.no-data"}));
}

TEST_F(SituationsTest, PresentsAreOfAWholePictureOrOfParts) {
  std::array<Rect, 2> dirty{Rect{0, 0, 64, 32}, Rect{4, 4, 8, 8}};
  PresentDisplayOnlyArgs args;
  args.pitch_bytes = 64 * 4;
  args.dirty = std::span(dirty).first(1);
  all.display.presented(args);
  EXPECT_EQ(reached(), Ids{"present-display-only.whole"});
  args.pitch_bytes = 64 * 4 + 16;
  args.dirty = std::span(dirty).last(1);
  all.display.presented(args);
  EXPECT_EQ(reached(), (Ids{"present-display-only.part", "present-display-only.pitch"}));
  const std::array<MoveRect, 1> moves{MoveRect{0, 0, {1, 1, 9, 9}}};
  args.pitch_bytes = 64 * 4;
  args.moves = moves;
  args.dirty = {};
  all.display.visible(0, false);
  all.display.presented(args);
  EXPECT_EQ(reached(),
            (Ids{"present-display-only.hidden", "present-display-only.moves", "vidpn.hidden"}));
  all.display.committed();
  EXPECT_EQ(reached(), Ids{"vidpn.commit"});
  all.display.committed();
  EXPECT_EQ(reached(), Ids{"vidpn.commit-second"});
  all.display.pointer_moved(-1, 5, false);
  EXPECT_EQ(reached(), (Ids{"pointer.hidden", "pointer.moved", "pointer.outside"}));
}

TEST_F(SituationsTest, QuestionsAndPower) {
  all.life.queried(1);
  EXPECT_EQ(reached(), Ids{});
  all.life.queried(1);
  EXPECT_EQ(reached(), Ids{"query.again"});
  all.life.power_set(false, false, true);
  EXPECT_EQ(reached(), (Ids{"power.hibernate", "power.sleep"}));
  all.life.queried(0);  // UMDRIVERPRIVATE
  EXPECT_EQ(reached(), (Ids{"query.during-power", "query.umd-private"}));
  all.life.power_set(false, true, true);
  EXPECT_EQ(reached(), Ids{"power.wake"});
  all.life.power_set(true, false, false);
  EXPECT_EQ(reached(), Ids{"power.child-sleep"});
}

}  // namespace
}  // namespace dxgkit::port
