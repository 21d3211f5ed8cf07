// Flips of one video present source: in which order, when they go to hardware, when they are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace dxgkit::vidsch {

/// One change of what a source shows.
struct FlipRequest {
  uint64_t id = 0;         // the caller's; rises along the queue
  uint64_t surface = 0;    // what will be shown: the address that vertical sync reports
  uint32_t interval = 1;   // 0: at once; n: not before the frame before it was shown for n syncs
  bool by_driver = false;  // a DMA buffer does it: nothing is programmed
};

/// What the queue asks of the world. Calls may come from inside every mutating call of FlipQueue;
/// they may not call it back.
class FlipPort {
 public:
  virtual ~FlipPort() = default;
  /// The surface's address goes to the display: at once, or at the next vertical sync.
  virtual void program(const FlipRequest& flip, bool at_once) = 0;
  /// The flip is over: its surface is on the screen, and what it replaced is not.
  virtual void done(const FlipRequest& flip) = 0;
};

//  announce()            reach()               room, interval           vsync(surface)
//  ---------> kAnnounced --------> kReached --------------------> kHardware ------------> done()
//                 | cancel()           | same surface as before it          (superseded: done())
//                 v                    '-----> kHolds --- interval syncs --> done()
//               gone
/// Lane: the adapter's. Costs O(flips pending), which clients' limits keep small.
class FlipQueue {
 public:
  /// `most_in_hardware`: MaxQueuedFlipOnVSync; 0 counts as 1.
  FlipQueue(FlipPort& port, uint32_t most_in_hardware);

  /// Appends; ids must rise. Nothing is programmed before reach().
  void announce(const FlipRequest& flip);
  /// The GPU is done with what came before the flip. Flips reached out of order wait for those
  /// announced earlier. Unknown ids are ignored (cancelled meanwhile).
  void reach(uint64_t id);
  /// It will never be reached: leaves the queue without done(). False: unknown, or in hardware.
  bool cancel(uint64_t id);

  enum class Vsync {
    kShown,    // what was shown is shown still
    kFlipped,  // a queued flip has taken effect
    kUnknown,  // a surface nobody asked for
  };
  /// A vertical sync of the source's leading output, with the surface that is shown from now on.
  Vsync vsync(uint64_t surface);
  /// A mode set: `surface` is shown from now on; every pending flip is over (done(), in order).
  void show(uint64_t surface);

  uint64_t shown() const { return shown_; }
  size_t pending() const { return flips_.size(); }
  size_t in_hardware() const { return hardware_; }
  /// Something is due at a vertical sync.
  bool needs_vsync() const { return !flips_.empty() && flips_.front().state != State::kAnnounced; }
  /// Hardware first, bounded, ids rising.
  bool validate() const;

 private:
  enum class State : uint8_t { kAnnounced, kReached, kHolds, kHardware };
  struct Entry {
    FlipRequest flip;
    State state = State::kAnnounced;
  };
  /// Programs what may go.
  void advance();
  void finish_front();

  FlipPort& port_;
  const uint32_t most_in_hardware_;
  std::deque<Entry> flips_;  // hardware's first
  size_t hardware_ = 0;
  uint64_t shown_ = 0;
  uint64_t syncs_shown_ = 0;  // vertical syncs since the one that began to show it
};

}  // namespace dxgkit::vidsch
