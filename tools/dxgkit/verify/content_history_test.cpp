#include "tools/dxgkit/verify/content_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vidmm/types.h"

namespace dxgkit::tool::verify {
namespace {

using trace::EventKind;

constexpr uint64_t kProcess = 3, kAllocation = 70, kOther = 71, kPacket = 900;
constexpr uint32_t kThread = 5;
enum Name : uint64_t { kWorker, kStranger, kRender, kSubmit, kLock };

/// A recording in which process 3, "worker", locks allocation 70 on thread 5 in the end.
class ContentHistory : public testing::Test {
 protected:
  void add(EventKind kind, uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
           uint16_t node = trace::kNoNode, uint32_t thread = kThread) {
    recording.events.push_back({.time_ns = 0,
                                .thread = thread,
                                .kind = static_cast<uint16_t>(kind),
                                .node = node,
                                .a = a,
                                .b = b,
                                .c = c,
                                .d = d});
  }
  void begin() {
    add(EventKind::kSegment, 1, 1, 0x40000, 0x100000);
    add(EventKind::kSegment, 1, 2, 0x800000, 0x100000);
    add(EventKind::kObjectName, kProcess, kWorker,
        static_cast<uint64_t>(trace::ObjectClass::kProcess));
  }
  /// A call that queues packets for contexts; the process's, or another one's.
  void submit(Name call, std::vector<uint64_t> packets, uint64_t process = kProcess,
              uint32_t thread = kThread) {
    add(EventKind::kThunkEnter, call, process, 0, 0, trace::kNoNode, thread);
    constexpr uint64_t kRenderPacket = 0, kPagingPacket = 1;
    for (const uint64_t packet : packets)
      add(EventKind::kPacketQueued, packet, 2, kRenderPacket, 1, 1, thread);
    // Paging that the call needs, and a packet that another thread queues meanwhile.
    add(EventKind::kPacketQueued, 5000, 1, kPagingPacket, 1, 0, thread);
    add(EventKind::kPacketQueued, 6000, 9, kRenderPacket, 1, 1, thread + 1);
    add(EventKind::kThunkExit, call, 0, 0, 0, trace::kNoNode, thread);
  }
  void run(uint64_t packet, uint64_t fence, uint64_t patches) {
    add(EventKind::kPacketPatched, packet, 2, patches, 0, 1);
    add(EventKind::kPacketSubmitted, packet, 2, fence, 1, 1);
    add(EventKind::kPacketCompleted, packet, 2, fence, 0, 1);
  }
  void lock() { add(EventKind::kLocked, kAllocation); }
  std::string text(uint64_t submission = 1) {
    return content_history(recording, {.process = kProcess,
                                       .process_name = "worker",
                                       .submission = submission,
                                       .thread = kThread});
  }

