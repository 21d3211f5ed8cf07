// Selection of packets that a call need not wait for: who serves the call answers first.
#pragma once

#include "dxgk/core/object.h"

namespace dxgkit::dxgk {

class AdapterCore;

/// Where a client is in another process, it can go on while the scheduler gives its packet to the
/// driver. A thread that makes calls for such a client has one of these. During an `Offer`, calls
/// on this thread that have queued a packet leave the selection to `run`. Others may select the
/// packet before, as ever.
///
/// One thread. Not on a lane, but for `ask`.
class LateSelection {
 public:
  LateSelection() = default;
  ~LateSelection() { run(); }
  LateSelection(const LateSelection&) = delete;
  LateSelection& operator=(const LateSelection&) = delete;

  /// The calls of this thread may leave their selection, for the scope.
  class Offer {
   public:
    explicit Offer(LateSelection& late);
    ~Offer();
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;

   private:
    void* previous_;
  };

  /// Whether the call under way may leave the selection; it is made then. On the lane of `core`.
  /// False: nobody offers it, or another adapter's selection is left. `adapter`: the object that
  /// has `core`.
  static bool ask(AdapterCore& core, Object& adapter);
  /// Selects at the end of a call that has queued packets: at once, or later if it may.
  static void pump(AdapterCore& core, Object& adapter);
  /// What the calling thread has left, before it waits for anything.
  static void run_left();
  /// Selects what is left. Nothing, if the adapter has stopped meanwhile.
  void run();

 private:
  AdapterCore* core_ = nullptr;  // null: nothing is left
  Ref<Object> adapter_;          // keeps it
};

}  // namespace dxgkit::dxgk
