// A kernel and a GPU around the driver that do nothing until the test says so.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "miniports/softgpu/driver.h"

extern "C" NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path);

namespace softgpu {

/// One engine as the manual describes it, but nothing happens until the test says so.
struct FakeNode {
  std::map<ULONG, UINT64> registers;
  std::deque<SgpuRingEntry> executed;
  bool enabled = false;
  bool faulted = false;
  bool resetting = false;
  bool answers_reset = true;
};

class FakeWorld {
 public:
  FakeWorld() : bar0(SGPU_BAR0_BYTES / 8) {
    global[SGPU_REG_ID] = SGPU_ID_VALUE;
    global[SGPU_REG_NODE_COUNT] = SGPU_NODE_COUNT;
    global[SGPU_REG_VRAM_SIZE] = (UINT64{64} << 20) + 512;  // not a whole number of pages
    global[SGPU_REG_APERTURE_BASE] = SGPU_APERTURE_BASE;
    global[SGPU_REG_APERTURE_SIZE] = SGPU_APERTURE_BYTES;
  }

  // --- registers ---
  static FakeNode* node_at(FakeWorld* world, ULONG offset, ULONG* in_node) {
    if (offset < SGPU_NODE_BLOCK) return nullptr;
    *in_node = offset % SGPU_NODE_BLOCK;
    return &world->nodes.at(offset / SGPU_NODE_BLOCK - 1);
  }
  UINT64 read(ULONG offset) {
    ULONG reg = 0;
    FakeNode* node = node_at(this, offset, &reg);
    if (node == nullptr) {
      if (offset == SGPU_REG_INT_PENDING) return causes & global[SGPU_REG_INT_ENABLE];
      if (offset == SGPU_REG_INT_STATUS) return causes;
      if (offset == SGPU_REG_TLB_FLUSH) return tlb_busy_looks == 0 ? 0 : (--tlb_busy_looks, 1);
      return global[offset];
    }
    if (reg == SGPU_NODE_STATUS) {
      const UINT64 status = node->resetting ? SGPU_STATUS_RESETTING : 0U;
      if (node->answers_reset) finish_reset(node);  // visible at the next look, as on hardware
      return status;
    }
    return node->registers[reg];
  }
  void write(ULONG offset, UINT64 value) {
    ULONG reg = 0;
    FakeNode* node = node_at(this, offset, &reg);
    if (node == nullptr) {
      if (offset == SGPU_REG_INT_ACK) {
        causes &= ~static_cast<UINT>(value);
      } else if (offset == SGPU_REG_APERTURE_ENTRY) {
        cleared_entries += value == 0 ? 1 : 0;
      } else if (offset == SGPU_REG_TLB_FLUSH) {
        tlb_flushes.push_back(
            {{}, global[SGPU_REG_TLB_ROOT], global[SGPU_REG_TLB_START], global[SGPU_REG_TLB_END]});
      } else {
        global[offset] = value;
      }
      return;
    }
    if (reg == SGPU_NODE_CONTROL) {
      if ((value & SGPU_CONTROL_RESET) != 0) {
        node->enabled = false;
        node->resetting = true;
        node->registers[SGPU_NODE_FAULT_ADDRESS] = node->registers[SGPU_NODE_FAULT_DETAIL] = 0;
      } else {
        node->enabled = (value & SGPU_CONTROL_ENABLE) != 0;
      }
      return;
    }
    if (reg == SGPU_NODE_RING_BASE || reg == SGPU_NODE_RING_SIZE ||
        reg == SGPU_NODE_COMPLETED_FENCE) {
      if (node->enabled) ADD_FAILURE() << "configured while enabled";
      if (reg != SGPU_NODE_COMPLETED_FENCE) {
        node->registers[SGPU_NODE_RING_HEAD] = node->registers[SGPU_NODE_RING_TAIL] = 0;
      }
    }
    node->registers[reg] = value;
  }

