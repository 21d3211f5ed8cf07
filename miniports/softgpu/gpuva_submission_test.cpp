// Virtual submissions: what goes into the ring, what comes back, and whose fault it was.
#include "miniports/softgpu/gpuva_world.h"
#include "tests/support/covers.h"

namespace softgpu {
namespace {

constexpr UINT kVirtual = SGPU_EXECUTE_VIRTUAL;

class GpuVaSubmission : public GpuVa {
 protected:
  void SetUp() override {
    load_and_start();
    client = create_client(0x1111);
    set_root(client.context, place(0, 0x40000), 64);
  }
  void TearDown() override {
    destroy(client);
    stop_and_expect_nothing_left();
  }
  static UINT model_flags() { return kVirtual | (four() ? SGPU_EXECUTE_FOUR_LEVELS : 0); }
  /// The entry that the hardware finds next.
  SgpuRingEntry next_entry(UINT ordinal = 0) {
    SgpuRingEntry entry = {};
    EXPECT_TRUE(world.fetch(ordinal, &entry));
    return entry;
  }
  void submit_one(UINT fence, void* data = nullptr, UINT data_bytes = 0, bool again = false) {
    DXGKARG_SUBMITCOMMANDVIRTUAL args = virtual_submission(client.context, fence, 0x200000, 256);
    args.pDmaBufferPrivateData = data;
    args.DmaBufferPrivateDataSize = data_bytes;
    args.Flags.Resubmission = again ? 1 : 0;
    ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  }
  Client client;
};

TEST_P(GpuVaSubmission, TheEntryNamesTheContextsTables) {
  Client other = create_client(0x2222);
  set_root(other.context, place(kSegmentVram, 0x5000), 500);
  ASSERT_EQ(submit_virtual(virtual_submission(client.context, 1, 0x200000, 256)), STATUS_SUCCESS);
  ASSERT_EQ(submit_virtual(virtual_submission(other.context, 2, 0x200000, 64)), STATUS_SUCCESS);
  const SgpuRingEntry first = next_entry();
  EXPECT_EQ(first.type, SGPU_RING_EXECUTE);
  EXPECT_EQ(first.flags, model_flags()) << "not privileged";
  EXPECT_EQ(first.fence, 1U);
  EXPECT_EQ(first.address, 0x200000U);
  EXPECT_EQ(first.length, 256U);
  EXPECT_EQ(first.start_offset, 0U);
  EXPECT_EQ(first.root, 0x40000U);
  EXPECT_EQ(first.root_entries, 64U);
  const SgpuRingEntry second = next_entry();
  EXPECT_EQ(second.address, 0x200000U) << "the same address";
  EXPECT_EQ(second.root, SGPU_VRAM_BASE + 0x5000) << "in another space";
  EXPECT_EQ(second.root_entries, 500U);
  destroy(other);
}

TEST_P(GpuVaSubmission, ARootThatMovesOrGrowsIsUsedFromThenOn) {
  world.tlb_flushes.clear();
  set_root(client.context, place(kSegmentVram, 0x8000), 128);
  // The place may have been somebody else's root before.
  ASSERT_EQ(world.tlb_flushes.size(), 1U);
  EXPECT_EQ(world.tlb_flushes[0].root, SGPU_VRAM_BASE + 0x8000);
  EXPECT_EQ(world.tlb_flushes[0].start, 0U);
  EXPECT_EQ(world.tlb_flushes[0].end, 0U);
  submit_one(1);
  const SgpuRingEntry entry = next_entry();
  EXPECT_EQ(entry.root, SGPU_VRAM_BASE + 0x8000);
  EXPECT_EQ(entry.root_entries, 128U);
  // The engine would refuse more than it can count, or a place that cannot be.
  set_root(client.context, place(0, 0x8000), 0xFFFFFFFF);
  submit_one(2);
  EXPECT_EQ(next_entry().root_entries, four() ? SGPU_VA_TABLE_ENTRIES : SGPU_VA_ROOT_ENTRIES_MAX_2);
  for (const auto& nowhere : {place(0, 0x8001), place(7, 0x8000), place(0, ~UINT64{0xFFF})}) {
    set_root(client.context, nowhere, 64);
    submit_one(3);
    const SgpuRingEntry lost = next_entry();
    EXPECT_EQ(lost.root, 0U);
    EXPECT_EQ(lost.flags, model_flags());
  }
}

TEST_P(GpuVaSubmission, OnlyTheKernelsContextsArePrivileged) {
  Client system = create_client(0, SGPU_NODE_COPY, true);
  set_root(system.context, place(0, 0x90000), 512);
  DXGKARG_SUBMITCOMMANDVIRTUAL args = virtual_submission(system.context, 1, 0x10000, 64);
  args.NodeOrdinal = SGPU_NODE_COPY;
  args.Flags.Paging = 1;
  ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  // Some paging work names no context.
  args.hContext = nullptr;
  args.SubmissionFenceId = 2;
  ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  for (const UINT fence : {1U, 2U}) {
    const SgpuRingEntry entry = next_entry(SGPU_NODE_COPY);
    EXPECT_EQ(entry.fence, fence);
    EXPECT_EQ(entry.flags, model_flags() | SGPU_EXECUTE_PRIVILEGED);
    EXPECT_EQ(entry.root, 0x90000U);
    EXPECT_EQ(entry.root_entries, 512U);
  }
  // A flag makes nobody a king.
  args = virtual_submission(client.context, 3, 0x10000, 64);
  args.Flags.Paging = 1;
  ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  EXPECT_EQ(next_entry().flags, model_flags());
  destroy(system);
}

TEST_P(GpuVaSubmission, ContextSwitchesAndNullRenderingPassInTheirPlace) {
  DXGKARG_SUBMITCOMMANDVIRTUAL args = virtual_submission(client.context, 1, 0, 0);
  args.Flags.ContextSwitch = 1;
  ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  args = virtual_submission(client.context, 2, 0x200000, 64);
  args.Flags.NullRendering = 1;
  ASSERT_EQ(submit_virtual(args), STATUS_SUCCESS);
  EXPECT_EQ(world.complete_next(0), 1U);
  EXPECT_EQ(node(0).executed.back().type, SGPU_RING_FENCE);
  EXPECT_EQ(world.complete_next(0), 2U);
  EXPECT_EQ(node(0).executed.back().flags, model_flags() | SGPU_EXECUTE_NULL);
  expect_completed(0, 1);
  expect_completed(1, 2);
}

TEST_P(GpuVaSubmission, MalformedOnesAreRefusedAndTheirFencePasses) {
  SgpuUmdSubmission data = {SGPU_UMD_SUBMISSION_MAGIC, SGPU_UMD_VERSION, 0, 0};
  struct Whole {
    SgpuUmdSubmission user;
    SubmissionRecord record;
  } whole = {data, {}};
  UINT fence = 0;
  const auto submit =
      [&](const std::function<void(DXGKARG_SUBMITCOMMANDVIRTUAL&, Whole&)>& change) {
        Whole copy = whole;
        DXGKARG_SUBMITCOMMANDVIRTUAL args =
            virtual_submission(client.context, ++fence, 0x200000, 64);
        args.pDmaBufferPrivateData = &copy;
        args.DmaBufferPrivateDataSize = sizeof(copy);
        args.DmaBufferUmdPrivateDataSize = sizeof(copy.user);
        change(args, copy);
        const NTSTATUS status = submit_virtual(args);
        // Whatever was said, the fence passes and the engine is at work for the next one.
        const size_t told = world.reports.size();
        SgpuRingEntry entry = {};
        EXPECT_TRUE(world.fetch(0, &entry));
        EXPECT_EQ(entry.fence, fence);
        EXPECT_EQ(entry.type == SGPU_RING_FENCE, status != STATUS_SUCCESS);
        if (status != STATUS_SUCCESS) {
          EXPECT_EQ(entry.flags, SGPU_EXECUTE_NO_INTERRUPT);
        }
        node(0).registers[SGPU_NODE_COMPLETED_FENCE] = fence;
        world.causes |= SGPU_INT_COMPLETE(0);
        world.raise();
        EXPECT_EQ(world.reports.size() - told, status == STATUS_SUCCESS ? 1U : 0U)
            << "what was refused is not reported";
        return status;
      };
  EXPECT_EQ(submit([](auto&, auto&) {}), STATUS_SUCCESS);
  EXPECT_EQ(submit([](auto& args, auto&) { args.DmaBufferUmdPrivateDataSize = 0; }),
            STATUS_SUCCESS);
  const std::vector<std::function<void(DXGKARG_SUBMITCOMMANDVIRTUAL&, Whole&)>> bad = {
      [](auto& args, auto&) { args.DmaBufferVirtualAddress += 4; },
      [](auto& args, auto&) { args.DmaBufferSize = 60; },
      [](auto& args, auto&) { args.DmaBufferSize = SGPU_DMA_BYTES_MAX + 8; },
      [](auto& args, auto&) { args.DmaBufferUmdPrivateDataSize = 8; },
      [](auto& args, auto&) { args.DmaBufferUmdPrivateDataSize = sizeof(Whole); },
      [](auto&, auto& sent) { ++sent.user.magic; },
      [](auto&, auto& sent) { ++sent.user.version; },
      [](auto&, auto& sent) { sent.user.flags = 1; },
      [](auto&, auto& sent) { sent.user.reserved = 1; },
  };
  for (const auto& change : bad) EXPECT_EQ(submit(change), STATUS_INVALID_PARAMETER);
  EXPECT_EQ(submit([](auto&, auto&) {}), STATUS_SUCCESS);
  DXGKARG_SUBMITCOMMANDVIRTUAL args = virtual_submission(client.context, ++fence, 0x200000, 64);
  args.NodeOrdinal = SGPU_NODE_COUNT;
  EXPECT_EQ(submit_virtual(args), STATUS_INVALID_PARAMETER);
}

TEST_P(GpuVaSubmission, ARefusedFenceIsNeitherReportedNorLost) {
  submit_one(1);
  submit_one(2);
  ASSERT_EQ(submit_virtual(virtual_submission(client.context, 3, 0x200004, 64)),
            STATUS_INVALID_PARAMETER);
  // The engine passes all three before anybody looks: the last good one is the news.
  EXPECT_EQ(world.complete_next(0, false), 1U);
  EXPECT_EQ(world.complete_next(0, false), 2U);
  EXPECT_EQ(world.complete_next(0), 3U);
  ASSERT_EQ(world.reports.size(), 1U);
  expect_completed(0, 2);
  // And the driver's own count has moved past it.
  request_preemption(77);
  ASSERT_EQ(world.reports.size(), 2U);
  expect_preempted(1, 77, 3);
  submit_one(4);
  EXPECT_EQ(world.complete_next(0), 4U);
  expect_completed(2, 4);
}

TEST_P(GpuVaSubmission, PreemptedMidwayItComesBackToThatPlace) {
  DXGKIT_COVERS("PREEMPT-15");
  struct {
    SgpuUmdSubmission user;
    SubmissionRecord record;
  } data[2] = {};
  submit_one(1, &data[0], sizeof(data[0]));
  submit_one(2, &data[1], sizeof(data[1]));
  request_preemption(9);
  world.preempt(0, 96);
  expect_preempted(0, 9, 0);
  submit_one(3, &data[0], sizeof(data[0]), true);
  submit_one(4, &data[1], sizeof(data[1]), true);
  SgpuRingEntry entry = next_entry();
  EXPECT_EQ(entry.fence, 3U);
  EXPECT_EQ(entry.start_offset, 96U);
  EXPECT_EQ(entry.root, 0x40000U);
  entry = next_entry();
  EXPECT_EQ(entry.fence, 4U);
  EXPECT_EQ(entry.start_offset, 0U) << "had not begun";
}

TEST_P(GpuVaSubmission, PreemptedTwiceItKeepsThePlace) {
  struct {
    SgpuUmdSubmission user;
    SubmissionRecord record;
  } data = {};
  submit_one(1, &data, sizeof(data));
  request_preemption(9);
  world.preempt(0, 96);
  submit_one(2, &data, sizeof(data), true);
  request_preemption(10);
  world.preempt(0, 0);  // before it went on
  submit_one(3, &data, sizeof(data), true);
  EXPECT_EQ(next_entry().start_offset, 96U);
}

TEST_P(GpuVaSubmission, AUserCannotChooseWhereToBegin) {
  // The kernel copies what the user gave over the whole private data, the driver's part too.
  struct {
    SgpuUmdSubmission user;
    SubmissionRecord record;
  } forged = {};
  forged.record.resume_offset = 64;
  submit_one(1, &forged, sizeof(forged));
  EXPECT_EQ(next_entry().start_offset, 0U);
  EXPECT_EQ(forged.record.resume_offset, 0U);
}

TEST_P(GpuVaSubmission, APageFaultNamesAddressAccessAndProcess) {
  Client other = create_client(0x2222);
  set_root(other.context, place(0, 0x70000), 64);
  submit_one(1);
  ASSERT_EQ(submit_virtual(virtual_submission(other.context, 2, 0x200000, 64)), STATUS_SUCCESS);
  submit_one(3);
  EXPECT_EQ(world.complete_next(0, false), 1U);
  world.fault_next(0, SGPU_FAULT_PAGE, 0x123456000,
                   SGPU_DETAIL_WRITE | SGPU_PAGE_NOT_VALID << 8 | 1 << 16);
  ASSERT_EQ(world.reports.size(), 2U);
  expect_completed(0, 1);
  const auto& report = world.reports[1];
  EXPECT_EQ(report.InterruptType, DXGK_INTERRUPT_DMA_PAGE_FAULTED);
  const auto& fault = report.DmaPageFaulted;
  EXPECT_EQ(fault.FaultedFenceId, 2U);
  EXPECT_EQ(fault.FaultedVirtualAddress, 0x123456000U);
  EXPECT_EQ(fault.PageFaultFlags, DXGK_PAGE_FAULT_WRITE);
  EXPECT_EQ(fault.PageTableLevel, 1U);
  EXPECT_EQ(fault.NodeOrdinal, 0U);
  EXPECT_EQ(fault.EngineOrdinal, 0U);
  EXPECT_EQ(fault.FaultedProcessHandle, reinterpret_cast<HANDLE>(UINT64{0x2222}));
  EXPECT_EQ(fault.FaultErrorCode.IsDeviceSpecificCode, 0U);
  EXPECT_EQ(fault.FaultErrorCode.GeneralErrorCode, DXGK_GENERAL_ERROR_PAGE_FAULT);
  EXPECT_EQ(fault.FaultedPrimitiveAPISequenceNumber, 0U);

  // The engine is brought back, and what waited behind runs in its own space.
  while (world.run_timer()) {
  }
  EXPECT_EQ(world.complete_next(0), 3U);
  const SgpuRingEntry& entry = node(0).executed.back();
  EXPECT_EQ(entry.root, 0x40000U);
  EXPECT_EQ(entry.flags, model_flags());
  expect_completed(2, 3);
  destroy(other);
}

TEST_P(GpuVaSubmission, AReadFaultsWithoutTheWriteFlag) {
  submit_one(1);
  world.fault_next(0, SGPU_FAULT_PAGE, 0x5000, SGPU_PAGE_ROOT_INDEX << 8);
  ASSERT_EQ(world.reports.size(), 1U);
  EXPECT_EQ(world.reports[0].DmaPageFaulted.PageFaultFlags, DXGK_PAGE_FAULT_FLAGS{});
  EXPECT_EQ(world.reports[0].DmaPageFaulted.FaultedProcessHandle,
            reinterpret_cast<HANDLE>(UINT64{0x1111}));
  while (world.run_timer()) {
  }
}

TEST_P(GpuVaSubmission, OtherFaultsAreSaidWithACode) {
  submit_one(1);
  world.fault_next(0, SGPU_FAULT_PRIVILEGE);
  ASSERT_EQ(world.reports.size(), 1U);
  // INT-15: DMA_FAULTED is not for drivers of this version; the code says what it was.
  EXPECT_EQ(world.reports[0].InterruptType, DXGK_INTERRUPT_DMA_PAGE_FAULTED);
  EXPECT_EQ(world.reports[0].DmaPageFaulted.FaultedFenceId, 1U);
  UINT code = 0;
  std::memcpy(&code, &world.reports[0].DmaPageFaulted.FaultErrorCode, sizeof(code));
  EXPECT_EQ(code, 1U << 1) << "general, an invalid instruction";
  while (world.run_timer()) {
  }
}

TEST_P(GpuVaSubmission, CancellingTouchesNothing) {
  UCHAR data[32];
  std::memset(data, 0x55, sizeof(data));
  DXGKARG_CANCELCOMMAND args = {};
  args.pDmaBufferPrivateData = data;
  args.DmaBufferPrivateDataSize = sizeof(data);
  args.DmaBufferPrivateDataSubmissionEndOffset = sizeof(data);
  EXPECT_EQ(table().DxgkDdiCancelCommand(world.adapter, &args), STATUS_SUCCESS);
  for (const UCHAR byte : data) EXPECT_EQ(byte, 0x55);
}

SOFTGPU_ALL_MODELS(GpuVaSubmission);

}  // namespace
}  // namespace softgpu
