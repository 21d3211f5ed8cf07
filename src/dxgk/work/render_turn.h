// One call at a time builds for a context: the order of building is the order of execution.
#pragma once

#include "runtime/sync.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class DXGKIT_CAPABILITY("role") RenderTurnRole {};

/// "It is this thread's turn to build for the context at hand", for the analysis, as `on_lane` is
/// for lanes. The name stands for the turns of all contexts.
inline constexpr RenderTurnRole in_turn;

/// The turns of one context.
class RenderTurns {
 public:
  /// A turn, for as long as this lives. Waits for the one before. Not on the lane.
  class DXGKIT_SCOPED_CAPABILITY Turn {
   public:
    explicit Turn(RenderTurns& turns) DXGKIT_ACQUIRE(in_turn) : turns_(turns) {
      turns_.mutex_.lock();
    }
    ~Turn() DXGKIT_RELEASE() { turns_.mutex_.unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The context is destroyed: nothing is built for it any more.
    bool over() const { return turns_.over_; }
    void end() { turns_.over_ = true; }

   private:
    RenderTurns& turns_;
  };

 private:
  runtime::Mutex mutex_;
  bool over_ = false;  // by the mutex
};

}  // namespace dxgkit::dxgk