  // --- the engine, by hand ---
  bool fetch(UINT ordinal, SgpuRingEntry* entry) {
    FakeNode& node = nodes.at(ordinal);
    UINT64& head = node.registers[SGPU_NODE_RING_HEAD];
    if (!node.enabled || node.faulted || head == node.registers[SGPU_NODE_RING_TAIL]) return false;
    const auto* ring = reinterpret_cast<const SgpuRingEntry*>(node.registers[SGPU_NODE_RING_BASE]);
    *entry = ring[head];
    head = (head + 1) % node.registers[SGPU_NODE_RING_SIZE];
    return true;
  }
  /// Runs the next entry to its end. Returns its fence, 0 if there is none.
  UINT complete_next(UINT ordinal, bool interrupt = true) {
    SgpuRingEntry entry;
    if (!fetch(ordinal, &entry)) return 0;
    FakeNode& node = nodes.at(ordinal);
    node.executed.push_back(entry);
    node.registers[SGPU_NODE_COMPLETED_FENCE] = entry.fence;
    ++node.registers[SGPU_NODE_EXECUTED];
    causes |= SGPU_INT_COMPLETE(ordinal);
    if (interrupt) raise();
    return entry.fence;
  }
  void fault_next(UINT ordinal, UINT reason = SGPU_FAULT_MEMORY, UINT64 address = 0,
                  UINT detail = 0) {
    SgpuRingEntry entry;
    ASSERT_TRUE(fetch(ordinal, &entry));
    FakeNode& node = nodes.at(ordinal);
    node.faulted = true;
    node.registers[SGPU_NODE_FAULT_FENCE] = entry.fence;
    node.registers[SGPU_NODE_FAULT_REASON] = reason;
    node.registers[SGPU_NODE_FAULT_ADDRESS] = address;
    node.registers[SGPU_NODE_FAULT_DETAIL] = detail;
    causes |= SGPU_INT_FAULT(ordinal);
    raise();
  }
  /// Answers a request; `offset` not 0: the next entry was stopped there.
  void preempt(UINT ordinal, UINT offset) {
    FakeNode& node = nodes.at(ordinal);
    SgpuRingEntry entry = {};
    if (offset != 0) {
      ASSERT_TRUE(fetch(ordinal, &entry));
    }
    node.registers[SGPU_NODE_RING_HEAD] = node.registers[SGPU_NODE_RING_TAIL];
    node.registers[SGPU_NODE_PREEMPT_FENCE] = entry.fence;
    node.registers[SGPU_NODE_PREEMPT_OFFSET] = offset;
    node.registers[SGPU_NODE_PREEMPT_DONE] = node.registers[SGPU_NODE_PREEMPT_REQUEST];
    node.registers[SGPU_NODE_PREEMPT_REQUEST] = 0;
    causes |= SGPU_INT_PREEMPTED(ordinal);
    raise();
  }
  void finish_reset(FakeNode* node) {
    if (!node->resetting) return;
    node->resetting = false;
    node->faulted = false;
    node->registers[SGPU_NODE_RING_HEAD] = node->registers[SGPU_NODE_RING_TAIL] = 0;
    node->registers[SGPU_NODE_FAULT_REASON] = 0;
    node->registers[SGPU_NODE_FAULT_ADDRESS] = 0;
    node->registers[SGPU_NODE_FAULT_DETAIL] = 0;
    node->registers[SGPU_NODE_PREEMPT_REQUEST] = 0;
  }
  void raise() {
    device_level = true;
    const size_t told = reports.size();
    const size_t dpcs = dpcs_queued;
    EXPECT_TRUE(table.DxgkDdiInterruptRoutine(adapter, 0));
    EXPECT_FALSE(table.DxgkDdiInterruptRoutine(adapter, 0)) << "nothing pending: not ours";
    device_level = false;
    if (reports.size() != told) {
      EXPECT_GT(dpcs_queued, dpcs) << "told without a DPC";
    }
    if (dpcs_queued != dpcs) table.DxgkDdiDpcRoutine(adapter);
  }
  bool run_timer() {
    if (timer_dpc == nullptr) return false;
    KDPC* dpc = std::exchange(timer_dpc, nullptr);
    dpc->DeferredRoutine(dpc, dpc->DeferredContext, nullptr, nullptr);
    return true;
  }

  std::vector<UINT64> bar0;
  std::map<ULONG, UINT64> global;
  std::array<FakeNode, SGPU_NODE_COUNT> nodes;
  UINT causes = 0;
  UINT cleared_entries = 0;
  std::vector<SgpuFlushTlb> tlb_flushes;
  UINT tlb_busy_looks = 0;  // how often TLB_FLUSH still reads 1
  // The value MemoryModel of the driver's key.
  bool has_memory_model = false;
  ULONG memory_model_type = REG_DWORD;
  ULONG memory_model = 0;
  int open_keys = 0;
  DRIVER_INITIALIZATION_DATA table = {};
  void* adapter = nullptr;
  bool device_level = false;
  std::vector<DXGKARGCB_NOTIFY_INTERRUPT_DATA> reports;
  size_t dpcs_queued = 0;
  size_t dpcs_notified = 0;
  KDPC* timer_dpc = nullptr;
  std::set<void*> pool;
  int contiguous = 0;
  int mappings = 0;
  int pool_allocations_left = 1000;
  USHORT vendor = SGPU_PCI_VENDOR_ID;
  std::map<D3DKMT_HANDLE, void*> handles;
};

/// The world of the test that is running.
extern FakeWorld* g_world;
HANDLE device_handle();
/// The callbacks, as DxgkDdiStartDevice gets them.
DXGKRNL_INTERFACE fake_interface();

/// A driver loaded into a fresh world.
class Driver : public ::testing::Test {
 protected:
  Driver() { g_world = &world; }
  ~Driver() override { g_world = nullptr; }