  trace::Recording recording{
      .events = {},
      .names = {"worker", "stranger", "D3DKMTRender", "D3DKMTSubmitCommand", "D3DKMTLock2"},
      .threads = {},
      .dropped = 0};
};

TEST_F(ContentHistory, NamesThePacketItsFenceItsPatchesAndWhereItFoundTheMemory) {
  begin();
  submit(kRender, {kPacket});
  add(EventKind::kPlaced, kAllocation, 1, 0x3000, 0x1000);
  add(EventKind::kPlaced, kOther, 1, 0x9000, 0x1000);
  add(EventKind::kPageIn, kAllocation, 1, 0x3000, 0x1000);
  add(EventKind::kPageIn, kOther, 1, 0x9000, 0x1000);
  run(kPacket, 44, 7);
  lock();
  EXPECT_EQ(text(),
            "its packet 900 ran as fence 44 of node 1, patched at 7 places, with this memory at "
            "0x43000 (segment 1); before that the memory was paged in to 0x43000 (segment 1); "
            "nothing moved the memory afterwards");
}

TEST_F(ContentHistory, TellsMovesBehindThePacketFromThoseBeforeIt) {
  begin();
  submit(kRender, {kPacket});
  add(EventKind::kPagingOperation, static_cast<uint64_t>(vidmm::PagingOp::Kind::kFill), kAllocation,
      0x2000, 32);
  add(EventKind::kPagingOperation, static_cast<uint64_t>(vidmm::PagingOp::Kind::kFill), kOther,
      0x5000, 32);
  add(EventKind::kPlaced, kAllocation, 2, 0x1000, 0x2000);
  run(kPacket, 1, 1);
  add(EventKind::kPageOut, kAllocation, 2, 0x1000, 0x2000);
  add(EventKind::kApertureMapped, kAllocation, 1, 0, 0x2000);
  add(EventKind::kApertureUnmapped, kAllocation, 1, 0, 0x2000);
  lock();
  EXPECT_EQ(text(),
            "its packet 900 ran as fence 1 of node 1, patched at 1 place, with this memory at "
            "0x801000 (segment 2); before that the memory was filled with 8192 bytes; afterwards "
            "the memory was paged out from 0x801000 (segment 2), then mapped into the aperture at "
            "0x40000 (segment 1), then unmapped from the aperture at 0x40000 (segment 1)");
}

TEST_F(ContentHistory, FindsTheSubmissionAmongOthersOfTheProcessAndOfOthers) {
  begin();
  submit(kRender, {100});
  submit(kRender, {200}, /*process=*/kProcess + 1, /*thread=*/kThread + 2);
  submit(kSubmit, {300, 301});
  submit(kSubmit, {400});
  run(100, 1, 1);
  run(300, 2, 2);
  run(301, 3, 3);
  run(400, 4, 4);
  lock();
  EXPECT_THAT(text(2), testing::StartsWith("it was 2 packets, the last, 301, ran as fence 3 of "
                                           "node 1, patched at 3 places"));
  EXPECT_THAT(text(3), testing::StartsWith("its packet 400 ran as fence 4"));
}

TEST_F(ContentHistory, ANumberOfAnEarlierMachineIsAnotherProcess) {
  begin();
  submit(kRender, {100});
  add(EventKind::kObjectName, kProcess, kStranger,
      static_cast<uint64_t>(trace::ObjectClass::kProcess));
  submit(kRender, {150});
  begin();
  submit(kRender, {200});
  run(200, 9, 1);
  lock();
  EXPECT_THAT(text(), testing::StartsWith("its packet 200 ran as fence 9"));
}

TEST_F(ContentHistory, AMoveWhileThePacketIsRepeatedIsAfterItRanFirst) {
  begin();
  submit(kRender, {kPacket});
  add(EventKind::kPlaced, kAllocation, 1, 0, 0x1000);
  add(EventKind::kPacketSubmitted, kPacket, 2, 5, 1, 1);
  add(EventKind::kPacketPreempted, kPacket, 2, 5, 0, 1);
  add(EventKind::kPageOut, kAllocation, 1, 0, 0x1000);
  run(kPacket, 6, 2);
  lock();
  EXPECT_EQ(text(),
            "its packet 900 ran as fence 6 of node 1, after preemption, patched at 2 places, with "
            "this memory at 0x40000 (segment 1); afterwards the memory was paged out from 0x40000 "
            "(segment 1)");
}

TEST_F(ContentHistory, GivesTheAddressOfThePacketsView) {
  begin();
  add(EventKind::kGpuVaMapped, kProcess, 0x100000, 0x1000, kOther);
  add(EventKind::kGpuVaMapped, kProcess, 0x200000, 0x1000, kAllocation);
  submit(kSubmit, {kPacket});
  add(EventKind::kPlaced, kAllocation, 3, 0x1000, 0x1000);  // nothing says where segment 3 is
  add(EventKind::kPacketSubmitted, kPacket, 2, 5, 1, 0);
  lock();
  EXPECT_EQ(text(),
            "its packet 900 ran as fence 5 of node 0, with this memory at offset 0x1000 of "
            "segment 3, GPU virtual address 0x200000; nothing moved the memory afterwards");
}

TEST_F(ContentHistory, ManyMovesAreCountedAndTheLastOnesNamed) {
  begin();
  submit(kRender, {kPacket});
  run(kPacket, 1, 0);
  for (uint64_t i = 0; i < 6; ++i) add(EventKind::kPageIn, kAllocation, 1, i << 12, 0x1000);
  lock();
  EXPECT_THAT(text(), testing::HasSubstr("afterwards the memory was moved 2 times, then paged in "
                                         "to 0x42000 (segment 1), then paged in to 0x43000"));
  EXPECT_THAT(text(), testing::EndsWith("then paged in to 0x45000 (segment 1)"));
}

TEST_F(ContentHistory, SaysOfMemoryWithoutPacketWhatMovedItAndNothingOfUnknownMemory) {
  EXPECT_EQ(text(), "");  // the trace has lost the beginning
  begin();
  EXPECT_EQ(text(), "");  // nothing was locked
  lock();
  EXPECT_EQ(text(0), "");
  add(EventKind::kPageOut, kAllocation, 1, 0, 0x1000);
  EXPECT_EQ(text(0), "its memory was paged out from 0x40000 (segment 1)");
  submit(kRender, {kPacket});
  EXPECT_EQ(text(),
            "its packet 900 was never submitted; before that the memory was paged out from "
            "0x40000 (segment 1); nothing moved the memory afterwards");
}

}  // namespace
}  // namespace dxgkit::tool::verify
