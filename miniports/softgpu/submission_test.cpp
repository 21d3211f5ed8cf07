// The driver on the host: rings, interrupts, preemption, engines that stop.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "miniports/softgpu/fake_world.h"
#include "tests/support/covers.h"

namespace softgpu {
namespace {

// --- submissions ---

TEST_F(Driver, CompletionsAreReportedOnceEachAndInOneReportWhenTheyCoincide) {
  load_and_start();
  submit(1);
  submit(2);
  submit(3);
  EXPECT_EQ(world.complete_next(0, false), 1U);
  EXPECT_EQ(world.complete_next(0), 2U);
  ASSERT_EQ(world.reports.size(), 1U);
  expect_completed(0, 2);
  EXPECT_EQ(world.complete_next(0), 3U);
  ASSERT_EQ(world.reports.size(), 2U);
  expect_completed(1, 3);
  EXPECT_EQ(world.dpcs_notified, 2U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, TheSliceGoesIntoTheRingWithItsAddress) {
  load_and_start();
  submit(1);
  DXGKARG_SUBMITCOMMAND args = submission(2, 0, 0, nullptr);
  args.Flags.ContextSwitch = 1;
  args.pDmaBufferPrivateData = reinterpret_cast<void*>(8);  // of size 0: not to be looked at
  ASSERT_EQ(table().DxgkDdiSubmitCommand(world.adapter, &args), STATUS_SUCCESS);
  args = submission(3, 8, 8, nullptr);
  args.Flags.NullRendering = 1;
  ASSERT_EQ(table().DxgkDdiSubmitCommand(world.adapter, &args), STATUS_SUCCESS);
  while (world.complete_next(0) != 0) {
  }
  ASSERT_EQ(node(0).executed.size(), 3U);
  EXPECT_EQ(node(0).executed[0].type, SGPU_RING_EXECUTE);
  EXPECT_EQ(node(0).executed[0].address, 0x100005000U + 64);
  EXPECT_EQ(node(0).executed[0].length, 128U);
  EXPECT_EQ(node(0).executed[1].type, SGPU_RING_FENCE);
  EXPECT_EQ(node(0).executed[2].flags, SGPU_EXECUTE_NULL);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, TheRingWrapsAndFencesDoToo) {
  load_and_start();
  std::vector<UINT> fences = {0x7FFFFFFF, 0xFFFFFF00};  // each less than half the circle further
  for (UINT i = 1; i < 512; ++i) {
    if (0xFFFFFF00 + i != 0) fences.push_back(0xFFFFFF00 + i);
  }
  for (const UINT fence : fences) {
    submit(fence);
    ASSERT_EQ(world.complete_next(0), fence);
    ASSERT_EQ(world.reports.back().DmaCompleted.SubmissionFenceId, fence);
  }
  EXPECT_EQ(world.reports.size(), fences.size());
  stop_and_expect_nothing_left();
}

TEST_F(Driver, ARingThatIsFullTakesNoMore) {
  load_and_start();
  for (UINT fence = 1; fence < kRingEntries; ++fence) submit(fence);
  DXGKARG_SUBMITCOMMAND args = submission(kRingEntries, 0, 8, nullptr);
  EXPECT_EQ(table().DxgkDdiSubmitCommand(world.adapter, &args), STATUS_INSUFFICIENT_RESOURCES);
  for (UINT fence = 1; fence < kRingEntries; ++fence) EXPECT_EQ(world.complete_next(0), fence);
  EXPECT_EQ(world.complete_next(0), 0U);
  stop_and_expect_nothing_left();
}

// --- preemption ---

TEST_F(Driver, AnIdleNodeAnswersAPreemptionItself) {
  DXGKIT_COVERS("PREEMPT-07");
  load_and_start();
  submit(1);
  world.complete_next(0);
  request_preemption(2);
  ASSERT_EQ(world.reports.size(), 2U);
  expect_preempted(1, 2, 1);
  EXPECT_EQ(node(0).registers[SGPU_NODE_PREEMPT_REQUEST], 0U);
  EXPECT_EQ(world.dpcs_queued, 2U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, WhatWasStoppedMidwayGoesOnThereUnderItsNewFence) {
  DXGKIT_COVERS("PREEMPT-15");
  load_and_start();
  SubmissionRecord stopped = {};
  SubmissionRecord behind = {};
  submit(1);
  submit(2, &stopped);
  submit(3, &behind);
  request_preemption(4);
  EXPECT_EQ(node(0).registers[SGPU_NODE_PREEMPT_REQUEST], 4U);
  world.complete_next(0, false);  // finished after the request, and its cause got lost
  world.causes = 0;
  world.preempt(0, 40);
  ASSERT_EQ(world.reports.size(), 2U);
  expect_completed(0, 1);
  expect_preempted(1, 4, 1);

  submit(5, &stopped);
  submit(6, &behind);
  EXPECT_EQ(world.complete_next(0), 5U);
  EXPECT_EQ(world.complete_next(0), 6U);
  EXPECT_EQ(node(0).executed[1].start_offset, 40U);
  EXPECT_EQ(node(0).executed[2].start_offset, 0U);
  expect_completed(2, 5);

  // The buffer is used again: it begins at its beginning.
  submit(7, &stopped);
  world.complete_next(0);
  EXPECT_EQ(node(0).executed[3].start_offset, 0U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, BeingDroppedBeforeResumingForgetsNothing) {
  load_and_start();
  SubmissionRecord stopped = {};
  submit(1, &stopped);
  request_preemption(2);
  world.preempt(0, 40);
  // Preempted again while another is stopped.
  submit(3);
  submit(4, &stopped);
  request_preemption(5);
  world.preempt(0, 16);
  EXPECT_EQ(stopped.resume_offset, 40U);
  // Dropped by a reset of the engine.
  submit(6, &stopped);
  EXPECT_EQ(stopped.resume_offset, 0U);
  DXGKARG_RESETENGINE reset = {};
  ASSERT_EQ(table().DxgkDdiResetEngine(world.adapter, &reset), STATUS_SUCCESS);
  EXPECT_EQ(stopped.resume_offset, 40U);
  // Preempted behind a fault.
  submit(7);
  submit(8, &stopped);
  world.fault_next(0);
  request_preemption(9);
  while (world.run_timer()) {
  }
  EXPECT_EQ(stopped.resume_offset, 40U);
  submit(10, &stopped);
  EXPECT_EQ(world.complete_next(0), 10U);
  EXPECT_EQ(node(0).executed[0].start_offset, 40U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, ResumingIsForTheSliceThatWasStopped) {
  load_and_start();
  SubmissionRecord shared = {};  // as for the parts of one split DMA buffer
  submit(1, &shared);
  request_preemption(2);
  world.preempt(0, 24);
  DXGKARG_SUBMITCOMMAND other = submission(3, 192, 64, &shared);
  ASSERT_EQ(table().DxgkDdiSubmitCommand(world.adapter, &other), STATUS_SUCCESS);
  submit(4, &shared);
  world.complete_next(0);
  world.complete_next(0);
  EXPECT_EQ(node(0).executed[0].start_offset, 0U);
  EXPECT_EQ(node(0).executed[1].start_offset, 24U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, CancellingForgetsWhereASubmissionStopped) {
  load_and_start();
  SubmissionRecord record = {64, 24, {0, 0}};
  DXGKARG_CANCELCOMMAND args = {};
  args.pDmaBufferPrivateData = &record;
  args.DmaBufferPrivateDataSize = sizeof(record);
  args.DmaBufferPrivateDataSubmissionEndOffset = sizeof(record);
  EXPECT_EQ(table().DxgkDdiCancelCommand(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(record.resume_offset, 0U);
  args.DmaBufferPrivateDataSize = args.DmaBufferPrivateDataSubmissionEndOffset = 0;
  args.pDmaBufferPrivateData = reinterpret_cast<void*>(8);  // not to be looked at
  EXPECT_EQ(table().DxgkDdiCancelCommand(world.adapter, &args), STATUS_SUCCESS);
  stop_and_expect_nothing_left();
}

// --- trouble ---

TEST_F(Driver, AFaultCostsOneSubmissionAndTheEngineGoesOn) {
  load_and_start();
  submit(1);
  submit(2);
  submit(3);
  world.complete_next(0);
  node(0).answers_reset = false;
  world.fault_next(0);
  ASSERT_EQ(world.reports.size(), 2U);
  EXPECT_EQ(world.reports[1].InterruptType, DXGK_INTERRUPT_DMA_FAULTED);
  EXPECT_EQ(world.reports[1].DmaFaulted.FaultedFenceId, 2U);
  EXPECT_EQ(world.reports[1].DmaFaulted.NodeOrdinal, 0U);
  ASSERT_TRUE(world.run_timer());
  EXPECT_FALSE(node(0).enabled) << "still resetting";
  submit(4);  // meanwhile
  node(0).answers_reset = true;
  ASSERT_TRUE(world.run_timer());
  ASSERT_TRUE(world.run_timer());
  EXPECT_FALSE(world.run_timer());
  EXPECT_TRUE(node(0).enabled);
  EXPECT_EQ(world.complete_next(0), 3U);
  EXPECT_EQ(world.complete_next(0), 4U);
  expect_completed(2, 3);
  expect_completed(3, 4);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, APreemptionAskedOfAFaultedEngineIsAnsweredAfterItsReset) {
  load_and_start();
  submit(1);
  submit(2);
  world.fault_next(0);
  request_preemption(3);
  EXPECT_EQ(world.reports.size(), 1U);
  while (world.run_timer()) {
  }
  ASSERT_EQ(world.reports.size(), 2U);
  expect_preempted(1, 3, 1);
  EXPECT_EQ(world.complete_next(0), 0U) << "it was preempted, not kept";
  stop_and_expect_nothing_left();
}

TEST_F(Driver, StoppingDuringARecoveryLeavesNoTimer) {
  load_and_start();
  submit(1);
  node(0).answers_reset = false;
  world.fault_next(0);
  ASSERT_NE(world.timer_dpc, nullptr);
  node(0).answers_reset = true;
  stop_and_expect_nothing_left();
}

TEST_F(Driver, ALostInterruptIsMadeUpForWhenTheKernelAsks) {
  load_and_start();
  submit(1);
  world.complete_next(0, false);
  EXPECT_TRUE(world.reports.empty());
  DXGKARG_QUERYCURRENTFENCE args = {};
  EXPECT_EQ(table().DxgkDdiQueryCurrentFence(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.CurrentFence, 1U);
  ASSERT_EQ(world.reports.size(), 1U);
  expect_completed(0, 1);
  EXPECT_EQ(world.dpcs_queued, 1U);
  EXPECT_EQ(table().DxgkDdiQueryCurrentFence(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(world.reports.size(), 1U);
  args.NodeOrdinal = 2;
  EXPECT_EQ(table().DxgkDdiQueryCurrentFence(world.adapter, &args), STATUS_INVALID_PARAMETER);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, ResettingAnEngineNamesTheAbortedFenceAndEmptiesTheRing) {
  load_and_start();
  submit(1);
  submit(2);
  submit(3);
  world.complete_next(0);
  SgpuRingEntry hung;
  ASSERT_TRUE(world.fetch(0, &hung));
  node(0).registers[SGPU_NODE_ABORTED_FENCE] = hung.fence;
  DXGKARG_RESETENGINE args = {};
  EXPECT_EQ(table().DxgkDdiResetEngine(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.LastAbortedFenceId, 2U);
  EXPECT_EQ(node(0).registers[SGPU_NODE_COMPLETED_FENCE], 2U);
  EXPECT_EQ(world.complete_next(0), 0U);
  submit(4);
  EXPECT_EQ(world.complete_next(0), 4U);
  EXPECT_EQ(world.reports.size(), 2U);

  // Drained before the reset took effect: the last completed one is named.
  node(0).registers[SGPU_NODE_ABORTED_FENCE] = 0;
  EXPECT_EQ(table().DxgkDdiResetEngine(world.adapter, &args), STATUS_SUCCESS);
  EXPECT_EQ(args.LastAbortedFenceId, 4U);
  stop_and_expect_nothing_left();
}

TEST_F(Driver, AnAdapterResetStartsOverBehindTheLastSubmission) {
  load_and_start();
  DXGKARG_BUILDPAGINGBUFFER build = {};
  std::array<UCHAR, 4096> dma;
  SubmissionRecord record;
  struct {
    MDL mdl;
    std::array<PFN_NUMBER, 3> frames;
  } list = {};
  build.pDmaBuffer = dma.data();
  build.DmaSize = sizeof(dma);
  build.pDmaBufferPrivateData = &record;
  build.DmaBufferPrivateDataSize = sizeof(record);
  build.Operation = DXGK_OPERATION_MAP_APERTURE_SEGMENT;
  build.MapApertureSegment.OffsetInPages = 4;
  build.MapApertureSegment.NumberOfPages = 3;
  build.MapApertureSegment.pMdl = &list.mdl;
  ASSERT_EQ(table().DxgkDdiBuildPagingBuffer(world.adapter, &build), STATUS_SUCCESS);

  submit(1);
  submit(2);
  submit(9, nullptr, 1);
  EXPECT_EQ(table().DxgkDdiResetFromTimeout(world.adapter), STATUS_SUCCESS);
  EXPECT_FALSE(node(0).enabled);
  EXPECT_EQ(world.global[SGPU_REG_INT_ENABLE], 0U);
  EXPECT_EQ(table().DxgkDdiRestartFromTimeout(world.adapter), STATUS_SUCCESS);
  EXPECT_EQ(node(0).registers[SGPU_NODE_COMPLETED_FENCE], 2U);
  EXPECT_EQ(node(1).registers[SGPU_NODE_COMPLETED_FENCE], 9U);
  EXPECT_EQ(world.cleared_entries, 7U) << "pages 0..6: up to the last ever mapped";
  submit(3);
  EXPECT_EQ(world.complete_next(0), 3U);
  ASSERT_EQ(world.reports.size(), 1U);
  expect_completed(0, 3);

  node(1).answers_reset = false;
  EXPECT_EQ(table().DxgkDdiResetFromTimeout(world.adapter), STATUS_IO_DEVICE_ERROR);
  node(1).answers_reset = true;
  stop_and_expect_nothing_left();
}

TEST_F(Driver, PowerGoesDownAndComesBack) {
  load_and_start();
  submit(1);
  world.complete_next(0);
  const auto set = table().DxgkDdiSetPowerState;
  EXPECT_EQ(set(world.adapter, 5, PowerDeviceD3, PowerActionSleep), STATUS_SUCCESS);
  EXPECT_TRUE(node(0).enabled) << "some child's business";
  EXPECT_EQ(set(world.adapter, kAdapterUid, PowerDeviceD3, PowerActionSleep), STATUS_SUCCESS);
  EXPECT_FALSE(node(0).enabled);
  EXPECT_EQ(set(world.adapter, kAdapterUid, PowerDeviceD0, PowerActionNone), STATUS_SUCCESS);
  EXPECT_EQ(node(0).registers[SGPU_NODE_COMPLETED_FENCE], 1U);
  submit(2);
  EXPECT_EQ(world.complete_next(0), 2U);
  stop_and_expect_nothing_left();
}

}  // namespace
}  // namespace softgpu
