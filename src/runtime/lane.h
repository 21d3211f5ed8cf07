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
/// The lane has no fixed thread. If it is free, the calling thread runs the work itself, so `run`
/// costs two atomic operations then. Work posted from interrupt context never runs on the
/// interrupting thread: a driver may block in a PASSIVE_LEVEL DDI, and the interrupt it waits for
/// needs that thread. Such work goes to a waiter that helps (`wait_helping`), or else to the lane's
/// own worker thread.
class Lane {
 public:
  /// Work that is made once and posted often. Threads that post it again only read it, so it costs
  /// them no transfer between processors.
  class RecurringWork {
   public:
    explicit RecurringWork(std::function<void()> work);
    ~RecurringWork();
    RecurringWork(const RecurringWork&) = delete;
    RecurringWork& operator=(const RecurringWork&) = delete;

   private:
    friend class Lane;
    struct Item;
    const std::unique_ptr<Item> item_;
  };

  Lane(Runtime& runtime, std::string name);
  /// Runs the queued work, then ends the worker. No thread may post any more.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Runs `work` on the lane, on the calling thread, and returns when it is done. Work posted
  /// earlier runs first. Under contention the lane passes from thread to thread in the order in
  /// which they came. A caller that is on the lane already (a driver callback inside a DDI that the
  /// lane calls) runs the work at once. Not from interrupt context. Never allocates.
  void run(FunctionRef work);
  /// Queues `work`. If the lane is free, the calling thread runs it and all work before it;
  /// otherwise the holder of the lane runs it.
  void post(std::function<void()> work);
  /// Queues `work` from interrupt context (ISR, DPC, timer). Never runs it on the calling thread.
  void post_from_interrupt(std::function<void()> work);
  /// The same for work that interrupts ask for again and again. It is not queued yet, or has begun
  /// to run since; it outlives its last run. Never allocates.
  void post_from_interrupt(RecurringWork& work);

  bool is_current() const;
  /// Aborts unless the caller is on the lane. It also tells clang's analysis so.
  void assert_current() const DXGKIT_ASSERT_CAPABILITY(on_lane);

  /// Blocks while `word` holds `expected`, as Runtime::wait does. Meanwhile it runs lane work that
  /// arrives from interrupt context. A CPU waiter on a fence uses this, so that a completion costs
  /// no extra thread hand-off. Not on the lane.
  WaitResult wait_helping(const std::atomic<uint32_t>& word, uint32_t expected,
                          TimeNs deadline = kForever);

  Runtime& runtime() const { return runtime_; }

 private:
  struct Impl;
  Runtime& runtime_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::runtime
