// Hardware queues and hardware scheduling for the scripted miniport with GPU virtual addresses.
//
//   ScriptedHwQueues hw(miniport, gpu);
//   ... start, D3DKMTCreateHwQueue, D3DKMTSubmitCommandToHwQueue ...
//   hw.run_next(hw.queues()[0].handle);  // runs the oldest buffer, writes the fence, interrupts
//
// A queue is a ring in memory: what is submitted lies there until the test runs it. The engine
// reads commands and writes fences through the page tables of the context's process. One exists at
// a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/support/scripted_gpu_va.h"

namespace dxgkit::testing {

struct HwWork {
  DXGKARG_SUBMITCOMMANDTOHWQUEUE args{};
  std::vector<std::byte> private_data;  // as it was during the call
};

struct ScriptedHwContext {
  DXGKARG_CREATEHWCONTEXT args{};  // as given
  void* device = nullptr;
  bool suspended = false, gone = false;
  uint32_t queues = 0;
};

struct ScriptedHwQueue {
  DXGKARG_CREATEHWQUEUE args{};  // as given
  ScriptedHwContext* context = nullptr;
  std::deque<HwWork> ring;  // not run yet
  bool gone = false, inside = false;
};

class ScriptedHwQueues {
 public:
  /// Raises the miniport's version to WDDM 2.5.
  ScriptedHwQueues(ScriptedMiniport& miniport, ScriptedGpuVa& gpu);
  ~ScriptedHwQueues();
  ScriptedHwQueues(const ScriptedHwQueues&) = delete;
  ScriptedHwQueues& operator=(const ScriptedHwQueues&) = delete;

  /// complete_all of the miniport, and so a stack's drive(), leaves the queues alone.
  bool paused = false;

  // --- before load
  bool context_scheduling = true;         // of all nodes
  bool ring_buffer_fence_release = true;  // false: buffers write the fence themselves
  bool scheduling_entries = true;         // false: hardware queues only
  uint32_t max_in_flight = 0;
  // --- any time; empty: the default
  std::function<NTSTATUS(const DXGKARG_SUBMITCOMMANDTOHWQUEUE*)> on_submit;
  /// Default: PENDING, and the interrupt at once; SUCCESS if it is suspended already.
  std::function<NTSTATUS(const DXGKARG_SUSPENDCONTEXT*)> on_suspend;
  std::function<NTSTATUS(const DXGKARG_RESUMECONTEXT*)> on_resume;
  /// Default: nothing is named, rings of the engine keep what they have.
  std::function<NTSTATUS(uint32_t node)> on_reset_engine, on_resume_engine;
  std::function<NTSTATUS(void* context, DXGKARG_CREATEHWQUEUE*)> on_create_queue;
  std::function<NTSTATUS()> on_setup_bands;
  std::function<NTSTATUS(const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES*)> on_set_properties;

  // --- the device
  /// Runs the oldest buffer of a queue, writes its fence if that is the ring's to do, interrupts.
  /// False: nothing to run, or its context is suspended.
  bool run_next(ScriptedHwQueue& queue, bool interrupt = true);
  /// Everything of all queues, round robin. Returns how much.
  size_t run_all();
  bool interrupt_fence(uint32_t node);
  bool acknowledge(ScriptedHwContext& context, uint64_t fence);
  bool page_fault(ScriptedHwQueue& queue, uint64_t value);
  NTSTATUS invalidate_handle(void* context);
  NTSTATUS invalidate(ScriptedHwContext& context) { return invalidate_handle(&context); }

  // --- what happened
  std::vector<std::unique_ptr<ScriptedHwContext>> contexts;  // in order, gone ones too
  std::vector<std::unique_ptr<ScriptedHwQueue>> queues;
  std::vector<HwWork> submissions;
  std::vector<DXGKARG_SETUPPRIORITYBANDS> bands;
  std::vector<DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES> properties;
  std::vector<DXGKARG_SUSPENDCONTEXT> suspends;
  std::vector<DXGKARG_RESUMECONTEXT> resumes;
  std::vector<uint32_t> resets, engine_resumes;
  size_t faults = 0;  // buffers that could not be read or written
  size_t live() const;

  struct Entries;

 private:
  friend struct Entries;
  ScriptedMiniport& miniport_;
  ScriptedGpuVa& gpu_;
};

}  // namespace dxgkit::testing