  void load() {
    ASSERT_EQ(DriverEntry(nullptr, nullptr), STATUS_SUCCESS);
    ASSERT_EQ(table().DxgkDdiAddDevice(nullptr, &world.adapter), STATUS_SUCCESS);
  }
  NTSTATUS start() {
    DXGKRNL_INTERFACE dxgk = fake_interface();
    DXGK_START_INFO info = {};
    ULONG sources = 9;
    ULONG children = 9;
    const NTSTATUS status =
        table().DxgkDdiStartDevice(world.adapter, &info, &dxgk, &sources, &children);
    EXPECT_EQ(sources + children, 0U);
    return status;
  }
  void load_and_start() {
    load();
    ASSERT_EQ(start(), STATUS_SUCCESS);
  }
  void stop_and_expect_nothing_left() {
    EXPECT_EQ(table().DxgkDdiStopDevice(world.adapter), STATUS_SUCCESS);
    remove_and_expect_nothing_left();
  }
  void remove_and_expect_nothing_left() {
    EXPECT_EQ(table().DxgkDdiRemoveDevice(world.adapter), STATUS_SUCCESS);
    table().DxgkDdiUnload();
    EXPECT_TRUE(world.pool.empty());
    EXPECT_EQ(world.contiguous, 0);
    EXPECT_EQ(world.mappings, 0);
    EXPECT_EQ(world.timer_dpc, nullptr);
    EXPECT_EQ(world.open_keys, 0);
  }
  DRIVER_INITIALIZATION_DATA& table() { return world.table; }
  FakeNode& node(UINT ordinal) { return world.nodes[ordinal]; }

  /// A submission of `bytes` bytes from `start` of a buffer at 0x5000.
  DXGKARG_SUBMITCOMMAND submission(UINT fence, UINT start, UINT bytes, SubmissionRecord* record) {
    DXGKARG_SUBMITCOMMAND args = {};
    args.DmaBufferPhysicalAddress.QuadPart = 0x100005000;
    args.DmaBufferSize = 65536;
    args.DmaBufferSubmissionStartOffset = start;
    args.DmaBufferSubmissionEndOffset = start + bytes;
    args.pDmaBufferPrivateData = record;
    args.DmaBufferPrivateDataSize = record != nullptr ? sizeof(*record) : 0;
    args.DmaBufferPrivateDataSubmissionEndOffset = args.DmaBufferPrivateDataSize;
    args.SubmissionFenceId = fence;
    return args;
  }
  void submit(UINT fence, SubmissionRecord* record = nullptr, UINT ordinal = 0) {
    DXGKARG_SUBMITCOMMAND args = submission(fence, 64, 128, record);
    args.NodeOrdinal = ordinal;
    ASSERT_EQ(table().DxgkDdiSubmitCommand(world.adapter, &args), STATUS_SUCCESS);
  }
  void request_preemption(UINT id) {
    DXGKARG_PREEMPTCOMMAND args = {};
    args.PreemptionFenceId = id;
    ASSERT_EQ(table().DxgkDdiPreemptCommand(world.adapter, &args), STATUS_SUCCESS);
  }
  void expect_completed(size_t index, UINT fence, UINT ordinal = 0) {
    ASSERT_LT(index, world.reports.size());
    const auto& report = world.reports[index];
    EXPECT_EQ(report.InterruptType, DXGK_INTERRUPT_DMA_COMPLETED);
    EXPECT_EQ(report.DmaCompleted.SubmissionFenceId, fence);
    EXPECT_EQ(report.DmaCompleted.NodeOrdinal, ordinal);
    EXPECT_EQ(report.DmaCompleted.EngineOrdinal, 0U);
  }
  void expect_preempted(size_t index, UINT id, UINT completed) {
    ASSERT_LT(index, world.reports.size());
    const auto& report = world.reports[index];
    EXPECT_EQ(report.InterruptType, DXGK_INTERRUPT_DMA_PREEMPTED);
    EXPECT_EQ(report.DmaPreempted.PreemptionFenceId, id);
    EXPECT_EQ(report.DmaPreempted.LastCompletedFenceId, completed);
  }

  FakeWorld world;
};

}  // namespace softgpu
