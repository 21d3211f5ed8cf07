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
/// One thread. Not on a lane.
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

  /// Selects what is left. Nothing, if the adapter has stopped meanwhile.
  void run();

 private:
  friend bool leaves_selection(AdapterCore& core, Object& adapter);

  AdapterCore* core_ = nullptr;  // null: nothing is left
  Ref<Object> adapter_;          // keeps it
};

/// Whether the call under way may leave the selection; it is made later then. On the lane of
/// `core`. False: nobody offers it, or another adapter's selection is left. `adapter`: the object
/// that has `core`.
bool leaves_selection(AdapterCore& core, Object& adapter);
/// Selects at the end of a call that has queued packets: at once, or later if it may.
void select_after_call(AdapterCore& core, Object& adapter);
/// Selects what the calling thread has left: before it waits for anything.
void select_what_is_left();

}  // namespace dxgkit::dxgk
