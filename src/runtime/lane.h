// The lane: one logical thread that owns an adapter's core state.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/function_ref.h"
#include "runtime/runtime.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::runtime {

/// An executor that runs one event at a time, in the order posted.
///
/// There is no fixed thread behind it: whoever brings work while the lane is free runs it inline
/// (no hand-off on the uncontended path), so `run` costs two atomic operations then. Work posted
/// from interrupt context is never run there (a driver may block in a PASSIVE_LEVEL DDI, and the
/// interrupt it waits for needs that thread): it goes to a helping waiter (`wait_helping`) if there
/// is one, else to the lane's own worker thread.
class Lane {
 public:
  Lane(Runtime& runtime, std::string name);
  /// Runs what is queued, then ends the worker. Nobody may post any more.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Runs `work` on the lane, on the calling thread, and returns when it is done. Work posted
  /// earlier runs first; under contention the lane is handed from thread to thread in the order
  /// they came. From code already on the lane (a driver callback inside a DDI the lane is making)
  /// it runs inline at once. Not from interrupt context. Never allocates.
  void run(FunctionRef work);
  /// Queues `work`; runs it (and what is before it) here if the lane is free, else leaves it to the
  /// holder.
  void post(std::function<void()> work);
  /// Queues `work` from interrupt context (ISR, DPC, timer): never runs it here.
  void post_from_interrupt(std::function<void()> work);

  bool is_current() const;
  /// For clang's analysis and for us: aborts unless the caller is on the lane.
  void assert_current() const DXGKIT_ASSERT_CAPABILITY(on_lane);

  /// Blocks while `word` holds `expected` (as Runtime::wait), running lane work that arrives from
  /// interrupt context meanwhile: what a CPU waiter on a fence does, so that completion costs no
  /// extra thread hand-off. Not on the lane.
  WaitResult wait_helping(const std::atomic<uint32_t>& word, uint32_t expected,
                          TimeNs deadline = kForever);

  Runtime& runtime() const { return runtime_; }

 private:
  struct Impl;
  Runtime& runtime_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::runtime
