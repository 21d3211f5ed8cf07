// The device of the scripted driver: what is outstanding on its nodes, and its interrupts.
#include <algorithm>
#include <cstring>

#include "tests/support/scripted_miniport.h"

namespace dxgkit::testing {

void ScriptedMiniport::queue_interrupt(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data) {
  runtime::MutexLock lock(lock_);
  pending_.push_back(data);
}

bool ScriptedMiniport::raise(const DXGKARGCB_NOTIFY_INTERRUPT_DATA& data) {
  queue_interrupt(data);
  return raise_line();
}

void ScriptedMiniport::retire(uint32_t node, uint32_t fence) {
  runtime::MutexLock lock(lock_);
  if (node >= outstanding_.size()) return;
  std::erase_if(outstanding_[node], [&](uint32_t id) {
    return !fence_newer(SubmissionFenceId{id}, SubmissionFenceId{fence});
  });
  last_completed_[node] = fence;
}

bool ScriptedMiniport::complete(uint32_t node, uint32_t fence) {
  if (hooks.execute) {
    for (const uint32_t id : outstanding(node)) {
      if (fence_newer(SubmissionFenceId{id}, SubmissionFenceId{fence})) break;
      if (!hooks.execute(node, id)) return true;
    }
  }
  retire(node, fence);
  return raise(completed_data(node, fence));
}

bool ScriptedMiniport::complete_next(uint32_t node) {
  uint32_t fence = 0;
  {
    runtime::MutexLock lock(lock_);
    if (node >= outstanding_.size() || outstanding_[node].empty()) return false;
    fence = outstanding_[node].front();
  }
  complete(node, fence);
  return true;
}

size_t ScriptedMiniport::complete_all() {
  size_t done = 0;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t node = 0; node < config.nodes; ++node) {
      while (complete_next(node)) {
        ++done;
        more = true;
      }
    }
    if (!hooks.execute_more) continue;
    const size_t others = hooks.execute_more();
    done += others;
    more = more || others != 0;
  }
  return done;
}

bool ScriptedMiniport::preempted(uint32_t node, uint32_t preemption_fence, uint32_t last) {
  {
    runtime::MutexLock lock(lock_);
    if (node < outstanding_.size()) {
      outstanding_[node].clear();
      last_completed_[node] = last;
    }
  }
  return raise(preempted_data(node, preemption_fence, last));
}

bool ScriptedMiniport::faulted(uint32_t node, uint32_t fence, NTSTATUS status) {
  retire(node, fence);
  return raise(faulted_data(node, fence, status));
}

bool ScriptedMiniport::vsync(uint32_t target, uint64_t address) {
  return raise(vsync_data(target, address));
}

PagingCall ScriptedMiniport::paging_call(size_t index) const {
  runtime::MutexLock lock(lock_);
  return calls_.paging.at(index);
}

void ScriptedMiniport::forget_outstanding() {
  runtime::MutexLock lock(lock_);
  for (auto& fences : outstanding_) fences.clear();
}

std::vector<uint32_t> ScriptedMiniport::outstanding(uint32_t node) const {
  runtime::MutexLock lock(lock_);
  return node < outstanding_.size() ? outstanding_[node] : std::vector<uint32_t>{};
}

uint32_t ScriptedMiniport::last_completed(uint32_t node) const {
  runtime::MutexLock lock(lock_);
  return node < last_completed_.size() ? last_completed_[node] : 0;
}

ScriptedCalls ScriptedMiniport::calls() const {
  runtime::MutexLock lock(lock_);
  return calls_;
}

void ScriptedMiniport::clear_calls() {
  runtime::MutexLock lock(lock_);
  calls_ = {};
  counts_.clear();
}

size_t ScriptedMiniport::count(std::string_view ddi) const {
  runtime::MutexLock lock(lock_);
  const auto known =
      std::ranges::find_if(counts_, [&](const auto& entry) { return entry.first == ddi; });
  return known == counts_.end() ? 0 : known->second;
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA ScriptedMiniport::completed_data(uint32_t node, uint32_t fence) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
  data.DmaCompleted.SubmissionFenceId = fence;
  data.DmaCompleted.NodeOrdinal = node;
  return data;
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA ScriptedMiniport::preempted_data(uint32_t node,
                                                                 uint32_t preemption_fence,
                                                                 uint32_t last) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
  data.DmaPreempted.PreemptionFenceId = preemption_fence;
  data.DmaPreempted.LastCompletedFenceId = last;
  data.DmaPreempted.NodeOrdinal = node;
  return data;
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA ScriptedMiniport::faulted_data(uint32_t node, uint32_t fence,
                                                               NTSTATUS status) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_DMA_FAULTED;
  data.DmaFaulted.FaultedFenceId = fence;
  data.DmaFaulted.Status = status;
  data.DmaFaulted.NodeOrdinal = node;
  return data;
}

DXGKARGCB_NOTIFY_INTERRUPT_DATA ScriptedMiniport::vsync_data(uint32_t target, uint64_t address) {
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
  data.CrtcVsync.VidPnTargetId = target;
  data.CrtcVsync.PhysicalAddress.QuadPart = static_cast<LONGLONG>(address);
  return data;
}

}  // namespace dxgkit::testing
